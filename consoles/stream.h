/*
 * stream.h - one brokered connection to a console: wake-ups for a reader of the ring, keys, writes, sizes, the end.
 *
 * The rights belong to the connection and were decided by who handed it over. What the peer sends is checked; a peer
 * that breaks the protocol is told and dropped, one without a right is told and stays. When the console ends, the
 * stream says so after the last byte is in the ring, and stays until the peer leaves.
 *
 * Bounds     STREAM_QUEUE bytes of answers wait for the peer; one that lets more gather is dropped. STREAMS_MAX
 * streams. While a write in pieces waits for the program, its connection is not read.
 */
#ifndef CONSOLES_STREAM_H
#define CONSOLES_STREAM_H

#include <stdbool.h>

#include "consoles/console.h"

#define STREAM_QUEUE ((size_t)256 * 1024)
#define STREAMS_MAX  4096

struct stream_rights {
	bool write, resize;
	bool attach; /* a person's terminal: keeps the console from being idle, takes part in its size */
};

/* Serves sock (taken over on success) for c; one that has ended already is told so at once. 0, -EMFILE (STREAMS_MAX),
 * -ENOMEM. */
int stream_open(uv_loop_t *loop, int sock, struct console *c, const struct stream_rights *rights);

/* Closes all of them, after writing what can be written. For the daemon's own end. */
void streams_close_all(void);

#endif
