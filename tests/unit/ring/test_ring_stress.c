/*
 * test_ring_stress.c - a writer and readers, each a process of its own, at full speed on whatever cores there are. The
 * content is stamped by offset, so each reader checks each byte it gets, and its books: what it got and what it was
 * told to have lost add up to the whole stream. In the second part the writer is killed in the middle of it all.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "tests/unit/ring/stamp.h"

#define FIRST     ((UINT64_C(1) << 32) - 100000) /* the stream runs over the end of 32 bits */
#define FLOOD_MS  900                            /* how long one flood lasts, and longer where it has not … */
#define ENOUGH(c) (20 * ((c) + RING_SLACK))      /* … written these many bytes yet */
#define HANGS     30                             /* seconds until a process that does not end is ended */
#define PROCESSES 8                              /* at most, in one test */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void nap_ms(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000 };

	nanosleep(&t, NULL);
}

/* ---- Processes ---- */

static pid_t children[PROCESSES];

/* In the child 0. It ends with its parent, and at the latest after HANGS. */
static pid_t spawn(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(3);
		alarm(HANGS);
		return 0;
	}
	assert_true(pid > 0);
	for (int i = 0; i < PROCESSES; i++)
		if (children[i] == 0) {
			children[i] = pid;
			return pid;
		}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fail_msg("more processes than PROCESSES");
	return -1;
}

/* Waits for its end: the wait status. */
static int reap(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	for (int i = 0; i < PROCESSES; i++)
		if (children[i] == pid)
			children[i] = 0;
	return status;
}

static int end_children(void **state)
{
	(void)state;
	for (int i = 0; i < PROCESSES; i++)
		if (children[i] > 0) {
			kill(children[i], SIGKILL);
			waitpid(children[i], NULL, 0);
			children[i] = 0;
		}
	return 0;
}

static void send_fd(int socket, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	char byte = 'r';
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(socket, &m, MSG_NOSIGNAL) != 1)
		_exit(4);
}

static int receive_fd(int socket)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	int fd = -1;

	assert_int_equal(recvmsg(socket, &m, MSG_CMSG_CLOEXEC), 1);
	assert_non_null(CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* ---- What they share besides the ring ---- */

struct account {
	uint64_t got, lost; /* bytes */
	uint64_t times_lost;
	uint64_t end; /* its cursor at last */
};

struct shared {
	atomic_bool go;   /* the readers are there */
	atomic_bool done; /* the writer's last byte is published */
	struct account readers[PROCESSES];
};

static struct shared *share(void)
{
	void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(map != MAP_FAILED);
	return map;
}

/* ---- The writer ---- */

/* Fills the window as read(2) would, with what is published and, now and then, with more, which must never show. */
static void write_once(struct ring *r, uint64_t *random)
{
	size_t n = rng_below(random, 3) ? rng_below(random, 4096) : rng_below(random, RING_SLACK + 1);

	if (rng_below(random, 8) == 0)
		memset(ring_window(r), 0xEE, RING_SLACK);
	stamp_fill(ring_window(r), ring_tail(r), n);
	ring_publish(r, n);
}

/* Creates the ring and hands it over; in the child. */
static struct ring *writers_ring(int socket, size_t capacity)
{
	struct ring *r;

	if (ring_create("stress", capacity, FIRST, &r) < 0)
		_exit(5);
	send_fd(socket, ring_fd(r));
	ring_close_fd(r);
	return r;
}

static void flood(int socket, size_t capacity, struct shared *s)
{
	struct ring *r = writers_ring(socket, capacity);
	uint64_t random = capacity, end;

	while (!atomic_load(&s->go))
		sched_yield();
	end = now_ms() + FLOOD_MS;
	while (now_ms() < end || ring_tail(r) - FIRST < ENOUGH(capacity)) {
		for (uint64_t burst = rng_below(&random, 50); burst > 0; burst--)
			write_once(r, &random);
		if (rng_below(&random, 4) == 0)
			nap_ms(1); /* floods come in bursts; the readers catch up in between */
	}
	atomic_store(&s->done, true);
	_exit(0);
}

/* ---- The readers ---- */

struct follower {
	const char *name;
	const struct ring *ring;
	const struct shared *shared;
	struct account *account;
	uint64_t cursor, random;
};

/* Reads once and checks all of it; the cursor goes on. false: something was wrong, and has been said. */
static bool read_and_check(struct follower *f, size_t max)
{
	static unsigned char buf[RING_SLACK];
	uint64_t from = f->cursor;
	struct ring_span got;
	size_t n, right;
	int err = ring_read(f->ring, from, buf, max < sizeof(buf) ? max : sizeof(buf), &got);

	if (err != 0) {
		fprintf(stderr, "%s: reading from %" PRIu64 ": %s\n", f->name, from, strerror(-err));
		return false;
	}
	n = (size_t)(got.next_offset - got.offset);
	right = n <= max ? stamp_right(buf, got.offset, n) : 0;
	if (n > max || got.offset - from != got.lost_bytes || right != n) {
		fprintf(stderr, "%s: from %" PRIu64 " came %zu bytes at %" PRIu64 ", lost %" PRIu64, f->name, from, n,
		        got.offset, got.lost_bytes);
		fprintf(stderr, ", wrong after %zu, tail %" PRIu64 "\n", right, ring_tail(f->ring));
		return false;
	}
	f->account->got += n;
	f->account->lost += got.lost_bytes;
	f->account->times_lost += got.lost_bytes > 0;
	f->account->end = f->cursor = got.next_offset;
	return true;
}

/* Each kind says where and how much it reads next. */
static bool greedy(struct follower *f)
{
	return read_and_check(f, RING_SLACK);
}

static bool nibbling(struct follower *f)
{
	return read_and_check(f, 1 + rng_below(&f->random, 700));
}

/* Reads only when the writer is a lap ahead, each time, or has ended. */
static bool lapped(struct follower *f)
{
	while (!atomic_load(&f->shared->done) && ring_tail(f->ring) - f->cursor < 2 * ring_capacity(f->ring))
		nap_ms(1);
	return read_and_check(f, RING_SLACK);
}

/* Stays at the oldest byte, the place where copies are overtaken; its books begin anew each time. */
static bool at_the_head(struct follower *f)
{
	f->cursor = ring_head(f->ring);
	f->account->got = f->account->lost = 0;
	return read_and_check(f, 1 + rng_below(&f->random, RING_SLACK));
}

static bool anywhere(struct follower *f)
{
	uint64_t tail = ring_tail(f->ring), back = rng_below(&f->random, 3 * ring_capacity(f->ring));

	f->cursor = tail > back ? tail - back : 0;
	f->account->got = f->account->lost = 0;
	return read_and_check(f, rng_below(&f->random, RING_SLACK));
}

static const struct kind {
	const char *name;
	bool (*read)(struct follower *f);
	bool keeps_books; /* follows the stream from its first byte to its last */
	bool is_lapped;   /* for certain */
} kinds[] = {
	{ "greedy", greedy, true, false },
	{ "nibbling", nibbling, true, false },
	{ "lapped", lapped, true, true },
	{ "at the head", at_the_head, false, false },
	{ "anywhere", anywhere, false, false },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void follow(int fd, const struct kind *k, struct shared *s, struct account *a)
{
	struct follower f = { .name = k->name, .shared = s, .account = a, .cursor = FIRST, .random = 1 };
	struct ring *r;
	bool done;

	if (ring_open(fd, &r) < 0)
		_exit(6);
	f.ring = r;
	do {
		done = atomic_load(&s->done);
		if (!k->read(&f))
			_exit(1);
	} while (!done || (k->keeps_books && f.cursor != ring_tail(r)));
	_exit(0);
}

static void flood_with_readers(size_t capacity)
{
	struct shared *s = share();
	pid_t writer, readers[KINDS];
	struct ring *r = NULL;
	int pair[2], fd;
	uint64_t written;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	writer = spawn();
	if (writer == 0)
		flood(pair[1], capacity, s);
	fd = receive_fd(pair[0]);
	assert_int_equal(ring_open(fd, &r), 0);
	for (size_t i = 0; i < KINDS; i++) {
		readers[i] = spawn();
		if (readers[i] == 0)
			follow(fd, &kinds[i], s, &s->readers[i]);
	}
	atomic_store(&s->go, true);
	assert_int_equal(reap(writer), 0);
	for (size_t i = 0; i < KINDS; i++)
		assert_int_equal(reap(readers[i]), 0);

	written = ring_tail(r) - FIRST;
	assert_true(written >= ENOUGH(capacity)); /* else nothing was shown */
	for (size_t i = 0; i < KINDS; i++) {
		const struct account *a = &s->readers[i];

		assert_true(a->end > FIRST);
		if (kinds[i].keeps_books) {
			assert_true(a->got > 0);
			assert_true(a->got + a->lost == written);
		}
		if (kinds[i].is_lapped)
			assert_true(a->times_lost > 0);
	}
	ring_free(r);
	close(fd);
	close(pair[0]);
	close(pair[1]);
	munmap(s, sizeof(*s));
}

static void readers_of_every_speed_get_right_bytes_and_a_true_account(void **state)
{
	(void)state;
	flood_with_readers((size_t)256 * 1024);
}

static void in_the_smallest_ring_too_where_each_write_may_be_a_lap(void **state)
{
	(void)state;
	flood_with_readers(RING_MIN_CAPACITY);
}

/* ---- A writer that dies ---- */

static void write_until_killed(int socket, size_t capacity, uint64_t seed)
{
	struct ring *r = writers_ring(socket, capacity);

	for (;;)
		write_once(r, &seed);
}

static void kill_in_the_middle(uint64_t seed)
{
	uint64_t random = seed, target, tail;
	size_t capacity = RING_MIN_CAPACITY << rng_below(&random, 6);
	struct account a = { 0 };
	struct follower f = { .name = "witness", .account = &a, .cursor = FIRST };
	struct ring *r = NULL;
	pid_t writer;
	int pair[2], fd;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	writer = spawn();
	if (writer == 0)
		write_until_killed(pair[1], capacity, seed);
	fd = receive_fd(pair[0]);
	assert_int_equal(ring_open(fd, &r), 0);
	f.ring = r;
	target = FIRST + rng_below(&random, 3 * (capacity + RING_SLACK));
	while (ring_tail(r) < target)
		assert_true(read_and_check(&f, RING_SLACK));
	assert_int_equal(kill(writer, SIGKILL), 0);
	assert_int_equal(WTERMSIG(reap(writer)), SIGKILL);

	tail = ring_tail(r);
	while (f.cursor < tail)
		assert_true(read_and_check(&f, RING_SLACK));
	assert_true(a.got + a.lost == tail - FIRST);
	/* And all that is retained, for whoever comes now. */
	a = (struct account){ 0 };
	for (f.cursor = FIRST; f.cursor < tail;)
		assert_true(read_and_check(&f, RING_SLACK));
	assert_true(a.got == (tail - FIRST < capacity ? tail - FIRST : capacity));
	assert_true(ring_tail(r) == tail);
	ring_free(r);
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

static void a_writer_killed_in_the_middle_leaves_nothing_but_whole_bytes(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		kill_in_the_middle(seed);
}

/* ---- Threads of one process, on one and the same ring: what ThreadSanitizer can see ---- */

struct flooder {
	struct ring *ring;
	atomic_bool stop;
};

static void *flood_until_stopped(void *arg)
{
	struct flooder *f = arg;
	uint64_t random = 1;

	while (!atomic_load(&f->stop))
		write_once(f->ring, &random);
	return NULL;
}

static void a_thread_may_read_the_ring_that_another_one_writes(void **state)
{
	struct account a = { 0 };
	struct flooder w = { 0 };
	struct follower f = { .name = "thread", .account = &a, .cursor = FIRST };
	pthread_t writer;
	bool right = true;

	(void)state;
	assert_int_equal(ring_create("stress", 64 * 1024, FIRST, &w.ring), 0);
	f.ring = w.ring;
	assert_int_equal(pthread_create(&writer, NULL, flood_until_stopped, &w), 0);
	while (right && a.got < 4 * 1024 * 1024)
		right = read_and_check(&f, RING_SLACK);
	atomic_store(&w.stop, true);
	assert_int_equal(pthread_join(writer, NULL), 0);
	assert_true(right);
	assert_true(a.got + a.lost == f.cursor - FIRST);
	ring_free(w.ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(readers_of_every_speed_get_right_bytes_and_a_true_account, end_children),
		cmocka_unit_test_teardown(in_the_smallest_ring_too_where_each_write_may_be_a_lap, end_children),
		cmocka_unit_test_teardown(a_writer_killed_in_the_middle_leaves_nothing_but_whole_bytes, end_children),
		cmocka_unit_test(a_thread_may_read_the_ring_that_another_one_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
