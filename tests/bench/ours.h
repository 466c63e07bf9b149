/*
 * ours.h - a Ringside of the benchmark's own: a temporary RINGSIDE_HOME, the built programs, one or more sandboxes.
 *
 * Whatever fails here ends the benchmark. Programs come from RINGSIDE_BIN, or from ../../bin beside the benchmark.
 */
#ifndef TESTS_BENCH_OURS_H
#define TESTS_BENCH_OURS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/ringside.h"

struct ours {
	char home[64];
	char bin[4096];
	struct ringside *rs;
};

/* Starts the control daemon. ours_end() ends everything and removes the home. */
void ours_begin(struct ours *o);
void ours_end(struct ours *o);

void ours_box(struct ours *o, const char *box, uint32_t console_limit);
pid_t ours_consoled(struct ours *o, const char *box);
pid_t ours_ringsided(struct ours *o);
unsigned ours_running(struct ours *o); /* consoles */

/* Starts argv, not observed, and opens it with every right. The caller's to close, after ours_close() of its name. */
struct ringside_console *ours_open(struct ours *o, const char *box, const char *name, const char *const *argv);
pid_t ours_start(struct ours *o, const char *box, const char *name, const char *const *argv); /* its program's pid */
void ours_close(struct ours *o, const char *box, const char *name); /* ends the program, at once */

/* Waits until the program's output has reached `offset`. */
void ours_await(struct ringside_console *c, uint64_t offset);
void ours_key(struct ringside_console *c);

#endif
