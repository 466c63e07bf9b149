/* table.c - a list of entries in the order of their last start or end. At most CONSOLE_LIMIT_MAX + ENDED_MAX long. */
#include "consoles/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text.h"

struct entry {
	struct entry *next;
	struct table *table;
	struct console *console;
	struct console *earlier; /* the ended one, while `console` is starting */
};

struct table {
	const struct consoled *daemon;
	const struct table_handler *handler;
	void *ctx;
	struct entry *first, **last;
};

/* ---- The list ---- */

static void append(struct table *t, struct entry *e)
{
	e->next = NULL;
	*t->last = e;
	t->last = &e->next;
}

static void take_out(struct table *t, struct entry *e)
{
	struct entry **at = &t->first;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	if (t->last == &e->next)
		t->last = at;
}

static struct entry *find_entry(const struct table *t, const char *name)
{
	for (struct entry *e = t->first; e; e = e->next)
		if (strcmp(console_name(e->console), name) == 0)
			return e;
	return NULL;
}

static bool runs(const struct entry *e)
{
	return console_state(e->console) == CONSOLE_RUNNING;
}

struct console *table_find(struct table *t, const char *name)
{
	struct entry *e = find_entry(t, name);

	return e ? e->console : NULL;
}

void table_each(struct table *t, void (*each)(struct console *c, void *ctx), void *ctx)
{
	struct entry *next;

	for (struct entry *e = t->first; e; e = next) {
		next = e->next;
		each(e->console, ctx);
	}
}

unsigned table_running(const struct table *t)
{
	unsigned n = 0;

	for (const struct entry *e = t->first; e; e = e->next)
		n += runs(e);
	return n;
}

/* ---- What happens to consoles ---- */

static void drop_oldest_ended(struct table *t)
{
	struct entry *oldest = NULL;
	unsigned ended = 0;

	for (struct entry *e = t->first; e; e = e->next) {
		if (runs(e))
			continue;
		if (ended++ == 0)
			oldest = e;
	}
	if (ended <= ENDED_MAX)
		return;
	take_out(t, oldest);
	t->handler->on_dropped(oldest->console, t->ctx);
	console_free(oldest->console);
	free(oldest);
}

static void on_started(struct console *c, void *ctx)
{
	struct entry *e = ctx;

	console_free(e->earlier);
	e->earlier = NULL;
	e->table->handler->on_started(c, e->table->ctx);
}

static void on_failed(struct console *c, const struct failure *why, void *ctx)
{
	struct entry *e = ctx;
	struct table *t = e->table;

	if (e->earlier) {
		e->console = e->earlier;
		e->earlier = NULL;
	} else {
		take_out(t, e);
		free(e);
	}
	t->handler->on_failed(c, why, t->ctx);
	console_free(c);
}

static void on_ended(struct console *c, void *ctx)
{
	struct entry *e = ctx;
	struct table *t = e->table;

	take_out(t, e);
	append(t, e);
	t->handler->on_ended(c, t->ctx);
	drop_oldest_ended(t);
}

static void on_changed(struct console *c, void *ctx)
{
	struct entry *e = ctx;

	e->table->handler->on_changed(c, e->table->ctx);
}

static const struct console_handler console_handler = {
	.on_started = on_started,
	.on_failed = on_failed,
	.on_ended = on_ended,
	.on_changed = on_changed,
};

/* ---- Start ---- */

/* "8 of 8 consoles are running: a (idle 3s), …; close one or raise the sandbox's limit", cut where it gets too long. */
static int refuse_over_limit(struct table *t, unsigned running, struct failure *why)
{
	char list[FAILURE_BYTES - 128];
	size_t used = 0;

	list[0] = '\0';
	for (struct entry *e = t->first; e; e = e->next) {
		const struct console_facts *f;
		int n;

		if (!runs(e))
			continue;
		f = console_facts(e->console);
		n = snprintf(list + used, sizeof(list) - used, "%s%s (idle %" PRIu64 "s)", used ? ", " : "", f->name,
		        f->idle_ms / 1000);
		if (n < 0 || (size_t)n >= sizeof(list) - used - sizeof(", …")) {
			strcpy(list + used, ", …");
			break;
		}
		used += (size_t)n;
	}
	return failure_set(why, RESULT_CONSOLE_LIMIT,
	        "%u of %u consoles are running: %s; close one or raise the sandbox's limit", running,
	        t->daemon->console_limit, list);
}

static int check(struct table *t, const Wire__ConsoleSpec *spec, struct failure *why)
{
	unsigned running = table_running(t);
	char shown[128];

	if (!name_valid(spec->name)) {
		text_escape(shown, sizeof(shown), spec->name, strlen(spec->name));
		return failure_set(why, RESULT_INVALID_ARGUMENT,
		        "'%s' is not a console's name: 1 to 64 of A-Z a-z 0-9 . _ -, not starting with . or -", shown);
	}
	return running >= t->daemon->console_limit ? refuse_over_limit(t, running, why) : 0;
}

enum table_start table_start(struct table *t, const Wire__ConsoleSpec *spec, struct console **out, struct failure *why)
{
	struct entry *e = find_entry(t, spec->name);
	struct entry *fresh = NULL;
	struct console *c;

	if (e && runs(e)) {
		*out = e->console;
		return TABLE_WAS_RUNNING;
	}
	if (check(t, spec, why) < 0)
		return TABLE_REFUSED;
	if (!e) {
		e = fresh = calloc(1, sizeof(*fresh));
		if (!e) {
			failure_set(why, RESULT_RESOURCE_LIMIT, "out of memory");
			return TABLE_REFUSED;
		}
		e->table = t;
	}
	if (console_new(t->daemon, spec, e->console, &console_handler, e, &c, why) < 0) {
		free(fresh);
		return TABLE_REFUSED;
	}
	e->earlier = e->console;
	e->console = c;
	if (!fresh)
		take_out(t, e);
	append(t, e);
	*out = c;
	return TABLE_STARTED;
}

/* ---- Life ---- */

struct table *table_new(const struct consoled *d, const struct table_handler *handler, void *ctx)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->daemon = d;
	t->handler = handler;
	t->ctx = ctx;
	t->last = &t->first;
	return t;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	while (t->first) {
		struct entry *e = t->first;

		take_out(t, e);
		console_free(e->earlier);
		console_free(e->console);
		free(e);
	}
	free(t);
}
