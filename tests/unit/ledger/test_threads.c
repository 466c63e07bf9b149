/* Many threads at one ledger: each gets its own result, nothing is lost, nothing is seen half. Run under VARIANT=tsan
 * too. */
#include "tests/unit/ledger/fixture.h"

#include <pthread.h>

enum { THREADS = 12, ROWS = 40 };

struct part {
	struct fixture *f;
	unsigned number;
	unsigned failures, wins, refusals, seen;
};

static void run_all(struct fixture *f, struct part parts[THREADS], void *(*run)(void *))
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		parts[i] = (struct part){ .f = f, .number = i };
		assert_int_equal(pthread_create(&threads[i], NULL, run, &parts[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static bool see_whole_row(const struct ledger_sandbox *s, void *ctx)
{
	struct part *p = ctx;

	/* Added with its row in one step, and moved in one step: nobody sees a state without its reason. */
	if ((s->state == 2) != (strcmp(s->reason, "ready") == 0))
		p->failures++;
	p->seen++;
	return true;
}

static void *live_through_rows(void *arg)
{
	struct part *p = arg;
	struct ledger *l = p->f->ledger;
	uint64_t e = p->f->epoch;

	for (unsigned i = 0; i < ROWS; i++) {
		struct texts t = texts_of(p->number * 1000 + i);
		struct ledger_console c = { .sandbox_id = t.sandbox, .name = "dev", .incarnation = 1, .state = 1 };

		p->failures += add_sandbox(l, e, p->number * 1000 + i) != 0;
		p->failures += ledger_set_live(l, e, t.resource, t.sandbox) != 0;
		p->failures += ledger_update_sandbox(l, e, t.sandbox, 2, "ready", NULL) != 0;
		p->failures += ledger_put_console(l, e, &c) != 0;
		p->failures += ledger_fence(l, e) != 0;
		if (i % 8 == 0)
			p->failures += ledger_each_sandbox(l, see_whole_row, p) != 0;
	}
	return NULL;
}

static void many_threads_lose_nothing_and_see_nothing_half(void **state)
{
	struct fixture *f = *state;
	struct part parts[THREADS];

	run_all(f, parts, live_through_rows);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(parts[i].failures, 0);
		assert_true(parts[i].seen > 0);
	}
	assert_int_equal(count_resources(f->ledger), THREADS * ROWS);
	fixture_close(f);
	fixture_open(f);
	assert_int_equal(count_resources(f->ledger), THREADS * ROWS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(find_resource(f->ledger, texts_of(i * 1000 + ROWS - 1).resource).state, LEDGER_LIVE);
}

/* All want the same names. What is refused shares its transaction with what is not. */
static void *want_the_same(void *arg)
{
	struct part *p = arg;

	for (unsigned i = 0; i < ROWS; i++) {
		struct texts own = texts_of(p->number * 1000 + i), common = texts_of(i);
		struct ledger_resource row = resource_of(&own);
		struct ledger_sandbox s = sandbox_of(&own);

		s.name = common.name;
		int r = ledger_add_sandbox(p->f->ledger, p->f->epoch, &s, &row);
		p->wins += r == 0;
		p->refusals += r == -EEXIST;
		p->failures += r != 0 && r != -EEXIST;
	}
	return NULL;
}

static void of_many_that_want_one_name_exactly_one_gets_it(void **state)
{
	struct fixture *f = *state;
	struct part parts[THREADS];
	unsigned wins = 0, refusals = 0;

	run_all(f, parts, want_the_same);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(parts[i].failures, 0);
		wins += parts[i].wins;
		refusals += parts[i].refusals;
	}
	assert_int_equal(wins, ROWS);
	assert_int_equal(refusals, (THREADS - 1) * ROWS);
	assert_int_equal(count_resources(f->ledger), ROWS);
}

/* One takes the lease away in the middle: until then all succeed, from then on all are stale, with nothing in between.
 */
static void *write_until_stale(void *arg)
{
	struct part *p = arg;

	for (unsigned i = 0; i < 100000; i++) {
		int r = add_resource(p->f->ledger, p->f->epoch, p->number * 100000 + i);

		if (r == -ESTALE) {
			p->refusals++;
			p->failures += ledger_fence(p->f->ledger, p->f->epoch) != -ESTALE;
			return NULL;
		}
		p->wins += r == 0;
		p->failures += r != 0;
		if (p->number == 0 && i == ROWS) {
			uint64_t newer = 0;

			p->failures += ledger_take_lease(p->f->ledger, "another", &newer) != 0;
			p->failures += newer != p->f->epoch + 1;
		}
	}
	return NULL;
}

static void a_lease_lost_in_the_middle_stops_every_writer(void **state)
{
	struct fixture *f = *state;
	struct part parts[THREADS];
	unsigned wins = 0;

	run_all(f, parts, write_until_stale);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(parts[i].failures, 0);
		assert_int_equal(parts[i].refusals, 1);
		wins += parts[i].wins;
	}
	assert_int_equal(count_resources(f->ledger), wins);
}

/* More callers than the queue holds: the surplus waits, and is answered as well. */
enum { MANY = 400 };

static void *add_one(void *arg)
{
	struct part *p = arg;

	p->failures = add_resource(p->f->ledger, p->f->epoch, p->number) != 0;
	return NULL;
}

static void more_callers_than_the_queue_holds_are_all_answered(void **state)
{
	struct fixture *f = *state;
	static struct part parts[MANY];
	static pthread_t threads[MANY];
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 * 1024);
	for (unsigned i = 0; i < MANY; i++) {
		parts[i] = (struct part){ .f = f, .number = i };
		assert_int_equal(pthread_create(&threads[i], &small, add_one, &parts[i]), 0);
	}
	for (unsigned i = 0; i < MANY; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(parts[i].failures, 0);
	}
	pthread_attr_destroy(&small);
	assert_int_equal(count_resources(f->ledger), MANY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_ledger, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(many_threads_lose_nothing_and_see_nothing_half),
		TEST(of_many_that_want_one_name_exactly_one_gets_it),
		TEST(a_lease_lost_in_the_middle_stops_every_writer),
		TEST(more_callers_than_the_queue_holds_are_all_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
