/*
 * log.c - structured log lines. A line is built on the stack and written by one write(2); nothing is shared but what
 * log_setup() stored before the first thread was started. No <time.h> conversion: gmtime_r(3) takes a lock and reads
 * files.
 */
#include "wire/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wire/clock.h"
#include "wire/name.h"
#include "wire/text.h"

#define LINE_BYTES    4096 /* PIPE_BUF: one write of so much is whole on a pipe too */
#define MESSAGE_BYTES 3072 /* quoted; longer ones are cut, and show it */
#define LABEL_BYTES   256  /* a sandbox's or console's name, quoted where it is not a plain one */

static const char *component_name = "ringside";
static int log_fd = STDERR_FILENO;
static enum log_level log_most = LOG_LEVEL_WARN;

static const char *const level_names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

void log_setup(const char *component, int fd, enum log_level most)
{
	component_name = component;
	log_fd = fd;
	log_most = most;
}

struct date {
	unsigned year, month, day;
};

/* Days since 1970-01-01 as a date. Source: H. Hinnant, "chrono-compatible low-level date algorithms". */
static struct date date_of(uint64_t days)
{
	uint64_t z = days + 719468; /* days since 0000-03-01: the leap day is a year's last */
	uint64_t era = z / 146097;  /* 400 years each */
	uint64_t doe = z % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	uint64_t mp = (5 * doy + 2) / 153; /* months since March */
	uint64_t month = mp < 10 ? mp + 3 : mp - 9;

	return (struct date){
		.year = (unsigned)(yoe + era * 400 + (month <= 2)),
		.month = (unsigned)month,
		.day = (unsigned)(doy - (153 * mp + 2) / 5 + 1),
	};
}

static int write_head(char *line, size_t size, enum log_level level)
{
	uint64_t ms = clock_wall_ms();
	uint64_t s = ms / 1000;
	struct date d = date_of(s / 86400);

	return snprintf(line, size, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ level=%s component=%s", d.year, d.month, d.day,
	        (unsigned)(s / 3600 % 24), (unsigned)(s / 60 % 60), (unsigned)(s % 60), (unsigned)(ms % 1000),
	        level_names[level], component_name);
}

/* Appends key=value. Every piece has a bound, and their sum is below LINE_BYTES. */
static size_t append_label(char *line, size_t at, const char *key, const char *value)
{
	char quoted[LABEL_BYTES];
	int n;

	if (value == NULL)
		return at;
	if (!name_valid(value))
		value = text_quote(quoted, sizeof(quoted), value, strlen(value));
	n = snprintf(line + at, LINE_BYTES - at, " %s=%s", key, value);
	return n > 0 ? at + (size_t)n : at;
}

void log_line(enum log_level level, const char *sandbox, const char *console, const char *fmt, ...)
{
	char line[LINE_BYTES];
	char message[LINE_BYTES]; /* longer than what of it will be shown, so that a cut one shows its dots */
	char quoted[MESSAGE_BYTES];
	int saved = errno;
	va_list args;
	size_t at;
	int n;

	if (level > log_most)
		return;
	va_start(args, fmt);
	n = vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (n < 0)
		(void)snprintf(message, sizeof(message), "(a message that could not be formatted)");

	n = write_head(line, 256, level);
	at = n > 0 && n < 256 ? (size_t)n : 0;
	at = append_label(line, at, "sandbox", sandbox);
	at = append_label(line, at, "console", console);
	n = snprintf(line + at, sizeof(line) - at, " msg=%s\n",
	        text_quote(quoted, sizeof(quoted), message, strlen(message)));
	at += n > 0 ? (size_t)n : 0;

	while (write(log_fd, line, at) < 0 && errno == EINTR)
		;
	errno = saved;
}
