/*
 * test_harness.c - the harness itself: a helper that asserts may be asserting nothing, so each is shown to fail.
 *
 * The failing halves run in a process of their own: this program again, told by RINGSIDE_BREAK which one to run.
 */
#include "tests/support/home.h"
#include "tests/support/term.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SH(script) ((const char *const[]){ "sh", "-c", (script), NULL })

/* ---- What must fail ---- */

static void leave_a_process_in_a_session_of_its_own(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	h->gone_ms = 500;
	run_program(h, SH("cd /; env -i setsid sleep 1000 >/dev/null 2>&1 &"), NULL, 0, DEADLINE_MS);
}

static void wait_for_what_never_shows(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	struct term *t = term_open(h, 80, 24, SH("echo here"));
	term_wait_shows(t, "here");
	term_wait_shows(t, "not-here");
}

static void expect_another_status(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	ran_ok(run_program(h, SH("echo why >&2; exit 3"), NULL, 0, DEADLINE_MS));
}

static void outlast_a_deadline(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	run_program(h, SH("exec sleep 1000"), NULL, 0, 200);
}

static void leave_a_sanitizers_report_in_a_log(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	run_program(h, SH("echo 'x.c:1:2: runtime error: shift' >\"$RINGSIDE_HOME/a.log\""), NULL, 0, DEADLINE_MS);
}

static void read_a_number_that_is_text(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	json_number(ran_json(h, run_program(h, SH("echo '{\"a\":\"1\"}'"), NULL, 0, DEADLINE_MS)), "a");
}

static const struct {
	const char *name;
	void (*test)(void **state);
	const char *says; /* what its output must name */
} broken[] = {
	{ "leave_a_process", leave_a_process_in_a_session_of_its_own, "left behind" },
	{ "never_shows", wait_for_what_never_shows, "not-here" },
	{ "status", expect_another_status, "status 3, not 0" },
	{ "deadline", outlast_a_deadline, "still running after 200 ms" },
	{ "report", leave_a_sanitizers_report_in_a_log, "runtime error: shift" },
	{ "number", read_a_number_that_is_text, "no whole number at \"a\"" },
};

static int run_broken(const char *name)
{
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		if (strcmp(broken[i].name, name) != 0)
			continue;
		const struct CMUnitTest tests[] = { { name, broken[i].test, home_setup, home_teardown, NULL } };
		return HOME_MAIN("broken", tests);
	}
	return 0;
}

/* ---- And is seen to ---- */

static void each_check_of_the_harness_can_fail(void **state)
{
	struct home *h = *state;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	h->keep_daemon = true;
	assert_true(n > 0);
	self[n] = '\0';
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		const char *script = home_format(h, "RINGSIDE_BREAK=%s exec %s 2>&1", broken[i].name, self);
		struct ran *r = run_program(h, SH(script), NULL, 0, 3 * DEADLINE_MS);
		/* cmocka counts a failed teardown apart, so the status says that something failed, and the text what.
		 */
		if (!contains(r->out, r->out_len, broken[i].says) || r->status == 0)
			fail_msg("%s: status %d, said: %s", broken[i].name, r->status, r->out);
	}
}

static void a_command_gives_its_streams_and_status(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	struct ran *r = run_program(h, SH("cat; echo two >&2; exit 3"), "one", 3, DEADLINE_MS);
	assert_string_equal(ran_status(r, 3)->out, "one");
	assert_string_equal(r->err, "two\n");
	assert_int_equal(run_program(h, SH("kill -9 $$"), NULL, 0, DEADLINE_MS)->status, 128 + SIGKILL);
}

static void a_terminal_shows_what_a_person_would_see(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	struct term *t = term_open(h, 40, 10, SH("printf '\\033[?1049h\\033[3;6Hhello\\r\\033[2Chi'; read x; exit 4"));
	term_wait_shows(t, "  hi hello");
	assert_true(term_alternate(t));
	term_keys(t, "\r");
	assert_int_equal(term_wait_end(t), 4);
}

static void base64_is_decoded(void **state)
{
	struct home *h = *state;
	size_t n;

	h->keep_daemon = true;
	json_t *j =
	        ran_json(h, run_program(h, SH("echo '{\"a\":{\"b\":[\"AP8Q\", \"aA==\"]}}'"), NULL, 0, DEADLINE_MS));
	assert_memory_equal(json_bytes(h, j, "a.b.0", &n), "\x00\xff\x10", 3);
	assert_int_equal(n, 3);
	assert_string_equal(json_bytes(h, j, "a.b.1", NULL), "h");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(each_check_of_the_harness_can_fail),
		HOME_TEST(a_command_gives_its_streams_and_status),
		HOME_TEST(a_terminal_shows_what_a_person_would_see),
		HOME_TEST(base64_is_decoded),
	};
	const char *name = getenv("RINGSIDE_BREAK");

	return name ? run_broken(name) : HOME_MAIN("harness", tests);
}
