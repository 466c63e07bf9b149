/* server.c - routes, events, and the parts they stand on. */
#include "consoles/server.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "consoles/requests.h"
#include "consoles/stream.h"
#include "wire/text.h"

#define CHANGES_QUEUED ((size_t)64 * 1024) /* an owner with more than this to read is not told of sizes */
#define SHOWN_NAME     128

/* ---- Events ---- */

static void send_event(struct server *s, Wire__ConsoleEvent__Kind kind, struct console *c, bool with_fds)
{
	Wire__ConsoleEvent e = WIRE__CONSOLE_EVENT__INIT;
	struct info_message m;
	int fds[2];
	unsigned nfds = with_fds ? scrollback_fds(console_scrollback(c), fds) : 0;

	info_fill(&m, console_facts(c));
	e.kind = kind;
	e.console = &m.info;
	owner_event(s->owner, &e, fds, nfds);
}

static void on_started(struct console *c, void *ctx)
{
	struct server *s = ctx;

	send_event(s, WIRE__CONSOLE_EVENT__KIND__STARTED, c, true);
	observers_started(s->observers, c);
}

static void on_failed(struct console *c, const struct failure *why, void *ctx)
{
	struct server *s = ctx;

	observers_failed(s->observers, c, why);
}

static void on_ended(struct console *c, void *ctx)
{
	struct server *s = ctx;

	send_event(s, WIRE__CONSOLE_EVENT__KIND__EXITED, c, false);
	observers_ended(s->observers, c);
}

static void on_changed(struct console *c, void *ctx)
{
	struct server *s = ctx;

	if (owner_queued(s->owner) < CHANGES_QUEUED)
		send_event(s, WIRE__CONSOLE_EVENT__KIND__CHANGED, c, false);
}

static void on_dropped(struct console *c, void *ctx)
{
	send_event(ctx, WIRE__CONSOLE_EVENT__KIND__DROPPED, c, false);
}

static const struct table_handler table_handler = {
	.on_started = on_started,
	.on_failed = on_failed,
	.on_ended = on_ended,
	.on_changed = on_changed,
	.on_dropped = on_dropped,
};

/* ---- Routes ---- */

enum need {
	NEEDS_CONSOLE = 1, /* its name is one of the table's */
	NEEDS_FUTURE = 2,  /* refused once the daemon is to end */
};

/* Where a request names its console. */
static const char *name_of(const Wire__ConsoledRequest *q)
{
	switch (q->body_case) {
	case WIRE__CONSOLED_REQUEST__BODY_OPEN:
		return q->open->name;
	case WIRE__CONSOLED_REQUEST__BODY_SIGNAL:
		return q->signal->name;
	case WIRE__CONSOLED_REQUEST__BODY_RESIZE:
		return q->resize->name;
	case WIRE__CONSOLED_REQUEST__BODY_CLOSE:
		return q->close->name;
	case WIRE__CONSOLED_REQUEST__BODY_TAKE:
		return q->take->name;
	case WIRE__CONSOLED_REQUEST__BODY_KEPT:
		return q->kept->name;
	default:
		return "";
	}
}

static const struct route {
	unsigned needs;
	void (*handle)(struct server *s, const struct request *q);
} ROUTES[] = {
	[WIRE__CONSOLED_REQUEST__BODY_HELLO] = { 0, on_hello },
	[WIRE__CONSOLED_REQUEST__BODY_START] = { NEEDS_FUTURE, on_start },
	[WIRE__CONSOLED_REQUEST__BODY_LIST] = { 0, on_list },
	[WIRE__CONSOLED_REQUEST__BODY_OPEN] = { NEEDS_CONSOLE, on_open },
	[WIRE__CONSOLED_REQUEST__BODY_SIGNAL] = { NEEDS_CONSOLE, on_signal },
	[WIRE__CONSOLED_REQUEST__BODY_RESIZE] = { NEEDS_CONSOLE, on_resize },
	[WIRE__CONSOLED_REQUEST__BODY_CLOSE] = { NEEDS_CONSOLE, on_close },
	[WIRE__CONSOLED_REQUEST__BODY_EXEC] = { NEEDS_FUTURE, on_exec },
	[WIRE__CONSOLED_REQUEST__BODY_TAKE] = { NEEDS_CONSOLE, on_take },
	[WIRE__CONSOLED_REQUEST__BODY_KEPT] = { 0, on_kept },
	[WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN] = { 0, on_shutdown },
};

static void on_request(const Wire__ConsoledRequest *message, const struct ticket *ticket, void *ctx)
{
	struct server *s = ctx;
	size_t which = (size_t)message->body_case;
	const struct route *route = which < sizeof(ROUTES) / sizeof(ROUTES[0]) ? &ROUTES[which] : NULL;
	struct request q = { .message = message, .ticket = *ticket };
	const char *name = name_of(message);
	char shown[SHOWN_NAME];

	if (!route || !route->handle) {
		owner_refuse(s->owner, ticket, RESULT_NOT_SUPPORTED, "this console daemon does not know the request");
		return;
	}
	q.console = table_find(s->table, name);
	if ((route->needs & NEEDS_CONSOLE) && !q.console) {
		text_escape(shown, sizeof(shown), name, strlen(name));
		owner_refuse(s->owner, ticket, RESULT_NOT_FOUND, "no console '%s'", shown);
	} else if ((route->needs & NEEDS_FUTURE) && s->ending) {
		owner_refuse(s->owner, ticket, RESULT_NOT_RUNNING, "the sandbox's console daemon is ending");
	} else {
		route->handle(s, &q);
	}
}

/* ---- Life ---- */

int server_init(struct server *s, struct consoled *d, int listen_fd)
{
	int err;

	*s = (struct server){ .daemon = d };
	if (getrandom(s->instance, sizeof(s->instance), GRND_NONBLOCK) != sizeof(s->instance))
		return -EIO;
	s->table = table_new(d, &table_handler, s);
	s->observers = observers_new(d->loop, answer_start, s);
	err = s->table && s->observers ? owner_new(d->loop, listen_fd, d->options.sandbox, on_request, s, &s->owner)
	                               : -ENOMEM;
	if (err < 0)
		server_release(s);
	return err;
}

void server_release(struct server *s)
{
	streams_close_all();
	owner_free(s->owner);
	observers_free(s->observers);
	table_free(s->table);
	*s = (struct server){ 0 };
}
