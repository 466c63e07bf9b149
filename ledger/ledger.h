/*
 * ledger.h - the durable record of everything an adapter was asked to make, and of the sandboxes and consoles on top.
 *
 * One SQLite file (WAL; synchronous=FULL). A resource row is written `pending` with its operation key, committed and
 * synced, before the provider is called: pending → live → releasing → released, or release_failed, or unknown. A row is
 * never deleted by a state change and outlives its owner.
 *
 * Threads    Any thread may call; writes run one after another on the ledger's own thread and the call returns when the
 *            transaction is durable. At most 256 calls wait there, the next is held until there is room. Do not call
 *            from a loop thread: every function here waits for the disk. ledger_fence() reads, on a connection of its
 *            own. A callback of a listing may call anything here but ledger_close().
 * Lease      ledger_take_lease() sets epoch = max(lease's, highest ever recorded) + 1. Every write carries the epoch
 *            and is refused with -ESTALE once another holder has a higher one.
 * Errors     0 or a negative errno: -ESTALE (lease lost), -EEXIST (a unique name or key), -ENOENT (no such row),
 *            -EINVAL (a value or a change of state that cannot be), -EOVERFLOW (a number over 2^63 - 1), -ENOSPC, -EIO,
 *            -EBUSY (another process held the file for 10 s), -EUCLEAN (the file is corrupt, foreign or from a newer
 *            version: refused, never overwritten). After an error nothing of that call is in the file that a reader
 *            could see; only after -EIO may a crash bring back what was refused.
 */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct ledger;

/* Opens or makes path (its directory exists). message: one line for people when it fails, at least 256 bytes. */
int ledger_open(const char *path, struct ledger **out, char *message, unsigned size);
void ledger_close(struct ledger *l); /* waits for writes in hand; accepts NULL */

/* ---- Lease ---- */
int ledger_take_lease(struct ledger *l, const char *owner_id, uint64_t *epoch);
int ledger_fence(struct ledger *l, uint64_t epoch); /* 0, -ESTALE, or -EIO (cannot tell: treat as stale) */

/* ---- Resources ---- */
#define LEDGER_STATES(X)      \
	X(PENDING, "pending") \
	X(LIVE, "live")       \
	X(RELEASING, "releasing") X(RELEASED, "released") X(RELEASE_FAILED, "release_failed") X(UNKNOWN, "unknown")
enum ledger_state {
#define LEDGER_STATE_ENUM(name, text) LEDGER_##name,
	LEDGER_STATES(LEDGER_STATE_ENUM)
#undef LEDGER_STATE_ENUM
};
const char *ledger_state_name(enum ledger_state s);

enum ledger_kind { LEDGER_SANDBOX, LEDGER_SNAPSHOT };

/* Text fields are the reader's for the length of the callback, or copies where a struct is filled by the ledger. */
struct ledger_resource {
	const char *resource_id;
	const char *owner_id;
	const char *provider;
	enum ledger_kind kind;
	const char *ref; /* "" while pending */
	enum ledger_state state;
	const char *operation_key; /* unique */
	uint64_t epoch;            /* that wrote it last */
	uint64_t acquired_at_ms;
	uint64_t expires_at_ms; /* 0: never */
	uint64_t released_at_ms;
	const char *outcome; /* of the release, or why it is unknown */
	uint64_t claim;
};

/* Whatever the row says of state and ref, it is written pending and without one. acquired_at_ms 0: now. */
int ledger_add_pending(struct ledger *l, uint64_t epoch, const struct ledger_resource *row);
/*
 * A row moves pending → live | released | unknown; live → releasing | released (the provider proves that it is gone) |
 * unknown; releasing → released | release_failed | unknown; release_failed → releasing | released | unknown; unknown →
 * live | releasing | released. To where it already is it may always go. Anything else is -EINVAL, and nothing is
 * written. An outcome of NULL keeps what is there.
 */
int ledger_set_live(struct ledger *l, uint64_t epoch, const char *resource_id, const char *ref);
int ledger_set_state(
        struct ledger *l, uint64_t epoch, const char *resource_id, enum ledger_state state, const char *outcome);
/* Calls each for every row, oldest first, on the caller's thread; stops when it returns false. */
int ledger_each_resource(struct ledger *l, bool (*each)(const struct ledger_resource *row, void *ctx), void *ctx);

/* ---- Sandboxes: the record that ringsided restarts from ---- */
struct ledger_sandbox {
	const char *id;
	const char *name; /* "": none; unique among those that are not TERMINATED */
	const char *provider;
	uint32_t state; /* enum sandbox_state */
	const char *reason;
	const char *resource_id;
	const char *spec_json; /* the whole envelope as it was asked for */
	const char *instance;  /* who its console daemon is, as the adapter wrote it: "" or one line */
	uint64_t created_at_ms;
	uint64_t ended_at_ms;
};
/* Both in one transaction with the pending row: a sandbox without its row, or the other way round, cannot be. -EEXIST:
 * name. */
int ledger_add_sandbox(
        struct ledger *l, uint64_t epoch, const struct ledger_sandbox *s, const struct ledger_resource *pending);
/* NULL, and state 0, keep what is there. -EEXIST: the name was taken while this one was TERMINATED. */
int ledger_update_sandbox(
        struct ledger *l, uint64_t epoch, const char *id, uint32_t state, const char *reason, const char *instance);
int ledger_each_sandbox(struct ledger *l, bool (*each)(const struct ledger_sandbox *s, void *ctx), void *ctx);

/* ---- Consoles: what custody knows of each name, so that offsets and incarnations go on ---- */
struct ledger_console {
	const char *sandbox_id;
	const char *name;
	uint32_t incarnation;
	uint32_t state;       /* enum console_state */
	uint64_t tail_offset; /* final of an ended one; of a live one, what custody's file reaches */
	const void *info;     /* packed wire.ConsoleInfo, so that an ended console is listed as it was */
	uint32_t info_bytes;
};
int ledger_put_console(struct ledger *l, uint64_t epoch, const struct ledger_console *c);
int ledger_drop_console(struct ledger *l, uint64_t epoch, const char *sandbox_id, const char *name);
int ledger_each_console(
        struct ledger *l, const char *sandbox_id, bool (*each)(const struct ledger_console *c, void *ctx), void *ctx);

#endif
