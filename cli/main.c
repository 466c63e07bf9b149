/*
 * main.c - ringside: finds the command, reads its options, runs it. What a command does is in its own file.
 *
 * Nothing is made here that a command does not need: `ringside help` opens no socket, and no command starts a thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/show.h"

/* Errors that come before there is a command are told as those of this one. */
static const struct command nothing = { .name = "", .arguments = "COMMAND …" };

/* Is --json among the command's own words? For an error before the options are known: getopt stops at the first bad
 * one, and whoever parses errors is to get an object even then. */
static bool asks_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

static int run_command(const struct command *c, int argc, char **argv, bool json)
{
	struct invocation inv = { .command = c, .json = json };
	bool json_errors = json || asks_json(argc, argv); /* the parser permutes argv */
	char why[OPTION_WHY_BYTES];
	void *options = calloc(1, c->options_size + 1);
	if (!options)
		return report_code(&inv, RINGSIDE_RESOURCE_LIMIT, "out of memory");
	bool good = options_parse(c->options, argc, argv, options, &inv.words, why);
	inv.json = json || inv.words.json;
	int status;
	if (!good) {
		inv.json = json_errors;
		status = report_usage(&inv, "%s; try ringside help %s", why, c->name);
	} else if (inv.words.help) {
		help_command(c);
		status = finish_output();
	} else {
		status = c->run(&inv, options);
	}
	options_release(c->options, options);
	free(options);
	return status;
}

int main(int argc, char **argv)
{
	struct invocation inv = { .command = &nothing };
	char shown[96];
	int i = 1;
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			inv.json = true;
		} else if (strcmp(argv[i], "--version") == 0) {
			printf("ringside %s\n", ringside_version());
			return finish_output();
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			help_all();
			return finish_output();
		} else {
			inv.json = asks_json(argc, argv);
			return report_usage(&inv, "no such option before the command: %s; try ringside help",
			        ringside_escape(shown, sizeof(shown), argv[i], strlen(argv[i])));
		}
	}
	if (i == argc)
		return report_usage(&inv, "a command is missing; try ringside help");
	const struct command *c = command_find(argv[i]);
	if (!c) {
		inv.json = inv.json || asks_json(argc - i, argv + i);
		return report_usage(&inv, "no such command: %s; ringside help lists them",
		        ringside_escape(shown, sizeof(shown), argv[i], strlen(argv[i])));
	}
	return run_command(c, argc - i, argv + i, inv.json);
}
