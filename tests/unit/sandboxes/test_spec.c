/*
 * test_spec.c - the promises of sandboxes/spec.h: what is asked for is checked, and comes back from the ledger as it
 * was.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sandboxes/spec.h"

struct asked {
	Wire__CreateSandbox q;
	Wire__Label labels[2];
	Wire__Label *list[2];
};

static char empty[] = "";

static void ask(struct asked *a)
{
	static char name[] = "box", key[] = "team", value[] = "Übung \"1\" \\ 2", key2[] = "a/b";

	*a = (struct asked){ 0 };
	wire__create_sandbox__init(&a->q);
	a->q.name = name;
	for (int i = 0; i < 2; i++) {
		wire__label__init(&a->labels[i]);
		a->list[i] = &a->labels[i];
	}
	a->labels[0].key = key;
	a->labels[0].value = value;
	a->labels[1].key = key2;
	a->labels[1].value = empty;
	a->q.labels = a->list;
	a->q.n_labels = 2;
}

static enum result take(struct asked *a, struct spec *out)
{
	char why[512] = "";
	enum result r = spec_from_request(&a->q, "host", out, why, sizeof(why));

	assert_true(r == RESULT_OK || *why);
	return r;
}

static void assert_refused(struct asked *a)
{
	struct spec s = { 0 };

	assert_int_equal(take(a, &s), RESULT_INVALID_ARGUMENT);
	assert_null(s.name);
}

static void what_is_not_asked_for_has_its_default(void **state)
{
	struct asked a;
	struct spec s;

	(void)state;
	ask(&a);
	assert_int_equal(take(&a, &s), RESULT_OK);
	assert_string_equal(s.provider, "host");
	assert_int_equal(s.console_limit, 8);
	assert_int_equal(s.ring_bytes, 1024 * 1024);
	assert_string_equal(s.directory, "");
	spec_release(&s);
}

static void an_envelope_comes_back_from_its_json_as_it_was(void **state)
{
	struct asked a;
	struct spec s, back;
	static char directory[] = "/srv/häuser/\"x\"";

	(void)state;
	ask(&a);
	a.q.directory = directory;
	a.q.console_limit = 256;
	a.q.ring_bytes = 4096;
	a.q.memory_bytes = UINT64_MAX;
	a.q.cpu_millis = 1500;
	a.q.pids = UINT32_MAX;
	assert_int_equal(take(&a, &s), RESULT_OK);
	char *json = spec_to_json(&s);
	assert_non_null(json);
	assert_int_equal(spec_from_json(json, &back), 0);
	assert_string_equal(back.name, "box");
	assert_string_equal(back.directory, directory);
	assert_int_equal(back.console_limit, 256);
	assert_int_equal(back.ring_bytes, 4096);
	assert_int_equal(back.memory_bytes, UINT64_MAX);
	assert_int_equal(back.cpu_millis, 1500);
	assert_int_equal(back.pids, UINT32_MAX);
	assert_int_equal(back.nlabels, 2);
	assert_string_equal(back.labels[0].key, "team");
	assert_string_equal(back.labels[0].value, "Übung \"1\" \\ 2");
	assert_string_equal(back.labels[1].value, "");
	free(json);
	spec_release(&s);
	spec_release(&back);
}

static void json_that_is_cut_anywhere_is_refused(void **state)
{
	struct asked a;
	struct spec s;

	(void)state;
	ask(&a);
	assert_int_equal(take(&a, &s), RESULT_OK);
	char *json = spec_to_json(&s);
	for (size_t n = strlen(json); n-- > 0;) {
		struct spec back;
		json[n] = '\0';
		assert_int_equal(spec_from_json(json, &back), -EUCLEAN);
		assert_null(back.name);
	}
	free(json);
	spec_release(&s);
}

static void json_of_another_making_is_refused(void **state)
{
	static const char *const bad[] = { "", "x", "[]", "{}x", "{\"name\":1}", "{\"pids\":\"1\"}", "{\"pids\":-1}",
		"{\"pids\":4294967296}", "{\"ring_bytes\":99999999999999999999}", "{\"name\":\"\\u00zz\"}",
		"{\"name\":\"\\u0000\"}", "{\"labels\":[]}", "{\"labels\":{\"a\":1}}", "{\"name\":\"a\",}",
		"{\"name\" \"a\"}", "{\"console_limit\":257}" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct spec s;
		assert_int_equal(spec_from_json(bad[i], &s), -EUCLEAN);
	}
}

static void what_a_newer_version_wrote_is_skipped(void **state)
{
	struct spec s;

	(void)state;
	assert_int_equal(spec_from_json("{ \"later\": \"x\\n\\\"y\", \"name\": \"b\" , \"more\":12 }", &s), 0);
	assert_string_equal(s.name, "b");
	spec_release(&s);
}

static void names_that_are_none_or_look_like_ids_are_refused(void **state)
{
	static char bad[][80] = { "-x", ".x", "a b", "a/b", "sb-abc", "\x1b[2J" };
	struct asked a;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ask(&a);
		a.q.name = bad[i];
		assert_refused(&a);
	}
}

static void sizes_out_of_bounds_are_refused(void **state)
{
	struct asked a;

	(void)state;
	ask(&a);
	a.q.console_limit = 257;
	assert_refused(&a);
	ask(&a);
	a.q.ring_bytes = 4097;
	assert_refused(&a);
	ask(&a);
	a.q.ring_bytes = 2048;
	assert_refused(&a);
	ask(&a);
	a.q.ring_bytes = (uint64_t)128 * 1024 * 1024;
	assert_refused(&a);
}

static void directories_and_labels_that_cannot_be_shown_are_refused(void **state)
{
	static char relative[] = "a/b", broken[] = "/a\xff", control[] = "a\nb", surrogate[] = "\xed\xa0\x80",
	            overlong[] = "\xc0\x80";
	static char key[] = "-a";
	struct asked a;

	(void)state;
	ask(&a);
	a.q.directory = relative;
	assert_refused(&a);
	ask(&a);
	a.q.directory = broken;
	assert_refused(&a);
	ask(&a);
	a.labels[0].value = control;
	assert_refused(&a);
	ask(&a);
	a.labels[0].value = surrogate;
	assert_refused(&a);
	ask(&a);
	a.labels[0].value = overlong;
	assert_refused(&a);
	ask(&a);
	a.labels[0].key = key;
	assert_refused(&a);
	ask(&a);
	a.labels[1].key = a.labels[0].key;
	assert_refused(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_asked_for_has_its_default),
		cmocka_unit_test(an_envelope_comes_back_from_its_json_as_it_was),
		cmocka_unit_test(json_that_is_cut_anywhere_is_refused),
		cmocka_unit_test(json_of_another_making_is_refused),
		cmocka_unit_test(what_a_newer_version_wrote_is_skipped),
		cmocka_unit_test(names_that_are_none_or_look_like_ids_are_refused),
		cmocka_unit_test(sizes_out_of_bounds_are_refused),
		cmocka_unit_test(directories_and_labels_that_cannot_be_shown_are_refused),
	};
	return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
