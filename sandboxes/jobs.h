/*
 * jobs.h - work that may wait (a provider, the disk, the ledger), off the loop.
 *
 * A lane is a queue whose jobs run one after another; a pool of threads runs many lanes at once. Each sandbox has a
 * lane for its provider and one for its disk, on different pools: a provider that hangs delays nothing but its own
 * sandbox.
 *
 * Threads    Started on demand, at most max_threads a pool, each ends after idle_ms without work. All of them have
 *            every signal blocked. Lanes that find no free thread wait their turn, oldest first.
 * Ownership  A job's argument is copied at lane_add(); the copy belongs to the worker while work() runs and to the loop
 *            when done() runs, and is freed after it. What it points to is handed over with it: no object is used by
 *            both.
 * Bounds     LANE_MAX_JOBS wait in one lane; past that lane_add() is -EBUSY and nothing was taken.
 * Order      done() is called on the loop, once for each job, in the order in which the lane's jobs ended.
 */
#ifndef SANDBOXES_JOBS_H
#define SANDBOXES_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct jobs;
struct lane;

#define LANE_MAX_JOBS 1024

typedef void job_fn(void *arg);

/* on_idle is called on the loop each time the last job has been done; may be NULL. -ENOMEM, or what libuv says. */
int jobs_new(uv_loop_t *loop, unsigned max_threads, uint64_t idle_ms, void (*on_idle)(void *ctx), void *ctx,
        struct jobs **out);
bool jobs_idle(const struct jobs *j);  /* nothing waits, runs, or is to be done */
unsigned jobs_threads(struct jobs *j); /* alive at this moment */
/* From here on lane_add() is -ESHUTDOWN. */
void jobs_refuse(struct jobs *j);
/* Ends the threads. Only when idle; no lane may be left. The memory goes with the loop's next turn. Accepts NULL. */
void jobs_free(struct jobs *j);

int lane_new(struct jobs *j, struct lane **out);
/* -EBUSY, -ENOMEM, -ESHUTDOWN, -EAGAIN (no thread could be started and none runs): the job was not taken. done may be
 * NULL. */
int lane_add(struct lane *l, job_fn *work, job_fn *done, const void *arg, size_t arg_bytes);
/* No job may be added any more; those that were are done first. Accepts NULL. */
void lane_free(struct lane *l);

#endif
