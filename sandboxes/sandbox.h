/*
 * sandbox.h - one sandbox as the control daemon knows it, and the table of all.
 *
 *   CREATING ──► RUNNING ──► (closing) ──► TERMINATED      FAILED: a create or close that did not succeed; close again
 *
 * An operation of its provider (create, connect, close, settle) is in hand one at a time; see lifecycle.h. While
 * RUNNING it may have a link to its console daemon (hosting.h), and then it is `hosted`: what is known of its consoles
 * is what the console daemon says.
 *
 * Lifetime   The table holds one reference until the sandbox is TERMINATED; whoever keeps a pointer over a turn of the
 *            loop holds one of his own. Loop thread only.
 */
#ifndef SANDBOXES_SANDBOX_H
#define SANDBOXES_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "providers/sandbox.h"
#include "sandboxes/daemon.h"
#include "sandboxes/spec.h"
#include "sandboxes/wait.h"
#include "wire/wire.h"

#define RESOURCE_ID_BYTES   64
#define OPERATION_KEY_BYTES 128
#define REASON_BYTES        256

enum sandbox_op { OP_NONE, OP_CREATE, OP_CONNECT, OP_CLOSE, OP_SETTLE };

struct console;
struct link;
struct strays;

struct sandbox {
	struct daemon *daemon;
	struct sandbox *next;
	unsigned refs;

	char id[SANDBOX_ID_BYTES];
	char resource_id[RESOURCE_ID_BYTES];
	char operation_key[OPERATION_KEY_BYTES];
	char ref[SANDBOX_REF_BYTES]; /* the provider's; "" until it is live */
	struct spec spec;
	uint32_t state; /* enum sandbox_state */
	char reason[REASON_BYTES];
	uint64_t created_at_ms;

	int loaded_resource;             /* enum ledger_state, as the daemon's start found it; -1: no row */
	struct sandbox_adapter *adapter; /* NULL: this build has no such provider */
	struct sandbox_session *session; /* the running operation's while there is one */
	struct lane *calls, *disk;
	enum sandbox_op op;
	bool closing;
	bool released; /* it is no more; what is left is to forget it */
	bool shutting; /* the console daemon was asked to end everything first */
	struct wait_list uses, closes;

	/* Hosting */
	struct link *link;
	bool hosted;
	unsigned taking;       /* rings that are being taken while the link is new */
	uint64_t hosted_at_ms; /* clock_mono_ms() */
	unsigned attempts;     /* to connect, in a row, that did not last */
	uv_timer_t *retry;     /* active: one is planned */
	bool missed;           /* news of its consoles did not come in: to be asked for again */
	struct strays *strays; /* what a lost console daemon may have left behind, until it is looked for */

	struct console *consoles; /* in the order in which they became known */
	unsigned nconsoles;
};

/* What the ledger or a request says of a new one. Takes *spec over on success (it is left empty). The table's: *out is
 * borrowed. */
int sandbox_add(struct daemon *d, const char *id, struct spec *spec, struct sandbox **out);
void sandbox_del(struct sandbox *s); /* out of the table, when it is TERMINATED */

struct sandbox *sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s); /* accepts NULL */

/* By name first, then by id. NULL: there is none. */
struct sandbox *sandbox_find(struct daemon *d, const char *name_or_id);
struct sandbox *sandbox_find_name(struct daemon *d, const char *name);

const char *sandbox_label(const struct sandbox *s); /* its name, or its id where it has none */
void sandbox_set_state(struct sandbox *s, uint32_t state, const char *reason);
/* RUNNING and not on its way out. */
bool sandbox_usable(const struct sandbox *s);
/* "sandbox box is FAILED: …", for errors. Returns out. */
const char *sandbox_why_unusable(const struct sandbox *s, char *out, size_t size);

/* Path of the sandbox's folder, or of what is in it (sub may be NULL). -ENAMETOOLONG. */
int sandbox_path(const char *state_dir, const char *id, const char *sub, char *out, size_t size);

/* protobuf-c's messages have plain pointers for what they only read; this is the one place that says so. */
static inline char *lend(const char *text)
{
	return (char *)(uintptr_t)text;
}

/* For messages: what belongs to the sandbox or to *space, which is `space`'s owner's until the message is gone. */
struct sandbox_text {
	char directory[PATH_MAX];
	Wire__Label labels[SPEC_MAX_LABELS];
	Wire__Label *label_list[SPEC_MAX_LABELS];
};
void sandbox_describe(const struct sandbox *s, Wire__SandboxInfo *out, struct sandbox_text *space);
/* The same for one that only the ledger knows. */
void spec_describe(const struct spec *spec, Wire__SandboxInfo *out, struct sandbox_text *space);

#endif
