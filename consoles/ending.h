/*
 * ending.h - the timetable of an end: which signal is due when, and what came of each.
 *
 * A pure function of the times it is given (monotonic milliseconds): no clock, no process. process.c sends and tells.
 */
#ifndef CONSOLES_ENDING_H
#define CONSOLES_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "consoles/process.h"

/* Between two SIGKILLs to what the first did not end, and between two looks for orphans. */
#define ENDING_AGAIN_MS 50

struct ending {
	uint64_t began, term_at, kill_at, give_up_at; /* term_at 0: no SIGTERM */
	bool hup_sent, term_sent, kill_sent;
	uint64_t again_at; /* of the next SIGKILL */
	struct process_receipt receipt;
};

void ending_begin(struct ending *e, uint64_t now, uint64_t grace_ms);
/* A second order: what it asks for counts where it is sooner. */
void ending_hurry(struct ending *e, uint64_t now, uint64_t grace_ms);

/* The signal to send now, taken as sent; 0: none is due. At most one a call, and never two without their time between.
 */
int ending_due(struct ending *e, uint64_t now);
/* When to ask again. */
uint64_t ending_next(const struct ending *e);
/* SIGKILL has been tried for PROCESS_SURVIVOR_MS. */
bool ending_over(const struct ending *e, uint64_t now);

/* `got` processes got sig, which was sent at `at`. None: no step. Later SIGKILLs add to the first one's number. */
void ending_record(struct ending *e, int sig, uint64_t at, uint32_t got);

#endif
