/*
 * process.c - a program and its keeper as one object of the loop; see process.h.
 *
 * Two things come from a keeper, in either order: what it says on its socket, and its death by SIGCHLD. The death
 * decides: then the socket is read to its end, and if it never said EMPTY, the keeper was killed and what it kept has
 * become our own child. Such orphans are ended from here, by the same timetable.
 *
 * An object lives until its user has freed it, its keeper is reaped, and no end is under way; after process_free() it
 * only waits for the other two, with no callback left.
 */
#include "consoles/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consoles/ending.h"
#include "consoles/family.h"
#include "consoles/procstat.h"
#include "consoles/reaper.h"
#include "wire/clock.h"
#include "wire/fd.h"

/* Reports taken per readiness event. A keeper sends few; this is against one that is no longer ours. */
#define REPORTS_PER_TURN 16

/* Scans in a row that find no orphan before they are believed to be gone. */
#define EMPTY_SCANS 2

enum stage { STARTING, RUNNING, OVER };

/* Who waits for the end of a process. */
struct waiter {
	void (*done)(struct process *p, const struct process_receipt *r, void *ctx);
	void *ctx;
	struct waiter *next;
};

/* An order whose answer goes into the receipt. */
struct sent_order {
	uint32_t number; /* 0: none waits for an answer */
	int signal;
	uint64_t at;
};

struct process {
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned handles; /* not closed yet */
	bool polling;

	struct keeper keeper;
	struct reaper_child child;
	uint64_t keeper_start;
	bool empty;  /* it said so: all gone, proven */
	bool reaped; /* the keeper is dead */
	unsigned empty_scans;

	enum stage stage;
	pid_t pid;
	struct process_handler handler;
	void *ctx;
	bool freed;

	bool is_ending;
	struct ending ending;
	struct waiter *waiters, **last_waiter;
	struct waiter first_waiter; /* of the list's own memory: to end something must not need any */
	bool first_waits;
	struct sent_order sent;
	uint32_t orders;
};

int process_setup(uv_loop_t *loop)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	return reaper_setup(loop);
}

/* ---- The object's end ---- */

static void on_handle_closed(uv_handle_t *handle)
{
	struct process *p = handle->data;

	if (--p->handles == 0)
		free(p);
}

static void close_socket(struct process *p)
{
	if (!p->polling)
		return;
	p->polling = false;
	uv_close((uv_handle_t *)&p->poll, on_handle_closed);
	fd_close(&p->keeper.sock);
}

static void close_if_unused(struct process *p)
{
	if (!p->freed || !p->reaped || p->is_ending || uv_is_closing((uv_handle_t *)&p->timer))
		return;
	close_socket(p);
	uv_close((uv_handle_t *)&p->timer, on_handle_closed);
}

/* ---- Telling the user ---- */

static void tell_started(struct process *p, uint64_t start_time)
{
	p->stage = RUNNING;
	if (p->handler.on_started)
		p->handler.on_started(p, p->pid, start_time, p->ctx);
}

static void tell_failed(struct process *p, enum keeper_step step, int error)
{
	p->stage = OVER;
	if (p->handler.on_failed)
		p->handler.on_failed(p, step, error, p->ctx);
}

static void tell_exited(struct process *p, const struct process_exit *e)
{
	p->stage = OVER;
	if (p->handler.on_exited)
		p->handler.on_exited(p, e, p->ctx);
}

static void tell_gone(struct process *p, bool proven)
{
	if (p->handler.on_gone)
		p->handler.on_gone(p, proven, p->ctx);
}

/* ---- Orphans of a keeper that died ---- */

/* Our children that are nobody's keeper, and not older than the one that died: who was here before is not its. Keepers
 * that died together cannot be told apart; both of them have their consoles ended. */
static bool is_orphan(pid_t child, uint64_t start, const void *ctx)
{
	const struct process *p = ctx;

	return !reaper_knows(child) && start >= p->keeper_start;
}

static void bury_orphan(pid_t child, void *ctx)
{
	(void)ctx;
	waitpid(child, NULL, WNOHANG | __WALL);
}

static struct family orphans_of(struct process *p)
{
	return (struct family){ .counts = is_orphan, .bury = bury_orphan, .ctx = p };
}

static void set_survivors(struct process *p, uint32_t n, const struct keeper_proc *procs)
{
	struct process_receipt *r = &p->ending.receipt;

	r->nsurvivors = n;
	memcpy(r->survivors, procs, n * sizeof(*procs));
}

static void signal_orphans(struct process *p, int sig, uint64_t now)
{
	const struct family f = orphans_of(p);
	struct family_result got;

	if (sig == SIGKILL) {
		family_kill(&f, &got);
		set_survivors(p, got.nprocs, got.procs);
	} else {
		family_signal(&f, sig, true, 0, &got);
	}
	ending_record(&p->ending, sig, now, got.got);
}

static void look_for_orphans(struct process *p)
{
	const struct family f = orphans_of(p);
	struct family_result got;

	if (p->empty_scans == EMPTY_SCANS)
		return;
	family_list(&f, &got);
	p->empty_scans = got.got == 0 ? p->empty_scans + 1 : 0;
}

/* ---- The end ---- */

/* Nothing is left: because the keeper said so, or because no orphan is found. */
static bool is_all_gone(const struct process *p)
{
	return p->empty || (p->reaped && p->empty_scans == EMPTY_SCANS);
}

static struct waiter *waiter_new(struct process *p)
{
	if (p->first_waits)
		return malloc(sizeof(struct waiter));
	p->first_waits = true;
	return &p->first_waiter;
}

static void waiter_free(struct process *p, struct waiter *w)
{
	if (w == &p->first_waiter)
		p->first_waits = false;
	else
		free(w);
}

static void finish_ending(struct process *p)
{
	struct process_receipt receipt = p->ending.receipt;
	struct waiter *w = p->waiters;

	if (is_all_gone(p))
		receipt.nsurvivors = 0;
	/* Survivors that have names are proven to be there. */
	receipt.unproven = !p->empty && (p->reaped || receipt.nsurvivors == 0);

	/* Before the callbacks: one of them may free p, or order a new end. */
	p->is_ending = false;
	p->waiters = NULL;
	p->last_waiter = &p->waiters;
	uv_timer_stop(&p->timer);
	while (w) {
		struct waiter *next = w->next;
		if (!p->freed)
			w->done(p, &receipt, w->ctx);
		waiter_free(p, w);
		w = next;
	}
	close_if_unused(p);
}

static void order_step(struct process *p, int sig, uint64_t now)
{
	struct keeper_order o = {
		.kind = ORDER_SIGNAL_ALL, .order = ++p->orders, .signal = sig, .cont = sig != SIGKILL
	};

	/* Still at its SIGKILL: it answers when it is done. */
	if (sig == SIGKILL && p->sent.number != 0 && p->sent.signal == SIGKILL)
		return;
	/* A program of the same user may have stopped it. The number is the keeper's until we reap it. */
	kill(p->keeper.pid, SIGCONT);
	if (keeper_order(&p->keeper, &o) == 0)
		p->sent = (struct sent_order){ .number = o.order, .signal = sig, .at = now };
}

static void on_timer(uv_timer_t *handle);

static void set_timer(struct process *p, uint64_t now)
{
	uint64_t at = ending_next(&p->ending);

	if (p->reaped && at > now + ENDING_AGAIN_MS)
		at = now + ENDING_AGAIN_MS; /* nobody tells when the orphans are gone */
	uv_update_time(p->timer.loop);
	uv_timer_start(&p->timer, on_timer, at > now ? at - now : 0, 0);
}

static void on_timer(uv_timer_t *handle)
{
	struct process *p = handle->data;
	uint64_t now = clock_mono_ms();

	if (p->reaped && !p->empty)
		look_for_orphans(p);
	if (is_all_gone(p) || ending_over(&p->ending, now)) {
		finish_ending(p);
		return;
	}

	int sig = ending_due(&p->ending, now);
	if (sig != 0 && p->reaped)
		signal_orphans(p, sig, now);
	else if (sig != 0)
		order_step(p, sig, now);
	set_timer(p, now);
}

static void begin_ending(struct process *p, uint64_t grace_ms)
{
	uint64_t now = clock_mono_ms();

	if (p->is_ending) {
		ending_hurry(&p->ending, now, grace_ms);
	} else {
		p->is_ending = true;
		ending_begin(&p->ending, now, grace_ms);
	}
	/* Never from inside the call: what happens now may already call back. */
	set_timer(p, now);
}

int process_end(struct process *p, uint64_t grace_ms,
        void (*done)(struct process *p, const struct process_receipt *r, void *ctx), void *ctx)
{
	struct waiter *w = waiter_new(p);

	/* What is asked for is done all the same. */
	begin_ending(p, grace_ms);
	if (!w)
		return -ENOMEM;
	*w = (struct waiter){ .done = done, .ctx = ctx };
	*p->last_waiter = w;
	p->last_waiter = &w->next;
	return 0;
}

/* ---- What the keeper says ---- */

static void take_exit(struct process *p, const struct keeper_report *r)
{
	struct process_exit e = { .status_known = true, .left = r->left, .nprocs = r->nprocs };

	if (WIFSIGNALED(r->status))
		e.signal = (uint32_t)WTERMSIG(r->status);
	else
		e.code = (uint32_t)WEXITSTATUS(r->status);
	memcpy(e.procs, r->procs, sizeof(e.procs));
	tell_exited(p, &e);
}

static void take_answer(struct process *p, const struct keeper_report *r)
{
	if (!p->is_ending || r->order == 0 || r->order != p->sent.number)
		return;
	ending_record(&p->ending, p->sent.signal, p->sent.at, r->left);
	if (p->sent.signal == SIGKILL)
		set_survivors(p, r->nprocs, r->procs);
	p->sent.number = 0;
}

static void take_report(struct process *p, const struct keeper_report *r)
{
	switch (r->kind) {
	case REPORT_STARTED:
		p->pid = r->pid;
		tell_started(p, r->start_time);
		break;
	case REPORT_FAILED:
		tell_failed(p, (enum keeper_step)r->step, r->error);
		break;
	case REPORT_EXITED:
		take_exit(p, r);
		break;
	case REPORT_SIGNALLED:
		take_answer(p, r);
		break;
	case REPORT_EMPTY:
		p->empty = true;
		tell_gone(p, true);
		if (p->is_ending)
			finish_ending(p);
		break;
	}
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
	struct process *p = handle->data;
	struct keeper_report r;
	int got = 0;

	/* A status is POLLERR, which a keeper that left with an order unread causes; the reports before it are there.
	 */
	(void)status;
	(void)events;
	for (unsigned n = 0; n < REPORTS_PER_TURN; n++) {
		got = keeper_report(&p->keeper, &r);
		if (got <= 0)
			break;
		take_report(p, &r);
	}
	if (got < 0)
		uv_poll_stop(&p->poll); /* SIGCHLD tells the rest */
	else if (status < 0)
		uv_poll_start(&p->poll, UV_READABLE, on_readable);
}

/* ---- Its death ---- */

static void take_unexpected_death(struct process *p)
{
	const struct process_exit unknown = { .status_known = false };

	/* Nobody need have ordered it: without its keeper a console is over, and so is what ran in it. Begun before the
	 * callbacks, since one of them may free p. */
	p->sent.number = 0;
	begin_ending(p, PROCESS_GRACE_MS);
	if (p->stage == STARTING)
		tell_failed(p, STEP_OTHER, EIO);
	else if (p->stage == RUNNING)
		tell_exited(p, &unknown);
	tell_gone(p, false);
}

static void on_keeper_reaped(struct reaper_child *child, int status)
{
	struct process *p = (struct process *)(void *)((char *)child - offsetof(struct process, child));
	struct keeper_report r;

	(void)status;
	while (keeper_report(&p->keeper, &r) > 0)
		take_report(p, &r);
	p->reaped = true;
	close_socket(p);
	if (!p->empty)
		take_unexpected_death(p);
	close_if_unused(p);
}

/* ---- Its beginning ---- */

int process_start(uv_loop_t *loop, const struct keeper_spec *spec, const struct process_handler *handler, void *ctx,
        struct process **out)
{
	struct procstat stat;
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	int r = keeper_spawn(spec, &p->keeper);
	if (r < 0)
		goto fail;
	r = uv_poll_init(loop, &p->poll, p->keeper.sock);
	if (r < 0) {
		/* Left alone the keeper ends what it has started, and is reaped as any stranger. */
		fd_close(&p->keeper.sock);
		goto fail;
	}

	uv_timer_init(loop, &p->timer);
	p->poll.data = p->timer.data = p;
	p->handles = 2;
	p->polling = true;
	p->last_waiter = &p->waiters;
	p->handler = *handler;
	p->ctx = ctx;
	if (procstat_read(p->keeper.pid, &stat) == 0)
		p->keeper_start = stat.start;
	p->child = (struct reaper_child){ .pid = p->keeper.pid, .on_reaped = on_keeper_reaped };
	reaper_add(&p->child);
	uv_poll_start(&p->poll, UV_READABLE, on_readable);
	*out = p;
	return 0;
fail:
	free(p);
	return r;
}

pid_t process_pid(const struct process *p)
{
	return p->pid;
}

pid_t process_keeper_pid(const struct process *p)
{
	return p->empty || p->reaped ? 0 : p->keeper.pid;
}

int process_signal_group(struct process *p, pid_t group, int sig)
{
	const struct keeper_order o = { .kind = ORDER_SIGNAL_GROUP, .signal = sig, .group = group };

	if (process_keeper_pid(p) == 0)
		return -ESRCH;
	int r = keeper_order(&p->keeper, &o);
	return r == -EPIPE ? -ESRCH : r;
}

void process_free(struct process *p)
{
	if (!p || p->freed)
		return;
	p->freed = true;
	p->handler = (struct process_handler){ 0 };
	while (p->waiters) {
		struct waiter *w = p->waiters;
		p->waiters = w->next;
		waiter_free(p, w);
	}
	p->last_waiter = &p->waiters;
	close_if_unused(p);
}
