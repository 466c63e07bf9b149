/*
 * keeper.c - the keeper's life, and the two or three calls by which the console daemon makes and hears one; see
 * keeper.h.
 *
 * One process, one loop: reap what has died, report it, obey what was ordered, wait. Everything it knows is in one
 * struct.
 */
#include "consoles/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "consoles/family.h"
#include "consoles/launch.h"
#include "consoles/procstat.h"
#include "consoles/shed.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/signals.h"

/* How long a SIGKILL order waits for the dying before it answers with who still stands: a process needs a turn of the
 * scheduler to die, and hundreds of a bomb's need hundreds. */
#define KILL_WAIT_MS  100
#define KILL_SLICE_MS 5

/* Left alone (the console daemon is gone): the close's timetable, then SIGKILL again and again. */
#define ALONE_TERM_MS  500
#define ALONE_KILL_MS  3000
#define ALONE_AGAIN_MS 100

/* Dead reaped before orders are looked at again: a bomb's may come as fast as they go. */
#define REAPED_AT_ONCE 1000

struct self {
	int sock;
	int launch;      /* read end of the exec pipe; -1: the program has been exec'ed, or never was */
	pid_t program;   /* 0: none, or its exit is told */
	bool has_status; /* it is reaped, and its exit is still to be told */
	int status;
	bool more_dead; /* reaping has stopped in the middle */
	uint64_t start; /* of the program, for STARTED */
	bool alone;
	uint64_t alone_since, alone_next;
	unsigned alone_step;
};

static _Noreturn void leave(void)
{
	_exit(0); /* never exit(): what the daemon registered to run there is the daemon's */
}

/* ---- Reports ---- */

static void be_alone(struct self *s)
{
	if (s->alone)
		return;
	s->alone = true;
	s->alone_since = s->alone_next = clock_mono_ms();
	fd_close(&s->sock);
}

/* Waits for room: the console daemon may be stopped, and no report may be lost. Few can wait: it asked for each. */
static void report(struct self *s, const struct keeper_report *r)
{
	while (!s->alone && send(s->sock, r, sizeof(*r), MSG_NOSIGNAL) < 0) {
		struct pollfd room = { .fd = s->sock, .events = POLLOUT };
		if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
			poll(&room, 1, 1000);
		else if (errno != EINTR)
			be_alone(s);
	}
}

static void add_family(struct keeper_report *r, const struct family_result *f)
{
	r->left = f->got;
	r->nprocs = f->nprocs;
	memcpy(r->procs, f->procs, sizeof(r->procs));
}

static void report_failed(struct self *s, int step, int error)
{
	report(s, &(struct keeper_report){ .kind = REPORT_FAILED, .step = step, .error = error });
}

/* What the exec pipe says: a failure, or by its end that the program runs. Nothing yet: nothing happens. */
static void read_launch(struct self *s)
{
	struct launch_failure f;
	ssize_t n = read(s->launch, &f, sizeof(f));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	fd_close(&s->launch);
	if (n == (ssize_t)sizeof(f)) {
		s->program = 0;
		s->has_status = false; /* its end is no program's exit */
		report_failed(s, f.step, f.error);
		return;
	}
	report(s, &(struct keeper_report){ .kind = REPORT_STARTED, .pid = s->program, .start_time = s->start });
	shed_memory();
}

/* ---- Reaping ---- */

/* Reaps what is dead, and tells nobody yet. False: no child is left, so no descendant either: the proof. */
static bool reap_quietly(struct self *s)
{
	int status;
	pid_t pid = 0;

	s->more_dead = false;
	for (unsigned n = 0; n < REAPED_AT_ONCE; n++) {
		do
			pid = waitpid(-1, &status, WNOHANG | __WALL);
		while (pid < 0 && errno == EINTR);
		if (pid <= 0)
			return pid == 0;
		if (pid != s->program || s->has_status)
			continue;
		s->status = status;
		s->has_status = true;
	}
	s->more_dead = true;
	return true;
}

static void bury(pid_t child, void *ctx)
{
	(void)child;
	reap_quietly(ctx);
}

static struct family all_of(struct self *s)
{
	return (struct family){ .bury = bury, .ctx = s };
}

static void report_exited(struct self *s)
{
	struct keeper_report r = { .kind = REPORT_EXITED, .pid = s->program, .status = s->status };
	const struct family everyone = all_of(s);
	struct family_result left;

	s->program = 0;
	s->has_status = false;
	/* A scan only where the kernel says that somebody is there. */
	if (waitid(P_ALL, 0, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0) {
		family_list(&everyone, &left);
		add_family(&r, &left);
	}
	report(s, &r);
}

static bool reap(struct self *s)
{
	bool some = reap_quietly(s);

	if (!s->has_status)
		return some;
	/* Dead, so the exec pipe has its end, or the failure: then there was no program. */
	if (s->launch >= 0)
		read_launch(s);
	if (s->has_status)
		report_exited(s);
	return some;
}

/* ---- Orders ---- */

/* Without a /proc the program and its process group are all that is known: a session leader's group is of its session
 * alone, and the number is taken as long as we have not reaped it. */
static void signal_blind(const struct self *s, int sig, bool cont, pid_t group, struct family_result *out)
{
	if (!out->partial || out->got > 0 || s->program == 0 || s->has_status || (group != 0 && group != s->program))
		return;
	if (kill(-s->program, sig) < 0)
		return;
	if (cont)
		kill(-s->program, SIGCONT);
	out->got = 1;
}

static void wait_for_a_death(int ms)
{
	const struct timespec limit = { .tv_nsec = ms * 1000000L };
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigtimedwait(&chld, NULL, &limit);
}

/* Rounds of killing until nothing is left or KILL_WAIT_MS have passed. */
static void kill_all(struct self *s, struct family_result *out)
{
	const struct family everyone = all_of(s);
	const uint64_t deadline = clock_mono_ms() + KILL_WAIT_MS;
	const int nice_before = getpriority(PRIO_PROCESS, 0);
	uint32_t got = 0;
	bool some;

	/* One among hundreds of a bomb's on the run queue would have one turn in hundreds. Only root may; else it takes
	 * longer. */
	setpriority(PRIO_PROCESS, 0, -20);
	do {
		family_kill(&everyone, out);
		signal_blind(s, SIGKILL, false, 0, out);
		got += out->got;
		some = reap(s);
		if (some) {
			wait_for_a_death(KILL_SLICE_MS);
			some = reap(s);
		}
	} while (some && clock_mono_ms() < deadline);
	setpriority(PRIO_PROCESS, 0, nice_before);

	out->got = got;
	if (!some)
		out->nprocs = 0;
}

static void obey(struct self *s, const struct keeper_order *o)
{
	const struct family everyone = all_of(s);
	struct keeper_report r = { .kind = REPORT_SIGNALLED, .order = o->order };
	struct family_result f = { 0 };

	switch (o->kind) {
	case ORDER_SIGNAL_ALL:
		if (o->signal == SIGKILL) {
			kill_all(s, &f);
			break;
		}
		family_signal(&everyone, o->signal, o->cont, 0, &f);
		signal_blind(s, o->signal, o->cont, 0, &f);
		break;
	case ORDER_SIGNAL_GROUP:
		if (o->group <= 0) /* it would mean everybody */
			break;
		family_signal(&everyone, o->signal, o->cont, o->group, &f);
		signal_blind(s, o->signal, o->cont, o->group, &f);
		break;
	case ORDER_LIST:
		family_list(&everyone, &f);
		signal_blind(s, 0, false, 0, &f);
		break;
	}
	add_family(&r, &f);
	report(s, &r);
}

static void take_order(struct self *s)
{
	struct keeper_order o;
	ssize_t n = recv(s->sock, &o, sizeof(o), 0);

	if (n == (ssize_t)sizeof(o))
		obey(s, &o);
	else if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		be_alone(s);
}

/* ---- Alone ---- */

static void end_alone(struct self *s)
{
	const struct family everyone = all_of(s);
	struct family_result f;

	switch (s->alone_step++) {
	case 0:
		family_signal(&everyone, SIGHUP, true, 0, &f);
		signal_blind(s, SIGHUP, true, 0, &f);
		s->alone_next = s->alone_since + ALONE_TERM_MS;
		break;
	case 1:
		family_signal(&everyone, SIGTERM, true, 0, &f);
		signal_blind(s, SIGTERM, true, 0, &f);
		s->alone_next = s->alone_since + ALONE_KILL_MS;
		break;
	default:
		kill_all(s, &f);
		s->alone_next = clock_mono_ms() + ALONE_AGAIN_MS;
	}
}

/* ---- The loop ---- */

static void on_sigchld(int sig)
{
	(void)sig; /* it only ends the wait */
}

static int milliseconds_left(const struct self *s)
{
	uint64_t now = clock_mono_ms();

	if (s->more_dead)
		return 0;
	if (!s->alone)
		return -1;
	return s->alone_next > now ? (int)(s->alone_next - now) : 0;
}

/* SIGCHLD is let in only while waiting: one that comes between the reaping and the wait is not lost. */
static void wait_for_something(struct self *s)
{
	struct pollfd fds[] = { { .fd = s->sock, .events = POLLIN }, { .fd = s->launch, .events = POLLIN } };
	int ms = milliseconds_left(s);
	const struct timespec limit = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	sigset_t mask;

	sigfillset(&mask);
	sigdelset(&mask, SIGCHLD);
	if (ppoll(fds, 2, ms < 0 ? NULL : &limit, &mask) < 0)
		return;
	if (fds[1].revents)
		read_launch(s);
	if (fds[0].revents)
		take_order(s);
}

static _Noreturn void keep(struct self *s)
{
	while (reap(s)) {
		if (s->alone && clock_mono_ms() >= s->alone_next)
			end_alone(s);
		else
			wait_for_something(s);
	}
	report(s, &(struct keeper_report){ .kind = REPORT_EMPTY });
	leave();
}

/* ---- Its start ---- */

static void set_name(const char *label)
{
	char name[16] = "rs-keeper:";
	size_t n = strlen(name);

	while (*label && n < sizeof(name) - 1)
		name[n++] = *label++;
	prctl(PR_SET_NAME, name, 0, 0, 0);
}

static void close_all_but(const struct keeper_spec *spec, int sock)
{
	const int wanted[] = { sock, spec ? spec->tty : -1, spec ? spec->in : -1, spec ? spec->out : -1,
		spec ? spec->err : -1 };
	int kept[sizeof(wanted) / sizeof(wanted[0])];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (wanted[i] >= 0)
			kept[n++] = wanted[i];
	}
	fd_close_from(0, kept, n);
}

/* Away from the daemon: its session, directory, handlers and ignored signals. All signals stay blocked, for what a
 * program of the same user sends around (kill -1) must not reach its keeper. */
static int settle(const struct keeper_spec *spec)
{
	struct sigaction sa = { .sa_handler = on_sigchld, .sa_flags = SA_NOCLDSTOP };

	setsid();
	set_name(spec->label);
	signals_default();
	sigaction(SIGCHLD, &sa, NULL);
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* 0, or -errno of what the fork needed. */
static int fork_program(struct self *s, const struct keeper_spec *spec)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fd_set_nonblocking(ends[0], 1);
	s->program = _Fork();
	if (s->program == 0) {
		fd_close(&ends[0]);
		launch_program(spec, ends[1]);
	}
	int error = errno;
	fd_close(&ends[1]);
	if (s->program < 0) {
		s->program = 0;
		fd_close(&ends[0]);
		return -error;
	}
	s->launch = ends[0];
	return 0;
}

static _Noreturn void keeper_main(const struct keeper_spec *spec, int sock)
{
	struct self s = { .sock = sock, .launch = -1 };
	struct procstat stat;

	int r = settle(spec);
	if (r == 0 && chdir("/") < 0) /* it keeps no file system busy */
		r = -errno;
	close_all_but(spec, sock);
	if (r < 0)
		report_failed(&s, STEP_OTHER, -r);
	else if ((r = fork_program(&s, spec)) < 0)
		report_failed(&s, STEP_FORK, -r);
	else if (procstat_read(s.program, &stat) == 0)
		s.start = stat.start;
	const int kept[] = { s.sock, s.launch };
	fd_close_from(0, kept, s.launch >= 0 ? 2 : 1);
	keep(&s);
}

/* ---- The console daemon's side ---- */

int keeper_spawn(const struct keeper_spec *spec, struct keeper *out)
{
	int pair[2];
	sigset_t all, before;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;

	/* Blocked until the child has no handlers: libuv's write into a pipe that both processes hold. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* Not fork(): it would run what libraries have registered for it, and libuv ends the child with abort(3) where it
	 * gets no new pipe. What the keeper calls needs none of that. */
	pid = _Fork();
	if (pid == 0)
		keeper_main(spec, pair[1]);
	int error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	fd_close(&pair[1]);
	if (pid < 0) {
		fd_close(&pair[0]);
		return -error;
	}
	*out = (struct keeper){ .pid = pid, .sock = pair[0] };
	return 0;
}

int keeper_order(const struct keeper *k, const struct keeper_order *o)
{
	ssize_t n;

	do
		n = send(k->sock, o, sizeof(*o), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	return errno == ECONNRESET ? -EPIPE : -errno;
}

int keeper_report(const struct keeper *k, struct keeper_report *out)
{
	struct keeper_report r;
	ssize_t n;

	/* A keeper that left with an order unread makes the kernel say ECONNRESET once, before what the keeper had sent
	 * earlier: the second call gets that. */
	for (int attempt = 0; attempt < 2; attempt++) {
		do
			n = recv(k->sock, &r, sizeof(r), 0);
		while (n < 0 && errno == EINTR);
		if (n >= 0 || errno != ECONNRESET)
			break;
	}
	if (n == (ssize_t)sizeof(r) && r.nprocs <= KEEPER_MAX_PROCS) {
		*out = r;
		return 1;
	}
	return n < 0 && errno == EAGAIN ? 0 : -ECONNRESET;
}
