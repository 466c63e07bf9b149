/*
 * link.h - the owner's connection to one console daemon: hello, requests whose answers come back to their callers,
 * events.
 *
 * The console daemon is not trusted: it may run beside whatever its sandbox runs. Each frame is checked before anybody
 * sees it: answers belong to a request in hand and are of the kind that it expects, names are names, states are states
 * a console daemon can tell. One that breaks this is dropped, and its sandbox alone is harmed.
 *
 * Answers    Each call gets its callback exactly once (once per part for a list, the last with more = false): with the
 *            answer, with the console daemon's error, with RESULT_TIMEOUT at its deadline, or with RESULT_UNAVAILABLE
 *            when the link goes down or is freed. Never from inside link_call().
 * Bounds     LINK_MAX_CALLS requests in hand, LINK_QUEUE_BYTES going out: past them link_call() refuses.
 * Lifetime   link_free() may be called from any callback; no callback comes after it but those that answer what was in
 *            hand.
 */
#ifndef SANDBOXES_LINK_H
#define SANDBOXES_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "wire/codes.h"
#include "wire/wire.h"

#define LINK_MAX_CALLS   1024
#define LINK_QUEUE_BYTES ((size_t)1024 * 1024)
#define LINK_HELLO_MS    10000
#define LINK_INSTANCE    16
#define LINK_INFO_BYTES \
	((size_t)16 * 1024) /* of one console's description: a path of 4 KiB, 1 KiB of argv, and room \
	                     */

struct link;

struct link_answer {
	enum result code;    /* RESULT_OK: reply is set; else message is */
	const char *message; /* never NULL when set; bytes from the sandbox */
	Wire__ConsoledReply *reply;
	int fds[2]; /* -1: there was none. Take them with fd_take(); what is left is closed after the callback */
	bool more;
};
typedef void link_answer_fn(struct link_answer *a, void *ctx);

struct link_handler {
	void (*on_ready)(struct link *l, void *ctx); /* the hello is done: calls may be made */
	/* info is checked, and the link's; the descriptors as in link_answer. */
	void (*on_event)(
	        struct link *l, Wire__ConsoleEvent__Kind kind, const Wire__ConsoleInfo *info, int fds[2], void *ctx);
	/* An event came that there was no memory for. May be NULL: then the link goes down. */
	void (*on_missed)(struct link *l, void *ctx);
	/* The connection is of no more use; everything in hand was answered. Once, not after link_free(). */
	void (*on_down)(struct link *l, const char *why, void *ctx);
};

/* Takes fd over, on failure too, and says hello. */
int link_new(uv_loop_t *loop, int fd, uint32_t console_limit, uint64_t ring_bytes, const struct link_handler *handler,
        void *ctx, struct link **out);

/*
 * Sends q, whose id is filled in here, with fd riding on it (-1: none; stays the caller's). expected: the body that the
 * answer has. timeout_ms: 0 for none. -EPIPE: the link is down; -EBUSY: too much in hand; -EMSGSIZE: over a frame. done
 * is not called then.
 */
int link_call(struct link *l, Wire__ConsoledRequest *q, int fd, Wire__ConsoledReply__BodyCase expected,
        uint64_t timeout_ms, link_answer_fn *done, void *ctx);

bool link_is_down(const struct link *l);

/* After on_ready. */
const char *link_version(const struct link *l);
pid_t link_peer_pid(const struct link *l);   /* as this host sees it; 0: not of this host */
bool link_shares_pids(const struct link *l); /* the console daemon is in our pid namespace: its pids are ours */

/* A console's description as a console daemon may give it. */
bool link_info_valid(const Wire__ConsoleInfo *info);

void link_free(struct link *l); /* accepts NULL */

#endif
