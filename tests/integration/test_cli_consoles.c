/*
 * test_cli_consoles.c - consoles by the command line: start with its observation and refusals, ps, resize, signal,
 * close, the cap, names that are started again, idle ones, what a program finds around itself.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void start_tells_about_the_console(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *j = step_start(
	        h, "box/dev", "--cols", "100", "--rows", "30", "--observe", "0", "--", "sleep", "1000", NULL);
	assert_string_equal(json_text(j, "sandbox"), "box");
	assert_string_equal(json_text(j, "console"), "dev");
	assert_int_equal(json_number(j, "incarnation"), 1);
	assert_string_equal(json_text(j, "state"), "RUNNING");
	assert_true(process_alive((pid_t)json_number(j, "pid")));
	assert_string_equal(json_text(j, "argv.0"), "sleep");
	assert_string_equal(json_text(j, "argv.1"), "1000");
	assert_int_equal(json_number(j, "cols"), 100);
	assert_int_equal(json_number(j, "rows"), 30);
	assert_int_equal(json_number(j, "head_offset"), 0);
	assert_non_null(json_text(j, "started_at"));
	assert_true(json_is_integer(json_at(j, "idle_ms")));
	assert_int_equal(json_number(j, "clients"), 0);
	assert_true(json_is_null(json_at(j, "exit")));
	assert_false(json_truth(j, "reattached"));
	assert_true(json_is_null(json_at(j, "failure")));
}

static void a_running_name_is_found_again_and_nothing_is_spawned(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *first = step_start(h, "box/dev", "--", "sleep", "1000", NULL);
	json_t *second = step_start(h, "box/dev", "--", "echo", "other", NULL);
	assert_true(json_truth(second, "reattached"));
	assert_int_equal(json_number(second, "pid"), json_number(first, "pid"));
	assert_int_equal(json_number(second, "incarnation"), 1);
	assert_string_equal(json_text(second, "argv.0"), "sleep");
}

static void another_program_for_a_running_name_is_told_what_runs(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "sleep", "1000", NULL);
	struct ran *r = ran_ok(ringside(h, "start", "box/dev", "--", "sleep", "2000", NULL));
	assert_non_null(strstr(r->out, "(reattached)"));
	assert_non_null(strstr(r->err, "sleep 1000"));
	/* The same one, or none, is what was asked for. */
	assert_int_equal(ran_ok(ringside(h, "start", "box/dev", "--", "sleep", "1000", NULL))->err_len, 0);
	assert_int_equal(ran_ok(ringside(h, "start", "box/dev", NULL))->err_len, 0);
}

static void a_program_that_fails_at_once_comes_back_with_its_exit_and_words(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	uint64_t before = now_ms();
	json_t *j = step_start(h, "box/dev", "--observe", "30s", "--", "sh", "-c", "echo no such luck; exit 7", NULL);
	assert_true(now_ms() - before < 20000); /* the watching ends when the program does */
	assert_string_equal(json_text(j, "state"), "EXITED");
	assert_int_equal(json_number(j, "exit.code"), 7);
	assert_string_equal(json_bytes(h, j, "startup_output_base64", NULL), "no such luck\r\n");
}

static void a_failed_exec_has_a_code_for_each_cause(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	write_file(home_path(h, "plain"), "text\n", 5);
	const struct {
		const char *code, *cwd, *program, *said;
	} cases[] = {
		{ "not_found", "/", "no-such-program-anywhere", "no such program in its PATH" },
		{ "not_found", "/", "/no/such/program", "No such file" },
		{ "bad_cwd", "/no/such/folder", "true", "cannot enter /no/such/folder" },
		{ "not_executable", "/", home_path(h, "plain"), "cannot start" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *console = home_format(h, "box/c%zu", i);
		struct ran *r =
		        ringside(h, "start", "--json", console, "--cwd", cases[i].cwd, "--", cases[i].program, NULL);
		if (r->status == 0)
			fail_msg("%s: a failed exec is no success", cases[i].code);
		json_t *j = ran_json(h, r);
		assert_string_equal(json_text(j, "failure.code"), cases[i].code);
		assert_non_null(strstr(json_text(j, "failure.message"), cases[i].said));
		assert_string_equal(json_text(j, "state"), "EXITED");
	}
}

static void the_ninth_console_is_refused_helpfully(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	for (int i = 1; i <= 8; i++)
		step_start(h, home_format(h, "box/c%d", i), "--observe", "0", "--", "sleep", "1000", NULL);
	struct ran *r = ran_status(ringside(h, "start", "--json", "box/c9", "--", "sleep", "1000", NULL), 5);
	json_t *e = ran_error(h, r);
	assert_string_equal(json_text(e, "code"), "console_limit");
	assert_non_null(strstr(json_text(e, "message"), "c1"));
	assert_non_null(strstr(json_text(e, "message"), "c8"));
	assert_non_null(strstr(json_text(e, "message"), "idle"));

	/* Ended ones do not count; running ones can still be found again. */
	assert_true(json_truth(step_start(h, "box/c3", NULL), "reattached"));
	ran_ok(ringside(h, "close", "box/c3", "--grace", "0", NULL));
	step_start(h, "box/c9", "--observe", "0", "--", "sleep", "1000", NULL);

	/* And the cap is the sandbox's own. */
	ran_ok(ringside(h, "create", "--name", "small", "--console-limit", "1", NULL));
	step_start(h, "small/a", "--observe", "0", "--", "sleep", "1000", NULL);
	ran_status(ringside(h, "start", "small/b", "--", "sleep", "1000", NULL), 5);
}

static void only_the_newest_32_ended_consoles_stay_readable(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	for (int i = 1; i <= 34; i++)
		step_start(h, home_format(h, "box/c%d", i), "--", "echo", "x", NULL);
	ran_ok(ringside(h, "read", "box/c34", NULL));
	ran_ok(ringside(h, "read", "box/c3", NULL));
	ran_status(ringside(h, "read", "box/c1", NULL), 3);
	ran_status(ringside(h, "read", "box/c2", NULL), 3);
}

static void a_name_started_again_goes_on_counting(void **state)
{
	struct home *h = *state;
	char *data;

	step_create(h, "box");
	json_t *first = step_start(h, "box/dev", "--", "echo", "first", NULL);
	uint64_t tail = json_number(first, "tail_offset");
	assert_int_equal(tail, strlen("first\r\n"));
	json_t *second = step_start(h, "box/dev", "--", "echo", "second", NULL);
	assert_int_equal(json_number(second, "incarnation"), 2);
	assert_false(json_truth(second, "reattached"));
	/* It says where its own output begins, however much it printed while it was watched. */
	assert_int_equal(json_number(first, "start_offset"), 0);
	assert_int_equal(json_number(second, "start_offset"), tail);
	/* An old cursor is still good: it gives what came before and what came after. */
	step_until_exit(h, "box/dev", 0, &data, NULL);
	assert_string_equal(data, "first\r\nsecond\r\n");
	step_until_exit(h, "box/dev", tail, &data, NULL);
	assert_string_equal(data, "second\r\n");
}

static void a_program_gets_its_own_environment_and_nothing_of_the_daemons(void **state)
{
	struct home *h = *state;
	static const char *const wanted[] = { "TERM=xterm-256color\r\n", "LANG=C.UTF-8\r\n",
		"HOME=", "PATH=", "USER=", "SHELL=", "MINE=a b\r\n" };
	char *out;
	size_t n, lines = 0;

	setenv("SECRET_OF_THE_DAEMON", "leak", 1);
	setenv("LC_ALL", "de_DE.ISO-8859-1", 1);
	ran_ok(ringside(h, "up", NULL));
	step_create(h, "box");
	unsetenv("SECRET_OF_THE_DAEMON");
	unsetenv("LC_ALL");
	step_start(h, "box/dev", "--env", "MINE=a b", "--", "env", NULL);
	step_until_exit(h, "box/dev", 0, &out, &n);
	for (const char *p = out; (p = strchr(p, '\n')); p++)
		lines++;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!contains(out, n, wanted[i]))
			fail_msg("no %s in %s", wanted[i], out);
	if (lines != sizeof(wanted) / sizeof(wanted[0]))
		fail_msg("more than was asked for: %s", out);
}

static void a_program_can_print_and_count_characters_without_a_locale_around(void **state)
{
	struct home *h = *state;
	const char *argv[] = { "env", "-i", home_format(h, "RINGSIDE_HOME=%s", h->dir),
		home_format(h, "%s/ringside", h->bin), "start", "--json", "default/u", "--", "python3", "-c",
		"print(len('\xc3\xa9\xe2\x82\xac'), '\xe2\x82\xac')", NULL };
	char *out;

	ran_ok(run_program(h, argv, NULL, 0, DEADLINE_MS));
	step_until_exit(h, "default/u", 0, &out, NULL);
	assert_string_equal(out, "2 \xe2\x82\xac\r\n");
}

static void no_descriptor_of_the_daemons_reaches_a_program(void **state)
{
	struct home *h = *state;
	char *out;

	step_create(h, "box");
	step_start(h, "box/dev", "--", "sh", "-c", "ls /proc/self/fd | tr '\\n' ' '", NULL);
	step_until_exit(h, "box/dev", 0, &out, NULL);
	/* 3 is the folder that ls reads. */
	assert_string_equal(out, "0 1 2 3 ");
}

static void resize_reaches_the_program(void **state)
{
	struct home *h = *state;
	static const char *const wrong[][2] = { { "1", "24" }, { "80", "1" }, { "1001", "24" }, { "80", "501" },
		{ "0", "0" } };
	uint64_t next;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c",
	        "trap 'echo size $(stty size)' WINCH; echo ready; while :; do read -t 1 x; done", NULL);
	step_until(h, "box/dev", 0, "ready\r\n", &next);
	json_t *j =
	        ran_json(h, ran_ok(ringside(h, "resize", "--json", "box/dev", "--cols", "132", "--rows", "50", NULL)));
	assert_int_equal(json_number(j, "cols"), 132);
	step_until(h, "box/dev", next, "size 50 132", NULL);
	assert_int_equal(json_number(step_ps(h, "box/dev"), "rows"), 50);

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ran *r = ringside(h, "resize", "box/dev", "--cols", wrong[i][0], "--rows", wrong[i][1], NULL);
		assert_int_equal(r->status, 2);
	}
	assert_int_equal(json_number(step_ps(h, "box/dev"), "cols"), 132);
}

static void a_signal_goes_to_the_foreground_and_no_further(void **state)
{
	struct home *h = *state;
	uint64_t next;

	step_create(h, "box");
	step_shell(h, "box/dev");
	uint64_t from = step_line(
	        h, "box/dev", "sh -c 'trap \"echo got; exit 9\" INT; echo wait-$((1+1)); while :; do sleep 1; done'");
	step_until(h, "box/dev", from, "wait-2", &next);
	ran_ok(ringside(h, "signal", "box/dev", "INT", NULL));
	step_until(h, "box/dev", next, "got[\\s\\S]*\\$ $", &next);
	/* The shell itself is still there. */
	assert_string_equal(step_command(h, "box/dev", "echo alive"), "alive\r\n");
	ran_ok(ringside(h, "signal", "--json", "box/dev", "SIGHUP", NULL));
	wait_until("the shell leaves on a hang-up", step_state_is(h, "box/dev", "EXITED"));
	struct ran *late = ran_status(ringside(h, "signal", "--json", "box/dev", "INT", NULL), 5);
	assert_string_equal(json_text(ran_error(h, late), "code"), "not_running");
}

static void close_answers_with_a_receipt(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	json_t *j = ran_json(h, ran_ok(ringside(h, "close", "--json", "box/dev", NULL)));
	assert_string_equal(json_text(j, "state"), "EXITED");
	assert_string_equal(json_text(j, "steps.0.signal"), "SIGHUP");
	assert_true(json_number(j, "steps.0.left") >= 1);
	assert_true(json_number(j, "steps.0.at_ms") < 1000);
	assert_int_equal(json_array_size(json_at(j, "survivors")), 0);
	assert_non_null(json_at(j, "exit"));
	assert_true(step_state_is(h, "box/dev", "EXITED"));
}

static void close_kills_what_ignores_it_at_the_end_of_the_grace(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *started = step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c",
	        "trap '' HUP TERM INT; echo ready; while :; do sleep 1000; done", NULL);
	step_until(h, "box/dev", 0, "ready", NULL);
	json_t *j = ran_json(h, ran_ok(ringside(h, "close", "--json", "box/dev", "--grace", "1s", NULL)));
	size_t n = json_array_size(json_at(j, "steps"));
	assert_true(n >= 3);
	assert_string_equal(json_text(j, "steps.0.signal"), "SIGHUP");
	assert_string_equal(json_text(j, "steps.1.signal"), "SIGTERM");
	assert_string_equal(json_text(j, home_format(h, "steps.%zu.signal", n - 1)), "SIGKILL");
	assert_true(json_number(j, home_format(h, "steps.%zu.at_ms", n - 1)) >= 900);
	assert_string_equal(json_text(j, "exit.signal"), "SIGKILL");
	assert_false(process_alive((pid_t)json_number(started, "pid")));
}

/* vim loses its unsaved text when SIGHUP and SIGTERM come at once; alone, SIGHUP lets it keep the swap file. */
static void close_lets_vim_keep_its_unsaved_text(void **state)
{
	struct home *h = *state;
	size_t n;

	step_create(h, "box");
	const char *dir = step_directory(h, "box");
	step_start(h, "box/vi", "--observe", "0", "--", "vim", "-u", "NONE", "--cmd", "set swapfile directory=.",
	        "precious", NULL);
	step_until(h, "box/vi", 0, "precious", NULL);
	uint64_t from = step_write(h, "box/vi", "ireally important words");
	step_until(h, "box/vi", from, "words", NULL);
	ran_ok(ringside(h, "close", "box/vi", NULL));
	char *swap = read_file(h, home_format(h, "%s/.precious.swp", dir), &n);
	assert_non_null(swap);
	assert_true(contains(swap, n, "really important words"));
}

static void an_idle_console_is_ended_after_its_time(void **state)
{
	struct home *h = *state;
	char *out;

	step_create(h, "box");
	json_t *j = step_start(h, "box/dev", "--idle-ttl", "700ms", "--observe", "0", "--", "sleep", "1000", NULL);
	wait_until("an idle console ends", step_state_is(h, "box/dev", "EXITED"));
	assert_false(process_alive((pid_t)json_number(j, "pid")));
	/* Output keeps one from being idle. */
	step_start(h, "box/busy", "--idle-ttl", "2s", "--observe", "0", "--", "bash", "-c",
	        "for i in 1 2 3 4 5 6; do echo $i; read -t 0.7 x; done; echo done", NULL);
	step_until_exit(h, "box/busy", 0, &out, NULL);
	assert_non_null(strstr(out, "done"));
}

static void an_exit_by_signal_is_told_as_the_signal(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *j = step_start(h, "box/dev", "--", "sh", "-c", "kill -SEGV $$", NULL);
	assert_string_equal(json_text(j, "exit.signal"), "SIGSEGV");
	assert_null(json_at(j, "exit.code"));
}

static void ps_lists_the_consoles_of_one_sandbox_or_of_all(void **state)
{
	struct home *h = *state;

	step_create(h, "one");
	step_create(h, "two");
	step_start(h, "one/a", "--observe", "0", "--", "sleep", "1000", NULL);
	step_start(h, "two/b", "--observe", "0", "--", "sleep", "1000", NULL);
	step_start(h, "two/c", "--", "true", NULL);
	assert_int_equal(json_array_size(ran_json(h, ran_ok(ringside(h, "ps", "--json", "one", NULL)))), 1);
	assert_int_equal(json_array_size(ran_json(h, ran_ok(ringside(h, "ps", "--json", NULL)))), 3);
	assert_string_equal(json_text(step_ps(h, "two/c"), "state"), "EXITED");
	assert_int_equal(json_number(step_ps(h, "two/c"), "exit.code"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(start_tells_about_the_console),
		HOME_TEST(a_running_name_is_found_again_and_nothing_is_spawned),
		HOME_TEST(another_program_for_a_running_name_is_told_what_runs),
		HOME_TEST(a_program_that_fails_at_once_comes_back_with_its_exit_and_words),
		HOME_TEST(a_failed_exec_has_a_code_for_each_cause),
		HOME_TEST(the_ninth_console_is_refused_helpfully),
		HOME_TEST(only_the_newest_32_ended_consoles_stay_readable),
		HOME_TEST(a_name_started_again_goes_on_counting),
		HOME_TEST(a_program_gets_its_own_environment_and_nothing_of_the_daemons),
		HOME_TEST(a_program_can_print_and_count_characters_without_a_locale_around),
		HOME_TEST(no_descriptor_of_the_daemons_reaches_a_program),
		HOME_TEST(resize_reaches_the_program),
		HOME_TEST(a_signal_goes_to_the_foreground_and_no_further),
		HOME_TEST(close_answers_with_a_receipt),
		HOME_TEST(close_kills_what_ignores_it_at_the_end_of_the_grace),
		HOME_TEST(close_lets_vim_keep_its_unsaved_text),
		HOME_TEST(an_idle_console_is_ended_after_its_time),
		HOME_TEST(an_exit_by_signal_is_told_as_the_signal),
		HOME_TEST(ps_lists_the_consoles_of_one_sandbox_or_of_all),
	};
	return HOME_MAIN("cli_consoles", tests);
}
