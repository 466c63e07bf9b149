/* common.c - see command.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "wire/name.h"
#include "wire/text.h"

bool take_words(const struct invocation *inv, int least, int most, int *status)
{
	const struct words *w = &inv->words;
	if (w->nplain >= least && w->nplain <= most)
		return true;
	const char *problem = w->nplain < least ? "something is missing" : "too many words";
	*status = report_usage(inv, "%s: ringside %s %s", problem, inv->command->name, inv->command->arguments);
	return false;
}

bool take_console(const struct invocation *inv, const char *word, struct target *out, int *status)
{
	char why[TARGET_WHY_BYTES];
	if (target_console(word, out, why))
		return true;
	*status = report_usage(inv, "%s", why);
	return false;
}

bool take_sandbox(const struct invocation *inv, const char *word, struct target *out, int *status)
{
	char why[TARGET_WHY_BYTES];
	if (target_sandbox(word, out, why))
		return true;
	*status = report_usage(inv, "%s", why);
	return false;
}

bool take_daemon(const struct invocation *inv, struct ringside **out, int *status)
{
	struct ringside_options o = { .client = "ringside" };
	struct ringside_error err;
	if (ringside_open(&o, out, &err) == 0)
		return true;
	*status = report_error(inv, &err);
	return false;
}

static bool split_env(const char *word, struct ringside_env *out)
{
	const char *equals = strchr(word, '=');
	char *name = strndup(word, equals ? (size_t)(equals - word) : strlen(word));
	if (!name)
		return false;
	const char *value = equals ? equals + 1 : getenv(name);
	*out = (struct ringside_env){ .name = name, .value = value };
	return value && env_name_valid(name);
}

bool take_env(const struct invocation *inv, const struct strings *list, struct ringside_env **out, int *status)
{
	struct ringside_env *env = calloc(list->count + 1, sizeof(*env));
	if (!env) {
		*status = report_code(inv, RINGSIDE_RESOURCE_LIMIT, "out of memory");
		return false;
	}
	for (size_t i = 0; i < list->count; i++) {
		if (split_env(list->items[i], &env[i]))
			continue;
		char shown[96];
		text_escape(shown, sizeof(shown), list->items[i], strlen(list->items[i]));
		*status = report_usage(
		        inv, "--env takes NAME=VALUE, or the NAME of a variable that is set here: not %s", shown);
		env_free(env, list->count);
		return false;
	}
	*out = env;
	return true;
}

void env_free(struct ringside_env *env, size_t n)
{
	for (size_t i = 0; env && i < n; i++)
		free((char *)(uintptr_t)env[i].name);
	free(env);
}
