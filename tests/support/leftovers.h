/*
 * leftovers.h - what a round of a test may have left behind: processes with its marker, children, zombies, descriptors.
 *
 * A test makes itself a subreaper, so that what escapes a keeper falls to it and shows as its child.
 */
#ifndef TESTS_SUPPORT_LEFTOVERS_H
#define TESTS_SUPPORT_LEFTOVERS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Descriptors of this process. */
static inline int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* A child of this process, dead or alive; 0: it has none. */
static inline pid_t any_child(void)
{
	siginfo_t si = { 0 };

	if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
		return 0;
	return si.si_pid != 0 ? si.si_pid : -1;
}

static inline bool environ_has(const char *pid, const char *marker)
{
	static char buf[65536];
	char path[64];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	for (ssize_t at = 0; n > 0 && at < n && !found; at += (ssize_t)strlen(buf + at) + 1) {
		buf[n] = '\0';
		found = strcmp(buf + at, marker) == 0;
	}
	return found;
}

/* The pid of a process whose environment has the variable `marker` ("NAME=value"); 0: none has. */
static inline pid_t find_marked(const char *marker)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	pid_t found = 0;

	while (dir && found == 0 && (e = readdir(dir))) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && environ_has(e->d_name, marker))
			found = (pid_t)atoi(e->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

#endif
