/*
 * test_cli_exec.c - one command with its streams: exit statuses, exact environment, both outputs apart, input,
 * timeouts, and that everything of it is gone when its caller is.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void exec_passes_on_streams_and_status(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	struct ran *r =
	        ran_status(ringside(h, "exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 9", NULL), 9);
	assert_string_equal(r->out, "out\n");
	assert_string_equal(r->err, "err\n");
	ran_status(ringside(h, "exec", "box", "--", "sh", "-c", "kill -KILL $$", NULL), 128 + SIGKILL);
	ran_status(ringside(h, "shell", "box", "exit 4", NULL), 4);
	const char *code = "print(6*7)\nimport sys\nsys.exit(3)\n";
	assert_string_equal(
	        ran_status(ringside_in(h, code, strlen(code), "script", "box", "python3", NULL), 3)->out, "42\n");
}

static void exec_json_has_every_key(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *j = ran_json(
	        h, ran_ok(ringside(h, "exec", "--json", "box", "--", "sh", "-c", "echo out; echo err >&2", NULL)));
	assert_int_equal(json_number(j, "exit.code"), 0);
	assert_string_equal(json_bytes(h, j, "stdout_base64", NULL), "out\n");
	assert_string_equal(json_bytes(h, j, "stderr_base64", NULL), "err\n");
	assert_false(json_truth(j, "timed_out"));
	assert_false(json_truth(j, "idle_timed_out"));
	assert_false(json_truth(j, "held"));
	assert_non_null(json_object_get(j, "termination_name"));
	assert_int_equal(json_number(j, "omitted.stdout"), 0);
	assert_int_equal(json_number(j, "omitted.stderr"), 0);
}

static void exec_json_tells_how_much_it_left_out(void **state)
{
	struct home *h = *state;
	size_t n;

	step_create(h, "box");
	json_t *j =
	        ran_json(h, ran_ok(ringside(h, "exec", "--json", "box", "--", "sh", "-c", "seq 100000 109999", NULL)));
	char *out = json_bytes(h, j, "stdout_base64", &n);
	assert_int_equal(n + json_number(j, "omitted.stdout"), 10000 * 7);
	assert_int_equal(n, 8192);
	assert_memory_equal(out, "100000\n", 7);
	assert_memory_equal(out + n - 7, "109999\n", 7);
}

static void exec_gives_exactly_the_environment_asked_for(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	assert_string_equal(ran_ok(ringside(h, "exec", "box", "--", "env", NULL))->out, "");
	struct ran *r = ran_ok(ringside(h, "exec", "box", "--env", "A=1 $HOME `x`", "--env", "B=", "--", "env", NULL));
	assert_string_equal(r->out, "A=1 $HOME `x`\nB=\n");
	ran_status(ringside(h, "exec", "box", "--env", "_tX=1", "--", "env", NULL), 2);
}

static void exec_runs_argv_as_it_is_without_a_shell(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	struct ran *r =
	        ran_ok(ringside(h, "exec", "box", "--", "printf", "[%s]", "a b", "$HOME", "*", "", "--json", NULL));
	assert_string_equal(r->out, "[a b][$HOME][*][][--json]");
}

static void exec_has_codes_for_what_cannot_run(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	struct ran *r = ran_status(ringside(h, "exec", "box", "--", "no-such-command", NULL), 127);
	assert_true(r->err_len > 0);
	r = ran_status(ringside(h, "exec", "box", "--cwd", "/no/such/folder", "--", "true", NULL), 126);
	assert_true(r->err_len > 0);
}

static void exec_runs_in_the_workspace_or_where_it_is_told(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	const char *dir = step_directory(h, "box");
	assert_string_equal(ran_ok(ringside(h, "exec", "box", "--", "pwd", NULL))->out, home_format(h, "%s\n", dir));
	ran_ok(ringside(h, "exec", "box", "--", "mkdir", "sub", NULL));
	assert_string_equal(ran_ok(ringside(h, "exec", "box", "--cwd", "sub", "--", "pwd", NULL))->out,
	        home_format(h, "%s/sub\n", dir));
	assert_string_equal(ran_ok(ringside(h, "exec", "box", "--cwd", "/", "--", "pwd", NULL))->out, "/\n");
}

static void exec_streams_megabytes_in_and_out_unharmed(void **state)
{
	struct home *h = *state;
	size_t n = 8u << 20;
	char *bytes = home_hold(h, malloc(n));

	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	step_create(h, "box");
	struct ran *r = ran_ok(ringside_in(h, bytes, n, "exec", "box", "-i", "--", "cat", NULL));
	assert_int_equal(r->out_len, n);
	assert_memory_equal(r->out, bytes, n);
	/* Without -i there is nothing to read. */
	assert_string_equal(ran_ok(ringside_in(h, "x", 1, "exec", "box", "--", "cat", NULL))->out, "");
}

static void exec_is_held_back_by_a_slow_reader_and_loses_nothing(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	const char *script =
	        home_format(h, "%s/ringside exec box -- seq 1 2000000 | (read x; sleep 1; cat) | tail -n 1", h->bin);
	struct ran *r = ran_ok(run_program(h, (const char *const[]){ "sh", "-c", script, NULL }, NULL, 0, DEADLINE_MS));
	assert_string_equal(r->out, "2000000\n");
}

static void exec_times_out_and_keeps_what_was_printed(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	struct ran *r = ringside(h, "exec", "--json", "box", "--timeout", "500ms", "--", "sh", "-c",
	        "echo before; setsid sleep 1000 & sleep 1000", NULL);
	json_t *j = ran_json(h, r);
	assert_true(r->status != 0);
	assert_true(json_truth(j, "timed_out"));
	assert_string_equal(json_bytes(h, j, "stdout_base64", NULL), "before\n");
	assert_int_equal(step_count(h, "sleep 1000"), 0);

	j = ran_json(
	        h, ringside(h, "exec", "--json", "box", "--idle-timeout", "700ms", "--", "bash", "-c",
	                   "for i in 1 2 3 4; do echo $i; read -t 0.3 x </dev/zero; sleep 0.3; done; exec sleep 1001",
	                   NULL));
	assert_true(json_truth(j, "idle_timed_out"));
	assert_string_equal(json_bytes(h, j, "stdout_base64", NULL), "1\n2\n3\n4\n");
	assert_int_equal(step_count(h, "sleep 1001"), 0);
}

static void exec_answers_when_something_left_behind_holds_its_streams(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	uint64_t before = now_ms();
	json_t *j = ran_json(
	        h, ran_ok(ringside(h, "exec", "--json", "box", "--", "sh", "-c", "sleep 1000 & echo gone", NULL)));
	assert_true(json_truth(j, "held"));
	assert_int_equal(json_number(j, "exit.code"), 0);
	assert_true(now_ms() - before < 30000);
}

static void an_exec_dies_with_its_caller_and_all_it_started(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	struct running *r = ringside_begin(
	        h, "exec", "box", "--", "sh", "-c", "setsid sleep 1002 & sh -c 'sleep 1002 & sleep 1002' & wait", NULL);
	wait_until("everything of it runs", step_count(h, "sleep 1002") == 3);
	kill(running_pid(r), SIGKILL);
	running_end(h, r, DEADLINE_MS);
	wait_until("all of it is gone", step_count(h, "sleep 1002") == 0);
}

static void many_execs_at_once_each_get_their_own(void **state)
{
	struct home *h = *state;
	enum { N = 16 };
	struct running *r[N];

	step_create(h, "box");
	for (int i = 0; i < N; i++)
		r[i] = ringside_begin(
		        h, "exec", "box", "--", "sh", "-c", home_format(h, "echo %d; exit %d", i, i), NULL);
	for (int i = 0; i < N; i++) {
		struct ran *done = ran_status(running_end(h, r[i], DEADLINE_MS), i);
		assert_string_equal(done->out, home_format(h, "%d\n", i));
	}
}

/* Both daemons raise theirs, for many descriptors of their own. */
static void programs_may_have_as_many_files_as_who_started_the_daemon(void **state)
{
	struct home *h = *state;
	const char *const up[] = { "sh", "-c", home_format(h, "ulimit -Sn 509; exec '%s/ringside' up", h->bin), NULL };

	ran_ok(run_program(h, up, NULL, 0, DEADLINE_MS));
	step_create(h, "box");
	assert_string_equal(ran_ok(ringside(h, "exec", "box", "--", "sh", "-c", "ulimit -Sn", NULL))->out, "509\n");
	ran_ok(ringside(h, "start", "box/dev", "--observe", "0", "--", "sh", "-c", "ulimit -Sn", NULL));
	assert_string_equal(
	        ran_ok(ringside(h, "read", "box/dev", "--until-exit", "--wait", "60s", NULL))->out, "509\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(exec_passes_on_streams_and_status),
		HOME_TEST(exec_json_has_every_key),
		HOME_TEST(exec_json_tells_how_much_it_left_out),
		HOME_TEST(exec_gives_exactly_the_environment_asked_for),
		HOME_TEST(exec_runs_argv_as_it_is_without_a_shell),
		HOME_TEST(exec_has_codes_for_what_cannot_run),
		HOME_TEST(exec_runs_in_the_workspace_or_where_it_is_told),
		HOME_TEST(exec_streams_megabytes_in_and_out_unharmed),
		HOME_TEST(exec_is_held_back_by_a_slow_reader_and_loses_nothing),
		HOME_TEST(exec_times_out_and_keeps_what_was_printed),
		HOME_TEST(exec_answers_when_something_left_behind_holds_its_streams),
		HOME_TEST(an_exec_dies_with_its_caller_and_all_it_started),
		HOME_TEST(many_execs_at_once_each_get_their_own),
		HOME_TEST(programs_may_have_as_many_files_as_who_started_the_daemon),
	};
	return HOME_MAIN("cli_exec", tests);
}
