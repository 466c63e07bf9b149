/*
 * test_cli_read_write.c - finding one's place by a number: read with each of its waits, write and the offset it
 * answers, truncation, and the input that terminals are bad at.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1024)

static const char *number(struct home *h, uint64_t v)
{
	return home_format(h, "%llu", (unsigned long long)v);
}

/* ---- The four lines of the README ---- */

static void an_agent_reads_exactly_what_its_command_printed(void **state)
{
	struct home *h = *state;

	ran_ok(ringside(h, "create", "--name", "box", NULL));
	ran_ok(ringside(h, "start", "box/dev", STEP_SHELL, NULL));
	step_until(h, "box/dev", 0, "\\$ $", NULL);
	struct ran *w = ran_ok(ringside(h, "write", "box/dev", "echo result-$((40+2))", "--enter", NULL));
	const char *from = home_format(h, "%.*s", (int)strcspn(w->out, "\n"), w->out);
	struct ran *r = ran_ok(
	        ringside(h, "read", "box/dev", "--from", from, "--wait", "60s", "--until", "result-42\\r\\n", NULL));
	assert_string_equal(r->out, "echo result-$((40+2))\r\nresult-42\r\n");
	uint64_t next = strtoull(from, NULL, 10) + r->out_len;
	assert_non_null(strstr(r->err, home_format(h, "next_offset=%llu\n", (unsigned long long)next)));
	/* And from there on there is nothing of it any more. */
	char *rest = step_until(h, "box/dev", next, "\\$ $", NULL);
	assert_string_equal(rest, "$ ");
}

static void read_json_has_every_key(void **state)
{
	struct home *h = *state;
	static const char *const keys[] = { "sandbox", "console", "incarnation", "state", "offset", "next_offset",
		"head_offset", "tail_offset", "truncated", "lost_bytes", "reason", "exit", "data_base64" };

	step_create(h, "box");
	step_start(h, "box/dev", "--", "printf", "abc", NULL);
	json_t *j = step_read(h, "box/dev", NULL);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!json_object_get(j, keys[i]))
			fail_msg("no key %s", keys[i]);
	assert_string_equal(json_text(j, "data_base64"), "YWJj");
	assert_int_equal(json_number(j, "offset"), 0);
	assert_int_equal(json_number(j, "next_offset"), 3);
	assert_int_equal(json_number(j, "tail_offset"), 3);
	assert_false(json_truth(j, "truncated"));
	assert_string_equal(json_text(j, "state"), "EXITED");
	assert_int_equal(json_number(j, "exit.code"), 0);
}

static void read_gives_a_tail_a_range_and_a_maximum(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--", "printf", "0123456789", NULL);
	assert_string_equal(ran_ok(ringside(h, "read", "box/dev", "--tail", "3", NULL))->out, "789");
	assert_string_equal(ran_ok(ringside(h, "read", "box/dev", "--tail", "1000", NULL))->out, "0123456789");
	assert_string_equal(ran_ok(ringside(h, "read", "box/dev", "--from", "4", NULL))->out, "456789");
	assert_string_equal(ran_ok(ringside(h, "read", "box/dev", "--from", "4", "--max", "2", NULL))->out, "45");
	assert_string_equal(ran_ok(ringside(h, "read", "box/dev", "--from", "10", NULL))->out, "");
	struct ran *past = ran_status(ringside(h, "read", "--json", "box/dev", "--from", "11", NULL), 1);
	assert_string_equal(json_text(ran_error(h, past), "code"), "offset_out_of_range");
	assert_int_equal(past->out_len, 0);
}

/* ---- Waits ---- */

static void a_plain_wait_ends_with_the_first_output_or_in_time_and_is_done(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	uint64_t from = json_number(step_ps(h, "box/dev"), "tail_offset");
	json_t *j = step_read(h, "box/dev", "--from", number(h, from), "--wait", "300ms", NULL);
	assert_string_equal(json_text(j, "reason"), "timeout");
	assert_int_equal(json_number(j, "next_offset"), from);

	struct running *r =
	        ringside_begin(h, "read", "--json", "box/dev", "--from", number(h, from), "--wait", "60s", NULL);
	step_write(h, "box/dev", "x");
	j = ran_json(h, ran_ok(running_end(h, r, DEADLINE_MS)));
	assert_string_equal(json_text(j, "reason"), "output");
	assert_string_equal(json_bytes(h, j, "data_base64", NULL), "x");
}

static void a_match_tells_where_it_is_and_a_miss_is_status_4_with_the_output(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c", "echo one two three; read x", NULL);
	json_t *j = step_read(h, "box/dev", "--from", "0", "--wait", "50s", "--until", "t[wx]o", NULL);
	assert_string_equal(json_text(j, "reason"), "match");
	assert_int_equal(json_number(j, "match_offset"), 4);
	assert_int_equal(json_number(j, "match_length"), 3);
	assert_int_equal(json_number(j, "next_offset"), 7);
	assert_string_equal(json_bytes(h, j, "data_base64", NULL), "one two");

	struct ran *miss = ran_status(
	        ringside(h, "read", "box/dev", "--from", "0", "--wait", "300ms", "--until", "never", NULL), 4);
	assert_string_equal(miss->out, "one two three\r\n");
	ran_status(ringside(h, "read", "box/dev", "--until", "(", "--wait", "1s", NULL), 2);
}

static void a_match_is_found_across_pieces_of_output(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c",
	        "for c in n e e d l e; do printf $c; read -t 0.05 x; done; read x", NULL);
	char *out = step_until(h, "box/dev", 0, "needle", NULL);
	assert_string_equal(out, "needle");
}

static void an_idle_wait_ends_when_the_output_pauses(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c",
	        "for i in 1 2 3 4 5; do echo $i; read -t 0.1 x; done; echo paused; read x", NULL);
	json_t *j = step_read(h, "box/dev", "--from", "0", "--wait", "50s", "--until-idle", "1500ms", NULL);
	assert_string_equal(json_text(j, "reason"), "idle");
	assert_non_null(strstr(json_bytes(h, j, "data_base64", NULL), "5\r\npaused\r\n"));
}

static void an_exit_wait_gives_everything_up_to_the_last_byte(void **state)
{
	struct home *h = *state;
	char *data;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c", "read -t 0.3 x; echo last words; exit 5", NULL);
	json_t *j = step_until_exit(h, "box/dev", 0, &data, NULL);
	assert_string_equal(data, "last words\r\n");
	assert_int_equal(json_number(j, "exit.code"), 5);
	assert_string_equal(json_text(j, "state"), "EXITED");
	/* A pattern that can not come any more is not waited for. */
	ran_status(ringside(h, "read", "box/dev", "--wait", "1h", "--until", "never", NULL), 4);
}

/* ---- Truncation ---- */

static void a_reader_that_fell_behind_is_told_how_much_it_lost(void **state)
{
	struct home *h = *state;
	size_t n;

	step_create(h, "box");
	step_start(h, "box/dev", "--ring", "4K", "--observe", "30s", "--", "sh", "-c", "seq 100000 104999", NULL);
	/* 5000 lines of 8 bytes: the newest 4096 are still there. */
	json_t *j = step_read(h, "box/dev", "--from", "100", NULL);
	assert_true(json_truth(j, "truncated"));
	assert_int_equal(json_number(j, "offset"), 5000 * 8 - 4096);
	assert_int_equal(json_number(j, "lost_bytes"), 5000 * 8 - 4096 - 100);
	assert_int_equal(json_number(j, "head_offset"), 5000 * 8 - 4096);
	char *data = json_bytes(h, j, "data_base64", &n);
	assert_int_equal(n, 4096);
	assert_string_equal(data + n - 8, "104999\r\n");
	struct ran *r = ran_ok(ringside(h, "read", "box/dev", "--from", "100", NULL));
	assert_non_null(strstr(r->err, "truncated"));
}

/* ---- Input ---- */

/* A program that says when it listens, with the terminal set as asked. */
static void start_listener(struct home *h, const char *stty, const char *program)
{
	step_create(h, "box");
	step_start(h, "box/dev", "--ring", "8M", "--observe", "0", "--", "bash", "-c",
	        home_format(h, "stty %s; printf ready; %s", stty, program), NULL);
	step_until(h, "box/dev", 0, "ready", NULL);
}

/* n bytes in lines of 64, all different. */
static char *many_lines(struct home *h, size_t n)
{
	char *text = home_hold(h, malloc(n + 1));

	for (size_t i = 0; i < n; i += 64)
		snprintf(text + i, 65, "%063zu\n", i / 64);
	text[n] = '\0';
	return text;
}

static void a_paste_of_240_kib_into_a_program_that_echoes_arrives_whole(void **state)
{
	struct home *h = *state;
	size_t n = 240 * KIB;
	char *text = many_lines(h, n);

	start_listener(h, "raw -echo", "head -c 245760; printf END");
	struct ran *w = ran_ok(ringside_in(h, text, n, "write", "--json", "box/dev", NULL));
	assert_int_equal(json_number(ran_json(h, w), "written"), n);
	char *data;
	size_t got;
	step_until_exit(h, "box/dev", json_number(ran_json(h, w), "tail_offset"), &data, &got);
	assert_int_equal(got, n + 3);
	assert_memory_equal(data, text, n);
	assert_memory_equal(data + n, "END", 3);
}

static void a_paste_of_240_kib_into_a_line_editing_terminal_arrives_whole(void **state)
{
	struct home *h = *state;
	size_t n = 240 * KIB;
	char *text = many_lines(h, n);

	/* The terminal echoes each line, and cat says it again. */
	start_listener(h, "sane", "cat >got; echo END");
	const char *dir = step_directory(h, "box");
	struct ran *w = ran_ok(ringside_in(h, text, n, "write", "--json", "box/dev", NULL));
	assert_int_equal(json_number(ran_json(h, w), "written"), n);
	step_write(h, "box/dev", "\004");
	step_until(h, "box/dev", 0, "END", NULL);
	size_t got;
	char *file = read_file(h, home_format(h, "%s/got", dir), &got);
	assert_int_equal(got, n);
	assert_memory_equal(file, text, n);
}

static void a_write_to_a_program_that_never_reads_ends_in_timeout_and_says_how_much(void **state)
{
	struct home *h = *state;
	size_t n = 200 * KIB;
	char *text = many_lines(h, n);

	start_listener(h, "raw -echo", "exec sleep 1000");
	uint64_t before = now_ms();
	struct ran *w = ran_status(ringside_in(h, text, n, "write", "--json", "box/dev", "--timeout", "1s", NULL), 1);
	assert_true(now_ms() - before < 20000);
	json_t *e = ran_error(h, w);
	assert_string_equal(json_text(e, "code"), "timeout");
	assert_non_null(strstr(json_text(e, "message"), "bytes were taken"));
	/* The console goes on: it can be signalled and closed at once. */
	ran_ok(ringside(h, "signal", "box/dev", "TERM", NULL));
	wait_until("the program ends", step_state_is(h, "box/dev", "EXITED"));
}

static void a_line_that_the_terminal_would_cut_is_told(void **state)
{
	struct home *h = *state;
	char *line = home_hold(h, malloc(5001));

	memset(line, 'x', 5000);
	line[5000] = '\0';
	start_listener(h, "sane", "cat >got");
	const char *dir = step_directory(h, "box");
	struct ran *w = ran_status(ringside_in(h, line, 5000, "write", "--json", "box/dev", NULL), 5);
	assert_string_equal(json_text(ran_error(h, w), "code"), "canonical_line_limit");
	/* 4095 bytes and the end of the line do fit. */
	line[4095] = '\n';
	ran_ok(ringside_in(h, line, 4096, "write", "box/dev", "--json", NULL));
	step_write(h, "box/dev", "\004\004");
	wait_until("cat ends", step_state_is(h, "box/dev", "EXITED"));
	size_t got;
	read_file(h, home_format(h, "%s/got", dir), &got);
	assert_true(got == 4096);
}

static void two_writers_do_not_mix_their_bytes(void **state)
{
	struct home *h = *state;
	enum { WRITERS = 4, LINES = 40, WIDTH = 4000 };
	struct running *r[WRITERS];

	start_listener(h, "raw -echo", home_format(h, "head -c %d", WRITERS * LINES * (WIDTH + 1)));
	for (int w = 0; w < WRITERS; w++) {
		size_t n = (size_t)LINES * (WIDTH + 1);
		char *text = home_hold(h, malloc(n));
		memset(text, 'a' + w, n);
		for (int i = 1; i <= LINES; i++)
			text[i * (WIDTH + 1) - 1] = '\n';
		const char *argv[] = { "ringside", "write", "--json", "box/dev", NULL };
		r[w] = program_begin(h, argv, text, n);
	}
	for (int w = 0; w < WRITERS; w++)
		ran_ok(running_end(h, r[w], DEADLINE_MS));
	char *data;
	size_t n;
	step_until_exit(h, "box/dev", 5, &data, &n);
	assert_int_equal(n, WRITERS * LINES * (WIDTH + 1));
	/* Each request is one piece: the letter changes WRITERS - 1 times in all. */
	int changes = 0;
	char last = data[0];
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n' || data[i] == last)
			continue;
		changes++;
		last = data[i];
	}
	assert_int_equal(changes, WRITERS - 1);
}

static void a_write_to_an_ended_console_is_refused(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--", "true", NULL);
	struct ran *r = ran_status(ringside(h, "write", "--json", "box/dev", "x", NULL), 5);
	assert_string_equal(json_text(ran_error(h, r), "code"), "not_running");
}

static void bytes_of_every_value_go_in_and_come_out(void **state)
{
	struct home *h = *state;
	char all[256];
	char *data;
	size_t n;

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	start_listener(h, "raw -echo", "head -c 256");
	ran_ok(ringside_in(h, all, sizeof(all), "write", "box/dev", NULL));
	step_until_exit(h, "box/dev", 5, &data, &n);
	assert_int_equal(n, 256);
	assert_memory_equal(data, all, 256);
	struct ran *r = ran_ok(ringside(h, "read", "box/dev", "--from", "5", NULL));
	assert_int_equal(r->out_len, 256);
	assert_memory_equal(r->out, all, 256);
}

static void an_input_that_cannot_be_read_is_not_taken_for_its_end(void **state)
{
	struct home *h = *state;
	const char *const argv[] = { "sh", "-c", home_format(h, "exec '%s/ringside' write box/dev </", h->bin), NULL };

	step_create(h, "box");
	ran_ok(ringside(h, "start", "box/dev", "--observe", "0", "--", "cat", NULL));
	struct ran *r = ran_status(run_program(h, argv, NULL, 0, DEADLINE_MS), 1);
	assert_true(contains(r->err, r->err_len, "cannot read standard input: Is a directory"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(an_agent_reads_exactly_what_its_command_printed),
		HOME_TEST(read_json_has_every_key),
		HOME_TEST(read_gives_a_tail_a_range_and_a_maximum),
		HOME_TEST(a_plain_wait_ends_with_the_first_output_or_in_time_and_is_done),
		HOME_TEST(a_match_tells_where_it_is_and_a_miss_is_status_4_with_the_output),
		HOME_TEST(a_match_is_found_across_pieces_of_output),
		HOME_TEST(an_idle_wait_ends_when_the_output_pauses),
		HOME_TEST(an_exit_wait_gives_everything_up_to_the_last_byte),
		HOME_TEST(a_reader_that_fell_behind_is_told_how_much_it_lost),
		HOME_TEST(a_paste_of_240_kib_into_a_program_that_echoes_arrives_whole),
		HOME_TEST(a_paste_of_240_kib_into_a_line_editing_terminal_arrives_whole),
		HOME_TEST(a_write_to_a_program_that_never_reads_ends_in_timeout_and_says_how_much),
		HOME_TEST(a_line_that_the_terminal_would_cut_is_told),
		HOME_TEST(two_writers_do_not_mix_their_bytes),
		HOME_TEST(a_write_to_an_ended_console_is_refused),
		HOME_TEST(bytes_of_every_value_go_in_and_come_out),
		HOME_TEST(an_input_that_cannot_be_read_is_not_taken_for_its_end),
	};
	return HOME_MAIN("cli_read_write", tests);
}
