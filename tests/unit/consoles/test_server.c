/* test_server.c - the daemon as its owner sees it: commit, hello, requests, its own end, and owners that misbehave. */
#include "tests/unit/consoles/harness.h"

#include <sys/resource.h>

static int setup(void **state)
{
	*state = harness_start(0, 64 * 1024);
	return 0;
}

static int setup_uncommitted(void **state)
{
	*state = harness_spawn();
	return 0;
}

static int teardown(void **state)
{
	harness_kill(*state);
	return 0;
}

/* ---- Commit ---- */

static void without_a_commit_nothing_is_served_and_its_loss_ends_the_daemon(void **state)
{
	struct harness *h = *state;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;
	struct frame f;

	harness_connect(h);
	hello.protocol = 1;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	q.hello = &hello;
	harness_send(h, &q, NULL, 0);
	assert_int_equal(conn_wait_frame(h->owner, clock_mono_ms() + 100, &f), 0);
	fd_close(&h->commit);
	assert_int_equal(harness_wait(h), 0);
}

static void a_connection_made_before_the_commit_is_served_after_it(void **state)
{
	struct harness *h = *state;

	harness_connect(h);
	assert_int_equal(write(h->commit, "", 1), 1);
	harness_hello(h, 0, 0);
	harness_shutdown(h);
}

/* ---- Hello ---- */

static Wire__ConsoledReply *say_hello(struct harness *h, const Wire__ConsoledHello *hello)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoledHello copy = *hello;

	q.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	q.hello = &copy;
	return harness_answer(h, harness_send(h, &q, NULL, 0));
}

static void hello_says_who_answers_and_what_is_spoken(void **state)
{
	struct harness *h = *state;
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;
	Wire__ConsoledReply *r;
	uint8_t instance[16];

	hello.protocol = 99; /* a newer owner's */
	r = say_hello(h, &hello);
	assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_HELLO);
	assert_int_equal(r->hello->protocol, CONSOLE_PROTOCOL_VERSION);
	assert_int_equal(r->hello->pid, h->pid);
	assert_int_equal(r->hello->ring_layout, RING_LAYOUT);
	assert_int_equal(r->hello->marks_layout, MARK_LAYOUT);
	assert_int_equal(r->hello->instance.len, 16);
	memcpy(instance, r->hello->instance.data, 16);
	harness_done(r);
	r = say_hello(h, &hello);
	assert_memory_equal(r->hello->instance.data, instance, 16);
	harness_done(r);
	harness_shutdown(h);
}

static void settings_out_of_bounds_are_refused_and_change_nothing(void **state)
{
	struct harness *h = *state;
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;
	Wire__ConsoledReply *r;

	for (int i = 0; i < 4; i++) {
		wire__consoled_hello__init(&hello);
		hello.protocol = i == 0 ? 0 : 1;
		hello.console_limit = i == 1 ? 257 : 0;
		hello.ring_bytes = i == 2 ? 4095 : i == 3 ? UINT64_MAX : 0;
		r = say_hello(h, &hello);
		assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_ERROR);
		assert_int_equal(r->error->code, RESULT_INVALID_ARGUMENT);
		harness_done(r);
	}
	ring_free(harness_run(h, "dev", "exit"));
	r = harness_exited(h, "dev");
	assert_int_equal(r->event->console->ring_bytes, 64 * 1024);
	harness_done(r);
	harness_shutdown(h);
}

/* ---- Owners that come, go and misbehave ---- */

static bool owner_is_dropped(struct harness *h)
{
	struct frame f;
	int r;

	do {
		r = conn_wait_frame(h->owner, harness_deadline(), &f);
	} while (r == 1);
	return r == -ECONNRESET || r == -EPIPE;
}

static Wire__ConsoledReply *take(struct harness *h, const char *name)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__TakeConsole t = WIRE__TAKE_CONSOLE__INIT;

	t.name = (char *)(uintptr_t)name;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_TAKE;
	q.take = &t;
	return harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_TAKE);
}

static void consoles_outlive_their_owner_and_the_next_one_takes_them(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "printf before; read x; printf after; exec sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE), *old = h->owner;
	Wire__ConsoledReply *r;

	harness_wait_text(ring, 0, "before");
	ring_free(ring);
	h->owner = NULL;
	harness_connect(h); /* the old connection still stands */
	harness_hello(h, 0, 0);
	r = take(h, "dev");
	assert_int_equal(r->take->console->state, CONSOLE_RUNNING);
	assert_int_equal(ring_open(h->fds[0], &ring), 0);
	harness_done(r);
	stream_done(stream_write(s, 1, "\n", 1, 0)); /* streams do not go through the owner */
	harness_wait_text(ring, 0, "after");

	conn_free(h->owner);
	h->owner = old;
	assert_true(owner_is_dropped(h));
	harness_connect(h);
	harness_hello(h, 0, 0);
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_request_before_hello_breaks_the_protocol(void **state)
{
	struct harness *h = *state;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoleList list = WIRE__CONSOLE_LIST__INIT;

	harness_connect(h);
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &list;
	harness_send(h, &q, NULL, 0);
	assert_true(owner_is_dropped(h));
	harness_connect(h);
	harness_hello(h, 0, 0);
	harness_shutdown(h);
}

static void garbage_from_the_owner_drops_it_and_touches_no_console(void **state)
{
	static const char *const garbage[] = { "GET / HTTP/1.1\r\n\r\n", "\3\0\0\0\1\0\0\0\377\377\377",
		"\1\0\0\0\2\0\0\0x", "\377\377\377\377\1\0\0\0" };
	static const size_t length[] = { 18, 11, 9, 8 };
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "printf ready; exec sleep 600");
	Wire__ConsoledReply *r;

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		assert_int_equal(write(conn_fd(h->owner), garbage[i], length[i]), length[i]);
		assert_true(owner_is_dropped(h));
		harness_connect(h);
		harness_hello(h, 0, 0);
	}
	r = take(h, "dev");
	assert_int_equal(r->take->console->state, CONSOLE_RUNNING);
	harness_done(r);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_request_of_a_newer_owner_is_told_as_not_supported(void **state)
{
	struct harness *h = *state;
	/* id 9 and a field number that this version does not have */
	static const uint8_t unknown[] = { 0x08, 0x09, 0xfa, 0x07, 0x00 };
	Wire__ConsoledReply *r;

	assert_int_equal(conn_send(h->owner, FRAME_MESSAGE, 0, unknown, sizeof(unknown), NULL, 0), 0);
	r = harness_answer(h, 9);
	assert_int_equal(r->error->code, RESULT_NOT_SUPPORTED);
	harness_done(r);
	harness_shutdown(h);
}

static void a_stream_without_a_socket_is_refused(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "exec sleep 600");
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__OpenConsole open_ = WIRE__OPEN_CONSOLE__INIT;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	Wire__ConsoledReply *r;

	open_.name = (char *)(uintptr_t) "dev";
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_OPEN;
	q.open = &open_;
	r = harness_answer(h, harness_send(h, &q, NULL, 0));
	assert_int_equal(r->error->code, RESULT_INVALID_ARGUMENT);
	harness_done(r);
	r = harness_answer(h, harness_send(h, &q, &null, 1));
	assert_int_equal(r->error->code, RESULT_INVALID_ARGUMENT);
	harness_done(r);
	open_.name = (char *)(uintptr_t) "nobody";
	r = harness_answer(h, harness_send(h, &q, NULL, 0));
	assert_int_equal(r->error->code, RESULT_NOT_FOUND);
	harness_done(r);
	close(null);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Lists and custody ---- */

static void a_long_list_comes_in_several_answers(void **state)
{
	enum { COUNT = 20 };
	struct harness *h = *state;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoleList list = WIRE__CONSOLE_LIST__INIT;
	bool seen[COUNT] = { false }, more = true;
	char name[16];
	uint64_t id;

	harness_hello(h, COUNT, 4096);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		ring_free(harness_run(h, name, "exec sleep 600"));
	}
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &list;
	id = harness_send(h, &q, NULL, 0);
	while (more) {
		Wire__ConsoledReply *r = harness_answer(h, id);

		for (size_t i = 0; i < r->list->n_consoles; i++) {
			int n = atoi(r->list->consoles[i]->name + 1);

			assert_in_range(n, 0, COUNT - 1);
			assert_false(seen[n]);
			seen[n] = true;
		}
		more = r->more;
		harness_done(r);
	}
	for (int i = 0; i < COUNT; i++)
		assert_true(seen[i]);
	harness_shutdown(h);
}

static void what_is_kept_elsewhere_is_not_given_out_again_and_still_carries_on(void **state)
{
	struct harness *h = *state;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoleKept kept = WIRE__CONSOLE_KEPT__INIT;
	struct ring *ring = harness_run(h, "dev", "printf first");

	harness_done(harness_exited(h, "dev"));
	ring_free(ring);
	kept.name = (char *)(uintptr_t) "dev";
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_KEPT;
	q.kept = &kept;
	kept.incarnation = 7; /* another one's: changes nothing */
	harness_done(harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_DONE));
	harness_done(take(h, "dev"));
	assert_true(h->fds[0] >= 0);
	kept.incarnation = 1;
	harness_done(harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_DONE));
	harness_done(take(h, "dev"));
	assert_int_equal(h->fds[0], -1);
	ring = harness_run(h, "dev", "printf second");
	harness_done(harness_exited(h, "dev"));
	assert_string_equal(harness_text(ring, 0), "firstsecond");
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Ends ---- */

static void a_shutdown_ends_everything_and_leaves_with_status_0(void **state)
{
	struct harness *h = *state;
	struct ring *stubborn =
	        harness_run(h, "stubborn", "trap '' HUP TERM; printf ready; while :; do sleep 0.02; done");
	struct ring *left =
	        harness_run(h, "left", "trap '' HUP; sleep 600 & while ! grep -q sleep /proc/$!/comm; do :; done");
	Wire__ConsoledReply *e = harness_exited(h, "left");
	pid_t child = (pid_t)e->event->console->leftovers[0]->pid;

	harness_wait_text(stubborn, 0, "ready");
	assert_int_equal(kill(child, 0), 0);
	harness_shutdown(h);
	assert_int_equal(kill(child, 0), -1);
	harness_done(e);
	ring_free(stubborn);
	ring_free(left);
}

static void signals_do_nothing_to_the_daemon(void **state)
{
	static const int harmless[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP,
		SIGXCPU };
	struct harness *h = *state;

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		assert_int_equal(kill(h->pid, harmless[i]), 0);
	harness_hello(h, 0, 0);
	harness_shutdown(h);
}

/* ---- Out of everything ---- */

static void out_of_descriptors_one_start_is_refused_and_the_rest_goes_on(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "exec sleep 600", NULL };
	struct harness *h = *state;
	const struct rlimit few = { .rlim_cur = 48, .rlim_max = 48 };
	struct ring *ring = harness_run(h, "first", "printf ready; read x; printf \"got $x\"; exec sleep 600");
	struct conn *s = harness_open(h, "first", WRITE);
	char name[16];
	int n = 0;

	harness_hello(h, 100, 4096);
	assert_int_equal(prlimit(h->pid, RLIMIT_NOFILE, &few, NULL), 0);
	for (;; n++) {
		Wire__ConsoledReply *r;

		snprintf(name, sizeof(name), "c%d", n);
		r = harness_answer(h, harness_send_start(h, &(struct start){ .name = name, .argv = argv }));
		if (r->body_case == WIRE__CONSOLED_REPLY__BODY_ERROR) {
			assert_int_equal(r->error->code, RESULT_RESOURCE_LIMIT);
			harness_done(r);
			break;
		}
		assert_null(r->start->failure);
		harness_done(r);
		assert_true(n < 48);
	}
	assert_true(n > 2);
	stream_done(stream_write(s, 1, "hello\n", 6, 0));
	harness_wait_text(ring, 0, "got hello");
	harness_done(harness_close(h, "c0", 0));
	harness_done(harness_close(h, "c1", 0));
	harness_done(harness_start_console(h, &(struct start){ .name = name, .argv = argv }));
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* An exec of a shell command. The client's end of its stream. */
static int exec(struct harness *h, const char *command)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ExecStart e = WIRE__EXEC_START__INIT;
	Wire__ExecSpec spec = WIRE__EXEC_SPEC__INIT;
	const char *const words[] = { "/bin/sh", "-c", command };
	ProtobufCBinaryData argv[3];
	Wire__ConsoledReply *r;
	int pair[2];

	for (size_t i = 0; i < 3; i++)
		argv[i] = (ProtobufCBinaryData){ .len = strlen(words[i]), .data = (uint8_t *)(uintptr_t)words[i] };
	spec.argv = argv;
	spec.n_argv = 3;
	e.spec = &spec;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_EXEC;
	q.exec = &e;
	assert_int_equal(sock_pair(pair), 0);
	r = harness_answer(h, harness_send(h, &q, &pair[1], 1));
	fd_close(&pair[1]);
	assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_EXEC);
	harness_done(r);
	return pair[0];
}

static uint64_t ask_to_shut_down(struct harness *h)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__Shutdown m = WIRE__SHUTDOWN__INIT;

	m.grace_ms = 500;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN;
	q.shutdown = &m;
	return harness_send(h, &q, NULL, 0);
}

static void a_shutdown_that_is_asked_for_twice_ends_all_the_same(void **state)
{
	struct harness *h = *state;
	int stream = exec(h, "trap '' HUP TERM; sleep 600 & wait; wait");
	struct ring *ring = harness_run(h, "dev", "trap '' HUP TERM; sleep 600 & wait; wait");

	ask_to_shut_down(h);
	harness_done(harness_answer(h, ask_to_shut_down(h)));
	assert_int_equal(harness_wait(h), 0);
	fd_close(&stream);
	ring_free(ring);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		        without_a_commit_nothing_is_served_and_its_loss_ends_the_daemon, setup_uncommitted, teardown),
		cmocka_unit_test_setup_teardown(
		        a_connection_made_before_the_commit_is_served_after_it, setup_uncommitted, teardown),
		TEST(hello_says_who_answers_and_what_is_spoken),
		TEST(settings_out_of_bounds_are_refused_and_change_nothing),
		TEST(consoles_outlive_their_owner_and_the_next_one_takes_them),
		TEST(a_request_before_hello_breaks_the_protocol),
		TEST(garbage_from_the_owner_drops_it_and_touches_no_console),
		TEST(a_request_of_a_newer_owner_is_told_as_not_supported),
		TEST(a_stream_without_a_socket_is_refused),
		TEST(a_long_list_comes_in_several_answers),
		TEST(what_is_kept_elsewhere_is_not_given_out_again_and_still_carries_on),
		TEST(a_shutdown_ends_everything_and_leaves_with_status_0),
		TEST(a_shutdown_that_is_asked_for_twice_ends_all_the_same),
		TEST(signals_do_nothing_to_the_daemon),
		TEST(out_of_descriptors_one_start_is_refused_and_the_rest_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
