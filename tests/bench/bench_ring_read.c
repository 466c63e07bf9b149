/*
 * bench_ring_read.c - what a reader's copy costs beyond the copy: 64 KiB reads of a live cursor against memcpy() of the
 * bytes next to them, in the same memory, just as freshly written by another core.
 *
 * The reader follows a writer that appends 4 KiB at a time (what a pty gives) and never gets more than half a ring
 * ahead. Chunk by chunk ring_read() and memcpy() take turns, only the copy is timed, and waiting for the writer is not;
 * a pair is CHUNKS of each, and the medians of PAIRS pairs are printed, in MiB/s. The writer is another process, as in
 * life, then another thread, then nobody (the same bytes over again, from the cache, where the overhead shows most).
 * Last, a read that finds nothing new: its time, and that it makes no system call, by a filter that kills on the first.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ring/ring.h"
#include "tests/unit/ring/nosyscall.h"

#define CAPACITY ((size_t)1024 * 1024) /* a console's default */
#define CHUNK    ((size_t)64 * 1024)
#define STEP     ((size_t)4096)
#define PAIRS    15
#define CHUNKS   400
#define NOTHINGS ((uint64_t)5 * 1000 * 1000)
#define HANGS    120 /* seconds */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- The writer ---- */

/* Shared between the two, beside the ring. */
struct pace {
	atomic_int fd;           /* the ring's, in the writer's process; -1: not there yet */
	_Atomic uint64_t cursor; /* where the reader is */
	atomic_bool stop;
};

static struct pace *pace_new(void)
{
	struct pace *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	atomic_store(&p->fd, -1);
	return p;
}

static void *append_until_stopped(void *arg)
{
	static unsigned char bytes[STEP];
	struct pace *p = arg;
	struct ring *r;

	if (ring_create("bench", CAPACITY, 0, &r) < 0)
		die("ring_create");
	memset(bytes, 'x', sizeof(bytes));
	atomic_store(&p->fd, ring_fd(r));
	while (!atomic_load(&p->stop))
		if (ring_tail(r) - atomic_load(&p->cursor) < CAPACITY / 2)
			ring_append(r, bytes, sizeof(bytes));
	ring_free(r);
	return NULL;
}

/* ---- The reader ---- */

/* The ring's data area, mapped twice as ring.c does it, so that memcpy() is not split either. */
static const unsigned char *map_area(int fd)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), area = CAPACITY + RING_SLACK;
	unsigned char *base = mmap(NULL, 2 * area, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED || mmap(base, area, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)page) == MAP_FAILED ||
	        mmap(base + area, area, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)page) == MAP_FAILED)
		die("mmap");
	return base;
}

struct reader {
	struct ring *ring;
	const unsigned char *area;
	struct pace *pace; /* NULL: nobody writes, and the same bytes are read again */
	uint64_t cursor;
	unsigned char *buf;
};

static void await_chunk(struct reader *d)
{
	while (ring_tail(d->ring) - d->cursor < CHUNK)
		;
}

static uint64_t time_ours(struct reader *d)
{
	struct ring_span got;
	uint64_t start = now_ns();
	int err = ring_read(d->ring, d->cursor, d->buf, CHUNK, &got);
	uint64_t took = now_ns() - start;

	if (err != 0 || got.next_offset - d->cursor != CHUNK) {
		fprintf(stderr, "a read of a chunk that was there gave less\n");
		exit(1);
	}
	return took;
}

static uint64_t time_peer(struct reader *d)
{
	const unsigned char *from = d->area + d->cursor % (CAPACITY + RING_SLACK);
	uint64_t start = now_ns();

	memcpy(d->buf, from, CHUNK);
	__asm__ volatile("" : : "r"(d->buf) : "memory"); /* it is wanted */
	return now_ns() - start;
}

static void next_chunk(struct reader *d)
{
	if (!d->pace)
		return;
	d->cursor += CHUNK;
	atomic_store(&d->pace->cursor, d->cursor);
	await_chunk(d);
}

static void one_pair(struct reader *d, double *ours, double *peer)
{
	const double mib = (double)(CHUNKS * CHUNK) / (1024 * 1024);
	uint64_t ours_ns = 0, peer_ns = 0;

	for (int i = 0; i < CHUNKS; i++) {
		ours_ns += time_ours(d);
		next_chunk(d);
		peer_ns += time_peer(d);
		next_chunk(d);
	}
	*ours = mib * 1e9 / (double)ours_ns;
	*peer = mib * 1e9 / (double)peer_ns;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, PAIRS, sizeof(*v), by_size);
	return v[PAIRS / 2];
}

static void measure(const char *name, struct reader *d)
{
	double ours[PAIRS], peer[PAIRS], ratio[PAIRS];

	await_chunk(d);
	one_pair(d, ours, peer); /* pages and caches are warm from here on */
	for (int i = 0; i < PAIRS; i++) {
		one_pair(d, &ours[i], &peer[i]);
		ratio[i] = ours[i] / peer[i];
	}
	printf("%s ours=%.0f peer=%.0f ratio=%.2f\n", name, median(ours), median(peer), median(ratio));
	fflush(stdout);
}

static void open_reader(struct reader *d, int fd)
{
	if (ring_open(fd, &d->ring) < 0)
		die("ring_open");
	d->area = map_area(fd);
	d->buf = aligned_alloc(4096, CHUNK);
	if (!d->buf)
		die("aligned_alloc");
}

static void close_reader(struct reader *d)
{
	ring_free(d->ring);
	munmap((void *)(uintptr_t)d->area, 2 * (CAPACITY + RING_SLACK));
	free(d->buf);
}

/* ---- The rows ---- */

static void with_a_process(void)
{
	struct pace *p = pace_new();
	struct reader d = { .pace = p };
	char path[64];
	pid_t pid = fork();
	int fd;

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		append_until_stopped(p);
		_exit(0);
	}
	while ((fd = atomic_load(&p->fd)) < 0)
		sched_yield();
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	open_reader(&d, fd);
	measure("ring_read_64k", &d);
	atomic_store(&p->stop, true);
	waitpid(pid, NULL, 0);
	close_reader(&d);
	close(fd);
	munmap(p, sizeof(*p));
}

static void with_a_thread(void)
{
	struct pace *p = pace_new();
	struct reader d = { .pace = p };
	pthread_t thread;

	if (pthread_create(&thread, NULL, append_until_stopped, p) != 0)
		die("pthread_create");
	while (atomic_load(&p->fd) < 0)
		sched_yield();
	open_reader(&d, atomic_load(&p->fd));
	measure("ring_read_64k_thread", &d);
	atomic_store(&p->stop, true);
	pthread_join(thread, NULL);
	close_reader(&d);
	munmap(p, sizeof(*p));
}

/* A ring that is full and quiet, read by its own writer and by a reader. */
static struct ring *quiet_ring(void)
{
	static unsigned char bytes[2 * CAPACITY];
	struct ring *r;

	if (ring_create("bench", CAPACITY, 0, &r) < 0)
		die("ring_create");
	memset(bytes, 'x', sizeof(bytes));
	ring_append(r, bytes, sizeof(bytes));
	return r;
}

static void with_nobody(void)
{
	struct ring *r = quiet_ring();
	struct reader d = { .cursor = ring_head(r) };

	open_reader(&d, ring_fd(r));
	measure("ring_read_64k_cached", &d);
	close_reader(&d);
	ring_free(r);
}

/* Runs in a child of its own. misbehave: makes a system call, to show that it would be caught. */
static void read_nothing_filtered(const struct ring *r, bool misbehave)
{
	static char buf[CHUNK];
	uint64_t tail = ring_tail(r);
	struct ring_span got;

	if (forbid_system_calls() < 0)
		_exit(77);
	for (uint64_t i = 0; i < NOTHINGS; i++)
		if (ring_read(r, tail, buf, sizeof(buf), &got) != 0 || got.next_offset != tail)
			end_process(1);
	if (misbehave)
		getppid();
	end_process(0);
}

static int filtered_child(int fd, bool misbehave)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		struct ring *r;

		if (ring_open(fd, &r) < 0)
			_exit(2);
		read_nothing_filtered(r, misbehave);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void nothing_new(void)
{
	struct ring *r = quiet_ring(), *reader;
	uint64_t tail = ring_tail(r), start, took;
	struct ring_span got;
	char buf[64];
	int good = filtered_child(ring_fd(r), false), bad = filtered_child(ring_fd(r), true);
	const char *calls = "unknown (no seccomp here)";

	if (ring_open(ring_fd(r), &reader) < 0)
		die("ring_open");
	start = now_ns();
	for (uint64_t i = 0; i < NOTHINGS; i++)
		ring_read(reader, tail, buf, sizeof(buf), &got);
	took = now_ns() - start;
	if (WIFSIGNALED(good))
		calls = "SOME";
	else if (WEXITSTATUS(good) == 0 && WIFSIGNALED(bad) && WTERMSIG(bad) == SIGSYS)
		calls = "0";
	printf("ring_read_nothing_new ns=%.1f system_calls=%s reads=%" PRIu64 "\n", (double)took / (double)NOTHINGS,
	        calls, NOTHINGS);
	ring_free(reader);
	ring_free(r);
}

static void say_the_machine(void)
{
	char line[256], *model = NULL;
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && !model && fgets(line, sizeof(line), f))
		if (strncmp(line, "model name", 10) == 0 && (model = strchr(line, ':')))
			model[strcspn(model, "\n")] = '\0';
	printf("# machine: %s, %ld cores; MiB/s of %zu KiB copies from a ring of %zu KiB\n",
	        model ? model + 2 : "unknown cpu", sysconf(_SC_NPROCESSORS_ONLN), CHUNK / 1024, CAPACITY / 1024);
	if (f)
		fclose(f);
}

int main(void)
{
	alarm(HANGS);
	say_the_machine();
	with_a_process();
	with_a_thread();
	with_nobody();
	nothing_new();
	return 0;
}
