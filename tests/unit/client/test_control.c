/* test_control.c - requests to the control daemon: answers that are late, missing, in parts, wrong, or hostile. The
 * daemon's answers are queued before the request is made: ids count from 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/internal.h"
#include "wire/codes.h"
#include "wire/fd.h"
#include "wire/sock.h"

struct daemon {
	struct ringside *rs;
	struct conn *peer;
};

static int set_up(void **state)
{
	struct daemon *d = calloc(1, sizeof(*d));
	int pair[2];
	d->rs = calloc(1, sizeof(*d->rs));
	d->rs->call_ms = UINT64_MAX;
	d->rs->connect_ms = 1;
	d->rs->no_start = true;
	assert_int_equal(sock_pair(pair), 0);
	assert_int_equal(conn_new(pair[0], CONTROL_OUT_LIMIT, &d->rs->conn), 0);
	assert_int_equal(conn_new(pair[1], CONTROL_OUT_LIMIT, &d->peer), 0);
	*state = d;
	return 0;
}

static int tear_down(void **state)
{
	struct daemon *d = *state;
	ringside_close(d->rs);
	conn_free(d->peer);
	free(d);
	return 0;
}

static void answer(struct daemon *d, uint64_t id, Wire__ControlReply__BodyCase kind, void *body, bool more)
{
	Wire__ControlReply r = WIRE__CONTROL_REPLY__INIT;
	r.id = id;
	r.body_case = kind;
	r.error = body; /* a union of pointers */
	r.more = more;
	assert_int_equal(conn_send_message(d->peer, &r.base, NULL, 0), 0);
}

static void answer_status(struct daemon *d, uint64_t id, uint32_t pid)
{
	Wire__StatusReply s = WIRE__STATUS_REPLY__INIT;
	s.pid = pid;
	answer(d, id, WIRE__CONTROL_REPLY__BODY_STATUS, &s, false);
}

static void an_answer_is_copied_and_given_back_as_one_object(void **state)
{
	struct daemon *d = *state;
	struct ringside_status *s;
	struct ringside_error err;
	Wire__StatusReply reply = WIRE__STATUS_REPLY__INIT;
	char *providers[] = { (char *)(uintptr_t) "host", (char *)(uintptr_t) "fake" };
	reply.pid = 77;
	reply.version = (char *)(uintptr_t) "9.9";
	reply.n_providers = 2;
	reply.providers = providers;
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_STATUS, &reply, false);
	assert_int_equal(ringside_status(d->rs, &s, &err), 0);
	assert_int_equal(s->pid, 77);
	assert_string_equal(s->version, "9.9");
	assert_string_equal(s->providers[1], "fake");
	assert_null(s->providers[2]);
	assert_string_equal(s->state_dir, "");
	ringside_free(s);
}

static void an_error_has_its_code_its_exit_status_and_a_message_fit_to_print(void **state)
{
	struct daemon *d = *state;
	struct ringside_sandbox *s = NULL;
	struct ringside_error err;
	Wire__Error e = WIRE__ERROR__INIT;
	e.code = RESULT_NOT_FOUND;
	e.message = (char *)(uintptr_t) "no sandbox \033[2Jbox\n";
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_ERROR, &e, false);
	assert_int_equal(ringside_show(d->rs, "box", &s, &err), RINGSIDE_NOT_FOUND);
	assert_null(s);
	assert_string_equal(err.name, "not_found");
	assert_int_equal(err.exit_status, 3);
	assert_null(strpbrk(err.message, "\033\n"));
	assert_true(ringside_connected(d->rs));
}

static void an_error_of_a_newer_daemon_is_an_error_all_the_same(void **state)
{
	struct daemon *d = *state;
	struct ringside_status *s = NULL;
	struct ringside_error err;
	Wire__Error e = WIRE__ERROR__INIT;
	e.code = 4711;
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_ERROR, &e, false);
	assert_int_equal(ringside_status(d->rs, &s, &err), 4711);
	assert_string_equal(err.name, "internal");
	e.code = RESULT_OK; /* and one without a code is not taken for success */
	answer(d, 2, WIRE__CONTROL_REPLY__BODY_ERROR, &e, false);
	assert_int_equal(ringside_status(d->rs, &s, &err), RINGSIDE_PROTOCOL_ERROR);
	assert_null(s);
}

static void an_answer_that_came_too_late_is_not_taken_for_the_next_ones(void **state)
{
	struct daemon *d = *state;
	struct ringside_status *s;
	struct ringside_error err;
	ringside_set_timeout(d->rs, 1);
	assert_int_equal(ringside_status(d->rs, &s, &err), RINGSIDE_TIMEOUT);
	assert_true(ringside_connected(d->rs));
	answer_status(d, 1, 11);
	answer_status(d, 2, 22);
	ringside_set_timeout(d->rs, 0);
	assert_int_equal(ringside_status(d->rs, &s, &err), 0);
	assert_int_equal(s->pid, 22);
	ringside_free(s);
}

static void a_daemon_that_is_gone_is_unavailable_until_it_is_connected_again(void **state)
{
	struct daemon *d = *state;
	struct ringside_status *s;
	struct ringside_error err;
	conn_free(d->peer);
	d->peer = NULL;
	assert_int_equal(ringside_status(d->rs, &s, &err), RINGSIDE_UNAVAILABLE);
	assert_false(ringside_connected(d->rs));
	assert_int_equal(ringside_status(d->rs, &s, &err), RINGSIDE_UNAVAILABLE);
}

static void an_answer_of_another_kind_breaks_the_protocol(void **state)
{
	struct daemon *d = *state;
	struct ringside_sandbox *s;
	struct ringside_error err;
	answer_status(d, 1, 1);
	assert_int_equal(ringside_show(d->rs, "box", &s, &err), RINGSIDE_PROTOCOL_ERROR);
	assert_false(ringside_connected(d->rs));
}

static void a_list_in_parts_is_one_list(void **state)
{
	struct daemon *d = *state;
	struct ringside_consoles *list;
	struct ringside_error err;
	Wire__ConsoleInfo info = WIRE__CONSOLE_INFO__INIT;
	Wire__LiveConsole live = WIRE__LIVE_CONSOLE__INIT;
	Wire__LiveConsole *lives[] = { &live, &live };
	Wire__ConsoleListing part = WIRE__CONSOLE_LISTING__INIT;
	info.name = (char *)(uintptr_t) "dev";
	live.sandbox = (char *)(uintptr_t) "box";
	live.console = &info;
	part.consoles = lives;
	part.n_consoles = 2;
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_CONSOLES, &part, true);
	part.n_consoles = 0;
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_CONSOLES, &part, true);
	part.n_consoles = 1;
	live.console = NULL; /* a peer may leave anything out */
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_CONSOLES, &part, false);
	assert_int_equal(ringside_ps(d->rs, NULL, &list, &err), 0);
	assert_int_equal(list->count, 3);
	assert_string_equal(list->items[1].name, "dev");
	assert_string_equal(list->items[2].sandbox, "box");
	assert_string_equal(list->items[2].name, "");
	assert_null(list->items[2].argv[0]);
	ringside_free(list);
}

static void a_list_that_fails_in_the_middle_is_no_list(void **state)
{
	struct daemon *d = *state;
	struct ringside_sandboxes *list = NULL;
	struct ringside_error err;
	Wire__SandboxList part = WIRE__SANDBOX_LIST__INIT;
	Wire__Error e = WIRE__ERROR__INIT;
	e.code = RESULT_UNAVAILABLE;
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_LIST, &part, true);
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_ERROR, &e, false);
	assert_int_equal(ringside_list(d->rs, false, &list, &err), RINGSIDE_UNAVAILABLE);
	assert_null(list);
}

static void a_console_without_its_descriptors_is_refused(void **state)
{
	struct daemon *d = *state;
	struct ringside_console *c = NULL;
	struct ringside_error err;
	Wire__OpenStreamReply open = WIRE__OPEN_STREAM_REPLY__INIT;
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_OPEN, &open, false);
	assert_int_equal(ringside_console_open(d->rs, "box", "dev", 0, &c, &err), RINGSIDE_PROTOCOL_ERROR);
	assert_null(c);
}

static void a_console_whose_memory_is_no_ring_is_refused_and_nothing_stays_open(void **state)
{
	struct daemon *d = *state;
	struct ringside_console *c = NULL;
	struct ringside_error err;
	char byte;
	int pair[2];
	Wire__OpenStreamReply open = WIRE__OPEN_STREAM_REPLY__INIT;
	Wire__ControlReply r = WIRE__CONTROL_REPLY__INIT;
	r.id = 1;
	r.body_case = WIRE__CONTROL_REPLY__BODY_OPEN;
	r.open = &open;
	assert_int_equal(sock_pair(pair), 0);
	int fds[] = { pair[0], pair[0], pair[0] };
	assert_int_equal(conn_send_message(d->peer, &r.base, fds, 3), 0);
	fd_close(&pair[0]);
	assert_int_equal(ringside_console_open(d->rs, "box", "dev", 0, &c, &err), RINGSIDE_PROTOCOL_ERROR);
	assert_null(c);
	assert_int_equal(read(pair[1], &byte, 1), 0);
	fd_close(&pair[1]);
}

static void a_request_that_does_not_fit_a_frame_is_too_large_and_nothing_is_sent(void **state)
{
	struct daemon *d = *state;
	struct ringside_started *s;
	struct ringside_status *st;
	struct ringside_error err;
	char *long_one = malloc(FRAME_MAX_PAYLOAD + 2);
	assert_non_null(long_one);
	memset(long_one, 'x', FRAME_MAX_PAYLOAD + 1);
	long_one[FRAME_MAX_PAYLOAD + 1] = '\0';
	const char *argv[] = { long_one, NULL };
	struct ringside_start spec = { .argv = argv };
	assert_int_equal(ringside_start(d->rs, "box", "dev", &spec, &s, &err), RINGSIDE_TOO_LARGE);
	free(long_one);
	answer_status(d, 2, 5);
	assert_int_equal(ringside_status(d->rs, &st, &err), 0);
	ringside_free(st);
}

static void what_is_missing_is_refused_before_anything_is_sent(void **state)
{
	struct daemon *d = *state;
	struct ringside_error err;
	struct ringside_exec *x;
	struct ringside_exec_spec none = { 0 };
	assert_int_equal(ringside_show(d->rs, "", NULL, &err), RINGSIDE_INVALID_ARGUMENT);
	assert_int_equal(ringside_exec_open(d->rs, "box", &none, &x, &err), RINGSIDE_INVALID_ARGUMENT);
	assert_int_equal(err.exit_status, 2);
	assert_int_equal(conn_fill(d->peer), 0);
}

static void going_down_waits_until_the_daemon_has_let_go(void **state)
{
	struct daemon *d = *state;
	struct ringside_error err;
	Wire__Ok ok = WIRE__OK__INIT;
	answer(d, 1, WIRE__CONTROL_REPLY__BODY_OK, &ok, false);
	ringside_set_timeout(d->rs, 1);
	assert_int_equal(ringside_down(d->rs, false, &err), RINGSIDE_TIMEOUT); /* it said so and is still there */
	answer(d, 2, WIRE__CONTROL_REPLY__BODY_OK, &ok, false);
	assert_int_equal(shutdown(conn_fd(d->peer), SHUT_WR), 0);
	assert_int_equal(ringside_down(d->rs, false, &err), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_copied_and_given_back_as_one_object),
		TEST(an_error_has_its_code_its_exit_status_and_a_message_fit_to_print),
		TEST(an_error_of_a_newer_daemon_is_an_error_all_the_same),
		TEST(an_answer_that_came_too_late_is_not_taken_for_the_next_ones),
		TEST(a_daemon_that_is_gone_is_unavailable_until_it_is_connected_again),
		TEST(an_answer_of_another_kind_breaks_the_protocol),
		TEST(a_list_in_parts_is_one_list),
		TEST(a_list_that_fails_in_the_middle_is_no_list),
		TEST(a_console_without_its_descriptors_is_refused),
		TEST(a_console_whose_memory_is_no_ring_is_refused_and_nothing_stays_open),
		TEST(a_request_that_does_not_fit_a_frame_is_too_large_and_nothing_is_sent),
		TEST(what_is_missing_is_refused_before_anything_is_sent),
		TEST(going_down_waits_until_the_daemon_has_let_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
