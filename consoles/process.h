/*
 * process.h - one program under its keeper, on the loop: started, watched, signalled, ended, proven gone.
 *
 * Consoles and execs both stand on this; neither talks to a keeper itself. Reaping is inside: SIGCHLD is looked at with
 * WNOWAIT first; keepers are reaped by pid, strangers that were orphaned to this daemon (PID 1, or a subreaper whose
 * keeper died) are reaped too, and no libuv child handling is used.
 *
 * Callbacks  Run from the loop, never from inside a call of this header, and never after process_free()
 *            (process_end()'s done is one of them). process_free() may be called from any; the memory goes
 *            when the loop has closed the handles.
 *
 * Order      on_started | on_failed first; then on_exited once, after the program was reaped (not after
 *            on_failed); then on_gone once, when no descendant is left (proven) or the keeper itself has died
 *            (unproven). on_exited never comes after on_gone: a keeper that dies first gives on_exited with no
 *            status known (status_known false).
 *
 * Orphans    What a dead keeper leaves to this daemon is ended by search, ordered or not, also after
 *            process_free().
 */
#ifndef CONSOLES_PROCESS_H
#define CONSOLES_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "consoles/keeper.h"

struct process;

struct process_exit {
	bool status_known;
	uint32_t code, signal; /* signal != 0: ended by it */
	uint32_t left;         /* descendants that remain */
	uint32_t nprocs;
	struct keeper_proc procs[KEEPER_MAX_PROCS];
};

struct process_handler {
	/* start_time: field 22 of the program's stat */
	void (*on_started)(struct process *p, pid_t pid, uint64_t start_time, void *ctx);
	void (*on_failed)(struct process *p, enum keeper_step step, int error, void *ctx);
	void (*on_exited)(struct process *p, const struct process_exit *e, void *ctx);
	void (*on_gone)(struct process *p, bool proven, void *ctx);
};

/* Once per daemon, before the first process: becomes a subreaper, takes SIGCHLD over. */
int process_setup(uv_loop_t *loop);

/* 0 and *out, or -errno from the fork. spec's descriptors stay the caller's; spec itself is needed during the
 * call only. */
int process_start(uv_loop_t *loop, const struct keeper_spec *spec, const struct process_handler *handler, void *ctx,
        struct process **out);

pid_t process_pid(const struct process *p);        /* of the program; 0 before on_started */
pid_t process_keeper_pid(const struct process *p); /* 0 once it is gone */

/* Signals the members of one process group among the descendants. 0, -ESRCH (the keeper is gone), … */
int process_signal_group(struct process *p, pid_t group, int sig);

/* ---- Ending ---- */
#define PROCESS_GRACE_MS  3000 /* from the order to SIGKILL, by default */
#define PROCESS_TERM_MS   500  /* from SIGHUP to SIGTERM; a shorter grace has no SIGTERM step of its own */
#define PROCESS_MAX_STEPS 8

struct process_step {
	int signal;
	uint64_t at_ms; /* since the order */
	uint32_t left;  /* processes that got it */
};
struct process_receipt {
	unsigned nsteps;
	struct process_step steps[PROCESS_MAX_STEPS];
	uint32_t nsurvivors;
	/* what SIGKILL did not end: uninterruptible, or another user's */
	struct keeper_proc survivors[KEEPER_MAX_PROCS];
	bool unproven;
};

/*
 * SIGHUP and SIGCONT to every descendant; after PROCESS_TERM_MS SIGTERM and SIGCONT to what is left; at grace_ms
 * SIGKILL, repeated until nothing is left or survivors have stood PROCESS_SURVIVOR_MS. Never two deadly signals at
 * once; a grace of 0 is SIGKILL alone.
 *
 * done is called exactly once, from the loop, after on_exited and on_gone where those happen. A second call joins
 * the first: its done is called with the same receipt (a shorter grace hurries it). -ENOMEM, of a second call alone: it
 * is obeyed, and done is not called.
 *
 * Where the keeper dies in the middle, the rest is ended by search among this daemon's orphans and the receipt is
 * unproven.
 */
#define PROCESS_SURVIVOR_MS 5000
int process_end(struct process *p, uint64_t grace_ms,
        void (*done)(struct process *p, const struct process_receipt *r, void *ctx), void *ctx);

/* Forgets the process; ends nothing. A keeper with descendants goes on until they are gone. Accepts NULL. */
void process_free(struct process *p);

#endif
