/*
 * spec.c - the envelope of spec.h: checking a request, and the JSON of the ledger.
 */
#include "sandboxes/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring/ring.h"
#include "wire/name.h"
#include "wire/text.h"

void spec_release(struct spec *s)
{
	free(s->name);
	free(s->provider);
	free(s->directory);
	for (size_t i = 0; i < s->nlabels; i++) {
		free(s->labels[i].key);
		free(s->labels[i].value);
	}
	free(s->labels);
	*s = (struct spec){ 0 };
}

static int spec_add_label(struct spec *s, const char *key, const char *value)
{
	struct label *more = reallocarray(s->labels, s->nlabels + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	s->labels = more;
	struct label l = { .key = strdup(key), .value = strdup(value) };
	if (!l.key || !l.value) {
		free(l.key);
		free(l.value);
		return -ENOMEM;
	}
	s->labels[s->nlabels++] = l;
	return 0;
}

/* ---- Requests ---- */

/* Well-formed UTF-8 without controls: what JSON and a terminal can both carry. */
static bool text_plain(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	while (*p) {
		unsigned need = *p < 0x80             ? 0
		                : (*p & 0xe0) == 0xc0 ? 1
		                : (*p & 0xf0) == 0xe0 ? 2
		                : (*p & 0xf8) == 0xf0 ? 3
		                                      : 4;
		uint32_t v = need == 0 ? *p : *p & (0x3fU >> need);
		static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };

		if (need > 3 || *p < 0x20 || *p == 0x7f)
			return false;
		for (unsigned i = 0; i < need; i++) {
			if ((*++p & 0xc0) != 0x80)
				return false;
			v = v << 6 | (*p & 0x3f);
		}
		if (v < least[need] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
			return false;
		p++;
	}
	return true;
}

__attribute__((format(printf, 3, 4))) static enum result refuse(char *why, size_t size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, size, fmt, args);
	va_end(args);
	return RESULT_INVALID_ARGUMENT;
}

static enum result check_labels(const Wire__CreateSandbox *q, char *why, size_t size)
{
	char shown[160];

	if (q->n_labels > SPEC_MAX_LABELS)
		return refuse(why, size, "%zu labels; a sandbox has at most %d", q->n_labels, SPEC_MAX_LABELS);
	for (size_t i = 0; i < q->n_labels; i++) {
		const Wire__Label *l = q->labels[i];
		text_escape(shown, sizeof(shown), l->key, strlen(l->key));
		if (!label_key_valid(l->key))
			return refuse(why, size,
			        "'%s' is not a label: 1 to 63 of [A-Za-z0-9._/-], a letter or digit first", shown);
		if (strlen(l->value) > SPEC_MAX_LABEL_BYTES || !text_plain(l->value))
			return refuse(why, size, "the value of label '%s' is over %d bytes or not plain text", shown,
			        SPEC_MAX_LABEL_BYTES);
		for (size_t k = 0; k < i; k++)
			if (strcmp(q->labels[k]->key, l->key) == 0)
				return refuse(why, size, "label '%s' is given twice", shown);
	}
	return RESULT_OK;
}

static bool ring_bytes_valid(uint64_t n)
{
	return n >= RING_MIN_CAPACITY && n <= RING_MAX_CAPACITY && (n & (n - 1)) == 0;
}

static enum result check_request(const Wire__CreateSandbox *q, char *why, size_t size)
{
	char shown[160];

	if (*q->name && !name_valid(q->name))
		return refuse(why, size, "'%s' is not a name: 1 to %d of [A-Za-z0-9._-], not starting with '.' or '-'",
		        text_escape(shown, sizeof(shown), q->name, strlen(q->name)), NAME_MAX_BYTES);
	/* Ids and names share the place of BOX on the command line; nobody may name a sandbox like another's id. */
	if (strncmp(q->name, "sb-", 3) == 0)
		return refuse(why, size, "names starting with 'sb-' are kept for ids");
	if (*q->directory && (*q->directory != '/' || strlen(q->directory) >= PATH_MAX || !text_plain(q->directory)))
		return refuse(
		        why, size, "the directory must be an absolute path of plain text, under %d bytes", PATH_MAX);
	if (q->console_limit > SPEC_MAX_CONSOLE_LIMIT)
		return refuse(why, size, "a console limit of %u; at most %d is possible", q->console_limit,
		        SPEC_MAX_CONSOLE_LIMIT);
	if (q->ring_bytes && !ring_bytes_valid(q->ring_bytes))
		return refuse(why, size, "a ring of %" PRIu64 " bytes; a power of two from 4 KiB to 64 MiB is possible",
		        q->ring_bytes);
	return check_labels(q, why, size);
}

static int copy_request(const Wire__CreateSandbox *q, const char *default_provider, struct spec *out)
{
	*out = (struct spec){
		.name = strdup(q->name),
		.provider = strdup(*q->provider ? q->provider : default_provider),
		.directory = strdup(q->directory),
		.console_limit = q->console_limit ? q->console_limit : SPEC_CONSOLE_LIMIT,
		.ring_bytes = q->ring_bytes ? q->ring_bytes : SPEC_RING_BYTES,
		.memory_bytes = q->memory_bytes,
		.cpu_millis = q->cpu_millis,
		.pids = q->pids,
	};
	if (!out->name || !out->provider || !out->directory)
		return -ENOMEM;
	for (size_t i = 0; i < q->n_labels; i++) {
		int r = spec_add_label(out, q->labels[i]->key, q->labels[i]->value);
		if (r < 0)
			return r;
	}
	return 0;
}

enum result spec_from_request(
        const Wire__CreateSandbox *q, const char *default_provider, struct spec *out, char *why, size_t why_size)
{
	enum result r = check_request(q, why, why_size);

	if (r != RESULT_OK)
		return r;
	if (copy_request(q, default_provider, out) < 0) {
		spec_release(out);
		snprintf(why, why_size, "out of memory");
		return RESULT_INTERNAL;
	}
	return RESULT_OK;
}

/* ---- Writing ---- */

static void json_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
		if (*p == '"' || *p == '\\')
			fputc('\\', f);
		if (*p < 0x20)
			fprintf(f, "\\u%04x", *p);
		else
			fputc(*p, f);
	}
	fputc('"', f);
}

static void json_member(FILE *f, const char *key, const char *value)
{
	fprintf(f, "\"%s\":", key);
	json_string(f, value);
	fputc(',', f);
}

char *spec_to_json(const struct spec *s)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputc('{', f);
	json_member(f, "name", s->name);
	json_member(f, "provider", s->provider);
	json_member(f, "directory", s->directory);
	fprintf(f, "\"console_limit\":%" PRIu32 ",\"ring_bytes\":%" PRIu64 ",\"memory_bytes\":%" PRIu64,
	        s->console_limit, s->ring_bytes, s->memory_bytes);
	fprintf(f, ",\"cpu_millis\":%" PRIu64 ",\"pids\":%" PRIu32 ",\"labels\":{", s->cpu_millis, s->pids);
	for (size_t i = 0; i < s->nlabels; i++) {
		if (i > 0)
			fputc(',', f);
		json_string(f, s->labels[i].key);
		fputc(':', f);
		json_string(f, s->labels[i].value);
	}
	fputs("}}", f);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- Reading ---- */

/* What is left of the text, and the first thing that was wrong with it. */
struct reader {
	const char *p;
	int err;
};

static void skip_space(struct reader *r)
{
	r->p += strspn(r->p, " \t\r\n");
}

static bool accept(struct reader *r, char c)
{
	skip_space(r);
	if (*r->p != c)
		return false;
	r->p++;
	return true;
}

static void expect(struct reader *r, char c)
{
	if (!r->err && !accept(r, c))
		r->err = -EUCLEAN;
}

/* The escapes that the writer uses, and the short ones. */
static bool read_escape(struct reader *r, char *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	unsigned v;

	if (*r->p == 'u') {
		if (strspn(r->p + 1, "0123456789abcdefABCDEF") < 4 || sscanf(r->p + 1, "%4x", &v) != 1 || v == 0 ||
		        v > 0x7f)
			return false;
		r->p += 5;
		*out = (char)v;
		return true;
	}
	const char *at = *r->p ? strchr(from, *r->p) : NULL;
	if (!at)
		return false;
	r->p++;
	*out = to[at - from];
	return true;
}

/* The caller's; NULL after an error. */
static char *read_string(struct reader *r)
{
	expect(r, '"');
	if (r->err)
		return NULL;
	char *out = malloc(strlen(r->p) + 1), *end = out;
	if (!out) {
		r->err = -ENOMEM;
		return NULL;
	}
	while (*r->p && *r->p != '"') {
		char c = *r->p++;
		if (c == '\\' && !read_escape(r, &c))
			break;
		*end++ = c;
	}
	*end = '\0';
	if (*r->p != '"') {
		r->err = -EUCLEAN;
		free(out);
		return NULL;
	}
	r->p++;
	return out;
}

static uint64_t read_number(struct reader *r, uint64_t max)
{
	uint64_t v = 0;

	skip_space(r);
	if (*r->p < '0' || *r->p > '9')
		r->err = -EUCLEAN;
	for (; !r->err && *r->p >= '0' && *r->p <= '9'; r->p++) {
		uint64_t digit = (uint64_t)(*r->p - '0');
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v) || v > max)
			r->err = -EUCLEAN;
	}
	return v;
}

static void read_labels(struct reader *r, struct spec *s)
{
	expect(r, '{');
	if (r->err || accept(r, '}'))
		return;
	do {
		char *key = read_string(r);
		expect(r, ':');
		char *value = r->err ? NULL : read_string(r);
		if (!r->err)
			r->err = s->nlabels < SPEC_MAX_LABELS ? spec_add_label(s, key, value) : -EUCLEAN;
		free(key);
		free(value);
	} while (!r->err && accept(r, ','));
	expect(r, '}');
}

/* A member that this version does not know: a string or a number. */
static void skip_value(struct reader *r)
{
	skip_space(r);
	if (*r->p == '"')
		free(read_string(r));
	else
		read_number(r, UINT64_MAX);
}

static void replace(struct reader *r, char **field)
{
	char *s = read_string(r);

	if (!s)
		return;
	free(*field);
	*field = s;
}

static void read_member(struct reader *r, const char *key, struct spec *s)
{
	if (strcmp(key, "name") == 0)
		replace(r, &s->name);
	else if (strcmp(key, "provider") == 0)
		replace(r, &s->provider);
	else if (strcmp(key, "directory") == 0)
		replace(r, &s->directory);
	else if (strcmp(key, "console_limit") == 0)
		s->console_limit = (uint32_t)read_number(r, SPEC_MAX_CONSOLE_LIMIT);
	else if (strcmp(key, "ring_bytes") == 0)
		s->ring_bytes = read_number(r, RING_MAX_CAPACITY);
	else if (strcmp(key, "memory_bytes") == 0)
		s->memory_bytes = read_number(r, UINT64_MAX);
	else if (strcmp(key, "cpu_millis") == 0)
		s->cpu_millis = read_number(r, UINT64_MAX);
	else if (strcmp(key, "pids") == 0)
		s->pids = (uint32_t)read_number(r, UINT32_MAX);
	else if (strcmp(key, "labels") == 0)
		read_labels(r, s);
	else
		skip_value(r);
}

static void read_members(struct reader *r, struct spec *s)
{
	if (accept(r, '}'))
		return;
	do {
		char *key = read_string(r);
		expect(r, ':');
		if (!r->err)
			read_member(r, key, s);
		free(key);
	} while (!r->err && accept(r, ','));
	expect(r, '}');
}

static void read_spec(struct reader *r, struct spec *s)
{
	expect(r, '{');
	if (!r->err)
		read_members(r, s);
	skip_space(r);
	if (!r->err && *r->p)
		r->err = -EUCLEAN;
}

int spec_from_json(const char *json, struct spec *out)
{
	struct reader r = { .p = json };

	*out = (struct spec){
		.name = strdup(""),
		.provider = strdup(""),
		.directory = strdup(""),
		.console_limit = SPEC_CONSOLE_LIMIT,
		.ring_bytes = SPEC_RING_BYTES,
	};
	if (!out->name || !out->provider || !out->directory)
		r.err = -ENOMEM;
	else
		read_spec(&r, out);
	if (r.err)
		spec_release(out);
	return r.err;
}
