/*
 * paths.h - where things are on this machine.
 *
 *             RINGSIDE_HOME=DIR   root                 a user
 *   runtime   DIR/run             /run/ringside        $XDG_RUNTIME_DIR/ringside (without it: state/run)
 *   state     DIR/state           /var/lib/ringside    $XDG_STATE_HOME/ringside, or ~/.local/state/ringside
 *
 * The control socket is runtime/control.sock, the daemon's lock runtime/control.lock; the ledger is state/ledger.db,
 * sandboxes live below state/sandboxes/ID.
 */
#ifndef WIRE_PATHS_H
#define WIRE_PATHS_H

#include <limits.h>

struct paths {
	char runtime_dir[PATH_MAX];
	char state_dir[PATH_MAX];
};

/* Works the paths out; creates nothing. -EINVAL: a variable holds a relative path; -ENAMETOOLONG; -ENOENT: no home. */
int paths_find(struct paths *out);

/* Makes dir and its parents, the last one 0700 and owned by this user; checks both when it exists, and takes from
 * others the right to look in. An open O_PATH-free directory descriptor (O_DIRECTORY|O_CLOEXEC), or -errno (-EPERM:
 * another's directory, or writable by others; -ENOTDIR: something else, or a link; -EINVAL: not an absolute path below
 * the root). */
int paths_make_private_dir(const char *dir);

#endif
