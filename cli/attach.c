/*
 * attach.c - see attach.h. One poll(2) loop over four descriptors.
 *
 *   keys     standard input ──▶ DATA frames           (not read while the console's connection is full)
 *   output   ring ──filter──▶ pending ──▶ terminal    (the ring is not read while something is pending)
 *
 * A terminal that is slow makes this program fall behind in the ring and nothing else; where it is overtaken, a line
 * says how much was skipped. A key costs poll, read, send; its echo poll, receive, write, send. Signals come by a
 * signalfd: whatever way this ends, it ends through attach_run(), which puts the terminal back.
 */
#include "cli/attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/filter.h"
#include "cli/outer.h"
#include "wire/fd.h"

#define DETACH_KEY      0x1d         /* Ctrl-] */
#define DETACH_SEQUENCE "\033[93;5u" /* the same, where the console has switched the keyboard protocol on */
#define REPLAY_BYTES    (64 * 1024)  /* of old output, where no offset was asked for: more than any screen */
#define CUT_BYTES       4096         /* how far a replay looks for the beginning of a line */
#define CHUNK           (16 * 1024) /* of output at once: a slow terminal is then soon behind, and still answers keys */
#define KEYS            4096        /* of input at once; a paste comes in pieces */
#define LEAVE_MS        500         /* for the terminal to take the last of it */
#define FLUSH_MS        2000        /* for the console to take the last keys */

enum { POLL_SIGNALS, POLL_KEYS, POLL_OUTPUT, POLL_CONSOLE, POLL_COUNT };

struct attach {
	struct ringside_console *c;
	const struct attach_options *o;
	struct attach_result *result;
	bool over;
	struct outer outer;
	int signals;
	sigset_t mask_before;

	uint64_t position;
	uint64_t live_from; /* output before it is a replay */
	struct filter filter;
	bool filtered;
	uint8_t chunk[CHUNK];
	uint8_t pending[FILTER_ROOM(CHUNK) + 256]; /* and a line about what was skipped */
	size_t pending_start, pending_end;

	bool follow; /* read-only, and nobody who could press a key: input is not looked at, its end says nothing */
	bool keys_open;
	uint64_t leave_at; /* the tail when they ended */
	uint8_t keys[KEYS];
	size_t keys_start, keys_end;
};

static void leave(struct attach *a, enum attach_end end)
{
	if (a->over)
		return;
	a->over = true;
	a->result->end = end;
}

/* ---- Output ---- */

static bool is_pending(const struct attach *a)
{
	return a->pending_end > a->pending_start;
}

static void write_pending(struct attach *a)
{
	long n = outer_write(&a->outer, a->pending + a->pending_start, a->pending_end - a->pending_start);
	if (n < 0)
		leave(a, ATTACH_OUTPUT);
	else
		a->pending_start += (size_t)n;
}

static void tell_skipped(struct attach *a, uint64_t lost)
{
	char line[128];
	a->pending_end += filter_cut(&a->filter, a->pending + a->pending_end);
	/* CAN ends whatever sequence the terminal was in the middle of. */
	int n = snprintf(
	        line, sizeof(line), "\030\033[m\r\n[%llu bytes of output were skipped]\r\n", (unsigned long long)lost);
	if (!a->outer.out_is_tty || n <= 0)
		return;
	memcpy(a->pending + a->pending_end, line, (size_t)n);
	a->pending_end += (size_t)n;
}

static void add_output(struct attach *a, size_t n)
{
	uint8_t *to = a->pending + a->pending_end;
	if (a->filtered) {
		a->filter.policy = a->position <= a->live_from ? FILTER_REPLAY : FILTER_LIVE;
		a->pending_end += filter_run(&a->filter, a->chunk, n, to);
	} else {
		memcpy(to, a->chunk, n);
		a->pending_end += n;
	}
}

/* Copies what is new out of the ring. Answers whether there was anything. */
static bool fetch_output(struct attach *a)
{
	struct ringside_span span;
	size_t max = sizeof(a->chunk);
	if (a->position < a->live_from && a->live_from - a->position < max)
		max = (size_t)(a->live_from - a->position); /* a piece is all replay or all live */
	if (ringside_console_read(a->c, a->position, a->chunk, max, &span, &a->result->err)) {
		leave(a, ATTACH_REFUSED);
		return false;
	}
	a->pending_start = a->pending_end = 0;
	if (span.lost_bytes)
		tell_skipped(a, span.lost_bytes);
	a->position = span.next_offset;
	if (span.next_offset > span.offset)
		add_output(a, (size_t)(span.next_offset - span.offset));
	return span.next_offset > span.offset || span.lost_bytes;
}

/* One piece at a time, so that keys are looked at in between. */
static void show_output(struct attach *a)
{
	if (!is_pending(a) && !fetch_output(a))
		return;
	if (is_pending(a))
		write_pending(a);
}

/* ---- Where to begin ---- */

/* The oldest byte of a replay may stand inside a line or a sequence: begins at the next line where one is near. */
static uint64_t line_after(struct ringside_console *c, uint64_t from)
{
	uint8_t look[CUT_BYTES];
	struct ringside_span span;
	if (ringside_console_read(c, from, look, sizeof(look), &span, NULL))
		return from;
	const uint8_t *newline = memchr(look, '\n', (size_t)(span.next_offset - span.offset));
	return newline ? span.offset + (uint64_t)(newline - look) + 1 : span.offset;
}

static void choose_start(struct attach *a)
{
	uint64_t head = ringside_console_head(a->c), tail = ringside_console_tail(a->c);
	a->live_from = tail;
	if (a->o->from_given) {
		a->position = a->o->from;
		return;
	}
	a->position = tail - head > REPLAY_BYTES ? tail - REPLAY_BYTES : head;
	if (a->position > 0)
		a->position = line_after(a->c, a->position);
}

/* ---- Keys ---- */

/* Where the detach key is in the n bytes, or n. */
static size_t find_detach(const uint8_t *keys, size_t n)
{
	const uint8_t *key = memchr(keys, DETACH_KEY, n);
	const uint8_t *sequence = memmem(keys, n, DETACH_SEQUENCE, strlen(DETACH_SEQUENCE));
	if (sequence && (!key || sequence < key))
		key = sequence;
	return key ? (size_t)(key - keys) : n;
}

static bool keys_wait(const struct attach *a)
{
	return a->keys_end > a->keys_start;
}

static void send_keys(struct attach *a)
{
	a->keys_start += ringside_console_input(a->c, a->keys + a->keys_start, a->keys_end - a->keys_start);
}

static void take_keys(struct attach *a)
{
	ssize_t n = read(a->outer.in, a->keys, sizeof(a->keys));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		a->keys_open = false; /* the end of the input: what is queued still goes out */
		a->leave_at = ringside_console_tail(a->c);
		return;
	}
	size_t keys = (size_t)n;
	size_t detach = a->outer.in_is_tty ? find_detach(a->keys, keys) : keys;
	if (detach < keys)
		a->keys_open = false;
	a->keys_start = 0;
	a->keys_end = a->o->read_only ? 0 : detach;
	if (keys_wait(a))
		send_keys(a);
}

static void send_size(struct attach *a)
{
	uint32_t cols, rows;
	if (!a->o->read_only && outer_size(&a->outer, &cols, &rows))
		ringside_console_set_size(a->c, cols, rows);
}

/* ---- Signals ---- */

static int open_signals(struct attach *a)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT);
	sigaddset(&set, SIGPIPE); /* never looked at: a write says EPIPE */
	sigprocmask(SIG_BLOCK, &set, &a->mask_before);
	sigdelset(&set, SIGPIPE);
	a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return a->signals < 0 ? -errno : 0;
}

/* Stops as the default action would, but with the terminal put back. SIGSTOP, because SIGTSTP is blocked. */
static void stop_self(struct attach *a)
{
	outer_restore(&a->outer);
	kill(getpid(), SIGSTOP);
}

static void take_signal(struct attach *a)
{
	struct signalfd_siginfo info;
	if (read(a->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	switch (info.ssi_signo) {
	case SIGWINCH:
		send_size(a);
		break;
	case SIGTSTP:
		stop_self(a);
		break;
	case SIGCONT: /* the shell has had the terminal meanwhile */
		outer_raw(&a->outer);
		send_size(a);
		break;
	default:
		a->result->signal = (int)info.ssi_signo;
		leave(a, ATTACH_SIGNAL);
	}
}

/* ---- The loop ---- */

static void take_console(struct attach *a, short revents)
{
	unsigned what = ringside_console_dispatch(a->c, revents);
	if (what & RINGSIDE_HAS_REFUSED) {
		if (a->outer.out_is_tty)
			outer_write_within(&a->outer, "\a", 1, 0); /* a line would spoil the screen */
		else
			ringside_console_refusal(a->c, &a->result->err);
	}
}

static void wait_once(struct attach *a, bool more)
{
	struct pollfd p[POLL_COUNT] = {
		[POLL_SIGNALS] = { .fd = a->signals, .events = POLLIN },
		[POLL_KEYS] = { .fd = a->keys_open && !a->follow && !keys_wait(a) ? a->outer.in : -1,
		        .events = POLLIN },
		[POLL_OUTPUT] = { .fd = is_pending(a) ? a->outer.out : -1, .events = POLLOUT },
		[POLL_CONSOLE] = { .fd = ringside_console_fd(a->c), .events = ringside_console_events(a->c) },
	};
	if (poll(p, POLL_COUNT, more ? 0 : -1) < 0)
		return;
	if (p[POLL_SIGNALS].revents)
		take_signal(a);
	if (p[POLL_CONSOLE].revents)
		take_console(a, p[POLL_CONSOLE].revents);
	if (keys_wait(a))
		send_keys(a);
	else if (p[POLL_KEYS].revents)
		take_keys(a);
	if (p[POLL_OUTPUT].revents && is_pending(a))
		write_pending(a);
}

/* Is everything done that was asked for before the keys ended? A script's last output is shown, as far as it was there
 * when its input ended; a person does not wait for it. */
static bool wants_to_leave(const struct attach *a)
{
	return !a->keys_open && !keys_wait(a) && (a->outer.in_is_tty || (!is_pending(a) && a->position >= a->leave_at));
}

static void loop(struct attach *a)
{
	while (!a->over) {
		bool ended = !ringside_console_live(a->c); /* asked before the last look into the ring */
		show_output(a);
		if (ended && !is_pending(a) && a->position >= ringside_console_tail(a->c))
			leave(a, ringside_console_info(a->c)->state == RINGSIDE_CONSOLE_LOST ? ATTACH_GONE
			                                                                     : ATTACH_ENDED);
		else if (wants_to_leave(a))
			leave(a, ATTACH_DETACHED);
		if (!a->over) {
			bool more = !is_pending(a) && !ringside_console_arm(a->c, a->position);
			wait_once(a, more);
		}
	}
}

static void flush_keys(struct attach *a)
{
	for (int rounds = 0; ringside_console_queued(a->c) > 0 && rounds < 20; rounds++)
		ringside_console_poll(a->c, FLUSH_MS / 20);
}

static void put_terminal_back(struct attach *a)
{
	char restore[FILTER_RESTORE];
	if (is_pending(a) && a->result->end != ATTACH_OUTPUT)
		outer_write_within(
		        &a->outer, a->pending + a->pending_start, a->pending_end - a->pending_start, LEAVE_MS);
	if (a->outer.out_is_tty) {
		size_t n = filter_restore(&a->filter, restore);
		outer_write_within(&a->outer, restore, n, LEAVE_MS);
	}
	outer_close(&a->outer);
}

void attach_run(struct ringside_console *c, const struct attach_options *options, struct attach_result *out)
{
	/* Not on the stack: half a megabyte; one person is attached at a time. */
	static struct attach attached;
	struct attach *a = &attached;
	*out = (struct attach_result){ 0 };
	*a = (struct attach){ .c = c, .o = options, .result = out, .signals = -1, .keys_open = true };
	outer_open(&a->outer);
	a->follow = options->read_only && !a->outer.in_is_tty;
	filter_init(&a->filter, FILTER_REPLAY);
	a->filtered = a->outer.out_is_tty && !options->raw;

	int r = open_signals(a);
	if (r == 0)
		r = outer_raw(&a->outer);
	if (r < 0) {
		leave(a, ATTACH_REFUSED);
		out->err = (struct ringside_error){
			.code = RINGSIDE_UNAVAILABLE, .name = ringside_code_name(RINGSIDE_UNAVAILABLE), .exit_status = 1
		};
		snprintf(
		        out->err.message, sizeof(out->err.message), "cannot use the terminal: %s", strerrordesc_np(-r));
	} else {
		send_size(a);
		choose_start(a);
		loop(a);
		flush_keys(a);
	}
	out->next_offset = a->position;
	put_terminal_back(a);
	fd_close(&a->signals);
	sigprocmask(SIG_SETMASK, &a->mask_before, NULL);
}
