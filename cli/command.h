/*
 * command.h - one row of the command table, and what a command is given. A command is a file (or a small family of
 * them) that ends in its const entry; commands.c lists them all.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/options.h"
#include "cli/target.h"
#include "client/ringside.h"

/* Exit statuses beside those that codes bring along. */
enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_MET = 4, /* an --until that was not met in time */
};

struct invocation {
	const struct command *command;
	struct words words;
	bool json;
};

struct command {
	const char *name;
	const char *arguments; /* as in the usage line */
	const char *summary;   /* one line */
	const char *notes;     /* shown below the options; may be NULL */
	const char *json;      /* what --json gives; NULL: an object */
	const struct option_spec *options;
	size_t options_size; /* of the struct that the options fill in */
	int (*run)(struct invocation *inv, const void *options);
};

/* ---- commands.c ---- */
const struct command *command_find(const char *name);
const struct command *const *command_table(size_t *count); /* sorted by name */

/* ---- report.c: what went wrong, on standard error. Each answers the exit status. ---- */
int report_error(const struct invocation *inv, const struct ringside_error *err);
int report_usage(const struct invocation *inv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int report_code(const struct invocation *inv, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- help.c ---- */
void help_command(const struct command *c);
void help_all(void);

/* ---- common.c: what most commands begin with; false: *status is the exit status, and it was told. ---- */
bool take_words(const struct invocation *inv, int least, int most, int *status);
bool take_console(const struct invocation *inv, const char *word, struct target *out, int *status);
bool take_sandbox(const struct invocation *inv, const char *word, struct target *out, int *status);
/* Connects, starting the daemon where nobody serves. */
bool take_daemon(const struct invocation *inv, struct ringside **out, int *status);
/* NAME=VALUE, or NAME as this program's environment has it, into an array that is the caller's to free. */
bool take_env(const struct invocation *inv, const struct strings *list, struct ringside_env **out, int *status);
void env_free(struct ringside_env *env, size_t n);

#endif
