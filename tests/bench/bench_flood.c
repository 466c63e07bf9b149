/*
 * bench_flood.c - a program that prints as fast as it can: how fast that is, and what it costs the console daemon.
 *
 * flood_cooked, flood_raw   One console with one reader that takes every byte, against a process that does nothing but
 *                           read(2) from a pty's master. Both are timed from the byte that lets the program go to the
 *                           last byte in the reader's hand; the processor time is the console daemon's, and the loop's.
 * flood_64_readers          The program's speed and the console daemon's processor time with 64 readers that each look
 *                           60 times a second, against the same with one. A look takes the newest 64 KiB, and says what
 *                           the reader has, so that it would be woken if it slept.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/bench.h"
#include "tests/bench/ours.h"
#include "tests/bench/peers.h"
#include "tests/bench/programs.h"

#define MIB        ((uint64_t)1024 * 1024)
#define RUN_BYTES  (128 * MIB)
#define LOOK_BYTES (64 * 1024)
#define LOOK_NS    (1000000000 / 60)
#define READERS    64
#define SECONDS    300

#define BOX "flood"

struct result {
	uint64_t ns, cpu_ns;
	uint64_t lost; /* bytes that the reader came too late for */
};

static double mib_per_s(uint64_t bytes, uint64_t ns)
{
	return (double)bytes / (double)MIB / ((double)ns / 1e9);
}

static double cpu_s_per_gib(uint64_t bytes, uint64_t cpu_ns)
{
	return (double)cpu_ns / 1e9 / ((double)bytes / (double)(1024 * MIB));
}

/* ---- One reader that takes all ---- */

static uint64_t take_all(struct ringside_console *c, uint64_t from, uint64_t to)
{
	static char buf[LOOK_BYTES];
	struct ringside_span got;
	struct ringside_error err;
	uint64_t lost = 0;

	while (from < to) {
		if (ringside_console_read(c, from, buf, sizeof(buf), &got, &err) != 0)
			bench_fail("read: %s", err.message);
		lost += got.lost_bytes;
		from = got.next_offset;
		if (from < to && ringside_console_arm(c, from))
			ringside_console_poll(c, UINT64_MAX);
		if (from < to && !ringside_console_live(c) && ringside_console_tail(c) < to)
			bench_fail("the flood ended at %llu of %llu", (unsigned long long)ringside_console_tail(c),
			        (unsigned long long)to);
	}
	return lost;
}

static const char *next_name(void)
{
	static char name[16];
	static unsigned n;

	snprintf(name, sizeof(name), "f%u", n++);
	return name;
}

static struct result ours_flood(struct ours *o, pid_t consoled, bool raw)
{
	const char *name = next_name();
	struct ringside_console *c = ours_open(o, BOX, name, program_flood(raw, RUN_BYTES));
	struct result r;

	ours_await(c, 1); /* it is ready */
	uint64_t cpu = bench_cpu_ns(consoled), start = bench_now_ns();
	ours_key(c);
	r.lost = take_all(c, 1, 1 + flood_output(raw, RUN_BYTES));
	r.ns = bench_now_ns() - start;
	r.cpu_ns = bench_cpu_ns(consoled) - cpu;
	ringside_console_close(c);
	ours_close(o, BOX, name);
	return r;
}

static void against_bare(struct ours *o, pid_t consoled, bool raw)
{
	struct pairs speed = { .name = raw ? "flood_raw" : "flood_cooked", .unit = "MiB/s", .digits = 1 };
	struct pairs cpu = { .name = raw ? "flood_raw_cpu" : "flood_cooked_cpu", .unit = "s/GiB", .digits = 2 };
	const uint64_t bytes = flood_output(raw, RUN_BYTES);
	uint64_t lost = 0;

	for (int i = 0; i < PAIRS; i++) {
		struct result ours = ours_flood(o, consoled, raw);
		struct bare bare;

		bare_flood(program_flood(raw, RUN_BYTES), bytes, &bare);
		pairs_add(&speed, mib_per_s(bytes, ours.ns), mib_per_s(bytes, bare.ns));
		pairs_add(&cpu, cpu_s_per_gib(bytes, ours.cpu_ns), cpu_s_per_gib(bytes, bare.cpu_ns));
		lost += ours.lost;
	}
	pairs_print(&speed);
	pairs_print(&cpu);
	if (lost > 0)
		printf("%s the reader came too late for %.2f MiB of %.0f\n", speed.name, (double)lost / (double)MIB,
		        (double)(PAIRS * bytes) / (double)MIB);
}

/* ---- Readers that look now and then ---- */

struct looker {
	pthread_t thread;
	struct ringside_console *c;
	unsigned number;
};

static atomic_bool looking;

static void look(struct ringside_console *c)
{
	char buf[LOOK_BYTES];
	struct ringside_span got;
	uint64_t tail = ringside_console_tail(c), from = tail > sizeof(buf) ? tail - sizeof(buf) : 0;

	ringside_console_poll(c, 0);
	if (ringside_console_read(c, from, buf, sizeof(buf), &got, NULL) == 0)
		ringside_console_arm(c, got.next_offset);
}

static void *look_until_stopped(void *arg)
{
	struct looker *l = arg;
	uint64_t next = bench_now_ns() + LOOK_NS * (uint64_t)l->number / READERS;

	while (atomic_load(&looking)) {
		const struct timespec at = { .tv_sec = (time_t)(next / 1000000000),
			.tv_nsec = (long)(next % 1000000000) };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		look(l->c);
		next += LOOK_NS;
	}
	return NULL;
}

static void begin_looking(struct ours *o, const char *name, struct looker *l, unsigned n)
{
	struct ringside_error err;

	atomic_store(&looking, true);
	for (unsigned i = 0; i < n; i++) {
		l[i].number = i;
		if (ringside_console_open(o->rs, BOX, name, 0, &l[i].c, &err) != 0)
			bench_fail("open: %s", err.message);
		if (pthread_create(&l[i].thread, NULL, look_until_stopped, &l[i]) != 0)
			bench_die("pthread_create");
	}
}

static void end_looking(struct looker *l, unsigned n)
{
	atomic_store(&looking, false);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(l[i].thread, NULL);
		ringside_console_close(l[i].c);
	}
}

static struct result watched_flood(struct ours *o, pid_t consoled, unsigned readers)
{
	static struct looker lookers[READERS];
	const uint64_t end = 1 + flood_output(false, RUN_BYTES);
	const char *name = next_name();
	struct ringside_console *c = ours_open(o, BOX, name, program_flood(false, RUN_BYTES));
	uint64_t since = 0;
	struct result r = { 0 };

	ours_await(c, 1);
	begin_looking(o, name, lookers, readers);
	uint64_t cpu = bench_cpu_ns(consoled), start = bench_now_ns();
	ours_key(c);
	while (ringside_console_tail(c) < end) /* no system call of the console daemon's in this */
		if (!bench_wait(&since, 1))
			bench_fail("the flood does not end");
	r.ns = bench_now_ns() - start;
	r.cpu_ns = bench_cpu_ns(consoled) - cpu;
	end_looking(lookers, readers);
	ringside_console_close(c);
	ours_close(o, BOX, name);
	return r;
}

static void against_one_reader(struct ours *o, pid_t consoled)
{
	struct pairs speed = { .name = "flood_64_readers", .unit = "MiB/s", .digits = 1 };
	struct pairs cpu = { .name = "flood_64_readers_cpu", .unit = "s/GiB", .digits = 2 };
	const uint64_t bytes = flood_output(false, RUN_BYTES);

	for (int i = 0; i < PAIRS; i++) {
		struct result many = watched_flood(o, consoled, READERS), one = watched_flood(o, consoled, 1);

		pairs_add(&speed, mib_per_s(bytes, many.ns), mib_per_s(bytes, one.ns));
		pairs_add(&cpu, cpu_s_per_gib(bytes, many.cpu_ns), cpu_s_per_gib(bytes, one.cpu_ns));
	}
	pairs_print(&speed);
	pairs_print(&cpu);
}

int main(int argc, char **argv)
{
	struct ours o;

	programs_run(argc, argv);
	bench_start(SECONDS);
	ours_begin(&o);
	ours_box(&o, BOX, 0);
	pid_t consoled = ours_consoled(&o, BOX);
	against_bare(&o, consoled, false);
	against_bare(&o, consoled, true);
	against_one_reader(&o, consoled);
	ours_end(&o);
	return 0;
}
