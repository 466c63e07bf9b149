/* The lease: one holder may write, epochs only grow, a stale holder is refused by every call. */
#include "tests/unit/ledger/fixture.h"

#include <sqlite3.h>

static void each_lease_has_a_higher_epoch(void **state)
{
	struct fixture *f = *state;
	uint64_t second = 0, third = 0;

	assert_int_equal(f->epoch, 1);
	assert_int_equal(ledger_take_lease(f->ledger, "tester", &second), 0);
	assert_int_equal(ledger_take_lease(f->ledger, "another", &third), 0);
	assert_int_equal(second, 2);
	assert_int_equal(third, 3);
}

static void epochs_go_on_growing_after_the_file_was_closed(void **state)
{
	struct fixture *f = *state;
	uint64_t next = 0;

	fixture_close(f);
	fixture_open(f);
	assert_int_equal(ledger_take_lease(f->ledger, "tester", &next), 0);
	assert_int_equal(next, f->epoch + 1);
}

/* A lease row that was lost must not give an epoch a second time: the rows that it wrote remember it. */
static void an_epoch_that_a_row_has_recorded_is_never_given_again(void **state)
{
	struct fixture *f = *state;
	uint64_t epoch = 0;
	sqlite3 *db = NULL;

	for (int i = 0; i < 4; i++)
		assert_int_equal(ledger_take_lease(f->ledger, "tester", &epoch), 0);
	assert_int_equal(add_resource(f->ledger, epoch, 1), 0);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "DELETE FROM lease", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);

	uint64_t next = 0;
	assert_int_equal(ledger_take_lease(f->ledger, "tester", &next), 0);
	assert_int_equal(next, epoch + 1);
}

static void nothing_is_written_without_a_lease(void **state)
{
	struct fixture *f = *state;

	fixture_open(f);
	assert_int_equal(add_resource(f->ledger, 0, 1), -ESTALE);
	assert_int_equal(add_resource(f->ledger, 1, 1), -ESTALE);
	assert_int_equal(ledger_fence(f->ledger, 0), -ESTALE);
	assert_int_equal(count_resources(f->ledger), 0);
}

/* Two openers of one file, as a stalled daemon and the one that took over are. */
static void a_second_opener_makes_the_first_ones_writes_stale(void **state)
{
	struct fixture *f = *state;
	struct ledger *other = NULL;
	uint64_t newer = 0;

	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	assert_int_equal(ledger_fence(f->ledger, f->epoch), 0);
	assert_int_equal(ledger_open(f->path, &other, f->message, sizeof(f->message)), 0);
	assert_int_equal(ledger_fence(f->ledger, f->epoch), 0); /* opening takes nothing from anybody */
	assert_int_equal(ledger_take_lease(other, "another", &newer), 0);

	assert_int_equal(ledger_fence(f->ledger, f->epoch), -ESTALE);
	assert_int_equal(add_resource(f->ledger, f->epoch, 2), -ESTALE);
	assert_int_equal(add_sandbox(f->ledger, f->epoch, 3), -ESTALE);
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-1", "ref"), -ESTALE);
	assert_int_equal(ledger_set_state(f->ledger, f->epoch, "res-1", LEDGER_RELEASED, "x"), -ESTALE);
	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", 4, "x", "x"), -ESTALE);
	struct ledger_console c = { .sandbox_id = "sb-1", .name = "dev", .incarnation = 1, .state = 1 };
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), -ESTALE);
	assert_int_equal(ledger_drop_console(f->ledger, f->epoch, "sb-1", "dev"), -ESTALE);

	assert_int_equal(find_resource(other, "res-1").state, LEDGER_PENDING);
	assert_int_equal(find_sandbox(other, "sb-1").state, 1);
	assert_int_equal(count_resources(other), 1);
	assert_int_equal(ledger_fence(other, newer), 0);
	assert_int_equal(add_resource(other, newer, 2), 0);
	ledger_close(other);
}

static void an_epoch_of_the_future_is_no_better_than_one_of_the_past(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ledger_fence(f->ledger, f->epoch + 1), -ESTALE);
	assert_int_equal(add_resource(f->ledger, f->epoch + 1, 1), -ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_lease_has_a_higher_epoch, setup_ledger, teardown),
		cmocka_unit_test_setup_teardown(epochs_go_on_growing_after_the_file_was_closed, setup_ledger, teardown),
		cmocka_unit_test_setup_teardown(
		        an_epoch_that_a_row_has_recorded_is_never_given_again, setup_ledger, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_written_without_a_lease, setup_directory, teardown),
		cmocka_unit_test_setup_teardown(
		        a_second_opener_makes_the_first_ones_writes_stale, setup_ledger, teardown),
		cmocka_unit_test_setup_teardown(
		        an_epoch_of_the_future_is_no_better_than_one_of_the_past, setup_ledger, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
