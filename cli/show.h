/*
 * show.h - how things are printed: JSON for programs, tables and lines for people. Everything that comes from a sandbox
 * is escaped on its way to a person; JSON is ASCII.
 */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "client/ringside.h"

/* ---- JSON ---- */
json_t *json_text(const char *s);         /* a string; what is not UTF-8 becomes U+FFFD */
json_t *json_text_or_null(const char *s); /* null for "" */
json_t *json_u64(uint64_t v);
json_t *json_time(uint64_t ms); /* "2026-01-02T03:04:05.678Z"; null for 0 */
json_t *json_base64(const void *bytes, size_t n);
json_t *json_exit(const struct ringside_exit *e); /* {"code":N}, {"signal":"SIGKILL"} or null */
json_t *json_processes(const struct ringside_process *list, size_t n);
json_t *json_console(const struct ringside_console_info *c);
json_t *json_sandbox(const struct ringside_sandbox *s, bool whole);
/* Prints it on a line of standard output and gives it back. The exit status: 1 when it could not be printed. */
int json_print(json_t *j);

/* ---- For people ---- */
#define SHOW_TIME_BYTES 32
const char *show_time(char out[SHOW_TIME_BYTES], uint64_t ms);                   /* as json_time(); "-" for 0 */
const char *show_duration(char out[SHOW_TIME_BYTES], uint64_t ms);               /* "1.5s", "3m02s", "5h10m" */
const char *show_exit(char out[SHOW_TIME_BYTES], const struct ringside_exit *e); /* "exit 1", "SIGKILL", "-" */
/* argv as one escaped line. */
void show_argv(char *out, size_t size, const char *const *argv);

/* Columns: aligned below a heading on a terminal; in a pipe fields with a tab between, no heading. */
#define TABLE_COLUMNS 10
struct table;
struct table *table_new(const char *const *headings); /* NULL-terminated, at most TABLE_COLUMNS; NULL: out of memory */
/* A row of as many fields as there are headings; copied, and escaped. */
void table_row(struct table *t, const char *const *fields);
/* Prints and frees it. The exit status. */
int table_print(struct table *t);

/* Flushes standard output. The exit status: 1 when something was not written. */
int finish_output(void);

#endif
