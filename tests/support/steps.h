/*
 * steps.h - what most scenarios do with a console, each by the command line, and each failing the test when it is
 * refused.
 *
 * A console is "BOX/NAME". Shells are started as STEP_SHELL: no start-up files, so that prompt and behaviour are the
 * same everywhere.
 */
#ifndef TESTS_SUPPORT_STEPS_H
#define TESTS_SUPPORT_STEPS_H

#include "tests/support/home.h"

/* For the end of a start: an interactive bash whose prompt is "$ ". */
#define STEP_SHELL "--env", "PS1=$ ", "--", "bash", "--norc", "--noprofile", "--noediting", "-i"

void step_create(struct home *h, const char *box);
const char *step_directory(struct home *h, const char *box); /* of its workspace on this machine */

/* `ringside start --json CONSOLE …`: what it answers. */
json_t *step_start(struct home *h, const char *console, ...) __attribute__((sentinel));
/* A shell that has shown its prompt. */
void step_shell(struct home *h, const char *console);

/* Writes text alone, or text and Enter. The tail_offset from which its output can be read. */
uint64_t step_write(struct home *h, const char *console, const char *text);
uint64_t step_line(struct home *h, const char *console, const char *text);

/* `ringside read --json CONSOLE …` */
json_t *step_read(struct home *h, const char *console, ...) __attribute__((sentinel));
/* Reads from `from` until the pattern matches: the bytes up to the end of the match. next may be NULL. */
char *step_until(struct home *h, const char *console, uint64_t from, const char *pattern, uint64_t *next);
/* Reads everything from `from` until the console has ended. Its answer; the bytes in *data, *n. */
json_t *step_until_exit(struct home *h, const char *console, uint64_t from, char **data, size_t *n);

/* The console's row of `ringside ps --json BOX`. */
json_t *step_ps(struct home *h, const char *console);
bool step_state_is(struct home *h, const char *console, const char *state);

/* How many processes below the guard have exactly these arguments: what a test started, wherever it went. */
size_t step_count(struct home *h, const char *line);
/* The same for whatever runs this program, by the last part of its path. */
size_t step_count_program(struct home *h, const char *name);
/* The arguments of what is in the console's foreground. */
const char *step_foreground(struct home *h, const char *console);

/* A line of text typed into a shell and what it printed, without the echo. The console must run a step_shell(). */
char *step_command(struct home *h, const char *console, const char *command);

#endif
