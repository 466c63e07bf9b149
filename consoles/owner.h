/*
 * owner.h - the one connection that gives orders: accepted, replaced by a newer one, answered request by request.
 *
 * Whoever connects to the daemon's socket with its own uid, or as root, is the owner; a newer connection replaces the
 * older, since a control daemon that was restarted must not wait for what is left of its predecessor. Without an owner
 * the daemon goes on as it is.
 *
 * A request is answered by its ticket, now or later. An answer to a connection that is gone is dropped.
 *
 * Bounds     OWNER_QUEUE bytes of answers wait; an owner that lets more gather is dropped, and finds everything again
 * with its next connection. One that breaks the protocol is told and dropped. Nothing else is touched by either.
 */
#ifndef CONSOLES_OWNER_H
#define CONSOLES_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "wire/codes.h"
#include "wire/wire.h"

#define OWNER_QUEUE \
	((size_t)4 * 1024 * 1024) /* holds a list of every console there can be, each with its longest info */

struct owner;

struct ticket {
	uint64_t connection; /* which of all that there were */
	uint64_t id;         /* of the request */
};

/* One request. Descriptors that came with it are for owner_take_fd() during this call. */
typedef void owner_cb(const Wire__ConsoledRequest *q, const struct ticket *ticket, void *ctx);

/* listen_fd: listens already; taken over on success. 0 or -errno. */
int owner_new(uv_loop_t *loop, int listen_fd, const char *sandbox, owner_cb *on_request, void *ctx, struct owner **out);

/* Closes connection and socket, after writing what can be written. No callback comes any more. */
void owner_free(struct owner *o);

/* Until this is called, everything but a hello breaks the protocol. */
void owner_welcome(struct owner *o);

/* The i-th descriptor of the request in hand, the caller's from then on; -1: there is none. */
int owner_take_fd(struct owner *o, unsigned i);

/* r's id is set here. fds stay the caller's. */
void owner_reply(struct owner *o, const struct ticket *t, Wire__ConsoledReply *r, const int *fds, unsigned nfds);
void owner_refuse(struct owner *o, const struct ticket *t, enum result code, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
void owner_done(struct owner *o, const struct ticket *t);
void owner_event(struct owner *o, Wire__ConsoleEvent *e, const int *fds, unsigned nfds);

/* Bytes of answers that the owner has not taken. */
size_t owner_queued(const struct owner *o);

#endif
