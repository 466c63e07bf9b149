/*
 * test_cli_survival.c - what outlives what: the control daemon killed, stopped and replaced under floods; the console
 * daemon killed; both at once; and that what was read before is found again by its number.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"
#include "tests/support/term.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINES   3000000
#define LINE    8 /* bytes: "0000000\n" */
#define FLOODS  3
#define EPOCH40 ((uint64_t)1 << 40)

/* ---- The control daemon ---- */

static void begin_flood(struct home *h, const char *console)
{
	step_start(h, console, "--ring", "64M", "--observe", "0", "--", "sh", "-c",
	        home_format(h, "stty raw; seq -f %%07.0f 0 %d | cat", LINES - 1), NULL);
}

/* Reads what has come since *next and checks each byte of it. */
static void follow(struct home *h, const char *console, uint64_t *next)
{
	json_t *j =
	        step_read(h, console, "--from", home_format(h, "%llu", (unsigned long long)*next), "--max", "8M", NULL);
	size_t n;
	char *data = json_bytes(h, j, "data_base64", &n);
	char want[32];

	assert_false(json_truth(j, "truncated"));
	assert_int_equal(json_number(j, "offset"), *next);
	assert_int_equal(json_number(j, "next_offset"), *next + n);
	for (size_t i = 0; i < n; i++) {
		uint64_t at = *next + i;
		if (i == 0 || at % LINE == 0)
			snprintf(want, sizeof(want), "%07llu\n", (unsigned long long)(at / LINE));
		if (data[i] != want[at % LINE])
			fail_msg("%s: byte %llu is 0x%02x", console, (unsigned long long)at, (unsigned char)data[i]);
	}
	*next += n;
}

static void a_killed_daemon_loses_no_byte_of_a_flood_and_no_cursor(void **state)
{
	struct home *h = *state;
	const char *console[FLOODS];
	uint64_t next[FLOODS] = { 0 };
	pid_t daemon = 0, consoled;

	step_create(h, "box");
	/* One reader from before the first kill: it needs no daemon any more. */
	begin_flood(h, "box/f0");
	const char *argv[] = { "ringside", "read", "box/f0", "--from", "0", "--wait", "110s", "--until-exit", NULL };
	struct running *reader = program_begin(h, argv, NULL, 0);
	for (int i = 0; i < FLOODS; i++) {
		console[i] = home_format(h, "box/f%d", i);
		if (i > 0)
			begin_flood(h, console[i]);
	}
	consoled = consoled_pid(h, "box");
	for (int kills = 0; kills < 4; kills++) {
		pid_t pid = daemon_pid(h);
		assert_int_not_equal(pid, daemon);
		daemon = pid;
		kill_and_wait(daemon, SIGKILL);
		/* The next command starts it again, and it finds everything. */
		for (int i = 0; i < FLOODS; i++)
			follow(h, console[i], &next[i]);
		assert_int_equal(consoled_pid(h, "box"), consoled);
		running_ended(reader);
	}
	for (int i = 0; i < FLOODS; i++) {
		wait_until("the flood has ended", step_state_is(h, console[i], "EXITED"));
		while (next[i] < (uint64_t)LINES * LINE) {
			uint64_t before = next[i];
			follow(h, console[i], &next[i]);
			assert_true(next[i] > before);
		}
		assert_int_equal(json_number(step_ps(h, console[i]), "tail_offset"), (uint64_t)LINES * LINE);
	}
	struct ran *r = ran_ok(running_end(h, reader, 2 * DEADLINE_MS));
	assert_int_equal(r->out_len, (size_t)LINES * LINE);
	assert_memory_equal(r->out + r->out_len - LINE, home_format(h, "%07d\n", LINES - 1), LINE);
}

static void a_person_at_a_console_does_not_notice_that_the_daemon_died(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	kill_and_wait(daemon_pid(h), SIGKILL);
	term_keys(t, "echo without-$((4*4))\r");
	term_wait_shows(t, "without-16");
	/* Nor that another one came, and knows that somebody is there. */
	ran_ok(ringside(h, "up", NULL));
	assert_int_equal(json_number(step_ps(h, "box/dev"), "clients"), 1);
	term_keys(t, "echo with-$((5*5))\r");
	term_wait_shows(t, "with-25");
	term_keys(t, "exit 6\r");
	assert_int_equal(term_wait_end(t), 6);
}

static void what_ended_while_no_daemon_was_there_is_found(void **state)
{
	struct home *h = *state;
	char *data;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "sh", "-c", "read x; echo last; exit 8", NULL);
	struct term *t = term_attach(h, "box/dev");
	kill_and_wait(daemon_pid(h), SIGKILL);
	term_keys(t, "\r");
	assert_int_equal(term_wait_end(t), 8);
	json_t *j = step_until_exit(h, "box/dev", 0, &data, NULL);
	assert_non_null(strstr(data, "last\r\n"));
	assert_int_equal(json_number(j, "exit.code"), 8);
}

static void a_new_version_takes_over_what_the_old_one_started(void **state)
{
	struct home *h = *state;
	const char *there = home_path(h, "new");
	char exe[4096];

	step_create(h, "box");
	step_shell(h, "box/dev");
	step_command(h, "box/dev", "echo from-the-old");
	pid_t consoled = consoled_pid(h, "box"), shell = (pid_t)json_number(step_ps(h, "box/dev"), "pid");
	uint64_t cursor = json_number(step_ps(h, "box/dev"), "tail_offset");

	/* Another set of programs, by another path. */
	ran_ok(run_program(h, (const char *const[]){ "cp", "-r", h->bin, there, NULL }, NULL, 0, DEADLINE_MS));
	ran_ok(ringside(h, "down", NULL));
	snprintf(h->bin, sizeof(h->bin), "%s", there);
	ssize_t n = readlink(home_format(h, "/proc/%d/exe", daemon_pid(h)), exe, sizeof(exe) - 1);
	assert_true(n > 0);
	exe[n] = '\0';
	assert_string_equal(exe, home_format(h, "%s/ringsided", there));

	assert_int_equal(consoled_pid(h, "box"), consoled);
	assert_int_equal(json_number(step_ps(h, "box/dev"), "pid"), shell);
	step_line(h, "box/dev", "echo for-the-$((1))-new");
	step_until(h, "box/dev", cursor, "for-the-1-new", NULL);
	json_t *old = step_read(h, "box/dev", "--from", "0", NULL);
	assert_non_null(strstr(json_bytes(h, old, "data_base64", NULL), "from-the-old"));
}

/* Killed at any moment of a create, whatever was begun is settled by the next daemon. */
static void a_daemon_killed_in_the_middle_of_a_create_leaks_nothing(void **state)
{
	struct home *h = *state;

	for (int round = 0; round < 12; round++) {
		pid_t daemon = daemon_pid(h);
		const char *name = home_format(h, "box%d", round);
		struct running *r = ringside_begin(h, "create", "--name", name, NULL);
		uint64_t until = now_ms() + (uint64_t)round * 4;
		while (now_ms() < until && !running_ended(r)) {
		}
		kill_and_wait(daemon, SIGKILL);
		struct ran *done = running_end(h, r, DEADLINE_MS);
		struct ran *shown = ringside(h, "show", "--json", name, NULL);
		/* Who was told that it exists finds it. */
		if (done->status == 0)
			ran_ok(shown);
		if (shown->status == 0) {
			wait_until("its create is settled",
			        strcmp(json_text(
			                       ran_json(h, ran_ok(ringside(h, "show", "--json", name, NULL))), "state"),
			                "CREATING"));
		}
	}
	ran_ok(ringside(h, "down", "--all", NULL));
	assert_int_equal(step_count_program(h, "ringside-consoled"), 0);
}

/* ---- The console daemon ---- */

static void a_killed_console_daemon_is_lost_with_its_scrollback_readable(void **state)
{
	struct home *h = *state;
	const char *argv[] = { "ringside", "attach", "box/dev", NULL };

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c", "echo precious output; exec sleep 1007", NULL);
	step_until(h, "box/dev", 0, "output\r\n", NULL);
	struct term *t = term_open(h, 80, 24, argv);
	term_wait_shows(t, "precious output");
	pid_t program = (pid_t)json_number(step_ps(h, "box/dev"), "pid");
	kill_and_wait(consoled_pid(h, "box"), SIGKILL);

	assert_int_equal(term_wait_end(t), 1);
	wait_until("it is LOST", step_state_is(h, "box/dev", "LOST"));
	assert_true(json_is_null(json_at(step_ps(h, "box/dev"), "exit")));
	json_t *j = step_read(h, "box/dev", "--from", "0", NULL);
	assert_string_equal(json_text(j, "state"), "LOST");
	assert_string_equal(json_bytes(h, j, "data_base64", NULL), "precious output\r\n");
	wait_until("its program is ended too", !process_alive(program));
	assert_int_equal(ringside(h, "write", "box/dev", "x", NULL)->status, 5);
	assert_int_equal(ringside(h, "attach", "box/dev", NULL)->status, 1);

	/* Started again its offsets are far from any that were given out, the old cursor is good, and the gap is told.
	 */
	json_t *again = step_start(h, "box/dev", "--observe", "0", "--", "sh", "-c", "echo new; read x", NULL);
	assert_int_equal(json_number(again, "incarnation"), 2);
	char *out = step_until(h, "box/dev", EPOCH40, "new\r\n", NULL);
	assert_string_equal(out, "new\r\n");
	j = step_read(h, "box/dev", "--from", "5", "--wait", "10s", NULL);
	assert_true(json_number(j, "offset") == EPOCH40 || json_number(j, "offset") == 5);
}

static void another_sandbox_does_not_notice(void **state)
{
	struct home *h = *state;

	step_create(h, "one");
	step_create(h, "two");
	step_shell(h, "one/dev");
	step_shell(h, "two/dev");
	kill_and_wait(consoled_pid(h, "one"), SIGKILL);
	assert_string_equal(step_command(h, "two/dev", "echo well"), "well\r\n");
	wait_until("the other is LOST", step_state_is(h, "one/dev", "LOST"));
	/* And the sandbox itself is still of use: its console daemon is started anew when it is needed. */
	assert_string_equal(ran_ok(ringside(h, "exec", "one", "--", "echo", "here", NULL))->out, "here\n");
}

/* ---- Custody ---- */

static void an_ended_consoles_output_outlives_both_daemons(void **state)
{
	struct home *h = *state;
	char *data;
	size_t n;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "30s", "--", "sh", "-c", "seq 1 50000", NULL);
	pid_t consoled = consoled_pid(h, "box"), daemon = daemon_pid(h);
	kill_and_wait(daemon, SIGKILL);
	kill_and_wait(consoled, SIGKILL);

	json_t *j = step_until_exit(h, "box/dev", 0, &data, &n);
	assert_string_equal(json_text(j, "state"), "EXITED");
	assert_int_equal(json_number(j, "exit.code"), 0);
	assert_string_equal(data + n - 7, "50000\r\n");
	assert_int_equal(n, json_number(j, "tail_offset"));
	/* Its next incarnation goes on where it ended. */
	uint64_t tail = json_number(j, "tail_offset");
	step_start(h, "box/dev", "--", "echo", "again", NULL);
	step_until_exit(h, "box/dev", tail, &data, NULL);
	assert_string_equal(data, "again\r\n");
}

static size_t custody_bytes;

static int add_custody(const char *path, const struct stat *st, int type, struct FTW *at)
{
	const char *dot = strrchr(path, '.');

	(void)at;
	if (type == FTW_F && dot && strcmp(dot, ".ring") == 0)
		custody_bytes += (size_t)st->st_size;
	return 0;
}

static size_t custody_size(struct home *h)
{
	custody_bytes = 0;
	nftw(home_path(h, "state"), add_custody, 16, FTW_PHYS);
	return custody_bytes;
}

/* As after a power cut: nothing was told anything. What was written in time is there, and up to where is said. */
static void after_a_power_cut_the_reader_gets_what_was_kept(void **state)
{
	struct home *h = *state;

	ran_ok(run_program(
	        h, (const char *const[]){ "ringsided", "--custody-interval", "500ms", NULL }, NULL, 0, DEADLINE_MS));
	step_create(h, "box");
	step_start(
	        h, "box/dev", "--ring", "64K", "--observe", "0", "--", "sh", "-c", "echo kept; exec sleep 1008", NULL);
	step_until(h, "box/dev", 0, "kept\r\n", NULL);
	pid_t consoled = consoled_pid(h, "box"), daemon = daemon_pid(h);
	/* A live ring that changed is written from time to time; every 30 s, where nobody wants it sooner. */
	wait_until("custody has been written", custody_size(h) > 0);
	kill_and_wait(daemon, SIGKILL);
	kill_and_wait(consoled, SIGKILL);

	wait_until("it is LOST", step_state_is(h, "box/dev", "LOST"));
	struct ran *r = ran_ok(ringside(h, "read", "box/dev", "--from", "0", NULL));
	assert_string_equal(r->out, "kept\r\n");
	assert_non_null(strstr(r->err, "kept_until=6\n"));
	json_t *again = step_start(h, "box/dev", "--observe", "0", "--", "sleep", "1008", NULL);
	assert_int_equal(json_number(again, "tail_offset") % EPOCH40, 0);
	assert_true(json_number(again, "tail_offset") >= EPOCH40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(a_killed_daemon_loses_no_byte_of_a_flood_and_no_cursor),
		HOME_TEST(a_person_at_a_console_does_not_notice_that_the_daemon_died),
		HOME_TEST(what_ended_while_no_daemon_was_there_is_found),
		HOME_TEST(a_new_version_takes_over_what_the_old_one_started),
		HOME_TEST(a_daemon_killed_in_the_middle_of_a_create_leaks_nothing),
		HOME_TEST(a_killed_console_daemon_is_lost_with_its_scrollback_readable),
		HOME_TEST(another_sandbox_does_not_notice),
		HOME_TEST(an_ended_consoles_output_outlives_both_daemons),
		HOME_TEST(after_a_power_cut_the_reader_gets_what_was_kept),
	};
	return HOME_MAIN("cli_survival", tests);
}
