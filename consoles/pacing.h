/*
 * pacing.h - how a flooding terminal is read, and who goes first while it floods.
 *
 * A pty hands over about 4 KiB a read, refilled by a worker of the kernel's. Measured on 2 cores, Linux 6.18:
 *
 * Yield      In a flood the processor is given away before the next read, which is tried a few times without a poll:
 *            worker and program run ahead meanwhile, instead of being woken and waited for once every 4 KiB.
 * Typing     While somebody types, to whichever console, nothing is given away, a flooding terminal is read in pieces
 *            that are there for sure (a read that finds less than it asks for waits until the worker is done), and
 *            between a key and what its program makes of it no flood is read at all: its program fills its buffers, and
 *            the key finds a processor.
 *
 * Never anything of it on a console that does not flood: PACING_FLOOD bytes within one window of time.
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
};

/* Somebody has typed. */
void pacing_typed(uint64_t now);

void pacing_account(struct pacing *p, size_t n, uint64_t now);
bool pacing_floods(const struct pacing *p, uint64_t now);

/* How many bytes to ask for with the next read, at most `most`. */
size_t pacing_size(const struct pacing *p, size_t most, uint64_t now);

/* After the read-th read of this event (from 1) brought n bytes: true, having given the processor away, when another
 * should follow at once. */
bool pacing_again(const struct pacing *p, size_t n, unsigned read, uint64_t now);

#endif
