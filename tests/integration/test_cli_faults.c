/*
 * test_cli_faults.c - faults known from other systems that keep terminals alive, one test each: they must not be here.
 */
#include "tests/support/home.h"
#include "tests/support/steps.h"
#include "tests/support/term.h"

#include "client/ringside.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The end of a program ---- */

static void nothing_that_was_printed_right_before_the_exit_is_lost(void **state)
{
	struct home *h = *state;
	char *data;
	size_t n;

	step_create(h, "box");
	for (int round = 0; round < 20; round++) {
		const char *console = home_format(h, "box/r%d", round);
		step_start(h, console, "--observe", "0", "--", "sh", "-c", "seq 100000 103999; exit 3", NULL);
		json_t *j = step_until_exit(h, console, 0, &data, &n);
		/* The state is told with the last byte or after it, never before. */
		assert_int_equal(n, 4000 * 8);
		assert_string_equal(data + n - 8, "103999\r\n");
		assert_int_equal(json_number(j, "exit.code"), 3);
		assert_int_equal(json_number(j, "tail_offset"), 4000 * 8);
	}
}

static void a_program_ends_although_something_behind_it_holds_the_terminal(void **state)
{
	struct home *h = *state;
	char *data;

	step_create(h, "box");
	uint64_t before = now_ms();
	step_start(h, "box/dev", "--observe", "0", "--", "sh", "-c", "trap '' HUP; sleep 1003 & echo bye", NULL);
	json_t *j = step_until_exit(h, "box/dev", 0, &data, NULL);
	assert_true(now_ms() - before < 30000);
	assert_string_equal(data, "bye\r\n");
	assert_string_equal(json_text(j, "state"), "EXITED");
	/* What it left is still there, and close ends it. */
	wait_until("what it left runs", step_count(h, "sleep 1003") == 1);
	ran_ok(ringside(h, "close", "box/dev", NULL));
	assert_int_equal(step_count(h, "sleep 1003"), 0);
}

/* User and system time of a process, in clock ticks. */
static unsigned long long cpu_ticks(struct home *h, pid_t pid)
{
	unsigned long long user = 0, sys = 0;
	char *stat = read_file(h, home_format(h, "/proc/%d/stat", pid), NULL);

	assert_non_null(stat);
	assert_int_equal(
	        sscanf(strrchr(stat, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &sys),
	        2);
	return user + sys;
}

static void a_dead_or_idle_terminal_costs_no_time(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	/* One that has ended with its slave still held, one whose program has closed its terminal, one that is idle. */
	step_start(h, "box/held", "--observe", "0", "--", "sh", "-c",
	        "(trap '' HUP; exec sleep 1004) & until grep -q sleep /proc/$!/cmdline; do :; done; echo bye", NULL);
	step_start(h, "box/closed", "--observe", "0", "--", "sh", "-c", "exec sleep 1004 <&- >&- 2>&-", NULL);
	step_start(h, "box/idle", "--observe", "0", "--", "sleep", "1004", NULL);
	step_until_exit(h, "box/held", 0, NULL, NULL);
	pid_t consoled = consoled_pid(h, "box"), daemon = daemon_pid(h);
	unsigned long long before = cpu_ticks(h, consoled) + cpu_ticks(h, daemon);
	poll(NULL, 0, 1500); /* the time that is measured, not waited for */
	unsigned long long spent = cpu_ticks(h, consoled) + cpu_ticks(h, daemon) - before;
	/* A loop on a dead pty takes all of it: 150 ticks of 10 ms. */
	if (spent > 15)
		fail_msg("%llu ticks of 150", spent);
}

/* ---- Many of them ---- */

static size_t zombies_of(pid_t parent)
{
	size_t n = 0;
	DIR *proc = opendir("/proc");

	for (struct dirent *d; proc && (d = readdir(proc));) {
		char path[300], buf[512], state;
		int ppid;
		snprintf(path, sizeof(path), "/proc/%s/stat", d->d_name);
		FILE *f = d->d_name[0] >= '1' && d->d_name[0] <= '9' ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fgets(buf, sizeof(buf), f) && strrchr(buf, ')') &&
		        sscanf(strrchr(buf, ')') + 1, " %c %d", &state, &ppid) == 2)
			n += ppid == parent && state == 'Z';
		fclose(f);
	}
	if (proc)
		closedir(proc);
	return n;
}

static void check(int code, const struct ringside_error *err)
{
	if (code)
		fail_msg("%s: %s", err->name, err->message);
}

/* Starts, reads and drops consoles by the library, since a process for each step would take minutes. */
static void one_short_life(struct ringside *rs, int i)
{
	struct ringside_error err = { 0 };
	struct ringside_started *s;
	struct ringside_console *c;
	struct ringside_answer *a;
	const char *argv[] = { "/bin/echo", "x", NULL };
	struct ringside_start spec = { .argv = argv, .no_observe = true, .ring_bytes = 4096 };
	struct ringside_read_options o = { .until = RINGSIDE_UNTIL_EXIT };
	char name[32];

	snprintf(name, sizeof(name), "c%d", i);
	check(ringside_start(rs, "box", name, &spec, &s, &err), &err);
	o.from = s->console.tail_offset > 0 ? 0 : s->console.head_offset;
	ringside_free(s);
	check(ringside_console_open(rs, "box", name, 0, &c, &err), &err);
	check(ringside_read_wait(c, &o, DEADLINE_MS, &a, &err), &err);
	assert_int_equal(a->reason, RINGSIDE_REASON_EXIT);
	assert_int_equal(a->size, 3);
	ringside_free(a);
	ringside_console_close(c);
}

static void hundreds_of_consoles_leave_no_zombie_and_no_descriptor(void **state)
{
	struct home *h = *state;
	struct ringside *rs = home_connect(h);

	step_create(h, "box");
	pid_t consoled = consoled_pid(h, "box"), daemon = daemon_pid(h);
	/* Past the 32 that are kept, so that from here on nothing may grow. */
	for (int i = 0; i < 40; i++)
		one_short_life(rs, i);
	size_t fds = process_fds(consoled), daemon_fds = process_fds(daemon);
	for (int i = 40; i < 540; i++)
		one_short_life(rs, i);
	wait_until("the console daemon has no more descriptors than before", process_fds(consoled) <= fds);
	wait_until("the daemon has no more descriptors than before", process_fds(daemon) <= daemon_fds);
	wait_until("nobody is left unreaped", zombies_of(consoled) == 0 && zombies_of(daemon) == 0);
	wait_until("no keeper is left", step_count(h, "/bin/echo x") == 0);
	ringside_close(rs);
}

/* ---- Trouble next door ---- */

static void a_stopped_reader_slows_nobody(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/flood", "--ring", "1M", "--observe", "0", "--", "sh", "-c",
	        "stty raw; read go; seq 1 4000000; echo; echo END", NULL);
	/* One sits there and looks at nothing, one has been stopped. */
	struct term *blind = term_attach(h, "box/flood");
	struct term *stopped = term_attach(h, "box/flood");
	wait_until("both are there", json_number(step_ps(h, "box/flood"), "clients") == 2);
	kill(term_pid(stopped), SIGSTOP);
	uint64_t from = step_write(h, "box/flood", "\n");
	/* 30 MB pass them by. */
	json_t *j = step_read(h, "box/flood", "--from", home_format(h, "%llu", (unsigned long long)from), "--wait",
	        "50s", "--until", "END", NULL);
	assert_string_equal(json_text(j, "reason"), "match");
	/* Those who look again see its end. */
	kill(term_pid(stopped), SIGCONT);
	assert_int_equal(term_wait_end(stopped), 0);
	assert_true(term_printed(stopped, "END"));
	assert_int_equal(term_wait_end(blind), 0);
	assert_true(term_printed(blind, "END"));
}

static void one_consoles_trouble_does_not_reach_another(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/calm");
	step_start(h, "box/flood", "--observe", "0", "--", "sh", "-c", "stty raw; exec yes", NULL);
	step_start(
	        h, "box/deaf", "--observe", "0", "--", "sh", "-c", "stty raw -echo; echo ready; exec sleep 1000", NULL);
	step_until(h, "box/deaf", 0, "ready", NULL);
	char *paste = home_hold(h, calloc(1, 300000));
	const char *argv[] = { "ringside", "write", "box/deaf", "--timeout", "60s", NULL };
	struct running *stuck = program_begin(h, argv, paste, 300000);
	wait_until("the flood flows", json_number(step_ps(h, "box/flood"), "tail_offset") > 1000000);

	for (int i = 0; i < 10; i++) {
		uint64_t before = now_ms();
		assert_string_equal(step_command(h, "box/calm", "echo calm-$((2*21))"), "calm-42\r\n");
		/* Four processes of the command line, under a sanitizer, beside a flood: seconds would be a hang. */
		assert_true(now_ms() - before < 10000);
	}
	assert_false(running_ended(stuck));
	ran_ok(ringside(h, "close", "box/deaf", "--grace", "0", NULL));
	assert_int_equal(running_end(h, stuck, DEADLINE_MS)->status, 5);
}

/* Ever new processes: each forks, and the parent is gone before anybody can look twice. Their number stays the same. */
static const char hoppers[] = "import os, time\n"
                              "def hop():\n"
                              "    while True:\n"
                              "        if os.fork(): os._exit(0)\n"
                              "        os.setsid()\n"
                              "for i in range(6):\n"
                              "    if os.fork() == 0: hop()\n"
                              "print('hopping', flush=True)\n"
                              "time.sleep(1000)\n";

static void close_catches_what_forks_faster_than_it_can_be_listed(void **state)
{
	struct home *h = *state;
	const char *script = home_path(h, "hoppers.py");

	write_file(script, hoppers, strlen(hoppers));
	step_create(h, "box");
	step_start(h, "box/bomb", "--observe", "0", "--", "python3", script, NULL);
	step_until(h, "box/bomb", 0, "hopping", NULL);
	json_t *j = ran_json(h, ran_ok(ringside(h, "close", "--json", "box/bomb", "--grace", "500ms", NULL)));
	assert_int_equal(json_array_size(json_at(j, "survivors")), 0);
	assert_int_equal(step_count(h, home_format(h, "python3 %s", script)), 0);
}

static void close_ends_what_left_its_session_and_its_parent(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_start(h, "box/dev", "--observe", "0", "--", "bash", "-c",
	        "setsid sleep 1005 & (setsid sh -c 'sleep 1005 & disown; exec sleep 1005' &) ; (trap '' HUP TERM; exec "
	        "sleep 1005) & "
	        "sleep 1005 & until grep -q ^sleep /proc/$!/cmdline; do :; done; kill -STOP $!; echo ready; wait",
	        NULL);
	step_until(h, "box/dev", 0, "ready", NULL);
	wait_until("all five run", step_count(h, "sleep 1005") == 5);
	/* Another console's are not touched. */
	step_start(h, "box/other", "--observe", "0", "--", "sh", "-c", "setsid sleep 1006 & exec sleep 1006", NULL);
	wait_until("both run", step_count(h, "sleep 1006") == 2);
	json_t *j = ran_json(h, ran_ok(ringside(h, "close", "--json", "box/dev", "--grace", "1s", NULL)));
	assert_int_equal(json_array_size(json_at(j, "survivors")), 0);
	assert_int_equal(step_count(h, "sleep 1005"), 0);
	assert_int_equal(step_count(h, "sleep 1006"), 2);
}

/* ---- Running out ---- */

/* Starts consoles until one is refused, as the daemons have few descriptors; then what ends makes room again. */
static void out_of_descriptors_is_a_refusal_and_passes(void **state)
{
	struct home *h = *state;
	const char *script = home_format(h, "ulimit -n 64; exec %s/ringside up", h->bin);
	struct ran *refused = NULL;
	int n = 0;

	ran_ok(run_program(h, (const char *const[]){ "sh", "-c", script, NULL }, NULL, 0, DEADLINE_MS));
	ran_ok(ringside(h, "create", "--name", "box", "--console-limit", "100", NULL));
	for (; n < 100 && !refused; n++) {
		struct ran *r = ringside(h, "start", "--json", home_format(h, "box/c%d", n), "--observe", "0", "--ring",
		        "4K", "--", "sleep", "1000", NULL);
		if (r->status != 0)
			refused = r;
	}
	assert_non_null(refused);
	json_t *e = ran_error(h, ran_status(refused, 5));
	assert_string_equal(json_text(e, "code"), "resource_limit");
	assert_true(n > 3);
	/* Those that run go on, and closing some makes room. */
	assert_true(step_state_is(h, "box/c0", "RUNNING"));
	ran_ok(ringside(h, "close", "box/c0", "--grace", "0", NULL));
	ran_ok(ringside(h, "close", "box/c1", "--grace", "0", NULL));
	step_start(h, "box/again", "--observe", "0", "--ring", "4K", "--", "sleep", "1000", NULL);
}

/* The state directory on a full disk: consoles go on in memory; what cannot be kept is said, and nothing falls over. */
static void a_full_disk_costs_durability_and_no_console(void **state)
{
	struct home *h = *state;
	const char *script = home_format(h,
	        "mkdir -p %s/state && mount -t tmpfs -o size=3m,mode=700 tmpfs %s/state && export PATH=%s:$PATH && "
	        "ringside create --name box >/dev/null && "
	        "(cat /dev/zero >%s/state/filler 2>/dev/null; "
	        " ringside start box/dev --ring 1M --observe 0 -- sh -c 'stty -echo; seq 1 200000; echo END; read "
	        "x' >/dev/null; "
	        " ringside read box/dev --tail 0 --wait 50s --until END >/dev/null; echo read-$?; "
	        " ringside write box/dev --enter >/dev/null; "
	        " ringside read box/dev --tail 5 --wait 50s --until-exit 2>/dev/null; echo exit-$?; "
	        " ringside status >/dev/null; echo status-$?; "
	        " rm %s/state/filler; ringside down --all >/dev/null; echo down-$?)",
	        h->dir, h->dir, h->bin, h->dir, h->dir);

	h->keep_daemon = true;
	if (geteuid() != 0) {
		print_message("needs root: a file system of its own\n");
		return;
	}
	struct ran *r = run_program(
	        h, (const char *const[]){ "unshare", "-m", "sh", "-c", script, NULL }, NULL, 0, 3 * DEADLINE_MS);
	static const char *const wanted[] = { "read-0\n", "END\r\nexit-0\n", "status-0\n", "down-0\n" };
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!contains(r->out, r->out_len, wanted[i]))
			fail_msg("no %s in: %s\nstderr: %s", wanted[i], r->out, r->err);
}

/* ---- Places ---- */

static void a_home_with_a_path_too_long_for_a_socket_works(void **state)
{
	struct home *h = *state;
	char *deep = home_hold(h, malloc(sizeof(h->dir)));

	/* sun_path holds 108 bytes. */
	snprintf(deep, sizeof(h->dir), "%s", h->dir);
	while (strlen(deep) + 40 < sizeof(h->dir) - 1) {
		strcat(deep, "/a-rather-long-folder-name-of-its-own");
		assert_int_equal(mkdir(deep, 0700), 0);
	}
	assert_true(strlen(deep) > 150);
	char *top = home_format(h, "%s", h->dir);
	snprintf(h->dir, sizeof(h->dir), "%s", deep);
	step_create(h, "box");
	step_shell(h, "box/dev");
	assert_string_equal(step_command(h, "box/dev", "echo deep"), "deep\r\n");
	ran_ok(ringside(h, "down", "--all", NULL));
	snprintf(h->dir, sizeof(h->dir), "%s", top);
	h->keep_daemon = true;
}

static void a_stale_socket_is_replaced_and_anything_else_is_left_alone(void **state)
{
	struct home *h = *state;
	const char *socket = home_path(h, "run/control.sock");

	kill_and_wait(daemon_pid(h), SIGKILL);
	assert_int_equal(access(socket, F_OK), 0); /* the dead one's */
	ran_ok(ringside(h, "up", NULL));
	ran_ok(ringside(h, "down", NULL));

	unlink(socket);
	write_file(socket, "precious\n", 9);
	struct ran *r = ringside(h, "up", NULL);
	assert_int_not_equal(r->status, 0);
	assert_true(r->err_len > 0);
	assert_string_equal(read_file(h, socket, NULL), "precious\n");
	unlink(socket);
}

static void daemons_started_at_once_are_one_and_a_second_is_refused_in_a_line(void **state)
{
	struct home *h = *state;
	enum { N = 12 };
	struct running *r[N];
	uint64_t pid = 0;

	for (int i = 0; i < N; i++)
		r[i] = ringside_begin(h, "up", "--json", NULL);
	for (int i = 0; i < N; i++) {
		json_t *j = ran_json(h, ran_ok(running_end(h, r[i], DEADLINE_MS)));
		if (i == 0)
			pid = json_number(j, "pid");
		assert_int_equal(json_number(j, "pid"), pid);
	}
	struct ran *second = run_program(h, (const char *const[]){ "ringsided", NULL }, NULL, 0, DEADLINE_MS);
	assert_int_not_equal(second->status, 0);
	char *newline = strchr(second->err, '\n');
	assert_non_null(newline);
	assert_int_equal(newline[1], '\0'); /* one line */
	assert_non_null(strstr(second->err, home_format(h, "%llu", (unsigned long long)pid)));
	assert_int_equal(daemon_pid(h), pid);
}

/* A client that talks nonsense to the control socket is dropped, alone. */
static void a_peer_that_breaks_the_protocol_is_dropped_alone(void **state)
{
	struct home *h = *state;

	step_create(h, "box");
	step_shell(h, "box/dev");
	struct term *t = term_attach(h, "box/dev");
	term_wait_shows(t, "$");
	pid_t daemon = daemon_pid(h);
	const char *script = home_format(h,
	        "import socket, os\n"
	        "for data in [os.urandom(100000), b'\\xff'*64, b'\\0'*64, b'\\x10\\0\\0\\0\\x01\\x04\\0\\0'+b'x'*16, "
	        "b'\\5\\0\\0\\0\\1\\0\\0\\0hello', b'']:\n"
	        "    s = socket.socket(socket.AF_UNIX); s.connect('%s/run/control.sock'); s.settimeout(30)\n"
	        "    try:\n"
	        "        s.sendall(data); s.shutdown(socket.SHUT_WR)\n"
	        "        while s.recv(65536): pass\n"
	        "    except (BrokenPipeError, ConnectionResetError): pass\n"
	        "    s.close()\n"
	        "print('dropped')\n",
	        h->dir);
	struct ran *r =
	        ran_ok(run_program(h, (const char *const[]){ "python3", "-c", script, NULL }, NULL, 0, DEADLINE_MS));
	assert_string_equal(r->out, "dropped\n");
	assert_int_equal(daemon_pid(h), daemon);
	term_keys(t, "echo fine-$((3*3))\r");
	term_wait_shows(t, "fine-9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(nothing_that_was_printed_right_before_the_exit_is_lost),
		HOME_TEST(a_program_ends_although_something_behind_it_holds_the_terminal),
		HOME_TEST(a_dead_or_idle_terminal_costs_no_time),
		HOME_TEST(hundreds_of_consoles_leave_no_zombie_and_no_descriptor),
		HOME_TEST(a_stopped_reader_slows_nobody),
		HOME_TEST(one_consoles_trouble_does_not_reach_another),
		HOME_TEST(close_catches_what_forks_faster_than_it_can_be_listed),
		HOME_TEST(close_ends_what_left_its_session_and_its_parent),
		HOME_TEST(out_of_descriptors_is_a_refusal_and_passes),
		HOME_TEST(a_full_disk_costs_durability_and_no_console),
		HOME_TEST(a_home_with_a_path_too_long_for_a_socket_works),
		HOME_TEST(a_stale_socket_is_replaced_and_anything_else_is_left_alone),
		HOME_TEST(daemons_started_at_once_are_one_and_a_second_is_refused_in_a_line),
		HOME_TEST(a_peer_that_breaks_the_protocol_is_dropped_alone),
	};
	return HOME_MAIN("cli_faults", tests);
}
