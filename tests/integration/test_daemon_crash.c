/*
 * test_daemon_crash.c - ringsided dies at each named point of a sandbox's life, and the next one leaves nothing unsettled.
 *
 * The points are compiled into the sanitizer builds alone (providers/crashpoint.h); the daemon dies there as by kill -9.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/home.h"
#include "tests/support/steps.h"

/* A daemon that will die at that point. "": none. */
static pid_t start_daemon_to_die_at(struct home *h, const char *point)
{
	const char *at = home_format(h, "RINGSIDE_CRASH_AT=%s", point);

	ran_ok(run_program(
	        h, (const char *[]){ "env", at, home_format(h, "%s/ringsided", h->bin), NULL }, NULL, 0, DEADLINE_MS));
	return daemon_pid(h);
}

/* All sandboxes that there ever were are TERMINATED. */
static bool all_gone(struct home *h)
{
	json_t *all = ran_json(h, ran_ok(ringside(h, "ls", "--all", "--json", NULL)));

	for (size_t i = 0; i < json_array_size(all); i++)
		if (strcmp(json_text(json_array_get(all, i), "state"), "TERMINATED") != 0)
			return false;
	return true;
}

static bool one_runs(struct home *h)
{
	json_t *list = ran_json(h, ran_ok(ringside(h, "ls", "--json", NULL)));

	return json_array_size(list) == 1 && strcmp(json_text(list, "0.state"), "RUNNING") == 0;
}

static size_t count_folders(struct home *h)
{
	DIR *d = opendir(home_path(h, "state/sandboxes"));
	struct dirent *e;
	size_t n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void die_creating(struct home *h, const char *point)
{
	pid_t pid = start_daemon_to_die_at(h, point);

	ringside(h, "create", "--name", "box", NULL);
	wait_until("the daemon has died there", !process_alive(pid));
}

static void die_removing(struct home *h, const char *point)
{
	pid_t pid = start_daemon_to_die_at(h, point);

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "sleep", "1000", NULL);
	ringside(h, "rm", "box", NULL);
	wait_until("the daemon has died there", !process_alive(pid));
}

/* The name is free, and what is made under it works and goes. */
static void live_once_more(struct home *h)
{
	step_create(h, "box");
	step_shell(h, "box/dev");
	ran_ok(ringside(h, "rm", "box", NULL));
	ran_ok(ringside(h, "down", NULL));
}

#ifdef RINGSIDE_CRASH_POINTS
static void a_create_whose_sandbox_was_not_on_record_leaves_nothing(void **state)
{
	static const char *const points[] = { "create.begin", "create.after_pending", "host.create.after_workspace",
		"host.create.after_record", "host.create.after_rename", "create.after_provider", "create.after_live" };

	struct home *h = *state;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		print_message("%s\n", points[i]);
		die_creating(h, points[i]);
		wait_until("what was begun is gone", all_gone(h) && count_folders(h) == 0);
		live_once_more(h);
	}
}

static void a_create_whose_sandbox_was_on_record_is_there(void **state)
{
	static const char *const points[] = { "create.after_running", "host.connect.after_bind",
		"consoled.spawn.after_exec", "host.connect.after_record", "host.connect.after_commit" };

	struct home *h = *state;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		print_message("%s\n", points[i]);
		die_creating(h, points[i]);
		wait_until("it is found and runs", one_runs(h));
		step_shell(h, "box/dev");
		ran_ok(ringside(h, "rm", "box", NULL));
		ran_ok(ringside(h, "down", NULL));
	}
}

static void a_removal_goes_on_where_it_died(void **state)
{
	static const char *const points[] = { "close.after_releasing", "host.close.after_stop",
		"host.close.after_rename", "host.close.after_contents", "host.close.after_record",
		"close.after_provider", "close.after_released", "close.after_forgotten" };
	struct home *h = *state;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		print_message("%s\n", points[i]);
		die_removing(h, points[i]);
		wait_until("the removal has come to its end", all_gone(h) && count_folders(h) == 0);
		live_once_more(h);
	}
}
#endif

/* The way that the others go, without a death: what they find is not there by itself. */
static void a_life_without_a_crash_ends_the_same(void **state)
{
	struct home *h = *state;
	pid_t pid = start_daemon_to_die_at(h, "");

	step_create(h, "box");
	assert_true(process_alive(pid));
	assert_int_equal(count_folders(h), 1);
	ran_ok(ringside(h, "rm", "box", NULL));
	assert_true(all_gone(h));
	assert_int_equal(count_folders(h), 0);
	assert_true(process_alive(pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(a_life_without_a_crash_ends_the_same),
#ifdef RINGSIDE_CRASH_POINTS
		HOME_TEST(a_create_whose_sandbox_was_not_on_record_leaves_nothing),
		HOME_TEST(a_create_whose_sandbox_was_on_record_is_there),
		HOME_TEST(a_removal_goes_on_where_it_died),
#endif
	};
	(void)die_creating;
	(void)die_removing;
	(void)live_once_more;
	(void)one_runs;
	return HOME_MAIN("daemon_crash", tests);
}
