/*
 * sandbox.h - the adapter contract: what a provider of sandboxes does for Ringside, and nothing else knows providers.
 *
 * Two tables of functions. `struct sandbox_adapter` makes, finds and releases; `struct sandbox_session` is one live
 * sandbox. An adapter is one folder below providers/ and one line in registry.c.
 *
 * Blocking   Every call may wait for the provider; the caller runs it on the sandbox's own thread, never on the loop,
 *            and one after another for one sandbox. terminate and close may be called while an exec's streams are open.
 * Ownership  Strings given are the caller's and are copied if kept. Sessions handed out are the caller's until
 *            session_free(); a session is a handle, freeing it ends nothing. Descriptors handed out are the caller's.
 * Errors     enum result; the message for people goes to *err (one line, may be left empty). Outputs are set on
 *            RESULT_OK alone. The caller's own bugs are RESULT_INVALID_ARGUMENT before anything is sent. Provider
 *            trouble is RESULT_UNAVAILABLE, never an invented exit code.
 * Fence      See context.h: asked before each request that reaches the provider.
 * Source     docs/ARCHITECTURE.md, "The adapter contract".
 */
#ifndef PROVIDERS_SANDBOX_H
#define PROVIDERS_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/context.h"
#include "wire/codes.h"

#define SANDBOX_ID_BYTES   64
#define SANDBOX_REF_BYTES  256
#define SANDBOX_HASH_BYTES 65 /* SHA-256 in lowercase hex and NUL */

struct sandbox_error {
	char message[512];
};

enum egress { EGRESS_UNENFORCED, EGRESS_ENFORCED }; /* enforced: it can deny all outbound traffic */
enum capture_class { CAPTURE_FILESYSTEM = 1, CAPTURE_FILESYSTEM_AND_PROCESSES = 2, CAPTURE_FULL_VM = 4 }; /* a set */
enum browser { BROWSER_NONE, BROWSER_HEADLESS };
enum desktop { DESKTOP_NONE, DESKTOP_NATIVE, DESKTOP_IMAGE };
enum lookup_class { LOOKUP_NONE, LOOKUP_NONFINAL, LOOKUP_FINAL };
enum termination { TERMINATION_UNCONFIRMED, TERMINATION_CONFIRMED };

struct sandbox_info {
	const char *provider; /* lowercase letters, digits, underscore */
	enum egress egress;
	unsigned capture_classes;
	enum browser browser;
	enum desktop desktop;
	struct {
		enum lookup_class create, snapshot;
	} lookup;
	enum termination termination;
};

enum lookup_outcome {
	LOOKUP_FOUND,
	LOOKUP_NOT_FOUND,          /* the provider proves that nothing was made; counts only where declared final */
	LOOKUP_NOT_FOUND_NONFINAL, /* it may still appear */
	LOOKUP_UNKNOWN,            /* the error's message says why */
};

/* What a create may ask for. Options are copied at the call. */
struct sandbox_create {
	const char *id;        /* the sandbox's id, chosen by the caller: names its folders and resources */
	const char *name;      /* for people; may be NULL */
	const char *directory; /* host: the workspace, NULL for one of its own */
	uint64_t memory_bytes; /* 0: none asked for */
	uint64_t cpu_millis;
	uint32_t pids;
};

struct exec_options {
	const char *const *argv; /* run directly, ends with NULL; empty is a caller's bug */
	const char *cwd;         /* NULL: /workspace */
	const char *const *env;  /* "NAME=value", ends with NULL; exactly this, nothing inherited */
	uint64_t timeout_ms;     /* 0: none. Enforced above the adapter, by terminate */
	bool stdin_stream;       /* false: /dev/null */
	const char *process_key; /* recorded by the caller before dispatch */
};

/* Pull streams: the reader sets the pace. All the caller's to close; -1 where there is none. */
struct exec_output {
	int stdin_fd, stdout_fd, stderr_fd;
	int exit_fd; /* readable once both streams have ended: one `struct exec_exit` */
};
struct exec_exit {
	uint32_t code, signal;
	uint32_t held; /* something left behind held a stream */
};

enum terminated { TERMINATE_TERMINATED, TERMINATE_ALREADY_EXITED, TERMINATE_UNKNOWN };
enum released { RELEASE_RELEASED, RELEASE_ALREADY_GONE };

struct snapshot_data {
	char snapshot_id[SANDBOX_REF_BYTES];
	const char *provider;
	char sandbox_id[SANDBOX_ID_BYTES];
	enum capture_class capture_class;
	uint64_t expires_at_ms; /* 0: never */
	char manifest_hash[SANDBOX_HASH_BYTES];
	char *quiesced_json; /* {frozen,stopped,excluded}; heap, the caller's */
};

struct sandbox_session;

struct sandbox_session_ops {
	enum result (*exec)(struct sandbox_session *s, const struct sandbox_context *ctx,
	        const struct exec_options *options, struct exec_output *out, struct sandbox_error *err);
	enum result (*terminate)(struct sandbox_session *s, const struct sandbox_context *ctx, const char *process_key,
	        enum terminated *out, struct sandbox_error *err);
	/* Whole files from and to descriptors, of any size; what is at the path is replaced in one step. */
	enum result (*upload)(struct sandbox_session *s, const struct sandbox_context *ctx, const char *path,
	        int from_fd, struct sandbox_error *err);
	enum result (*download)(struct sandbox_session *s, const struct sandbox_context *ctx, const char *path,
	        int to_fd, struct sandbox_error *err);
	enum result (*snapshot)(struct sandbox_session *s, const struct sandbox_context *ctx, const char *operation_key,
	        struct snapshot_data *out, struct sandbox_error *err);
	enum result (*close)(struct sandbox_session *s, const struct sandbox_context *ctx, struct sandbox_error *err);
	/* Trees: both NULL where the adapter has none. */
	enum result (*export_tree)(struct sandbox_session *s, const struct sandbox_context *ctx,
	        struct exec_output *out, struct sandbox_error *err);
	enum result (*import_tree)(
	        struct sandbox_session *s, const struct sandbox_context *ctx, int from_fd, struct sandbox_error *err);
	/* The one extension, NULL where there is none: a connected stream to the sandbox's console daemon, started
	 * first where it is not running. One that hangs up before it has answered hello is that of a daemon whose
	 * starter died before it might serve: it held nothing, and the next connect starts another. */
	enum result (*connect)(
	        struct sandbox_session *s, const struct sandbox_context *ctx, int *out_fd, struct sandbox_error *err);
	void (*free)(struct sandbox_session *s);
};

/* Embedded first in an adapter's own session. */
struct sandbox_session {
	const struct sandbox_session_ops *ops;
	char id[SANDBOX_ID_BYTES];
	char ref[SANDBOX_REF_BYTES]; /* what the ledger records, and attach() takes */
};

struct sandbox_adapter;

struct sandbox_adapter_ops {
	enum result (*create)(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
	        const struct sandbox_create *options, struct sandbox_session **out, struct sandbox_error *err);
	/* On anything but RESULT_OK whatever was made is gone again, or is the ledger's to settle. */
	enum result (*restore)(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *snapshot_id,
	        const char *manifest_hash, const char *operation_key, const struct sandbox_create *options,
	        struct sandbox_session **out, struct sandbox_error *err);
	/* Present when info.lookup.create (.snapshot) is not none. *out is set on LOOKUP_FOUND. */
	enum result (*lookup)(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
	        enum lookup_outcome *outcome, struct sandbox_session **out, struct sandbox_error *err);
	enum result (*lookup_snapshot)(struct sandbox_adapter *a, const struct sandbox_context *ctx,
	        const char *operation_key, enum lookup_outcome *outcome, struct snapshot_data *out,
	        struct sandbox_error *err);
	enum result (*attach)(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
	        struct sandbox_session **out, struct sandbox_error *err);
	enum result (*release)(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
	        enum released *out, struct sandbox_error *err);
	void (*free)(struct sandbox_adapter *a);
};

/* Embedded first in an adapter of one's own. */
struct sandbox_adapter {
	const struct sandbox_adapter_ops *ops;
	const struct sandbox_info *info;
};

#define SANDBOX_INSTANCE_BYTES 256 /* of the line, with its NUL */

/* What every adapter is given when it is made. The strings and what the functions need outlive it. */
struct adapter_env {
	const char *state_dir;     /* below it an adapter may keep folders of its own; see the adapter's header */
	const char *consoled_path; /* the ringside-consoled program for this machine */
	/*
	 * Record before serve. Liveness is kept by the layer above, in the ledger: one line per sandbox, written by the
	 * adapter and understood by it alone, durable when record returns. An adapter that starts a process records who
	 * it is here before it lets the process serve or start anything, so that there is no moment at which a crash
	 * leaves a process that nobody knows. 0 or -errno; -ESTALE: the caller's lease is gone, and the process must
	 * not serve.
	 */
	int (*record_instance)(void *data, const char *sandbox_id, const char *instance);
	int (*recall_instance)(
	        void *data, const char *sandbox_id, char *out, size_t size); /* "" when none was recorded */
	/* Both are called from whichever thread calls the adapter, for several sandboxes at once. */
	void *data;
};

/* The registry: all adapters of this build. NULL: no provider of that name. */
struct sandbox_adapter *adapter_new(const char *provider, const struct adapter_env *env);
const char *const *adapter_names(void); /* ends with NULL */

/*
 * The checked way to every method. What is a caller's bug for all adapters is RESULT_INVALID_ARGUMENT here, before
 * anything is sent: no context or fence, an operation or process key that is missing or malformed, an id that is no
 * name, an empty argv, a reserved or malformed environment name. A method that an adapter lacks answers
 * RESULT_NOT_SUPPORTED. err may be NULL.
 *
 * An operation key is 1 to SANDBOX_KEY_BYTES - 1 printable ASCII characters without a space; so is a process key.
 */
#define SANDBOX_KEY_BYTES 192

enum result adapter_create(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        const struct sandbox_create *options, struct sandbox_session **out, struct sandbox_error *err);
enum result adapter_restore(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *snapshot_id,
        const char *manifest_hash, const char *operation_key, const struct sandbox_create *options,
        struct sandbox_session **out, struct sandbox_error *err);
/* A plain not_found of an adapter whose lookup is not final comes out as LOOKUP_NOT_FOUND_NONFINAL. */
enum result adapter_lookup(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        enum lookup_outcome *outcome, struct sandbox_session **out, struct sandbox_error *err);
enum result adapter_lookup_snapshot(struct sandbox_adapter *a, const struct sandbox_context *ctx,
        const char *operation_key, enum lookup_outcome *outcome, struct snapshot_data *out, struct sandbox_error *err);
/* RESULT_NOT_FOUND only where info.lookup.create is final, else RESULT_RESOURCE_UNKNOWN. */
enum result adapter_attach(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
        struct sandbox_session **out, struct sandbox_error *err);
enum result adapter_release(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
        enum released *out, struct sandbox_error *err);
void adapter_free(struct sandbox_adapter *a); /* accepts NULL */

enum result session_exec(struct sandbox_session *s, const struct sandbox_context *ctx,
        const struct exec_options *options, struct exec_output *out, struct sandbox_error *err);
enum result session_terminate(struct sandbox_session *s, const struct sandbox_context *ctx, const char *process_key,
        enum terminated *out, struct sandbox_error *err);
enum result session_upload(struct sandbox_session *s, const struct sandbox_context *ctx, const char *path, int from_fd,
        struct sandbox_error *err);
enum result session_download(struct sandbox_session *s, const struct sandbox_context *ctx, const char *path, int to_fd,
        struct sandbox_error *err);
enum result session_snapshot(struct sandbox_session *s, const struct sandbox_context *ctx, const char *operation_key,
        struct snapshot_data *out, struct sandbox_error *err);
enum result session_close(struct sandbox_session *s, const struct sandbox_context *ctx, struct sandbox_error *err);
enum result session_export_tree(struct sandbox_session *s, const struct sandbox_context *ctx, struct exec_output *out,
        struct sandbox_error *err);
enum result session_import_tree(
        struct sandbox_session *s, const struct sandbox_context *ctx, int from_fd, struct sandbox_error *err);
enum result session_connect(
        struct sandbox_session *s, const struct sandbox_context *ctx, int *out_fd, struct sandbox_error *err);
void session_free(struct sandbox_session *s); /* accepts NULL */

#endif
