/*
 * reaper.h - the console daemon's children: keepers, reaped by pid for who waits for them, and strangers, reaped alone.
 *
 * Strangers come to a PID 1 and to a subreaper whose keeper died. Nothing else of the daemon has children, and no libuv
 * process handle is used, which would wait for its own and leave these.
 */
#ifndef CONSOLES_REAPER_H
#define CONSOLES_REAPER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

/* Embedded by who waits. */
struct reaper_child {
	pid_t pid;
	/* It has been reaped, and is no longer in the list. From the loop. The object may be gone after. */
	void (*on_reaped)(struct reaper_child *c, int status);
	struct reaper_child *next;
};

/* Takes SIGCHLD over. Once per daemon. 0 or -errno. */
int reaper_setup(uv_loop_t *loop);

/* Before the loop runs again after the fork, so that its death is not taken for a stranger's. */
void reaper_add(struct reaper_child *c);

/* A child that is waited for, reaped or not told yet. */
bool reaper_knows(pid_t pid);

#endif
