/*
 * paths.c - where things are on this machine.
 *
 * A user's home is $HOME and nothing else: to ask the name service would need dynamic linking and may wait for a
 * network.
 */
#include "wire/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/fd.h"

#define ROOT_RUNTIME_DIR "/run/ringside"
#define ROOT_STATE_DIR   "/var/lib/ringside"

/* The variable's directory; NULL where unset or empty, which mean the same (XDG Base Directory Specification). */
static int variable(const char *name, const char **out)
{
	const char *value = getenv(name);

	if (value != NULL && value[0] == '\0')
		value = NULL;
	if (value != NULL && value[0] != '/')
		return -EINVAL;
	*out = value;
	return 0;
}

static int join(char out[PATH_MAX], const char *base, const char *rest)
{
	int n = snprintf(out, PATH_MAX, "%s%s", base, rest);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int state_of_user(char out[PATH_MAX])
{
	const char *dir = NULL;
	int r = variable("XDG_STATE_HOME", &dir);

	if (r < 0)
		return r;
	if (dir != NULL)
		return join(out, dir, "/ringside");
	r = variable("HOME", &dir);
	if (r < 0)
		return r;
	return dir != NULL ? join(out, dir, "/.local/state/ringside") : -ENOENT;
}

static int runtime_of_user(char out[PATH_MAX], const char *state)
{
	const char *dir = NULL;
	int r = variable("XDG_RUNTIME_DIR", &dir);

	if (r < 0)
		return r;
	return dir != NULL ? join(out, dir, "/ringside") : join(out, state, "/run");
}

int paths_find(struct paths *out)
{
	struct paths p = { "", "" };
	const char *home = NULL;
	int r = variable("RINGSIDE_HOME", &home);

	if (r < 0)
		return r;
	if (home != NULL) {
		r = join(p.runtime_dir, home, "/run");
		if (r == 0)
			r = join(p.state_dir, home, "/state");
	} else if (geteuid() == 0) {
		r = join(p.runtime_dir, ROOT_RUNTIME_DIR, "");
		if (r == 0)
			r = join(p.state_dir, ROOT_STATE_DIR, "");
	} else {
		r = state_of_user(p.state_dir);
		if (r == 0)
			r = runtime_of_user(p.runtime_dir, p.state_dir);
	}
	if (r == 0)
		*out = p;
	return r;
}

/* Opens parent/name, made 0700 if it is missing. */
static int enter(int parent, const char *name, int flags)
{
	int fd = openat(parent, name, O_DIRECTORY | O_CLOEXEC | flags);

	if (fd < 0 && errno == ENOENT) {
		/* EEXIST: somebody was faster. */
		if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(parent, name, O_DIRECTORY | O_CLOEXEC | flags);
	}
	return fd < 0 ? -errno : fd;
}

/* Ours alone: owned by this user and not writable by others. Where others may look in, that is taken away. */
static int make_private(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return -EPERM;
	if ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700) < 0)
		return -errno;
	return 0;
}

int paths_make_private_dir(const char *dir)
{
	char path[PATH_MAX];
	size_t n = strlen(dir);
	int fd, r;

	while (n > 1 && dir[n - 1] == '/')
		n--;
	if (dir[0] != '/' || n == 1)
		return -EINVAL;
	if (n >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, dir, n);
	path[n] = '\0';

	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (char *save = NULL, *name = strtok_r(path, "/", &save); name != NULL && fd >= 0;) {
		char *after = strtok_r(NULL, "/", &save);
		/* Parents may be links, as /var/run is, and need not be readable. The last one may not: whoever could
		 * put a link there would choose which of this user's directories is written to. */
		int next = enter(fd, name, after == NULL ? O_RDONLY | O_NOFOLLOW : O_PATH);

		fd_close(&fd);
		fd = next;
		name = after;
	}
	if (fd < 0)
		return fd;
	r = make_private(fd);
	if (r < 0)
		fd_close(&fd);
	return r < 0 ? r : fd;
}
