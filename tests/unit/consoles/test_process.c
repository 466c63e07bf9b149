/*
 * test_process.c - a program on the loop: what is told in which order, how it is ended, and what a dead keeper means.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consoles/process.h"
#include "consoles/procstat.h"
#include "consoles/reaper.h"
#include "tests/support/leftovers.h"
#include "tests/support/scenarios.h"
#include "tests/support/turn.h"
#include "wire/fd.h"

/* Of this run alone: others may run beside it. */
static char marker[64];

static const char *const marked[] = { marker, NULL };
static uv_loop_t *loop;

/* ---- One program, and all that was told of it ---- */

/* The callback in which a test frees the process. */
enum moment { NEVER, STARTED, FAILED, EXITED, GONE, DONE };

struct subject {
	struct process *process;
	int out;        /* read end of its standard output */
	char order[16]; /* s(tarted) f(ailed) x(exited) g(one) d(one), as they came */
	unsigned told;
	uint64_t start_time;
	enum keeper_step step;
	int error;
	struct process_exit exit;
	bool proven;
	unsigned done;
	struct process_receipt receipt;
	enum moment free_in;
};

static struct subject subjects[2];

static void note(struct subject *s, char what, enum moment m)
{
	if (s->told < sizeof(s->order) - 1)
		s->order[s->told++] = what;
	if (s->free_in == m) {
		process_free(s->process);
		s->process = NULL;
	}
}

static void on_started(struct process *p, pid_t pid, uint64_t start_time, void *ctx)
{
	struct subject *s = ctx;

	assert_int_equal(process_pid(p), pid);
	s->start_time = start_time;
	note(s, 's', STARTED);
}

static void on_failed(struct process *p, enum keeper_step step, int error, void *ctx)
{
	struct subject *s = ctx;

	(void)p;
	s->step = step;
	s->error = error;
	note(s, 'f', FAILED);
}

static void on_exited(struct process *p, const struct process_exit *e, void *ctx)
{
	struct subject *s = ctx;

	(void)p;
	s->exit = *e;
	note(s, 'x', EXITED);
}

static void on_gone(struct process *p, bool proven, void *ctx)
{
	struct subject *s = ctx;

	(void)p;
	s->proven = proven;
	note(s, 'g', GONE);
}

static void on_done(struct process *p, const struct process_receipt *r, void *ctx)
{
	struct subject *s = ctx;

	(void)p;
	s->done++;
	s->receipt = *r;
	note(s, 'd', DONE);
}

static const struct process_handler handler = {
	.on_started = on_started,
	.on_failed = on_failed,
	.on_exited = on_exited,
	.on_gone = on_gone,
};

static void start_path(struct subject *s, const char *path, const char *scenario)
{
	const char *const argv[] = { path, "--scenario", scenario, NULL };
	int ends[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	struct keeper_spec spec = {
		.path = path, .argv = argv, .envp = marked, .cwd = "/", .tty = -1, .label = "test"
	};
	spec.in = null;
	spec.out = spec.err = ends[1];
	*s = (struct subject){ .out = ends[0] };
	int r = process_start(loop, &spec, &handler, s, &s->process);
	close(ends[1]);
	close(null);
	assert_int_equal(r, 0);
}

static struct subject *start(const char *scenario)
{
	struct subject *s = subjects[0].process ? &subjects[1] : &subjects[0];

	start_path(s, "/proc/self/exe", scenario);
	return s;
}

/* ---- Waiting ---- */

static bool has_started(void *ctx)
{
	const struct subject *s = ctx;

	return strchr(s->order, 's') || strchr(s->order, 'f');
}

static bool has_exited(void *ctx)
{
	return strchr(((const struct subject *)ctx)->order, 'x');
}

static bool is_gone(void *ctx)
{
	return strchr(((const struct subject *)ctx)->order, 'g');
}

static bool is_done(void *ctx)
{
	return ((const struct subject *)ctx)->done > 0;
}

/* Keepers too: nothing below this process. */
static bool is_childless(void *ctx)
{
	(void)ctx;
	return any_child() == 0;
}

static bool is_reaped(void *ctx)
{
	const pid_t *pid = ctx;

	return kill(*pid, 0) < 0 && errno == ESRCH;
}

#define wait_for(what, ctx)                                 \
	do {                                                \
		if (!turn_until(loop, what, ctx))           \
			fail_msg("%s: not in time", #what); \
	} while (0)

static void wait_ready(struct subject *s)
{
	char byte;

	wait_for(has_started, s);
	assert_int_equal(read(s->out, &byte, 1), 1);
}

/* Frees it, ends what is left, and waits until nothing is below this process. */
static int clean_up(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct subject *s = &subjects[i];
		if (s->process) {
			s->free_in = NEVER;
			s->done = 0;
			if (process_end(s->process, 0, on_done, s) == 0)
				turn_until(loop, is_done, s);
			process_free(s->process);
		}
		if (s->out > 0)
			close(s->out);
		*s = (struct subject){ 0 };
	}
	return turn_until(loop, is_childless, NULL) && find_marked(marker) == 0 ? 0 : -1;
}

static void assert_step(const struct process_receipt *r, unsigned i, int sig, uint64_t not_before)
{
	assert_true(i < r->nsteps);
	assert_int_equal(r->steps[i].signal, sig);
	assert_true(r->steps[i].at_ms >= not_before);
	/* The machine may be slow, but a step does not come at another's time. */
	assert_true(r->steps[i].at_ms < not_before + 400);
}

/* ---- Order ---- */

static void a_program_that_ends_is_told_in_order(void **state)
{
	(void)state;
	struct subject *s = start("leave-at-once");
	assert_int_equal(process_pid(s->process), 0);
	assert_true(process_keeper_pid(s->process) > 0);
	assert_int_equal(s->told, 0); /* nothing from inside the call */
	wait_for(is_gone, s);
	assert_string_equal(s->order, "sxg");
	assert_true(s->exit.status_known);
	assert_int_equal(s->exit.code, 7);
	assert_int_equal(s->exit.signal, 0);
	assert_true(s->proven);
	assert_true(s->start_time > 0);
	assert_int_equal(process_keeper_pid(s->process), 0);
}

static void a_start_that_fails_is_told_and_then_gone(void **state)
{
	struct subject *s = &subjects[0];

	(void)state;
	start_path(s, "/no/such/program", "x");
	wait_for(is_gone, s);
	assert_string_equal(s->order, "fg");
	assert_int_equal(s->step, STEP_EXEC);
	assert_int_equal(s->error, ENOENT);
	assert_true(s->proven);
}

static void what_a_program_leaves_is_told_with_its_exit(void **state)
{
	(void)state;
	struct subject *s = start("escape-and-leave");
	wait_for(has_exited, s);
	assert_string_equal(s->order, "sx");
	assert_int_equal(s->exit.left, 3);
	assert_int_equal(s->exit.nprocs, 3);
	assert_string_equal(s->exit.procs[0].comm, "exe");
}

/* ---- Ending ---- */

static void a_polite_program_gets_a_hangup_and_nothing_more(void **state)
{
	(void)state;
	struct subject *s = start("sleep");
	wait_ready(s);
	assert_int_equal(process_end(s->process, 3000, on_done, s), 0);
	assert_int_equal(s->done, 0);
	wait_for(is_done, s);
	assert_string_equal(s->order, "sxgd");
	assert_int_equal(s->exit.signal, SIGHUP);
	assert_int_equal(s->receipt.nsteps, 1);
	assert_step(&s->receipt, 0, SIGHUP, 0);
	assert_int_equal(s->receipt.steps[0].left, 1);
	assert_int_equal(s->receipt.nsurvivors, 0);
	assert_false(s->receipt.unproven);
}

static void a_deaf_one_gets_all_three_in_their_time_with_its_escapees(void **state)
{
	(void)state;
	struct subject *s = start("escape");
	wait_ready(s);
	assert_int_equal(process_end(s->process, 1500, on_done, s), 0);
	wait_for(is_done, s);
	assert_int_equal(s->receipt.nsteps, 3);
	assert_step(&s->receipt, 0, SIGHUP, 0);
	assert_step(&s->receipt, 1, SIGTERM, PROCESS_TERM_MS);
	assert_step(&s->receipt, 2, SIGKILL, 1500);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(s->receipt.steps[i].left, 4);
	assert_int_equal(s->exit.signal, SIGKILL);
	assert_false(s->receipt.unproven);
	assert_int_equal(find_marked(marker), 0);
}

static void stopped_programs_are_continued_to_take_their_hangup(void **state)
{
	(void)state;
	struct subject *s = start("stopped");
	wait_ready(s);
	assert_int_equal(process_end(s->process, 3000, on_done, s), 0);
	wait_for(is_done, s);
	assert_int_equal(s->exit.signal, SIGHUP);
	assert_int_equal(s->receipt.nsteps, 1);
}

static void no_grace_kills_at_once(void **state)
{
	(void)state;
	struct subject *s = start("ignore");
	wait_ready(s);
	assert_int_equal(process_end(s->process, 0, on_done, s), 0);
	wait_for(is_done, s);
	assert_int_equal(s->receipt.nsteps, 1);
	assert_step(&s->receipt, 0, SIGKILL, 0);
	assert_int_equal(s->receipt.steps[0].left, 2);
}

static void a_bomb_is_ended_while_another_program_goes_on(void **state)
{
	(void)state;
	struct subject *other = start("escape");
	wait_ready(other);
	struct subject *s = start("runaway");
	wait_ready(s);
	assert_int_equal(process_end(s->process, 0, on_done, s), 0);
	wait_for(is_done, s);
	assert_false(s->receipt.unproven);
	assert_string_equal(other->order, "s");
	assert_int_equal(kill(process_pid(other->process), 0), 0);
}

static void an_end_before_the_start_was_told_ends_it_too(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		struct subject *s = start("escape");
		assert_int_equal(process_end(s->process, 0, on_done, s), 0);
		wait_for(is_done, s);
		assert_string_equal(s->order, "sxgd");
		assert_int_equal(clean_up(state), 0);
	}
}

static void an_end_of_what_is_gone_has_no_steps(void **state)
{
	(void)state;
	struct subject *s = start("leave-at-once");
	wait_for(is_gone, s);
	assert_int_equal(process_end(s->process, 3000, on_done, s), 0);
	assert_int_equal(s->done, 0);
	wait_for(is_done, s);
	assert_int_equal(s->receipt.nsteps, 0);
	assert_false(s->receipt.unproven);
}

static void a_second_end_joins_the_first_and_may_hurry_it(void **state)
{
	(void)state;
	struct subject *s = start("ignore");
	wait_ready(s);
	uint64_t before = clock_mono_ms();
	assert_int_equal(process_end(s->process, 60000, on_done, s), 0);
	assert_int_equal(process_end(s->process, 300, on_done, s), 0);
	wait_for(is_done, s);
	assert_true(clock_mono_ms() - before < 10000);
	assert_int_equal(s->done, 2);
	assert_string_equal(s->order, "sxgdd");
	assert_int_equal(s->receipt.nsteps, 2);
	assert_step(&s->receipt, 0, SIGHUP, 0);
	assert_step(&s->receipt, 1, SIGKILL, 300);
}

static void a_group_signal_goes_to_the_program(void **state)
{
	(void)state;
	struct subject *s = start("sleep");
	wait_ready(s);
	assert_int_equal(process_signal_group(s->process, process_pid(s->process), SIGINT), 0);
	wait_for(is_gone, s);
	assert_int_equal(s->exit.signal, SIGINT);
	assert_int_equal(process_signal_group(s->process, process_pid(s->process), SIGINT), -ESRCH);
}

/* ---- Freeing ---- */

static void freed_in_any_callback_it_is_told_nothing_more(void **state)
{
	static const struct {
		enum moment moment;
		const char *path, *order;
	} cases[] = {
		{ STARTED, "/proc/self/exe", "s" },
		{ EXITED, "/proc/self/exe", "sx" },
		{ GONE, "/proc/self/exe", "sxg" },
		{ DONE, "/proc/self/exe", "sxgd" },
		{ FAILED, "/no/such/program", "f" },
		{ GONE, "/no/such/program", "fg" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct subject *s = &subjects[0];
		start_path(s, cases[i].path, "leave-at-once");
		s->free_in = cases[i].moment;
		if (cases[i].moment == DONE)
			assert_int_equal(process_end(s->process, 3000, on_done, s), 0);
		wait_for(is_childless, NULL);
		for (int turns = 0; turns < 5; turns++)
			uv_run(loop, UV_RUN_NOWAIT);
		assert_string_equal(s->order, cases[i].order);
		assert_null(s->process);
		close(s->out);
		*s = (struct subject){ 0 };
	}
}

static void freeing_ends_nothing(void **state)
{
	struct procstat stat;

	(void)state;
	struct subject *s = start("ignore");
	wait_ready(s);
	pid_t pid = process_pid(s->process), keeper = process_keeper_pid(s->process);
	process_free(s->process);
	s->process = NULL;
	/* Long enough for what its keeper would do if it thought itself alone. */
	uint64_t until = clock_mono_ms() + 300;
	while (clock_mono_ms() < until)
		uv_run(loop, UV_RUN_NOWAIT);
	assert_int_equal(procstat_read(pid, &stat), 0);
	assert_int_equal(stat.ppid, keeper);
	assert_true(reaper_knows(keeper));

	/* And the keeper goes when its last process does. */
	for (pid_t left; (left = find_marked(marker)) != 0;)
		kill(left, SIGKILL);
	wait_for(is_childless, NULL);
}

static void nothing_is_told_after_a_free_from_outside(void **state)
{
	(void)state;
	struct subject *s = start("sleep");
	wait_ready(s);
	assert_int_equal(process_end(s->process, 0, on_done, s), 0);
	process_free(s->process);
	s->process = NULL;
	/* What was ordered to end is ended. */
	wait_for(is_childless, NULL);
	assert_string_equal(s->order, "s");
	process_free(NULL);
}

/* ---- Keepers that die ---- */

static void a_killed_keepers_processes_are_ended_by_search_and_unproven(void **state)
{
	(void)state;
	struct subject *other = start("escape");
	wait_ready(other);
	struct subject *s = start("escape");
	wait_ready(s);
	kill(process_keeper_pid(s->process), SIGKILL);
	wait_for(is_gone, s);
	assert_string_equal(s->order, "sxg");
	assert_false(s->exit.status_known);
	assert_false(s->proven);
	assert_int_equal(process_keeper_pid(s->process), 0);

	assert_int_equal(process_end(s->process, 1500, on_done, s), 0);
	wait_for(is_done, s);
	assert_true(s->receipt.unproven);
	assert_int_equal(s->receipt.nsurvivors, 0);
	assert_int_equal(s->receipt.nsteps, 3);
	assert_step(&s->receipt, 2, SIGKILL, 1500);

	/* The other console has lost nobody: program and three escapees. */
	assert_string_equal(other->order, "s");
	int left = 0;
	DIR *proc = opendir("/proc");
	for (const struct dirent *e; (e = readdir(proc));)
		left += e->d_name[0] >= '1' && e->d_name[0] <= '9' && environ_has(e->d_name, marker);
	closedir(proc);
	assert_int_equal(left, 4);
}

static void nobody_need_order_the_end_of_what_a_dead_keeper_leaves(void **state)
{
	(void)state;
	struct subject *s = start("ignore");
	wait_ready(s);
	pid_t keeper = process_keeper_pid(s->process);
	s->free_in = EXITED; /* its user has forgotten it by then */
	kill(keeper, SIGKILL);
	wait_for(is_childless, NULL);
	assert_int_equal(find_marked(marker), 0);
	assert_string_equal(s->order, "sx");
}

static void a_keeper_that_dies_in_the_middle_of_an_end_makes_it_unproven(void **state)
{
	(void)state;
	struct subject *s = start("ignore");
	wait_ready(s);
	assert_int_equal(process_end(s->process, 1000, on_done, s), 0);
	uint64_t until = clock_mono_ms() + 100;
	while (clock_mono_ms() < until)
		uv_run(loop, UV_RUN_NOWAIT);
	kill(process_keeper_pid(s->process), SIGKILL);
	wait_for(is_done, s);
	assert_string_equal(s->order, "sxgd");
	assert_true(s->receipt.unproven);
	assert_int_equal(find_marked(marker), 0);
}

static void a_keeper_killed_before_it_said_anything_is_a_failed_start(void **state)
{
	(void)state;
	struct subject *s = start("ignore");
	kill(process_keeper_pid(s->process), SIGKILL);
	wait_for(is_gone, s);
	/* It may have been quicker than the signal. */
	assert_true(strcmp(s->order, "fg") == 0 || strcmp(s->order, "sxg") == 0);
	assert_false(s->proven);
}

static void a_stopped_keeper_is_continued_to_do_its_work(void **state)
{
	(void)state;
	struct subject *s = start("sleep");
	wait_ready(s);
	kill(process_keeper_pid(s->process), SIGSTOP);
	assert_int_equal(process_end(s->process, 3000, on_done, s), 0);
	wait_for(is_done, s);
	assert_false(s->receipt.unproven);
	assert_int_equal(s->receipt.nsteps, 1);
}

static void orphans_from_before_are_nobodys(void **state)
{
	pid_t stranger;
	int ends[2];

	(void)state;
	/* A stranger of before, as a PID 1 may have: its parent is gone, it is ours. */
	assert_int_equal(pipe(ends), 0);
	pid_t parent = fork();
	if (parent == 0) {
		if (fork() > 0)
			_exit(0);
		stranger = getpid();
		if (write(ends[1], &stranger, sizeof(stranger)) == sizeof(stranger))
			pause_forever();
		_exit(1);
	}
	assert_int_equal(read(ends[0], &stranger, sizeof(stranger)), sizeof(stranger));
	close(ends[0]);
	close(ends[1]);
	wait_for(is_reaped, &parent);
	/* Start times are in hundredths of a second. */
	struct timespec tick = { .tv_nsec = 30 * 1000000 };
	nanosleep(&tick, NULL);

	struct subject *s = start("ignore");
	wait_ready(s);
	kill(process_keeper_pid(s->process), SIGKILL);
	assert_int_equal(process_end(s->process, 0, on_done, s), 0);
	wait_for(is_done, s);
	int alive = kill(stranger, 0);
	kill(stranger, SIGKILL);
	assert_int_equal(alive, 0);
	wait_for(is_reaped, &stranger); /* strangers are reaped when they die */
}

/* ---- Survivors ---- */

static void make_setuid_copy(char *path)
{
	char buf[65536];
	ssize_t n;

	int to = mkstemp(path), from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(to, buf, (size_t)n), n);
	close(from);
	assert_int_equal(fchmod(to, 04755), 0);
	close(to);
}

/* As a user whose program has become root, out of reach of that user's signals. 0: the receipt says so. */
static int end_what_is_roots(const char *path)
{
	struct subject *s = &subjects[0];

	loop = uv_default_loop();
	if (process_setup(loop) < 0)
		return 1;
	if (setresgid(54321, 54321, 54321) < 0 || setresuid(54321, 54321, 54321) < 0)
		return 2;
	start_path(s, path, "sleep");
	wait_ready(s);
	pid_t pid = process_pid(s->process);
	uint64_t before = clock_mono_ms();
	if (process_end(s->process, 0, on_done, s) < 0 || !turn_until(loop, is_done, s))
		return 3;
	if (clock_mono_ms() - before < PROCESS_SURVIVOR_MS)
		return 4;
	if (s->receipt.nsurvivors != 1 || s->receipt.survivors[0].pid != pid || s->receipt.nsteps != 0)
		return 5;
	return s->receipt.unproven || strcmp(s->order, "sd") != 0 ? 6 : 0;
}

static void what_the_user_may_not_kill_is_a_survivor_with_a_name(void **state)
{
	char path[] = "/tmp/ringside-survivor-XXXXXX";
	int status;

	(void)state;
	if (getuid() != 0)
		skip();
	make_setuid_copy(path);
	pid_t pid = fork();
	if (pid == 0)
		_exit(end_what_is_roots(path));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	for (pid_t left; (left = find_marked(marker)) != 0;)
		kill(left, SIGKILL);
	unlink(path);
	while (waitpid(-1, NULL, 0) > 0) /* its keeper, left alone, leaves by itself now */
		;
	assert_int_equal(status, 0);
}

/* ---- Nothing leaks ---- */

static void hundreds_of_programs_leak_nothing(void **state)
{
	(void)state;
	/* The first one opens what the loop keeps. */
	start("leave-at-once");
	wait_for(is_gone, &subjects[0]);
	assert_int_equal(clean_up(state), 0);
	const int fds = count_fds();

	for (int i = 0; i < 300; i++) {
		struct subject *s = start(i % 3 == 0 ? "escape" : "leave-at-once");
		if (i % 3 == 0) {
			if (i % 2 == 0)
				wait_ready(s);
			assert_int_equal(process_end(s->process, 0, on_done, s), 0);
			wait_for(is_done, s);
		}
		wait_for(is_gone, s);
		assert_int_equal(clean_up(state), 0);
	}
	assert_int_equal(count_fds(), fds);
}

#define TEST(name) cmocka_unit_test_teardown(name, clean_up)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_program_that_ends_is_told_in_order),
		TEST(a_start_that_fails_is_told_and_then_gone),
		TEST(what_a_program_leaves_is_told_with_its_exit),
		TEST(a_polite_program_gets_a_hangup_and_nothing_more),
		TEST(a_deaf_one_gets_all_three_in_their_time_with_its_escapees),
		TEST(stopped_programs_are_continued_to_take_their_hangup),
		TEST(no_grace_kills_at_once),
		TEST(a_bomb_is_ended_while_another_program_goes_on),
		TEST(an_end_before_the_start_was_told_ends_it_too),
		TEST(an_end_of_what_is_gone_has_no_steps),
		TEST(a_second_end_joins_the_first_and_may_hurry_it),
		TEST(a_group_signal_goes_to_the_program),
		TEST(freed_in_any_callback_it_is_told_nothing_more),
		TEST(freeing_ends_nothing),
		TEST(nothing_is_told_after_a_free_from_outside),
		TEST(a_killed_keepers_processes_are_ended_by_search_and_unproven),
		TEST(nobody_need_order_the_end_of_what_a_dead_keeper_leaves),
		TEST(a_keeper_that_dies_in_the_middle_of_an_end_makes_it_unproven),
		TEST(a_keeper_killed_before_it_said_anything_is_a_failed_start),
		TEST(a_stopped_keeper_is_continued_to_do_its_work),
		TEST(orphans_from_before_are_nobodys),
		TEST(hundreds_of_programs_leak_nothing),
	};

	/* Before this process has a loop: that test's runs in a process of its own. */
	const struct CMUnitTest survivors[] = {
		cmocka_unit_test(what_the_user_may_not_kill_is_a_survivor_with_a_name),
	};

	if (argc == 3 && geteuid() != getuid() && setresuid(0, 0, 0) < 0)
		return 3;
	scenario_main(argc, argv);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	snprintf(marker, sizeof(marker), "RINGSIDE_TEST_PROCESS=%d", (int)getpid());
	int failed = cmocka_run_group_tests(survivors, NULL, NULL);
	loop = uv_default_loop();
	if (process_setup(loop) < 0)
		return 1;
	return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
