/*
 * start_daemon.c - finds ringsided and starts it.
 *
 * ringsided goes to the background by itself: what is started here is a child that ends as soon as the daemon serves,
 * status 0, or has found another one's lock, status 5, and says on standard error why it cannot. So nothing is left of
 * it to be waited for, and its words are the error. Started by posix_spawn(3), since the caller may have threads; with
 * no descriptor of the caller's, and fresh signals.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/internal.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/text.h"

#define DAEMON         "ringsided"
#define STATUS_RUNNING 5   /* ringsided's: another one holds the lock */
#define WORDS_BYTES    512 /* of what it says */

extern char **environ;

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
		return error_set(
		        err, RINGSIDE_UNAVAILABLE, "RINGSIDE_DAEMON is not a program that can be run: %.200s", given);
	}
	if (beside_self(DAEMON, out, size) || beside_self("../libexec/ringside/" DAEMON, out, size) ||
	        in_path(getenv("PATH"), out, size))
		return 0;
	return error_set(err, RINGSIDE_UNAVAILABLE,
	        "ringsided is not running, and no such program was found beside this one, in ../libexec/ringside or in "
	        "PATH");
}

/* Standard error to `words`, nothing else of the caller's. 0 or a positive errno, as posix_spawn(3) has it. */
static int spawn(const char *path, int words, pid_t *pid)
{
	char name[] = DAEMON;
	char *const argv[] = { name, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	int e = posix_spawn_file_actions_init(&actions);
	if (e)
		return e;
	e = posix_spawnattr_init(&attributes);
	if (e) {
		posix_spawn_file_actions_destroy(&actions);
		return e;
	}
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setsigmask(&attributes, &none);
	e = posix_spawn_file_actions_adddup2(&actions, words, STDERR_FILENO);
	if (!e)
		e = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!e)
		e = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (!e)
		e = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
	if (!e)
		e = posix_spawn(pid, path, &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return e;
}

/* Reads what it says until it ends. false: the deadline came first. */
static bool hear(int fd, uint64_t deadline, char *words, size_t size)
{
	size_t used = 0;
	*words = '\0';
	for (;;) {
		uint64_t now = clock_mono_ms();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int r = now < deadline ? poll(&p, 1, (int)(deadline - now)) : 0;
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		char rest[64];
		bool room = used + 1 < size;
		ssize_t n = room ? read(fd, words + used, size - used - 1) : read(fd, rest, sizeof(rest));
		if (n <= 0)
			return true;
		used += room ? (size_t)n : 0;
		words[used] = '\0';
	}
}

/* Its exit status; -1 where it cannot be known: a caller that ignores SIGCHLD, or waits for every child, has taken it.
 */
static int reap(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int judge(int status, const char *words, const char *path, struct ringside_error *err)
{
	char shown[WORDS_BYTES];
	if (status == 0 || status == STATUS_RUNNING || status == -1)
		return 0;
	size_t n = strlen(words);
	while (n > 0 && words[n - 1] == '\n')
		n--;
	text_escape(shown, sizeof(shown), words, n);
	if (!*shown)
		return error_set(
		        err, RINGSIDE_UNAVAILABLE, "%.200s cannot start: it ended with status %d", path, status);
	return error_set(err, RINGSIDE_UNAVAILABLE, "%.400s", shown);
}

static int start(const char *path, int *words, uint64_t deadline, struct ringside_error *err)
{
	char said[WORDS_BYTES];
	pid_t pid;
	int e = spawn(path, words[1], &pid);
	fd_close(&words[1]);
	if (e)
		return error_set(err, RINGSIDE_UNAVAILABLE, "cannot start %.200s: %s", path, strerrordesc_np(e));
	bool in_time = hear(words[0], deadline, said, sizeof(said));
	if (!in_time)
		kill(pid, SIGKILL);
	int status = reap(pid);
	if (!in_time)
		return error_set(
		        err, RINGSIDE_UNAVAILABLE, "%.200s was started and has not begun to serve in time", path);
	return judge(status, said, path, err);
}

int daemon_start(uint64_t deadline, struct ringside_error *err)
{
	char path[PATH_MAX];
	int words[2];
	int code = find_daemon(path, sizeof(path), err);
	if (code)
		return code;
	if (pipe2(words, O_CLOEXEC) < 0)
		return error_errno(err, -errno, "cannot start ringsided");
	code = start(path, words, deadline, err);
	fd_close(&words[0]);
	return code;
}
