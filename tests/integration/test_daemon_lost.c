/*
 * test_daemon_lost.c - what ringsided makes of daemons that die, its own kind included: nothing is forgotten, nobody
 * waits for ever, nothing is left running.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/integration/control_client.h"
#include "tests/support/home.h"
#include "tests/support/steps.h"
#include "wire/codes.h"

#define STEP40 ((uint64_t)1 << 40)

static uint64_t epoch(struct home *h)
{
	return json_number(ran_json(h, ran_ok(ringside(h, "status", "--json", NULL))), "epoch");
}

static void each_daemon_has_a_higher_epoch(void **state)
{
	struct home *h = *state;

	pid_t pid = daemon_pid(h);
	uint64_t first = epoch(h);
	kill_and_wait(pid, SIGKILL);
	daemon_pid(h);
	assert_int_equal(epoch(h), first + 1);
	ran_ok(ringside(h, "down", NULL));
	daemon_pid(h);
	assert_int_equal(epoch(h), first + 2);
}

/* Once a start is answered its offsets may be known, so they are never given again, whatever dies right then. */
static void a_console_whose_start_was_answered_is_never_forgotten(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	json_t *j = step_start(h, "box/dev", "--observe", "0", "--", "sleep", "1000", NULL);
	assert_int_equal(json_number(j, "incarnation"), 1);
	pid_t consoled = consoled_pid(h, "box"), daemon = daemon_pid(h);
	kill_and_wait(daemon, SIGKILL);
	kill_and_wait(consoled, SIGKILL);

	wait_until("it is LOST", step_state_is(h, "box/dev", "LOST"));
	j = step_start(h, "box/dev", "--observe", "0", "--", "sleep", "1000", NULL);
	assert_int_equal(json_number(j, "incarnation"), 2);
	assert_int_equal(json_number(j, "head_offset"), STEP40);
}

static void a_close_is_answered_when_its_sandbox_dies_meanwhile(void **state)
{
	struct home *h = *state;
	Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
	Wire__ConsoleClose close_ = WIRE__CONSOLE_CLOSE__INIT;
	static char box[] = "box", dev[] = "dev";

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "200ms", "--", "sh", "-c",
	        "trap '' HUP TERM; while :; do sleep 1000; done", NULL);
	pid_t consoled = consoled_pid(h, "box");
	struct conn *c = raw_connect(h);
	raw_hello(h, c);
	close_.sandbox = box;
	close_.name = dev;
	close_.has_grace = true;
	close_.grace_ms = 600000;
	q.body_case = WIRE__CONTROL_REQUEST__BODY_CLOSE;
	q.close = &close_;
	raw_send(c, &q, 9);
	raw_expect_served(h, c); /* so the close is in hand */
	kill_and_wait(consoled, SIGKILL);
	raw_expect_error(raw_receive(h, c), 9, RESULT_UNAVAILABLE);
	raw_expect_served(h, c); /* and that was its only answer */
}

static pid_t console_pid(struct home *h, const char *console)
{
	return (pid_t)json_number(step_ps(h, console), "pid");
}

/* One that the hang-up of its terminal does not end. */
static pid_t start_deaf_program(struct home *h)
{
	step_start(h, "box/dev", "--observe", "0", "--", "sh", "-c", "trap '' HUP; echo deaf; exec sleep 1000", NULL);
	step_until(h, "box/dev", 0, "deaf", NULL);
	return console_pid(h, "box/dev");
}

static void programs_whose_keepers_were_killed_too_are_ended(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	pid_t program = start_deaf_program(h), consoled = consoled_pid(h, "box");
	pid_t keeper = process_parent(program);
	assert_true(keeper > 1 && keeper != consoled);
	/* Stopped, it cannot notice the death of the other. */
	assert_int_equal(kill(keeper, SIGSTOP), 0);
	kill_and_wait(consoled, SIGKILL);
	kill_and_wait(keeper, SIGKILL);
	assert_true(process_alive(program));
	wait_until("the program has been ended", !process_alive(program));
	assert_true(step_state_is(h, "box/dev", "LOST"));
}

static void the_same_is_done_by_a_daemon_that_finds_it_at_its_start(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	pid_t program = start_deaf_program(h), consoled = consoled_pid(h, "box");
	pid_t keeper = process_parent(program);
	kill_and_wait(daemon_pid(h), SIGKILL);
	assert_int_equal(kill(keeper, SIGSTOP), 0);
	kill_and_wait(consoled, SIGKILL);
	kill_and_wait(keeper, SIGKILL);
	assert_true(process_alive(program));
	daemon_pid(h);
	wait_until("the program has been ended", !process_alive(program));
}

static void a_sandbox_whose_console_daemon_died_is_used_again(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	pid_t first = consoled_pid(h, "box");
	kill_and_wait(first, SIGKILL);
	struct ran *r = ran_ok(ringside(h, "exec", "box", "--", "echo", "again", NULL));
	assert_string_equal(r->out, "again\n");
	assert_true(consoled_pid(h, "box") != first);
}

static char *custody_file(struct home *h, const char *box, const char *console)
{
	const char *id = json_text(ran_json(h, ran_ok(ringside(h, "show", "--json", box, NULL))), "id");

	return home_path(h, "state/sandboxes/%s/custody/%s.ring", id, console);
}

static void output_that_was_damaged_on_disk_is_refused_and_nothing_else(void **state)
{
	struct home *h = *state;
	char *data;

	step_create(h, "box");
	step_start(h, "box/one", "--", "echo", "first", NULL);
	step_start(h, "box/two", "--", "echo", "second", NULL);
	char *file = custody_file(h, "box", "one");
	wait_until("both are kept", access(file, F_OK) == 0 && access(custody_file(h, "box", "two"), F_OK) == 0);
	pid_t consoled = consoled_pid(h, "box");
	ran_ok(ringside(h, "down", NULL));
	kill_and_wait(consoled, SIGKILL);
	FILE *f = fopen(file, "r+e");
	assert_non_null(f);
	fseek(f, -2, SEEK_END);
	fputc('X', f);
	fclose(f);

	struct ran *r = ran_status(ringside(h, "read", "box/one", "--json", NULL), 1);
	assert_string_equal(json_text(ran_error(h, r), "code"), "internal");
	step_until_exit(h, "box/two", 0, &data, NULL);
	assert_string_equal(data, "second\r\n");
	/* The name goes on where it was, since the ledger knows that. */
	json_t *j = step_start(h, "box/one", "--", "echo", "third", NULL);
	assert_int_equal(json_number(j, "incarnation"), 2);
	assert_int_equal(json_number(j, "head_offset"), 7);
}

static void of_ended_consoles_the_newest_stay_and_dropped_names_go_on(void **state)
{
	struct home *h = *state;
	char *data;

	step_create(h, "box");
	for (int i = 0; i < 40; i++)
		step_start(h, home_format(h, "box/c%d", i), "--ring", "4K", "--", "echo", "abc", NULL);
	wait_until(
	        "32 are listed", json_array_size(ran_json(h, ran_ok(ringside(h, "ps", "--json", "box", NULL)))) == 32);
	ran_status(ringside(h, "read", "box/c0", NULL), 3);
	step_until_exit(h, "box/c39", 0, &data, NULL);
	assert_string_equal(data, "abc\r\n");
	wait_until("what was kept of it is gone", access(custody_file(h, "box", "c0"), F_OK) < 0);
	/* Also for a daemon that knows it from the ledger alone. */
	kill_and_wait(daemon_pid(h), SIGKILL);
	json_t *j = step_start(h, "box/c0", "--ring", "4K", "--", "echo", "abc", NULL);
	assert_int_equal(json_number(j, "incarnation"), 2);
	assert_int_equal(json_number(j, "head_offset"), 5);
	assert_int_equal(json_number(j, "tail_offset"), 10);
}

/* Sandboxes that are neither running nor gone, as the ledger's end state after crashes. */
static void assert_settled(struct home *h)
{
	json_t *all = ran_json(h, ran_ok(ringside(h, "ls", "--all", "--json", NULL)));

	for (size_t i = 0; i < json_array_size(all); i++) {
		const char *s = json_text(json_array_get(all, i), "state");
		if (strcmp(s, "RUNNING") != 0 && strcmp(s, "TERMINATED") != 0) {
			char *text = json_dumps(json_array_get(all, i), 0);
			print_error("%s\n", text);
			free(text);
			fail();
		}
	}
}

static bool all_settled(struct home *h)
{
	json_t *all = ran_json(h, ran_ok(ringside(h, "ls", "--all", "--json", NULL)));

	for (size_t i = 0; i < json_array_size(all); i++)
		if (strcmp(json_text(json_array_get(all, i), "state"), "CREATING") == 0)
			return false;
	return true;
}

static void pause_us(long us)
{
	struct timespec t = { .tv_nsec = us * 1000 };

	nanosleep(&t, NULL);
}

/* The daemon is killed at some moment of a create or a removal, and again. What is asked for afterwards works, and at
 * the end, when everything is closed, teardown finds no process. */
static void kills_at_any_moment_of_a_life_leave_nothing_unsettled(void **state)
{
	struct home *h = *state;

	srand(4711); /* the same moments each time, as far as the machine allows */
	for (int i = 0; i < 24; i++) {
		char *name = home_format(h, "box%d", i / 2);
		pid_t pid = daemon_pid(h);
		struct running *r = i % 2 == 0 ? ringside_begin(h, "create", "--name", name, NULL)
		                               : ringside_begin(h, "rm", name, NULL);
		pause_us(rand() % 60000);
		kill_and_wait(pid, SIGKILL);
		running_end(h, r, DEADLINE_MS); /* done, failed or not found: nobody can say */
		wait_until("what was cut short is settled", all_settled(h));
	}
	assert_settled(h);
	step_create(h, "last");
	step_shell(h, "last/dev");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(each_daemon_has_a_higher_epoch),
		HOME_TEST(a_console_whose_start_was_answered_is_never_forgotten),
		HOME_TEST(a_close_is_answered_when_its_sandbox_dies_meanwhile),
		HOME_TEST(programs_whose_keepers_were_killed_too_are_ended),
		HOME_TEST(the_same_is_done_by_a_daemon_that_finds_it_at_its_start),
		HOME_TEST(a_sandbox_whose_console_daemon_died_is_used_again),
		HOME_TEST(output_that_was_damaged_on_disk_is_refused_and_nothing_else),
		HOME_TEST(of_ended_consoles_the_newest_stay_and_dropped_names_go_on),
		HOME_TEST(kills_at_any_moment_of_a_life_leave_nothing_unsettled),
	};
	return HOME_MAIN("daemon_lost", tests);
}
