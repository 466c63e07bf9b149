/* test_options.c - the console daemon's arguments. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consoles/options.h"

static int parse(const char *const *args, struct options *out)
{
	char *argv[16] = { (char *)(uintptr_t) "ringside-consoled" };
	const char *why = NULL;
	int argc = 1, err;

	for (; args[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)args[argc - 1];
	err = options_parse(argc, argv, out, &why);
	if (err < 0)
		assert_non_null(why);
	return err;
}

static void what_is_given_is_taken_and_the_rest_has_defaults(void **state)
{
	static const char *const args[] = { "--listen-fd=5", "--commit-fd=7", "--sandbox=box", "--workspace=/w",
		"--user=", NULL };
	struct options o;

	(void)state;
	assert_int_equal(parse(args, &o), 0);
	assert_int_equal(o.listen_fd, 5);
	assert_int_equal(o.commit_fd, 7);
	assert_string_equal(o.sandbox, "box");
	assert_string_equal(o.workspace, "/w");
	assert_string_equal(o.user, "root"); /* an empty value is none */
	assert_string_equal(o.shell, "");
	assert_true(strlen(o.path) > 0);
}

static void what_makes_no_sense_is_refused(void **state)
{
	static const char *const bad[][3] = {
		{ NULL }, /* no socket */
		{ "--commit-fd=4", NULL },
		{ "--listen-fd=2", NULL },
		{ "--listen-fd=x", NULL },
		{ "--listen-fd=99999999999", NULL },
		{ "--listen-fd", NULL },
		{ "--listen-fd=5", "--workspace=relative", NULL },
		{ "--listen-fd=5", "--unknown=1", NULL },
		{ "--listen-fd=5", "stray", NULL },
		{ "--listen-fd=5", "--listen=5", NULL },
	};
	struct options o;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse(bad[i], &o), -EINVAL);
}

static void the_version_can_be_asked_for_alone(void **state)
{
	static const char *const args[] = { "--version", NULL };
	struct options o;

	(void)state;
	assert_int_equal(parse(args, &o), 0);
	assert_true(o.version);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_given_is_taken_and_the_rest_has_defaults),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(the_version_can_be_asked_for_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
