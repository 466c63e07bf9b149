/*
 * sock.h - unix stream sockets by directory and name, so that no path is too long; the lock beside them.
 *
 * All descriptors are close-on-exec and non-blocking. In a folder that a sandbox can write, a socket is opened
 * O_PATH|O_NOFOLLOW, checked to be a socket, and connected through /proc/self/fd.
 */
#ifndef WIRE_SOCK_H
#define WIRE_SOCK_H

#include <sys/types.h>

/* Binds dirfd/name, mode 0600, without listening: whoever calls listen(2) is the peer that SO_PEERCRED names. A stale
 * socket at the name is replaced; one that somebody listens on is not: -EADDRINUSE; anything else is left alone:
 * -EEXIST. Call it holding the lock of that directory. */
int sock_bind_at(int dirfd, const char *name);

/* Connects to dirfd/name. -ENOENT, -ECONNREFUSED (nobody listens), -ENOTSOCK (something else is there), -ELOOP (a
 * link), -EAGAIN (the listener's backlog is full right now). */
int sock_connect_at(int dirfd, const char *name);

int sock_pair(int out[2]);

/* The peer as it was at connect or listen. */
int sock_peer(int fd, pid_t *pid, uid_t *uid, gid_t *gid);

/* Takes the exclusive flock of dirfd/name, made if missing, without waiting. The descriptor holds the lock;
 * -EWOULDBLOCK: another process has it, whose pid is in *holder (0: not known). The holder's pid is written into the
 * file. A forked child that keeps the descriptor keeps the lock. */
int sock_lock_at(int dirfd, const char *name, pid_t *holder);

#endif
