/*
 * remove_tree.c - see remove_tree.h. Source: openat2(2), unlinkat(2).
 */
#include "providers/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/clock.h"
#include "wire/fd.h"

#define MAX_DEPTH   32  /* directories open at once; below that, subtrees are moved to the top */
#define MAX_REFILLS 100 /* how often a directory may turn out not to be empty after it was emptied */

struct removal {
	int top;
	const char *keep;
	uint64_t deadline_ms;
	unsigned moved; /* number of the next subtree that is moved up */
	struct remove_error *why;
};

static int blame(struct removal *w, const char *name, int r)
{
	if (!*w->why->path)
		snprintf(w->why->path, sizeof(w->why->path), "%s", name);
	return r;
}

static int open_beneath(int dirfd, const char *name, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	int fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* Gives the owner its rights back: through /proc, since a mode cannot be set on an O_PATH descriptor itself. */
static int make_accessible(int dirfd, const char *name)
{
	char path[64];
	int fd = open_beneath(dirfd, name, O_PATH);

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int r = chmod(path, 0700) < 0 ? -errno : 0;
	fd_close(&fd);
	return r;
}

/* A directory from which entries can be taken. */
static int open_for_removal(int dirfd, const char *name)
{
	struct stat st;

	int fd = open_beneath(dirfd, name, O_RDONLY);
	if (fd == -EACCES) {
		int r = make_accessible(dirfd, name);
		if (r < 0)
			return r;
		fd = open_beneath(dirfd, name, O_RDONLY);
	}
	if (fd < 0)
		return fd;
	/* Where this fails, removing what is inside fails and says so. */
	if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU)
		(void)fchmod(fd, 0700);
	return fd;
}

/* From too deep to the top, under a name that is free. The next round at the top finds it. */
static int move_up(struct removal *w, int dirfd, const char *name)
{
	bool given = false;
	char to[32];

	for (;;) {
		snprintf(to, sizeof(to), ".deep-%u", w->moved++);
		if (renameat2(dirfd, name, w->top, to, RENAME_NOREPLACE) == 0)
			return 0;
		int r = -errno;
		if (r == -EACCES && !given) { /* to move a directory its ".." is written */
			given = true;
			r = make_accessible(dirfd, name);
		}
		if (r < 0 && r != -EEXIST)
			return r;
	}
}

static int empty_directory(struct removal *w, int fd, unsigned depth);

/* Empties and removes dirfd/name. Somebody may be filling it at the same time: a few times, and then it is busy. */
static int remove_directory(struct removal *w, int dirfd, const char *name, unsigned depth)
{
	for (int refills = 0; refills < MAX_REFILLS; refills++) {
		int fd = open_for_removal(dirfd, name);
		if (fd == -ENOENT)
			return 0;
		if (fd < 0)
			return fd;
		int r = empty_directory(w, fd, depth);
		if (r < 0)
			return r;
		if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
	}
	return -EBUSY;
}

static int remove_entry(struct removal *w, int dirfd, const char *name, unsigned depth)
{
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	if (depth >= MAX_DEPTH)
		return move_up(w, dirfd, name);
	return remove_directory(w, dirfd, name, depth + 1);
}

static bool is_kept(const struct removal *w, const char *name, unsigned depth)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	       (depth == 0 && w->keep && strcmp(name, w->keep) == 0);
}

/* One pass over an open directory. *met: there was something to take away. */
static int one_pass(struct removal *w, DIR *dir, unsigned depth, bool *met)
{
	struct dirent *entry;

	*met = false;
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		if (is_kept(w, entry->d_name, depth))
			continue;
		if (clock_mono_ms() >= w->deadline_ms)
			return blame(w, entry->d_name, -ETIMEDOUT);
		*met = true;
		int r = remove_entry(w, dirfd(dir), entry->d_name, depth);
		if (r < 0)
			return blame(w, entry->d_name, r);
	}
	return -errno;
}

/* Takes fd over. Passes until one meets nothing: what was there during all of one is then gone. */
static int empty_directory(struct removal *w, int fd, unsigned depth)
{
	bool met = true;
	int r = 0;

	DIR *dir = fdopendir(fd);
	if (!dir) {
		r = -errno;
		fd_close(&fd);
		return r;
	}
	while (r == 0 && met) {
		rewinddir(dir);
		r = one_pass(w, dir, depth, &met);
	}
	closedir(dir);
	return r;
}

int remove_contents(int dirfd, const char *keep, uint64_t deadline_ms, struct remove_error *why)
{
	struct removal w = { .top = dirfd, .keep = keep, .deadline_ms = deadline_ms, .why = why };

	why->path[0] = '\0';
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return empty_directory(&w, fd, 0);
}

int remove_tree_at(int parent, const char *name, uint64_t deadline_ms, struct remove_error *why)
{
	why->path[0] = '\0';
	int fd = open_for_removal(parent, name);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	int r = remove_contents(fd, NULL, deadline_ms, why);
	fd_close(&fd);
	if (r == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = errno == ENOTEMPTY || errno == EEXIST ? -EBUSY : -errno;
	return r;
}
