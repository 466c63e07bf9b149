/*
 * control.c - the requests of struct ringside, one function each: the public spec lent to a message, the call, the
 * answer copied.
 */
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

/* An absent string is an empty one on the wire. Messages only lend what they are given, and are never freed as
 * messages. */
static char *lend(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

static Wire__ControlRequest request(Wire__ControlRequest__BodyCase kind)
{
	Wire__ControlRequest req = WIRE__CONTROL_REQUEST__INIT;
	req.body_case = kind;
	return req;
}

static int missing(struct ringside_error *err, const char *what)
{
	return error_set(err, RINGSIDE_INVALID_ARGUMENT, "%s is missing", what);
}

/* ---- The daemon ---- */

int ringside_status(struct ringside *rs, struct ringside_status **out, struct ringside_error *err)
{
	Wire__StatusRequest body = WIRE__STATUS_REQUEST__INIT;
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_STATUS);
	req.status = &body;
	struct control_reply reply;
	int code = control_call(rs, &req, WIRE__CONTROL_REPLY__BODY_STATUS, 0, &reply, err);
	if (code)
		return code;
	struct memory *m = memory_new(sizeof(**out));
	if (!m || !convert_status(m, reply.message->status, memory_object(m))) {
		memory_free(m);
		code = error_memory(err);
	} else {
		*out = memory_object(m);
	}
	control_reply_release(&reply);
	return code;
}

/* The daemon answers, then closes; until then a new one would find the lock taken. */
static int await_end(struct ringside *rs, struct ringside_error *err)
{
	struct control_reply late;
	struct ringside_error lost;
	for (;;) {
		int code = control_call_more(rs, WIRE__CONTROL_REPLY__BODY_OK, &late, &lost);
		if (code == RINGSIDE_TIMEOUT)
			return error_set(err, RINGSIDE_TIMEOUT, "ringsided has said that it ends, and has not");
		if (!rs->conn)
			return 0;
		if (!code)
			control_reply_release(&late);
	}
}

int ringside_down(struct ringside *rs, bool all, struct ringside_error *err)
{
	Wire__Down body = WIRE__DOWN__INIT;
	body.all = all;
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_DOWN);
	req.down = &body;
	struct control_reply reply;
	int code = control_call(rs, &req, WIRE__CONTROL_REPLY__BODY_OK, 0, &reply, err);
	if (code)
		return code;
	control_reply_release(&reply);
	return await_end(rs, err);
}

/* ---- Sandboxes ---- */

/* Asks, and copies the one sandbox that is the answer. out may be NULL. */
static int call_sandbox(
        struct ringside *rs, Wire__ControlRequest *req, struct ringside_sandbox **out, struct ringside_error *err)
{
	struct control_reply reply;
	int code = control_call(rs, req, WIRE__CONTROL_REPLY__BODY_SANDBOX, 0, &reply, err);
	if (code)
		return code;
	if (out) {
		struct memory *m = memory_new(sizeof(**out));
		if (m && convert_sandbox(m, reply.message->sandbox, memory_object(m))) {
			*out = memory_object(m);
		} else {
			memory_free(m);
			code = error_memory(err);
		}
	}
	control_reply_release(&reply);
	return code;
}

int ringside_create(struct ringside *rs, const struct ringside_create *spec, struct ringside_sandbox **out,
        struct ringside_error *err)
{
	Wire__CreateSandbox body = WIRE__CREATE_SANDBOX__INIT;
	body.name = lend(spec->name);
	body.provider = lend(spec->provider);
	body.console_limit = spec->console_limit;
	body.ring_bytes = spec->ring_bytes;
	body.directory = lend(spec->directory);
	body.if_missing = spec->if_missing;
	body.memory_bytes = spec->memory_bytes;
	body.cpu_millis = spec->cpu_millis;
	body.pids = spec->pids;

	Wire__Label *labels = calloc(spec->nlabels + 1, sizeof(*labels));
	Wire__Label **list = calloc(spec->nlabels + 1, sizeof(*list));
	int code;
	if (!labels || !list) {
		code = error_memory(err);
		goto out;
	}
	for (size_t i = 0; i < spec->nlabels; i++) {
		wire__label__init(&labels[i]);
		labels[i].key = lend(spec->labels[i].key);
		labels[i].value = lend(spec->labels[i].value);
		list[i] = &labels[i];
	}
	body.labels = list;
	body.n_labels = spec->nlabels;
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_CREATE);
	req.create = &body;
	code = call_sandbox(rs, &req, out, err);
out:
	free(labels);
	free(list);
	return code;
}

int ringside_show(struct ringside *rs, const char *sandbox, struct ringside_sandbox **out, struct ringside_error *err)
{
	if (!sandbox || !*sandbox)
		return missing(err, "the sandbox");
	Wire__ShowSandbox body = WIRE__SHOW_SANDBOX__INIT;
	body.sandbox = lend(sandbox);
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_SHOW);
	req.show = &body;
	return call_sandbox(rs, &req, out, err);
}

int ringside_remove(struct ringside *rs, const char *sandbox, struct ringside_sandbox **out, struct ringside_error *err)
{
	if (!sandbox || !*sandbox)
		return missing(err, "the sandbox");
	Wire__RemoveSandbox body = WIRE__REMOVE_SANDBOX__INIT;
	body.sandbox = lend(sandbox);
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_REMOVE);
	req.remove = &body;
	return call_sandbox(rs, &req, out, err);
}

/* ---- Lists, which come in as many answers as they need ---- */

struct replies {
	Wire__ControlReply **list;
	size_t count;
};

static void replies_free(struct replies *all)
{
	for (size_t i = 0; i < all->count; i++)
		wire__control_reply__free_unpacked(all->list[i], NULL);
	free(all->list);
}

static int keep_reply(struct replies *all, struct control_reply *reply, struct ringside_error *err)
{
	Wire__ControlReply **list = NULL;
	if (all->count < LIST_MAX_REPLIES)
		list = reallocarray(all->list, all->count + 1, sizeof(*list));
	if (!list) {
		control_reply_release(reply);
		return all->count < LIST_MAX_REPLIES ? error_memory(err)
		                                     : error_set(err, RINGSIDE_TOO_LARGE,
		                                               "the list came in over %d answers", LIST_MAX_REPLIES);
	}
	all->list = list;
	all->list[all->count++] = reply->message;
	reply->message = NULL;
	control_reply_release(reply);
	return 0;
}

/* On failure nothing is left in *all; answers that still come are skipped by their id. */
static int call_list(struct ringside *rs, Wire__ControlRequest *req, Wire__ControlReply__BodyCase expected,
        struct replies *all, struct ringside_error *err)
{
	struct control_reply reply;
	*all = (struct replies){ 0 };
	int code = control_call(rs, req, expected, 0, &reply, err);
	while (!code) {
		bool more = reply.message->more;
		code = keep_reply(all, &reply, err);
		if (!code && !more)
			return 0;
		if (!code)
			code = control_call_more(rs, expected, &reply, err);
	}
	replies_free(all);
	return code;
}

int ringside_list(struct ringside *rs, bool all, struct ringside_sandboxes **out, struct ringside_error *err)
{
	Wire__ListSandboxes body = WIRE__LIST_SANDBOXES__INIT;
	body.all = all;
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_LIST);
	req.list = &body;
	struct replies replies;
	int code = call_list(rs, &req, WIRE__CONTROL_REPLY__BODY_LIST, &replies, err);
	if (code)
		return code;

	size_t count = 0;
	for (size_t i = 0; i < replies.count; i++)
		count += replies.list[i]->list->n_sandboxes;
	struct memory *m = memory_new(sizeof(**out));
	struct ringside_sandboxes *list = m ? memory_object(m) : NULL;
	bool ok = list && (list->items = memory_array(m, count, sizeof(*list->items)));
	for (size_t i = 0; ok && i < replies.count; i++) {
		const Wire__SandboxList *part = replies.list[i]->list;
		for (size_t j = 0; ok && j < part->n_sandboxes; j++)
			ok = convert_sandbox(m, part->sandboxes[j], &list->items[list->count++]);
	}
	replies_free(&replies);
	if (!ok) {
		memory_free(m);
		return error_memory(err);
	}
	*out = list;
	return 0;
}

int ringside_ps(struct ringside *rs, const char *sandbox, struct ringside_consoles **out, struct ringside_error *err)
{
	Wire__ListConsoles body = WIRE__LIST_CONSOLES__INIT;
	body.sandbox = lend(sandbox);
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_CONSOLES);
	req.consoles = &body;
	struct replies replies;
	int code = call_list(rs, &req, WIRE__CONTROL_REPLY__BODY_CONSOLES, &replies, err);
	if (code)
		return code;

	size_t count = 0;
	for (size_t i = 0; i < replies.count; i++)
		count += replies.list[i]->consoles->n_consoles;
	struct memory *m = memory_new(sizeof(**out));
	struct ringside_consoles *list = m ? memory_object(m) : NULL;
	bool ok = list && (list->items = memory_array(m, count, sizeof(*list->items)));
	for (size_t i = 0; ok && i < replies.count; i++) {
		const Wire__ConsoleListing *part = replies.list[i]->consoles;
		for (size_t j = 0; ok && j < part->n_consoles; j++) {
			const Wire__LiveConsole *live = part->consoles[j];
			ok = convert_console(
			        m, live->console, live->sandbox, live->sandbox_id, &list->items[list->count++]);
		}
	}
	replies_free(&replies);
	if (!ok) {
		memory_free(m);
		return error_memory(err);
	}
	*out = list;
	return 0;
}

/* ---- Consoles ---- */

static int call_start(
        struct ringside *rs, Wire__StartInSandbox *body, struct ringside_started **out, struct ringside_error *err)
{
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_START);
	req.start = body;
	struct control_reply reply;
	int code = control_call(rs, &req, WIRE__CONTROL_REPLY__BODY_START, body->spec->observe_ms, &reply, err);
	if (code)
		return code;
	struct memory *m = memory_new(sizeof(**out));
	if (m && convert_started(m, reply.message->start, memory_object(m))) {
		*out = memory_object(m);
	} else {
		memory_free(m);
		code = error_memory(err);
	}
	control_reply_release(&reply);
	return code;
}

int ringside_start(struct ringside *rs, const char *sandbox, const char *name, const struct ringside_start *spec,
        struct ringside_started **out, struct ringside_error *err)
{
	static const struct ringside_start defaults;
	if (!sandbox || !*sandbox || !name || !*name)
		return missing(err, "the sandbox or the console");
	if (!spec)
		spec = &defaults;

	Wire__ConsoleSpec w = WIRE__CONSOLE_SPEC__INIT;
	w.name = lend(name);
	w.cwd = lend(spec->cwd);
	w.cols = spec->cols;
	w.rows = spec->rows;
	w.idle_ttl_ms = spec->idle_ttl_ms;
	w.ring_bytes = spec->ring_bytes;
	if (!spec->no_observe)
		w.observe_ms = spec->observe_ms ? spec->observe_ms : OBSERVE_DEFAULT_MS;
	w.n_argv = strings_count(spec->argv);
	w.argv = strings_bytes(spec->argv, w.n_argv);
	struct env_messages *env = env_messages_new(spec->env, spec->nenv);
	w.n_env = spec->nenv;
	w.env = env_messages_list(env);

	Wire__StartInSandbox body = WIRE__START_IN_SANDBOX__INIT;
	body.sandbox = lend(sandbox);
	body.spec = &w;
	body.create_default = spec->create_default;
	int code = (w.n_argv && !w.argv) || !env ? error_memory(err) : call_start(rs, &body, out, err);
	free(w.argv);
	env_messages_free(env);
	return code;
}

/* Signal and resize answer with the console as it is then. out may be NULL. */
static int call_console(
        struct ringside *rs, Wire__ControlRequest *req, struct ringside_console_info **out, struct ringside_error *err)
{
	struct control_reply reply;
	int code = control_call(rs, req, WIRE__CONTROL_REPLY__BODY_CONSOLE, 0, &reply, err);
	if (code)
		return code;
	if (out) {
		const Wire__LiveConsole *live = reply.message->console;
		struct memory *m = memory_new(sizeof(**out));
		if (m && convert_console(m, live->console, live->sandbox, live->sandbox_id, memory_object(m))) {
			*out = memory_object(m);
		} else {
			memory_free(m);
			code = error_memory(err);
		}
	}
	control_reply_release(&reply);
	return code;
}

int ringside_signal(struct ringside *rs, const char *sandbox, const char *name, int sig,
        struct ringside_console_info **out, struct ringside_error *err)
{
	if (!sandbox || !*sandbox || !name || !*name)
		return missing(err, "the sandbox or the console");
	Wire__ConsoleSignal body = WIRE__CONSOLE_SIGNAL__INIT;
	body.sandbox = lend(sandbox);
	body.name = lend(name);
	body.signal = (uint32_t)sig;
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_SIGNAL);
	req.signal = &body;
	return call_console(rs, &req, out, err);
}

int ringside_resize(struct ringside *rs, const char *sandbox, const char *name, uint32_t cols, uint32_t rows,
        struct ringside_console_info **out, struct ringside_error *err)
{
	if (!sandbox || !*sandbox || !name || !*name)
		return missing(err, "the sandbox or the console");
	Wire__ConsoleResize body = WIRE__CONSOLE_RESIZE__INIT;
	body.sandbox = lend(sandbox);
	body.name = lend(name);
	body.cols = cols;
	body.rows = rows;
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_RESIZE);
	req.resize = &body;
	return call_console(rs, &req, out, err);
}

int ringside_console_end(struct ringside *rs, const char *sandbox, const char *name, uint64_t grace_ms,
        struct ringside_closed **out, struct ringside_error *err)
{
	if (!sandbox || !*sandbox || !name || !*name)
		return missing(err, "the sandbox or the console");
	Wire__ConsoleClose body = WIRE__CONSOLE_CLOSE__INIT;
	body.sandbox = lend(sandbox);
	body.name = lend(name);
	body.has_grace = grace_ms != RINGSIDE_DEFAULT_GRACE;
	body.grace_ms = body.has_grace ? grace_ms : 0;
	Wire__ControlRequest req = request(WIRE__CONTROL_REQUEST__BODY_CLOSE);
	req.close = &body;
	struct control_reply reply;
	int code = control_call(rs, &req, WIRE__CONTROL_REPLY__BODY_CLOSED, body.grace_ms, &reply, err);
	if (code)
		return code;
	struct memory *m = memory_new(sizeof(**out));
	if (m && convert_closed(m, reply.message->closed, memory_object(m))) {
		*out = memory_object(m);
	} else {
		memory_free(m);
		code = error_memory(err);
	}
	control_reply_release(&reply);
	return code;
}
