/* Promises of wire/clock.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "wire/clock.h"

static void the_monotonic_clock_never_goes_back(void **state)
{
	uint64_t last = clock_mono_ns();

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t now = clock_mono_ns();

		assert_true(now >= last);
		last = now;
	}
}

static void milliseconds_and_nanoseconds_are_the_same_clock(void **state)
{
	uint64_t before = clock_mono_ns();
	uint64_t ms = clock_mono_ms();
	uint64_t after = clock_mono_ns();

	(void)state;
	assert_in_range(ms, before / 1000000, after / 1000000);
}

static void the_wall_clock_counts_milliseconds_since_1970(void **state)
{
	time_t before = time(NULL);
	uint64_t ms = clock_wall_ms();
	time_t after = time(NULL);

	(void)state;
	/* time(2) reads a coarser clock, which may be one tick behind. */
	assert_in_range(ms / 1000, (uint64_t)before, (uint64_t)after + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_monotonic_clock_never_goes_back),
		cmocka_unit_test(milliseconds_and_nanoseconds_are_the_same_clock),
		cmocka_unit_test(the_wall_clock_counts_milliseconds_since_1970),
	};
	return cmocka_run_group_tests_name("wire/clock", tests, NULL, NULL);
}
