/* The file: made whole, private and once; what is not a ledger of this version is refused and stays as it is. */
#include "tests/unit/ledger/fixture.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

/* ---- Files as bytes ---- */

struct bytes {
	char *p;
	size_t n;
};

static struct bytes slurp(const char *path)
{
	struct bytes b = { NULL, 0 };
	FILE *in = fopen(path, "re");
	struct stat st;

	assert_non_null(in);
	assert_int_equal(fstat(fileno(in), &st), 0);
	b.n = (size_t)st.st_size;
	b.p = malloc(b.n + 1);
	assert_int_equal(fread(b.p, 1, b.n, in), b.n);
	fclose(in);
	return b;
}

static void spill(const char *path, const void *p, size_t n)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_int_equal(fwrite(p, 1, n, out), n);
	assert_int_equal(fclose(out), 0);
}

/* Opening must fail so, say so in one line that names the file, and change nothing. */
static void refused(struct fixture *f, int expected, const char *said)
{
	struct bytes before = slurp(f->path);
	struct ledger *l = NULL;

	assert_int_equal(ledger_open(f->path, &l, f->message, sizeof(f->message)), expected);
	assert_null(l);
	struct bytes after = slurp(f->path);
	assert_int_equal(after.n, before.n);
	assert_memory_equal(after.p, before.p, before.n);
	free(before.p);
	free(after.p);
	if (!strstr(f->message, f->path) || !strstr(f->message, said) || strchr(f->message, '\n'))
		fail_msg("it says: %s", f->message);
}

static void sql(struct fixture *f, const char *text)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t ask(struct fixture *f, const char *text)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *s = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, text, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	int64_t v = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	sqlite3_close(db);
	return v;
}

/* ---- Making ---- */

static void a_new_ledger_is_private_and_named_as_ours(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	umask(0);
	fixture_open(f);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	fixture_close(f);
	assert_int_equal(ask(f, "PRAGMA application_id"), 0x52534c47);
	assert_int_equal(ask(f, "PRAGMA user_version"), 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM resources"), 0);
}

/* What contract and headers call the columns, for people who open the file with other tools. */
static void the_resource_table_has_the_columns_of_the_contract(void **state)
{
	struct fixture *f = *state;

	fixture_open(f);
	fixture_close(f);
	sql(f, "SELECT resource_id, owner_id, provider, kind, ref, state, operation_key, acquired_at, expires_at,"
	       " released_at, outcome, cleanup_claim FROM resources");
}

static void a_missing_directory_is_told(void **state)
{
	struct fixture *f = *state;
	struct ledger *l = NULL;

	snprintf(f->path, sizeof(f->path), "%s/nowhere/ledger.db", f->dir);
	assert_int_equal(ledger_open(f->path, &l, f->message, sizeof(f->message)), -ENOENT);
	assert_non_null(strstr(f->message, f->path));
	assert_null(strchr(f->message, '\n'));
	snprintf(f->path, sizeof(f->path), "%s/ledger.db", f->dir);
}

static void many_first_openers_make_one_ledger(void **state)
{
	struct fixture *f = *state;
	enum { OPENERS = 8 };
	pid_t pids[OPENERS];
	int go[2];

	assert_int_equal(pipe(go), 0);
	for (unsigned i = 0; i < OPENERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct ledger *l = NULL;
			uint64_t epoch = 0;
			char c;

			close(go[1]);
			if (read(go[0], &c, 1) != 0) /* all at once, when the parent closes its end */
				_exit(2);
			int r = ledger_open(f->path, &l, f->message, sizeof(f->message));
			if (r == 0)
				r = ledger_take_lease(l, "first", &epoch);
			/* The row is the last lease's to write, so each tries with its own until it has a turn of its
			 * own. */
			while (r == 0 && (r = add_resource(l, epoch, i)) == -ESTALE)
				r = ledger_take_lease(l, "again", &epoch);
			ledger_close(l);
			_exit(r == 0 ? 0 : 1);
		}
	}
	close(go[0]);
	close(go[1]);
	for (unsigned i = 0; i < OPENERS; i++) {
		int status = 0;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	fixture_open(f);
	assert_int_equal(count_resources(f->ledger), OPENERS);
	char temporary[128];
	snprintf(temporary, sizeof(temporary), "%s.new", f->path);
	assert_int_equal(access(temporary, F_OK), -1);
}

/* A crash between link and unlink leaves two names of one file, one before them half a file. */
static void what_a_crashed_maker_left_is_taken_away(void **state)
{
	struct fixture *f = *state;
	char temporary[128];

	snprintf(temporary, sizeof(temporary), "%s.new", f->path);
	spill(temporary, "half", 4);
	fixture_open(f);
	fixture_close(f);
	assert_int_equal(access(temporary, F_OK), -1);

	assert_int_equal(link(f->path, temporary), 0);
	fixture_open(f);
	assert_int_equal(access(temporary, F_OK), -1);
}

/* SQLite would play such a log into the new file. */
static void a_log_without_its_ledger_is_not_played_into_a_new_one(void **state)
{
	struct fixture *f = *state;
	char log[128], copy[128];
	struct ledger *l = NULL;

	fixture_open(f);
	assert_int_equal(ledger_take_lease(f->ledger, "tester", &f->epoch), 0);
	snprintf(log, sizeof(log), "%s-wal", f->path);
	snprintf(copy, sizeof(copy), "%s/copy", f->dir);
	struct bytes b = slurp(log);
	assert_true(b.n > 0);
	fixture_close(f);
	unlink(f->path);
	spill(log, b.p, b.n);
	free(b.p);

	assert_int_equal(ledger_open(f->path, &l, f->message, sizeof(f->message)), -EUCLEAN);
	assert_non_null(strstr(f->message, "log"));
	assert_int_equal(access(f->path, F_OK), -1);
	assert_int_equal(access(log, F_OK), 0);
}

/* ---- Refusing ---- */

static void a_text_file_is_not_a_ledger(void **state)
{
	struct fixture *f = *state;
	static const char text[] = "dear diary, this is not a database, however long it may become in the end, "
	                           "and nobody shall write over it whatever name it has been given";

	spill(f->path, text, sizeof(text));
	refused(f, -EUCLEAN, "not a Ringside ledger");
}

static void an_empty_file_is_not_a_ledger(void **state)
{
	struct fixture *f = *state;

	spill(f->path, "", 0);
	refused(f, -EUCLEAN, "not a Ringside ledger");
}

static void a_directory_is_not_a_ledger(void **state)
{
	struct fixture *f = *state;
	struct ledger *l = NULL;

	assert_int_equal(mkdir(f->path, 0700), 0);
	assert_int_equal(ledger_open(f->path, &l, f->message, sizeof(f->message)), -EUCLEAN);
	assert_int_equal(rmdir(f->path), 0);
}

static void another_programs_database_is_refused(void **state)
{
	struct fixture *f = *state;

	sql(f, "CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')");
	refused(f, -EUCLEAN, "another program's");
	sql(f, "PRAGMA application_id = 77");
	refused(f, -EUCLEAN, "another program's");
	assert_int_equal(ask(f, "SELECT count(*) FROM recipes"), 1);
}

static void a_newer_version_is_refused(void **state)
{
	struct fixture *f = *state;

	fixture_open(f);
	fixture_close(f);
	sql(f, "PRAGMA user_version = 2");
	refused(f, -EUCLEAN, "newer");
}

/* The version may stand in the log alone: another opener has it open, so that it is not yet in the file itself. */
static void a_newer_version_in_the_log_is_refused(void **state)
{
	struct fixture *f = *state;
	sqlite3 *db = NULL;

	fixture_open(f);
	fixture_close(f);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 9", NULL, NULL, NULL), SQLITE_OK);
	refused(f, -EUCLEAN, "newer");
	sqlite3_close(db);
}

static void fill(struct fixture *f)
{
	fixture_open(f);
	assert_int_equal(ledger_take_lease(f->ledger, "tester", &f->epoch), 0);
	for (unsigned n = 0; n < 200; n++)
		assert_int_equal(add_sandbox(f->ledger, f->epoch, n), 0);
	fixture_close(f);
}

/* Every page in turn is overwritten; only where SQLite can know that something is wrong is it asked to say so. */
static void a_damaged_ledger_is_refused(void **state)
{
	struct fixture *f = *state;
	unsigned refusals = 0, pages = 0;

	fill(f);
	struct bytes good = slurp(f->path);
	assert_true(good.n > 8 * 4096);
	for (size_t at = 4096; at + 4096 <= good.n; at += 4096) {
		struct ledger *l = NULL;
		char *bad = malloc(good.n);

		pages++;
		memcpy(bad, good.p, good.n);
		memset(bad + at, 0xa5, 4096);
		spill(f->path, bad, good.n);
		if (ledger_open(f->path, &l, f->message, sizeof(f->message)) == 0) {
			ledger_close(l); /* a page of the free list */
		} else {
			refusals++;
			spill(f->path, bad, good.n);
			refused(f, -EUCLEAN, "damaged");
		}
		free(bad);
	}
	assert_true(refusals > 0 && refusals + 2 >= pages);

	memset(good.p + 120, 0xa5, 2000); /* the first page, behind the header */
	spill(f->path, good.p, good.n);
	refused(f, -EUCLEAN, "damaged");
	free(good.p);
}

static void a_ledger_that_was_cut_short_is_refused(void **state)
{
	struct fixture *f = *state;

	fill(f);
	struct bytes good = slurp(f->path);
	spill(f->path, good.p, good.n / 2);
	refused(f, -EUCLEAN, "damaged");
	spill(f->path, good.p, 200);
	refused(f, -EUCLEAN, "damaged");
	spill(f->path, good.p, 99);
	refused(f, -EUCLEAN, "not a Ringside ledger");
	free(good.p);
}

/* A refused file whose log was not yet copied into it: closing must not do that either. */
static void a_refused_ledgers_log_is_left_alone(void **state)
{
	struct fixture *f = *state;
	char log[128];

	fill(f);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) { /* leaves a log behind, as a crash does */
		sqlite3 *db = NULL;

		sqlite3_open(f->path, &db);
		sqlite3_exec(db, "PRAGMA user_version = 2", NULL, NULL, NULL);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	snprintf(log, sizeof(log), "%s-wal", f->path);
	struct bytes before = slurp(log);
	assert_true(before.n > 0);
	refused(f, -EUCLEAN, "newer");
	struct bytes after = slurp(log);
	assert_int_equal(after.n, before.n);
	assert_memory_equal(after.p, before.p, before.n);
	free(before.p);
	free(after.p);
}

/* ---- Bringing up ---- */

static void a_ledger_without_tables_is_brought_up(void **state)
{
	struct fixture *f = *state;

	sql(f, "PRAGMA application_id = 1381190727; CREATE TABLE t (x); DROP TABLE t");
	assert_int_equal(ask(f, "PRAGMA user_version"), 0);
	fixture_open(f);
	assert_int_equal(ledger_take_lease(f->ledger, "tester", &f->epoch), 0);
	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	fixture_close(f);
	assert_int_equal(ask(f, "PRAGMA user_version"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_ledger_is_private_and_named_as_ours),
		TEST(the_resource_table_has_the_columns_of_the_contract),
		TEST(a_missing_directory_is_told),
		TEST(many_first_openers_make_one_ledger),
		TEST(what_a_crashed_maker_left_is_taken_away),
		TEST(a_log_without_its_ledger_is_not_played_into_a_new_one),
		TEST(a_text_file_is_not_a_ledger),
		TEST(an_empty_file_is_not_a_ledger),
		TEST(a_directory_is_not_a_ledger),
		TEST(another_programs_database_is_refused),
		TEST(a_newer_version_is_refused),
		TEST(a_newer_version_in_the_log_is_refused),
		TEST(a_damaged_ledger_is_refused),
		TEST(a_ledger_that_was_cut_short_is_refused),
		TEST(a_refused_ledgers_log_is_left_alone),
		TEST(a_ledger_without_tables_is_brought_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
