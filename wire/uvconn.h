/*
 * uvconn.h - a conn on a libuv loop, for the daemons. Frames arrive by callback; back-pressure by uvconn_pause().
 *
 * What the peer sent before it went is handed over first, then on_gone() is called; so -EPIPE from a send may be
 * ignored. Where there is no memory for a frame that comes in, the peer waits until there is. A callback never frees its
 * connection: uvconn_close() marks, no callback comes after it, and the memory goes when libuv has closed the handle.
 */
#ifndef WIRE_UVCONN_H
#define WIRE_UVCONN_H

#include <uv.h>

#include "wire/conn.h"

struct uvconn;

struct uvconn_handler {
	/* One frame. It may take descriptors (conn_take_fd), send, pause or close. At most 16 frames are handed over
	 * per readiness event, so that one busy peer does not hold the loop. */
	void (*on_frame)(struct uvconn *u, const struct frame *f, void *ctx);
	/* The peer has gone or broke the protocol (-EPROTO). Called once, not after uvconn_close(). Close it here. */
	void (*on_gone)(struct uvconn *u, int err, void *ctx);
	/* The queue has run empty after it was not. May be NULL. */
	void (*on_drained)(struct uvconn *u, void *ctx);
};

/* Takes fd over on success. handler and ctx must outlive the connection. */
int uvconn_new(uv_loop_t *loop, int fd, size_t out_limit, const struct uvconn_handler *handler, void *ctx,
        struct uvconn **out);
struct conn *uvconn_conn(struct uvconn *u); /* for conn_send() and conn_take_fd(); then call uvconn_sent() */
/* After sending by conn_send(): begins to poll for writability where something is left. The uvconn_send… below do it.
 */
void uvconn_sent(struct uvconn *u);
int uvconn_send(struct uvconn *u, enum frame_type type, uint16_t channel, const void *payload, size_t n);
int uvconn_send_message(struct uvconn *u, const ProtobufCMessage *m, const int *fds, unsigned nfds);
int uvconn_send_u64(struct uvconn *u, enum frame_type type, uint64_t v);
/* Stops reading: the peer is left waiting, and frames in hand wait too. A hang-up is told all the same, at once; frames
 * that were not taken are lost then. */
void uvconn_pause(struct uvconn *u, bool paused);
/* Flushes what it can, then closes. Accepts NULL; a second call does nothing. */
void uvconn_close(struct uvconn *u);

#endif
