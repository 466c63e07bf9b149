/* test_target.c - BOX, BOX/NAME and NAME. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/target.h"

static void a_console_is_named_with_its_sandbox_or_in_the_default_one(void **state)
{
	(void)state;
	struct target t;
	char why[TARGET_WHY_BYTES];
	assert_true(target_console("box/dev", &t, why));
	assert_string_equal(t.sandbox, "box");
	assert_string_equal(t.console, "dev");
	assert_false(target_is_default(&t));
	assert_true(target_console("dev", &t, why));
	assert_string_equal(t.sandbox, "default");
	assert_string_equal(t.console, "dev");
	assert_true(target_is_default(&t));
	assert_true(target_console("default/dev", &t, why));
	assert_true(target_is_default(&t));
}

static void a_sandbox_is_the_default_one_when_none_is_named(void **state)
{
	(void)state;
	struct target t;
	char why[TARGET_WHY_BYTES];
	assert_true(target_sandbox(NULL, &t, why));
	assert_string_equal(t.sandbox, "default");
	assert_true(target_sandbox("sb-abc", &t, why));
	assert_string_equal(t.sandbox, "sb-abc");
	assert_string_equal(t.console, "");
}

static void what_is_no_name_is_refused_and_shown_escaped(void **state)
{
	(void)state;
	static const char *const bad[] = { "", "/", "box/", "/dev", "a/b/c", "-x", ".x", "box/-x", "a b", "box/a\nb",
		"\033[2J", "../x", "box/0123456789012345678901234567890123456789012345678901234567890123x",
		"gr\xc3\xbcn" };
	struct target t = { .console = "untouched" };
	char why[TARGET_WHY_BYTES];
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(target_console(bad[i], &t, why));
		assert_null(strpbrk(why, "\033\n"));
	}
	assert_false(target_sandbox("a/b", &t, why));
	assert_string_equal(t.console, "untouched");
}

static void a_console_where_a_sandbox_is_wanted_is_told_apart_from_no_name(void **state)
{
	(void)state;
	struct target t;
	char why[TARGET_WHY_BYTES];
	assert_false(target_sandbox("box/dev", &t, why));
	assert_string_equal(why, "box/dev is a console, and a sandbox is wanted here");
	/* What is neither is no name, as ever. */
	assert_false(target_sandbox("a/b/c", &t, why));
	assert_non_null(strstr(why, "not a sandbox's name or id"));
}

static void the_longest_name_fits(void **state)
{
	(void)state;
	struct target t;
	char why[TARGET_WHY_BYTES], word[2 * NAME_MAX_BYTES + 2];
	memset(word, 'n', sizeof(word));
	word[NAME_MAX_BYTES] = '/';
	word[sizeof(word) - 1] = '\0';
	assert_true(target_console(word, &t, why));
	assert_int_equal(strlen(t.sandbox), NAME_MAX_BYTES);
	assert_int_equal(strlen(t.console), NAME_MAX_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_console_is_named_with_its_sandbox_or_in_the_default_one),
		cmocka_unit_test(a_sandbox_is_the_default_one_when_none_is_named),
		cmocka_unit_test(what_is_no_name_is_refused_and_shown_escaped),
		cmocka_unit_test(a_console_where_a_sandbox_is_wanted_is_told_apart_from_no_name),
		cmocka_unit_test(the_longest_name_fits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
