/*
 * torture_keeper.c - thousands of programs that are hard to end, each ended, each proven gone.
 *
 *   torture_keeper [--rounds N] [--seed N] [--only SCENARIO]
 *
 * A round starts one scenario under a keeper, ends it in one of several ways, and then fails unless: the keeper has
 * said that nothing is left and has left itself; this process, the subreaper above it, has no child, so that nothing
 * escaped; no process of the machine has the round's marker in its environment; and this process has as many
 * descriptors as before.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "tests/support/kept.h"
#include "tests/support/leftovers.h"
#include "tests/support/scenarios.h"

enum way { WHEN_READY, AT_ONCE, SOON, POLITELY, ALONE, WAYS };
static const char *const way_names[WAYS] = { "when ready", "at once", "soon", "politely", "alone" };

struct failure_case {
	const char *name, *path, *cwd;
	bool bad_tty;
	int step, error;
};

static const struct failure_case failures[] = {
	{ "no such program", "/no/such/program", "/", false, STEP_EXEC, ENOENT },
	{ "a directory", "/proc", "/", false, STEP_EXEC, EACCES },
	{ "not a program", "/etc/passwd", "/", false, STEP_EXEC, EACCES },
	{ "no such directory", "/bin/true", "/no/such/directory", false, STEP_CWD, ENOENT },
	{ "not a terminal", "/bin/true", "/", true, STEP_TERMINAL, ENOTTY },
};

static struct {
	unsigned long rounds;
	unsigned seed;
	const char *only;
} options = { .rounds = 10000 };

static struct {
	unsigned long rounds;
	uint64_t total_us, worst_us;
} times[SCENARIOS];

static unsigned long passed, failed;
static uint64_t state;

/* xorshift64: the same rounds for the same seed. */
static unsigned random_below(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state % n);
}

static void doze(unsigned us)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)us * 1000 }, NULL);
}

static const char *end_alone(struct kept *k)
{
	/* Left alone it has four seconds at the most; the program's own exit may be earlier. */
	fd_close(&k->keeper.sock);
	return NULL;
}

static const char *end_politely(struct kept *k)
{
	kept_signal(k, SIGHUP, 1);
	doze(2000);
	kept_signal(k, SIGTERM, 2);
	doze(2000);
	return kept_kill(k);
}

static const char *end_round(struct kept *k, const struct scenario *s, enum way way)
{
	if (way == ALONE)
		return end_alone(k);
	if (way == WHEN_READY && s->run != leave_at_once && !kept_is_ready(k))
		return "it never was ready";
	if (s->leaves && !s->deaf && way != AT_ONCE) {
		const char *wrong = kept_wait(k, REPORT_EMPTY);
		if (wrong)
			return wrong;
		return WIFEXITED(k->status) && WEXITSTATUS(k->status) == 7 ? NULL : "not its own exit status";
	}
	if (way == SOON)
		doze(random_below(3000));
	return way == POLITELY ? end_politely(k) : kept_kill(k);
}

static const char *find_leftovers(const char *marker, int fds)
{
	if (any_child() != 0)
		return "a child is left: it escaped its keeper";
	if (find_marked(marker) != 0)
		return "a process with the round's marker is left";
	if (count_fds() != fds)
		return "a descriptor has leaked";
	return NULL;
}

static const char *run_scenario(const struct scenario *s, enum way way, bool tty, const char *marker)
{
	const char *const argv[] = { "/proc/self/exe", "--scenario", s->name, NULL };
	const char *const envp[] = { marker, NULL };
	const int fds = count_fds();
	struct kept k;

	if (kept_start(&k, argv, envp, tty) < 0)
		return "no keeper";
	const char *wrong = end_round(&k, s, way);
	if (wrong)
		return wrong;
	wrong = kept_reap(&k);
	return wrong ? wrong : find_leftovers(marker, fds);
}

static const char *run_failure(const struct failure_case *f, const char *marker)
{
	const char *const argv[] = { f->path, NULL };
	const char *const envp[] = { marker, NULL };
	const int fds = count_fds();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct keeper_spec spec = { .path = f->path, .argv = argv, .envp = envp, .cwd = f->cwd, .label = "fails" };
	struct kept k = { .out = -1 };

	spec.tty = f->bad_tty ? null : -1;
	spec.in = spec.out = spec.err = null;
	if (keeper_spawn(&spec, &k.keeper) < 0)
		return "no keeper";
	fd_close(&null);
	const char *wrong = kept_wait(&k, REPORT_FAILED);
	if (wrong)
		return wrong;
	if (k.last.step != f->step || k.last.error != f->error)
		return "not the step, or not the error";
	wrong = kept_wait(&k, REPORT_EMPTY);
	if (!wrong)
		wrong = kept_reap(&k);
	return wrong ? wrong : find_leftovers(marker, fds);
}

/* Bombs and the way that takes seconds come seldom, so that ten thousand rounds take minutes. */
static const struct scenario *pick_scenario(void)
{
	const struct scenario *s = &scenarios[random_below(SCENARIOS)];

	if (options.only)
		return scenario_find(options.only);
	if ((s->run == run_away || s->run == run_away_alone || s->run == grow_a_tree) && random_below(10) != 0)
		return &scenarios[0];
	return s;
}

static enum way pick_way(void)
{
	enum way way = (enum way)random_below(WAYS);

	return way == ALONE && random_below(100) != 0 ? WHEN_READY : way;
}

static void note_time(const struct scenario *s, uint64_t us)
{
	size_t i = (size_t)(s - scenarios);

	times[i].rounds++;
	times[i].total_us += us;
	if (us > times[i].worst_us)
		times[i].worst_us = us;
}

static void run_round(unsigned long round)
{
	char marker[64], what[128];
	const char *wrong;

	snprintf(marker, sizeof(marker), "RINGSIDE_TORTURE=%d-%lu", (int)getpid(), round);
	if (!options.only && random_below(10) == 0) {
		const struct failure_case *f = &failures[random_below(sizeof(failures) / sizeof(failures[0]))];
		snprintf(what, sizeof(what), "%s", f->name);
		wrong = run_failure(f, marker);
	} else {
		const struct scenario *s = pick_scenario();
		enum way way = pick_way();
		bool tty = random_below(3) == 0;
		uint64_t before = clock_mono_ns();
		snprintf(what, sizeof(what), "%s, ended %s%s", s->name, way_names[way], tty ? ", on a pty" : "");
		wrong = run_scenario(s, way, tty, marker);
		if (way != ALONE)
			note_time(s, (clock_mono_ns() - before) / 1000);
	}
	if (!wrong) {
		passed++;
		return;
	}
	failed++;
	fprintf(stderr, "round %lu (%s): %s\n", round, what, wrong);
}

static void print_times(void)
{
	for (size_t i = 0; i < SCENARIOS; i++) {
		if (times[i].rounds > 0)
			printf("%-18s %6lu rounds, mean %7.2f ms, worst %8.2f ms\n", scenarios[i].name, times[i].rounds,
			        (double)times[i].total_us / 1000 / (double)times[i].rounds,
			        (double)times[i].worst_us / 1000);
	}
}

static bool take_options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--rounds") == 0)
			options.rounds = strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0)
			options.seed = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--only") == 0 && scenario_find(argv[i + 1]))
			options.only = argv[i + 1];
		else
			return false;
	}
	return argc % 2 == 1;
}

int main(int argc, char **argv)
{
	scenario_main(argc, argv);
	if (!take_options(argc, argv)) {
		fprintf(stderr, "usage: torture_keeper [--rounds N] [--seed N] [--only SCENARIO]\n");
		return 2;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (options.seed == 0)
		options.seed = (unsigned)clock_mono_ns() | 1;
	state = options.seed;
	printf("seed %u\n", options.seed);

	/* The first failure ends it: what is left behind then would fail every round that follows. */
	for (unsigned long round = 0; round < options.rounds && failed == 0; round++)
		run_round(round);
	print_times();
	printf("%lu passed, %lu failed\n", passed, failed);
	return failed == 0 ? 0 : 1;
}
