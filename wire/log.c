/*
 * log.c - structured log lines. A line is built on the stack and written by one write(2); nothing is shared but what
 * log_setup() stored before the first thread was started, and two atomic words that bound how much is written. No
 * <time.h> conversion: gmtime_r(3) takes a lock and reads files.
 */
#include "wire/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
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
#define LINE_COST_MS  (1000 / LOG_LINES_PER_SECOND)

static const char *component_name = "ringside";
static int log_fd = STDERR_FILENO;
static enum log_level log_most = LOG_LEVEL_WARN;
static _Atomic uint64_t paid_until; /* the monotonic time that the lines written so far have used up */
static _Atomic uint64_t left_out;   /* lines since the last one that was written */

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
	atomic_store(&paid_until, 0);
	atomic_store(&left_out, 0);
}

/* A leaky bucket (GCRA) in one word, so that threads need no lock. */
static bool may_write(void)
{
	uint64_t now = clock_mono_ms();
	uint64_t paid = atomic_load(&paid_until), next;

	do {
		next = (paid > now ? paid : now) + LINE_COST_MS;
		if (next - now > (uint64_t)LOG_LINES_AT_ONCE * LINE_COST_MS)
			return false;
	} while (!atomic_compare_exchange_weak(&paid_until, &paid, next));
	return true;
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

static void put_line(enum log_level level, const char *sandbox, const char *console, const char *message)
{
	char line[LINE_BYTES];
	char quoted[MESSAGE_BYTES];

	int n = write_head(line, 256, level);
	size_t at = n > 0 && n < 256 ? (size_t)n : 0;
	at = append_label(line, at, "sandbox", sandbox);
	at = append_label(line, at, "console", console);
	n = snprintf(line + at, sizeof(line) - at, " msg=%s\n",
	        text_quote(quoted, sizeof(quoted), message, strlen(message)));
	at += n > 0 ? (size_t)n : 0;

	while (write(log_fd, line, at) < 0 && errno == EINTR)
		;
}

static void put_left_out(void)
{
	uint64_t n = atomic_exchange(&left_out, 0);
	char message[64];

	if (n == 0)
		return;
	(void)snprintf(message, sizeof(message), "%llu lines were left out: too many at once", (unsigned long long)n);
	put_line(LOG_LEVEL_WARN, NULL, NULL, message);
}

void log_line(enum log_level level, const char *sandbox, const char *console, const char *fmt, ...)
{
	char message[LINE_BYTES]; /* longer than what of it will be shown, so that a cut one shows its dots */
	int saved = errno;
	va_list args;

	if (level > log_most)
		return;
	if (!may_write()) {
		atomic_fetch_add(&left_out, 1);
		errno = saved;
		return;
	}
	va_start(args, fmt);
	int n = vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (n < 0)
		(void)snprintf(message, sizeof(message), "(a message that could not be formatted)");
	put_left_out();
	put_line(level, sandbox, console, message);
	errno = saved;
}
