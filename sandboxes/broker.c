/*
 * broker.c - requests that hand the client a connection of its own: a console's stream and memory, or an exec's stream.
 *
 *   client ◄── one end, ring, marks ── ringsided ── other end, with its rights ──► console daemon
 *
 * A socketpair is made for each; afterwards ringsided is out of the way of the data. A console that has ended has no
 * stream: its memory is handed over where it is still held, else a sealed copy made from custody's file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring/ring.h"
#include "sandboxes/console.h"
#include "sandboxes/hosting.h"
#include "sandboxes/keeping.h"
#include "sandboxes/lifecycle.h"
#include "sandboxes/link.h"
#include "sandboxes/requests.h"
#include "wire/fd.h"
#include "wire/frame.h"
#include "wire/log.h"
#include "wire/sock.h"

/* A request whose console daemon has the other end. */
struct brokered {
	struct request *r;
	int fd; /* the client's end */
};

static struct brokered *brokered_new(struct request *r, int *other)
{
	struct brokered *b = malloc(sizeof(*b));
	int pair[2];

	int err = b ? sock_pair(pair) : -ENOMEM;
	if (err < 0) {
		free(b);
		request_fail(r, RESULT_RESOURCE_LIMIT, "cannot make a connection: %s", strerror(-err));
		return NULL;
	}
	*b = (struct brokered){ .r = r, .fd = pair[0] };
	*other = pair[1];
	return b;
}

static void brokered_free(struct brokered *b)
{
	fd_close(&b->fd);
	free(b);
}

/* Sends q with the console daemon's end, which is closed here in every case. false: b was answered and freed. */
static bool send_end(struct brokered *b, Wire__ConsoledRequest *q, int other, Wire__ConsoledReply__BodyCase expected,
        link_answer_fn *done)
{
	struct request *r = b->r;

	int err = link_call(r->sandbox->link, q, other, expected, ANSWER_MS, done, b);
	fd_close(&other);
	if (err == 0)
		return true;
	brokered_free(b);
	if (err == -EMSGSIZE)
		request_fail(r, RESULT_TOO_LARGE, "the request is over the %u bytes of a frame", FRAME_MAX_PAYLOAD);
	else if (err == -EBUSY)
		request_fail(r, RESULT_BUSY, "the console daemon of sandbox %s has too much to do",
		        sandbox_label(r->sandbox));
	else
		request_fail(r, RESULT_UNAVAILABLE, "the console daemon of sandbox %s cannot be asked: %s",
		        sandbox_label(r->sandbox), strerror(-err));
	return false;
}

/* ---- exec ---- */

static void on_exec_answer(struct link_answer *a, void *ctx)
{
	struct brokered *b = ctx;
	struct request *r = b->r;
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__Ok ok = WIRE__OK__INIT;

	if (a->code == RESULT_OK) {
		m.body_case = WIRE__CONTROL_REPLY__BODY_OK;
		m.ok = &ok;
		request_reply(r, &m, &b->fd, 1);
	} else {
		request_fail(r, a->code, "%s", a->message);
	}
	brokered_free(b);
}

static void exec_ready(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);
	Wire__ExecStart m = WIRE__EXEC_START__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	int other;

	if (code != RESULT_OK) {
		request_fail(r, code, "sandbox %s: %s", sandbox_label(r->sandbox), message);
		return;
	}
	struct brokered *b = brokered_new(r, &other);
	if (!b)
		return;
	m.spec = r->q->exec->spec;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_EXEC;
	q.exec = &m;
	send_end(b, &q, other, WIRE__CONSOLED_REPLY__BODY_EXEC, on_exec_answer);
}

void on_exec(struct request *r)
{
	const Wire__ExecInSandbox *q = r->q->exec;

	if (!q->spec || q->spec->n_argv == 0 || q->spec->argv[0].len == 0) {
		request_fail(r, RESULT_INVALID_ARGUMENT, "nothing to execute is given");
		return;
	}
	if (!request_sandbox_or_default(r, q->sandbox, q->create_default))
		return;
	r->wait.done = exec_ready;
	r->wait.start = true;
	sandbox_use(r->sandbox, &r->wait);
}

/* ---- open: consoles that have ended ---- */

static void reply_open(
        struct request *r, Wire__ConsoleInfo *info, bool live, uint64_t kept_until, const int *fds, unsigned nfds)
{
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__OpenStreamReply open = WIRE__OPEN_STREAM_REPLY__INIT;

	open.sandbox = lend(sandbox_label(r->sandbox));
	open.console = info;
	open.live = live;
	open.kept_until = kept_until;
	m.body_case = WIRE__CONTROL_REPLY__BODY_OPEN;
	m.open = &open;
	request_reply(r, &m, fds, nfds);
}

/* A write needs a program. Who attaches wants to see it all the same, and how it ended. */
static bool refuse_rights(struct request *r, const struct console *c)
{
	const Wire__OpenStream *q = r->q->open;

	if (q->attach || (!q->write && !q->resize))
		return false;
	request_fail(r, RESULT_NOT_RUNNING, "console %s/%s is %s", sandbox_label(r->sandbox), r->console,
	        console_state_name(c->info->state));
	return true;
}

static void on_kept_output(struct kept_output *k, void *ctx)
{
	struct request *r = ctx;
	struct console *c = console_find(r->sandbox, r->console);

	if (!console_readable(c)) {
		request_no_such_console(r);
	} else if (k->err == 0) {
		bool lost = c->info->state == CONSOLE_LOST;
		if (lost) {
			c->info->head_offset = k->entry.head;
			c->info->tail_offset = k->entry.tail;
		}
		reply_open(r, c->info, false, lost ? k->entry.tail : 0, k->fds, 2);
	} else if (k->err == -ENOENT) {
		request_fail(r, RESULT_NOT_FOUND, "nothing of the output of %s/%s was kept", sandbox_label(r->sandbox),
		        r->console);
	} else if (k->err == -EUCLEAN) {
		request_fail(r, RESULT_INTERNAL, "what was kept of %s/%s is damaged, and is not shown",
		        sandbox_label(r->sandbox), r->console);
	} else {
		request_fail(r, RESULT_UNAVAILABLE, "what was kept of %s/%s cannot be read: %s",
		        sandbox_label(r->sandbox), r->console, strerror(-k->err));
	}
}

static void open_ended(struct request *r, struct console *c)
{
	if (refuse_rights(r, c))
		return;
	/* A LOST one's memory is held until its file is written, and is then all that there is. */
	if (c->ring_fd >= 0) {
		int fds[2] = { c->ring_fd, c->marks_fd };
		reply_open(r, c->info, false, c->info->state == CONSOLE_LOST ? c->info->tail_offset : 0, fds, 2);
		return;
	}
	int err = keep_read(r->sandbox, r->console, on_kept_output, r);
	if (err < 0)
		request_fail(r, RESULT_BUSY, "too much waits for the disk: %s", strerror(-err));
}

/* ---- open: consoles that run ---- */

static void on_open_answer(struct link_answer *a, void *ctx)
{
	struct brokered *b = ctx;
	struct request *r = b->r;
	int stream = fd_take(&b->fd);
	struct console *c = console_find(r->sandbox, r->console);

	brokered_free(b);
	if (a->code == RESULT_OK) {
		console_update(r->sandbox, a->reply->console, a->fds);
		c = console_find(r->sandbox, r->console);
	}
	if (!console_readable(c)) {
		request_no_such_console(r);
	} else if (!console_running(c) && a->code != RESULT_OK) {
		open_ended(r, c); /* it ended while it was being opened */
	} else if (a->code != RESULT_OK) {
		request_fail(r, a->code, "%s", a->message);
	} else if (c->ring_fd < 0) {
		request_fail(r, RESULT_UNAVAILABLE, "the console daemon did not hand over the memory of %s/%s",
		        sandbox_label(r->sandbox), r->console);
	} else {
		int fds[3] = { c->ring_fd, c->marks_fd, stream };
		console_refresh(c);
		reply_open(r, c->info, true, 0, fds, 3);
	}
	fd_close(&stream);
}

static void open_running(struct request *r)
{
	const Wire__OpenStream *asked = r->q->open;
	Wire__OpenConsole m = WIRE__OPEN_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	int other;

	struct brokered *b = brokered_new(r, &other);
	if (!b)
		return;
	m.name = lend(r->console);
	m.write = asked->write;
	m.resize = asked->resize;
	m.attach = asked->attach;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_OPEN;
	q.open = &m;
	send_end(b, &q, other, WIRE__CONSOLED_REPLY__BODY_CONSOLE, on_open_answer);
}

/* Its memory did not come with the news of it: there was none to map it with, or no descriptor to send it by. */
static void open_held(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);
	struct console *c = console_find(r->sandbox, r->console);

	if (!console_readable(c))
		request_no_such_console(r);
	else if (!console_running(c))
		open_ended(r, c);
	else if (code != RESULT_OK)
		request_fail(r, code, "sandbox %s: %s", sandbox_label(r->sandbox), message);
	else if (c->ring_fd < 0)
		request_fail(r, RESULT_RESOURCE_LIMIT, "the memory of %s/%s cannot be held", sandbox_label(r->sandbox),
		        r->console);
	else
		open_running(r);
}

static void open_ready(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);
	struct console *c = console_find(r->sandbox, r->console);

	if (!console_readable(c))
		request_no_such_console(r);
	else if (!console_running(c))
		open_ended(r, c);
	else if (code != RESULT_OK)
		request_fail(r, code, "sandbox %s: %s", sandbox_label(r->sandbox), message);
	else if (c->ring_fd < 0) {
		r->wait.done = open_held;
		hosting_hold(r->sandbox, r->console, &r->wait);
	} else
		open_running(r);
}

/* Its memory is about to be taken from a console daemon that has just been found again, and is all that there is. */
static bool is_coming(const struct console *c)
{
	const struct sandbox *s = c->sandbox;
	bool kept = c->filed && c->file_incarnation == c->info->incarnation;

	return s->link && !s->hosted && c->hosted && c->ring_fd < 0 && !kept;
}

/* What has ended is read without its console daemon, which may be gone for ever. */
void on_open(struct request *r)
{
	struct console *c = console_find(r->sandbox, r->console);

	if (console_readable(c) && !console_running(c) && !is_coming(c)) {
		open_ended(r, c);
		return;
	}
	r->wait.done = open_ready;
	r->wait.start = false;
	sandbox_use(r->sandbox, &r->wait);
}
