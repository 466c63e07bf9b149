/* program.c - arguments, working directory and the search along PATH. */
#include "consoles/program.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "consoles/environment.h"

#define WORKSPACE "/workspace" /* how requests name the workspace, wherever it is */

static int out_of_memory(struct failure *why)
{
	return failure_set(why, RESULT_RESOURCE_LIMIT, "out of memory");
}

/* ---- Arguments ---- */

static int check_argv(const Wire__ConsoleSpec *spec, struct failure *why)
{
	for (size_t i = 0; i < spec->n_argv; i++)
		if (spec->argv[i].len > 0 && memchr(spec->argv[i].data, '\0', spec->argv[i].len))
			return failure_set(why, RESULT_INVALID_ARGUMENT, "argument %zu has a NUL byte", i);
	if (spec->n_argv > 0 && spec->argv[0].len == 0)
		return failure_set(why, RESULT_INVALID_ARGUMENT, "the program's name is empty");
	return 0;
}

/* One piece of memory: the pointers first, their strings behind them. */
static char **copy_argv(const ProtobufCBinaryData *args, size_t n)
{
	size_t bytes = (n + 1) * sizeof(char *);
	char **argv;
	char *at;

	for (size_t i = 0; i < n; i++)
		bytes += args[i].len + 1;
	argv = malloc(bytes);
	if (!argv)
		return NULL;
	at = (char *)(argv + n + 1);
	for (size_t i = 0; i < n; i++) {
		argv[i] = at;
		if (args[i].len > 0)
			memcpy(at, args[i].data, args[i].len);
		at[args[i].len] = '\0';
		at += args[i].len + 1;
	}
	argv[n] = NULL;
	return argv;
}

static int make_argv(const struct options *o, const Wire__ConsoleSpec *spec, struct program *p, struct failure *why)
{
	if (check_argv(spec, why) < 0)
		return -1;
	if (spec->n_argv > 0) {
		p->argv = copy_argv(spec->argv, spec->n_argv);
	} else {
		const char *shell = environment_shell(o);
		ProtobufCBinaryData one = { .len = strlen(shell), .data = (uint8_t *)(uintptr_t)shell }; /* only read */

		p->argv = copy_argv(&one, 1);
	}
	return p->argv ? 0 : out_of_memory(why);
}

/* ---- Folder ---- */

static int make_cwd(const struct options *o, const char *asked, struct program *p, struct failure *why)
{
	char joined[PATH_MAX];
	size_t n = strlen(WORKSPACE);
	int length;

	if (!asked[0])
		length = snprintf(joined, sizeof(joined), "%s", o->workspace);
	else if (strncmp(asked, WORKSPACE, n) == 0 && (asked[n] == '/' || asked[n] == '\0'))
		length = snprintf(joined, sizeof(joined), "%s%s", o->workspace, asked + n);
	else if (asked[0] == '/')
		length = snprintf(joined, sizeof(joined), "%s", asked);
	else
		length = snprintf(joined, sizeof(joined), "%s/%s", o->workspace, asked);
	if (length < 0 || (size_t)length >= sizeof(joined)) {
		failure_of_start(why, STEP_CWD, ENAMETOOLONG, p->argv[0], "", "the working directory");
		return -1;
	}
	p->cwd = strdup(joined);
	return p->cwd ? 0 : out_of_memory(why);
}

/* ---- File ---- */

/* 0: this file can be executed; else what speaks against it. */
static int try_file(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return access(path, X_OK) == 0 ? 0 : errno;
}

/* Joins a folder of PATH, which may be relative or empty (then the working directory is meant), and a name. */
static bool join(char out[PATH_MAX], const char *cwd, const char *folder, size_t n, const char *name)
{
	int length;

	if (n > 0 && folder[0] == '/')
		length = snprintf(out, PATH_MAX, "%.*s/%s", (int)n, folder, name);
	else if (n > 0)
		length = snprintf(out, PATH_MAX, "%s/%.*s/%s", cwd, (int)n, folder, name);
	else
		length = snprintf(out, PATH_MAX, "%s/%s", cwd, name);
	return length > 0 && length < PATH_MAX;
}

/* Searches as execvp(3) does: the first that can be executed; a file that cannot be is told only if nothing better
 * comes. */
static int search(const char *path_list, const char *cwd, const char *name, char found[PATH_MAX])
{
	char candidate[PATH_MAX];
	int denied = 0;

	for (const char *at = path_list;; at++) {
		size_t n = strcspn(at, ":");
		int err = n < PATH_MAX && join(candidate, cwd, at, n, name) ? try_file(candidate) : ENAMETOOLONG;

		if (err == 0 || (err == EACCES && !denied))
			memcpy(found, candidate, sizeof(candidate));
		if (err == 0)
			return 0;
		if (err == EACCES)
			denied = EACCES;
		at += n;
		if (*at == '\0')
			return denied ? denied : ENOENT;
	}
}

static int make_path(struct program *p, struct failure *why)
{
	const char *name = p->argv[0];
	char found[PATH_MAX] = "";
	const char *list;
	int err;

	if (strchr(name, '/')) { /* the kernel judges it, in the working directory */
		p->path = strdup(name);
		return p->path ? 0 : out_of_memory(why);
	}
	list = environment_get((const char *const *)p->envp, "PATH");
	err = search(list ? list : "", p->cwd, name, found);
	if (err != 0) {
		failure_of_start(why, STEP_EXEC, err, name, found, p->cwd);
		return -1;
	}
	p->path = strdup(found);
	return p->path ? 0 : out_of_memory(why);
}

int program_prepare(const struct options *o, const Wire__ConsoleSpec *spec, struct program *out, struct failure *why)
{
	struct program p = { 0 };

	if (make_argv(o, spec, &p, why) == 0 && environment_build(o, spec->env, spec->n_env, &p.envp, why) == 0 &&
	        make_cwd(o, spec->cwd, &p, why) == 0 && make_path(&p, why) == 0) {
		*out = p;
		return 0;
	}
	program_release(&p);
	return -1;
}

void program_release(struct program *p)
{
	free(p->path);
	free(p->argv);
	free(p->envp);
	free(p->cwd);
	*p = (struct program){ 0 };
}
