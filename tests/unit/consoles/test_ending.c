/* test_ending.c - the timetable of an end, by a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "consoles/ending.h"

#define T0 1000000

/* Runs the timetable up to `until`, asking exactly when it wants to be asked, and notes what was sent when. */
struct log {
	unsigned n;
	int signal[64];
	uint64_t at[64];
};

static void run(struct ending *e, uint64_t now, uint64_t until, struct log *log)
{
	while (now <= until && !ending_over(e, now)) {
		int sig = ending_due(e, now);
		if (sig != 0 && log->n < 64) {
			log->signal[log->n] = sig;
			log->at[log->n++] = now - T0;
		}
		uint64_t next = ending_next(e);
		assert_true(next > now || sig != 0);
		now = next > now ? next : now;
	}
}

static void hangup_comes_first_then_term_then_kill(void **state)
{
	struct ending e;
	struct log log = { 0 };

	(void)state;
	ending_begin(&e, T0, 3000);
	run(&e, T0, T0 + 3000, &log);
	assert_int_equal(log.n, 3);
	assert_int_equal(log.signal[0], SIGHUP);
	assert_int_equal(log.at[0], 0);
	assert_int_equal(log.signal[1], SIGTERM);
	assert_int_equal(log.at[1], PROCESS_TERM_MS);
	assert_int_equal(log.signal[2], SIGKILL);
	assert_int_equal(log.at[2], 3000);
}

static void a_short_grace_has_no_term(void **state)
{
	static const uint64_t graces[] = { 1, 100, PROCESS_TERM_MS };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct ending e;
		struct log log = { 0 };
		ending_begin(&e, T0, graces[i]);
		run(&e, T0, T0 + graces[i], &log);
		assert_int_equal(log.n, 2);
		assert_int_equal(log.signal[0], SIGHUP);
		assert_int_equal(log.signal[1], SIGKILL);
		assert_int_equal(log.at[1], graces[i]);
	}
}

static void no_grace_is_kill_alone(void **state)
{
	struct ending e;
	struct log log = { 0 };

	(void)state;
	ending_begin(&e, T0, 0);
	run(&e, T0, T0, &log);
	assert_int_equal(log.n, 1);
	assert_int_equal(log.signal[0], SIGKILL);
}

static void kill_is_repeated_until_survivors_have_stood_their_time(void **state)
{
	struct ending e;
	uint64_t now = T0;
	unsigned kills = 0;

	(void)state;
	ending_begin(&e, T0, 0);
	while (!ending_over(&e, now)) {
		kills += ending_due(&e, now) == SIGKILL;
		now = ending_next(&e) > now ? ending_next(&e) : now;
	}
	assert_int_equal(now, T0 + PROCESS_SURVIVOR_MS);
	assert_int_equal(kills, PROCESS_SURVIVOR_MS / ENDING_AGAIN_MS);
}

static void a_loop_that_was_late_still_sends_one_at_a_time(void **state)
{
	struct ending e;

	(void)state;
	ending_begin(&e, T0, 3000);
	/* Two seconds late: SIGHUP and SIGTERM would both be due by the clock. */
	assert_int_equal(ending_due(&e, T0 + 2000), SIGHUP);
	assert_int_equal(ending_due(&e, T0 + 2000), 0);
	assert_int_equal(ending_due(&e, T0 + 2000 + PROCESS_TERM_MS - 1), 0);
	assert_int_equal(ending_due(&e, T0 + 2000 + PROCESS_TERM_MS), SIGTERM);
}

static void a_second_order_hurries_and_never_delays(void **state)
{
	struct ending e;
	struct log log = { 0 };

	(void)state;
	ending_begin(&e, T0, 3000);
	assert_int_equal(ending_due(&e, T0), SIGHUP);
	ending_hurry(&e, T0 + 100, 60000);
	assert_int_equal(e.kill_at, T0 + 3000);
	ending_hurry(&e, T0 + 100, 200);
	run(&e, ending_next(&e), T0 + 300, &log);
	assert_int_equal(log.n, 1);
	assert_int_equal(log.signal[0], SIGKILL);
	assert_int_equal(log.at[0], 300);
}

static void an_endless_grace_does_not_wrap(void **state)
{
	struct ending e;

	(void)state;
	ending_begin(&e, T0, UINT64_MAX);
	assert_int_equal(ending_due(&e, T0), SIGHUP);
	assert_int_equal(ending_due(&e, T0 + PROCESS_TERM_MS), SIGTERM);
	assert_int_equal(ending_due(&e, T0 + 1000000000), 0);
	assert_false(ending_over(&e, T0 + 1000000000));
}

static void the_receipt_has_a_step_for_each_signal_that_somebody_got(void **state)
{
	struct ending e;

	(void)state;
	ending_begin(&e, T0, 3000);
	ending_record(&e, SIGHUP, T0, 3);
	ending_record(&e, SIGTERM, T0 + 500, 0);
	ending_record(&e, SIGKILL, T0 + 3000, 2);
	ending_record(&e, SIGKILL, T0 + 3050, 1);
	assert_int_equal(e.receipt.nsteps, 2);
	assert_int_equal(e.receipt.steps[0].signal, SIGHUP);
	assert_int_equal(e.receipt.steps[0].left, 3);
	assert_int_equal(e.receipt.steps[1].signal, SIGKILL);
	assert_int_equal(e.receipt.steps[1].at_ms, 3000);
	assert_int_equal(e.receipt.steps[1].left, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hangup_comes_first_then_term_then_kill),
		cmocka_unit_test(a_short_grace_has_no_term),
		cmocka_unit_test(no_grace_is_kill_alone),
		cmocka_unit_test(kill_is_repeated_until_survivors_have_stood_their_time),
		cmocka_unit_test(a_loop_that_was_late_still_sends_one_at_a_time),
		cmocka_unit_test(a_second_order_hurries_and_never_delays),
		cmocka_unit_test(an_endless_grace_does_not_wrap),
		cmocka_unit_test(the_receipt_has_a_step_for_each_signal_that_somebody_got),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
