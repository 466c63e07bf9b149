/*
 * spawn_consoled.h - starting a console daemon on this kernel so that no crash can leave one that nobody knows.
 *
 * Record before serve. A started console daemon waits on its commit descriptor and does nothing: it listens to nobody,
 * starts nothing. Its starter writes down durably who it is (pid, start time, boot), and only then sends the one byte
 * that lets it serve. Wherever the starter dies:
 *
 *   before the record     the console daemon reads end of file and leaves: nothing was ever served
 *   after the record      the same, and the record names a process that has ended, which instance_open() proves
 *   after the byte        it serves, and the record says who it is: whoever comes next reaches it, or ends it
 *
 * The order is therefore consoled_spawn(), record, consoled_commit(), consoled_await(). The other order, to serve first
 * and record then, leaves a daemon with a user's terminals in it that no later start can find.
 *
 * What the console daemon inherits: 0 and 1 /dev/null, 2 its log, 3 its socket (bound, not yet listening: it calls
 * listen(2) itself, so that the peer credentials of a connection show its pid), 4 the commit descriptor. An empty
 * environment, a session of its own, "/" as directory, default signals. It is nobody's child for long: an intermediate
 * process leaves at once, so no daemon has to reap it, and none of its deaths leaves a zombie with us.
 *
 * Blocking   All calls wait, up to the deadlines given. They may be called from any thread of a threaded process.
 */
#ifndef PROVIDERS_SPAWN_CONSOLED_H
#define PROVIDERS_SPAWN_CONSOLED_H

#include <stddef.h>
#include <stdint.h>

#include "providers/instance.h"

struct consoled_spec {
	const char *program; /* path of ringside-consoled */
	const char *label;   /* of its log lines */
	const char *workspace, *home, *user, *shell, *path;
	int listen_fd; /* bound; stays the caller's */
	int log_fd;    /* stays the caller's */
};

/* A started console daemon, until consoled_release() or consoled_abandon(). */
struct consoled {
	struct instance instance;
	int pidfd;
	int commit_fd;
};

#define CONSOLED_NONE                        \
	{                                    \
		.pidfd = -1, .commit_fd = -1 \
	}

/* 0 and *out: it has been exec'ed and waits for its byte. -errno: nothing is left; why: which step failed. */
int consoled_spawn(const struct consoled_spec *spec, struct consoled *out, char *why, size_t why_size);

/* Lets it serve. 0, or -EPIPE: it has ended. */
int consoled_commit(struct consoled *c);

/* Waits until it listens at dirfd/socket and connects: *fd is the caller's, its peer is checked to be this process.
 * -ETIMEDOUT; -ESRCH: it has ended; -errno. */
int consoled_await(struct consoled *c, int dirfd, const char *socket, uint64_t deadline_ms, int *fd);

/* One try of the same for a recorded one, of which the caller has a pidfd. -ECONNREFUSED, -ENOENT: nobody is there;
 * -EAGAIN: it does not take connections right now; -EBADE: somebody else answers; -ESRCH: it has ended. */
int consoled_reach(const struct instance *i, int pidfd, int dirfd, const char *socket, int *fd);

/* Ends it, with all it may have begun, and waits for that. For failed starts; accepts CONSOLED_NONE. */
void consoled_abandon(struct consoled *c);
/* Lets go of the descriptors; it goes on. */
void consoled_release(struct consoled *c);

#endif
