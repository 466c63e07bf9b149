/* test_pacing.c - what is a flood, and that nothing is done about anything else. */
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>
#include <unistd.h>

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
		assert_false(pacing_again(&p, -1, 4 * KIB, 1, now));
		assert_int_equal(pacing_size(&p, MOST, now), MOST);
	}
}

static void a_flood_is_read_a_few_times_in_a_row_and_a_short_read_ends_it(void **state)
{
	uint64_t now = later();
	struct pacing p = flooding(now);
	unsigned reads = 1;

	(void)state;
	while (reads < 100 && pacing_again(&p, -1, 4 * KIB, reads, now))
		reads++;
	assert_in_range(reads, 2, 8); /* others of the daemon have their turn */
	assert_false(pacing_again(&p, -1, 100, 1, now));
}

static void while_somebody_types_elsewhere_a_flood_is_read_in_small_pieces_one_at_a_time(void **state)
{
	uint64_t now = later();
	struct pacing p = flooding(now), quiet = { 0 };

	(void)state;
	pacing_typed(&quiet, now);
	assert_in_range(pacing_size(&p, MOST, now), 1, 4 * KIB);
	assert_int_equal(pacing_size(&quiet, MOST, now), MOST);
	assert_false(pacing_again(&p, -1, 4 * KIB, 1, now));
	now += 1000;
	p = flooding(now);
	assert_int_equal(pacing_size(&p, MOST, now), MOST);
	assert_true(pacing_again(&p, -1, 4 * KIB, 1, now));
}

static void a_key_in_its_own_terminal_changes_nothing_for_a_flood(void **state)
{
	uint64_t now = later();
	struct pacing p = flooding(now);

	(void)state;
	pacing_typed(&p, now);
	assert_int_equal(pacing_size(&p, MOST, now), MOST);
	assert_true(pacing_again(&p, -1, 4 * KIB, 1, now));
}

/* ---- Naps ---- */

/* A raw terminal's master. */
static int raw_master(int *slave)
{
	struct termios t;
	int master;

	assert_int_equal(openpty(&master, slave, NULL, NULL, NULL), 0);
	assert_int_equal(tcgetattr(*slave, &t), 0);
	cfmakeraw(&t);
	assert_int_equal(tcsetattr(*slave, TCSANOW, &t), 0);
	return master;
}

/* How many of the windows of a flood, whose reads bring n behind a nap and 4 KiB else, had naps. */
static unsigned napping(int master, size_t n, unsigned windows, uint64_t *now)
{
	struct pacing p = { 0 };
	unsigned with = 0;

	for (unsigned w = 0; w < windows; w++, *now += 8) {
		bool any = false;

		for (int i = 0; i < 32; i++) {
			size_t got = p.has_napped ? n : 4 * KIB;

			pacing_account(&p, got, *now);
			pacing_again(&p, master, got, 1, *now);
			any |= p.has_napped;
		}
		with += any;
	}
	return with;
}

static void naps_go_on_while_they_bring_more_and_are_tried_seldom_while_they_do_not(void **state)
{
	uint64_t now = later();
	int slave, master = raw_master(&slave);
	struct termios t;

	(void)state;
	assert_in_range(napping(master, 6 * KIB, 200, &now), 190, 200);
	now = later();
	assert_in_range(napping(master, 4 * KIB, 200, &now), 1, 40);
	now = later();
	assert_int_equal(tcgetattr(slave, &t), 0);
	t.c_oflag |= OPOST;
	assert_int_equal(tcsetattr(slave, TCSANOW, &t), 0);
	assert_int_equal(napping(master, 6 * KIB, 200, &now), 0);
	close(master);
	close(slave);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(much_within_a_moment_is_a_flood_and_ends_with_the_moment),
		cmocka_unit_test(a_flood_lasts_over_its_windows),
		cmocka_unit_test(a_screenful_and_what_comes_slowly_are_no_flood),
		cmocka_unit_test(a_flood_is_read_a_few_times_in_a_row_and_a_short_read_ends_it),
		cmocka_unit_test(a_key_in_its_own_terminal_changes_nothing_for_a_flood),
		cmocka_unit_test(naps_go_on_while_they_bring_more_and_are_tried_seldom_while_they_do_not),
		cmocka_unit_test(while_somebody_types_elsewhere_a_flood_is_read_in_small_pieces_one_at_a_time),
	};
	return cmocka_run_group_tests_name("pacing", tests, NULL, NULL);
}
