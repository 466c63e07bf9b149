/* test_options.c - a command line in words, options, and somebody else's command line after --. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/options.h"

struct given {
	bool flag;
	const char *text;
	struct number count, size, time;
	struct strings list;
};

#define AT(field) offsetof(struct given, field)
static const struct option_spec table[] = {
	{ .name = "flag", .letter = 'f', .kind = OPTION_FLAG, .at = AT(flag) },
	{ .name = "text", .kind = OPTION_STRING, .at = AT(text) },
	{ .name = "count", .kind = OPTION_NUMBER, .at = AT(count), .max = 100 },
	{ .name = "size", .kind = OPTION_SIZE, .at = AT(size) },
	{ .name = "time", .kind = OPTION_DURATION, .at = AT(time) },
	{ .name = "env", .letter = 'e', .kind = OPTION_LIST, .at = AT(list) },
	{ 0 },
};

struct line {
	char *argv[16];
	struct given given;
	struct words words;
	char why[OPTION_WHY_BYTES];
};

/* Words of the command line, NULL at the end. */
static bool parse(struct line *l, ...)
{
	int argc = 0;
	va_list words;
	*l = (struct line){ 0 };
	l->argv[argc++] = (char *)(uintptr_t) "command";
	va_start(words, l);
	for (char *w; (w = va_arg(words, char *)) && argc < 15;)
		l->argv[argc++] = w;
	va_end(words);
	return options_parse(table, argc, l->argv, &l->given, &l->words, l->why);
}

static void options_and_words_mix_before_the_dashes(void **state)
{
	(void)state;
	struct line l;
	assert_true(parse(&l, "one", "--count", "7", "two", "-f", "--size=64K", "--time", "1.5m", NULL));
	assert_int_equal(l.words.nplain, 2);
	assert_string_equal(l.words.plain[0], "one");
	assert_string_equal(l.words.plain[1], "two");
	assert_null(l.words.plain[2]);
	assert_true(l.given.flag);
	assert_true(l.given.count.given && l.given.count.value == 7);
	assert_int_equal(l.given.size.value, 65536);
	assert_int_equal(l.given.time.value, 90000);
	assert_false(l.words.dashes);
	assert_int_equal(l.words.nrest, 0);
	assert_null(l.words.rest[0]);
}

static void what_comes_after_the_dashes_is_left_alone(void **state)
{
	(void)state;
	struct line l;
	assert_true(parse(&l, "box", "--", "ls", "-la", "--", "--count", NULL));
	assert_true(l.words.dashes);
	assert_int_equal(l.words.nplain, 1);
	assert_null(l.words.plain[1]);
	assert_int_equal(l.words.nrest, 4);
	assert_string_equal(l.words.rest[1], "-la");
	assert_string_equal(l.words.rest[2], "--");
	assert_null(l.words.rest[4]);
	assert_true(parse(&l, "--", NULL));
	assert_true(l.words.dashes);
	assert_int_equal(l.words.nrest, 0);
}

static void a_list_keeps_its_order(void **state)
{
	(void)state;
	struct line l;
	assert_true(parse(&l, "-e", "A=1", "--env=B=2", "-eC=3", NULL));
	assert_int_equal(l.given.list.count, 3);
	assert_string_equal(l.given.list.items[0], "A=1");
	assert_string_equal(l.given.list.items[1], "B=2");
	assert_string_equal(l.given.list.items[2], "C=3");
	assert_null(l.given.list.items[3]);
	options_release(table, &l.given);
	assert_null(l.given.list.items);
}

static void every_command_has_json_and_help(void **state)
{
	(void)state;
	struct line l;
	assert_true(parse(&l, "x", "--json", NULL));
	assert_true(l.words.json);
	assert_true(parse(&l, "--help", NULL));
	assert_true(l.words.help);
	assert_true(parse(&l, "-h", NULL));
	assert_true(l.words.help);
}

static void a_mistake_is_named(void **state)
{
	(void)state;
	struct line l;
	assert_false(parse(&l, "--bogus", NULL));
	assert_non_null(strstr(l.why, "--bogus"));
	assert_false(parse(&l, "a", "b", "-x", "c", NULL));
	assert_non_null(strstr(l.why, "-x"));
	assert_false(parse(&l, "a", "--count", NULL));
	assert_non_null(strstr(l.why, "--count"));
	assert_false(parse(&l, "--flag=1", NULL));
	assert_non_null(strstr(l.why, "--flag"));
	assert_false(parse(&l, "--json=1", NULL));
	assert_non_null(strstr(l.why, "--json"));
	assert_false(parse(&l, "--\033[2J", NULL));
	assert_null(strchr(l.why, 033));
}

static void a_value_that_is_none_of_its_kind_is_refused(void **state)
{
	(void)state;
	struct line l;
	assert_true(parse(&l, "--count", "100", NULL));
	assert_false(parse(&l, "--count", "101", NULL));
	assert_non_null(strstr(l.why, "at most 100"));
	assert_false(parse(&l, "--count", "-1", NULL));
	assert_false(parse(&l, "--count", "", NULL));
	assert_false(parse(&l, "--count", "1x", NULL));
	assert_false(parse(&l, "--size", "1Q", NULL));
	assert_false(parse(&l, "--time", "soon", NULL));
	assert_non_null(strstr(l.why, "duration"));
}

static void zero_given_is_not_the_same_as_not_given(void **state)
{
	(void)state;
	struct line l;
	assert_true(parse(&l, "--time", "0", NULL));
	assert_true(l.given.time.given);
	assert_true(parse(&l, NULL));
	assert_false(l.given.time.given);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_and_words_mix_before_the_dashes),
		cmocka_unit_test(what_comes_after_the_dashes_is_left_alone),
		cmocka_unit_test(a_list_keeps_its_order),
		cmocka_unit_test(every_command_has_json_and_help),
		cmocka_unit_test(a_mistake_is_named),
		cmocka_unit_test(a_value_that_is_none_of_its_kind_is_refused),
		cmocka_unit_test(zero_given_is_not_the_same_as_not_given),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
