/*
 * term.h - a terminal with a person in front of it: a program on a pty of the harness, keys sent to it, and the screen
 * that it draws, kept by libvterm, which also answers what a terminal is asked.
 *
 * One term belongs to a home and is ended with it. term_wait…() fail the test at the deadline, showing the screen.
 */
#ifndef TESTS_SUPPORT_TERM_H
#define TESTS_SUPPORT_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/support/home.h"

struct term;

/* Runs argv (argv[0] as run_program() finds it) on a new pty. TERM is xterm-256color. */
struct term *term_open(struct home *h, int cols, int rows, const char *const *argv);
struct term *term_attach(
        struct home *h, const char *console); /* `ringside attach`, 80x24, on screen once it is there */

void term_keys(struct term *t, const char *keys);
void term_bytes(struct term *t, const void *bytes, size_t n); /* any number: reads the program's output meanwhile */
void term_resize(struct term *t, int cols, int rows);

/* Reads what there is, waiting for it at most ms. false: the program has closed the terminal. */
bool term_pump(struct term *t, int ms);

bool term_shows(struct term *t, const char *text);         /* in one line of the screen, now */
void term_wait_shows(struct term *t, const char *text);    /* until it is there */
void term_wait_hides(struct term *t, const char *text);    /* until it is gone */
bool term_printed(const struct term *t, const char *text); /* anywhere in all the bytes since the start */
const char *term_screen(struct term *t);                   /* the rows, one a line; until the next call */
bool term_alternate(const struct term *t);                 /* is the alternate screen on? */

pid_t term_pid(const struct term *t);
int term_wait_end(struct term *t); /* the program's exit status, 128 + n for a signal */
void term_close(struct term *t);   /* hangs up, as closing the window does, and reaps */

#endif
