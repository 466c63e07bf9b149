/* Promises of wire/frame.h: what is a frame, at every length of input. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/frame.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void header(uint8_t out[FRAME_HEADER], uint32_t length, unsigned type, unsigned fds, unsigned channel)
{
	const struct frame f = {
		.length = length, .type = (uint8_t)type, .fds = (uint8_t)fds, .channel = (uint16_t)channel
	};

	frame_encode_header(&f, out);
}

static void a_frame_comes_back_as_it_went_in(void **state)
{
	uint8_t bytes[FRAME_HEADER + 300];
	struct frame got;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	header(bytes, 300, FRAME_DATA, 3, CHANNEL_STDERR);
	assert_int_equal(frame_decode(bytes, sizeof(bytes), &got), FRAME_HEADER + 300);
	assert_int_equal(got.length, 300);
	assert_int_equal(got.type, FRAME_DATA);
	assert_int_equal(got.fds, 3);
	assert_int_equal(got.channel, CHANNEL_STDERR);
	assert_ptr_equal(got.payload, bytes + FRAME_HEADER);
}

/* Peers of other versions and machines read these bytes: the header's picture, written a second time. */
static void the_layout_is_little_endian_and_does_not_change(void **state)
{
	uint8_t bytes[FRAME_HEADER];

	(void)state;
	header(bytes, 0x010203, FRAME_DATA, 4, 0x0201);
	assert_memory_equal(bytes, "\x03\x02\x01\x00\x02\x04\x01\x02", FRAME_HEADER);
}

/* The input is a heap block of exactly that size, so that a sanitizer sees any look past its end. */
static void at_every_split_it_asks_for_more_and_looks_no_further(void **state)
{
	uint8_t whole[FRAME_HEADER + 40] = { 0 };

	(void)state;
	header(whole, 40, FRAME_MESSAGE, 0, 0);
	for (size_t n = 0; n < sizeof(whole); n++) {
		uint8_t *part = malloc(n > 0 ? n : 1);
		struct frame got = { .length = 77 };

		assert_non_null(part);
		memcpy(part, whole, n);
		assert_int_equal(frame_decode(part, n, &got), 0);
		assert_int_equal(got.length, 77); /* set on success alone */
		free(part);
	}
}

static void bytes_after_a_frame_are_left_for_the_next(void **state)
{
	uint8_t bytes[FRAME_HEADER + 5 + 3] = { 0 };
	struct frame got;

	(void)state;
	header(bytes, 5, FRAME_MESSAGE, 0, 0);
	memset(bytes + FRAME_HEADER + 5, 0xff, 3);
	assert_int_equal(frame_decode(bytes, sizeof(bytes), &got), FRAME_HEADER + 5);
}

static void an_empty_payload_is_a_frame(void **state)
{
	uint8_t bytes[FRAME_HEADER];
	struct frame got;

	(void)state;
	header(bytes, 0, FRAME_DATA, 0, CHANNEL_INPUT);
	assert_int_equal(frame_decode(bytes, sizeof(bytes), &got), FRAME_HEADER);
	assert_int_equal(got.length, 0);
}

static void what_breaks_a_rule_is_refused_with_the_header_alone(void **state)
{
	static const struct {
		uint32_t length;
		unsigned type, fds, channel;
		int refused;
	} table[] = {
		{ FRAME_MAX_PAYLOAD, FRAME_MESSAGE, 0, 0, 0 },
		{ FRAME_MAX_PAYLOAD + 1, FRAME_MESSAGE, 0, 0, 1 },
		{ 0x7fffffff, FRAME_MESSAGE, 0, 0, 1 },
		{ 0xffffffff, FRAME_DATA, 0, 0, 1 },
		{ 0xfffffff8, FRAME_DATA, 0, 0, 1 }, /* header + length wraps in 32 bits */
		{ 0, 0, 0, 0, 1 },
		{ 0, 5, 0, 0, 1 },
		{ 0, 255, 0, 0, 1 },
		{ 0, FRAME_MESSAGE, FRAME_MAX_FDS, 0, 0 },
		{ 0, FRAME_MESSAGE, FRAME_MAX_FDS + 1, 0, 1 },
		{ 0, FRAME_MESSAGE, 255, 0, 1 },
		{ 0, FRAME_MESSAGE, 0, 1, 1 },
		{ 0, FRAME_DATA, 0, CHANNEL_STDERR, 0 },
		{ 0, FRAME_DATA, 0, CHANNEL_STDERR + 1, 1 },
		{ 0, FRAME_DATA, 0, 256, 1 },
		{ 8, FRAME_LEVEL, 0, 0, 0 },
		{ 7, FRAME_LEVEL, 0, 0, 1 },
		{ 9, FRAME_TAIL, 0, 0, 1 },
		{ 8, FRAME_TAIL, 0, 1, 1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		uint8_t bytes[FRAME_HEADER];
		struct frame got;

		header(bytes, table[i].length, table[i].type, table[i].fds, table[i].channel);
		assert_int_equal(frame_decode_header(bytes, &got), table[i].refused ? -EPROTO : 0);
		if (table[i].refused)
			assert_int_equal(frame_decode(bytes, sizeof(bytes), &got), -EPROTO);
		else
			assert_true(frame_decode(bytes, sizeof(bytes), &got) >= 0);
	}
}

static void offsets_keep_all_their_64_bits_at_any_alignment(void **state)
{
	static const uint64_t values[] = { 0, 1, 0xff, 0x100000000, (uint64_t)1 << 63, UINT64_MAX, 0x0123456789abcdef };
	uint8_t bytes[16];

	(void)state;
	for (size_t i = 0; i < COUNT(values); i++) {
		for (size_t at = 0; at < 8; at++) {
			frame_put_u64(bytes + at, values[i]);
			assert_int_equal(frame_get_u64(bytes + at), values[i]);
		}
	}
	frame_put_u64(bytes, 0x0102030405060708);
	assert_memory_equal(bytes, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_comes_back_as_it_went_in),
		cmocka_unit_test(the_layout_is_little_endian_and_does_not_change),
		cmocka_unit_test(at_every_split_it_asks_for_more_and_looks_no_further),
		cmocka_unit_test(bytes_after_a_frame_are_left_for_the_next),
		cmocka_unit_test(an_empty_payload_is_a_frame),
		cmocka_unit_test(what_breaks_a_rule_is_refused_with_the_header_alone),
		cmocka_unit_test(offsets_keep_all_their_64_bits_at_any_alignment),
	};
	return cmocka_run_group_tests_name("wire/frame", tests, NULL, NULL);
}
