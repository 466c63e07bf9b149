/* report.c - one line on standard error for what went wrong: for people, or with --json as an object. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/show.h"

static int report(const struct invocation *inv, const char *name, const char *message, int status)
{
	if (!inv->json) {
		fprintf(stderr, "ringside: %s: %s\n", name, message);
		return status;
	}
	json_t *error = json_object();
	json_object_set_new(error, "code", json_string(name));
	json_object_set_new(error, "message", json_text(message));
	json_t *outer = json_object();
	json_object_set_new(outer, "error", error);
	json_dumpf(outer, stderr, JSON_COMPACT | JSON_ENSURE_ASCII);
	fputc('\n', stderr);
	json_decref(outer);
	return status;
}

int report_error(const struct invocation *inv, const struct ringside_error *err)
{
	return report(inv, err->name, err->message, err->exit_status);
}

int report_usage(const struct invocation *inv, const char *fmt, ...)
{
	char message[RINGSIDE_MESSAGE_BYTES];
	va_list args;
	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	return report(inv, ringside_code_name(RINGSIDE_INVALID_ARGUMENT), message, EXIT_USAGE);
}

int report_code(const struct invocation *inv, int code, const char *fmt, ...)
{
	char message[RINGSIDE_MESSAGE_BYTES];
	va_list args;
	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	return report(inv, ringside_code_name(code), message, ringside_code_exit_status(code));
}
