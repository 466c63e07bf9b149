/*
 * wait.h - somebody on the loop who waits for something to become settled, and is told once.
 *
 * Embedded in what waits; stays where it is until done() is called. A list keeps their order.
 */
#ifndef SANDBOXES_WAIT_H
#define SANDBOXES_WAIT_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/codes.h"

struct wait {
	struct wait *next;
	/* message: never NULL where code is not RESULT_OK; valid during the call. */
	void (*done)(struct wait *w, enum result code, const char *message);
	bool start; /* for sandbox_use(): the console daemon is to be started where it does not run */
};

struct wait_list {
	struct wait *first, **end; /* end is NULL in a zeroed list */
};

static inline void wait_add(struct wait_list *l, struct wait *w)
{
	if (!l->first)
		l->end = &l->first;
	w->next = NULL;
	*l->end = w;
	l->end = &w->next;
}

/* Tells all, and forgets them first: a callback may add to the list, and is not told by this call. */
static inline void wait_answer_all(struct wait_list *l, enum result code, const char *message)
{
	struct wait *w = l->first;

	l->first = NULL;
	while (w) {
		struct wait *next = w->next;
		w->done(w, code, message);
		w = next;
	}
}

#endif
