/* cmd_daemon.c - up, down, status: the control daemon itself. */
#include <stddef.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/show.h"

static json_t *status_json(const struct ringside_status *s)
{
	json_t *providers = json_array();
	for (size_t i = 0; s->providers[i]; i++)
		json_array_append_new(providers, json_text(s->providers[i]));
	json_t *j = json_object();
	json_object_set_new(j, "pid", json_u64(s->pid));
	json_object_set_new(j, "version", json_text(s->version));
	json_object_set_new(j, "started_at", json_time(s->started_at_ms));
	json_object_set_new(j, "epoch", json_u64(s->epoch));
	json_object_set_new(j, "sandboxes", json_u64(s->sandboxes));
	json_object_set_new(j, "consoles", json_u64(s->consoles));
	json_object_set_new(j, "clients", json_u64(s->clients));
	json_object_set_new(j, "socket", json_text(s->socket));
	json_object_set_new(j, "state_dir", json_text(s->state_dir));
	json_object_set_new(j, "providers", providers);
	json_object_set_new(j, "default_provider", json_text(s->default_provider));
	return j;
}

static void print_status(const struct ringside_status *s)
{
	char when[SHOW_TIME_BYTES], providers[512];
	show_argv(providers, sizeof(providers), s->providers);
	printf("ringsided %s, pid %u, since %s\n", s->version, s->pid, show_time(when, s->started_at_ms));
	printf("sandboxes %u, running consoles %u, clients %u, epoch %llu\n", s->sandboxes, s->consoles, s->clients,
	        (unsigned long long)s->epoch);
	printf("providers %s (default %s)\n", providers, s->default_provider);
	printf("socket    %s\n", s->socket);
	printf("state     %s\n", s->state_dir);
}

static int show_status(struct invocation *inv, struct ringside *rs)
{
	struct ringside_status *s;
	struct ringside_error err;
	if (ringside_status(rs, &s, &err))
		return report_error(inv, &err);
	int status;
	if (inv->json) {
		status = json_print(status_json(s));
	} else {
		print_status(s);
		status = finish_output();
	}
	ringside_free(s);
	return status;
}

static int run_up(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	struct ringside *rs;
	if (!take_words(inv, 0, 0, &status) || !take_daemon(inv, &rs, &status))
		return status;
	status = show_status(inv, rs);
	ringside_close(rs);
	return status;
}

static int run_status(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	struct ringside *rs;
	struct ringside_error err;
	struct ringside_options o = { .client = "ringside", .no_start = true };
	if (!take_words(inv, 0, 0, &status))
		return status;
	if (ringside_open(&o, &rs, &err))
		return report_error(inv, &err);
	status = show_status(inv, rs);
	ringside_close(rs);
	return status;
}

/* ---- down ---- */

struct down_options {
	bool all;
};

static const struct option_spec down_table[] = {
	{ .name = "all",
	        .kind = OPTION_FLAG,
	        .at = offsetof(struct down_options, all),
	        .help = "close every sandbox first" },
	{ 0 },
};

static int show_down(const struct invocation *inv, bool ran)
{
	if (inv->json) {
		json_t *j = json_object();
		json_object_set_new(j, "was_running", json_boolean(ran));
		return json_print(j);
	}
	puts(ran ? "ringsided has ended" : "ringsided was not running");
	return finish_output();
}

static int run_down(struct invocation *inv, const void *options)
{
	const struct down_options *o = options;
	int status;
	struct ringside *rs;
	struct ringside_error err;
	/* Closing sandboxes needs a daemon, even where none runs: they go on without one. */
	struct ringside_options how = { .client = "ringside", .no_start = !o->all };
	if (!take_words(inv, 0, 0, &status))
		return status;
	int code = ringside_open(&how, &rs, &err);
	if (code == RINGSIDE_UNAVAILABLE && !o->all)
		return show_down(inv, false);
	if (code)
		return report_error(inv, &err);
	code = ringside_down(rs, o->all, &err);
	ringside_close(rs);
	return code ? report_error(inv, &err) : show_down(inv, true);
}

const struct command command_up = {
	.name = "up",
	.arguments = "",
	.summary = "start the control daemon where it does not run, and say how it is",
	.run = run_up,
};

const struct command command_down = {
	.name = "down",
	.arguments = "[--all]",
	.summary = "end the control daemon; sandboxes and their consoles go on",
	.options = down_table,
	.options_size = sizeof(struct down_options),
	.run = run_down,
};

const struct command command_status = {
	.name = "status",
	.arguments = "",
	.summary = "say how the control daemon is, without starting it",
	.run = run_status,
};
