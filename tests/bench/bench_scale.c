/*
 * bench_scale.c - 100, 1,000 and 3,000 consoles at once: does what one costs stay what it is?
 *
 * A sandbox holds PER_BOX of them. At each size: the time of a start (median of the last 50, and the longest), of a close
 * (median of CLOSES), memory per console (PSS of all daemons and keepers without ring pages, over the number of
 * consoles), and the processor time that all of them take together while nothing happens for IDLE_MS.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/ours.h"
#include "tests/bench/programs.h"
#include "tests/support/guard.h"

#define PER_BOX       250
#define SIZES         3
#define LAST          50
#define CLOSES        5
#define IDLE_MS       3000
#define SETTLE_MS     500
#define SECONDS       240
#define MAX_PROCESSES 16384

static const unsigned COUNTS[SIZES] = { 100, 1000, 3000 };
static const char *const PROGRAM[] = { "/bin/sleep", "1000000", NULL };

static pid_t programs[3000];
static pid_t consoleds[3000 / PER_BOX + 1];
static unsigned boxes;

static bool is_consoled(pid_t pid)
{
	for (unsigned i = 0; i < boxes; i++)
		if (consoleds[i] == pid)
			return true;
	return false;
}

/* All processes of ours but the programs. */
static size_t find_ours(pid_t ringsided, pid_t *out)
{
	static pid_t pids[MAX_PROCESSES];
	size_t n = guard_descendants(pids, MAX_PROCESSES), found = 0;

	for (size_t i = 0; i < n; i++)
		if (pids[i] == ringsided || is_consoled(pids[i]) || is_consoled(process_parent(pids[i])))
			out[found++] = pids[i];
	return found;
}

static double start_one(struct ours *o, unsigned i)
{
	char box[32], name[32];

	snprintf(box, sizeof(box), "scale-%u", i / PER_BOX);
	snprintf(name, sizeof(name), "c%u", i);
	if (i % PER_BOX == 0) {
		ours_box(o, box, PER_BOX + 1); /* one is closed again */
		consoleds[boxes++] = ours_consoled(o, box);
	}
	uint64_t start = bench_now_ns();
	programs[i] = ours_start(o, box, name, PROGRAM);
	return (double)(bench_now_ns() - start) / 1e6;
}

static double close_ms(struct ours *o)
{
	double took[CLOSES];

	for (int i = 0; i < CLOSES; i++) {
		ours_start(o, "scale-0", "extra", PROGRAM);
		uint64_t start = bench_now_ns();
		ours_close(o, "scale-0", "extra");
		took[i] = (double)(bench_now_ns() - start) / 1e6;
	}
	return bench_median(took, CLOSES);
}

static double idle_cpu_ms(const pid_t *pids, size_t n)
{
	uint64_t since = 0, before = 0, after = 0;

	bench_wait(&since, SETTLE_MS);
	for (size_t i = 0; i < n; i++)
		before += bench_cpu_ns(pids[i]);
	bench_wait(&since, IDLE_MS);
	for (size_t i = 0; i < n; i++)
		after += bench_cpu_ns(pids[i]);
	return (double)(after - before) / 1e6;
}

static void report(struct ours *o, unsigned count, double *last)
{
	static pid_t pids[MAX_PROCESSES];
	pid_t ringsided = ours_ringsided(o);
	size_t n = find_ours(ringsided, pids);
	double kib = 0, longest = 0;

	for (size_t i = 0; i < n; i++)
		kib += bench_pss_kib(pids[i]);
	kib -= bench_ring_pss_kib(ringsided);
	for (unsigned i = 0; i < boxes; i++)
		kib -= bench_ring_pss_kib(consoleds[i]);
	for (unsigned i = 0; i < LAST; i++)
		longest = last[i] > longest ? last[i] : longest;
	printf("scale_%u start=%.2fms longest=%.2fms close=%.2fms memory=%.1fKiB/console idle_cpu=%.2fms/s "
	       "processes=%zu\n",
	        count, bench_median(last, LAST), longest, close_ms(o), kib / count,
	        idle_cpu_ms(pids, n) / (IDLE_MS / 1000.0), n);
}

/* A close looks for what a program has left behind, among all processes of the machine, 3,000 times 6,000 here. So the
 * programs end first, without one. */
static void end_programs(struct ours *o, unsigned n)
{
	uint64_t since = 0;

	for (unsigned i = 0; i < n; i++)
		kill(programs[i], SIGKILL);
	while (ours_running(o) > 0)
		if (!bench_wait(&since, 20))
			bench_fail("the consoles do not end");
}

static unsigned ptys_allowed(void)
{
	char text[32] = "";
	int fd = open("/proc/sys/kernel/pty/max", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? (unsigned)strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	double last[LAST];
	struct ours o;
	unsigned n = 0;

	programs_run(argc, argv);
	bench_start(SECONDS);
	ours_begin(&o);
	for (unsigned size = 0; size < SIZES; size++) {
		if (COUNTS[size] + 50 > ptys_allowed()) {
			printf("scale_%u not measured: kernel.pty.max is %u\n", COUNTS[size], ptys_allowed());
			break;
		}
		for (; n < COUNTS[size]; n++)
			last[n % LAST] = start_one(&o, n);
		report(&o, COUNTS[size], last);
	}
	end_programs(&o, n);
	ours_end(&o);
	return 0;
}
