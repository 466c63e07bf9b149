/*
 * test_jobs.c - the promises of sandboxes/jobs.h: order within a lane, none between lanes, bounds, and whose thread
 * does what.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include <cmocka.h>

#include "sandboxes/jobs.h"

#define DEADLINE_MS 30000
#define MAX_THREADS 4

struct fixture {
	uv_loop_t loop;
	uv_timer_t deadline;
	struct jobs *jobs;
	unsigned idle_calls;
	bool late;
};

static void on_deadline(uv_timer_t *t)
{
	((struct fixture *)t->data)->late = true;
}

static void on_idle(void *ctx)
{
	((struct fixture *)ctx)->idle_calls++;
}

static void begin(struct fixture *f, unsigned threads, uint64_t idle_ms)
{
	*f = (struct fixture){ 0 };
	assert_int_equal(uv_loop_init(&f->loop), 0);
	uv_timer_init(&f->loop, &f->deadline);
	f->deadline.data = f;
	assert_int_equal(jobs_new(&f->loop, threads, idle_ms, on_idle, f, &f->jobs), 0);
}

/* Lets the loop run until the jobs are done. */
static void finish(struct fixture *f)
{
	uv_timer_start(&f->deadline, on_deadline, DEADLINE_MS, 0);
	while (!jobs_idle(f->jobs) && !f->late)
		uv_run(&f->loop, UV_RUN_ONCE);
	uv_timer_stop(&f->deadline);
	assert_false(f->late);
}

static void end(struct fixture *f)
{
	finish(f);
	jobs_free(f->jobs);
	uv_close((uv_handle_t *)&f->deadline, NULL);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
}

static bool wait_for(sem_t *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DEADLINE_MS / 1000;
	int r;
	do
		r = sem_timedwait(s, &until);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

/* ---- Order ---- */

#define MANY 500

struct record {
	pthread_mutex_t lock;
	int worked[MANY], done[MANY];
	int nworked, ndone;
	int at_once, most_at_once;
};

struct numbered {
	struct record *record;
	int number;
};

static void number_work(void *arg)
{
	struct numbered *n = arg;

	pthread_mutex_lock(&n->record->lock);
	n->record->worked[n->record->nworked++] = n->number;
	pthread_mutex_unlock(&n->record->lock);
}

static void number_done(void *arg)
{
	struct numbered *n = arg;

	n->record->done[n->record->ndone++] = n->number;
}

static void jobs_of_a_lane_run_one_after_another_in_order(void **state)
{
	struct fixture f;
	struct record record = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct lane *lane;

	(void)state;
	begin(&f, MAX_THREADS, 1000);
	assert_int_equal(lane_new(f.jobs, &lane), 0);
	for (int i = 0; i < MANY; i++) {
		struct numbered n = { &record, i };
		assert_int_equal(lane_add(lane, number_work, number_done, &n, sizeof(n)), 0);
	}
	finish(&f);
	assert_int_equal(record.nworked, MANY);
	assert_int_equal(record.ndone, MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(record.worked[i], i);
		assert_int_equal(record.done[i], i);
	}
	lane_free(lane);
	end(&f);
}

/* Two jobs that each wait for the other to have begun: they end only when they run at once. */
struct meeting {
	sem_t *come, *other;
	bool met;
};

static void meet(void *arg)
{
	struct meeting *m = arg;

	sem_post(m->come);
	m->met = wait_for(m->other);
}

static void count_met(void *arg)
{
	struct meeting *m = arg;

	assert_true(m->met);
}

static void lanes_do_not_wait_for_each_other(void **state)
{
	struct fixture f;
	struct lane *a, *b;
	sem_t first, second;

	(void)state;
	begin(&f, MAX_THREADS, 1000);
	sem_init(&first, 0, 0);
	sem_init(&second, 0, 0);
	assert_int_equal(lane_new(f.jobs, &a), 0);
	assert_int_equal(lane_new(f.jobs, &b), 0);
	assert_int_equal(
	        lane_add(a, meet, count_met, &(struct meeting){ &first, &second, false }, sizeof(struct meeting)), 0);
	assert_int_equal(
	        lane_add(b, meet, count_met, &(struct meeting){ &second, &first, false }, sizeof(struct meeting)), 0);
	finish(&f);
	lane_free(a);
	lane_free(b);
	end(&f);
}

/* ---- Bounds ---- */

struct counted {
	struct record *record;
	sem_t *go;
};

static void count_work(void *arg)
{
	struct counted *c = arg;
	struct record *r = c->record;

	pthread_mutex_lock(&r->lock);
	r->at_once++;
	if (r->at_once > r->most_at_once)
		r->most_at_once = r->at_once;
	pthread_mutex_unlock(&r->lock);
	assert_true(wait_for(c->go));
	pthread_mutex_lock(&r->lock);
	r->at_once--;
	r->nworked++;
	pthread_mutex_unlock(&r->lock);
}

static void threads_are_bounded_and_the_rest_waits_its_turn(void **state)
{
	struct fixture f;
	struct record record = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct lane *lanes[3 * MAX_THREADS];
	sem_t go;

	(void)state;
	begin(&f, MAX_THREADS, 1000);
	sem_init(&go, 0, 0);
	for (int i = 0; i < 3 * MAX_THREADS; i++) {
		struct counted c = { &record, &go };
		assert_int_equal(lane_new(f.jobs, &lanes[i]), 0);
		assert_int_equal(lane_add(lanes[i], count_work, NULL, &c, sizeof(c)), 0);
		assert_true(jobs_threads(f.jobs) <= MAX_THREADS);
	}
	for (int i = 0; i < 3 * MAX_THREADS; i++)
		sem_post(&go);
	finish(&f);
	assert_int_equal(record.nworked, 3 * MAX_THREADS);
	assert_true(record.most_at_once <= MAX_THREADS);
	for (int i = 0; i < 3 * MAX_THREADS; i++)
		lane_free(lanes[i]);
	end(&f);
}

static void a_full_lane_refuses_and_takes_nothing(void **state)
{
	struct fixture f;
	struct record record = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct lane *lane;
	sem_t go;
	struct counted c = { &record, &go };
	int taken = 0, r;

	(void)state;
	begin(&f, 1, 1000);
	sem_init(&go, 0, 0);
	assert_int_equal(lane_new(f.jobs, &lane), 0);
	while ((r = lane_add(lane, count_work, NULL, &c, sizeof(c))) == 0)
		assert_true(++taken <= LANE_MAX_JOBS + 1);
	assert_int_equal(r, -EBUSY);
	assert_true(taken >= LANE_MAX_JOBS);
	for (int i = 0; i < taken; i++)
		sem_post(&go);
	finish(&f);
	assert_int_equal(record.nworked, taken);
	sem_post(&go);
	assert_int_equal(lane_add(lane, count_work, NULL, &c, sizeof(c)), 0); /* there is room again */
	finish(&f);
	lane_free(lane);
	end(&f);
}

static void a_pool_that_refuses_takes_nothing(void **state)
{
	struct fixture f;
	struct record record = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct lane *lane;

	(void)state;
	begin(&f, MAX_THREADS, 1000);
	assert_int_equal(lane_new(f.jobs, &lane), 0);
	jobs_refuse(f.jobs);
	assert_int_equal(
	        lane_add(lane, number_work, number_done, &(struct numbered){ &record, 1 }, sizeof(struct numbered)),
	        -ESHUTDOWN);
	assert_true(jobs_idle(f.jobs));
	lane_free(lane);
	end(&f);
	assert_int_equal(record.nworked, 0);
}

static void threads_without_work_end(void **state)
{
	struct fixture f;
	struct record record = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct lane *lane;

	(void)state;
	begin(&f, MAX_THREADS, 20);
	assert_int_equal(lane_new(f.jobs, &lane), 0);
	assert_int_equal(jobs_threads(f.jobs), 0);
	assert_int_equal(
	        lane_add(lane, number_work, number_done, &(struct numbered){ &record, 1 }, sizeof(struct numbered)), 0);
	finish(&f);
	uv_timer_start(&f.deadline, on_deadline, DEADLINE_MS, 0);
	while (jobs_threads(f.jobs) > 0 && !f.late)
		uv_run(&f.loop, UV_RUN_NOWAIT);
	assert_false(f.late);
	/* And one is there again when it is needed. */
	assert_int_equal(
	        lane_add(lane, number_work, number_done, &(struct numbered){ &record, 2 }, sizeof(struct numbered)), 0);
	finish(&f);
	assert_int_equal(record.ndone, 2);
	lane_free(lane);
	end(&f);
}

/* ---- Whose thread, whose memory ---- */

struct seen {
	pthread_t loop_thread;
	bool worked_elsewhere, all_blocked;
	bool *done_here;
};

static void look_around(void *arg)
{
	struct seen *s = arg;
	sigset_t mask;

	s->worked_elsewhere = !pthread_equal(pthread_self(), s->loop_thread);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	s->all_blocked = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGCHLD) && sigismember(&mask, SIGHUP);
}

static void check_around(void *arg)
{
	struct seen *s = arg;

	assert_true(s->worked_elsewhere);
	assert_true(s->all_blocked);
	*s->done_here = pthread_equal(pthread_self(), s->loop_thread);
}

static void work_runs_elsewhere_without_signals_and_done_on_the_loops_thread(void **state)
{
	struct fixture f;
	struct lane *lane;
	bool done_here = false;

	(void)state;
	begin(&f, MAX_THREADS, 1000);
	assert_int_equal(lane_new(f.jobs, &lane), 0);
	struct seen s = { .loop_thread = pthread_self(), .done_here = &done_here };
	assert_int_equal(lane_add(lane, look_around, check_around, &s, sizeof(s)), 0);
	memset(&s, 0x5a, sizeof(s)); /* the job has its own copy */
	finish(&f);
	assert_true(done_here);
	lane_free(lane);
	end(&f);
}

struct chain {
	struct lane *lane;
	int *left;
};

static void chain_work(void *arg)
{
	(void)arg;
}

static void chain_done(void *arg)
{
	struct chain *c = arg;

	if (--*c->left > 0)
		assert_int_equal(lane_add(c->lane, chain_work, chain_done, c, sizeof(*c)), 0);
	else
		lane_free(c->lane); /* from its own last job */
}

static void done_may_add_jobs_and_free_its_lane(void **state)
{
	struct fixture f;
	struct lane *lane;
	int left = 100;

	(void)state;
	begin(&f, MAX_THREADS, 1000);
	assert_int_equal(lane_new(f.jobs, &lane), 0);
	assert_int_equal(
	        lane_add(lane, chain_work, chain_done, &(struct chain){ lane, &left }, sizeof(struct chain)), 0);
	uv_run(&f.loop, UV_RUN_DEFAULT); /* work in hand keeps the loop running */
	assert_int_equal(left, 0);
	end(&f);
}

static void a_freed_lane_ends_what_it_was_given(void **state)
{
	struct fixture f;
	struct record record = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct lane *lane;

	(void)state;
	begin(&f, MAX_THREADS, 1000);
	assert_int_equal(lane_new(f.jobs, &lane), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(lane_add(lane, number_work, number_done, &(struct numbered){ &record, i },
		                         sizeof(struct numbered)),
		        0);
	lane_free(lane);
	finish(&f);
	assert_int_equal(record.ndone, 10);
	assert_true(f.idle_calls >= 1);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_of_a_lane_run_one_after_another_in_order),
		cmocka_unit_test(lanes_do_not_wait_for_each_other),
		cmocka_unit_test(threads_are_bounded_and_the_rest_waits_its_turn),
		cmocka_unit_test(a_full_lane_refuses_and_takes_nothing),
		cmocka_unit_test(a_pool_that_refuses_takes_nothing),
		cmocka_unit_test(threads_without_work_end),
		cmocka_unit_test(work_runs_elsewhere_without_signals_and_done_on_the_loops_thread),
		cmocka_unit_test(done_may_add_jobs_and_free_its_lane),
		cmocka_unit_test(a_freed_lane_ends_what_it_was_given),
	};
	return cmocka_run_group_tests_name("jobs", tests, NULL, NULL);
}
