/*
 * pacing.h - how a flooding terminal is read, and who goes first while it floods.
 *
 * A pty hands over about 4 KiB a read, refilled by a worker of the kernel's, which is woken and waited for each time.
 * Measured on 2 cores, Linux 6.18:
 *
 * Yield      In a flood the processor is given away before the next read, and a few reads follow each other without a
 *            poll: worker and program run ahead where they need this processor, and cooked output costs less of it.
 * Nap        Where the terminal does not rework its output (OPOST off), a nap of 1 ns, some 10 us in truth, lets them
 *            run ahead also on another processor: once it has got going, a read finds 7 KiB and more, and 80 MiB/s
 *            become 160. With OPOST on, or a program that writes little at once, naps only cost. So they are tried
 *            again and again, and go on while reads get longer by it.
 * Typing     While somebody types into another console, nothing is given away, a flooding terminal is read in pieces
 *            that are there for sure (a read that finds less than it asks for waits until the worker is done), and
 *            between a key and what its program makes of it no flood is read at all: its program fills its buffers, and
 *            the key finds a processor (terminal.c).
 *
 * Never anything of it on a console that does not flood: PACING_FLOOD bytes within one window.
 */
#ifndef CONSOLES_PACING_H
#define CONSOLES_PACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All times are of the loop's clock, in ms. */

struct pacing {
	uint64_t window;      /* when the present one began */
	size_t bytes, before; /* what came in it, and in the one before */
	bool has_napped;      /* just now */
	unsigned napped;      /* reads behind a nap, of the present trial, */
	size_t gained;        /* and what they brought */
	unsigned rest;        /* reads without naps that are to come */
};

/* Somebody has typed into the terminal of p. */
void pacing_typed(const struct pacing *p, uint64_t now);

void pacing_account(struct pacing *p, size_t n, uint64_t now);
bool pacing_floods(const struct pacing *p, uint64_t now);

/* How many bytes to ask for with the next read, at most `most`. */
size_t pacing_size(const struct pacing *p, size_t most, uint64_t now);

/* After the read-th read of this event (from 1) brought n bytes: true, having given the processor away, when another
 * should follow at once. */
bool pacing_again(struct pacing *p, int master, size_t n, unsigned read, uint64_t now);

#endif
