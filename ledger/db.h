/*
 * db.h - SQLite behind a few calls: connections as the ledger wants them, statements whose errors stick, errno for
 * codes.
 *
 * Nothing outside this folder sees sqlite3.h. A connection belongs to one thread, or to who holds its mutex: they are
 * opened without SQLite's own locking.
 */
#ifndef LEDGER_DB_H
#define LEDGER_DB_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* How long one process waits for another that is writing (a takeover beside a stalled holder) before -EBUSY. */
#define DB_BUSY_MS 10000
/* The longest text or blob of a row, bytes: far over any envelope, so that a fault cannot fill the disk in one row. */
#define DB_MAX_VALUE (1 << 20)

/* Opens an existing file for reading and writing. It makes nothing, and closing it leaves the main file as it is until
 * db_allow_checkpoint(). */
int db_open(const char *path, sqlite3 **out);
int db_allow_checkpoint(sqlite3 *db);
void db_close(sqlite3 *db); /* accepts NULL */

/* Runs statements that give no rows anyone wants. 0 or -errno. */
int db_exec(sqlite3 *db, const char *sql);

/* The errno of a failed call on db, which may be NULL. A full disk, quota or file size limit is -ENOSPC. */
int db_errno(sqlite3 *db, int rc);

/*
 * One statement. The first error sticks, the calls after it do nothing, and query_end() or query_run() tells it. Bound
 * bytes are borrowed until then. Parameters are bound in the order of the calls.
 */
struct query {
	sqlite3 *db;
	sqlite3_stmt *stmt;
	int bound;
	int error;
};
void query_begin(struct query *q, sqlite3 *db, const char *sql);
void query_text(struct query *q, const char *text); /* NULL: SQL's NULL */
void query_u64(struct query *q, uint64_t v);        /* over INT64_MAX: -EOVERFLOW, since SQLite's integers are signed */
void query_u64_or_null(struct query *q, uint64_t v); /* 0: SQL's NULL */
void query_blob(struct query *q, const void *bytes, size_t n);
int query_row(struct query *q); /* 1: a row to look at, 0: no more, or -errno */
int query_end(struct query *q); /* 0 or the error that stuck */
int query_run(struct query *q); /* for statements without rows: runs and ends */

/* Columns of the current row. Text is never NULL, and good until the next query_row(). */
const char *row_text(const struct query *q, int column);
uint64_t row_u64(const struct query *q, int column); /* NULL: 0 */

#endif
