/*
 * cmd_write.c - write: input to a console, as if typed. Prints the offset from which its effect can be read.
 *
 * Words go in one piece. Standard input goes in pieces of PIECE bytes, each contiguous, one after the other as the
 * program reads it.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/show.h"

#define PIECE ((size_t)256 * 1024)

struct write_options {
	bool enter, raw_lines;
	struct number timeout;
};

#define AT(field) offsetof(struct write_options, field)
static const struct option_spec table[] = {
	{ .name = "enter", .kind = OPTION_FLAG, .at = AT(enter), .help = "press Enter at the end (CR)" },
	{ .name = "timeout",
	        .kind = OPTION_DURATION,
	        .at = AT(timeout),
	        .value = "DUR",
	        .help = "how long a program that does not read is waited for (10s)" },
	{ .name = "raw-lines",
	        .kind = OPTION_FLAG,
	        .at = AT(raw_lines),
	        .help = "send lines over 4095 bytes, which the terminal may cut" },
	{ 0 },
};

struct progress {
	bool any;
	struct ringside_written total; /* the first piece's offset, everybody's bytes */
};

static int write_piece(struct ringside_console *c, const struct write_options *o, const void *bytes, size_t n,
        struct progress *p, struct ringside_error *err)
{
	struct ringside_write_options how = { .timeout_ms = o->timeout.value, .raw_lines = o->raw_lines };
	struct ringside_written w;
	int code = ringside_console_write(c, bytes, n, &how, &w, err);
	if (!p->any)
		p->total.tail_offset = w.tail_offset;
	p->any = true;
	p->total.written += w.written;
	return code;
}

/* The words with spaces between, and CR. The caller's to free; NULL: out of memory. */
static char *join(char *const *a, int na, char *const *b, int nb, bool enter, size_t *size)
{
	size_t n = 1;
	for (int i = 0; i < na + nb; i++)
		n += strlen(i < na ? a[i] : b[i - na]) + 1;
	char *text = malloc(n), *at = text;
	if (!text)
		return NULL;
	for (int i = 0; i < na + nb; i++) {
		if (i > 0)
			*at++ = ' ';
		at = stpcpy(at, i < na ? a[i] : b[i - na]);
	}
	if (enter)
		*at++ = '\r';
	*size = (size_t)(at - text);
	return text;
}

static int write_words(struct invocation *inv, const struct write_options *o, struct ringside_console *c,
        struct progress *p, struct ringside_error *err)
{
	const struct words *w = &inv->words;
	size_t size = 0;
	char *text = join(w->plain + 1, w->nplain - 1, w->rest, w->nrest, o->enter, &size);
	if (!text)
		return RINGSIDE_RESOURCE_LIMIT;
	int code = write_piece(c, o, text, size, p, err);
	free(text);
	return code;
}

/* Fills the buffer from standard input. Bytes, fewer at its end; -errno. */
static ssize_t fill(uint8_t *buf, size_t size)
{
	size_t n = 0;
	while (n < size) {
		ssize_t r = read(STDIN_FILENO, buf + n, size - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	return (ssize_t)n;
}

static int write_stdin(
        const struct write_options *o, struct ringside_console *c, struct progress *p, struct ringside_error *err)
{
	/* --enter alone, by a person: nothing to read, just the key. */
	bool read_it = !(o->enter && isatty(STDIN_FILENO));
	uint8_t *buf = malloc(PIECE + 1);
	bool last = false;
	int code = 0;
	while (buf && !code && !last) {
		ssize_t n = read_it ? fill(buf, PIECE) : 0;
		if (n < 0) {
			code = err->code = RINGSIDE_UNAVAILABLE;
			err->name = ringside_code_name(code);
			snprintf(err->message, sizeof(err->message), "cannot read standard input: %s",
			        strerrordesc_np((int)-n));
			break;
		}
		last = (size_t)n < PIECE;
		size_t size = (size_t)n;
		if (last && o->enter)
			buf[size++] = '\r';
		if (size > 0 || !p->any)
			code = write_piece(c, o, buf, size, p, err);
	}
	if (!buf)
		code = RINGSIDE_RESOURCE_LIMIT;
	free(buf);
	return code;
}

static int show_written(const struct invocation *inv, const struct ringside_written *w)
{
	if (inv->json) {
		json_t *j = json_object();
		json_object_set_new(j, "tail_offset", json_u64(w->tail_offset));
		json_object_set_new(j, "written", json_u64(w->written));
		return json_print(j);
	}
	printf("%llu\n", (unsigned long long)w->tail_offset);
	return finish_output();
}

static int write_console(struct invocation *inv, const struct write_options *o, struct ringside_console *c)
{
	struct progress p = { 0 };
	struct ringside_error err = { .code = RINGSIDE_RESOURCE_LIMIT };
	bool words = inv->words.nplain > 1 || inv->words.nrest > 0;
	int code = words ? write_words(inv, o, c, &p, &err) : write_stdin(o, c, &p, &err);
	if (!code)
		return show_written(inv, &p.total);
	if (!err.name)
		return report_code(inv, code, "out of memory");
	return report_code(inv, code, "%.400s (%llu bytes were taken, tail_offset %llu)", err.message,
	        (unsigned long long)p.total.written, (unsigned long long)p.total.tail_offset);
}

static int run_write(struct invocation *inv, const void *options)
{
	const struct write_options *o = options;
	int status;
	struct target t;
	struct ringside *rs;
	struct ringside_console *c;
	struct ringside_error err;
	if (!take_words(inv, 1, INT32_MAX, &status) || !take_console(inv, inv->words.plain[0], &t, &status) ||
	        !take_daemon(inv, &rs, &status))
		return status;
	if (ringside_console_open(rs, t.sandbox, t.console, RINGSIDE_WRITE, &c, &err)) {
		status = report_error(inv, &err);
	} else {
		status = write_console(inv, o, c);
		ringside_console_close(c);
	}
	ringside_close(rs);
	return status;
}

const struct command command_write = {
	.name = "write",
	.arguments = "[BOX/]NAME [TEXT…] [--enter]",
	.summary = "type into a console; prints the offset from which the effect can be read",
	.notes = "Without TEXT standard input is sent. TEXT that begins with a dash goes after --.",
	.options = table,
	.options_size = sizeof(struct write_options),
	.run = run_write,
};
