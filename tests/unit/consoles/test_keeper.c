/*
 * test_keeper.c - the keeper's promises: how a program starts, what is said of it, and that nothing outlives its end.
 *
 * The same scenarios by the thousand are torture_keeper's; here each goes through each way once or some dozen times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "consoles/procstat.h"
#include "tests/support/kept.h"
#include "tests/support/leftovers.h"
#include "tests/support/scenarios.h"

/* Of this run alone: others may run beside it. */
static char marker[64];

static const char *const marked[] = { marker, NULL };

#define assert_right(call)                                 \
	do {                                               \
		const char *wrong_ = call;                 \
		if (wrong_)                                \
			fail_msg("%s: %s", #call, wrong_); \
	} while (0)

/* At most two at a time, known here so that a test that fails leaves nothing to the next. */
static struct kept kept[2];

static struct kept *start_argv(const char *const *argv, const char *const *envp, bool tty)
{
	struct kept *k = kept[0].keeper.pid > 0 ? &kept[1] : &kept[0];

	assert_int_equal(kept_start(k, argv, envp, tty), 0);
	return k;
}

static struct kept *start(const char *scenario, bool tty)
{
	const char *const argv[] = { "/proc/self/exe", "--scenario", scenario, NULL };

	return start_argv(argv, marked, tty);
}

static const char *reap(struct kept *k)
{
	const char *wrong = kept_reap(k);

	k->keeper.pid = 0;
	return wrong;
}

static int clean_up(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		if (kept[i].keeper.pid <= 0)
			continue;
		if (kept[i].keeper.sock >= 0)
			kept_kill(&kept[i]);
		reap(&kept[i]);
	}
	return 0;
}

/* ---- The program that tells how it was started ---- */

static void print_status_line(const char *name)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, strlen(name)) == 0)
			fputs(line, stdout);
	}
	if (f)
		fclose(f);
}

static void print_oom_score(void)
{
	int score = -1;
	FILE *f = fopen("/proc/self/oom_score_adj", "re");

	if (f && fscanf(f, "%d", &score) != 1)
		score = -1;
	printf("oom=%d\n", score);
	if (f)
		fclose(f);
}

static int tell_facts(char **argv)
{
	char cwd[256];

	for (char **a = argv; *a; a++)
		printf("arg=%s\n", *a);
	for (char **e = environ; *e; e++)
		printf("env=%s\n", *e);
	printf("cwd=%s\n", getcwd(cwd, sizeof(cwd)));
	printf("umask=%03o\n", umask(0));
	printf("leader=%d\n", getsid(0) == getpid() && getpgrp() == getpid());
	printf("foreground=%d\n", tcgetpgrp(0) == getpid());
	printf("dumpable=%d\n", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
	for (int fd = 0; fd < 1024; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			printf("fd=%d\n", fd);
	}
	print_oom_score();
	print_status_line("SigBlk");
	print_status_line("SigIgn");
	print_status_line("SigCgt");
	printf("end\n");
	fflush(stdout);
	return 0;
}

/* All that the program prints, until it ends. */
static void read_all(struct kept *k, char *buf, size_t size)
{
	const uint64_t deadline = clock_mono_ms() + KEPT_DEADLINE_MS;
	size_t n = 0;

	while (clock_mono_ms() < deadline && n < size - 1) {
		struct pollfd p = { .fd = k->out, .events = POLLIN };
		poll(&p, 1, 1000);
		ssize_t got = read(k->out, buf + n, size - 1 - n);
		if (got > 0)
			n += (size_t)got;
		else if (got == 0 || errno != EAGAIN)
			break; /* EIO is a pty's end */
	}
	buf[n] = '\0';
}

static void run_facts(char *facts, size_t size, bool tty)
{
	const char *const argv[] = { "/proc/self/exe", "--facts", "two words", "", NULL };
	const char *const envp[] = { "A=1", "B=two words", NULL };
	struct kept *k;

	k = start_argv(argv, envp, tty);
	read_all(k, facts, size);
	assert_right(kept_wait(k, REPORT_EMPTY));
	assert_right(reap(k));
}

static void assert_fact(const char *facts, const char *fact)
{
	if (!strstr(facts, fact))
		fail_msg("\"%s\" is not in:\n%s", fact, facts);
}

static void a_program_starts_with_what_it_was_given_and_nothing_else(void **state)
{
	char facts[8192];

	(void)state;
	/* All this must not reach it. */
	int stray = fcntl(0, F_DUPFD, 100);
	sigset_t some, before;
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, &before);
	void (*old)(int) = signal(SIGUSR2, SIG_IGN);
	mode_t mask = umask(077);
	setenv("SECRET", "of the daemon", 1);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);

	run_facts(facts, sizeof(facts), false);

	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	umask(mask);
	signal(SIGUSR2, old);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(stray);
	assert_fact(facts, "arg=/proc/self/exe\narg=--facts\narg=two words\narg=\nenv=A=1\nenv=B=two words\ncwd=/\n");
	assert_fact(facts, "umask=022\nleader=1\n");
	assert_fact(facts, "dumpable=1\nfd=0\nfd=1\nfd=2\noom=500\n");
	assert_fact(facts, "SigBlk:\t0000000000000000\n");
	assert_fact(facts, "SigIgn:\t0000000000000000\n");
	assert_null(strstr(facts, "SECRET"));
}

static void on_a_pty_it_leads_the_session_and_holds_the_terminal(void **state)
{
	char facts[8192];

	(void)state;
	run_facts(facts, sizeof(facts), true);
	assert_fact(facts, "leader=1\r\nforeground=1\r\n");
	assert_fact(facts, "fd=0\r\nfd=1\r\nfd=2\r\noom=");
}

/* ---- Starting ---- */

static void started_names_the_program_by_pid_and_start_time(void **state)
{
	struct procstat s;
	struct kept *k;

	(void)state;
	k = start("sleep", false);
	assert_right(kept_wait(k, REPORT_STARTED));
	assert_int_equal(procstat_read(k->last.pid, &s), 0);
	assert_int_equal(s.start, k->last.start_time);
	assert_int_equal(s.ppid, k->keeper.pid);
	assert_right(kept_kill(k));
	assert_right(reap(k));
}

static void assert_start_fails(struct keeper_spec *spec, int step, int error)
{
	static const char *const argv[] = { "x", NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), fds = count_fds();
	struct kept k = { .out = -1 };

	spec->argv = argv;
	spec->envp = marked;
	spec->in = spec->out = spec->err = null;
	spec->label = "fails";
	if (!spec->cwd)
		spec->cwd = "/";
	assert_int_equal(keeper_spawn(spec, &k.keeper), 0);
	assert_right(kept_wait(&k, REPORT_FAILED));
	assert_int_equal(k.last.step, step);
	assert_int_equal(k.last.error, error);
	assert_right(kept_wait(&k, REPORT_EMPTY));
	assert_right(kept_reap(&k));
	assert_int_equal(count_fds(), fds);
	close(null);
}

static void a_start_that_fails_names_the_step_and_the_error(void **state)
{
	(void)state;
	assert_start_fails(&(struct keeper_spec){ .path = "/no/such", .tty = -1 }, STEP_EXEC, ENOENT);
	assert_start_fails(&(struct keeper_spec){ .path = "/etc/passwd/x", .tty = -1 }, STEP_EXEC, ENOTDIR);
	assert_start_fails(&(struct keeper_spec){ .path = "/etc/passwd", .tty = -1 }, STEP_EXEC, EACCES);
	assert_start_fails(&(struct keeper_spec){ .path = "/", .tty = -1 }, STEP_EXEC, EACCES);
	assert_start_fails(&(struct keeper_spec){ .path = "/bin/sh", .cwd = "/no", .tty = -1 }, STEP_CWD, ENOENT);
	assert_start_fails(
	        &(struct keeper_spec){ .path = "/bin/sh", .cwd = "/etc/passwd", .tty = -1 }, STEP_CWD, ENOTDIR);

	int no_tty = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_start_fails(&(struct keeper_spec){ .path = "/bin/sh", .tty = no_tty }, STEP_TERMINAL, ENOTTY);
	close(no_tty);
}

static void a_file_of_no_known_format_is_not_run_by_a_shell(void **state)
{
	char path[] = "/tmp/ringside-keeper-XXXXXX";

	(void)state;
	int fd = mkstemp(path);
	assert_int_equal(write(fd, "echo hi\n", 8), 8);
	fchmod(fd, 0755);
	close(fd);
	assert_start_fails(&(struct keeper_spec){ .path = path, .tty = -1 }, STEP_EXEC, ENOEXEC);
	unlink(path);
}

/* In a process of a user of its own, whose limit leaves room for the keeper and not for the program. */
static int start_at_the_process_limit(void)
{
	const struct rlimit two = { 2, 2 };
	const char *const argv[] = { "/bin/true", NULL };
	struct kept k;

	if (setresgid(54321, 54321, 54321) < 0 || setresuid(54321, 54321, 54321) < 0)
		return 2;
	if (setrlimit(RLIMIT_NPROC, &two) < 0 || kept_start(&k, argv, marked, false) < 0)
		return 3;
	if (kept_wait(&k, REPORT_FAILED) || k.last.step != STEP_FORK || k.last.error != EAGAIN)
		return 4;
	return kept_wait(&k, REPORT_EMPTY) || kept_reap(&k) ? 5 : 0;
}

static void a_fork_that_fails_is_told_as_such(void **state)
{
	int status;

	(void)state;
	if (getuid() != 0)
		skip();
	pid_t pid = fork();
	if (pid == 0)
		_exit(start_at_the_process_limit());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void no_descriptor_for_a_keeper_is_an_error_that_leaves_nothing(void **state)
{
	const char *const argv[] = { "/bin/true", NULL };
	struct keeper_spec spec = {
		.path = argv[0], .argv = argv, .envp = marked, .cwd = "/", .tty = -1, .label = "x"
	};
	struct rlimit before, none;
	struct keeper k;
	int fds = count_fds();

	(void)state;
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	int r = keeper_spawn(&spec, &k);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(r, -EMFILE);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(any_child(), 0);
}

/* ---- The keeper itself ---- */

static void a_keeper_holds_its_socket_and_nothing_else(void **state)
{
	char path[64], name[16] = "";
	struct procstat s;
	struct kept *k;
	int n = 0;

	(void)state;
	k = start("sleep", true);
	assert_right(kept_wait(k, REPORT_STARTED));
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)k->keeper.pid);
	DIR *dir = opendir(path);
	for (const struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	closedir(dir);
	assert_int_equal(procstat_read(k->keeper.pid, &s), 0);
	memcpy(name, s.comm, sizeof(name));
	assert_right(kept_kill(k));
	assert_right(reap(k));
	assert_int_equal(n, 1);
	assert_string_equal(name, "rs-keeper:test");
	assert_int_equal(s.session, s.pid);
}

static void signals_do_nothing_to_a_keeper(void **state)
{
	static const int harmless[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGTSTP,
		SIGCHLD };
	const struct keeper_order list = { .kind = ORDER_LIST, .order = 77 };
	struct kept *k;

	(void)state;
	k = start("sleep", false);
	assert_true(kept_is_ready(k));
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		kill(k->keeper.pid, harmless[i]);
	assert_int_equal(keeper_order(&k->keeper, &list), 0);
	assert_right(kept_wait(k, REPORT_SIGNALLED));
	assert_int_equal(k->last.order, 77);
	assert_int_equal(k->last.left, 1);
	assert_right(kept_kill(k));
	assert_right(reap(k));
}

/* ---- Exit ---- */

static void an_exit_code_and_a_deadly_signal_are_told_as_they_were(void **state)
{
	struct kept *k;

	(void)state;
	k = start("leave-at-once", false);
	assert_right(kept_wait(k, REPORT_EXITED));
	assert_true(WIFEXITED(k->status));
	assert_int_equal(WEXITSTATUS(k->status), 7);
	assert_int_equal(k->last.left, 0);
	assert_right(kept_wait(k, REPORT_EMPTY));
	assert_right(reap(k));

	k = start("sleep", false);
	assert_true(kept_is_ready(k));
	kept_signal(k, SIGUSR1, 1);
	assert_right(kept_wait(k, REPORT_EXITED));
	assert_true(WIFSIGNALED(k->status));
	assert_int_equal(WTERMSIG(k->status), SIGUSR1);
	assert_right(kept_wait(k, REPORT_EMPTY));
	assert_right(reap(k));
}

static void what_a_program_leaves_is_counted_and_named_and_holds_the_keeper(void **state)
{
	struct procstat s;
	struct kept *k;

	(void)state;
	k = start("escape-and-leave", false);
	assert_right(kept_wait(k, REPORT_EXITED));
	assert_int_equal(k->last.left, 3);
	assert_int_equal(k->last.nprocs, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_string_equal(k->last.procs[i].comm, "exe");
		assert_int_equal(procstat_read(k->last.procs[i].pid, &s), 0);
		assert_int_equal(s.ppid, k->keeper.pid);
	}
	assert_right(kept_kill(k));
	assert_right(reap(k));
	assert_int_equal(find_marked(marker), 0);
}

static void the_last_reports_of_a_keeper_survive_orders_that_came_too_late(void **state)
{
	const struct keeper_order list = { .kind = ORDER_LIST };
	struct kept *k;

	(void)state;
	/* An unread order in the keeper's queue makes the kernel answer ECONNRESET before the reports. */
	for (int i = 0; i < 50; i++) {
		k = start("leave-at-once", false);
		while (keeper_order(&k->keeper, &list) == 0)
			sched_yield();
		assert_right(kept_wait(k, REPORT_EXITED));
		assert_right(kept_wait(k, REPORT_EMPTY));
		assert_right(reap(k));
	}
}

/* ---- Orders ---- */

static void a_group_signal_reaches_that_group_alone(void **state)
{
	struct keeper_order o = { .kind = ORDER_SIGNAL_GROUP, .order = 5, .signal = SIGUSR1 };
	const char *const argv[] = { "/bin/sh", "-c", "set -m; sleep 1000 & sleep 1000 & echo $!; wait", NULL };
	char line[16] = "";
	struct kept *k;

	(void)state;
	k = start_argv(argv, marked, true);
	struct pollfd p = { .fd = k->out, .events = POLLIN };
	assert_int_equal(poll(&p, 1, KEPT_DEADLINE_MS), 1);
	assert_true(read(k->out, line, sizeof(line) - 1) > 0);
	o.group = atoi(line);
	assert_int_equal(keeper_order(&k->keeper, &o), 0);
	assert_right(kept_wait(k, REPORT_SIGNALLED));
	assert_int_equal(k->last.left, 1);
	assert_int_equal(k->last.procs[0].pid, o.group);

	/* A group that is not of the family gets nothing, not even its own process that sends. */
	o.group = getpgrp();
	assert_int_equal(keeper_order(&k->keeper, &o), 0);
	assert_right(kept_wait(k, REPORT_SIGNALLED));
	assert_int_equal(k->last.left, 0);
	assert_right(kept_kill(k));
	assert_right(reap(k));
}

static void a_keepers_signals_reach_nobody_elses_processes(void **state)
{
	struct kept *mine, *other;
	int status;

	(void)state;
	pid_t own = fork();
	if (own == 0)
		pause_forever();
	other = start("escape", false);
	assert_true(kept_is_ready(other));
	mine = start("escape", false);
	assert_true(kept_is_ready(mine));
	assert_right(kept_kill(mine));
	assert_right(reap(mine));

	assert_int_equal(waitpid(own, &status, WNOHANG), 0);
	kept_signal(other, 0, 9);
	assert_right(kept_wait(other, REPORT_SIGNALLED));
	assert_int_equal(other->last.left, 4);
	kill(own, SIGKILL);
	waitpid(own, NULL, 0);
	assert_right(kept_kill(other));
	assert_right(reap(other));
}

static void a_stopped_program_gets_its_hangup(void **state)
{
	struct kept *k;

	(void)state;
	k = start("stopped", false);
	assert_true(kept_is_ready(k));
	/* Not SIGKILL: with SIGHUP alone they would stand there for ever. */
	kept_signal(k, SIGHUP, 1);
	assert_right(kept_wait(k, REPORT_EMPTY));
	assert_int_equal(WTERMSIG(k->status), SIGHUP);
	assert_right(reap(k));
}

static void a_hangup_reaches_all_though_their_parent_dies_of_it_first(void **state)
{
	struct kept *k;

	(void)state;
	for (int i = 0; i < 100; i++) {
		k = start("brood", false);
		assert_true(kept_is_ready(k));
		kept_signal(k, SIGHUP, 1);
		assert_right(kept_wait(k, REPORT_SIGNALLED));
		assert_int_equal(k->last.left, 1 + BROOD);
		if (!k->empty)
			assert_right(kept_wait(k, REPORT_EMPTY));
		assert_right(reap(k));
	}
}

/* ---- Left alone ---- */

static void left_alone_it_hangs_up_and_leaves(void **state)
{
	struct kept *k;

	(void)state;
	k = start("stopped", true);
	assert_true(kept_is_ready(k));
	uint64_t before = clock_mono_ms();
	fd_close(&k->keeper.sock);
	assert_right(reap(k));
	assert_true(clock_mono_ms() - before < 2500); /* it did not come to SIGKILL */
	assert_int_equal(find_marked(marker), 0);
}

static void left_alone_it_gives_three_seconds_and_then_kills(void **state)
{
	struct kept *k;

	(void)state;
	k = start("escape", false);
	assert_true(kept_is_ready(k));
	uint64_t before = clock_mono_ms();
	fd_close(&k->keeper.sock);
	assert_right(reap(k));
	assert_true(clock_mono_ms() - before >= 3000);
	assert_int_equal(find_marked(marker), 0);
	assert_int_equal(any_child(), 0);
}

/* ---- Nothing is left ---- */

static void whatever_runs_is_ended_and_proven_gone(void **state)
{
	const int fds = count_fds();

	(void)state;
	for (unsigned round = 0; round < 10 * SCENARIOS; round++) {
		const struct scenario *s = &scenarios[round % SCENARIOS];
		struct kept *k;

		k = start(s->name, round % 3 == 0);
		/* Once built up; while it is built up; and at once, before it even has been exec'ed. */
		if (round % 4 < 2 && s->run != leave_at_once && !kept_is_ready(k))
			fail_msg("%s never was ready", s->name);
		else if (round % 4 == 2)
			usleep(1000);
		const char *wrong = kept_kill(k);
		if (!wrong)
			wrong = reap(k);
		if (wrong)
			fail_msg("%s: %s", s->name, wrong);
		assert_int_equal(any_child(), 0);
		assert_int_equal(find_marked(marker), 0);
		assert_int_equal(count_fds(), fds);
	}
}

#define TEST(name) cmocka_unit_test_teardown(name, clean_up)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_program_starts_with_what_it_was_given_and_nothing_else),
		TEST(on_a_pty_it_leads_the_session_and_holds_the_terminal),
		TEST(started_names_the_program_by_pid_and_start_time),
		TEST(a_start_that_fails_names_the_step_and_the_error),
		TEST(a_file_of_no_known_format_is_not_run_by_a_shell),
		TEST(a_fork_that_fails_is_told_as_such),
		TEST(no_descriptor_for_a_keeper_is_an_error_that_leaves_nothing),
		TEST(a_keeper_holds_its_socket_and_nothing_else),
		TEST(signals_do_nothing_to_a_keeper),
		TEST(an_exit_code_and_a_deadly_signal_are_told_as_they_were),
		TEST(what_a_program_leaves_is_counted_and_named_and_holds_the_keeper),
		TEST(the_last_reports_of_a_keeper_survive_orders_that_came_too_late),
		TEST(a_group_signal_reaches_that_group_alone),
		TEST(a_keepers_signals_reach_nobody_elses_processes),
		TEST(a_stopped_program_gets_its_hangup),
		TEST(a_hangup_reaches_all_though_their_parent_dies_of_it_first),
		TEST(left_alone_it_hangs_up_and_leaves),
		TEST(left_alone_it_gives_three_seconds_and_then_kills),
		TEST(whatever_runs_is_ended_and_proven_gone),
	};

	scenario_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], "--facts") == 0)
		return tell_facts(argv);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	snprintf(marker, sizeof(marker), "RINGSIDE_TEST_KEEPER=%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
