/*
 * Record before serve, in single steps: what is started waits, dies with its starter before the byte, inherits nothing,
 * and a failed start says which step failed. The fake itself looks at what it inherits, and leaves where it finds more
 * or less.
 */
#include "tests/unit/providers/fixture.h"

#include <pthread.h>
#include <sys/resource.h>

#include "providers/spawn_consoled.h"
#include "wire/fd.h"
#include "wire/sock.h"

struct start {
	struct consoled_spec spec;
	struct consoled c;
	int dir, listen_fd, log_fd;
	char why[256];
};

static void prepare(struct fixture *f, struct start *s, const char *label)
{
	memset(s, 0, sizeof(*s));
	s->c = (struct consoled)CONSOLED_NONE;
	s->dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(s->dir >= 0);
	s->listen_fd = sock_bind_at(s->dir, "test.sock");
	assert_true(s->listen_fd >= 0);
	s->log_fd = openat(s->dir, "log", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	assert_true(s->log_fd >= 0);
	s->spec = (struct consoled_spec){
		.program = f->consoled,
		.label = label,
		.workspace = f->dir,
		.home = "/",
		.user = "tester",
		.shell = "/bin/sh",
		.path = "/usr/bin:/bin",
		.listen_fd = s->listen_fd,
		.log_fd = s->log_fd,
	};
}

static void done(struct start *s)
{
	consoled_abandon(&s->c);
	fd_close(&s->listen_fd);
	fd_close(&s->log_fd);
	fd_close(&s->dir);
	no_process_is_left();
}

static void fails_with(struct start *s, int expected, const char *said)
{
	int r = consoled_spawn(&s->spec, &s->c, s->why, sizeof(s->why));

	if (r != expected)
		fail_msg("answered %d: %s", r, s->why);
	if (!strstr(s->why, said))
		fail_msg("it says: %s", s->why);
	assert_int_equal(s->c.pidfd, -1);
	no_process_is_left();
}

static void spawn_and_commit(struct start *s)
{
	int r = consoled_spawn(&s->spec, &s->c, s->why, sizeof(s->why));

	if (r < 0)
		fail_msg("%d: %s", r, s->why);
	assert_int_equal(consoled_commit(&s->c), 0);
}

static void await_end(const struct consoled *c)
{
	assert_int_equal(instance_wait(c->pidfd, clock_mono_ms() + PATIENCE_MS), 0);
}

/* The fake checks descriptors, environment, session, directory, signals and socket before it serves. */
static void it_serves_after_its_byte_with_nothing_of_ours(void **state)
{
	struct fixture *f = *state;
	struct start s;
	sigset_t blocked;
	int fd = -1, stray = open("/dev/null", O_RDONLY); /* not close-on-exec, as a careless library leaves one */

	setenv("RINGSIDE_CANARY", "secret", 1);
	sigfillset(&blocked);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	prepare(f, &s, "box");
	spawn_and_commit(&s);
	assert_int_equal(consoled_await(&s.c, s.dir, "test.sock", clock_mono_ms() + PATIENCE_MS, &fd), 0);
	assert_true(fd >= 0);
	close(fd);
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
	close(stray);
	done(&s);
}

static void what_is_told_is_who_it_is(void **state)
{
	struct fixture *f = *state;
	struct start s;
	uint64_t start_time = 0;
	char program[PATH_MAX] = "", link[64];

	prepare(f, &s, "box");
	assert_int_equal(consoled_spawn(&s.spec, &s.c, s.why, sizeof(s.why)), 0);
	assert_int_equal(instance_start_time(s.c.instance.pid, &start_time), 0);
	assert_int_equal(s.c.instance.start_time, start_time);
	assert_true(is_alive(&s.c.instance));
	snprintf(link, sizeof(link), "/proc/%ld/exe", (long)s.c.instance.pid);
	if (readlink(link, program, sizeof(program) - 1) > 0) /* the real one forbids that to all but root */
		assert_string_equal(strrchr(program, '/'), strrchr(f->consoled, '/'));
	done(&s);
}

static void before_its_byte_it_answers_nobody(void **state)
{
	struct fixture *f = *state;
	struct start s;
	int fd = -1;

	prepare(f, &s, "box");
	assert_int_equal(consoled_spawn(&s.spec, &s.c, s.why, sizeof(s.why)), 0);
	/* It may listen already; nobody is served. */
	int r = consoled_await(&s.c, s.dir, "test.sock", clock_mono_ms() + 100, &fd);
	if (r == 0) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		assert_int_equal(poll(&p, 1, 100), 0);
		close(fd);
	} else {
		assert_int_equal(r, -ETIMEDOUT);
	}
	assert_true(is_alive(&s.c.instance));
	done(&s);
}

static void without_its_byte_it_leaves(void **state)
{
	struct fixture *f = *state;
	struct start s;

	prepare(f, &s, "box");
	assert_int_equal(consoled_spawn(&s.spec, &s.c, s.why, sizeof(s.why)), 0);
	fd_close(&s.c.commit_fd); /* as the kernel does for a starter that dies */
	await_end(&s.c);
	assert_int_equal(consoled_commit(&s.c), -EBADF);
	done(&s);
}

static void one_that_died_before_its_byte_is_told(void **state)
{
	struct fixture *f = *state;
	struct start s;
	int fd = -1;

	prepare(f, &s, "box");
	assert_int_equal(consoled_spawn(&s.spec, &s.c, s.why, sizeof(s.why)), 0);
	assert_int_equal(instance_kill(s.c.pidfd, SIGKILL), 0);
	await_end(&s.c);
	assert_int_equal(consoled_commit(&s.c), -EPIPE); /* and no SIGPIPE, which would end this test */
	assert_int_equal(consoled_await(&s.c, s.dir, "test.sock", clock_mono_ms() + PATIENCE_MS, &fd), -ESRCH);
	done(&s);
}

static void one_that_never_listens_is_given_up_in_time(void **state)
{
	struct fixture *f = *state;
	struct start s;
	int fd = -1;

	if (f->real)
		skip();
	prepare(f, &s, "mute");
	spawn_and_commit(&s);
	uint64_t before = clock_mono_ms();
	assert_int_equal(consoled_await(&s.c, s.dir, "test.sock", before + 200, &fd), -ETIMEDOUT);
	assert_true(clock_mono_ms() >= before + 200);
	assert_int_equal(fd, -1);
	done(&s);
}

static void one_that_dies_at_its_byte_is_told_at_once(void **state)
{
	struct fixture *f = *state;
	struct start s;
	int fd = -1;

	if (f->real)
		skip();
	prepare(f, &s, "dies");
	spawn_and_commit(&s);
	assert_int_equal(consoled_await(&s.c, s.dir, "test.sock", clock_mono_ms() + 10 * PATIENCE_MS, &fd), -ESRCH);
	done(&s);
}

/* The starter has the socket open still, so it goes on listening, in the name of one who has died. */
static void a_dead_ones_socket_is_not_taken_for_it(void **state)
{
	struct fixture *f = *state;
	struct start s;
	int fd = -1;

	prepare(f, &s, "box");
	spawn_and_commit(&s);
	assert_int_equal(consoled_await(&s.c, s.dir, "test.sock", clock_mono_ms() + PATIENCE_MS, &fd), 0);
	fd_close(&fd);
	assert_int_equal(instance_kill(s.c.pidfd, SIGKILL), 0);
	await_end(&s.c);
	assert_int_equal(consoled_await(&s.c, s.dir, "test.sock", clock_mono_ms() + PATIENCE_MS, &fd), -ESRCH);
	assert_int_equal(fd, -1);
	done(&s);
}

/* Somebody else listens at the name: whoever it is, it is not the one that was started. */
static void another_listener_is_not_taken_for_it(void **state)
{
	struct fixture *f = *state;
	struct start s;
	int fd = -1;

	prepare(f, &s, "box");
	spawn_and_commit(&s);
	int own = sock_bind_at(s.dir, "own.sock");
	assert_true(own >= 0);
	assert_int_equal(listen(own, 4), 0);
	assert_int_equal(consoled_await(&s.c, s.dir, "own.sock", clock_mono_ms() + PATIENCE_MS, &fd), -EBADE);
	assert_int_equal(fd, -1);
	close(own);
	done(&s);
}

static void a_program_that_cannot_run_is_named(void **state)
{
	struct fixture *f = *state;
	struct start s;
	char plain[128];

	prepare(f, &s, "box");
	s.spec.program = "/nonexistent/ringside-consoled";
	fails_with(&s, -ENOENT, "cannot execute /nonexistent/ringside-consoled: No such file");
	snprintf(plain, sizeof(plain), "%s/plain", f->dir);
	close(open(plain, O_WRONLY | O_CREAT | O_CLOEXEC, 0700));
	s.spec.program = plain;
	fails_with(&s, -ENOEXEC, "cannot execute");
	assert_int_equal(chmod(plain, 0600), 0);
	fails_with(&s, -EACCES, "cannot execute");
	done(&s);
}

/* Lowers the limit until each of the descriptors in turn is the one too many. */
static void running_out_of_descriptors_is_an_error_at_every_step(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, r;
	struct start s;
	unsigned failures = 0;

	prepare(f, &s, "box");
	int highest = fcntl(s.dir, F_DUPFD_CLOEXEC, 0);
	close(highest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (rlim_t n = (rlim_t)highest; n < (rlim_t)highest + 20; n++) {
		r = before;
		r.rlim_cur = n;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
		int got = consoled_spawn(&s.spec, &s.c, s.why, sizeof(s.why));
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		if (got < 0) {
			assert_true(got == -EMFILE || got == -EINVAL);
			assert_true(s.why[0] != '\0');
			failures++;
		}
		consoled_abandon(&s.c);
		s.c = (struct consoled)CONSOLED_NONE;
		no_process_is_left();
	}
	assert_true(failures >= 5);
	int again = fcntl(s.dir, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(again, highest); /* none was left open */
	close(again);
	done(&s);
}

/* From a process with many threads at once: each gets its own, and none holds another's byte back. */
enum { THREADS = 6, EACH = 8 };

struct starter {
	struct fixture *f;
	unsigned number, failures;
};

static void *start_some(void *arg)
{
	struct starter *t = arg;
	struct start s;

	for (unsigned i = 0; i < EACH; i++) {
		char socket[32], *p = malloc(1000); /* an allocator's lock to be held by somebody at the fork */
		int fd = -1;

		memset(&s, 0, sizeof(s));
		s.dir = open(t->f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		snprintf(socket, sizeof(socket), "t%u-%u.sock", t->number, i);
		s.listen_fd = sock_bind_at(s.dir, socket);
		s.log_fd = openat(s.dir, "log", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
		s.spec = (struct consoled_spec){ t->f->consoled, "box", t->f->dir, "/", "t", "/bin/sh", "/bin",
			s.listen_fd, s.log_fd };
		int r = consoled_spawn(&s.spec, &s.c, s.why, sizeof(s.why));
		if (r == 0 && i % 2 == 0) {
			r = consoled_commit(&s.c);
			if (r == 0)
				r = consoled_await(&s.c, s.dir, socket, clock_mono_ms() + PATIENCE_MS, &fd);
			fd_close(&fd);
		} else if (r == 0) {
			fd_close(&s.c.commit_fd);
			r = instance_wait(s.c.pidfd, clock_mono_ms() + PATIENCE_MS);
		}
		t->failures += r != 0;
		consoled_abandon(&s.c);
		fd_close(&s.listen_fd);
		fd_close(&s.log_fd);
		fd_close(&s.dir);
		free(p);
	}
	return NULL;
}

static void many_threads_start_many(void **state)
{
	struct fixture *f = *state;
	struct starter t[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		t[i] = (struct starter){ f, i, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, start_some, &t[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(t[i].failures, 0);
	}
	no_process_is_left();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(it_serves_after_its_byte_with_nothing_of_ours),
		TEST(what_is_told_is_who_it_is),
		TEST(before_its_byte_it_answers_nobody),
		TEST(without_its_byte_it_leaves),
		TEST(one_that_died_before_its_byte_is_told),
		TEST(one_that_never_listens_is_given_up_in_time),
		TEST(one_that_dies_at_its_byte_is_told_at_once),
		TEST(a_dead_ones_socket_is_not_taken_for_it),
		TEST(another_listener_is_not_taken_for_it),
		TEST(a_program_that_cannot_run_is_named),
		TEST(running_out_of_descriptors_is_an_error_at_every_step),
		TEST(many_threads_start_many),
	};

	fake_consoled_if_asked(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
