/*
 * options.h - a command's options as a table, and the words that are not options.
 *
 * Everything from the first `--` on is left alone: it is somebody else's command line. Before it, options and words may
 * mix. Each command also has --json and --help. Prints nothing and ends nothing: a mistake comes back as a sentence.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG,     /* bool */
	OPTION_STRING,   /* const char *: as given */
	OPTION_NUMBER,   /* struct number, decimal, ≤ max */
	OPTION_SIZE,     /* struct number, bytes: 64K, 1M; ≤ max */
	OPTION_DURATION, /* struct number, milliseconds: 250ms, 10s, 1.5m; ≤ max */
	OPTION_LIST,     /* struct strings: may be given again and again */
};

struct number {
	bool given;
	uint64_t value;
};

struct strings {
	const char **items; /* NULL-terminated; NULL when there are none */
	size_t count;
};

/* A table ends in an entry without a name. */
struct option_spec {
	const char *name;
	char letter; /* 0: none */
	enum option_kind kind;
	size_t at;    /* offsetof(the command's struct, field) */
	uint64_t max; /* 0: whatever fits */
	const char *value, *help;
};

struct words {
	bool json, help;
	char **plain; /* before the `--`; NULL-terminated */
	int nplain;
	char **rest; /* after it; NULL-terminated, empty where there was none */
	int nrest;
	bool dashes; /* there was a `--` */
};

#define OPTION_WHY_BYTES 256

/* argv[0] is the command's name; argv is reordered. `into`: the command's struct, zeroed. false: why says what is
 * wrong. */
bool options_parse(const struct option_spec *table, int argc, char **argv, void *into, struct words *out,
        char why[OPTION_WHY_BYTES]);
/* Frees the lists of `into`. */
void options_release(const struct option_spec *table, void *into);

#endif
