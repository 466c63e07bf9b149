/*
 * start_daemon.c - finds ringsided and starts it so that it outlives this program: its own session, no terminal,
 * nobody's child.
 *
 * Two forks: the daemon must not be a child of this program, which may be a dashboard that never waits for strangers
 * and would keep a zombie. Between the forks and the exec only what signal-safety(7) lists is called, since the caller
 * may have threads; path, arguments and descriptors are made before. What went wrong comes back as an errno on a
 * close-on-exec pipe, the pid before it. What the daemon says goes to its log in the state directory, made here because
 * its first words may be why it cannot start.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/internal.h"
#include "wire/fd.h"
#include "wire/text.h"

#define DAEMON   "ringsided"
#define LOG_NAME "ringsided.log"

extern char **environ;

struct told {
	pid_t pid; /* of the daemon; 0: none was made */
	int error; /* errno of the step that failed; 0: the pid alone */
};

static bool executable(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Is there `sub` beside this program's executable? */
static bool beside_self(const char *sub, char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return false;
	self[n] = '\0';
	char *slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	int len = snprintf(out, size, "%s/%s", self, sub);
	return len > 0 && (size_t)len < size && executable(out);
}

static bool in_path(const char *list, char *out, size_t size)
{
	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ":");
		/* A relative entry would run whatever lies in the working directory. */
		int len = *p == '/' ? snprintf(out, size, "%.*s/" DAEMON, (int)(n < PATH_MAX ? n : 0), p) : -1;
		if (len > 0 && (size_t)len < size && executable(out))
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

static int find_daemon(char *out, size_t size, struct ringside_error *err)
{
	const char *given = getenv("RINGSIDE_DAEMON");
	if (given && *given) {
		int len = snprintf(out, size, "%s", given);
		if (len > 0 && (size_t)len < size && executable(out))
			return 0;
		return fail(
		        err, RINGSIDE_UNAVAILABLE, "RINGSIDE_DAEMON is not a program that can be run: %.200s", given);
	}
	if (beside_self(DAEMON, out, size) || beside_self("../libexec/ringside/" DAEMON, out, size) ||
	        in_path(getenv("PATH"), out, size))
		return 0;
	return fail(err, RINGSIDE_UNAVAILABLE,
	        "ringsided is not running, and no such program was found beside this one, in ../libexec/ringside or in "
	        "PATH");
}

void daemon_log_path(const struct paths *paths, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/%s", paths->state_dir, LOG_NAME);
	if (n < 0 || (size_t)n >= size)
		*out = '\0';
}

static int open_log(const struct paths *paths, int *out, struct ringside_error *err)
{
	int dir = paths_make_private_dir(paths->state_dir);
	if (dir < 0)
		return fail_errno(err, dir, paths->state_dir);
	*out = openat(dir, LOG_NAME, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int e = errno;
	fd_close(&dir);
	return *out < 0 ? fail_errno(err, -e, "cannot open ringsided's log") : 0;
}

/* ---- In the children: async-signal-safe only ---- */

static void tell_and_leave(int report, pid_t pid, int error)
{
	struct told t = { .pid = pid, .error = error };
	ssize_t n = write(report, &t, sizeof(t)); /* less than PIPE_BUF: whole or not at all */
	_exit(n == (ssize_t)sizeof(t) ? 0 : 1);
}

static void fresh_signals(void)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };
	sigset_t none;
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &plain, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_daemon(const char *path, char *const argv[], int log, int report)
{
	struct told t = { .pid = getpid() };
	fresh_signals();
	umask(077);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || chdir("/") < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log, 2) < 0)
		tell_and_leave(report, 0, errno);
	fd_close_from(3, &report, 1);
	ssize_t n = write(report, &t, sizeof(t));
	if (n == (ssize_t)sizeof(t))
		execve(path, argv, environ);
	tell_and_leave(report, 0, errno);
}

static void first_child(const char *path, char *const argv[], int log, int report)
{
	if (setsid() < 0)
		tell_and_leave(report, 0, errno);
	pid_t pid = fork();
	if (pid < 0)
		tell_and_leave(report, 0, errno);
	if (pid == 0)
		become_daemon(path, argv, log, report);
	_exit(0);
}

/* ---- In this program ---- */

/* Reads the pid, then either end of file (it has become the daemon) or an error. */
static int await_exec(int report, pid_t *pid)
{
	struct told t;
	*pid = 0;
	for (;;) {
		ssize_t n = read(report, &t, sizeof(t));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof(t))
			return *pid ? 0 : -ECHILD;
		if (t.error)
			return -t.error;
		*pid = t.pid;
	}
}

static int fork_daemon(const char *path, int log, pid_t *pid)
{
	char *const argv[] = { (char[]){ DAEMON }, NULL };
	int report[2];
	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	pid_t child = fork();
	if (child < 0) {
		int e = errno;
		fd_close(&report[0]);
		fd_close(&report[1]);
		return -e;
	}
	if (child == 0)
		first_child(path, argv, log, report[1]);
	fd_close(&report[1]);
	int r = await_exec(report[0], pid);
	fd_close(&report[0]);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

int daemon_start(const struct paths *paths, int *pidfd, struct ringside_error *err)
{
	char path[PATH_MAX];
	int log = -1;
	pid_t pid = 0;
	int code = find_daemon(path, sizeof(path), err);
	if (!code)
		code = open_log(paths, &log, err);
	if (code)
		return code;
	int r = fork_daemon(path, log, &pid);
	fd_close(&log);
	if (r < 0)
		return fail(err, RINGSIDE_UNAVAILABLE, "cannot start %.200s: %s", path,
		        strerrordesc_np(-r) ? strerrordesc_np(-r) : "unknown error");
	/* It may have ended already, and its number be anybody's: the descriptor is only used to sleep on. */
	*pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

void daemon_last_words(const struct paths *paths, char *out, size_t size)
{
	char path[PATH_MAX], tail[1024];
	*out = '\0';
	daemon_log_path(paths, path, sizeof(path));
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	struct stat st;
	ssize_t n = -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		off_t from = st.st_size > (off_t)sizeof(tail) ? st.st_size - (off_t)sizeof(tail) : 0;
		n = pread(fd, tail, sizeof(tail), from);
	}
	fd_close(&fd);
	while (n > 0 && tail[n - 1] == '\n')
		n--;
	if (n <= 0)
		return;
	const char *line = memrchr(tail, '\n', (size_t)n);
	line = line ? line + 1 : tail;
	text_escape(out, size, line, (size_t)(tail + n - line));
}
