/*
 * resources.c - a row for everything that a provider was asked to make.
 *
 * A row only ever moves along `next_states`; what is released stays released. Rows are never deleted here.
 */
#include <errno.h>
#include <string.h>

#include "ledger/impl.h"

static const char *const state_names[] = {
#define NAME(name, text) [LEDGER_##name] = text,
	LEDGER_STATES(NAME)
#undef NAME
};
#define STATES (sizeof(state_names) / sizeof(state_names[0]))

static const char *const kind_names[] = { [LEDGER_SANDBOX] = "sandbox", [LEDGER_SNAPSHOT] = "snapshot" };
#define KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

/* From each state, the set of those that may follow. Staying is always allowed: what a crash cut short is done again.
 */
#define TO(name) (1U << LEDGER_##name)
static const unsigned next_states[STATES] = {
	[LEDGER_PENDING] = TO(LIVE) | TO(RELEASED) | TO(UNKNOWN),
	[LEDGER_LIVE] = TO(RELEASING) | TO(RELEASED) | TO(UNKNOWN), /* released: the provider proves that it is gone */
	[LEDGER_RELEASING] = TO(RELEASED) | TO(RELEASE_FAILED) | TO(UNKNOWN),
	[LEDGER_RELEASE_FAILED] = TO(RELEASING) | TO(RELEASED) | TO(UNKNOWN),
	[LEDGER_UNKNOWN] = TO(LIVE) | TO(RELEASING) | TO(RELEASED),
	[LEDGER_RELEASED] = 0,
};

const char *ledger_state_name(enum ledger_state s)
{
	return (size_t)s < STATES ? state_names[s] : "?";
}

/* The table's CHECK admits only names of the list, so a stranger means another version's row. */
static size_t index_of(const char *const *names, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], text) == 0)
			return i;
	return n;
}

int resource_insert(sqlite3 *db, uint64_t epoch, const struct ledger_resource *row)
{
	struct query q;

	if ((size_t)row->kind >= KINDS)
		return -EINVAL;
	query_begin(&q, db,
	        "INSERT INTO resources (resource_id, owner_id, provider, kind, state, operation_key, epoch, "
	        "acquired_at,"
	        " expires_at) VALUES (?, ?, ?, ?, 'pending', ?, ?, ?, ?)");
	query_text(&q, row->resource_id);
	query_text(&q, row->owner_id);
	query_text(&q, row->provider);
	query_text(&q, kind_names[row->kind]);
	query_text(&q, row->operation_key);
	query_u64(&q, epoch);
	query_u64(&q, row->acquired_at_ms ? row->acquired_at_ms : ledger_now_ms());
	query_u64_or_null(&q, row->expires_at_ms);
	return query_run(&q);
}

struct add {
	uint64_t epoch;
	const struct ledger_resource *row;
};

static int add_pending(sqlite3 *db, void *arg)
{
	const struct add *a = arg;

	return resource_insert(db, a->epoch, a->row);
}

int ledger_add_pending(struct ledger *l, uint64_t epoch, const struct ledger_resource *row)
{
	struct add a = { .epoch = epoch, .row = row };

	return writer_do(l->writer, epoch, add_pending, &a);
}

struct move {
	uint64_t epoch;
	const char *resource_id;
	enum ledger_state state;
	const char *ref;     /* NULL keeps it */
	const char *outcome; /* NULL keeps it */
};

static int check_move(sqlite3 *db, const struct move *m)
{
	struct query q;
	int r = -ENOENT;

	query_begin(&q, db, "SELECT state FROM resources WHERE resource_id = ?");
	query_text(&q, m->resource_id);
	if (query_row(&q) > 0) {
		size_t from = index_of(state_names, STATES, row_text(&q, 0));

		r = from < STATES && (from == (size_t)m->state || (next_states[from] & (1U << m->state))) ? 0 : -EINVAL;
	}
	int failed = query_end(&q);
	return failed ? failed : r;
}

static int move_row(sqlite3 *db, void *arg)
{
	const struct move *m = arg;
	struct query q;

	int r = check_move(db, m);
	if (r < 0)
		return r;
	query_begin(&q, db,
	        "UPDATE resources SET state = ?1, ref = coalesce(?2, ref), outcome = coalesce(?3, outcome), epoch = ?4,"
	        " released_at = CASE WHEN ?1 = 'released' THEN coalesce(released_at, ?5) END WHERE resource_id = ?6");
	query_text(&q, state_names[m->state]);
	query_text(&q, m->ref);
	query_text(&q, m->outcome);
	query_u64(&q, m->epoch);
	query_u64(&q, ledger_now_ms());
	query_text(&q, m->resource_id);
	return query_run(&q);
}

int ledger_set_live(struct ledger *l, uint64_t epoch, const char *resource_id, const char *ref)
{
	struct move m = { .epoch = epoch, .resource_id = resource_id, .state = LEDGER_LIVE, .ref = ref };

	if (!ref || !*ref)
		return -EINVAL;
	return writer_do(l->writer, epoch, move_row, &m);
}

int ledger_set_state(
        struct ledger *l, uint64_t epoch, const char *resource_id, enum ledger_state state, const char *outcome)
{
	struct move m = { .epoch = epoch, .resource_id = resource_id, .state = state, .outcome = outcome };

	if ((size_t)state >= STATES)
		return -EINVAL;
	return writer_do(l->writer, epoch, move_row, &m);
}

static bool read_resource(const struct query *q, struct ledger_resource *out)
{
	size_t kind = index_of(kind_names, KINDS, row_text(q, 3));
	size_t state = index_of(state_names, STATES, row_text(q, 5));

	if (kind == KINDS || state == STATES)
		return false;
	*out = (struct ledger_resource){
		.resource_id = row_text(q, 0),
		.owner_id = row_text(q, 1),
		.provider = row_text(q, 2),
		.kind = (enum ledger_kind)kind,
		.ref = row_text(q, 4),
		.state = (enum ledger_state)state,
		.operation_key = row_text(q, 6),
		.epoch = row_u64(q, 7),
		.acquired_at_ms = row_u64(q, 8),
		.expires_at_ms = row_u64(q, 9),
		.released_at_ms = row_u64(q, 10),
		.outcome = row_text(q, 11),
		.claim = row_u64(q, 12),
	};
	return true;
}

int ledger_each_resource(struct ledger *l, bool (*each)(const struct ledger_resource *row, void *ctx), void *ctx)
{
	struct query q;
	struct ledger_resource row;

	pthread_mutex_lock(&l->reader_lock);
	query_begin(&q, l->reader,
	        "SELECT resource_id, owner_id, provider, kind, ref, state, operation_key, epoch, acquired_at, "
	        "expires_at,"
	        " released_at, outcome, cleanup_claim FROM resources ORDER BY seq");
	bool more = true;
	while (more && query_row(&q) > 0) {
		if (!read_resource(&q, &row)) {
			q.error = -EUCLEAN;
			break;
		}
		more = each(&row, ctx);
	}
	int r = query_end(&q);
	pthread_mutex_unlock(&l->reader_lock);
	return r;
}
