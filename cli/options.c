/* options.c - see options.h; getopt_long(3) does the parsing. */
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text.h"

#define OPTIONS_MAX 24  /* rows of a table: checked in options_parse() */
#define LONG_BASE   256 /* getopt's value of row i is LONG_BASE + i, past every letter */
#define VALUE_JSON  (LONG_BASE + OPTIONS_MAX)
#define VALUE_HELP  (LONG_BASE + OPTIONS_MAX + 1)

static size_t rows(const struct option_spec *table)
{
	size_t n = 0;
	while (table && table[n].name)
		n++;
	return n;
}

/* What getopt_long(3) wants of the table. */
static void describe(const struct option_spec *table, size_t n, struct option *longs, char *letters)
{
	char *l = letters;
	*l++ = ':'; /* a missing value is told apart from an unknown option */
	*l++ = 'h';
	for (size_t i = 0; i < n; i++) {
		bool value = table[i].kind != OPTION_FLAG;
		longs[i] = (struct option){
			.name = table[i].name,
			.has_arg = value ? required_argument : no_argument,
			.val = LONG_BASE + (int)i,
		};
		if (table[i].letter) {
			*l++ = table[i].letter;
			if (value)
				*l++ = ':';
		}
	}
	longs[n] = (struct option){ .name = "json", .has_arg = no_argument, .val = VALUE_JSON };
	longs[n + 1] = (struct option){ .name = "help", .has_arg = no_argument, .val = VALUE_HELP };
	longs[n + 2] = (struct option){ 0 };
	*l = '\0';
}

static bool add(struct strings *list, const char *s)
{
	const char **items = reallocarray(list->items, list->count + 2, sizeof(*items));
	if (!items)
		return false;
	items[list->count++] = s;
	items[list->count] = NULL;
	list->items = items;
	return true;
}

static bool parse_number(const struct option_spec *o, const char *s, struct number *out)
{
	uint64_t v = 0;
	bool ok = o->kind == OPTION_SIZE       ? text_parse_size(s, &v)
	          : o->kind == OPTION_DURATION ? text_parse_duration(s, &v)
	                                       : text_parse_u64(s, UINT64_MAX, &v);
	if (!ok || (o->max && v > o->max))
		return false;
	*out = (struct number){ .given = true, .value = v };
	return true;
}

static const char *what_kind(enum option_kind kind)
{
	switch (kind) {
	case OPTION_SIZE:
		return "a size like 4096, 64K or 1M";
	case OPTION_DURATION:
		return "a duration like 250ms, 10s or 1.5m";
	default:
		return "a number";
	}
}

static bool store(const struct option_spec *o, const char *value, void *into, char *why)
{
	void *field = (char *)into + o->at;
	char shown[64];
	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return true;
	case OPTION_STRING:
		*(const char **)field = value;
		return true;
	case OPTION_LIST:
		if (add(field, value))
			return true;
		snprintf(why, OPTION_WHY_BYTES, "out of memory");
		return false;
	case OPTION_NUMBER:
	case OPTION_SIZE:
	case OPTION_DURATION:
		if (parse_number(o, value, field))
			return true;
	}
	text_escape(shown, sizeof(shown), value, strlen(value));
	if (o->max)
		snprintf(why, OPTION_WHY_BYTES, "--%s takes %s, at most %llu: not %s", o->name, what_kind(o->kind),
		        (unsigned long long)o->max, shown);
	else
		snprintf(why, OPTION_WHY_BYTES, "--%s takes %s: not %s", o->name, what_kind(o->kind), shown);
	return false;
}

static const struct option_spec *row_of(const struct option_spec *table, size_t n, int value)
{
	if (value >= LONG_BASE)
		return (size_t)(value - LONG_BASE) < n ? &table[value - LONG_BASE] : NULL;
	for (size_t i = 0; i < n; i++)
		if (table[i].letter && table[i].letter == value)
			return &table[i];
	return NULL;
}

/* getopt(3) says which option it means in optopt: a letter, a row of ours, or 0 for a long one that it does not know.
 */
static bool complain(const struct option *longs, char **argv, const char *what, char *why)
{
	char letter[] = { '-', (char)optopt, '\0' }, name[64], shown[96];
	const char *word = optopt > 0 && optopt < LONG_BASE ? letter : argv[optind - 1];
	for (const struct option *l = longs; optopt >= LONG_BASE && l->name; l++) {
		if (l->val == optopt) {
			snprintf(name, sizeof(name), "--%s", l->name);
			word = name;
		}
	}
	text_escape(shown, sizeof(shown), word, strlen(word));
	snprintf(why, OPTION_WHY_BYTES, "%s%s", what, shown);
	return false;
}

static bool parse_own(const struct option_spec *table, int argc, char **argv, void *into, struct words *out, char *why)
{
	size_t n = rows(table);
	struct option longs[OPTIONS_MAX + 3];
	char letters[2 * OPTIONS_MAX + 3];
	if (n > OPTIONS_MAX) {
		snprintf(why, OPTION_WHY_BYTES, "the table of options is too long");
		return false;
	}
	describe(table, n, longs, letters);
	optind = 0; /* glibc: begin again */
	opterr = 0;
	for (;;) {
		int value = getopt_long(argc, argv, letters, longs, NULL);
		if (value < 0)
			break;
		if (value == VALUE_JSON) {
			out->json = true;
		} else if (value == VALUE_HELP || value == 'h') {
			out->help = true;
		} else if (value == ':') {
			return complain(longs, argv, "a value is missing after ", why);
		} else {
			const struct option_spec *o = value == '?' ? NULL : row_of(table, n, value);
			if (!o)
				return complain(longs, argv,
				        optopt >= LONG_BASE ? "no value is taken by "
				                            : "no such option here (a program's own go after --): ",
				        why);
			if (!store(o, optarg, into, why))
				return false;
		}
	}
	out->plain = argv + optind;
	out->nplain = argc - optind;
	return true;
}

bool options_parse(const struct option_spec *table, int argc, char **argv, void *into, struct words *out,
        char why[OPTION_WHY_BYTES])
{
	int own = 1;
	while (own < argc && strcmp(argv[own], "--") != 0)
		own++;
	*out = (struct words){ .dashes = own < argc };
	out->rest = argv + (out->dashes ? own + 1 : argc);
	out->nrest = out->dashes ? argc - own - 1 : 0;
	/* The `--` becomes the end of the command's own words. */
	if (out->dashes)
		argv[own] = NULL;
	return parse_own(table, own, argv, into, out, why);
}

void options_release(const struct option_spec *table, void *into)
{
	for (size_t i = 0; i < rows(table); i++) {
		if (table[i].kind != OPTION_LIST)
			continue;
		struct strings *list = (struct strings *)(void *)((char *)into + table[i].at);
		free(list->items);
		*list = (struct strings){ 0 };
	}
}
