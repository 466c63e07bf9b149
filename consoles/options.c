/* options.c - the console daemon's arguments: --name=value, each at most once, nothing else. */
#include "consoles/options.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/text.h"

enum kind { TEXT, DESCRIPTOR, ABSOLUTE };

static const struct option_row {
	const char *name;
	enum kind kind;
	size_t at; /* of the field in struct options */
} ROWS[] = {
	{ "listen-fd", DESCRIPTOR, offsetof(struct options, listen_fd) },
	{ "commit-fd", DESCRIPTOR, offsetof(struct options, commit_fd) },
	{ "sandbox", TEXT, offsetof(struct options, sandbox) },
	{ "workspace", ABSOLUTE, offsetof(struct options, workspace) },
	{ "home", TEXT, offsetof(struct options, home) },
	{ "user", TEXT, offsetof(struct options, user) },
	{ "shell", ABSOLUTE, offsetof(struct options, shell) },
	{ "path", TEXT, offsetof(struct options, path) },
};

static const struct options DEFAULTS = {
	.listen_fd = -1,
	.commit_fd = -1,
	.sandbox = "-",
	.workspace = "/",
	.home = "/",
	.user = "root",
	.shell = "", /* the first of bash and sh that is there */
	.path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
};

static const struct option_row *find_row(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++)
		if (strlen(ROWS[i].name) == n && memcmp(ROWS[i].name, name, n) == 0)
			return &ROWS[i];
	return NULL;
}

static int set(struct options *out, const struct option_row *row, const char *value)
{
	void *field = (char *)out + row->at;
	uint64_t number;

	switch (row->kind) {
	case DESCRIPTOR:
		if (!text_parse_u64(value, INT_MAX, &number) || number < 3)
			return -EINVAL;
		*(int *)field = (int)number;
		return 0;
	case ABSOLUTE:
		if (value[0] != '/' && value[0] != '\0')
			return -EINVAL;
		/* fall through */
	case TEXT:
		if (value[0]) /* an empty value is one that was not given */
			*(const char **)field = value;
		return 0;
	}
	return -EINVAL;
}

static int parse_one(struct options *out, const char *arg)
{
	const char *value = strchr(arg, '=');
	const struct option_row *row;

	if (strcmp(arg, "--version") == 0) {
		out->version = true;
		return 0;
	}
	if (strncmp(arg, "--", 2) != 0 || !value)
		return -EINVAL;
	row = find_row(arg + 2, (size_t)(value - arg - 2));
	return row ? set(out, row, value + 1) : -EINVAL;
}

int options_parse(int argc, char **argv, struct options *out, const char **why)
{
	struct options o = DEFAULTS;

	for (int i = 1; i < argc; i++) {
		if (parse_one(&o, argv[i]) < 0) {
			*why = argv[i];
			return -EINVAL;
		}
	}
	if (!o.version && o.listen_fd < 0) {
		*why = "--listen-fd is missing";
		return -EINVAL;
	}
	*out = o;
	return 0;
}
