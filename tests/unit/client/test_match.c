/* test_match.c - what the matcher promises about patterns over streams that come in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "client/match.h"

struct hit {
	bool found;
	uint64_t offset, length;
};

static struct matcher *matcher(const char *pattern)
{
	struct matcher *m;
	struct ringside_error err;
	assert_int_equal(matcher_new(pattern, &m, &err), 0);
	matcher_restart(m, 0);
	return m;
}

static struct hit feed_bytes(struct matcher *m, const void *bytes, size_t n, enum match_end end)
{
	struct hit h = { 0 };
	struct ringside_error err;
	const uint8_t *p = bytes;
	do {
		size_t room;
		uint8_t *space = matcher_space(m, &room);
		size_t piece = n < room ? n : room;
		memcpy(space, p, piece);
		p += piece;
		n -= piece;
		assert_int_equal(matcher_scan(m, piece, n ? MATCH_MORE : end, &h.found, &h.offset, &h.length, &err), 0);
	} while (n > 0 && !h.found);
	return h;
}

static struct hit feed(struct matcher *m, const char *text, enum match_end end)
{
	return feed_bytes(m, text, strlen(text), end);
}

static void a_match_that_is_cut_by_a_piece_is_found_whole(void **state)
{
	(void)state;
	struct matcher *m = matcher("DONE with [0-9]+ errors");
	assert_false(feed(m, "making... DO", MATCH_PAUSE).found);
	assert_false(feed(m, "NE wi", MATCH_PAUSE).found);
	struct hit h = feed(m, "th 12 errors\n$ ", MATCH_PAUSE);
	assert_true(h.found);
	assert_int_equal(h.offset, 10);
	assert_int_equal(h.length, strlen("DONE with 12 errors"));
	matcher_free(m);
}

static void a_prompt_is_found_at_a_pause_and_not_in_the_middle_of_a_flood(void **state)
{
	(void)state;
	struct matcher *m = matcher("\\$ $");
	assert_false(feed(m, "costs 5 $ ", MATCH_MORE).found);
	assert_false(feed(m, "each\r\n", MATCH_PAUSE).found);
	assert_true(feed(m, "me@box:~$ ", MATCH_PAUSE).found);
	matcher_free(m);
}

static void lines_begin_after_cr_lf_and_not_where_a_piece_begins(void **state)
{
	(void)state;
	struct matcher *m = matcher("^done$");
	assert_false(feed(m, "un", MATCH_PAUSE).found);
	assert_false(feed(m, "done\r\n", MATCH_PAUSE).found);
	struct hit h = feed(m, "done\r\nmore", MATCH_PAUSE);
	assert_true(h.found);
	assert_int_equal(h.offset, 8);
	assert_int_equal(h.length, 4);
	matcher_free(m);
}

static void what_a_pattern_looks_back_to_is_still_there_in_the_next_piece(void **state)
{
	(void)state;
	struct matcher *m = matcher("(?<=exit code: )7");
	assert_false(feed(m, "exit code:", MATCH_PAUSE).found);
	assert_false(feed(m, " ", MATCH_PAUSE).found);
	struct hit h = feed(m, "7", MATCH_PAUSE);
	assert_true(h.found);
	assert_int_equal(h.offset, 11);
	assert_int_equal(h.length, 1);
	matcher_free(m);
}

static void a_character_cut_by_a_piece_is_one_character(void **state)
{
	(void)state;
	struct matcher *m = matcher("^.\xe2\x9c\x93.$");
	assert_false(feed(m, "a\xe2", MATCH_PAUSE).found);
	assert_false(feed(m, "\x9c", MATCH_PAUSE).found);
	struct hit h = feed(m, "\x93z", MATCH_PAUSE);
	assert_true(h.found);
	assert_int_equal(h.offset, 0);
	assert_int_equal(h.length, 5);
	matcher_free(m);
}

static void bytes_that_are_not_utf8_neither_fail_nor_end_the_search(void **state)
{
	(void)state;
	static const char bad[] = "\x80\x80\xff\xfe\xc0\xaf\xed\xa0\x80\xf5";
	struct matcher *m = matcher("found");
	for (int i = 0; i < 100; i++)
		assert_false(feed_bytes(m, bad + i % 10, 10 - (size_t)(i % 10), MATCH_PAUSE).found);
	assert_true(feed(m, "\xff found", MATCH_PAUSE).found);
	matcher_free(m);
}

static void a_pattern_of_other_bytes_is_matched_as_bytes(void **state)
{
	(void)state;
	struct matcher *m = matcher("caf\xe9"); /* Latin-1 */
	assert_false(feed(m, "a caf", MATCH_PAUSE).found);
	struct hit h = feed(m, "\xe9 au lait", MATCH_PAUSE);
	assert_true(h.found);
	assert_int_equal(h.offset, 2);
	matcher_free(m);
}

static void a_match_fits_the_window_and_a_longer_one_is_not_found(void **state)
{
	(void)state;
	char *dots = malloc(2 * RINGSIDE_MATCH_WINDOW);
	assert_non_null(dots);
	memset(dots, '.', 2 * RINGSIDE_MATCH_WINDOW);

	struct matcher *m = matcher("begin[^e]*end");
	assert_false(feed(m, "begin", MATCH_PAUSE).found);
	assert_false(feed_bytes(m, dots, RINGSIDE_MATCH_WINDOW / 2, MATCH_PAUSE).found);
	assert_true(feed(m, "end", MATCH_PAUSE).found);
	matcher_free(m);

	m = matcher("begin[^e]*end");
	assert_false(feed(m, "begin", MATCH_PAUSE).found);
	assert_false(feed_bytes(m, dots, 2 * RINGSIDE_MATCH_WINDOW, MATCH_PAUSE).found);
	assert_false(feed(m, "end", MATCH_PAUSE).found);
	assert_true(feed(m, "begin.end", MATCH_PAUSE).found); /* and it goes on */
	matcher_free(m);
	free(dots);
}

static void what_was_given_up_is_not_taken_for_the_beginning_of_a_line(void **state)
{
	(void)state;
	char *dots = malloc(RINGSIDE_MATCH_WINDOW);
	assert_non_null(dots);
	memset(dots, '.', RINGSIDE_MATCH_WINDOW);
	/* The line fills the window, so its older half goes; what is left has no beginning of a line in it. */
	struct matcher *m = matcher("^\\.+x");
	for (int i = 0; i < 4; i++)
		assert_false(feed_bytes(m, dots, RINGSIDE_MATCH_WINDOW, MATCH_PAUSE).found);
	assert_false(feed(m, "x", MATCH_PAUSE).found);
	assert_true(feed(m, "\n.x", MATCH_PAUSE).found);
	matcher_free(m);
	free(dots);
}

static void a_pattern_that_backtracks_without_end_is_given_up_with_a_code(void **state)
{
	(void)state;
	struct matcher *m = matcher("^(a+)+\\d$");
	struct ringside_error err;
	size_t room;
	bool found;
	uint64_t offset, length;
	uint8_t *space = matcher_space(m, &room);
	memset(space, 'a', 4000);
	space[4000] = '!';
	assert_int_equal(matcher_scan(m, 4001, MATCH_FINAL, &found, &offset, &length, &err), RINGSIDE_RESOURCE_LIMIT);
	assert_string_equal(err.name, "resource_limit");
	matcher_free(m);
}

static void a_wrong_pattern_is_the_callers_mistake_and_says_where(void **state)
{
	(void)state;
	struct matcher *m = NULL;
	struct ringside_error err;
	assert_int_equal(matcher_new("ab(cd", &m, &err), RINGSIDE_INVALID_ARGUMENT);
	assert_null(m);
	assert_non_null(strstr(err.message, "at byte 5"));
	assert_int_equal(matcher_new("\\C", &m, &err), RINGSIDE_INVALID_ARGUMENT);
	assert_int_equal(matcher_new("(?<=a{60000}b{60000})x", &m, &err), RINGSIDE_INVALID_ARGUMENT);
}

/* ---- However it is cut: the same first match as in one piece ---- */

static uint32_t seed = 12345;

static uint32_t some(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static void random_text(uint8_t *out, size_t n)
{
	static const char *const words[] = { "a", "ab", "abc", "b", "c", "\r\n", "\n", " ", "xy", "\xc3\xa9",
		"\xe2\x9c\x93", "\x80", "\xff", "\xe2", "\xf0\x9f\x98\x80", "$ " };
	size_t used = 0;
	while (used < n) {
		const char *w = words[some(sizeof(words) / sizeof(words[0]))];
		size_t len = strlen(w) < n - used ? strlen(w) : n - used;
		memcpy(out + used, w, len);
		used += len;
	}
}

static struct hit in_pieces(const char *pattern, const uint8_t *text, size_t n, uint32_t longest)
{
	struct matcher *m = matcher(pattern);
	struct hit h = { 0 };
	for (size_t at = 0; !h.found && at < n;) {
		size_t piece = 1 + some(longest);
		if (piece > n - at)
			piece = n - at;
		h = feed_bytes(m, text + at, piece, at + piece < n ? MATCH_MORE : MATCH_FINAL);
		at += piece;
	}
	matcher_free(m);
	return h;
}

static void however_the_output_is_cut_the_first_match_is_the_same(void **state)
{
	(void)state;
	static const char *const patterns[] = { "abcab", "a+b+c+", "(?<=\\n)abc", "^abc", "abc$", "\\babc\\b", "a.c",
		"b(?=c)c?x", "(?<!a)bcc", "\xc3\xa9+\xe2\x9c\x93", "[\xc3\xa9x]{2}y", "(?s)a.*?xyxy", "\\$ $",
		"xy|xyxy|ab\\R", "(?i)AB\\r?\\nC", "\xf0\x9f\x98\x80.a" };
	uint8_t text[400];
	unsigned found = 0, missed = 0;
	for (int round = 0; round < 4000; round++) {
		const char *pattern = patterns[some(sizeof(patterns) / sizeof(patterns[0]))];
		size_t n = 1 + some(sizeof(text) - 1);
		random_text(text, n);
		struct matcher *m = matcher(pattern);
		struct hit whole = feed_bytes(m, text, n, MATCH_FINAL);
		matcher_free(m);
		struct hit cut = in_pieces(pattern, text, n, 1 + some(9));
		if (whole.found != cut.found || whole.offset != cut.offset || whole.length != cut.length)
			fail_msg("round %d, pattern %s: whole %d %lu+%lu, cut %d %lu+%lu", round, pattern, whole.found,
			        whole.offset, whole.length, cut.found, cut.offset, cut.length);
		found += whole.found;
		missed += !whole.found;
	}
	assert_true(found > 500 && missed > 500); /* or it would have shown little */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_match_that_is_cut_by_a_piece_is_found_whole),
		cmocka_unit_test(a_prompt_is_found_at_a_pause_and_not_in_the_middle_of_a_flood),
		cmocka_unit_test(lines_begin_after_cr_lf_and_not_where_a_piece_begins),
		cmocka_unit_test(what_a_pattern_looks_back_to_is_still_there_in_the_next_piece),
		cmocka_unit_test(a_character_cut_by_a_piece_is_one_character),
		cmocka_unit_test(bytes_that_are_not_utf8_neither_fail_nor_end_the_search),
		cmocka_unit_test(a_pattern_of_other_bytes_is_matched_as_bytes),
		cmocka_unit_test(a_match_fits_the_window_and_a_longer_one_is_not_found),
		cmocka_unit_test(what_was_given_up_is_not_taken_for_the_beginning_of_a_line),
		cmocka_unit_test(a_pattern_that_backtracks_without_end_is_given_up_with_a_code),
		cmocka_unit_test(a_wrong_pattern_is_the_callers_mistake_and_says_where),
		cmocka_unit_test(however_the_output_is_cut_the_first_match_is_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
