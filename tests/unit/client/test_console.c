/* test_console.c - an opened console in an event loop: wake-ups, keys, writes, ends, and peers that do not keep to the
 * protocol. */
#include "tests/unit/client/fixture.h"

#include <unistd.h>

#include "wire/mark.h"

#define CAPACITY ((size_t)4096)

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	fixture_open(f, CAPACITY, 0, true);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	fixture_close(f);
	free(f);
	return 0;
}

/* ---- Wake-ups ---- */

static void a_reader_that_is_behind_is_not_made_to_wait(void **state)
{
	struct fixture *f = *state;
	struct frame frame;
	output(f, "abc");
	assert_false(ringside_console_arm(f->console, 2));
	assert_false(peer_frame(f, &frame));
}

static void being_level_is_said_once(void **state)
{
	struct fixture *f = *state;
	struct frame frame;
	assert_true(ringside_console_arm(f->console, 0));
	assert_true(ringside_console_arm(f->console, 0));
	assert_true(peer_frame(f, &frame));
	assert_int_equal(frame.type, FRAME_LEVEL);
	assert_false(peer_frame(f, &frame));
}

static void a_wake_up_for_an_older_level_does_not_disarm_the_newer_one(void **state)
{
	struct fixture *f = *state;
	struct frame frame;
	assert_true(ringside_console_arm(f->console, 0));
	output(f, "abc"); /* read before the wake-up came */
	assert_true(ringside_console_arm(f->console, 3));
	conn_send_u64(f->peer, FRAME_TAIL, 3);
	assert_int_equal(dispatch(f), 0);
	assert_true(ringside_console_arm(f->console, 3));
	assert_true(peer_frame(f, &frame) && peer_frame(f, &frame));
	assert_false(peer_frame(f, &frame)); /* nothing was said again */
	conn_send_u64(f->peer, FRAME_TAIL, 4);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_OUTPUT);
}

static void an_ended_console_is_never_waited_for(void **state)
{
	struct fixture *f = *state;
	peer_ends(f, 7, 0);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_ENDED);
	assert_false(ringside_console_arm(f->console, 0));
	assert_false(ringside_console_live(f->console));
	assert_int_equal(ringside_console_info(f->console)->state, RINGSIDE_CONSOLE_EXITED);
	assert_int_equal(ringside_exit_status(&ringside_console_info(f->console)->exit), 7);
	/* The host may hang up now: that is no loss. */
	fixture_hang_up(f);
	assert_int_equal(dispatch(f), 0);
	assert_int_equal(ringside_console_info(f->console)->state, RINGSIDE_CONSOLE_EXITED);
	assert_int_equal(ringside_console_fd(f->console), -1);
}

static void a_hang_up_is_told_and_what_was_printed_stays_readable(void **state)
{
	struct fixture *f = *state;
	char buf[8];
	struct ringside_span got;
	output(f, "abc");
	fixture_hang_up(f);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_GONE);
	assert_int_equal(ringside_console_info(f->console)->state, RINGSIDE_CONSOLE_LOST);
	assert_int_equal(ringside_console_read(f->console, 0, buf, sizeof(buf), &got, NULL), 0);
	assert_int_equal(got.next_offset, 3);
}

static void a_size_that_somebody_else_set_is_told(void **state)
{
	struct fixture *f = *state;
	Wire__Resize size = WIRE__RESIZE__INIT;
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	size.cols = 100;
	size.rows = 30;
	r.body_case = WIRE__STREAM_REPLY__BODY_RESIZED;
	r.resized = &size;
	conn_send_message(f->peer, &r.base, NULL, 0);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_RESIZED);
	assert_int_equal(ringside_console_info(f->console)->cols, 100);
	assert_int_equal(ringside_console_info(f->console)->rows, 30);
}

/* ---- Keys ---- */

static void keys_go_out_as_they_are_and_only_as_far_as_there_is_room(void **state)
{
	struct fixture *f = *state;
	struct frame frame;
	size_t size = 4 * STREAM_OUT_LIMIT, got = 0;
	uint8_t *keys = malloc(size);
	assert_non_null(keys);
	for (size_t i = 0; i < size; i++)
		keys[i] = (uint8_t)(i * 7 >> 3);
	size_t taken = ringside_console_input(f->console, keys, size);
	assert_true(taken > STREAM_OUT_LIMIT / 2 && taken < size);
	assert_true(ringside_console_events(f->console) & POLLOUT);

	while (got < size) {
		while (peer_frame(f, &frame)) {
			assert_int_equal(frame.type, FRAME_DATA);
			assert_int_equal(frame.channel, CHANNEL_INPUT);
			assert_true(got + frame.length <= size);
			assert_memory_equal(frame.payload, keys + got, frame.length);
			got += frame.length;
		}
		ringside_console_dispatch(f->console, POLLOUT);
		taken += ringside_console_input(f->console, keys + taken, size - taken);
	}
	assert_int_equal(taken, size);
	free(keys);
}

static void refused_keys_are_told_with_their_code(void **state)
{
	struct fixture *f = *state;
	struct ringside_error err;
	Wire__Error e = WIRE__ERROR__INIT;
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	e.code = RESULT_BUSY;
	e.message = (char *)(uintptr_t) "full \033]0;title\007";
	r.body_case = WIRE__STREAM_REPLY__BODY_ERROR;
	r.error = &e;
	conn_send_message(f->peer, &r.base, NULL, 0);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_REFUSED);
	assert_int_equal(ringside_console_refusal(f->console, &err), RINGSIDE_BUSY);
	assert_int_equal(err.exit_status, 5);
	assert_null(strchr(err.message, 033)); /* fit to print, whoever wrote it */
}

/* ---- Writes ---- */

static Wire__StreamRequest *next_request(struct fixture *f)
{
	struct frame frame;
	if (!peer_frame(f, &frame))
		return NULL;
	Wire__StreamRequest *q = wire__stream_request__unpack(NULL, frame.length, frame.payload);
	assert_non_null(q);
	return q;
}

static void answer_write(struct fixture *f, uint64_t id, uint64_t tail, uint64_t written, uint32_t error)
{
	Wire__Error e = WIRE__ERROR__INIT;
	Wire__WriteReply w = WIRE__WRITE_REPLY__INIT;
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	e.code = error;
	w.tail_offset = tail;
	w.written = written;
	w.error = error ? &e : NULL;
	r.id = id;
	r.body_case = WIRE__STREAM_REPLY__BODY_WRITE;
	r.write = &w;
	conn_send_message(f->peer, &r.base, NULL, 0);
}

static void a_long_write_goes_out_in_pieces_of_one_request(void **state)
{
	struct fixture *f = *state;
	struct ringside_written w;
	struct ringside_error err;
	size_t size = 1000 * 1000, got = 0;
	uint8_t *bytes = malloc(size);
	assert_non_null(bytes);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i % 251);
	assert_int_equal(ringside_console_write_begin(f->console, bytes, size, NULL, &err), 0);
	assert_int_equal(ringside_console_write_begin(f->console, "x", 1, NULL, &err), RINGSIDE_BUSY);

	uint64_t id = 0;
	bool more = true;
	while (more) {
		Wire__StreamRequest *q = next_request(f);
		if (q) {
			assert_int_equal(q->body_case, WIRE__STREAM_REQUEST__BODY_WRITE);
			assert_true(id == 0 || q->id == id);
			id = q->id;
			more = q->write->more;
			assert_true(got + q->write->data.len <= size);
			assert_memory_equal(q->write->data.data, bytes + got, q->write->data.len);
			got += q->write->data.len;
			wire__stream_request__free_unpacked(q, NULL);
		}
		ringside_console_dispatch(f->console, POLLOUT);
	}
	assert_int_equal(got, size);
	assert_int_equal(ringside_console_write_end(f->console, &w, &err), RINGSIDE_BUSY);
	answer_write(f, id, 42, size, 0);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_WRITTEN);
	assert_int_equal(ringside_console_write_end(f->console, &w, &err), 0);
	assert_int_equal(w.tail_offset, 42);
	assert_int_equal(w.written, size);
	free(bytes);
}

static void a_write_that_ends_early_says_how_much_was_taken(void **state)
{
	struct fixture *f = *state;
	struct ringside_written w;
	struct ringside_error err;
	assert_int_equal(ringside_console_write_begin(f->console, "0123456789", 10, NULL, &err), 0);
	answer_write(f, 1, 5, 4, RESULT_TIMEOUT);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_WRITTEN);
	assert_int_equal(ringside_console_write_end(f->console, &w, &err), RINGSIDE_TIMEOUT);
	assert_int_equal(w.written, 4);
	assert_int_equal(w.tail_offset, 5);
	/* And the next one may begin. */
	assert_int_equal(ringside_console_write_begin(f->console, "x", 1, NULL, &err), 0);
}

static void a_write_whose_connection_breaks_is_answered_too(void **state)
{
	struct fixture *f = *state;
	struct ringside_written w;
	struct ringside_error err;
	assert_int_equal(ringside_console_write_begin(f->console, "abc", 3, NULL, &err), 0);
	fixture_hang_up(f);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_GONE | RINGSIDE_HAS_WRITTEN);
	assert_int_equal(ringside_console_write_end(f->console, &w, &err), RINGSIDE_UNAVAILABLE);
	assert_int_equal(ringside_console_write(f->console, "abc", 3, NULL, &w, &err), RINGSIDE_NOT_RUNNING);
}

static void an_answer_to_another_request_is_not_taken_for_the_writes(void **state)
{
	struct fixture *f = *state;
	struct ringside_error err;
	assert_int_equal(ringside_console_write_begin(f->console, "abc", 3, NULL, &err), 0);
	answer_write(f, 99, 1, 3, 0);
	assert_int_equal(dispatch(f), 0);
	answer_write(f, 0, 1, 3, 0);
	assert_int_equal(dispatch(f), 0);
}

/* ---- Peers that do not keep to the protocol ---- */

static void what_is_not_of_the_protocol_ends_the_connection_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	static const uint8_t no_message[] = { 0xff, 0xff, 0xff };
	conn_send(f->peer, FRAME_MESSAGE, 0, no_message, sizeof(no_message), NULL, 0);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_GONE);
	assert_int_equal(ringside_console_fd(f->console), -1);
}

static void a_wake_up_of_the_wrong_size_ends_the_connection(void **state)
{
	struct fixture *f = *state;
	conn_send(f->peer, FRAME_TAIL, 0, "abc", 3, NULL, 0);
	assert_int_equal(dispatch(f), RINGSIDE_HAS_GONE);
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
	struct fixture *f = *state;
	int pair[2];
	assert_int_equal(sock_pair(pair), 0);
	conn_send(f->peer, FRAME_LEVEL, 0, "12345678", 8, &pair[0], 1);
	fd_close(&pair[0]);
	assert_int_equal(dispatch(f), 0);
	conn_send_u64(f->peer, FRAME_LEVEL, 0);
	dispatch(f);
	/* No copy of the other end is left open anywhere: it reads end of file. */
	char byte;
	assert_int_equal(read(pair[1], &byte, 1), 0);
	fd_close(&pair[1]);
}

/* ---- Marks ---- */

static void marks_come_in_order_and_what_is_no_mark_is_passed_over(void **state)
{
	struct fixture *f = *state;
	uint8_t packed[MARK_SIZE];
	struct ringside_mark got;
	uint64_t cursor = 0;
	struct ring *marks;
	assert_int_equal(ring_create("marks", MARK_RING_BYTES, 0, &marks), 0);
	assert_int_equal(ring_open(ring_fd(marks), &f->console->marks), 0);
	assert_false(ringside_console_mark(f->console, &cursor, &got));

	struct mark m = { .offset = 5, .kind = MARK_RESIZE, .a = 80, .b = 24, .incarnation = 2 };
	mark_pack(&m, packed);
	ring_append(marks, packed, sizeof(packed));
	memset(packed, 0xff, sizeof(packed));
	ring_append(marks, packed, sizeof(packed));
	m = (struct mark){ .offset = 9, .kind = MARK_TITLE, .text_len = 2, .text = "hi" };
	mark_pack(&m, packed);
	ring_append(marks, packed, sizeof(packed));

	assert_true(ringside_console_mark(f->console, &cursor, &got));
	assert_int_equal(got.offset, 5);
	assert_int_equal(got.a, 80);
	assert_true(ringside_console_mark(f->console, &cursor, &got));
	assert_int_equal(got.kind, RINGSIDE_MARK_TITLE);
	assert_string_equal(got.text, "hi");
	assert_false(ringside_console_mark(f->console, &cursor, &got));
	ring_free(marks);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_reader_that_is_behind_is_not_made_to_wait),
		TEST(being_level_is_said_once),
		TEST(a_wake_up_for_an_older_level_does_not_disarm_the_newer_one),
		TEST(an_ended_console_is_never_waited_for),
		TEST(a_hang_up_is_told_and_what_was_printed_stays_readable),
		TEST(a_size_that_somebody_else_set_is_told),
		TEST(keys_go_out_as_they_are_and_only_as_far_as_there_is_room),
		TEST(refused_keys_are_told_with_their_code),
		TEST(a_long_write_goes_out_in_pieces_of_one_request),
		TEST(a_write_that_ends_early_says_how_much_was_taken),
		TEST(a_write_whose_connection_breaks_is_answered_too),
		TEST(an_answer_to_another_request_is_not_taken_for_the_writes),
		TEST(what_is_not_of_the_protocol_ends_the_connection_and_nothing_else),
		TEST(a_wake_up_of_the_wrong_size_ends_the_connection),
		TEST(descriptors_that_nobody_asked_for_are_closed),
		TEST(marks_come_in_order_and_what_is_no_mark_is_passed_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
