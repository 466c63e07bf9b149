/* failure.c - from {step, errno} of a start to a code and a line. */
#include "consoles/failure.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/text.h"

#define SHOWN_PATH 256 /* bytes of an escaped path in a message */

int failure_set(struct failure *f, enum result code, const char *fmt, ...)
{
	va_list ap;

	f->code = code;
	f->of_exec = false;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
	return -1;
}

static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN || error == ENOSPC;
}

/* EACCES says three things: the file has no execute bit, it is no file, or a folder on the way is closed. */
static enum result code_of_denied(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return RESULT_PERMISSION_DENIED;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)))
		return RESULT_NOT_EXECUTABLE;
	return RESULT_PERMISSION_DENIED; /* another user's file, or a mount without exec */
}

static enum result code_of_exec(int error, const char *path)
{
	if (is_shortage(error))
		return RESULT_RESOURCE_LIMIT;
	switch (error) {
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG:
	case ELOOP:
		return RESULT_NOT_FOUND;
	case EACCES:
		return code_of_denied(path);
	case EPERM:
		return RESULT_PERMISSION_DENIED;
	case E2BIG:
		return RESULT_TOO_LARGE;
	default: /* ENOEXEC, EISDIR, ETXTBSY, EINVAL of a broken ELF file, ELIBBAD, … */
		return RESULT_NOT_EXECUTABLE;
	}
}

static const char *reason_of_exec(int error, const char *path)
{
	/* execve gives ENOENT for a script's missing interpreter too; "no such file" about a file that is there is a
	 * riddle. */
	if (error == ENOENT && access(path, F_OK) == 0)
		return "its interpreter does not exist";
	if (error == ENOEXEC)
		return "not a program for this system, and no script with a #! line";
	return strerror(error);
}

void failure_of_start(
        struct failure *f, enum keeper_step step, int error, const char *program, const char *path, const char *cwd)
{
	char shown[SHOWN_PATH], file[PATH_MAX];

	if (step == STEP_EXEC) {
		/* The exec was tried in the program's folder, this process stands in another. */
		snprintf(file, sizeof(file), "%s%s%s", path[0] == '/' ? "" : cwd, path[0] == '/' ? "" : "/", path);
		text_escape(shown, sizeof(shown), program, strlen(program));
		failure_set(f, code_of_exec(error, file), "cannot start %s: %s", shown,
		        path[0] ? reason_of_exec(error, file) : "no such program in its PATH");
	} else if (step == STEP_CWD) {
		text_escape(shown, sizeof(shown), cwd, strlen(cwd));
		failure_set(f, is_shortage(error) ? RESULT_RESOURCE_LIMIT : RESULT_BAD_CWD, "cannot enter %s: %s",
		        shown, strerror(error));
	} else {
		text_escape(shown, sizeof(shown), program, strlen(program));
		failure_set(f, is_shortage(error) ? RESULT_RESOURCE_LIMIT : RESULT_INTERNAL, "cannot start %s: %s: %s",
		        shown, step == STEP_FORK ? "no new process" : "cannot prepare its process", strerror(error));
	}
	f->of_exec = true;
}

uint32_t failure_exit_code(const struct failure *f)
{
	return f->code == RESULT_NOT_FOUND ? 127 : 126;
}
