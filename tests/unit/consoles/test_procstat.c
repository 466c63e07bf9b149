/* test_procstat.c - what /proc says of processes, and what programs may put into their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consoles/procstat.h"

static const char plain[] = "4711 (bash) S 42 4711 4710 34816 4711 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654321 9 9 9\n";

static void every_field_is_found_in_its_place(void **state)
{
	struct procstat s;

	(void)state;
	assert_true(procstat_parse(plain, strlen(plain), &s));
	assert_int_equal(s.pid, 4711);
	assert_string_equal(s.comm, "bash");
	assert_int_equal(s.state, 'S');
	assert_int_equal(s.ppid, 42);
	assert_int_equal(s.group, 4711);
	assert_int_equal(s.session, 4710);
	assert_int_equal(s.threads, 1);
	assert_int_equal(s.start, 987654321);
}

static void a_name_that_looks_like_fields_changes_none(void **state)
{
	static const char tricky[] = "7 (x) R 1 (y) Z) T 5 6 8 0 0 0 0 0 0 0 0 0 0 0 20 0 3 0 77 0\n";
	struct procstat s;

	(void)state;
	assert_true(procstat_parse(tricky, strlen(tricky), &s));
	assert_string_equal(s.comm, "x) R 1 (y) Z");
	assert_int_equal(s.state, 'T');
	assert_int_equal(s.ppid, 5);
	assert_int_equal(s.threads, 3);
	assert_int_equal(s.start, 77);
}

static void a_cut_text_is_refused_wherever_it_is_cut(void **state)
{
	const char *before_start = strstr(plain, "987654321");
	struct procstat s;

	(void)state;
	for (size_t n = 0; n < (size_t)(before_start - plain); n++) {
		/* A copy of its own, so that reading past it is seen. */
		char *copy = test_malloc(n + 1);
		memcpy(copy, plain, n);
		assert_false(procstat_parse(copy, n, &s));
		test_free(copy);
	}
}

static void this_process_is_read_with_the_name_it_gave_itself(void **state)
{
	char before[16];
	struct procstat s;

	(void)state;
	prctl(PR_GET_NAME, before, 0, 0, 0);
	prctl(PR_SET_NAME, ") R 1 1 1", 0, 0, 0);
	assert_int_equal(procstat_read(getpid(), &s), 0);
	prctl(PR_SET_NAME, before, 0, 0, 0);
	assert_string_equal(s.comm, ") R 1 1 1");
	assert_int_equal(s.pid, getpid());
	assert_int_equal(s.ppid, getppid());
	assert_int_equal(s.group, getpgrp());
	assert_false(procstat_dead(&s));
}

static void a_reaped_process_is_not_found(void **state)
{
	struct procstat s;

	(void)state;
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(procstat_read(pid, &s), -ESRCH);
	assert_int_equal(procstat_read(0, &s), -ESRCH);
}

static void an_unreaped_one_is_dead_and_still_there(void **state)
{
	siginfo_t si;
	struct procstat s;

	(void)state;
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(procstat_read(pid, &s), 0);
	assert_true(procstat_dead(&s));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_zombie_with_threads_is_alive(void **state)
{
	const struct procstat left = { .state = 'Z', .threads = 2 }, dead = { .state = 'Z', .threads = 1 };

	(void)state;
	assert_false(procstat_dead(&left));
	assert_true(procstat_dead(&dead));
}

static void a_scan_meets_this_process_once_and_goes_upwards(void **state)
{
	struct procdir d;
	pid_t pid, last = 0;
	unsigned met = 0;

	(void)state;
	assert_int_equal(procdir_open(&d), 0);
	while ((pid = procdir_next(&d)) > 0) {
		assert_true(pid > last);
		last = pid;
		met += pid == getpid();
	}
	assert_int_equal(pid, 0);
	procdir_close(&d);
	assert_int_equal(met, 1);
	assert_int_equal(d.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_is_found_in_its_place),
		cmocka_unit_test(a_name_that_looks_like_fields_changes_none),
		cmocka_unit_test(a_cut_text_is_refused_wherever_it_is_cut),
		cmocka_unit_test(this_process_is_read_with_the_name_it_gave_itself),
		cmocka_unit_test(a_reaped_process_is_not_found),
		cmocka_unit_test(an_unreaped_one_is_dead_and_still_there),
		cmocka_unit_test(a_zombie_with_threads_is_alive),
		cmocka_unit_test(a_scan_meets_this_process_once_and_goes_upwards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
