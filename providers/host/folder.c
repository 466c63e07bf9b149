/*
 * folder.c - see folder.h and host.h.
 *
 * A folder gets its id by rename, with its record inside: one with that name is always whole. It loses it by rename,
 * too, once nothing but the record is left: so neither half of a life can be taken for the other after a crash.
 */
#include "providers/host/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "providers/crashpoint.h"
#include "wire/fd.h"
#include "wire/paths.h"

#define RECORD       "record"
#define RECORD_FIRST "ringside host sandbox 1\n"
#define RECORD_MAX   (PATH_MAX + 1024)
#define NEW_PREFIX   ".new-"
#define GONE_PREFIX  ".gone-"

static int sync_fd(int fd)
{
	return fsync(fd) < 0 ? -errno : 0;
}

static int open_directory(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int folders_make(const char *state_dir)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/sandboxes", state_dir) >= sizeof(path))
		return -ENAMETOOLONG;
	int fd = paths_make_private_dir(path);
	if (fd < 0)
		return fd;
	int state = open_directory(fd, "..");
	int r = state < 0 ? state
	                  : sync_fd(state); /* its own name must survive a power cut before a ledger row says live */
	fd_close(&state);
	if (r < 0)
		fd_close(&fd);
	return r < 0 ? r : fd;
}

int folders_open(const char *state_dir)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/sandboxes", state_dir) >= sizeof(path))
		return -ENAMETOOLONG;
	return open_directory(AT_FDCWD, path);
}

/* ".new-" and the key, in which the one character that a name cannot have is written otherwise. */
static int new_name(const char *operation_key, char out[NAME_MAX + 1])
{
	size_t n = sizeof(NEW_PREFIX) - 1;

	memcpy(out, NEW_PREFIX, n);
	for (const char *p = operation_key; *p; p++) {
		bool escape = *p == '/' || *p == '%';

		if (n + 3 > NAME_MAX)
			return -ENAMETOOLONG;
		if (escape)
			n += (size_t)snprintf(out + n, 4, "%%%02X", (unsigned)(unsigned char)*p);
		else
			out[n++] = *p;
	}
	out[n] = '\0';
	return 0;
}

static void gone_name(const char *id, char out[NAME_MAX + 1])
{
	snprintf(out, NAME_MAX + 1, GONE_PREFIX "%s", id);
}

/* ---- The record ---- */

static int write_record(int folder, const struct folder_record *r)
{
	char text[RECORD_MAX];

	int n = snprintf(text, sizeof(text), RECORD_FIRST "operation_key=%s\nname=%s\ndirectory=%s\n", r->operation_key,
	        r->name, r->directory);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -ENAMETOOLONG;
	int fd = openat(folder, RECORD, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int failed = fd_write_all(fd, text, (size_t)n);
	if (failed == 0)
		failed = sync_fd(fd);
	fd_close(&fd);
	return failed;
}

/* Takes the line "KEY=value\n" off *p. */
static bool take_line(char **p, const char *key, char *out, size_t size)
{
	size_t k = strlen(key);
	char *end = strchr(*p, '\n');

	if (!end || strncmp(*p, key, k) != 0)
		return false;
	size_t n = (size_t)(end - *p) - k;
	if (n >= size)
		return false;
	memcpy(out, *p + k, n);
	out[n] = '\0';
	*p = end + 1;
	return true;
}

int folder_read(int folder, struct folder_record *out)
{
	char text[RECORD_MAX];
	struct folder_record r;

	int fd = openat(folder, RECORD, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	int failed = n < 0 ? -errno : 0;
	fd_close(&fd);
	if (failed)
		return failed;
	text[n] = '\0';
	if (strncmp(text, RECORD_FIRST, sizeof(RECORD_FIRST) - 1) != 0)
		return -EINVAL;
	char *p = text + sizeof(RECORD_FIRST) - 1;
	if (!take_line(&p, "operation_key=", r.operation_key, sizeof(r.operation_key)) ||
	        !take_line(&p, "name=", r.name, sizeof(r.name)) ||
	        !take_line(&p, "directory=", r.directory, sizeof(r.directory)))
		return -EINVAL;
	*out = r;
	return 0;
}

/* ---- Creation ---- */

static int fill(int folder, const struct folder_record *record)
{
	if (!*record->directory && mkdirat(folder, "workspace", 0700) < 0)
		return -errno;
	CRASH_POINT("host.create.after_workspace");
	int r = write_record(folder, record);
	if (r < 0)
		return r;
	CRASH_POINT("host.create.after_record");
	return sync_fd(folder);
}

int folder_prepare(int folders, const struct folder_record *record)
{
	char name[NAME_MAX + 1];
	struct remove_error why;

	int r = new_name(record->operation_key, name);
	if (r == 0)
		r = folder_discard(folders, record->operation_key, &why);
	if (r < 0)
		return r;
	if (mkdirat(folders, name, 0700) < 0)
		return -errno;
	CRASH_POINT("host.create.after_mkdir");
	int folder = open_directory(folders, name);
	r = folder < 0 ? folder : fill(folder, record);
	fd_close(&folder);
	return r;
}

static int is_of_key(int folders, const char *id, const char *operation_key)
{
	struct folder_record record;

	int folder = folder_open(folders, id);
	if (folder < 0)
		return folder;
	int r = folder_read(folder, &record);
	fd_close(&folder);
	return r < 0 ? r : strcmp(record.operation_key, operation_key) == 0;
}

int folder_publish(int folders, const char *operation_key, const char *id)
{
	char name[NAME_MAX + 1];
	struct remove_error why;

	int r = new_name(operation_key, name);
	if (r < 0)
		return r;
	/* A folder is never empty, so a rename onto another one fails. */
	if (renameat(folders, name, folders, id) == 0) {
		CRASH_POINT("host.create.after_rename");
		return sync_fd(folders);
	}
	if (errno != EEXIST && errno != ENOTEMPTY)
		return -errno;
	if (is_of_key(folders, id, operation_key) != 1)
		return -EEXIST;
	/* This creation had come that far once before. */
	r = folder_discard(folders, operation_key, &why);
	return r < 0 ? r : sync_fd(folders);
}

int folder_discard(int folders, const char *operation_key, struct remove_error *why)
{
	char name[NAME_MAX + 1];

	int r = new_name(operation_key, name);
	return r < 0 ? r : remove_tree_at(folders, name, UINT64_MAX, why);
}

/* ---- Finding ---- */

int folder_open(int folders, const char *id)
{
	return open_directory(folders, id);
}

static int has_record(int folders, const char *name)
{
	struct folder_record record;

	int folder = open_directory(folders, name);
	if (folder == -ENOENT)
		return 0;
	if (folder < 0)
		return folder;
	int r = folder_read(folder, &record);
	fd_close(&folder);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

int folder_exists(int folders, const char *id)
{
	char gone[NAME_MAX + 1];
	struct stat st;

	int r = has_record(folders, id);
	if (r != 0)
		return r;
	gone_name(id, gone);
	if (fstatat(folders, gone, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

/* The id in a folder's name, or NULL: not the name of a sandbox, whole or half-closed. */
static const char *id_of(const char *entry)
{
	size_t n = sizeof(GONE_PREFIX) - 1;
	const char *id = strncmp(entry, GONE_PREFIX, n) == 0 ? entry + n : entry;

	return name_valid(id) && strlen(id) < SANDBOX_ID_BYTES ? id : NULL;
}

/* 1: it has that key; 0: it has not. A half-closed one that has lost its record is only waiting to be removed. */
static int look_at(int folders, const char *entry, const char *operation_key)
{
	struct folder_record record;

	int folder = open_directory(folders, entry);
	if (folder < 0)
		return folder == -ENOENT || folder == -ENOTDIR || folder == -ELOOP ? 0 : folder;
	int r = folder_read(folder, &record);
	fd_close(&folder);
	if (r == 0)
		return strcmp(record.operation_key, operation_key) == 0;
	if (r == -ENOENT && entry[0] == '.')
		(void)unlinkat(folders, entry, AT_REMOVEDIR);
	return r == -ENOENT ? 0 : r;
}

int folder_find(int folders, const char *operation_key, char id[SANDBOX_ID_BYTES])
{
	const struct dirent *entry;
	int r = 0;

	int fd = open_directory(folders, ".");
	if (fd < 0)
		return fd;
	DIR *dir = fdopendir(fd);
	if (!dir) {
		r = -errno;
		fd_close(&fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		const char *found = id_of(entry->d_name);

		r = found ? look_at(folders, entry->d_name, operation_key) : 0;
		if (r == 1)
			memcpy(id, found, strlen(found) + 1); /* short enough: id_of() */
	}
	if (r == 0)
		r = -errno;
	closedir(dir);
	return r;
}

/* ---- Removal ---- */

static int remove_gone(int folders, const char *id, uint64_t deadline_ms, struct remove_error *why)
{
	char gone[NAME_MAX + 1];

	gone_name(id, gone);
	int folder = open_directory(folders, gone);
	if (folder == -ENOENT)
		return 0;
	if (folder < 0)
		return folder;
	/* The record last, so that the key finds it until there is nothing more to find. */
	int r = remove_contents(folder, RECORD, deadline_ms, why);
	if (r == 0 && unlinkat(folder, RECORD, 0) < 0 && errno != ENOENT)
		r = -errno;
	fd_close(&folder);
	CRASH_POINT("host.close.after_record");
	if (r == 0)
		r = remove_tree_at(folders, gone, deadline_ms, why);
	return r < 0 ? r : sync_fd(folders);
}

static int hide(int folders, const char *id)
{
	char gone[NAME_MAX + 1];

	gone_name(id, gone);
	if (renameat(folders, id, folders, gone) < 0)
		return -errno;
	CRASH_POINT("host.close.after_rename");
	return sync_fd(folders);
}

int folder_remove(int folders, const char *id, uint64_t deadline_ms, struct remove_error *why)
{
	why->path[0] = '\0';
	int r = remove_gone(folders, id, deadline_ms, why);
	if (r < 0)
		return r;
	int folder = folder_open(folders, id);
	if (folder == -ENOENT)
		return 0;
	if (folder < 0)
		return folder;
	r = remove_contents(folder, RECORD, deadline_ms, why);
	fd_close(&folder);
	CRASH_POINT("host.close.after_contents");
	if (r == 0)
		r = hide(folders, id);
	return r < 0 ? r : remove_gone(folders, id, deadline_ms, why);
}
