/* test_filter.c - what of a sandbox's output reaches the terminal of a person. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli/filter.h"

static char shown[FILTER_ROOM(8192) + 1];

static size_t through(struct filter *f, const char *bytes, size_t n, char *out)
{
	return filter_run(f, (const uint8_t *)bytes, n, (uint8_t *)out);
}

/* Runs it in one piece, and then again byte by byte: both must come out the same. */
static const char *filtered_bytes(enum filter_policy policy, const char *bytes, size_t n)
{
	static char single[sizeof(shown)];
	struct filter f;
	filter_init(&f, policy);
	size_t used = through(&f, bytes, n, shown);
	used += filter_cut(&f, (uint8_t *)shown + used);
	shown[used] = '\0';

	size_t again = 0;
	filter_init(&f, policy);
	for (size_t i = 0; i < n; i++)
		again += through(&f, bytes + i, 1, single + again);
	again += filter_cut(&f, (uint8_t *)single + again);
	assert_int_equal(again, used);
	assert_memory_equal(single, shown, used);
	return shown;
}

static const char *filtered(enum filter_policy policy, const char *text)
{
	return filtered_bytes(policy, text, strlen(text));
}

#define passes(policy, text)       assert_string_equal(filtered(policy, text), text)
#define becomes(policy, text, out) assert_string_equal(filtered(policy, text), out)

/* ---- Text alone ---- */

static void text_and_colours_pass(void **state)
{
	(void)state;
	passes(FILTER_TEXT, "plain\ttext\r\nand more\b\b");
	passes(FILTER_TEXT, "gr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x98\x80");
	passes(FILTER_TEXT, "\033[31mred\033[0m \033[1;38;2;1;2;3mrgb\033[m \033[4:3mcurly\033[24m");
}

static void what_moves_asks_or_hides_does_not(void **state)
{
	(void)state;
	static const char *const hostile[] = { "\033[2J", "\033[H", "\033[10;10H", "\033[A", "\033[6n", "\033[c",
		"\033[>c", "\033[?25l", "\033[?1049h", "\033[21t", "\033]0;title\007", "\033]52;c;ZXZpbA==\007",
		"\033]52;c;?\033\\", "\033P$qm\033\\", "\033_apc\033\\", "\033^pm\033\\", "\033Xsos\033\\", "\033c",
		"\0337", "\033(0", "\033#8", "\033Z", "\005", "\007", "\016", "\017", "\177", "\033[?4m", "\033[>4;2m",
		"\033[0 m", "\033[3;4!m" };
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		char text[64];
		strcpy(text, "a");
		strcat(text, hostile[i]);
		strcat(text, "z");
		becomes(FILTER_TEXT, text, "az");
	}
}

static void c1_controls_are_the_sequences_that_they_stand_for(void **state)
{
	(void)state;
	becomes(FILTER_TEXT,
	        "a\xc2\x9b"
	        "2Jz",
	        "az");
	becomes(FILTER_TEXT,
	        "a\xc2\x9d"
	        "0;title\xc2\x9cz",
	        "a"); /* no ST but a character inside: the string goes on, and is cut at the end */
	becomes(FILTER_TEXT,
	        "a\xc2\x9b"
	        "31mred",
	        "a\033[31mred");
	becomes(FILTER_TEXT, "a\xc2\x85z", "az");
}

static void bytes_that_are_no_characters_come_out_as_such(void **state)
{
	(void)state;
	becomes(FILTER_TEXT,
	        "a\x9b"
	        "31mz",
	        "a\xef\xbf\xbd"
	        "31mz");
	becomes(FILTER_TEXT, "\xff\xc0\xafz", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
	becomes(FILTER_TEXT, "\xe2\x9cz", "\xef\xbf\xbdz");
	becomes(FILTER_TEXT, "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	becomes(FILTER_TEXT, "\xe2\x9c", "\xef\xbf\xbd"); /* cut by the end */
}

static void text_is_not_shown_in_another_order_than_it_has(void **state)
{
	(void)state;
	becomes(FILTER_TEXT,
	        "a\xe2\x80\xae"
	        "b\xe2\x81\xa6"
	        "c\xe2\x80\x8f"
	        "d\xe2\x80\xa8"
	        "e",
	        "abcde");
	passes(FILTER_LIVE, "a\xe2\x80\xae"
	                    "b");
}

static void a_sequence_ends_where_a_terminal_ends_it(void **state)
{
	(void)state;
	becomes(FILTER_TEXT, "\033[3\0301mz", "1mz");           /* CAN gives it up */
	becomes(FILTER_TEXT, "\033]0;x\0321mz", "1mz");         /* SUB too */
	becomes(FILTER_TEXT, "\033[2\033[31mz", "\033[31mz");   /* ESC begins another */
	becomes(FILTER_TEXT, "\033]0;x\033[31mz", "\033[31mz"); /* also in a string */
	becomes(FILTER_TEXT, "\033[3\n1mz", "\n\033[31mz");     /* controls act at once */
	becomes(FILTER_TEXT,
	        "\033[3\xc3\xbc"
	        "1m",
	        "\xc3\xbc"
	        "1m");
	becomes(FILTER_TEXT, "\033Pevil\007still inside\033\\z", "z"); /* BEL ends only an OSC */
	becomes(FILTER_TEXT, "\033[", "");
}

static void a_sequence_without_end_is_dropped_whole_and_bounded(void **state)
{
	(void)state;
	static char text[3 * FILTER_HELD];
	memset(text, '1', sizeof(text));
	memcpy(text, "\033[", 2);
	memcpy(text + 2 * FILTER_HELD, "mz", 3);
	becomes(FILTER_TEXT, text, "z");
	memcpy(text, "\033]", 2);
	memset(text + 2, 'x', 2 * FILTER_HELD - 2);
	memcpy(text + 2 * FILTER_HELD, "\007z", 3);
	becomes(FILTER_LIVE, text, "z");
}

static uint32_t seed = 7;

static uint32_t some(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static bool colour_at(const char *p)
{
	if (p[1] != '[')
		return false;
	p += 2;
	while (strchr("0123456789;:", *p) && *p)
		p++;
	return *p == 'm';
}

static void whatever_comes_in_nothing_but_text_and_colours_comes_out(void **state)
{
	(void)state;
	static const char *const parts[] = { "\033", "[", "]", "P", "31", ";", "m", "\007", "\\", "\x9b", "\xc2",
		"\x9d", "\xc2\x9b", "52", "c", "?", "\030", "\n", "text", "\xe2\x9c\x93", "\xff", "\x80", "h", "\005",
		"_", "0", "(", " ", "\177" };
	for (int round = 0; round < 3000; round++) {
		char text[256] = "";
		for (uint32_t i = some(40); i > 0; i--)
			strcat(text, parts[some(sizeof(parts) / sizeof(parts[0]))]);
		const char *out = filtered(FILTER_TEXT, text);
		for (const char *p = out; *p; p++) {
			unsigned char b = (unsigned char)*p;
			if (b == 0x1b)
				assert_true(colour_at(p));
			else if (b < 0x20)
				assert_true(b == '\n' || b == '\r' || b == '\t' || b == '\b');
			assert_true(b != 0x7f);
			if (b == 0xc2) /* no C1 */
				assert_true((unsigned char)p[1] >= 0xa0);
		}
	}
}

/* ---- Attached ---- */

static void a_full_screen_program_gets_its_terminal(void **state)
{
	(void)state;
	passes(FILTER_LIVE, "\033[?1049h\033[22;0;0t\033[>4;2m\033[?1h\033=\033[?2004h\033[1;24r\033[2;1H\033[K\033["
	                    "94m~\033(0lqk\033(B\033[0 q");
	passes(FILTER_LIVE, "\033]0;a title?\007\033]8;;http://x/?q=1\033\\link\033]8;;\033\\");
	passes(FILTER_LIVE, "\033[6n\033[c\033]11;?\007"); /* asked now: answered now */
}

static void old_questions_are_not_asked_again(void **state)
{
	(void)state;
	static const char *const questions[] = { "\033[6n", "\033[5n", "\033[?6n", "\033[c", "\033[0c", "\033[>c",
		"\033[=c", "\033[?2026$p", "\033[4$p", "\033[>q", "\033[>0q", "\033[?u", "\033[14t", "\033[18t",
		"\033[21t", "\033[x", "\033[1;1;1;1;1;1*y", "\033[1$w", "\033Z", "\033]10;?\007", "\033]11;?\033\\",
		"\033]4;1;?\007", "\005", "\033[?4m", "\033[?1;1;0S" };
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		char text[64];
		strcpy(text, "a");
		strcat(text, questions[i]);
		strcat(text, "z");
		becomes(FILTER_REPLAY, text, "az");
	}
	passes(FILTER_REPLAY,
	        "\033[?1049h\033[2;1H\033[31m\033]0;who?\007\033]11;#123456\007\033[8;24;80t\033[2S\033[>4;2m\033[u");
}

static void the_clipboard_titles_and_downloads_are_out_of_reach(void **state)
{
	(void)state;
	static const char *const hostile[] = { "\033]52;c;ZXZpbA==\007", "\033]52;c;?\007", "\033[20t", "\033[21t",
		"\033P+q544e\033\\", "\033Pq#0\033\\", "\005", "\033_Gf=24\033\\" };
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		becomes(FILTER_LIVE, hostile[i], "");
		becomes(FILTER_REPLAY, hostile[i], "");
	}
}

/* ---- Leaving ---- */

static const char *restored(const char *text)
{
	static char out[FILTER_RESTORE];
	struct filter f;
	filter_init(&f, FILTER_LIVE);
	through(&f, text, strlen(text), shown);
	filter_restore(&f, out);
	return out;
}

static void leaving_undoes_what_was_on_and_nothing_else(void **state)
{
	(void)state;
	assert_non_null(strstr(restored("\033[?1049h"), "\033[?1049l"));
	assert_null(strstr(restored("\033[?1049h\033[?1049l"), "\033[?1049l"));
	assert_null(strstr(restored("text"), "1049"));
	assert_non_null(strstr(restored("\033[?7l"), "\033[?7h"));
	assert_null(strstr(restored("\033[?7l\033[?7h"), "\033[?7h"));
	assert_non_null(strstr(restored("\033[>1u\033[>1u"), "\033[<u\033[<u"));
	assert_null(strstr(restored("\033[>1u\033[<u"), "\033[<u"));
	assert_non_null(strstr(restored("\033[5;10r"), "\033[r"));
	assert_null(strstr(restored("\033[5;10r\033[r"), "\033[r"));
	assert_non_null(strstr(restored("\033[?1000;1006h"), "\033[?1006l"));
	assert_null(strstr(restored("\033[?1049h\033c"), "1049"));
}

static void leaving_shows_the_cursor_and_ends_pastes_whatever_was_seen(void **state)
{
	(void)state;
	/* The stream may have been joined long after these were set. */
	const char *out = restored("");
	assert_non_null(strstr(out, "\033[?25h"));
	assert_non_null(strstr(out, "\033[?2004l"));
	assert_non_null(strstr(out, "\033[?1000l"));
	assert_non_null(strstr(out, "\033[m"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_and_colours_pass),
		cmocka_unit_test(what_moves_asks_or_hides_does_not),
		cmocka_unit_test(c1_controls_are_the_sequences_that_they_stand_for),
		cmocka_unit_test(bytes_that_are_no_characters_come_out_as_such),
		cmocka_unit_test(text_is_not_shown_in_another_order_than_it_has),
		cmocka_unit_test(a_sequence_ends_where_a_terminal_ends_it),
		cmocka_unit_test(a_sequence_without_end_is_dropped_whole_and_bounded),
		cmocka_unit_test(whatever_comes_in_nothing_but_text_and_colours_comes_out),
		cmocka_unit_test(a_full_screen_program_gets_its_terminal),
		cmocka_unit_test(old_questions_are_not_asked_again),
		cmocka_unit_test(the_clipboard_titles_and_downloads_are_out_of_reach),
		cmocka_unit_test(leaving_undoes_what_was_on_and_nothing_else),
		cmocka_unit_test(leaving_shows_the_cursor_and_ends_pastes_whatever_was_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
