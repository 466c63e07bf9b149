/* commands.c - the table of commands, sorted by name. A new command is a file and a line here. */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"

extern const struct command command_attach, command_close, command_create, command_doctor, command_down, command_exec,
        command_help, command_ls, command_ps, command_read, command_resize, command_rm, command_script, command_shell,
        command_show, command_signal, command_start, command_status, command_up, command_write;

static const struct command *const table[] = {
	&command_attach,
	&command_close,
	&command_create,
	&command_doctor,
	&command_down,
	&command_exec,
	&command_help,
	&command_ls,
	&command_ps,
	&command_read,
	&command_resize,
	&command_rm,
	&command_script,
	&command_shell,
	&command_show,
	&command_signal,
	&command_start,
	&command_status,
	&command_up,
	&command_write,
};

static int compare(const void *name, const void *entry)
{
	const struct command *const *c = entry;
	return strcmp(name, (*c)->name);
}

const struct command *command_find(const char *name)
{
	const struct command *const *found =
	        bsearch(name, table, sizeof(table) / sizeof(table[0]), sizeof(table[0]), compare);
	return found ? *found : NULL;
}

const struct command *const *command_table(size_t *count)
{
	*count = sizeof(table) / sizeof(table[0]);
	return table;
}
