/*
 * ledger.c - opening and closing; see ledger.h for what a ledger is and impl.h for what one is made of.
 */
#include "ledger/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ledger/impl.h"
#include "ledger/schema.h"

uint64_t ledger_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int open_reader(const char *path, sqlite3 **out)
{
	int r = db_open(path, out);
	if (r == 0)
		r = schema_configure(*out);
	if (r == 0)
		r = db_exec(*out, "PRAGMA query_only = ON");
	return r;
}

/* The first connection does all the checks, and only then is anything written by any. */
static int open_connections(struct ledger *l, const char *path, const struct schema_error *e)
{
	sqlite3 *db = NULL;

	int r = schema_prepare(path, e);
	if (r < 0)
		return r;
	r = db_open(path, &db);
	if (r < 0)
		goto out;
	r = schema_bring_up(db, path, e);
	if (r < 0)
		goto out;
	r = open_reader(path, &l->reader);
	if (r == 0)
		r = open_reader(path, &l->fence);
	if (r == 0)
		r = db_allow_checkpoint(db);
	if (r == 0)
		r = writer_start(db, &l->writer);
	if (r == 0)
		db = NULL;
out:
	db_close(db);
	if (r < 0 && !*e->message)
		snprintf(e->message, e->size, "cannot open %s: %s", path, strerror(-r));
	return r;
}

int ledger_open(const char *path, struct ledger **out, char *message, unsigned size)
{
	const struct schema_error e = { .message = message, .size = size };
	pthread_mutexattr_t recursive;

	message[0] = '\0';
	struct ledger *l = calloc(1, sizeof(*l));
	if (!l) {
		snprintf(message, size, "cannot open %s: %s", path, strerror(ENOMEM));
		return -ENOMEM;
	}
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&l->reader_lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
	pthread_mutex_init(&l->fence_lock, NULL);

	int r = open_connections(l, path, &e);
	if (r < 0) {
		ledger_close(l);
		return r;
	}
	*out = l;
	return 0;
}

void ledger_close(struct ledger *l)
{
	if (!l)
		return;
	/* The writer's last, so that the log is put into the file by the connection that may. */
	db_close(l->reader);
	db_close(l->fence);
	writer_stop(l->writer);
	pthread_mutex_destroy(&l->reader_lock);
	pthread_mutex_destroy(&l->fence_lock);
	free(l);
}
