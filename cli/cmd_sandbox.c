/* cmd_sandbox.c - ls, show, rm: sandboxes that there are. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/show.h"

/* ---- ls ---- */

struct ls_options {
	bool all;
};

static const struct option_spec ls_table[] = {
	{ .name = "all",
	        .letter = 'a',
	        .kind = OPTION_FLAG,
	        .at = offsetof(struct ls_options, all),
	        .help = "those that have ended too" },
	{ 0 },
};

static int list_json(const struct ringside_sandboxes *list)
{
	json_t *j = json_array();
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(j, json_sandbox(&list->items[i], false));
	return json_print(j);
}

static int list_table(const struct ringside_sandboxes *list)
{
	static const char *const headings[] = { "NAME", "ID", "PROVIDER", "STATE", "CONSOLES", "CREATED", "WORKSPACE",
		NULL };
	struct table *t = table_new(headings);
	for (size_t i = 0; i < list->count; i++) {
		const struct ringside_sandbox *s = &list->items[i];
		char consoles[32], created[SHOW_TIME_BYTES];
		snprintf(consoles, sizeof(consoles), "%u/%u", s->consoles_running, s->console_limit);
		const char *fields[] = { s->name, s->id, s->provider, ringside_sandbox_state_name(s->state), consoles,
			show_time(created, s->created_at_ms), *s->directory ? s->directory : s->workspace };
		table_row(t, fields);
	}
	return table_print(t);
}

static int run_ls(struct invocation *inv, const void *options)
{
	const struct ls_options *o = options;
	int status;
	struct ringside *rs;
	struct ringside_sandboxes *list;
	struct ringside_error err;
	if (!take_words(inv, 0, 0, &status) || !take_daemon(inv, &rs, &status))
		return status;
	if (ringside_list(rs, o->all, &list, &err)) {
		status = report_error(inv, &err);
	} else {
		status = inv->json ? list_json(list) : list_table(list);
		ringside_free(list);
	}
	ringside_close(rs);
	return status;
}

/* ---- show ---- */

static void line(const char *key, const char *value)
{
	char shown[1024];
	printf("%-17s %s\n", key, *value ? ringside_escape(shown, sizeof(shown), value, strlen(value)) : "-");
}

static void number_line(const char *key, uint64_t value)
{
	printf("%-17s %llu\n", key, (unsigned long long)value);
}

static int show_lines(const struct ringside_sandbox *s)
{
	char created[SHOW_TIME_BYTES];
	line("id", s->id);
	line("name", s->name);
	line("provider", s->provider);
	line("state", ringside_sandbox_state_name(s->state));
	line("reason", s->reason);
	line("created_at", show_time(created, s->created_at_ms));
	line("workspace", s->workspace);
	line("directory", s->directory);
	line("limits", s->limits);
	number_line("console_limit", s->console_limit);
	number_line("consoles_running", s->consoles_running);
	number_line("ring_bytes", s->ring_bytes);
	number_line("port", s->port);
	line("ref", s->ref);
	number_line("consoled_pid", s->consoled_pid);
	line("consoled_version", s->consoled_version);
	for (size_t i = 0; i < s->nlabels; i++) {
		char label[512];
		snprintf(label, sizeof(label), "%s=%s", s->labels[i].key, s->labels[i].value);
		line("label", label);
	}
	return finish_output();
}

static int run_show(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	struct target target;
	struct ringside *rs;
	struct ringside_sandbox *s;
	struct ringside_error err;
	if (!take_words(inv, 0, 1, &status) || !take_sandbox(inv, inv->words.plain[0], &target, &status) ||
	        !take_daemon(inv, &rs, &status))
		return status;
	if (ringside_show(rs, target.sandbox, &s, &err)) {
		status = report_error(inv, &err);
	} else {
		status = inv->json ? json_print(json_sandbox(s, true)) : show_lines(s);
		ringside_free(s);
	}
	ringside_close(rs);
	return status;
}

/* ---- rm ---- */

static int run_rm(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	struct target target;
	struct ringside *rs;
	struct ringside_sandbox *s;
	struct ringside_error err;
	/* No default here: what is removed is named. */
	if (!take_words(inv, 1, 1, &status) || !take_sandbox(inv, inv->words.plain[0], &target, &status) ||
	        !take_daemon(inv, &rs, &status))
		return status;
	if (ringside_remove(rs, target.sandbox, &s, &err)) {
		status = report_error(inv, &err);
	} else {
		status = inv->json ? json_print(json_sandbox(s, false)) : 0;
		ringside_free(s);
	}
	ringside_close(rs);
	return status;
}

const struct command command_ls = {
	.name = "ls",
	.arguments = "[--all]",
	.summary = "list sandboxes",
	.json = "one JSON array, errors as an object",
	.options = ls_table,
	.options_size = sizeof(struct ls_options),
	.run = run_ls,
};

const struct command command_show = {
	.name = "show",
	.arguments = "[BOX]",
	.summary = "everything about one sandbox",
	.run = run_show,
};

const struct command command_rm = {
	.name = "rm",
	.arguments = "BOX",
	.summary = "end everything in a sandbox, and the sandbox",
	.run = run_rm,
};
