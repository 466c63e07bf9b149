/*
 * guard.c - the subreaper above a test program, and looking at processes by /proc.
 */
#include "tests/support/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PROCESSES 32768

static pid_t guard_pid;

/* What /proc/PID/stat says after the name, which may itself hold spaces and brackets. */
static bool read_stat(pid_t pid, char *state, pid_t *parent)
{
	char path[64], buf[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	const char *after = strrchr(buf, ')');
	return after && sscanf(after + 1, " %c %d", state, parent) == 2;
}

bool process_alive(pid_t pid)
{
	char state;
	pid_t parent;

	return read_stat(pid, &state, &parent) && state != 'Z' && state != 'X';
}

pid_t process_parent(pid_t pid)
{
	char state;
	pid_t parent;

	return read_stat(pid, &state, &parent) ? parent : 0;
}

char *process_line(pid_t pid, char *dst, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, dst, size - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0) {
		snprintf(dst, size, "(no arguments)");
		return dst;
	}
	for (ssize_t i = 0; i < n - 1; i++)
		if (dst[i] == '\0')
			dst[i] = ' ';
	dst[n] = '\0';
	return dst;
}

/* Below the guard by way of any number of parents? A chain that breaks (a parent just ended) is looked at again by the
 * caller's next round. */
static bool below_guard(pid_t pid)
{
	for (int depth = 0; pid > 1 && depth < 1000; depth++) {
		pid = process_parent(pid);
		if (pid == guard_pid)
			return true;
	}
	return false;
}

size_t guard_descendants(pid_t *out, size_t max)
{
	size_t found = 0;
	DIR *proc = opendir("/proc");

	for (struct dirent *d; proc && (d = readdir(proc));) {
		char *end;
		long pid = strtol(d->d_name, &end, 10);
		if (*end != '\0' || pid <= 1 || pid == getpid() || pid == guard_pid || found == max)
			continue;
		if (process_alive((pid_t)pid) && below_guard((pid_t)pid))
			out[found++] = (pid_t)pid;
	}
	if (proc)
		closedir(proc);
	return found;
}

/* Whatever is left when the test program has ended (it crashed, or did not clean up) ends with it. */
static void end_leftovers(void)
{
	static pid_t left[MAX_PROCESSES];
	char line[256];

	for (int round = 0; round < 100; round++) {
		size_t n = guard_descendants(left, MAX_PROCESSES);
		if (n == 0)
			return;
		for (size_t i = 0; i < n; i++) {
			if (round == 0)
				fprintf(stderr, "left behind: %d %s\n", left[i],
				        process_line(left[i], line, sizeof(line)));
			kill(left[i], SIGKILL);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0) {
		}
	}
}

static void guard_main(pid_t tests) __attribute__((noreturn));
static void guard_main(pid_t tests)
{
	int status, last = 1;

	for (;;) {
		pid_t pid = waitpid(-1, &status, 0);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			break;
		if (pid != tests)
			continue;
		last = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		end_leftovers();
		break;
	}
	_exit(last);
}

void guard_start(void)
{
	guard_pid = getpid();
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
		perror("PR_SET_CHILD_SUBREAPER");
		exit(1);
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid > 0)
		guard_main(pid);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}
