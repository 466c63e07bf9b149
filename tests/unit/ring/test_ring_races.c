/*
 * test_ring_races.c - one interruption at every point: before each load and store of the shared words and in the middle
 * of each copy the other side gets to act, one point a run, until there is no point left. What chance finds in
 * test_ring_stress.c once a week is found here each time. The source is included, so that the points can be counted.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ring/stamp.h"

static int points; /* passed since armed */
static int stop_at;
static bool every_time; /* not once, but at this point and each later one */
static void (*interruption)(void);

static void point(void)
{
	void (*act)(void) = interruption;

	if (!act || ++points < stop_at)
		return;
	interruption = NULL; /* what it does itself is not interrupted */
	act();
	interruption = every_time ? act : NULL;
}

static void *interrupted_memcpy(void *to, const void *from, size_t n)
{
	memcpy(to, from, n / 2);
	point();
	return memcpy((unsigned char *)to + n / 2, (const unsigned char *)from + n / 2, n - n / 2);
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef memcpy
#define atomic_load_explicit(p, order)     (point(), __atomic_load_n((const uint64_t *)(p), order))
#define atomic_store_explicit(p, v, order) (point(), __atomic_store_n((uint64_t *)(p), v, order))
#define memcpy(to, from, n)                interrupted_memcpy(to, from, n)
#include "ring/ring.c"
#undef memcpy

#define CAPACITY RING_MIN_CAPACITY
#define LATER    ((uint64_t)1 << 40)

static struct ring *ring, *reader;

static void arm(int at, bool always, void (*act)(void))
{
	points = 0;
	stop_at = at;
	every_time = always;
	interruption = act;
}

/* Disarms; whether the point was ever reached. */
static bool disarm(void)
{
	interruption = NULL;
	return points >= stop_at;
}

/* ---- What the writer may do ---- */

static void append(size_t n)
{
	static unsigned char bytes[4 * 64 * 1024];

	assert_true(n <= sizeof(bytes));
	stamp_fill(bytes, ring_tail(ring), n);
	ring_append(ring, bytes, n);
}

static void write_a_byte(void)
{
	append(1);
}

static void write_some(void)
{
	append(1000);
}

static void write_a_capacity(void)
{
	append(CAPACITY);
}

static void write_all_around(void)
{
	append(CAPACITY + RING_SLACK);
}

static void write_twice_around(void)
{
	append(3 * RING_SLACK);
}

static void spoil_the_window(void)
{
	memset(ring_window(ring), 0xEE, RING_SLACK);
}

static void jump(void)
{
	assert_int_equal(ring_skip_to(ring, ring_tail(ring) + LATER), 0);
}

static void jump_nowhere(void)
{
	assert_int_equal(ring_skip_to(ring, ring_tail(ring)), 0);
}

static void jump_and_write(void)
{
	jump();
	append(CAPACITY + 500);
	spoil_the_window();
}

static void (*const writes[])(void) = { write_a_byte, write_some, write_a_capacity, write_all_around,
	write_twice_around, spoil_the_window, jump, jump_nowhere, jump_and_write };
#define WRITES (sizeof(writes) / sizeof(writes[0]))

/* ---- What a reader must get, whenever it looks ---- */

static unsigned char buf[CAPACITY];

/* Reads and checks all that holds in general: a span that fits the question, right bytes. The bytes read. */
static size_t read_checked(uint64_t *cursor, size_t max)
{
	struct ring_span got;
	uint64_t n;

	memset(buf, 0x55, sizeof(buf));
	assert_int_equal(ring_read(reader, *cursor, buf, max, &got), 0);
	assert_true(got.offset >= *cursor);
	assert_true(got.lost_bytes == got.offset - *cursor);
	n = got.next_offset - got.offset;
	assert_true(n <= max);
	assert_int_equal(stamp_right(buf, got.offset, n), n);
	*cursor = got.next_offset;
	return n;
}

static void read_to_the_tail(uint64_t cursor)
{
	while (read_checked(&cursor, 777) > 0)
		;
	assert_true(cursor == ring_tail(ring));
}

static void start(size_t filled)
{
	assert_int_equal(ring_create("races", CAPACITY, ((uint64_t)1 << 32) - 2000, &ring), 0);
	assert_int_equal(ring_open(ring_fd(ring), &reader), 0);
	append(filled);
}

static void stop(void)
{
	ring_free(reader);
	ring_free(ring);
	reader = ring = NULL;
}

static const size_t fills[] = { 0, 1, 2000, CAPACITY, CAPACITY + 1, 70000 };
static const size_t sizes[] = { 0, 1, 100, CAPACITY };
#define FILLS (sizeof(fills) / sizeof(fills[0]))
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* One read from where, with one write at the point `at`. Whether the read has such a point. */
static bool interrupted_read(size_t fill, unsigned where, size_t max, void (*write)(void), int at)
{
	uint64_t tail, head, cursor;
	bool reached;
	size_t n;

	start(fill);
	tail = ring_tail(ring);
	head = ring_head(ring);
	cursor = where == 0 ? 0 : where == 1 ? head : where == 2 ? head + (tail - head) / 2 : tail;
	arm(at, false, write);
	n = read_checked(&cursor, max);
	reached = disarm();
	/* One interruption never costs a reader its whole turn: nothing means that there was nothing. */
	if (n == 0 && max > 0)
		assert_true(cursor == tail || cursor == ring_tail(ring));
	read_to_the_tail(cursor);
	stop();
	return reached;
}

static void a_read_interrupted_anywhere_by_any_write_gives_right_bytes_and_a_true_account(void **state)
{
	int most = 0;

	(void)state;
	for (size_t f = 0; f < FILLS; f++)
		for (unsigned where = 0; where < 4; where++)
			for (size_t s = 0; s < SIZES; s++)
				for (size_t w = 0; w < WRITES; w++) {
					int at = 1;

					while (interrupted_read(fills[f], where, sizes[s], writes[w], at))
						at++;
					most = at > most ? at : most;
				}
	assert_true(most > 4); /* tail, first, (the copy,) tail, first: there were points at all */
}

static void look(void)
{
	uint64_t cursor;

	for (size_t s = 0; s < SIZES; s++) {
		cursor = 0;
		read_checked(&cursor, sizes[s]);
	}
	while (read_checked(&cursor, CAPACITY) > 0)
		;
}

static void a_write_looked_at_anywhere_shows_right_bytes_and_a_true_account(void **state)
{
	int most = 0;

	(void)state;
	for (size_t f = 0; f < FILLS; f++)
		for (size_t w = 0; w < WRITES; w++)
			for (int at = 1;; at++) {
				bool reached;

				start(fills[f]);
				arm(at, false, look);
				writes[w]();
				reached = disarm();
				read_to_the_tail(0);
				stop();
				if (!reached)
					break;
				most = at > most ? at : most;
			}
	assert_true(most > 4);
}

/* ---- The cases that have a name ---- */

/* The point in the middle of the copy; ThreadSanitizer's builds copy by hand and have none. */
#define IN_THE_COPY 3
#if defined(__SANITIZE_THREAD__) || defined(UNDER_TSAN)
#define NO_POINT_IN_COPY 1
#endif

static void a_copy_overtaken_in_the_middle_gives_the_end_that_is_still_whole(void **state)
{
	struct ring_span got;
	uint64_t head;

	(void)state;
#ifdef NO_POINT_IN_COPY
	skip();
#endif
	start(2 * CAPACITY);
	head = ring_head(ring);
	arm(IN_THE_COPY, false, write_some);
	assert_int_equal(ring_read(reader, head, buf, CAPACITY, &got), 0);
	assert_true(disarm());
	assert_true(got.offset == head + 1000);
	assert_int_equal(got.lost_bytes, 1000);
	assert_int_equal(got.next_offset - got.offset, CAPACITY - 1000);
	assert_int_equal(stamp_right(buf, got.offset, CAPACITY - 1000), CAPACITY - 1000);
	stop();
}

static void a_copy_lapped_once_is_made_again_from_the_new_head(void **state)
{
	struct ring_span got;
	uint64_t from;

	(void)state;
	start(2 * CAPACITY);
	from = ring_head(ring);
	arm(IN_THE_COPY, false, write_twice_around);
	assert_int_equal(ring_read(reader, from, buf, 100, &got), 0);
	assert_true(disarm());
	assert_true(got.offset == ring_head(ring));
	assert_true(got.lost_bytes == ring_head(ring) - from);
	assert_int_equal(got.next_offset - got.offset, 100);
	assert_int_equal(stamp_right(buf, got.offset, 100), 100);
	stop();
}

static void a_writer_that_always_laps_the_reader_cannot_hold_it(void **state)
{
	struct ring_span got;
	uint64_t from;

	(void)state;
	start(2 * CAPACITY);
	from = ring_head(ring);
	arm(1, true, write_all_around);
	assert_int_equal(ring_read(reader, from, buf, CAPACITY, &got), 0);
	assert_true(disarm());
	assert_true(points < 64);
	assert_true(got.offset == got.next_offset);
	assert_true(got.offset > from + CAPACITY); /* at a head of now, so that the next read has a chance */
	assert_true(got.lost_bytes == got.offset - from);
	assert_true(got.offset <= ring_tail(ring));
	read_to_the_tail(got.next_offset);
	stop();
}

/* Any mixture of writes at any points of one read after another, each seed a run of its own. */
static uint64_t seed;

static void write_anything(void)
{
	for (uint64_t n = rng_below(&seed, 3); n > 0; n--)
		writes[rng_below(&seed, WRITES)]();
}

static void reads_under_random_interruptions_stay_right(void **state)
{
	(void)state;
	for (uint64_t run = 0; run < 300; run++) {
		uint64_t cursor = 0;

		seed = run;
		start(rng_below(&seed, 70000));
		for (int i = 0; i < 50; i++) {
			arm((int)rng_below(&seed, 6), rng_below(&seed, 2), write_anything);
			read_checked(&cursor, rng_below(&seed, CAPACITY + 1));
			disarm();
		}
		read_to_the_tail(cursor);
		stop();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_interrupted_anywhere_by_any_write_gives_right_bytes_and_a_true_account),
		cmocka_unit_test(a_write_looked_at_anywhere_shows_right_bytes_and_a_true_account),
		cmocka_unit_test(a_copy_overtaken_in_the_middle_gives_the_end_that_is_still_whole),
		cmocka_unit_test(a_copy_lapped_once_is_made_again_from_the_new_head),
		cmocka_unit_test(a_writer_that_always_laps_the_reader_cannot_hold_it),
		cmocka_unit_test(reads_under_random_interruptions_stay_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
