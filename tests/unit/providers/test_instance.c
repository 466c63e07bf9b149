/* Which process it was: told from the next one with the same number, ended without hitting anybody else. */
#include "tests/unit/providers/fixture.h"

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static struct instance instance_of(pid_t pid)
{
	struct instance i = { .pid = pid };

	assert_int_equal(instance_boot_id(i.boot_id), 0);
	assert_int_equal(instance_start_time(pid, &i.start_time), 0);
	return i;
}

static void a_line_says_the_same_after_it_was_written_and_read(void **state)
{
	struct instance i = { .pid = 2147483647, .start_time = UINT64_MAX }, j;
	char line[INSTANCE_LINE_BYTES], longer[300];

	(void)state;
	assert_int_equal(instance_boot_id(i.boot_id), 0);
	assert_int_equal(instance_format(&i, line, sizeof(line)), 0);
	assert_int_equal(instance_parse(line, &j), 0);
	assert_int_equal(j.pid, i.pid);
	assert_true(j.start_time == i.start_time);
	assert_string_equal(j.boot_id, i.boot_id);
	assert_int_equal(instance_format(&i, line, 20), -ENOSPC);

	assert_int_equal(instance_format(&i, line, sizeof(line)), 0);
	snprintf(longer, sizeof(longer), "%s socket=x more", line);
	assert_int_equal(instance_parse(longer, &j), 0);
	assert_string_equal(j.boot_id, i.boot_id);
}

static void what_is_no_line_is_refused(void **state)
{
	static const char *const wrong[] = { "", "pid=1", "pid=1 start=2", "pid=0 start=2 boot=x",
		"pid=-1 start=2 boot=x", "pid=1 start= boot=x", "pid=2147483648 start=2 boot=x",
		"pid=1 start=2x boot=x", "pid=1 start=18446744073709551616 boot=x",
		"pid=1 start=2 boot=", "pid=1  start=2 boot=x", "start=2 pid=1 boot=x",
		"pid=1 start=2 boot=0123456789012345678901234567890123456789" };
	struct instance i = { .pid = 77 };

	(void)state;
	for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++)
		if (instance_parse(wrong[n], &i) != -EINVAL)
			fail_msg("taken: %s", wrong[n]);
	assert_int_equal(i.pid, 77);
}

static void a_living_process_is_found_and_a_dead_one_is_not(void **state)
{
	pid_t pid = start_sleeper();
	struct instance i = instance_of(pid);

	(void)state;
	int pidfd = instance_open(&i);
	assert_true(pidfd >= 0);
	assert_int_equal(instance_wait(pidfd, clock_mono_ms()), -ETIMEDOUT);
	assert_int_equal(instance_kill(pidfd, SIGKILL), 0);
	assert_int_equal(instance_wait(pidfd, clock_mono_ms() + PATIENCE_MS), 0);
	assert_int_equal(instance_open(&i), -ESRCH); /* a zombie has ended */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(instance_open(&i), -ESRCH);
	assert_int_equal(instance_kill(pidfd, SIGKILL), 0); /* and nobody else is hit */
	close(pidfd);
	uint64_t start = 0;
	assert_int_equal(instance_start_time(pid, &start), -ESRCH);
}

/* The number is somebody else's by now: it has another start time, or it is after a reboot. */
static void another_process_with_the_number_is_not_taken_for_it(void **state)
{
	pid_t pid = start_sleeper();
	const struct instance right = instance_of(pid);
	struct instance wrong = right;

	(void)state;
	wrong.start_time--;
	assert_int_equal(instance_open(&wrong), -ESRCH);
	assert_int_equal(instance_end(&wrong, clock_mono_ms() + PATIENCE_MS), 0);
	wrong = right;
	wrong.boot_id[0] = wrong.boot_id[0] == '0' ? '1' : '0';
	assert_int_equal(instance_open(&wrong), -ESRCH);
	assert_int_equal(instance_end(&wrong, clock_mono_ms() + PATIENCE_MS), 0);

	assert_true(is_alive(&right));
	assert_int_equal(instance_end(&right, clock_mono_ms() + PATIENCE_MS), 0);
	assert_false(is_alive(&right));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A process chooses its own name, also one that looks like the end of field 2. */
static void a_name_with_brackets_and_spaces_does_not_move_the_fields(void **state)
{
	pid_t pid = start_sleeper();
	struct instance plain = instance_of(pid);
	int ready[2];
	char c;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid_t odd = fork();
	assert_true(odd >= 0);
	if (odd == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "a) R 1 2 (b");
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	struct instance i = instance_of(odd);
	assert_true(i.start_time >= plain.start_time);
	assert_true(i.start_time < plain.start_time + 100 * 60); /* clock ticks of 10 ms: within a minute */
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(instance_end(&i, clock_mono_ms() + PATIENCE_MS), 0);
	assert_int_equal(instance_end(&plain, clock_mono_ms() + PATIENCE_MS), 0);
	no_process_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_says_the_same_after_it_was_written_and_read),
		cmocka_unit_test(what_is_no_line_is_refused),
		cmocka_unit_test(a_living_process_is_found_and_a_dead_one_is_not),
		cmocka_unit_test(another_process_with_the_number_is_not_taken_for_it),
		cmocka_unit_test(a_name_with_brackets_and_spaces_does_not_move_the_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
