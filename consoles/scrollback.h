/*
 * scrollback.h - what a console has printed and the marks beside it: two rings that readers map, from one incarnation
 * to the next.
 */
#ifndef CONSOLES_SCROLLBACK_H
#define CONSOLES_SCROLLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/ring.h"

/* All zero: none yet. */
struct scrollback {
	struct ring *ring, *marks;
	uint64_t start; /* where this incarnation's output begins */
	bool gap;       /* what came before it was lost with its host */
};

/*
 * Makes both rings. They go on where the earlier incarnation's end (NULL: there is none), with what those retain; from
 * start_offset on where that is later, since custody then knows of more than this daemon does. 0 or -errno; either way
 * *out is for scrollback_release().
 */
int scrollback_init(struct scrollback *out, const char *name, size_t capacity, uint64_t start_offset,
        const struct scrollback *earlier);
void scrollback_release(struct scrollback *s);

/* Descriptors of ring and marks: 2, or 0 after scrollback_close_fds(). */
unsigned scrollback_fds(const struct scrollback *s, int out[2]);
void scrollback_close_fds(struct scrollback *s);

/* The newest bytes that this incarnation printed, at most max. Returns their number. */
size_t scrollback_newest(const struct scrollback *s, void *buf, size_t max);

#endif
