/*
 * link.c - the connection of link.h.
 *
 * Calls in hand stand in a list, oldest first; the console daemon mostly answers in that order, so that finding one is
 * short. A call that ran into its deadline stays there without a callback until its answer comes, so that a late answer
 * is not taken for one that nobody asked for; too many of those, and the link is given up.
 */
#include "sandboxes/link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ring/ring.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/mark.h"
#include "wire/name.h"
#include "wire/sock.h"
#include "wire/text.h"
#include "wire/unpack.h"
#include "wire/uvconn.h"

#define MAX_LATE       64 /* answers that may be owed to nobody */
#define VERSION_BYTES  64
#define MESSAGE_BYTES  256
#define MAX_LIST_PARTS 1024 /* parts of one list: 288 consoles of at most a frame each, with room */

struct call {
	struct call *next;
	uint64_t id;
	uint64_t deadline_ms; /* UINT64_MAX: none */
	Wire__ConsoledReply__BodyCase expected;
	unsigned parts;
	link_answer_fn *done; /* NULL: answered with a timeout */
	void *ctx;
};

struct link {
	struct uvconn *conn;
	uv_timer_t timer; /* for the earliest deadline */
	uv_loop_t *loop;
	const struct link_handler *handler;
	void *ctx;
	struct call *calls, **calls_end;
	unsigned ncalls, late;
	uint64_t last_id;
	bool ready, down;
	bool freed;
	char version[VERSION_BYTES];
	pid_t peer_pid;
	bool shares_pids;
};

/* ---- Ending ---- */

static void answer_failed(struct call *c, enum result code, const char *message)
{
	struct link_answer a = { .code = code, .message = message, .fds = { -1, -1 } };

	if (c->done)
		c->done(&a, c->ctx);
}

static void answer_all(struct link *l, const char *message)
{
	while (l->calls) {
		struct call *c = l->calls;
		l->calls = c->next;
		if (!l->calls)
			l->calls_end = &l->calls;
		l->ncalls--;
		answer_failed(c, RESULT_UNAVAILABLE, message);
		free(c);
	}
}

/* Everything in hand is answered first, so that on_down() may forget the link. */
__attribute__((format(printf, 2, 3))) static void fail(struct link *l, const char *fmt, ...)
{
	char why[MESSAGE_BYTES];
	va_list args;

	if (l->down)
		return;
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	l->down = true;
	uv_timer_stop(&l->timer);
	uvconn_close(l->conn);
	answer_all(l, why);
	if (!l->freed)
		l->handler->on_down(l, why, l->ctx);
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void link_free(struct link *l)
{
	if (!l || l->freed)
		return;
	l->freed = true;
	fail(l, "the connection to the console daemon was closed");
	uv_close((uv_handle_t *)&l->timer, on_closed);
}

/* ---- Deadlines ---- */

static void on_timer(uv_timer_t *timer);

static void arm(struct link *l)
{
	uint64_t earliest = UINT64_MAX;
	uint64_t now = clock_mono_ms();

	if (l->down)
		return;
	for (const struct call *c = l->calls; c; c = c->next)
		if (c->done && c->deadline_ms < earliest)
			earliest = c->deadline_ms;
	if (earliest == UINT64_MAX)
		uv_timer_stop(&l->timer);
	else
		uv_timer_start(&l->timer, on_timer, earliest > now ? earliest - now : 0, 0);
}

static struct call *expired(struct link *l, uint64_t now)
{
	for (struct call *c = l->calls; c; c = c->next)
		if (c->done && c->deadline_ms <= now)
			return c;
	return NULL;
}

static void on_timer(uv_timer_t *timer)
{
	struct link *l = timer->data;
	uint64_t now = clock_mono_ms();
	struct call *c;

	uv_update_time(l->loop);
	/* From the start each time: a callback may add calls, or end them all. */
	while (!l->down && (c = expired(l, now)) != NULL) {
		struct call copy = *c;
		c->done = NULL;
		l->late++;
		answer_failed(&copy, RESULT_TIMEOUT, "the console daemon does not answer");
	}
	if (l->late > MAX_LATE)
		fail(l, "the console daemon does not answer");
	arm(l);
}

/* ---- Calls ---- */

int link_call(struct link *l, Wire__ConsoledRequest *q, int fd, Wire__ConsoledReply__BodyCase expected,
        uint64_t timeout_ms, link_answer_fn *done, void *ctx)
{
	if (l->down)
		return -EPIPE;
	if (l->ncalls >= LINK_MAX_CALLS)
		return -EBUSY;
	struct call *c = malloc(sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct call){
		.id = ++l->last_id,
		.deadline_ms = timeout_ms ? clock_mono_ms() + timeout_ms : UINT64_MAX,
		.expected = expected,
		.done = done,
		.ctx = ctx,
	};
	q->id = c->id;
	int r = uvconn_send_message(l->conn, &q->base, fd >= 0 ? &fd : NULL, fd >= 0 ? 1 : 0);
	if (r < 0) {
		free(c);
		return r == -ENOBUFS ? -EBUSY : r;
	}
	*l->calls_end = c;
	l->calls_end = &c->next;
	l->ncalls++;
	arm(l);
	return 0;
}

static struct call **find_call(struct link *l, uint64_t id)
{
	for (struct call **at = &l->calls; *at; at = &(*at)->next)
		if ((*at)->id == id)
			return at;
	return NULL;
}

static struct call *take_call(struct link *l, struct call **at)
{
	struct call *c = *at;

	*at = c->next;
	if (l->calls_end == &c->next)
		l->calls_end = at;
	l->ncalls--;
	if (!c->done)
		l->late--;
	return c;
}

/* ---- What comes in ---- */

bool link_info_valid(const Wire__ConsoleInfo *info)
{
	return info && name_valid(info->name) && (info->state == CONSOLE_RUNNING || info->state == CONSOLE_EXITED) &&
	       info->incarnation > 0 && info->head_offset <= info->tail_offset &&
	       info->ring_bytes <= RING_MAX_CAPACITY && wire__console_info__get_packed_size(info) <= LINK_INFO_BYTES;
}

/* Descriptions inside an answer are as good as those of an event. */
static bool infos_valid(const Wire__ConsoledReply *m)
{
	switch (m->body_case) {
	case WIRE__CONSOLED_REPLY__BODY_START:
		return link_info_valid(m->start->console);
	case WIRE__CONSOLED_REPLY__BODY_TAKE:
		return link_info_valid(m->take->console);
	case WIRE__CONSOLED_REPLY__BODY_CONSOLE:
		return link_info_valid(m->console);
	case WIRE__CONSOLED_REPLY__BODY_LIST:
		for (size_t i = 0; i < m->list->n_consoles; i++)
			if (!link_info_valid(m->list->consoles[i]))
				return false;
		return true;
	default:
		return true;
	}
}

static void take_fds(struct conn *c, int fds[2])
{
	fds[0] = conn_take_fd(c, 0);
	fds[1] = conn_take_fd(c, 1);
}

static void close_fds(int fds[2])
{
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

static void on_event(struct link *l, Wire__ConsoleEvent *e)
{
	int fds[2];

	if (!e || !l->ready) {
		fail(l, "the console daemon sent an event that makes no sense");
		return;
	}
	/* A newer one may tell of more; what is not known is not needed. */
	if (e->kind < WIRE__CONSOLE_EVENT__KIND__STARTED || e->kind > WIRE__CONSOLE_EVENT__KIND__DROPPED)
		return;
	if (!link_info_valid(e->console)) {
		fail(l, "the console daemon described a console that cannot be");
		return;
	}
	take_fds(uvconn_conn(l->conn), fds);
	l->handler->on_event(l, e->kind, e->console, fds, l->ctx);
	close_fds(fds);
}

/* The error of an answer, with a code that this version knows. */
static enum result error_code(const Wire__Error *e)
{
	return e->code != RESULT_OK && strcmp(result_name(e->code), "internal") != 0 ? (enum result)e->code
	                                                                             : RESULT_INTERNAL;
}

static void deliver(struct link *l, struct call *c, Wire__ConsoledReply *m)
{
	struct link_answer a = { .code = RESULT_OK, .reply = m, .more = m->more };

	take_fds(uvconn_conn(l->conn), a.fds);
	if (m->body_case == WIRE__CONSOLED_REPLY__BODY_ERROR) {
		a.code = error_code(m->error);
		a.message = m->error->message;
		a.reply = NULL;
		a.more = false;
	}
	if (c->done)
		c->done(&a, c->ctx);
	close_fds(a.fds);
}

static void on_answer(struct link *l, Wire__ConsoledReply *m)
{
	struct call **at = find_call(l, m->id);
	bool error = m->body_case == WIRE__CONSOLED_REPLY__BODY_ERROR;

	if (!at) {
		fail(l, "the console daemon answered what it was not asked");
		return;
	}
	if ((!error && m->body_case != (*at)->expected) || !infos_valid(m) ||
	        (m->more && (m->body_case != WIRE__CONSOLED_REPLY__BODY_LIST || ++(*at)->parts > MAX_LIST_PARTS))) {
		fail(l, "the console daemon's answer makes no sense");
		return;
	}
	if (m->more) {
		struct call copy = **at;
		deliver(l, &copy, m);
		return;
	}
	struct call *c = take_call(l, at);
	arm(l);
	deliver(l, c, m);
	free(c);
}

/* There was no memory to read it. Which part of a list it was is not known, so with one the link starts anew. */
static void miss(struct link *l, uint64_t id)
{
	struct call **at = id != 0 ? find_call(l, id) : NULL;

	if (id == 0 && l->ready && l->handler->on_missed) {
		l->handler->on_missed(l, l->ctx);
	} else if (at && (*at)->expected != WIRE__CONSOLED_REPLY__BODY_LIST) {
		struct call *c = take_call(l, at);
		arm(l);
		answer_failed(c, RESULT_RESOURCE_LIMIT, "out of memory for what the console daemon answers");
		free(c);
	} else {
		fail(l, "out of memory for what the console daemon says");
	}
}

static void on_frame(struct uvconn *u, const struct frame *f, void *ctx)
{
	struct link *l = ctx;

	(void)u;
	if (f->type != FRAME_MESSAGE) {
		fail(l, "the console daemon sent a frame that does not belong here");
		return;
	}
	struct unpack memory;
	unpack_init(&memory);
	Wire__ConsoledReply *m = wire__consoled_reply__unpack(&memory.allocator, f->length, f->payload);
	if (!m && memory.out_of_memory)
		miss(l, unpack_id(f));
	else if (!m)
		fail(l, "the console daemon sent what is not a message");
	if (!m)
		return;
	if (m->id != 0)
		on_answer(l, m);
	else if (m->body_case == WIRE__CONSOLED_REPLY__BODY_EVENT)
		on_event(l, m->event);
	/* Other messages without a request are a newer one's, and not needed. */
	wire__consoled_reply__free_unpacked(m, NULL);
}

static void on_gone(struct uvconn *u, int err, void *ctx)
{
	(void)u;
	if (err == -EPROTO)
		fail(ctx, "the console daemon broke the protocol");
	else
		fail(ctx, "the console daemon has gone");
}

static const struct uvconn_handler conn_handler = { .on_frame = on_frame, .on_gone = on_gone };

/* ---- Hello ---- */

/* NULL, or what is wrong. */
static const char *check_hello(const Wire__ConsoledHelloReply *h)
{
	if (h->protocol < 1 || h->protocol > CONSOLE_PROTOCOL_VERSION)
		return "the console daemon speaks another protocol";
	if (h->ring_layout != RING_LAYOUT || h->marks_layout != MARK_LAYOUT)
		return "the console daemon's memory has another layout";
	if (h->instance.len != LINK_INSTANCE)
		return "the console daemon does not say which instance it is";
	return NULL;
}

static void on_hello(struct link_answer *a, void *ctx)
{
	struct link *l = ctx;

	if (a->code != RESULT_OK) {
		fail(l, "no hello: %s", a->message);
		return;
	}
	const Wire__ConsoledHelloReply *h = a->reply->hello;
	const char *wrong = check_hello(h);
	if (wrong) {
		fail(l, "%s", wrong);
		return;
	}
	text_escape(l->version, sizeof(l->version), h->version, strlen(h->version));
	l->ready = true;
	l->handler->on_ready(l, l->ctx);
}

static int say_hello(struct link *l, uint32_t console_limit, uint64_t ring_bytes)
{
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	hello.protocol = CONSOLE_PROTOCOL_VERSION;
	hello.console_limit = console_limit;
	hello.ring_bytes = ring_bytes;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	q.hello = &hello;
	return link_call(l, &q, -1, WIRE__CONSOLED_REPLY__BODY_HELLO, LINK_HELLO_MS, on_hello, l);
}

/* What it says of its own pid is its to choose; the kernel's word on which namespace it lives in is not. */
static bool same_pid_namespace(pid_t pid)
{
	char path[64];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%ld/ns/pid", (long)pid);
	return stat("/proc/self/ns/pid", &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

static void look_at_peer(struct link *l, int fd)
{
	uid_t uid;
	gid_t gid;

	if (sock_peer(fd, &l->peer_pid, &uid, &gid) < 0)
		l->peer_pid = 0;
	l->shares_pids = l->peer_pid > 0 && same_pid_namespace(l->peer_pid);
}

int link_new(uv_loop_t *loop, int fd, uint32_t console_limit, uint64_t ring_bytes, const struct link_handler *handler,
        void *ctx, struct link **out)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l) {
		fd_close(&fd);
		return -ENOMEM;
	}
	*l = (struct link){ .loop = loop, .handler = handler, .ctx = ctx };
	l->calls_end = &l->calls;
	uv_timer_init(loop, &l->timer); /* cannot fail */
	l->timer.data = l;
	look_at_peer(l, fd);
	int r = uvconn_new(loop, fd, LINK_QUEUE_BYTES, &conn_handler, l, &l->conn);
	if (r < 0)
		fd_close(&fd);
	else
		r = say_hello(l, console_limit, ring_bytes);
	if (r < 0) {
		link_free(l);
		return r;
	}
	*out = l;
	return 0;
}

bool link_is_down(const struct link *l)
{
	return l->down;
}

const char *link_version(const struct link *l)
{
	return l->version;
}

pid_t link_peer_pid(const struct link *l)
{
	return l->peer_pid;
}

bool link_shares_pids(const struct link *l)
{
	return l->shares_pids;
}
