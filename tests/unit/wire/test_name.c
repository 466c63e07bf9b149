/* Promises of wire/name.h, as tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/name.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void check(bool (*valid)(const char *), const char *const *names, size_t n, bool expected)
{
	for (size_t i = 0; i < n; i++) {
		if (valid(names[i]) != expected)
			fail_msg("\"%s\" should %sbe valid", names[i], expected ? "" : "not ");
	}
}

static const char *n_times(char c, size_t n)
{
	static char text[200];

	assert_true(n < sizeof(text));
	memset(text, c, n);
	text[n] = '\0';
	return text;
}

static void names_are_of_a_small_alphabet(void **state)
{
	static const char *const good[] = { "a", "dev", "box-1", "a.b", "_x", "Z9", "0", "a..b", "a-" };
	static const char *const bad[] = { "", ".", "..", ".hidden", "-rf", "a/b", "a b", "a\n", "\033[m", "ä", "a\\b",
		"a:b", "a~", "a*", "a\x7f", "a\xff" };

	(void)state;
	check(name_valid, good, COUNT(good), true);
	check(name_valid, bad, COUNT(bad), false);
}

static void names_have_64_bytes_at_most(void **state)
{
	(void)state;
	assert_int_equal(NAME_MAX_BYTES, 64);
	assert_true(name_valid(n_times('n', 64)));
	assert_false(name_valid(n_times('n', 65)));
	assert_false(name_valid(n_times('n', 199)));
}

static void environment_names_are_identifiers_and_the_wrappers_are_refused(void **state)
{
	static const char *const good[] = { "A", "_", "PATH", "lower_case", "X1", "_x", "__x", "_T", "t_", "__tx" };
	static const char *const bad[] = { "", "1A", "A-B", "A=B", "A B", "A.B", "_t", "_tx", "_timeout", "__t_",
		"__t_x", "ä" };

	(void)state;
	check(env_name_valid, good, COUNT(good), true);
	check(env_name_valid, bad, COUNT(bad), false);
}

static void label_keys_may_have_a_path_and_63_bytes(void **state)
{
	static const char *const good[] = { "a", "app.example.org/role", "0", "a_b", "a/b-c" };
	static const char *const bad[] = { "", "/a", "-a", ".a", "_a", "a b", "a:b", "a\n" };

	(void)state;
	check(label_key_valid, good, COUNT(good), true);
	check(label_key_valid, bad, COUNT(bad), false);
	assert_true(label_key_valid(n_times('k', 63)));
	assert_false(label_key_valid(n_times('k', 64)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_of_a_small_alphabet),
		cmocka_unit_test(names_have_64_bytes_at_most),
		cmocka_unit_test(environment_names_are_identifiers_and_the_wrappers_are_refused),
		cmocka_unit_test(label_keys_may_have_a_path_and_63_bytes),
	};
	return cmocka_run_group_tests_name("wire/name", tests, NULL, NULL);
}
