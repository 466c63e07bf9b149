/*
 * impl.h - what a ledger is made of. Three connections to one file: the writer thread's, one for listings, one for the
 * fence, so that a fence never waits for a long listing.
 */
#ifndef LEDGER_IMPL_H
#define LEDGER_IMPL_H

#include <pthread.h>

#include "ledger/db.h"
#include "ledger/ledger.h"
#include "ledger/writer.h"

struct ledger {
	struct writer *writer;
	sqlite3 *reader;
	pthread_mutex_t reader_lock; /* recursive: a callback of a listing may list */
	sqlite3 *fence;
	pthread_mutex_t fence_lock;
};

uint64_t ledger_now_ms(void); /* wall clock, ms since 1970 */

/* Insertion, shared by the calls that add a resource alone and with its sandbox; inside a transaction. */
int resource_insert(sqlite3 *db, uint64_t epoch, const struct ledger_resource *row);

static inline const char *or_empty(const char *s)
{
	return s ? s : "";
}

#endif
