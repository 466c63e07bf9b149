/* Promises of wire/uvconn.h, on a loop of the test's own; the other end is raw bytes. The loop is turned until a
 * condition holds, with a deadline. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wire/test_dir.h"
#include "tests/unit/wire/wires.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/sock.h"
#include "wire/uvconn.h"
#include "wire/wire.h"

#define LIMIT       ((size_t)256 * 1024)
#define FRAME_BYTES (FRAME_HEADER + 4)

struct fixture {
	uv_loop_t loop;
	struct uvconn *u;
	int peer;
	int open_before;

	/* What the callbacks saw. */
	unsigned frames, in_order, gone, drained;
	unsigned frames_at_gone;
	int gone_because;
	unsigned turn_frames, most_per_turn; /* frames in one turn of the loop */
	/* What on_frame does at frame number `at`. */
	void (*act)(struct fixture *f, const struct frame *frame);
	unsigned act_at;
};

static void on_frame(struct uvconn *u, const struct frame *frame, void *ctx)
{
	struct fixture *f = ctx;

	assert_ptr_equal(u, f->u);
	f->in_order += frame->length == 4 && payload_is(frame, 4, f->frames);
	f->frames++;
	f->turn_frames++;
	if (f->turn_frames > f->most_per_turn)
		f->most_per_turn = f->turn_frames;
	if (f->act != NULL && f->frames == f->act_at)
		f->act(f, frame);
}

static void on_gone(struct uvconn *u, int err, void *ctx)
{
	struct fixture *f = ctx;

	assert_ptr_equal(u, f->u);
	f->gone++;
	f->gone_because = err;
	f->frames_at_gone = f->frames;
}

static void on_drained(struct uvconn *u, void *ctx)
{
	struct fixture *f = ctx;

	assert_false(conn_wants_write(uvconn_conn(u)));
	f->drained++;
}

static const struct uvconn_handler handler = { on_frame, on_gone, on_drained };

static int start(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2];

	if (f == NULL)
		return -1;
	f->open_before = open_descriptors();
	if (uv_loop_init(&f->loop) < 0 || sock_pair(pair) < 0)
		return -1;
	f->peer = pair[1];
	if (uvconn_new(&f->loop, pair[0], LIMIT, &handler, f, &f->u) < 0)
		return -1;
	*state = f;
	return 0;
}

static int stop(void **state)
{
	struct fixture *f = *state;
	int before = f->open_before, after, busy;

	uvconn_close(f->u);
	uv_run(&f->loop, UV_RUN_DEFAULT); /* only closing handles are left */
	busy = uv_loop_close(&f->loop);
	fd_close(&f->peer);
	free(f);
	after = open_descriptors();
	if (after != before)
		(void)fprintf(stderr, "%d descriptors before the test, %d after it\n", before, after);
	return busy == 0 && after == before ? 0 : -1;
}

/* One turn of the loop, which never waits long. */
static void turn(struct fixture *f)
{
	f->turn_frames = 0;
	(void)uv_run(&f->loop, UV_RUN_NOWAIT);
}

/* Turns the loop until the condition holds; a failed test after 10 s. */
#define turn_until(f, condition)                                                     \
	do {                                                                         \
		uint64_t deadline = clock_mono_ms() + 10000;                         \
		while (!(condition)) {                                               \
			if (clock_mono_ms() > deadline)                              \
				fail_msg("still not so after 10 s: %s", #condition); \
			turn(f);                                                     \
		}                                                                    \
	} while (0)

/* For things that must not happen: enough turns for everything that is ready. */
static void turn_a_while(struct fixture *f)
{
	for (int i = 0; i < 50; i++)
		turn(f);
}

/* Sends frames number `from` to `to`, of 4 bytes each. */
static void send_frames(struct fixture *f, unsigned from, unsigned to)
{
	uint8_t bytes[400 * FRAME_BYTES];
	size_t n = 0;

	assert_true(to - from <= 400);
	for (unsigned i = from; i < to; i++)
		n += put_frame(bytes + n, FRAME_MESSAGE, 0, 4, i);
	assert_int_equal(send_raw(f->peer, bytes, n, NULL, 0), n);
}

/* Sends until the queue is full. */
static unsigned fill_queue(struct fixture *f)
{
	static uint8_t payload[20000];
	unsigned n = 0;

	while (uvconn_send(f->u, FRAME_DATA, 0, payload, sizeof(payload)) == 0)
		n++;
	assert_true(conn_wants_write(uvconn_conn(f->u)));
	return n;
}

static void read_away(struct fixture *f)
{
	static uint8_t sink[65536];

	while (recv(f->peer, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

/* ---- Frames ---- */

static void frames_arrive_by_callback_in_order(void **state)
{
	struct fixture *f = *state;

	send_frames(f, 0, 10);
	turn_until(f, f->frames == 10);
	send_frames(f, 10, 20);
	turn_until(f, f->frames == 20);
	assert_int_equal(f->in_order, 20);
	assert_int_equal(f->gone, 0);
}

static void a_busy_peer_gets_16_frames_a_turn_and_none_is_left_behind(void **state)
{
	struct fixture *f = *state;

	/* All in one read, after which the socket has nothing more to say. */
	send_frames(f, 0, 80);
	turn_until(f, f->frames == 80);
	assert_int_equal(f->in_order, 80);
	assert_in_range(f->most_per_turn, 1, 16);
	send_frames(f, 80, 81);
	turn_until(f, f->frames == 81);
	assert_int_equal(f->in_order, 81);
}

/* More than one read holds: while frames are in hand, the socket is not read. */
static void a_flooding_peer_gets_no_second_share_for_being_readable_too(void **state)
{
	struct fixture *f = *state;

	send_frames(f, 0, 300);
	for (unsigned n = 16; n <= 64; n += 16) {
		turn(f);
		assert_int_equal(f->frames, n);
	}
	turn_until(f, f->frames == 300);
	assert_int_equal(f->in_order, 300);
}

static void the_loop_sleeps_when_nothing_is_in_hand(void **state)
{
	struct fixture *f = *state;

	send_frames(f, 0, 40);
	turn_until(f, f->frames == 40);
	turn(f);
	assert_int_equal(uv_backend_timeout(&f->loop), -1); /* waits without end */
}

/* ---- Pause ---- */

static void pause_self(struct fixture *f, const struct frame *frame)
{
	(void)frame;
	uvconn_pause(f->u, true);
}

static void a_pause_holds_frames_in_hand_and_in_the_socket(void **state)
{
	struct fixture *f = *state;

	f->act = pause_self;
	f->act_at = 3;
	send_frames(f, 0, 10);
	turn_until(f, f->frames == 3);
	send_frames(f, 10, 20);
	turn_a_while(f);
	assert_int_equal(f->frames, 3);
	assert_int_equal(uv_backend_timeout(&f->loop), -1); /* and costs no time */
	uvconn_pause(f->u, false);
	assert_int_equal(f->frames, 3); /* not from inside the call */
	turn_until(f, f->frames == 20);
	assert_int_equal(f->in_order, 20);
}

static void a_pause_of_a_single_frame_can_be_repeated(void **state)
{
	struct fixture *f = *state;

	f->act = pause_self;
	send_frames(f, 0, 30);
	for (unsigned i = 1; i <= 30; i++) {
		f->act_at = i;
		turn_until(f, f->frames == i);
		turn_a_while(f);
		assert_int_equal(f->frames, i);
		uvconn_pause(f->u, false);
	}
	assert_int_equal(f->in_order, 30);
}

static void a_paused_peer_is_left_waiting(void **state)
{
	struct fixture *f = *state;
	unsigned sent = 0;
	uint8_t bytes[FRAME_BYTES];

	uvconn_pause(f->u, true);
	for (;; sent++) {
		put_frame(bytes, FRAME_MESSAGE, 0, 4, sent);
		if (send_raw(f->peer, bytes, sizeof(bytes), NULL, 0) < 0)
			break;
	}
	assert_int_equal(errno, EAGAIN);
	turn_a_while(f);
	assert_int_equal(f->frames, 0);
	uvconn_pause(f->u, false);
	turn_until(f, f->frames == sent);
	assert_int_equal(f->in_order, sent);
}

static void a_hang_up_is_told_while_paused(void **state)
{
	struct fixture *f = *state;

	send_frames(f, 0, 5);
	uvconn_pause(f->u, true);
	turn_a_while(f);
	assert_int_equal(f->gone, 0);
	fd_close(&f->peer);
	turn_until(f, f->gone == 1);
	assert_int_equal(f->gone_because, -ECONNRESET);
	assert_int_equal(f->frames, 0);
	turn_a_while(f);
	assert_int_equal(f->gone, 1);
	assert_false(uv_loop_alive(&f->loop)); /* nothing is polled any more */
}

/* ---- Ends ---- */

static void what_a_peer_sent_before_it_went_is_handed_over_first(void **state)
{
	struct fixture *f = *state;

	send_frames(f, 0, 60);
	fd_close(&f->peer);
	turn_until(f, f->gone == 1);
	assert_int_equal(f->frames_at_gone, 60);
	assert_int_equal(f->in_order, 60);
	assert_int_equal(f->gone_because, -ECONNRESET);
	turn_a_while(f);
	assert_int_equal(f->gone, 1);
}

/* The socket then reports an error besides: what we sent was never read. */
static void the_same_when_output_was_waiting_for_it(void **state)
{
	struct fixture *f = *state;

	(void)fill_queue(f);
	send_frames(f, 0, 60);
	fd_close(&f->peer);
	turn_until(f, f->gone == 1);
	assert_int_equal(f->frames_at_gone, 60);
	assert_int_equal(f->drained, 0);
}

/* Nothing unread, so the socket reports no error: the write itself fails. */
static void a_queue_that_is_dropped_is_not_called_drained(void **state)
{
	struct fixture *f = *state;

	(void)fill_queue(f);
	send_frames(f, 0, 60);
	read_away(f);
	fd_close(&f->peer);
	turn_until(f, f->gone == 1);
	assert_int_equal(f->frames_at_gone, 60);
	assert_int_equal(f->drained, 0);
	assert_int_equal(conn_queued(uvconn_conn(f->u)), 0);
}

static void the_same_after_a_send_has_failed(void **state)
{
	struct fixture *f = *state;

	send_frames(f, 0, 60);
	fd_close(&f->peer);
	assert_int_equal(uvconn_send_u64(f->u, FRAME_TAIL, 1), -EPIPE);
	turn_until(f, f->gone == 1);
	assert_int_equal(f->frames_at_gone, 60);
}

static void a_peer_that_breaks_the_protocol_is_told_once_after_its_good_frames(void **state)
{
	struct fixture *f = *state;

	send_frames(f, 0, 20);
	assert_int_equal(send_raw(f->peer, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, NULL, 0), 8);
	turn_until(f, f->gone == 1);
	assert_int_equal(f->gone_because, -EPROTO);
	assert_int_equal(f->frames_at_gone, 20);
	assert_int_equal(send_raw(f->peer, "more", 4, NULL, 0), 4);
	turn_a_while(f);
	assert_int_equal(f->gone, 1);
	assert_int_equal(f->frames, 20);
}

static void close_self(struct fixture *f, const struct frame *frame)
{
	uvconn_close(f->u);
	uvconn_close(f->u); /* nothing more */
	/* What the callback has been lent is good to its end. */
	assert_true(payload_is(frame, 4, f->frames - 1));
	assert_int_equal(conn_take_fd(uvconn_conn(f->u), 0), -1);
	f->u = NULL;
}

static void no_callback_comes_after_a_close_from_inside_one(void **state)
{
	struct fixture *f = *state;

	f->act = close_self;
	f->act_at = 3;
	send_frames(f, 0, 40);
	turn_until(f, f->frames == 3);
	turn_a_while(f);
	assert_int_equal(f->frames, 3);
	assert_int_equal(f->gone, 0);
	/* The peer sees the end. */
	read_away(f);
	assert_int_equal(send_raw(f->peer, "x", 1, NULL, 0), -1);
	assert_int_equal(errno, EPIPE);
}

static void close_when_gone(struct uvconn *u, int err, void *ctx)
{
	struct fixture *f = ctx;

	on_gone(u, err, ctx);
	uvconn_close(u);
	f->u = NULL;
}

static void it_may_be_closed_from_on_gone(void **state)
{
	static const struct uvconn_handler closing = { on_frame, close_when_gone, NULL };
	struct fixture *f = *state;

	for (int hostile = 0; hostile < 2; hostile++) {
		int pair[2];

		uvconn_close(f->u);
		fd_close(&f->peer);
		f->gone = 0;
		assert_int_equal(sock_pair(pair), 0);
		assert_int_equal(uvconn_new(&f->loop, pair[0], LIMIT, &closing, f, &f->u), 0);
		f->peer = pair[1];
		if (hostile)
			assert_int_equal(send_raw(f->peer, "hostile!", 8, NULL, 0), 8);
		else
			fd_close(&f->peer);
		turn_until(f, f->gone == 1);
		turn_a_while(f);
	}
}

static void what_is_queued_is_flushed_before_a_close(void **state)
{
	struct fixture *f = *state;
	static uint8_t sink[65536];
	size_t total = 0;
	ssize_t r;

	(void)fill_queue(f);
	read_away(f); /* the socket has room, and the loop has not been turned: the queue is as it was */
	uvconn_close(f->u);
	f->u = NULL;
	turn_a_while(f);
	while ((r = recv(f->peer, sink, sizeof(sink), MSG_DONTWAIT)) > 0)
		total += (size_t)r;
	assert_int_equal(r, 0); /* the end */
	assert_true(total > 100000);
}

static void nothing_at_all_can_be_closed(void **state)
{
	(void)state;
	uvconn_close(NULL);
}

/* ---- Out ---- */

static void what_is_queued_goes_out_as_the_peer_reads_and_its_end_is_told_once(void **state)
{
	struct fixture *f = *state;
	unsigned n = fill_queue(f);
	static uint8_t sink[65536];
	size_t total = 0;

	turn_a_while(f);
	assert_int_equal(f->drained, 0);
	while (total < (size_t)n * (FRAME_HEADER + 20000)) {
		ssize_t r = recv(f->peer, sink, sizeof(sink), MSG_DONTWAIT);

		total += r > 0 ? (size_t)r : 0;
		turn(f);
	}
	turn_until(f, f->drained == 1);
	turn_a_while(f);
	assert_int_equal(f->drained, 1);
	assert_int_equal(
	        uv_backend_timeout(&f->loop), -1); /* no longer polls for writing, which would be a busy loop */
	/* A send that goes out at once is no draining. */
	assert_int_equal(uvconn_send_u64(f->u, FRAME_TAIL, 1), 0);
	turn_a_while(f);
	assert_int_equal(f->drained, 1);
}

static void reading_goes_on_while_output_waits(void **state)
{
	struct fixture *f = *state;

	(void)fill_queue(f);
	send_frames(f, 0, 20);
	turn_until(f, f->frames == 20);
}

static void output_goes_on_while_paused(void **state)
{
	struct fixture *f = *state;

	uvconn_pause(f->u, true);
	(void)fill_queue(f);
	send_frames(f, 0, 1);
	while (f->drained == 0) {
		read_away(f);
		turn(f);
	}
	assert_int_equal(f->frames, 0);
}

static void echo(struct fixture *f, const struct frame *frame)
{
	assert_int_equal(uvconn_send(f->u, FRAME_DATA, CHANNEL_STDOUT, frame->payload, frame->length), 0);
}

static void a_callback_may_answer(void **state)
{
	struct fixture *f = *state;
	uint8_t got[FRAME_BYTES];
	ssize_t n = -1;

	f->act = echo;
	f->act_at = 1;
	send_frames(f, 0, 1);
	turn_until(f, (n = recv(f->peer, got, sizeof(got), MSG_DONTWAIT)) > 0);
	assert_int_equal(n, FRAME_BYTES);
	assert_memory_equal(got, "\x04\0\0\0\x02\0\x01\0\0\x01\x02\x03", FRAME_BYTES);
}

static void messages_go_with_their_descriptors(void **state)
{
	struct fixture *f = *state;
	Wire__Resize resize = WIRE__RESIZE__INIT;
	struct conn *other;
	struct frame got;
	int fd = tagged_fd(77), copy, peer = fd_dup_cloexec(f->peer);

	resize.cols = 80;
	assert_int_equal(conn_new(peer, LIMIT, &other), 0);
	assert_int_equal(uvconn_send_message(f->u, &resize.base, &fd, 1), 0);
	assert_int_equal(conn_wait_frame(other, clock_mono_ms() + 10000, &got), 1);
	copy = conn_take_fd(other, 0);
	assert_int_equal(tag_of(copy), 77);
	fd_close(&copy);
	fd_close(&fd);
	conn_free(other);
}

/* ---- Beginnings ---- */

static void a_descriptor_that_cannot_be_polled_stays_the_callers(void **state)
{
	struct fixture *f = *state;
	struct uvconn *u = NULL;
	int file = tagged_fd(1); /* a regular file, as far as epoll is concerned */

	assert_int_equal(uvconn_new(&f->loop, file, LIMIT, &handler, f, &u), -EPERM);
	assert_null(u);
	assert_int_equal(tag_of(file), 1);
	fd_close(&file);
	assert_int_equal(uvconn_new(&f->loop, conn_fd(uvconn_conn(f->u)), LIMIT, &handler, f, &u), -EEXIST);
}

/* libuv opens two descriptors with its first loop, and keeps them. */
static int open_what_libuv_keeps(void **state)
{
	uv_loop_t loop;

	(void)state;
	return uv_loop_init(&loop) | uv_loop_close(&loop);
}

#define UV_TEST(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		UV_TEST(frames_arrive_by_callback_in_order),
		UV_TEST(a_busy_peer_gets_16_frames_a_turn_and_none_is_left_behind),
		UV_TEST(a_flooding_peer_gets_no_second_share_for_being_readable_too),
		UV_TEST(the_loop_sleeps_when_nothing_is_in_hand),
		UV_TEST(a_pause_holds_frames_in_hand_and_in_the_socket),
		UV_TEST(a_pause_of_a_single_frame_can_be_repeated),
		UV_TEST(a_paused_peer_is_left_waiting),
		UV_TEST(a_hang_up_is_told_while_paused),
		UV_TEST(what_a_peer_sent_before_it_went_is_handed_over_first),
		UV_TEST(the_same_when_output_was_waiting_for_it),
		UV_TEST(a_queue_that_is_dropped_is_not_called_drained),
		UV_TEST(the_same_after_a_send_has_failed),
		UV_TEST(a_peer_that_breaks_the_protocol_is_told_once_after_its_good_frames),
		UV_TEST(no_callback_comes_after_a_close_from_inside_one),
		UV_TEST(it_may_be_closed_from_on_gone),
		UV_TEST(what_is_queued_is_flushed_before_a_close),
		UV_TEST(nothing_at_all_can_be_closed),
		UV_TEST(what_is_queued_goes_out_as_the_peer_reads_and_its_end_is_told_once),
		UV_TEST(reading_goes_on_while_output_waits),
		UV_TEST(output_goes_on_while_paused),
		UV_TEST(a_callback_may_answer),
		UV_TEST(messages_go_with_their_descriptors),
		UV_TEST(a_descriptor_that_cannot_be_polled_stays_the_callers),
	};
	alarm(120);
	return cmocka_run_group_tests_name("wire/uvconn", tests, open_what_libuv_keeps, NULL);
}
