/* fd.c - owning file descriptors. */
#include "wire/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where close_range(2) is missing (before Linux 5.9) or forbidden, numbers are tried up to here. The kernel's own
 * limit, fs.nr_open, has this default. */
#define HIGHEST_FD_TRIED (1024 * 1024)

void fd_close(int *fd)
{
	int saved = errno;

	/* Once, whatever close(2) says: Linux has freed the number also where it reports EINTR or EIO, and a retry
	 * would shut somebody else's file. */
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

int fd_set_nonblocking(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);
	int wanted;

	if (flags < 0)
		return -errno;
	wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	if (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0)
		return -errno;
	return 0;
}

int fd_dup_cloexec(int fd)
{
	/* From 3 up: a descriptor of ours must never become somebody's standard stream. */
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? -errno : copy;
}

static void close_one_by_one(unsigned first, unsigned last)
{
	struct rlimit limit;
	unsigned highest = HIGHEST_FD_TRIED;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < highest)
		highest = (unsigned)limit.rlim_max;
	if (last > highest)
		last = highest;
	for (unsigned fd = first; fd <= last; fd++)
		(void)close((int)fd);
}

static void close_between(unsigned first, unsigned last)
{
	/* The system call itself: the C library's wrapper is newer than some of the systems that build this. */
	if (syscall(SYS_close_range, first, last, 0) < 0)
		close_one_by_one(first, last);
}

void fd_close_from(int lowest, const int *keep, size_t n)
{
	unsigned from = lowest < 0 ? 0 : (unsigned)lowest;

	for (;;) {
		unsigned next = UINT_MAX; /* the lowest one to keep at or above `from` */

		for (size_t i = 0; i < n; i++) {
			if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		}
		if (next == UINT_MAX)
			break;
		if (next > from)
			close_between(from, next - 1);
		from = next + 1;
	}
	close_between(from, UINT_MAX);
}

int fd_write_all(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n > 0) {
		ssize_t done = write(fd, p, n);

		if (done < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

/* ---- The limit of open files ---- */

static struct {
	bool raised;
	rlim_t before;
} limit_of_files;

int fd_raise_limit(size_t most)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	rlim_t before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
	if (limit.rlim_cur == before)
		return 0;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	if (!limit_of_files.raised)
		limit_of_files.before = before;
	limit_of_files.raised = true;
	return 0;
}

void fd_restore_limit(void)
{
	struct rlimit limit;

	/* Whoever has lowered the hard limit since means it. */
	if (!limit_of_files.raised || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit_of_files.before < limit.rlim_max ? limit_of_files.before : limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}
