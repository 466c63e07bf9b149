/*
 * observe.h - starts whose answer is still due: until the program runs, and then for as long as it is to be watched.
 *
 * A program that fails at once is so told as ended, with its status and what it printed, instead of as a success that
 * was none a moment later.
 */
#ifndef CONSOLES_OBSERVE_H
#define CONSOLES_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "consoles/console.h"
#include "consoles/owner.h"

#define OBSERVE_MAX_MS 600000 /* 10 minutes */
#define OBSERVERS_MAX  1024   /* answers due at a time */

struct observers;

/* One start's answer. ended: it was watched to its end, so that its output belongs to the answer. failure: NULL, or why
 * its program never ran. */
struct observed {
	struct console *console;
	struct ticket ticket;
	bool reattached, ended;
	const struct failure *failure;
};

typedef void observe_cb(const struct observed *o, void *ctx);

struct observers *observers_new(uv_loop_t *loop, observe_cb *answer, void *ctx); /* NULL: no memory */
void observers_free(struct observers *o); /* answers nobody any more; accepts NULL */

/* Makes sure that the next observe() has what it needs: asked before a program is started whose start could then not be
 * answered. 0, -EBUSY (too many are due), or -ENOMEM. */
int observers_reserve(struct observers *o);

/* Answers the ticket when c's program has run for `ms`, has ended, or could not be started; at once, before this
 * returns, where c runs already and ms is 0. Uses up what was reserved. */
void observe(struct observers *o, struct console *c, const struct ticket *ticket, bool reattached, uint32_t ms);

/* What has happened to a console. */
void observers_started(struct observers *o, struct console *c);
void observers_failed(struct observers *o, struct console *c, const struct failure *why);
void observers_ended(struct observers *o, struct console *c);

#endif
