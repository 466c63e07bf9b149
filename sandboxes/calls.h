/*
 * calls.h - the steps of a sandbox's life that wait: for the ledger, then for its provider, then for the ledger again.
 *
 * Each function here is the work of one job: it runs on a thread of the provider pool, gets copies, and leaves its
 * result in the same struct. The order inside is the ledger's promise: what is about to be made or released is durable
 * before the provider hears of it, and what came of it after.
 *
 * Settling   A create whose outcome is not known is never repeated. The adapter's lookup decides: found is released at
 *            once, proven absent is released, anything else is `unknown` and kept for a person (the sandbox is FAILED
 *            and says so).
 */
#ifndef SANDBOXES_CALLS_H
#define SANDBOXES_CALLS_H

#include <stdbool.h>

#include "sandboxes/lifecycle.h"
#include "sandboxes/sandbox.h"

/* What every call gets, and what came of it. */
struct call {
	/* In */
	struct sandbox *sandbox; /* the loop's; no thread looks at it */
	const struct calls_env *env;
	struct sandbox_adapter *adapter;
	char id[SANDBOX_ID_BYTES];
	char resource_id[RESOURCE_ID_BYTES];
	char operation_key[OPERATION_KEY_BYTES];
	/* In and out */
	char ref[SANDBOX_REF_BYTES];
	struct sandbox_session *session;
	uint32_t state; /* of the sandbox, when the call is done */
	char reason[REASON_BYTES];
	/* Out */
	enum result code;
	char message[512];
	bool lease_lost;
};

struct create_call {
	struct call call;
	struct spec spec; /* its own; released by the loop */
	uint64_t created_at_ms;
	int fd; /* a connection to the console daemon, or -1 and why there is none */
	char no_connection[512];
};
void call_create(void *arg);

struct connect_call {
	struct call call;
	enum connect_mode mode;
	int fd; /* -1 where code is RESULT_OK: there is no console daemon */
};
void call_connect(void *arg);

/* The resource is `releasing`, durably, before anything is ended. */
void call_begin_close(void *arg); /* struct call */
void call_close(void *arg);       /* struct call */
void call_settle(void *arg);      /* struct call: its create was cut short by a crash */

/* After the release: custody, rows and folder go, and the sandbox is TERMINATED. For the disk lane, after the last
 * save. */
void call_forget(void *arg); /* struct call */

/* For adapters: a sandbox's instance line in the ledger. data is a calls_env. */
int calls_record_instance(void *data, const char *sandbox_id, const char *instance);
int calls_recall_instance(void *data, const char *sandbox_id, char *out, size_t size);

#endif
