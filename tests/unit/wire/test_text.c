/* Promises of wire/text.h, as tables. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/text.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Escaping ---- */

static void what_is_printable_stays_and_everything_else_is_written_out(void **state)
{
	static const struct {
		const char *in, *out;
	} table[] = {
		{ "", "" }, { "plain text, 100%", "plain text, 100%" }, { "a\\b\"c'", "a\\b\"c'" },
		{ "grün 漢字 🦀", "grün 漢字 🦀" }, { "👩‍💻", "👩‍💻" }, /* joined by U+200D */
		{ "a\nb\tc\rd\033e", "a\\nb\\tc\\rd\\ee" }, { "\033[2J\033]0;title\a", "\\e[2J\\e]0;title\\x07" },
		{ "\x7f\b", "\\x7f\\x08" },
		{ "\xc2\x9b"
		  "31m",
		        "\\xc2\\x9b31m" }, /* C1: CSI */
		{ "\xe2\x80\xae"
		  "evil",
		        "\\xe2\\x80\\xaeevil" },                /* U+202E: right to left */
		{ "\xe2\x81\xa6", "\\xe2\\x81\\xa6" },          /* U+2066: isolate */
		{ "\xe2\x80\xa8", "\\xe2\\x80\\xa8" },          /* U+2028: line separator */
		{ "\xef\xbb\xbf", "\\xef\\xbb\\xbf" },          /* byte order mark */
		{ "\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81" }, /* U+E0041: a tag, invisible */
		{ "a\xff"
		  "b",
		        "a\\xffb" },
		{ "\x80", "\\x80" }, { "\xc3", "\\xc3" },                                     /* cut */
		{ "\xe2\x82", "\\xe2\\x82" },                                                 /* cut */
		{ "\xc3(", "\\xc3(" }, { "\xc0\xaf", "\\xc0\\xaf" },                          /* overlong '/' */
		{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" }, { "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },                               /* past U+10FFFF */
		{ "\xef\xbf\xbf", "\\xef\\xbf\\xbf" },                                        /* U+FFFF */
	};
	char got[200];

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		assert_string_equal(text_escape(got, sizeof(got), table[i].in, strlen(table[i].in)), table[i].out);
}

static void a_nul_is_a_byte_like_others(void **state)
{
	char got[32];

	(void)state;
	assert_string_equal(text_escape(got, sizeof(got), "a\0b", 3), "a\\x00b");
}

static void a_cut_text_ends_in_dots_and_in_no_half_unit(void **state)
{
	/* Each size, and what fits into size - 1 bytes of "ab", ESC, "ü" (2 bytes), 0x01, "z". */
	static const char in[] = "ab\033\xc3\xbc\x01z";
	static const char *const by_size[] = { NULL, "", "", "", "…", "a…", "ab…", "ab…", "ab\\e…", "ab\\e…", "ab\\eü…",
		"ab\\e\xc3\xbc\\x01z" };
	char got[32];

	(void)state;
	for (size_t size = 1; size < 11; size++)
		assert_string_equal(text_escape(got, size, in, sizeof(in) - 1), by_size[size]);
	assert_string_equal(text_escape(got, 12, in, sizeof(in) - 1), by_size[11]);
}

static void it_never_writes_past_its_size(void **state)
{
	char input[64], got[80];

	(void)state;
	for (size_t i = 0; i < sizeof(input); i++)
		input[i] = (char)(i * 37 + 5);
	for (size_t size = 0; size <= 70; size++) {
		memset(got, '#', sizeof(got));
		text_escape(got, size, input, sizeof(input));
		for (size_t i = size; i < sizeof(got); i++)
			assert_int_equal(got[i], '#');
		if (size > 0)
			assert_true(strnlen(got, size) < size);
		memset(got, '#', sizeof(got));
		text_quote(got, size, input, sizeof(input));
		for (size_t i = size; i < sizeof(got); i++)
			assert_int_equal(got[i], '#');
		if (size > 0)
			assert_true(strnlen(got, size) < size);
	}
}

static void quoted_text_can_be_read_back(void **state)
{
	char got[64];

	(void)state;
	assert_string_equal(text_quote(got, sizeof(got), "say \"hi\"\\\n", 10), "\"say \\\"hi\\\"\\\\\\n\"");
	assert_string_equal(text_quote(got, 8, "abcdefgh", 8), "\"ab…\"");
	assert_string_equal(text_quote(got, 3, "", 0), "\"\"");
	assert_string_equal(text_quote(got, 2, "", 0), "");
}

/* ---- Numbers ---- */

static void durations_people_write(void **state)
{
	static const struct {
		const char *in;
		uint64_t ms;
	} good[] = {
		{ "0", 0 },
		{ "90", 90000 },
		{ "1.5", 1500 },
		{ "250ms", 250 },
		{ "10s", 10000 },
		{ "1.5m", 90000 },
		{ "2h", 7200000 },
		{ "1d", 86400000 },
		{ "0.25h", 900000 },
		{ "0.000000001s", 1 }, /* rounded up: not nothing */
		{ "0.5ms", 1 },
		{ "9007199254740992ms", (uint64_t)1 << 53 },
	};
	static const char *const bad[] = { "", " 1", "1 ", "1 s", "s", "-1", "+1", "1.", ".5", "1.5.5", "1e3", "1S",
		"1min", "1w", "0x10", "9007199254740993ms", "9007199254740992.1ms", "99999999999999999999",
		"18446744073709551615d", "1.0000000000s", "inf", "1s1s" };
	uint64_t ms;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		ms = 12345;
		if (!text_parse_duration(good[i].in, &ms))
			fail_msg("%s is refused", good[i].in);
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		ms = 12345;
		if (text_parse_duration(bad[i], &ms))
			fail_msg("\"%s\" is taken", bad[i]);
		assert_int_equal(ms, 12345);
	}
}

static void sizes_people_write(void **state)
{
	static const struct {
		const char *in;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "64K", 65536 },
		{ "64KiB", 65536 },
		{ "1M", 1048576 },
		{ "4G", (uint64_t)4 << 30 },
		{ "2TiB", (uint64_t)2 << 40 },
		{ "18446744073709551615", UINT64_MAX },
		{ "16777215T", (uint64_t)16777215 << 40 },
	};
	static const char *const bad[] = { "", "K", "-1", "1.5M", "64KB", "64k", "64Ki", "1 K", "1KK", "1P",
		"16777216T", "18446744073709551616", "0x10", "1K " };
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		if (!text_parse_size(good[i].in, &bytes))
			fail_msg("%s is refused", good[i].in);
		assert_int_equal(bytes, good[i].bytes);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		bytes = 12345;
		if (text_parse_size(bad[i], &bytes))
			fail_msg("\"%s\" is taken", bad[i]);
		assert_int_equal(bytes, 12345);
	}
}

static void decimal_numbers_have_digits_alone_and_a_maximum(void **state)
{
	static const char *const bad[] = { "", " 1", "1 ", "+1", "-1", "1a", "0x1", "1.0", "18446744073709551616",
		"99999999999999999999999" };
	uint64_t v = 0;

	(void)state;
	assert_true(text_parse_u64("18446744073709551615", UINT64_MAX, &v));
	assert_int_equal(v, UINT64_MAX);
	assert_true(text_parse_u64("007", 10, &v));
	assert_int_equal(v, 7);
	assert_true(text_parse_u64("10", 10, &v));
	assert_false(text_parse_u64("11", 10, &v));
	assert_false(text_parse_u64("100", 10, &v));
	assert_int_equal(v, 10);
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_false(text_parse_u64(bad[i], UINT64_MAX, &v));
}

/* ---- Signals ---- */

static void signals_by_name_in_any_case_or_by_number(void **state)
{
	(void)state;
	assert_int_equal(text_parse_signal("INT"), SIGINT);
	assert_int_equal(text_parse_signal("SIGINT"), SIGINT);
	assert_int_equal(text_parse_signal("int"), SIGINT);
	assert_int_equal(text_parse_signal("sigint"), SIGINT);
	assert_int_equal(text_parse_signal("2"), SIGINT);
	assert_int_equal(text_parse_signal("WINCH"), SIGWINCH);
	assert_int_equal(text_parse_signal("SIG34"), 34);
	assert_int_equal(text_parse_signal("64"), 64);
}

static void what_is_no_signal_is_zero(void **state)
{
	static const char *const bad[] = { "", "0", "-2", "65", "SIG", "SIGFOO", "INT ", "SIGSIGINT", "2x",
		"999999999999" };

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		if (text_parse_signal(bad[i]) != 0)
			fail_msg("\"%s\" is taken for %d", bad[i], text_parse_signal(bad[i]));
	}
}

static void every_signal_has_a_name_that_is_read_back(void **state)
{
	(void)state;
	for (int sig = 1; sig <= 64; sig++)
		assert_int_equal(text_parse_signal(text_signal_name(sig)), sig);
	assert_string_equal(text_signal_name(SIGKILL), "SIGKILL");
	assert_string_equal(text_signal_name(34), "SIG34");
	assert_non_null(text_signal_name(0));
	assert_non_null(text_signal_name(-1));
	assert_non_null(text_signal_name(65));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_printable_stays_and_everything_else_is_written_out),
		cmocka_unit_test(a_nul_is_a_byte_like_others),
		cmocka_unit_test(a_cut_text_ends_in_dots_and_in_no_half_unit),
		cmocka_unit_test(it_never_writes_past_its_size),
		cmocka_unit_test(quoted_text_can_be_read_back),
		cmocka_unit_test(durations_people_write),
		cmocka_unit_test(sizes_people_write),
		cmocka_unit_test(decimal_numbers_have_digits_alone_and_a_maximum),
		cmocka_unit_test(signals_by_name_in_any_case_or_by_number),
		cmocka_unit_test(what_is_no_signal_is_zero),
		cmocka_unit_test(every_signal_has_a_name_that_is_read_back),
	};
	return cmocka_run_group_tests_name("wire/text", tests, NULL, NULL);
}
