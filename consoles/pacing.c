/* pacing.c - what a flood is, and the one place where the console daemon gives the processor away on purpose. */
#include "consoles/pacing.h"

#include <sched.h>

#define PACING_FULL   2000                /* bytes: what counts as a full read */
#define PACING_FLOOD  ((size_t)64 * 1024) /* bytes in a window: 8 MiB/s and more */
#define PACING_WINDOW 8                   /* ms */
#define PACING_BURST  4                   /* reads per event, some 200 us */
#define PACING_TYPING 200                 /* ms after the last key for which keys come first */
#define PACING_PIECE  2048                /* bytes to ask for meanwhile */

static uint64_t last_typed;
static bool anybody_typed;

void pacing_typed(uint64_t now)
{
	last_typed = now;
	anybody_typed = true;
}

static bool is_typing(uint64_t now)
{
	return anybody_typed && now - last_typed < PACING_TYPING;
}

void pacing_account(struct pacing *p, size_t n, uint64_t now)
{
	if (now - p->window >= PACING_WINDOW) {
		p->before = now - p->window < 2 * PACING_WINDOW ? p->bytes : 0;
		p->bytes = 0;
		p->window = now;
	}
	p->bytes += n;
}

bool pacing_floods(const struct pacing *p, uint64_t now)
{
	return now - p->window < 2 * PACING_WINDOW && (p->bytes >= PACING_FLOOD || p->before >= PACING_FLOOD);
}

size_t pacing_size(const struct pacing *p, size_t most, uint64_t now)
{
	return most > PACING_PIECE && is_typing(now) && pacing_floods(p, now) ? PACING_PIECE : most;
}

bool pacing_again(const struct pacing *p, size_t n, unsigned read, uint64_t now)
{
	if (n < PACING_FULL || read >= PACING_BURST || is_typing(now) || !pacing_floods(p, now))
		return false;
	sched_yield();
	return true;
}
