/*
 * table.h - the consoles of this daemon by name: who runs, who has ended, how many there may be.
 *
 * A name has one entry: its running console, or else the last one that ended. A new incarnation takes the entry over
 * when its program runs; where that fails, the ended one is back as if nothing had been.
 *
 * Bounds     At most the daemon's console_limit run. ENDED_MAX ended ones are kept, the longest-ended is dropped first.
 */
#ifndef CONSOLES_TABLE_H
#define CONSOLES_TABLE_H

#include "consoles/console.h"

struct table;

/* As console_handler; on_failed's console is freed after it, on_dropped's too. */
struct table_handler {
	void (*on_started)(struct console *c, void *ctx);
	void (*on_failed)(struct console *c, const struct failure *why, void *ctx);
	void (*on_ended)(struct console *c, void *ctx);
	void (*on_changed)(struct console *c, void *ctx);
	void (*on_dropped)(struct console *c, void *ctx);
};

enum table_start { TABLE_STARTED, TABLE_WAS_RUNNING, TABLE_REFUSED };

struct table *table_new(const struct consoled *d, const struct table_handler *handler, void *ctx); /* NULL: no memory */
void table_free(struct table *t); /* ends no process; accepts NULL */

/* The console of spec's name: started now, or running already. TABLE_REFUSED: *why. */
enum table_start table_start(struct table *t, const Wire__ConsoleSpec *spec, struct console **out, struct failure *why);

struct console *table_find(struct table *t, const char *name); /* NULL: no such console */

/* Calls each for every console, oldest first. It may end consoles; it may not start any. */
void table_each(struct table *t, void (*each)(struct console *c, void *ctx), void *ctx);
unsigned table_running(const struct table *t);

#endif
