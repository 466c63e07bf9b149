/* Sandboxes and consoles: a sandbox and its resource together or not at all, names unique among those that live. */
#include "tests/unit/ledger/fixture.h"

#include <assert.h>

#include "wire/codes.h"

/* The schema and sandboxes.c have this number written out, since the ledger does not link wire. */
static_assert(SANDBOX_TERMINATED == 4 && SANDBOX_CREATING == 1 && SANDBOX_FAILED == 5, "the schema's states");
static_assert(CONSOLE_RUNNING == 1 && CONSOLE_LOST == 3, "the schema's states");

static void a_sandbox_comes_with_its_pending_row(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	struct found_sandbox s = find_sandbox(f->ledger, "sb-1");
	assert_true(s.found);
	assert_int_equal(s.state, SANDBOX_CREATING);
	assert_string_equal(s.name, "box1");
	assert_string_equal(s.instance, "");
	assert_string_equal(s.spec_json, "{}");
	assert_true(s.created_at_ms > 0);
	assert_int_equal(s.ended_at_ms, 0);
	assert_int_equal(find_resource(f->ledger, "res-1").state, LEDGER_PENDING);
}

static void neither_half_is_left_when_the_other_is_refused(void **state)
{
	struct fixture *f = *state;
	struct texts first = texts_of(1), second = texts_of(2);
	struct ledger_resource row = resource_of(&second);
	struct ledger_sandbox s = sandbox_of(&second);

	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);

	s.name = first.name; /* the sandbox is refused */
	assert_int_equal(ledger_add_sandbox(f->ledger, f->epoch, &s, &row), -EEXIST);
	assert_false(find_resource(f->ledger, second.resource).found);

	s.name = second.name;
	row.operation_key = first.key; /* the row is */
	assert_int_equal(ledger_add_sandbox(f->ledger, f->epoch, &s, &row), -EEXIST);
	assert_false(find_sandbox(f->ledger, second.sandbox).found);

	row.operation_key = second.key;
	s.resource_id = first.resource; /* they are not of each other */
	assert_int_equal(ledger_add_sandbox(f->ledger, f->epoch, &s, &row), -EINVAL);
	assert_int_equal(count_resources(f->ledger), 1);
}

static void a_name_is_free_again_once_its_sandbox_is_terminated(void **state)
{
	struct fixture *f = *state;
	struct texts first = texts_of(1), second = texts_of(2);
	struct ledger_resource row = resource_of(&second);
	struct ledger_sandbox s = sandbox_of(&second);
	static const uint32_t holding[] = { SANDBOX_RUNNING, SANDBOX_SUSPENDED, SANDBOX_FAILED };

	s.name = first.name;
	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	for (size_t i = 0; i < sizeof(holding) / sizeof(holding[0]); i++) {
		assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", holding[i], NULL, NULL), 0);
		assert_int_equal(ledger_add_sandbox(f->ledger, f->epoch, &s, &row), -EEXIST);
	}
	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", SANDBOX_TERMINATED, "removed", NULL), 0);
	assert_int_equal(ledger_add_sandbox(f->ledger, f->epoch, &s, &row), 0);

	/* And the old one cannot come back beside it. */
	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", SANDBOX_RUNNING, NULL, NULL), -EEXIST);
	assert_int_equal(find_sandbox(f->ledger, "sb-1").state, SANDBOX_TERMINATED);
}

static void any_number_may_have_no_name(void **state)
{
	struct fixture *f = *state;

	for (unsigned n = 1; n <= 3; n++) {
		struct texts t = texts_of(n);
		struct ledger_resource row = resource_of(&t);
		struct ledger_sandbox s = sandbox_of(&t);

		s.name = n == 1 ? NULL : "";
		assert_int_equal(ledger_add_sandbox(f->ledger, f->epoch, &s, &row), 0);
	}
}

static void an_update_keeps_what_it_does_not_name(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", SANDBOX_RUNNING, "ready", "pid=1 x"), 0);
	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", SANDBOX_SUSPENDED, NULL, NULL), 0);
	struct found_sandbox s = find_sandbox(f->ledger, "sb-1");
	assert_int_equal(s.state, SANDBOX_SUSPENDED);
	assert_string_equal(s.reason, "ready");
	assert_string_equal(s.instance, "pid=1 x");

	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", 0, NULL, ""), 0);
	s = find_sandbox(f->ledger, "sb-1");
	assert_int_equal(s.state, SANDBOX_SUSPENDED);
	assert_string_equal(s.instance, "");
	assert_int_equal(s.ended_at_ms, 0);

	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", SANDBOX_TERMINATED, "removed", NULL), 0);
	uint64_t ended = find_sandbox(f->ledger, "sb-1").ended_at_ms;
	assert_true(ended > 0);
	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", 0, "still", NULL), 0);
	assert_int_equal(find_sandbox(f->ledger, "sb-1").ended_at_ms, ended);

	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-9", 0, "x", NULL), -ENOENT);
	assert_int_equal(ledger_update_sandbox(f->ledger, f->epoch, "sb-1", 77, NULL, NULL), -EINVAL);
}

/* ---- Consoles ---- */

struct seen {
	unsigned n;
	struct ledger_console last;
	char name[32];
	unsigned char info[16];
};

static bool see(const struct ledger_console *c, void *ctx)
{
	struct seen *s = ctx;

	s->n++;
	s->last = *c;
	snprintf(s->name, sizeof(s->name), "%s", c->name);
	assert_true(c->info_bytes <= sizeof(s->info));
	if (c->info_bytes)
		memcpy(s->info, c->info, c->info_bytes);
	return true;
}

static struct seen consoles_of(struct ledger *l, const char *sandbox)
{
	struct seen s = { .n = 0 };

	assert_int_equal(ledger_each_console(l, sandbox, see, &s), 0);
	return s;
}

static void a_console_is_kept_as_it_was_last_put(void **state)
{
	struct fixture *f = *state;
	static const unsigned char info[] = { 0, 1, 0, 255, 0 };
	struct ledger_console c = {
		.sandbox_id = "sb-1",
		.name = "dev",
		.incarnation = 1,
		.state = CONSOLE_RUNNING,
		.tail_offset = 77,
	};

	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), 0);
	c.incarnation = 4000000000U;
	c.state = CONSOLE_EXITED;
	c.tail_offset = INT64_MAX;
	c.info = info;
	c.info_bytes = sizeof(info);
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), 0);

	fixture_close(f);
	fixture_open(f);
	struct seen s = consoles_of(f->ledger, "sb-1");
	assert_int_equal(s.n, 1);
	assert_string_equal(s.name, "dev");
	assert_int_equal(s.last.incarnation, 4000000000U);
	assert_int_equal(s.last.state, CONSOLE_EXITED);
	assert_int_equal(s.last.tail_offset, INT64_MAX);
	assert_int_equal(s.last.info_bytes, sizeof(info));
	assert_memory_equal(s.info, info, sizeof(info));
}

static void consoles_belong_to_their_sandbox_until_they_are_dropped(void **state)
{
	struct fixture *f = *state;
	struct ledger_console c = { .name = "dev", .incarnation = 1, .state = CONSOLE_LOST };

	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	assert_int_equal(add_sandbox(f->ledger, f->epoch, 2), 0);
	c.sandbox_id = "sb-1";
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), 0);
	c.sandbox_id = "sb-2";
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), 0);
	c.sandbox_id = "sb-3";
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), -ENOENT);

	assert_int_equal(ledger_drop_console(f->ledger, f->epoch, "sb-1", "dev"), 0);
	assert_int_equal(ledger_drop_console(f->ledger, f->epoch, "sb-1", "dev"), -ENOENT);
	assert_int_equal(consoles_of(f->ledger, "sb-1").n, 0);
	assert_int_equal(consoles_of(f->ledger, "sb-2").n, 1);
}

static void a_console_that_cannot_be_is_refused(void **state)
{
	struct fixture *f = *state;
	const struct ledger_console whole = {
		.sandbox_id = "sb-1", .name = "dev", .incarnation = 1, .state = CONSOLE_RUNNING
	};
	struct ledger_console c;

	assert_int_equal(add_sandbox(f->ledger, f->epoch, 1), 0);
	c = whole, c.state = 9;
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), -EINVAL);
	c = whole, c.incarnation = 0;
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), -EINVAL);
	c = whole, c.name = NULL;
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), -EINVAL);
	c = whole, c.tail_offset = (uint64_t)INT64_MAX + 1;
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), -EOVERFLOW);
	char *large = calloc(1, 2 << 20);
	c = whole, c.info = large, c.info_bytes = 2 << 20;
	assert_int_equal(ledger_put_console(f->ledger, f->epoch, &c), -EMSGSIZE);
	free(large);
	assert_int_equal(consoles_of(f->ledger, "sb-1").n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_ledger, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_sandbox_comes_with_its_pending_row),
		TEST(neither_half_is_left_when_the_other_is_refused),
		TEST(a_name_is_free_again_once_its_sandbox_is_terminated),
		TEST(any_number_may_have_no_name),
		TEST(an_update_keeps_what_it_does_not_name),
		TEST(a_console_is_kept_as_it_was_last_put),
		TEST(consoles_belong_to_their_sandbox_until_they_are_dropped),
		TEST(a_console_that_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
