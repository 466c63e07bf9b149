/*
 * bench_start.c - how long it takes until a new console's program runs.
 *
 * start     `ringside start BOX/NAME --observe 0 -- PROGRAM` against `dtach -n SOCKET PROGRAM`: from the spawn of the
 *           command to its end, by which the program has been executed.
 * start_api The same request through libringside on an open connection, as a front end makes it, against the same.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "tests/bench/ours.h"
#include "tests/bench/peers.h"
#include "tests/bench/programs.h"

#define BOX     "start"
#define STARTS  41
#define SECONDS 120

static const char *const PROGRAM[] = { "/bin/cat", NULL };

static double ours_by_command(struct ours *o, const char *name)
{
	char ringside[sizeof(o->bin) + 16], target[64];
	const char *argv[] = { ringside, "start", target, "--observe", "0", "--", PROGRAM[0], NULL };

	snprintf(ringside, sizeof(ringside), "%s/ringside", o->bin);
	snprintf(target, sizeof(target), BOX "/%s", name);
	uint64_t start = bench_now_ns();
	peer_run(argv);
	uint64_t took = bench_now_ns() - start;
	ours_close(o, BOX, name);
	return (double)took / 1e6;
}

static double ours_by_call(struct ours *o, const char *name)
{
	uint64_t start = bench_now_ns();
	ours_start(o, BOX, name, PROGRAM);
	uint64_t took = bench_now_ns() - start;
	ours_close(o, BOX, name);
	return (double)took / 1e6;
}

static double dtach_by_command(void)
{
	struct dtach d;
	double ms = (double)dtach_spawn_ns(&d, PROGRAM) / 1e6;

	dtach_attach(&d);
	dtach_end(&d);
	return ms;
}

int main(int argc, char **argv)
{
	struct pairs command = { .name = "start", .unit = "ms", .digits = 2 };
	struct pairs call = { .name = "start_api", .unit = "ms", .digits = 2 };
	char name[32];
	struct ours o;

	programs_run(argc, argv);
	if (!bench_program_exists("dtach")) {
		puts("start not measured: no dtach");
		return 0;
	}
	bench_start(SECONDS);
	ours_begin(&o);
	ours_box(&o, BOX, 0);
	for (int i = -1; i < STARTS; i++) {
		snprintf(name, sizeof(name), "a%d", i + 1);
		double a = ours_by_command(&o, name), peer = dtach_by_command();

		snprintf(name, sizeof(name), "b%d", i + 1);
		double b = ours_by_call(&o, name);

		if (i < 0) /* the first of everything reads from disk */
			continue;
		pairs_add(&command, a, peer);
		pairs_add(&call, b, peer);
	}
	pairs_print(&command);
	pairs_print(&call);
	ours_end(&o);
	return 0;
}
