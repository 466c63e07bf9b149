/*
 * db.c - see db.h. Everything about SQLite that is not about the ledger.
 */
#include "ledger/db.h"

#include <errno.h>
#include <stdbool.h>

/* The errno of the last failed write to one of the connection's files; 0: none. which: a file control that finds the
 * file. */
static int last_write_errno(sqlite3 *db, int which)
{
	sqlite3_file *file = NULL;
	int err = 0;

	if (sqlite3_file_control(db, "main", which, &file) != SQLITE_OK || !file || !file->pMethods ||
	        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &err) != SQLITE_OK)
		return 0;
	return err;
}

static bool means_full(int err)
{
	return err == ENOSPC || err == EDQUOT || err == EFBIG;
}

/* SQLite tells a full disk only where write(2) says ENOSPC. A quota and a size limit are full, too; by the time that
 * the error has come up here errno has been through other hands, but the file has kept its own. */
static bool write_found_it_full(sqlite3 *db, int rc)
{
	return db && rc == SQLITE_IOERR_WRITE &&
	       (means_full(last_write_errno(db, SQLITE_FCNTL_JOURNAL_POINTER)) ||
	               means_full(last_write_errno(db, SQLITE_FCNTL_FILE_POINTER)));
}

int db_errno(sqlite3 *db, int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_TOOBIG:
		return -EMSGSIZE;
	case SQLITE_CANTOPEN:
		return db && sqlite3_system_errno(db) ? -sqlite3_system_errno(db) : -EIO;
	case SQLITE_CONSTRAINT:
		switch (rc) {
		case SQLITE_CONSTRAINT_UNIQUE:
		case SQLITE_CONSTRAINT_PRIMARYKEY:
			return -EEXIST;
		case SQLITE_CONSTRAINT_FOREIGNKEY:
			return -ENOENT;
		default:
			return -EINVAL;
		}
	case SQLITE_IOERR:
		if (rc == SQLITE_IOERR_NOMEM)
			return -ENOMEM;
		return write_found_it_full(db, rc) ? -ENOSPC : -EIO;
	default:
		return -EIO;
	}
}

int db_open(const char *path, sqlite3 **out)
{
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(
	        path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_extended_result_codes(db, 1);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db, DB_BUSY_MS);
	if (rc == SQLITE_OK)
		rc = sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (rc != SQLITE_OK) {
		int r = db_errno(db, rc);

		db_close(db);
		return r;
	}
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, DB_MAX_VALUE);
	*out = db;
	return 0;
}

int db_allow_checkpoint(sqlite3 *db)
{
	return db_errno(db, sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL));
}

void db_close(sqlite3 *db)
{
	sqlite3_close_v2(db);
}

int db_exec(sqlite3 *db, const char *sql)
{
	return db_errno(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

void query_begin(struct query *q, sqlite3 *db, const char *sql)
{
	*q = (struct query){ .db = db };
	q->error = db_errno(db, sqlite3_prepare_v2(db, sql, -1, &q->stmt, NULL));
}

static void query_bound(struct query *q, int rc)
{
	if (rc != SQLITE_OK && q->error == 0)
		q->error = db_errno(q->db, rc);
}

void query_text(struct query *q, const char *text)
{
	if (q->error == 0)
		query_bound(q, sqlite3_bind_text(q->stmt, ++q->bound, text, -1, SQLITE_STATIC));
}

void query_u64(struct query *q, uint64_t v)
{
	if (q->error == 0 && v > INT64_MAX)
		q->error = -EOVERFLOW;
	if (q->error == 0)
		query_bound(q, sqlite3_bind_int64(q->stmt, ++q->bound, (sqlite3_int64)v));
}

void query_u64_or_null(struct query *q, uint64_t v)
{
	if (v != 0)
		query_u64(q, v);
	else if (q->error == 0)
		query_bound(q, sqlite3_bind_null(q->stmt, ++q->bound));
}

void query_blob(struct query *q, const void *bytes, size_t n)
{
	/* A NULL pointer would bind SQL's NULL, and no bytes are still bytes. */
	if (q->error == 0)
		query_bound(q, sqlite3_bind_blob64(q->stmt, ++q->bound, bytes ? bytes : "", n, SQLITE_STATIC));
}

int query_row(struct query *q)
{
	if (q->error != 0)
		return q->error;
	int rc = sqlite3_step(q->stmt);
	if (rc == SQLITE_ROW)
		return 1;
	q->error = db_errno(q->db, rc);
	return q->error;
}

int query_end(struct query *q)
{
	sqlite3_finalize(q->stmt);
	q->stmt = NULL;
	return q->error;
}

int query_run(struct query *q)
{
	while (query_row(q) > 0)
		;
	return query_end(q);
}

const char *row_text(const struct query *q, int column)
{
	const unsigned char *text = sqlite3_column_text(q->stmt, column);

	return text ? (const char *)text : "";
}

uint64_t row_u64(const struct query *q, int column)
{
	sqlite3_int64 v = sqlite3_column_int64(q->stmt, column);

	return v < 0 ? 0 : (uint64_t)v;
}
