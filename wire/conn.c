/*
 * conn.c - one framed connection over a stream socket.
 *
 * In      One buffer, small at first: a thousand idle connections must not cost a frame each. It grows to the frame
 *         that has begun, or faster where the socket had more than there was room for, and shrinks after a while of
 *         small reads. It never holds more than one read past a partial frame, so a frame's size is its bound. The
 *         small one is part of the connection: where memory is short, most messages still come in.
 * Out     Nothing, as long as the socket takes what is sent. What it does not take is copied to one buffer of its own,
 *         which goes when it has run empty.
 * Fds     Ride on the first byte of their frame. The kernel ends a read behind bytes that carried some, so a read
 *         brings one set at most, whose frame starts in that same read.
 *
 * Each call passes MSG_DONTWAIT: O_NONBLOCK belongs to the open file, and a stream's end is handed to another process.
 */
#include "wire/conn.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "wire/clock.h"
#include "wire/fd.h"

#define IN_SMALL       ((size_t)1024)                             /* first buffer; most messages are far below */
#define IN_LARGE       ((size_t)FRAME_HEADER + FRAME_MAX_PAYLOAD) /* the largest frame */
#define IN_GROWTH      8 /* 1 KiB → 8 KiB → 64 KiB: a flood is at full size after two reads */
#define IN_QUIET       8 /* small reads in a row after which a large buffer goes */
#define OUT_SMALL      ((size_t)4096)
#define OUT_MAX_RIDERS 64 /* queued frames with descriptors: those are ours until they are sent */

/* Descriptors that wait to go out with the byte at `pos`. */
struct rider {
	struct rider *next;
	uint64_t pos; /* in the stream of bytes sent */
	unsigned n;
	int fds[FRAME_MAX_FDS];
};

struct conn {
	int fd;
	bool out_dead; /* the peer does not take any more; what it sent before can still be read */

	uint8_t *in; /* `small`, or on the heap; [in_start, in_end) is there */
	size_t in_cap, in_start, in_end;
	size_t in_hint;  /* capacity that the next read should find */
	size_t in_given; /* bytes of the frame that the owner has now, at in_start */
	unsigned in_quiet;

	int fds_in[2 * FRAME_MAX_FDS]; /* of the frame that has begun, and of one that came with its end */
	unsigned nfds_in;
	int fds_given[FRAME_MAX_FDS]; /* of the frame that the owner has now; -1 where taken */
	unsigned nfds_given;

	uint8_t *out; /* NULL when nothing is queued; [out_start, out_end) is */
	size_t out_cap, out_start, out_end;
	size_t out_limit;
	uint64_t out_pos; /* of out_start in the stream of bytes sent */
	struct rider *riders, **riders_end;
	unsigned nriders;
	uint8_t small[IN_SMALL];
};

static void close_all(int *fds, unsigned *n)
{
	for (unsigned i = 0; i < *n; i++)
		fd_close(&fds[i]);
	*n = 0;
}

int conn_new(int fd, size_t out_limit, struct conn **out)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	c->fd = fd;
	c->out_limit = out_limit;
	c->in = c->small;
	c->in_cap = c->in_hint = IN_SMALL;
	c->riders_end = &c->riders;
	*out = c;
	return 0;
}

static void pop_rider(struct conn *c)
{
	struct rider *r = c->riders;

	c->riders = r->next;
	if (c->riders == NULL)
		c->riders_end = &c->riders;
	c->nriders--;
	close_all(r->fds, &r->n);
	free(r);
}

static void drop_queue(struct conn *c)
{
	while (c->riders != NULL)
		pop_rider(c);
	free(c->out);
	c->out = NULL;
	c->out_cap = c->out_start = c->out_end = 0;
}

void conn_free(struct conn *c)
{
	if (c == NULL)
		return;
	drop_queue(c);
	close_all(c->fds_in, &c->nfds_in);
	close_all(c->fds_given, &c->nfds_given);
	if (c->in != c->small)
		free(c->in);
	fd_close(&c->fd);
	free(c);
}

int conn_fd(const struct conn *c)
{
	return c->fd;
}

/* ---- In ---- */

/* The frame that was lent is not needed any more, nor what came with it and nobody took. */
static void end_loan(struct conn *c)
{
	close_all(c->fds_given, &c->nfds_given);
	c->in_start += c->in_given;
	c->in_given = 0;
	if (c->in_start == c->in_end)
		c->in_start = c->in_end = 0;
}

/* With no whole frame in hand: the descriptors in hand must be exactly those that the frame in hand has announced. */
static int check_fds(const struct conn *c)
{
	size_t have = c->in_end - c->in_start;
	struct frame f;

	if (have == 0)
		return c->nfds_in == 0 ? 0 : -EPROTO;
	if (have < FRAME_HEADER)
		return c->nfds_in <= FRAME_MAX_FDS ? 0 : -EPROTO;
	if (frame_decode_header(c->in + c->in_start, &f) < 0)
		return -EPROTO;
	return c->nfds_in == f.fds ? 0 : -EPROTO;
}

static long decode(const struct conn *c, struct frame *f)
{
	return c->in_end > c->in_start ? frame_decode(c->in + c->in_start, c->in_end - c->in_start, f) : 0;
}

int conn_next(struct conn *c, struct frame *out)
{
	struct frame f;
	long n;

	end_loan(c);
	n = decode(c, &f);
	if (n < 0)
		return -EPROTO;
	if (n == 0)
		return check_fds(c);
	if (f.fds > c->nfds_in)
		return -EPROTO;

	memcpy(c->fds_given, c->fds_in, f.fds * sizeof(int));
	c->nfds_given = f.fds;
	c->nfds_in -= f.fds;
	memmove(c->fds_in, c->fds_in + f.fds, c->nfds_in * sizeof(int));
	c->in_given = (size_t)n;
	*out = f;
	return 1;
}

int conn_take_fd(struct conn *c, unsigned i)
{
	return i < c->nfds_given ? fd_take(&c->fds_given[i]) : -1;
}

/* What the frame that has begun takes, as far as is known. */
static size_t frame_bytes(const struct conn *c)
{
	struct frame f;

	if (c->in_end - c->in_start >= FRAME_HEADER && frame_decode_header(c->in + c->in_start, &f) == 0)
		return FRAME_HEADER + (size_t)f.length;
	return FRAME_HEADER;
}

/* Moves what is there into a buffer of `want` bytes. */
static int change_buffer(struct conn *c, size_t want)
{
	size_t have = c->in_end - c->in_start;
	uint8_t *in = want <= IN_SMALL ? c->small : malloc(want);

	if (in == NULL)
		return -ENOMEM;
	if (have > 0)
		memcpy(in, c->in + c->in_start, have);
	if (c->in != c->small)
		free(c->in);
	c->in = in;
	c->in_cap = want;
	c->in_start = 0;
	c->in_end = have;
	return 0;
}

/* Makes [in_end, in_cap) long enough for the rest of the frame that has begun, and never empty. To be more generous, as
 * experience says, is a wish that may be refused. */
static int make_room(struct conn *c)
{
	size_t have = c->in_end - c->in_start;
	size_t need = frame_bytes(c);
	size_t want = need > c->in_hint ? need : c->in_hint;

	if (want > c->in_cap || (have == 0 && want < c->in_cap)) {
		if (change_buffer(c, want) == 0)
			return 0;
		if (need > c->in_cap)
			return -ENOMEM;
		want = need;
	}
	if (want > c->in_cap - c->in_start) {
		memmove(c->in, c->in + c->in_start, have);
		c->in_start = 0;
		c->in_end = have;
	}
	return 0;
}

/* Learns from a read of n bytes into `room`. */
static void adapt(struct conn *c, size_t n, size_t room)
{
	if (n == room && c->in_hint < IN_LARGE)
		c->in_hint = c->in_hint * IN_GROWTH < IN_LARGE ? c->in_hint * IN_GROWTH : IN_LARGE;
	if (n > IN_SMALL)
		c->in_quiet = 0;
	else if (c->in_hint > IN_SMALL && ++c->in_quiet >= IN_QUIET) {
		c->in_hint = IN_SMALL;
		c->in_quiet = 0;
	}
}

/* Takes over the descriptors that a read brought, all of them, before anything is judged: none may leak. */
static int receive_fds(struct conn *c, struct msghdr *mh)
{
	unsigned got = 0;
	bool surplus = false;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm != NULL; cm = CMSG_NXTHDR(mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
			got++;
			if (c->nfds_in < 2 * FRAME_MAX_FDS) {
				c->fds_in[c->nfds_in++] = fd;
			} else {
				surplus = true;
				fd_close(&fd);
			}
		}
	}
	if (surplus || got > FRAME_MAX_FDS)
		return -EPROTO;
	/* The kernel closed what did not fit: more than a frame may have, or than this process can. */
	if (mh->msg_flags & MSG_CTRUNC)
		return got < FRAME_MAX_FDS ? -EMFILE : -EPROTO;
	return 0;
}

int conn_fill(struct conn *c)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FRAME_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct frame f;
	long whole;
	ssize_t n;
	int r;

	end_loan(c);
	whole = decode(c, &f);
	if (whole != 0)
		return whole > 0 ? 1 : -EPROTO;
	r = check_fds(c);
	if (r == 0)
		r = make_room(c);
	if (r < 0)
		return r;

	iov.iov_base = c->in + c->in_end;
	iov.iov_len = c->in_cap - c->in_end;
	do {
		mh.msg_control = control.bytes;
		mh.msg_controllen = sizeof(control.bytes);
		n = recvmsg(c->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;

	c->in_end += (size_t)n;
	adapt(c, (size_t)n, iov.iov_len);
	r = receive_fds(c, &mh);
	return r < 0 ? r : 1;
}

/* ---- Out ---- */

/* One sendmsg(2). Bytes that the socket took; 0: none now; -EPIPE: the peer has gone; -errno. */
static ssize_t send_some(struct conn *c, struct iovec *iov, size_t niov, const int *fds, unsigned nfds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FRAME_MAX_FDS * sizeof(int))];
	} control;
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = niov };
	ssize_t n;

	if (nfds > 0) {
		struct cmsghdr *cm;

		memset(&control, 0, sizeof(control));
		mh.msg_control = control.bytes;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, nfds * sizeof(int));
	}
	do {
		n = sendmsg(c->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	/* ENOBUFS: the kernel has no memory for it right now. */
	if (errno == EAGAIN || errno == ENOBUFS)
		return 0;
	/* Too many of this user's descriptors are on their way in sockets: the same shortage. */
	if (errno == ETOOMANYREFS)
		return -EMFILE;
	if (errno != EPIPE && errno != ECONNRESET)
		return -errno;
	c->out_dead = true;
	drop_queue(c);
	return -EPIPE;
}

/* Makes room for n bytes at out_end. The caller has compared n with the limit. */
static int reserve(struct conn *c, size_t n)
{
	size_t queued = c->out_end - c->out_start;
	size_t cap = c->out_cap > OUT_SMALL / 2 ? c->out_cap * 2 : OUT_SMALL;
	uint8_t *out;

	if (n <= c->out_cap - c->out_end)
		return 0;
	/* Moving is worth it where it frees at least as much as it moves: each byte is then moved once at most. */
	if (c->out_start >= queued && n <= c->out_cap - queued) {
		memmove(c->out, c->out + c->out_start, queued);
	} else {
		if (cap < queued + n)
			cap = queued + n;
		if (cap > c->out_limit)
			cap = c->out_limit;
		out = malloc(cap);
		if (out == NULL)
			return -ENOMEM;
		if (queued > 0)
			memcpy(out, c->out + c->out_start, queued);
		free(c->out);
		c->out = out;
		c->out_cap = cap;
	}
	c->out_start = 0;
	c->out_end = queued;
	return 0;
}

/* Copies descriptors for the byte that is queued next. */
static int queue_fds(struct conn *c, const int *fds, unsigned nfds)
{
	struct rider *r;

	if (c->nriders == OUT_MAX_RIDERS)
		return -ENOBUFS;
	r = malloc(sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	r->next = NULL;
	r->pos = c->out_pos + (c->out_end - c->out_start);
	for (r->n = 0; r->n < nfds; r->n++) {
		int copy = fd_dup_cloexec(fds[r->n]);

		if (copy < 0) {
			close_all(r->fds, &r->n);
			free(r);
			return copy;
		}
		r->fds[r->n] = copy;
	}
	*c->riders_end = r;
	c->riders_end = &r->next;
	c->nriders++;
	return 0;
}

/* Queues what is left of header and payload after `sent` bytes. */
static int queue_frame(struct conn *c, const uint8_t *header, const void *payload, size_t n, size_t sent,
        const int *fds, unsigned nfds)
{
	size_t of_header = sent < FRAME_HEADER ? FRAME_HEADER - sent : 0;
	size_t from = sent > FRAME_HEADER ? sent - FRAME_HEADER : 0;
	int r = reserve(c, of_header + (n - from));

	if (r == 0 && sent == 0 && nfds > 0)
		r = queue_fds(c, fds, nfds);
	if (r < 0) {
		if (c->out_end == c->out_start)
			drop_queue(c);
		return r;
	}
	memcpy(c->out + c->out_end, header + (FRAME_HEADER - of_header), of_header);
	c->out_end += of_header;
	if (n > from)
		memcpy(c->out + c->out_end, (const uint8_t *)payload + from, n - from);
	c->out_end += n - from;
	return 0;
}

int conn_send(struct conn *c, enum frame_type type, uint16_t channel, const void *payload, size_t n, const int *fds,
        unsigned nfds)
{
	uint8_t header[FRAME_HEADER];
	size_t sent = 0;
	int r;

	assert(nfds <= FRAME_MAX_FDS);
	if (n > FRAME_MAX_PAYLOAD)
		return -EMSGSIZE;
	if (c->out_dead)
		return -EPIPE;
	if (FRAME_HEADER + n > c->out_limit - conn_queued(c))
		return -ENOBUFS;

	frame_encode_header(
	        &(struct frame){
	                .length = (uint32_t)n, .type = (uint8_t)type, .fds = (uint8_t)nfds, .channel = channel },
	        header);
	if (conn_queued(c) == 0) {
		/* iovec has no const; sendmsg(2) only reads. */
		struct iovec iov[2] = { { header, FRAME_HEADER }, { (void *)(uintptr_t)payload, n } };
		ssize_t done = send_some(c, iov, n > 0 ? 2 : 1, fds, nfds);

		if (done < 0)
			return (int)done;
		sent = (size_t)done;
		c->out_pos += sent;
		if (sent == FRAME_HEADER + n)
			return 0;
	}
	r = queue_frame(c, header, payload, n, sent, fds, nfds);
	if (r < 0 && sent > 0) { /* half a frame went out: nothing can follow it */
		c->out_dead = true;
		(void)shutdown(c->fd, SHUT_WR); /* the peer sees it cut, and by its going all on this side hear of it */
	}
	return r;
}

int conn_send_u64(struct conn *c, enum frame_type type, uint64_t v)
{
	uint8_t bytes[sizeof(v)];

	frame_put_u64(bytes, v);
	return conn_send(c, type, 0, bytes, sizeof(bytes), NULL, 0);
}

/* Packed on the stack, so that where memory is short there is still an answer that says so. */
int conn_send_message(struct conn *c, const ProtobufCMessage *m, const int *fds, unsigned nfds)
{
	uint8_t bytes[FRAME_MAX_PAYLOAD];
	size_t n = protobuf_c_message_get_packed_size(m);

	if (n > sizeof(bytes))
		return -EMSGSIZE;
	(void)protobuf_c_message_pack(m, bytes);
	return conn_send(c, FRAME_MESSAGE, 0, bytes, n, fds, nfds);
}

int conn_flush(struct conn *c)
{
	while (conn_queued(c) > 0) {
		struct rider *now = c->riders != NULL && c->riders->pos == c->out_pos ? c->riders : NULL;
		struct rider *later = now != NULL ? now->next : c->riders;
		struct iovec iov = { c->out + c->out_start, conn_queued(c) };
		ssize_t n;

		if (later != NULL && later->pos - c->out_pos < iov.iov_len)
			iov.iov_len = (size_t)(later->pos - c->out_pos);
		n = send_some(c, &iov, 1, now != NULL ? now->fds : NULL, now != NULL ? now->n : 0);
		if (n <= 0)
			return (int)n;
		c->out_start += (size_t)n;
		c->out_pos += (uint64_t)n;
		if (now != NULL)
			pop_rider(c);
	}
	drop_queue(c);
	return c->out_dead ? -EPIPE : 0;
}

bool conn_wants_write(const struct conn *c)
{
	return conn_queued(c) > 0;
}

size_t conn_queued(const struct conn *c)
{
	return c->out_end - c->out_start;
}

/* ---- Without a loop ---- */

static int poll_timeout(uint64_t deadline_ms)
{
	uint64_t now;

	if (deadline_ms == UINT64_MAX)
		return -1;
	now = clock_mono_ms();
	if (now >= deadline_ms)
		return 0;
	return deadline_ms - now < INT_MAX ? (int)(deadline_ms - now) : INT_MAX;
}

/* Waits for events. poll(2)'s revents; 0: the deadline has passed; -errno. */
static int wait_for(const struct conn *c, short events, uint64_t deadline_ms)
{
	struct pollfd p = { .fd = c->fd, .events = events };

	for (;;) {
		int timeout = poll_timeout(deadline_ms);
		int n = poll(&p, 1, timeout);

		if (n > 0)
			return p.revents;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && timeout == 0)
			return 0;
	}
}

int conn_wait_frame(struct conn *c, uint64_t deadline_ms, struct frame *out)
{
	for (;;) {
		int r = conn_next(c, out);

		if (r != 0)
			return r;
		/* A peer that has gone may have said why: its last words are read before its going is told. */
		r = conn_flush(c);
		if (r < 0 && r != -EPIPE)
			return r;
		r = wait_for(c, (short)(conn_wants_write(c) ? POLLIN | POLLOUT : POLLIN), deadline_ms);
		if (r <= 0)
			return r;
		if (r & ~POLLOUT) {
			r = conn_fill(c);
			if (r < 0)
				return r;
		}
	}
}

int conn_wait_flushed(struct conn *c, uint64_t deadline_ms)
{
	for (;;) {
		int r = conn_flush(c);

		if (r < 0 || !conn_wants_write(c))
			return r;
		r = wait_for(c, POLLOUT, deadline_ms);
		if (r <= 0)
			return r < 0 ? r : -ETIMEDOUT;
	}
}
