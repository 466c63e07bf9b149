/*
 * convert.c - wire messages copied into public structs, and public specs lent to wire messages.
 *
 * Messages come from daemons that may be hostile (a console daemon lives in the sandbox): any string may be missing or
 * odd, any number anything. Copying keeps that away from callers; nothing here judges it.
 */
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

bool convert_exit(struct memory *m, const Wire__Exit *w, struct ringside_exit *out)
{
	*out = (struct ringside_exit){ .known = w != NULL };
	if (w) {
		out->code = w->code;
		out->signal = w->signal;
	}
	out->name = memory_string(m, w ? w->name : NULL);
	return out->name != NULL;
}

bool convert_processes(
        struct memory *m, Wire__Process *const *w, size_t n, const struct ringside_process **out, size_t *nout)
{
	struct ringside_process *list = memory_array(m, n, sizeof(*list));
	if (!list)
		return false;
	for (size_t i = 0; i < n; i++) {
		list[i].pid = w[i]->pid;
		list[i].comm = memory_string(m, w[i]->comm);
		if (!list[i].comm)
			return false;
	}
	*out = list;
	*nout = n;
	return true;
}

static bool copy_argv(struct memory *m, const ProtobufCBinaryData *w, size_t n, const char *const **out)
{
	const char **argv = memory_array(m, n + 1, sizeof(*argv));
	if (!argv)
		return false;
	for (size_t i = 0; i < n; i++) {
		argv[i] = memory_bytes(m, w[i].data, w[i].len);
		if (!argv[i])
			return false;
	}
	*out = argv;
	return true;
}

bool convert_console(struct memory *m, const Wire__ConsoleInfo *w, const char *sandbox, const char *sandbox_id,
        struct ringside_console_info *out)
{
	static const Wire__ConsoleInfo nothing = WIRE__CONSOLE_INFO__INIT;
	if (!w)
		w = &nothing;
	*out = (struct ringside_console_info){
		.sandbox = memory_string(m, sandbox),
		.sandbox_id = memory_string(m, sandbox_id),
		.name = memory_string(m, w->name),
		.incarnation = w->incarnation,
		.state = w->state <= INT32_MAX ? (int)w->state : 0,
		.pid = w->pid,
		.cwd = memory_string(m, w->cwd),
		.cols = w->cols,
		.rows = w->rows,
		.head_offset = w->head_offset,
		.tail_offset = w->tail_offset,
		.start_offset = w->start_offset,
		.ring_bytes = w->ring_bytes,
		.started_at_ms = w->started_at_ms,
		.ended_at_ms = w->ended_at_ms,
		.idle_ms = w->idle_ms,
		.idle_ttl_ms = w->idle_ttl_ms,
		.clients = w->clients,
		.reason = memory_string(m, w->reason),
	};
	return out->sandbox && out->sandbox_id && out->name && out->cwd && out->reason &&
	       copy_argv(m, w->argv, w->n_argv, &out->argv) && convert_exit(m, w->exit, &out->exit) &&
	       convert_processes(m, w->leftovers, w->n_leftovers, &out->leftovers, &out->nleftovers);
}

static bool copy_labels(struct memory *m, Wire__Label *const *w, size_t n, struct ringside_sandbox *out)
{
	struct ringside_label *list = memory_array(m, n, sizeof(*list));
	if (!list)
		return false;
	for (size_t i = 0; i < n; i++) {
		list[i].key = memory_string(m, w[i]->key);
		list[i].value = memory_string(m, w[i]->value);
		if (!list[i].key || !list[i].value)
			return false;
	}
	out->labels = list;
	out->nlabels = n;
	return true;
}

bool convert_sandbox(struct memory *m, const Wire__SandboxInfo *w, struct ringside_sandbox *out)
{
	*out = (struct ringside_sandbox){
		.id = memory_string(m, w->id),
		.name = memory_string(m, w->name),
		.provider = memory_string(m, w->provider),
		.state = w->state <= INT32_MAX ? (int)w->state : 0,
		.reason = memory_string(m, w->reason),
		.created_at_ms = w->created_at_ms,
		.workspace = memory_string(m, w->workspace),
		.console_limit = w->console_limit,
		.ring_bytes = w->ring_bytes,
		.consoles_running = w->consoles_running,
		.port = w->port,
		.limits = memory_string(m, w->limits),
		.ref = memory_string(m, w->ref),
		.consoled_pid = w->consoled_pid,
		.consoled_version = memory_string(m, w->consoled_version),
		.directory = memory_string(m, w->directory),
	};
	return out->id && out->name && out->provider && out->reason && out->workspace && out->limits && out->ref &&
	       out->consoled_version && out->directory && copy_labels(m, w->labels, w->n_labels, out);
}

bool convert_started(struct memory *m, const Wire__StartInSandboxReply *w, struct ringside_started *out)
{
	if (!convert_console(m, w->console, w->sandbox, NULL, &out->console))
		return false;
	out->reattached = w->reattached;
	out->startup_output = memory_bytes(m, w->startup_output.data, w->startup_output.len);
	out->startup_size = w->startup_output.len;
	out->failure_message = memory_string(m, w->failure ? w->failure->message : NULL);
	if (w->failure)
		out->failure_code =
		        w->failure->code && w->failure->code <= INT32_MAX ? (int)w->failure->code : RINGSIDE_INTERNAL;
	return out->startup_output && out->failure_message;
}

bool convert_closed(struct memory *m, const Wire__ConsoleClosed *w, struct ringside_closed *out)
{
	static const Wire__CloseReceipt nothing = WIRE__CLOSE_RECEIPT__INIT;
	const Wire__CloseReceipt *r = w->receipt ? w->receipt : &nothing;
	struct ringside_close_step *steps = memory_array(m, r->n_steps, sizeof(*steps));
	if (!steps)
		return false;
	for (size_t i = 0; i < r->n_steps; i++) {
		steps[i] = (struct ringside_close_step){
			.signal = memory_string(m, r->steps[i]->signal),
			.at_ms = r->steps[i]->at_ms,
			.left = r->steps[i]->left,
		};
		if (!steps[i].signal)
			return false;
	}
	out->sandbox = memory_string(m, w->sandbox);
	out->name = memory_string(m, w->name);
	out->state = r->state <= INT32_MAX ? (int)r->state : 0;
	out->steps = steps;
	out->nsteps = r->n_steps;
	out->unproven = r->unproven;
	out->tail_offset = r->tail_offset;
	return out->sandbox && out->name && convert_exit(m, r->exit, &out->exit) &&
	       convert_processes(m, r->survivors, r->n_survivors, &out->survivors, &out->nsurvivors);
}

bool convert_status(struct memory *m, const Wire__StatusReply *w, struct ringside_status *out)
{
	const char **providers = memory_array(m, w->n_providers + 1, sizeof(*providers));
	if (!providers)
		return false;
	for (size_t i = 0; i < w->n_providers; i++) {
		providers[i] = memory_string(m, w->providers[i]);
		if (!providers[i])
			return false;
	}
	*out = (struct ringside_status){
		.pid = w->pid,
		.version = memory_string(m, w->version),
		.started_at_ms = w->started_at_ms,
		.epoch = w->epoch,
		.sandboxes = w->sandboxes,
		.consoles = w->consoles,
		.clients = w->clients,
		.socket = memory_string(m, w->socket),
		.state_dir = memory_string(m, w->state_dir),
		.providers = providers,
		.default_provider = memory_string(m, w->default_provider),
	};
	return out->version && out->socket && out->state_dir && out->default_provider;
}

bool convert_exec_result(struct memory *m, const Wire__ExecResult *w, struct ringside_exec_result *out)
{
	out->failure_message = memory_string(m, w->failure ? w->failure->message : NULL);
	if (w->failure)
		out->failure_code =
		        w->failure->code && w->failure->code <= INT32_MAX ? (int)w->failure->code : RINGSIDE_INTERNAL;
	out->timed_out = w->timed_out;
	out->idle_timed_out = w->idle_timed_out;
	out->held = w->held;
	return out->failure_message && convert_exit(m, w->exit, &out->exit) &&
	       convert_processes(m, w->survivors, w->n_survivors, &out->survivors, &out->nsurvivors);
}

/* ---- Public to wire ---- */

struct env_messages {
	Wire__EnvVar **list;
	Wire__EnvVar *vars;
};

/* protobuf-c's structs hold pointers to what it would also free; here they only lend, and nothing frees them. */
static uint8_t *lent(const char *s)
{
	return (uint8_t *)(uintptr_t)s;
}

struct env_messages *env_messages_new(const struct ringside_env *env, size_t n)
{
	struct env_messages *e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->list = calloc(n ? n : 1, sizeof(*e->list));
	e->vars = calloc(n ? n : 1, sizeof(*e->vars));
	if (!e->list || !e->vars) {
		env_messages_free(e);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		wire__env_var__init(&e->vars[i]);
		e->vars[i].name = (char *)lent(env[i].name);
		e->vars[i].value = (ProtobufCBinaryData){ .len = strlen(env[i].value), .data = lent(env[i].value) };
		e->list[i] = &e->vars[i];
	}
	return e;
}

Wire__EnvVar **env_messages_list(struct env_messages *e)
{
	return e ? e->list : NULL;
}

void env_messages_free(struct env_messages *e)
{
	if (!e)
		return;
	free(e->list);
	free(e->vars);
	free(e);
}

size_t strings_count(const char *const *strings)
{
	size_t n = 0;
	while (strings && strings[n])
		n++;
	return n;
}

ProtobufCBinaryData *strings_bytes(const char *const *strings, size_t n)
{
	ProtobufCBinaryData *list = n ? calloc(n, sizeof(*list)) : NULL;
	for (size_t i = 0; list && i < n; i++)
		list[i] = (ProtobufCBinaryData){ .len = strlen(strings[i]), .data = lent(strings[i]) };
	return list;
}
