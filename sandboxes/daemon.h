/*
 * daemon.h - the control daemon as a whole: what all its parts stand on, its start, and its end.
 *
 * One loop thread owns everything here. What may wait (providers, ledger, disk) runs as jobs; those get `struct
 * calls_env`, which does not change once the loop runs, and copies of all else.
 *
 * Start      The lock is held by the caller. Ledger, lease, what the ledger knows of sandboxes, then the socket. From
 *            the moment ringsided_open() has returned clients may connect; sandboxes are reattached from inside the
 *            loop.
 * End        ringsided_stop(): no new work is taken, live rings are kept once more, what is in hand is waited for
 *            (DAEMON_STOP_MS at the most). Sandboxes go on.
 */
#ifndef SANDBOXES_DAEMON_H
#define SANDBOXES_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "ledger/ledger.h"
#include "providers/sandbox.h"
#include "sandboxes/jobs.h"
#include "wire/paths.h"

#define DAEMON_PROVIDER_THREADS 64 /* provider calls at once; one for each sandbox at the most */
#define DAEMON_DISK_THREADS     4  /* custody's files; the ledger writes one after another anyway */
#define DAEMON_THREAD_IDLE_MS   5000
#define DAEMON_CUSTODY_MS       20000 /* between looks at live rings: with the writing itself below the promised 30 s */
#define DAEMON_STOP_MS          10000
#define DAEMON_MAX_PROVIDERS    16

/* What jobs may use: complete before the first one, constant after. */
struct calls_env {
	struct ledger *ledger; /* may be called from any thread */
	uint64_t epoch;
	char owner_id[64];
	char state_dir[PATH_MAX];
};

struct daemon_options {
	struct paths paths;
	char consoled_path[PATH_MAX];
	char default_provider[64];
	uint64_t custody_ms; /* 0: DAEMON_CUSTODY_MS */
	int runtime_dirfd;   /* where the socket is; the caller's */
	int lock_fd;         /* says that we are the daemon; let go of by ringsided_close() */
};

struct sandbox;
struct control;

struct daemon {
	uv_loop_t loop;
	struct daemon_options options;
	struct calls_env env;
	struct jobs *provider_jobs, *disk_jobs;
	struct lane *lane; /* of disk jobs that are no sandbox's */
	struct sandbox_adapter *adapters[DAEMON_MAX_PROVIDERS];
	unsigned nadapters;
	struct control *control;
	struct sandbox *sandboxes, **sandboxes_end; /* those that are not TERMINATED, oldest first */
	uv_timer_t custody_timer;
	uv_timer_t stop_timer;
	uv_signal_t on_term, on_int;
	uint64_t started_at_ms;
	bool stopping;
	bool opened; /* the loop is there */
	bool stuck;  /* something in hand did not end in time: leave without tidying up */
};

/* message: one line for people when it fails, at least 512 bytes. d is zeroed. After a failure: ringsided_close(). */
int ringsided_open(struct daemon *d, const struct daemon_options *options, char *message, unsigned size);
/* Runs until stopped. The process is to be left by _exit() when it answers false: a job did not end. */
bool ringsided_run(struct daemon *d);
/* After ringsided_run() answered true, or ringsided_open() failed. Clients are let go last, when nothing of this daemon
 * is left that could be in a next one's way. */
void ringsided_close(struct daemon *d);

/* Begins the end. A second call does nothing. */
void ringsided_stop(struct daemon *d, const char *why);
/* A job or a call found that another daemon has the lease: nothing that this one writes is taken any more. */
void ringsided_lease_lost(struct daemon *d);

struct sandbox_adapter *ringsided_adapter(struct daemon *d, const char *provider); /* NULL: none of that name */

/* Live consoles exist: their rings are looked at from time to time, and only then. */
void ringsided_watch_rings(struct daemon *d);

#endif
