/*
 * sandboxes.c - the record of each sandbox that ringsided restarts from.
 */
#include <errno.h>
#include <string.h>

#include "ledger/impl.h"

/* enum sandbox_state of wire/codes.def, which this folder does not link; the schema has it in an index, too. */
#define TERMINATED "4"

struct add {
	uint64_t epoch;
	const struct ledger_sandbox *sandbox;
	const struct ledger_resource *pending;
};

static int add_sandbox(sqlite3 *db, void *arg)
{
	const struct add *a = arg;
	const struct ledger_sandbox *s = a->sandbox;
	struct query q;

	int r = resource_insert(db, a->epoch, a->pending);
	if (r < 0)
		return r;
	query_begin(&q, db,
	        "INSERT INTO sandboxes (id, name, provider, state, reason, resource_id, spec_json, instance, "
	        "created_at,"
	        " ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	query_text(&q, s->id);
	query_text(&q, or_empty(s->name));
	query_text(&q, s->provider);
	query_u64(&q, s->state);
	query_text(&q, or_empty(s->reason));
	query_text(&q, s->resource_id);
	query_text(&q, or_empty(s->spec_json));
	query_text(&q, or_empty(s->instance));
	query_u64(&q, s->created_at_ms ? s->created_at_ms : ledger_now_ms());
	query_u64_or_null(&q, s->ended_at_ms);
	return query_run(&q);
}

int ledger_add_sandbox(
        struct ledger *l, uint64_t epoch, const struct ledger_sandbox *s, const struct ledger_resource *pending)
{
	struct add a = { .epoch = epoch, .sandbox = s, .pending = pending };

	if (!s->resource_id || !pending->resource_id || strcmp(s->resource_id, pending->resource_id) != 0)
		return -EINVAL;
	return writer_do(l->writer, epoch, add_sandbox, &a);
}

struct update {
	const char *id;
	uint32_t state;
	const char *reason;
	const char *instance;
};

static int update_sandbox(sqlite3 *db, void *arg)
{
	const struct update *u = arg;
	struct query q;

	query_begin(&q, db,
	        "UPDATE sandboxes SET state = coalesce(?1, state), reason = coalesce(?2, reason),"
	        " instance = coalesce(?3, instance),"
	        " ended_at = CASE WHEN coalesce(?1, state) = " TERMINATED
	        " THEN coalesce(ended_at, ?4) END WHERE id = ?5");
	query_u64_or_null(&q, u->state);
	query_text(&q, u->reason);
	query_text(&q, u->instance);
	query_u64(&q, ledger_now_ms());
	query_text(&q, u->id);
	int r = query_run(&q);
	if (r < 0)
		return r;
	return sqlite3_changes(db) == 0 ? -ENOENT : 0;
}

int ledger_update_sandbox(
        struct ledger *l, uint64_t epoch, const char *id, uint32_t state, const char *reason, const char *instance)
{
	struct update u = { .id = id, .state = state, .reason = reason, .instance = instance };

	return writer_do(l->writer, epoch, update_sandbox, &u);
}

int ledger_each_sandbox(struct ledger *l, bool (*each)(const struct ledger_sandbox *s, void *ctx), void *ctx)
{
	struct query q;

	pthread_mutex_lock(&l->reader_lock);
	query_begin(&q, l->reader,
	        "SELECT id, name, provider, state, reason, resource_id, spec_json, instance, created_at, ended_at"
	        " FROM sandboxes ORDER BY seq");
	bool more = true;
	while (more && query_row(&q) > 0) {
		struct ledger_sandbox s = {
			.id = row_text(&q, 0),
			.name = row_text(&q, 1),
			.provider = row_text(&q, 2),
			.state = (uint32_t)row_u64(&q, 3),
			.reason = row_text(&q, 4),
			.resource_id = row_text(&q, 5),
			.spec_json = row_text(&q, 6),
			.instance = row_text(&q, 7),
			.created_at_ms = row_u64(&q, 8),
			.ended_at_ms = row_u64(&q, 9),
		};
		more = each(&s, ctx);
	}
	int r = query_end(&q);
	pthread_mutex_unlock(&l->reader_lock);
	return r;
}
