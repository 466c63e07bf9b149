/*
 * test_cli_programs.c - the programs that people and agents really run in a terminal: a build, vim, htop, less, a
 * Python REPL, a shell with job control, and a flood.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"
#include "tests/support/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DETACH "\035" /* Ctrl-] */

/* The tests run in the top of the source tree, whose ground floor is built once more, in a console. */
static void a_real_build_of_a_real_tree_runs_and_its_output_is_found_again(void **state)
{
	struct home *h = *state;
	uint64_t next;

	step_create(h, "box");
	const char *dir = step_directory(h, "box");
	assert_int_equal(access("ring/ring.c", R_OK), 0);
	const char *copy = home_format(h, "cp -r Makefile Makefile.tasks ring wire %s", dir);
	ran_ok(run_program(h, (const char *const[]){ "sh", "-c", copy, NULL }, NULL, 0, DEADLINE_MS));
	ran_ok(ringside(h, "start", "box/dev", STEP_SHELL, NULL));

	struct ran *w = ran_ok(ringside(h, "write", "box/dev",
	        "make -j2 b/release/lib/libring.a b/release/lib/libwire.a BUILD=b; echo made-$?", "--enter", NULL));
	uint64_t from = strtoull(w->out, NULL, 10);
	char *out = step_until(h, "box/dev", from, "made-[0-9]+\\r\\n", &next);
	assert_non_null(strstr(out, "made-0\r\n"));
	assert_non_null(strstr(out, "CC    ring/ring.c"));
	assert_non_null(strstr(out, "AR    libwire.a"));
	assert_int_equal(access(home_format(h, "%s/b/release/lib/libring.a", dir), R_OK), 0);
	/* The next command's output starts where this one's ended. */
	assert_string_equal(step_command(h, "box/dev", "ls b/release/lib"), "libring.a  libwire.a\r\n");

	/* And a build that fails tells so. */
	from = step_line(h, "box/dev", "make no-such-target BUILD=b; echo made-$?");
	out = step_until(h, "box/dev", from, "made-[0-9]+\\r\\n", NULL);
	assert_non_null(strstr(out, "made-2\r\n"));
	assert_non_null(strstr(out, "No rule to make target"));
}

static void vim_edits_and_saves_a_file(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	const char *dir = step_directory(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	term_keys(t, "vim -u NONE note.txt\r");
	term_wait_shows(t, "[New");
	assert_true(term_alternate(t));
	term_keys(t, "ifirst line\rsecond line\033");
	term_wait_shows(t, "second line");
	term_keys(t, ":1d\r");
	term_wait_hides(t, "first line");

	/* Leave, come back: the picture is the same, and the edit goes on. */
	term_keys(t, DETACH);
	assert_int_equal(term_wait_end(t), 0);
	struct term *again = term_attach(h, "box/dev");
	term_wait_shows(again, "second line");
	term_keys(again, "\014A, edited\033"); /* Ctrl-L draws it anew */
	term_wait_shows(again, "second line, edited");
	term_keys(again, ":wq\r");
	wait_until("vim has ended", strncmp(step_foreground(h, "box/dev"), "bash", 4) == 0);
	term_keys(again, "echo back-$((7+7))\r");
	term_wait_shows(again, "back-14");
	term_keys(again, DETACH);
	assert_int_equal(term_wait_end(again), 0);
	assert_string_equal(read_file(h, home_format(h, "%s/note.txt", dir), NULL), "second line, edited\n");
}

static void htop_starts_and_leaves_on_q(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	term_keys(t, "htop\r");
	term_wait_shows(t, "F10");
	term_resize(t, 100, 30);
	term_wait_shows(t, "F10");
	term_keys(t, "q");
	/* What is typed while it leaves is its own to throw away. */
	wait_until("htop has ended", strncmp(step_foreground(h, "box/dev"), "bash", 4) == 0);
	term_wait_hides(t, "F10");
	term_keys(t, "echo after-$((8+8))\r");
	term_wait_shows(t, "after-16");
	term_keys(t, DETACH);
	assert_int_equal(term_wait_end(t), 0);
}

static void less_pages(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--cols", "80", "--rows", "24", "--observe", "0", "--", "sh", "-c",
	        "seq 1 1000 >n; less n", NULL);
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "\n23\n");
	term_keys(t, " ");
	term_wait_shows(t, "\n46\n");
	term_keys(t, "/777\r");
	term_wait_shows(t, "777\n");
	term_keys(t, "G");
	term_wait_shows(t, "\n1000\n");
	term_keys(t, "q");
	assert_int_equal(term_wait_end(t), 0);
}

static void a_python_repl_answers_line_by_line(void **state)
{
	struct home *h = *state;
	uint64_t next;

	step_create(h, "box");
	step_start(h, "box/py", "--observe", "0", "--", "python3", "-q", NULL);
	step_until(h, "box/py", 0, ">>> $", NULL);
	uint64_t from = step_line(h, "box/py", "6*7");
	char *out = step_until(h, "box/py", from, "\\n>>> $", &next);
	assert_non_null(strstr(out, "42"));
	step_line(h, "box/py", "def f():");
	step_line(h, "box/py", "    return 'several ' + 'lines'");
	step_line(h, "box/py", "");
	from = step_line(h, "box/py", "f()");
	step_until(h, "box/py", from, "'several lines'", NULL);
	from = step_line(h, "box/py", "while True: pass");
	step_until(h, "box/py", from, "pass", &next);
	step_line(h, "box/py", "");
	ran_ok(ringside(h, "signal", "box/py", "INT", NULL));
	step_until(h, "box/py", next, "KeyboardInterrupt", NULL);
	from = step_line(h, "box/py", "exit(5)");
	json_t *j = step_until_exit(h, "box/py", from, NULL, NULL);
	assert_int_equal(json_number(j, "exit.code"), 5);
}

static void a_shell_stops_and_resumes_jobs(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	term_keys(t, "cat\r");
	wait_until("cat is in the foreground", strcmp(step_foreground(h, "box/dev"), "cat") == 0);
	term_keys(t, "\032"); /* Ctrl-Z */
	term_wait_shows(t, "Stopped");
	term_keys(t, "sleep 1000 &\r");
	term_keys(t, "jobs | wc -l\r");
	term_wait_shows(t, "2\n");
	term_keys(t, "fg %1\r");
	wait_until("cat is back", strcmp(step_foreground(h, "box/dev"), "cat") == 0);
	term_keys(t, "said-twice\r");
	wait_until("cat says it again", term_pump(t, 10) && strstr(term_screen(t), "said-twice\nsaid-twice"));
	term_keys(t, "\032");
	term_keys(t, "bg %1\r"); /* and stops again at once, since it wants to read */
	term_keys(t, "kill %1 %2; wait; echo jobs-left-$(jobs -r | wc -l)\r");
	term_wait_shows(t, "jobs-left-0");
	term_keys(t, DETACH);
	assert_int_equal(term_wait_end(t), 0);
	/* There is a controlling terminal, and no complaint about it. */
	assert_false(term_printed(t, "no job control"));
	assert_string_equal(step_command(h, "box/dev", "echo x >/dev/tty"), "x\r\n");
}

/* Lines "0000000\n" to the count. */
static void check_flood(const char *data, size_t n, size_t lines)
{
	char want[32];

	assert_int_equal(n, lines * 8);
	for (size_t i = 0; i < lines; i++) {
		snprintf(want, sizeof(want), "%07zu\n", i);
		if (memcmp(data + i * 8, want, 8) != 0)
			fail_msg("line %zu is \"%.8s\"", i, data + i * 8);
	}
}

/* 64 MiB through a ring that holds all of it, read while it comes and once more after. */
static void a_flood_of_64_mib_arrives_byte_for_byte(void **state)
{
	struct home *h = *state;
	size_t lines = (64u << 20) / 8;
	char *data;
	size_t n;

	step_create(h, "box");
	step_start(h, "box/flood", "--ring", "64M", "--observe", "0", "--", "sh", "-c",
	        home_format(h, "stty raw -echo; printf ready; read go; seq -f %%07.0f 0 %zu | cat", lines - 1), NULL);
	step_until(h, "box/flood", 0, "ready", NULL);
	const char *argv[] = { "ringside", "read", "box/flood", "--from", "5", "--wait", "100s", "--until-exit", NULL };
	struct running *r = program_begin(h, argv, NULL, 0);
	step_write(h, "box/flood", "\n");
	struct ran *live = ran_ok(running_end(h, r, 2 * DEADLINE_MS));
	check_flood(live->out, live->out_len, lines);
	step_until_exit(h, "box/flood", 5, &data, &n);
	check_flood(data, n, lines);
}

/* The same flood through a ring of 1 MiB, while nobody reads: the newest MiB is there, and the loss is counted to the
 * byte. */
static void a_flood_past_the_ring_keeps_its_newest_part(void **state)
{
	struct home *h = *state;
	size_t lines = (64u << 20) / 8;
	size_t n;

	step_create(h, "box");
	step_start(h, "box/flood", "--ring", "1M", "--observe", "100s", "--", "sh", "-c",
	        home_format(h, "stty raw; seq -f %%07.0f 0 %zu | cat", lines - 1), NULL);
	json_t *j = step_read(h, "box/flood", "--from", "0", "--max", "64M", NULL);
	assert_int_equal(json_number(j, "tail_offset"), lines * 8);
	assert_int_equal(json_number(j, "offset"), lines * 8 - (1u << 20));
	assert_int_equal(json_number(j, "lost_bytes"), lines * 8 - (1u << 20));
	char *data = json_bytes(h, j, "data_base64", &n);
	assert_int_equal(n, 1u << 20);
	assert_string_equal(data + n - 8, home_format(h, "%07zu\n", lines - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(a_real_build_of_a_real_tree_runs_and_its_output_is_found_again),
		HOME_TEST(vim_edits_and_saves_a_file),
		HOME_TEST(htop_starts_and_leaves_on_q),
		HOME_TEST(less_pages),
		HOME_TEST(a_python_repl_answers_line_by_line),
		HOME_TEST(a_shell_stops_and_resumes_jobs),
		HOME_TEST(a_flood_of_64_mib_arrives_byte_for_byte),
		HOME_TEST(a_flood_past_the_ring_keeps_its_newest_part),
	};
	return HOME_MAIN("cli_programs", tests);
}
