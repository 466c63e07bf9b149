/* observe.c - a list of open answers, each with a timer. */
#include "consoles/observe.h"

#include <errno.h>
#include <stdlib.h>

struct observer {
	uv_timer_t timer; /* its close callback frees */
	struct observers *all;
	struct observer *next;
	struct observed what;
	uint32_t ms;
};

struct observers {
	uv_loop_t *loop;
	observe_cb *answer;
	void *ctx;
	struct observer *first;
	struct observer *spare; /* reserved; NULL: none is */
	unsigned count;
};

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void drop(struct observer *b)
{
	struct observer **at = &b->all->first;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	b->all->count--;
	uv_close((uv_handle_t *)&b->timer, on_closed);
}

static void answer(struct observer *b)
{
	struct observers *o = b->all;
	const struct observed what = b->what;

	drop(b);
	o->answer(&what, o->ctx);
}

static void on_timer(uv_timer_t *timer)
{
	answer(timer->data);
}

/* The program runs: answers now, or after a while. */
static void watch(struct observer *b)
{
	if (b->ms == 0)
		answer(b);
	else
		uv_timer_start(&b->timer, on_timer, b->ms, 0);
}

struct observers *observers_new(uv_loop_t *loop, observe_cb *cb, void *ctx)
{
	struct observers *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->loop = loop;
	o->answer = cb;
	o->ctx = ctx;
	return o;
}

void observers_free(struct observers *o)
{
	if (!o)
		return;
	while (o->first)
		drop(o->first);
	free(o->spare);
	free(o);
}

int observers_reserve(struct observers *o)
{
	if (o->count >= OBSERVERS_MAX)
		return -EBUSY;
	if (!o->spare)
		o->spare = calloc(1, sizeof(*o->spare));
	return o->spare ? 0 : -ENOMEM;
}

void observe(struct observers *o, struct console *c, const struct ticket *ticket, bool reattached, uint32_t ms)
{
	struct observer *b = o->spare;

	o->spare = NULL;
	(void)uv_timer_init(o->loop, &b->timer); /* cannot fail */
	b->timer.data = b;
	b->all = o;
	b->what = (struct observed){ .console = c, .ticket = *ticket, .reattached = reattached };
	b->ms = ms;
	b->next = o->first;
	o->first = b;
	o->count++;
	if (!console_is_starting(c))
		watch(b);
}

void observers_started(struct observers *o, struct console *c)
{
	struct observer *next;

	for (struct observer *b = o->first; b; b = next) {
		next = b->next;
		if (b->what.console == c)
			watch(b);
	}
}

static void settle(struct observers *o, struct console *c, const struct failure *why)
{
	struct observer *next;

	for (struct observer *b = o->first; b; b = next) {
		next = b->next;
		if (b->what.console != c)
			continue;
		b->what.ended = true;
		b->what.failure = why;
		answer(b);
	}
}

void observers_failed(struct observers *o, struct console *c, const struct failure *why)
{
	settle(o, c, why);
}

void observers_ended(struct observers *o, struct console *c)
{
	settle(o, c, NULL);
}
