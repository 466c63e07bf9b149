/*
 * lease.c - who may write: one holder, told from its predecessors by an epoch that only grows.
 */
#include "ledger/lease.h"

#include <errno.h>

#include "ledger/impl.h"

int lease_check(sqlite3 *db, uint64_t epoch)
{
	struct query q;
	int r = -ESTALE;

	query_begin(&q, db, "SELECT epoch FROM lease");
	if (query_row(&q) > 0 && row_u64(&q, 0) == epoch)
		r = 0;
	int failed = query_end(&q);
	return failed ? failed : r;
}

/* The highest epoch of the lease itself and of every row: a lease row that was lost must not bring old epochs back. */
static int highest_epoch(sqlite3 *db, uint64_t *out)
{
	struct query q;
	uint64_t highest = 0;

	query_begin(&q, db, "SELECT max(epoch) FROM (SELECT epoch FROM lease UNION ALL SELECT epoch FROM resources)");
	if (query_row(&q) > 0)
		highest = row_u64(&q, 0);
	int r = query_end(&q);
	if (r == 0)
		*out = highest;
	return r;
}

struct take {
	const char *owner_id;
	uint64_t epoch;
};

static int take_lease(sqlite3 *db, void *arg)
{
	struct take *t = arg;
	struct query q;
	uint64_t highest = 0;

	int r = highest_epoch(db, &highest);
	if (r < 0)
		return r;
	query_begin(&q, db, "INSERT OR REPLACE INTO lease (id, owner_id, epoch, taken_at) VALUES (1, ?, ?, ?)");
	query_text(&q, t->owner_id);
	query_u64(&q, highest + 1);
	query_u64(&q, ledger_now_ms());
	r = query_run(&q);
	if (r == 0)
		t->epoch = highest + 1;
	return r;
}

int ledger_take_lease(struct ledger *l, const char *owner_id, uint64_t *epoch)
{
	struct take t = { .owner_id = owner_id };

	int r = writer_do_unfenced(l->writer, take_lease, &t);
	if (r == 0)
		*epoch = t.epoch;
	return r;
}

int ledger_fence(struct ledger *l, uint64_t epoch)
{
	pthread_mutex_lock(&l->fence_lock);
	int r = lease_check(l->fence, epoch);
	pthread_mutex_unlock(&l->fence_lock);
	return r == 0 || r == -ESTALE ? r : -EIO;
}
