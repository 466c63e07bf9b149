/*
 * bench.h - what the benchmarks share: clocks, pairs of samples, and the row that is printed for them.
 *
 * A row is `NAME ours=… peer=… ratio=N.NN`: the medians of both sides, and the median of the pairs' own ratios, which a
 * machine that gets busier in the middle of a run hardly moves. Ours and the peer take turns, ours first.
 *
 * A benchmark judges nothing. What cannot be measured here (no such peer, no right to trace) is a line that says so.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAIRS     11 /* of a row, unless it says otherwise */
#define PAIRS_MAX 128

/* Ends the benchmark, saying what failed. bench_die() adds errno's text. */
_Noreturn void bench_die(const char *what);
_Noreturn void bench_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

uint64_t bench_now_ns(void);
/* Processor time of a process and all its threads so far; a process of another user, or one that is gone, is fatal. */
uint64_t bench_cpu_ns(pid_t pid);
double bench_median(double *values, unsigned n); /* sorts them */

/* Waits in steps of `ms`. False once 60 s have passed since *since, which is 0 at first. */
bool bench_wait(uint64_t *since, unsigned ms);

bool bench_program_exists(const char *name); /* in PATH */

/* Kib of /proc/PID/smaps_rollup's Pss, and the part of it that lies in rings. */
double bench_pss_kib(pid_t pid);
double bench_ring_pss_kib(pid_t pid);

struct pairs {
	const char *name;
	const char *unit;
	int digits; /* after the point */
	unsigned n;
	double ours[PAIRS_MAX], peer[PAIRS_MAX];
};

void pairs_add(struct pairs *p, double ours, double peer);
void pairs_print(const struct pairs *p);

/* First thing in main(): a guard above this process, so that nothing it starts outlives it, and an end after `seconds`
 * whatever happens. */
void bench_start(unsigned seconds);

#endif
