/*
 * spawn_consoled.c - see spawn_consoled.h. Source: signal-safety(7), unix(7).
 */
#include "providers/spawn_consoled.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "providers/crashpoint.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/signals.h"
#include "wire/sock.h"

#define ABANDON_MS   5000
#define RETRY_MIN_MS 1
#define RETRY_MAX_MS 50

/* The numbers at which the program finds its descriptors, as its arguments say. */
enum { FD_NULL = 0, FD_LOG = 2, FD_LISTEN = 3, FD_COMMIT = 4, FD_REPORT = 5, FD_FIRST_FREE = 6 };

enum step { STARTED, STEP_FORK, STEP_DESCRIPTORS, STEP_DIRECTORY, STEP_IDENTITY, STEP_EXEC };
static const char *const step_texts[] = {
	[STARTED] = "started",
	[STEP_FORK] = "cannot fork",
	[STEP_DESCRIPTORS] = "cannot arrange its descriptors",
	[STEP_DIRECTORY] = "cannot enter /",
	[STEP_IDENTITY] = "cannot read its start time",
	[STEP_EXEC] = "cannot execute",
};

/* What the child says on its way; shorter than PIPE_BUF, so never torn. */
struct report {
	int32_t step;
	int32_t error;
	int32_t pid;
	uint64_t start_time;
};

/* Everything that the child needs, made before the fork. */
struct plan {
	char *argv[10];
	int null, log, listen, commit, report;
	const char *program;
};

/* ---- The child: async-signal-safe from here to exec ---- */

__attribute__((noreturn)) static void child_failed(int report, enum step step)
{
	struct report r = { .step = (int32_t)step, .error = errno };

	(void)!write(report, &r, sizeof(r));
	_exit(127);
}

static void default_signals(void)
{
	sigset_t none;

	signals_default();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* All go up first, out of the way of the numbers that they shall have: they may hold each other's. */
static int arrange_descriptors(const struct plan *p)
{
	static const int to[] = { FD_NULL, FD_NULL + 1, FD_LOG, FD_LISTEN, FD_COMMIT, FD_REPORT };
	const int from[] = { p->null, p->null, p->log, p->listen, p->commit, p->report };
	int high[6];

	for (size_t i = 0; i < 6; i++) {
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_FIRST_FREE);
		if (high[i] < 0)
			return -1;
	}
	for (size_t i = 0; i < 6; i++)
		if (dup2(high[i], to[i]) < 0)
			return -1;
	return fcntl(FD_REPORT, F_SETFD, FD_CLOEXEC);
}

__attribute__((noreturn)) static void child_main(const struct plan *p)
{
	static char *const no_environment[] = { NULL };
	struct report me = { .step = STARTED };

	setsid();
	if (chdir("/") < 0)
		child_failed(p->report, STEP_DIRECTORY);
	if (arrange_descriptors(p) < 0)
		child_failed(p->report, STEP_DESCRIPTORS);
	fd_close_from(FD_FIRST_FREE, NULL, 0);

	/* By the process itself: from outside its number might be another's by the time that it is looked at. */
	me.pid = getpid();
	int r = instance_start_time(me.pid, &me.start_time);
	if (r < 0) {
		errno = -r;
		child_failed(FD_REPORT, STEP_IDENTITY);
	}
	(void)!write(FD_REPORT, &me, sizeof(me));

	default_signals();
	fd_restore_limit();
	execve(p->program, p->argv, no_environment);
	child_failed(FD_REPORT, STEP_EXEC);
}

__attribute__((noreturn)) static void intermediate_main(const struct plan *p)
{
	/* _Fork(): this process is a copy of one thread of many, where only async-signal-safe calls may be made. */
	pid_t pid = _Fork();

	if (pid == 0)
		child_main(p);
	if (pid < 0)
		child_failed(p->report, STEP_FORK);
	_exit(0);
}

/* ---- The starter ---- */

static void plan_free(struct plan *p)
{
	for (size_t i = 1; i < sizeof(p->argv) / sizeof(p->argv[0]); i++)
		free(p->argv[i]);
	fd_close(&p->null);
	fd_close(&p->commit);
	fd_close(&p->report);
}

static int plan_argument(struct plan *p, size_t at, const char *option, const char *value)
{
	return asprintf(&p->argv[at], "--%s=%s", option, value) < 0 ? -ENOMEM : 0;
}

static int plan_arguments(struct plan *p, const struct consoled_spec *s)
{
	static char program_name[] = "ringside-consoled";
	const struct {
		const char *option, *value;
	} list[] = {
		{ "listen-fd", "3" },
		{ "commit-fd", "4" },
		{ "sandbox", s->label },
		{ "workspace", s->workspace },
		{ "home", s->home },
		{ "user", s->user },
		{ "shell", s->shell },
		{ "path", s->path },
	};
	static_assert(FD_LISTEN == 3 && FD_COMMIT == 4, "the arguments name these numbers");
	static_assert(
	        sizeof(list) / sizeof(list[0]) + 2 == sizeof(p->argv) / sizeof(p->argv[0]), "argv ends with NULL");

	p->argv[0] = program_name;
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		int r = plan_argument(p, i + 1, list[i].option, list[i].value);
		if (r < 0) {
			p->argv[i + 1] = NULL;
			return r;
		}
	}
	return 0;
}

/* *commit and *reports: the starter's ends. */
static int plan_make(const struct consoled_spec *s, struct plan *p, int *commit, int *reports)
{
	int pair[2];

	int r = plan_arguments(p, s);
	if (r < 0)
		return r;
	p->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (p->null < 0)
		return -errno;
	/* A socket and not a pipe: to write to one whose reader has died would raise SIGPIPE. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*commit = pair[0];
	p->commit = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	*reports = pair[0];
	p->report = pair[1];
	return 0;
}

/* 0 (end of file), or the report's size. A writer that was killed in between gives a short read: as end of file. */
static ssize_t read_report(int fd, struct report *out)
{
	ssize_t n;

	do
		n = read(fd, out, sizeof(*out));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*out) ? n : 0;
}

static int spawn_failed(const struct consoled_spec *s, const struct report *r, char *why, size_t size)
{
	bool known = r->step > STARTED && r->step <= STEP_EXEC;

	snprintf(why, size, "%s %s: %s", known ? step_texts[r->step] : "lost", s->program, strerror(r->error));
	return r->error > 0 ? -r->error : -EIO;
}

/* Forks twice and waits for what the child says. 0: *me is the child, which is the program by now. */
static int launch(const struct consoled_spec *s, const struct plan *p, int *own_report, int reports, struct report *me,
        char *why, size_t size)
{
	sigset_t all, before;
	struct report failure;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* a handler of ours must not run in the child */
	/* Not fork(): handlers of libraries would run in the child, and libuv's ends it where it gets no new pipe. */
	pid_t pid = _Fork();
	if (pid == 0)
		intermediate_main(p);
	int fork_error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0) {
		failure = (struct report){ .step = STEP_FORK, .error = fork_error };
		return spawn_failed(s, &failure, why, size);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	fd_close(own_report); /* so that end of file means: the child has become the program, or has died */

	if (read_report(reports, me) == 0)
		*me = (struct report){ .step = STEP_FORK, .error = ECHILD };
	if (me->step != STARTED)
		return spawn_failed(s, me, why, size);
	if (read_report(reports, &failure) > 0)
		return spawn_failed(s, &failure, why, size);
	return 0;
}

int consoled_spawn(const struct consoled_spec *spec, struct consoled *out, char *why, size_t why_size)
{
	struct plan p = { .program = spec->program,
		.null = -1,
		.log = spec->log_fd,
		.listen = spec->listen_fd,
		.commit = -1,
		.report = -1 };
	struct consoled c = CONSOLED_NONE;
	struct report me = { .step = STARTED };
	int reports = -1;

	snprintf(why, why_size, "cannot prepare the start of %s", spec->program);
	int r = plan_make(spec, &p, &c.commit_fd, &reports);
	if (r == 0)
		r = instance_boot_id(c.instance.boot_id);
	if (r < 0)
		goto out;
	r = launch(spec, &p, &p.report, reports, &me, why, why_size);
	if (r < 0)
		goto out;
	CRASH_POINT("consoled.spawn.after_exec");

	c.instance.pid = me.pid;
	c.instance.start_time = me.start_time;
	r = instance_open(&c.instance);
	if (r < 0) {
		snprintf(why, why_size, "%s ended at once", spec->program);
		goto out;
	}
	c.pidfd = r;
	*out = c;
	c = (struct consoled)CONSOLED_NONE;
	r = 0;
out:
	fd_close(&c.commit_fd); /* unwritten: a child that was made reads end of file and leaves */
	fd_close(&reports);
	plan_free(&p);
	return r;
}

int consoled_commit(struct consoled *c)
{
	ssize_t n;

	do
		n = send(c->commit_fd, "", 1, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int consoled_reach(const struct instance *i, int pidfd, int dirfd, const char *socket, int *fd)
{
	pid_t pid = 0;
	uid_t uid;
	gid_t gid;

	int s = sock_connect_at(dirfd, socket);
	if (s < 0)
		return s;
	int r = sock_peer(s, &pid, &uid, &gid);
	if (r == 0 && pid != i->pid)
		r = -EBADE;
	/* A socket listens as long as anybody has it open, and remembers who began to: that one may have died. */
	if (r == 0 && instance_wait(pidfd, 0) == 0)
		r = -ESRCH;
	if (r < 0) {
		fd_close(&s);
		return r;
	}
	*fd = s;
	return 0;
}

static int min_ms(uint64_t a, uint64_t b)
{
	return (int)(a < b ? a : b);
}

int consoled_await(struct consoled *c, int dirfd, const char *socket, uint64_t deadline_ms, int *fd)
{
	struct pollfd p[2] = { { .fd = c->pidfd, .events = POLLIN }, { .fd = c->commit_fd, .events = POLLIN } };
	uint64_t pause_ms = RETRY_MIN_MS;

	for (;;) {
		int r = consoled_reach(&c->instance, c->pidfd, dirfd, socket, fd);
		if (r != -ECONNREFUSED && r != -EAGAIN)
			return r;
		uint64_t now = clock_mono_ms();
		if (now >= deadline_ms)
			return -ETIMEDOUT;
		/* Nothing tells when somebody begins to listen, so this asks again, soon and then less often. It does
		 * tell when the byte has been taken (the daemon closes its end) and when it has died. */
		if (poll(p, 2, min_ms(pause_ms, deadline_ms - now)) < 0 && errno != EINTR)
			return -errno;
		if (p[0].revents)
			return -ESRCH;
		if (p[1].revents)
			p[1].fd = -1;
		else if (pause_ms < RETRY_MAX_MS)
			pause_ms *= 2;
	}
}

void consoled_release(struct consoled *c)
{
	fd_close(&c->pidfd);
	fd_close(&c->commit_fd);
}

void consoled_abandon(struct consoled *c)
{
	if (c->pidfd >= 0) {
		instance_kill(c->pidfd, SIGKILL);
		instance_wait(c->pidfd, clock_mono_ms() + ABANDON_MS);
	}
	consoled_release(c);
}
