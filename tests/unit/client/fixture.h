/*
 * fixture.h - an opened console without a daemon: the test holds the ring's writing side, and the console daemon's end
 * of the connection. Nothing waits: the test says when time passes and when the peer speaks.
 */
#ifndef TESTS_CLIENT_FIXTURE_H
#define TESTS_CLIENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "wire/codes.h"
#include "wire/fd.h"
#include "wire/sock.h"

struct fixture {
	struct ring *ring;                /* the writing side */
	struct conn *peer;                /* the console daemon's end; NULL: hung up */
	struct ringside_console *console; /* what is tested */
};

static inline void fixture_open(struct fixture *f, size_t capacity, uint64_t first, bool live)
{
	struct ring *reader;
	struct ringside_error err;
	int pair[2] = { -1, -1 };
	Wire__ConsoleInfo info = WIRE__CONSOLE_INFO__INIT;
	info.name = (char *)(uintptr_t) "dev";
	info.state = live ? CONSOLE_RUNNING : CONSOLE_EXITED;
	f->peer = NULL;
	assert_int_equal(ring_create("test", capacity, first, &f->ring), 0);
	assert_int_equal(ring_open(ring_fd(f->ring), &reader), 0);
	if (live) {
		assert_int_equal(sock_pair(pair), 0);
		assert_int_equal(conn_new(pair[1], 1024 * 1024, &f->peer), 0);
	}
	assert_int_equal(console_from_parts(reader, NULL, pair[0], &info, "box", &f->console, &err), 0);
}

static inline void fixture_hang_up(struct fixture *f)
{
	conn_free(f->peer);
	f->peer = NULL;
}

static inline void fixture_close(struct fixture *f)
{
	ringside_console_close(f->console);
	fixture_hang_up(f);
	ring_free(f->ring);
}

static inline void output(struct fixture *f, const char *text)
{
	ring_append(f->ring, text, strlen(text));
}

static inline void output_zeros(struct fixture *f, size_t n)
{
	void *zeros = calloc(1, n);
	assert_non_null(zeros);
	ring_append(f->ring, zeros, n);
	free(zeros);
}

/* Handles what the peer has sent so far. */
static inline unsigned dispatch(struct fixture *f)
{
	struct pollfd p = { .fd = ringside_console_fd(f->console), .events = ringside_console_events(f->console) };
	if (p.fd < 0 || poll(&p, 1, 0) <= 0)
		return 0;
	return ringside_console_dispatch(f->console, p.revents);
}

/* The next frame that the console has sent; false: none. */
static inline bool peer_frame(struct fixture *f, struct frame *out)
{
	int r = conn_next(f->peer, out);
	if (r == 0 && conn_fill(f->peer) > 0)
		r = conn_next(f->peer, out);
	assert_true(r >= 0);
	return r == 1;
}

static inline void peer_ends(struct fixture *f, uint32_t code, uint32_t signal)
{
	Wire__Exit e = WIRE__EXIT__INIT;
	Wire__ConsoleInfo info = WIRE__CONSOLE_INFO__INIT;
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	e.code = code;
	e.signal = signal;
	info.exit = &e;
	info.state = CONSOLE_EXITED;
	r.body_case = WIRE__STREAM_REPLY__BODY_ENDED;
	r.ended = &info;
	assert_int_equal(conn_send_message(f->peer, &r.base, NULL, 0), 0);
}

#endif
