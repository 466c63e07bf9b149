/* help.c - usage texts, made from the tables, and the help command. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/show.h"

static void print_option(const struct option_spec *o)
{
	char left[64], letter[8] = "    ";
	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
	printf("  %-28s %s\n", left, o->help);
}

void help_command(const struct command *c)
{
	printf("usage: ringside %s%s%s\n\n%s\n\n", c->name, *c->arguments ? " " : "", c->arguments, c->summary);
	for (const struct option_spec *o = c->options; o && o->name; o++)
		print_option(o);
	printf("  %-28s %s\n", "    --json", c->json ? c->json : "one JSON object, errors as well");
	if (c->notes)
		printf("\n%s\n", c->notes);
}

void help_all(void)
{
	size_t count;
	const struct command *const *list = command_table(&count);
	printf("usage: ringside COMMAND …\n\n"
	       "Named terminals that outlive their readers. BOX is a sandbox's name or id, BOX/NAME a console in it; "
	       "without BOX\n"
	       "the sandbox \"default\" is meant, which is made when it is first needed.\n\n");
	for (size_t i = 0; i < count; i++)
		printf("  %-8s %s\n", list[i]->name, list[i]->summary);
	printf("\nringside help COMMAND says more. Options of all: --json, --help; --version.\n"
	       "Status: 0 done, 1 failed, 2 bad usage, 3 no such sandbox or console, 4 an --until that was not met, 5 "
	       "refused;\n"
	       "of attach, exec, script and shell the program's own, 128+n when a signal ended it.\n");
}

static int run_help(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	if (!take_words(inv, 0, 1, &status))
		return status;
	if (inv->words.nplain == 0) {
		help_all();
		return finish_output();
	}
	const struct command *c = command_find(inv->words.plain[0]);
	if (!c) {
		char shown[96];
		const char *word = inv->words.plain[0];
		return report_usage(inv, "no such command: %s; ringside help lists them",
		        ringside_escape(shown, sizeof(shown), word, strlen(word)));
	}
	help_command(c);
	return finish_output();
}

const struct command command_help = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "say what there is, or more of one command",
	.json = "errors as one JSON object",
	.run = run_help,
};
