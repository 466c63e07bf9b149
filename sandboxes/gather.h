/*
 * gather.h - waits, for a moment, until sandboxes can say how they are, and goes on with what is known then.
 *
 * After a restart each sandbox is still being reached; an answer that did not wait would tell of consoles and daemons
 * that are not known yet. One that does not answer within GATHER_MS holds nobody up: it is described as it was last
 * heard of. No console daemon is started for this; one that was given up is tried once more.
 */
#ifndef SANDBOXES_GATHER_H
#define SANDBOXES_GATHER_H

#include <stdbool.h>
#include <stddef.h>

#include "sandboxes/control.h"
#include "sandboxes/sandbox.h"

#define GATHER_MS 2000

/* Consumes the request. all: borrowed, for the call. */
typedef void gathered_fn(struct request *r, struct sandbox *const *all, size_t n);

/* only: that sandbox, or NULL for all. refresh: each is also asked how its consoles are. */
void gather(struct request *r, struct sandbox *only, bool refresh, gathered_fn *done);

#endif
