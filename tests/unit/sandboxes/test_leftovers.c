/*
 * test_leftovers.c - the promises of sandboxes/leftovers.h: a recorded program and its session are ended, and nobody
 * else.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "providers/instance.h"
#include "sandboxes/leftovers.h"

/* A session with a leader and one member, as a console's program and its child. */
struct session {
	pid_t leader, member;
	uint64_t start_time;
};

static void wait_for_ever(void)
{
	for (;;)
		pause();
}

static struct session start_session(void)
{
	int report[2];
	struct session s = { 0 };

	assert_int_equal(pipe(report), 0);
	s.leader = fork();
	assert_true(s.leader >= 0);
	if (s.leader == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsid();
		pid_t member = fork();
		if (member == 0)
			wait_for_ever();
		if (write(report[1], &member, sizeof(member)) != sizeof(member))
			_exit(1);
		wait_for_ever();
	}
	assert_int_equal(read(report[0], &s.member, sizeof(s.member)), sizeof(s.member));
	close(report[0]);
	close(report[1]);
	assert_int_equal(instance_start_time(s.leader, &s.start_time), 0);
	return s;
}

/* The test program is a subreaper: a member whose leader has died is its child. */
static void reap(pid_t pid)
{
	int status;
	pid_t r;

	do
		r = waitpid(pid, &status, 0);
	while (r < 0 && errno == EINTR);
	assert_int_equal(r, pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int be_subreaper(void **state)
{
	(void)state;
	return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void a_program_and_its_session_are_ended(void **state)
{
	struct session s = start_session();

	(void)state;
	assert_int_equal(leftovers_end(s.leader, s.start_time), 2);
	reap(s.leader);
	reap(s.member);
}

static void what_a_dead_program_left_in_its_session_is_ended(void **state)
{
	struct session s = start_session();

	(void)state;
	kill(s.leader, SIGKILL);
	reap(s.leader);
	assert_int_equal(leftovers_end(s.leader, s.start_time), 1);
	reap(s.member);
}

static void a_process_that_has_the_number_by_now_is_left_alone(void **state)
{
	struct session s = start_session();

	(void)state;
	assert_int_equal(leftovers_end(s.leader, s.start_time + 1), 0);
	assert_int_equal(leftovers_end(s.leader, s.start_time - 1), 0);
	assert_int_equal(leftovers_end(s.leader, 0), 0);
	assert_int_equal(kill(s.leader, 0), 0);
	assert_int_equal(kill(s.member, 0), 0);
	assert_int_equal(leftovers_end(s.leader, s.start_time), 2);
	reap(s.leader);
	reap(s.member);
}

static void what_runs_no_more_is_no_fault(void **state)
{
	struct session s = start_session();

	(void)state;
	assert_int_equal(leftovers_end(s.leader, s.start_time), 2);
	reap(s.leader);
	reap(s.member);
	assert_int_equal(leftovers_end(s.leader, s.start_time), 0);
	assert_int_equal(leftovers_end(1, 1), 0);
	assert_int_equal(leftovers_end(0, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_and_its_session_are_ended),
		cmocka_unit_test(what_a_dead_program_left_in_its_session_is_ended),
		cmocka_unit_test(a_process_that_has_the_number_by_now_is_left_alone),
		cmocka_unit_test(what_runs_no_more_is_no_fault),
	};
	return cmocka_run_group_tests_name("leftovers", tests, be_subreaper, NULL);
}
