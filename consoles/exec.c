/*
 * exec.c - a command between its pipes and its connection; see exec.h.
 *
 *   connection ──stdin──▶ input.fd  ▶ program ▶ streams[].fd ──stdout, stderr──▶ connection
 *
 * One read of a pipe is one frame, and none is read while the connection has something queued; what the program does
 * not take of a stdin frame waits here, and the connection is not read meanwhile. So at most a frame is held in each
 * direction.
 *
 * Order of an end: the program's exit; the rest of its output; the result; the connection's close. Then what it left
 * behind, if anything, lives on under its keeper, and its output is drained slowly to nowhere: closing the pipe would
 * kill a server at its next log line, and not reading would stop it.
 */
#include "consoles/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "consoles/exec_plan.h"
#include "consoles/process.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/log.h"
#include "wire/uvconn.h"

/* Of the connection's queue. At most one frame and the result are ever in it. */
#define OUT_LIMIT ((size_t)256 * 1024)

/* What is left behind and prints is read this often, so at most 640 KiB/s. */
#define DISCARD_MS 100

#define NEVER UINT64_MAX

enum { STDOUT, STDERR, STREAMS };

struct stream {
	uv_poll_t poll;
	int fd; /* -1: ended */
	enum frame_channel channel;
	size_t owed; /* bytes in the pipe when the program exited: its own, to be delivered whoever holds the pipe */
};

struct input {
	uv_poll_t poll;
	int fd; /* -1: none, or closed */
	bool at_end;
	size_t from, len; /* of buf: not taken by the program yet */
	uint8_t buf[FRAME_MAX_PAYLOAD];
};

struct exec {
	struct exec *next, **link;
	const char *sandbox;

	struct uvconn *conn; /* NULL: closed */
	bool answered;       /* the result is queued or sent */
	bool broken;         /* not all of the output went out: nothing more may */

	struct stream streams[STREAMS];
	struct input *input; /* NULL: stdin is /dev/null */
	uv_timer_t timer;
	unsigned handles; /* not closed yet */

	struct exec_plan plan;
	struct exec_refusal refusal;
	bool refused;
	struct process *process; /* NULL: none was started */
	bool gone;               /* nothing of it is left */
	bool exited;
	struct process_exit exit;
	uint64_t exited_at;
	bool ended; /* an end that was ordered is over, survivors or not */
	struct process_receipt receipt;

	uint64_t timeout_at, idle_ms, active_at, discard_at;
	bool timed_out, idle_timed_out, held;
};

static struct exec *execs;

/* The daemon's own end. */
static struct {
	bool active;
	void (*done)(void *ctx);
	void *ctx;
} closing;

static void set_timer(struct exec *e);
static void go_on(struct exec *e);
static void hang_up(struct exec *e);

static void touch(struct exec *e)
{
	e->active_at = clock_mono_ms();
}

/* ---- The object's end ---- */

static void free_exec(struct exec *e)
{
	exec_plan_release(&e->plan);
	free(e->input);
	free(e);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct exec *e = handle->data;

	if (--e->handles == 0)
		free_exec(e);
}

static void close_poll(uv_poll_t *poll, int *fd)
{
	if (*fd < 0)
		return;
	uv_close((uv_handle_t *)poll, on_handle_closed);
	fd_close(fd);
}

static void unlink_exec(struct exec *e)
{
	*e->link = e->next;
	if (e->next)
		e->next->link = e->link;
}

static void finish_if_over(struct exec *e)
{
	if (e->conn || !e->gone || uv_is_closing((uv_handle_t *)&e->timer))
		return;
	unlink_exec(e);
	process_free(e->process);
	e->process = NULL;
	for (int i = 0; i < STREAMS; i++)
		close_poll(&e->streams[i].poll, &e->streams[i].fd);
	if (e->input)
		close_poll(&e->input->poll, &e->input->fd);
	uv_close((uv_handle_t *)&e->timer, on_handle_closed);

	if (closing.active && !execs) {
		closing.active = false;
		closing.done(closing.ctx);
	}
}

/* ---- stdin ---- */

static void close_input(struct exec *e)
{
	if (!e->input || e->input->fd < 0)
		return;
	close_poll(&e->input->poll, &e->input->fd);
	e->input->len = 0;
	if (e->conn)
		uvconn_pause(e->conn, false); /* the rest is read and dropped, as the program does not want it */
}

static void on_input_writable(uv_poll_t *poll, int status, int events);

/* Writes what waits. What the program does not take now is written when it does. */
static void write_input(struct exec *e)
{
	struct input *in = e->input;

	while (in->len > 0) {
		ssize_t n = write(in->fd, in->buf + in->from, in->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			uvconn_pause(e->conn, true);
			uv_poll_start(&in->poll, UV_WRITABLE, on_input_writable);
			return;
		}
		if (n < 0) {
			close_input(e);
			return;
		}
		in->from += (size_t)n;
		in->len -= (size_t)n;
	}
	uv_poll_stop(&in->poll);
	uvconn_pause(e->conn, false);
	if (in->at_end)
		close_input(e);
}

static void on_input_writable(uv_poll_t *poll, int status, int events)
{
	struct exec *e = poll->data;

	(void)events;
	if (status < 0 || !e->conn) { /* nobody holds the other end any more */
		close_input(e);
		return;
	}
	touch(e);
	write_input(e);
}

static void take_input(struct exec *e, const struct frame *f)
{
	struct input *in = e->input;

	touch(e);
	if (!in || in->fd < 0 || in->at_end)
		return;
	/* Nothing waits: while something does, the connection is paused. */
	memcpy(in->buf, f->payload, f->length);
	in->from = 0;
	in->len = f->length;
	in->at_end = f->length == 0;
	write_input(e);
}

/* ---- stdout and stderr ---- */

static void on_output(uv_poll_t *poll, int status, int events);

/* Read only while the connection takes it; once nobody listens, now and then to nowhere. */
static void update_reading(struct exec *e)
{
	bool discard = !e->conn || e->answered;
	bool want = discard ? e->discard_at == NEVER : conn_queued(uvconn_conn(e->conn)) == 0;

	for (int i = 0; i < STREAMS; i++) {
		if (e->streams[i].fd < 0)
			continue;
		if (want)
			uv_poll_start(&e->streams[i].poll, UV_READABLE, on_output);
		else
			uv_poll_stop(&e->streams[i].poll);
	}
}

static void end_stream(struct stream *s)
{
	close_poll(&s->poll, &s->fd);
	s->owed = 0;
}

/* A connection that the peer has left says so by on_gone. One that had no memory for these bytes must not go on without
 * them: it is given up, and its end without a result tells the peer that output is lost. */
static void send_output(struct exec *e, enum frame_channel channel, const void *bytes, size_t n)
{
	int r = e->broken ? -EPIPE : uvconn_send(e->conn, FRAME_DATA, (uint16_t)channel, bytes, n);

	if (r >= 0 || r == -EPIPE || r == -ECONNRESET)
		return;
	log_error(e->sandbox, NULL, "exec: output is lost, and its connection with it: %s", strerror(-r));
	e->broken = true;
}

/* One read, one frame. False: nothing is there now. */
static bool forward(struct exec *e, struct stream *s)
{
	static uint8_t buf[FRAME_MAX_PAYLOAD];
	ssize_t n;

	do
		n = read(s->fd, buf, sizeof(buf));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		end_stream(s);
		return true;
	}
	s->owed -= s->owed < (size_t)n ? s->owed : (size_t)n;
	touch(e);
	if (e->conn && !e->answered)
		send_output(e, s->channel, buf, (size_t)n);
	return true;
}

static void on_output(uv_poll_t *poll, int status, int events)
{
	struct exec *e = poll->data;
	struct stream *s = poll == &e->streams[STDOUT].poll ? &e->streams[STDOUT] : &e->streams[STDERR];

	(void)events;
	if (s->fd < 0)
		return;
	/* Another stream's frame may have filled the queue since this event was fetched. */
	if (e->conn && !e->answered && conn_queued(uvconn_conn(e->conn)) > 0) {
		update_reading(e);
		return;
	}
	if (status < 0)
		end_stream(s);
	else
		forward(e, s);
	if (!e->conn || e->answered) {
		e->discard_at = clock_mono_ms() + DISCARD_MS;
		set_timer(e);
	}
	go_on(e);
}

/* ---- The result ---- */

static void fill_survivors(
        Wire__ExecResult *r, const struct process_receipt *receipt, Wire__Process *procs, Wire__Process **list)
{
	for (uint32_t i = 0; i < receipt->nsurvivors; i++) {
		wire__process__init(&procs[i]);
		procs[i].pid = (uint32_t)receipt->survivors[i].pid;
		procs[i].comm = (char *)receipt->survivors[i].comm;
		list[i] = &procs[i];
	}
	r->n_survivors = receipt->nsurvivors;
	r->survivors = list;
}

static void send_result(struct exec *e)
{
	/* Not literals: the generated messages have no const. */
	static char unknown[] = "its keeper was killed: how the command ended is not known";
	static char timeout[] = "TIMEOUT", idle_timeout[] = "IDLE_TIMEOUT";
	Wire__ExecResult r = WIRE__EXEC_RESULT__INIT;
	Wire__Exit ex = WIRE__EXIT__INIT;
	Wire__Error failure = WIRE__ERROR__INIT;
	Wire__Process procs[KEEPER_MAX_PROCS], *list[KEEPER_MAX_PROCS];

	if (e->refused && e->refusal.code != RESULT_OK) {
		failure.code = (uint32_t)e->refusal.code;
		failure.message = e->refusal.text;
		r.failure = &failure;
	} else if (e->refused) {
		ex.code = e->refusal.exit_code;
		r.exit = &ex;
	} else if (e->exited && !e->exit.status_known) {
		failure.code = RESULT_UNAVAILABLE;
		failure.message = unknown;
		r.failure = &failure;
	} else if (e->exited) {
		ex.code = e->exit.code;
		ex.signal = e->exit.signal;
		if (e->timed_out || e->idle_timed_out)
			ex.name = e->timed_out ? timeout : idle_timeout;
		r.exit = &ex;
	}
	r.timed_out = e->timed_out;
	r.idle_timed_out = e->idle_timed_out;
	r.held = e->held;
	fill_survivors(&r, &e->receipt, procs, list);
	uvconn_send_message(e->conn, &r.base, NULL, 0);
}

static void close_conn(struct exec *e)
{
	uvconn_close(e->conn);
	e->conn = NULL;
}

/* The last thing said. The connection closes when all of it is written. */
static void answer(struct exec *e)
{
	if (e->refused && e->refusal.code == RESULT_OK)
		send_output(e, CHANNEL_STDERR, e->refusal.text, strlen(e->refusal.text));
	if (!e->broken)
		send_result(e);
	e->answered = true;
	close_input(e);
}

static bool streams_ended(const struct exec *e)
{
	return e->streams[STDOUT].fd < 0 && e->streams[STDERR].fd < 0;
}

/* After the time for it: nothing of the program's own is in the pipes any more, so who holds them is something else. */
static bool streams_held(struct exec *e)
{
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &e->streams[i];
		if (s->fd >= 0 && s->owed == 0 && conn_queued(uvconn_conn(e->conn)) == 0)
			forward(e, s);
		if (s->fd >= 0 && s->owed > 0)
			return false;
	}
	return !streams_ended(e) && conn_queued(uvconn_conn(e->conn)) == 0;
}

static bool is_answer_due(struct exec *e)
{
	if (e->refused)
		return true;
	if (!e->exited && !e->ended)
		return false;
	if (streams_ended(e))
		return true;
	if (clock_mono_ms() < e->exited_at + EXEC_HELD_MS)
		return false;
	e->held = streams_held(e);
	return e->held || streams_ended(e);
}

/* The daemon's end does not wait for who reads slowly. */
static void answer_at_once(struct exec *e)
{
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &e->streams[i];
		while (s->fd >= 0 && conn_queued(uvconn_conn(e->conn)) < OUT_LIMIT / 2 && forward(e, s))
			;
	}
	answer(e);
	close_conn(e);
}

/* After every event: what it made possible. */
static void go_on(struct exec *e)
{
	if (e->conn && !e->answered && e->broken) {
		hang_up(e);
		return;
	}
	if (e->conn && !e->answered && closing.active && (e->gone || e->ended))
		answer_at_once(e);
	if (e->conn && !e->answered && is_answer_due(e))
		answer(e);
	if (e->conn && e->answered && conn_queued(uvconn_conn(e->conn)) == 0)
		close_conn(e);
	update_reading(e);
	set_timer(e);
	finish_if_over(e);
}

/* ---- Ends ---- */

static void on_end_done(struct process *p, const struct process_receipt *r, void *ctx)
{
	struct exec *e = ctx;

	(void)p;
	if (!e->exited)
		e->exited_at = clock_mono_ms();
	e->ended = true;
	e->receipt = *r;
	if (closing.active)
		e->gone = true; /* survivors are the kernel's: nobody waits for them */
	go_on(e);
}

static void end_process(struct exec *e, uint64_t grace_ms)
{
	if (e->gone || !e->process)
		return;
	if (process_end(e->process, grace_ms, on_end_done, e) == 0)
		return;
	log_error(e->sandbox, NULL, "exec: no memory to end pid %d", (int)process_pid(e->process));
	if (closing.active)
		e->gone = true; /* its keeper ends it when this daemon has left */
}

static void hang_up(struct exec *e)
{
	if (!e->conn)
		return;
	if (!e->answered)
		end_process(e, PROCESS_GRACE_MS);
	/* Its pipes stay: losing them too would be a second deadly signal beside SIGHUP. */
	close_conn(e);
	go_on(e);
}

/* ---- Time ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool has_limits(const struct exec *e)
{
	return !e->exited && !e->gone && !e->timed_out && !e->idle_timed_out && e->process;
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct exec *e)
{
	uint64_t now = clock_mono_ms(), at = e->discard_at;

	if (has_limits(e))
		at = sooner(at, sooner(e->timeout_at, e->idle_ms ? e->active_at + e->idle_ms : NEVER));
	if ((e->exited || e->ended) && e->conn && !e->answered && e->exited_at + EXEC_HELD_MS > now)
		at = sooner(at, e->exited_at + EXEC_HELD_MS);
	if (at == NEVER) {
		uv_timer_stop(&e->timer);
		return;
	}
	uv_update_time(e->timer.loop);
	uv_timer_start(&e->timer, on_timer, at > now ? at - now : 0, 0);
}

static void check_limits(struct exec *e, uint64_t now)
{
	/* Where the connection does not take its output, it is not the program that is idle. */
	if (e->conn && conn_queued(uvconn_conn(e->conn)) > 0)
		touch(e);
	if (!has_limits(e))
		return;
	e->timed_out = now >= e->timeout_at;
	e->idle_timed_out = !e->timed_out && e->idle_ms && now >= e->active_at + e->idle_ms;
	if (e->timed_out || e->idle_timed_out)
		end_process(e, EXEC_LIMIT_GRACE_MS);
}

static void on_timer(uv_timer_t *timer)
{
	struct exec *e = timer->data;
	uint64_t now = clock_mono_ms();

	if (now >= e->discard_at)
		e->discard_at = NEVER;
	check_limits(e, now);
	go_on(e);
}

/* ---- What the process tells ---- */

static void on_failed(struct process *p, enum keeper_step step, int error, void *ctx)
{
	struct exec *e = ctx;

	(void)p;
	e->refused = true;
	exec_plan_failed(&e->plan, step, error, &e->refusal);
	go_on(e);
}

static void on_exited(struct process *p, const struct process_exit *ex, void *ctx)
{
	struct exec *e = ctx;
	int waiting;

	(void)p;
	e->exited = true;
	e->exit = *ex;
	e->exited_at = clock_mono_ms();
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &e->streams[i];
		if (s->fd >= 0 && ioctl(s->fd, FIONREAD, &waiting) == 0)
			s->owed = (size_t)waiting;
	}
	go_on(e);
}

static void on_gone(struct process *p, bool proven, void *ctx)
{
	struct exec *e = ctx;

	(void)p;
	if (!proven)
		log_warn(e->sandbox, NULL, "exec: keeper killed; what it kept is ended by search");
	e->gone = true;
	go_on(e);
}

static const struct process_handler process_handler = {
	.on_failed = on_failed,
	.on_exited = on_exited,
	.on_gone = on_gone,
};

/* ---- What the connection tells ---- */

static void on_frame(struct uvconn *u, const struct frame *f, void *ctx)
{
	struct exec *e = ctx;

	(void)u;
	if (f->type != FRAME_DATA || f->channel != CHANNEL_INPUT)
		hang_up(e); /* it does not speak this protocol */
	else
		take_input(e, f);
}

static void on_conn_gone(struct uvconn *u, int err, void *ctx)
{
	(void)u;
	(void)err;
	hang_up(ctx);
}

static void on_drained(struct uvconn *u, void *ctx)
{
	struct exec *e = ctx;

	(void)u;
	touch(e);
	go_on(e);
}

static const struct uvconn_handler conn_handler = {
	.on_frame = on_frame,
	.on_gone = on_conn_gone,
	.on_drained = on_drained,
};

/* ---- Start ---- */

/* Both ends of one of the program's streams. ours: non-blocking; theirs: as programs expect it. */
struct ends {
	int ours, theirs;
};

static int open_pipe(struct ends *p, bool we_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	p->ours = fds[we_read ? 0 : 1];
	p->theirs = fds[we_read ? 1 : 0];
	return fd_set_nonblocking(p->ours, 1);
}

static int open_stdin(struct ends *p, bool stream)
{
	if (stream)
		return open_pipe(p, false);
	p->theirs = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return p->theirs < 0 ? -errno : 0;
}

static int open_streams(struct ends ends[3], bool stdin_stream)
{
	int r = open_stdin(&ends[0], stdin_stream);

	for (int i = 1; r == 0 && i <= 2; i++)
		r = open_pipe(&ends[i], true);
	return r;
}

/* Gives a descriptor of ours to the loop: *fd is *from then. */
static int watch(uv_loop_t *loop, struct exec *e, uv_poll_t *poll, int *fd, int *from)
{
	int r = uv_poll_init(loop, poll, *from);

	if (r < 0)
		return r;
	poll->data = e;
	e->handles++;
	*fd = fd_take(from);
	return 0;
}

static int watch_streams(uv_loop_t *loop, struct exec *e, struct ends ends[3])
{
	int r = 0;

	if (e->input)
		r = watch(loop, e, &e->input->poll, &e->input->fd, &ends[0].ours);
	for (int i = 0; r == 0 && i < STREAMS; i++) {
		struct stream *s = &e->streams[i];
		r = watch(loop, e, &s->poll, &s->fd, &ends[1 + i].ours);
	}
	return r;
}

/* The connection gets a duplicate, so that until all has worked the socket is the caller's. */
static int connect_peer(uv_loop_t *loop, struct exec *e, int sock)
{
	int fd = fd_dup_cloexec(sock);

	if (fd < 0)
		return fd;
	int r = uvconn_new(loop, fd, OUT_LIMIT, &conn_handler, e, &e->conn);
	if (r < 0)
		fd_close(&fd);
	return r;
}

static int start_program(uv_loop_t *loop, struct exec *e, const struct ends ends[3])
{
	const struct keeper_spec k = {
		.path = e->plan.path,
		.argv = (const char *const *)e->plan.argv,
		.envp = (const char *const *)e->plan.envp,
		.cwd = e->plan.cwd,
		.tty = -1,
		.in = ends[0].theirs,
		.out = ends[1].theirs,
		.err = ends[2].theirs,
		.label = "exec",
	};

	return process_start(loop, &k, &process_handler, e, &e->process);
}

/* Everything that can fail comes before the fork, but the fork. */
static int begin(uv_loop_t *loop, struct exec *e, int sock)
{
	struct ends ends[3] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	int r = connect_peer(loop, e, sock);

	if (r == 0 && !e->refused) {
		r = open_streams(ends, e->input != NULL);
		if (r == 0)
			r = watch_streams(loop, e, ends);
		if (r == 0)
			r = start_program(loop, e, ends);
	}
	for (int i = 0; i < 3; i++) {
		fd_close(&ends[i].ours);
		fd_close(&ends[i].theirs);
	}
	return r;
}

static uint64_t deadline(uint64_t ms)
{
	uint64_t now = clock_mono_ms();

	return ms == 0 || ms > NEVER - now ? NEVER : now + ms;
}

static void link_exec(struct exec *e)
{
	e->next = execs;
	e->link = &execs;
	if (execs)
		execs->link = &e->next;
	execs = e;
}

static int new_exec(const Wire__ExecSpec *spec, const struct exec_defaults *defaults, struct exec **out)
{
	struct exec *e = calloc(1, sizeof(*e));
	int r = e ? exec_plan_make(spec, defaults, &e->plan) : -ENOMEM;

	if (r == 0 && spec->stdin_stream) {
		e->input = calloc(1, sizeof(*e->input));
		if (e->input)
			e->input->fd = -1;
		else
			r = -ENOMEM;
	}
	if (r < 0) {
		if (e)
			free_exec(e);
		return r;
	}
	for (int i = 0; i < STREAMS; i++) {
		e->streams[i].fd = -1;
		e->streams[i].channel = i == STDOUT ? CHANNEL_STDOUT : CHANNEL_STDERR;
	}
	e->sandbox = defaults->sandbox;
	e->refused = e->plan.path == NULL;
	e->refusal = e->plan.refusal;
	e->gone = true; /* until something was started */
	e->timeout_at = deadline(spec->timeout_ms);
	e->idle_ms = spec->idle_timeout_ms;
	e->discard_at = NEVER;
	touch(e);
	*out = e;
	return 0;
}

int exec_start(
        uv_loop_t *loop, const Wire__ExecSpec *spec, int sock, const struct exec_defaults *defaults, pid_t *keeper_pid)
{
	struct exec *e;
	int r = new_exec(spec, defaults, &e);

	if (r < 0)
		return r;
	uv_timer_init(loop, &e->timer);
	e->timer.data = e;
	e->handles = 1;
	link_exec(e);

	r = begin(loop, e, sock);
	if (r < 0) {
		if (e->conn)
			close_conn(e);
		finish_if_over(e);
		return r;
	}
	fd_close(&sock);
	e->gone = e->process == NULL;
	*keeper_pid = e->process ? process_keeper_pid(e->process) : 0;
	go_on(e);
	return 0;
}

/* ---- The daemon's end ---- */

static void end_exec(struct exec *e, uint64_t grace_ms)
{
	end_process(e, grace_ms);
	if (!e->gone)
		return;
	if (e->conn && !e->answered)
		answer_at_once(e);
	else if (e->conn)
		close_conn(e);
	finish_if_over(e);
}

void exec_end_all(uint64_t grace_ms, void (*done)(void *ctx), void *ctx)
{
	struct exec *e = execs, *next;

	if (!e) {
		done(ctx);
		return;
	}
	closing.active = true;
	closing.done = done;
	closing.ctx = ctx;
	for (; e; e = next) {
		next = e->next;
		end_exec(e, grace_ms);
	}
}

unsigned exec_count(void)
{
	unsigned n = 0;

	for (const struct exec *e = execs; e; e = e->next)
		n++;
	return n;
}
