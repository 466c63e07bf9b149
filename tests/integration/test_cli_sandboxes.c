/*
 * test_cli_sandboxes.c - sandboxes and the daemon by the command line: create, ls, show, rm, up, down, status, doctor;
 * keys of their JSON, exit statuses, errors.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each of these keys is there, whatever its value. */
static void has_keys(const json_t *j, const char *keys)
{
	char key[64];

	for (const char *p = keys; *p;) {
		size_t n = strcspn(p, " ");
		assert_true(n < sizeof(key));
		memcpy(key, p, n);
		key[n] = '\0';
		if (!json_object_get(j, key))
			fail_msg("there is no key \"%s\"", key);
		p += n + strspn(p + n, " ");
	}
}

#define SANDBOX_KEYS "id name provider state created_at limits labels workspace"

static void create_answers_with_the_sandbox(void **state)
{
	struct home *h = *state;
	json_t *j = ran_json(h, ran_ok(ringside(h, "create", "--json", "--name", "box", NULL)));

	has_keys(j, SANDBOX_KEYS);
	assert_string_equal(json_text(j, "name"), "box");
	assert_string_equal(json_text(j, "provider"), "host");
	assert_string_equal(json_text(j, "state"), "RUNNING");
	assert_true(strncmp(json_text(j, "id"), "sb-", 3) == 0);
	assert_true(json_is_object(json_at(j, "labels")));
}

static void ls_lists_and_show_tells_the_whole_envelope(void **state)
{
	struct home *h = *state;
	size_t i;
	json_t *row;

	step_create(h, "one");
	step_create(h, "two");
	json_t *list = ran_json(h, ran_ok(ringside(h, "ls", "--json", NULL)));
	assert_true(json_is_array(list));
	assert_int_equal(json_array_size(list), 2);
	json_array_foreach(list, i, row)
	{
		has_keys(row, SANDBOX_KEYS);
	}
	json_t *shown = ran_json(h, ran_ok(ringside(h, "show", "--json", "one", NULL)));
	has_keys(shown,
	        SANDBOX_KEYS " reason ref directory port console_limit ring_bytes consoles_running consoled_pid");
	/* The same sandbox is found by its id. */
	json_t *by_id = ran_json(h, ran_ok(ringside(h, "show", "--json", json_text(shown, "id"), NULL)));
	assert_string_equal(json_text(by_id, "name"), "one");
}

static void a_name_is_taken_until_its_sandbox_is_gone(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	struct ran *again = ran_status(ringside(h, "create", "--json", "--name", "box", NULL), 5);
	assert_string_equal(json_text(ran_error(h, again), "code"), "already_exists");
	ran_ok(ringside(h, "rm", "box", NULL));
	ran_ok(ringside(h, "create", "--name", "box", NULL));
}

static void rm_ends_everything_in_the_sandbox(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *j = step_start(h, "box/dev", "--", "sleep", "1000", NULL);
	pid_t pid = (pid_t)json_number(j, "pid");
	pid_t consoled = consoled_pid(h, "box");
	assert_true(process_alive(pid));
	ran_ok(ringside(h, "rm", "box", NULL));
	assert_false(process_alive(pid));
	wait_until("the console daemon is gone", !process_alive(consoled));
	ran_status(ringside(h, "rm", "box", NULL), 3);
	ran_status(ringside(h, "start", "box/dev", NULL), 3);
	/* It is still told what became of it. */
	json_t *gone = ran_json(h, ran_ok(ringside(h, "show", "--json", "box", NULL)));
	assert_string_equal(json_text(gone, "state"), "TERMINATED");
	assert_int_equal(json_array_size(ran_json(h, ran_ok(ringside(h, "ls", "--json", NULL)))), 0);
}

static void a_workspace_can_be_a_directory_that_exists_and_stays(void **state)
{
	struct home *h = *state;
	const char *dir = home_path(h, "mine");

	assert_int_equal(mkdir(dir, 0700), 0);
	write_file(home_path(h, "mine/file"), "kept\n", 5);
	json_t *j = ran_json(h, ran_ok(ringside(h, "create", "--json", "--name", "box", "--dir", dir, NULL)));
	struct ran *r = ran_ok(ringside(h, "exec", "box", "--", "cat", "file", NULL));
	assert_string_equal(r->out, "kept\n");
	assert_non_null(json_text(j, "workspace"));
	ran_ok(ringside(h, "rm", "box", NULL));
	assert_int_equal(access(home_path(h, "mine/file"), F_OK), 0);
}

static void a_workspace_of_its_own_goes_with_the_sandbox(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	const char *dir = step_directory(h, "box");
	ran_ok(ringside(
	        h, "exec", "box", "--", "sh", "-c", "mkdir -p a/b; echo x >a/b/c; ln -s /etc/passwd link", NULL));
	assert_int_equal(access(home_format(h, "%s/a/b/c", dir), F_OK), 0);
	ran_ok(ringside(h, "rm", "box", NULL));
	assert_int_not_equal(access(dir, F_OK), 0);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void the_default_sandbox_is_made_when_it_is_first_used(void **state)
{
	struct home *h = *state;

	step_start(h, "default/shell", "--observe", "0", "--", "sleep", "1000", NULL);
	json_t *j = ran_json(h, ran_ok(ringside(h, "show", "--json", "default", NULL)));
	assert_string_equal(json_text(j, "state"), "RUNNING");
	/* A name alone is a console of it. */
	assert_string_equal(
	        json_text(ran_json(h, ran_ok(ringside(h, "read", "--json", "shell", NULL))), "console"), "shell");
	/* No other name comes to be by being used. */
	struct ran *r = ran_status(ringside(h, "start", "--json", "other/shell", "--", "sleep", "1000", NULL), 3);
	assert_string_equal(json_text(ran_error(h, r), "code"), "not_found");
}

static void status_tells_about_the_daemon_and_does_not_start_it(void **state)
{
	struct home *h = *state;

	struct ran *r = ran_status(ringside(h, "status", "--json", NULL), 1);
	assert_string_equal(json_text(ran_error(h, r), "code"), "unavailable");
	ran_ok(ringside(h, "up", NULL));
	json_t *j = ran_json(h, ran_ok(ringside(h, "status", "--json", NULL)));
	assert_true(process_alive((pid_t)json_number(j, "pid")));
	assert_string_equal(json_text(j, "version"), RINGSIDE_VERSION);
	assert_true(json_number(j, "epoch") >= 1);
	ran_ok(ringside(h, "up", NULL));
	assert_int_equal(daemon_pid(h), json_number(j, "pid"));
}

static void down_leaves_sandboxes_running_and_down_all_closes_them(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *started = step_start(h, "box/dev", "--", "sleep", "1000", NULL);
	pid_t program = (pid_t)json_number(started, "pid");
	pid_t daemon = daemon_pid(h);
	pid_t consoled = consoled_pid(h, "box");

	ran_ok(ringside(h, "down", NULL));
	wait_until("the daemon is gone", !process_alive(daemon));
	assert_true(process_alive(program));
	assert_true(process_alive(consoled));

	assert_true(step_state_is(h, "box/dev", "RUNNING"));
	assert_int_equal(consoled_pid(h, "box"), consoled);
	daemon = daemon_pid(h);

	ran_ok(ringside(h, "down", "--all", NULL));
	wait_until("the daemon is gone", !process_alive(daemon));
	assert_false(process_alive(program));
	wait_until("the console daemon is gone", !process_alive(consoled));
	assert_int_equal(json_array_size(ran_json(h, ran_ok(ringside(h, "ls", "--json", NULL)))), 0);
}

static void down_without_a_daemon_is_done(void **state)
{
	struct home *h = *state;

	ran_ok(ringside(h, "down", NULL));
	ran_ok(ringside(h, "down", "--all", NULL));
}

static void doctor_tells_the_limits_of_this_machine(void **state)
{
	struct home *h = *state;
	json_t *list = ran_json(h, ran_ok(ringside(h, "doctor", "--json", NULL)));
	bool terminals = false, files = false;
	size_t i;
	json_t *row;

	json_array_foreach(list, i, row)
	{
		terminals = terminals || strcmp(json_text(row, "name"), "terminals") == 0;
		files = files || strcmp(json_text(row, "name"), "open_files") == 0;
		assert_string_not_equal(json_text(row, "status"), "fail");
	}
	assert_true(terminals && files);
	struct ran *r = ran_ok(ringside(h, "doctor", NULL));
	assert_true(contains(r->out, r->out_len, "terminals are in use"));
}

static void bad_usage_is_status_2_and_one_line(void **state)
{
	struct home *h = *state;
	static const char *const bad[][4] = {
		{ "no-such-command" },
		{ "create", "--no-such-option" },
		{ "create", "--name", "../evil" },
		{ "create", "--name", ".hidden" },
		{ "create", "--name", "-x" },
		{ "rm" },
		{ "read", "box/dev", "--wait", "soon" },
		{ "read", "box/dev", "--from", "-1" },
		{ "resize", "box/dev", "--cols", "80" },
		{ "signal", "box/dev", "NOPE" },
		{ "read", "box/dev", "--max", "0" },
		{ "create", "box" },
		{ "help", "no-such-command" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *argv[] = { "ringside", bad[i][0], bad[i][1], bad[i][2], bad[i][3], NULL };
		struct ran *r = run_program(h, argv, NULL, 0, DEADLINE_MS);
		if (r->status != 2 || r->out_len != 0 || r->err_len == 0)
			fail_msg("%s %s: status %d, %s", bad[i][0], bad[i][1] ? bad[i][1] : "", r->status, r->err);
	}
	/* A name of 64 bytes is one, and of 65 is not. */
	char name[66];
	memset(name, 'n', 65);
	name[65] = '\0';
	ran_status(ringside(h, "create", "--name", name, NULL), 2);
	name[64] = '\0';
	ran_ok(ringside(h, "create", "--name", name, NULL));
}

static void bad_usage_says_what_was_wrong_and_where_to_look(void **state)
{
	struct home *h = *state;
	static const struct {
		const char *argv[4], *said;
	} cases[] = {
		{ { "atach" }, "no such command: atach; ringside help lists them" },
		{ { "help", "atach" }, "no such command: atach; ringside help lists them" },
		{ { "--bogus", "ls" }, "no such option before the command: --bogus" },
		{ { "ls", "--bogus" }, "--bogus; try ringside help ls" },
		{ { "signal", "box/dev", "NOPE" }, "not NOPE" },
		{ { "create", "box" }, "ringside create --name box" },
		{ { "rm", "box/dev" }, "a sandbox is wanted here" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const *a = cases[i].argv;
		struct ran *r = ran_status(ringside(h, a[0], a[1], a[2], NULL), 2);
		assert_non_null(strstr(r->err, cases[i].said));
	}
	struct ran *r = ran_status(ringside(h, "status", NULL), 1);
	assert_non_null(strstr(r->err, "`ringside up` starts it"));
	r = ran_status(ringside(h, "create", "--dir", "/no/such/folder", NULL), 1);
	assert_non_null(strstr(r->err, "/no/such/folder"));
	static const char *const relative[] = { "env", "RINGSIDE_HOME=here", "ringside", "ls", NULL };
	r = ran_status(run_program(h, relative, NULL, 0, DEADLINE_MS), 2);
	assert_non_null(strstr(r->err, "has to be an absolute path"));
}

/* Whoever parses errors cannot know beforehand which of its words is the wrong one. */
static void bad_usage_is_an_object_wherever_json_stands(void **state)
{
	struct home *h = *state;
	static const char *const bad[][4] = {
		{ "no-such-command", "--json" },
		{ "--json", "no-such-command" },
		{ "--bogus", "ls", "--json" },
		{ "ls", "--bogus", "--json" },
		{ "ls", "--json", "--bogus" },
		{ "help", "no-such-command", "--json" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ran *r = ran_status(ringside(h, bad[i][0], bad[i][1], bad[i][2], NULL), 2);
		assert_string_equal(json_text(ran_error(h, r), "code"), "invalid_argument");
	}
	/* After -- it is a program's. */
	struct ran *r = ran_status(ringside(h, "exec", "--bogus", "--", "--json", NULL), 2);
	assert_int_equal(r->err[0], 'r');
}

static void what_is_not_there_is_status_3(void **state)
{
	struct home *h = *state;
	static const char *const missing[][5] = {
		{ "show", "nobox" },
		{ "rm", "nobox" },
		{ "ps", "nobox" },
		{ "read", "nobox/dev" },
		{ "read", "box/none" },
		{ "write", "box/none", "x" },
		{ "close", "box/none" },
		{ "signal", "box/none", "INT" },
		{ "resize", "box/none", "--cols=80", "--rows=24" },
		{ "exec", "nobox", "--", "true" },
	};

	step_create(h, "box");
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
		const char *const *m = missing[i];
		const char *argv[] = { "ringside", m[0], "--json", m[1], m[2], m[2] ? m[3] : NULL, NULL };
		struct ran *r = run_program(h, argv, NULL, 0, DEADLINE_MS);
		if (r->status != 3)
			fail_msg("%s %s: status %d, %s", m[0], m[1], r->status, r->err);
		assert_string_equal(json_text(ran_error(h, r), "code"), "not_found");
	}
}

static void what_comes_from_a_sandbox_is_printed_escaped(void **state)
{
	struct home *h = *state;

	ran_status(ringside(h, "create", "--name", "bad", "--label", "note=a\033[31mred", NULL), 2);
	ran_ok(ringside(h, "create", "--name", "box", "--label", "note=caf\xc3\xa9", NULL));
	json_t *j = ran_json(h, ran_ok(ringside(h, "show", "--json", "box", NULL)));
	assert_string_equal(json_text(j, "labels.note"), "caf\xc3\xa9");
	step_start(h, "box/dev", "--observe", "0", "--", "sh", "-c", "sleep 1000 # \033]0;owned\007\033[2J", NULL);
	struct ran *r = ran_ok(ringside(h, "ps", NULL));
	assert_true(contains(r->out, r->out_len, "sleep 1000"));
	assert_false(contains(r->out, r->out_len, "\033"));
	assert_false(contains(r->out, r->out_len, "\007"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(create_answers_with_the_sandbox),
		HOME_TEST(ls_lists_and_show_tells_the_whole_envelope),
		HOME_TEST(a_name_is_taken_until_its_sandbox_is_gone),
		HOME_TEST(rm_ends_everything_in_the_sandbox),
		HOME_TEST(a_workspace_can_be_a_directory_that_exists_and_stays),
		HOME_TEST(a_workspace_of_its_own_goes_with_the_sandbox),
		HOME_TEST(the_default_sandbox_is_made_when_it_is_first_used),
		HOME_TEST(status_tells_about_the_daemon_and_does_not_start_it),
		HOME_TEST(down_leaves_sandboxes_running_and_down_all_closes_them),
		HOME_TEST(down_without_a_daemon_is_done),
		HOME_TEST(doctor_tells_the_limits_of_this_machine),
		HOME_TEST(bad_usage_is_status_2_and_one_line),
		HOME_TEST(bad_usage_says_what_was_wrong_and_where_to_look),
		HOME_TEST(bad_usage_is_an_object_wherever_json_stands),
		HOME_TEST(what_is_not_there_is_status_3),
		HOME_TEST(what_comes_from_a_sandbox_is_printed_escaped),
	};
	return HOME_MAIN("cli_sandboxes", tests);
}
