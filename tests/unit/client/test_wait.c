/* test_wait.c - what a read that waits promises. Time is a number here, and the console daemon is the test. */
#include "tests/unit/client/fixture.h"

#include "client/wait.h"

#define CAPACITY ((size_t)4096)

struct waiting {
	struct fixture f;
	struct ringside_wait *w;
	struct ringside_answer *answer;
	struct ringside_error err;
	uint64_t now;
	int code;
};

static int set_up(void **state)
{
	struct waiting *t = calloc(1, sizeof(*t));
	fixture_open(&t->f, CAPACITY, 0, true);
	t->now = 1000;
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct waiting *t = *state;
	ringside_wait_free(t->w);
	ringside_free(t->answer);
	fixture_close(&t->f);
	free(t);
	return 0;
}

static void begin(struct waiting *t, struct ringside_read_options o, uint64_t timeout_ms)
{
	assert_int_equal(wait_new_at(t->now, t->f.console, &o, timeout_ms, &t->w, &t->err), 0);
}

/* Steps until there is nothing to do but wait. Answers whether it is over. */
static bool over(struct waiting *t)
{
	bool done = false;
	do {
		dispatch(&t->f);
		t->code = wait_step_at(t->now, t->w, &done, &t->answer, &t->err);
		assert_int_equal(t->code, 0);
	} while (!done && ringside_wait_deadline(t->w) == 0);
	return done;
}

static void assert_answer(const struct waiting *t, int reason, uint64_t offset, const char *text)
{
	assert_string_equal(ringside_reason_name(t->answer->reason), ringside_reason_name(reason));
	assert_int_equal(t->answer->offset, offset);
	assert_int_equal(t->answer->size, strlen(text));
	assert_memory_equal(t->answer->data, text, strlen(text));
	assert_int_equal(t->answer->next_offset, offset + strlen(text));
}

/* ---- Without conditions ---- */

static void a_plain_read_gives_what_is_there_and_does_not_wait(void **state)
{
	struct waiting *t = *state;
	output(&t->f, "hello");
	begin(t, (struct ringside_read_options){ .from = 1 }, UINT64_MAX);
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_OUTPUT, 1, "ello");
	assert_int_equal(t->answer->state, RINGSIDE_CONSOLE_RUNNING);
	assert_int_equal(t->answer->tail_offset, 5);
}

static void a_plain_read_ends_where_the_output_was_when_it_began(void **state)
{
	struct waiting *t = *state;
	output(&t->f, "before");
	begin(t, (struct ringside_read_options){ 0 }, UINT64_MAX);
	output(&t->f, "after");
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_OUTPUT, 0, "before");
}

static void a_read_of_nothing_new_says_so(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ 0 }, UINT64_MAX);
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_TIMEOUT, 0, "");
}

static void an_offset_past_the_tail_is_refused(void **state)
{
	struct waiting *t = *state;
	output(&t->f, "abc");
	struct ringside_read_options o = { .from = 4 };
	assert_int_equal(ringside_wait_new(t->f.console, &o, 0, &t->w, &t->err), RINGSIDE_OFFSET_OUT_OF_RANGE);
	assert_string_equal(t->err.name, "offset_out_of_range");
	assert_null(t->w);
}

static void max_bounds_what_is_given_and_next_offset_says_where_to_go_on(void **state)
{
	struct waiting *t = *state;
	output(&t->f, "0123456789");
	begin(t, (struct ringside_read_options){ .max = 4 }, UINT64_MAX);
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_OUTPUT, 0, "0123");
}

static void a_reader_that_fell_behind_is_told_how_much_it_lost(void **state)
{
	struct waiting *t = *state;
	output_zeros(&t->f, CAPACITY + 10);
	begin(t, (struct ringside_read_options){ .from = 3 }, UINT64_MAX);
	assert_true(over(t));
	assert_int_equal(t->answer->offset, 10);
	assert_int_equal(t->answer->lost_bytes, 7);
	assert_int_equal(t->answer->size, CAPACITY);
}

/* ---- Output ---- */

static void a_wait_for_output_ends_with_the_first_of_it(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_OUTPUT }, 5000);
	assert_false(over(t));
	assert_int_equal(ringside_wait_deadline(t->w), 6000);
	output(&t->f, "x");
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_OUTPUT, 0, "x");
}

static void a_wait_that_runs_out_answers_timeout(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_OUTPUT }, 5000);
	t->now = 5999;
	assert_false(over(t));
	t->now = 6000;
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_TIMEOUT, 0, "");
}

static void a_waiting_reader_says_once_that_it_is_level_and_is_woken_once(void **state)
{
	struct waiting *t = *state;
	struct frame f;
	output(&t->f, "ab");
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_EXIT }, UINT64_MAX);
	assert_false(over(t));
	assert_false(over(t));
	assert_true(peer_frame(&t->f, &f));
	assert_int_equal(f.type, FRAME_LEVEL);
	assert_int_equal(frame_get_u64(f.payload), 2);
	assert_false(peer_frame(&t->f, &f));

	output(&t->f, "c");
	conn_send_u64(t->f.peer, FRAME_TAIL, 3);
	assert_int_equal(dispatch(&t->f), RINGSIDE_HAS_OUTPUT);
	assert_false(over(t));
	assert_true(peer_frame(&t->f, &f));
	assert_int_equal(frame_get_u64(f.payload), 3);
}

/* ---- Match ---- */

static void a_match_is_found_over_the_wrap_of_the_ring_and_ends_the_answer(void **state)
{
	struct waiting *t = *state;
	/* Written so that the match lies over the end of the memory and its parts come one by one. */
	output_zeros(&t->f, CAPACITY + RING_SLACK - 4);
	uint64_t from = ring_tail(t->f.ring);
	begin(t,
	        (struct ringside_read_options){
	                .from = from, .until = RINGSIDE_UNTIL_MATCH, .pattern = "ready: \\d+!" },
	        UINT64_MAX);
	assert_false(over(t));
	output(&t->f, "it is rea");
	assert_false(over(t));
	output(&t->f, "dy: 12");
	assert_false(over(t));
	output(&t->f, "34! and more");
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_MATCH, from, "it is ready: 1234!");
	assert_int_equal(t->answer->match_offset, from + 6);
	assert_int_equal(t->answer->match_length, 12);
}

static void max_does_not_bound_what_is_searched(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_MATCH, .pattern = "end", .max = 3 },
	        UINT64_MAX);
	output(&t->f, "a long way to the end.");
	assert_true(over(t));
	assert_string_equal(ringside_reason_name(t->answer->reason), "match");
	assert_int_equal(t->answer->size, 3);
	assert_int_equal(t->answer->next_offset, 3);
	assert_int_equal(t->answer->match_offset, 18);
}

static void no_match_goes_over_a_gap(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_MATCH, .pattern = "beginend" }, 100);
	output(&t->f, "begin");
	assert_false(over(t));
	assert_int_equal(ring_skip_to(t->f.ring, 1000), 0);
	output(&t->f, "end");
	assert_false(over(t));
	t->now += 100;
	assert_true(over(t));
	/* What it gives has no gap inside either: it begins again after the gap, and says what is missing. */
	assert_answer(t, RINGSIDE_REASON_TIMEOUT, 1000, "end");
	assert_int_equal(t->answer->lost_bytes, 1000);
}

static void what_was_given_past_a_match_that_is_decided_late_is_not_in_the_answer(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_MATCH, .pattern = "a(?=bcd)" }, UINT64_MAX);
	output(&t->f, "..abc");
	assert_false(over(t));
	output(&t->f, "de");
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_MATCH, 0, "..a");
}

static void an_exit_ends_the_wait_for_a_match_and_decides_what_was_open(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_MATCH, .pattern = "bye(?!\\r)" }, UINT64_MAX);
	output(&t->f, "good");
	assert_false(over(t));
	output(&t->f, "bye");
	peer_ends(&t->f, 3, 0);
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_MATCH, 0, "goodbye");
	assert_true(t->answer->exit.known);
	assert_int_equal(t->answer->exit.code, 3);
}

static void a_search_that_is_given_up_is_an_error_with_a_code(void **state)
{
	struct waiting *t = *state;
	char text[2002];
	bool done;
	memset(text, 'a', 2000);
	strcpy(text + 2000, "!");
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_MATCH, .pattern = "^(a+)+\\d$" }, UINT64_MAX);
	output(&t->f, text);
	assert_int_equal(wait_step_at(t->now, t->w, &done, &t->answer, &t->err), RINGSIDE_RESOURCE_LIMIT);
	assert_false(done);
}

/* ---- Idle ---- */

static void silence_is_counted_from_the_call_and_again_from_each_output(void **state)
{
	struct waiting *t = *state;
	output(&t->f, "old");
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_IDLE, .idle_ms = 500 }, UINT64_MAX);
	assert_false(over(t));
	t->now += 400;
	output(&t->f, " new");
	assert_false(over(t));
	t->now += 400;
	assert_false(over(t));
	assert_int_equal(ringside_wait_deadline(t->w), t->now + 100);
	t->now += 100;
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_IDLE, 0, "old new");
}

static void output_before_the_end_of_the_silence_is_not_silence_however_late_it_is_seen(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_IDLE, .idle_ms = 500 }, UINT64_MAX);
	assert_false(over(t));
	output(&t->f, "x");
	t->now += 600;
	assert_false(over(t));
	t->now += 500;
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_IDLE, 0, "x");
}

/* ---- Exit ---- */

static void the_end_comes_after_the_last_byte(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_EXIT }, UINT64_MAX);
	assert_false(over(t));
	output(&t->f, "last words");
	peer_ends(&t->f, 0, 9);
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_EXIT, 0, "last words");
	assert_int_equal(t->answer->state, RINGSIDE_CONSOLE_EXITED);
	assert_int_equal(t->answer->exit.signal, 9);
	assert_int_equal(ringside_exit_status(&t->answer->exit), 137);
}

static void a_broken_connection_ends_every_wait_as_lost(void **state)
{
	struct waiting *t = *state;
	begin(t, (struct ringside_read_options){ .until = RINGSIDE_UNTIL_MATCH, .pattern = "never" }, UINT64_MAX);
	output(&t->f, "some");
	assert_false(over(t));
	output(&t->f, " more");
	fixture_hang_up(&t->f);
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_EXIT, 0, "some more");
	assert_int_equal(t->answer->state, RINGSIDE_CONSOLE_LOST);
	assert_false(t->answer->exit.known);
}

static void an_ended_console_answers_at_once(void **state)
{
	struct waiting *t = *state;
	fixture_close(&t->f);
	fixture_open(&t->f, CAPACITY, 1ull << 40, false);
	output(&t->f, "kept");
	begin(t, (struct ringside_read_options){ .from = 1ull << 40, .until = RINGSIDE_UNTIL_IDLE, .idle_ms = 60000 },
	        UINT64_MAX);
	assert_true(over(t));
	assert_answer(t, RINGSIDE_REASON_EXIT, 1ull << 40, "kept");
}

/* ---- Sinks ---- */

struct taken {
	char text[64];
	size_t size;
	uint64_t lost;
	bool refuse;
};

static int take(void *ctx, uint64_t offset, uint64_t lost_bytes, const void *bytes, size_t n)
{
	struct taken *t = ctx;
	(void)offset;
	if (t->refuse)
		return 1;
	assert_true(t->size + n < sizeof(t->text));
	memcpy(t->text + t->size, bytes, n);
	t->size += n;
	t->lost += lost_bytes;
	return 0;
}

static void a_sink_gets_bytes_as_they_come_and_is_told_of_gaps(void **state)
{
	struct waiting *t = *state;
	struct taken taken = { 0 };
	begin(t,
	        (struct ringside_read_options){
	                .until = RINGSIDE_UNTIL_MATCH, .pattern = "end", .sink = take, .sink_ctx = &taken },
	        UINT64_MAX);
	output(&t->f, "one ");
	assert_false(over(t));
	assert_string_equal(taken.text, "one ");
	assert_int_equal(ring_skip_to(t->f.ring, 100), 0);
	output(&t->f, "two end three");
	assert_true(over(t));
	assert_string_equal(taken.text, "one two end");
	assert_int_equal(taken.lost, 96);
	assert_int_equal(t->answer->lost_bytes, 96);
	assert_int_equal(t->answer->next_offset, 107);
	assert_null(t->answer->data);
}

static void a_sink_that_takes_no_more_ends_the_read(void **state)
{
	struct waiting *t = *state;
	struct taken taken = { .refuse = true };
	bool done;
	output(&t->f, "x");
	begin(t, (struct ringside_read_options){ .sink = take, .sink_ctx = &taken }, UINT64_MAX);
	assert_int_equal(wait_step_at(t->now, t->w, &done, &t->answer, &t->err), RINGSIDE_ABORTED);
}

/* ---- The blocking form ---- */

static void the_blocking_read_waits_on_the_connection_and_gives_up_in_time(void **state)
{
	struct waiting *t = *state;
	struct ringside_read_options o = { .until = RINGSIDE_UNTIL_OUTPUT };
	assert_int_equal(ringside_read_wait(t->f.console, &o, 20, &t->answer, &t->err), 0);
	assert_int_equal(t->answer->reason, RINGSIDE_REASON_TIMEOUT);
	ringside_free(t->answer);
	peer_ends(&t->f, 0, 0);
	assert_int_equal(ringside_read_wait(t->f.console, &o, UINT64_MAX, &t->answer, &t->err), 0);
	assert_int_equal(t->answer->reason, RINGSIDE_REASON_EXIT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_plain_read_gives_what_is_there_and_does_not_wait),
		TEST(a_plain_read_ends_where_the_output_was_when_it_began),
		TEST(a_read_of_nothing_new_says_so),
		TEST(an_offset_past_the_tail_is_refused),
		TEST(max_bounds_what_is_given_and_next_offset_says_where_to_go_on),
		TEST(a_reader_that_fell_behind_is_told_how_much_it_lost),
		TEST(a_wait_for_output_ends_with_the_first_of_it),
		TEST(a_wait_that_runs_out_answers_timeout),
		TEST(a_waiting_reader_says_once_that_it_is_level_and_is_woken_once),
		TEST(a_match_is_found_over_the_wrap_of_the_ring_and_ends_the_answer),
		TEST(max_does_not_bound_what_is_searched),
		TEST(no_match_goes_over_a_gap),
		TEST(what_was_given_past_a_match_that_is_decided_late_is_not_in_the_answer),
		TEST(an_exit_ends_the_wait_for_a_match_and_decides_what_was_open),
		TEST(a_search_that_is_given_up_is_an_error_with_a_code),
		TEST(silence_is_counted_from_the_call_and_again_from_each_output),
		TEST(output_before_the_end_of_the_silence_is_not_silence_however_late_it_is_seen),
		TEST(the_end_comes_after_the_last_byte),
		TEST(a_broken_connection_ends_every_wait_as_lost),
		TEST(an_ended_console_answers_at_once),
		TEST(a_sink_gets_bytes_as_they_come_and_is_told_of_gaps),
		TEST(a_sink_that_takes_no_more_ends_the_read),
		TEST(the_blocking_read_waits_on_the_connection_and_gives_up_in_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
