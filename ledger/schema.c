/*
 * schema.c - see schema.h.
 *
 * A new ledger is built in memory, written to PATH.new, synced, and only then linked to its name: a file at PATH is
 * always a whole one, so an empty or strange file there is somebody's mistake and is refused. Which version a file is
 * of stands in user_version; its tables change by `migrations` alone, whose texts are never edited after a release.
 */
#include "ledger/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ledger/db.h"

/* STRICT: a column holds what it says. Text is never NULL, so that a reader needs no second kind of "nothing". */
static const char *const migrations[] = {
	/* 1: lease, resources, sandboxes, consoles. States of sandboxes and consoles are those of wire/codes.def. */
	"CREATE TABLE lease ("
	"  id INTEGER PRIMARY KEY CHECK (id = 1),"
	"  owner_id TEXT NOT NULL CHECK (owner_id <> ''),"
	"  epoch INTEGER NOT NULL CHECK (epoch > 0),"
	"  taken_at INTEGER NOT NULL"
	") STRICT;"
	"CREATE TABLE resources ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"  resource_id TEXT NOT NULL UNIQUE CHECK (resource_id <> ''),"
	"  owner_id TEXT NOT NULL CHECK (owner_id <> ''),"
	"  provider TEXT NOT NULL CHECK (provider <> ''),"
	"  kind TEXT NOT NULL CHECK (kind IN ('sandbox', 'snapshot')),"
	"  ref TEXT NOT NULL DEFAULT '',"
	"  state TEXT NOT NULL"
	"    CHECK (state IN ('pending', 'live', 'releasing', 'released', 'release_failed', 'unknown')),"
	"  operation_key TEXT NOT NULL UNIQUE CHECK (operation_key <> ''),"
	"  epoch INTEGER NOT NULL CHECK (epoch > 0),"
	"  acquired_at INTEGER NOT NULL,"
	"  expires_at INTEGER,"
	"  released_at INTEGER,"
	"  outcome TEXT NOT NULL DEFAULT '',"
	"  cleanup_claim INTEGER NOT NULL DEFAULT 0 CHECK (cleanup_claim >= 0),"
	"  CHECK (state <> 'live' OR ref <> ''),"
	"  CHECK (state <> 'pending' OR ref = ''),"
	"  CHECK ((state = 'released') = (released_at IS NOT NULL))"
	") STRICT;"
	"CREATE INDEX resources_unsettled ON resources (state) WHERE state <> 'released';"
	"CREATE TABLE sandboxes ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"  id TEXT NOT NULL UNIQUE CHECK (id <> ''),"
	"  name TEXT NOT NULL,"
	"  provider TEXT NOT NULL CHECK (provider <> ''),"
	"  state INTEGER NOT NULL CHECK (state IN (1, 2, 3, 4, 5)),"
	"  reason TEXT NOT NULL,"
	"  resource_id TEXT NOT NULL UNIQUE REFERENCES resources (resource_id),"
	"  spec_json TEXT NOT NULL,"
	"  instance TEXT NOT NULL,"
	"  created_at INTEGER NOT NULL,"
	"  ended_at INTEGER,"
	"  CHECK (state <> 4 OR ended_at IS NOT NULL)"
	") STRICT;"
	"CREATE UNIQUE INDEX sandboxes_name ON sandboxes (name) WHERE name <> '' AND state <> 4;"
	"CREATE TABLE consoles ("
	"  sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),"
	"  name TEXT NOT NULL CHECK (name <> ''),"
	"  incarnation INTEGER NOT NULL CHECK (incarnation BETWEEN 1 AND 4294967295),"
	"  state INTEGER NOT NULL CHECK (state IN (1, 2, 3)),"
	"  tail_offset INTEGER NOT NULL CHECK (tail_offset >= 0),"
	"  info BLOB NOT NULL,"
	"  PRIMARY KEY (sandbox_id, name)"
	") STRICT, WITHOUT ROWID;",
};
#define SCHEMA_VERSION ((int)(sizeof(migrations) / sizeof(migrations[0])))

/* Source: the SQLite file format, "The Database Header". */
#define HEADER_BYTES       100
#define HEADER_MAGIC       "SQLite format 3"
#define HEADER_APPLICATION 68

__attribute__((format(printf, 3, 4))) static int refuse(const struct schema_error *e, int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->message, e->size, fmt, ap);
	va_end(ap);
	return r;
}

static int read_integer(sqlite3 *db, const char *pragma, int64_t *out)
{
	struct query q;
	int64_t v = -1;

	query_begin(&q, db, pragma);
	if (query_row(&q) > 0)
		v = sqlite3_column_int64(q.stmt, 0);
	int r = query_end(&q);
	if (r == 0)
		*out = v;
	return r;
}

/* ---- Making one ---- */

static int migrate_locked(sqlite3 *db, int from)
{
	char set_version[64];
	int64_t version = 0;

	int r = read_integer(db, "PRAGMA user_version", &version);
	if (r < 0 || version != from) /* another process has done it while this one waited for the lock */
		return r;
	snprintf(set_version, sizeof(set_version), "PRAGMA user_version = %d", from + 1);
	r = db_exec(db, migrations[from]);
	return r < 0 ? r : db_exec(db, set_version);
}

static int migrate_step(sqlite3 *db, int from)
{
	int r = db_exec(db, "BEGIN IMMEDIATE");
	if (r < 0)
		return r;
	r = migrate_locked(db, from);
	if (r == 0)
		r = db_exec(db, "COMMIT");
	if (!sqlite3_get_autocommit(db))
		db_exec(db, "ROLLBACK");
	return r;
}

/* An empty ledger's bytes. *out is freed with sqlite3_free(). */
static int build_image(unsigned char **out, size_t *n)
{
	sqlite3 *db = NULL;
	char id[64];

	snprintf(id, sizeof(id), "PRAGMA application_id = %d", SCHEMA_APPLICATION_ID);
	int r = db_errno(NULL, sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL));
	if (r == 0)
		r = db_exec(db, id);
	for (int v = 0; r == 0 && v < SCHEMA_VERSION; v++)
		r = migrate_step(db, v);
	if (r == 0) {
		sqlite3_int64 size = 0;
		unsigned char *image = sqlite3_serialize(db, "main", &size, 0);

		if (image) {
			*out = image;
			*n = (size_t)size;
		} else {
			r = -ENOMEM;
		}
	}
	db_close(db);
	return r;
}

static int write_all(int fd, const unsigned char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			p += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

static int sync_directory_of(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int n = slash ? (int)(slash - path) : 0;

	snprintf(dir, sizeof(dir), "%.*s", n > 0 ? n : 1, n > 0 ? path : slash ? "/" : ".");
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/* Gives the inode behind fd its final name, which must be free. Linked through the descriptor and not by its temporary
 * name, since another process that is making the same ledger may have put its own file there meanwhile. */
static int link_to(int fd, const char *path)
{
	char from[64];

	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* 0, -EEXIST: another process was faster; -ENOENT: it took the temporary name away: once more. */
static int make_once(const char *path, const char *temporary, const unsigned char *image, size_t n)
{
	unlink(temporary);
	int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;

	int r = write_all(fd, image, n);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0)
		r = link_to(fd, path);
	unlink(temporary);
	close(fd);
	return r;
}

static bool lost_race(int r)
{
	return r == -EEXIST || r == -ENOENT;
}

/* A log without its ledger would be played into the new file: rows of a ledger that somebody took away. */
static int check_no_stray_log(const char *path, const struct schema_error *e)
{
	char log[PATH_MAX];
	struct stat st;

	if ((size_t)snprintf(log, sizeof(log), "%s-wal", path) >= sizeof(log))
		return refuse(e, -ENAMETOOLONG, "%s: the path is too long", path);
	if (lstat(log, &st) == 0 && st.st_size > 0)
		return refuse(e, -EUCLEAN, "%s is missing, but its log %s is there: put it back, or move the log away",
		        path, log);
	return 0;
}

static int make_ledger(const char *path, const char *temporary, const struct schema_error *e)
{
	unsigned char *image = NULL;
	size_t n = 0;

	int r = check_no_stray_log(path, e);
	if (r < 0)
		return r;
	r = build_image(&image, &n);
	if (r < 0)
		return refuse(e, r, "cannot make %s: %s", path, strerror(-r));
	int tries = 0;
	do {
		r = make_once(path, temporary, image, n);
	} while (lost_race(r) && access(path, F_OK) < 0 && ++tries < 100);
	if (lost_race(r) && access(path, F_OK) == 0)
		r = 0;
	sqlite3_free(image);
	if (r == 0)
		r = sync_directory_of(path);
	return r < 0 ? refuse(e, r, "cannot make %s: %s", path, strerror(-r)) : 0;
}

/* ---- Checking one ---- */

static uint32_t get_be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int check_header(int fd, const char *path, const struct schema_error *e)
{
	unsigned char h[HEADER_BYTES];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return refuse(e, -errno, "cannot look at %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return refuse(e, -EUCLEAN, "%s is not a file; it was left as it is", path);
	ssize_t n = pread(fd, h, sizeof(h), 0);
	if (n < 0)
		return refuse(e, -errno, "cannot read %s: %s", path, strerror(errno));
	if (n < HEADER_BYTES || memcmp(h, HEADER_MAGIC, sizeof(HEADER_MAGIC)) != 0)
		return refuse(e, -EUCLEAN, "%s is not a Ringside ledger; it was left as it is", path);
	if (get_be32(h + HEADER_APPLICATION) != SCHEMA_APPLICATION_ID)
		return refuse(e, -EUCLEAN, "%s is another program's database; it was left as it is", path);
	return 0;
}

int schema_prepare(const char *path, const struct schema_error *e)
{
	char temporary[PATH_MAX];

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.new", path) >= sizeof(temporary))
		return refuse(e, -ENAMETOOLONG, "%s: the path is too long", path);
	for (int tries = 0;; tries++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		if (fd >= 0) {
			int r = check_header(fd, path, e);

			close(fd);
			if (r == 0) /* what a crash between link and unlink leaves: a second name of the ledger */
				unlink(temporary);
			return r;
		}
		if (errno != ENOENT || tries > 0)
			return refuse(e, -errno, "cannot open %s: %s", path, strerror(errno));
		int r = make_ledger(path, temporary, e);
		if (r < 0)
			return r;
	}
}

static int check_pages(sqlite3 *db, const char *path, const struct schema_error *e)
{
	struct query q;
	char found[128] = "";

	query_begin(&q, db, "PRAGMA quick_check(1)");
	if (query_row(&q) > 0)
		snprintf(found, sizeof(found), "%s", row_text(&q, 0));
	int r = query_end(&q);
	if (r == 0 && strcmp(found, "ok") != 0)
		r = -EUCLEAN;
	if (r == 0)
		return 0;
	for (char *p = found; *p; p++)
		if (*p == '\n')
			*p = ' ';
	return refuse(e, r, r == -EUCLEAN ? "%s is damaged (%s); it was left as it is" : "cannot read %s: %s", path,
	        r != -EUCLEAN ? strerror(-r)
	        : *found      ? found
	                      : "its structure cannot be read");
}

static int check_version(sqlite3 *db, const char *path, const struct schema_error *e, int *version)
{
	int64_t v;

	int r = read_integer(db, "PRAGMA user_version", &v);
	if (r == -EUCLEAN)
		return refuse(e, r, "%s is damaged (its structure cannot be read); it was left as it is", path);
	if (r < 0)
		return refuse(e, r, "cannot read %s: %s", path, strerror(-r));
	if (v < 0 || v > SCHEMA_VERSION)
		return refuse(e, -EUCLEAN,
		        "%s is of a newer Ringside (schema %lld, this one knows %d); it was left as it is", path,
		        (long long)v, SCHEMA_VERSION);
	*version = (int)v;
	return 0;
}

int schema_configure(sqlite3 *db)
{
	return db_exec(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF");
}

static int turn_wal_on(sqlite3 *db)
{
	struct query q;
	char mode[16] = "";

	query_begin(&q, db, "PRAGMA journal_mode = WAL");
	if (query_row(&q) > 0)
		snprintf(mode, sizeof(mode), "%s", row_text(&q, 0));
	int r = query_end(&q);
	/* SQLite keeps the old mode where shared memory cannot be had, and says so without an error. */
	return r < 0 ? r : strcmp(mode, "wal") == 0 ? 0 : -ENOTSUP;
}

int schema_bring_up(sqlite3 *db, const char *path, const struct schema_error *e)
{
	int version = 0;

	int r = check_version(db, path, e, &version);
	if (r == 0)
		r = check_pages(db, path, e);
	if (r < 0)
		return r;

	r = turn_wal_on(db);
	if (r == 0)
		r = schema_configure(db);
	for (int v = version; r == 0 && v < SCHEMA_VERSION; v++)
		r = migrate_step(db, v);
	return r < 0 ? refuse(e, r, "cannot prepare %s: %s", path, strerror(-r)) : 0;
}
