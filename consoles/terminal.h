/*
 * terminal.h - the daemon's end of one pty on the loop: read straight into a ring, written as far as it takes bytes.
 *
 * Reading    One readiness event is one read(2) of up to RING_SLACK bytes, in a flood a few (pacing.h), so that one
 *            flooding console does not hold up another's keys. Bytes are published before anyone hears of them; of a
 *            flood one hears a few ms later, or when a quarter of the ring has come.
 * Writing    Never waits. Whoever has more to write asks for room, and is called when there is some.
 * Dead ends  A pty whose slave nobody has open is left to dormant.h until something happens there.
 * Ownership  The master is the terminal's, the ring is the caller's and must outlive it.
 */
#ifndef CONSOLES_TERMINAL_H
#define CONSOLES_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "ring/ring.h"

struct terminal;

struct terminal_handler {
	void (*on_output)(void *ctx); /* the ring's tail has moved, since a few ms at most */
	void (*on_room)(void *ctx);   /* the terminal may take bytes again */
};

/* Takes master (non-blocking) over on success. Reads nothing before terminal_listen(). 0 or -errno. */
int terminal_new(uv_loop_t *loop, int master, struct ring *ring, const struct terminal_handler *handler, void *ctx,
        struct terminal **out);
void terminal_listen(struct terminal *t);

/* Reads until the terminal is empty, has nobody at its other end, or has given `most` bytes or a little more. */
void terminal_drain(struct terminal *t, size_t most);

/* Bytes taken (0: full now), or -EIO: nobody has the other end open. Reads nothing. */
ssize_t terminal_write(struct terminal *t, const void *bytes, size_t n);
/* What was written is a key, and somebody waits to see what becomes of it: other terminals' floods wait with him. */
void terminal_typed(struct terminal *t);
void terminal_want_room(struct terminal *t, bool wanted);

int terminal_master(const struct terminal *t);

/* Closes the master; no callback comes any more. May be called from a callback. Accepts NULL. */
void terminal_close(struct terminal *t);

#endif
