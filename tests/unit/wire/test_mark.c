/* Promises of wire/mark.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/codes.h"
#include "wire/mark.h"

static struct mark sample(void)
{
	struct mark m = { .offset = 0x1122334455667788,
		.at_ms = 1767225600000,
		.kind = MARK_RESIZE,
		.a = 132,
		.b = 43,
		.incarnation = 7,
		.text_len = 5,
		.text = "title" };

	return m;
}

static void a_mark_comes_back_as_it_went_in(void **state)
{
	struct mark m = sample(), got;
	uint8_t bytes[MARK_SIZE];

	(void)state;
	memset(&got, 0x55, sizeof(got));
	mark_pack(&m, bytes);
	assert_true(mark_unpack(bytes, &got));
	assert_int_equal(got.offset, m.offset);
	assert_int_equal(got.at_ms, m.at_ms);
	assert_int_equal(got.kind, m.kind);
	assert_int_equal(got.a, m.a);
	assert_int_equal(got.b, m.b);
	assert_int_equal(got.incarnation, m.incarnation);
	assert_int_equal(got.text_len, 5);
	assert_string_equal(got.text, "title");
}

/* Another version reads these bytes: the layout of the header's picture, written a second time. */
static void the_layout_does_not_change(void **state)
{
	struct mark m = sample();
	uint8_t bytes[MARK_SIZE];

	(void)state;
	mark_pack(&m, bytes);
	assert_memory_equal(bytes, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
	assert_int_equal(bytes[16], MARK_RESIZE);
	assert_int_equal(bytes[20], 132);
	assert_int_equal(bytes[24], 43);
	assert_int_equal(bytes[28], 7);
	assert_int_equal(bytes[32], 5);
	assert_int_equal(bytes[34], 0);
	assert_memory_equal(bytes + 36, "title", 6);
	assert_int_equal(MARK_SIZE, 256);
	assert_int_equal(MARK_LAYOUT, 1);
}

static void the_longest_text_fits_and_ends_in_a_nul(void **state)
{
	struct mark m = sample(), got;
	uint8_t bytes[MARK_SIZE];

	(void)state;
	m.text_len = MARK_MAX_TEXT;
	memset(m.text, 'x', MARK_MAX_TEXT);
	mark_pack(&m, bytes);
	assert_true(mark_unpack(bytes, &got));
	assert_int_equal(strlen(got.text), MARK_MAX_TEXT);
}

static void a_text_that_is_too_long_is_cut(void **state)
{
	struct mark m = sample(), got;
	uint8_t bytes[MARK_SIZE];

	(void)state;
	m.text_len = MARK_MAX_TEXT + 1;
	mark_pack(&m, bytes);
	assert_true(mark_unpack(bytes, &got));
	assert_int_equal(got.text_len, MARK_MAX_TEXT);
}

static void nothing_of_a_text_is_left_behind_another(void **state)
{
	struct mark m = sample();
	uint8_t bytes[MARK_SIZE];

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	m.text_len = 0;
	mark_pack(&m, bytes);
	for (size_t i = 32; i < MARK_SIZE; i++)
		assert_int_equal(bytes[i], 0);
}

static void hostile_bytes_are_no_mark(void **state)
{
	struct mark m = sample(), got;
	uint8_t bytes[MARK_SIZE] = { 0 };

	(void)state;
	assert_false(mark_unpack(bytes, &got)); /* kind 0 */
	memset(bytes, 0xff, sizeof(bytes));
	assert_false(mark_unpack(bytes, &got));
	mark_pack(&m, bytes);
	bytes[32] = MARK_MAX_TEXT + 1;
	assert_false(mark_unpack(bytes, &got));
	bytes[32] = 5;
	bytes[33] = 0xff;
	assert_false(mark_unpack(bytes, &got));
	bytes[33] = 0;
	bytes[34] = 1;
	assert_false(mark_unpack(bytes, &got));
	bytes[34] = 0;
	assert_true(mark_unpack(bytes, &got));
}

static void a_kind_of_a_newer_version_is_a_mark(void **state)
{
	struct mark m = sample(), got;
	uint8_t bytes[MARK_SIZE];

	(void)state;
	m.kind = 4000;
	mark_pack(&m, bytes);
	assert_true(mark_unpack(bytes, &got));
	assert_int_equal(got.kind, 4000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mark_comes_back_as_it_went_in),
		cmocka_unit_test(the_layout_does_not_change),
		cmocka_unit_test(the_longest_text_fits_and_ends_in_a_nul),
		cmocka_unit_test(a_text_that_is_too_long_is_cut),
		cmocka_unit_test(nothing_of_a_text_is_left_behind_another),
		cmocka_unit_test(hostile_bytes_are_no_mark),
		cmocka_unit_test(a_kind_of_a_newer_version_is_a_mark),
	};
	return cmocka_run_group_tests_name("wire/mark", tests, NULL, NULL);
}
