/*
 * test_daemon_lies.c - console daemons that are silent, broken or hostile: each harms its own sandbox and nothing else.
 *
 * The liar is this program: ringsided is told to start it as its console daemon (RINGSIDE_CONSOLED), and what it does
 * wrong is the name of the sandbox. Another sandbox beside it has a liar of the kind that behaves, as the witness.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "ring/ring.h"
#include "tests/integration/control_client.h"
#include "tests/support/home.h"
#include "tests/support/steps.h"
#include "wire/codes.h"
#include "wire/mark.h"

/* ---- The liar ---- */

struct liar {
	const char *mode;
	struct conn *c;
	struct ring *ring, *marks;
	unsigned lists;
};

static char console_name[] = "dev";

static bool is(const struct liar *l, const char *mode)
{
	return strcmp(l->mode, mode) == 0;
}

static void say(struct liar *l, Wire__ConsoledReply *m, const int *fds, unsigned nfds)
{
	if (conn_send_message(l->c, &m->base, fds, nfds) < 0 || conn_wait_flushed(l->c, UINT64_MAX) < 0)
		_exit(0);
}

static void describe(struct liar *l, Wire__ConsoleInfo *info)
{
	static char nonsense[] = "../..";

	wire__console_info__init(info);
	info->name = is(l, "badname") ? nonsense : console_name;
	info->incarnation = 1;
	info->state = CONSOLE_RUNNING;
	info->pid = (uint32_t)getpid();
	info->tail_offset = ring_tail(l->ring);
}

static void answer_hello(struct liar *l, uint64_t id)
{
	static uint8_t instance[16] = "fifteen letters";
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoledHelloReply h = WIRE__CONSOLED_HELLO_REPLY__INIT;

	if (is(l, "flapping"))
		_exit(0);
	h.protocol = is(l, "future") ? 99 : 1;
	h.instance = (ProtobufCBinaryData){ .len = sizeof(instance), .data = instance };
	h.ring_layout = RING_LAYOUT;
	h.marks_layout = MARK_LAYOUT;
	m.id = id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_HELLO;
	m.hello = &h;
	say(l, &m, NULL, 0);
}

static void answer_list(struct liar *l, uint64_t id)
{
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoleListReply list = WIRE__CONSOLE_LIST_REPLY__INIT;
	Wire__ConsoleInfo info, *infos[] = { &info };

	if (is(l, "silent") && l->lists++ > 0)
		return;
	describe(l, &info);
	list.consoles = infos;
	list.n_consoles = is(l, "empty") ? 0 : 1;
	m.id = id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_LIST;
	m.list = &list;
	say(l, &m, NULL, 0);
}

/* Memory that is not what it has to be. */
static int open_memory(void)
{
	int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, 1 << 20) < 0)
		_exit(1);
	return fd;
}

static void answer_take(struct liar *l, uint64_t id)
{
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__TakeReply take = WIRE__TAKE_REPLY__INIT;
	Wire__ConsoleInfo info;
	int fds[2] = { ring_fd(l->ring), ring_fd(l->marks) };

	describe(l, &info);
	take.console = &info;
	m.id = id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_TAKE;
	m.take = &take;
	if (is(l, "unsealed"))
		fds[0] = open_memory();
	if (is(l, "swapped"))
		fds[1] = ring_fd(l->ring);
	if (is(l, "notmem"))
		fds[0] = fds[1] = STDERR_FILENO;
	say(l, &m, fds, is(l, "onefd") ? 1 : 2);
}

static void answer_open(struct liar *l, uint64_t id)
{
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoleInfo info;

	describe(l, &info);
	m.id = is(l, "wrongid") ? id + 1000 : id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_CONSOLE;
	m.console = &info;
	say(l, &m, NULL, 0);
}

/* More names than anybody has, in events that nobody asked for. */
static void flood_events(struct liar *l)
{
	char name[32];

	for (int i = 0; i < 3000; i++) {
		Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
		Wire__ConsoleEvent e = WIRE__CONSOLE_EVENT__INIT;
		Wire__ConsoleInfo info;

		describe(l, &info);
		snprintf(name, sizeof(name), "n%d", i);
		info.name = name;
		info.state = i % 2 ? CONSOLE_RUNNING : CONSOLE_EXITED;
		e.kind = WIRE__CONSOLE_EVENT__KIND__STARTED;
		e.console = &info;
		m.body_case = WIRE__CONSOLED_REPLY__BODY_EVENT;
		m.event = &e;
		say(l, &m, NULL, 0);
	}
}

static void answer_done(struct liar *l, uint64_t id)
{
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__Done done = WIRE__DONE__INIT;

	m.id = id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_DONE;
	m.done = &done;
	say(l, &m, NULL, 0);
}

static void obey(struct liar *l, const Wire__ConsoledRequest *q)
{
	switch (q->body_case) {
	case WIRE__CONSOLED_REQUEST__BODY_HELLO:
		answer_hello(l, q->id);
		break;
	case WIRE__CONSOLED_REQUEST__BODY_LIST:
		answer_list(l, q->id);
		if (is(l, "events"))
			flood_events(l);
		break;
	case WIRE__CONSOLED_REQUEST__BODY_TAKE:
		answer_take(l, q->id);
		break;
	case WIRE__CONSOLED_REQUEST__BODY_OPEN:
		if (!is(l, "silent"))
			answer_open(l, q->id);
		break;
	case WIRE__CONSOLED_REQUEST__BODY_KEPT:
		answer_done(l, q->id);
		break;
	case WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN:
		answer_done(l, q->id);
		_exit(0);
	default:
		break; /* for ever */
	}
}

static void serve_one(struct liar *l, int fd)
{
	struct frame f;

	if (conn_new(fd, 1 << 20, &l->c) < 0)
		_exit(1);
	while (conn_wait_frame(l->c, UINT64_MAX, &f) > 0) {
		Wire__ConsoledRequest *q = wire__consoled_request__unpack(NULL, f.length, f.payload);
		if (!q)
			_exit(1);
		obey(l, q);
		wire__consoled_request__free_unpacked(q, NULL);
	}
	conn_free(l->c);
}

static const char *argument(int argc, char **argv, const char *option)
{
	size_t n = strlen(option);

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], option, n) == 0)
			return argv[i] + n;
	return "";
}

static int liar_main(int argc, char **argv)
{
	struct liar l = { .mode = argument(argc, argv, "--sandbox=") };
	int listener = atoi(argument(argc, argv, "--listen-fd=")), commit = atoi(argument(argc, argv, "--commit-fd="));
	char byte;

	signal(SIGPIPE, SIG_IGN);
	if (read(commit, &byte, 1) != 1)
		return 0;
	close(commit);
	if (ring_create("liar", 4096, 0, &l.ring) || ring_create("liar", MARK_RING_BYTES, 0, &l.marks))
		return 1;
	ring_append(l.ring, "truth\r\n", 7);
	fd_set_nonblocking(listener, 0);
	if (listen(listener, 8) < 0)
		return 1;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			serve_one(&l, fd);
	}
}

/* ---- The tests ---- */

static int setup(void **state)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0 || home_setup(state) != 0)
		return -1;
	self[n] = '\0';
	return setenv("RINGSIDE_CONSOLED", self, 1);
}

static char *read_console(struct home *h, const char *console)
{
	return ran_ok(ringside(h, "read", console, NULL))->out;
}

/* The witness: made before the liar, asked after it. */
static void make_witness(struct home *h)
{
	step_create(h, "honest");
	assert_string_equal(read_console(h, "honest/dev"), "truth\r\n");
}

static void ask_witness(struct home *h, pid_t daemon)
{
	assert_string_equal(read_console(h, "honest/dev"), "truth\r\n");
	assert_int_equal(daemon_pid(h), daemon); /* the same one: it has survived */
}

static void assert_unreadable(struct home *h, const char *mode)
{
	make_witness(h);
	pid_t daemon = daemon_pid(h);
	ringside(h, "create", "--name", mode, NULL);
	struct ran *r = ringside(h, "read", home_format(h, "%s/dev", mode), NULL);
	if (r->status == 0)
		fail_msg("%s was read: %s", mode, r->out);
	ask_witness(h, daemon);
	ran_ok(ringside(h, "rm", mode, NULL));
	ask_witness(h, daemon);
}

static void one_that_behaves_is_served(void **state)
{
	struct home *h = *state;

	make_witness(h); /* or all that follows proves nothing */
	assert_true(step_state_is(h, "honest/dev", "RUNNING"));
}

static void memory_without_seals_is_refused(void **state)
{
	assert_unreadable(*state, "unsealed");
}

static void a_ring_in_the_place_of_the_marks_is_refused(void **state)
{
	assert_unreadable(*state, "swapped");
}

static void descriptors_that_are_no_memory_are_refused(void **state)
{
	assert_unreadable(*state, "notmem");
}

static void a_missing_descriptor_is_refused(void **state)
{
	assert_unreadable(*state, "onefd");
}

static void a_name_that_is_a_path_is_refused(void **state)
{
	assert_unreadable(*state, "badname");
}

static void a_protocol_of_the_future_is_refused(void **state)
{
	assert_unreadable(*state, "future");
}

static void an_answer_to_nothing_is_refused(void **state)
{
	assert_unreadable(*state, "wrongid");
}

static void one_that_dies_at_each_hello_is_not_restarted_for_ever(void **state)
{
	assert_unreadable(*state, "flapping");
}

static void more_names_than_can_be_are_not_remembered(void **state)
{
	struct home *h = *state;

	make_witness(h);
	pid_t daemon = daemon_pid(h);
	step_create(h, "events");
	ran_ok(ringside(h, "ps", "events", NULL));
	ask_witness(h, daemon);
	ran_ok(ringside(h, "rm", "events", NULL));
	ask_witness(h, daemon);
}

static void a_silent_one_is_listed_as_it_was_and_delays_no_other(void **state)
{
	struct home *h = *state;

	make_witness(h);
	step_create(h, "silent");
	uint64_t before = now_ms();
	json_t *list = ran_json(h, ran_ok(ringside(h, "ps", "--json", NULL)));
	assert_true(now_ms() - before < 10000);
	assert_int_equal(json_array_size(list), 2);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(json_text(json_array_get(list, i), "state"), "RUNNING");
	before = now_ms();
	assert_string_equal(read_console(h, "honest/dev"), "truth\r\n");
	assert_true(now_ms() - before < 5000);
}

static void what_it_never_answers_ends_in_timeout(void **state)
{
	struct home *h = *state;

	step_create(h, "silent");
	struct ran *r = ran_status(ringside(h, "read", "silent/dev", "--json", NULL), 1);
	assert_string_equal(json_text(ran_error(h, r), "code"), "timeout");
}

static void begin_exec(struct conn *c, uint64_t id)
{
	static char box[] = "silent";
	static uint8_t program[] = "true";
	ProtobufCBinaryData argv[] = { { .len = 4, .data = program } };
	Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
	Wire__ExecInSandbox exec = WIRE__EXEC_IN_SANDBOX__INIT;
	Wire__ExecSpec spec = WIRE__EXEC_SPEC__INIT;

	spec.argv = argv;
	spec.n_argv = 1;
	exec.sandbox = box;
	exec.spec = &spec;
	q.body_case = WIRE__CONTROL_REQUEST__BODY_EXEC;
	q.exec = &exec;
	raw_send(c, &q, id);
}

static void the_65th_request_in_hand_is_busy_and_the_others_are_answered_once(void **state)
{
	struct home *h = *state;
	bool answered[70] = { false };

	step_create(h, "silent");
	struct conn *c = raw_connect(h);
	raw_hello(h, c);
	for (uint64_t id = 2; id < 2 + 64; id++)
		begin_exec(c, id);
	begin_exec(c, 66);
	raw_expect_error(raw_receive(h, c), 66, RESULT_BUSY);
	/* And another client is not held up by them. */
	struct conn *other = raw_connect(h);
	raw_hello(h, other);
	raw_expect_served(h, other);
	kill_and_wait(consoled_pid(h, "silent"), SIGKILL);
	for (int i = 0; i < 64; i++) {
		Wire__ControlReply *m = raw_receive(h, c);
		assert_true(m->id >= 2 && m->id < 66 && !answered[m->id]);
		answered[m->id] = true;
		assert_int_equal(m->body_case, WIRE__CONTROL_REPLY__BODY_ERROR);
	}
	raw_expect_served(h, c);
}

static void a_client_that_leaves_requests_in_hand_is_forgotten(void **state)
{
	struct home *h = *state;
	struct conn *c;

	step_create(h, "silent");
	pid_t daemon = daemon_pid(h);
	int dirfd = open(home_path(h, "run"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(conn_new(sock_connect_at(dirfd, "control.sock"), 1 << 20, &c), 0);
	close(dirfd);
	raw_hello(h, c);
	for (uint64_t id = 2; id < 20; id++)
		begin_exec(c, id);
	conn_free(c);
	kill_and_wait(consoled_pid(h, "silent"), SIGKILL); /* now they are answered, to nobody */
	assert_int_equal(daemon_pid(h), daemon);
}

/* Down does not wait for a console daemon that says nothing. */
static void a_daemon_leaves_beside_a_silent_one(void **state)
{
	struct home *h = *state;

	step_create(h, "silent");
	struct conn *c = raw_connect(h);
	raw_hello(h, c);
	begin_exec(c, 2);
	raw_expect_served(h, c);
	uint64_t before = now_ms();
	ran_ok(ringside(h, "down", NULL));
	assert_true(now_ms() - before < 9000);
	raw_expect_error(raw_receive(h, c), 2, RESULT_UNAVAILABLE);
	raw_expect_end(c);
}

#define LIES_TEST(f) cmocka_unit_test_setup_teardown(f, setup, home_teardown)

int main(int argc, char **argv)
{
	if (argc > 1 && strncmp(argv[1], "--listen-fd=", 12) == 0)
		return liar_main(argc, argv);

	const struct CMUnitTest tests[] = {
		LIES_TEST(one_that_behaves_is_served),
		LIES_TEST(memory_without_seals_is_refused),
		LIES_TEST(a_ring_in_the_place_of_the_marks_is_refused),
		LIES_TEST(descriptors_that_are_no_memory_are_refused),
		LIES_TEST(a_missing_descriptor_is_refused),
		LIES_TEST(a_name_that_is_a_path_is_refused),
		LIES_TEST(a_protocol_of_the_future_is_refused),
		LIES_TEST(an_answer_to_nothing_is_refused),
		LIES_TEST(one_that_dies_at_each_hello_is_not_restarted_for_ever),
		LIES_TEST(more_names_than_can_be_are_not_remembered),
		LIES_TEST(a_silent_one_is_listed_as_it_was_and_delays_no_other),
		LIES_TEST(what_it_never_answers_ends_in_timeout),
		LIES_TEST(the_65th_request_in_hand_is_busy_and_the_others_are_answered_once),
		LIES_TEST(a_client_that_leaves_requests_in_hand_is_forgotten),
		LIES_TEST(a_daemon_leaves_beside_a_silent_one),
	};
	return HOME_MAIN("daemon_lies", tests);
}
