/*
 * writer.c - see writer.h.
 *
 * The lock guards the queue and the jobs' done flags, never a system call: the database is the writer thread's alone.
 */
#include "ledger/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ledger/db.h"
#include "ledger/lease.h"

struct job {
	write_fn *run;
	void *arg;
	uint64_t epoch;
	bool fenced;
	int result;
	bool done;
	pthread_cond_t ended;
	struct job *next;
};

struct writer {
	sqlite3 *db;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t room;
	struct job *first;
	struct job **last;
	unsigned waiting;
	bool stopping;
};

static int job_run(struct writer *w, struct job *j)
{
	if (j->fenced) {
		int r = lease_check(w->db, j->epoch);

		if (r < 0)
			return r;
	}
	return j->run(w->db, j->arg);
}

static void roll_back(struct writer *w)
{
	/* A full disk or an I/O error may have rolled back already, and then there is nothing to do. */
	if (!sqlite3_get_autocommit(w->db))
		db_exec(w->db, "ROLLBACK");
}

static int commit(struct writer *w)
{
	int r = db_exec(w->db, "COMMIT");

	if (r < 0)
		roll_back(w);
	return r;
}

static int run_alone(struct writer *w, struct job *j)
{
	int r = db_exec(w->db, "BEGIN IMMEDIATE");
	if (r < 0)
		return r;

	r = job_run(w, j);
	if (r < 0) {
		roll_back(w);
		return r;
	}
	return commit(w);
}

static int run_in_savepoint(struct writer *w, struct job *j)
{
	int r = db_exec(w->db, "SAVEPOINT job");
	if (r < 0)
		return r;

	j->result = job_run(w, j);
	if (sqlite3_get_autocommit(w->db)) /* the whole transaction is gone, not just this job's part */
		return j->result < 0 ? j->result : -EIO;
	return db_exec(w->db, j->result < 0 ? "ROLLBACK TO job; RELEASE job" : "RELEASE job");
}

/* 0: every job has its result. Otherwise nothing of the batch was written and no job has one. */
static int run_together(struct writer *w, struct job *batch)
{
	int r = db_exec(w->db, "BEGIN IMMEDIATE");
	if (r < 0)
		return r;

	for (struct job *j = batch; j; j = j->next) {
		r = run_in_savepoint(w, j);
		if (r < 0) {
			roll_back(w);
			return r;
		}
	}
	return commit(w);
}

static void run_batch(struct writer *w, struct job *batch)
{
	int r = batch->next ? run_together(w, batch) : -EAGAIN;
	if (r == 0)
		return;

	/* One large row that finds the disk full must not refuse a small one, so each is tried by itself. Not so after
	 * an I/O error: a sync that is tried again may succeed although what the first one lost is lost. */
	for (struct job *j = batch; j; j = j->next)
		j->result = r == -EIO ? r : run_alone(w, j);
}

static struct job *take_batch(struct writer *w)
{
	struct job *batch = w->first;
	struct job **end = &batch;

	for (unsigned n = 0; *end && n < WRITER_BATCH; n++) {
		end = &(*end)->next;
		w->waiting--;
	}
	w->first = *end;
	if (!w->first)
		w->last = &w->first;
	*end = NULL;
	return batch;
}

static void answer(struct job *batch)
{
	/* A job's memory may go as soon as its caller sees done: its link is read before. */
	for (struct job *j = batch, *next; j; j = next) {
		next = j->next;
		j->done = true;
		pthread_cond_signal(&j->ended);
	}
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->first && !w->stopping)
			pthread_cond_wait(&w->work, &w->lock);
		if (!w->first)
			break;
		struct job *batch = take_batch(w);

		pthread_cond_broadcast(&w->room);
		pthread_mutex_unlock(&w->lock);
		run_batch(w, batch);
		pthread_mutex_lock(&w->lock);
		answer(batch);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static int submit(struct writer *w, struct job *j)
{
	pthread_cond_init(&j->ended, NULL);
	pthread_mutex_lock(&w->lock);
	while (w->waiting >= WRITER_QUEUE)
		pthread_cond_wait(&w->room, &w->lock);
	*w->last = j;
	w->last = &j->next;
	w->waiting++;
	pthread_cond_signal(&w->work);
	while (!j->done)
		pthread_cond_wait(&j->ended, &w->lock);
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&j->ended);
	return j->result;
}

int writer_do(struct writer *w, uint64_t epoch, write_fn *run, void *arg)
{
	struct job j = { .run = run, .arg = arg, .epoch = epoch, .fenced = true };

	return submit(w, &j);
}

int writer_do_unfenced(struct writer *w, write_fn *run, void *arg)
{
	struct job j = { .run = run, .arg = arg };

	return submit(w, &j);
}

static int start_thread(struct writer *w)
{
	sigset_t all, before;

	/* The daemon's signals are its loop's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = -pthread_create(&w->thread, NULL, writer_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int writer_start(sqlite3 *db, struct writer **out)
{
	struct writer *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;

	w->db = db;
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	pthread_cond_init(&w->room, NULL);
	int r = start_thread(w);
	if (r < 0) {
		free(w);
		return r;
	}
	*out = w;
	return 0;
}

void writer_stop(struct writer *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	db_close(w->db);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->room);
	free(w);
}
