/* children.c - see children.h. Source: proc(5): field 4 of stat is the parent. */
#include "providers/children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "providers/instance.h"
#include "wire/fd.h"
#include "wire/text.h"

/* 0: it has none any more, or cannot be read. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[512];
	long parent = 0;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	fd_close(&fd);
	text[n > 0 ? n : 0] = '\0';
	const char *after_name = strrchr(text, ')');
	if (!after_name || sscanf(after_name, ") %*c %ld", &parent) != 1)
		return 0;
	return (pid_t)parent;
}

/* Looked at again once it is held: the number may have gone to somebody else in between. */
static int hold(pid_t pid, pid_t parent, struct children *out)
{
	if (out->n == CHILDREN_MAX || parent_of(pid) != parent)
		return 0;
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return errno == ESRCH ? 0 : -errno;
	if (parent_of(pid) == parent)
		out->pidfds[out->n++] = pidfd;
	else
		fd_close(&pidfd);
	return 0;
}

int children_open(pid_t parent, struct children *out)
{
	const struct dirent *entry;
	uint64_t pid;
	int r = 0;

	out->n = 0;
	DIR *proc = opendir("/proc");
	if (!proc)
		return -errno;
	while (r == 0 && (entry = readdir(proc)) != NULL)
		if (text_parse_u64(entry->d_name, INT32_MAX, &pid))
			r = hold((pid_t)pid, parent, out);
	closedir(proc);
	if (r < 0)
		children_close(out);
	return r;
}

int children_wait(const struct children *c, uint64_t deadline_ms)
{
	for (unsigned i = 0; i < c->n; i++) {
		int r = instance_wait(c->pidfds[i], deadline_ms);
		if (r < 0)
			return r;
	}
	return 0;
}

void children_close(struct children *c)
{
	for (unsigned i = 0; i < c->n; i++)
		fd_close(&c->pidfds[i]);
	c->n = 0;
}
