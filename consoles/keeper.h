/*
 * keeper.h - the small process between the console daemon and a program: its parent, and the reaper of all it leaves.
 *
 * One keeper per console, exec or run. It is a subreaper, holds no descriptor but its report socket, and is the
 * parent of the program. Whatever the program starts, double-forked and setsid included, stays its descendant, so
 * "all gone" is what the kernel says when the keeper waits and has no child left (ECHILD): no scan can prove that,
 * and none has to.
 *
 *   console daemon ──socketpair (SOCK_SEQPACKET)── keeper ── program ── …
 *
 * The keeper obeys orders by that socket alone. When the console daemon dies (end of file there) it runs the
 * whole close (SIGHUP, SIGTERM, SIGKILL) by itself and leaves; when the program and all descendants are gone it
 * says so and leaves.
 *
 * Signals go to processes, never to numbers: each is opened as a pidfd, then checked to be a descendant still, then
 * signalled. SIGKILL stops everything first, until a scan finds nothing that runs, so that a fork bomb cannot
 * outrun it.
 *
 * Blocking   keeper_spawn() forks and returns; what follows arrives as reports on `sock`, which is non-blocking.
 * Memory     The keeper never allocates. It shares the console daemon's pages until one of them writes, and gives its
 *            part of the heap back once the program runs (shed.h).
 */
#ifndef CONSOLES_KEEPER_H
#define CONSOLES_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Which step of a start failed. */
enum keeper_step {
	STEP_NONE,
	STEP_FORK,
	STEP_TERMINAL, /* session, controlling terminal, standard streams */
	STEP_CWD,
	STEP_EXEC,
	STEP_OTHER, /* limits, signals, oom score */
};

/* All of it is complete before the fork: between fork and exec only what signal-safety(7) lists is called. */
struct keeper_spec {
	const char *path;        /* what to execute, resolved by the caller */
	const char *const *argv; /* NULL-terminated */
	const char *const *envp; /* exactly this */
	const char *cwd;         /* absolute */
	int tty; /* the pty's slave: becomes the controlling terminal and 0, 1, 2; -1: use the three below */
	int in, out, err;
	const char *label; /* shown as the keeper's name in ps */
};

struct keeper {
	pid_t pid; /* of the keeper, a child of the caller: who reaps it by this pid */
	int sock;  /* reports and orders */
};

enum keeper_report_kind {
	REPORT_STARTED = 1, /* pid, start_time: the program's, it has been exec'ed */
	REPORT_FAILED,      /* step, error: it never was; EMPTY follows at once */
	REPORT_EXITED,    /* pid, status as waitpid(2) gives it; left, procs: descendants that remain (some of them) */
	REPORT_EMPTY,     /* no descendant is left, proven; the keeper is leaving */
	REPORT_SIGNALLED, /* answer to an order: left = processes that got the signal; survivors are in procs */
};

#define KEEPER_MAX_PROCS 16
struct keeper_proc {
	int32_t pid;
	char comm[16];
};

/* One packet. */
struct keeper_report {
	uint32_t kind;
	int32_t pid;
	int32_t status;
	int32_t step, error;
	uint32_t order; /* the order's number that this answers */
	uint32_t left;
	uint32_t nprocs;
	uint64_t start_time; /* field 22 of the program's stat, read before anybody could reap it */
	struct keeper_proc procs[KEEPER_MAX_PROCS];
};

enum keeper_order_kind {
	ORDER_SIGNAL_ALL = 1, /* every descendant: `signal`, then SIGCONT where `cont` */
	ORDER_SIGNAL_GROUP,   /* the descendants whose process group is `group` */
	ORDER_LIST,           /* count and name descendants, no signal */
};
struct keeper_order {
	uint32_t kind;
	uint32_t order; /* number, given back in the report */
	int32_t signal;
	int32_t group;
	uint32_t cont;
};

/* Forks the keeper, which starts the program. 0 and *out, or -errno (fork or socketpair failed: nothing is left
 * behind). The caller's descriptors in spec stay the caller's: keep the tty's slave open until STARTED or FAILED. */
int keeper_spawn(const struct keeper_spec *spec, struct keeper *out);

/* Sends an order. 0 or -errno (-EPIPE: the keeper is gone). */
int keeper_order(const struct keeper *k, const struct keeper_order *o);

/* Takes one report. 1; 0: none now; -ECONNRESET: the keeper is gone. */
int keeper_report(const struct keeper *k, struct keeper_report *out);

#endif
