/*
 * Survival: the caller is killed at every step, by name where the build has crash points and at random everywhere, and
 * a later process, which knows nothing but the operation key and what was recorded, ends with no process, socket or
 * folder left.
 *
 *   RINGSIDE_CONSOLED=PATH          the real console daemon in place of the fake one
 *   RINGSIDE_SURVIVAL_ROUNDS=N      more rounds than the 240 by default
 *   RINGSIDE_SURVIVAL_SEED=N        the random numbers of an earlier run (its moments still depend on the machine)
 */
#include "tests/unit/providers/fixture.h"

#include "providers/crashpoint.h"

#define KEY "create:sb-1:0f"

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13; /* xorshift64 */
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return n ? seed % n : 0;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value && *value ? strtoull(value, NULL, 10) : otherwise;
}

/* ---- What the processes do that are killed. Exit status 0: done; anything else names the step that was wrong. ---- */

/* As ringsided does for a new sandbox. */
static int bring_up(struct fixture *f, const char *name)
{
	struct sandbox_session *s = NULL;
	int fd = -1;

	if (try_create(f, "sb-1", KEY, name, NULL, &s) != RESULT_OK)
		return 10;
	if (session_connect(s, &f->ctx, &fd, &f->err) != RESULT_OK)
		return 11;
	return 0;
}

/* A living daemon that its last starter did not commit hangs up at once; the next try finds it gone. */
static int reconnect(struct fixture *f, struct sandbox_session *s)
{
	for (int tries = 0; tries < 10; tries++) {
		int fd = -1;

		if (session_connect(s, &f->ctx, &fd, &f->err) != RESULT_OK)
			return 20;
		struct pollfd p = { .fd = fd, .events = POLLIN };
		bool gone = poll(&p, 1, 30) > 0;
		close(fd);
		if (!gone)
			return 0;
	}
	return 21;
}

/* As ringsided does for a row that a crash left behind. */
static int settle(struct fixture *f, bool use_it_first)
{
	struct sandbox_session *s = NULL, *attached = NULL;
	enum lookup_outcome outcome = LOOKUP_UNKNOWN;

	if (adapter_lookup(f->host, &f->ctx, KEY, &outcome, &s, &f->err) != RESULT_OK)
		return 30;
	if (outcome == LOOKUP_NOT_FOUND)
		return 0;
	if (outcome != LOOKUP_FOUND)
		return 31;
	if (adapter_attach(f->host, &f->ctx, s->ref, &attached, &f->err) != RESULT_OK)
		return 32;
	if (use_it_first && reconnect(f, attached) != 0)
		return 33;
	if (session_close(attached, &f->ctx, &f->err) != RESULT_OK)
		return 34;
	if (adapter_attach(f->host, &f->ctx, s->ref, &attached, &f->err) != RESULT_NOT_FOUND)
		return 35;
	if (adapter_lookup(f->host, &f->ctx, KEY, &outcome, &s, &f->err) != RESULT_OK || outcome != LOOKUP_NOT_FOUND)
		return 36;
	return 0;
}

enum job { BRING_UP, SETTLE, USE_AND_SETTLE };

static int run_job(struct fixture *f, enum job job, const char *name)
{
	int r = job == BRING_UP ? bring_up(f, name) : settle(f, job == USE_AND_SETTLE);

	if (r != 0)
		dprintf(STDERR_FILENO, "step %d: %s\n", r, f->err.message);
	return r;
}

static pid_t start_job(struct fixture *f, enum job job, const char *name, const char *crash_at)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("RINGSIDE_CRASH_AT", crash_at, 1);
		_exit(run_job(f, job, name));
	}
	return pid;
}

static int end_of(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void must_succeed(int status)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("a process that nobody killed ended with status 0x%x", (unsigned)status);
}

/* Starts job and kills it after us microseconds, if it is not done by then. True: it was killed. */
static bool run_and_kill(struct fixture *f, enum job job, uint64_t us)
{
	struct timespec delay = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 };

	pid_t pid = start_job(f, job, "box", "");
	nanosleep(&delay, NULL);
	kill(pid, SIGKILL);
	int status = end_of(pid);
	if (WIFSIGNALED(status))
		return true;
	must_succeed(status);
	return false;
}

static void nothing_is_left(struct fixture *f)
{
	no_process_is_left();
	nothing_is_on_the_disk(f);
}

/* How long a job takes that nobody disturbs, so that the kills fall into it. */
static uint64_t measure_us(struct fixture *f, enum job job)
{
	uint64_t before = clock_mono_ns();

	must_succeed(end_of(start_job(f, job, "box", "")));
	return (clock_mono_ns() - before) / 1000;
}

/* ---- At random ---- */

static void killed_at_any_moment_nothing_is_left_in_the_end(void **state)
{
	struct fixture *f = *state;
	uint64_t rounds = setting("RINGSIDE_SURVIVAL_ROUNDS", 240);
	unsigned killed_up = 0, killed_settling = 0, found_nothing = 0;
	uint64_t up_us = measure_us(f, BRING_UP), down_us = measure_us(f, SETTLE);

	nothing_is_left(f);
	for (uint64_t round = 0; round < rounds; round++) {
		killed_up += run_and_kill(f, BRING_UP, random_below(up_us + up_us / 4));
		found_nothing += !exists(path_of(f, "sb-1", ""));
		/* Recovery may make use of the sandbox first. It may be killed as well, even twice; but where a close
		 * may have begun, the row says releasing, and nobody uses the sandbox any more. */
		enum job job = random_below(2) ? SETTLE : USE_AND_SETTLE;
		for (uint64_t times = random_below(3); times > 0; times--, job = SETTLE)
			killed_settling += run_and_kill(f, job, random_below(down_us + down_us / 4));
		must_succeed(end_of(start_job(f, job, "box", "")));
		nothing_is_left(f);
	}
	print_message("%u of %u creations and %u recoveries killed; %u had not come to a folder\n", killed_up,
	        (unsigned)rounds, killed_settling, found_nothing);
	/* Or it was never the middle that was hit, and nothing has been shown. */
	assert_true(killed_up > rounds / 4);
	assert_true(killed_up < rounds || found_nothing < rounds);
	assert_true(killed_settling > rounds / 16);
}

/* The console daemon dies, too, by itself or together with its starter. */
static void killed_together_with_the_daemon_nothing_is_left_either(void **state)
{
	struct fixture *f = *state;
	uint64_t up_us = measure_us(f, BRING_UP);

	must_succeed(end_of(start_job(f, SETTLE, "box", "")));
	nothing_is_left(f);
	for (unsigned round = 0; round < 40; round++) {
		char line[SANDBOX_INSTANCE_BYTES];
		struct instance i;

		run_and_kill(f, BRING_UP, up_us / 2 + random_below(up_us));
		assert_int_equal(load_instance(f, "sb-1", line, sizeof(line)), 0);
		if (instance_parse(line, &i) == 0)
			assert_int_equal(instance_end(&i, clock_mono_ms() + PATIENCE_MS), 0);
		must_succeed(end_of(start_job(f, round % 2 ? SETTLE : USE_AND_SETTLE, "box", "")));
		nothing_is_left(f);
	}
}

/* Killed again and again while bringing up the same sandbox: the same key takes up what was begun, and there is never
 * more than one daemon. */
static void bringing_up_again_after_each_kill_comes_to_one_sandbox(void **state)
{
	struct fixture *f = *state;
	uint64_t up_us = measure_us(f, BRING_UP);

	must_succeed(end_of(start_job(f, SETTLE, "box", "")));
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned times = 0; times < 4; times++)
			run_and_kill(f, BRING_UP, random_below(up_us));
		must_succeed(end_of(start_job(f, BRING_UP, "box", "")));

		/* All that is alive and ours is the recorded one: end it, and nobody may be left. */
		struct instance i = recorded_instance(f, "sb-1");
		assert_true(is_alive(&i));
		assert_int_equal(instance_end(&i, clock_mono_ms() + PATIENCE_MS), 0);
		no_process_is_left();
		must_succeed(end_of(start_job(f, SETTLE, "box", "")));
		nothing_is_left(f);
	}
}

/* ---- By name ---- */

#ifdef RINGSIDE_CRASH_POINTS
static const struct {
	const char *name;
	enum job job;
	const char *label; /* of the sandbox: what the fake does */
} points[] = {
	{ "host.create.after_mkdir", BRING_UP, "box" },
	{ "host.create.after_workspace", BRING_UP, "box" },
	{ "host.create.after_record", BRING_UP, "box" },
	{ "host.create.after_rename", BRING_UP, "box" },
	{ "host.connect.after_bind", BRING_UP, "box" },
	{ "consoled.spawn.after_exec", BRING_UP, "box" },
	{ "host.connect.after_record", BRING_UP, "box" },
	{ "host.connect.after_commit", BRING_UP, "box" },
	{ "host.close.before_kill", SETTLE, "deaf" },
	{ "host.close.after_stop", SETTLE, "box" },
	{ "host.close.after_contents", SETTLE, "box" },
	{ "host.close.after_rename", SETTLE, "box" },
	{ "host.close.after_record", SETTLE, "box" },
};

static void killed_at_every_named_point_nothing_is_left(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		if (f->real && strcmp(points[i].label, "box") != 0)
			continue;
		f->ctx.deadline_ms = clock_mono_ms() + 4000; /* half of it for asking a deaf one */
		if (points[i].job != BRING_UP)
			must_succeed(end_of(start_job(f, BRING_UP, points[i].label, "")));
		int status = end_of(start_job(f, points[i].job, points[i].label, points[i].name));
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			fail_msg("%s was not reached: status 0x%x", points[i].name, (unsigned)status);
		f->ctx.deadline_ms = clock_mono_ms() + 4000;
		must_succeed(end_of(start_job(f, SETTLE, points[i].label, "")));
		f->ctx.deadline_ms = 0;
		nothing_is_left(f);
	}
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#ifdef RINGSIDE_CRASH_POINTS
		TEST(killed_at_every_named_point_nothing_is_left),
#endif
		TEST(killed_at_any_moment_nothing_is_left_in_the_end),
		TEST(killed_together_with_the_daemon_nothing_is_left_either),
		TEST(bringing_up_again_after_each_kill_comes_to_one_sandbox),
	};

	fake_consoled_if_asked(argc, argv);
	seed = setting("RINGSIDE_SURVIVAL_SEED", clock_wall_ms() | 1);
	print_message("RINGSIDE_SURVIVAL_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
