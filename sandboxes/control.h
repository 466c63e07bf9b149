/*
 * control.h - the control socket: clients, their requests, and the answers.
 *
 * A request belongs to the handler that it was given to until it answers, exactly once: request_reply(), request_fail()
 * or request_ok() each consume it. A client that goes cancels nothing that has begun; its answers are dropped.
 *
 * Trust      The peer's uid is ours or root's. A client that breaks the protocol is told protocol_error and dropped,
 *            and only it.
 * Bounds     CONTROL_MAX_CLIENTS connections, CONTROL_MAX_OUTSTANDING requests each (then busy). Going out:
 *            CONTROL_QUEUE_BYTES in the connection, CONTROL_BACKLOG_BYTES behind it (lists that a slow client is still
 *            taking); past that it is dropped.
 */
#ifndef SANDBOXES_CONTROL_H
#define SANDBOXES_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "sandboxes/daemon.h"
#include "sandboxes/wait.h"
#include "wire/codes.h"
#include "wire/wire.h"

#define CONTROL_SOCKET          "control.sock"
#define CONTROL_MAX_CLIENTS     4096
#define CONTROL_MAX_OUTSTANDING 64
#define CONTROL_QUEUE_BYTES     ((size_t)1024 * 1024)
#define CONTROL_BACKLOG_BYTES   ((size_t)16 * 1024 * 1024)
#define CONTROL_REPLY_FDS       3
#define CONTROL_PART_BYTES      ((size_t)40 * 1024) /* a list's reply is sent when it holds this much */

struct control;
struct client;
struct sandbox;

struct request {
	struct daemon *daemon;
	struct client *client; /* a reference; it may have gone */
	Wire__ControlRequest *q;
	/* Where the route needs them, checked before the handler is called. */
	struct sandbox *sandbox; /* a reference */
	const char *console;     /* a valid name, q's */
	struct wait wait;        /* the handler's: it waits for one thing at a time */
	size_t part_bytes;       /* of the list that is being sent */
};

static inline struct request *request_of(struct wait *w)
{
	return (struct request *)((char *)w - offsetof(struct request, wait));
}

/* The descriptors stay the caller's. Fills id and more in. */
void request_reply(struct request *r, Wire__ControlReply *m, const int *fds, unsigned nfds);
void request_part(struct request *r, Wire__ControlReply *m); /* one of a list's replies, with more to come; r goes on */
void request_fail(struct request *r, enum result code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void request_ok(struct request *r);

/* Binds and listens in dirfd (borrowed until control_stop()). message: why not, for people. */
int control_open(struct daemon *d, int dirfd, struct control **out, char *message, unsigned size);
unsigned control_clients(const struct control *c);
/* Removes the socket: nobody new comes. Accepts NULL. */
void control_stop(struct control *c);
/* After it: drops the clients; the memory goes with the loop's next turns. Accepts NULL. */
void control_close(struct control *c);

#endif
