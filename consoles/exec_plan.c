/*
 * exec_plan.c - checks of an exec request, its working directory and its program's path; see exec_plan.h.
 */
#include "consoles/exec_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/name.h"
#include "wire/text.h"

/* How every workspace is called in requests, wherever it is. */
#define WORKSPACE "/workspace"

/* Bytes of a name or path that a message repeats. */
#define SHOWN_MAX 200

__attribute__((format(printf, 3, 4))) static void refuse(struct exec_refusal *r, enum result code, const char *fmt, ...)
{
	va_list args;

	r->code = code;
	r->exit_code = 0;
	va_start(args, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, args);
	va_end(args);
}

/* The line that a shell would print, and its exit code. */
static void exit_with(struct exec_refusal *r, uint32_t exit_code, const char *what, const char *why)
{
	char shown[SHOWN_MAX];

	r->code = RESULT_OK;
	r->exit_code = exit_code;
	snprintf(r->text, sizeof(r->text), "ringside: %s: %s\n", text_escape(shown, sizeof(shown), what, strlen(what)),
	        why);
}

/* ---- Copies ---- */

static char *join(const char *a, size_t a_len, const char *between, const void *b, size_t b_len)
{
	size_t mid = strlen(between);
	char *s = malloc(a_len + mid + b_len + 1);

	if (!s)
		return NULL;
	memcpy(s, a, a_len);
	memcpy(s + a_len, between, mid);
	if (b_len > 0)
		memcpy(s + a_len + mid, b, b_len);
	s[a_len + mid + b_len] = '\0';
	return s;
}

static char *copy_bytes(const ProtobufCBinaryData *b)
{
	return join("", 0, "", b->data, b->len);
}

static bool has_nul(const ProtobufCBinaryData *b)
{
	return b->len > 0 && memchr(b->data, '\0', b->len) != NULL;
}

static int copy_argv(const Wire__ExecSpec *spec, struct exec_plan *p)
{
	p->argv = calloc(spec->n_argv + 1, sizeof(*p->argv));
	if (!p->argv)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_argv; i++) {
		p->argv[i] = copy_bytes(&spec->argv[i]);
		if (!p->argv[i])
			return -ENOMEM;
	}
	return 0;
}

static int copy_env(const Wire__ExecSpec *spec, struct exec_plan *p)
{
	p->envp = calloc(spec->n_env + 1, sizeof(*p->envp));
	if (!p->envp)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_env; i++) {
		const Wire__EnvVar *v = spec->env[i];
		p->envp[i] = join(v->name, strlen(v->name), "=", v->value.data, v->value.len);
		if (!p->envp[i])
			return -ENOMEM;
	}
	return 0;
}

/* ---- Checks ---- */

static bool check_argv(const Wire__ExecSpec *spec, struct exec_refusal *r)
{
	if (spec->n_argv == 0 || spec->argv[0].len == 0) {
		refuse(r, RESULT_INVALID_ARGUMENT, "a command is needed");
		return false;
	}
	for (size_t i = 0; i < spec->n_argv; i++) {
		if (has_nul(&spec->argv[i])) {
			refuse(r, RESULT_INVALID_ARGUMENT, "argument %zu has a NUL byte", i);
			return false;
		}
	}
	return true;
}

static bool check_env(const Wire__ExecSpec *spec, struct exec_refusal *r)
{
	char shown[SHOWN_MAX];

	for (size_t i = 0; i < spec->n_env; i++) {
		const Wire__EnvVar *v = spec->env[i];
		text_escape(shown, sizeof(shown), v->name, strlen(v->name));
		if (!env_name_valid(v->name)) {
			refuse(r, RESULT_INVALID_ARGUMENT, "\"%s\" cannot name an environment variable", shown);
			return false;
		}
		if (has_nul(&v->value)) {
			refuse(r, RESULT_INVALID_ARGUMENT, "the value of %s has a NUL byte", shown);
			return false;
		}
	}
	return true;
}

/* ---- Where it runs ---- */

static char *resolve_cwd(const char *cwd, const char *workspace)
{
	const size_t prefix = strlen(WORKSPACE), root = strlen(workspace);

	if (cwd[0] == '\0')
		return join(workspace, root, "", "", 0);
	if (cwd[0] != '/')
		return join(workspace, root, "/", cwd, strlen(cwd));
	if (strncmp(cwd, WORKSPACE, prefix) == 0 && (cwd[prefix] == '\0' || cwd[prefix] == '/'))
		return join(workspace, root, "", cwd + prefix, strlen(cwd + prefix));
	return join(cwd, strlen(cwd), "", "", 0);
}

/* ---- What it runs ---- */

/* 0: this file can be executed; -EACCES: it is there; -ENOENT. */
static int try_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == EACCES ? -EACCES : -ENOENT;
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		return -EACCES;
	return 0;
}

/* Looks in each absolute directory of the list; relative ones mean another place in each directory. As execvp(3), it
 * goes on over what cannot be executed and remembers that. 0 and *out, -ENOENT, -EACCES, -ENOMEM. */
static int search_path(const char *name, const char *list, char **out)
{
	int verdict = -ENOENT;

	for (const char *at = list; *at;) {
		size_t len = strcspn(at, ":");
		if (*at == '/') {
			char *path = join(at, len, "/", name, strlen(name));
			if (!path)
				return -ENOMEM;
			int r = try_program(path);
			if (r == 0) {
				*out = path;
				return 0;
			}
			free(path);
			if (r == -EACCES)
				verdict = r;
		}
		at += len;
		at += *at == ':';
	}
	return verdict;
}

static int find_program(struct exec_plan *p, const char *list)
{
	const char *name = p->argv[0];
	int r;

	/* With a slash it is a path, from the working directory on if relative: exec itself finds out. */
	if (strchr(name, '/')) {
		p->path = join(name, strlen(name), "", "", 0);
		return p->path ? 0 : -ENOMEM;
	}
	r = search_path(name, list, &p->path);
	if (r == -ENOENT)
		exit_with(&p->refusal, EXEC_EXIT_NOT_FOUND, name, "command not found");
	else if (r == -EACCES)
		exit_with(&p->refusal, EXEC_EXIT_CANNOT, name, strerror(EACCES));
	return r == -ENOMEM ? r : 0;
}

int exec_plan_make(const Wire__ExecSpec *spec, const struct exec_defaults *defaults, struct exec_plan *out)
{
	struct exec_plan p = { 0 };
	int r = 0;

	if (!check_argv(spec, &p.refusal) || !check_env(spec, &p.refusal))
		goto out;

	p.cwd = resolve_cwd(spec->cwd, defaults->workspace);
	r = p.cwd ? copy_argv(spec, &p) : -ENOMEM;
	if (r == 0)
		r = copy_env(spec, &p);
	if (r == 0)
		r = find_program(&p, defaults->path);
out:
	if (r < 0)
		exec_plan_release(&p);
	else
		*out = p;
	return r;
}

static void free_list(char **list)
{
	for (char **s = list; s && *s; s++)
		free(*s);
	free(list);
}

void exec_plan_release(struct exec_plan *p)
{
	free_list(p->argv);
	free_list(p->envp);
	free(p->cwd);
	free(p->path);
	*p = (struct exec_plan){ 0 };
}

/* ---- What a failed start comes to ---- */

static bool is_shortage(int error)
{
	return error == ENOMEM || error == EAGAIN || error == EMFILE || error == ENFILE || error == ENOSPC;
}

void exec_plan_failed(const struct exec_plan *p, enum keeper_step step, int error, struct exec_refusal *out)
{
	bool missing = error == ENOENT || error == ENOTDIR;

	if (error == E2BIG)
		refuse(out, RESULT_TOO_LARGE, "arguments and environment are more than the kernel takes");
	else if (is_shortage(error))
		refuse(out, RESULT_RESOURCE_LIMIT, "cannot start the command: %s", strerror(error));
	else if (step == STEP_CWD)
		exit_with(out, EXEC_EXIT_CANNOT, p->cwd, strerror(error));
	else if (step == STEP_EXEC)
		exit_with(out, missing ? EXEC_EXIT_NOT_FOUND : EXEC_EXIT_CANNOT, p->argv[0], strerror(error));
	else
		refuse(out, RESULT_INTERNAL, "cannot start the command: %s", strerror(error));
}
