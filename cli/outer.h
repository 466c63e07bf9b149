/*
 * outer.h - the terminal (or pipe) that an attached person sits at: raw mode, size, output that never blocks the loop.
 *
 * Whatever is changed here is put back by outer_restore(), which may be called at any time and any number of times.
 */
#ifndef CLI_OUTER_H
#define CLI_OUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

struct outer {
	int in;       /* standard input */
	int out;      /* standard output, or the same file opened again so that it can be non-blocking */
	bool own_out; /* close it */
	bool in_is_tty, out_is_tty;
	bool raw;
	struct termios before;
};

void outer_open(struct outer *o);
void outer_close(struct outer *o); /* restores too */

/* Keys as they are pressed. No-op where standard input is no terminal. 0 or -errno. */
int outer_raw(struct outer *o);
void outer_restore(struct outer *o);

/* false: there is no terminal. Clamped to what a console may have. */
bool outer_size(const struct outer *o, uint32_t *cols, uint32_t *rows);

/* Bytes that were written; 0: none now; -errno. */
long outer_write(const struct outer *o, const void *bytes, size_t n);
/* Writes all of it, waiting for at most ms for a terminal that takes nothing. */
void outer_write_within(const struct outer *o, const void *bytes, size_t n, int ms);

#endif
