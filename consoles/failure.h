/*
 * failure.h - why a request was refused or a program could not be started: a stable code and one line for people.
 */
#ifndef CONSOLES_FAILURE_H
#define CONSOLES_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "consoles/keeper.h"
#include "wire/codes.h"

#define FAILURE_BYTES 512

struct failure {
	enum result code;
	bool of_exec; /* the request was fine, the program did not start: told in the answer, not instead of it */
	char message[FAILURE_BYTES];
};

/* Fills *f; the line is cut where it is too long. Bytes from outside are escaped by the caller. Returns -1, for
 * `return`. */
int failure_set(struct failure *f, enum result code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The failure that a start's step and errno stand for, with the path that is to blame. Looks at the file where errno
 * alone does not tell (a folder that may not be searched, or a file that may not be run). */
void failure_of_start(
        struct failure *f, enum keeper_step step, int error, const char *program, const char *path, const char *cwd);

/* What a shell would give as the status: 127 not found, 126 found and not started. */
uint32_t failure_exit_code(const struct failure *f);

#endif
