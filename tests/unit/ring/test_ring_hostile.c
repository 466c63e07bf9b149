/*
 * test_ring_hostile.c - a reader that is handed something other than a ring, or a ring whose writer lies. Nothing here
 * may crash, hang, leak, or copy a byte from where the ring is not: the data areas are stamped by their position, so a
 * byte from elsewhere shows, and buffers are exactly as long as they need to be, so that the sanitizer sees one too
 * many.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "tests/unit/ring/forge.h"
#include "tests/unit/ring/leaks.h"
#include "tests/unit/ring/stamp.h"

#define CAPACITY ((size_t)4096)
#define AREA     (CAPACITY + RING_SLACK)
#define HANGS    30 /* seconds until a test that does not end is ended */

static int start_counting(void **state)
{
	static int fds;

	alarm(HANGS);
	fds = open_descriptors();
	*state = &fds;
	return 0;
}

static int nothing_leaked(void **state)
{
	const int *fds = *state;

	alarm(0);
	return open_descriptors() == *fds && memfd_mappings("forged") == 0 ? 0 : -1;
}

/* Whatever it is: refused with `err`, nothing mapped, nothing closed. Takes the descriptor. */
static void expect_refused(int fd, int err)
{
	int maps = memfd_mappings("forged");
	struct ring *r = NULL;

	assert_true(fd >= 0);
	assert_int_equal(ring_open(fd, &r), err);
	assert_null(r);
	assert_int_equal(memfd_mappings("forged"), maps);
	assert_int_equal(close(fd), 0);
}

static void forge(struct forge *f, size_t size, int seals)
{
	if (forge_new(f, size, seals) < 0)
		fail_msg("cannot forge: %s", strerror(errno));
}

/* ---- Not a ring ---- */

static void the_forger_can_make_a_ring_that_is_taken_for_one(void **state)
{
	struct ring *r = NULL;
	struct forge f;

	(void)state;
	forge(&f, forge_size(CAPACITY), FORGE_SEALS);
	assert_int_equal(ring_open(f.fd, &r), 0);
	assert_int_equal(ring_capacity(r), CAPACITY);
	ring_free(r);
	forge_free(&f);
}

static void a_ring_of_ours_has_the_layout_that_stands_in_the_forgers_book(void **state)
{
	const uint64_t first = UINT64_C(0x1234567890);
	unsigned char header[32];
	struct ring *r = NULL;
	uint64_t words[2];
	uint32_t layout;

	(void)state;
	assert_int_equal(ring_create("ours", CAPACITY, first, &r), 0);
	ring_append(r, "abc", 3);
	assert_int_equal(pread(ring_fd(r), header, sizeof(header), 0), sizeof(header));
	assert_memory_equal(header, FORGE_MAGIC, 8);
	memcpy(&layout, header + FORGE_LAYOUT, sizeof(layout));
	memcpy(words, header + FORGE_FIRST, sizeof(words));
	assert_int_equal(layout, 1);
	assert_true(words[0] == first && words[1] == first + 3);
	ring_free(r);
}

static void any_missing_seal_is_noticed(void **state)
{
	static const int seals[] = { F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL };
	struct forge f;

	(void)state;
	for (int set = 0; set < 15; set++) { /* every selection of the four but all */
		int some = 0;

		for (int i = 0; i < 4; i++)
			some |= set & (1 << i) ? seals[i] : 0;
		forge(&f, forge_size(CAPACITY), some);
		expect_refused(dup(f.fd), -EPERM);
		forge_free(&f);
	}
}

static void a_memfd_that_cannot_be_sealed_is_refused(void **state)
{
	int fd = memfd_create("forged", MFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)forge_size(CAPACITY)), 0);
	expect_refused(fd, -EPERM);
}

static void any_other_size_is_refused(void **state)
{
	const size_t page = forge_page(), sizes[] = {
		0,
		page,
		page + RING_SLACK,
		forge_size(CAPACITY) - 1,
		forge_size(CAPACITY) + 1,
		forge_size(CAPACITY) + 2 * page,
		forge_size(CAPACITY / 2),
		forge_size(3 * CAPACITY),
		forge_size(RING_MAX_CAPACITY) - page,
		forge_size(RING_MAX_CAPACITY) + 1,
		forge_size(2 * RING_MAX_CAPACITY),
		(size_t)1 << 40,
		(size_t)INT64_MAX - page + 1,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)sizes[i]), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, FORGE_SEALS), 0);
		expect_refused(fd, -EINVAL);
	}
}

static void a_wrong_magic_or_another_layout_is_not_a_ring(void **state)
{
	static const uint32_t layouts[] = { 0, RING_LAYOUT + 1, UINT32_MAX };
	struct forge f;

	(void)state;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		forge(&f, forge_size(CAPACITY), FORGE_SEALS);
		forge_set_layout(&f, layouts[i]);
		expect_refused(dup(f.fd), -EPROTO);
		forge_free(&f);
	}
	for (size_t i = 0; i < 8; i++) {
		forge(&f, forge_size(CAPACITY), FORGE_SEALS);
		f.map[i] ^= 0x20;
		expect_refused(dup(f.fd), -EPROTO);
		forge_free(&f);
	}
}

static void huge_pages_are_not_a_ring(void **state)
{
	int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	(void)state;
	if (fd < 0 || ftruncate(fd, 4 * 1024 * 1024) < 0 || fcntl(fd, F_ADD_SEALS, FORGE_SEALS) < 0) {
		print_message("this kernel makes no sealed memfd of huge pages: %s\n", strerror(errno));
		close(fd);
		skip();
	}
	expect_refused(fd, -EPROTO);
}

static void what_cannot_be_sealed_is_refused(void **state)
{
	char path[] = "/tmp/ring-hostile-XXXXXX";
	int pipes[2], sockets[2], file;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
	file = mkostemp(path, O_CLOEXEC);
	assert_true(file >= 0);
	unlink(path);
	assert_int_equal(ftruncate(file, (off_t)forge_size(CAPACITY)), 0);

	expect_refused(pipes[0], -EPERM);
	expect_refused(pipes[1], -EPERM);
	expect_refused(sockets[0], -EPERM);
	expect_refused(sockets[1], -EPERM);
	expect_refused(file, -EPERM);
	expect_refused(open("/dev/zero", O_RDWR | O_CLOEXEC), -EPERM);
	expect_refused(open("/dev/null", O_RDWR | O_CLOEXEC), -EPERM);
	expect_refused(open("/proc/self/maps", O_RDONLY | O_CLOEXEC), -EPERM);
	expect_refused(open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), -EPERM);
}

static void what_is_no_descriptor_is_refused(void **state)
{
	struct ring *r = NULL;

	(void)state;
	assert_int_equal(ring_open(-1, &r), -EBADF);
	assert_int_equal(ring_open(INT32_MAX, &r), -EBADF);
	assert_null(r);
	expect_refused(open("/tmp", O_PATH | O_CLOEXEC), -EBADF);
}

static void a_ring_that_may_not_be_read_is_refused(void **state)
{
	char path[64];
	struct forge f;

	(void)state;
	forge(&f, forge_size(CAPACITY), FORGE_SEALS);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f.fd);
	expect_refused(open(path, O_WRONLY | O_CLOEXEC), -EACCES);
	forge_free(&f);
}

/* ---- A ring whose writer lies ---- */

/* Positions, not offsets, are stamped: wherever a read lands in the area, its bytes are known. */
static void stamp_area(const struct forge *f)
{
	stamp_fill(f->map + forge_page(), 0, AREA);
}

static bool bytes_are_of_the_area(const unsigned char *bytes, uint64_t offset, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != stamp((offset + i) % AREA))
			return false;
	return true;
}

/* All that a reader may rely on, whatever the header says. buf has `capacity` bytes, whatever max is. */
static void read_safely(const struct ring *r, uint64_t from, size_t max)
{
	const struct ring_span untouched = { 111, 222, 333 };
	struct ring_span got = untouched;
	unsigned char *buf = malloc(CAPACITY);
	uint64_t n;
	int err;

	assert_non_null(buf);
	err = ring_read(r, from, buf, max, &got);
	if (err != 0) {
		assert_int_equal(err, -ERANGE);
		assert_memory_equal(&got, &untouched, sizeof(got));
	} else {
		n = got.next_offset - got.offset;
		assert_true(got.offset >= from);
		assert_true(got.next_offset >= got.offset);
		assert_true(got.lost_bytes == got.offset - from);
		assert_true(n <= max && n <= CAPACITY);
		assert_true(bytes_are_of_the_area(buf, got.offset, (size_t)n));
	}
	free(buf);
}

static const uint64_t edges[] = {
	0,
	1,
	CAPACITY - 1,
	CAPACITY,
	CAPACITY + 1,
	AREA - 1,
	AREA,
	AREA + 1,
	2 * AREA,
	UINT32_MAX,
	UINT64_C(1) << 32,
	UINT64_C(1) << 62,
	INT64_MAX,
	UINT64_C(1) << 63,
	UINT64_MAX - AREA,
	UINT64_MAX - CAPACITY - 1,
	UINT64_MAX - CAPACITY,
	UINT64_MAX - 1,
	UINT64_MAX,
};
#define EDGES (sizeof(edges) / sizeof(edges[0]))

static void any_first_and_tail_give_bounded_answers_from_within_the_area(void **state)
{
	static const size_t sizes[] = { 0, 1, CAPACITY - 1, CAPACITY, CAPACITY + 1, SIZE_MAX };
	struct ring *r = NULL;
	struct forge f;

	(void)state;
	forge(&f, forge_size(CAPACITY), FORGE_SEALS);
	stamp_area(&f);
	assert_int_equal(ring_open(f.fd, &r), 0);
	for (size_t first = 0; first < EDGES; first++)
		for (size_t tail = 0; tail < EDGES; tail++) {
			forge_set(&f, FORGE_FIRST, edges[first]);
			forge_set(&f, FORGE_TAIL, edges[tail]);
			assert_true(ring_head(r) <= ring_tail(r));
			assert_true(ring_tail(r) - ring_head(r) <= CAPACITY);
			assert_int_equal(ring_capacity(r), CAPACITY);
			for (size_t from = 0; from < EDGES; from++)
				for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
					read_safely(r, edges[from], sizes[s]);
		}
	ring_free(r);
	forge_free(&f);
}

static void a_tail_that_goes_back_puts_old_cursors_out_of_range(void **state)
{
	unsigned char buf[16];
	struct ring_span got;
	struct ring *r = NULL;
	struct forge f;

	(void)state;
	forge(&f, forge_size(CAPACITY), FORGE_SEALS);
	stamp_area(&f);
	assert_int_equal(ring_open(f.fd, &r), 0);
	forge_set(&f, FORGE_TAIL, 1000);
	assert_int_equal(ring_read(r, 990, buf, sizeof(buf), &got), 0);
	assert_true(got.next_offset == 1000);
	forge_set(&f, FORGE_TAIL, 10);
	assert_int_equal(ring_read(r, got.next_offset, buf, sizeof(buf), &got), -ERANGE);
	assert_true(got.next_offset == 1000);
	ring_free(r);
	forge_free(&f);
}

/* A magic, layout or size that changes after the ring was opened is nobody's business any more. */
static void what_was_checked_once_is_not_looked_at_again(void **state)
{
	struct ring *r = NULL;
	struct forge f;

	(void)state;
	forge(&f, forge_size(CAPACITY), FORGE_SEALS);
	stamp_area(&f);
	assert_int_equal(ring_open(f.fd, &r), 0);
	memset(f.map, 0xFF, FORGE_FIRST);
	memset(f.map + FORGE_TAIL + 8, 0xFF, forge_page() - FORGE_TAIL - 8);
	forge_set(&f, FORGE_TAIL, 100);
	assert_int_equal(ring_capacity(r), CAPACITY);
	read_safely(r, 50, CAPACITY);
	ring_free(r);
	forge_free(&f);
}

/* ---- A header that changes while it is looked at ---- */

struct liar {
	struct forge *forge;
	atomic_bool stop;
};

static void *lie(void *arg)
{
	struct liar *l = arg;
	uint64_t random = 1;

	while (!atomic_load(&l->stop)) {
		/* Near each other, so that reads get past the first comparison, and far now and then. */
		uint64_t base = edges[rng_below(&random, EDGES)];

		for (int i = 0; i < 100; i++) {
			forge_set(l->forge, FORGE_FIRST, base + rng_below(&random, 2 * AREA));
			forge_set(l->forge, FORGE_TAIL, base + rng_below(&random, 2 * AREA));
		}
	}
	return NULL;
}

static void a_header_that_never_stands_still_gives_bounded_answers(void **state)
{
	uint64_t random = 2;
	struct ring *r = NULL;
	struct forge f;
	struct liar l = { .forge = &f };
	pthread_t thread;

	(void)state;
	forge(&f, forge_size(CAPACITY), FORGE_SEALS);
	stamp_area(&f);
	assert_int_equal(ring_open(f.fd, &r), 0);
	assert_int_equal(pthread_create(&thread, NULL, lie, &l), 0);
	for (int i = 0; i < 100000; i++) {
		uint64_t near = ring_tail(r) - rng_below(&random, AREA);

		read_safely(r, i % 4 ? near : edges[rng_below(&random, EDGES)],
		        i % 5 ? rng_below(&random, CAPACITY) : SIZE_MAX);
	}
	atomic_store(&l.stop, true);
	pthread_join(thread, NULL);
	ring_free(r);
	forge_free(&f);
}

#define hostile_test(f) cmocka_unit_test_setup_teardown(f, start_counting, nothing_leaked)

int main(void)
{
	const struct CMUnitTest tests[] = {
		hostile_test(the_forger_can_make_a_ring_that_is_taken_for_one),
		hostile_test(a_ring_of_ours_has_the_layout_that_stands_in_the_forgers_book),
		hostile_test(any_missing_seal_is_noticed),
		hostile_test(a_memfd_that_cannot_be_sealed_is_refused),
		hostile_test(any_other_size_is_refused),
		hostile_test(a_wrong_magic_or_another_layout_is_not_a_ring),
		hostile_test(huge_pages_are_not_a_ring),
		hostile_test(what_cannot_be_sealed_is_refused),
		hostile_test(what_is_no_descriptor_is_refused),
		hostile_test(a_ring_that_may_not_be_read_is_refused),
		hostile_test(any_first_and_tail_give_bounded_answers_from_within_the_area),
		hostile_test(a_tail_that_goes_back_puts_old_cursors_out_of_range),
		hostile_test(what_was_checked_once_is_not_looked_at_again),
		hostile_test(a_header_that_never_stands_still_gives_bounded_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
