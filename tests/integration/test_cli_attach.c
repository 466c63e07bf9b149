/*
 * test_cli_attach.c - sitting down at a console: what is seen, what keys do, whose size it is, how one leaves, and that
 * the outer terminal is given back as it was.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"
#include "tests/support/term.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define DETACH "\035" /* Ctrl-] */

static void attach_shows_what_was_there_and_takes_keys(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	step_command(h, "box/dev", "echo early-$((1+1))");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "early-2");
	term_keys(t, "echo late-$((2+2))\r");
	term_wait_shows(t, "late-4");
	assert_int_equal(json_number(step_ps(h, "box/dev"), "clients"), 1);
	term_keys(t, DETACH);
	assert_int_equal(term_wait_end(t), 0);
	assert_true(step_state_is(h, "box/dev", "RUNNING"));
	assert_int_equal(json_number(step_ps(h, "box/dev"), "clients"), 0);
}

static void attach_ends_with_the_consoles_own_exit(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	term_keys(t, "echo bye-$((3+3)); exit 7\r");
	assert_int_equal(term_wait_end(t), 7);
	assert_true(term_printed(t, "bye-6"));

	step_start(h, "box/killed", "--observe", "0", "--", "sh", "-c", "read x; kill -TERM $$", NULL);
	t = term_attach(h, "box/killed");
	term_keys(t, "\r");
	assert_int_equal(term_wait_end(t), 128 + SIGTERM);
}

static void attach_to_an_ended_console_shows_it_and_ends_with_its_exit(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--", "sh", "-c", "echo was here; exit 3", NULL);
	struct term *t = term_attach(h, "box/dev");
	assert_int_equal(term_wait_end(t), 3);
	assert_true(term_printed(t, "was here"));
}

static void a_read_only_attach_neither_types_nor_resizes(void **state)
{
	struct home *h = *state;
	const char *argv[] = { "ringside", "attach", "box/dev", "--read-only", NULL };

	step_create(h, "box");
	step_start(h, "box/dev", "--cols", "90", "--rows", "20", "--observe", "0", STEP_SHELL, NULL);
	step_until(h, "box/dev", 0, "\\$ $", NULL);
	struct term *t = term_open(h, 60, 15, argv);
	term_wait_shows(t, "$");
	term_keys(t, "echo should-not-$((1+1))\r");
	/* What the shell prints next proves that nothing was typed before it. */
	step_command(h, "box/dev", "stty size");
	term_wait_shows(t, "20 90");
	assert_false(term_printed(t, "should-not"));
	term_keys(t, DETACH);
	assert_int_equal(term_wait_end(t), 0);
}

static void the_size_is_that_of_who_acted_last(void **state)
{
	struct home *h = *state;
	const char *argv[] = { "ringside", "attach", "box/dev", NULL };

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *big = term_open(h, 120, 40, argv);
	term_wait_shows(big, "$");
	wait_until("the first one's size", json_number(step_ps(h, "box/dev"), "cols") == 120);
	struct term *small = term_open(h, 70, 20, argv);
	term_wait_shows(small, "$");
	term_keys(small, "stty size\r");
	term_wait_shows(small, "20 70");
	term_pump(big, 0);
	term_keys(big, "stty size\r");
	term_wait_shows(big, "40 120");
	term_resize(big, 100, 30);
	wait_until("the new size", json_number(step_ps(h, "box/dev"), "cols") == 100);
	term_keys(small, DETACH);
	term_keys(big, DETACH);
	assert_int_equal(term_wait_end(small), 0);
	assert_int_equal(term_wait_end(big), 0);
}

static void a_closed_window_detaches_and_the_console_goes_on(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	term_close(t);
	assert_string_equal(step_command(h, "box/dev", "echo still-$((4+4))"), "still-8\r\n");
	wait_until("nobody is attached", json_number(step_ps(h, "box/dev"), "clients") == 0);
}

static void control_keys_reach_the_program(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	term_keys(t, "sleep 1000\r");
	wait_until("sleep is in the foreground", strstr(step_foreground(h, "box/dev"), "sleep"));
	term_keys(t, "\003");
	term_keys(t, "echo status-$?\r");
	term_wait_shows(t, "status-130");
	term_keys(t, DETACH);
	assert_int_equal(term_wait_end(t), 0);
}

/* The person's own shell after the attach: its terminal must echo and edit lines as before. */
static void the_outer_terminal_is_given_back_as_it_was(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	const char *script = home_format(h,
	        "stty -a >%s/before; %s/ringside attach box/dev; echo left-$?; stty -a >%s/after; echo compared",
	        h->dir, h->bin, h->dir);
	struct term *t = term_open(h, 80, 24, (const char *const[]){ "sh", "-c", script, NULL });
	term_wait_shows(t, "$");
	term_keys(t, "echo inside-$((5+5))\r");
	term_wait_shows(t, "inside-10");
	term_keys(t, DETACH);
	term_wait_shows(t, "left-0");
	term_wait_shows(t, "compared");
	size_t a, b;
	char *before = read_file(h, home_path(h, "before"), &a), *after = read_file(h, home_path(h, "after"), &b);
	assert_non_null(before);
	assert_non_null(after);
	assert_string_equal(after, before);
	assert_int_equal(term_wait_end(t), 0);
}

static void attach_from_an_offset_shows_what_came_after(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "sh", "-c", "echo AAAA; echo BBBB; read x", NULL);
	step_until(h, "box/dev", 0, "BBBB", NULL);
	const char *argv[] = { "ringside", "attach", "box/dev", "--from", "6", NULL };
	struct term *t = term_open(h, 80, 24, argv);
	term_wait_shows(t, "BBBB");
	assert_false(term_printed(t, "AAAA"));
	term_keys(t, "\r");
	assert_int_equal(term_wait_end(t), 0);
}

static void two_people_see_the_same(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *one = term_attach(h, "box/dev"), *two = term_attach(h, "box/dev");
	term_wait_shows(one, "$");
	term_wait_shows(two, "$");
	term_keys(one, "echo both-$((6+6))\r");
	term_wait_shows(one, "both-12");
	term_wait_shows(two, "both-12");
	term_keys(two, "exit 0\r");
	assert_int_equal(term_wait_end(one), 0);
	assert_int_equal(term_wait_end(two), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(attach_shows_what_was_there_and_takes_keys),
		HOME_TEST(attach_ends_with_the_consoles_own_exit),
		HOME_TEST(attach_to_an_ended_console_shows_it_and_ends_with_its_exit),
		HOME_TEST(a_read_only_attach_neither_types_nor_resizes),
		HOME_TEST(the_size_is_that_of_who_acted_last),
		HOME_TEST(a_closed_window_detaches_and_the_console_goes_on),
		HOME_TEST(control_keys_reach_the_program),
		HOME_TEST(the_outer_terminal_is_given_back_as_it_was),
		HOME_TEST(attach_from_an_offset_shows_what_came_after),
		HOME_TEST(two_people_see_the_same),
	};
	return HOME_MAIN("cli_attach", tests);
}
