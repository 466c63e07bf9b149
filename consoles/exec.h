/*
 * exec.h - one command with separate streams, tied to the connection that asked for it.
 *
 * The connection carries DATA frames: stdin on CHANNEL_INPUT (an empty one is end of file), stdout and stderr on
 * theirs, and last one ExecResult message, after which this side closes. Output is read only while the connection takes
 * it, stdin only while the program takes it: the sockets' own back-pressure is the flow control, nothing is truncated
 * or held whole.
 *
 * Ends when the program has exited and both streams have ended; where something left behind holds a stream, 2 s after
 * the exit, with held. What is left behind stays under its keeper until the connection or the daemon ends it. A hang-up
 * of the peer ends everything of its keeper (SIGKILL after the grace); so do the timeout and the idle timeout, which
 * still answer with what was printed before.
 */
#ifndef CONSOLES_EXEC_H
#define CONSOLES_EXEC_H

#include <uv.h>

#include "wire/wire.h"

struct exec;

/* What the daemon knows and the request may leave out. */
struct exec_defaults {
	const char *workspace; /* cwd when none is given; /workspace of a request means this */
	const char *path;      /* where argv[0] is looked up, before the environment is cleared */
	const char *sandbox;   /* for log lines */
};

#define EXEC_HELD_MS 2000

/* From a timeout's SIGHUP to its SIGKILL. */
#define EXEC_LIMIT_GRACE_MS 1000

/*
 * Starts spec on sock (taken over on success). Problems of the request or of the exec itself do not fail the call: they
 * are the ExecResult (bad cwd: exit 126 and a line on stderr; unknown command: 127 and a line; a bad argument:
 * failure). *keeper_pid: for the answer. -EMFILE, -ENOMEM, -EAGAIN: nothing was started.
 */
int exec_start(
        uv_loop_t *loop, const Wire__ExecSpec *spec, int sock, const struct exec_defaults *defaults, pid_t *keeper_pid);

/* Ends every exec; done when none is left (called from inside where there is none). For the daemon's own end. Who is
 * still connected gets its result, as far as its socket takes it at once. */
void exec_end_all(uint64_t grace_ms, void (*done)(void *ctx), void *ctx);
unsigned exec_count(void);

#endif
