/*
 * control_client.h - the control protocol spoken by hand: for what libringside, which keeps to the protocol, never
 * does.
 */
#ifndef TESTS_INTEGRATION_CONTROL_CLIENT_H
#define TESTS_INTEGRATION_CONTROL_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/home.h"
#include "wire/clock.h"
#include "wire/codes.h"
#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/sock.h"
#include "wire/wire.h"

static void raw_forget(void *c)
{
	conn_free(c);
}

/* A connection to the home's daemon, which must run. The home's. */
static inline struct conn *raw_connect(struct home *h)
{
	struct conn *c;
	int dirfd = open(home_path(h, "run"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(dirfd >= 0);
	int fd = sock_connect_at(dirfd, "control.sock");
	close(dirfd);
	if (fd < 0)
		fail_msg("cannot connect: %s", strerror(-fd));
	assert_int_equal(conn_new(fd, 1 << 20, &c), 0);
	home_defer(h, raw_forget, c);
	return c;
}

static inline void raw_send(struct conn *c, Wire__ControlRequest *q, uint64_t id)
{
	q->id = id;
	assert_int_equal(conn_send_message(c, &q->base, NULL, 0), 0);
	assert_int_equal(conn_wait_flushed(c, clock_mono_ms() + DEADLINE_MS), 0);
}

static void raw_forget_reply(void *m)
{
	wire__control_reply__free_unpacked(m, NULL);
}

/* The next reply within ms, the home's; NULL: none came. The end of the connection fails the test. */
static inline Wire__ControlReply *raw_receive_within(struct home *h, struct conn *c, uint64_t ms)
{
	struct frame f;
	int r = conn_wait_frame(c, clock_mono_ms() + ms, &f);

	if (r == 0)
		return NULL;
	if (r < 0)
		fail_msg("the connection is gone: %s", strerror(-r));
	assert_int_equal(f.type, FRAME_MESSAGE);
	Wire__ControlReply *m = wire__control_reply__unpack(NULL, f.length, f.payload);
	assert_non_null(m);
	home_defer(h, raw_forget_reply, m);
	return m;
}

static inline Wire__ControlReply *raw_receive(struct home *h, struct conn *c)
{
	Wire__ControlReply *m = raw_receive_within(h, c, DEADLINE_MS);

	if (!m)
		fail_msg("no reply in %d s", DEADLINE_MS / 1000);
	return m;
}

/* The daemon ends this connection, without another reply. */
static inline void raw_expect_end(struct conn *c)
{
	struct frame f;
	int r = conn_wait_frame(c, clock_mono_ms() + DEADLINE_MS, &f);

	if (r >= 0)
		fail_msg("the connection is still open");
}

static inline void raw_expect_error(const Wire__ControlReply *m, uint64_t id, enum result code)
{
	if (m->body_case != WIRE__CONTROL_REPLY__BODY_ERROR)
		fail_msg("a reply of kind %d instead of an error", (int)m->body_case);
	if (m->error->code != code)
		fail_msg("code %u instead of %u: %s", m->error->code, (unsigned)code, m->error->message);
	assert_int_equal(m->id, id);
}

static inline void raw_hello(struct home *h, struct conn *c)
{
	Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
	Wire__ControlHello hello = WIRE__CONTROL_HELLO__INIT;
	static char name[] = "test";

	hello.protocol = CONTROL_PROTOCOL_VERSION;
	hello.client = name;
	q.body_case = WIRE__CONTROL_REQUEST__BODY_HELLO;
	q.hello = &hello;
	raw_send(c, &q, 1);
	assert_int_equal(raw_receive(h, c)->body_case, WIRE__CONTROL_REPLY__BODY_HELLO);
}

static inline void raw_status(struct conn *c, uint64_t id)
{
	Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
	Wire__StatusRequest status = WIRE__STATUS_REQUEST__INIT;

	q.body_case = WIRE__CONTROL_REQUEST__BODY_STATUS;
	q.status = &status;
	raw_send(c, &q, id);
}

/* The connection is still served. */
static inline void raw_expect_served(struct home *h, struct conn *c)
{
	raw_status(c, 4711);
	Wire__ControlReply *m = raw_receive(h, c);
	assert_int_equal(m->body_case, WIRE__CONTROL_REPLY__BODY_STATUS);
	assert_int_equal(m->id, 4711);
}

#endif
