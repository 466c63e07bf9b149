/*
 * cmd_exec.c - exec, shell, script: one command in a sandbox, with its streams, its exit status passed on.
 *
 * Output goes out as it comes: when standard output takes nothing, this program does not read, and the command waits.
 * Ending this program ends the command, since the connection is its life.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/clip.h"
#include "cli/command.h"
#include "cli/show.h"
#include "wire/fd.h"

struct exec_options {
	const char *cwd;
	struct strings env;
	struct number timeout, idle_timeout;
	bool stdin_stream;
};

#define AT(field) offsetof(struct exec_options, field)
#define COMMON_OPTIONS                                                                                   \
	{ .name = "cwd",                                                                                 \
		.kind = OPTION_STRING,                                                                   \
		.at = AT(cwd),                                                                           \
		.value = "DIR",                                                                          \
		.help = "where it runs (the workspace)" },                                               \
	        { .name = "env",                                                                         \
		        .letter = 'e',                                                                   \
		        .kind = OPTION_LIST,                                                             \
		        .at = AT(env),                                                                   \
		        .value = "NAME=VALUE",                                                           \
		        .help = "its environment is exactly these; may be given again" },                \
	        { .name = "timeout",                                                                     \
		        .kind = OPTION_DURATION,                                                         \
		        .at = AT(timeout),                                                               \
		        .value = "DUR",                                                                  \
		        .help = "end it after so long" },                                                \
	{                                                                                                \
		.name = "idle-timeout", .kind = OPTION_DURATION, .at = AT(idle_timeout), .value = "DUR", \
		.help = "end it after so long without output"                                            \
	}
static const struct option_spec table[] = {
	COMMON_OPTIONS,
	{ .name = "interactive",
	        .letter = 'i',
	        .kind = OPTION_FLAG,
	        .at = AT(stdin_stream),
	        .help = "pass standard input on" },
	{ 0 },
};
static const struct option_spec script_table[] = { COMMON_OPTIONS, { 0 } };

struct run {
	struct ringside_exec *x;
	bool json;
	bool input_open;
	int output_error;
	struct clip *clips; /* of streams 1 and 2, with --json */
};

static void take_output(void *ctx, int stream, const void *bytes, size_t n)
{
	struct run *r = ctx;
	if (r->json)
		clip_add(&r->clips[stream - 1], bytes, n);
	else if (!r->output_error)
		r->output_error = fd_write_all(stream == 1 ? STDOUT_FILENO : STDERR_FILENO, bytes, n);
}

static int take_input(struct run *r, struct ringside_error *err)
{
	uint8_t buf[32 * 1024];
	size_t room = ringside_exec_room(r->x);
	ssize_t n = read(STDIN_FILENO, buf, room < sizeof(buf) ? room : sizeof(buf));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		r->input_open = false;
		n = 0;
	}
	return ringside_exec_input(r->x, buf, (size_t)n, err);
}

static int pump(struct run *r, struct ringside_error *err)
{
	bool done = false;
	int code = 0;
	while (!code && !done && !r->output_error) {
		struct pollfd p[] = {
			{ .fd = ringside_exec_fd(r->x), .events = ringside_exec_events(r->x) },
			{ .fd = r->input_open && ringside_exec_room(r->x) ? STDIN_FILENO : -1, .events = POLLIN },
		};
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents)
			code = ringside_exec_dispatch(r->x, p[0].revents, take_output, r, &done, err);
		if (!code && !done && p[1].revents)
			code = take_input(r, err);
	}
	return code;
}

static int result_json(const struct ringside_exec_result *r, const struct clip *clips)
{
	static const char *const keys[] = { "stdout_base64", "stderr_base64" };
	static const char *const names[] = { "stdout", "stderr" };
	json_t *j = json_object(), *omitted = json_object();
	json_object_set_new(j, "exit", json_exit(&r->exit));
	for (int i = 0; i < 2; i++) {
		uint8_t bytes[CLIP_HEAD + CLIP_TAIL];
		uint64_t left_out;
		size_t n = clip_take(&clips[i], bytes, &left_out);
		json_object_set_new(j, keys[i], json_base64(bytes, n));
		json_object_set_new(omitted, names[i], json_u64(left_out));
	}
	json_object_set_new(j, "timed_out", json_boolean(r->timed_out));
	json_object_set_new(j, "idle_timed_out", json_boolean(r->idle_timed_out));
	json_object_set_new(j, "held", json_boolean(r->held));
	json_object_set_new(j, "termination_name", json_text_or_null(r->exit.name));
	json_object_set_new(j, "omitted", omitted);
	return json_print(j);
}

static void result_lines(const struct invocation *inv, const struct ringside_exec_result *r)
{
	if (r->timed_out || r->idle_timed_out)
		report_code(inv, RINGSIDE_TIMEOUT,
		        r->timed_out ? "the command was ended: its time was over"
		                     : "the command was ended: it printed nothing for too long");
	if (r->held)
		fprintf(stderr, "ringside: something that the command left behind holds its output open\n");
}

static int finish(const struct invocation *inv, struct run *r)
{
	const struct ringside_exec_result *result = ringside_exec_result(r->x);
	if (r->output_error)
		return report_code(inv, RINGSIDE_UNAVAILABLE, "cannot write the command's output: %s; it was ended",
		        strerrordesc_np(-r->output_error));
	if (result->failure_code) {
		char message[RINGSIDE_MESSAGE_BYTES];
		ringside_escape(message, sizeof(message), result->failure_message, strlen(result->failure_message));
		return report_code(inv, result->failure_code, "%s", message);
	}
	if (inv->json) {
		int status = result_json(result, r->clips);
		return status ? status : ringside_exit_status(&result->exit);
	}
	result_lines(inv, result);
	return ringside_exit_status(&result->exit);
}

static int run_in(struct invocation *inv, const struct target *t, const struct ringside_exec_spec *spec)
{
	int status;
	struct ringside *rs;
	struct ringside_error err;
	struct run r = { .json = inv->json, .input_open = spec->stdin_stream, .clips = calloc(2, sizeof(*r.clips)) };
	if (!r.clips)
		return report_code(inv, RINGSIDE_RESOURCE_LIMIT, "out of memory");
	if (!take_daemon(inv, &rs, &status)) {
		free(r.clips);
		return status;
	}
	int code = ringside_exec_open(rs, t->sandbox, spec, &r.x, &err);
	ringside_close(rs); /* the command's connection is its own */
	if (!code)
		code = pump(&r, &err);
	status = code ? report_error(inv, &err) : finish(inv, &r);
	ringside_exec_close(r.x);
	free(r.clips);
	return status;
}

/* argv: borrowed. */
static int run_argv(
        struct invocation *inv, const struct exec_options *o, const char *box, const char *const *argv, bool input)
{
	int status;
	struct target t;
	struct ringside_env *env;
	if (!take_sandbox(inv, box, &t, &status) || !take_env(inv, &o->env, &env, &status))
		return status;
	struct ringside_exec_spec spec = {
		.argv = argv,
		.cwd = o->cwd,
		.env = env,
		.nenv = o->env.count,
		.stdin_stream = input,
		.timeout_ms = o->timeout.value,
		.idle_timeout_ms = o->idle_timeout.value,
		.create_default = target_is_default(&t),
	};
	status = run_in(inv, &t, &spec);
	env_free(env, o->env.count);
	return status;
}

/* exec [BOX] -- ARGV…, or exec BOX ARGV… where no word of it looks like an option. */
static int run_exec(struct invocation *inv, const void *options)
{
	const struct exec_options *o = options;
	const struct words *w = &inv->words;
	if (w->dashes && w->nrest > 0 && w->nplain <= 1)
		return run_argv(inv, o, w->nplain ? w->plain[0] : NULL, (const char *const *)w->rest, o->stdin_stream);
	if (!w->dashes && w->nplain >= 2)
		return run_argv(inv, o, w->plain[0], (const char *const *)w->plain + 1, o->stdin_stream);
	return report_usage(inv, "what is to be run goes after --: ringside exec %s", inv->command->arguments);
}

static int run_shell(struct invocation *inv, const void *options)
{
	const struct exec_options *o = options;
	const struct words *w = &inv->words;
	int status;
	if (w->nrest == 1 && w->nplain <= 1) { /* a script that begins with a dash */
		const char *argv[] = { "sh", "-c", w->rest[0], NULL };
		return run_argv(inv, o, w->nplain ? w->plain[0] : NULL, argv, o->stdin_stream);
	}
	if (w->nrest || !take_words(inv, 1, 2, &status))
		return w->nrest ? report_usage(
		                          inv, "a shell takes one script: ringside shell %s", inv->command->arguments)
		                : status;
	const char *argv[] = { "sh", "-c", w->plain[w->nplain - 1], NULL };
	return run_argv(inv, o, w->nplain == 2 ? w->plain[0] : NULL, argv, o->stdin_stream);
}

static int run_script(struct invocation *inv, const void *options)
{
	const struct exec_options *o = options;
	const struct words *w = &inv->words;
	int status;
	if (w->nrest > 0 && w->nplain <= 1) /* an interpreter with options of its own */
		return run_argv(inv, o, w->nplain ? w->plain[0] : NULL, (const char *const *)w->rest, true);
	if (!take_words(inv, 1, 2, &status))
		return status;
	return run_argv(
	        inv, o, w->nplain == 2 ? w->plain[0] : NULL, (const char *const *)w->plain + w->nplain - 1, true);
}

#define STATUS_NOTES                                                                                                 \
	"Status: the command's own, 128+n when a signal ended it. With --json the first and the last 4096 bytes of " \
	"each\n"                                                                                                     \
	"stream are given, and how many were left out between."

const struct command command_exec = {
	.name = "exec",
	.arguments = "[BOX] [options] [-i] -- ARGV…",
	.summary = "run a command in a sandbox, with separate output and error streams",
	.notes = STATUS_NOTES,
	.options = table,
	.options_size = sizeof(struct exec_options),
	.run = run_exec,
};

const struct command command_shell = {
	.name = "shell",
	.arguments = "[BOX] [options] 'SCRIPT'",
	.summary = "run a line of shell in a sandbox",
	.notes = STATUS_NOTES,
	.options = table,
	.options_size = sizeof(struct exec_options),
	.run = run_shell,
};

const struct command command_script = {
	.name = "script",
	.arguments = "[BOX] [options] INTERPRETER < CODE",
	.summary = "run code from standard input by an interpreter in a sandbox",
	.notes = STATUS_NOTES,
	.options = script_table,
	.options_size = sizeof(struct exec_options),
	.run = run_script,
};
