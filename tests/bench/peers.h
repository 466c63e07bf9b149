/*
 * peers.h - what ours is measured against, as it comes from the distribution.
 *
 * dtach   One session per process, the smallest program that does the job. Its client talks in packets of 10 bytes: a
 *         type (0: keys, 1: attach), a length, and at most 8 bytes; what comes back is the terminal's output, plain.
 * bare    A pty, a program, and a loop of read(2).
 */
#ifndef TESTS_BENCH_PEERS_H
#define TESTS_BENCH_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- dtach ---- */

struct dtach {
	char dir[64], socket[96];
	pid_t pid; /* of its server */
	int fd;    /* a client's, attached */
};

/* `dtach -n`: from its start to its end, by which the session is there. */
uint64_t dtach_spawn_ns(struct dtach *d, const char *const *argv);
void dtach_attach(struct dtach *d);
void dtach_key(struct dtach *d);
void dtach_end(struct dtach *d);

/* ---- bare ---- */

struct bare {
	uint64_t ns;     /* from the byte that lets the program go to the last one read */
	uint64_t cpu_ns; /* of the loop */
};

/* Runs argv, a flood of which `bytes` come out, on a pty that another process reads. */
void bare_flood(const char *const *argv, uint64_t bytes, struct bare *out);

/* ---- Anything ---- */

/* Starts argv with /dev/null for input and output. */
pid_t peer_spawn(const char *const *argv);
void peer_run(const char *const *argv); /* to its end; anything but status 0 is fatal */

#endif
