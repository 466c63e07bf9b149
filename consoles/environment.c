/* environment.c - builds "NAME=value" lists in one allocation: the pointers first, their strings behind them. */
#include "consoles/environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/name.h"
#include "wire/text.h"

#define BASE_COUNT 6

struct variable {
	const char *name;
	const void *value;
	size_t length;
};

const char *environment_shell(const struct options *o)
{
	if (o->shell[0])
		return o->shell;
	return access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

static struct variable text_variable(const char *name, const char *value)
{
	return (struct variable){ .name = name, .value = value, .length = strlen(value) };
}

static void base_variables(const struct options *o, struct variable out[BASE_COUNT])
{
	out[0] = text_variable("TERM", "xterm-256color");
	out[1] = text_variable("LANG", "C.UTF-8");
	out[2] = text_variable("HOME", o->home);
	out[3] = text_variable("PATH", o->path);
	out[4] = text_variable("USER", o->user);
	out[5] = text_variable("SHELL", environment_shell(o));
}

static int check(const Wire__EnvVar *v, struct failure *why)
{
	char shown[128];

	text_escape(shown, sizeof(shown), v->name, strlen(v->name));
	if (!env_name_valid(v->name))
		return failure_set(
		        why, RESULT_INVALID_ARGUMENT, "'%s' is not a name for an environment variable", shown);
	if (v->value.len > 0 && memchr(v->value.data, '\0', v->value.len))
		return failure_set(why, RESULT_INVALID_ARGUMENT, "the value of %s has a NUL byte", shown);
	return 0;
}

/* Puts v into the list, over an earlier one of its name. Quadratic, hence ENVIRONMENT_MAX. */
static void put(struct variable *list, size_t *count, struct variable v)
{
	size_t i = 0;

	while (i < *count && strcmp(list[i].name, v.name) != 0)
		i++;
	list[i] = v;
	if (i == *count)
		(*count)++;
}

static char **write_out(const struct variable *list, size_t count)
{
	size_t bytes = (count + 1) * sizeof(char *);
	char **env;
	char *at;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(list[i].name) + 1 + list[i].length + 1;
	env = malloc(bytes);
	if (!env)
		return NULL;
	at = (char *)(env + count + 1);
	for (size_t i = 0; i < count; i++) {
		env[i] = at;
		at = stpcpy(at, list[i].name);
		*at++ = '=';
		if (list[i].length > 0)
			memcpy(at, list[i].value, list[i].length);
		at += list[i].length;
		*at++ = '\0';
	}
	env[count] = NULL;
	return env;
}

int environment_build(const struct options *o, Wire__EnvVar *const *add, size_t n_add, char ***out, struct failure *why)
{
	struct variable *list = NULL;
	size_t count = BASE_COUNT;
	char **env = NULL;

	if (n_add > ENVIRONMENT_MAX)
		return failure_set(why, RESULT_TOO_LARGE, "over %d environment variables", ENVIRONMENT_MAX);
	for (size_t i = 0; i < n_add; i++)
		if (check(add[i], why) < 0)
			return -1;
	list = reallocarray(NULL, BASE_COUNT + n_add, sizeof(*list));
	if (list) {
		base_variables(o, list);
		for (size_t i = 0; i < n_add; i++)
			put(list, &count,
			        (struct variable){ .name = add[i]->name,
			                .value = add[i]->value.data,
			                .length = add[i]->value.len });
		env = write_out(list, count);
	}
	free(list);
	if (!env)
		return failure_set(why, RESULT_RESOURCE_LIMIT, "out of memory");
	*out = env;
	return 0;
}

const char *environment_get(const char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}
