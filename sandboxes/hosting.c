/*
 * hosting.c - the link of one sandbox, as hosting.h has it.
 *
 *   hosting_begin ── hello ── list ── take each ring ──► hosted ──(link down)──► connect again, if it still runs
 *                                                                                └ it does not: consoles are LOST
 */
#include "sandboxes/hosting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandboxes/console.h"
#include "sandboxes/keeping.h"
#include "sandboxes/leftovers.h"
#include "sandboxes/lifecycle.h"
#include "sandboxes/link.h"
#include "wire/clock.h"
#include "wire/log.h"

#define ASK_MS         10000 /* for the list and for each ring */
#define MISSED_MS      250   /* until what did not come in is asked for again */
#define RETRY_FIRST_MS 250
#define RETRY_LAST_MS  30000
#define STEADY_MS      5000
#define MAX_ATTEMPTS   8 /* in a row, then only when somebody uses the sandbox: an idle daemon does nothing */

/* ---- Consoles that nothing hosts any more ---- */

static void lose_consoles(struct sandbox *s, const char *reason)
{
	/* From the start each time: to lose one may drop another. */
	for (;;) {
		struct console *c = s->consoles;
		while (c && !c->hosted && !console_running(c))
			c = c->next;
		if (!c)
			return;
		console_unhost(c, reason);
	}
}

struct stray {
	pid_t pid;
	uint64_t start_time;
};

struct strays {
	uv_timer_t timer;
	size_t n;
	struct stray *list;
};

struct stray_job {
	struct sandbox *sandbox;
	size_t n;
	struct stray *list; /* its own */
	unsigned ended;
};

static void strays_work(void *arg)
{
	struct stray_job *j = arg;

	for (size_t i = 0; i < j->n; i++)
		j->ended += leftovers_end(j->list[i].pid, j->list[i].start_time);
}

static void strays_done(void *arg)
{
	struct stray_job *j = arg;

	if (j->ended > 0)
		log_warn(sandbox_label(j->sandbox), NULL,
		        "ended %u processes that outlived the console daemon and their keepers", j->ended);
	free(j->list);
	sandbox_unref(j->sandbox);
}

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* The list is the caller's from here on. */
static struct stray *strays_release(struct sandbox *s, size_t *n)
{
	struct strays *t = s->strays;
	struct stray *list = t->list;

	*n = t->n;
	s->strays = NULL;
	t->timer.data = t;
	uv_close((uv_handle_t *)&t->timer, on_timer_closed);
	return list;
}

static void on_strays_due(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;
	struct stray_job j = { .sandbox = s };

	j.list = strays_release(s, &j.n);
	if (!s->daemon->stopping && lane_add(s->disk, strays_work, strays_done, &j, sizeof(j)) == 0)
		sandbox_ref(s);
	else
		free(j.list);
}

static struct strays *strays_of(struct sandbox *s)
{
	if (s->strays)
		return s->strays;
	s->strays = calloc(1, sizeof(*s->strays));
	if (!s->strays)
		return NULL;
	uv_timer_init(&s->daemon->loop, &s->strays->timer);
	s->strays->timer.data = s;
	return s->strays;
}

static void add_stray(struct strays *t, const Wire__ConsoleInfo *info)
{
	struct stray *more = reallocarray(t->list, t->n + 1, sizeof(*more));

	if (!more)
		return;
	t->list = more;
	t->list[t->n++] = (struct stray){ (pid_t)info->pid, info->pid_start_time };
}

/* Looked for after the time that keepers need to end everything themselves. */
static void plan_strays(struct sandbox *s)
{
	for (const struct console *c = s->consoles; c; c = c->next) {
		if (!console_running(c) || c->info->pid_start_time == 0)
			continue;
		struct strays *t = strays_of(s);
		if (!t)
			return;
		add_stray(t, c->info);
		uv_timer_start(&t->timer, on_strays_due, LEFTOVERS_KEEPERS_MS, 0);
	}
}

void hosting_dead(struct sandbox *s)
{
	s->attempts = 0;
	plan_strays(s);
	lose_consoles(s, "its console daemon is gone");
}

/* ---- Trying again ---- */

int hosting_init(struct sandbox *s)
{
	s->retry = malloc(sizeof(*s->retry));
	if (!s->retry)
		return -ENOMEM;
	(void)uv_timer_init(&s->daemon->loop, s->retry); /* cannot fail */
	s->retry->data = s;
	return 0;
}

static void cancel_retry(struct sandbox *s)
{
	if (s->retry)
		uv_timer_stop(s->retry);
}

static bool retry_planned(const struct sandbox *s)
{
	return !s->retry || uv_is_active((const uv_handle_t *)s->retry);
}

static void ask_again(struct sandbox *s);

static void on_retry(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;

	if (s->link)
		ask_again(s);
	else
		lifecycle_connect(s, CONNECT_AFTER_LOSS);
}

void hosting_missed(struct sandbox *s)
{
	s->missed = true;
	if (!retry_planned(s) && !s->daemon->stopping)
		uv_timer_start(s->retry, on_retry, MISSED_MS, 0);
}

void hosting_retry(struct sandbox *s)
{
	uint64_t wait_ms = s->attempts == 0 ? 0 : RETRY_FIRST_MS;

	if (retry_planned(s) || !sandbox_usable(s) || s->daemon->stopping)
		return;
	if (s->attempts >= MAX_ATTEMPTS) {
		log_warn(sandbox_label(s), NULL, "its console daemon does not answer; tried again when it is used");
		return;
	}
	for (unsigned i = 0; i < s->attempts && wait_ms < RETRY_LAST_MS; i++)
		wait_ms *= 2;
	s->attempts++;
	uv_timer_start(s->retry, on_retry, wait_ms, 0);
}

/* ---- The first minutes of a link: what is there ---- */

static void become_hosted(struct sandbox *s)
{
	if (s->taking > 0 || s->hosted || !s->link)
		return;
	s->hosted = true;
	s->hosted_at_ms = clock_mono_ms();
	log_info(sandbox_label(s), NULL, "hosted by console daemon %ld, version %s, %u consoles running",
	        (long)link_peer_pid(s->link), link_version(s->link), console_count_running(s));
	ringsided_watch_rings(s->daemon);
	wait_answer_all(&s->uses, RESULT_OK, NULL);
}

/* Answers may come after the link that was asked has gone: then it is another link's business by now. */
struct asked {
	struct sandbox *sandbox; /* a reference */
	struct link *link;
};

static struct asked *asked_new(struct sandbox *s)
{
	struct asked *a = malloc(sizeof(*a));

	if (a)
		*a = (struct asked){ sandbox_ref(s), s->link };
	return a;
}

static bool asked_is_current(const struct asked *a)
{
	return a->sandbox->link == a->link;
}

static void asked_free(struct asked *a)
{
	sandbox_unref(a->sandbox);
	free(a);
}

/* The link is of no use although it stands. */
static void give_up(struct sandbox *s, const char *why);

static void on_taken(struct link_answer *answer, void *ctx)
{
	struct asked *a = ctx;
	struct sandbox *s = a->sandbox;

	if (asked_is_current(a) && !link_is_down(a->link)) {
		s->taking--;
		if (answer->code == RESULT_OK)
			console_update(s, answer->reply->take->console, answer->fds);
		else
			log_warn(sandbox_label(s), NULL, "a console's memory was not handed over: %s", answer->message);
		become_hosted(s);
	}
	asked_free(a);
}

static int take(struct sandbox *s, const char *name)
{
	Wire__TakeConsole t = WIRE__TAKE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	struct asked *a = asked_new(s);

	if (!a)
		return -ENOMEM;
	t.name = lend(name);
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_TAKE;
	q.take = &t;
	int r = link_call(s->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_TAKE, ASK_MS, on_taken, a);
	if (r < 0)
		asked_free(a);
	else
		s->taking++;
	return r;
}

static int take_all(struct sandbox *s)
{
	for (struct console *c = s->consoles; c; c = c->next) {
		int r = console_wants_memory(c) ? take(s, c->name) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* What a former link, or the ledger, knew and this one does not have. A start that failed in the end was listed while
 * it was tried, and is one of these. */
static void reconcile(struct sandbox *s)
{
	for (struct console *c = s->consoles; c;) {
		struct console *next = c->next;
		if (!c->listed && (c->hosted || console_running(c))) {
			console_unhost(c, "its console daemon is gone");
			next = s->consoles; /* to lose one may drop another */
		}
		c = next;
	}
	for (struct console *c = s->consoles; c; c = c->next)
		c->listed = false;
}

/* A part of a list; the last one ends it. Lists do not overlap: each is sent in one go. */
static void note_list(struct sandbox *s, const struct link_answer *answer)
{
	const Wire__ConsoleListReply *list = answer->reply->list;
	int none[2] = { -1, -1 };

	for (size_t i = 0; i < list->n_consoles; i++) {
		console_update(s, list->consoles[i], none);
		/* It is there, whether or not there was memory for what is new about it. */
		struct console *c = console_find(s, list->consoles[i]->name);
		if (c)
			c->listed = true;
	}
	if (!answer->more)
		reconcile(s);
}

static void on_list(struct link_answer *answer, void *ctx)
{
	struct asked *a = ctx;
	struct sandbox *s = a->sandbox;

	if (!asked_is_current(a) || link_is_down(a->link)) {
		if (!answer->more)
			asked_free(a);
		return;
	}
	if (answer->code != RESULT_OK) {
		give_up(s, answer->message);
		asked_free(a);
		return;
	}
	note_list(s, answer);
	if (answer->more)
		return;
	int r = take_all(s);
	if (r < 0)
		give_up(s, strerror(-r));
	else
		become_hosted(s);
	asked_free(a);
}

/* What there is, and all memory that is not held. */
static void ask_for_all(struct sandbox *s)
{
	Wire__ConsoleList list = WIRE__CONSOLE_LIST__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	struct asked *a = asked_new(s);

	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &list;
	s->missed = false;
	if (a && link_call(s->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_LIST, ASK_MS, on_list, a) == 0)
		return;
	if (a)
		asked_free(a);
	give_up(s, "the console daemon cannot be asked");
}

static void on_ready(struct link *l, void *ctx)
{
	(void)l;
	ask_for_all(ctx);
}

/* While the link is new the first asking is still under way, and all of it. */
static void ask_again(struct sandbox *s)
{
	if (s->hosted && s->missed)
		ask_for_all(s);
}

/* ---- One console's memory ---- */

struct hold {
	struct sandbox *sandbox; /* a reference */
	struct wait *w;
};

static void on_held(struct link_answer *answer, void *ctx)
{
	struct hold *h = ctx;

	if (answer->code == RESULT_OK)
		console_update(h->sandbox, answer->reply->take->console, answer->fds);
	h->w->done(h->w, answer->code, answer->message);
	sandbox_unref(h->sandbox);
	free(h);
}

void hosting_hold(struct sandbox *s, const char *console, struct wait *w)
{
	Wire__TakeConsole t = WIRE__TAKE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	struct hold *h = s->hosted ? malloc(sizeof(*h)) : NULL;

	if (h) {
		*h = (struct hold){ sandbox_ref(s), w };
		t.name = lend(console);
		q.body_case = WIRE__CONSOLED_REQUEST__BODY_TAKE;
		q.take = &t;
		if (link_call(s->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_TAKE, ASK_MS, on_held, h) == 0)
			return;
		sandbox_unref(s);
		free(h);
	}
	w->done(w, RESULT_UNAVAILABLE, "its console daemon cannot be asked");
}

/* ---- Asking again ---- */

struct refresh {
	struct sandbox *sandbox; /* a reference */
	struct wait *w;
};

static void on_refreshed(struct link_answer *answer, void *ctx)
{
	struct refresh *r = ctx;

	if (answer->code == RESULT_OK)
		note_list(r->sandbox, answer);
	if (answer->more)
		return;
	r->w->done(r->w, answer->code, answer->message);
	sandbox_unref(r->sandbox);
	free(r);
}

void hosting_refresh(struct sandbox *s, uint64_t timeout_ms, struct wait *w)
{
	Wire__ConsoleList list = WIRE__CONSOLE_LIST__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	struct refresh *r = s->hosted ? malloc(sizeof(*r)) : NULL;

	if (!r) {
		w->done(w, RESULT_UNAVAILABLE, "its console daemon cannot be asked");
		return;
	}
	*r = (struct refresh){ sandbox_ref(s), w };
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &list;
	if (link_call(s->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_LIST, timeout_ms, on_refreshed, r) == 0)
		return;
	sandbox_unref(s);
	free(r);
	w->done(w, RESULT_UNAVAILABLE, "its console daemon cannot be asked");
}

/* ---- Events ---- */

static void on_event(
        struct link *l, Wire__ConsoleEvent__Kind kind, const Wire__ConsoleInfo *info, int fds[2], void *ctx)
{
	struct sandbox *s = ctx;

	(void)l;
	if (kind != WIRE__CONSOLE_EVENT__KIND__DROPPED) {
		console_update(s, info, fds);
		return;
	}
	struct console *c = console_find(s, info->name);
	if (c && c->hosted && c->info->incarnation == info->incarnation)
		console_drop(c);
}

/* ---- Down ---- */

static void link_lost(struct sandbox *s, const char *why)
{
	struct link *l = s->link;

	/* One that stands and falls at once, again and again, is asked less and less often. */
	if (s->hosted && clock_mono_ms() - s->hosted_at_ms >= STEADY_MS)
		s->attempts = 0;
	s->link = NULL;
	s->hosted = false;
	s->taking = 0;
	for (struct console *c = s->consoles; c; c = c->next)
		c->told_incarnation = 0; /* whatever was on its way there may not have come */
	link_free(l);
	if (s->closing) {
		lifecycle_link_down(s);
		return;
	}
	log_warn(sandbox_label(s), NULL, "lost its console daemon: %s", why);
	wait_answer_all(&s->uses, RESULT_UNAVAILABLE, why);
	hosting_retry(s);
}

static void on_down(struct link *l, const char *why, void *ctx)
{
	(void)l;
	struct sandbox *s = sandbox_ref(ctx);
	link_lost(s, why);
	sandbox_unref(s);
}

static void give_up(struct sandbox *s, const char *why)
{
	if (s->link)
		link_lost(s, why);
}

static void on_missed(struct link *l, void *ctx)
{
	(void)l;
	hosting_missed(ctx);
}

static const struct link_handler link_handler = {
	.on_ready = on_ready,
	.on_event = on_event,
	.on_missed = on_missed,
	.on_down = on_down,
};

void hosting_begin(struct sandbox *s, int fd)
{
	cancel_retry(s);
	for (struct console *c = s->consoles; c; c = c->next)
		c->listed = false;
	int r = link_new(&s->daemon->loop, fd, s->spec.console_limit, s->spec.ring_bytes, &link_handler, s, &s->link);
	if (r == 0)
		return;
	wait_answer_all(&s->uses, RESULT_UNAVAILABLE, strerror(-r));
	hosting_retry(s);
}

void hosting_end(struct sandbox *s)
{
	struct link *l = s->link;

	cancel_retry(s);
	s->link = NULL;
	s->hosted = false;
	s->taking = 0;
	link_free(l);
}

void hosting_release(struct sandbox *s)
{
	size_t n;

	hosting_end(s);
	if (s->retry)
		uv_close((uv_handle_t *)s->retry, (uv_close_cb)free);
	s->retry = NULL;
	if (s->strays)
		free(strays_release(s, &n));
}
