/*
 * keeping.h - brings consoles to disk and back: custody's files and the ledger's rows, by jobs on the sandbox's disk
 * lane.
 *
 * One save of a console is in hand at a time; what is asked for meanwhile is done after it, once. The file is durable
 * before the row that speaks of it, and both before the console daemon is told that an ended console is kept.
 */
#ifndef SANDBOXES_KEEPING_H
#define SANDBOXES_KEEPING_H

#include "sandboxes/console.h"
#include "sandboxes/custody.h"

/* Asks for it; never waits. */
void keep_console(struct console *c, enum keep_what what);
/* done when the ledger has this incarnation (or could not take it, which is logged and RESULT_OK all the same). */
void keep_when_recorded(struct console *c, struct wait *w);
#define KEEP_MAX_ASKS 8 /* for memory that a console daemon does not hand over */

/* Saves all live rings that have changed, and what a save failed for; asks for memory that should have come, and
 * tells what was kept where that has not been heard. */
void keep_changed(struct sandbox *s);
/* Removes the file; the row stays as the memory of where the name goes on, or goes too. */
void keep_drop(struct console *c, bool row_too);

/* An ended console's output out of custody. Sets *entry and both descriptors (the callee's to take) where err is 0. */
struct kept_output {
	int err;
	struct custody_entry entry;
	int fds[2];
};
typedef void keep_read_fn(struct kept_output *k, void *ctx);
int keep_read(struct sandbox *s, const char *name, keep_read_fn *done, void *ctx);

#endif
