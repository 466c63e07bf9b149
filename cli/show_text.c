/* show_text.c - tables, times and command lines for people. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/show.h"

#define FIELD_BYTES 256 /* of an escaped field; longer ones end in "…" */

const char *show_time(char out[SHOW_TIME_BYTES], uint64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	if (ms == 0 || !gmtime_r(&seconds, &tm))
		return "-";
	size_t n = strftime(out, SHOW_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	if (n == 0)
		return "-";
	snprintf(out + n, SHOW_TIME_BYTES - n, ".%03uZ", (unsigned)(ms % 1000));
	return out;
}

const char *show_duration(char out[SHOW_TIME_BYTES], uint64_t ms)
{
	unsigned long long s = ms / 1000;
	if (ms < 1000)
		snprintf(out, SHOW_TIME_BYTES, "%llums", (unsigned long long)ms);
	else if (s < 60)
		snprintf(out, SHOW_TIME_BYTES, "%llu.%llus", s, (unsigned long long)(ms % 1000 / 100));
	else if (s < 3600)
		snprintf(out, SHOW_TIME_BYTES, "%llum%02llus", s / 60, s % 60);
	else if (s < 48 * 3600)
		snprintf(out, SHOW_TIME_BYTES, "%lluh%02llum", s / 3600, s % 3600 / 60);
	else
		snprintf(out, SHOW_TIME_BYTES, "%llud%02lluh", s / 86400, s % 86400 / 3600);
	return out;
}

const char *show_exit(char out[SHOW_TIME_BYTES], const struct ringside_exit *e)
{
	if (!e->known)
		return "-";
	if (e->signal)
		snprintf(out, SHOW_TIME_BYTES, "%s", ringside_signal_name((int)(e->signal & 0x7f)));
	else
		snprintf(out, SHOW_TIME_BYTES, "exit %u", e->code);
	return out;
}

void show_argv(char *out, size_t size, const char *const *argv)
{
	size_t used = 0;
	*out = '\0';
	for (size_t i = 0; argv[i] && used + 1 < size; i++) {
		if (i > 0)
			out[used++] = ' ';
		ringside_escape(out + used, size - used, argv[i], strlen(argv[i]));
		used += strlen(out + used);
	}
}

/* ---- Tables ---- */

struct row {
	struct row *next;
	char *fields[TABLE_COLUMNS];
};

struct table {
	const char *const *headings;
	size_t columns;
	struct row *rows, **end;
	bool incomplete; /* memory ran out */
};

struct table *table_new(const char *const *headings)
{
	struct table *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->headings = headings;
	while (t->columns < TABLE_COLUMNS && headings[t->columns])
		t->columns++;
	t->end = &t->rows;
	return t;
}

void table_row(struct table *t, const char *const *fields)
{
	struct row *row = t ? calloc(1, sizeof(*row)) : NULL;
	if (!row) {
		if (t)
			t->incomplete = true;
		return;
	}
	for (size_t i = 0; i < t->columns; i++) {
		char text[FIELD_BYTES];
		const char *field = *fields[i] ? fields[i] : "-";
		row->fields[i] = strdup(ringside_escape(text, sizeof(text), field, strlen(field)));
		if (!row->fields[i])
			t->incomplete = true;
	}
	*t->end = row;
	t->end = &row->next;
}

/* Columns on the screen, near enough: characters. */
static size_t width(const char *s)
{
	size_t n = 0;
	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void print_row(const struct table *t, const char *const *fields, const size_t *widths)
{
	for (size_t i = 0; i < t->columns; i++) {
		const char *f = fields[i] ? fields[i] : "";
		bool last = i + 1 == t->columns;
		fputs(f, stdout);
		if (!widths)
			fputs(last ? "" : "\t", stdout);
		else if (!last)
			printf("%*s", (int)(widths[i] - width(f) + 2), "");
	}
	fputc('\n', stdout);
}

static void print_aligned(const struct table *t)
{
	size_t widths[TABLE_COLUMNS] = { 0 };
	for (size_t i = 0; i < t->columns; i++)
		widths[i] = width(t->headings[i]);
	for (const struct row *r = t->rows; r; r = r->next)
		for (size_t i = 0; i < t->columns; i++)
			if (r->fields[i] && width(r->fields[i]) > widths[i])
				widths[i] = width(r->fields[i]);
	print_row(t, t->headings, widths);
	for (const struct row *r = t->rows; r; r = r->next)
		print_row(t, (const char *const *)r->fields, widths);
}

int table_print(struct table *t)
{
	if (!t)
		return 1;
	if (isatty(STDOUT_FILENO))
		print_aligned(t);
	else
		for (const struct row *r = t->rows; r; r = r->next)
			print_row(t, (const char *const *)r->fields, NULL);
	bool incomplete = t->incomplete;
	for (struct row *r = t->rows, *next; r; r = next) {
		next = r->next;
		for (size_t i = 0; i < TABLE_COLUMNS; i++)
			free(r->fields[i]);
		free(r);
	}
	free(t);
	int status = finish_output();
	return incomplete ? 1 : status;
}

int finish_output(void)
{
	bool bad = fflush(stdout) != 0 || ferror(stdout);
	if (bad)
		fprintf(stderr, "ringside: internal: cannot write to standard output: %s\n", strerrordesc_np(errno));
	return bad ? 1 : 0;
}
