/*
 * procstat.c - reading /proc by plain system calls; see procstat.h.
 */
#include "consoles/procstat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/fd.h"

/* 52 fields of at most 20 digits and a name of at most 64 bytes; the fields used here end long before. */
#define STAT_MAX 1024

/* "/proc/" + 10 digits + "/stat" + NUL */
#define STAT_PATH_MAX 24

enum { FIELD_STATE = 3, FIELD_PPID, FIELD_GROUP, FIELD_SESSION, FIELD_THREADS = 20, FIELD_START = 22 };

static bool take_number(const char **at, const char *end, uint64_t *out)
{
	const char *p = *at;
	uint64_t v = 0;

	while (p < end && *p >= '0' && *p <= '9')
		v = v * 10 + (uint64_t)(*p++ - '0');
	if (p == *at)
		return false;
	*at = p;
	*out = v;
	return true;
}

/* Steps over one field and the blank behind it. */
static const char *skip_field(const char *p, const char *end)
{
	while (p < end && *p != ' ' && *p != '\n')
		p++;
	return p < end ? p + 1 : end;
}

static bool take_field(const char *p, const char *end, int field, struct procstat *out)
{
	uint64_t v = 0;

	if (!take_number(&p, end, &v))
		return false;
	switch (field) {
	case FIELD_PPID:
		out->ppid = (pid_t)v;
		break;
	case FIELD_GROUP:
		out->group = (pid_t)v;
		break;
	case FIELD_SESSION:
		out->session = (pid_t)v;
		break;
	case FIELD_THREADS:
		out->threads = (uint32_t)v;
		break;
	case FIELD_START:
		out->start = v;
		break;
	}
	return true;
}

static bool is_wanted(int field)
{
	return (field >= FIELD_PPID && field <= FIELD_SESSION) || field == FIELD_THREADS || field == FIELD_START;
}

bool procstat_parse(const char *text, size_t n, struct procstat *out)
{
	const char *p = text, *end = text + n;
	uint64_t pid;

	*out = (struct procstat){ 0 };
	if (!take_number(&p, end, &pid) || end - p < 3 || p[0] != ' ' || p[1] != '(')
		return false;
	out->pid = (pid_t)pid;

	/* The name may hold blanks and parentheses of its own: it ends at the last one. */
	const char *comm = p + 2, *close = memrchr(comm, ')', (size_t)(end - comm));
	if (!close || end - close < 4)
		return false;
	size_t len = (size_t)(close - comm);
	memcpy(out->comm, comm, len < sizeof(out->comm) ? len : sizeof(out->comm) - 1);

	p = close + 2;
	out->state = *p;
	for (int field = FIELD_STATE + 1; field <= FIELD_START; field++) {
		p = skip_field(p, end);
		if (is_wanted(field) && !take_field(p, end, field, out))
			return false;
	}
	return true;
}

/* By hand, because the printf family is not among what signal-safety(7) lists. */
static void stat_path(pid_t pid, char out[STAT_PATH_MAX])
{
	char digits[12];
	size_t n = 0;
	unsigned v = (unsigned)pid;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);

	memcpy(out, "/proc/", 6);
	char *p = out + 6;
	while (n > 0)
		*p++ = digits[--n];
	memcpy(p, "/stat", 6);
}

int procstat_read(pid_t pid, struct procstat *out)
{
	char path[STAT_PATH_MAX], text[STAT_MAX];

	if (pid <= 0)
		return -ESRCH;
	stat_path(pid, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;

	ssize_t n = read(fd, text, sizeof(text));
	fd_close(&fd);
	if (n < 0)
		return -errno;
	return procstat_parse(text, (size_t)n, out) ? 0 : -ESRCH;
}

bool procstat_dead(const struct procstat *s)
{
	/* A process whose first thread has called pthread_exit() shows Z as well, while its other threads run. */
	return s->state == 'X' || (s->state == 'Z' && s->threads <= 1);
}

/* A /proc from outside (bind-mounted into a sandbox) has other numbers, and signals by those would hit strangers. */
static bool proc_is_ours(void)
{
	char link[16];
	const char *at = link;
	uint64_t pid;

	ssize_t n = readlink("/proc/self", link, sizeof(link));
	return n > 0 && take_number(&at, link + n, &pid) && at == link + n && pid == (uint64_t)getpid();
}

int procdir_open(struct procdir *d)
{
	d->fd = -1;
	d->at = d->end = 0;
	if (!proc_is_ours())
		return -ENOENT;
	d->fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return d->fd < 0 ? -errno : 0;
}

pid_t procdir_next(struct procdir *d)
{
	for (;;) {
		if (d->at == d->end) {
			/* Not readdir(): opendir() allocates. */
			long n = syscall(SYS_getdents64, d->fd, d->buf, sizeof(d->buf));
			if (n <= 0)
				return n < 0 ? -errno : 0;
			d->at = 0;
			d->end = (unsigned)n;
		}

		const struct dirent64 *e = (const void *)(d->buf + d->at);
		const char *name = e->d_name;
		uint64_t pid;
		d->at += e->d_reclen;
		if (take_number(&name, name + 10, &pid) && *name == '\0')
			return (pid_t)pid;
	}
}

void procdir_close(struct procdir *d)
{
	fd_close(&d->fd);
}
