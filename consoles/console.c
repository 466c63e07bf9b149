/* console.c - one console: puts ring, marks, terminal, input, followers and process together and keeps their order. */
#include "consoles/console.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "consoles/idle.h"
#include "consoles/marks.h"
#include "consoles/program.h"
#include "consoles/pty.h"
#include "consoles/terminal.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/log.h"

#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24
#define ENDERS_MAX   64   /* who wait for one console's end */
#define END_RETRY_MS 1000 /* where there was no memory to end an idle one */

struct console {
	struct idle idle; /* first: its timer's close callback frees the console */
	const struct consoled *daemon;
	const struct console_handler *handler;
	void *ctx;
	struct console_facts facts;

	struct program program; /* while it is starting */
	int slave;              /* while it is starting: without it the terminal would hang up before it begins */
	bool starting;

	struct scrollback scrollback;
	struct terminal *terminal; /* NULL once it has EXITED, as is input */
	struct input *input;
	struct process *process; /* NULL once nothing of it is left */
	bool process_gone, unproven;

	struct followers followers;
	uint64_t told;             /* the tail as of the last output that was heard of */
	struct follower *sized_by; /* whose size it has; NULL: nobody's who is still here */

	unsigned enders; /* calls of console_end() that wait for their receipt */
	const char *end_reason;
	bool freed; /* goes when the last of them has it */
};

static void log_name(const struct console *c, const char *what)
{
	log_info(c->daemon->options.sandbox, c->facts.name, "%s", what);
}

static void ended_idle(struct console *c, const struct process_receipt *r, void *ctx)
{
	(void)c;
	(void)r;
	(void)ctx;
}

static bool on_idle(struct idle *i)
{
	return console_end((struct console *)i, PROCESS_GRACE_MS, "idle", ended_idle, NULL) == RESULT_OK;
}

/* ---- What happens to it ---- */

static void on_output(void *ctx)
{
	struct console *c = ctx;

	idle_touch(&c->idle);
	c->told = ring_tail(c->scrollback.ring);
	followers_tail(&c->followers, c->told);
}

static void on_room(void *ctx)
{
	struct console *c = ctx;

	input_pump(c->input);
}

static const struct terminal_handler terminal_handler = { .on_output = on_output, .on_room = on_room };

static void on_started(struct process *p, pid_t pid, uint64_t start_time, void *ctx)
{
	struct console *c = ctx;
	struct console_facts *f = &c->facts;

	(void)p;
	c->starting = false;
	fd_close(&c->slave);
	program_release(&c->program);
	f->pid = (uint32_t)pid;
	f->pid_start_time = start_time;
	if (c->scrollback.gap)
		marks_add(c->scrollback.marks, MARK_GAP, c->scrollback.start, f->incarnation, 0, 0);
	marks_add(c->scrollback.marks, MARK_START, c->scrollback.start, f->incarnation, f->incarnation, f->pid);
	marks_add(c->scrollback.marks, MARK_RESIZE, c->scrollback.start, f->incarnation, f->cols, f->rows);
	terminal_listen(c->terminal);
	input_pump(c->input);
	idle_start(&c->idle);
	log_name(c, "started");
	c->handler->on_started(c, c->ctx);
}

/* The end, in the one order that loses nothing: what was printed is in the ring, then everybody hears of it. */
static void become_exited(struct console *c, const char *reason)
{
	struct info_message m;

	c->facts.state = CONSOLE_EXITED;
	c->facts.ended_at_ms = clock_wall_ms();
	c->facts.reason = reason;
	idle_stop(&c->idle);
	input_free(c->input, RESULT_NOT_RUNNING);
	c->input = NULL;
	info_fill(&m, console_facts(c));
	c->sized_by = NULL;
	followers_end(&c->followers, &m.info);
	terminal_close(c->terminal);
	c->terminal = NULL;
}

static void on_failed(struct process *p, enum keeper_step step, int error, void *ctx)
{
	struct console *c = ctx;
	struct failure why;

	(void)p;
	failure_of_start(&why, step, error, c->program.argv[0], c->program.path, c->program.cwd);
	log_warn(c->daemon->options.sandbox, c->facts.name, "%s", why.message);
	c->starting = false;
	fd_close(&c->slave);
	program_release(&c->program);
	c->facts.exit = (struct process_exit){ .status_known = true, .code = failure_exit_code(&why) };
	become_exited(c, "not started");
	c->handler->on_failed(c, &why, c->ctx);
}

static void ended_orphans(struct console *c, const struct process_receipt *r, void *ctx)
{
	(void)ctx;
	if (r->nsurvivors > 0)
		log_warn(c->daemon->options.sandbox, c->facts.name, "%u processes survive", r->nsurvivors);
}

static void on_exited(struct process *p, const struct process_exit *e, void *ctx)
{
	struct console *c = ctx;
	const char *reason = c->end_reason ? c->end_reason : e->status_known ? "exit" : "keeper died";

	(void)p;
	terminal_drain(c->terminal, EXIT_DRAIN);
	c->facts.exit = *e;
	marks_add(c->scrollback.marks, MARK_EXIT, ring_tail(c->scrollback.ring), c->facts.incarnation,
	        e->signal ? 128 + e->signal : e->code, e->signal);
	become_exited(c, reason);
	log_name(c, reason);
	if (!e->status_known) /* whatever is left has lost its keeper, and nobody could end it later */
		(void)console_end(c, PROCESS_GRACE_MS, reason, ended_orphans, NULL);
	if (!c->freed)
		c->handler->on_ended(c, c->ctx);
}

static void forget_process(struct console *c)
{
	if (!c->process_gone || c->enders > 0)
		return;
	process_free(c->process);
	c->process = NULL;
}

static void on_gone(struct process *p, bool proven, void *ctx)
{
	struct console *c = ctx;

	(void)p;
	c->process_gone = true;
	c->unproven = !proven;
	forget_process(c);
}

static const struct process_handler process_handler = {
	.on_started = on_started,
	.on_failed = on_failed,
	.on_exited = on_exited,
	.on_gone = on_gone,
};

/* ---- Start ---- */

static int check_spec(const struct consoled *d, const Wire__ConsoleSpec *spec, struct failure *why)
{
	uint64_t ring_bytes = spec->ring_bytes ? spec->ring_bytes : d->ring_bytes;
	uint32_t cols = spec->cols ? spec->cols : COLS_DEFAULT, rows = spec->rows ? spec->rows : ROWS_DEFAULT;

	if (cols < PTY_MIN_COLS || cols > PTY_MAX_COLS || rows < PTY_MIN_ROWS || rows > PTY_MAX_ROWS)
		return failure_set(why, RESULT_INVALID_ARGUMENT, "a terminal has %dx%d to %dx%d characters, not %ux%u",
		        PTY_MIN_COLS, PTY_MIN_ROWS, PTY_MAX_COLS, PTY_MAX_ROWS, cols, rows);
	if (ring_bytes < RING_MIN_CAPACITY || ring_bytes > RING_MAX_CAPACITY || (ring_bytes & (ring_bytes - 1)) != 0)
		return failure_set(why, RESULT_INVALID_ARGUMENT, "a ring has a power of two of bytes, from %zu to %zu",
		        RING_MIN_CAPACITY, RING_MAX_CAPACITY);
	return 0;
}

static int set_facts(struct console *c, const Wire__ConsoleSpec *spec, const struct console *earlier)
{
	struct console_facts *f = &c->facts;

	memcpy(f->name, spec->name, strlen(spec->name) + 1); /* checked: it fits */
	f->incarnation = earlier ? earlier->facts.incarnation + 1 : spec->incarnation ? spec->incarnation : 1;
	f->state = CONSOLE_RUNNING;
	f->argv = info_copy_argv(c->program.argv, &f->n_argv);
	f->cwd = strdup(c->program.cwd);
	f->cols = (uint16_t)(spec->cols ? spec->cols : COLS_DEFAULT);
	f->rows = (uint16_t)(spec->rows ? spec->rows : ROWS_DEFAULT);
	f->started_at_ms = clock_wall_ms();
	f->idle_ttl_ms = spec->idle_ttl_ms;
	return f->argv && f->cwd ? 0 : -ENOMEM;
}

static int make_rings(struct console *c, const Wire__ConsoleSpec *spec, const struct console *earlier)
{
	size_t capacity = (size_t)(spec->ring_bytes ? spec->ring_bytes : c->daemon->ring_bytes);
	int err;

	c->facts.ring_bytes = capacity;
	err = scrollback_init(
	        &c->scrollback, c->facts.name, capacity, spec->start_offset, earlier ? &earlier->scrollback : NULL);
	if (err == 0)
		c->told = ring_tail(c->scrollback.ring);
	return err;
}

static int make_terminal(struct console *c)
{
	int master = -1, err = pty_open(c->facts.cols, c->facts.rows, &master, &c->slave);

	if (err < 0)
		return err;
	err = terminal_new(c->daemon->loop, master, c->scrollback.ring, &terminal_handler, c, &c->terminal);
	if (err < 0) {
		fd_close(&master);
		return err;
	}
	return input_new(c->daemon->loop, c->terminal, c->scrollback.ring, &c->input);
}

static int make_process(struct console *c)
{
	const struct keeper_spec spec = {
		.path = c->program.path,
		.argv = (const char *const *)c->program.argv,
		.envp = (const char *const *)c->program.envp,
		.cwd = c->program.cwd,
		.tty = c->slave,
		.in = -1,
		.out = -1,
		.err = -1,
		.label = c->facts.name,
	};

	return process_start(c->daemon->loop, &spec, &process_handler, c, &c->process);
}

/* Nothing was started: the request is refused, whatever it was for. */
static int refuse(struct failure *why, const char *step, int err)
{
	bool shortage = err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -EAGAIN || err == -ENOSPC;

	return failure_set(why, shortage ? RESULT_RESOURCE_LIMIT : RESULT_UNAVAILABLE, "cannot %s: %s", step,
	        err == -ENOSPC ? "the system has no more (kernel.pty.max)" : strerror(-err));
}

static int make_parts(
        struct console *c, const Wire__ConsoleSpec *spec, const struct console *earlier, struct failure *why)
{
	int err = set_facts(c, spec, earlier);

	if (err < 0)
		return refuse(why, "describe the console", err);
	err = make_rings(c, spec, earlier);
	if (err < 0)
		return refuse(why, "make memory for its output", err);
	err = make_terminal(c);
	if (err < 0)
		return refuse(why, "open a terminal", err);
	err = make_process(c);
	if (err < 0)
		return refuse(why, "make a process", err);
	return 0;
}

int console_new(const struct consoled *d, const Wire__ConsoleSpec *spec, struct console *earlier,
        const struct console_handler *handler, void *ctx, struct console **out, struct failure *why)
{
	struct console *c;

	if (check_spec(d, spec, why) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (!c)
		return failure_set(why, RESULT_RESOURCE_LIMIT, "out of memory");
	idle_init(&c->idle, d->loop, spec->idle_ttl_ms, on_idle);
	c->idle.timer.data = c;
	c->daemon = d;
	c->handler = handler;
	c->ctx = ctx;
	c->slave = -1;
	c->starting = true;
	idle_touch(&c->idle);
	if (program_prepare(&d->options, spec, &c->program, why) < 0 || make_parts(c, spec, earlier, why) < 0) {
		console_free(c);
		return -1;
	}
	*out = c;
	return 0;
}

/* ---- Forgotten ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct console *c = handle->data;

	free(c->facts.argv);
	free(c->facts.cwd);
	free(c);
}

static void release(struct console *c)
{
	process_free(c->process);
	input_free(c->input, RESULT_NOT_RUNNING);
	terminal_close(c->terminal);
	fd_close(&c->slave);
	program_release(&c->program);
	scrollback_release(&c->scrollback);
	uv_close((uv_handle_t *)&c->idle.timer, on_timer_closed);
}

void console_free(struct console *c)
{
	if (!c || c->freed)
		return;
	c->freed = true;
	if (c->enders == 0)
		release(c);
}

/* ---- What can be asked ---- */

const char *console_name(const struct console *c)
{
	return c->facts.name;
}

enum console_state console_state(const struct console *c)
{
	return c->facts.state;
}

bool console_is_starting(const struct console *c)
{
	return c->starting;
}

void console_level(struct console *c, struct follower *f, uint64_t level)
{
	followers_level(f, level, c->told);
}

const struct console_facts *console_facts(struct console *c)
{
	c->facts.start_offset = c->scrollback.start;
	c->facts.head_offset = ring_head(c->scrollback.ring);
	c->facts.tail_offset = ring_tail(c->scrollback.ring);
	c->facts.idle_ms = idle_ms(&c->idle);
	c->facts.clients = c->followers.attached;
	return &c->facts;
}

struct input *console_input(struct console *c)
{
	return c->input;
}

struct scrollback *console_scrollback(struct console *c)
{
	return &c->scrollback;
}

/* ---- Followers and size ---- */

static enum result apply_size(struct console *c, uint16_t cols, uint16_t rows)
{
	struct console_facts *f = &c->facts;

	if (f->cols == cols && f->rows == rows)
		return RESULT_OK;
	if (pty_resize(terminal_master(c->terminal), cols, rows) < 0)
		return RESULT_INTERNAL;
	f->cols = cols;
	f->rows = rows;
	if (!c->starting) /* its first marks say the size it starts with */
		marks_add(c->scrollback.marks, MARK_RESIZE, ring_tail(c->scrollback.ring), f->incarnation, cols, rows);
	followers_size(&c->followers, cols, rows);
	c->handler->on_changed(c, c->ctx);
	return RESULT_OK;
}

void console_follow(struct console *c, struct follower *f)
{
	followers_add(&c->followers, f);
	idle_attached(&c->idle, c->followers.attached > 0);
}

void console_unfollow(struct console *c, struct follower *f)
{
	followers_del(f);
	if (c->sized_by == f)
		c->sized_by = NULL;
	idle_attached(&c->idle, c->followers.attached > 0);
}

void console_touched_by(struct console *c, struct follower *f)
{
	idle_touch(&c->idle);
	if (c->facts.state != CONSOLE_RUNNING || !f->attached || f->cols == 0 || c->sized_by == f)
		return;
	c->sized_by = f;
	(void)apply_size(c, f->cols, f->rows);
}

enum result console_resize(struct console *c, struct follower *f, uint32_t cols, uint32_t rows)
{
	if (cols < PTY_MIN_COLS || cols > PTY_MAX_COLS || rows < PTY_MIN_ROWS || rows > PTY_MAX_ROWS)
		return RESULT_INVALID_ARGUMENT;
	if (c->facts.state != CONSOLE_RUNNING)
		return RESULT_NOT_RUNNING;
	idle_touch(&c->idle);
	if (f) {
		f->cols = (uint16_t)cols;
		f->rows = (uint16_t)rows;
	}
	c->sized_by = f && f->attached ? f : NULL;
	return apply_size(c, (uint16_t)cols, (uint16_t)rows);
}

/* ---- Signals and the end ---- */

enum result console_signal(struct console *c, uint32_t sig)
{
	int master;
	pid_t group;

	if (sig == 0 || sig > (uint32_t)SIGRTMAX)
		return RESULT_INVALID_ARGUMENT;
	if (c->facts.state != CONSOLE_RUNNING || c->starting)
		return RESULT_NOT_RUNNING;
	master = terminal_master(c->terminal);
	/* For these three the kernel finds the foreground group itself, in one step, whoever its members belong to. */
	if ((sig == SIGINT || sig == SIGQUIT || sig == SIGTSTP) && ioctl(master, TIOCSIG, (int)sig) == 0)
		return RESULT_OK;
	group = pty_foreground_group(master);
	if (process_signal_group(c->process, group > 0 ? group : (pid_t)c->facts.pid, (int)sig) < 0)
		return RESULT_NOT_RUNNING;
	return RESULT_OK;
}

struct ender {
	struct console *console;
	console_end_cb *done;
	void *ctx;
};

static void on_end_done(struct process *p, const struct process_receipt *r, void *ctx)
{
	struct ender *e = ctx;
	struct console *c = e->console;

	(void)p;
	e->done(c, r, e->ctx);
	free(e);
	c->enders--;
	forget_process(c);
	if (c->freed && c->enders == 0)
		release(c);
}

enum result console_end(struct console *c, uint64_t grace_ms, const char *reason, console_end_cb *done, void *ctx)
{
	const struct process_receipt nothing_left = { .unproven = c->unproven };
	struct ender *e;

	if (!c->process || (c->process_gone && c->enders == 0)) {
		done(c, &nothing_left, ctx);
		return RESULT_OK;
	}
	if (c->enders >= ENDERS_MAX)
		return RESULT_BUSY;
	e = malloc(sizeof(*e));
	if (!e)
		return RESULT_RESOURCE_LIMIT;
	*e = (struct ender){ .console = c, .done = done, .ctx = ctx };
	if (process_end(c->process, grace_ms, on_end_done, e) < 0) {
		free(e);
		return RESULT_RESOURCE_LIMIT;
	}
	c->enders++;
	if (c->facts.state == CONSOLE_RUNNING && !c->end_reason)
		c->end_reason = reason;
	return RESULT_OK;
}
