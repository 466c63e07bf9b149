/*
 * test_custody.c - the promises of sandboxes/custody.h: what is kept comes back byte for byte, and what is not whole is
 * refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "sandboxes/crc32c.h"
#include "sandboxes/custody.h"
#include "wire/codes.h"
#include "wire/fd.h"
#include "wire/mark.h"

#define CAPACITY RING_MIN_CAPACITY

struct fixture {
	char dir[64], custody[128], file[192];
	struct custody_place place;
	struct ring *ring, *marks;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "%s/custody.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->custody, sizeof(f->custody), "%s/custody", f->dir);
	snprintf(f->file, sizeof(f->file), "%s/dev.ring", f->custody);
	f->place = (struct custody_place){ .dir = f->custody, .sandbox_id = "sb-abc", .console = "dev" };
	*state = f;
	return ring_create("test", CAPACITY, 0, &f->ring) || ring_create("marks", MARK_RING_BYTES, 0, &f->marks);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ring_free(f->ring);
	ring_free(f->marks);
	custody_drop_all(f->custody);
	rmdir(f->custody);
	rmdir(f->dir);
	free(f);
	return 0;
}

/* The byte at an offset, so that a shifted copy shows. */
static uint8_t stamp(uint64_t offset)
{
	return (uint8_t)((offset * 0x9e3779b97f4a7c15ULL) >> 56);
}

static void append_stamped(struct ring *r, size_t n)
{
	uint8_t buf[1024];

	while (n > 0) {
		size_t part = n < sizeof(buf) ? n : sizeof(buf);
		uint64_t at = ring_tail(r);
		for (size_t i = 0; i < part; i++)
			buf[i] = stamp(at + i);
		ring_append(r, buf, part);
		n -= part;
	}
}

static void append_mark(struct ring *marks, uint64_t offset, uint32_t kind)
{
	struct mark m = { .offset = offset, .kind = kind, .incarnation = 1 };
	uint8_t packed[MARK_SIZE];

	mark_pack(&m, packed);
	ring_append(marks, packed, sizeof(packed));
}

static struct custody_entry keep(struct fixture *f)
{
	struct custody_entry e = { .incarnation = 3, .state = CONSOLE_EXITED };

	assert_int_equal(custody_write(&f->place, ring_fd(f->ring), ring_fd(f->marks), &e), 0);
	return e;
}

/* Reads the kept ring through descriptors alone, as a client does, and checks every byte. */
static void assert_stamped(int fd, uint64_t head, uint64_t tail)
{
	struct ring *r;
	struct ring_span got;
	uint8_t *buf = malloc(RING_MAX_CAPACITY);

	assert_int_equal(ring_open(fd, &r), 0);
	assert_int_equal(ring_head(r), head);
	assert_int_equal(ring_tail(r), tail);
	assert_int_equal(ring_read(r, head, buf, RING_MAX_CAPACITY, &got), 0);
	assert_int_equal(got.offset, head);
	assert_int_equal(got.next_offset, tail);
	for (uint64_t o = head; o < tail; o++)
		assert_int_equal(buf[o - head], stamp(o));
	ring_free(r);
	free(buf);
}

static void assert_kept(struct fixture *f, uint64_t head, uint64_t tail)
{
	struct custody_entry e;
	int fds[2] = { -1, -1 };

	assert_int_equal(custody_read(&f->place, &e, &fds[0], &fds[1]), 0);
	assert_int_equal(e.head, head);
	assert_int_equal(e.tail, tail);
	assert_stamped(fds[0], head, tail);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

static int read_again(struct fixture *f)
{
	struct custody_entry e;
	int fds[2] = { -1, -1 };
	int r = custody_read(&f->place, &e, &fds[0], &fds[1]);

	fd_close(&fds[0]);
	fd_close(&fds[1]);
	return r;
}

/* ---- What is kept ---- */

static void what_was_kept_is_read_back_byte_for_byte(void **state)
{
	struct fixture *f = *state;

	append_stamped(f->ring, 1000);
	struct custody_entry e = keep(f);
	assert_int_equal(e.head, 0);
	assert_int_equal(e.tail, 1000);
	assert_int_equal(e.capacity, CAPACITY);
	assert_kept(f, 0, 1000);
}

static void an_empty_console_is_kept_too(void **state)
{
	struct fixture *f = *state;

	keep(f);
	assert_kept(f, 0, 0);
}

static void a_ring_that_has_wrapped_is_kept_from_its_head_on(void **state)
{
	struct fixture *f = *state;

	append_stamped(f->ring, 3 * CAPACITY + 77);
	keep(f);
	assert_kept(f, 2 * CAPACITY + 77, 3 * CAPACITY + 77);
}

static void offsets_over_2_to_the_40_are_kept(void **state)
{
	struct fixture *f = *state;
	uint64_t first = ((uint64_t)5 << 40) + 3;

	ring_free(f->ring);
	assert_int_equal(ring_create("test", CAPACITY, first, &f->ring), 0);
	append_stamped(f->ring, 500);
	keep(f);
	assert_kept(f, first, first + 500);
}

static void marks_are_kept_beside_the_bytes(void **state)
{
	struct fixture *f = *state;
	struct custody_entry e;
	struct ring *marks;
	struct ring_span got;
	struct mark m;
	uint8_t packed[MARK_SIZE];
	int fds[2] = { -1, -1 };

	append_mark(f->marks, 0, MARK_START);
	append_stamped(f->ring, 300);
	append_mark(f->marks, 300, MARK_EXIT);
	keep(f);
	assert_int_equal(custody_read(&f->place, &e, &fds[0], &fds[1]), 0);
	assert_int_equal(e.incarnation, 3);
	assert_int_equal(e.state, CONSOLE_EXITED);
	assert_int_equal(ring_open(fds[1], &marks), 0);
	assert_int_equal(ring_tail(marks), 2 * MARK_SIZE);
	assert_int_equal(ring_read(marks, MARK_SIZE, packed, MARK_SIZE, &got), 0);
	assert_true(mark_unpack(packed, &m));
	assert_int_equal(m.kind, MARK_EXIT);
	assert_int_equal(m.offset, 300);
	ring_free(marks);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

static void a_reader_cannot_write_into_what_it_is_given(void **state)
{
	struct fixture *f = *state;
	struct custody_entry e;
	int fds[2] = { -1, -1 };

	append_stamped(f->ring, 10);
	keep(f);
	assert_int_equal(custody_read(&f->place, &e, &fds[0], &fds[1]), 0);
	assert_true(write(fds[0], "x", 1) < 0);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0), MAP_FAILED);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

static void a_later_save_takes_the_place_of_the_one_before(void **state)
{
	struct fixture *f = *state;

	append_stamped(f->ring, 2000);
	keep(f);
	append_stamped(f->ring, 5000);
	keep(f);
	assert_kept(f, 7000 - CAPACITY, 7000);
}

static void the_header_alone_says_how_far_it_reaches(void **state)
{
	struct fixture *f = *state;
	struct custody_entry e;

	append_stamped(f->ring, 123);
	keep(f);
	assert_int_equal(custody_peek(&f->place, &e), 0);
	assert_int_equal(e.tail, 123);
	assert_true(e.written_at_ms > 0);
}

/* ---- A writer that does not stop ---- */

struct flood {
	struct ring *ring;
	atomic_bool stop;
};

static void *flood_main(void *arg)
{
	struct flood *fl = arg;

	while (!atomic_load(&fl->stop))
		append_stamped(fl->ring, 997);
	return NULL;
}

static void a_flood_is_kept_as_one_range_without_a_gap(void **state)
{
	struct fixture *f = *state;
	struct flood fl = { .ring = NULL };
	pthread_t thread;

	ring_free(f->ring);
	assert_int_equal(ring_create("test", 64 * 1024, 0, &f->ring), 0);
	fl.ring = f->ring;
	append_stamped(f->ring, 64 * 1024);
	assert_int_equal(pthread_create(&thread, NULL, flood_main, &fl), 0);
	for (int i = 0; i < 20; i++) {
		struct custody_entry e = { .incarnation = 1, .state = CONSOLE_RUNNING };
		int r = custody_write(&f->place, ring_fd(f->ring), ring_fd(f->marks), &e);
		if (r == -EBUSY)
			continue; /* it may give up; it may not keep nonsense */
		assert_int_equal(r, 0);
		assert_kept(f, e.head, e.tail);
	}
	atomic_store(&fl.stop, true);
	pthread_join(thread, NULL);
}

/* ---- What is refused ---- */

static size_t file_size(struct fixture *f)
{
	struct stat st;

	assert_int_equal(stat(f->file, &st), 0);
	return (size_t)st.st_size;
}

static void flip(struct fixture *f, size_t at)
{
	uint8_t byte;
	int fd = open(f->file, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x20;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	fd_close(&fd);
}

static void a_file_with_any_one_byte_changed_is_refused(void **state)
{
	struct fixture *f = *state;

	append_mark(f->marks, 0, MARK_START);
	append_stamped(f->ring, 200);
	keep(f);
	size_t n = file_size(f);
	for (size_t at = 0; at < n; at++) {
		flip(f, at);
		assert_int_equal(read_again(f), -EUCLEAN);
		flip(f, at);
	}
	assert_kept(f, 0, 200);
}

static void a_file_of_any_other_length_is_refused(void **state)
{
	struct fixture *f = *state;

	append_stamped(f->ring, 200);
	keep(f);
	size_t n = file_size(f);
	assert_int_equal(truncate(f->file, (off_t)n + 1), 0);
	assert_int_equal(read_again(f), -EUCLEAN);
	for (size_t len = n; len-- > 0;) {
		assert_int_equal(truncate(f->file, (off_t)len), 0);
		assert_int_equal(read_again(f), -EUCLEAN);
	}
}

static void put_le(uint8_t *p, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

/* A header whose checksum is right and whose numbers are not: damage of a writer's making. */
static void set_number(struct fixture *f, size_t at, uint64_t v, unsigned n)
{
	uint8_t header[256];
	int fd = open(f->file, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, header, sizeof(header), 0), sizeof(header));
	put_le(header + at, v, n);
	put_le(header + 76, 0, 4);
	put_le(header + 76, crc32c(0, header, sizeof(header)), 4);
	assert_int_equal(pwrite(fd, header, sizeof(header), 0), sizeof(header));
	fd_close(&fd);
}

static void numbers_that_cannot_be_are_refused_whatever_the_checksum_says(void **state)
{
	static const struct {
		size_t at;
		uint64_t v;
		unsigned n;
	} lies[] = {
		{ 8, 2, 4 },     /* layout */
		{ 12, 9, 4 },    /* marks' layout */
		{ 16, 5000, 8 }, /* capacity: no power of two */
		{ 16, 1, 8 },    /* too small */
		{ 16, (uint64_t)1 << 40, 8 },
		{ 24, UINT64_MAX, 8 }, /* head past the tail */
		{ 32, UINT64_MAX, 8 }, /* tail: more than the capacity */
		{ 40, 5, 8 },          /* marks: not at a mark */
		{ 48, 100, 8 },        /* marks: not whole ones */
		{ 48, (uint64_t)1 << 60, 8 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		append_stamped(f->ring, 100);
		keep(f);
		set_number(f, lies[i].at, lies[i].v, lies[i].n);
		assert_int_equal(read_again(f), -EUCLEAN);
	}
	/* Both moved up by the same: consistent, and over what a console can reach. */
	keep(f);
	set_number(f, 24, UINT64_MAX - 2000, 8);
	set_number(f, 32, UINT64_MAX - 1000, 8);
	assert_int_equal(read_again(f), -EUCLEAN);
}

static void a_file_of_another_console_or_sandbox_is_refused(void **state)
{
	struct fixture *f = *state;
	char other[192];
	struct custody_place place = f->place;
	struct custody_entry e;

	append_stamped(f->ring, 100);
	keep(f);
	snprintf(other, sizeof(other), "%s/other.ring", f->custody);
	assert_int_equal(link(f->file, other), 0);
	place.console = "other";
	assert_int_equal(custody_peek(&place, &e), -EUCLEAN);
	place = f->place;
	place.sandbox_id = "sb-xyz";
	assert_int_equal(custody_peek(&place, &e), -EUCLEAN);
}

static void what_is_no_file_is_refused_without_waiting(void **state)
{
	struct fixture *f = *state;

	keep(f);
	assert_int_equal(unlink(f->file), 0);
	assert_int_equal(read_again(f), -ENOENT);
	assert_int_equal(symlink("/etc/passwd", f->file), 0);
	assert_int_equal(read_again(f), -EUCLEAN);
	assert_int_equal(unlink(f->file), 0);
	assert_int_equal(mkfifo(f->file, 0600), 0);
	assert_int_equal(read_again(f), -EUCLEAN);
	/* And a save replaces it. */
	append_stamped(f->ring, 10);
	keep(f);
	assert_kept(f, 0, 10);
}

static void memory_that_is_no_ring_is_not_kept(void **state)
{
	struct fixture *f = *state;
	struct custody_entry e = { .incarnation = 1, .state = CONSOLE_EXITED };
	int fd = memfd_create("not-a-ring", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_true(custody_write(&f->place, fd, ring_fd(f->marks), &e) < 0);
	assert_true(custody_write(&f->place, ring_fd(f->ring), fd, &e) < 0);
	/* A ring of bytes in the place of the marks' is one of the wrong size. */
	assert_int_equal(custody_write(&f->place, ring_fd(f->ring), ring_fd(f->ring), &e), -EPROTO);
	assert_int_equal(access(f->file, F_OK), -1);
	fd_close(&fd);
}

static void names_that_are_none_are_refused(void **state)
{
	struct fixture *f = *state;
	struct custody_entry e = { .incarnation = 1, .state = CONSOLE_EXITED };

	f->place.console = "../dev";
	assert_int_equal(custody_write(&f->place, ring_fd(f->ring), ring_fd(f->marks), &e), -EINVAL);
	assert_int_equal(custody_peek(&f->place, &e), -EINVAL);
	assert_int_equal(custody_drop(&f->place), -EINVAL);
}

/* ---- A disk that takes no more ---- */

static void a_save_that_fails_leaves_the_one_before(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, small;
	struct custody_entry e = { .incarnation = 1, .state = CONSOLE_EXITED };

	append_stamped(f->ring, 100);
	keep(f);
	append_stamped(f->ring, 3000);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	/* At any length: in the marks, in the bytes, before the header. */
	for (rlim_t limit = 0; limit < 3000; limit += 501) {
		small = before;
		small.rlim_cur = limit;
		setrlimit(RLIMIT_FSIZE, &small);
		int r = custody_write(&f->place, ring_fd(f->ring), ring_fd(f->marks), &e);
		setrlimit(RLIMIT_FSIZE, &before);
		assert_int_equal(r, -EFBIG);
		assert_kept(f, 0, 100);
	}
	keep(f);
	assert_kept(f, 0, 3100);
}

static void a_save_is_not_stopped_by_what_a_crash_left(void **state)
{
	struct fixture *f = *state;
	char tmp[256];
	int fd;

	append_stamped(f->ring, 100);
	keep(f);
	snprintf(tmp, sizeof(tmp), "%s.tmp", f->file);
	fd = open(tmp, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "half", 4), 4);
	fd_close(&fd);
	append_stamped(f->ring, 100);
	keep(f);
	assert_kept(f, 0, 200);
	assert_int_equal(access(tmp, F_OK), -1);
}

static void what_was_dropped_is_gone(void **state)
{
	struct fixture *f = *state;

	append_stamped(f->ring, 100);
	keep(f);
	assert_int_equal(custody_drop(&f->place), 0);
	assert_int_equal(read_again(f), -ENOENT);
	assert_int_equal(custody_drop(&f->place), 0);
	keep(f);
	assert_int_equal(custody_drop_all(f->custody), 0);
	assert_int_equal(access(f->custody, F_OK), -1);
	assert_int_equal(custody_drop_all(f->custody), 0);
}

static void the_checksum_is_crc_32c(void **state)
{
	(void)state;
	/* The check value of RFC 3720's polynomial. */
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283U);
	assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283U);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_kept_is_read_back_byte_for_byte),
		TEST(an_empty_console_is_kept_too),
		TEST(a_ring_that_has_wrapped_is_kept_from_its_head_on),
		TEST(offsets_over_2_to_the_40_are_kept),
		TEST(marks_are_kept_beside_the_bytes),
		TEST(a_reader_cannot_write_into_what_it_is_given),
		TEST(a_later_save_takes_the_place_of_the_one_before),
		TEST(the_header_alone_says_how_far_it_reaches),
		TEST(a_flood_is_kept_as_one_range_without_a_gap),
		TEST(a_file_with_any_one_byte_changed_is_refused),
		TEST(a_file_of_any_other_length_is_refused),
		TEST(numbers_that_cannot_be_are_refused_whatever_the_checksum_says),
		TEST(a_file_of_another_console_or_sandbox_is_refused),
		TEST(what_is_no_file_is_refused_without_waiting),
		TEST(memory_that_is_no_ring_is_not_kept),
		TEST(names_that_are_none_are_refused),
		TEST(a_save_that_fails_leaves_the_one_before),
		TEST(a_save_is_not_stopped_by_what_a_crash_left),
		TEST(what_was_dropped_is_gone),
		cmocka_unit_test(the_checksum_is_crc_32c),
	};
	return cmocka_run_group_tests_name("custody", tests, NULL, NULL);
}
