/*
 * writer.h - the thread that writes: one transaction after another, each caller waiting until its own is on the disk.
 *
 * What queued up while a transaction was synced goes into the next one together (one fsync for all of them), each in a
 * savepoint of its own, so that one caller's refusal takes nothing from the others.
 *
 * Full       At most WRITER_QUEUE jobs wait; the next caller is held until there is room. Jobs live on their callers'
 *            stacks, so the queue needs no memory and cannot fail.
 * Epoch      A fenced job first compares its epoch with the lease's inside its own transaction: -ESTALE, nothing
 *            written.
 */
#ifndef LEDGER_WRITER_H
#define LEDGER_WRITER_H

#include <sqlite3.h>
#include <stdint.h>

#define WRITER_QUEUE 256
#define WRITER_BATCH 64 /* jobs of one transaction */

struct writer;

/* 0 or -errno; only then is anything committed. May be run twice for one call (a batch that failed as a whole is run
 * again job by job), so it changes nothing but the database, and results that the second run sets again. */
typedef int write_fn(sqlite3 *db, void *arg);

/* Takes db over on success. */
int writer_start(sqlite3 *db, struct writer **out);

/* Waits until it is durable. What run answered, -ESTALE, or the commit's own error. */
int writer_do(struct writer *w, uint64_t epoch, write_fn *run, void *arg);
int writer_do_unfenced(struct writer *w, write_fn *run, void *arg); /* for taking the lease, and nothing else */

void writer_stop(struct writer *w); /* waits for jobs in hand, closes db; accepts NULL */

#endif
