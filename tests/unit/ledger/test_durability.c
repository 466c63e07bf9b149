/* What was acknowledged is in the file: after kill -9 in the middle of many commits, and after a disk that was full. */
#include "tests/unit/ledger/fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { WRITERS = 6 };

/* ---- kill -9 ---- */

struct writer_arg {
	struct ledger *ledger;
	uint64_t epoch;
	unsigned first;
	int acks;
};

/* Says each number on the pipe once its row has been acknowledged; the kill comes from outside. */
static void *write_and_say(void *p)
{
	struct writer_arg *a = p;

	for (unsigned n = a->first;; n++) {
		if (add_sandbox(a->ledger, a->epoch, n) != 0)
			_exit(3);
		if (write(a->acks, &n, sizeof(n)) != (ssize_t)sizeof(n))
			_exit(4);
	}
	return NULL;
}

static void child_writes_until_killed(const struct fixture *f, unsigned round, int acks)
{
	struct writer_arg a[WRITERS];
	pthread_t threads[WRITERS];
	struct ledger *l = NULL;
	char message[256];
	uint64_t epoch = 0;

	if (ledger_open(f->path, &l, message, sizeof(message)) < 0 || ledger_take_lease(l, "child", &epoch) < 0)
		_exit(2);
	for (unsigned i = 0; i < WRITERS; i++) {
		a[i] = (struct writer_arg){ l, epoch, round * 1000000 + i * 100000, acks };
		if (pthread_create(&threads[i], NULL, write_and_say, &a[i]) != 0)
			_exit(5);
	}
	for (;;)
		pause();
}

static bool is_acknowledged(const unsigned *acks, size_t n, const char *resource_id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(texts_of(acks[i]).resource, resource_id) == 0)
			return true;
	return false;
}

struct audit {
	const unsigned *acks;
	size_t n;
	unsigned acknowledged, others;
};

static bool audit_row(const struct ledger_resource *row, void *ctx)
{
	struct audit *a = ctx;

	if (is_acknowledged(a->acks, a->n, row->resource_id))
		a->acknowledged++;
	else
		a->others++;
	return true;
}

static void every_acknowledged_row_survives_kill_9(void **state)
{
	struct fixture *f = *state;
	static unsigned acks[20000];
	size_t n = 0;

	for (unsigned round = 1; round <= 5; round++) {
		int pipe_fds[2];
		unsigned ack = 0;
		size_t wanted = n + 60 * round;

		assert_int_equal(pipe(pipe_fds), 0);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			close(pipe_fds[0]);
			child_writes_until_killed(f, round, pipe_fds[1]);
		}
		close(pipe_fds[1]);
		/* Killed between two commits of its own choosing: some way on, while it is writing. */
		while (n < wanted && read(pipe_fds[0], &ack, sizeof(ack)) == (ssize_t)sizeof(ack))
			acks[n++] = ack;
		assert_int_equal(n, wanted);
		assert_int_equal(kill(pid, SIGKILL), 0);
		while (read(pipe_fds[0], &ack, sizeof(ack)) == (ssize_t)sizeof(ack))
			acks[n++] = ack;
		close(pipe_fds[0]);
		int status = 0;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));

		struct audit a = { acks, n, 0, 0 };
		fixture_open(f);
		assert_int_equal(ledger_each_resource(f->ledger, audit_row, &a), 0);
		assert_int_equal(a.acknowledged, n);
		/* Written, but the killed one had no time to say so: at most one of each writer and round. */
		assert_true(a.others <= WRITERS * round);
		fixture_close(f);
	}
}

/* ---- A full disk ---- */

static void limit_files_to(rlim_t bytes)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static rlim_t log_size(const struct fixture *f)
{
	char log[128];
	struct stat st;

	snprintf(log, sizeof(log), "%s-wal", f->path);
	assert_int_equal(stat(log, &st), 0);
	return (rlim_t)st.st_size;
}

static void a_full_disk_is_told_and_takes_nothing_back(void **state)
{
	struct fixture *f = *state;
	unsigned n = 0;
	int r = 0;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(add_sandbox(f->ledger, f->epoch, n++), 0);
	limit_files_to(log_size(f) + 40000);
	while (n < 1000 && (r = add_sandbox(f->ledger, f->epoch, n)) == 0)
		n++;
	assert_int_equal(r, -ENOSPC);
	assert_true(n > 1);

	/* As often as one likes; reading and fencing go on. */
	assert_int_equal(add_sandbox(f->ledger, f->epoch, n), -ENOSPC);
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-0", "sb-0"), -ENOSPC);
	assert_int_equal(ledger_fence(f->ledger, f->epoch), 0);
	assert_int_equal(count_resources(f->ledger), n);
	assert_int_equal(find_resource(f->ledger, "res-0").state, LEDGER_PENDING);

	limit_files_to(RLIM_INFINITY);
	assert_int_equal(ledger_set_live(f->ledger, f->epoch, "res-0", "sb-0"), 0);
	assert_int_equal(add_sandbox(f->ledger, f->epoch, n), 0);
	fixture_close(f);
	fixture_open(f);
	assert_int_equal(count_resources(f->ledger), n + 1);
	assert_int_equal(find_resource(f->ledger, "res-0").state, LEDGER_LIVE);
}

struct crowd {
	struct fixture *f;
	unsigned first;
	unsigned taken, refused, wrong;
	bool acknowledged[60];
};

static void *crowd_on(void *p)
{
	struct crowd *c = p;

	for (unsigned i = 0; i < 60; i++) {
		int r = add_sandbox(c->f->ledger, c->f->epoch, c->first + i);

		c->acknowledged[i] = r == 0;
		c->taken += r == 0;
		c->refused += r == -ENOSPC;
		c->wrong += r != 0 && r != -ENOSPC;
	}
	return NULL;
}

/* Several callers share a transaction; when it fails as a whole each must still get what is true of its own row. */
static void each_of_many_callers_at_a_full_disk_gets_the_truth(void **state)
{
	struct fixture *f = *state;
	struct crowd crowd[WRITERS];
	pthread_t threads[WRITERS];
	unsigned taken = 0, refused = 0;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(add_sandbox(f->ledger, f->epoch, 999999), 0);
	limit_files_to(log_size(f) + 400000);
	for (unsigned i = 0; i < WRITERS; i++) {
		crowd[i] = (struct crowd){ .f = f, .first = i * 1000 };
		assert_int_equal(pthread_create(&threads[i], NULL, crowd_on, &crowd[i]), 0);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	limit_files_to(RLIM_INFINITY);

	fixture_close(f);
	fixture_open(f);
	for (unsigned i = 0; i < WRITERS; i++) {
		taken += crowd[i].taken;
		refused += crowd[i].refused;
		assert_int_equal(crowd[i].wrong, 0);
		for (unsigned k = 0; k < 60; k++) {
			struct texts t = texts_of(crowd[i].first + k);

			assert_int_equal(find_resource(f->ledger, t.resource).found, crowd[i].acknowledged[k]);
			assert_int_equal(find_sandbox(f->ledger, t.sandbox).found, crowd[i].acknowledged[k]);
		}
	}
	assert_true(taken > 0 && refused > 0);
}

/* One caller's row is too large for what room there is: it alone is refused, however often its transaction is shared.
 */
struct large_writer {
	struct fixture *f;
	bool stop;
	unsigned tries, taken; /* of one thread */
};

static void *write_large_ones(void *p)
{
	struct large_writer *w = p;
	char *info = calloc(1, 1000000);
	struct ledger_console c = { .sandbox_id = "sb-999999",
		.name = "dev",
		.incarnation = 1,
		.state = 1,
		.info = info,
		.info_bytes = 1000000 };

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		w->tries++;
		w->taken += ledger_put_console(w->f->ledger, w->f->epoch, &c) != -ENOSPC;
	}
	free(info);
	return NULL;
}

static void a_row_that_finds_no_room_takes_none_from_a_small_one(void **state)
{
	struct fixture *f = *state;
	struct large_writer w[2] = { { .f = f }, { .f = f } };
	pthread_t large[2];

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(add_sandbox(f->ledger, f->epoch, 999999), 0);
	limit_files_to(log_size(f) + 900000);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&large[i], NULL, write_large_ones, &w[i]), 0);
	int r = 0;
	for (unsigned n = 0; n < 20 && r == 0; n++)
		r = add_resource(f->ledger, f->epoch, n);
	for (unsigned i = 0; i < 2; i++) {
		__atomic_store_n(&w[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(large[i], NULL);
	}
	limit_files_to(RLIM_INFINITY);
	assert_int_equal(r, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(w[i].taken, 0);
		assert_true(w[i].tries > 1);
	}
	assert_int_equal(count_resources(f->ledger), 21);
}

/* A new file that does not fit must not be left half: the next start would refuse it. */
static void a_ledger_that_does_not_fit_is_not_left_half_made(void **state)
{
	struct fixture *f = *state;
	struct ledger *l = NULL;

	signal(SIGXFSZ, SIG_IGN);
	limit_files_to(10000);
	int r = ledger_open(f->path, &l, f->message, sizeof(f->message));
	limit_files_to(RLIM_INFINITY);
	assert_true(r == -EFBIG || r == -ENOSPC);
	assert_int_equal(access(f->path, F_OK), -1);
	fixture_open(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_acknowledged_row_survives_kill_9, setup_directory, teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_is_told_and_takes_nothing_back, setup_ledger, teardown),
		cmocka_unit_test_setup_teardown(
		        each_of_many_callers_at_a_full_disk_gets_the_truth, setup_ledger, teardown),
		cmocka_unit_test_setup_teardown(
		        a_row_that_finds_no_room_takes_none_from_a_small_one, setup_ledger, teardown),
		cmocka_unit_test_setup_teardown(
		        a_ledger_that_does_not_fit_is_not_left_half_made, setup_directory, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
