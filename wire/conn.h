/*
 * conn.h - one framed connection over a non-blocking stream socket: what came in, what waits to go out, descriptors.
 *
 * Knows no loop: the owner polls conn_fd() for reading, and for writing where conn_wants_write() says so. Used by both
 * daemons (through wire/uvconn.h) and, blocking with a deadline, by the client.
 *
 * Bounds     In: one frame. Out: `out_limit` bytes queued, given at creation; conn_send() past it is -ENOBUFS and
 *            queues nothing. Descriptors in flight: FRAME_MAX_FDS in each direction per frame; surplus ones are closed
 *            and are a protocol error. Descriptors nobody took are closed with the next frame.
 * Errors     A negative errno from any call means that the connection is of no more use: free it. Exceptions: -ENOBUFS,
 *            -EMSGSIZE, and -EMFILE from a send refuse one frame and change nothing, as does -ENOMEM where nothing of
 *            the frame was sent; -ENOMEM from conn_fill() has read nothing, and may be tried again; after -EPIPE what
 *            the peer sent before it went can still be read.
 */
#ifndef WIRE_CONN_H
#define WIRE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

struct conn;
typedef struct ProtobufCMessage ProtobufCMessage;

/* Takes fd over on success. out_limit: bytes. -ENOMEM. */
int conn_new(int fd, size_t out_limit, struct conn **out);
void conn_free(struct conn *c); /* closes its descriptors; accepts NULL */
int conn_fd(const struct conn *c);

/* Reads once from the socket. 1: there may be a frame to take; 0: nothing came (EAGAIN); -ECONNRESET: the peer has
 * gone (end of file too); -EPROTO; -EMFILE: no room for its descriptors; -ENOMEM: none for its frame. One call is one recvmsg(2), or none where a
 * whole frame is in hand already. */
int conn_fill(struct conn *c);

/* The next whole frame: 1 and *out (payload valid until the next conn_next() or conn_fill()), 0: none yet, -EPROTO. */
int conn_next(struct conn *c, struct frame *out);

/* Takes the descriptor number i of the frame that conn_next() gave last; -1: it had none. The caller's from then on. */
int conn_take_fd(struct conn *c, unsigned i);

/* Queues a frame, and tries to write at once when nothing is queued before it. fds (nfds ≤ FRAME_MAX_FDS) are
 * duplicated: the caller's stay the caller's. 0; -ENOBUFS: the queue is full (of bytes, or of 64 frames with
 * descriptors); -EMSGSIZE: over FRAME_MAX_PAYLOAD; -EPIPE. */
int conn_send(struct conn *c, enum frame_type type, uint16_t channel, const void *payload, size_t n, const int *fds,
        unsigned nfds);
int conn_send_u64(struct conn *c, enum frame_type type, uint64_t v);
int conn_send_message(struct conn *c, const ProtobufCMessage *m, const int *fds, unsigned nfds);

/* Writes what is queued, as far as the socket takes it. 0, or -errno. */
int conn_flush(struct conn *c);
bool conn_wants_write(const struct conn *c);
size_t conn_queued(const struct conn *c); /* bytes waiting to go out */

/* ---- For programs without a loop ---- */

/* Waits until a frame is there: 1 and *out; 0: `deadline_ms` (clock_mono_ms(); UINT64_MAX: none) has passed; -errno.
 * Flushes too. */
int conn_wait_frame(struct conn *c, uint64_t deadline_ms, struct frame *out);
/* Waits until everything queued is written. 0, -ETIMEDOUT, -errno. */
int conn_wait_flushed(struct conn *c, uint64_t deadline_ms);

#endif
