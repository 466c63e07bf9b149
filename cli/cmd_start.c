/* cmd_start.c - start: a console, new or found again by its name. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/filter.h"
#include "cli/show.h"
#include "cli/write_out.h"

struct start_options {
	const char *cwd;
	struct strings env;
	struct number cols, rows, idle_ttl, ring, observe;
};

#define AT(field) offsetof(struct start_options, field)
static const struct option_spec table[] = {
	{ .name = "cols",
	        .kind = OPTION_NUMBER,
	        .at = AT(cols),
	        .max = RINGSIDE_MAX_COLS,
	        .value = "N",
	        .help = "columns (80)" },
	{ .name = "rows",
	        .kind = OPTION_NUMBER,
	        .at = AT(rows),
	        .max = RINGSIDE_MAX_ROWS,
	        .value = "N",
	        .help = "lines (24)" },
	{ .name = "cwd",
	        .kind = OPTION_STRING,
	        .at = AT(cwd),
	        .value = "DIR",
	        .help = "where it starts (the workspace)" },
	{ .name = "env",
	        .letter = 'e',
	        .kind = OPTION_LIST,
	        .at = AT(env),
	        .value = "NAME=VALUE",
	        .help = "added to its environment; may be given again" },
	{ .name = "idle-ttl",
	        .kind = OPTION_DURATION,
	        .at = AT(idle_ttl),
	        .value = "DUR",
	        .help = "end it after so long without input, output and attached people" },
	{ .name = "ring",
	        .kind = OPTION_SIZE,
	        .at = AT(ring),
	        .value = "SIZE",
	        .help = "output kept, a power of two (the sandbox's)" },
	{ .name = "observe",
	        .kind = OPTION_DURATION,
	        .at = AT(observe),
	        .max = 60 * 60 * 1000,
	        .value = "DUR",
	        .help = "how long it is watched before the answer (2s; 0: not at all)" },
	{ 0 },
};

static int start_json(const struct ringside_started *s)
{
	json_t *failure = json_null();
	if (s->failure_code) {
		failure = json_object();
		json_object_set_new(failure, "code", json_string(ringside_code_name(s->failure_code)));
		json_object_set_new(failure, "message", json_text(s->failure_message));
	}
	json_t *j = json_console(&s->console);
	json_object_set_new(j, "reattached", json_boolean(s->reattached));
	json_object_set_new(j, "startup_output_base64", json_base64(s->startup_output, s->startup_size));
	json_object_set_new(j, "failure", failure);
	return json_print(j);
}

static int start_lines(const struct ringside_started *s)
{
	const struct ringside_console_info *c = &s->console;
	char sandbox[256], name[256], exit_text[SHOW_TIME_BYTES];
	ringside_escape(sandbox, sizeof(sandbox), c->sandbox, strlen(c->sandbox));
	ringside_escape(name, sizeof(name), c->name, strlen(c->name));
	printf("%s/%s %s", sandbox, name, ringside_console_state_name(c->state));
	if (c->state == RINGSIDE_CONSOLE_RUNNING)
		printf(" pid %u%s", c->pid, s->reattached ? " (reattached)" : "");
	else if (c->exit.known)
		printf(" %s", show_exit(exit_text, &c->exit));
	printf(" start_offset=%llu tail_offset=%llu\n", (unsigned long long)c->start_offset,
	        (unsigned long long)c->tail_offset);
	int status = finish_output();
	if (s->startup_size == 0)
		return status;
	struct write_out out;
	write_out_init(&out, false);
	if (write_out_bytes(&out, s->startup_output, s->startup_size) < 0 || write_out_end(&out) < 0)
		return EXIT_FAILED;
	return status;
}

/* argv of a console is cut after 1 KiB, with a last "…". */
static bool same_argv(const char *const *asked, const char *const *runs)
{
	size_t i = 0;
	while (asked[i] && runs[i] && strcmp(asked[i], runs[i]) == 0)
		i++;
	return (!asked[i] && !runs[i]) || (asked[i] && runs[i] && strcmp(runs[i], "…") == 0 && !runs[i + 1]);
}

/* Found again is no error, but whoever asked for another program is not to take this one for it. */
static void tell_other_program(const struct ringside_start *asked, const struct ringside_started *s)
{
	char argv[256];
	if (!s->reattached || !asked->argv || !asked->argv[0] || same_argv(asked->argv, s->console.argv))
		return;
	show_argv(argv, sizeof(argv), s->console.argv);
	fprintf(stderr, "it was running already, with another program: %s (close it to start yours)\n", argv);
}

static int show_started(const struct invocation *inv, const struct ringside_started *s)
{
	int status = inv->json ? start_json(s) : start_lines(s);
	if (!s->failure_code)
		return status;
	/* The console exists, EXITED: whatever the code is, it is the request that failed, not that a console is
	 * missing. */
	char message[RINGSIDE_MESSAGE_BYTES];
	ringside_escape(message, sizeof(message), s->failure_message, strlen(s->failure_message));
	report_code(inv, s->failure_code, "%s", message);
	return EXIT_FAILED;
}

static int start(const struct invocation *inv, const struct target *target, const struct ringside_start *spec)
{
	int status;
	struct ringside *rs;
	struct ringside_started *started;
	struct ringside_error err;
	if (!take_daemon(inv, &rs, &status))
		return status;
	if (ringside_start(rs, target->sandbox, target->console, spec, &started, &err)) {
		status = report_error(inv, &err);
	} else {
		status = show_started(inv, started);
		if (!inv->json)
			tell_other_program(spec, started);
		ringside_free(started);
	}
	ringside_close(rs);
	return status;
}

static int run_start(struct invocation *inv, const void *options)
{
	const struct start_options *o = options;
	int status;
	struct target target;
	struct ringside_env *env;
	if (inv->words.nplain > 1)
		return report_usage(inv, "what to run goes after --: ringside start %s", inv->command->arguments);
	if (!take_words(inv, 1, 1, &status) || !take_console(inv, inv->words.plain[0], &target, &status) ||
	        !take_env(inv, &o->env, &env, &status))
		return status;
	struct ringside_start spec = {
		.argv = (const char *const *)inv->words.rest,
		.cwd = o->cwd,
		.env = env,
		.nenv = o->env.count,
		.cols = (uint32_t)o->cols.value,
		.rows = (uint32_t)o->rows.value,
		.idle_ttl_ms = o->idle_ttl.value,
		.ring_bytes = o->ring.value,
		.observe_ms = (uint32_t)o->observe.value,
		.no_observe = o->observe.given && o->observe.value == 0,
		.create_default = target_is_default(&target),
	};
	status = start(inv, &target, &spec);
	env_free(env, o->env.count);
	return status;
}

const struct command command_start = {
	.name = "start",
	.arguments = "[BOX/]NAME [options] [-- ARGV…]",
	.summary = "start a console (the user's shell, or ARGV), or find the running one of that name",
	.options = table,
	.options_size = sizeof(struct start_options),
	.run = run_start,
};
