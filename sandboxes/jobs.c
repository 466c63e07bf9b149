/*
 * jobs.c - the lanes and threads of jobs.h.
 *
 *   lane: [job][job]…      A lane stands in the pool's queue of ready lanes when it has a job and none of its jobs
 * runs. ready lanes ─► thread: takes the oldest lane's first job, runs it, puts it on the done list, and the lane back
 * in the queue when it has more. uv_async wakes the loop, which calls done() for the whole list.
 *
 * One mutex guards everything that threads share: both queues, each lane's jobs and flags, the counters. It is never
 * held while a job or a callback runs.
 */
#include "sandboxes/jobs.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a worker needs at most: SQLite's and an adapter's frames, with room. The default of 8 MiB is address space that
 * 64 threads do not need. */
#define WORKER_STACK_BYTES ((size_t)1024 * 1024)

struct job {
	struct job *next;
	struct lane *lane;
	job_fn *work, *done;
	_Alignas(max_align_t) unsigned char arg[];
};

struct job_queue {
	struct job *first, **end;
};

struct lane {
	struct jobs *pool;
	struct lane *next_ready;
	struct job_queue jobs;
	unsigned waiting;
	unsigned undone; /* taken, and not yet past done(); used by the loop's thread alone */
	bool running;    /* one of its jobs is on a thread */
	bool freed;      /* lane_free() was called; the loop's thread alone */
};

struct worker {
	struct worker *next;
	pthread_t thread;
	struct jobs *pool;
};

struct jobs {
	uv_async_t wake;
	void (*on_idle)(void *ctx);
	void *ctx;
	unsigned max_threads;
	uint64_t idle_ms;
	unsigned undone; /* this one and the next: the loop's thread alone */
	bool refusing;

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t work, left;
	struct lane *ready_first, **ready_end;
	unsigned ready; /* lanes in that queue */
	struct job_queue done;
	struct worker *ended; /* to be joined */
	unsigned threads, sleeping;
	bool stopping;
};

/* ---- Queues; under the lock ---- */

static void queue_init(struct job_queue *q)
{
	q->first = NULL;
	q->end = &q->first;
}

static void queue_add(struct job_queue *q, struct job *job)
{
	job->next = NULL;
	*q->end = job;
	q->end = &job->next;
}

static struct job *queue_take(struct job_queue *q)
{
	struct job *job = q->first;

	q->first = job->next;
	if (!q->first)
		q->end = &q->first;
	return job;
}

static void ready_add(struct jobs *j, struct lane *l)
{
	l->next_ready = NULL;
	*j->ready_end = l;
	j->ready_end = &l->next_ready;
	j->ready++;
}

static struct lane *ready_take(struct jobs *j)
{
	struct lane *l = j->ready_first;

	j->ready_first = l->next_ready;
	if (!j->ready_first)
		j->ready_end = &j->ready_first;
	j->ready--;
	return l;
}

/* ---- Workers ---- */

/* Waits for a ready lane. false: idle for too long, or stopping. */
static bool wait_for_work(struct jobs *j)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(j->idle_ms / 1000);
	until.tv_nsec += (long)(j->idle_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}

	while (!j->ready_first && !j->stopping) {
		j->sleeping++;
		int r = pthread_cond_timedwait(&j->work, &j->lock, &until);
		j->sleeping--;
		if (r == ETIMEDOUT)
			break;
	}
	return j->ready_first != NULL;
}

static void run_one(struct jobs *j)
{
	struct lane *l = ready_take(j);
	struct job *job = queue_take(&l->jobs);

	l->waiting--;
	l->running = true;
	pthread_mutex_unlock(&j->lock);
	job->work(job->arg);
	pthread_mutex_lock(&j->lock);
	l->running = false;
	if (l->waiting > 0)
		ready_add(j, l);
	queue_add(&j->done, job);
	uv_async_send(&j->wake);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct jobs *j = w->pool;

	pthread_mutex_lock(&j->lock);
	while (wait_for_work(j))
		run_one(j);
	j->threads--;
	w->next = j->ended;
	j->ended = w;
	/* The loop joins it. Under the lock, so that jobs_free() cannot close the handle between the two. */
	uv_async_send(&j->wake);
	pthread_cond_signal(&j->left);
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* Under the lock: the new thread waits for it. Signals stay the loop's affair, so the worker gets none of them. */
static int start_worker(struct jobs *j)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_attr_t attr;
	sigset_t all, before;

	if (!w)
		return -ENOMEM;
	w->pool = j;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WORKER_STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int err = pthread_create(&w->thread, &attr, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (err) {
		free(w);
		return -err;
	}
	j->threads++;
	return 0;
}

static void join_all(struct worker *w)
{
	while (w) {
		struct worker *next = w->next;
		pthread_join(w->thread, NULL);
		free(w);
		w = next;
	}
}

/* ---- The loop's side ---- */

static void lane_release(struct lane *l)
{
	if (l->freed && l->undone == 0)
		free(l);
}

static void finish(struct jobs *j, struct job *job)
{
	struct lane *l = job->lane;

	if (job->done)
		job->done(job->arg);
	free(job);
	l->undone--;
	lane_release(l);
	j->undone--;
	if (j->undone > 0)
		return;
	uv_unref((uv_handle_t *)&j->wake);
	if (j->on_idle)
		j->on_idle(j->ctx);
}

static void on_wake(uv_async_t *handle)
{
	struct jobs *j = handle->data;

	pthread_mutex_lock(&j->lock);
	struct job *job = j->done.first;
	queue_init(&j->done);
	struct worker *ended = j->ended;
	j->ended = NULL;
	pthread_mutex_unlock(&j->lock);

	join_all(ended);
	while (job) {
		struct job *next = job->next;
		finish(j, job);
		job = next;
	}
}

int jobs_new(uv_loop_t *loop, unsigned max_threads, uint64_t idle_ms, void (*on_idle)(void *ctx), void *ctx,
        struct jobs **out)
{
	pthread_condattr_t attr;
	struct jobs *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	int r = uv_async_init(loop, &j->wake, on_wake);
	if (r < 0) {
		free(j);
		return r;
	}
	j->wake.data = j;
	uv_unref((uv_handle_t *)&j->wake); /* it keeps the loop running only while there is work */
	j->max_threads = max_threads;
	j->idle_ms = idle_ms;
	j->on_idle = on_idle;
	j->ctx = ctx;
	j->ready_end = &j->ready_first;
	queue_init(&j->done);
	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&j->work, &attr);
	pthread_cond_init(&j->left, NULL);
	pthread_condattr_destroy(&attr);
	*out = j;
	return 0;
}

bool jobs_idle(const struct jobs *j)
{
	return j->undone == 0;
}

unsigned jobs_threads(struct jobs *j)
{
	pthread_mutex_lock(&j->lock);
	unsigned n = j->threads;
	pthread_mutex_unlock(&j->lock);
	return n;
}

void jobs_refuse(struct jobs *j)
{
	j->refusing = true;
}

static void on_closed(uv_handle_t *handle)
{
	struct jobs *j = handle->data;

	pthread_cond_destroy(&j->work);
	pthread_cond_destroy(&j->left);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	assert(jobs_idle(j));
	pthread_mutex_lock(&j->lock);
	j->stopping = true;
	pthread_cond_broadcast(&j->work);
	while (j->threads > 0)
		pthread_cond_wait(&j->left, &j->lock);
	struct worker *ended = j->ended;
	j->ended = NULL;
	pthread_mutex_unlock(&j->lock);
	join_all(ended);
	uv_close((uv_handle_t *)&j->wake, on_closed);
}

int lane_new(struct jobs *j, struct lane **out)
{
	struct lane *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->pool = j;
	queue_init(&l->jobs);
	*out = l;
	return 0;
}

/* A thread more where every sleeping one already has a lane waiting for it. None at all is the caller's to hear of. */
static int provide_thread(struct jobs *j)
{
	if (j->ready < j->sleeping || j->threads >= j->max_threads)
		return 0;
	int r = start_worker(j);
	return r < 0 && j->threads == 0 ? r : 0;
}

int lane_add(struct lane *l, job_fn *work, job_fn *done, const void *arg, size_t arg_bytes)
{
	struct jobs *j = l->pool;
	struct job *job;
	int r = 0;

	assert(!l->freed);
	if (j->refusing)
		return -ESHUTDOWN;
	if (__builtin_add_overflow(sizeof(*job), arg_bytes, &(size_t){ 0 }))
		return -EINVAL;
	job = malloc(sizeof(*job) + arg_bytes);
	if (!job)
		return -ENOMEM;
	*job = (struct job){ .lane = l, .work = work, .done = done };
	if (arg_bytes > 0)
		memcpy(job->arg, arg, arg_bytes);

	pthread_mutex_lock(&j->lock);
	if (l->waiting >= LANE_MAX_JOBS)
		r = -EBUSY;
	else
		r = provide_thread(j);
	if (r == 0) {
		queue_add(&l->jobs, job);
		l->waiting++;
		if (!l->running && l->waiting == 1)
			ready_add(j, l);
		pthread_cond_signal(&j->work);
	}
	pthread_mutex_unlock(&j->lock);
	if (r < 0) {
		free(job);
		return r;
	}
	l->undone++;
	j->undone++;
	if (j->undone == 1)
		uv_ref((uv_handle_t *)&j->wake);
	return 0;
}

void lane_free(struct lane *l)
{
	if (!l)
		return;
	l->freed = true;
	lane_release(l);
}
