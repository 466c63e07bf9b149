/*
 * uvconn.c - a conn on a libuv loop.
 *
 * Three handles: a poll handle says when the socket is ready; an idle handle runs while frames are in hand that may be
 * handed over and were not yet (more than one event's share, or after a pause), so that the loop comes back to them
 * without the socket having to say anything; a timer runs where there was no memory to read with: the peer is left
 * waiting as by a pause, and the socket is tried again. To poll for something else costs two system calls, so the wanted events
 * are compared first and changed only when a batch is over.
 *
 * What the peer sent before it went is handed over before on_gone(). So a failed write tells nobody: the output is
 * dropped and reading goes on until it fails too. The exception is a paused connection, whose owner must hear of a
 * hang-up at once; what it did not take is lost then.
 */
#include "wire/uvconn.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define FRAMES_PER_EVENT 16
#define STARVED_MS       50 /* between two attempts to read with no memory for it */

struct uvconn {
	uv_poll_t poll;
	uv_idle_t idle;
	uv_timer_t again;
	unsigned handles; /* not yet closed by libuv; the memory goes with the last */
	struct conn *conn;
	const struct uvconn_handler *handler;
	void *ctx;
	int events;    /* what the poll handle is started for */
	bool paused;   /* by the owner */
	bool starved;  /* no memory for the next frame: read again when the timer says so */
	bool in_hand;  /* frames may be in the buffer that were not handed over */
	bool failed;   /* the socket reported an error: libuv polls no more, what it still has is read from the idle
	                  handle */
	bool draining; /* something was queued; on_drained() is owed */
	bool gone;     /* on_gone() was called */
	bool closed;
	bool busy; /* inside a callback of libuv: events are brought up to date at its end */
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void on_handle_closed(uv_handle_t *h)
{
	struct uvconn *u = h->data;

	if (--u->handles > 0)
		return;
	conn_free(u->conn);
	free(u);
}

static void close_handles(struct uvconn *u)
{
	uv_close((uv_handle_t *)&u->poll, on_handle_closed);
	uv_close((uv_handle_t *)&u->idle, on_handle_closed);
	uv_close((uv_handle_t *)&u->again, on_handle_closed);
}

static int wanted_events(const struct uvconn *u)
{
	if (u->gone || u->failed)
		return 0;
	/* A hang-up while it is starved is found by the next attempt to read. */
	return (u->starved         ? 0
	               : u->paused ? UV_DISCONNECT
	                           : UV_READABLE) |
	       (conn_wants_write(u->conn) ? UV_WRITABLE : 0);
}

static void on_idle(uv_idle_t *idle);

/* Brings both handles to what the state asks for. */
static void update(struct uvconn *u)
{
	int events;

	if (u->busy || u->closed)
		return;
	events = wanted_events(u);
	if (events != u->events) {
		u->events = events;
		if (events == 0)
			(void)uv_poll_stop(&u->poll);
		else
			(void)uv_poll_start(&u->poll, events, on_poll); /* fails for a closing handle alone */
	}
	if (!u->gone && !u->paused && !u->starved && (u->in_hand || u->failed))
		(void)uv_idle_start(&u->idle, on_idle);
	else
		(void)uv_idle_stop(&u->idle);
}

static void tell_gone(struct uvconn *u, int err)
{
	if (u->gone || u->closed)
		return;
	u->gone = true;
	u->handler->on_gone(u, err, u->ctx);
}

/* Hands over one share of the frames in hand. */
static void deliver(struct uvconn *u)
{
	u->in_hand = true;
	for (unsigned n = 0; n < FRAMES_PER_EVENT && !u->paused && !u->closed; n++) {
		struct frame f;
		int r = conn_next(u->conn, &f);

		if (r <= 0) {
			u->in_hand = false;
			if (r < 0)
				tell_gone(u, r);
			return;
		}
		u->handler->on_frame(u, &f, u->ctx);
	}
}

static void on_again(uv_timer_t *again);

static void read_and_deliver(struct uvconn *u)
{
	int r = conn_fill(u->conn);

	if (r == -ENOMEM) {
		u->starved = true;
		uv_timer_start(&u->again, on_again, STARVED_MS, 0);
	} else if (r < 0) {
		tell_gone(u, r);
	} else if (r > 0) {
		deliver(u);
	} else if (u->failed) { /* an error was reported, and the socket has nothing more */
		tell_gone(u, -ECONNRESET);
	}
}

static void flush(struct uvconn *u)
{
	/* A failure drops the queue. Reading will fail too, after the last frames. */
	if (conn_flush(u->conn) < 0 || !u->draining || conn_wants_write(u->conn))
		return;
	u->draining = false;
	if (u->handler->on_drained != NULL)
		u->handler->on_drained(u, u->ctx);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct uvconn *u = poll->data;

	u->busy = true;
	if (status < 0) { /* EPOLLERR; libuv has stopped the handle */
		u->failed = true;
		u->events = 0;
	}
	if (events & UV_WRITABLE)
		flush(u);
	if (u->paused && !u->closed && (u->failed || (events & UV_DISCONNECT)))
		tell_gone(u, -ECONNRESET);
	/* With frames in hand the idle handle is at work, and the socket waits: that is the back-pressure. */
	if ((events & UV_READABLE) && !u->paused && !u->starved && !u->in_hand && !u->closed)
		read_and_deliver(u);
	u->busy = false;
	update(u);
}

static void on_idle(uv_idle_t *idle)
{
	struct uvconn *u = idle->data;

	u->busy = true;
	if (u->in_hand)
		deliver(u);
	else if (u->failed)
		read_and_deliver(u);
	u->busy = false;
	update(u);
}

static void on_again(uv_timer_t *again)
{
	struct uvconn *u = again->data;

	u->busy = true;
	u->starved = false;
	if (!u->paused && !u->in_hand && !u->gone)
		read_and_deliver(u);
	u->busy = false;
	update(u);
}

int uvconn_new(
        uv_loop_t *loop, int fd, size_t out_limit, const struct uvconn_handler *handler, void *ctx, struct uvconn **out)
{
	struct uvconn *u = calloc(1, sizeof(*u));
	int r;

	if (u == NULL)
		return -ENOMEM;
	r = uv_poll_init(loop, &u->poll, fd); /* libuv's codes are negative errnos here */
	if (r < 0) {
		free(u);
		return r;
	}
	(void)uv_idle_init(loop, &u->idle); /* cannot fail, nor can the timer's */
	(void)uv_timer_init(loop, &u->again);
	u->poll.data = u->idle.data = u->again.data = u;
	u->handles = 3;
	u->handler = handler;
	u->ctx = ctx;
	r = conn_new(fd, out_limit, &u->conn);
	if (r < 0) {
		u->closed = true;
		close_handles(u);
		return r;
	}
	update(u);
	*out = u;
	return 0;
}

struct conn *uvconn_conn(struct uvconn *u)
{
	return u->conn;
}

void uvconn_sent(struct uvconn *u)
{
	if (conn_wants_write(u->conn))
		u->draining = true;
	update(u);
}

int uvconn_send(struct uvconn *u, enum frame_type type, uint16_t channel, const void *payload, size_t n)
{
	int r = u->closed ? -EPIPE : conn_send(u->conn, type, channel, payload, n, NULL, 0);

	uvconn_sent(u);
	return r;
}

int uvconn_send_message(struct uvconn *u, const ProtobufCMessage *m, const int *fds, unsigned nfds)
{
	int r = u->closed ? -EPIPE : conn_send_message(u->conn, m, fds, nfds);

	uvconn_sent(u);
	return r;
}

int uvconn_send_u64(struct uvconn *u, enum frame_type type, uint64_t v)
{
	int r = u->closed ? -EPIPE : conn_send_u64(u->conn, type, v);

	uvconn_sent(u);
	return r;
}

void uvconn_pause(struct uvconn *u, bool paused)
{
	u->paused = paused;
	update(u);
}

void uvconn_close(struct uvconn *u)
{
	if (u == NULL || u->closed)
		return;
	(void)conn_flush(u->conn);
	u->closed = true;
	close_handles(u);
}
