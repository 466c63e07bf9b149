/*
 * pacing.h - when to read a flooding terminal again at once, after a nap.
 *
 * A pty hands over about 4 KiB a read, and each read wakes a kernel worker that refills it; a reader that comes back
 * at once takes the 4 KiB and lets the worker wait again. With output that the terminal does not rework (OPOST off) a
 * nap of 1 ns, which really is some 10 us, lets worker and program run ahead, and the next read finds 8 KiB or more:
 * measured on 2 cores, 80 MiB/s without, 115-140 with one nap per event, 155-170 with three, 210 without a bound, each
 * with less processor time. With OPOST on the program itself is the slow part and naps only cost.
 *
 * Between nap and read there must be no poll: polling a pty waits for its worker, and all is as before.
 *
 * Bounds     Never on a quiet console, since a key would wait for its echo: only after PACING_FLOOD full reads in a row.
 *            At most PACING_BURST reads per event, some 150 us, so that other consoles' keys do not wait noticeably.
 */
#ifndef CONSOLES_PACING_H
#define CONSOLES_PACING_H

#include <stdbool.h>
#include <stddef.h>

#define PACING_FULL  4000 /* bytes: what counts as a full read */
#define PACING_FLOOD 16   /* full reads in a row: 64 KiB that came without a pause */
#define PACING_BURST 4    /* reads per readiness event */

struct pacing {
	unsigned full; /* full reads in a row */
	bool naps;     /* the terminal's output is raw, as of the last look */
};

/* After a read of n bytes, the read-th of this event (from 1): true, having napped, when another should follow at once. */
bool pacing_again(struct pacing *p, int master, size_t n, unsigned read);

#endif
