/*
 * lifecycle.c - the loop's side of a sandbox's operations, as lifecycle.h has it.
 *
 *   create ──► RUNNING ──► connect ⇄ hosted ──► begin close ──► shutdown by link ──► close ──► forget ──► TERMINATED
 *
 * One operation at a time: `op` says which. Its end looks at what is wanted by then (a close above all) and goes on
 * there.
 */
#include "sandboxes/lifecycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "sandboxes/calls.h"
#include "sandboxes/console.h"
#include "sandboxes/hosting.h"
#include "sandboxes/link.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/log.h"

#define SHUTDOWN_GRACE_MS  3000
#define SHUTDOWN_ANSWER_MS 15000 /* the grace, survivors, and room; then it is ended without being asked */

/* ---- Jobs: what goes in, and what comes out ---- */

/* The session goes along: while a job has it, it is nobody else's. */
static struct call call_of(struct sandbox *s)
{
	struct call c = {
		.sandbox = sandbox_ref(s),
		.env = &s->daemon->env,
		.adapter = s->adapter,
		.session = s->session,
		.state = s->state,
		.code = RESULT_OK,
	};

	s->session = NULL;
	snprintf(c.id, sizeof(c.id), "%s", s->id);
	snprintf(c.resource_id, sizeof(c.resource_id), "%s", s->resource_id);
	snprintf(c.operation_key, sizeof(c.operation_key), "%s", s->operation_key);
	snprintf(c.ref, sizeof(c.ref), "%s", s->ref);
	snprintf(c.reason, sizeof(c.reason), "%s", s->reason);
	return c;
}

/* The job was not taken: as if it had not been tried. */
static void call_undo(struct call *c)
{
	c->sandbox->session = c->session;
	sandbox_unref(c->sandbox);
}

static void absorb(struct sandbox *s, const struct call *c)
{
	s->session = c->session;
	snprintf(s->ref, sizeof(s->ref), "%s", c->ref);
	if (c->lease_lost)
		ringsided_lease_lost(s->daemon);
}

static void begin_close(struct sandbox *s);

/* After an operation: a close that was asked for meanwhile. true: it has begun. */
static bool close_if_wanted(struct sandbox *s)
{
	if (!s->closing)
		return false;
	begin_close(s);
	return true;
}

/* ---- Forgetting: the last step of whatever ended TERMINATED ---- */

struct forget {
	struct call call;
	/* What those hear who waited to use it: once it is forgotten, so that whoever then asks for its name finds it free. */
	enum result refusal;
	char why[512];
};

static void forget_done(void *arg)
{
	struct forget *f = arg;
	struct sandbox *s = f->call.sandbox;

	absorb(s, &f->call);
	s->op = OP_NONE;
	s->closing = false;
	if (f->call.code == RESULT_OK) {
		sandbox_set_state(s, SANDBOX_TERMINATED, f->call.reason);
		sandbox_del(s);
		wait_answer_all(&s->uses, f->refusal, f->why);
		wait_answer_all(&s->closes, RESULT_OK, NULL);
	} else {
		/* It is gone, and the ledger could not take that: its name is taken until it can. */
		sandbox_set_state(s, SANDBOX_FAILED, "released, which could not be written down; remove it again");
		log_error(sandbox_label(s), NULL, "its end cannot be recorded: %s", f->call.message);
		wait_answer_all(&s->uses, f->refusal, f->why);
		wait_answer_all(&s->closes, f->call.code, f->call.message);
	}
	sandbox_unref(s);
}

/* It is released: nobody reaches it any more, and what was kept of it goes. On the disk lane, so that no save comes
 * after it. */
static void forget_refusing(struct sandbox *s, const char *reason, enum result refusal, const char *message)
{
	struct forget f = { .refusal = refusal };
	char why[REASON_BYTES];

	snprintf(why, sizeof(why), "%s", reason);
	snprintf(f.why, sizeof(f.why), "%s", message);
	s->op = OP_CLOSE;
	s->closing = true;
	s->released = true;
	hosting_end(s);
	console_free_all(s);
	f.call = call_of(s);
	snprintf(f.call.reason, sizeof(f.call.reason), "%s", why);
	int r = lane_add(s->disk, call_forget, forget_done, &f, sizeof(f));
	if (r == 0)
		return;
	f.call.code = RESULT_RESOURCE_LIMIT;
	snprintf(f.call.message, sizeof(f.call.message), "%s", strerror(-r));
	forget_done(&f);
}

static void forget(struct sandbox *s, const char *reason)
{
	forget_refusing(s, reason, RESULT_NOT_RUNNING, reason);
}

/* ---- Create ---- */

static int random_text(char *out, size_t n, const char *alphabet, size_t letters)
{
	uint8_t bytes[32];

	if (n > sizeof(bytes) || getrandom(bytes, n, 0) != (ssize_t)n)
		return -EIO;
	for (size_t i = 0; i < n; i++)
		out[i] = alphabet[bytes[i] % letters];
	out[n] = '\0';
	return 0;
}

static int make_ids(struct sandbox *s)
{
	char resource[21], key[17];

	int r = random_text(resource, 20, "abcdefghijklmnopqrstuvwxyz234567", 32);
	if (r == 0)
		r = random_text(key, 16, "0123456789abcdef", 16);
	if (r < 0)
		return r;
	snprintf(s->resource_id, sizeof(s->resource_id), "res-%s", resource);
	snprintf(s->operation_key, sizeof(s->operation_key), "create:%s:%s", s->id, key);
	return 0;
}

static void create_ended(struct sandbox *s, struct create_call *q)
{
	struct call *c = &q->call;

	if (c->code == RESULT_OK) {
		sandbox_set_state(s, SANDBOX_RUNNING, q->no_connection);
		if (close_if_wanted(s))
			return;
		if (q->fd >= 0)
			hosting_begin(s, fd_take(&q->fd));
		else
			wait_answer_all(&s->uses, RESULT_UNAVAILABLE, q->no_connection);
		return;
	}
	if (c->state == SANDBOX_TERMINATED) {
		forget_refusing(s, c->reason, c->code, c->message);
		return;
	}
	wait_answer_all(&s->uses, c->code, c->message);
	sandbox_set_state(s, SANDBOX_FAILED, c->reason);
	close_if_wanted(s);
}

static void create_done(void *arg)
{
	struct create_call *q = arg;
	struct sandbox *s = q->call.sandbox;

	absorb(s, &q->call);
	s->op = OP_NONE;
	create_ended(s, q);
	fd_close(&q->fd);
	spec_release(&q->spec);
	sandbox_unref(s);
}

static int copy_spec(const struct spec *from, struct spec *to)
{
	char *json = spec_to_json(from);

	if (!json)
		return -ENOMEM;
	int r = spec_from_json(json, to);
	free(json);
	return r;
}

static int add_create(struct sandbox *s)
{
	struct create_call q = { .created_at_ms = s->created_at_ms, .fd = -1 };

	int r = copy_spec(&s->spec, &q.spec);
	if (r < 0)
		return r;
	q.call = call_of(s);
	r = lane_add(s->calls, call_create, create_done, &q, sizeof(q));
	if (r < 0) {
		call_undo(&q.call);
		spec_release(&q.spec);
		return r;
	}
	s->op = OP_CREATE;
	return 0;
}

int lifecycle_create(struct daemon *d, struct spec *spec, struct sandbox **out)
{
	struct sandbox *s;
	char id[SANDBOX_ID_BYTES] = "sb-";

	int r = random_text(id + 3, 12, "abcdefghijklmnopqrstuvwxyz234567", 32);
	if (r == 0)
		r = sandbox_add(d, id, spec, &s);
	if (r < 0)
		return r;
	s->created_at_ms = clock_wall_ms();
	r = make_ids(s);
	if (r == 0)
		r = add_create(s);
	if (r < 0) {
		sandbox_del(s);
		return r;
	}
	log_info(sandbox_label(s), NULL, "CREATING %s by %s", s->id, s->spec.provider);
	*out = s;
	return 0;
}

/* ---- Connect ---- */

/* There is no console daemon: those who want one get it, the others hear of it. */
static void answer_without_daemon(struct sandbox *s)
{
	struct wait_list starters = { 0 };
	struct wait *w = s->uses.first;
	struct wait_list others = { 0 };

	s->uses.first = NULL;
	while (w) {
		struct wait *next = w->next;
		wait_add(w->start ? &starters : &others, w);
		w = next;
	}
	s->uses = starters;
	wait_answer_all(&others, RESULT_NOT_RUNNING, "its console daemon is not running");
	if (s->uses.first)
		lifecycle_connect(s, CONNECT_START);
}

static void connect_ended(struct sandbox *s, struct connect_call *q)
{
	struct call *c = &q->call;

	if (c->state == SANDBOX_TERMINATED) {
		forget(s, c->reason);
	} else if (c->state == SANDBOX_FAILED) {
		sandbox_set_state(s, SANDBOX_FAILED, c->reason);
		hosting_dead(s);
		wait_answer_all(&s->uses, c->code, c->message);
		close_if_wanted(s);
	} else if (close_if_wanted(s)) {
		return;
	} else if (c->code != RESULT_OK) {
		log_warn(sandbox_label(s), NULL, "cannot reach its console daemon: %s", c->message);
		wait_answer_all(&s->uses, c->code, c->message);
		if (q->mode != CONNECT_START)
			hosting_retry(s);
	} else if (q->fd >= 0) {
		sandbox_set_state(s, SANDBOX_RUNNING, "");
		hosting_begin(s, fd_take(&q->fd));
	} else {
		hosting_dead(s);
		answer_without_daemon(s);
	}
}

static void connect_done(void *arg)
{
	struct connect_call *q = arg;
	struct sandbox *s = q->call.sandbox;

	absorb(s, &q->call);
	s->op = OP_NONE;
	connect_ended(s, q);
	fd_close(&q->fd);
	sandbox_unref(s);
}

void lifecycle_connect(struct sandbox *s, enum connect_mode mode)
{
	if (s->op != OP_NONE || s->link || !sandbox_usable(s) || s->daemon->stopping)
		return;
	struct connect_call q = { .call = call_of(s), .mode = mode, .fd = -1 };
	int r = lane_add(s->calls, call_connect, connect_done, &q, sizeof(q));
	if (r == 0) {
		s->op = OP_CONNECT;
		return;
	}
	call_undo(&q.call);
	wait_answer_all(&s->uses, RESULT_RESOURCE_LIMIT, strerror(-r));
	if (mode != CONNECT_START)
		hosting_retry(s);
}

void sandbox_use(struct sandbox *s, struct wait *w)
{
	char why[REASON_BYTES + 128];

	if (s->daemon->stopping) {
		w->done(w, RESULT_UNAVAILABLE, "the control daemon is going down");
	} else if (s->closing || (s->state != SANDBOX_RUNNING && s->state != SANDBOX_CREATING)) {
		w->done(w, RESULT_NOT_RUNNING, sandbox_why_unusable(s, why, sizeof(why)));
	} else if (s->hosted) {
		w->done(w, RESULT_OK, NULL);
	} else {
		wait_add(&s->uses, w);
		lifecycle_connect(s, w->start ? CONNECT_START : CONNECT_IF_ALIVE);
	}
}

/* ---- Close ---- */

static void close_failed(struct sandbox *s, const struct call *c)
{
	s->op = OP_NONE;
	s->closing = false;
	if (c->state == SANDBOX_FAILED)
		sandbox_set_state(s, SANDBOX_FAILED, c->reason);
	log_error(sandbox_label(s), NULL, "was not closed: %s", c->message);
	/* Where it failed before anything was ended, its consoles run on and are known as before. */
	if (!s->link && !s->daemon->stopping)
		hosting_dead(s);
	wait_answer_all(&s->closes, c->code, c->message);
}

static void close_done(void *arg)
{
	struct call *c = arg;
	struct sandbox *s = c->sandbox;

	absorb(s, c);
	if (c->state == SANDBOX_TERMINATED)
		forget(s, c->reason);
	else
		close_failed(s, c);
	sandbox_unref(s);
}

static void run_close(struct sandbox *s)
{
	struct call c = call_of(s);

	/* The ledger says `releasing`: a next start goes on from here, also when this job is refused because the daemon
	 * ends. */
	int r = lane_add(s->calls, call_close, close_done, &c, sizeof(c));
	if (r == 0)
		return;
	call_undo(&c);
	c.code = RESULT_RESOURCE_LIMIT;
	snprintf(c.message, sizeof(c.message), "%s", strerror(-r));
	close_failed(s, &c);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void saves_over(void *arg)
{
	struct sandbox *s = *(struct sandbox **)arg;

	run_close(s);
	sandbox_unref(s);
}

/* Its programs have been ended in order, or cannot be asked to: on with the provider, once the last save has left its
 * folder. */
static void shut_down(struct sandbox *s)
{
	if (!s->shutting)
		return;
	s->shutting = false;
	hosting_end(s);
	if (lane_add(s->disk, nothing, saves_over, &s, sizeof(s)) == 0)
		sandbox_ref(s);
	else
		run_close(s);
}

void lifecycle_link_down(struct sandbox *s)
{
	shut_down(s);
}

static void on_shutdown_answer(struct link_answer *a, void *ctx)
{
	struct sandbox *s = ctx;

	if (a->code != RESULT_OK && s->shutting)
		log_warn(sandbox_label(s), NULL, "its console daemon did not end its consoles: %s", a->message);
	shut_down(s);
	sandbox_unref(s);
}

/* The console daemon ends its consoles as each one's close would, before the provider ends the rest. */
static void ask_to_shut_down(struct sandbox *s)
{
	Wire__Shutdown m = WIRE__SHUTDOWN__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	s->shutting = true;
	m.grace_ms = SHUTDOWN_GRACE_MS;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN;
	q.shutdown = &m;
	sandbox_ref(s);
	if (s->hosted && link_call(s->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_DONE, SHUTDOWN_ANSWER_MS,
	                         on_shutdown_answer, s) == 0)
		return;
	shut_down(s);
	sandbox_unref(s);
}

static void begin_done(void *arg)
{
	struct call *c = arg;
	struct sandbox *s = c->sandbox;

	absorb(s, c);
	if (c->code == RESULT_OK)
		ask_to_shut_down(s);
	else
		close_failed(s, c);
	sandbox_unref(s);
}

static void begin_close(struct sandbox *s)
{
	struct call c = call_of(s);

	s->op = OP_CLOSE;
	int r = lane_add(s->calls, call_begin_close, begin_done, &c, sizeof(c));
	if (r == 0)
		return;
	call_undo(&c);
	c.code = RESULT_RESOURCE_LIMIT;
	snprintf(c.message, sizeof(c.message), "%s", strerror(-r));
	close_failed(s, &c);
}

void sandbox_close(struct sandbox *s, struct wait *w)
{
	if (!s->adapter) {
		if (w)
			w->done(w, RESULT_NOT_SUPPORTED, s->reason);
		return;
	}
	if (w)
		wait_add(&s->closes, w);
	if (s->closing)
		return;
	s->closing = true;
	wait_answer_all(&s->uses, RESULT_NOT_RUNNING, "the sandbox is being removed");
	if (s->op == OP_NONE && s->released)
		forget(s, "removed");
	else if (s->op == OP_NONE)
		begin_close(s);
}

/* ---- After a crash ---- */

static void settle_done(void *arg)
{
	struct call *c = arg;
	struct sandbox *s = c->sandbox;

	absorb(s, c);
	s->op = OP_NONE;
	if (c->state == SANDBOX_TERMINATED) {
		forget(s, c->reason);
	} else {
		sandbox_set_state(s, SANDBOX_FAILED, c->reason);
		wait_answer_all(&s->uses, RESULT_NOT_RUNNING, s->reason);
		close_if_wanted(s);
	}
	sandbox_unref(s);
}

static void begin_settle(struct sandbox *s)
{
	struct call c = call_of(s);

	s->op = OP_SETTLE;
	if (lane_add(s->calls, call_settle, settle_done, &c, sizeof(c)) == 0)
		return;
	call_undo(&c);
	s->op = OP_NONE;
	sandbox_set_state(s, SANDBOX_FAILED, "its create was cut short and could not be looked into");
}

void lifecycle_recover(struct sandbox *s, enum ledger_state resource)
{
	switch (resource) {
	case LEDGER_PENDING:
		begin_settle(s);
		break;
	case LEDGER_LIVE:
		if (s->state == SANDBOX_RUNNING)
			lifecycle_connect(s, CONNECT_IF_ALIVE);
		else if (s->state == SANDBOX_CREATING) {
			/* Its maker never got an answer: nobody knows of it, so nobody would ever release it. */
			sandbox_set_state(
			        s, SANDBOX_CREATING, "its create was cut short by a crash of the control daemon");
			sandbox_close(s, NULL);
		}
		break;
	case LEDGER_RELEASING:
		sandbox_close(s, NULL);
		break;
	case LEDGER_RELEASED:
		forget(s, *s->reason ? s->reason : "removed");
		break;
	case LEDGER_RELEASE_FAILED:
	case LEDGER_UNKNOWN:
		if (s->state != SANDBOX_FAILED)
			sandbox_set_state(s, SANDBOX_FAILED,
			        resource == LEDGER_UNKNOWN ? "its provider cannot say whether it exists"
			                                   : "it was not released; remove it again to try again");
		break;
	}
}
