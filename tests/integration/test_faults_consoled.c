/*
 * test_faults_consoled.c - the console daemon when calls of its own fail: each allocation, mapping, descriptor, fork
 * and watch in turn, and all of them at once.
 *
 * A request that meets a fault is done or refused with a code that says so. The daemon lives, its other consoles answer
 * and lose no byte, the same request succeeds afterwards, and no descriptor, child or zombie is left over.
 */
#include "tests/support/fault.h"
#include "tests/support/home.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ring/ring.h"
#include "wire/clock.h"
#include "wire/codes.h"
#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/sock.h"
#include "wire/wire.h"

#define ANSWER_MS   20000
#define OUT_BYTES   ((size_t)4 * 1024 * 1024)
#define DROPPED     (-1) /* the connection ended instead of an answer */
#define MOST_FAULTS 400  /* of one request: more, and the loop would never have come to its end */

/* A console that must not notice anything: what is typed comes back, and what it says by itself is without a gap. */
struct witness {
	struct ring *ring;
	struct conn *stream;
	uint64_t next; /* what was read so far */
	unsigned count;
};

struct consoled {
	struct home *h;
	struct fault_control *control;
	pid_t pid;
	int dirfd;
	struct conn *owner;
	uint64_t last_id;
	struct witness echo, ticker;
	size_t fds;        /* of the daemon when nothing is going on */
	unsigned children; /* of it */
	uid_t uid;
	struct rlimit files, processes; /* as they are for it */

	/* The console of the scenario. */
	struct conn *stream;
	struct ring *ring;
};

struct answer {
	int code; /* enum result, or DROPPED */
	Wire__ConsoledReply *reply;
	int fds[2];
};

static char *lent(const char *text)
{
	return (char *)(uintptr_t)text;
}

/* ---- The daemon ---- */

static _Noreturn void exec_consoled(
        const struct consoled *d, int listen_fd, int commit_fd, const char *program, const char *lib)
{
	char arguments[4][PATH_MAX + 32], preload[PATH_MAX + 32], control[PATH_MAX];
	char *argv[] = { lent("ringside-consoled"), arguments[0], arguments[1], arguments[2], arguments[3],
		lent("--sandbox=faults"), lent("--user=tester"), lent("--shell=/bin/sh"),
		lent("--path=/usr/local/bin:/usr/bin:/bin"), NULL };
	char *envp[] = { preload, control, lent("FAULT_PROGRAM=ringside-consoled"), NULL };
	char log[PATH_MAX];

	snprintf(arguments[0], sizeof(arguments[0]), "--listen-fd=%d", listen_fd);
	snprintf(arguments[1], sizeof(arguments[1]), "--commit-fd=%d", commit_fd);
	snprintf(arguments[2], sizeof(arguments[2]), "--workspace=%s", d->h->dir);
	snprintf(arguments[3], sizeof(arguments[3]), "--home=%s", d->h->dir);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", lib);
	snprintf(control, sizeof(control), "FAULT_CONTROL=%s/control", d->h->dir);
	snprintf(log, sizeof(log), "%s/consoled.log", d->h->dir);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC),
	    err = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	dup2(null, 0);
	dup2(null, 1);
	dup2(err, 2);
	fcntl(listen_fd, F_SETFD, 0);
	fcntl(commit_fd, F_SETFD, 0);
	if (d->uid != 0 && (setgid(d->uid) < 0 || setuid(d->uid) < 0))
		_exit(98);
	execve(program, argv, envp);
	_exit(99);
}

/* Another user may not reach the build: what he runs is copied to where the test lies. */
static void copy_within_reach(struct consoled *d, const char *name, char path[PATH_MAX])
{
	size_t n;
	char *bytes = read_file(d->h, path, &n);

	assert_non_null(bytes);
	snprintf(path, PATH_MAX, "%s/%s", d->h->dir, name);
	write_file(path, bytes, n);
	assert_int_equal(chmod(path, 0755), 0);
}

static void spawn(struct consoled *d)
{
	char program[PATH_MAX], lib[PATH_MAX];
	int commit[2];

	if (!fault_path(program, "bin/ringside-consoled") || !fault_path(lib, "lib/faultlib.so"))
		fail_msg("no debug variant: make VARIANT=debug all preloads");
	if (d->uid != 0) {
		copy_within_reach(d, "ringside-consoled", program);
		copy_within_reach(d, "faultlib.so", lib);
	}
	int listen_fd = sock_bind_at(d->dirfd, "console.sock");
	assert_true(listen_fd >= 0);
	assert_int_equal(pipe2(commit, O_CLOEXEC), 0);
	fflush(NULL);
	d->pid = fork();
	assert_true(d->pid >= 0);
	if (d->pid == 0)
		exec_consoled(d, listen_fd, commit[0], program, lib);
	close(listen_fd);
	close(commit[0]);
	assert_int_equal(write(commit[1], "", 1), 1);
	close(commit[1]);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &d->files), 0);
	assert_int_equal(getrlimit(RLIMIT_NPROC, &d->processes), 0);
	wait_until("the daemon is under control", atomic_load(&d->control->ready) == (uint32_t)d->pid);
}

static bool is_alive(const struct consoled *d)
{
	siginfo_t si = { 0 };

	return waitid(P_PID, (id_t)d->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == 0;
}

static int connect_owner(struct consoled *d)
{
	uint64_t deadline = now_ms() + ANSWER_MS;
	int fd;

	conn_free(d->owner);
	d->owner = NULL;
	while ((fd = sock_connect_at(d->dirfd, "console.sock")) == -ECONNREFUSED && now_ms() < deadline)
		poll(NULL, 0, 1); /* it does not listen yet */
	assert_true(fd >= 0);
	assert_int_equal(conn_new(fd, OUT_BYTES, &d->owner), 0);
	return 0;
}

/* ---- Requests ---- */

static void answer_free(struct answer *a)
{
	if (a->reply)
		wire__consoled_reply__free_unpacked(a->reply, NULL);
	fd_close(&a->fds[0]);
	fd_close(&a->fds[1]);
	*a = (struct answer){ .fds = { -1, -1 } };
}

/* The next message of the owner's connection; DROPPED when it has ended. */
static struct answer next_message(struct consoled *d)
{
	struct answer a = { .code = DROPPED, .fds = { -1, -1 } };
	struct frame f;
	int r = conn_wait_frame(d->owner, clock_mono_ms() + ANSWER_MS, &f);

	if (r == 0)
		fail_msg("no answer in %d s", ANSWER_MS / 1000);
	if (r < 0)
		return a;
	a.fds[0] = conn_take_fd(d->owner, 0);
	a.fds[1] = conn_take_fd(d->owner, 1);
	a.reply = wire__consoled_reply__unpack(NULL, f.length, f.payload);
	assert_non_null(a.reply);
	a.code = a.reply->body_case == WIRE__CONSOLED_REPLY__BODY_ERROR ? (int)a.reply->error->code : RESULT_OK;
	return a;
}

/* The answer to q, whatever comes before it. */
static struct answer call_with(struct consoled *d, Wire__ConsoledRequest *q, const int *fd)
{
	q->id = ++d->last_id;
	if (conn_send_message(d->owner, &q->base, fd, fd ? 1 : 0) < 0)
		return (struct answer){ .code = DROPPED, .fds = { -1, -1 } };
	for (;;) {
		struct answer a = next_message(d);
		if (a.code == DROPPED || a.reply->id == q->id)
			return a;
		answer_free(&a);
	}
}

static struct answer call(struct consoled *d, Wire__ConsoledRequest *q)
{
	return call_with(d, q, NULL);
}

static int code_of(struct answer a)
{
	int code = a.code;

	answer_free(&a);
	return code;
}

static int hello(struct consoled *d)
{
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	hello.protocol = CONSOLE_PROTOCOL_VERSION;
	hello.console_limit = 64;
	hello.ring_bytes = 65536;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	q.hello = &hello;
	return code_of(call(d, &q));
}

static void own(struct consoled *d)
{
	connect_owner(d);
	assert_int_equal(hello(d), RESULT_OK);
}

struct program {
	const char *name;
	const char *argv[8];
	uint32_t observe_ms;
	uint64_t ring_bytes;
};

static struct answer start(struct consoled *d, const struct program *p)
{
	Wire__ConsoleSpec spec = WIRE__CONSOLE_SPEC__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	ProtobufCBinaryData argv[8];

	for (; p->argv[spec.n_argv]; spec.n_argv++)
		argv[spec.n_argv] =
		        (ProtobufCBinaryData){ strlen(p->argv[spec.n_argv]), (uint8_t *)lent(p->argv[spec.n_argv]) };
	spec.name = lent(p->name);
	spec.argv = argv;
	spec.observe_ms = p->observe_ms;
	spec.ring_bytes = p->ring_bytes;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_START;
	q.start = &spec;
	return call(d, &q);
}

static int close_console(struct consoled *d, const char *name)
{
	Wire__CloseConsole body = WIRE__CLOSE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	body.name = lent(name);
	body.has_grace = true;
	body.grace_ms = 0;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_CLOSE;
	q.close = &body;
	return code_of(call(d, &q));
}

static int kept(struct consoled *d, const char *name, uint32_t incarnation)
{
	Wire__ConsoleKept body = WIRE__CONSOLE_KEPT__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	body.name = lent(name);
	body.incarnation = incarnation;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_KEPT;
	q.kept = &body;
	return code_of(call(d, &q));
}

static struct answer list(struct consoled *d)
{
	Wire__ConsoleList body = WIRE__CONSOLE_LIST__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &body;
	return call(d, &q);
}

static struct answer take(struct consoled *d, const char *name)
{
	Wire__TakeConsole body = WIRE__TAKE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	body.name = lent(name);
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_TAKE;
	q.take = &body;
	return call(d, &q);
}

/* A stream of the console, with every right. */
static int open_stream(struct consoled *d, const char *name, struct conn **out)
{
	Wire__OpenConsole body = WIRE__OPEN_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	int pair[2];

	assert_int_equal(sock_pair(pair), 0);
	body.name = lent(name);
	body.write = body.resize = true;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_OPEN;
	q.open = &body;
	int code = code_of(call_with(d, &q, &pair[0]));
	close(pair[0]);
	assert_int_equal(conn_new(pair[1], OUT_BYTES, out), 0);
	if (code != RESULT_OK) {
		conn_free(*out);
		*out = NULL;
	}
	return code;
}

/* ---- Streams ---- */

/* The next message of a stream; NULL when it has ended. TAIL frames set *woken. */
static Wire__StreamReply *stream_message(struct conn *c, bool *woken)
{
	struct frame f;

	for (;;) {
		int r = conn_wait_frame(c, clock_mono_ms() + ANSWER_MS, &f);
		if (r == 0)
			fail_msg("no word of a stream in %d s", ANSWER_MS / 1000);
		if (r < 0)
			return NULL;
		if (f.type == FRAME_TAIL && woken) {
			*woken = true;
			return NULL;
		}
		if (f.type == FRAME_MESSAGE)
			break;
	}
	Wire__StreamReply *m = wire__stream_reply__unpack(NULL, f.length, f.payload);
	assert_non_null(m);
	return m;
}

static void stream_send(struct conn *c, uint64_t id, const void *bytes, size_t n, bool more)
{
	Wire__StreamRequest q = WIRE__STREAM_REQUEST__INIT;
	Wire__Write w = WIRE__WRITE__INIT;

	w.data = (ProtobufCBinaryData){ n, (uint8_t *)(uintptr_t)bytes };
	w.more = more;
	w.timeout_ms = 10000;
	w.raw_lines = true;
	q.id = id;
	q.body_case = WIRE__STREAM_REQUEST__BODY_WRITE;
	q.write = &w;
	(void)conn_send_message(c, &q.base, NULL, 0);
}

/* The answer to a write: its code, DROPPED. *written: bytes that were taken. */
static int write_answer(struct conn *c, uint64_t id, uint64_t *written)
{
	*written = 0;
	for (;;) {
		Wire__StreamReply *m = stream_message(c, NULL);
		if (!m)
			return DROPPED;
		int code = RESULT_OK;
		bool ours = m->id == id;
		if (m->body_case == WIRE__STREAM_REPLY__BODY_ERROR)
			code = (int)m->error->code;
		if (m->body_case == WIRE__STREAM_REPLY__BODY_WRITE) {
			*written = m->write->written;
			code = m->write->error ? (int)m->write->error->code : RESULT_OK;
		}
		wire__stream_reply__free_unpacked(m, NULL);
		if (ours)
			return code;
	}
}

static int write_text(struct conn *c, uint64_t id, const char *text)
{
	uint64_t written;

	stream_send(c, id, text, strlen(text), false);
	return write_answer(c, id, &written);
}

/* ---- Witnesses ---- */

/* New output of the ring, NUL-terminated; fails on a gap. */
static const char *news(struct witness *w)
{
	static char buf[1 << 20];
	struct ring_span got;

	assert_int_equal(ring_read(w->ring, w->next, buf, sizeof(buf) - 1, &got), 0);
	assert_int_equal(got.lost_bytes, 0);
	buf[got.next_offset - got.offset] = '\0';
	return buf;
}

/* Every line that the ticker says has a number, one more than the last. */
static void check_ticker(struct witness *w)
{
	const char *text = news(w), *line = text;

	for (const char *end; (end = strstr(line, "\r\n")) != NULL; line = end + 2) {
		char expected[32];
		int n = snprintf(expected, sizeof(expected), "tick %u\r\n", w->count + 1);
		if (strncmp(line, expected, (size_t)n) != 0)
			fail_msg("after tick %u: %.40s", w->count, line);
		w->count++;
	}
	w->next += (uint64_t)(line - text);
}

/* What is typed comes back twice: as echo, and from the program. */
static void check_echo(struct witness *w)
{
	char line[32], expected[64];

	w->count++;
	snprintf(line, sizeof(line), "%u\n", w->count);
	snprintf(expected, sizeof(expected), "%u\r\n%u\r\n", w->count, w->count);
	assert_int_equal(write_text(w->stream, w->count, line), RESULT_OK);
	wait_until("the echo of a witness", strlen(news(w)) >= strlen(expected));
	assert_string_equal(news(w), expected);
	w->next += strlen(expected);
}

static void begin_witness(struct consoled *d, struct witness *w, const struct program *p, bool stream)
{
	struct answer a = start(d, p);

	assert_int_equal(a.code, RESULT_OK);
	assert_int_equal(ring_open(a.fds[0], &w->ring), 0);
	answer_free(&a);
	if (stream)
		assert_int_equal(open_stream(d, p->name, &w->stream), RESULT_OK);
}

/* ---- What is left over ---- */

/* Children of the daemon; zombies of its among them are counted on their own. */
static unsigned count_children(pid_t parent, unsigned *zombies)
{
	unsigned n = 0;
	DIR *proc = opendir("/proc");

	*zombies = 0;
	assert_non_null(proc);
	for (struct dirent *e; (e = readdir(proc));) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid <= 1 || process_parent(pid) != parent)
			continue;
		n++;
		*zombies += !process_alive(pid) && process_parent(pid) == parent;
	}
	closedir(proc);
	return n;
}

static bool is_settled(const struct consoled *d)
{
	unsigned zombies;

	return process_fds(d->pid) == d->fds && count_children(d->pid, &zombies) == d->children && zombies == 0;
}

static void check_settled(const struct consoled *d)
{
	uint64_t until = now_ms() + ANSWER_MS;
	unsigned zombies;

	while (!is_settled(d) && now_ms() < until)
		poll(NULL, 0, 2);
	if (!is_settled(d))
		fail_msg("%zu descriptors instead of %zu, %u children instead of %u, %u of them zombies",
		        process_fds(d->pid), d->fds, count_children(d->pid, &zombies), d->children, zombies);
}

static bool is_witness(const char *name)
{
	return strcmp(name, "echo") == 0 || strcmp(name, "ticker") == 0;
}

/* Ends whatever the scenario has started, and lets the daemon forget what it held for its output. */
static void clean_up(struct consoled *d)
{
	conn_free(d->stream);
	d->stream = NULL;
	ring_free(d->ring);
	d->ring = NULL;
	struct answer a = list(d);
	assert_int_equal(a.code, RESULT_OK);
	for (size_t i = 0; i < a.reply->list->n_consoles; i++) {
		const Wire__ConsoleInfo *info = a.reply->list->consoles[i];
		if (is_witness(info->name))
			continue;
		assert_int_equal(close_console(d, info->name), RESULT_OK);
		/* A start whose answer was lost may be closed before it has begun. */
		assert_int_equal(kept(d, info->name, info->incarnation), RESULT_OK);
	}
	answer_free(&a);
}

/* ---- The scenarios' frame ---- */

struct scenario {
	const char *name;
	void (*prepare)(struct consoled *d); /* without faults; may be NULL */
	int (*act)(struct consoled *d);      /* what came of it: enum result, or DROPPED */
	bool may_drop;                       /* what it acts on may be lost, where the loss is told as one */
	bool renews;                         /* it makes a new owner of the daemon */
	bool may_not_fail;                   /* it need not make a call that could */
};

static const struct fault_class classes[] = {
	{ "memory", FAULT_MEMORY, FAULT_SELF },
	{ "mappings", FAULT_MAP, FAULT_SELF },
	{ "descriptors", FAULT_DESCRIPTOR, FAULT_SELF },
	{ "processes", FAULT_PROCESS, FAULT_SELF },
	{ "watches", FAULT_WATCH, FAULT_SELF },
	{ "a keeper's descriptors", FAULT_DESCRIPTOR, FAULT_OFFSPRING },
	{ "a keeper's processes", FAULT_PROCESS, FAULT_OFFSPRING },
};
#define CLASSES (sizeof(classes) / sizeof(classes[0]))

static bool is_typed(int code)
{
	return code == RESULT_OK || code == RESULT_RESOURCE_LIMIT;
}

static const char *outcome_name(int code)
{
	return code == DROPPED ? "dropped" : result_name((unsigned)code);
}

/* One round with the n-th call failing (and `times` - 1 more). true: the fault was reached. */
static bool round_of(
        struct consoled *d, const struct scenario *s, const struct fault_class *c, int64_t n, int64_t times)
{
	if (s->prepare)
		s->prepare(d);
	fault_arm(d->control, c, d->pid, n, times);
	int code = s->act(d);
	uint64_t hits = fault_disarm(d->control);

	if (getenv("RINGSIDE_FAULT_VERBOSE"))
		fprintf(stderr, "%s, %s %lld: %s, %llu hits (%s)\n", s->name, c->name, (long long)n, outcome_name(code),
		        (unsigned long long)hits, d->control->first);
	if (!is_alive(d))
		fail_msg("%s: the daemon died when number %lld of its %s failed (%s)", s->name, (long long)n, c->name,
		        d->control->first);
	if (!is_typed(code) && !(code == DROPPED && s->may_drop && hits > 0))
		fail_msg("%s: %s when number %lld of the %s failed (%s)", s->name, outcome_name(code), (long long)n,
		        c->name, d->control->first);
	if (hits == 0 && code != RESULT_OK)
		fail_msg("%s: %s without a fault", s->name, outcome_name(code));
	if (code == DROPPED || s->renews)
		own(d);
	check_echo(&d->echo);
	check_ticker(&d->ticker);
	/* Once more, with all well: after a refusal as after a success, from the same beginning. */
	clean_up(d);
	if (s->prepare)
		s->prepare(d);
	code = s->act(d);
	if (code != RESULT_OK)
		fail_msg("%s: %s after number %lld of the %s had failed (%s)", s->name, outcome_name(code),
		        (long long)n, c->name, d->control->first);
	clean_up(d);
	check_settled(d);
	return hits > 0;
}

/* Each of the first calls, then ever fewer of the hundreds that looking at all processes takes. */
static int64_t next_of(int64_t n)
{
	return n + 1 + (n > 40 ? n / 8 : 0);
}

/* Some requests make no call of some kind; one that makes none at all proves something only where that is promised. */
static void run(struct consoled *d, const struct scenario *s)
{
	unsigned faults = 0;

	for (size_t i = 0; i < CLASSES; i++) {
		const struct fault_class *c = &classes[i];
		int64_t n = 1;
		for (; round_of(d, s, c, n, 1); n = next_of(n))
			assert_true(++faults < MOST_FAULTS);
		/* And several in a row, not all: what waits for better times (a frame's memory, a watch) must see some.
		 */
		if (n > 1)
			round_of(d, s, c, 1, c->kinds == FAULT_WATCH ? 3 : 10);
	}
	assert_true(faults > 0 || s->may_not_fail);
	if (getenv("RINGSIDE_FAULT_VERBOSE"))
		fprintf(stderr, "%s: %u faults\n", s->name, faults);
}

/* ---- The scenarios ---- */

static const struct program sleeper = { .name = "job", .argv = { "sleep", "600" } };
static const struct program lines = { .name = "job", .argv = { "cat" } };

static int act_start(struct consoled *d)
{
	struct answer a = start(d, &sleeper);
	int code = a.code;

	if (code == RESULT_OK && a.reply->start->failure)
		code = (int)a.reply->start->failure->code;
	answer_free(&a);
	return code;
}

static void a_start_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "start", .act = act_start });
}

/* An ended one's name: its output so far goes along. */
static void prepare_ended(struct consoled *d)
{
	static const struct program p = { .name = "job", .argv = { "echo", "before" }, .observe_ms = 10000 };
	struct answer a = start(d, &p);

	assert_int_equal(a.code, RESULT_OK);
	answer_free(&a);
}

static int act_start_again(struct consoled *d)
{
	static const struct program p = { .name = "job", .argv = { "echo", "after" }, .observe_ms = 10000 };
	struct answer a = start(d, &p);
	int code = a.code;

	if (code == RESULT_OK && a.reply->start->failure)
		code = (int)a.reply->start->failure->code;
	else if (code == RESULT_OK &&
	         contains(a.reply->start->startup_output.data, a.reply->start->startup_output.len, "before"))
		fail_msg("a start answers with what an earlier incarnation printed");
	else if (code == RESULT_OK)
		assert_true(
		        contains(a.reply->start->startup_output.data, a.reply->start->startup_output.len, "after\r\n"));
	answer_free(&a);
	return code;
}

static void an_ended_console_is_not_lost_by_a_start_that_fails(void **state)
{
	run(*state, &(struct scenario){ .name = "start again", .prepare = prepare_ended, .act = act_start_again });
}

static void prepare_lines(struct consoled *d)
{
	struct answer a = start(d, &lines);

	assert_int_equal(a.code, RESULT_OK);
	assert_int_equal(ring_open(a.fds[0], &d->ring), 0);
	answer_free(&a);
}

static int act_open(struct consoled *d)
{
	int code = open_stream(d, "job", &d->stream);

	if (code != RESULT_OK)
		return code;
	/* What was opened under a fault works, as long as it is not lost. */
	return write_text(d->stream, 1, "x\n");
}

static void an_open_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "open", .prepare = prepare_lines, .act = act_open });
}

static void prepare_stream(struct consoled *d)
{
	prepare_lines(d);
	assert_int_equal(open_stream(d, "job", &d->stream), RESULT_OK);
}

static int act_write(struct consoled *d)
{
	uint64_t tail = ring_tail(d->ring);
	char buf[64] = "";
	struct ring_span got;
	int code = write_text(d->stream, 1, "word\n");

	if (code != RESULT_OK)
		return code;
	wait_until("what was written comes back", ring_tail(d->ring) >= tail + 12);
	assert_int_equal(ring_read(d->ring, tail, buf, sizeof(buf) - 1, &got), 0);
	assert_string_equal(buf, "word\r\nword\r\n");
	return code;
}

static void a_write_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "write", .prepare = prepare_stream, .act = act_write });
}

/* Starts p and waits until it has said "ready". */
static void prepare_ready(struct consoled *d, const struct program *p)
{
	struct answer a = start(d, p);
	char buf[64] = "";
	struct ring_span got;

	assert_int_equal(a.code, RESULT_OK);
	/* Its name's earlier incarnations are before that. */
	uint64_t from = a.reply->start->console->tail_offset;
	assert_int_equal(ring_open(a.fds[0], &d->ring), 0);
	answer_free(&a);
	wait_until("the program is ready",
	        ring_read(d->ring, from, buf, sizeof(buf) - 1, &got) == 0 && strstr(buf, "ready\r\n"));
	assert_int_equal(open_stream(d, "job", &d->stream), RESULT_OK);
}

/* Takes raw bytes and counts them. */
static void prepare_counter(struct consoled *d)
{
	static const struct program p = { .name = "job",
		.argv = { "sh", "-c", "stty raw -echo; printf 'ready\r\n'; head -c 200000 | wc -c; exec sleep 600" } };

	prepare_ready(d, &p);
}

static int act_write_much(struct consoled *d)
{
	static char bytes[200000];
	const size_t piece = 50000;
	uint64_t written;

	for (size_t at = 0; at < sizeof(bytes); at += piece)
		stream_send(d->stream, 1, bytes + at, piece, at + piece < sizeof(bytes));
	int code = write_answer(d->stream, 1, &written);
	if (code == RESULT_OK)
		assert_int_equal(written, sizeof(bytes));
	return code;
}

/* One that is lost with its connection is told as lost: a large frame needs memory to be taken in. */
static void a_write_in_pieces_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "write in pieces",
	                    .prepare = prepare_counter,
	                    .act = act_write_much,
	                    .may_drop = true });
}

/* Keys have no answer: they come back as echo, or an event says why not. */
static int act_keys(struct consoled *d)
{
	uint64_t tail = ring_tail(d->ring);
	bool woken = false;

	if (conn_send_u64(d->stream, FRAME_LEVEL, tail) < 0 ||
	        conn_send(d->stream, FRAME_DATA, CHANNEL_INPUT, "k", 1, NULL, 0) < 0)
		return DROPPED;
	Wire__StreamReply *m = stream_message(d->stream, &woken);
	int code = woken                                                 ? RESULT_OK
	           : m && m->body_case == WIRE__STREAM_REPLY__BODY_ERROR ? (int)m->error->code
	                                                                 : DROPPED;
	if (m)
		wire__stream_reply__free_unpacked(m, NULL);
	if (code == RESULT_OK)
		assert_true(ring_tail(d->ring) > tail);
	return code;
}

static void keys_are_taken_or_refused_and_readers_are_woken(void **state)
{
	run(*state,
	        &(struct scenario){ .name = "keys", .prepare = prepare_stream, .act = act_keys, .may_not_fail = true });
}

static int act_signal(struct consoled *d)
{
	Wire__SignalConsole body = WIRE__SIGNAL_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	body.name = lent("job");
	body.signal = SIGWINCH;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_SIGNAL;
	q.signal = &body;
	return code_of(call(d, &q));
}

static void a_signal_is_sent_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "signal", .prepare = prepare_lines, .act = act_signal });
}

static int act_resize(struct consoled *d)
{
	Wire__ResizeConsole body = WIRE__RESIZE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	body.name = lent("job");
	body.cols = 100;
	body.rows = 30;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_RESIZE;
	q.resize = &body;
	return code_of(call(d, &q));
}

static void a_resize_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "resize", .prepare = prepare_stream, .act = act_resize });
}

static int act_close(struct consoled *d)
{
	return close_console(d, "job");
}

static void a_close_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "close", .prepare = prepare_stream, .act = act_close });
}

static int act_list(struct consoled *d)
{
	struct answer a = list(d);
	int code = a.code;

	if (code == RESULT_OK)
		assert_int_equal(a.reply->list->n_consoles, 3);
	answer_free(&a);
	return code;
}

static void a_list_is_whole_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "list", .prepare = prepare_lines, .act = act_list });
}

static int act_take(struct consoled *d)
{
	struct answer a = take(d, "job");
	int code = a.code;

	if (code == RESULT_OK)
		assert_true(a.fds[0] >= 0 && a.fds[1] >= 0);
	answer_free(&a);
	return code;
}

static void a_take_hands_over_or_is_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "take", .prepare = prepare_lines, .act = act_take });
}

/* A new owner: where the fault drops the connection, that is the answer, and the next one is served. */
static int act_own(struct consoled *d)
{
	connect_owner(d);
	return hello(d);
}

static void an_owner_is_served_or_dropped(void **state)
{
	run(*state, &(struct scenario){ .name = "owner", .act = act_own, .may_drop = true, .renews = true });
}

/* ---- Ends ---- */

/* Waits until the owner has heard of the end. DROPPED: its connection was lost instead, and the list says it. */
static int await_exited(struct consoled *d)
{
	for (;;) {
		struct answer a = next_message(d);
		if (a.code == DROPPED)
			return DROPPED;
		bool exited = a.reply->body_case == WIRE__CONSOLED_REPLY__BODY_EVENT &&
		              a.reply->event->kind == WIRE__CONSOLE_EVENT__KIND__EXITED &&
		              strcmp(a.reply->event->console->name, "job") == 0;
		answer_free(&a);
		if (exited)
			return RESULT_OK;
	}
}

static void prepare_leaver(struct consoled *d)
{
	static const struct program p = { .name = "job",
		.argv = { "sh", "-c", "stty -echo; echo ready; read x; echo bye; exit 5" } };

	prepare_ready(d, &p);
}

static int act_exit(struct consoled *d)
{
	char buf[16] = "";
	struct ring_span got;
	int code = write_text(d->stream, 1, "go\n");

	if (code != RESULT_OK)
		return code;
	for (;;) {
		Wire__StreamReply *m = stream_message(d->stream, NULL);
		if (!m)
			return DROPPED;
		bool ended = m->body_case == WIRE__STREAM_REPLY__BODY_ENDED;
		if (ended) {
			assert_int_equal(m->ended->exit->code, 5);
			assert_int_equal(m->ended->tail_offset, ring_tail(d->ring));
		}
		wire__stream_reply__free_unpacked(m, NULL);
		if (ended)
			break;
	}
	assert_int_equal(ring_read(d->ring, ring_tail(d->ring) - 5, buf, sizeof(buf) - 1, &got), 0);
	assert_string_equal(buf, "bye\r\n");
	return await_exited(d);
}

static void an_end_is_told_to_owner_and_reader_whatever_fails(void **state)
{
	run(*state, &(struct scenario){ .name = "exit", .prepare = prepare_leaver, .act = act_exit });
}

/* ---- Exec ---- */

struct taken {
	size_t out, err;
	bool has_result, has_exit;
	uint32_t code;
	int failure;
};

static void take_exec(struct conn *c, struct taken *t)
{
	struct frame f;

	*t = (struct taken){ 0 };
	for (;;) {
		int r = conn_wait_frame(c, clock_mono_ms() + ANSWER_MS, &f);
		if (r == 0)
			fail_msg("no word of a command in %d s", ANSWER_MS / 1000);
		if (r < 0)
			return;
		if (f.type == FRAME_DATA && f.channel == CHANNEL_STDOUT)
			t->out += f.length;
		if (f.type == FRAME_DATA && f.channel == CHANNEL_STDERR)
			t->err += f.length;
		if (f.type != FRAME_MESSAGE)
			continue;
		Wire__ExecResult *m = wire__exec_result__unpack(NULL, f.length, f.payload);
		assert_non_null(m);
		t->has_result = true;
		t->has_exit = m->exit != NULL;
		t->code = m->exit ? m->exit->code : 0;
		t->failure = m->failure ? (int)m->failure->code : 0;
		wire__exec_result__free_unpacked(m, NULL);
	}
}

static int exec(struct consoled *d, const char *const *argv, bool input, struct conn **out)
{
	Wire__ExecSpec spec = WIRE__EXEC_SPEC__INIT;
	Wire__ExecStart body = WIRE__EXEC_START__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	ProtobufCBinaryData list[8];
	int pair[2];

	for (; argv[spec.n_argv]; spec.n_argv++)
		list[spec.n_argv] =
		        (ProtobufCBinaryData){ strlen(argv[spec.n_argv]), (uint8_t *)lent(argv[spec.n_argv]) };
	spec.argv = list;
	spec.stdin_stream = input;
	body.spec = &spec;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_EXEC;
	q.exec = &body;
	assert_int_equal(sock_pair(pair), 0);
	int code = code_of(call_with(d, &q, &pair[0]));
	close(pair[0]);
	assert_int_equal(conn_new(pair[1], OUT_BYTES, out), 0);
	return code;
}

/* Its output is whole wherever its result says that it ended well. */
static int judge_exec(const struct taken *t, size_t out, size_t err)
{
	if (!t->has_result)
		return DROPPED;
	if (!t->has_exit)
		return t->failure;
	assert_int_equal(t->code, 7);
	assert_int_equal(t->out, out);
	assert_int_equal(t->err, err);
	return RESULT_OK;
}

static int act_exec(struct consoled *d)
{
	const char *const argv[] = { "sh", "-c", "cat; echo out; echo error >&2; exit 7", NULL };
	struct taken t = { 0 };
	struct conn *c;
	int code = exec(d, argv, true, &c);

	if (code == RESULT_OK) {
		(void)conn_send(c, FRAME_DATA, CHANNEL_INPUT, "in\n", 3, NULL, 0);
		(void)conn_send(c, FRAME_DATA, CHANNEL_INPUT, NULL, 0, NULL, 0);
		take_exec(c, &t);
		code = judge_exec(&t, 7, 6);
	}
	conn_free(c);
	return code;
}

static void an_exec_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "exec", .act = act_exec });
}

/* The same without any process but its own. */
static int act_exec_alone(struct consoled *d)
{
	const char *const argv[] = { "sh", "-c", "echo out; exit 7", NULL };
	struct taken t = { 0 };
	struct conn *c;
	int code = exec(d, argv, false, &c);

	if (code == RESULT_OK) {
		take_exec(c, &t);
		code = judge_exec(&t, 4, 0);
	}
	conn_free(c);
	return code;
}

/* More than the socket takes at once, so that what is left waits in the daemon. */
static int act_exec_much(struct consoled *d)
{
	const char *const argv[] = { "sh", "-c", "head -c 1500000 /dev/zero; exit 7", NULL };
	struct taken t = { 0 };
	struct conn *c;
	int code = exec(d, argv, false, &c);

	if (code == RESULT_OK) {
		struct pollfd p = { .fd = conn_fd(c), .events = POLLIN };
		int waiting = 0, before = -1;
		/* Until the socket takes no more, or the command has failed. */
		for (uint64_t until = now_ms() + ANSWER_MS; waiting != before && now_ms() < until;) {
			before = waiting;
			poll(&p, 1, 1000);
			poll(NULL, 0, 20);
			char *buf = malloc(4 << 20);
			ssize_t n = recv(conn_fd(c), buf, 4 << 20, MSG_PEEK | MSG_DONTWAIT);
			free(buf);
			waiting = n > 0 ? (int)n : 0;
		}
		take_exec(c, &t);
		code = judge_exec(&t, 1500000, 0);
	}
	conn_free(c);
	return code;
}

static void the_output_of_an_exec_is_whole_or_told_as_lost(void **state)
{
	run(*state, &(struct scenario){ .name = "exec with output", .act = act_exec_much, .may_drop = true });
}

/* ---- The daemon's own end ---- */

static void spawn_for_tests(struct consoled *d);

static void a_shutdown_ends_everything_whatever_fails(void **state)
{
	struct consoled *d = *state;
	int64_t n = 1;

	for (bool reached = true; reached; n++) {
		Wire__Shutdown body = WIRE__SHUTDOWN__INIT;
		Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
		pid_t pid = d->pid;

		q.body_case = WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN;
		q.shutdown = &body;
		assert_int_equal(act_start(d), RESULT_OK);
		fault_arm(d->control, &classes[0], d->pid, n, 1);
		struct answer a = call(d, &q);
		/* Refused or not understood for want of memory: asked again it does. */
		if (a.code != RESULT_OK && is_alive(d)) {
			assert_true(a.code == RESULT_RESOURCE_LIMIT);
			code_of(call(d, &q));
		}
		answer_free(&a);
		int status = 0;
		wait_until("the daemon ends", waitpid(pid, &status, WNOHANG) == pid);
		reached = fault_disarm(d->control) > 0;
		assert_int_equal(status, 0);
		d->pid = 0;
		pid_t left[64];
		wait_until("its programs end", guard_descendants(left, 64) == 0);
		spawn_for_tests(d);
	}
	assert_true(n > 2);
}

/* ---- Real limits ---- */

/* By a process of the daemon's own user, which may always do it. */
static void set_limit(const struct consoled *d, __rlimit_resource_t which, const struct rlimit *l)
{
	int status = -1;

	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		bool ok = d->uid == 0 || (setgid(d->uid) == 0 && setuid(d->uid) == 0);
		_exit(ok && prlimit(d->pid, which, l, NULL) == 0 ? 0 : errno);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Every number of free descriptors, from none to enough. */
static void with_too_few_descriptors_requests_are_refused_and_nothing_is_lost(void **state)
{
	struct consoled *d = *state;
	int refused = 0, done = 0;

	for (rlim_t spare = 0; spare < 24; spare++) {
		set_limit(d, RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)d->fds + spare, d->files.rlim_max });
		int code = act_start(d);
		assert_true(is_alive(d) && is_typed(code));
		code == RESULT_OK ? done++ : refused++;
		code = act_exec(d);
		assert_true(is_alive(d) && is_typed(code));
		check_echo(&d->echo);
		set_limit(d, RLIMIT_NOFILE, &d->files);
		clean_up(d);
		check_ticker(&d->ticker);
		check_settled(d);
	}
	assert_true(refused > 3 && done > 3);
}

/* An owner that comes when there is no descriptor for it waits until there is. */
static void an_owner_without_a_descriptor_is_served_when_there_is_one(void **state)
{
	struct consoled *d = *state;
	struct frame f;
	Wire__ConsoledHello body = WIRE__CONSOLED_HELLO__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	set_limit(d, RLIMIT_NOFILE, &(struct rlimit){ 3, d->files.rlim_max });
	connect_owner(d);
	body.protocol = CONSOLE_PROTOCOL_VERSION;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	q.hello = &body;
	q.id = ++d->last_id;
	assert_int_equal(conn_send_message(d->owner, &q.base, NULL, 0), 0);
	assert_int_equal(conn_wait_frame(d->owner, clock_mono_ms() + 300, &f), 0);
	check_echo(&d->echo);
	set_limit(d, RLIMIT_NOFILE, &d->files);
	assert_int_equal(conn_wait_frame(d->owner, clock_mono_ms() + ANSWER_MS, &f), 1);
	own(d);
	check_settled(d);
}

/* The limit counts a user's processes and does not hold for root, so root's daemon is another user's for this. */
static void without_processes_starts_are_refused_and_nothing_is_lost(void **state)
{
	struct consoled *d = *state;
	int refused = 0;

	for (rlim_t most = 1; most < 12; most++) {
		set_limit(d, RLIMIT_NPROC, &(struct rlimit){ most, d->processes.rlim_max });
		int code = act_start(d);
		assert_true(is_alive(d) && is_typed(code));
		refused += code != RESULT_OK;
		code = act_exec_alone(d);
		assert_true(is_alive(d) && is_typed(code));
		check_echo(&d->echo);
		set_limit(d, RLIMIT_NPROC, &d->processes);
		assert_int_equal(act_start(d), RESULT_OK);
		clean_up(d);
		check_ticker(&d->ticker);
		check_settled(d);
	}
	assert_true(refused > 0);
}

/* ---- What libuv would end the daemon for ---- */

/* Its array of watchers has to grow several times over for so many. */
static void descriptors_beyond_what_the_loop_has_room_for_are_served_without_more_memory(void **state)
{
	enum { STREAMS = 300 };
	static const struct fault_class growth = { "growth", FAULT_GROWTH, FAULT_SELF };
	struct consoled *d = *state;
	struct conn *streams[STREAMS];

	prepare_lines(d);
	fault_arm(d->control, &growth, d->pid, 1, FAULT_ALWAYS);
	for (unsigned i = 0; i < STREAMS; i++)
		assert_int_equal(open_stream(d, "job", &streams[i]), RESULT_OK);
	assert_true(fault_disarm(d->control) > 0);
	for (unsigned i = 0; i < STREAMS; i++) {
		assert_int_equal(write_text(streams[i], 1, "x\n"), RESULT_OK);
		conn_free(streams[i]);
	}
	check_echo(&d->echo);
	clean_up(d);
	check_ticker(&d->ticker);
	check_settled(d);
}

/* The daemon's user has used up its watches for a while: who waits for the daemon waits that long, and no longer. */
static void what_cannot_be_watched_now_is_served_when_it_can(void **state)
{
	static const struct fault_class watches = { "watches", FAULT_WATCH, FAULT_SELF };
	struct consoled *d = *state;
	struct frame f;
	Wire__ConsoleList body = WIRE__CONSOLE_LIST__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	prepare_stream(d);
	fault_arm(d->control, &watches, d->pid, 1, FAULT_ALWAYS);
	/* The owner's connection is watched for something else once it has been answered more than its socket takes. */
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &body;
	for (unsigned i = 0; i < 2000 && atomic_load(&d->control->hits) == 0; i++) {
		q.id = ++d->last_id;
		assert_int_equal(conn_send_message(d->owner, &q.base, NULL, 0), 0);
		assert_int_equal(conn_wait_flushed(d->owner, clock_mono_ms() + ANSWER_MS), 0);
	}
	assert_true(atomic_load(&d->control->hits) > 0);
	check_echo(&d->echo); /* what is watched already goes on */
	assert_true(is_alive(d));
	fault_disarm(d->control);
	for (uint64_t id = 0; id < d->last_id;) {
		assert_int_equal(conn_wait_frame(d->owner, clock_mono_ms() + ANSWER_MS, &f), 1);
		Wire__ConsoledReply *r = wire__consoled_reply__unpack(NULL, f.length, f.payload);
		assert_non_null(r);
		id = r->id > id ? r->id : id;
		wire__consoled_reply__free_unpacked(r, NULL);
	}
	clean_up(d);
	check_settled(d);
}

/* ---- Keepers ---- */

/* A keeper shares the daemon's memory as it was at the fork, its allocator's locks included. */
static void a_keeper_allocates_nothing(void **state)
{
	static const struct fault_class memory = { "a keeper's memory", FAULT_MEMORY | FAULT_MAP, FAULT_OFFSPRING };
	struct consoled *d = *state;

	fault_arm(d->control, &memory, d->pid, 1, FAULT_ALWAYS);
	assert_int_equal(act_start(d), RESULT_OK);
	assert_int_equal(act_signal(d), RESULT_OK);
	assert_int_equal(act_exec(d), RESULT_OK);
	assert_int_equal(act_close(d), RESULT_OK);
	assert_int_equal(fault_disarm(d->control), 0);
	assert_int_equal(atomic_load(&d->control->seen), 0);
	clean_up(d);
	check_settled(d);
}

/* ---- Fixture ---- */

static void end_consoled(void *what)
{
	struct consoled *d = what;

	if (d->pid > 0) {
		kill(d->pid, SIGKILL);
		waitpid(d->pid, NULL, 0);
	}
	conn_free(d->owner);
	conn_free(d->stream);
	conn_free(d->echo.stream);
	ring_free(d->ring);
	ring_free(d->echo.ring);
	ring_free(d->ticker.ring);
	fault_control_free(d->control);
	fd_close(&d->dirfd);
	free(d);
}

/* The daemon and its witnesses, with all well. */
static void spawn_for_tests(struct consoled *d)
{
	static const struct program echo = { .name = "echo", .argv = { "cat" }, .ring_bytes = 1 << 20 };
	static const struct program ticker = { .name = "ticker",
		.argv = { "sh", "-c", "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.02; done" },
		.ring_bytes = 1 << 20 };

	conn_free(d->echo.stream);
	ring_free(d->echo.ring);
	ring_free(d->ticker.ring);
	d->echo = d->ticker = (struct witness){ 0 };
	spawn(d);
	own(d);
	begin_witness(d, &d->echo, &echo, true);
	begin_witness(d, &d->ticker, &ticker, false);
	check_echo(&d->echo);
	/* The first of a kind makes what stays: a command's console, a stream. */
	assert_int_equal(act_start(d), RESULT_OK);
	clean_up(d);
	unsigned zombies;
	wait_until("the first console is forgotten", count_children(d->pid, &zombies) == 2);
	d->fds = process_fds(d->pid);
	d->children = 2;
}

static int setup_as(void **state, uid_t uid)
{
	void *home;
	char path[PATH_MAX];

	if (home_setup(&home) < 0)
		return -1;
	struct home *h = home;
	h->keep_daemon = true;
	struct consoled *d = calloc(1, sizeof(*d));
	assert_non_null(d);
	d->h = h;
	d->uid = uid;
	d->dirfd = open(h->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(d->dirfd >= 0);
	home_defer(h, end_consoled, d);
	snprintf(path, sizeof(path), "%s/control", h->dir);
	d->control = fault_control_new(path);
	assert_non_null(d->control);
	if (uid != 0) {
		assert_int_equal(chmod(path, 0666), 0);
		assert_int_equal(chmod(h->dir, 0777), 0);
	}
	*state = d;
	spawn_for_tests(d);
	return 0;
}

static int setup(void **state)
{
	return setup_as(state, 0);
}

/* A uid that nothing else runs as. */
static int setup_other_user(void **state)
{
	return setup_as(state, geteuid() == 0 ? 54321 : 0);
}

static int teardown(void **state)
{
	struct consoled *d = *state;
	void *home = d->h;

	return home_teardown(&home);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_start_is_done_or_refused),
		TEST(an_ended_console_is_not_lost_by_a_start_that_fails),
		TEST(an_open_is_done_or_refused),
		TEST(a_write_is_done_or_refused),
		TEST(a_write_in_pieces_is_done_or_refused),
		TEST(keys_are_taken_or_refused_and_readers_are_woken),
		TEST(a_signal_is_sent_or_refused),
		TEST(a_resize_is_done_or_refused),
		TEST(a_close_is_done_or_refused),
		TEST(a_list_is_whole_or_refused),
		TEST(a_take_hands_over_or_is_refused),
		TEST(an_owner_is_served_or_dropped),
		TEST(an_end_is_told_to_owner_and_reader_whatever_fails),
		TEST(an_exec_is_done_or_refused),
		TEST(the_output_of_an_exec_is_whole_or_told_as_lost),
		TEST(a_shutdown_ends_everything_whatever_fails),
		TEST(with_too_few_descriptors_requests_are_refused_and_nothing_is_lost),
		TEST(an_owner_without_a_descriptor_is_served_when_there_is_one),
		cmocka_unit_test_setup_teardown(
		        without_processes_starts_are_refused_and_nothing_is_lost, setup_other_user, teardown),
		TEST(descriptors_beyond_what_the_loop_has_room_for_are_served_without_more_memory),
		TEST(what_cannot_be_watched_now_is_served_when_it_can),
		TEST(a_keeper_allocates_nothing),
	};

	return HOME_MAIN("faults of the console daemon", tests);
}
