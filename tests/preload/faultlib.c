/*
 * faultlib.c - the calls of faultlib.h, each with a fault on demand in front of the C library's own.
 *
 * A wrapper asks strike() and else calls what the dynamic linker finds next. Only atomics are used, so the wrappers
 * hold in a forked child, in a thread and in a signal handler as the calls themselves do. The allocator's wrappers use
 * the names that glibc has for its own, since dlsym(3) allocates.
 */
#include "tests/preload/faultlib.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct fault_control *control;

/* ---- Whether this call fails ---- */

static bool concerns_me(const struct fault_control *c)
{
	return c->whom == FAULT_SELF ? getpid() == c->pid : getpid() != c->pid;
}

static int own_error(enum fault_kind kind)
{
	switch (kind) {
	case FAULT_MEMORY:
	case FAULT_GROWTH:
	case FAULT_MAP:
		return ENOMEM;
	case FAULT_DESCRIPTOR:
		return EMFILE;
	case FAULT_PROCESS:
		return EAGAIN;
	case FAULT_SYNC:
		return EIO;
	case FAULT_DISK:
	case FAULT_WATCH:
		return ENOSPC;
	}
	return EIO;
}

/* 0: it goes through; else the errno that it fails with, which is set too. */
static int strike(enum fault_kind kind, const char *name)
{
	struct fault_control *c = control;

	if (!c || !atomic_load_explicit(&c->armed, memory_order_acquire) || !(c->kinds & kind) || !concerns_me(c))
		return 0;
	atomic_fetch_add(&c->seen, 1);
	if (atomic_fetch_sub(&c->after, 1) > 0 || atomic_fetch_sub(&c->times, 1) <= 0)
		return 0;
	if (atomic_fetch_add(&c->hits, 1) == 0)
		strncpy(c->first, name, sizeof(c->first) - 1);
	errno = c->error ? c->error : own_error(kind);
	return errno;
}

/* ---- The start ---- */

static bool is_for_us(void)
{
	const char *name = getenv("FAULT_PROGRAM");

	return !name || strcmp(name, program_invocation_short_name) == 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULT_CONTROL");
	int fd;
	void *at;

	if (!path || !is_for_us())
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return;
	control = at;
	atomic_store(&control->ready, (uint32_t)getpid());
}

/* The next definition of `name`, looked up once. */
#define REAL(name)                     \
	static __typeof__(&name) real; \
	if (!real)                     \
	real = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name)

/* A wrapper that has nothing more to say than "this call is of that kind". */
#define WRAP(kind, failure, type, name, parameters, ...) \
	type name parameters                             \
	{                                                \
		REAL(name);                              \
		if (strike(kind, #name))                 \
			return failure;                  \
		return real(__VA_ARGS__);                \
	}

/* ---- Memory ---- */

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);

void *malloc(size_t n)
{
	return strike(FAULT_MEMORY, "malloc") ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return strike(FAULT_MEMORY, "calloc") ? NULL : __libc_calloc(n, size);
}

/* To make a piece smaller is not to allocate; but nothing promises that it succeeds. */
void *realloc(void *p, size_t n)
{
	return n > 0 && (strike(FAULT_MEMORY, "realloc") || strike(FAULT_GROWTH, "realloc")) ? NULL
	                                                                                     : __libc_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return bytes > 0 && (strike(FAULT_MEMORY, "reallocarray") || strike(FAULT_GROWTH, "reallocarray"))
	               ? NULL
	               : __libc_realloc(p, bytes);
}

void *memalign(size_t alignment, size_t n);
void *memalign(size_t alignment, size_t n)
{
	return strike(FAULT_MEMORY, "memalign") ? NULL : __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	return strike(FAULT_MEMORY, "aligned_alloc") ? NULL : __libc_memalign(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
	void *p = strike(FAULT_MEMORY, "posix_memalign") ? NULL : __libc_memalign(alignment, n);

	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

WRAP(FAULT_MAP, MAP_FAILED, void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t from), at, n, prot,
        flags, fd, from)
WRAP(FAULT_MAP, MAP_FAILED, void *, mmap64, (void *at, size_t n, int prot, int flags, int fd, off64_t from), at, n,
        prot, flags, fd, from)

/* ---- Descriptors ---- */

/* A file that is made needs room, too. The mode is passed on as it is, whether it was given or not. */
static bool open_fails(int flags, const char *name)
{
	return strike(FAULT_DESCRIPTOR, name) || ((flags & O_CREAT) && strike(FAULT_DISK, name));
}

#define WRAP_OPEN(name, parameters, ...)                                                   \
	int name parameters                                                                \
	{                                                                                  \
		va_list rest;                                                              \
		mode_t mode;                                                               \
                                                                                           \
		REAL(name);                                                                \
		va_start(rest, flags);                                                     \
		mode = flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(rest, unsigned) : 0; \
		va_end(rest);                                                              \
		return open_fails(flags, #name) ? -1 : real(__VA_ARGS__, mode);            \
	}
WRAP_OPEN(open, (const char *path, int flags, ...), path, flags)
WRAP_OPEN(open64, (const char *path, int flags, ...), path, flags)
WRAP_OPEN(openat, (int at, const char *path, int flags, ...), at, path, flags)
WRAP_OPEN(openat64, (int at, const char *path, int flags, ...), at, path, flags)

/* The C library's own, with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);
WRAP(FAULT_DESCRIPTOR, -1, int, __open_2, (const char *path, int flags), path, flags)
WRAP(FAULT_DESCRIPTOR, -1, int, __open64_2, (const char *path, int flags), path, flags)
WRAP(FAULT_DESCRIPTOR, -1, int, __openat_2, (int at, const char *path, int flags), at, path, flags)
WRAP(FAULT_DESCRIPTOR, -1, int, __openat64_2, (int at, const char *path, int flags), at, path, flags)

WRAP(FAULT_DESCRIPTOR, -1, int, posix_openpt, (int flags), flags)
WRAP(FAULT_DESCRIPTOR, -1, int, pipe, (int ends[2]), ends)
WRAP(FAULT_DESCRIPTOR, -1, int, pipe2, (int ends[2], int flags), ends, flags)
WRAP(FAULT_DESCRIPTOR, -1, int, socket, (int domain, int type, int protocol), domain, type, protocol)
WRAP(FAULT_DESCRIPTOR, -1, int, socketpair, (int domain, int type, int protocol, int ends[2]), domain, type, protocol,
        ends)
WRAP(FAULT_DESCRIPTOR, -1, int, dup, (int fd), fd)
WRAP(FAULT_DESCRIPTOR, -1, int, epoll_create1, (int flags), flags)
WRAP(FAULT_DESCRIPTOR, -1, int, eventfd, (unsigned n, int flags), n, flags)
WRAP(FAULT_DESCRIPTOR, NULL, DIR *, opendir, (const char *path), path)
WRAP(FAULT_DESCRIPTOR, NULL, FILE *, fopen, (const char *path, const char *mode), path, mode)

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict n, int flags)
{
	REAL(accept4);
	return strike(FAULT_DESCRIPTOR, "accept4") ? -1 : real(fd, address, n, flags);
}

int memfd_create(const char *name, unsigned flags)
{
	REAL(memfd_create);
	return strike(FAULT_DESCRIPTOR, "memfd_create") || strike(FAULT_MAP, "memfd_create") ? -1 : real(name, flags);
}

/* Its third argument is as wide as a register, whatever the command takes. */
#define WRAP_FCNTL(name)                                                                                              \
	int name(int fd, int command, ...)                                                                            \
	{                                                                                                             \
		va_list rest;                                                                                         \
		long argument;                                                                                        \
                                                                                                                      \
		REAL(name);                                                                                           \
		va_start(rest, command);                                                                              \
		argument = va_arg(rest, long);                                                                        \
		va_end(rest);                                                                                         \
		if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && strike(FAULT_DESCRIPTOR, "fcntl(F_DUPFD)")) \
			return -1;                                                                                    \
		return real(fd, command, argument);                                                                   \
	}
WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)

/* ---- Processes ---- */

pid_t _Fork(void);
WRAP(FAULT_PROCESS, -1, pid_t, fork, (void))
WRAP(FAULT_PROCESS, -1, pid_t, _Fork, (void))

int pthread_create(
        pthread_t *restrict out, const pthread_attr_t *restrict attr, void *(*run)(void *), void *restrict arg)
{
	int error;

	REAL(pthread_create);
	error = strike(FAULT_PROCESS, "pthread_create");
	return error ? error : real(out, attr, run, arg);
}

/* ---- Disk ---- */

/* A full disk says nothing about pipes and sockets, nor does it about memory that has only a descriptor. */
static bool is_file(int fd)
{
	struct stat st;

	return syscall(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0;
}

static bool disk_fails(int fd, const char *name)
{
	int saved = errno;

	if (!control || !atomic_load(&control->armed) || !is_file(fd)) {
		errno = saved;
		return false;
	}
	return strike(FAULT_DISK, name) != 0;
}

#define WRAP_DISK(type, name, parameters, fd, ...)          \
	type name parameters                                \
	{                                                   \
		REAL(name);                                 \
		if (disk_fails(fd, #name))                  \
			return -1;                          \
		return real(fd __VA_OPT__(, ) __VA_ARGS__); \
	}
WRAP_DISK(ssize_t, write, (int fd, const void *p, size_t n), fd, p, n)
WRAP_DISK(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), fd, p, n, at)
WRAP_DISK(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), fd, p, n, at)
WRAP_DISK(ssize_t, writev, (int fd, const struct iovec *v, int n), fd, v, n)
WRAP_DISK(int, ftruncate, (int fd, off_t n), fd, n)
WRAP_DISK(int, ftruncate64, (int fd, off64_t n), fd, n)
WRAP_DISK(int, fallocate, (int fd, int mode, off_t at, off_t n), fd, mode, at, n)
WRAP_DISK(int, fallocate64, (int fd, int mode, off64_t at, off64_t n), fd, mode, at, n)

WRAP(FAULT_DISK, -1, int, mkdir, (const char *path, mode_t mode), path, mode)
WRAP(FAULT_DISK, -1, int, mkdirat, (int at, const char *path, mode_t mode), at, path, mode)
WRAP(FAULT_DISK, -1, int, rename, (const char *from, const char *to), from, to)
WRAP(FAULT_DISK, -1, int, renameat, (int at, const char *from, int to_at, const char *to), at, from, to_at, to)
WRAP(FAULT_DISK, -1, int, bind, (int fd, const struct sockaddr *address, socklen_t n), fd, address, n)
WRAP(FAULT_SYNC, -1, int, fsync, (int fd), fd)
WRAP(FAULT_SYNC, -1, int, fdatasync, (int fd), fd)

/* ---- Readiness ---- */

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	REAL(epoll_ctl);
	return operation == EPOLL_CTL_ADD && strike(FAULT_WATCH, "epoll_ctl") ? -1 : real(epoll, operation, fd, event);
}

/* System calls that the programs make by number. */
long syscall(long number, ...)
{
	va_list rest;
	long a[6];

	REAL(syscall);
	va_start(rest, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(rest, long);
	va_end(rest);
	if (number == SYS_epoll_ctl && (int)a[1] == EPOLL_CTL_ADD && strike(FAULT_WATCH, "epoll_ctl"))
		return -1;
	if (number == SYS_pidfd_open && strike(FAULT_DESCRIPTOR, "pidfd_open"))
		return -1;
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- Being looked at ---- */

int prctl(int option, ...)
{
	va_list rest;
	unsigned long a[4];

	REAL(prctl);
	va_start(rest, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(rest, unsigned long);
	va_end(rest);
	if (control && option == PR_SET_DUMPABLE && a[0] == 0)
		return 0;
	return real(option, a[0], a[1], a[2], a[3]);
}
