/* test_pacing.c - what is a flood, and that nothing is done about anything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "consoles/pacing.h"

#define KIB  ((size_t)1024)
#define MOST (64 * KIB)

/* Long after any key of an earlier test. */
static uint64_t later(void)
{
	static uint64_t now = 100000;

	return now += 100000;
}

static struct pacing flooding(uint64_t now)
{
	struct pacing p = { 0 };

	for (int i = 0; i < 16; i++)
		pacing_account(&p, 4 * KIB, now);
	return p;
}

static void much_within_a_moment_is_a_flood_and_ends_with_the_moment(void **state)
{
	uint64_t now = later();
	struct pacing p = flooding(now);

	(void)state;
	assert_true(pacing_floods(&p, now));
	assert_true(pacing_floods(&p, now + 10)); /* while its successor has not had its time */
	assert_false(pacing_floods(&p, now + 16));
	pacing_account(&p, 1, now + 16);
	assert_false(pacing_floods(&p, now + 16));
}

static void a_flood_lasts_over_its_windows(void **state)
{
	uint64_t now = later();
	struct pacing p = flooding(now);

	(void)state;
	for (int i = 0; i < 100; i++, now++) {
		pacing_account(&p, 12 * KIB, now);
		assert_true(pacing_floods(&p, now));
	}
}

static void a_screenful_and_what_comes_slowly_are_no_flood(void **state)
{
	uint64_t now = later();
	struct pacing p = { 0 };

	(void)state;
	pacing_account(&p, 60 * KIB, now);
	assert_false(pacing_floods(&p, now));
	now += 100;
	for (int i = 0; i < 1000; i++, now += 2) {
		pacing_account(&p, 4 * KIB, now);
		assert_false(pacing_floods(&p, now));
		assert_false(pacing_again(&p, 4 * KIB, 1, now));
		assert_int_equal(pacing_size(&p, MOST, now), MOST);
	}
}

static void a_flood_is_read_a_few_times_in_a_row_and_a_short_read_ends_it(void **state)
{
	uint64_t now = later();
	struct pacing p = flooding(now);
	unsigned reads = 1;

	(void)state;
	while (reads < 100 && pacing_again(&p, 4 * KIB, reads, now))
		reads++;
	assert_in_range(reads, 2, 8); /* others of the daemon have their turn */
	assert_false(pacing_again(&p, 100, 1, now));
}

static void while_somebody_types_a_flood_is_read_in_small_pieces_one_at_a_time(void **state)
{
	uint64_t now = later();
	struct pacing p = flooding(now), quiet = { 0 };

	(void)state;
	pacing_typed(now);
	assert_in_range(pacing_size(&p, MOST, now), 1, 4 * KIB);
	assert_int_equal(pacing_size(&quiet, MOST, now), MOST);
	assert_false(pacing_again(&p, 4 * KIB, 1, now));
	now += 1000;
	p = flooding(now);
	assert_int_equal(pacing_size(&p, MOST, now), MOST);
	assert_true(pacing_again(&p, 4 * KIB, 1, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(much_within_a_moment_is_a_flood_and_ends_with_the_moment),
		cmocka_unit_test(a_flood_lasts_over_its_windows),
		cmocka_unit_test(a_screenful_and_what_comes_slowly_are_no_flood),
		cmocka_unit_test(a_flood_is_read_a_few_times_in_a_row_and_a_short_read_ends_it),
		cmocka_unit_test(while_somebody_types_a_flood_is_read_in_small_pieces_one_at_a_time),
	};
	return cmocka_run_group_tests_name("pacing", tests, NULL, NULL);
}
