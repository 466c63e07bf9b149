/*
 * procstat.h - what /proc says of a process, read without memory of its own or stdio.
 *
 * Everything here may be called between fork and exec and from the keeper: no allocation, no locks, small buffers on
 * the stack. The numbers are those of this process's pid namespace; a /proc that belongs to another one counts as
 * missing. Source: proc(5), /proc/[pid]/stat.
 */
#ifndef CONSOLES_PROCSTAT_H
#define CONSOLES_PROCSTAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct procstat {
	pid_t pid, ppid, group, session;
	char state;       /* R S D T t Z X, … */
	uint32_t threads; /* 2 and more beside Z: the first thread has left, the process runs on */
	uint64_t start;   /* clock ticks since boot: with the pid, a name that is not given twice */
	char comm[16];    /* chosen by the process: not trusted */
};

/* Takes the text of one stat file. False: it is not one. */
bool procstat_parse(const char *text, size_t n, struct procstat *out);

/* 0, -ESRCH (no such process, or not visible), or another -errno (-EMFILE, -ENFILE). */
int procstat_read(pid_t pid, struct procstat *out);

/* Nothing of it will run again: dead, waiting to be reaped. */
bool procstat_dead(const struct procstat *s);

/* ---- All processes, in the order of their pids ---- */

/* Small on purpose: what the kernel lists at once is older than what is asked for next, and a process that lives for
 * one fork has to be met alive. A dozen at a time costs a system call for twelve beside the three that each takes. */
struct procdir {
	int fd;
	unsigned at, end;
	_Alignas(8) char buf[320];
};

/* 0, -ENOENT (no /proc of this pid namespace), or another -errno. */
int procdir_open(struct procdir *d);
/* The next process's pid; 0: that was the last; -errno. */
pid_t procdir_next(struct procdir *d);
void procdir_close(struct procdir *d);

#endif
