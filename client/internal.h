/*
 * internal.h - what the files of libringside share, and nobody else includes (but its unit tests).
 *
 * Wire messages stop here: everything that goes out to callers is copied into objects of memory.h.
 */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include "client/memory.h"
#include "client/ringside.h"
#include "ring/ring.h"
#include "wire/conn.h"
#include "wire/paths.h"
#include "wire/wire.h"

#define CONNECT_DEFAULT_MS ((uint64_t)10 * 1000)
#define CALL_DEFAULT_MS    ((uint64_t)120 * 1000)
#define OBSERVE_DEFAULT_MS 2000
#define WRITE_DEFAULT_MS   ((uint64_t)10 * 1000)
#define CONTROL_OUT_LIMIT  ((size_t)256 * 1024) /* bytes queued towards the control daemon */
#define STREAM_OUT_LIMIT   ((size_t)256 * 1024) /* bytes queued towards a console or an exec */
#define STREAM_CHUNK       ((size_t)60 * 1024)  /* of a Write's data: what is left of a frame is its message's */
#define LIST_MAX_REPLIES   4096                 /* answers that one list may come in */

/* ---- error.c ---- */

/* Describes code in *err (NULL: in nothing) and returns it. */
int error_set(struct ringside_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int error_errno(struct ringside_error *err, int negative_errno, const char *what);
int error_memory(struct ringside_error *err);
/* What the peer says, escaped. m may be NULL: a peer that leaves its error out. */
int error_wire(struct ringside_error *err, const Wire__Error *m);

/* ---- connect.c ---- */

struct ringside {
	struct conn *conn; /* NULL: lost */
	struct paths paths;
	char client[64];
	bool no_start;
	uint64_t connect_ms;
	uint64_t call_ms; /* UINT64_MAX: for ever */
	uint64_t last_id;
};

/* ---- start_daemon.c ---- */

/* Starts ringsided and waits until it serves, or has found that another one holds the lock. Deadline: clock_mono_ms().
 */
int daemon_start(uint64_t deadline, struct ringside_error *err);

/* ---- call.c ---- */

/* One answer, owned: release it. */
struct control_reply {
	Wire__ControlReply *message;
	int fds[FRAME_MAX_FDS]; /* -1: none; take by fd_take() */
};
void control_reply_release(struct control_reply *r);

/*
 * Sends req (its id is set here) and waits for the first answer, extra_ms longer than usual. An error of the daemon's
 * is the call's. expected: the body it must have.
 */
int control_call(struct ringside *rs, Wire__ControlRequest *req, Wire__ControlReply__BodyCase expected,
        uint64_t extra_ms, struct control_reply *out, struct ringside_error *err);
/* The next answer to the same request, for lists. */
int control_call_more(struct ringside *rs, Wire__ControlReply__BodyCase expected, struct control_reply *out,
        struct ringside_error *err);

/* ---- convert.c: wire to public; false: out of memory. What comes from a peer may lack anything. ---- */

bool convert_exit(struct memory *m, const Wire__Exit *w, struct ringside_exit *out);
bool convert_processes(
        struct memory *m, Wire__Process *const *w, size_t n, const struct ringside_process **out, size_t *nout);
bool convert_console(struct memory *m, const Wire__ConsoleInfo *w, const char *sandbox, const char *sandbox_id,
        struct ringside_console_info *out);
bool convert_sandbox(struct memory *m, const Wire__SandboxInfo *w, struct ringside_sandbox *out);
bool convert_started(struct memory *m, const Wire__StartInSandboxReply *w, struct ringside_started *out);
bool convert_closed(struct memory *m, const Wire__ConsoleClosed *w, struct ringside_closed *out);
bool convert_status(struct memory *m, const Wire__StatusReply *w, struct ringside_status *out);
bool convert_exec_result(struct memory *m, const Wire__ExecResult *w, struct ringside_exec_result *out);

/* Public to wire, lending the strings. The array is malloc'ed; NULL when out of memory, and when n is 0. */
struct env_messages;
struct env_messages *env_messages_new(const struct ringside_env *env, size_t n);
Wire__EnvVar **env_messages_list(struct env_messages *e); /* NULL for NULL */
void env_messages_free(struct env_messages *e);
size_t strings_count(const char *const *strings);
/* malloc'ed array of n messages over strings; NULL when out of memory (and when n is 0). */
ProtobufCBinaryData *strings_bytes(const char *const *strings, size_t n);

/* ---- console.c ---- */

struct pending_write {
	const uint8_t *bytes; /* the caller's */
	size_t size, sent;
	uint64_t id; /* 0: none is under way */
	uint64_t timeout_ms;
	bool raw_lines;
	bool answered;
	struct ringside_written written;
	struct ringside_error error;
};

struct ringside_console {
	struct ring *ring;
	struct ring *marks;    /* NULL: none were handed over */
	struct conn *conn;     /* NULL: not live, or gone */
	struct memory *memory; /* of info */
	struct ringside_console_info info;
	uint64_t kept_until;
	bool ended; /* no more output will come, and what came is in the ring */
	bool gone;
	bool armed;
	uint64_t armed_level;
	uint64_t last_id;
	struct ringside_error refusal;
	struct pending_write write;
};

/* Takes ring, marks (NULL: none), fd (-1: not live) over, also on failure. info is copied. */
int console_from_parts(struct ring *ring, struct ring *marks, int fd, const Wire__ConsoleInfo *info,
        const char *sandbox, struct ringside_console **out, struct ringside_error *err);
/* The connection broke: what comes now is what the ring has. */
void console_gone(struct ringside_console *c);

/* ---- write.c, called from the dispatcher ---- */

void write_pump(struct ringside_console *c); /* sends what the queue takes */
void write_reply(struct ringside_console *c, const Wire__WriteReply *r, const Wire__Error *e);

#endif
