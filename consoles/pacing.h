/*
 * pacing.h - how much to read of a flooding terminal at once, and when to come back for more.
 *
 * A pty hands over about 4 KiB a read. A read that finds less than it asks for waits until the kernel's worker, which
 * refills it, is done; a poll of an empty pty does too. Two things follow from that, measured on 2 cores with 6.18:
 *
 * Naps       With output that the terminal does not rework (OPOST off) and a program that writes 8 KiB or more at a
 * time, a nap of 1 ns (some 10 us in truth) between two reads, with no poll in between, lets worker and program run
 *            ahead, and the next read finds 8 KiB or more: 75-105 MiB/s become 185-200, with less processor time. With
 * OPOST on, or small writes, naps only cost. So they are tried, and go on while reads get longer by it. Typing While
 * somebody types, to whichever console, there are no naps, and a flooding terminal is read in pieces that are there for
 * sure, so that the loop never waits for the worker: a key's echo beside a flood takes 100-110 us at the median instead
 * of 130-180, and the flood is hardly slower.
 *
 * Never anything of it on a console that does not flood: PACING_FLOOD full reads in a row, 64 KiB without a pause.
 */
#ifndef CONSOLES_PACING_H
#define CONSOLES_PACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pacing {
	unsigned full;   /* full reads in a row */
	unsigned resume; /* the number of full reads at which naps are tried (again) */
	bool naps;       /* they are taken at present */
	unsigned tried;  /* reads behind a nap, of the present trial, */
	size_t gained;   /* and what they brought */
};

/* Somebody has typed, at now_ms of the loop's clock. */
void pacing_typed(uint64_t now_ms);

/* How many bytes to ask for with the next read, at most `most`. */
size_t pacing_size(const struct pacing *p, size_t most, uint64_t now_ms);

/* After the read-th read of this event (from 1) brought n bytes: true, having napped, when another should follow at
 * once. */
bool pacing_again(struct pacing *p, int master, size_t n, unsigned read, uint64_t now_ms);

#endif
