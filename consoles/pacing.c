/* pacing.c - what a flood is, and the one place where the console daemon sleeps on purpose: 1 ns at a time. */
#include "consoles/pacing.h"

#include <sched.h>
#include <sys/prctl.h>
#include <termios.h>
#include <time.h>

#define PACING_FULL   2000                /* bytes: what counts as a full read */
#define PACING_FLOOD  ((size_t)64 * 1024) /* bytes in a window: 8 MiB/s and more */
#define PACING_WINDOW 8                   /* ms */
#define PACING_BURST  8                   /* reads per event, some 300 us */
#define PACING_TYPING 200                 /* ms after the last key for which keys come first */
#define PACING_GAIN   4700 /* bytes that a read has to bring on average for naps to go on; without it is 4,100 to 4,300 */
#define PACING_TRIAL  128  /* naps, after which it is judged whether they help */
#define PACING_REST   1024 /* reads, some 4 MiB, until they are tried again */
#define PACING_PIECE  2048 /* bytes to ask for meanwhile */

static uint64_t last_typed;
static const struct pacing *typed_into; /* only compared */

void pacing_typed(const struct pacing *p, uint64_t now)
{
	last_typed = now;
	typed_into = p;
}

/* Into another terminal than that of p, whose flood they may have begun themselves. */
static bool is_typing(const struct pacing *p, uint64_t now)
{
	return typed_into && typed_into != p && now - last_typed < PACING_TYPING;
}

/* After so many naps: whether they are worth it. Until they are tried again, reads are counted. */
static void judge_naps(struct pacing *p, size_t n)
{
	if (p->rest > 0)
		p->rest--;
	if (!p->has_napped)
		return;
	p->has_napped = false;
	p->gained += n;
	if (++p->napped < PACING_TRIAL)
		return;
	if (p->gained < (size_t)PACING_TRIAL * PACING_GAIN)
		p->rest = PACING_REST;
	p->napped = 0;
	p->gained = 0;
}

void pacing_account(struct pacing *p, size_t n, uint64_t now)
{
	if (now - p->window >= PACING_WINDOW) {
		p->before = now - p->window < 2 * PACING_WINDOW ? p->bytes : 0;
		p->bytes = 0;
		p->window = now;
	}
	p->bytes += n;
	judge_naps(p, n);
}

bool pacing_floods(const struct pacing *p, uint64_t now)
{
	return now - p->window < 2 * PACING_WINDOW && (p->bytes >= PACING_FLOOD || p->before >= PACING_FLOOD);
}

size_t pacing_size(const struct pacing *p, size_t most, uint64_t now)
{
	return most > PACING_PIECE && is_typing(p, now) && pacing_floods(p, now) ? PACING_PIECE : most;
}

/* On a pty's master this gives the modes of the slave. */
static bool output_is_raw(int master)
{
	struct termios t;

	return tcgetattr(master, &t) == 0 && !(t.c_oflag & OPOST);
}

static bool may_nap(struct pacing *p, int master)
{
	if (p->rest > 0)
		return false;
	if (!output_is_raw(master))
		p->rest = PACING_REST;
	return p->rest == 0;
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

bool pacing_again(struct pacing *p, int master, size_t n, unsigned read, uint64_t now)
{
	if (n < PACING_FULL || read >= PACING_BURST || is_typing(p, now) || !pacing_floods(p, now))
		return false;
	p->has_napped = may_nap(p, master);
	if (p->has_napped)
		nap();
	else
		sched_yield();
	return true;
}
