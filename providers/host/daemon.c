/*
 * daemon.c - see daemon.h; the order of a start is that of providers/spawn_consoled.h.
 */
#include "providers/host/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "providers/children.h"
#include "providers/crashpoint.h"
#include "providers/instance.h"
#include "providers/spawn_consoled.h"
#include "wire/clock.h"
#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/sock.h"
#include "wire/wire.h"

#define STOP_GRACE_MS  3000 /* for the programs, from SIGHUP to SIGKILL */
#define STOP_ANSWER_MS 9000 /* for the daemon: the grace, 5 s in which survivors show themselves, and some air */
#define KILL_MS        5000
#define KEEPERS_MS     9000 /* a keeper whose daemon has died runs the same close by itself */
#define SOCKET_BYTES   32

/* The instance line, taken apart. */
struct recorded {
	struct instance instance;
	char socket[SOCKET_BYTES];
};

__attribute__((format(printf, 3, 4))) static enum result say(
        const struct host_daemon_of *d, enum result r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->err->message, sizeof(d->err->message), fmt, ap);
	va_end(ap);
	return r;
}

static uint64_t deadline_in(const struct host_daemon_of *d, uint64_t ms)
{
	uint64_t own = clock_mono_ms() + ms;

	return d->ctx->deadline_ms && d->ctx->deadline_ms < own ? d->ctx->deadline_ms : own;
}

/* The same for a first step that may fail: half of what time there is, so that there is some for the second. */
static uint64_t half_deadline_in(const struct host_daemon_of *d, uint64_t ms)
{
	uint64_t now = clock_mono_ms();
	uint64_t whole = deadline_in(d, 2 * ms);

	return whole > now ? now + (whole - now) / 2 : now;
}

/* ---- The record ---- */

/* RESULT_OK and *any. What cannot be read may be somebody alive: it is never taken for nobody. */
static enum result recall(const struct host_daemon_of *d, struct recorded *out, bool *any)
{
	char line[SANDBOX_INSTANCE_BYTES] = "";

	int r = d->env->recall_instance(d->env->data, d->id, line, sizeof(line));
	if (r < 0)
		return say(d, RESULT_UNAVAILABLE, "cannot recall who the console daemon is: %s", strerror(-r));
	*any = *line != '\0';
	if (!*any)
		return RESULT_OK;
	const char *socket = strstr(line, " socket=");
	if (!socket || instance_parse(line, &out->instance) < 0)
		return say(d, RESULT_INTERNAL, "the record of who the console daemon is cannot be read");
	socket += strlen(" socket=");
	if (!name_valid(socket) || strlen(socket) >= sizeof(out->socket))
		return say(d, RESULT_INTERNAL, "the record of the console daemon's socket cannot be read");
	snprintf(out->socket, sizeof(out->socket), "%s", socket);
	return RESULT_OK;
}

static enum result record(const struct host_daemon_of *d, const struct recorded *who)
{
	char line[INSTANCE_LINE_BYTES + SOCKET_BYTES + 16];
	char instance[INSTANCE_LINE_BYTES];

	int r = instance_format(&who->instance, instance, sizeof(instance));
	if (r == 0) {
		snprintf(line, sizeof(line), "%s socket=%s", instance, who->socket);
		r = d->env->record_instance(d->env->data, d->id, line);
	}
	if (r == -ESTALE)
		return say(d, RESULT_STALE_EPOCH, "another control daemon has taken over");
	if (r < 0)
		return say(d, RESULT_UNAVAILABLE, "cannot record the console daemon: %s", strerror(-r));
	return RESULT_OK;
}

/* ---- Starting ---- */

struct user {
	char name[64], home[PATH_MAX], shell[PATH_MAX];
};

/* From the user database, not from this daemon's environment, which is whatever started it. */
static void find_user(struct user *u)
{
	char buf[16384];
	struct passwd pw, *found = NULL;
	bool known = getpwuid_r(geteuid(), &pw, buf, sizeof(buf), &found) == 0 && found;

	snprintf(u->home, sizeof(u->home), "%s", known && pw.pw_dir[0] == '/' ? pw.pw_dir : "/");
	snprintf(u->shell, sizeof(u->shell), "%s", known && access(pw.pw_shell, X_OK) == 0 ? pw.pw_shell : "/bin/sh");
	if (known && strlen(pw.pw_name) < sizeof(u->name))
		snprintf(u->name, sizeof(u->name), "%s", pw.pw_name);
	else
		snprintf(u->name, sizeof(u->name), "%lu", (unsigned long)geteuid());
}

static int choose_socket(char out[SOCKET_BYTES])
{
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	snprintf(out, SOCKET_BYTES, "console-%08x.sock", random);
	return 0;
}

/* The path of the workspace; heap. */
static char *workspace_of(const struct host_daemon_of *d, const struct folder_record *r)
{
	char *path = NULL;

	if (*r->directory)
		return strdup(r->directory);
	return asprintf(&path, "%s/sandboxes/%s/workspace", d->env->state_dir, d->id) < 0 ? NULL : path;
}

static enum result spawn(
        const struct host_daemon_of *d, const struct folder_record *r, int listen_fd, struct consoled *out)
{
	struct user *user = malloc(sizeof(*user));
	char *workspace = workspace_of(d, r);
	char why[256];

	int log = openat(d->folder, "consoled.log", O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int failed = log < 0 ? -errno : !user || !workspace ? -ENOMEM : 0;
	snprintf(why, sizeof(why), "cannot prepare the console daemon's start");
	if (failed == 0) {
		find_user(user);
		const struct consoled_spec spec = {
			.program = d->env->consoled_path,
			.label = *r->name ? r->name : d->id,
			.workspace = workspace,
			.home = user->home,
			.user = user->name,
			.shell = user->shell,
			.path = geteuid() == 0 ? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
			                       : "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games",
			.listen_fd = listen_fd,
			.log_fd = log,
		};
		failed = consoled_spawn(&spec, out, why, sizeof(why));
	}
	free(workspace);
	free(user);
	fd_close(&log);
	return failed < 0 ? say(d, RESULT_UNAVAILABLE, "%s", why) : RESULT_OK;
}

static enum result await(const struct host_daemon_of *d, struct consoled *c, const char *socket, int *out_fd)
{
	int r = consoled_await(c, d->folder, socket, deadline_in(d, DAEMON_START_MS), out_fd);

	if (r == -ETIMEDOUT)
		return say(d, RESULT_TIMEOUT, "the console daemon did not begin to serve in time");
	if (r == -ESRCH)
		return say(d, RESULT_UNAVAILABLE, "the console daemon ended at once; see consoled.log of the sandbox");
	if (r < 0)
		return say(d, RESULT_UNAVAILABLE, "cannot connect to the console daemon: %s", strerror(-r));
	return RESULT_OK;
}

/* Between record and byte lies all the safety; see "Record before serve". */
static enum result serve(const struct host_daemon_of *d, struct consoled *c, struct recorded *who, int *out_fd)
{
	who->instance = c->instance;
	enum result r = record(d, who);
	if (r != RESULT_OK)
		return r;
	CRASH_POINT("host.connect.after_record");
	r = context_fence(d->ctx);
	if (r != RESULT_OK)
		return r;
	if (consoled_commit(c) < 0)
		return say(d, RESULT_UNAVAILABLE, "the console daemon ended at once; see consoled.log of the sandbox");
	CRASH_POINT("host.connect.after_commit");
	return await(d, c, who->socket, out_fd);
}

static enum result start(const struct host_daemon_of *d, const struct folder_record *folder, int *out_fd)
{
	struct consoled c = CONSOLED_NONE;
	struct recorded who;

	int failed = choose_socket(who.socket);
	if (failed < 0)
		return say(d, RESULT_UNAVAILABLE, "cannot choose a socket's name: %s", strerror(-failed));
	enum result r = context_fence(d->ctx);
	if (r != RESULT_OK)
		return r;
	int listen_fd = sock_bind_at(d->folder, who.socket);
	if (listen_fd < 0)
		return say(d, RESULT_UNAVAILABLE, "cannot make the console daemon's socket: %s", strerror(-listen_fd));
	CRASH_POINT("host.connect.after_bind");

	r = spawn(d, folder, listen_fd, &c);
	fd_close(&listen_fd);
	if (r == RESULT_OK)
		r = serve(d, &c, &who, out_fd);
	if (r == RESULT_OK) {
		consoled_release(&c);
		return r;
	}
	consoled_abandon(&c);
	(void)unlinkat(d->folder, who.socket, 0);
	return r;
}

/* ---- Reaching one that runs ---- */

/* 1: connected; 0: nobody can reach it any more; -EAGAIN: it is alive and does not take connections. */
static int reach(const struct host_daemon_of *d, const struct recorded *who, int pidfd, int *out_fd)
{
	struct consoled c = { .instance = who->instance, .pidfd = pidfd, .commit_fd = -1 };

	int r = consoled_reach(&who->instance, pidfd, d->folder, who->socket, out_fd);
	if (r == -EAGAIN)
		r = consoled_await(&c, d->folder, who->socket, deadline_in(d, DAEMON_BUSY_MS), out_fd);
	if (r == 0)
		return 1;
	/* Bound and not listening, or without its socket, or somebody else's: a start that was cut short, or a fault.
	 */
	return r == -ECONNREFUSED || r == -ENOENT || r == -ENOTSOCK || r == -ELOOP || r == -EBADE || r == -ESRCH ? 0
	                                                                                                         : r;
}

static enum result end_unreachable(const struct host_daemon_of *d, const struct recorded *who)
{
	enum result r = context_fence(d->ctx);
	if (r != RESULT_OK)
		return r;
	int failed = instance_end(&who->instance, deadline_in(d, KILL_MS));
	if (failed < 0)
		return say(d, RESULT_UNAVAILABLE, "the old console daemon (pid %ld) cannot be ended: %s",
		        (long)who->instance.pid, strerror(-failed));
	(void)unlinkat(d->folder, who->socket, 0);
	return RESULT_OK;
}

/* RESULT_OK: *out_fd is its connection, or -1 where it is gone, proven. */
static enum result reach_or_end(const struct host_daemon_of *d, const struct recorded *who, int *out_fd)
{
	int pidfd = instance_open(&who->instance);

	*out_fd = -1;
	if (pidfd < 0 && pidfd != -ESRCH)
		return say(d, RESULT_UNAVAILABLE, "cannot tell whether the console daemon runs: %s", strerror(-pidfd));
	int r = pidfd < 0 ? 0 : reach(d, who, pidfd, out_fd);
	fd_close(&pidfd);
	if (r < 0)
		return say(d, RESULT_UNAVAILABLE, "the console daemon (pid %ld) does not answer: %s",
		        (long)who->instance.pid, strerror(-r));
	return r == 1 ? RESULT_OK : end_unreachable(d, who);
}

enum result host_daemon_connect(const struct host_daemon_of *d, const struct folder_record *folder, int *out_fd)
{
	struct recorded who;
	bool any = false;
	int fd = -1;

	enum result r = recall(d, &who, &any);
	if (r == RESULT_OK)
		r = context_fence(d->ctx);
	if (r == RESULT_OK && any)
		r = reach_or_end(d, &who, &fd);
	if (r == RESULT_OK && fd < 0)
		r = start(d, folder, &fd);
	if (r == RESULT_OK)
		*out_fd = fd;
	return r;
}

enum result host_daemon_lives(const struct host_daemon_of *d, bool *lives)
{
	struct recorded who;
	bool any = false;

	*lives = false;
	enum result r = recall(d, &who, &any);
	if (r != RESULT_OK || !any)
		return r;
	int pidfd = instance_open(&who.instance);
	if (pidfd < 0 && pidfd != -ESRCH)
		return say(d, RESULT_UNAVAILABLE, "cannot tell whether the console daemon runs: %s", strerror(-pidfd));
	*lives = pidfd >= 0;
	fd_close(&pidfd);
	return RESULT_OK;
}

/* ---- Ending ---- */

static int send_shutdown(struct conn *c)
{
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;
	Wire__Shutdown shutdown = WIRE__SHUTDOWN__INIT;
	Wire__ConsoledRequest request = WIRE__CONSOLED_REQUEST__INIT;

	hello.protocol = CONSOLE_PROTOCOL_VERSION;
	request.id = 1;
	request.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	request.hello = &hello;
	int r = conn_send_message(c, &request.base, NULL, 0);
	if (r < 0)
		return r;
	shutdown.grace_ms = STOP_GRACE_MS;
	request.id = 2;
	request.body_case = WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN;
	request.shutdown = &shutdown;
	return conn_send_message(c, &request.base, NULL, 0);
}

/* Takes what comes, so that the daemon can get rid of its events; false: the connection is of no more use. */
static bool drain(struct conn *c)
{
	struct frame f;

	if (conn_fill(c) < 0)
		return false;
	int r;
	while ((r = conn_next(c, &f)) > 0)
		;
	return r == 0;
}

/* Waits for the daemon's end, whatever the connection says meanwhile. */
static int await_end(struct conn *c, int pidfd, uint64_t deadline_ms)
{
	struct pollfd p[2] = { { .fd = pidfd, .events = POLLIN }, { .fd = conn_fd(c), .events = POLLIN } };

	for (;;) {
		uint64_t now = clock_mono_ms();
		if (now >= deadline_ms)
			return -ETIMEDOUT;
		p[1].events = (short)(POLLIN | (conn_wants_write(c) ? POLLOUT : 0));
		int n = poll(p, 2, (int)(deadline_ms - now));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && p[0].revents)
			return 0;
		if (n > 0 && p[1].revents && (conn_flush(c) < 0 || !drain(c)))
			p[1].fd = -1;
	}
}

/* 0: it has ended by itself. Anything else: it has not, and is to be killed. */
static int ask(const struct host_daemon_of *d, const struct recorded *who, int pidfd)
{
	struct conn *c = NULL;
	int fd = -1;

	int r = consoled_reach(&who->instance, pidfd, d->folder, who->socket, &fd);
	if (r < 0)
		return r;
	r = conn_new(fd, 2 * (size_t)FRAME_MAX_PAYLOAD, &c);
	if (r < 0) {
		fd_close(&fd);
		return r;
	}
	r = send_shutdown(c);
	if (r == 0)
		r = await_end(c, pidfd, half_deadline_in(d, STOP_ANSWER_MS));
	conn_free(c);
	return r;
}

/* Its keepers then end what they keep: they are waited for, so that nothing writes in the folder when it is removed. */
static int kill_with_keepers(const struct recorded *who, int pidfd)
{
	struct children *keepers = malloc(sizeof(*keepers));
	if (!keepers)
		return -ENOMEM;

	keepers->n = 0;
	int r = instance_kill(pidfd, SIGSTOP); /* so that it starts none while they are counted */
	if (r == 0)
		r = children_open(who->instance.pid, keepers);
	if (r == 0)
		r = instance_kill(pidfd, SIGKILL);
	if (r == 0)
		r = instance_wait(pidfd, clock_mono_ms() + KILL_MS);
	if (r == 0)
		r = children_wait(keepers, clock_mono_ms() + KEEPERS_MS);
	children_close(keepers);
	free(keepers);
	return r;
}

static enum result stop_running(const struct host_daemon_of *d, const struct recorded *who, int pidfd)
{
	enum result fenced = context_fence(d->ctx);
	if (fenced != RESULT_OK)
		return fenced;
	if (d->folder >= 0 && ask(d, who, pidfd) == 0)
		return RESULT_OK;
	CRASH_POINT("host.close.before_kill");
	fenced = context_fence(d->ctx);
	if (fenced != RESULT_OK)
		return fenced;
	int r = kill_with_keepers(who, pidfd);
	if (r < 0)
		return say(d, RESULT_RELEASE_FAILED, "the console daemon (pid %ld) or its programs cannot be ended: %s",
		        (long)who->instance.pid, strerror(-r));
	return RESULT_OK;
}

enum result host_daemon_stop(const struct host_daemon_of *d)
{
	struct recorded who;
	bool any = false;

	enum result r = recall(d, &who, &any);
	if (r != RESULT_OK || !any)
		return r;
	int pidfd = instance_open(&who.instance);
	if (pidfd == -ESRCH)
		return RESULT_OK;
	if (pidfd < 0)
		return say(
		        d, RESULT_RELEASE_FAILED, "cannot tell whether the console daemon runs: %s", strerror(-pidfd));
	r = stop_running(d, &who, pidfd);
	fd_close(&pidfd);
	return r;
}
