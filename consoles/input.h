/*
 * input.h - what waits to be written into one terminal, request after request.
 *
 * A request's bytes are contiguous: the next one begins when this one is done. It may come in several pieces (`more`),
 * and holds its place until the last one. Bytes go in as the program takes them, while its output goes on being read,
 * so that an echo never blocks a paste.
 *
 * A write first reads the terminal until it is empty (at most INPUT_DRAIN), samples the tail, then writes, with no read
 * in between: what its command prints comes at or after that offset, and nothing from before does. Keys skip that.
 *
 * Bounds     INPUT_QUEUE_MAX bytes wait per terminal; past it a request is refused, with nothing of it begun. One in
 * pieces is held back by input_may_continue() before it takes more than INPUT_PIECES_MAX, or any while it waits its
 * turn. Time       A request of which nothing was taken, and to which nothing was added, for its timeout ends; what was
 * taken is said. Lines      A piece with a line that a canonical terminal would cut (lines.h) ends its request before
 * the piece is begun. Only bytes of the request itself are counted.
 */
#ifndef CONSOLES_INPUT_H
#define CONSOLES_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "consoles/terminal.h"
#include "wire/codes.h"

#define INPUT_QUEUE_MAX  ((size_t)1024 * 1024)
#define INPUT_PIECES_MAX ((size_t)256 * 1024)
#define INPUT_DRAIN      ((size_t)64 * 1024)
#define INPUT_TIMEOUT_MS 10000
#define INPUT_RETRY_MS   100 /* between two tries at a terminal that takes nothing and may not tell when it does */

struct input;

struct input_result {
	enum result error;    /* RESULT_OK, or why it ended early: TIMEOUT, NOT_RUNNING, CANONICAL_LINE_LIMIT,
	                         RESOURCE_LIMIT */
	uint64_t tail_offset; /* sampled before the first byte went in */
	uint64_t written;
};

struct input_handler {
	/* The request is over. Also from inside input_begin() and input_continue(). It must not free the input. */
	void (*on_done)(void *ctx, uint64_t id, const struct input_result *r);
	/* A request in pieces may be continued. */
	void (*on_continue)(void *ctx);
};

struct input_request {
	const struct input_handler *handler;
	void *ctx; /* names the sender, together with id the request */
	uint64_t id;
	uint64_t timeout_ms; /* 0: INPUT_TIMEOUT_MS */
	bool raw_lines;
	bool keys; /* no drain, no tail: an attached person's typing. on_done is called for a failure alone */
};

int input_new(uv_loop_t *loop, struct terminal *terminal, struct ring *ring, struct input **out);

/* Takes a request and its first piece. RESULT_BUSY, RESULT_RESOURCE_LIMIT: nothing of it was begun, on_done is not
 * called. */
enum result input_begin(struct input *in, const struct input_request *q, const void *bytes, size_t n, bool more);

/* Adds to the request in pieces that ctx has under way; nothing when it has ended meanwhile. */
void input_continue(struct input *in, const void *ctx, const void *bytes, size_t n, bool more);
/* Whether the sender should be read from: false while its request in pieces has enough waiting. */
bool input_may_continue(const struct input *in, const void *ctx);

/* The sender is gone: the rest of what it asked for is dropped, on_done is not called. */
void input_abandon(struct input *in, const void *ctx);

/* Room in the terminal: goes on writing. */
void input_pump(struct input *in);

/* Ends every request with `error`, and the input. The terminal is not touched. Accepts NULL. */
void input_free(struct input *in, enum result error);

#endif
