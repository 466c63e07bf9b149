/*
 * calls.c - the waiting steps of calls.h.
 */
#include "sandboxes/calls.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "providers/crashpoint.h"
#include "providers/instance.h"
#include "sandboxes/custody.h"
#include "wire/clock.h"
#include "wire/codes.h"
#include "wire/fd.h"
#include "wire/log.h"

#define CREATE_MS  120000
#define CONNECT_MS 30000
#define CLOSE_MS   60000
#define LOOKUP_MS  30000
#define LINGER_MS  500 /* a console daemon whose connection fell is given so long to be seen dead */

/* ---- Authority ---- */

/* A ledger that cannot say whether the lease still stands lets nothing through either; but it may be able to later. */
static enum result fence(const struct sandbox_context *self)
{
	const struct calls_env *env = self->fence_data;

	int r = ledger_fence(env->ledger, env->epoch);
	if (r == 0)
		return RESULT_OK;
	return r == -ESTALE ? RESULT_STALE_EPOCH : RESULT_UNAVAILABLE;
}

static struct sandbox_context authority(const struct call *c, uint64_t limit_ms)
{
	return (struct sandbox_context){
		.authority = AUTHORITY_OWNER,
		.owner_id = c->env->owner_id,
		.epoch = c->env->epoch,
		.fence = fence,
		.fence_data = (void *)(uintptr_t)c->env,
		.deadline_ms = clock_mono_ms() + limit_ms,
	};
}

/* ---- The sandbox's row during a call ---- */

/* Which row's state an adapter's record must leave alone; a call runs on one thread from its start to its end. */
static _Thread_local uint32_t state_in_row;

int calls_record_instance(void *data, const char *sandbox_id, const char *instance)
{
	const struct calls_env *env = data;

	return ledger_update_sandbox(env->ledger, env->epoch, sandbox_id, state_in_row, NULL, instance);
}

struct recall {
	const char *id;
	char *out;
	size_t size;
	int r;
};

static bool recall_one(const struct ledger_sandbox *s, void *ctx)
{
	struct recall *q = ctx;

	if (strcmp(s->id, q->id) != 0)
		return true;
	q->r = snprintf(q->out, q->size, "%s", s->instance) < (int)q->size ? 0 : -ENOSPC;
	return false;
}

int calls_recall_instance(void *data, const char *sandbox_id, char *out, size_t size)
{
	const struct calls_env *env = data;
	struct recall q = { .id = sandbox_id, .out = out, .size = size, .r = -ENOENT };

	int r = ledger_each_sandbox(env->ledger, recall_one, &q);
	return r < 0 ? r : q.r;
}

/* ---- Results ---- */

__attribute__((format(printf, 3, 4))) static void set_result(struct call *c, enum result code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->message, sizeof(c->message), fmt, args);
	va_end(args);
	c->code = code;
}

__attribute__((format(printf, 3, 4))) static void set_state(struct call *c, uint32_t state, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->reason, sizeof(c->reason), fmt, args);
	va_end(args);
	c->state = state;
}

/* What the ledger answered, as the call's result where it is a failure. */
static bool ledger_took(struct call *c, int r)
{
	if (r == 0)
		return true;
	if (r == -ESTALE) {
		c->lease_lost = true;
		set_result(c, RESULT_STALE_EPOCH, "another control daemon has taken over");
	} else if (r == -EEXIST) {
		set_result(c, RESULT_ALREADY_EXISTS, "a sandbox of that name exists");
	} else {
		set_result(c, r == -ENOSPC || r == -ENOMEM || r == -EMFILE ? RESULT_RESOURCE_LIMIT : RESULT_INTERNAL,
		        "the ledger could not be written: %s", strerror(-r));
	}
	return false;
}

static bool resource_state(struct call *c, enum ledger_state state, const char *outcome)
{
	return ledger_took(c, ledger_set_state(c->env->ledger, c->env->epoch, c->resource_id, state, outcome));
}

/* Writes down what set_state() said. */
static bool sandbox_state(struct call *c)
{
	state_in_row = c->state;
	return ledger_took(c, ledger_update_sandbox(c->env->ledger, c->env->epoch, c->id, c->state, c->reason, NULL));
}

static void take_session(struct call *c, struct sandbox_session *session)
{
	c->session = session;
	snprintf(c->ref, sizeof(c->ref), "%s", session->ref);
}

static void drop_session(struct call *c)
{
	session_free(c->session);
	c->session = NULL;
}

/* ---- Releasing ---- */

/* The provider's answer to a release, written down. true: it is gone. */
static bool note_release(struct call *c, enum result r, const struct sandbox_error *err)
{
	bool final = c->adapter->info->lookup.create == LOOKUP_FINAL;

	if (r == RESULT_OK || (r == RESULT_NOT_FOUND && final)) {
		set_state(c, c->state, "%s", c->reason);
		return resource_state(c, LEDGER_RELEASED, r == RESULT_OK ? "released" : "already_gone");
	}
	if (r == RESULT_STALE_EPOCH) {
		c->lease_lost = true;
		set_result(c, r, "another control daemon has taken over");
		return false;
	}
	bool unknown = r == RESULT_RESOURCE_UNKNOWN || r == RESULT_NOT_FOUND;
	if (!resource_state(c, unknown ? LEDGER_UNKNOWN : LEDGER_RELEASE_FAILED, err->message))
		return false;
	set_state(c, SANDBOX_FAILED, "%s: %s; remove it again to try again",
	        unknown ? "its provider cannot say whether it is gone" : "it was not released",
	        *err->message ? err->message : result_name(r));
	sandbox_state(c);
	set_result(c, unknown ? RESULT_RESOURCE_UNKNOWN : RESULT_RELEASE_FAILED, "%s",
	        *err->message ? err->message : result_meaning(r));
	return false;
}

static bool release(struct call *c)
{
	struct sandbox_context ctx = authority(c, CLOSE_MS);
	struct sandbox_error err = { "" };

	enum result r = session_close(c->session, &ctx, &err);
	CRASH_POINT("close.after_provider");
	drop_session(c);
	return note_release(c, r, &err);
}

/* ---- Settling what may or may not have been made ---- */

static void settled(struct call *c, const char *how)
{
	set_state(c, SANDBOX_TERMINATED, "%s; %s", c->reason, how);
}

static void unsettled(struct call *c, const char *why)
{
	if (resource_state(c, LEDGER_UNKNOWN, why)) {
		set_state(c, SANDBOX_FAILED, "%s, and whether anything was made is not known: %.100s", c->reason, why);
		sandbox_state(c);
	}
}

static void settle_found(struct call *c)
{
	/* It is on record by its own name before it goes, so that a crash in between leaves a row that can be resolved.
	 */
	if (!ledger_took(c, ledger_set_live(c->env->ledger, c->env->epoch, c->resource_id, c->ref)))
		return;
	if (resource_state(c, LEDGER_RELEASING, NULL) && release(c))
		settled(c, "what had been made was released");
}

/* reason says what happened. Afterwards the state is TERMINATED, FAILED, or (ledger trouble) as it was. */
static void settle(struct call *c)
{
	struct sandbox_context ctx = authority(c, LOOKUP_MS);
	struct sandbox_error err = { "" };
	struct sandbox_session *session = NULL;
	enum lookup_outcome outcome = LOOKUP_UNKNOWN;

	enum result r = adapter_lookup(c->adapter, &ctx, c->operation_key, &outcome, &session, &err);
	if (r == RESULT_STALE_EPOCH) {
		c->lease_lost = true;
	} else if (r != RESULT_OK) {
		unsettled(c, *err.message ? err.message : result_meaning(r));
	} else if (outcome == LOOKUP_FOUND) {
		take_session(c, session);
		settle_found(c);
	} else if (outcome == LOOKUP_NOT_FOUND) {
		if (resource_state(c, LEDGER_RELEASED, "never_made"))
			settled(c, "nothing had been made");
	} else {
		unsettled(c, *err.message ? err.message : "it may still appear");
	}
}

void call_settle(void *arg)
{
	struct call *c = arg;

	state_in_row = SANDBOX_CREATING;
	set_state(c, c->state, "its create was cut short by a crash of the control daemon");
	settle(c);
}

/* ---- Creating ---- */

static bool record_pending(struct create_call *q)
{
	struct call *c = &q->call;
	char *json = spec_to_json(&q->spec);

	if (!json) {
		set_result(c, RESULT_INTERNAL, "out of memory");
		return false;
	}
	struct ledger_sandbox row = {
		.id = c->id,
		.name = q->spec.name,
		.provider = q->spec.provider,
		.state = SANDBOX_CREATING,
		.reason = "",
		.resource_id = c->resource_id,
		.spec_json = json,
		.instance = "",
		.created_at_ms = q->created_at_ms,
	};
	struct ledger_resource pending = {
		.resource_id = c->resource_id,
		.owner_id = c->env->owner_id,
		.provider = q->spec.provider,
		.kind = LEDGER_SANDBOX,
		.ref = "",
		.state = LEDGER_PENDING,
		.operation_key = c->operation_key,
		.epoch = c->env->epoch,
		.acquired_at_ms = q->created_at_ms,
		.outcome = "",
	};
	int r = ledger_add_sandbox(c->env->ledger, c->env->epoch, &row, &pending);
	free(json);
	return ledger_took(c, r);
}

/* The adapter's refusal, and what is left of the attempt. */
static void create_failed(struct create_call *q, enum result r, const struct sandbox_error *err)
{
	struct call *c = &q->call;
	const char *why = *err->message ? err->message : result_meaning(r);

	set_state(c, c->state, "its create failed: %.120s", why);
	/* A refused argument is refused before anything is sent: no lookup is needed to know that nothing was made. */
	if (r == RESULT_INVALID_ARGUMENT) {
		if (resource_state(c, LEDGER_RELEASED, "never_made"))
			settled(c, "nothing was made");
	} else if (r == RESULT_STALE_EPOCH) {
		c->lease_lost = true;
	} else {
		settle(c);
	}
	/* What the caller hears is why the create failed, whatever became of the rest. */
	set_result(c, r, "%s", why);
}

static bool create_sandbox(struct create_call *q)
{
	struct call *c = &q->call;
	struct sandbox_context ctx = authority(c, CREATE_MS);
	struct sandbox_error err = { "" };
	struct sandbox_session *session = NULL;
	struct sandbox_create options = {
		.id = c->id,
		.name = *q->spec.name ? q->spec.name : NULL,
		.directory = *q->spec.directory ? q->spec.directory : NULL,
		.memory_bytes = q->spec.memory_bytes,
		.cpu_millis = q->spec.cpu_millis,
		.pids = q->spec.pids,
	};

	enum result r = adapter_create(c->adapter, &ctx, c->operation_key, &options, &session, &err);
	CRASH_POINT("create.after_provider");
	if (r != RESULT_OK) {
		create_failed(q, r, &err);
		return false;
	}
	take_session(c, session);
	return true;
}

/* A sandbox that the ledger does not take as live is not handed out; it goes again, or a later start settles it. */
static void take_back(struct call *c)
{
	char message[sizeof(c->message)];
	enum result code = c->code;

	snprintf(message, sizeof(message), "%s", c->message);
	struct sandbox_context ctx = authority(c, CLOSE_MS);
	struct sandbox_error err = { "" };
	set_state(c, SANDBOX_FAILED, "its create could not be recorded");
	if (session_close(c->session, &ctx, &err) == RESULT_OK && resource_state(c, LEDGER_RELEASED, "released"))
		settled(c, "what had been made was released");
	drop_session(c);
	set_result(c, code, "%s", message);
}

static void connect_new(struct create_call *q)
{
	struct call *c = &q->call;
	struct sandbox_context ctx = authority(c, CONNECT_MS);
	struct sandbox_error err = { "" };

	enum result r = session_connect(c->session, &ctx, &q->fd, &err);
	if (r != RESULT_OK)
		snprintf(q->no_connection, sizeof(q->no_connection), "its console daemon could not be started: %.400s",
		        *err.message ? err.message : result_meaning(r));
}

void call_create(void *arg)
{
	struct create_call *q = arg;
	struct call *c = &q->call;

	state_in_row = SANDBOX_CREATING;
	CRASH_POINT("create.begin");
	if (!record_pending(q)) {
		set_state(c, SANDBOX_TERMINATED, "its create was refused: %.200s", c->message);
		return;
	}
	CRASH_POINT("create.after_pending");
	if (!create_sandbox(q))
		return;
	if (!ledger_took(c, ledger_set_live(c->env->ledger, c->env->epoch, c->resource_id, c->ref))) {
		take_back(c);
		return;
	}
	CRASH_POINT("create.after_live");
	set_state(c, SANDBOX_RUNNING, "%s", "");
	if (!sandbox_state(c)) {
		take_back(c);
		return;
	}
	CRASH_POINT("create.after_running");
	connect_new(q);
}

/* ---- Connecting ---- */

/* The provider no longer has it: found at a reattach, not asked for. */
static void is_gone(struct call *c, const char *why)
{
	if (!resource_state(c, LEDGER_RELEASED, "already_gone"))
		return;
	set_result(c, RESULT_NOT_RUNNING, "the sandbox is gone: %.400s", why);
	set_state(c, SANDBOX_TERMINATED, "its provider no longer has it: %.150s", why);
}

static void is_unknown(struct call *c, const char *why)
{
	if (!resource_state(c, LEDGER_UNKNOWN, why))
		return;
	set_result(c, RESULT_RESOURCE_UNKNOWN, "the provider cannot say whether the sandbox exists: %.400s", why);
	set_state(c, SANDBOX_FAILED, "its provider cannot say whether it exists: %.150s", why);
	sandbox_state(c);
}

/* Makes a session of the recorded ref, where there is none yet. */
static bool attach(struct call *c, uint64_t limit_ms, enum result *r, struct sandbox_error *err)
{
	struct sandbox_context ctx = authority(c, limit_ms);
	struct sandbox_session *session = NULL;

	if (c->session)
		return true;
	*r = adapter_attach(c->adapter, &ctx, c->ref, &session, err);
	if (*r == RESULT_OK)
		take_session(c, session);
	return *r == RESULT_OK;
}

/* Whether the recorded console daemon is proven dead. What was never recorded never served; a line that is no process
 * of this host is the adapter's to understand. */
static bool console_daemon_dead(const struct call *c, enum connect_mode mode)
{
	char line[SANDBOX_INSTANCE_BYTES] = "";
	struct instance i;

	if (calls_recall_instance((void *)(uintptr_t)c->env, c->id, line, sizeof(line)) < 0)
		return false;
	if (!*line)
		return true;
	if (instance_parse(line, &i) < 0)
		return false;
	int fd = instance_open(&i);
	if (fd == -ESRCH)
		return true;
	if (fd < 0)
		return false;
	bool dead = mode == CONNECT_AFTER_LOSS && instance_wait(fd, clock_mono_ms() + LINGER_MS) == 0;
	fd_close(&fd);
	return dead;
}

void call_connect(void *arg)
{
	struct connect_call *q = arg;
	struct call *c = &q->call;
	struct sandbox_error err = { "" };
	enum result r = RESULT_OK;

	state_in_row = SANDBOX_RUNNING;
	if (!attach(c, CONNECT_MS, &r, &err)) {
		const char *why = *err.message ? err.message : result_meaning(r);
		set_result(c, r, "%s", why);
		c->lease_lost = r == RESULT_STALE_EPOCH;
		if (r == RESULT_NOT_FOUND)
			is_gone(c, why);
		else if (r == RESULT_RESOURCE_UNKNOWN)
			is_unknown(c, why);
		return;
	}
	if (q->mode != CONNECT_START && console_daemon_dead(c, q->mode)) {
		c->code = RESULT_OK;
		return;
	}
	struct sandbox_context ctx = authority(c, CONNECT_MS);
	r = session_connect(c->session, &ctx, &q->fd, &err);
	c->lease_lost = r == RESULT_STALE_EPOCH;
	set_result(c, r, "%s", *err.message ? err.message : result_meaning(r));
}

/* ---- Closing ---- */

void call_begin_close(void *arg)
{
	struct call *c = arg;

	state_in_row = c->state;
	c->code = RESULT_OK;
	resource_state(c, LEDGER_RELEASING, NULL);
	CRASH_POINT("close.after_releasing");
}

/* It never got a ref: what there may be is found by the operation key. */
static void close_unknown(struct call *c)
{
	set_state(c, c->state, "removed");
	settle(c);
	if (c->state == SANDBOX_TERMINATED)
		c->code = RESULT_OK;
	else if (c->code == RESULT_OK)
		set_result(c, RESULT_RESOURCE_UNKNOWN, "%.500s", c->reason);
}

void call_close(void *arg)
{
	struct call *c = arg;
	struct sandbox_error err = { "" };
	enum result r = RESULT_OK;

	state_in_row = c->state;
	c->code = RESULT_OK;
	if (!*c->ref && !c->session) {
		close_unknown(c);
		return;
	}
	bool gone = attach(c, CLOSE_MS, &r, &err) ? release(c) : note_release(c, r, &err);
	CRASH_POINT("close.after_released");
	if (gone)
		set_state(c, SANDBOX_TERMINATED, "removed");
}

/* ---- Forgetting ---- */

struct names {
	char **list;
	size_t n;
	bool out_of_memory;
};

static bool note_name(const struct ledger_console *row, void *ctx)
{
	struct names *names = ctx;
	char **more = reallocarray(names->list, names->n + 1, sizeof(*more));

	names->out_of_memory = true;
	if (!more)
		return false;
	names->list = more;
	names->list[names->n] = strdup(row->name);
	if (!names->list[names->n])
		return false;
	names->out_of_memory = false;
	names->n++;
	return true;
}

/* 0, or why some are still there. */
static int drop_rows(struct call *c)
{
	struct names names = { 0 };

	int r = ledger_each_console(c->env->ledger, c->id, note_name, &names);
	if (r == 0 && names.out_of_memory)
		r = -ENOMEM;
	for (size_t i = 0; i < names.n; i++) {
		int dropped = ledger_drop_console(c->env->ledger, c->env->epoch, c->id, names.list[i]);
		if (r == 0 && dropped != -ENOENT)
			r = dropped;
		free(names.list[i]);
	}
	free(names.list);
	return r;
}

/* A folder that cannot be removed stays, and is no reason not to forget its sandbox. A shortage passes. */
static int drop_custody(struct call *c)
{
	char dir[PATH_MAX];

	int r = sandbox_path(c->env->state_dir, c->id, "custody", dir, sizeof(dir));
	if (r == 0)
		r = custody_drop_all(dir);
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	if (r < 0)
		log_warn(c->id, NULL, "its custody folder stays: %s", strerror(-r));
	return 0;
}

void call_forget(void *arg)
{
	struct call *c = arg;
	char dir[PATH_MAX];

	/* TERMINATED is written last: a crash before it comes back here, and finds what is left to do. */
	int r = drop_custody(c);
	if (r < 0) {
		set_result(c, RESULT_RESOURCE_LIMIT, "what was kept of it cannot be removed: %s", strerror(-r));
		return;
	}
	if (!ledger_took(c, drop_rows(c)))
		return;
	CRASH_POINT("close.after_forgotten");
	if (sandbox_path(c->env->state_dir, c->id, NULL, dir, sizeof(dir)) == 0 && rmdir(dir) < 0 && errno != ENOENT)
		log_info(c->id, NULL, "its folder stays: %s", strerror(errno));
	c->state = SANDBOX_TERMINATED;
	state_in_row = c->state;
	r = ledger_update_sandbox(c->env->ledger, c->env->epoch, c->id, c->state, c->reason, NULL);
	if (r != -ENOENT) /* one whose create the ledger refused has no row */
		ledger_took(c, r);
}
