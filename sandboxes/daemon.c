/*
 * daemon.c - the control daemon's start, its timers and its end, as daemon.h has them.
 */
#include "sandboxes/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandboxes/calls.h"
#include "sandboxes/console.h"
#include "sandboxes/control.h"
#include "sandboxes/hosting.h"
#include "sandboxes/keeping.h"
#include "sandboxes/recovery.h"
#include "sandboxes/sandbox.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/log.h"
#include "wire/uvguard.h"

/* ---- Live rings ---- */

static bool needs_watching(const struct sandbox *s)
{
	for (const struct console *c = s->consoles; c; c = c->next)
		if (!c->dropped &&
		        (console_running(c) || console_needs_file(c) || console_needs_row(c) || console_to_be_told(c) ||
		                (console_wants_memory(c) && c->asked < KEEP_MAX_ASKS)))
			return true;
	return false;
}

static void on_custody_due(uv_timer_t *timer)
{
	struct daemon *d = timer->data;
	bool any = false;

	for (struct sandbox *s = d->sandboxes; s; s = s->next) {
		keep_changed(s);
		any = any || needs_watching(s);
	}
	if (!any)
		uv_timer_stop(timer); /* an idle daemon has nothing to wake up for */
}

void ringsided_watch_rings(struct daemon *d)
{
	uint64_t every = d->options.custody_ms ? d->options.custody_ms : DAEMON_CUSTODY_MS;

	if (!d->stopping && !uv_is_active((uv_handle_t *)&d->custody_timer))
		uv_timer_start(&d->custody_timer, on_custody_due, every, every);
}

/* ---- The end ---- */

static void finish_if_idle(void *ctx)
{
	struct daemon *d = ctx;

	if (!d->stopping || !jobs_idle(d->provider_jobs) || !jobs_idle(d->disk_jobs))
		return;
	/* What is let go of from here on finds no job to do it with, and leaves it to the next start. */
	jobs_refuse(d->provider_jobs);
	jobs_refuse(d->disk_jobs);
	uv_stop(&d->loop);
}

static void on_stop_due(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	log_error(NULL, NULL, "leaving, though something in hand has not ended: the next start settles it");
	d->stuck = true;
	uv_stop(&d->loop);
}

void ringsided_stop(struct daemon *d, const char *why)
{
	if (d->stopping)
		return;
	log_info(NULL, NULL, "going down: %s", why);
	uv_timer_stop(&d->custody_timer);
	for (struct sandbox *s = d->sandboxes; s; s = s->next)
		keep_changed(s);
	d->stopping = true;
	for (struct sandbox *s = d->sandboxes; s; s = s->next)
		wait_answer_all(&s->uses, RESULT_UNAVAILABLE, "the control daemon is going down");
	uv_timer_start(&d->stop_timer, on_stop_due, DAEMON_STOP_MS, 0);
	finish_if_idle(d);
}

void ringsided_lease_lost(struct daemon *d)
{
	ringsided_stop(d, "another control daemon has taken the lease; sandboxes are its own now");
}

static void on_signal_end(uv_signal_t *handle, int sig)
{
	ringsided_stop(handle->data, sig == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* ---- The start ---- */

static int open_loop(struct daemon *d)
{
	int r = uv_loop_init(&d->loop);

	if (r < 0)
		return r;
	d->opened = true;
	r = uvguard_open(&d->loop);
	if (r < 0)
		return r;
	uv_timer_init(&d->loop, &d->custody_timer);
	uv_timer_init(&d->loop, &d->stop_timer);
	d->custody_timer.data = d->stop_timer.data = d;
	d->on_term.data = d->on_int.data = d;
	r = uv_signal_init(&d->loop, &d->on_term);
	if (r == 0)
		r = uv_signal_init(&d->loop, &d->on_int);
	if (r == 0)
		r = uv_signal_start(&d->on_term, on_signal_end, SIGTERM);
	if (r == 0)
		r = uv_signal_start(&d->on_int, on_signal_end, SIGINT);
	return r;
}

static int open_jobs(struct daemon *d)
{
	int r = jobs_new(
	        &d->loop, DAEMON_PROVIDER_THREADS, DAEMON_THREAD_IDLE_MS, finish_if_idle, d, &d->provider_jobs);

	if (r == 0)
		r = jobs_new(&d->loop, DAEMON_DISK_THREADS, DAEMON_THREAD_IDLE_MS, finish_if_idle, d, &d->disk_jobs);
	if (r == 0)
		r = lane_new(d->disk_jobs, &d->lane);
	return r;
}

static int open_ledger(struct daemon *d, char *message, unsigned size)
{
	char path[PATH_MAX];
	const char *state_dir = d->options.paths.state_dir;

	snprintf(d->env.state_dir, sizeof(d->env.state_dir), "%s", state_dir);
	if (snprintf(path, sizeof(path), "%s/ledger.db", state_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	int r = ledger_open(path, &d->env.ledger, message, size);
	if (r < 0)
		return r;
	snprintf(d->env.owner_id, sizeof(d->env.owner_id), "ringsided:%ld:%llu", (long)getpid(),
	        (unsigned long long)d->started_at_ms);
	r = ledger_take_lease(d->env.ledger, d->env.owner_id, &d->env.epoch);
	if (r < 0)
		snprintf(message, size, "cannot take the ledger's lease: %s", strerror(-r));
	return r;
}

static int open_adapters(struct daemon *d, char *message, unsigned size)
{
	struct adapter_env env = {
		.state_dir = d->env.state_dir,
		.consoled_path = d->options.consoled_path,
		.record_instance = calls_record_instance,
		.recall_instance = calls_recall_instance,
		.data = &d->env,
	};

	for (const char *const *name = adapter_names(); *name && d->nadapters < DAEMON_MAX_PROVIDERS; name++) {
		d->adapters[d->nadapters] = adapter_new(*name, &env);
		if (!d->adapters[d->nadapters]) {
			snprintf(message, size, "provider %s cannot be set up", *name);
			return -ENOMEM;
		}
		d->nadapters++;
	}
	if (ringsided_adapter(d, d->options.default_provider))
		return 0;
	snprintf(
	        message, size, "RINGSIDE_PROVIDER names no provider of this build: %.64s", d->options.default_provider);
	return -EINVAL;
}

static int open_folders(struct daemon *d, char *message, unsigned size)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/sandboxes", d->env.state_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	int fd = paths_make_private_dir(path);
	if (fd < 0) {
		snprintf(message, size, "cannot use %s: %s", path, strerror(-fd));
		return fd;
	}
	fd_close(&fd);
	return 0;
}

int ringsided_open(struct daemon *d, const struct daemon_options *options, char *message, unsigned size)
{
	d->options = *options;
	d->sandboxes_end = &d->sandboxes;
	d->started_at_ms = clock_wall_ms();
	snprintf(message, size, "cannot start");

	int r = open_loop(d);
	if (r == 0)
		r = open_jobs(d);
	if (r == 0)
		r = open_ledger(d, message, size);
	if (r == 0)
		r = open_folders(d, message, size);
	if (r == 0)
		r = open_adapters(d, message, size);
	if (r == 0)
		r = recovery_load(d, message, size);
	if (r == 0)
		r = control_open(d, options->runtime_dirfd, &d->control, message, size);
	return r;
}

struct sandbox_adapter *ringsided_adapter(struct daemon *d, const char *provider)
{
	for (unsigned i = 0; i < d->nadapters; i++)
		if (strcmp(d->adapters[i]->info->provider, provider) == 0)
			return d->adapters[i];
	return NULL;
}

bool ringsided_run(struct daemon *d)
{
	log_info(NULL, NULL, "ringsided %s, pid %ld, epoch %llu, state in %s", RINGSIDE_VERSION, (long)getpid(),
	        (unsigned long long)d->env.epoch, d->env.state_dir);
	recovery_begin(d);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	control_stop(d->control);
	if (d->stuck)
		return false;
	log_info(NULL, NULL, "down");
	return true;
}

/* ---- Tidying up ---- */

static void close_handle(uv_handle_t *h)
{
	if (h->type != UV_UNKNOWN_HANDLE && !uv_is_closing(h))
		uv_close(h, NULL);
}

static void close_sandboxes(struct daemon *d)
{
	for (struct sandbox *s = d->sandboxes; s; s = s->next)
		hosting_release(s);
	while (d->sandboxes)
		sandbox_del(d->sandboxes);
}

void ringsided_close(struct daemon *d)
{
	d->stopping = true;
	close_sandboxes(d);
	lane_free(d->lane);
	if (d->opened) {
		close_handle((uv_handle_t *)&d->custody_timer);
		close_handle((uv_handle_t *)&d->stop_timer);
		close_handle((uv_handle_t *)&d->on_term);
		close_handle((uv_handle_t *)&d->on_int);
	}
	jobs_free(d->provider_jobs);
	jobs_free(d->disk_jobs);
	for (unsigned i = 0; i < d->nadapters; i++)
		adapter_free(d->adapters[i]);
	ledger_close(d->env.ledger);
	/* Whoever waits for our end by the connection's starts the next daemon at once: the lock is free by then. */
	fd_close(&d->options.lock_fd);
	control_close(d->control);
	if (!d->opened)
		return;
	uvguard_close(&d->loop);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	uv_loop_close(&d->loop);
}
