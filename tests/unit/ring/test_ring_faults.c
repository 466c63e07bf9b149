/*
 * test_ring_faults.c - what a ring does when the system says no: each call that can fail is made to, one after another,
 * until there is none left to fail. The source is included, so that its calls can be counted and refused here.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/ring/leaks.h"

static int calls;       /* made so far */
static int refuse;      /* the number of the one to refuse; 0: none */
static int refuse_with; /* its errno */

static bool refused(void)
{
	if (++calls != refuse)
		return false;
	errno = refuse_with;
	return true;
}

#define calloc(...)       (refused() ? NULL : calloc(__VA_ARGS__))
#define memfd_create(...) (refused() ? -1 : memfd_create(__VA_ARGS__))
#define ftruncate(...)    (refused() ? -1 : ftruncate(__VA_ARGS__))
#define mmap(...)         (refused() ? MAP_FAILED : mmap(__VA_ARGS__))
#define madvise(...)      (refused() ? -1 : madvise(__VA_ARGS__))
#define fcntl(...)        (refused() ? -1 : fcntl(__VA_ARGS__))
#define fstat(...)        (refused() ? -1 : (fstat)(__VA_ARGS__))
#define fstatfs(...)      (refused() ? -1 : (fstatfs)(__VA_ARGS__))
#include "ring/ring.c"
#undef calloc
#undef mmap
#undef fcntl
#undef fstat

#define NAME "test-ring-faults"

static void refuse_call(int n, int err)
{
	calls = 0;
	refuse = n;
	refuse_with = err;
}

/* calloc, memfd_create, ftruncate, three mmaps, madvise and the seals. */
static void a_create_that_fails_at_any_step_leaves_nothing_behind(void **state)
{
	int fds = open_descriptors(), steps = 0, err;
	struct ring *r = NULL;

	(void)state;
	do {
		refuse_call(++steps, ENOMEM);
		err = ring_create(NAME, RING_MIN_CAPACITY, 0, &r);
		if (err == 0)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_null(r);
		assert_int_equal(open_descriptors(), fds);
		assert_int_equal(memfd_mappings(NAME), 0);
	} while (steps < 100);
	assert_int_equal(err, 0);
	assert_int_equal(steps - 1, 8);
	ring_free(r);
	assert_int_equal(open_descriptors(), fds);
}

/* The seals, two stats, calloc and three mmaps. */
static void an_open_that_fails_at_any_step_leaves_nothing_behind(void **state)
{
	struct ring *r = NULL, *reader = NULL;
	int fds, maps, steps = 0, err;

	(void)state;
	refuse_call(0, 0);
	assert_int_equal(ring_create(NAME, RING_MIN_CAPACITY, 0, &r), 0);
	fds = open_descriptors();
	maps = memfd_mappings(NAME);
	do {
		refuse_call(++steps, ENOMEM);
		err = ring_open(ring_fd(r), &reader);
		if (err == 0)
			break;
		assert_true(err < 0);
		assert_null(reader);
		assert_int_equal(open_descriptors(), fds);
		assert_int_equal(memfd_mappings(NAME), maps);
	} while (steps < 100);
	assert_int_equal(err, 0);
	assert_int_equal(steps - 1, 7);
	ring_free(reader);
	ring_free(r);
	assert_int_equal(memfd_mappings(NAME), 0);
}

static void the_error_is_the_systems_own(void **state)
{
	static const int errors[] = { EMFILE, ENFILE, ENOMEM };
	struct ring *r = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		refuse_call(2, errors[i]); /* memfd_create */
		assert_int_equal(ring_create(NAME, RING_MIN_CAPACITY, 0, &r), -errors[i]);
		assert_null(r);
	}
}

static void a_kernel_that_does_not_know_the_newest_flag_still_makes_rings(void **state)
{
	struct ring *r = NULL;

	(void)state;
	refuse_call(2, EINVAL); /* memfd_create, the first time */
	assert_int_equal(ring_create(NAME, RING_MIN_CAPACITY, 0, &r), 0);
	assert_int_equal(fcntl(ring_fd(r), F_GET_SEALS) & SEALS, SEALS);
	ring_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_create_that_fails_at_any_step_leaves_nothing_behind),
		cmocka_unit_test(an_open_that_fails_at_any_step_leaves_nothing_behind),
		cmocka_unit_test(the_error_is_the_systems_own),
		cmocka_unit_test(a_kernel_that_does_not_know_the_newest_flag_still_makes_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
