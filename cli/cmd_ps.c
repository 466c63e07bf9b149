/* cmd_ps.c - ps: consoles, of one sandbox or of all. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/show.h"

static int ps_json(const struct ringside_consoles *list)
{
	json_t *j = json_array();
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(j, json_console(&list->items[i]));
	return json_print(j);
}

static void add_row(struct table *t, const struct ringside_console_info *c)
{
	char name[256], pid[16], size[32], offsets[64], idle[SHOW_TIME_BYTES], exit_text[SHOW_TIME_BYTES], clients[16],
	        argv[256];
	bool running = c->state == RINGSIDE_CONSOLE_RUNNING;
	snprintf(name, sizeof(name), "%s/%s", c->sandbox, c->name);
	snprintf(pid, sizeof(pid), "%u", c->pid);
	snprintf(size, sizeof(size), "%ux%u", c->cols, c->rows);
	snprintf(offsets, sizeof(offsets), "%llu..%llu", (unsigned long long)c->head_offset,
	        (unsigned long long)c->tail_offset);
	snprintf(clients, sizeof(clients), "%u", c->clients);
	show_argv(argv, sizeof(argv), c->argv);
	const char *fields[] = { name, ringside_console_state_name(c->state), running ? pid : "-", size, offsets,
		running ? show_duration(idle, c->idle_ms) : "-", clients, show_exit(exit_text, &c->exit), argv };
	table_row(t, fields);
}

static int ps_table(const struct ringside_consoles *list)
{
	static const char *const headings[] = { "CONSOLE", "STATE", "PID", "SIZE", "OFFSETS", "IDLE", "CLIENTS", "EXIT",
		"COMMAND", NULL };
	struct table *t = table_new(headings);
	for (size_t i = 0; i < list->count; i++)
		add_row(t, &list->items[i]);
	return table_print(t);
}

static int run_ps(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	struct target target = { .sandbox = "" };
	struct ringside *rs;
	struct ringside_consoles *list;
	struct ringside_error err;
	if (!take_words(inv, 0, 1, &status))
		return status;
	if (inv->words.nplain && !take_sandbox(inv, inv->words.plain[0], &target, &status))
		return status;
	if (!take_daemon(inv, &rs, &status))
		return status;
	if (ringside_ps(rs, *target.sandbox ? target.sandbox : NULL, &list, &err)) {
		status = report_error(inv, &err);
	} else {
		status = inv->json ? ps_json(list) : ps_table(list);
		ringside_free(list);
	}
	ringside_close(rs);
	return status;
}

const struct command command_ps = {
	.name = "ps",
	.arguments = "[BOX]",
	.summary = "list consoles, those that have ended too",
	.json = "one JSON array, errors as an object",
	.run = run_ps,
};
