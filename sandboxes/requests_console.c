/*
 * requests_console.c - requests about consoles: started, listed, signalled, resized, closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandboxes/console.h"
#include "sandboxes/gather.h"
#include "sandboxes/keeping.h"
#include "sandboxes/lifecycle.h"
#include "sandboxes/link.h"
#include "sandboxes/requests.h"
#include "wire/clock.h"
#include "wire/frame.h"
#include "wire/log.h"
#include "wire/name.h"

#define SPAWN_MS     30000 /* a machine under load, beside the time of observing */
#define PS_MS        2000  /* a sandbox that does not answer by then is listed as it was */
#define GRACE_MS     3000  /* the console daemon's own default */
#define MAX_GRACE_MS 3600000
#define SURVIVORS_MS 5000 /* it watches survivors so long */

void request_no_such_console(struct request *r)
{
	request_fail(r, RESULT_NOT_FOUND, "no console %s/%s; `ringside ps %s` shows those that exist",
	        sandbox_label(r->sandbox), r->console, sandbox_label(r->sandbox));
}

/* What link_call() answered instead of taking the call. */
static void refuse_call(struct request *r, int err)
{
	switch (err) {
	case -EMSGSIZE:
		request_fail(r, RESULT_TOO_LARGE, "the request is over the %u bytes of a frame", FRAME_MAX_PAYLOAD);
		break;
	case -EBUSY:
		request_fail(r, RESULT_BUSY, "the console daemon of sandbox %s has too much to do",
		        sandbox_label(r->sandbox));
		break;
	case -ENOMEM:
		request_fail(r, RESULT_RESOURCE_LIMIT, "out of memory");
		break;
	default:
		request_fail(r, RESULT_UNAVAILABLE, "the console daemon of sandbox %s is not there",
		        sandbox_label(r->sandbox));
	}
}

static void refuse_use(struct request *r, enum result code, const char *message)
{
	request_fail(r, code, "sandbox %s: %s", sandbox_label(r->sandbox), message);
}

/* ---- start ---- */

static const Wire__ConsoleSpec *spec_of(const struct request *r)
{
	return r->q->start->spec;
}

/* What is answered once the ledger knows of the console. */
struct started {
	struct wait wait;
	struct request *r;
	Wire__StartReply *reply; /* its own */
};

static Wire__StartReply *copy_reply(const Wire__StartReply *reply)
{
	size_t n = wire__start_reply__get_packed_size(reply);
	uint8_t *packed = malloc(n ? n : 1);

	if (!packed)
		return NULL;
	wire__start_reply__pack(reply, packed);
	Wire__StartReply *copy = wire__start_reply__unpack(NULL, n, packed);
	free(packed);
	return copy;
}

static void reply_started(struct request *r, const Wire__StartReply *reply)
{
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__StartInSandboxReply start = WIRE__START_IN_SANDBOX_REPLY__INIT;

	start.sandbox = lend(sandbox_label(r->sandbox));
	start.console = reply->console;
	start.reattached = reply->reattached;
	start.startup_output = reply->startup_output;
	start.failure = reply->failure;
	m.body_case = WIRE__CONTROL_REPLY__BODY_START;
	m.start = &start;
	request_reply(r, &m, NULL, 0);
}

static void on_recorded(struct wait *w, enum result code, const char *message)
{
	struct started *s = (struct started *)((char *)w - offsetof(struct started, wait));

	if (code == RESULT_OK)
		reply_started(s->r, s->reply);
	else
		refuse_use(s->r, code, message);
	wire__start_reply__free_unpacked(s->reply, NULL);
	free(s);
}

/* The answer waits for the ledger: a reader may learn an offset from it, and no later start may give that offset again.
 */
static void answer_when_recorded(struct request *r, struct console *c, const Wire__StartReply *reply)
{
	struct started *s = malloc(sizeof(*s));
	Wire__StartReply *copy = s ? copy_reply(reply) : NULL;

	if (!copy) {
		free(s);
		request_fail(r, RESULT_RESOURCE_LIMIT, "out of memory; the console runs");
		return;
	}
	*s = (struct started){ .wait = { .done = on_recorded }, .r = r, .reply = copy };
	keep_when_recorded(c, &s->wait);
}

static void on_start_answer(struct link_answer *a, void *ctx)
{
	struct request *r = ctx;
	struct sandbox *s = r->sandbox;

	if (a->code != RESULT_OK) {
		request_fail(r, a->code, "%s", a->message);
		return;
	}
	const Wire__StartReply *reply = a->reply->start;
	if (strcmp(reply->console->name, spec_of(r)->name) != 0) {
		request_fail(r, RESULT_PROTOCOL_ERROR, "the console daemon started another console than was asked for");
		return;
	}
	if (reply->failure) {
		/* Nothing was started, so there is nothing to know: an earlier incarnation is as it was. */
		reply_started(r, reply);
		return;
	}
	struct console *c = console_update(s, reply->console, a->fds);
	if (!c)
		c = console_find(s, reply->console->name);
	if (c)
		answer_when_recorded(r, c, reply);
	else
		request_fail(r, RESULT_RESOURCE_LIMIT, "the console runs, but no more names can be remembered");
}

static void on_start_ready(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoleSpec *spec = r->q->start->spec;

	if (code != RESULT_OK) {
		refuse_use(r, code, message);
		return;
	}
	/* Where offsets go on is not the client's to say. */
	console_next_start(console_find(r->sandbox, spec->name), &spec->start_offset, &spec->incarnation);
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_START;
	q.start = spec;
	int err = link_call(r->sandbox->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_START,
	        (uint64_t)spec->observe_ms + SPAWN_MS, on_start_answer, r);
	if (err < 0)
		refuse_call(r, err);
}

void on_start(struct request *r)
{
	const Wire__StartInSandbox *q = r->q->start;

	if (!q->spec) {
		request_fail(r, RESULT_INVALID_ARGUMENT, "nothing to start is given");
		return;
	}
	r->console = q->spec->name;
	if (!name_valid(r->console)) {
		request_bad_name(r, r->console);
		return;
	}
	if (!request_sandbox_or_default(r, q->sandbox, q->create_default))
		return;
	r->wait.done = on_start_ready;
	r->wait.start = true;
	sandbox_use(r->sandbox, &r->wait);
}

/* ---- ps ---- */

/* One sandbox's consoles into replies; the last reply is not sent here. */
struct listing {
	struct request *r;
	Wire__LiveConsole *consoles;
	Wire__LiveConsole **list;
	size_t n, room, bytes;
};

static void send_listing(struct listing *l, bool more)
{
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__ConsoleListing list = WIRE__CONSOLE_LISTING__INIT;

	list.consoles = l->list;
	list.n_consoles = l->n;
	m.body_case = WIRE__CONTROL_REPLY__BODY_CONSOLES;
	m.consoles = &list;
	if (more)
		request_part(l->r, &m);
	else
		request_reply(l->r, &m, NULL, 0);
	l->n = 0;
	l->bytes = 0;
}

static void list_console(struct listing *l, struct console *c)
{
	Wire__LiveConsole live = WIRE__LIVE_CONSOLE__INIT;

	if (!console_readable(c))
		return;
	console_refresh(c);
	live.sandbox = lend(sandbox_label(c->sandbox));
	live.sandbox_id = c->sandbox->id;
	live.console = c->info;
	size_t size = wire__live_console__get_packed_size(&live);
	if (l->n == l->room || (l->n > 0 && l->bytes + size > CONTROL_PART_BYTES))
		send_listing(l, true);
	l->consoles[l->n] = live;
	l->list[l->n] = &l->consoles[l->n];
	l->n++;
	l->bytes += size;
}

#define LISTING_ROOM 256

static void reply_listing(struct request *r, struct sandbox *const *all, size_t n)
{
	struct listing l = { .r = r, .room = LISTING_ROOM };

	l.consoles = calloc(l.room, sizeof(*l.consoles));
	l.list = calloc(l.room, sizeof(*l.list));
	if (l.consoles && l.list) {
		for (size_t i = 0; i < n; i++)
			for (struct console *c = all[i]->consoles; c; c = c->next)
				list_console(&l, c);
		send_listing(&l, false);
	} else {
		request_fail(l.r, RESULT_RESOURCE_LIMIT, "out of memory");
	}
	free(l.list);
	free(l.consoles);
}

void on_consoles(struct request *r)
{
	const char *name = r->q->consoles->sandbox;
	struct sandbox *s = *name ? sandbox_find(r->daemon, name) : NULL;

	if (*name && !s)
		request_no_such_sandbox(r, name);
	else
		gather(r, s, true, reply_listing);
}

/* ---- signal, resize, close: one console that the console daemon has ---- */

/* The console, when the console daemon has it. NULL: it was answered. */
static struct console *hosted_console(struct request *r)
{
	struct console *c = console_find(r->sandbox, r->console);

	if (!console_readable(c)) {
		request_no_such_console(r);
		return NULL;
	}
	if (!c->hosted) {
		request_fail(r, RESULT_NOT_RUNNING, "console %s/%s is %s", sandbox_label(r->sandbox), r->console,
		        console_state_name(c->info->state));
		return NULL;
	}
	return c;
}

static void on_console_answer(struct link_answer *a, void *ctx)
{
	struct request *r = ctx;
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__LiveConsole live = WIRE__LIVE_CONSOLE__INIT;

	if (a->code != RESULT_OK) {
		request_fail(r, a->code, "%s", a->message);
		return;
	}
	console_update(r->sandbox, a->reply->console, a->fds);
	live.sandbox = lend(sandbox_label(r->sandbox));
	live.sandbox_id = r->sandbox->id;
	live.console = a->reply->console;
	m.body_case = WIRE__CONTROL_REPLY__BODY_CONSOLE;
	m.console = &live;
	request_reply(r, &m, NULL, 0);
}

/* Sends q on behalf of r once the sandbox is hosted; the answer is the console's description. */
static void ask_console(struct request *r, Wire__ConsoledRequest *q)
{
	if (!hosted_console(r))
		return;
	int err =
	        link_call(r->sandbox->link, q, -1, WIRE__CONSOLED_REPLY__BODY_CONSOLE, ANSWER_MS, on_console_answer, r);
	if (err < 0)
		refuse_call(r, err);
}

static void when_hosted(struct request *r, void (*done)(struct wait *w, enum result code, const char *message))
{
	r->wait.done = done;
	r->wait.start = false;
	sandbox_use(r->sandbox, &r->wait);
}

/* There is no console daemon to ask: what is known here is the answer. */
static void answer_unhosted(struct request *r, enum result code, const char *message)
{
	if (!console_readable(console_find(r->sandbox, r->console)) || code == RESULT_NOT_RUNNING)
		hosted_console(r);
	else
		refuse_use(r, code, message);
}

static void signal_ready(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);
	Wire__SignalConsole m = WIRE__SIGNAL_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	if (code != RESULT_OK) {
		answer_unhosted(r, code, message);
		return;
	}
	m.name = lend(r->console);
	m.signal = r->q->signal->signal;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_SIGNAL;
	q.signal = &m;
	ask_console(r, &q);
}

void on_signal(struct request *r)
{
	when_hosted(r, signal_ready);
}

static void resize_ready(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);
	Wire__ResizeConsole m = WIRE__RESIZE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	if (code != RESULT_OK) {
		answer_unhosted(r, code, message);
		return;
	}
	m.name = lend(r->console);
	m.cols = r->q->resize->cols;
	m.rows = r->q->resize->rows;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_RESIZE;
	q.resize = &m;
	ask_console(r, &q);
}

void on_resize(struct request *r)
{
	when_hosted(r, resize_ready);
}

static void reply_closed(struct request *r, Wire__CloseReceipt *receipt)
{
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__ConsoleClosed closed = WIRE__CONSOLE_CLOSED__INIT;

	closed.sandbox = lend(sandbox_label(r->sandbox));
	closed.name = lend(r->console);
	closed.receipt = receipt;
	m.body_case = WIRE__CONTROL_REPLY__BODY_CLOSED;
	m.closed = &closed;
	request_reply(r, &m, NULL, 0);
}

/* A console that nothing hosts has nothing to end: the receipt says how it stands. */
static void close_unhosted(struct request *r, const struct console *c)
{
	Wire__CloseReceipt receipt = WIRE__CLOSE_RECEIPT__INIT;

	receipt.state = c->info->state;
	receipt.exit = c->info->exit;
	receipt.tail_offset = c->info->tail_offset;
	reply_closed(r, &receipt);
}

static void on_close_answer(struct link_answer *a, void *ctx)
{
	struct request *r = ctx;

	if (a->code == RESULT_OK)
		reply_closed(r, a->reply->closed);
	else
		request_fail(r, a->code, "%s", a->message);
}

static void close_ready(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);
	const Wire__ConsoleClose *asked = r->q->close;
	struct console *c = console_find(r->sandbox, r->console);
	Wire__CloseConsole m = WIRE__CLOSE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	uint64_t grace = asked->has_grace ? asked->grace_ms : GRACE_MS;

	if (console_readable(c) && !console_running(c) && !c->hosted) {
		close_unhosted(r, c);
		return;
	}
	if (code != RESULT_OK) {
		answer_unhosted(r, code, message);
		return;
	}
	if (!hosted_console(r))
		return;
	m.name = lend(r->console);
	m.has_grace = true;
	m.grace_ms = grace < MAX_GRACE_MS ? grace : MAX_GRACE_MS;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_CLOSE;
	q.close = &m;
	int err = link_call(r->sandbox->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_CLOSED,
	        m.grace_ms + SURVIVORS_MS + ANSWER_MS, on_close_answer, r);
	if (err < 0)
		refuse_call(r, err);
}

void on_close(struct request *r)
{
	when_hosted(r, close_ready);
}
