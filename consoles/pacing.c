/* pacing.c - the one place where the console daemon sleeps on purpose: 1 ns, in a flood of raw output. */
#include "consoles/pacing.h"

#include <sys/prctl.h>
#include <termios.h>
#include <time.h>

#define LOOK_EVERY 256 /* full reads between two looks at the terminal's mode: one call per MiB */

/* On a pty's master this gives the modes of the slave. */
static bool output_is_raw(int master)
{
	struct termios t;

	return tcgetattr(master, &t) == 0 && !(t.c_oflag & OPOST);
}

/* The slack is set for the nap alone, since programs would inherit it at their fork. With the default of 50 us this
 * sleeps so long that it halves the speed instead. */
static void nap(void)
{
	const struct timespec shortest = { .tv_nsec = 1 };

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &shortest, NULL);
	prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0); /* back to the default */
}

bool pacing_again(struct pacing *p, int master, size_t n, unsigned read)
{
	if (n < PACING_FULL) {
		*p = (struct pacing){ 0 };
		return false;
	}
	p->full++;
	if (p->full < PACING_FLOOD)
		return false;
	if ((p->full - PACING_FLOOD) % LOOK_EVERY == 0)
		p->naps = output_is_raw(master);
	if (!p->naps || read >= PACING_BURST)
		return false;
	nap();
	return true;
}
