/*
 * lines.h - would a terminal that edits lines cut these bytes?
 *
 * In canonical mode the kernel holds at most LINES_MAX bytes of a line that is not ended and throws away what comes
 * after them, with no error to the writer (N_TTY_BUF_SIZE in the kernel's n_tty.c; termios(3), "Canonical and
 * noncanonical mode").
 */
#ifndef CONSOLES_LINES_H
#define CONSOLES_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#define LINES_MAX 4095

/*
 * Goes through the next n bytes of an input of which *pending bytes stand in an unfinished line. true: none is lost,
 * and *pending is brought up to date. false: a line gets too long; *pending is as it was. Erase characters are not
 * reckoned with.
 */
bool lines_fit(const struct termios *t, size_t *pending, const void *bytes, size_t n);

#endif
