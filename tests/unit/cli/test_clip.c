/* test_clip.c - the beginning and the end of a stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli/clip.h"

#define MOST (4 * (CLIP_HEAD + CLIP_TAIL))
static uint8_t stream[MOST];

static void fill(void)
{
	for (size_t i = 0; i < MOST; i++)
		stream[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* The first `size` bytes, in pieces of `piece`. */
static void check(size_t size, size_t piece)
{
	static struct clip c;
	static uint8_t out[CLIP_HEAD + CLIP_TAIL];
	uint64_t omitted;
	memset(&c, 0, sizeof(c));
	for (size_t at = 0; at < size; at += piece)
		clip_add(&c, stream + at, piece < size - at ? piece : size - at);
	size_t n = clip_take(&c, out, &omitted);
	size_t kept = size < sizeof(out) ? size : sizeof(out);
	assert_int_equal(n, kept);
	assert_int_equal(omitted, size - kept);
	size_t head = size < CLIP_HEAD ? size : CLIP_HEAD;
	assert_memory_equal(out, stream, head);
	assert_memory_equal(out + head, stream + size - (kept - head), kept - head);
}

static void a_short_stream_is_whole(void **state)
{
	(void)state;
	fill();
	check(0, 1);
	check(1, 1);
	check(CLIP_HEAD, 100);
	check(CLIP_HEAD + CLIP_TAIL, 1000);
}

static void of_a_long_one_the_first_and_the_last_are_kept_however_it_came(void **state)
{
	(void)state;
	static const size_t sizes[] = { CLIP_HEAD + CLIP_TAIL + 1, 3 * CLIP_HEAD - 1, 3 * CLIP_HEAD, 3 * CLIP_HEAD + 1,
		MOST - 7, MOST };
	static const size_t pieces[] = { 1, 3, 1000, CLIP_TAIL - 1, CLIP_TAIL, CLIP_TAIL + 1, 3 * CLIP_TAIL, MOST };
	fill();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t j = 0; j < sizeof(pieces) / sizeof(pieces[0]); j++)
			check(sizes[i], pieces[j]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_stream_is_whole),
		cmocka_unit_test(of_a_long_one_the_first_and_the_last_are_kept_however_it_came),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
