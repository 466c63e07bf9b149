/*
 * programs.h - what the benchmarks run in terminals: the benchmark itself, as another program.
 *
 * `SELF program flood cooked|raw BYTES`  sets its terminal, prints one byte, waits for one, then prints BYTES (0: until
 *                                        it is killed) in lines of 64, 64 KiB a write.
 * `SELF program echo`                    raw terminal; prints one byte, then whatever it reads.
 */
#ifndef TESTS_BENCH_PROGRAMS_H
#define TESTS_BENCH_PROGRAMS_H

#include <stdint.h>

/* First thing in main(): does not return where the arguments ask for a program. */
void programs_run(int argc, char **argv);

#define PROGRAM_ARGS 6
/* Argument vectors, NULL-terminated; good until the next call. */
const char *const *program_flood(bool raw, uint64_t bytes);
const char *const *program_echo(void);

/* What comes out of a terminal for `bytes` of the flood: a line feed becomes two bytes unless it is raw. */
uint64_t flood_output(bool raw, uint64_t bytes);

#endif
