/*
 * custody.h - a console's output and marks in a file, kept for when the memory that held them is gone.
 *
 *   STATE/sandboxes/ID/custody/NAME.ring:  header | marks | bytes
 *
 * Durable    Written beside the old one, synced, renamed over it, and the directory synced: a crash at any point leaves
 *            the old file or the new one, whole.
 * Trust      Nothing in a file is believed: owner, type, lengths, names and both checksums are checked, and a file that
 *            fails one is refused (-EUCLEAN), never repaired and never partly served. The rings it is written from
 *            belong to a sandbox: they come through ring_open(), and whatever their writer does, what is kept is one
 *            contiguous range.
 * Blocking   Every call here waits for the disk: on a job's thread only. One console's calls run one after another.
 * Errors     0 or a negative errno: -ENOENT (no such file), -EUCLEAN, -ENOSPC, …, and ring_open()'s (-EPERM, -EPROTO).
 */
#ifndef SANDBOXES_CUSTODY_H
#define SANDBOXES_CUSTODY_H

#include <stdint.h>

/* What is written with the bytes, and read back. */
struct custody_entry {
	uint32_t incarnation;
	uint32_t state;      /* enum console_state, when it was written */
	uint64_t head, tail; /* [head, tail) is in the file */
	uint64_t capacity;   /* of the ring */
	uint64_t written_at_ms;
};

/* Which file: dir is made (0700) by custody_write() when it is missing; its parent exists. */
struct custody_place {
	const char *dir;
	const char *sandbox_id;
	const char *console;
};

/* Keeps what both rings retain at this moment. The descriptors stay the caller's. In: incarnation and state of *entry;
 * the rest is filled in. */
int custody_write(const struct custody_place *place, int bytes_fd, int marks_fd, struct custody_entry *entry);

/* The header alone. */
int custody_peek(const struct custody_place *place, struct custody_entry *out);

/* Makes a sealed ring and its marks out of the file. The descriptors are the caller's. */
int custody_read(const struct custody_place *place, struct custody_entry *out, int *bytes_fd, int *marks_fd);

int custody_drop(const struct custody_place *place); /* also when it is not there */
int custody_drop_all(const char *dir);               /* the directory too; only files that custody makes are removed */

#endif
