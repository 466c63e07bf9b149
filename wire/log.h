/*
 * log.h - structured log lines on a descriptor: one line per event, key=value, values escaped.
 *
 *   2026-01-02T03:04:05.678Z level=error component=consoled sandbox=box console=dev msg="cannot start zsh: not found"
 *
 * One write(2) a line, so lines of several threads and processes do not mix. Never fails, never waits on a lock held
 * across a system call of ours; a full disk loses log lines and nothing else. What a hostile peer makes a daemon say has a
 * bound, or it would fill the disk: so many lines at once, so many a second for ever; how many were left out is told.
 */
#ifndef WIRE_LOG_H
#define WIRE_LOG_H

#define LOG_LINES_AT_ONCE    5000
#define LOG_LINES_PER_SECOND 20

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* component: a literal, "ringsided" or "consoled". fd stays the caller's. Until called: standard error, warnings up. */
void log_setup(const char *component, int fd, enum log_level most);

/* sandbox and console may be NULL. */
void log_line(enum log_level level, const char *sandbox, const char *console, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

#define log_error(sandbox, console, ...) log_line(LOG_LEVEL_ERROR, sandbox, console, __VA_ARGS__)
#define log_warn(sandbox, console, ...)  log_line(LOG_LEVEL_WARN, sandbox, console, __VA_ARGS__)
#define log_info(sandbox, console, ...)  log_line(LOG_LEVEL_INFO, sandbox, console, __VA_ARGS__)
#define log_debug(sandbox, console, ...) log_line(LOG_LEVEL_DEBUG, sandbox, console, __VA_ARGS__)

#endif
