/* bench.c - clocks, /proc, medians and rows. */
#include "tests/bench/bench.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/guard.h"

#define PATIENCE_NS ((uint64_t)60 * 1000 * 1000 * 1000)

void bench_die(const char *what)
{
	perror(what);
	exit(1);
}

void bench_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void bench_start(unsigned seconds)
{
	signal(SIGPIPE, SIG_IGN); /* for the guard: it has to clean up also when nobody reads what it says */
	guard_start();
	alarm(seconds);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

/* ---- Time ---- */

static uint64_t read_clock(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) < 0)
		bench_die("clock_gettime");
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t bench_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_ns(pid_t pid)
{
	clockid_t clock;
	int err = clock_getcpuclockid(pid, &clock);

	if (err != 0)
		bench_fail("no processor clock of process %d: %s", (int)pid, strerror(err));
	return read_clock(clock);
}

bool bench_wait(uint64_t *since, unsigned ms)
{
	const struct timespec step = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	if (*since == 0)
		*since = bench_now_ns();
	nanosleep(&step, NULL);
	return bench_now_ns() - *since < PATIENCE_NS;
}

/* ---- Other programs ---- */

bool bench_program_exists(const char *name)
{
	const char *list = getenv("PATH");
	char path[4096];

	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ":");

		snprintf(path, sizeof(path), "%.*s/%s", (int)n, p, name);
		if (access(path, X_OK) == 0)
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

double bench_pss_kib(pid_t pid)
{
	char path[64], line[256];
	unsigned long kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		bench_die(path);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %lu kB", &kib) == 1)
			break;
	fclose(f);
	return (double)kib;
}

/* A mapping's line has its name at the end; the numbers of the mapping follow on lines of their own. */
double bench_ring_pss_kib(pid_t pid)
{
	char path[64], line[512];
	unsigned long kib, all = 0;
	bool in_ring = false;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		bench_die(path);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Pss: %lu kB", &kib) == 1)
			all += in_ring ? kib : 0;
		else if (strspn(line, "0123456789abcdef") > 0 && strchr(line, '-'))
			in_ring = strstr(line, "/memfd:") != NULL;
	}
	fclose(f);
	return (double)all;
}

/* ---- Rows ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), by_size);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void pairs_add(struct pairs *p, double ours, double peer)
{
	if (p->n == PAIRS_MAX)
		bench_fail("%s: too many pairs", p->name);
	p->ours[p->n] = ours;
	p->peer[p->n++] = peer;
}

void pairs_print(const struct pairs *p)
{
	double ours[PAIRS_MAX], peer[PAIRS_MAX], ratio[PAIRS_MAX];

	if (p->n == 0)
		return;
	memcpy(ours, p->ours, p->n * sizeof(*ours));
	memcpy(peer, p->peer, p->n * sizeof(*peer));
	for (unsigned i = 0; i < p->n; i++)
		ratio[i] = ours[i] / peer[i];
	printf("%s ours=%.*f%s peer=%.*f%s ratio=%.2f\n", p->name, p->digits, bench_median(ours, p->n), p->unit,
	        p->digits, bench_median(peer, p->n), p->unit, bench_median(ratio, p->n));
}
