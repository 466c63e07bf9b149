/*
 * daemon.h - the console daemon of one host sandbox: reached, started where it is not running, ended.
 */
#ifndef PROVIDERS_HOST_DAEMON_H
#define PROVIDERS_HOST_DAEMON_H

#include "providers/host/folder.h"
#include "providers/sandbox.h"

/* How long a start may take until the daemon listens: it has nothing to do before that, so this is for a machine that
 * swaps. */
#define DAEMON_START_MS 10000
/* How long one that is alive may not take a connection before the call gives up. It is not ended for that: it holds
 * terminals. */
#define DAEMON_BUSY_MS 2000

/* What the daemon of a sandbox is started and found with. */
struct host_daemon_of {
	const struct adapter_env *env;
	const struct sandbox_context *ctx;
	const char *id;
	int folder; /* -1: there is none any more */
	struct sandbox_error *err;
};

/* The recorded daemon where it lives and answers; else what is left of it is ended and a new one started. */
enum result host_daemon_connect(const struct host_daemon_of *d, const struct folder_record *record, int *out_fd);

/* Whether the recorded daemon runs. Another result than RESULT_OK: it cannot be told. */
enum result host_daemon_lives(const struct host_daemon_of *d, bool *lives);

/* Ends the recorded daemon and all its consoles: asked to, or killed. RESULT_OK: proven gone, or there was none. */
enum result host_daemon_stop(const struct host_daemon_of *d);

#endif
