/*
 * leftovers.c - see leftovers.h. Source: proc(5), pidfd_open(2).
 */
#include "sandboxes/leftovers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/fd.h"

struct stat_line {
	pid_t session;
	uint64_t start_time;
	char state;
};

/* The name in it may hold anything, a ')' too: the fields begin after the last one. */
static bool read_stat(pid_t pid, struct stat_line *out)
{
	char path[64], text[1024];

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	fd_close(&fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	const char *p = strrchr(text, ')');
	long session;
	/* state(3) ppid pgrp session(6) … starttime(22) */
	if (!p || sscanf(p + 1, " %c %*d %*d %ld %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
	                  &out->state, &session, &out->start_time) != 3)
		return false;
	out->session = (pid_t)session;
	return true;
}

/* The session's leader may be gone; its number is not given to anybody while it has members, so a member that is not
 * older than it was is of that session. */
static bool belongs(const struct stat_line *s, pid_t pid, pid_t leader, uint64_t leader_start)
{
	if (s->state == 'Z')
		return false;
	if (pid == leader)
		return s->start_time == leader_start;
	return s->session == leader && s->start_time >= leader_start;
}

static bool end_one(pid_t pid, pid_t leader, uint64_t leader_start)
{
	struct stat_line s;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return false;
	/* Looked at after the pidfd was opened: what is signalled is what was looked at, or nothing. */
	bool hit = read_stat(pid, &s) && belongs(&s, pid, leader, leader_start) &&
	           syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
	fd_close(&fd);
	return hit;
}

static bool session_is_anothers(pid_t leader, uint64_t start_time)
{
	struct stat_line s;

	return read_stat(leader, &s) && s.start_time != start_time;
}

unsigned leftovers_end(pid_t pid, uint64_t start_time)
{
	unsigned hits = 0;
	struct dirent *e;

	if (pid <= 1 || start_time == 0 || session_is_anothers(pid, start_time))
		return 0;
	DIR *proc = opendir("/proc");
	if (!proc)
		return 0;
	while ((e = readdir(proc)) != NULL) {
		struct stat_line s;
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		pid_t candidate = (pid_t)strtol(e->d_name, NULL, 10);
		if (candidate <= 1 || candidate == getpid())
			continue;
		if (read_stat(candidate, &s) && belongs(&s, candidate, pid, start_time))
			hits += end_one(candidate, pid, start_time);
	}
	closedir(proc);
	return hits;
}
