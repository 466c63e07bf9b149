/* instance.c - see instance.h. Source: proc(5), pidfd_open(2), pidfd_send_signal(2). */
#include "providers/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/text.h"

#define STAT_BYTES       1024 /* a stat line is under 400: 52 numbers and a name of at most 64 bytes */
#define STAT_START_FIELD 22

/* A whole small file of /proc, with a NUL. Async-signal-safe. */
static int read_small(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, out, size - 1);
	int r = n < 0 ? -errno : 0;

	close(fd);
	if (r == 0)
		out[n] = '\0';
	return r;
}

int instance_boot_id(char out[INSTANCE_BOOT_BYTES])
{
	char text[64];

	int r = read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	if (r < 0)
		return r;
	size_t n = strcspn(text, "\n");
	if (n != INSTANCE_BOOT_BYTES - 1)
		return -EINVAL;
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

/* The name in field 2 may hold anything, spaces and brackets too: fields are counted from its last bracket. */
static int parse_start_time(const char *stat, uint64_t *out)
{
	const char *p = strrchr(stat, ')');
	uint64_t v = 0;

	for (int field = 2; p && field < STAT_START_FIELD; field++) {
		p = strchr(p, ' ');
		if (p)
			p++;
	}
	if (!p || *p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10U, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -EINVAL;
	*out = v;
	return 0;
}

/* "/proc/PID/stat" without stdio, which a forked child must not touch. */
static void stat_path(pid_t pid, char out[32])
{
	char digits[12];
	size_t n = sizeof(digits);
	unsigned v = (unsigned)pid;

	digits[--n] = '\0';
	do
		digits[--n] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	memcpy(out, "/proc/", 6);
	memcpy(out + 6, digits + n, sizeof(digits) - n - 1);
	memcpy(out + 6 + sizeof(digits) - n - 1, "/stat", 6);
}

int instance_start_time(pid_t pid, uint64_t *out)
{
	char path[32];
	char text[STAT_BYTES];

	if (pid <= 0)
		return -ESRCH;
	stat_path(pid, path);
	int r = read_small(path, text, sizeof(text));
	if (r == -ENOENT)
		return -ESRCH;
	return r < 0 ? r : parse_start_time(text, out);
}

int instance_format(const struct instance *i, char *out, size_t size)
{
	int n = snprintf(
	        out, size, "pid=%ld start=%llu boot=%s", (long)i->pid, (unsigned long long)i->start_time, i->boot_id);

	return n < 0 || (size_t)n >= size ? -ENOSPC : 0;
}

/* Takes "KEY=value" and the space after it off *p, value into out. */
static bool take_field(const char **p, const char *key, char *out, size_t size)
{
	size_t k = strlen(key);

	if (strncmp(*p, key, k) != 0)
		return false;
	size_t n = strcspn(*p + k, " ");
	if (n == 0 || n >= size)
		return false;
	memcpy(out, *p + k, n);
	out[n] = '\0';
	*p += k + n;
	if (**p == ' ')
		(*p)++;
	return true;
}

int instance_parse(const char *line, struct instance *out)
{
	struct instance i;
	char pid[16], start[24];
	uint64_t v;

	if (!take_field(&line, "pid=", pid, sizeof(pid)) || !take_field(&line, "start=", start, sizeof(start)) ||
	        !take_field(&line, "boot=", i.boot_id, sizeof(i.boot_id)))
		return -EINVAL;
	if (!text_parse_u64(pid, INT32_MAX, &v) || v == 0 || !text_parse_u64(start, UINT64_MAX, &i.start_time))
		return -EINVAL;
	i.pid = (pid_t)v;
	*out = i;
	return 0;
}

static bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

int instance_open(const struct instance *i)
{
	char boot[INSTANCE_BOOT_BYTES];
	uint64_t start = 0;

	int r = instance_boot_id(boot);
	if (r < 0)
		return r;
	if (strcmp(boot, i->boot_id) != 0)
		return -ESRCH;
	/* First the pidfd, then the comparison: what is compared is then still the process that the pidfd holds, or one
	 * that started after it, which the start time shows. */
	int pidfd = (int)syscall(SYS_pidfd_open, i->pid, 0);
	if (pidfd < 0)
		return -errno; /* ESRCH when there is none */
	r = instance_start_time(i->pid, &start);
	if (r == 0 && (start != i->start_time || has_ended(pidfd)))
		r = -ESRCH;
	if (r < 0) {
		fd_close(&pidfd);
		return r;
	}
	return pidfd;
}

int instance_wait(int pidfd, uint64_t deadline_ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	for (;;) {
		uint64_t now = clock_mono_ms();
		uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
		int n = poll(&p, 1, left > 60000 ? 60000 : (int)left);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && left == 0)
			return -ETIMEDOUT;
	}
}

int instance_kill(int pidfd, int sig)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 && errno != ESRCH)
		return -errno;
	return 0;
}

int instance_end(const struct instance *i, uint64_t deadline_ms)
{
	int pidfd = instance_open(i);
	if (pidfd == -ESRCH)
		return 0;
	if (pidfd < 0)
		return pidfd;
	int r = instance_kill(pidfd, SIGKILL);
	if (r == 0)
		r = instance_wait(pidfd, deadline_ms);
	fd_close(&pidfd);
	return r;
}
