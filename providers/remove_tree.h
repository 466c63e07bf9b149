/*
 * remove_tree.h - removing a directory that strangers' programs have filled.
 *
 * Follows no link and enters no mount point (a mounted file system's content is not ours to delete: it stays, and is
 * the error). Directories without rights for their owner are given them. A tree of any depth takes a bounded number of
 * descriptors: what lies too deep is first moved up to the top.
 */
#ifndef PROVIDERS_REMOVE_TREE_H
#define PROVIDERS_REMOVE_TREE_H

#include <stddef.h>
#include <stdint.h>

/* What stood in the way, for people: a path below the directory, cut where it is too long. */
struct remove_error {
	char path[256];
};

/* Removes everything in the directory dirfd but the entry `keep` (NULL: nothing is kept). 0 (also when there was
 * nothing), -EXDEV (a mount point), -EBUSY (something is being put in all the while), -ETIMEDOUT at deadline_ms
 * (clock_mono_ms()), -errno. */
int remove_contents(int dirfd, const char *keep, uint64_t deadline_ms, struct remove_error *why);

/* The same with the directory itself. 0 also where there is none; -ENOTDIR: something else has the name. */
int remove_tree_at(int parent, const char *name, uint64_t deadline_ms, struct remove_error *why);

#endif
