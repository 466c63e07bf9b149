/*
 * test_daemon.c - ringsided itself: its start and its end, the lock and the socket, the control protocol and who breaks
 * it.
 */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/integration/control_client.h"
#include "tests/support/home.h"
#include "tests/support/steps.h"
#include "wire/codes.h"

/* ---- Start ---- */

static struct ran *start_daemon(struct home *h)
{
	return run_program(h, (const char *[]){ "ringsided", NULL }, NULL, 0, DEADLINE_MS);
}

static void the_command_ends_when_the_daemon_serves(void **state)
{
	struct home *h = *state;

	ran_ok(start_daemon(h));
	struct conn *c = raw_connect(h); /* at once */
	raw_hello(h, c);
	raw_expect_served(h, c);
}

static void a_second_daemon_is_refused_with_the_holders_pid(void **state)
{
	struct home *h = *state;

	ran_ok(start_daemon(h));
	struct ran *second = ran_status(start_daemon(h), 5);
	char *pid = home_format(h, "pid %d", daemon_pid(h));
	assert_true(contains(second->err, second->err_len, pid));
	assert_int_equal(strcspn(second->err, "\n"), second->err_len - 1); /* one line */
}

static void of_several_started_at_once_one_serves(void **state)
{
	struct home *h = *state;
	struct running *r[8];
	int serving = 0;

	for (int i = 0; i < 8; i++)
		r[i] = program_begin(h, (const char *[]){ "ringsided", NULL }, NULL, 0);
	for (int i = 0; i < 8; i++) {
		struct ran *ran = running_end(h, r[i], DEADLINE_MS);
		assert_true(ran->status == 0 || ran->status == 5);
		serving += ran->status == 0;
	}
	assert_int_equal(serving, 1);
	raw_hello(h, raw_connect(h));
}

static void a_stale_socket_is_replaced(void **state)
{
	struct home *h = *state;

	ran_ok(start_daemon(h));
	pid_t first = daemon_pid(h);
	kill_and_wait(first, SIGKILL);
	assert_int_equal(access(home_path(h, "run/control.sock"), F_OK), 0);
	ran_ok(start_daemon(h));
	assert_true(daemon_pid(h) != first);
}

static void what_is_no_socket_in_its_place_is_left_alone(void **state)
{
	struct home *h = *state;
	char *path = home_path(h, "run/control.sock");
	size_t n;

	ran_ok(start_daemon(h));
	ran_ok(ringside(h, "down", NULL));
	write_file(path, "mine", 4);
	struct ran *r = ran_status(start_daemon(h), 1);
	assert_true(contains(r->err, r->err_len, "not a socket"));
	r = ran_status(ringside(h, "ls", NULL), 1); /* who only wants to use it hears the same */
	assert_true(contains(r->err, r->err_len, "not a socket"));
	assert_string_equal(read_file(h, path, &n), "mine");
	assert_int_equal(unlink(path), 0);
}

static void directory_and_socket_are_this_users_alone(void **state)
{
	struct home *h = *state;
	struct stat st;

	ran_ok(start_daemon(h));
	assert_int_equal(stat(home_path(h, "run"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(home_path(h, "state"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(home_path(h, "run/control.sock"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(home_path(h, "state/ringsided.log"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void a_directory_that_others_may_write_is_refused(void **state)
{
	struct home *h = *state;

	assert_int_equal(mkdir(home_path(h, "run"), 0777), 0);
	assert_int_equal(chmod(home_path(h, "run"), 0777), 0);
	ran_status(start_daemon(h), 1);
	assert_int_equal(chmod(home_path(h, "run"), 0700), 0);
	ran_ok(start_daemon(h));
}

static void a_ledger_that_cannot_be_read_is_refused_and_left_as_it_is(void **state)
{
	struct home *h = *state;
	char *path = home_path(h, "state/ledger.db"), garbage[8192];
	size_t n;

	memset(garbage, 'x', sizeof(garbage));
	assert_int_equal(mkdir(home_path(h, "state"), 0700), 0);
	write_file(path, garbage, sizeof(garbage));
	ran_status(start_daemon(h), 1);
	assert_memory_equal(read_file(h, path, &n), garbage, sizeof(garbage));
	assert_int_equal(n, sizeof(garbage));
	assert_int_equal(unlink(path), 0);
	ran_ok(start_daemon(h));
}

static void a_large_log_is_put_aside_at_the_start(void **state)
{
	struct home *h = *state;
	struct stat st;
	char *log = home_path(h, "state/ringsided.log");

	assert_int_equal(mkdir(home_path(h, "state"), 0700), 0);
	write_file(log, "", 0);
	assert_int_equal(truncate(log, 5 * 1024 * 1024), 0);
	ran_ok(start_daemon(h));
	assert_int_equal(stat(log, &st), 0);
	assert_true(st.st_size < 64 * 1024);
	assert_int_equal(stat(home_path(h, "state/ringsided.log.1"), &st), 0);
	assert_int_equal(st.st_size, 5 * 1024 * 1024);
	assert_int_equal(unlink(home_path(h, "state/ringsided.log.1")), 0);
}

static void arguments_that_are_none_are_refused_with_the_usage(void **state)
{
	struct home *h = *state;
	struct ran *r = run_program(h, (const char *[]){ "ringsided", "--frobnicate", NULL }, NULL, 0, DEADLINE_MS);

	ran_status(r, 2);
	assert_true(contains(r->err, r->err_len, "usage:"));
	h->keep_daemon = true;
}

/* ---- End ---- */

static void down_leaves_sandboxes_running_and_the_next_daemon_finds_them(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	pid_t consoled = consoled_pid(h, "box"), first = daemon_pid(h);
	ran_ok(ringside(h, "down", NULL));
	wait_until("the daemon has ended", !process_alive(first));
	assert_true(process_alive(consoled));
	assert_int_equal(access(home_path(h, "run/control.sock"), F_OK), -1);
	assert_int_equal(consoled_pid(h, "box"), consoled);
	assert_string_equal(step_command(h, "box/dev", "echo still $((20+1))"), "still 21\r\n");
}

static void down_all_closes_them_first(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_create(h, "other");
	step_shell(h, "box/dev");
	pid_t consoled = consoled_pid(h, "box");
	ran_ok(ringside(h, "down", "--all", NULL));
	assert_false(process_alive(consoled));
	struct ran *r = ran_ok(ringside(h, "ls", "--json", NULL));
	assert_int_equal(json_array_size(ran_json(h, r)), 0);
	DIR *d = opendir(home_path(h, "state/sandboxes"));
	struct dirent *e;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			fail_msg("left behind: %s", e->d_name);
	closedir(d);
}

static void who_heard_the_end_of_a_daemon_can_start_the_next_at_once(void **state)
{
	struct home *h = *state;

	for (int i = 0; i < 10; i++) {
		ran_ok(start_daemon(h)); /* not refused: the one before has let go of the lock */
		ran_ok(ringside(h, "down", NULL));
	}
}

static void a_signal_ends_it_as_down_does(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	pid_t consoled = consoled_pid(h, "box"), daemon = daemon_pid(h);
	kill_and_wait(daemon, SIGTERM);
	assert_true(process_alive(consoled));
	assert_int_equal(access(home_path(h, "run/control.sock"), F_OK), -1);
	daemon = daemon_pid(h);
	assert_int_equal(kill(daemon, SIGHUP), 0); /* a terminal that goes is not its affair */
	assert_int_equal(daemon_pid(h), daemon);
}

static uint64_t switches_of(const char *tid_status)
{
	FILE *f = fopen(tid_status, "re");
	char line[256];
	unsigned long long n, sum = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1 ||
		        sscanf(line, "nonvoluntary_ctxt_switches: %llu", &n) == 1)
			sum += n;
	if (f)
		fclose(f);
	return sum;
}

/* How often anything in the process has been put on a CPU; also the number of its threads. */
static uint64_t process_switches(pid_t pid, size_t *threads)
{
	char path[64], status[360];
	uint64_t sum = 0;
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *d = opendir(path);
	assert_non_null(d);
	*threads = 0;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(status, sizeof(status), "%s/%s/status", path, e->d_name);
		sum += switches_of(status);
		++*threads;
	}
	closedir(d);
	return sum;
}

static bool quiet_for(pid_t pid, int ms)
{
	size_t threads, again;
	uint64_t before = process_switches(pid, &threads);

	poll(NULL, 0, ms); /* the span that is measured */
	return process_switches(pid, &again) == before && again == threads;
}

__attribute__((unused)) static void an_idle_daemon_does_not_wake_up(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "sleep", "1000", NULL);
	pid_t pid = daemon_pid(h);
	/* Threads that have just worked end first. Rings are looked at every 20 s, so a quiet second is there to be
	 * found; one that polls never has one. */
	wait_until("a second without any wake-up", quiet_for(pid, 1000));
}

/* ---- Sandboxes ---- */

static void one_create_of_a_name_wins_and_if_missing_finds_it(void **state)
{
	struct home *h = *state;
	struct running *r[6];
	int made = 0;

	for (int i = 0; i < 6; i++)
		r[i] = ringside_begin(h, "create", "--name", "box", "--json", NULL);
	for (int i = 0; i < 6; i++) {
		struct ran *ran = running_end(h, r[i], DEADLINE_MS);
		if (ran->status == 0)
			made++;
		else
			assert_string_equal(json_text(ran_error(h, ran_status(ran, 5)), "code"), "already_exists");
	}
	assert_int_equal(made, 1);
}

static void the_default_sandbox_is_made_once_however_many_ask_for_it(void **state)
{
	struct home *h = *state;
	struct running *r[6];

	for (int i = 0; i < 6; i++) {
		char *name = home_format(h, "default/c%d", i);
		r[i] = ringside_begin(h, "start", name, "--observe", "0", "--", "sleep", "1000", NULL);
	}
	for (int i = 0; i < 6; i++)
		ran_ok(running_end(h, r[i], DEADLINE_MS));
	assert_int_equal(json_array_size(ran_json(h, ran_ok(ringside(h, "ls", "--json", NULL)))), 1);
	assert_int_equal(json_array_size(ran_json(h, ran_ok(ringside(h, "ps", "--json", NULL)))), 6);
}

static void what_does_not_exist_is_named_with_the_way_to_what_does(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	struct ran *r = ran_status(ringside(h, "rm", "nobox", NULL), 3);
	assert_true(contains(r->err, r->err_len, "nobox"));
	assert_true(contains(r->err, r->err_len, "ringside ls"));
	r = ran_status(ringside(h, "signal", "box/nocon", "INT", NULL), 3);
	assert_true(contains(r->err, r->err_len, "box/nocon"));
	assert_true(contains(r->err, r->err_len, "ringside ps box"));
}

static void a_removed_sandbox_is_shown_among_all_and_its_name_is_free(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	const char *id = json_text(ran_json(h, ran_ok(ringside(h, "show", "--json", "box", NULL))), "id");
	ran_ok(ringside(h, "rm", "box", NULL));
	ran_status(ringside(h, "rm", "box", NULL), 3);
	assert_int_equal(json_array_size(ran_json(h, ran_ok(ringside(h, "ls", "--json", NULL)))), 0);
	json_t *shown = ran_json(h, ran_ok(ringside(h, "show", "--json", id, NULL)));
	assert_string_equal(json_text(shown, "state"), "TERMINATED");
	assert_string_equal(json_text(shown, "name"), "box");
	step_create(h, "box");
	assert_string_not_equal(json_text(ran_json(h, ran_ok(ringside(h, "show", "--json", "box", NULL))), "id"), id);
	json_t *all = ran_json(h, ran_ok(ringside(h, "ls", "--all", "--json", NULL)));
	assert_int_equal(json_array_size(all), 2);
}

static void a_list_that_does_not_fit_a_frame_comes_whole(void **state)
{
	struct home *h = *state;
	struct conn *c;
	Wire__ControlReply *m;
	size_t got = 0, parts = 0;
	char value[257], keys[64][16];
	Wire__Label labels[64], *list[64];

	ran_ok(start_daemon(h));
	c = raw_connect(h);
	raw_hello(h, c);
	memset(value, 'v', 256);
	value[256] = '\0';
	for (int i = 0; i < 64; i++) {
		wire__label__init(&labels[i]);
		snprintf(keys[i], sizeof(keys[i]), "k%d", i);
		labels[i].key = keys[i];
		labels[i].value = value;
		list[i] = &labels[i];
	}
	for (uint64_t i = 0; i < 12; i++) {
		Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
		Wire__CreateSandbox create = WIRE__CREATE_SANDBOX__INIT;
		create.labels = list;
		create.n_labels = 64;
		q.body_case = WIRE__CONTROL_REQUEST__BODY_CREATE;
		q.create = &create;
		raw_send(c, &q, i + 10);
		m = raw_receive(h, c);
		assert_int_equal(m->body_case, WIRE__CONTROL_REPLY__BODY_SANDBOX);
		assert_int_equal(m->sandbox->n_labels, 64);
	}
	Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
	Wire__ListSandboxes ls = WIRE__LIST_SANDBOXES__INIT;
	q.body_case = WIRE__CONTROL_REQUEST__BODY_LIST;
	q.list = &ls;
	raw_send(c, &q, 99);
	do {
		m = raw_receive(h, c);
		assert_int_equal(m->id, 99);
		assert_int_equal(m->body_case, WIRE__CONTROL_REPLY__BODY_LIST);
		got += m->list->n_sandboxes;
		parts++;
	} while (m->more);
	assert_int_equal(got, 12);
	assert_true(parts > 1);
}

/* ---- Protocol ---- */

static struct conn *greeted(struct home *h)
{
	struct conn *c = raw_connect(h);

	raw_hello(h, c);
	return c;
}

static void a_request_before_the_hello_ends_the_connection(void **state)
{
	struct home *h = *state;
	struct conn *c, *other;

	ran_ok(start_daemon(h));
	other = greeted(h);
	c = raw_connect(h);
	raw_status(c, 5);
	raw_expect_error(raw_receive(h, c), 5, RESULT_PROTOCOL_ERROR);
	raw_expect_end(c);
	raw_expect_served(h, other);
}

static void a_second_hello_ends_the_connection(void **state)
{
	struct home *h = *state;
	Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
	Wire__ControlHello hello = WIRE__CONTROL_HELLO__INIT;

	ran_ok(start_daemon(h));
	struct conn *c = greeted(h);
	hello.protocol = 1;
	q.body_case = WIRE__CONTROL_REQUEST__BODY_HELLO;
	q.hello = &hello;
	raw_send(c, &q, 2);
	raw_expect_error(raw_receive(h, c), 2, RESULT_PROTOCOL_ERROR);
	raw_expect_end(c);
}

static void a_request_without_an_id_ends_the_connection(void **state)
{
	struct home *h = *state;

	ran_ok(start_daemon(h));
	struct conn *c = greeted(h);
	raw_status(c, 0);
	raw_expect_error(raw_receive(h, c), 0, RESULT_PROTOCOL_ERROR);
	raw_expect_end(c);
}

/* Frames that are none, or of another protocol, or that hold no request. */
static void what_is_no_request_ends_the_connection_and_no_other(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {
		{ "\xff\xff\xff\xff\x01\x00\x00\x00", 8 }, /* 4 GiB */
		{ "\x00\x00\x00\x00\x09\x00\x00\x00", 8 }, /* an unknown type */
		{ "\x00\x00\x00\x00\x01\x09\x00\x00", 8 }, /* too many descriptors */
		{ "\x03\x00\x00\x00\x02\x00\x01\x00"
		  "abc",
		        11 }, /* a stream's data */
		{ "\x03\x00\x00\x00\x01\x00\x00\x00"
		  "\xff\xff\xff",
		        11 },
		{ "GET / HTTP/1.1\r\n\r\n", 18 },
	};
	struct home *h = *state;

	ran_ok(start_daemon(h));
	struct conn *other = greeted(h);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct conn *c = greeted(h);
		assert_int_equal(write(conn_fd(c), bad[i].bytes, bad[i].n), bad[i].n);
		raw_expect_error(raw_receive(h, c), 0, RESULT_PROTOCOL_ERROR);
		raw_expect_end(c);
		raw_expect_served(h, other);
	}
}

static void a_request_of_a_newer_client_is_told_not_supported(void **state)
{
	struct home *h = *state;
	/* id 7; field 100, an empty message. */
	static const uint8_t later[] = { 0x08, 0x07, 0xa2, 0x06, 0x00 };

	ran_ok(start_daemon(h));
	struct conn *c = greeted(h);
	assert_int_equal(conn_send(c, FRAME_MESSAGE, 0, later, sizeof(later), NULL, 0), 0);
	raw_expect_error(raw_receive(h, c), 7, RESULT_NOT_SUPPORTED);
	raw_expect_served(h, c);
}

static void a_client_that_goes_cancels_nothing_that_has_begun(void **state)
{
	struct home *h = *state;
	Wire__ControlRequest q = WIRE__CONTROL_REQUEST__INIT;
	Wire__CreateSandbox create = WIRE__CREATE_SANDBOX__INIT;
	static char name[] = "orphan";
	struct conn *c;

	ran_ok(start_daemon(h));
	int dirfd = open(home_path(h, "run"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(conn_new(sock_connect_at(dirfd, "control.sock"), 1 << 16, &c), 0);
	close(dirfd);
	raw_hello(h, c);
	create.name = name;
	q.body_case = WIRE__CONTROL_REQUEST__BODY_CREATE;
	q.create = &create;
	raw_send(c, &q, 2);
	conn_free(c);
	wait_until("the sandbox that was asked for runs", ringside(h, "show", "orphan", NULL)->status == 0);
	/* Whoever asks for it now waits for that very create. */
	struct ran *r = ran_ok(ringside(h, "start", "orphan/dev", "--observe", "0", "--", "sleep", "1000", NULL));
	assert_int_equal(r->status, 0);
}

static void hundreds_of_clients_are_served(void **state)
{
	struct home *h = *state;
	struct conn *c[300];

	ran_ok(start_daemon(h));
	for (int i = 0; i < 300; i++)
		c[i] = greeted(h);
	for (int i = 0; i < 300; i++)
		raw_expect_served(h, c[i]);
	json_t *j = ran_json(h, ran_ok(ringside(h, "status", "--json", NULL)));
	assert_true(json_number(j, "clients") >= 301);
}

/* The kernel holds back a hundred or so for a daemon that is busy, and refuses the rest for the moment. */
static void who_finds_the_queue_full_waits_for_a_place(void **state)
{
	struct home *h = *state;
	struct running *r[160];

	ran_ok(start_daemon(h));
	pid_t pid = daemon_pid(h);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (size_t i = 0; i < sizeof(r) / sizeof(r[0]); i++)
		r[i] = ringside_begin(h, "status", NULL);
	int fd = -EAGAIN;
	int run = open(home_path(h, "run"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	wait_until("the queue is full", (fd = sock_connect_at(run, "control.sock")) == -EAGAIN || close(fd) < 0);
	close(run);
	assert_int_equal(kill(pid, SIGCONT), 0);
	for (size_t i = 0; i < sizeof(r) / sizeof(r[0]); i++)
		ran_ok(running_end(h, r[i], DEADLINE_MS));
}

/* The daemon's limit of clients, and descriptors for as many in both processes; else the test cannot be made. */
#define CLIENTS 4096

static void have_room_for_clients(void)
{
	struct rlimit l;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &l), 0);
	if (l.rlim_max < CLIENTS + 512)
		skip();
	l.rlim_cur = l.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &l), 0);
}

static void who_connects_and_says_nothing_keeps_nobody_out(void **state)
{
	struct home *h = *state;
	static int silent[CLIENTS + 100];

	have_room_for_clients();
	ran_ok(start_daemon(h));
	struct conn *used = greeted(h);
	int run = open(home_path(h, "run"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++)
		wait_until("a place in the queue", (silent[i] = sock_connect_at(run, "control.sock")) >= 0);
	close(run);
	ran_ok(ringside(h, "status", NULL));
	raw_expect_served(h, used);
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++)
		close(silent[i]);
}

static void one_client_too_many_is_told_so(void **state)
{
	struct home *h = *state;
	struct conn *last = NULL;

	have_room_for_clients();
	ran_ok(start_daemon(h));
	for (int i = 0; i < CLIENTS; i++)
		last = greeted(h);
	struct ran *r = ran_status(ringside(h, "status", "--json", NULL), 5);
	assert_string_equal(json_text(ran_error(h, r), "code"), "busy");
	assert_true(r->took_ms < DEADLINE_MS / 10); /* not tried again until the deadline */
	raw_expect_served(h, last);
}

static void clients_that_go_leave_no_descriptor(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "sleep", "1000", NULL);
	ran_ok(ringside(h, "read", "box/dev", NULL));
	pid_t pid = daemon_pid(h);
	size_t before = process_fds(pid);
	for (int i = 0; i < 20; i++) {
		ran_ok(ringside(h, "read", "box/dev", NULL));
		ran_ok(ringside(h, "exec", "box", "--", "true", NULL));
		ran_status(ringside(h, "read", "box/none", NULL), 3);
	}
	wait_until("as many descriptors as before", process_fds(pid) <= before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(the_command_ends_when_the_daemon_serves),
		HOME_TEST(a_second_daemon_is_refused_with_the_holders_pid),
		HOME_TEST(of_several_started_at_once_one_serves),
		HOME_TEST(a_stale_socket_is_replaced),
		HOME_TEST(what_is_no_socket_in_its_place_is_left_alone),
		HOME_TEST(directory_and_socket_are_this_users_alone),
		HOME_TEST(a_directory_that_others_may_write_is_refused),
		HOME_TEST(a_ledger_that_cannot_be_read_is_refused_and_left_as_it_is),
		HOME_TEST(a_large_log_is_put_aside_at_the_start),
		HOME_TEST(arguments_that_are_none_are_refused_with_the_usage),
		HOME_TEST(down_leaves_sandboxes_running_and_the_next_daemon_finds_them),
		HOME_TEST(down_all_closes_them_first),
		HOME_TEST(who_heard_the_end_of_a_daemon_can_start_the_next_at_once),
		HOME_TEST(a_signal_ends_it_as_down_does),
#ifndef __SANITIZE_THREAD__ /* which has a thread of its own that wakes up */
		HOME_TEST(an_idle_daemon_does_not_wake_up),
#endif
		HOME_TEST(one_create_of_a_name_wins_and_if_missing_finds_it),
		HOME_TEST(the_default_sandbox_is_made_once_however_many_ask_for_it),
		HOME_TEST(what_does_not_exist_is_named_with_the_way_to_what_does),
		HOME_TEST(a_removed_sandbox_is_shown_among_all_and_its_name_is_free),
		HOME_TEST(a_list_that_does_not_fit_a_frame_comes_whole),
		HOME_TEST(a_request_before_the_hello_ends_the_connection),
		HOME_TEST(a_second_hello_ends_the_connection),
		HOME_TEST(a_request_without_an_id_ends_the_connection),
		HOME_TEST(what_is_no_request_ends_the_connection_and_no_other),
		HOME_TEST(a_request_of_a_newer_client_is_told_not_supported),
		HOME_TEST(a_client_that_goes_cancels_nothing_that_has_begun),
		HOME_TEST(hundreds_of_clients_are_served),
		HOME_TEST(who_finds_the_queue_full_waits_for_a_place),
		HOME_TEST(who_connects_and_says_nothing_keeps_nobody_out),
		HOME_TEST(one_client_too_many_is_told_so),
		HOME_TEST(clients_that_go_leave_no_descriptor),
	};
	return HOME_MAIN("daemon", tests);
}
