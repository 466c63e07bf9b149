/*
 * ending.c - SIGHUP, SIGTERM, SIGKILL and the times between; see ending.h.
 */
#include "consoles/ending.h"

#include <signal.h>
#include <string.h>

static uint64_t after(uint64_t now, uint64_t ms)
{
	return ms > UINT64_MAX - now ? UINT64_MAX : now + ms;
}

static void set_kill(struct ending *e, uint64_t at)
{
	e->kill_at = e->again_at = at;
	e->give_up_at = after(at, PROCESS_SURVIVOR_MS);
	if (e->term_at >= at)
		e->term_at = 0;
}

void ending_begin(struct ending *e, uint64_t now, uint64_t grace_ms)
{
	memset(e, 0, sizeof(*e));
	e->began = now;
	set_kill(e, after(now, grace_ms));
}

void ending_hurry(struct ending *e, uint64_t now, uint64_t grace_ms)
{
	uint64_t at = after(now, grace_ms);

	if (!e->kill_sent && at < e->kill_at)
		set_kill(e, at);
}

int ending_due(struct ending *e, uint64_t now)
{
	if (now >= e->kill_at) {
		if (now < e->again_at)
			return 0;
		e->kill_sent = true;
		e->again_at = now + ENDING_AGAIN_MS;
		return SIGKILL;
	}
	if (!e->hup_sent) {
		e->hup_sent = true;
		/* Counted from the sending: a loop that was late must not send both at once. */
		if (now + PROCESS_TERM_MS < e->kill_at)
			e->term_at = now + PROCESS_TERM_MS;
		return SIGHUP;
	}
	if (e->term_at != 0 && !e->term_sent && now >= e->term_at) {
		e->term_sent = true;
		return SIGTERM;
	}
	return 0;
}

uint64_t ending_next(const struct ending *e)
{
	uint64_t next = e->kill_sent ? e->again_at : e->kill_at;

	if (!e->hup_sent && !e->kill_sent)
		return e->began;
	if (e->term_at != 0 && !e->term_sent && e->term_at < next)
		next = e->term_at;
	return next < e->give_up_at ? next : e->give_up_at;
}

bool ending_over(const struct ending *e, uint64_t now)
{
	return e->kill_sent && now >= e->give_up_at;
}

static struct process_step *find_step(struct process_receipt *r, int sig)
{
	for (unsigned i = 0; i < r->nsteps; i++) {
		if (r->steps[i].signal == sig)
			return &r->steps[i];
	}
	return NULL;
}

void ending_record(struct ending *e, int sig, uint64_t at, uint32_t got)
{
	struct process_receipt *r = &e->receipt;
	struct process_step *s = find_step(r, sig);

	if (got == 0)
		return;
	if (s) {
		s->left += got;
		return;
	}
	/* One step a signal, and there are three. */
	if (r->nsteps < PROCESS_MAX_STEPS)
		r->steps[r->nsteps++] = (struct process_step){ .signal = sig, .at_ms = at - e->began, .left = got };
}
