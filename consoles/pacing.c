/* pacing.c - the one place where the console daemon sleeps on purpose: 1 ns, in a flood of raw output. */
#include "consoles/pacing.h"

#include <sys/prctl.h>
#include <termios.h>
#include <time.h>

#define PACING_FULL     2000 /* bytes: what counts as a full read */
#define PACING_FLOOD    16   /* full reads in a row */
#define PACING_BURST    8    /* reads per event where naps help, some 250 us */
#define PACING_TYPING   200  /* ms after the last key for which keys come first */
#define PACING_PIECE    2048 /* bytes to ask for meanwhile */
#define PACING_TRIAL    64   /* reads behind a nap, after which it is judged whether they help */
#define PACING_GAIN     4700 /* bytes that such a read has to bring on average; without naps it is 4,100 to 4,300 */
#define PACING_TRY_NEXT 4096 /* full reads, some 16 MiB, until the next trial: it costs 2 ms in a fifth of a second */

static uint64_t last_typed;
static bool anybody_typed;

void pacing_typed(uint64_t now_ms)
{
	last_typed = now_ms;
	anybody_typed = true;
}

static bool is_typing(uint64_t now_ms)
{
	return anybody_typed && now_ms - last_typed < PACING_TYPING;
}

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

size_t pacing_size(const struct pacing *p, size_t most, uint64_t now_ms)
{
	return p->full >= PACING_FLOOD && most > PACING_PIECE && is_typing(now_ms) ? PACING_PIECE : most;
}

/* Begins a trial when its time has come; ends one that brought nothing. */
static void judge(struct pacing *p, int master)
{
	if (!p->naps && p->full >= p->resume) {
		p->naps = output_is_raw(master);
		p->resume = p->full + PACING_TRY_NEXT;
		p->tried = 0;
		p->gained = 0;
	}
	if (p->naps && p->tried >= PACING_TRIAL) {
		p->naps = p->gained >= (size_t)PACING_GAIN * p->tried;
		p->resume = p->full + PACING_TRY_NEXT;
		p->tried = 0;
		p->gained = 0;
	}
}

bool pacing_again(struct pacing *p, int master, size_t n, unsigned read, uint64_t now_ms)
{
	if (n < PACING_FULL) {
		*p = (struct pacing){ .resume = PACING_FLOOD };
		return false;
	}
	p->full++;
	if (read > 1) {
		p->tried++;
		p->gained += n;
	}
	if (p->full < PACING_FLOOD || is_typing(now_ms))
		return false;
	judge(p, master);
	if (!p->naps || read >= PACING_BURST)
		return false;
	nap();
	return true;
}
