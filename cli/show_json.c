/* show_json.c - the JSON shapes of the command line. Keys and their meaning are the product's interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show.h"

/* Length of the UTF-8 character at p, or 0 when there is none. */
static size_t character(const unsigned char *p, size_t n)
{
	size_t need = p[0] < 0x80                    ? 1
	              : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
	              : p[0] >= 0xe0 && p[0] < 0xf0  ? 3
	              : p[0] >= 0xc2 && p[0] < 0xe0  ? 2
	                                             : 0;
	if (need == 0 || need > n)
		return 0;
	for (size_t i = 1; i < need; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	        (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return need;
}

json_t *json_text(const char *s)
{
	json_t *j = json_string(s);
	if (j)
		return j;
	static const char replacement[] = "\xef\xbf\xbd";
	const unsigned char *p = (const unsigned char *)s;
	size_t n = strlen(s), used = 0;
	char *fit = malloc(n * 3 + 1);
	if (!fit)
		return NULL;
	for (size_t i = 0; i < n;) {
		size_t len = character(p + i, n - i);
		memcpy(fit + used, len ? (const char *)p + i : replacement, len ? len : 3);
		used += len ? len : 3;
		i += len ? len : 1;
	}
	j = json_stringn(fit, used);
	free(fit);
	return j;
}

json_t *json_text_or_null(const char *s)
{
	return s && *s ? json_text(s) : json_null();
}

json_t *json_u64(uint64_t v)
{
	/* jansson's integers are signed. Past 2^63 a number is all that JSON readers make of it anyway. */
	return v <= INT64_MAX ? json_integer((json_int_t)v) : json_real((double)v);
}

json_t *json_time(uint64_t ms)
{
	char text[SHOW_TIME_BYTES];
	return ms ? json_string(show_time(text, ms)) : json_null();
}

json_t *json_base64(const void *bytes, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = bytes;
	char *text = malloc(n / 3 * 4 + 5), *t = text;
	if (!text)
		return NULL;
	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		unsigned v =
		        (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
		*t++ = digits[v >> 18];
		*t++ = digits[v >> 12 & 63];
		*t++ = left > 1 ? digits[v >> 6 & 63] : '=';
		*t++ = left > 2 ? digits[v & 63] : '=';
	}
	json_t *j = json_stringn_nocheck(text, (size_t)(t - text));
	free(text);
	return j;
}

json_t *json_exit(const struct ringside_exit *e)
{
	if (!e->known)
		return json_null();
	json_t *j = json_object();
	if (e->signal)
		json_object_set_new(j, "signal", json_text(ringside_signal_name((int)(e->signal & 0x7f))));
	else
		json_object_set_new(j, "code", json_u64(e->code));
	return j;
}

json_t *json_processes(const struct ringside_process *list, size_t n)
{
	json_t *j = json_array();
	for (size_t i = 0; i < n; i++) {
		json_t *p = json_object();
		json_object_set_new(p, "pid", json_u64(list[i].pid));
		json_object_set_new(p, "comm", json_text(list[i].comm));
		json_array_append_new(j, p);
	}
	return j;
}

json_t *json_console(const struct ringside_console_info *c)
{
	json_t *argv = json_array();
	for (size_t i = 0; c->argv[i]; i++)
		json_array_append_new(argv, json_text(c->argv[i]));
	json_t *j = json_object();
	json_object_set_new(j, "sandbox", json_text(c->sandbox));
	json_object_set_new(j, "console", json_text(c->name));
	json_object_set_new(j, "incarnation", json_u64(c->incarnation));
	json_object_set_new(j, "state", json_text(ringside_console_state_name(c->state)));
	json_object_set_new(j, "pid", json_u64(c->pid));
	json_object_set_new(j, "argv", argv);
	json_object_set_new(j, "cols", json_u64(c->cols));
	json_object_set_new(j, "rows", json_u64(c->rows));
	json_object_set_new(j, "start_offset", json_u64(c->start_offset));
	json_object_set_new(j, "head_offset", json_u64(c->head_offset));
	json_object_set_new(j, "tail_offset", json_u64(c->tail_offset));
	json_object_set_new(j, "started_at", json_time(c->started_at_ms));
	json_object_set_new(j, "idle_ms", json_u64(c->idle_ms));
	json_object_set_new(j, "clients", json_u64(c->clients));
	json_object_set_new(j, "exit", json_exit(&c->exit));
	return j;
}

static void add_envelope(json_t *j, const struct ringside_sandbox *s)
{
	json_object_set_new(j, "reason", json_text(s->reason));
	json_object_set_new(j, "ref", json_text_or_null(s->ref));
	json_object_set_new(j, "directory", json_text_or_null(s->directory));
	json_object_set_new(j, "port", s->port ? json_u64(s->port) : json_null());
	json_object_set_new(j, "console_limit", json_u64(s->console_limit));
	json_object_set_new(j, "ring_bytes", json_u64(s->ring_bytes));
	json_object_set_new(j, "consoles_running", json_u64(s->consoles_running));
	json_object_set_new(j, "consoled_pid", s->consoled_pid ? json_u64(s->consoled_pid) : json_null());
	json_object_set_new(j, "consoled_version", json_text_or_null(s->consoled_version));
}

json_t *json_sandbox(const struct ringside_sandbox *s, bool whole)
{
	json_t *labels = json_object();
	for (size_t i = 0; i < s->nlabels; i++)
		json_object_set_new(labels, s->labels[i].key, json_text(s->labels[i].value));
	json_t *j = json_object();
	json_object_set_new(j, "id", json_text(s->id));
	json_object_set_new(j, "name", json_text_or_null(s->name));
	json_object_set_new(j, "provider", json_text(s->provider));
	json_object_set_new(j, "state", json_text(ringside_sandbox_state_name(s->state)));
	json_object_set_new(j, "created_at", json_time(s->created_at_ms));
	json_object_set_new(j, "limits", json_text(s->limits));
	json_object_set_new(j, "labels", labels);
	json_object_set_new(j, "workspace", json_text(s->workspace));
	if (whole)
		add_envelope(j, s);
	return j;
}

int json_print(json_t *j)
{
	int r = json_dumpf(j, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(j);
	fputc('\n', stdout);
	int status = finish_output();
	return r < 0 ? 1 : status;
}
