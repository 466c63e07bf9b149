/*
 * family.h - who descends from this process, and signalling them without ever hitting anybody else.
 *
 * The kernel has no "signal this subtree". Here it is made of scans of /proc, and the rule that makes it safe: a signal
 * goes to a pidfd, and only after that process was seen to descend from here while the pidfd was already open. Being a
 * descendant of a subreaper that lives is never undone, so what was seen once stays true.
 *
 * A scan is no proof that nobody is left, since processes are born while it runs; the proof is waitpid(2)'s ECHILD,
 * which is the caller's to get.
 *
 * Memory     One static table per process, touched as far as a scan fills it; no allocation, so a keeper may use it.
 * Blocking   Nothing waits; one scan costs about 10 µs a process of the machine.
 * Bounds     FAMILY_MAX processes of the machine are looked at per scan; what is past them is not seen (see `partial`).
 */
#ifndef CONSOLES_FAMILY_H
#define CONSOLES_FAMILY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "consoles/keeper.h"

#define FAMILY_MAX 65536

struct family {
	/* Which children of this process count, with all that descends from them. NULL: every child. */
	bool (*counts)(pid_t child, uint64_t start, const void *ctx);
	/* A child that counts was seen dead; it and others may be reaped now. NULL: they stay, and a scan of a bomb
	 * that forks faster than its dead are read goes on until the machine has no number left. */
	void (*bury)(pid_t child, void *ctx);
	void *ctx;
};

struct family_result {
	uint32_t got; /* processes that got the signal; of a listing: that are there */
	bool partial; /* not all could be seen: no /proc, no descriptor left, too many processes */
	uint32_t nprocs;
	struct keeper_proc procs[KEEPER_MAX_PROCS]; /* the first of them, by pid */
};

/* Counts and names the living descendants. */
void family_list(const struct family *f, struct family_result *out);

/* Sends sig, then SIGCONT where cont, to the living descendants (group: those of that process group alone; 0: all). */
void family_signal(const struct family *f, int sig, bool cont, pid_t group, struct family_result *out);

/*
 * One round of killing: SIGSTOP in scan after scan until one finds nothing new that runs, then SIGKILL to all. Without
 * the first half a fork bomb has new children by the time that the last of the old ones is dead. got counts each
 * process once, however many rounds it takes; procs names who still stood when this round's SIGKILL was sent.
 */
void family_kill(const struct family *f, struct family_result *out);

#endif
