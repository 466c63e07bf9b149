/* Resource rows: pending first, moved only along the known ways, never lost, each key once. */
#include "tests/unit/ledger/fixture.h"

#include <sqlite3.h>
#include <time.h>

static void a_row_is_pending_and_without_a_reference_whatever_it_says(void **state)
{
	struct fixture *f = *state;
	struct texts t = texts_of(1);
	struct ledger_resource row = resource_of(&t);
	uint64_t before = (uint64_t)time(NULL) * 1000;

	row.state = LEDGER_LIVE;
	row.ref = "somewhere";
	row.kind = LEDGER_SNAPSHOT;
	row.expires_at_ms = 12345;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), 0);

	struct found_resource r = find_resource(f->ledger, t.resource);
	assert_true(r.found);
	assert_int_equal(r.state, LEDGER_PENDING);
	assert_string_equal(r.ref, "");
	assert_string_equal(r.provider, "host");
	assert_string_equal(r.key, t.key);
	assert_int_equal(r.kind, LEDGER_SNAPSHOT);
	assert_int_equal(r.epoch, f->epoch);
	assert_int_equal(r.expires_at_ms, 12345);
	assert_int_equal(r.released_at_ms, 0);
	assert_int_equal(r.claim, 0);
	assert_true(r.acquired_at_ms >= before);
}

static void an_operation_key_is_recorded_once(void **state)
{
	struct fixture *f = *state;
	struct texts first = texts_of(1), second = texts_of(2);
	struct ledger_resource row = resource_of(&second);

	assert_int_equal(add_resource(f->ledger, f->epoch, 1), 0);
	row.operation_key = first.key;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EEXIST);
	row.operation_key = second.key;
	row.resource_id = first.resource;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EEXIST);
	assert_int_equal(count_resources(f->ledger), 1);

	/* Also when the first one has long been released. */
	assert_int_equal(ledger_set_state(f->ledger, f->epoch, first.resource, LEDGER_RELEASED, "never made"), 0);
	row.resource_id = second.resource;
	row.operation_key = first.key;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EEXIST);
}

static void a_row_without_what_it_needs_is_refused(void **state)
{
	struct fixture *f = *state;
	struct texts t = texts_of(1);
	const struct ledger_resource whole = resource_of(&t);
	struct ledger_resource row;

	row = whole, row.resource_id = NULL;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EINVAL);
	row = whole, row.operation_key = NULL;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EINVAL);
	row = whole, row.operation_key = "";
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EINVAL);
	row = whole, row.provider = "";
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EINVAL);
	row = whole, row.owner_id = NULL;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EINVAL);
	row = whole, row.kind = (enum ledger_kind)7;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EINVAL);
	row = whole, row.expires_at_ms = UINT64_MAX;
	assert_int_equal(ledger_add_pending(f->ledger, f->epoch, &row), -EOVERFLOW);
	assert_int_equal(count_resources(f->ledger), 0);
}

static void the_life_of_a_row_ends_with_its_outcome_and_time(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add_resource(f->ledger, f->epoch, 1), 0);
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-1", "sb-1"), 0);
	struct found_resource r = find_resource(f->ledger, "res-1");
	assert_int_equal(r.state, LEDGER_LIVE);
	assert_string_equal(r.ref, "sb-1");

	assert_int_equal(ledger_set_state(f->ledger, f->epoch, "res-1", LEDGER_RELEASING, NULL), 0);
	assert_int_equal(ledger_set_state(f->ledger, f->epoch, "res-1", LEDGER_RELEASE_FAILED, "disk on fire"), 0);
	r = find_resource(f->ledger, "res-1");
	assert_int_equal(r.state, LEDGER_RELEASE_FAILED);
	assert_string_equal(r.outcome, "disk on fire");
	assert_int_equal(r.released_at_ms, 0);

	assert_int_equal(ledger_set_state(f->ledger, f->epoch, "res-1", LEDGER_RELEASING, NULL), 0);
	assert_string_equal(find_resource(f->ledger, "res-1").outcome, "disk on fire");
	assert_int_equal(ledger_set_state(f->ledger, f->epoch, "res-1", LEDGER_RELEASED, "released"), 0);
	r = find_resource(f->ledger, "res-1");
	assert_int_equal(r.state, LEDGER_RELEASED);
	assert_string_equal(r.outcome, "released");
	assert_string_equal(r.ref, "sb-1");
	assert_true(r.released_at_ms >= r.acquired_at_ms);
}

/* Brings a fresh row to `s` by ways that are allowed. */
static void bring_to(struct fixture *f, const char *id, enum ledger_state s)
{
	if (s == LEDGER_PENDING)
		return;
	if (s == LEDGER_UNKNOWN || s == LEDGER_RELEASED) {
		assert_int_equal(ledger_set_state(f->ledger, f->epoch, id, s, ""), 0);
		return;
	}
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, id, "ref"), 0);
	if (s != LEDGER_LIVE)
		assert_int_equal(ledger_set_state(f->ledger, f->epoch, id, LEDGER_RELEASING, ""), 0);
	if (s == LEDGER_RELEASE_FAILED)
		assert_int_equal(ledger_set_state(f->ledger, f->epoch, id, s, ""), 0);
}

/* Written out by hand from ledger.h, so that the code's own table is not what it is compared with. */
static void a_row_goes_only_where_the_header_says(void **state)
{
	static const char *const allowed[] = { "pending>live", "pending>released", "pending>unknown", "live>releasing",
		"live>released", "live>unknown", "releasing>released", "releasing>release_failed", "releasing>unknown",
		"release_failed>releasing", "release_failed>released", "release_failed>unknown", "unknown>live",
		"unknown>releasing", "unknown>released" };
	struct fixture *f = *state;
	unsigned n = 0;

	for (int from = LEDGER_PENDING; from <= LEDGER_UNKNOWN; from++) {
		for (int to = LEDGER_PENDING; to <= LEDGER_UNKNOWN; to++) {
			char way[64];
			bool expected = from == to;
			struct texts t = texts_of(++n);

			snprintf(way, sizeof(way), "%s>%s", ledger_state_name((enum ledger_state)from),
			        ledger_state_name((enum ledger_state)to));
			for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
				expected = expected || strcmp(allowed[i], way) == 0;
			assert_int_equal(add_resource(f->ledger, f->epoch, n), 0);
			bring_to(f, t.resource, (enum ledger_state)from);
			int r = to == LEDGER_LIVE ? ledger_set_live(f->ledger, f->epoch, t.resource, "ref")
			                          : ledger_set_state(f->ledger, f->epoch, t.resource,
			                                    (enum ledger_state)to, NULL);
			if (r != (expected ? 0 : -EINVAL))
				fail_msg("%s: answered %d", way, r);
			assert_int_equal(find_resource(f->ledger, t.resource).state, expected ? to : from);
		}
	}
}

static void a_live_row_has_a_reference(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add_resource(f->ledger, f->epoch, 1), 0);
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-1", ""), -EINVAL);
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-1", NULL), -EINVAL);
	assert_int_equal(ledger_set_state(f->ledger, f->epoch, "res-1", LEDGER_LIVE, NULL), -EINVAL);
	assert_int_equal(find_resource(f->ledger, "res-1").state, LEDGER_PENDING);
}

static void a_row_that_is_not_there_is_told_so(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-9", "ref"), -ENOENT);
	assert_int_equal(ledger_set_state(f->ledger, f->epoch, "res-9", LEDGER_RELEASED, NULL), -ENOENT);
	assert_int_equal(ledger_set_state(f->ledger, f->epoch, NULL, LEDGER_RELEASED, NULL), -ENOENT);
}

static bool in_order(const struct ledger_resource *row, void *ctx)
{
	unsigned *seen = ctx;
	struct texts t = texts_of(*seen + 1);

	assert_string_equal(row->resource_id, t.resource);
	return ++*seen < 7;
}

static void rows_are_listed_oldest_first_until_the_reader_has_enough(void **state)
{
	struct fixture *f = *state;
	unsigned seen = 0;

	for (unsigned n = 1; n <= 12; n++)
		assert_int_equal(add_resource(f->ledger, f->epoch, n), 0);
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-2", "ref"), 0);
	assert_int_equal(ledger_each_resource(f->ledger, in_order, &seen), 0);
	assert_int_equal(seen, 7);
}

static bool write_and_list_inside(const struct ledger_resource *row, void *ctx)
{
	struct fixture *f = ctx;

	assert_int_equal(ledger_set_live(f->ledger, f->epoch, row->resource_id, "ref"), 0);
	assert_int_equal(count_resources(f->ledger), 3);
	assert_int_equal(ledger_fence(f->ledger, f->epoch), 0);
	return true;
}

static void a_listings_callback_may_use_the_ledger(void **state)
{
	struct fixture *f = *state;

	for (unsigned n = 1; n <= 3; n++)
		assert_int_equal(add_resource(f->ledger, f->epoch, n), 0);
	assert_int_equal(ledger_each_resource(f->ledger, write_and_list_inside, f), 0);
	for (unsigned n = 1; n <= 3; n++)
		assert_int_equal(find_resource(f->ledger, texts_of(n).resource).state, LEDGER_LIVE);
}

/* The file itself refuses what no version of this code should write: a fault here is told, not stored. */
static void the_file_admits_only_known_states(void **state)
{
	static const char *const wrong[] = {
		"UPDATE resources SET state = 'lost'",
		"UPDATE resources SET state = 'live'",     /* without a reference */
		"UPDATE resources SET state = 'released'", /* without a time */
		"UPDATE resources SET kind = 'volume'",
		"UPDATE resources SET released_at = 5", /* without being released */
		"UPDATE resources SET operation_key = NULL",
		"UPDATE resources SET acquired_at = 'yesterday'",
		"UPDATE resources SET cleanup_claim = -1",
	};
	struct fixture *f = *state;
	sqlite3 *db = NULL;

	assert_int_equal(add_resource(f->ledger, f->epoch, 1), 0);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (sqlite3_exec(db, wrong[i], NULL, NULL, NULL) != SQLITE_CONSTRAINT)
			fail_msg("taken: %s", wrong[i]);
	assert_int_equal(
	        sqlite3_exec(db, "UPDATE resources SET ref = 'r', state = 'live'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void states_have_the_names_of_the_contract(void **state)
{
	(void)state;
	assert_string_equal(ledger_state_name(LEDGER_PENDING), "pending");
	assert_string_equal(ledger_state_name(LEDGER_RELEASE_FAILED), "release_failed");
	assert_string_equal(ledger_state_name((enum ledger_state)99), "?");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_ledger, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_row_is_pending_and_without_a_reference_whatever_it_says),
		TEST(an_operation_key_is_recorded_once),
		TEST(a_row_without_what_it_needs_is_refused),
		TEST(the_life_of_a_row_ends_with_its_outcome_and_time),
		TEST(a_row_goes_only_where_the_header_says),
		TEST(a_live_row_has_a_reference),
		TEST(a_row_that_is_not_there_is_told_so),
		TEST(rows_are_listed_oldest_first_until_the_reader_has_enough),
		TEST(a_listings_callback_may_use_the_ledger),
		TEST(the_file_admits_only_known_states),
		cmocka_unit_test(states_have_the_names_of_the_contract),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
