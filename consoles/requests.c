/* requests.c - one function a request; those that take their time answer by their ticket. */
#include "consoles/requests.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "consoles/exec.h"
#include "consoles/stream.h"
#include "wire/fd.h"
#include "wire/mark.h"
#include "wire/text.h"

#define STARTUP_OUTPUT ((size_t)16 * 1024) /* bytes of a failed program's output that its start's answer carries */
#define GRACE_MAX_MS   3600000             /* an hour */
#define LIST_BATCH     8                   /* infos in one answer: each at most 7 KiB, a frame has 64 */

static void answer_with_info(struct server *s, const struct ticket *t, struct console *c)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	struct info_message m;

	info_fill(&m, console_facts(c));
	r.body_case = WIRE__CONSOLED_REPLY__BODY_CONSOLE;
	r.console = &m.info;
	owner_reply(s->owner, t, &r, NULL, 0);
}

/* ---- hello, list ---- */

static bool ring_bytes_valid(uint64_t bytes)
{
	return bytes >= RING_MIN_CAPACITY && bytes <= RING_MAX_CAPACITY && (bytes & (bytes - 1)) == 0;
}

void on_hello(struct server *s, const struct request *q)
{
	const Wire__ConsoledHello *hello = q->message->hello;
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoledHelloReply h = WIRE__CONSOLED_HELLO_REPLY__INIT;
	static char version[] = RINGSIDE_VERSION;

	if (hello->protocol == 0 || hello->console_limit > CONSOLE_LIMIT_MAX ||
	        (hello->ring_bytes != 0 && !ring_bytes_valid(hello->ring_bytes))) {
		owner_refuse(s->owner, &q->ticket, RESULT_INVALID_ARGUMENT,
		        "hello: a protocol version, up to %d consoles and a ring's size are expected",
		        CONSOLE_LIMIT_MAX);
		return;
	}
	s->daemon->console_limit = hello->console_limit ? hello->console_limit : CONSOLE_LIMIT_DEFAULT;
	s->daemon->ring_bytes = hello->ring_bytes ? (size_t)hello->ring_bytes : RING_BYTES_DEFAULT;
	owner_welcome(s->owner);

	h.protocol = hello->protocol < CONSOLE_PROTOCOL_VERSION ? hello->protocol : CONSOLE_PROTOCOL_VERSION;
	h.version = version;
	h.pid = (uint32_t)getpid();
	h.instance = (ProtobufCBinaryData){ .len = sizeof(s->instance), .data = s->instance };
	h.ring_layout = RING_LAYOUT;
	h.marks_layout = MARK_LAYOUT;
	r.body_case = WIRE__CONSOLED_REPLY__BODY_HELLO;
	r.hello = &h;
	owner_reply(s->owner, &q->ticket, &r, NULL, 0);
}

struct lister {
	struct server *server;
	const struct ticket *ticket;
	size_t n;
	struct info_message messages[LIST_BATCH];
	Wire__ConsoleInfo *infos[LIST_BATCH];
};

static void send_batch(struct lister *l, bool more)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoleListReply list = WIRE__CONSOLE_LIST_REPLY__INIT;

	list.consoles = l->infos;
	list.n_consoles = l->n;
	r.body_case = WIRE__CONSOLED_REPLY__BODY_LIST;
	r.list = &list;
	r.more = more;
	owner_reply(l->server->owner, l->ticket, &r, NULL, 0);
	l->n = 0;
}

static void list_one(struct console *c, void *ctx)
{
	struct lister *l = ctx;

	if (l->n == LIST_BATCH)
		send_batch(l, true);
	info_fill(&l->messages[l->n], console_facts(c));
	l->infos[l->n] = &l->messages[l->n].info;
	l->n++;
}

void on_list(struct server *s, const struct request *q)
{
	struct lister l = { .server = s, .ticket = &q->ticket };

	table_each(s->table, list_one, &l);
	send_batch(&l, false);
}

/* ---- start ---- */

static void send_start(struct server *s, const struct ticket *t, const Wire__StartReply *start,
        const struct failure *why, const int *fds, unsigned nfds)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__StartReply message = *start;
	Wire__Error e = WIRE__ERROR__INIT;

	if (why) {
		e.code = (uint32_t)why->code;
		e.message = (char *)(uintptr_t)why->message; /* only read */
		message.failure = &e;
	}
	r.body_case = WIRE__CONSOLED_REPLY__BODY_START;
	r.start = &message;
	owner_reply(s->owner, t, &r, fds, nfds);
}

void answer_start(const struct observed *o, void *ctx)
{
	struct server *s = ctx;
	Wire__StartReply start = WIRE__START_REPLY__INIT;
	unsigned char output[STARTUP_OUTPUT];
	struct info_message m;
	int fds[2];
	unsigned nfds = o->failure ? 0 : scrollback_fds(console_scrollback(o->console), fds);

	info_fill(&m, console_facts(o->console));
	start.console = &m.info;
	start.reattached = o->reattached;
	if (o->ended && !o->failure) {
		start.startup_output.len = scrollback_newest(console_scrollback(o->console), output, sizeof(output));
		start.startup_output.data = output;
	}
	send_start(s, &o->ticket, &start, o->failure, fds, nfds);
}

/* The program is not there or cannot be run, so nothing was forked. The answer looks as if it had been: EXITED, with
 * the status that a shell would give, and the earlier incarnation's scrollback still readable. */
static void answer_not_started(struct server *s, const struct request *q, const struct failure *why)
{
	const Wire__ConsoleSpec *spec = q->message->start;
	struct console *earlier = table_find(s->table, spec->name);
	struct console_facts f = { 0 };
	Wire__StartReply start = WIRE__START_REPLY__INIT;
	struct info_message m;

	if (earlier)
		f = *console_facts(earlier);
	else
		f.head_offset = f.tail_offset = spec->start_offset;
	strcpy(f.name, spec->name); /* was checked before the program was looked for */
	f.incarnation = earlier ? f.incarnation + 1 : spec->incarnation ? spec->incarnation : 1;
	f.state = CONSOLE_EXITED;
	f.pid = 0;
	f.argv = spec->n_argv ? &spec->argv[0] : NULL;
	f.n_argv = spec->n_argv ? 1 : 0;
	f.exit = (struct process_exit){ .status_known = true, .code = failure_exit_code(why) };
	f.reason = "not started";
	info_fill(&m, &f);
	start.console = &m.info;
	send_start(s, &q->ticket, &start, why, NULL, 0);
}

void on_start(struct server *s, const struct request *q)
{
	const Wire__ConsoleSpec *spec = q->message->start;
	struct failure why;
	struct console *c;
	enum table_start started;
	bool reattached;

	if (spec->observe_ms > OBSERVE_MAX_MS) {
		owner_refuse(s->owner, &q->ticket, RESULT_INVALID_ARGUMENT, "a start is observed for at most %d s",
		        OBSERVE_MAX_MS / 1000);
		return;
	}
	if (observers_reserve(s->observers) < 0) {
		owner_refuse(s->owner, &q->ticket, RESULT_RESOURCE_LIMIT, "too many starts wait for their answer");
		return;
	}
	started = table_start(s->table, spec, &c, &why);
	if (started == TABLE_REFUSED) {
		if (why.of_exec)
			answer_not_started(s, q, &why);
		else
			owner_refuse(s->owner, &q->ticket, why.code, "%s", why.message);
		return;
	}
	reattached = started == TABLE_WAS_RUNNING;
	observe(s->observers, c, &q->ticket, reattached, reattached ? 0 : spec->observe_ms);
}

/* ---- Streams ---- */

static bool is_stream_socket(int fd)
{
	int type = 0;
	socklen_t n = sizeof(type);

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM;
}

/* The socket that a request brings, ready for the loop; -1: refused. */
static int take_socket(struct server *s, const struct request *q)
{
	int fd = owner_take_fd(s->owner, 0);

	if (is_stream_socket(fd) && fd_set_nonblocking(fd, 1) == 0)
		return fd;
	fd_close(&fd);
	owner_refuse(s->owner, &q->ticket, RESULT_INVALID_ARGUMENT, "a stream socket has to come with this request");
	return -1;
}

void on_open(struct server *s, const struct request *q)
{
	const Wire__OpenConsole *open = q->message->open;
	const struct stream_rights rights = { .write = open->write, .resize = open->resize, .attach = open->attach };
	int fd = take_socket(s, q);
	int err;

	if (fd < 0)
		return;
	err = stream_open(s->daemon->loop, fd, q->console, &rights);
	if (err < 0) {
		fd_close(&fd);
		owner_refuse(
		        s->owner, &q->ticket, RESULT_RESOURCE_LIMIT, "cannot serve another stream: %s", strerror(-err));
		return;
	}
	answer_with_info(s, &q->ticket, q->console);
}

void on_exec(struct server *s, const struct request *q)
{
	const struct options *o = &s->daemon->options;
	const struct exec_defaults defaults = { .workspace = o->workspace, .path = o->path, .sandbox = o->sandbox };
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__ExecStarted started = WIRE__EXEC_STARTED__INIT;
	pid_t keeper = 0;
	int fd, err;

	if (!q->message->exec->spec) {
		owner_refuse(s->owner, &q->ticket, RESULT_INVALID_ARGUMENT, "an exec needs a command");
		return;
	}
	fd = take_socket(s, q);
	if (fd < 0)
		return;
	err = exec_start(s->daemon->loop, q->message->exec->spec, fd, &defaults, &keeper);
	if (err < 0) {
		fd_close(&fd);
		owner_refuse(s->owner, &q->ticket, RESULT_RESOURCE_LIMIT, "cannot start a command: %s", strerror(-err));
		return;
	}
	started.pid = (uint32_t)keeper;
	r.body_case = WIRE__CONSOLED_REPLY__BODY_EXEC;
	r.exec = &started;
	owner_reply(s->owner, &q->ticket, &r, NULL, 0);
}

/* ---- signal, resize ---- */

static void answer_result(struct server *s, const struct request *q, enum result code, const char *problem)
{
	if (code == RESULT_OK)
		answer_with_info(s, &q->ticket, q->console);
	else
		owner_refuse(s->owner, &q->ticket, code, "%s",
		        code == RESULT_NOT_RUNNING ? "the console has ended" : problem);
}

void on_signal(struct server *s, const struct request *q)
{
	answer_result(s, q, console_signal(q->console, q->message->signal->signal), "no such signal");
}

void on_resize(struct server *s, const struct request *q)
{
	const Wire__ResizeConsole *size = q->message->resize;

	answer_result(s, q, console_resize(q->console, NULL, size->cols, size->rows),
	        "a terminal has 2x2 to 1000x500 characters");
}

/* ---- close ---- */

struct closing {
	struct server *server;
	struct ticket ticket;
};

static void fill_steps(const struct process_receipt *r, Wire__CloseStep *steps, Wire__CloseStep **list)
{
	for (unsigned i = 0; i < r->nsteps; i++) {
		wire__close_step__init(&steps[i]);
		steps[i].signal = (char *)(uintptr_t)text_signal_name(r->steps[i].signal); /* only read */
		steps[i].at_ms = r->steps[i].at_ms;
		steps[i].left = r->steps[i].left;
		list[i] = &steps[i];
	}
}

static void on_closed(struct console *c, const struct process_receipt *receipt, void *ctx)
{
	struct closing *closing = ctx;
	const struct console_facts *f = console_facts(c);
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__CloseReceipt message = WIRE__CLOSE_RECEIPT__INIT;
	Wire__Exit ended;
	Wire__CloseStep steps[PROCESS_MAX_STEPS], *step_list[PROCESS_MAX_STEPS];
	Wire__Process survivors[KEEPER_MAX_PROCS], *survivor_list[KEEPER_MAX_PROCS];

	fill_steps(receipt, steps, step_list);
	message.steps = step_list;
	message.n_steps = receipt->nsteps;
	info_fill_processes(receipt->survivors, receipt->nsurvivors, survivors, survivor_list);
	message.survivors = survivor_list;
	message.n_survivors = receipt->nsurvivors;
	message.unproven = receipt->unproven;
	message.state = (uint32_t)f->state;
	message.tail_offset = f->tail_offset;
	if (f->state == CONSOLE_EXITED) {
		info_fill_exit(&ended, &f->exit);
		message.exit = &ended;
	}
	r.body_case = WIRE__CONSOLED_REPLY__BODY_CLOSED;
	r.closed = &message;
	owner_reply(closing->server->owner, &closing->ticket, &r, NULL, 0);
	free(closing);
}

void on_close(struct server *s, const struct request *q)
{
	const Wire__CloseConsole *close_ = q->message->close;
	uint64_t grace = close_->has_grace ? close_->grace_ms : PROCESS_GRACE_MS;
	struct closing *closing;
	enum result code = RESULT_RESOURCE_LIMIT;

	if (grace > GRACE_MAX_MS) {
		owner_refuse(s->owner, &q->ticket, RESULT_INVALID_ARGUMENT, "a grace is an hour at most");
		return;
	}
	closing = malloc(sizeof(*closing));
	if (closing) {
		*closing = (struct closing){ .server = s, .ticket = q->ticket };
		code = console_end(q->console, grace, "closed", on_closed, closing);
	}
	if (code != RESULT_OK) {
		free(closing);
		owner_refuse(s->owner, &q->ticket, code, "cannot wait for its end: %s", result_meaning((unsigned)code));
	}
}

/* ---- Custody ---- */

void on_take(struct server *s, const struct request *q)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__TakeReply take = WIRE__TAKE_REPLY__INIT;
	struct info_message m;
	int fds[2];
	unsigned nfds = scrollback_fds(console_scrollback(q->console), fds);

	info_fill(&m, console_facts(q->console));
	take.console = &m.info;
	r.body_case = WIRE__CONSOLED_REPLY__BODY_TAKE;
	r.take = &take;
	owner_reply(s->owner, &q->ticket, &r, fds, nfds);
}

void on_kept(struct server *s, const struct request *q)
{
	const Wire__ConsoleKept *kept = q->message->kept;

	/* Late news of an incarnation that is history is no error. */
	if (q->console && console_state(q->console) == CONSOLE_EXITED &&
	        console_facts(q->console)->incarnation == kept->incarnation)
		scrollback_close_fds(console_scrollback(q->console));
	owner_done(s->owner, &q->ticket);
}

/* ---- shutdown ---- */

static void one_less(struct server *s)
{
	if (--s->end_waits > 0)
		return;
	owner_done(s->owner, &s->end_ticket);
	uv_stop(s->daemon->loop);
}

static void console_has_ended(struct console *c, const struct process_receipt *r, void *ctx)
{
	(void)c;
	(void)r;
	one_less(ctx);
}

static void execs_have_ended(void *ctx)
{
	struct server *s = ctx;

	s->execs_waited_for = false;
	one_less(s);
}

struct ending {
	struct server *server;
	uint64_t grace_ms;
};

static void end_one(struct console *c, void *ctx)
{
	const struct ending *e = ctx;

	e->server->end_waits++;
	/* Where there is no memory to wait for it, its keeper ends it when the daemon is gone. */
	if (console_end(c, e->grace_ms, "closed", console_has_ended, e->server) != RESULT_OK)
		e->server->end_waits--;
}

/* Asked again, it hurries what is under way, and the last who asked is answered. */
void on_shutdown(struct server *s, const struct request *q)
{
	struct ending e = { .server = s, .grace_ms = q->message->shutdown->grace_ms };

	if (e.grace_ms > GRACE_MAX_MS)
		e.grace_ms = GRACE_MAX_MS;
	s->ending = true;
	s->end_ticket = q->ticket;
	s->end_waits++; /* held while the list is gone through: some end at once */
	table_each(s->table, end_one, &e);
	if (!s->execs_waited_for) /* their end is told once, however often it is asked for */
		s->end_waits++;
	s->execs_waited_for = true;
	exec_end_all(e.grace_ms, execs_have_ended, s);
	one_less(s);
}
