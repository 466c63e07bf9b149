/*
 * console.h - one incarnation of a named console: its program on a pty, its output in a ring, from start to forgotten.
 *
 *   console_new ── STARTING ──on_started── RUNNING ──on_ended── EXITED ── console_free
 *                     └─────on_failed: free it
 *
 * STARTING is told as RUNNING: the name is taken, streams may be opened, nothing has been read yet. When the program
 * has been reaped, the terminal is read until it is empty, hung up or has given EXIT_DRAIN bytes more; then the EXIT
 * mark is made, the state is EXITED, followers and owner are told, and the terminal is closed. Nobody hears of the end
 * before the last byte is published, and a background child that still has the terminal delays nothing.
 *
 * What the program left behind stays under its keeper until console_end(), the daemon's end, or its own.
 */
#ifndef CONSOLES_CONSOLE_H
#define CONSOLES_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

#include "consoles/consoled.h"
#include "consoles/failure.h"
#include "consoles/followers.h"
#include "consoles/info.h"
#include "consoles/input.h"
#include "consoles/process.h"
#include "consoles/scrollback.h"
#include "wire/wire.h"

#define EXIT_DRAIN ((size_t)16 * 1024) /* a pty holds less than this when its program ends */

struct console;

/* Called from the loop. */
struct console_handler {
	void (*on_started)(struct console *c, void *ctx);
	void (*on_failed)(struct console *c, const struct failure *why, void *ctx); /* it may be freed from here */
	void (*on_ended)(struct console *c, void *ctx);
	void (*on_changed)(struct console *c, void *ctx); /* its size */
};

/*
 * Starts spec, whose name has been checked. earlier: the ended console of that name, or NULL; its ring is copied, it
 * stays the caller's. 0 and *out, or -1 and *why, with nothing left behind.
 */
int console_new(const struct consoled *d, const Wire__ConsoleSpec *spec, struct console *earlier,
        const struct console_handler *handler, void *ctx, struct console **out, struct failure *why);

/* Ends no process. Followers are out of it by then. Accepts NULL. */
void console_free(struct console *c);

const char *console_name(const struct console *c);
enum console_state console_state(const struct console *c);
bool console_is_starting(const struct console *c);
/* Everything about it, as of now. Good until the next call on c. */
const struct console_facts *console_facts(struct console *c);

/* ---- Following, writing, sizing ---- */
void console_follow(struct console *c, struct follower *f);
void console_unfollow(struct console *c, struct follower *f);
/* f has everything before `level`, and is told once when there is more: now, or when the terminal tells of it. */
void console_level(struct console *c, struct follower *f, uint64_t level);

/* NULL once it has EXITED. */
struct input *console_input(struct console *c);

/* f has typed or written: it is not idle, and where f is attached with a size of its own, that is the size from now on.
 */
void console_touched_by(struct console *c, struct follower *f);

/* f (NULL: nobody attached) wants this size. RESULT_OK, RESULT_NOT_RUNNING, RESULT_INVALID_ARGUMENT: out of bounds. */
enum result console_resize(struct console *c, struct follower *f, uint32_t cols, uint32_t rows);

/* To the foreground process group. RESULT_OK, RESULT_NOT_RUNNING, RESULT_INVALID_ARGUMENT: no such signal. */
enum result console_signal(struct console *c, uint32_t sig);

/* ---- Ending ---- */

/* Calls done once with the receipt: when nothing of it is left, or what is left survives. At once (before this returns)
 * where nothing is left already. reason: a literal, for the record. RESULT_OK; or RESULT_RESOURCE_LIMIT or RESULT_BUSY
 * (many wait for it already), and no call. */
typedef void console_end_cb(struct console *c, const struct process_receipt *r, void *ctx);
enum result console_end(struct console *c, uint64_t grace_ms, const char *reason, console_end_cb *done, void *ctx);

/* Its rings, for as long as it is not freed. */
struct scrollback *console_scrollback(struct console *c);

#endif
