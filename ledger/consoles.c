/*
 * consoles.c - what custody knows of each console name, so that its offsets and incarnations go on.
 */
#include <errno.h>

#include "ledger/impl.h"

static int put_console(sqlite3 *db, void *arg)
{
	const struct ledger_console *c = arg;
	struct query q;

	query_begin(&q, db,
	        "INSERT INTO consoles (sandbox_id, name, incarnation, state, tail_offset, info) VALUES (?, ?, ?, ?, ?, "
	        "?)"
	        " ON CONFLICT (sandbox_id, name) DO UPDATE SET incarnation = excluded.incarnation, state = "
	        "excluded.state,"
	        " tail_offset = excluded.tail_offset, info = excluded.info");
	query_text(&q, c->sandbox_id);
	query_text(&q, c->name);
	query_u64(&q, c->incarnation);
	query_u64(&q, c->state);
	query_u64(&q, c->tail_offset);
	query_blob(&q, c->info, c->info_bytes);
	return query_run(&q);
}

int ledger_put_console(struct ledger *l, uint64_t epoch, const struct ledger_console *c)
{
	struct ledger_console copy = *c;

	return writer_do(l->writer, epoch, put_console, &copy);
}

struct drop {
	const char *sandbox_id;
	const char *name;
};

static int drop_console(sqlite3 *db, void *arg)
{
	const struct drop *d = arg;
	struct query q;

	query_begin(&q, db, "DELETE FROM consoles WHERE sandbox_id = ? AND name = ?");
	query_text(&q, d->sandbox_id);
	query_text(&q, d->name);
	int r = query_run(&q);
	if (r < 0)
		return r;
	return sqlite3_changes(db) == 0 ? -ENOENT : 0;
}

int ledger_drop_console(struct ledger *l, uint64_t epoch, const char *sandbox_id, const char *name)
{
	struct drop d = { .sandbox_id = sandbox_id, .name = name };

	return writer_do(l->writer, epoch, drop_console, &d);
}

int ledger_each_console(
        struct ledger *l, const char *sandbox_id, bool (*each)(const struct ledger_console *c, void *ctx), void *ctx)
{
	struct query q;

	pthread_mutex_lock(&l->reader_lock);
	query_begin(&q, l->reader,
	        "SELECT sandbox_id, name, incarnation, state, tail_offset, info FROM consoles WHERE sandbox_id = ?"
	        " ORDER BY name");
	query_text(&q, sandbox_id);
	bool more = true;
	while (more && query_row(&q) > 0) {
		struct ledger_console c = {
			.sandbox_id = row_text(&q, 0),
			.name = row_text(&q, 1),
			.incarnation = (uint32_t)row_u64(&q, 2),
			.state = (uint32_t)row_u64(&q, 3),
			.tail_offset = row_u64(&q, 4),
			.info = sqlite3_column_blob(q.stmt, 5),
			.info_bytes = (uint32_t)sqlite3_column_bytes(q.stmt, 5),
		};
		more = each(&c, ctx);
	}
	int r = query_end(&q);
	pthread_mutex_unlock(&l->reader_lock);
	return r;
}
