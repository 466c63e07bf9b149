/*
 * test_ring.c - what ring.h promises, one promise a test, in one process or two and without anything happening at the
 * same time. Who races with whom is in test_ring_races.c and test_ring_stress.c, hostile input in test_ring_hostile.c.
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "tests/unit/ring/leaks.h"
#include "tests/unit/ring/nosyscall.h"
#include "tests/unit/ring/stamp.h"

#define CAPACITY ((size_t)4096)
#define NAME     "test-ring"

/* Where streams begin: at nothing, where 32 bits end, where signed 64 bits end, at the last offset allowed. */
static const uint64_t firsts[] = {
	0,
	(UINT64_C(1) << 32) - 3000,
	(UINT64_C(1) << 63) - 3000,
	UINT64_MAX - (UINT64_C(1) << 62),
};
#define FIRSTS (sizeof(firsts) / sizeof(firsts[0]))

static struct ring *new_ring(size_t capacity, uint64_t first)
{
	struct ring *r = NULL;

	assert_int_equal(ring_create(NAME, capacity, first, &r), 0);
	assert_non_null(r);
	return r;
}

static void append_stamped(struct ring *r, size_t n)
{
	unsigned char *bytes = malloc(n ? n : 1);

	assert_non_null(bytes);
	stamp_fill(bytes, ring_tail(r), n);
	ring_append(r, bytes, n);
	free(bytes);
}

/* Reads and wants exactly this: n right bytes at `offset`, after `lost` that are gone. */
static void expect_read(const struct ring *r, uint64_t from, size_t max, uint64_t offset, size_t n, uint64_t lost)
{
	struct ring_span got = { 1, 1, 1 };
	unsigned char *buf = malloc(max ? max : 1);

	assert_non_null(buf);
	assert_int_equal(ring_read(r, from, buf, max, &got), 0);
	assert_true(got.offset == offset);
	assert_true(got.next_offset == offset + n);
	assert_true(got.lost_bytes == lost);
	assert_int_equal(stamp_right(buf, offset, n), n);
	free(buf);
}

/* ---- Creating ---- */

static void a_capacity_that_is_no_power_of_two_in_range_is_refused(void **state)
{
	static const size_t refused[] = { 0, 1, 2048, 4095, 4097, 3 * 4096, RING_MAX_CAPACITY - 1,
		RING_MAX_CAPACITY + 1, 2 * RING_MAX_CAPACITY, SIZE_MAX, SIZE_MAX / 2 + 1 };
	struct ring *r = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(ring_create(NAME, refused[i], 0, &r), -EINVAL);
		assert_null(r);
	}
}

static void every_power_of_two_in_range_makes_a_ring_of_exactly_that_capacity(void **state)
{
	(void)state;
	for (size_t capacity = RING_MIN_CAPACITY; capacity <= RING_MAX_CAPACITY; capacity *= 2) {
		struct ring *r = new_ring(capacity, 0);

		assert_true(ring_capacity(r) == capacity);
		append_stamped(r, capacity + 1);
		assert_true(ring_head(r) == 1);
		expect_read(r, 0, capacity, 1, capacity, 1);
		ring_free(r);
	}
}

static void a_first_offset_that_could_wrap_is_refused(void **state)
{
	const uint64_t last = UINT64_MAX - (UINT64_C(1) << 62);
	struct ring *r = NULL;

	(void)state;
	assert_int_equal(ring_create(NAME, CAPACITY, last + 1, &r), -EINVAL);
	assert_int_equal(ring_create(NAME, CAPACITY, UINT64_MAX, &r), -EINVAL);
	assert_null(r);
	r = new_ring(CAPACITY, last);
	ring_free(r);
}

static void a_new_ring_is_empty_at_its_first_offset(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIRSTS; i++) {
		struct ring *r = new_ring(CAPACITY, firsts[i]);

		assert_true(ring_tail(r) == firsts[i]);
		assert_true(ring_head(r) == firsts[i]);
		expect_read(r, firsts[i], 100, firsts[i], 0, 0);
		ring_free(r);
	}
}

static void its_memory_shows_its_name_and_is_closed_on_exec(void **state)
{
	char path[64], link[128] = "";
	struct ring *r = new_ring(CAPACITY, 0);

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ring_fd(r));
	assert_true(readlink(path, link, sizeof(link) - 1) > 0);
	assert_non_null(strstr(link, "/memfd:" NAME));
	assert_true(fcntl(ring_fd(r), F_GETFD) & FD_CLOEXEC);
	ring_free(r);
}

static void no_name_or_an_endless_one_is_no_reason_to_fail(void **state)
{
	char name[5000];
	struct ring *r = NULL;

	(void)state;
	assert_int_equal(ring_create(NULL, CAPACITY, 0, &r), 0);
	ring_free(r);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(ring_create(name, CAPACITY, 0, &r), 0);
	ring_free(r);
}

static void a_process_out_of_descriptors_is_told_so_and_loses_nothing(void **state)
{
	struct rlimit old, none;
	struct ring *r = NULL;
	int before = open_descriptors();

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int err = ring_create(NAME, CAPACITY, 0, &r);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(err, -EMFILE);
	assert_null(r);
	assert_int_equal(open_descriptors(), before);
}

/* ---- Reading ---- */

static void what_was_published_is_read_in_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIRSTS; i++) {
		struct ring *r = new_ring(CAPACITY, firsts[i]);

		append_stamped(r, 100);
		append_stamped(r, 50);
		assert_true(ring_tail(r) == firsts[i] + 150);
		assert_true(ring_head(r) == firsts[i]);
		expect_read(r, firsts[i], 1000, firsts[i], 150, 0);
		expect_read(r, firsts[i] + 99, 2, firsts[i] + 99, 2, 0);
		expect_read(r, firsts[i] + 150, 1000, firsts[i] + 150, 0, 0);
		ring_free(r);
	}
}

static void an_offset_past_the_tail_is_out_of_range(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIRSTS; i++) {
		struct ring_span got = { 7, 8, 9 };
		unsigned char buf[16] = { 42 };
		struct ring *r = new_ring(CAPACITY, firsts[i]);

		append_stamped(r, 10);
		assert_int_equal(ring_read(r, firsts[i] + 11, buf, sizeof(buf), &got), -ERANGE);
		assert_int_equal(ring_read(r, UINT64_MAX, buf, sizeof(buf), &got), -ERANGE);
		assert_true(got.offset == 7 && got.next_offset == 8 && got.lost_bytes == 9);
		assert_int_equal(buf[0], 42);
		ring_free(r);
	}
}

static void a_reader_that_fell_behind_is_told_how_much_it_lost(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIRSTS; i++) {
		struct ring *r = new_ring(CAPACITY, firsts[i]);

		append_stamped(r, CAPACITY + 3);
		assert_true(ring_head(r) == firsts[i] + 3);
		expect_read(r, firsts[i], 16, firsts[i] + 3, 16, 3);
		expect_read(r, firsts[i] + 2, CAPACITY * 2, firsts[i] + 3, CAPACITY, 1);
		expect_read(r, firsts[i] + 3, CAPACITY * 2, firsts[i] + 3, CAPACITY, 0);
		ring_free(r);
	}
}

static void an_offset_from_before_the_stream_counts_as_lost(void **state)
{
	const uint64_t first = UINT64_C(1) << 32;
	struct ring *r = new_ring(CAPACITY, first);

	(void)state;
	expect_read(r, 0, 16, first, 0, first);
	append_stamped(r, 5);
	expect_read(r, 0, 16, first, 5, first);
	expect_read(r, first - 1, 16, first, 5, 1);
	ring_free(r);
}

static void asking_for_nothing_still_tells_where_one_is(void **state)
{
	struct ring_span got;
	char untouched = 'u';
	struct ring *r = new_ring(CAPACITY, 0);

	(void)state;
	append_stamped(r, CAPACITY + 9);
	assert_int_equal(ring_read(r, 4, &untouched, 0, &got), 0);
	assert_true(got.offset == 9 && got.next_offset == 9 && got.lost_bytes == 5);
	assert_int_equal(untouched, 'u');
	ring_free(r);
}

/* The wrap is where rings break, and a reader that always drains never meets it. */
static void partial_reads_across_the_wrap_see_every_byte_once_and_in_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIRSTS; i++) {
		struct ring *r = new_ring(CAPACITY, firsts[i]);
		uint64_t cursor = firsts[i], end = firsts[i] + 5 * (CAPACITY + RING_SLACK);
		size_t step = 1;

		while (cursor < end) {
			size_t want = step % 977 + 1;

			/* Never drained: more is put in than is taken out, up to the capacity. */
			while (ring_tail(r) - cursor < CAPACITY - 1500)
				append_stamped(r, step++ % 1499 + 1);
			expect_read(r, cursor, want, cursor, want, 0);
			cursor += want;
		}
		ring_free(r);
	}
}

static void readers_do_not_know_of_each_other(void **state)
{
	struct ring *r = new_ring(CAPACITY, 0), *a = NULL, *b = NULL;

	(void)state;
	assert_int_equal(ring_open(ring_fd(r), &a), 0);
	assert_int_equal(ring_open(ring_fd(r), &b), 0);
	append_stamped(r, 1000);
	expect_read(a, 0, 600, 0, 600, 0);
	expect_read(b, 0, 10, 0, 10, 0);
	append_stamped(r, CAPACITY);
	expect_read(a, 600, 600, 1000, 600, 400);
	ring_free(a);
	expect_read(b, 10, 600, 1000, 600, 990);
	ring_free(b);
	ring_free(r);
}

/* ---- Writing ---- */

static void every_window_is_contiguous_and_as_long_as_the_slack(void **state)
{
	struct ring *r = new_ring(CAPACITY, 0);

	(void)state;
	for (size_t step = 1; step < 70; step++) {
		uint64_t tail = ring_tail(r);
		size_t n = step * 997 % RING_SLACK, lost = n > CAPACITY ? n - CAPACITY : 0;

		stamp_fill(ring_window(r), tail, RING_SLACK);
		ring_publish(r, n);
		expect_read(r, tail, RING_SLACK, tail + lost, n - lost, lost);
	}
	ring_free(r);
}

static void what_lies_in_the_window_unpublished_is_not_seen_and_harms_nothing(void **state)
{
	struct ring *r = new_ring(CAPACITY, 0);

	(void)state;
	for (int i = 0; i < 40; i++) {
		append_stamped(r, 2777);
		memset(ring_window(r), 0xEE, RING_SLACK);
		ring_publish(r, 0);
		expect_read(r, ring_head(r), CAPACITY, ring_head(r), ring_tail(r) - ring_head(r), 0);
		expect_read(r, ring_tail(r), CAPACITY, ring_tail(r), 0, 0);
	}
	ring_free(r);
}

static void a_whole_slack_at_once_leaves_the_newest_capacity_readable(void **state)
{
	struct ring *r = new_ring(CAPACITY, 0);

	(void)state;
	stamp_fill(ring_window(r), 0, RING_SLACK);
	ring_publish(r, RING_SLACK);
	assert_true(ring_head(r) == RING_SLACK - CAPACITY);
	expect_read(r, 0, RING_SLACK, RING_SLACK - CAPACITY, CAPACITY, RING_SLACK - CAPACITY);
	ring_free(r);
}

static void appending_far_more_than_the_ring_holds_keeps_the_end(void **state)
{
	const size_t much = 5 * RING_SLACK + 123;
	struct ring *r = new_ring(CAPACITY, 77);

	(void)state;
	append_stamped(r, much);
	assert_true(ring_tail(r) == 77 + much);
	expect_read(r, 77, RING_SLACK, 77 + much - CAPACITY, CAPACITY, much - CAPACITY);
	ring_append(r, NULL, 0);
	assert_true(ring_tail(r) == 77 + much);
	ring_free(r);
}

static void skipping_forgets_what_was_and_says_how_much(void **state)
{
	const uint64_t later = UINT64_C(1) << 40;
	struct ring *r = new_ring(CAPACITY, 0);

	(void)state;
	append_stamped(r, 1000);
	assert_int_equal(ring_skip_to(r, later), 0);
	assert_true(ring_head(r) == later && ring_tail(r) == later);
	expect_read(r, 900, 100, later, 0, later - 900);
	append_stamped(r, 10);
	expect_read(r, 1000, 100, later, 10, later - 1000);
	append_stamped(r, CAPACITY);
	expect_read(r, later, CAPACITY, later + 10, CAPACITY, 10);
	ring_free(r);
}

static void skipping_to_the_tail_forgets_too_and_skipping_back_is_refused(void **state)
{
	struct ring *r = new_ring(CAPACITY, 0);

	(void)state;
	append_stamped(r, 1000);
	assert_int_equal(ring_skip_to(r, 999), -EINVAL);
	assert_int_equal(ring_skip_to(r, UINT64_MAX - 5), -EINVAL);
	expect_read(r, 0, 2000, 0, 1000, 0);
	assert_int_equal(ring_skip_to(r, 1000), 0);
	expect_read(r, 0, 2000, 1000, 0, 1000);
	ring_free(r);
}

/* ---- Sharing ---- */

static void who_opens_it_sees_what_was_written_and_what_comes(void **state)
{
	struct ring *r = new_ring(CAPACITY, 5), *reader = NULL;

	(void)state;
	append_stamped(r, 300);
	assert_int_equal(ring_open(ring_fd(r), &reader), 0);
	assert_true(ring_capacity(reader) == CAPACITY);
	assert_int_equal(ring_fd(reader), -1);
	expect_read(reader, 5, 1000, 5, 300, 0);
	append_stamped(r, 10);
	expect_read(reader, 305, 1000, 305, 10, 0);
	ring_free(reader);
	ring_free(r);
}

static void the_descriptor_may_go_and_the_rings_go_on(void **state)
{
	struct ring *r = new_ring(CAPACITY, 0), *reader = NULL;
	int fd = dup(ring_fd(r));

	(void)state;
	assert_true(fd >= 0);
	ring_close_fd(r);
	assert_int_equal(ring_fd(r), -1);
	ring_close_fd(r);
	assert_int_equal(ring_open(fd, &reader), 0);
	assert_int_equal(close(fd), 0); /* still the caller's: ring_open() has not closed it */
	append_stamped(r, 300);
	expect_read(reader, 0, 1000, 0, 300, 0);
	ring_free(r);
	expect_read(reader, 0, 1000, 0, 300, 0);
	ring_free(reader);
}

static void nobody_who_holds_the_descriptor_can_write_or_resize(void **state)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE) + CAPACITY + RING_SLACK;
	struct ring *r = new_ring(CAPACITY, 0);
	void *map;

	(void)state;
	append_stamped(r, 100);
	assert_true(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd(r), 0) == MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(pwrite(ring_fd(r), "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(ring_fd(r), 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(ring_fd(r), (off_t)(2 * size)), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fallocate(ring_fd(r), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(ring_fd(r), F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, ring_fd(r), 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(mprotect(map, size, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(errno, EACCES);
	munmap(map, size);
	expect_read(r, 0, 200, 0, 100, 0);
	ring_free(r);
}

/* Runs in a forked child: a process that never execs, as a keeper is. */
static int child_sees_the_writers_mapping(const void *window)
{
	void *page = (void *)((uintptr_t)window & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1));
	unsigned char in_core;

	return mincore(page, 1, &in_core) == 0 || errno != ENOMEM;
}

static void a_forked_child_does_not_inherit_the_writers_mapping(void **state)
{
	struct ring *r = new_ring(CAPACITY, 0);
	const void *window = ring_window(r);
	int status;
	pid_t pid;

	(void)state;
	assert_false(child_sees_the_writers_mapping(ring_window(r)) == 0); /* here it is, so the question can say yes */
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child_sees_the_writers_mapping(window));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	ring_free(r);
}

static void freeing_leaves_no_descriptor_and_no_mapping(void **state)
{
	int fds = open_descriptors(), maps = memfd_mappings(NAME);

	(void)state;
	assert_int_equal(maps, 0);
	for (int i = 0; i < 200; i++) {
		struct ring *r = new_ring(CAPACITY << (i % 5), 0), *reader = NULL;

		assert_int_equal(ring_open(ring_fd(r), &reader), 0);
		assert_true(memfd_mappings(NAME) > 0);
		if (i % 2)
			ring_close_fd(r);
		append_stamped(r, 100);
		ring_free(r);
		ring_free(reader);
	}
	ring_free(NULL);
	assert_int_equal(open_descriptors(), fds);
	assert_int_equal(memfd_mappings(NAME), 0);
}

/* Runs in a forked child; a system call would end it. */
static void use_every_call_without_a_system_call(struct ring *r, struct ring *reader, unsigned char *buf)
{
	struct ring_span got;
	uint64_t cursor = 0;
	bool right = true;

	if (forbid_system_calls() < 0)
		_exit(77);
	for (int i = 0; i < 1000; i++) {
		right = right && ring_read(reader, cursor, buf, CAPACITY, &got) == 0 && got.next_offset == cursor;
		stamp_fill(ring_window(r), ring_tail(r), 100);
		ring_publish(r, 100);
		ring_append(r, buf, 0);
		right = right && ring_read(reader, cursor, buf, CAPACITY, &got) == 0 && got.next_offset == cursor + 100;
		right = right && ring_read(r, cursor, buf, CAPACITY, &got) == 0 && got.lost_bytes == 0;
		right = right && ring_tail(r) - ring_head(reader) <= ring_capacity(reader);
		cursor = got.next_offset;
	}
	right = right && ring_skip_to(r, cursor + 1) == 0;
	end_process(right ? 0 : 1);
}

static void once_made_and_opened_nothing_makes_a_system_call(void **state)
{
	static unsigned char buf[CAPACITY];
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		struct ring *r = NULL, *reader = NULL;

		if (ring_create(NAME, CAPACITY, 0, &r) < 0 || ring_open(ring_fd(r), &reader) < 0)
			_exit(2);
		use_every_call_without_a_system_call(r, reader, buf);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("no seccomp filter can be set here\n");
		skip();
	}
	assert_false(WIFSIGNALED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A file's blocks are the pages that somebody has touched. */
static void an_idle_ring_takes_no_memory_but_its_header_and_what_was_written(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct ring *r = new_ring(RING_MAX_CAPACITY, 0), *reader = NULL;
	struct stat st;

	(void)state;
	assert_int_equal(ring_open(ring_fd(r), &reader), 0);
	expect_read(reader, 0, 4096, 0, 0, 0);
	append_stamped(r, 1);
	expect_read(reader, 0, 4096, 0, 1, 0);
	assert_int_equal(fstat(ring_fd(r), &st), 0);
	assert_int_equal((size_t)st.st_blocks * 512, 2 * page);
	ring_free(reader);
	ring_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_capacity_that_is_no_power_of_two_in_range_is_refused),
		cmocka_unit_test(every_power_of_two_in_range_makes_a_ring_of_exactly_that_capacity),
		cmocka_unit_test(a_first_offset_that_could_wrap_is_refused),
		cmocka_unit_test(a_new_ring_is_empty_at_its_first_offset),
		cmocka_unit_test(its_memory_shows_its_name_and_is_closed_on_exec),
		cmocka_unit_test(no_name_or_an_endless_one_is_no_reason_to_fail),
		cmocka_unit_test(a_process_out_of_descriptors_is_told_so_and_loses_nothing),
		cmocka_unit_test(what_was_published_is_read_in_order),
		cmocka_unit_test(an_offset_past_the_tail_is_out_of_range),
		cmocka_unit_test(a_reader_that_fell_behind_is_told_how_much_it_lost),
		cmocka_unit_test(an_offset_from_before_the_stream_counts_as_lost),
		cmocka_unit_test(asking_for_nothing_still_tells_where_one_is),
		cmocka_unit_test(partial_reads_across_the_wrap_see_every_byte_once_and_in_order),
		cmocka_unit_test(readers_do_not_know_of_each_other),
		cmocka_unit_test(every_window_is_contiguous_and_as_long_as_the_slack),
		cmocka_unit_test(what_lies_in_the_window_unpublished_is_not_seen_and_harms_nothing),
		cmocka_unit_test(a_whole_slack_at_once_leaves_the_newest_capacity_readable),
		cmocka_unit_test(appending_far_more_than_the_ring_holds_keeps_the_end),
		cmocka_unit_test(skipping_forgets_what_was_and_says_how_much),
		cmocka_unit_test(skipping_to_the_tail_forgets_too_and_skipping_back_is_refused),
		cmocka_unit_test(who_opens_it_sees_what_was_written_and_what_comes),
		cmocka_unit_test(the_descriptor_may_go_and_the_rings_go_on),
		cmocka_unit_test(nobody_who_holds_the_descriptor_can_write_or_resize),
		cmocka_unit_test(a_forked_child_does_not_inherit_the_writers_mapping),
		cmocka_unit_test(freeing_leaves_no_descriptor_and_no_mapping),
		cmocka_unit_test(once_made_and_opened_nothing_makes_a_system_call),
		cmocka_unit_test(an_idle_ring_takes_no_memory_but_its_header_and_what_was_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
