/*
 * error.c - how libringside describes what went wrong, and the names of codes and states.
 *
 * The public enums repeat numbers of wire/codes.def, which is not installed; the assertions below keep the two one
 * list.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/internal.h"
#include "wire/codes.h"
#include "wire/text.h"

#define RESULT(name, number, text, status, meaning) \
	static_assert(RINGSIDE_##name == (number), "ringside.h: enum ringside_code lacks " #name);
#define CONSOLE_STATE(name, number, text, meaning) \
	static_assert(RINGSIDE_CONSOLE_##name == (number), "ringside.h: enum ringside_console_state lacks " #name);
#define SANDBOX_STATE(name, number, text, meaning) \
	static_assert(RINGSIDE_SANDBOX_##name == (number), "ringside.h: enum ringside_sandbox_state lacks " #name);
#define MARK_KIND(name, number, text, meaning) \
	static_assert(RINGSIDE_MARK_##name == (number), "ringside.h: enum ringside_mark_kind lacks " #name);
#include "wire/codes.def"

__attribute__((format(printf, 3, 0))) static int error_set_v(
        struct ringside_error *err, int code, const char *fmt, va_list args)
{
	if (!err)
		return code;
	err->code = code;
	err->name = result_name((unsigned)code);
	err->exit_status = result_exit_status((unsigned)code);
	vsnprintf(err->message, sizeof(err->message), fmt, args);
	return code;
}

int error_set(struct ringside_error *err, int code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	error_set_v(err, code, fmt, args);
	va_end(args);
	return code;
}

int error_errno(struct ringside_error *err, int negative_errno, const char *what)
{
	int e = -negative_errno;
	enum result code = result_from_errno(e);
	return error_set(err, code == RESULT_OK ? RINGSIDE_INTERNAL : (int)code, "%s: %s", what,
	        strerrordesc_np(e) ? strerrordesc_np(e) : "unknown error");
}

int error_memory(struct ringside_error *err)
{
	return error_set(err, RINGSIDE_RESOURCE_LIMIT, "out of memory");
}

int error_wire(struct ringside_error *err, const Wire__Error *m)
{
	if (!m || m->code == RINGSIDE_OK)
		return error_set(err, RINGSIDE_PROTOCOL_ERROR, "the daemon sent an error without a code");
	/* A newer daemon's code is told as such, but never as 0. */
	int code = m->code <= INT32_MAX ? (int)m->code : RINGSIDE_INTERNAL;
	if (!err)
		return code;
	char text[RINGSIDE_MESSAGE_BYTES];
	const char *message = m->message && *m->message ? m->message : result_meaning(m->code);
	text_escape(text, sizeof(text), message, strlen(message));
	return error_set(err, code, "%s", text);
}

const char *ringside_code_name(int code)
{
	return result_name((unsigned)code);
}

const char *ringside_code_meaning(int code)
{
	return result_meaning((unsigned)code);
}

int ringside_code_exit_status(int code)
{
	return result_exit_status((unsigned)code);
}

const char *ringside_console_state_name(int state)
{
	return console_state_name((unsigned)state);
}

const char *ringside_sandbox_state_name(int state)
{
	return sandbox_state_name((unsigned)state);
}

const char *ringside_mark_kind_name(int kind)
{
	return mark_kind_name((unsigned)kind);
}

const char *ringside_reason_name(int reason)
{
	static const char *const names[] = {
		[RINGSIDE_REASON_OUTPUT] = "output",
		[RINGSIDE_REASON_MATCH] = "match",
		[RINGSIDE_REASON_IDLE] = "idle",
		[RINGSIDE_REASON_EXIT] = "exit",
		[RINGSIDE_REASON_TIMEOUT] = "timeout",
	};
	bool known = reason > 0 && reason < (int)(sizeof(names) / sizeof(names[0]));
	return known ? names[reason] : "unknown";
}

const char *ringside_signal_name(int sig)
{
	return text_signal_name(sig);
}

int ringside_signal_number(const char *s)
{
	return text_parse_signal(s);
}

int ringside_exit_status(const struct ringside_exit *e)
{
	if (!e->known)
		return 1;
	return e->signal ? (int)(128 + (e->signal & 0x7f)) : (int)(e->code & 0xff);
}

char *ringside_escape(char *dst, size_t size, const void *bytes, size_t n)
{
	return text_escape(dst, size, bytes, n);
}

const char *ringside_version(void)
{
	return RINGSIDE_VERSION;
}
