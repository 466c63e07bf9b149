/*
 * folder.h - a host sandbox on the disk; see host.h for what lies where.
 *
 * Descriptors handed out are directories, close-on-exec, the caller's. Ids and keys were checked by the caller.
 */
#ifndef PROVIDERS_HOST_FOLDER_H
#define PROVIDERS_HOST_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/remove_tree.h"
#include "providers/sandbox.h"
#include "wire/name.h"

struct folder_record {
	char operation_key[SANDBOX_KEY_BYTES];
	char name[NAME_MAX_BYTES + 1]; /* "": none */
	char directory[PATH_MAX];      /* "": workspace/ in the folder */
};

/* STATE/sandboxes, made if missing. */
int folders_make(const char *state_dir);
/* -ENOENT: there is none, so there is no sandbox. */
int folders_open(const char *state_dir);

/* The two steps of a creation: all of it under a name that only its key finds, durable; then the name that it shall
 * have. Either may be done again. -EEXIST: another creation's folder has that id. */
int folder_prepare(int folders, const struct folder_record *record);
int folder_publish(int folders, const char *operation_key, const char *id);
/* Takes back what folder_prepare() made. 0 also where there is nothing. */
int folder_discard(int folders, const char *operation_key, struct remove_error *why);

/* The folder of a sandbox. -ENOENT. */
int folder_open(int folders, const char *id);
/* -ENOENT: not one of this adapter's; -EINVAL: not a record that this version reads. */
int folder_read(int folder, struct folder_record *out);

/* Whether there is anything of it, a half-done close included. 1, 0, -errno. */
int folder_exists(int folders, const char *id);
/* The id of the sandbox with that key. 1, 0 (there is none), -errno (it cannot be told). */
int folder_find(int folders, const char *operation_key, char id[SANDBOX_ID_BYTES]);

/* Removes all of it but a directory of the user's. 0 also where there is nothing. */
int folder_remove(int folders, const char *id, uint64_t deadline_ms, struct remove_error *why);

#endif
