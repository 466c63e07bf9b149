/*
 * gather.c - see gather.h. A gathering lives until its last answer has come, which may be long after it was answered.
 */
#include "sandboxes/gather.h"

#include <stdlib.h>

#include "sandboxes/console.h"
#include "sandboxes/hosting.h"
#include "sandboxes/lifecycle.h"

struct asking {
	struct wait wait;
	struct gathering *gathering;
	bool refreshed;
};

struct gathering {
	struct request *r; /* NULL once it is answered */
	gathered_fn *done;
	bool refresh;
	uv_timer_t timer;
	size_t pending; /* answers, the timer's handle, and whoever begins */
	size_t n;
	struct sandbox **sandboxes; /* references */
	struct asking asking[];
};

static void gathering_unref(struct gathering *g)
{
	if (--g->pending > 0)
		return;
	for (size_t i = 0; i < g->n; i++)
		sandbox_unref(g->sandboxes[i]);
	free(g->sandboxes);
	free(g);
}

static void on_closed(uv_handle_t *handle)
{
	gathering_unref(handle->data);
}

static void gathering_end(struct gathering *g)
{
	struct request *r = g->r;

	if (!r)
		return;
	g->r = NULL;
	uv_close((uv_handle_t *)&g->timer, on_closed);
	g->done(r, g->sandboxes, g->n);
}

static void on_timeout(uv_timer_t *timer)
{
	gathering_end(timer->data);
}

static void answer_came(struct gathering *g)
{
	/* What is left: the timer's, and this one. */
	if (g->pending == 2)
		gathering_end(g);
	gathering_unref(g);
}

/* First that the sandbox is hosted, where that is being seen to, then what it says. Either may fail. */
static void on_asked(struct wait *w, enum result code, const char *message)
{
	struct asking *a = (struct asking *)((char *)w - offsetof(struct asking, wait));
	struct gathering *g = a->gathering;

	(void)message;
	if (code == RESULT_OK && g->refresh && !a->refreshed && g->r) {
		a->refreshed = true;
		hosting_refresh(g->sandboxes[a - g->asking], GATHER_MS, &a->wait);
		return;
	}
	answer_came(g);
}

/* Also where nobody tries to reach it any more (hosting_retry() gives up in the end): consoles that were last heard of as
 * RUNNING may have ended since. */
static bool worth_asking(const struct sandbox *s)
{
	return sandbox_usable(s) && (s->hosted || s->link || s->op == OP_CONNECT || console_count_running(s) > 0);
}

static struct gathering *gathering_new(struct daemon *d, struct sandbox *only)
{
	size_t n = 0;

	for (const struct sandbox *s = d->sandboxes; s; s = s->next)
		n++;
	struct gathering *g = calloc(1, sizeof(*g) + n * sizeof(g->asking[0]));
	if (!g)
		return NULL;
	g->sandboxes = calloc(n + 1, sizeof(*g->sandboxes));
	if (!g->sandboxes) {
		free(g);
		return NULL;
	}
	for (struct sandbox *s = d->sandboxes; s; s = s->next) {
		if (only && only != s)
			continue;
		g->asking[g->n] = (struct asking){ .wait = { .done = on_asked }, .gathering = g };
		g->sandboxes[g->n++] = sandbox_ref(s);
	}
	return g;
}

void gather(struct request *r, struct sandbox *only, bool refresh, gathered_fn *done)
{
	struct gathering *g = gathering_new(r->daemon, only);

	if (!g) {
		request_fail(r, RESULT_RESOURCE_LIMIT, "out of memory");
		return;
	}
	g->r = r;
	g->done = done;
	g->refresh = refresh;
	g->pending = 2;
	uv_timer_init(&r->daemon->loop, &g->timer);
	g->timer.data = g;
	uv_timer_start(&g->timer, on_timeout, GATHER_MS, 0);
	for (size_t i = 0; i < g->n; i++) {
		if (!worth_asking(g->sandboxes[i]))
			continue;
		g->pending++;
		sandbox_use(g->sandboxes[i], &g->asking[i].wait);
	}
	answer_came(g);
}
