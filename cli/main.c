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

static int run_command(const struct command *c, int argc, char **argv, bool json)
{
	struct invocation inv = { .command = c, .json = json };
	char why[OPTION_WHY_BYTES];
	void *options = calloc(1, c->options_size + 1);
	if (!options)
		return report_code(&inv, RINGSIDE_RESOURCE_LIMIT, "out of memory");
	bool good = options_parse(c->options, argc, argv, options, &inv.words, why);
	inv.json = json || inv.words.json;
	int status;
	if (!good) {
		status = report_usage(&inv, "%s", why);
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
			return report_usage(&inv, "no such option before the command; try ringside help");
		}
	}
	if (i == argc)
		return report_usage(&inv, "a command is missing; try ringside help");
	const struct command *c = command_find(argv[i]);
	if (!c)
		return report_usage(&inv, "no such command; try ringside help");
	return run_command(c, argc - i, argv + i, inv.json);
}
