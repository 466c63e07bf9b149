/*
 * pty.h - opening pseudo-terminals without NSS, setuid helpers or a path of the slave.
 *
 * The master is non-blocking and close-on-exec; so is the slave (which the keeper's child makes its standard streams).
 * Source: pts(4), ioctl_tty(2); TIOCGPTPEER opens the slave also where /dev/pts is of another mount namespace.
 */
#ifndef CONSOLES_PTY_H
#define CONSOLES_PTY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PTY_MIN_COLS 2
#define PTY_MIN_ROWS 2
#define PTY_MAX_COLS 1000
#define PTY_MAX_ROWS 500

/* 0, -ENOSPC (pty.max), -EMFILE, -ENOENT (no /dev/ptmx), … UTF-8 input mode is on (IUTF8). */
int pty_open(uint16_t cols, uint16_t rows, int *master, int *slave);
int pty_resize(int master, uint16_t cols, uint16_t rows);
pid_t pty_foreground_group(int master); /* 0: none */
bool pty_is_canonical(int master);      /* line discipline edits lines: over 4095 bytes are cut */

#endif
