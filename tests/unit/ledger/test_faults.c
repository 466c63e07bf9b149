/*
 * The n-th write, sync or allocation fails, for n = 1, 2, … until all succeed: whatever fails, the file stays a ledger,
 * what was acknowledged is in it, what was refused is not, and nothing crashes or leaks.
 */
#include "tests/unit/ledger/fixture.h"

#include <sqlite3.h>

/* ---- SQLite's system calls and memory, with a fault on demand ---- */

enum fault { FAULT_NONE, FAULT_WRITE, FAULT_SYNC, FAULT_FULL, FAULT_MEMORY };

static struct {
	enum fault kind;
	int left; /* calls that still succeed */
	bool hit;
} plan;

/* True once, at the n-th call of its kind. */
static bool strikes(enum fault kind)
{
	if (plan.kind != kind || plan.hit || --plan.left > 0)
		return false;
	plan.hit = true;
	return true;
}

/*
 * Files of one kind share one table of methods, and SQLite has a table for files that are locked and one for those that
 * are not. Each is replaced by a copy with two changed entries.
 */
static struct {
	const sqlite3_io_methods *real;
	sqlite3_io_methods faulty;
} kinds[4];

static int (*real_open)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);

static const sqlite3_io_methods *real_of(const sqlite3_file *file)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (file->pMethods == &kinds[i].faulty)
			return kinds[i].real;
	abort();
}

static int faulty_write(sqlite3_file *file, const void *p, int n, sqlite3_int64 at)
{
	if (strikes(FAULT_WRITE))
		return SQLITE_IOERR_WRITE;
	if (strikes(FAULT_FULL))
		return SQLITE_FULL;
	return real_of(file)->xWrite(file, p, n, at);
}

static unsigned syncs;

static int faulty_sync(sqlite3_file *file, int flags)
{
	syncs++;
	return strikes(FAULT_SYNC) ? SQLITE_IOERR_FSYNC : real_of(file)->xSync(file, flags);
}

static void replace_methods(sqlite3_file *file)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!kinds[i].real) {
			kinds[i].real = file->pMethods;
			kinds[i].faulty = *file->pMethods;
			kinds[i].faulty.xWrite = faulty_write;
			kinds[i].faulty.xSync = faulty_sync;
		}
		if (kinds[i].real == file->pMethods) {
			file->pMethods = &kinds[i].faulty;
			return;
		}
	}
	abort();
}

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
	int rc = real_open(vfs, name, file, flags, out);

	if (rc == SQLITE_OK && file->pMethods)
		replace_methods(file);
	return rc;
}

static sqlite3_mem_methods real_memory;

static void *faulty_malloc(int n)
{
	return strikes(FAULT_MEMORY) ? NULL : real_memory.xMalloc(n);
}

static void *faulty_realloc(void *p, int n)
{
	return strikes(FAULT_MEMORY) ? NULL : real_memory.xRealloc(p, n);
}

static int install_faults(void **state)
{
	static sqlite3_vfs vfs;
	sqlite3_mem_methods memory;

	(void)state;
	if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK)
		return -1;
	memory = real_memory;
	memory.xMalloc = faulty_malloc;
	memory.xRealloc = faulty_realloc;
	/* Without a cache of its own memory, each allocation is one that can fail. */
	if (sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) != SQLITE_OK ||
	        sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) != SQLITE_OK)
		return -1;
	vfs = *sqlite3_vfs_find(NULL);
	real_open = vfs.xOpen;
	vfs.xOpen = faulty_open;
	vfs.zName = "faulty";
	return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK ? 0 : -1;
}

/* ---- The work that meets them ---- */

struct outcome {
	int open, lease, sandbox, live, console;
};

static struct outcome work(struct fixture *f)
{
	struct outcome o = { -1, -1, -1, -1, -1 };
	struct ledger_console c = {
		.sandbox_id = "sb-1", .name = "dev", .incarnation = 1, .state = 1, .tail_offset = 5
	};
	struct ledger *l = NULL;
	uint64_t epoch = 0;

	o.open = ledger_open(f->path, &l, f->message, sizeof(f->message));
	if (o.open < 0)
		return o;
	o.lease = ledger_take_lease(l, "faulty", &epoch);
	o.sandbox = add_sandbox(l, epoch, 1);
	o.live = ledger_set_live(l, epoch, "res-1", "sb-1");
	o.console = ledger_put_console(l, epoch, &c);
	ledger_close(l);
	return o;
}

static bool see_console(const struct ledger_console *c, void *ctx)
{
	*(uint64_t *)ctx = c->tail_offset;
	return true;
}

/* What the file says afterwards must be what the calls said. */
static void check(struct fixture *f, const struct outcome *o, bool exact)
{
	uint64_t tail = 0;

	if (o->open < 0) {
		assert_true(f->message[0] != '\0');
		assert_null(strchr(f->message, '\n'));
	}
	fixture_open(f);
	assert_int_equal(ledger_each_console(f->ledger, "sb-1", see_console, &tail), 0);
	struct found_resource r = find_resource(f->ledger, "res-1");
	bool sandbox = find_sandbox(f->ledger, "sb-1").found;

	assert_int_equal(sandbox, r.found); /* never one without the other */
	assert_true(!(o->sandbox == 0) || r.found);
	assert_true(!(o->live == 0) || r.state == LEDGER_LIVE);
	assert_true(!(o->console == 0) || tail == 5);
	if (exact) {
		assert_true(r.found == (o->sandbox == 0));
		assert_true((tail == 5) == (o->console == 0));
	}
	uint64_t epoch = 0;
	assert_int_equal(ledger_take_lease(f->ledger, "after", &epoch), 0);
	assert_true(epoch >= (o->lease == 0 ? 2U : 1U));
	fixture_close(f);
}

static void forget_files(struct fixture *f)
{
	static const char *const ends[] = { "", "-wal", "-shm", ".new" };
	char path[128];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", f->path, ends[i]);
		unlink(path);
	}
}

static bool is_any(int r, const int *codes)
{
	for (; *codes; codes++)
		if (r == *codes)
			return true;
	return r == 0;
}

/* Fails each n-th call; a call that was hit says one of codes. */
static void fail_each(struct fixture *f, enum fault kind, const int *codes, bool exact)
{
	unsigned hits = 0, felt = 0;

	/* Each of the first 200, then ever fewer of the thousands of allocations. */
	for (int n = 1; n < 100000; n += 1 + (n > 200 ? n / 25 : 0)) {
		forget_files(f);
		plan.kind = kind;
		plan.left = n;
		plan.hit = false;
		struct outcome o = work(f);
		bool hit = plan.hit;

		plan.kind = FAULT_NONE;
		if (!hit) {
			assert_int_equal(o.open | o.lease | o.sandbox | o.live | o.console, 0);
			assert_true(hits > 0 && felt > 0);
			return;
		}
		hits++;
		felt += (o.open | o.lease | o.sandbox | o.live | o.console) != 0;
		const int all[] = { o.open, o.lease, o.sandbox, o.live, o.console };
		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			if (all[i] == -1 && o.open < 0)
				continue; /* never called */
			/* What stands on a call that failed fails as it must: without its lease, row or sandbox. */
			if (!is_any(all[i], codes) && all[i] != -ESTALE && all[i] != -ENOENT)
				fail_msg("call %d at fault %d: %d", (int)i, n, all[i]);
		}
		check(f, &o, exact);
	}
	fail_msg("never came to an end");
}

static void a_failed_write_is_an_error_and_nothing_else(void **state)
{
	fail_each(*state, FAULT_WRITE, (const int[]){ -EIO, 0 }, true);
}

/* A sync that failed may yet have come to the disk: what it was asked for may be there, what was acknowledged must. */
static void a_failed_sync_is_never_acknowledged(void **state)
{
	fail_each(*state, FAULT_SYNC, (const int[]){ -EIO, 0 }, false);
}

static void a_write_that_finds_the_disk_full_is_told_as_such(void **state)
{
	fail_each(*state, FAULT_FULL, (const int[]){ -ENOSPC, 0 }, true);
}

static void a_failed_allocation_is_an_error_and_nothing_else(void **state)
{
	fail_each(*state, FAULT_MEMORY, (const int[]){ -ENOMEM, -EIO, -ENOTSUP, 0 }, true);
}

/* In memory where there is such a place: hundreds of ledgers are made here, and no power cut is asked about. */
static int setup_here(void **state)
{
	if (setup_directory(state) < 0)
		return -1;
	struct fixture *f = *state;
	char dir[] = "/dev/shm/ringside-ledger-XXXXXX";

	if (!mkdtemp(dir))
		return 0;
	rmdir(f->dir);
	snprintf(f->dir, sizeof(f->dir), "%s", dir);
	snprintf(f->path, sizeof(f->path), "%s/ledger.db", f->dir);
	return 0;
}

/* Nobody is answered before the disk was asked to keep it. Without threads beside it, each write is a commit of its
 * own. */
static void every_acknowledged_write_was_synced(void **state)
{
	struct fixture *f = *state;

	fixture_open(f);
	assert_int_equal(ledger_take_lease(f->ledger, "tester", &f->epoch), 0);
	for (unsigned n = 0; n < 20; n++) {
		unsigned before = syncs;

		assert_int_equal(add_sandbox(f->ledger, f->epoch, n), 0);
		assert_true(syncs > before);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_here, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_acknowledged_write_was_synced),
		TEST(a_failed_write_is_an_error_and_nothing_else),
		TEST(a_failed_sync_is_never_acknowledged),
		TEST(a_write_that_finds_the_disk_full_is_told_as_such),
		TEST(a_failed_allocation_is_an_error_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, install_faults, NULL);
}
