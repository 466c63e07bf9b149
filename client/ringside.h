/*
 * ringside.h - libringside: sandboxes and their named consoles, for programs. Every front end stands on this and on
 * nothing else.
 *
 * Two kinds of object do the work:
 *
 *   struct ringside           one connection to the control daemon (ringsided), which is started when nobody serves.
 *                             It makes, lists and ends things.
 *   struct ringside_console   one console, opened: its output mapped into this process, and, while its program runs, a
 *                             direct connection to what hosts it. Reading is a copy in memory; with nothing new there
 *                             is no system call. It goes on when the control daemon dies or is replaced.
 *
 * and struct ringside_exec is one command with separate streams, struct ringside_wait a read that waits.
 *
 * Offsets    A console's output is one endless stream. An offset is the absolute position of a byte in it since the
 *            very first: 64 bits, never reused, never going back, going on over restarts of the same name. [head,
 *            tail) is still retained.
 * Errors     Every call that can fail answers 0 (RINGSIDE_OK) or a code of enum ringside_code, and describes it in
 *            *err, which may be NULL. Results come through out parameters, set on success alone unless a call says
 *            otherwise.
 * Memory     Whatever a call hands out by pointer is one object, strings and arrays inside it included;
 *            ringside_free() gives it back. Strings inside are never NULL unless said, and come from sandboxes: not
 *            trusted, to be escaped before they are shown (ringside_escape()). What has a _close or a _free of its own
 *            says so.
 * Threads    An object belongs to one thread at a time; different objects are independent of each other. No call
 *            installs a signal handler, changes the signal mask or touches standard streams; writing to a dead peer
 *            raises no SIGPIPE.
 * Blocking   Calls on struct ringside wait for the answer (ringside_set_timeout()). A front end with an event loop
 *            gives them to a thread with a connection of its own. Of struct ringside_console and struct ringside_exec
 *            only ringside_console_poll(), ringside_console_write() and ringside_read_wait() wait. All descriptors are
 *            close-on-exec.
 * Time       Durations are milliseconds of the monotonic clock; moments are milliseconds since 1970.
 *
 *	struct ringside *rs;
 *	struct ringside_console *c;
 *	struct ringside_answer *a;
 *	struct ringside_error err;
 *
 *	if (ringside_open(NULL, &rs, &err) || ringside_console_open(rs, "box", "dev", RINGSIDE_WRITE, &c, &err))
 *		return fail(err.name, err.message);
 *	struct ringside_written w;
 *	ringside_console_write(c, "make\r", 5, NULL, &w, &err);
 *	struct ringside_read_options o = { .from = w.tail_offset, .until = RINGSIDE_UNTIL_MATCH, .pattern = "\\$ $" };
 *	ringside_read_wait(c, &o, 60000, &a, &err);
 *	fwrite(a->data, 1, a->size, stdout);
 */
#ifndef RINGSIDE_H
#define RINGSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

enum ringside_code {
	RINGSIDE_OK = 0,
	RINGSIDE_STALE_EPOCH = 1,
	RINGSIDE_CLEANUP_CLAIM_LOST = 2,
	RINGSIDE_TIMEOUT = 3,
	RINGSIDE_INVALID_PATH = 4,
	RINGSIDE_UNAVAILABLE = 5, /* also: the connection to the daemon is lost, see ringside_reconnect() */
	RINGSIDE_PERMISSION_DENIED = 6,
	RINGSIDE_IS_DIRECTORY = 7,
	RINGSIDE_TOO_LARGE = 8,
	RINGSIDE_NOT_FOUND = 9,
	RINGSIDE_NOT_QUIESCENT = 10,
	RINGSIDE_RELEASE_FAILED = 11,
	RINGSIDE_SNAPSHOT_EXPIRED = 12,
	RINGSIDE_SNAPSHOT_MISSING = 13,
	RINGSIDE_SNAPSHOT_RESTORE_FAILED = 14,
	RINGSIDE_SNAPSHOT_MANIFEST_MISMATCH = 15,
	RINGSIDE_RESOURCE_UNKNOWN = 16,
	RINGSIDE_INVALID_ARGUMENT = 17,
	RINGSIDE_ARCHIVE_INVALID = 18,
	RINGSIDE_WORKSPACE_NOT_EMPTY = 19,
	RINGSIDE_CONSOLE_LIMIT = 20,
	RINGSIDE_OFFSET_OUT_OF_RANGE = 21,
	RINGSIDE_BUSY = 22,
	RINGSIDE_CANONICAL_LINE_LIMIT = 23,
	RINGSIDE_NOT_EXECUTABLE = 24,
	RINGSIDE_BAD_CWD = 25,
	RINGSIDE_RESOURCE_LIMIT = 26,
	RINGSIDE_NOT_RUNNING = 27,
	RINGSIDE_ALREADY_EXISTS = 28,
	RINGSIDE_PROTOCOL_ERROR = 29,
	RINGSIDE_NOT_SUPPORTED = 30,
	RINGSIDE_INTERNAL = 31,
	RINGSIDE_ABORTED = 32,
};

#define RINGSIDE_MESSAGE_BYTES 512

struct ringside_error {
	int code;         /* enum ringside_code; a newer daemon may send others */
	const char *name; /* "not_found": stable, lives for ever */
	int exit_status;  /* what a command line exits with for it: 1, 2 (usage), 3 (no such thing) or 5 (refused) */
	char message[RINGSIDE_MESSAGE_BYTES]; /* one line, escaped: fit to print */
};

const char *ringside_code_name(int code);    /* never NULL; "internal" for a number that is not known here */
const char *ringside_code_meaning(int code); /* one line of documentation */
int ringside_code_exit_status(int code);

/* Makes n bytes from a sandbox fit for a terminal or a log line: controls, escapes, C1, broken UTF-8 and bidi overrides
 * become \xNN and the like; a text that is cut ends in "…". At most size - 1 bytes and a NUL. Returns dst. */
char *ringside_escape(char *dst, size_t size, const void *bytes, size_t n);

/* Gives back an object that a call below handed out. Accepts NULL. */
void ringside_free(const void *object);

const char *ringside_version(void);

/* ---- The connection to the control daemon ---- */

struct ringside;

struct ringside_options {
	const char *client;  /* how the daemon's log calls this program; NULL: "libringside" */
	bool no_start;       /* do not start ringsided: unavailable when nobody serves */
	uint64_t connect_ms; /* to connect, and to start the daemon where it must be; 0: 10 s */
};

/*
 * Connects to this user's ringsided (RINGSIDE_HOME moves it). Where nobody serves, starts one: the program that
 * RINGSIDE_DAEMON names, else `ringsided` beside this program's executable, then in ../libexec/ringside beside its
 * folder, then in PATH. It runs on in a session of its own. Two starters at once are fine: the daemon's lock decides,
 * and both connect to the one that holds it. options may be NULL. *out is the caller's until ringside_close().
 * unavailable: nobody serves and it could not be started (the message says why); permission_denied: another user's
 * socket.
 */
int ringside_open(const struct ringside_options *options, struct ringside **out, struct ringside_error *err);
void ringside_close(struct ringside *rs); /* accepts NULL; opened consoles and execs go on */

/* When a call has answered unavailable because the daemon died or was replaced: connects again, starting it where
 * needed. What was asked for and not answered may have been done or not; that is why no call does this by itself. */
int ringside_reconnect(struct ringside *rs, struct ringside_error *err);
bool ringside_connected(const struct ringside *rs); /* as far as is known; no system call */

/* How long a call may wait for its answer, beside the time that the request itself asks for (observe, grace): 120 s by
 * default; 0: for ever. A call that waited in vain answers timeout; the connection stays good. */
void ringside_set_timeout(struct ringside *rs, uint64_t ms);

struct ringside_status {
	uint32_t pid;
	const char *version;
	uint64_t started_at_ms;
	uint64_t epoch; /* of the ledger's lease */
	uint32_t sandboxes;
	uint32_t consoles; /* running */
	uint32_t clients;
	const char *socket;
	const char *state_dir;
	const char *const *providers; /* NULL-terminated */
	const char *default_provider;
};
int ringside_status(struct ringside *rs, struct ringside_status **out, struct ringside_error *err);

/* Ends the daemon and waits until it has let go of the connection. Sandboxes go on, unless `all`: then each is closed
 * first. */
int ringside_down(struct ringside *rs, bool all, struct ringside_error *err);

/* ---- Sandboxes ---- */

enum ringside_sandbox_state {
	RINGSIDE_SANDBOX_CREATING = 1,
	RINGSIDE_SANDBOX_RUNNING = 2,
	RINGSIDE_SANDBOX_SUSPENDED = 3,
	RINGSIDE_SANDBOX_TERMINATED = 4,
	RINGSIDE_SANDBOX_FAILED = 5,
};
const char *ringside_sandbox_state_name(int state); /* "RUNNING"; never NULL */

struct ringside_label {
	const char *key;
	const char *value;
};

/* Zeroed: a sandbox without a name, by the default provider, with the defaults of everything. */
struct ringside_create {
	const char *name;     /* NULL: none */
	const char *provider; /* NULL: the default */
	const struct ringside_label *labels;
	size_t nlabels;
	uint32_t console_limit; /* live consoles at once; 0: 8 */
	uint64_t ring_bytes;    /* of a console; 0: 1 MiB */
	const char *directory;  /* host provider: the workspace; NULL: one of its own */
	bool if_missing;        /* a sandbox of that name is the answer, not already_exists */
	uint64_t memory_bytes;  /* limits; 0: none asked for */
	uint64_t cpu_millis;
	uint32_t pids;
};

struct ringside_sandbox {
	const char *id;
	const char *name; /* "": none */
	const char *provider;
	int state;          /* enum ringside_sandbox_state */
	const char *reason; /* of the state */
	uint64_t created_at_ms;
	const struct ringside_label *labels;
	size_t nlabels;
	const char *workspace; /* as its programs see it */
	uint32_t console_limit;
	uint64_t ring_bytes;
	uint32_t consoles_running;
	uint32_t port;         /* host provider: the leased loopback port; 0: none */
	const char *limits;    /* what is enforced, or "none" */
	const char *ref;       /* the provider's id */
	uint32_t consoled_pid; /* of its console daemon; 0: not running */
	const char *consoled_version;
	const char *directory; /* of the workspace on this machine, where there is one; else "" */
};

struct ringside_sandboxes {
	size_t count;
	struct ringside_sandbox *items;
};

int ringside_create(struct ringside *rs, const struct ringside_create *spec, struct ringside_sandbox **out,
        struct ringside_error *err);
/* all: those that have ended too. */
int ringside_list(struct ringside *rs, bool all, struct ringside_sandboxes **out, struct ringside_error *err);
/* sandbox, here and below: an id or a name. */
int ringside_show(struct ringside *rs, const char *sandbox, struct ringside_sandbox **out, struct ringside_error *err);
/* Ends everything in it and releases it. out may be NULL: what it was. */
int ringside_remove(
        struct ringside *rs, const char *sandbox, struct ringside_sandbox **out, struct ringside_error *err);

/* ---- Consoles ---- */

enum ringside_console_state {
	RINGSIDE_CONSOLE_RUNNING = 1,
	RINGSIDE_CONSOLE_EXITED = 2,
	RINGSIDE_CONSOLE_LOST = 3,
};
const char *ringside_console_state_name(int state); /* "RUNNING"; never NULL */

/* How a process ended: by `code`, or by `signal` when that is not 0. */
struct ringside_exit {
	bool known; /* false: it runs, or nobody saw it end */
	uint32_t code;
	uint32_t signal;
	const char *name; /* why, where more is known: "OOM_KILLED", "TIMEOUT", …; else "" */
};
/* The one number of it: the code, 128 + signal, or 1 where it is not known. */
int ringside_exit_status(const struct ringside_exit *e);
const char *ringside_signal_name(int sig); /* "SIGINT"; never NULL */
int ringside_signal_number(const char *s); /* of "INT", "SIGINT", "int" or "2"; 0: no such signal */

struct ringside_process {
	uint32_t pid; /* as seen inside the sandbox */
	const char *comm;
};

struct ringside_env {
	const char *name;
	const char *value;
};

/* What a console's size may be. */
#define RINGSIDE_MIN_COLS 2
#define RINGSIDE_MIN_ROWS 2
#define RINGSIDE_MAX_COLS 1000
#define RINGSIDE_MAX_ROWS 500

/* Zeroed: the user's shell in the workspace, 80x24, observed for 2 s. */
struct ringside_start {
	const char *const *argv;        /* NULL-terminated; NULL or empty: the user's shell */
	const char *cwd;                /* NULL: the workspace */
	const struct ringside_env *env; /* beside TERM, LANG, HOME, PATH, USER and SHELL */
	size_t nenv;
	uint32_t cols, rows;  /* 0: 80 and 24; 2x2 to 1000x500 */
	uint64_t idle_ttl_ms; /* without input, output and attached clients; 0: for ever */
	uint64_t ring_bytes;  /* 0: the sandbox's */
	uint32_t observe_ms;  /* how long a new process is watched before the answer; 0: 2 s */
	bool no_observe;      /* answer as soon as it runs */
	bool create_default;  /* the sandbox "default" is made when it is asked for and missing */
};

struct ringside_console_info {
	const char *sandbox;    /* its name, or its id when it has none */
	const char *sandbox_id; /* "" where the daemon did not say */
	const char *name;
	uint32_t incarnation;
	int state; /* enum ringside_console_state */
	uint32_t pid;
	const char *const *argv; /* NULL-terminated; cut after 1 KiB with a last "…" */
	const char *cwd;
	uint32_t cols, rows;
	uint64_t start_offset;             /* where this incarnation's output begins */
	uint64_t head_offset, tail_offset; /* of an ended one: the final offset */
	uint64_t ring_bytes;
	uint64_t started_at_ms, ended_at_ms;
	uint64_t idle_ms, idle_ttl_ms;
	uint32_t clients; /* attached */
	struct ringside_exit exit;
	const struct ringside_process *leftovers; /* what the program left behind when it exited */
	size_t nleftovers;
	const char *reason; /* why it ended: "exit", "closed", "idle", … */
};

struct ringside_consoles {
	size_t count;
	struct ringside_console_info *items;
};

struct ringside_started {
	struct ringside_console_info console;
	bool reattached; /* it was RUNNING: nothing was spawned */
	/* Of one that ended while it was observed: what it printed, the newest 16 KiB at most. */
	const void *startup_output;
	size_t startup_size;
	/* Where the exec itself failed: its code and message; code is 0 when it did not. The console is EXITED then. */
	int failure_code;
	const char *failure_message;
};

struct ringside_close_step {
	const char *signal; /* "SIGHUP" */
	uint64_t at_ms;     /* since the close was asked for */
	uint32_t left;      /* processes that got it */
};
struct ringside_closed {
	const char *sandbox;
	const char *name;
	int state;
	struct ringside_exit exit;
	const struct ringside_close_step *steps;
	size_t nsteps;
	const struct ringside_process *survivors; /* what the kernel still holds */
	size_t nsurvivors;
	bool unproven; /* the processes were ended by search, not proven gone */
	uint64_t tail_offset;
};

/* Starts `name`, or finds it again when it runs, whatever argv says. */
int ringside_start(struct ringside *rs, const char *sandbox, const char *name, const struct ringside_start *spec,
        struct ringside_started **out, struct ringside_error *err);
/* Of one sandbox, or of all (sandbox NULL); ended ones too. */
int ringside_ps(struct ringside *rs, const char *sandbox, struct ringside_consoles **out, struct ringside_error *err);
/* To the console's foreground process group. out may be NULL. */
int ringside_signal(struct ringside *rs, const char *sandbox, const char *name, int sig,
        struct ringside_console_info **out, struct ringside_error *err);
int ringside_resize(struct ringside *rs, const char *sandbox, const char *name, uint32_t cols, uint32_t rows,
        struct ringside_console_info **out, struct ringside_error *err);
/* Ends everything the console started: hang-up, SIGTERM, and SIGKILL at the end of the grace. The answer is the
 * receipt. */
#define RINGSIDE_DEFAULT_GRACE UINT64_MAX /* 3 s, as the console daemon has it */
int ringside_console_end(struct ringside *rs, const char *sandbox, const char *name, uint64_t grace_ms,
        struct ringside_closed **out, struct ringside_error *err);

/* ---- One console, opened ---- */

struct ringside_console;

/* Rights of the connection; reading is implied. */
enum {
	RINGSIDE_WRITE = 1 << 0,  /* may write */
	RINGSIDE_RESIZE = 1 << 1, /* may set the size */
	RINGSIDE_ATTACH = 1 << 2, /* counts as an attached client: keeps the console from being idle */
};

/* Opens a console that runs or whose output is still kept. *out is the caller's until ringside_console_close(), and
 * needs neither rs nor the control daemon any more. */
int ringside_console_open(struct ringside *rs, const char *sandbox, const char *name, unsigned rights,
        struct ringside_console **out, struct ringside_error *err);
void ringside_console_close(struct ringside_console *c); /* accepts NULL */

/* As it was when it was opened, with state, exit, cols, rows and tail_offset kept up to date by
 * ringside_console_dispatch(). Borrowed: until ringside_console_close(). */
const struct ringside_console_info *ringside_console_info(const struct ringside_console *c);
/* Its program runs, or did when last heard of, and there is a connection to it. */
bool ringside_console_live(const struct ringside_console *c);
/* Of a LOST console: the output up to here was kept; what came after it is gone. Else 0. */
uint64_t ringside_console_kept_until(const struct ringside_console *c);

uint64_t ringside_console_head(const struct ringside_console *c); /* oldest retained offset at this moment */
uint64_t ringside_console_tail(const struct ringside_console *c); /* what lies before it can be read now */

struct ringside_span {
	uint64_t offset;      /* of the first byte copied */
	uint64_t next_offset; /* what to ask for next; equal to offset when nothing was copied */
	uint64_t lost_bytes;  /* not 0: truncated. This many bytes between `from` and `offset` are gone */
};

/* Copies up to max bytes of output from the offset `from` on. No system call, no wait; what is copied is whole, never
 * torn and never with a gap inside. offset_out_of_range: `from` is past the tail. */
int ringside_console_read(const struct ringside_console *c, uint64_t from, void *buf, size_t max,
        struct ringside_span *got, struct ringside_error *err);

enum ringside_mark_kind {
	RINGSIDE_MARK_START = 1,  /* a: incarnation, b: pid */
	RINGSIDE_MARK_RESIZE = 2, /* a: columns, b: rows */
	RINGSIDE_MARK_EXIT = 3,   /* a: exit code or 128 + signal, b: signal or 0 */
	RINGSIDE_MARK_TITLE = 4,  /* text */
	RINGSIDE_MARK_COMMAND_START = 5,
	RINGSIDE_MARK_COMMAND_END = 6, /* a: exit code */
	RINGSIDE_MARK_GAP = 7,         /* output between the byte before and this offset was lost with its host */
};
const char *ringside_mark_kind_name(int kind);

struct ringside_mark {
	uint64_t offset; /* in the output */
	uint64_t at_ms;
	int kind;
	uint32_t a, b;
	uint32_t incarnation;
	char text[224]; /* NUL-terminated, from the sandbox */
};
/* The next mark after *cursor (0 to begin with), in their one order; the oldest are forgotten first. true: *out and
 * *cursor are set; false: there is none yet. No system call. */
bool ringside_console_mark(const struct ringside_console *c, uint64_t *cursor, struct ringside_mark *out);

/* ---- An opened console in an event loop ----
 *
 *	while (running) {
 *		… read until next_offset == tail, show it …
 *		if (!ringside_console_arm(c, next_offset))
 *			continue;                              // more has come meanwhile, or no more will
 *		struct pollfd p = { ringside_console_fd(c), ringside_console_events(c) };
 *		poll(&p, 1, -1);
 *		unsigned what = ringside_console_dispatch(c, p.revents);
 *	}
 */

/* What ringside_console_dispatch() says has happened, as bits. */
enum {
	RINGSIDE_HAS_OUTPUT = 1 << 0, /* the tail is past the level that was armed */
	RINGSIDE_HAS_ENDED = 1 << 1,  /* EXITED: the last byte is in the ring, ringside_console_info() has the exit */
	RINGSIDE_HAS_GONE = 1 << 2,   /* the connection broke: what hosted the console has probably died (LOST) */
	RINGSIDE_HAS_RESIZED = 1 << 3,
	RINGSIDE_HAS_REFUSED = 1 << 4, /* input or a resize was refused: ringside_console_refusal() */
	RINGSIDE_HAS_WRITTEN = 1 << 5, /* the write that was begun is answered: ringside_console_write_end() */
};

int ringside_console_fd(const struct ringside_console *c); /* to poll; -1: nothing will come any more */
short ringside_console_events(
        const struct ringside_console *c); /* POLLIN, and POLLOUT while something waits to go out */
/* Handles what poll(2) found (revents). At most one read and one write of the descriptor. Answers bits of the above. */
unsigned ringside_console_dispatch(struct ringside_console *c, short revents);
/* Waits until there is something to dispatch and does it. Answers bits, 0 when timeout_ms (UINT64_MAX: none) is over.
 */
unsigned ringside_console_poll(struct ringside_console *c, uint64_t timeout_ms);

/* Says that this reader has every byte before `level` and wants to be woken once there is more. true: wait for
 * RINGSIDE_HAS_OUTPUT (nothing is sent when that was already said); false: there is more than `level` right now, or the
 * console has ended or gone: do not wait. */
bool ringside_console_arm(struct ringside_console *c, uint64_t level);

/* Keys of an attached client; no answer when all is well, RINGSIDE_HAS_REFUSED when not. Answers how many of the n
 * bytes were taken: fewer when the connection does not take more now (poll as ringside_console_events() says), 0 also
 * when it is gone. */
size_t ringside_console_input(struct ringside_console *c, const void *bytes, size_t n);
/* Sets the size, without waiting. false: the connection is gone or does not take it now. */
bool ringside_console_set_size(struct ringside_console *c, uint32_t cols, uint32_t rows);
/* Why input or a resize was refused last. */
int ringside_console_refusal(const struct ringside_console *c, struct ringside_error *err);
/* Bytes that wait to go out: 0 means that everything is on its way. */
size_t ringside_console_queued(const struct ringside_console *c);

/* ---- Writing ---- */

struct ringside_write_options {
	uint64_t timeout_ms; /* how long a program that takes nothing is waited for; 0: 10 s */
	bool raw_lines;      /* do not refuse a line that the terminal would cut at 4095 bytes */
};
struct ringside_written {
	uint64_t tail_offset; /* reading from here shows what the input caused, and nothing before */
	uint64_t written;     /* bytes that were taken */
};

/* Writes one piece of input of any size, contiguous whatever others write, and waits until the terminal has taken it.
 * options may be NULL. timeout, not_running, canonical_line_limit: *out is set all the same and says how much was
 * taken. busy: nothing was. */
int ringside_console_write(struct ringside_console *c, const void *bytes, size_t n,
        const struct ringside_write_options *options, struct ringside_written *out, struct ringside_error *err);

/* The same without waiting: one at a time (else busy). bytes are borrowed until the answer (RINGSIDE_HAS_WRITTEN),
 * which ringside_console_write_end() takes. */
int ringside_console_write_begin(struct ringside_console *c, const void *bytes, size_t n,
        const struct ringside_write_options *options, struct ringside_error *err);
int ringside_console_write_end(struct ringside_console *c, struct ringside_written *out, struct ringside_error *err);

/* ---- Reading that waits ---- */

/* What a read waits for; the first that comes true ends it. 0: it does not wait, and answers what is there at its
 * start. */
enum {
	RINGSIDE_UNTIL_OUTPUT = 1 << 0, /* there is any byte at or after `from` */
	RINGSIDE_UNTIL_MATCH = 1 << 1,  /* the pattern matches */
	RINGSIDE_UNTIL_IDLE = 1 << 2,   /* no output for idle_ms, counted from the call */
	RINGSIDE_UNTIL_EXIT = 1 << 3,   /* implied by the others: no more output will come */
};

enum ringside_reason {
	RINGSIDE_REASON_OUTPUT = 1,
	RINGSIDE_REASON_MATCH = 2,
	RINGSIDE_REASON_IDLE = 3,
	RINGSIDE_REASON_EXIT = 4, /* the console has ended (or is lost) and everything was read */
	RINGSIDE_REASON_TIMEOUT = 5,
};
const char *ringside_reason_name(int reason); /* "match"; never NULL */

/* A match, and what it looks back to, is found while it fits this many bytes; a longer one is not. */
#define RINGSIDE_MATCH_WINDOW ((size_t)256 * 1024)
/* What an answer may hold when the bytes are not given to a sink. */
#define RINGSIDE_READ_MAX ((size_t)64 * 1024 * 1024)

/* Takes bytes in order. `lost_bytes` is not 0 where output between the piece before and this one is gone. Anything but
 * 0 ends the read with aborted. */
typedef int ringside_sink(void *ctx, uint64_t offset, uint64_t lost_bytes, const void *bytes, size_t n);

struct ringside_read_options {
	uint64_t from;
	/* Bytes given at most: the answer's next_offset is where to go on. It bounds what is given, not what is waited
	 * for or searched. 0: without a sink RINGSIDE_READ_MAX, with one no limit. */
	uint64_t max;
	unsigned until;
	/*
	 * PCRE2, over bytes: UTF-8 where the pattern is valid UTF-8, and output that is not never fails or ends the
	 * search. ^ and $ match at lines (CR, LF or both). Matched over chunks and the ring's wrap as if over one text;
	 * where the output has paused a match is taken as it stands, without waiting whether it could grow. The
	 * answer's bytes end where the match ends (a sink may have been given more before the match was decided). A
	 * pattern that needs too much backtracking, depth or memory ends the read with resource_limit.
	 */
	const char *pattern;
	uint64_t idle_ms;
	ringside_sink *sink; /* NULL: the answer holds the bytes */
	void *sink_ctx;
};

struct ringside_answer {
	uint64_t offset, next_offset; /* the bytes of the answer are [offset, next_offset) */
	uint64_t head_offset, tail_offset;
	uint64_t lost_bytes; /* not 0: truncated; this many bytes between `from` and `offset` are gone (with a sink: in
	                        all) */
	int reason;          /* enum ringside_reason */
	int state;           /* enum ringside_console_state */
	struct ringside_exit exit;
	uint64_t match_offset, match_length; /* when reason is RINGSIDE_REASON_MATCH */
	const void *data;                    /* NULL with a sink */
	size_t size;
};

/* Waits for the conditions, timeout_ms at most (UINT64_MAX: for ever). Running into the timeout is an answer (reason),
 * not an error. invalid_argument: the pattern (its message says where); offset_out_of_range; resource_limit: the search
 * was given up. */
int ringside_read_wait(struct ringside_console *c, const struct ringside_read_options *options, uint64_t timeout_ms,
        struct ringside_answer **out, struct ringside_error *err);

/*
 * The same for event loops. After each ringside_console_dispatch(), and when ringside_wait_deadline() has come, step
 * it: *done says whether *out is set. A step copies at most 1 MiB, so that a flood does not hold the loop:
 * ringside_wait_deadline() is then 0, step again soon. It arms the console by itself. Several waits on one console need
 * a console opened for each.
 */
struct ringside_wait;
int ringside_wait_new(struct ringside_console *c, const struct ringside_read_options *options, uint64_t timeout_ms,
        struct ringside_wait **out, struct ringside_error *err);
int ringside_wait_step(struct ringside_wait *w, bool *done, struct ringside_answer **out, struct ringside_error *err);
uint64_t ringside_wait_deadline(const struct ringside_wait *w); /* CLOCK_MONOTONIC, ms; UINT64_MAX: none */
void ringside_wait_free(struct ringside_wait *w);               /* accepts NULL; before ringside_console_close() */

/* ---- One command with separate streams ---- */

struct ringside_exec;

struct ringside_exec_spec {
	const char *const *argv;        /* NULL-terminated; looked up on the sandbox's PATH */
	const char *cwd;                /* NULL: the workspace; relative joins it */
	const struct ringside_env *env; /* exactly this, nothing is inherited */
	size_t nenv;
	bool stdin_stream;        /* false: /dev/null */
	uint64_t timeout_ms;      /* 0: none */
	uint64_t idle_timeout_ms; /* 0: none */
	bool create_default;      /* as in struct ringside_start */
};

struct ringside_exec_result {
	struct ringside_exit exit;
	/* Where it never started: its code and message; code is 0 when it did. */
	int failure_code;
	const char *failure_message;
	bool timed_out, idle_timed_out;
	bool held; /* something left behind holds a stream open; answered 2 s after the exit */
	const struct ringside_process *survivors;
	size_t nsurvivors;
};

/* *out is the caller's until ringside_exec_close(), which ends everything of the command that still runs. */
int ringside_exec_open(struct ringside *rs, const char *sandbox, const struct ringside_exec_spec *spec,
        struct ringside_exec **out, struct ringside_error *err);
void ringside_exec_close(struct ringside_exec *x); /* accepts NULL */

int ringside_exec_fd(const struct ringside_exec *x);
short ringside_exec_events(const struct ringside_exec *x);

/* Takes output: stream is 1 or 2. Not taking it fast enough slows the program, and nothing else. */
typedef void ringside_exec_sink(void *ctx, int stream, const void *bytes, size_t n);
/* Handles what poll(2) found: at most one read of the descriptor. *done: the result is there, and all output was given
 * before. unavailable: the connection broke. */
int ringside_exec_dispatch(struct ringside_exec *x, short revents, ringside_exec_sink *sink, void *ctx, bool *done,
        struct ringside_error *err);
/* Standard input: how many bytes it takes now (0: poll), and giving them, n ≤ that. n 0: end of file. */
size_t ringside_exec_room(const struct ringside_exec *x);
int ringside_exec_input(struct ringside_exec *x, const void *bytes, size_t n, struct ringside_error *err);
/* Once *done. Borrowed: until ringside_exec_close(). */
const struct ringside_exec_result *ringside_exec_result(const struct ringside_exec *x);

#ifdef __cplusplus
}
#endif

#endif
