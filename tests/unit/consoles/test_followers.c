/* test_followers.c - who is told of what, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consoles/followers.h"

struct listener {
	struct follower follower; /* first: the callbacks cast */
	unsigned tails, sizes, ends;
	uint64_t tail;
	bool leaves;
};

static struct listener *of(struct follower *f)
{
	return (struct listener *)f;
}

static void on_tail(struct follower *f, uint64_t tail)
{
	of(f)->tails++;
	of(f)->tail = tail;
	if (of(f)->leaves)
		followers_del(f);
}

static void on_size(struct follower *f, uint16_t cols, uint16_t rows)
{
	(void)cols;
	(void)rows;
	of(f)->sizes++;
	if (of(f)->leaves)
		followers_del(f);
}

static void on_end(struct follower *f, const Wire__ConsoleInfo *info)
{
	(void)info;
	of(f)->ends++;
	assert_null(f->set);
}

static const struct follower_ops ops = { .on_tail = on_tail, .on_size = on_size, .on_end = on_end };

static void add(struct followers *s, struct listener *l, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		l[i] = (struct listener){ .follower = { .ops = &ops, .attached = i % 2 == 1 } };
		followers_add(s, &l[i].follower);
	}
}

static void a_level_follower_is_told_once(void **state)
{
	struct followers s = { 0 };
	struct listener l[1];

	(void)state;
	add(&s, l, 1);
	followers_tail(&s, 5); /* not level: not told */
	assert_int_equal(l[0].tails, 0);
	followers_level(&l[0].follower, 5, 5);
	assert_int_equal(l[0].tails, 0);
	followers_tail(&s, 5);
	assert_int_equal(l[0].tails, 0);
	followers_tail(&s, 9);
	followers_tail(&s, 12);
	assert_int_equal(l[0].tails, 1);
	assert_int_equal(l[0].tail, 9);
}

static void a_follower_that_is_behind_is_told_at_once_and_then_no_more(void **state)
{
	struct followers s = { 0 };
	struct listener l[1];

	(void)state;
	add(&s, l, 1);
	followers_level(&l[0].follower, 5, 5);
	followers_level(&l[0].follower, 3, 5);
	assert_int_equal(l[0].tails, 1);
	followers_tail(&s, 6);
	assert_int_equal(l[0].tails, 1);
}

static void a_follower_may_leave_from_its_own_callback(void **state)
{
	struct followers s = { 0 };
	struct listener l[5];

	(void)state;
	add(&s, l, 5);
	for (int i = 0; i < 5; i++)
		followers_level(&l[i].follower, 0, 0);
	l[2].leaves = l[4].leaves = true;
	followers_tail(&s, 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(l[i].tails, 1);
	assert_int_equal(s.count, 3);
	l[0].leaves = true;
	followers_size(&s, 80, 24);
	assert_int_equal(l[0].sizes + l[1].sizes + l[3].sizes, 3);
	assert_int_equal(l[2].sizes + l[4].sizes, 0);
	assert_int_equal(s.count, 2);
}

static void attached_ones_are_counted(void **state)
{
	struct followers s = { 0 };
	struct listener l[4];

	(void)state;
	add(&s, l, 4);
	assert_int_equal(s.attached, 2);
	followers_del(&l[1].follower);
	followers_del(&l[1].follower); /* once is enough */
	assert_int_equal(s.attached, 1);
	assert_int_equal(s.count, 3);
}

static void the_end_is_told_to_all_and_leaves_nobody(void **state)
{
	struct followers s = { 0 };
	struct listener l[4];

	(void)state;
	add(&s, l, 4);
	followers_level(&l[3].follower, 0, 0);
	followers_end(&s, NULL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(l[i].ends, 1);
	assert_int_equal(s.count, 0);
	assert_null(s.armed);
	followers_tail(&s, 1);
	assert_int_equal(l[3].tails, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_level_follower_is_told_once),
		cmocka_unit_test(a_follower_that_is_behind_is_told_at_once_and_then_no_more),
		cmocka_unit_test(a_follower_may_leave_from_its_own_callback),
		cmocka_unit_test(attached_ones_are_counted),
		cmocka_unit_test(the_end_is_told_to_all_and_leaves_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
