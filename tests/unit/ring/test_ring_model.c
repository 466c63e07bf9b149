/*
 * test_ring_model.c - the ring against the plainest thing that does the same: the whole stream in one long array, and
 * three numbers. Random capacities, starts, writes, skips and reads by several readers that seldom drain, since what
 * breaks rings is what they still hold at the wrap.
 *
 * A failure prints its seed; RING_SEED=N runs that one alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "tests/unit/ring/stamp.h"

#define SEEDS   150
#define STEPS   400
#define READERS 3
#define HISTORY ((size_t)16 * 1024 * 1024) /* bytes a run writes at most */

struct model {
	unsigned char *bytes; /* of the offsets from `base` on */
	uint64_t base, first, tail;
	size_t capacity;
};

static uint64_t seed; /* of this run, for the message */
static uint64_t dice; /* its state */

#define require(what)                                                                        \
	do {                                                                                 \
		if (!(what))                                                                 \
			fail_msg("%s (line %d), RING_SEED=%" PRIu64, #what, __LINE__, seed); \
	} while (0)

static size_t below(uint64_t limit)
{
	return (size_t)rng_below(&dice, limit);
}

/* Small ones as often as large ones: 0 ≤ result ≤ limit. */
static size_t any_size(size_t limit)
{
	switch (below(4)) {
	case 0:
		return below(4 < limit ? 4 : limit + 1);
	case 1:
		return below(limit / 16 + 1);
	case 2:
		return limit - below(limit < 4 ? limit + 1 : 4);
	default:
		return below(limit + 1);
	}
}

static uint64_t model_head(const struct model *m)
{
	return m->tail - m->first > m->capacity ? m->tail - m->capacity : m->first;
}

static unsigned char *model_at(const struct model *m, uint64_t offset)
{
	return m->bytes + (size_t)(offset - m->base);
}

/* Room in the history for n more, which are made up here. */
static const unsigned char *model_next_bytes(const struct model *m, size_t n)
{
	unsigned char *at = model_at(m, m->tail);

	for (size_t i = 0; i < n; i++)
		at[i] = (unsigned char)rng_next(&dice);
	return at;
}

static size_t model_room(const struct model *m)
{
	return HISTORY - (size_t)(m->tail - m->base);
}

/* ---- Steps ---- */

static void do_append(struct ring *r, struct model *m)
{
	size_t n = any_size(m->capacity + 2 * RING_SLACK);

	if (n > model_room(m))
		return;
	ring_append(r, model_next_bytes(m, n), n);
	m->tail += n;
}

/* As read(2) does it: puts something into the window, and publishes a part of it or nothing. */
static void do_publish(struct ring *r, struct model *m)
{
	size_t filled = any_size(RING_SLACK), n = filled - any_size(filled);

	if (filled > model_room(m))
		return;
	memcpy(ring_window(r), model_next_bytes(m, filled), filled);
	ring_publish(r, n);
	m->tail += n;
}

/* The offsets jump, and the array is begun anew, since nothing of before can be asked for. */
static void do_skip(struct ring *r, struct model *m)
{
	uint64_t first = m->tail + (below(2) ? below(100000) : below(2) << 40);

	require(ring_skip_to(r, first) == 0);
	m->base = m->first = m->tail = first;
	if (first > 0)
		require(ring_skip_to(r, first - 1) == -EINVAL);
}

static void do_read(const struct ring *r, const struct model *m, uint64_t *cursor)
{
	uint64_t from = *cursor, head = model_head(m), offset;
	size_t max = any_size(below(2) ? 500 : m->capacity + 5000), n;
	struct ring_span got;
	unsigned char *buf;
	int err;

	switch (below(12)) { /* now and then not where one was: a client may ask for anything */
	case 0:
		from = m->tail + below(3);
		break;
	case 1:
		from = head - below(head < 3 ? head + 1 : 3);
		break;
	case 2:
		from = below(m->tail + 1);
		break;
	}
	buf = malloc(max ? max : 1); /* of this very size, so that a byte too much is noticed */
	require(buf);
	err = ring_read(r, from, buf, max, &got);
	if (from > m->tail) {
		require(err == -ERANGE);
		free(buf);
		return;
	}
	offset = from > head ? from : head;
	n = m->tail - offset < max ? (size_t)(m->tail - offset) : max;
	require(err == 0);
	require(got.offset == offset);
	require(got.next_offset == offset + n);
	require(got.lost_bytes == offset - from);
	require(n == 0 || memcmp(buf, model_at(m, offset), n) == 0);
	*cursor = got.next_offset;
	free(buf);
}

/* ---- Runs ---- */

static uint64_t any_first(void)
{
	switch (below(4)) {
	case 0:
		return 0;
	case 1:
		return (UINT64_C(1) << 32) - below(200000);
	case 2:
		return (UINT64_C(1) << 63) - below(200000);
	default:
		return rng_next(&dice) >> 2;
	}
}

static void run(uint64_t the_seed, unsigned char *history)
{
	struct model m = { .bytes = history };
	struct ring *writer, *opened;
	uint64_t cursor[READERS];

	dice = seed = the_seed;
	m.capacity = RING_MIN_CAPACITY << below(6); /* up to 128 KiB: below, at and above the slack */
	m.base = m.first = m.tail = any_first();
	require(ring_create("model", m.capacity, m.tail, &writer) == 0);
	require(ring_open(ring_fd(writer), &opened) == 0);
	for (int i = 0; i < READERS; i++)
		cursor[i] = m.tail;
	for (int step = 0; step < STEPS; step++) {
		size_t what = below(100), who = below(READERS);

		if (what < 10)
			do_append(writer, &m);
		else if (what < 40)
			do_publish(writer, &m);
		else if (what < 41)
			do_skip(writer, &m);
		else
			do_read(who ? opened : writer, &m, &cursor[who]);
		require(ring_tail(opened) == m.tail && ring_tail(writer) == m.tail);
		require(ring_head(opened) == model_head(&m));
	}
	ring_free(writer);
	ring_free(opened);
}

static void the_ring_answers_as_the_whole_stream_in_an_array_would(void **state)
{
	const char *one = getenv("RING_SEED");
	unsigned char *history = malloc(HISTORY);

	(void)state;
	assert_non_null(history);
	if (one)
		run(strtoull(one, NULL, 10), history);
	else
		for (uint64_t s = 1; s <= SEEDS; s++)
			run(s, history);
	free(history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ring_answers_as_the_whole_stream_in_an_array_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
