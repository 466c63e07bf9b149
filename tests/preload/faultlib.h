/*
 * faultlib.h - how a test tells a running program which of its next calls fails.
 *
 * lib/faultlib.so stands between a program and its C library (LD_PRELOAD). It maps the file that FAULT_CONTROL names;
 * the test has the same file mapped, so that it can arm a fault in the moment it means: "of your next allocations the
 * third one fails". Without the variable, or for a program that FAULT_PROGRAM does not name, every call goes through.
 *
 * The program stays dumpable, whatever it asks for, so that a test of any user can count its descriptors.
 *
 * What is forked below the program has the mapping too, until it executes something else: that is how keepers are
 * reached.
 */
#ifndef TESTS_PRELOAD_FAULTLIB_H
#define TESTS_PRELOAD_FAULTLIB_H

#include <stdatomic.h>
#include <stdint.h>

/* Kinds of calls, and what they fail with where the test does not say. */
enum fault_kind {
	FAULT_MEMORY = 1 << 0,     /* malloc, calloc, realloc, …: ENOMEM */
	FAULT_MAP = 1 << 1,        /* mmap, memfd_create: ENOMEM */
	FAULT_DESCRIPTOR = 1 << 2, /* open, socket, pipe2, dup, accept4, opendir, …: EMFILE */
	FAULT_PROCESS = 1 << 3,    /* fork, pthread_create: EAGAIN */
	FAULT_DISK = 1 << 4, /* what may need room on a disk: write and ftruncate of files, mkdir, rename, …: ENOSPC */
	FAULT_SYNC = 1 << 5,   /* fsync, fdatasync: EIO */
	FAULT_WATCH = 1 << 6,  /* epoll_ctl(EPOLL_CTL_ADD): ENOSPC */
	FAULT_GROWTH = 1 << 7, /* realloc and reallocarray alone: ENOMEM */
};

enum fault_whom {
	FAULT_SELF,      /* the process `pid` */
	FAULT_OFFSPRING, /* what it has forked */
};

struct fault_control {
	_Atomic uint32_t armed; /* the last to be written; everything below is the test's while it is 0 */
	uint32_t kinds, whom;
	int32_t pid;
	int32_t error;          /* 0: the kind's own */
	_Atomic int64_t after;  /* calls of these kinds that still succeed */
	_Atomic int64_t times;  /* calls that fail then */
	_Atomic uint64_t seen;  /* calls of these kinds since it was armed */
	_Atomic uint64_t hits;  /* calls that failed */
	char first[32];         /* the name of the first that failed */
	_Atomic uint32_t ready; /* the pid of the program once it is under control */
};

#endif
