/*
 * harness.h - the built ringside-consoled as a child of the test, and its owner's and its clients' side of the
 * protocol.
 *
 * Each daemon has a temporary directory of its own with its socket and workspace. Everything waits for a condition with
 * a deadline. A test that fails leaves through harness_kill() in its teardown: the daemon is killed, its keepers end
 * the rest.
 */
#ifndef TESTS_CONSOLES_HARNESS_H
#define TESTS_CONSOLES_HARNESS_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "wire/clock.h"
#include "wire/codes.h"
#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/mark.h"
#include "wire/sock.h"
#include "wire/wire.h"

#define WAIT_MS     30000 /* how long a condition may take on a loaded machine before its test has failed */
#define EVENTS_MAX  256
#define TAKEN_FDS   2
#define HARNESS_OUT ((size_t)8 * 1024 * 1024)

struct event {
	uint32_t kind;
	Wire__ConsoledReply *reply; /* owned */
	int fds[TAKEN_FDS];
};

struct harness {
	char dir[PATH_MAX - 64];
	int dirfd;
	pid_t pid;
	int commit;
	struct conn *owner;
	uint64_t next_id;
	struct event events[EVENTS_MAX];
	unsigned nevents;
	int fds[TAKEN_FDS]; /* of the last answer; -1 where none came */
};

static inline uint64_t harness_deadline(void)
{
	return clock_mono_ms() + WAIT_MS;
}

/* For conditions that nothing tells of: asks every millisecond, until the deadline fails the test. */
#define wait_until(condition)                                               \
	do {                                                                \
		uint64_t wait_until_deadline = harness_deadline();          \
		while (!(condition)) {                                      \
			assert_true(clock_mono_ms() < wait_until_deadline); \
			usleep(1000);                                       \
		}                                                           \
	} while (0)

/* ---- The daemon ---- */

/* .../VARIANT/tests/unit/consoles/test_x → .../VARIANT/bin/ringside-consoled */
static inline void harness_program(char out[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 32);

	assert_true(n > 0);
	out[n] = '\0';
	for (int i = 0; i < 4; i++) {
		char *slash = strrchr(out, '/');

		assert_non_null(slash);
		*slash = '\0';
	}
	strcat(out, "/bin/ringside-consoled");
}

static inline _Noreturn void harness_exec(int listen_fd, int commit_fd, const char *dir, const char *program)
{
	char listen_arg[32], commit_arg[32], workspace[PATH_MAX], log[PATH_MAX], home[PATH_MAX];
	char *argv[] = { (char *)(uintptr_t)program, listen_arg, commit_arg, (char *)(uintptr_t) "--sandbox=test",
		workspace, home, (char *)(uintptr_t) "--user=tester", (char *)(uintptr_t) "--shell=/bin/sh",
		(char *)(uintptr_t) "--path=/usr/local/bin:/usr/bin:/bin", NULL };
	char *envp[] = { (char *)(uintptr_t) "SECRET=of-the-daemon", NULL };
	int null, err;

	snprintf(listen_arg, sizeof(listen_arg), "--listen-fd=%d", listen_fd);
	snprintf(commit_arg, sizeof(commit_arg), "--commit-fd=%d", commit_fd);
	snprintf(workspace, sizeof(workspace), "--workspace=%s/workspace", dir);
	snprintf(home, sizeof(home), "--home=%s", dir);
	snprintf(log, sizeof(log), "%s/consoled.log", dir);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that crashes has no teardown */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	err = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	dup2(null, 0);
	dup2(null, 1);
	dup2(err, 2);
	fcntl(listen_fd, F_SETFD, 0);
	fcntl(commit_fd, F_SETFD, 0);
	execve(program, argv, envp);
	_exit(99);
}

/* Starts the daemon without committing it. */
static inline struct harness *harness_spawn(void)
{
	struct harness *h = calloc(1, sizeof(*h));
	const char *base = getenv("TMPDIR");
	char program[PATH_MAX], workspace[PATH_MAX];
	int listen_fd, pipe_fds[2];

	assert_non_null(h);
	h->commit = h->dirfd = -1;
	h->fds[0] = h->fds[1] = -1;
	h->next_id = 1;
	snprintf(h->dir, sizeof(h->dir), "%s/consoled-XXXXXX", base ? base : "/tmp");
	assert_non_null(mkdtemp(h->dir));
	snprintf(workspace, sizeof(workspace), "%s/workspace", h->dir);
	assert_int_equal(mkdir(workspace, 0700), 0);
	h->dirfd = open(h->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(h->dirfd >= 0);
	listen_fd = sock_bind_at(h->dirfd, "console.sock");
	assert_true(listen_fd >= 0);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	harness_program(program);
	h->pid = fork();
	assert_true(h->pid >= 0);
	if (h->pid == 0)
		harness_exec(listen_fd, pipe_fds[0], h->dir, program);
	close(listen_fd);
	close(pipe_fds[0]);
	h->commit = pipe_fds[1];
	return h;
}

static inline void harness_connect(struct harness *h)
{
	uint64_t deadline = harness_deadline();
	int fd;

	conn_free(h->owner);
	h->owner = NULL;
	while ((fd = sock_connect_at(h->dirfd, "console.sock")) == -ECONNREFUSED && clock_mono_ms() < deadline)
		usleep(1000); /* it has not called listen() yet */
	assert_true(fd >= 0);
	assert_int_equal(conn_new(fd, HARNESS_OUT, &h->owner), 0);
}

static inline void harness_drop_fds(int fds[TAKEN_FDS])
{
	for (int i = 0; i < TAKEN_FDS; i++)
		fd_close(&fds[i]);
}

static inline void harness_drop_event(struct harness *h, unsigned i)
{
	wire__consoled_reply__free_unpacked(h->events[i].reply, NULL);
	harness_drop_fds(h->events[i].fds);
	memmove(&h->events[i], &h->events[i + 1], (h->nevents - i - 1) * sizeof(h->events[0]));
	h->nevents--;
}

/* Returns the status as waitpid(2) gives it. */
static inline int harness_wait(struct harness *h)
{
	int status = 0;

	wait_until(waitpid(h->pid, &status, WNOHANG) == h->pid);
	h->pid = 0;
	return status;
}

static inline void harness_print_log(struct harness *h)
{
	char path[PATH_MAX], line[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s/consoled.log", h->dir);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		fprintf(stderr, "consoled: %s", line);
	if (f)
		fclose(f);
}

/* For teardown: whatever state it is in, nothing of it stays. */
static inline void harness_kill(struct harness *h)
{
	char command[PATH_MAX + 16];

	if (!h)
		return;
	if (h->pid > 0) {
		kill(h->pid, SIGKILL);
		waitpid(h->pid, NULL, 0);
		harness_print_log(h); /* an orderly test has shut it down */
	}
	while (h->nevents > 0)
		harness_drop_event(h, 0);
	harness_drop_fds(h->fds);
	conn_free(h->owner);
	fd_close(&h->commit);
	fd_close(&h->dirfd);
	snprintf(command, sizeof(command), "rm -rf '%s'", h->dir);
	if (system(command) != 0)
		fprintf(stderr, "cannot remove %s\n", h->dir);
	free(h);
}

/* ---- Requests ---- */

static inline Wire__ConsoledReply *harness_next_reply(struct harness *h, int fds[TAKEN_FDS])
{
	Wire__ConsoledReply *r;
	struct frame f;

	assert_int_equal(conn_wait_frame(h->owner, harness_deadline(), &f), 1);
	assert_int_equal(f.type, FRAME_MESSAGE);
	for (unsigned i = 0; i < TAKEN_FDS; i++)
		fds[i] = conn_take_fd(h->owner, i);
	r = wire__consoled_reply__unpack(NULL, f.length, f.payload);
	assert_non_null(r);
	return r;
}

static inline void harness_keep_event(struct harness *h, Wire__ConsoledReply *r, const int fds[TAKEN_FDS])
{
	assert_true(h->nevents < EVENTS_MAX);
	h->events[h->nevents].kind = r->body_case == WIRE__CONSOLED_REPLY__BODY_EVENT ? r->event->kind : 0;
	h->events[h->nevents].reply = r;
	memcpy(h->events[h->nevents].fds, fds, sizeof(h->events[0].fds));
	h->nevents++;
}

static inline uint64_t harness_send(struct harness *h, Wire__ConsoledRequest *q, const int *fds, unsigned nfds)
{
	q->id = h->next_id++;
	assert_int_equal(conn_send_message(h->owner, &q->base, fds, nfds), 0);
	assert_int_equal(conn_wait_flushed(h->owner, harness_deadline()), 0);
	return q->id;
}

/* The answer to id; events that come before it are kept. The caller frees it. */
static inline Wire__ConsoledReply *harness_answer(struct harness *h, uint64_t id)
{
	for (;;) {
		int fds[TAKEN_FDS];
		Wire__ConsoledReply *r = harness_next_reply(h, fds);

		if (r->id == id) {
			harness_drop_fds(h->fds);
			memcpy(h->fds, fds, sizeof(fds));
			return r;
		}
		assert_int_equal(r->id, 0);
		harness_keep_event(h, r, fds);
	}
}

static inline Wire__ConsoledReply *harness_call(
        struct harness *h, Wire__ConsoledRequest *q, Wire__ConsoledReply__BodyCase expected)
{
	Wire__ConsoledReply *r = harness_answer(h, harness_send(h, q, NULL, 0));

	if (r->body_case != expected && r->body_case == WIRE__CONSOLED_REPLY__BODY_ERROR)
		fprintf(stderr, "%s: %s\n", result_name(r->error->code), r->error->message);
	assert_int_equal(r->body_case, expected);
	return r;
}

static inline void harness_done(Wire__ConsoledReply *r)
{
	wire__consoled_reply__free_unpacked(r, NULL);
}

static inline void harness_hello(struct harness *h, uint32_t limit, uint64_t ring_bytes)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;

	hello.protocol = CONSOLE_PROTOCOL_VERSION;
	hello.console_limit = limit;
	hello.ring_bytes = ring_bytes;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	q.hello = &hello;
	harness_done(harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_HELLO));
}

/* A daemon that serves, with its owner connected and greeted. */
static inline struct harness *harness_start(uint32_t limit, uint64_t ring_bytes)
{
	struct harness *h = harness_spawn();

	assert_int_equal(write(h->commit, "", 1), 1);
	harness_connect(h);
	harness_hello(h, limit, ring_bytes);
	return h;
}

static inline void harness_shutdown(struct harness *h)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__Shutdown shutdown_ = WIRE__SHUTDOWN__INIT;

	shutdown_.grace_ms = 500;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN;
	q.shutdown = &shutdown_;
	harness_done(harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_DONE));
	assert_int_equal(harness_wait(h), 0);
}

/* Waits for an event of this kind about this console, takes it out, and gives it to the caller to free. fds may be
 * NULL. */
static inline Wire__ConsoledReply *harness_event(struct harness *h, uint32_t kind, const char *name, int *fds)
{
	for (;;) {
		int got[TAKEN_FDS];
		Wire__ConsoledReply *r;

		for (unsigned i = 0; i < h->nevents; i++) {
			if (h->events[i].kind != kind || strcmp(h->events[i].reply->event->console->name, name) != 0)
				continue;
			r = h->events[i].reply;
			if (fds) {
				memcpy(fds, h->events[i].fds, sizeof(got));
				h->events[i].fds[0] = h->events[i].fds[1] = -1;
			}
			h->events[i].reply = NULL;
			harness_drop_event(h, i);
			return r;
		}
		r = harness_next_reply(h, got);
		harness_keep_event(h, r, got);
	}
}

/* ---- Consoles ---- */

struct start {
	const char *name;
	const char *const *argv; /* NULL: the shell */
	uint32_t observe_ms;
	uint64_t ring_bytes, idle_ttl_ms, start_offset;
	const char *cwd;
	uint32_t cols, rows, incarnation;
	Wire__EnvVar **env;
	size_t n_env;
};

static inline uint64_t harness_send_start(struct harness *h, const struct start *s)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoleSpec spec = WIRE__CONSOLE_SPEC__INIT;
	ProtobufCBinaryData argv[64];

	for (; s->argv && s->argv[spec.n_argv]; spec.n_argv++)
		argv[spec.n_argv] = (ProtobufCBinaryData){ .len = strlen(s->argv[spec.n_argv]),
			.data = (uint8_t *)(uintptr_t)s->argv[spec.n_argv] };
	spec.argv = argv;
	spec.name = (char *)(uintptr_t)s->name;
	spec.observe_ms = s->observe_ms;
	spec.ring_bytes = s->ring_bytes;
	spec.idle_ttl_ms = s->idle_ttl_ms;
	spec.start_offset = s->start_offset;
	spec.incarnation = s->incarnation;
	spec.cols = s->cols;
	spec.rows = s->rows;
	spec.env = s->env;
	spec.n_env = s->n_env;
	if (s->cwd)
		spec.cwd = (char *)(uintptr_t)s->cwd;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_START;
	q.start = &spec;
	return harness_send(h, &q, NULL, 0);
}

static inline Wire__ConsoledReply *harness_start_console(struct harness *h, const struct start *s)
{
	Wire__ConsoledReply *r = harness_answer(h, harness_send_start(h, s));

	if (r->body_case == WIRE__CONSOLED_REPLY__BODY_ERROR)
		fprintf(stderr, "%s: %s\n", result_name(r->error->code), r->error->message);
	assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_START);
	return r;
}

/* A running console of a shell command, its ring mapped. */
static inline struct ring *harness_run(struct harness *h, const char *name, const char *command)
{
	const char *const argv[] = { "/bin/sh", "-c", command, NULL };
	Wire__ConsoledReply *r = harness_start_console(h, &(struct start){ .name = name, .argv = argv });
	struct ring *ring = NULL;

	assert_null(r->start->failure);
	assert_int_equal(ring_open(h->fds[0], &ring), 0);
	harness_done(r);
	return ring;
}

/* Waits until the console has EXITED; its info is in the event that the caller frees. */
static inline Wire__ConsoledReply *harness_exited(struct harness *h, const char *name)
{
	return harness_event(h, WIRE__CONSOLE_EVENT__KIND__EXITED, name, NULL);
}

static inline Wire__ConsoledReply *harness_close(struct harness *h, const char *name, uint64_t grace_ms)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__CloseConsole close_ = WIRE__CLOSE_CONSOLE__INIT;

	close_.name = (char *)(uintptr_t)name;
	close_.has_grace = true;
	close_.grace_ms = grace_ms;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_CLOSE;
	q.close = &close_;
	return harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_CLOSED);
}

/* Everything that the ring has from `from` on, as text in a static buffer. */
static inline const char *harness_text(const struct ring *ring, uint64_t from)
{
	static char buf[512 * 1024 + 1];
	struct ring_span got;

	assert_int_equal(ring_read(ring, from, buf, sizeof(buf) - 1, &got), 0);
	buf[got.next_offset - got.offset] = '\0';
	return buf;
}

static inline void harness_wait_text(const struct ring *ring, uint64_t from, const char *text)
{
	wait_until(strstr(harness_text(ring, from), text));
}

/* ---- Streams ---- */

enum { READ_ONLY = 0, WRITE = 1, RESIZE = 2, ATTACH = 4 };

static inline struct conn *harness_open(struct harness *h, const char *name, unsigned rights)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__OpenConsole open_ = WIRE__OPEN_CONSOLE__INIT;
	Wire__ConsoledReply *r;
	struct conn *c;
	int pair[2];

	assert_int_equal(sock_pair(pair), 0);
	open_.name = (char *)(uintptr_t)name;
	open_.write = rights & WRITE;
	open_.resize = rights & RESIZE;
	open_.attach = rights & ATTACH;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_OPEN;
	q.open = &open_;
	r = harness_answer(h, harness_send(h, &q, &pair[0], 1));
	assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_CONSOLE);
	harness_done(r);
	close(pair[0]);
	assert_int_equal(conn_new(pair[1], HARNESS_OUT, &c), 0);
	return c;
}

static inline void stream_send_write(
        struct conn *c, uint64_t id, const void *data, size_t n, bool more, uint64_t timeout_ms, bool raw_lines)
{
	Wire__StreamRequest q = WIRE__STREAM_REQUEST__INIT;
	Wire__Write w = WIRE__WRITE__INIT;

	w.data = (ProtobufCBinaryData){ .len = n, .data = (uint8_t *)(uintptr_t)data };
	w.more = more;
	w.timeout_ms = timeout_ms;
	w.raw_lines = raw_lines;
	q.id = id;
	q.body_case = WIRE__STREAM_REQUEST__BODY_WRITE;
	q.write = &w;
	assert_int_equal(conn_send_message(c, &q.base, NULL, 0), 0);
}

static inline void stream_send_resize(struct conn *c, uint64_t id, uint32_t cols, uint32_t rows)
{
	Wire__StreamRequest q = WIRE__STREAM_REQUEST__INIT;
	Wire__Resize size = WIRE__RESIZE__INIT;

	size.cols = cols;
	size.rows = rows;
	q.id = id;
	q.body_case = WIRE__STREAM_REQUEST__BODY_RESIZE;
	q.resize = &size;
	assert_int_equal(conn_send_message(c, &q.base, NULL, 0), 0);
}

/* The next message; TAIL frames before it are skipped. The caller frees it. */
static inline Wire__StreamReply *stream_reply(struct conn *c)
{
	struct frame f;
	Wire__StreamReply *r;

	do {
		assert_int_equal(conn_wait_frame(c, harness_deadline(), &f), 1);
	} while (f.type == FRAME_TAIL);
	assert_int_equal(f.type, FRAME_MESSAGE);
	r = wire__stream_reply__unpack(NULL, f.length, f.payload);
	assert_non_null(r);
	return r;
}

/* The next message of this kind; others before it are skipped. */
static inline Wire__StreamReply *stream_reply_of(struct conn *c, Wire__StreamReply__BodyCase kind)
{
	for (;;) {
		Wire__StreamReply *r = stream_reply(c);

		if (r->body_case == kind)
			return r;
		wire__stream_reply__free_unpacked(r, NULL);
	}
}

static inline void stream_done(Wire__StreamReply *r)
{
	wire__stream_reply__free_unpacked(r, NULL);
}

/* Writes all of it in one request of as many frames as it takes, and waits for the answer. */
static inline Wire__StreamReply *stream_write(
        struct conn *c, uint64_t id, const void *data, size_t n, uint64_t timeout_ms)
{
	const size_t piece = 32 * 1024;
	const char *p = data;

	while (n > piece) {
		stream_send_write(c, id, p, piece, true, timeout_ms, false);
		p += piece;
		n -= piece;
	}
	stream_send_write(c, id, p, n, false, timeout_ms, false);
	return stream_reply_of(c, WIRE__STREAM_REPLY__BODY_WRITE);
}

/* True once the daemon has closed this connection. */
static inline bool stream_is_dropped(struct conn *c)
{
	struct frame f;
	int r;

	do {
		r = conn_wait_frame(c, harness_deadline(), &f);
	} while (r == 1);
	return r == -ECONNRESET || r == -EPIPE;
}

#endif
