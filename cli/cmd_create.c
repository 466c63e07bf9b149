/* cmd_create.c - create: a new sandbox. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/show.h"
#include "wire/name.h"

struct create_options {
	const char *name, *provider, *dir;
	struct strings labels;
	struct number console_limit, ring, memory, cpu_millis, pids;
	bool if_missing;
};

#define AT(field) offsetof(struct create_options, field)
static const struct option_spec table[] = {
	{ .name = "name",
	        .letter = 'n',
	        .kind = OPTION_STRING,
	        .at = AT(name),
	        .value = "NAME",
	        .help = "a unique name" },
	{ .name = "provider",
	        .kind = OPTION_STRING,
	        .at = AT(provider),
	        .value = "P",
	        .help = "which adapter makes it" },
	{ .name = "dir",
	        .kind = OPTION_STRING,
	        .at = AT(dir),
	        .value = "DIR",
	        .help = "host: use this directory as the workspace" },
	{ .name = "label", .kind = OPTION_LIST, .at = AT(labels), .value = "KEY=VALUE", .help = "may be given again" },
	{ .name = "if-missing", .kind = OPTION_FLAG, .at = AT(if_missing), .help = "one of that name is fine" },
	{ .name = "console-limit",
	        .kind = OPTION_NUMBER,
	        .at = AT(console_limit),
	        .max = 256,
	        .value = "N",
	        .help = "live consoles at once (8)" },
	{ .name = "ring",
	        .kind = OPTION_SIZE,
	        .at = AT(ring),
	        .value = "SIZE",
	        .help = "output kept of each console (1M)" },
	{ .name = "memory",
	        .kind = OPTION_SIZE,
	        .at = AT(memory),
	        .value = "SIZE",
	        .help = "limit, where the provider has one" },
	{ .name = "cpu-millis",
	        .kind = OPTION_NUMBER,
	        .at = AT(cpu_millis),
	        .value = "N",
	        .help = "1000: one processor" },
	{ .name = "pids",
	        .kind = OPTION_NUMBER,
	        .at = AT(pids),
	        .max = UINT32_MAX,
	        .value = "N",
	        .help = "processes at once" },
	{ 0 },
};

/* KEY=VALUE, cut in place of a copy. */
static bool split_label(const char *word, char **copy, struct ringside_label *out)
{
	*copy = strdup(word);
	char *equals = *copy ? strchr(*copy, '=') : NULL;
	if (!equals)
		return false;
	*equals = '\0';
	*out = (struct ringside_label){ .key = *copy, .value = equals + 1 };
	return label_key_valid(*copy);
}

static int create(const struct invocation *inv, const struct ringside_create *spec)
{
	int status;
	struct ringside *rs;
	struct ringside_sandbox *s;
	struct ringside_error err;
	if (!take_daemon(inv, &rs, &status))
		return status;
	if (ringside_create(rs, spec, &s, &err)) {
		status = report_error(inv, &err);
	} else {
		if (inv->json) {
			status = json_print(json_sandbox(s, false));
		} else {
			char name[2 * NAME_MAX_BYTES];
			const char *shown = *s->name ? s->name : s->id;
			puts(ringside_escape(name, sizeof(name), shown, strlen(shown)));
			status = finish_output();
		}
		ringside_free(s);
	}
	ringside_close(rs);
	return status;
}

static int run_create(struct invocation *inv, const void *options)
{
	const struct create_options *o = options;
	char dir[PATH_MAX], shown[256];
	int status;
	if (inv->words.nplain > 0)
		return report_usage(inv, "a name goes after --name: ringside create --name %s",
		        name_valid(inv->words.plain[0]) ? inv->words.plain[0] : "NAME");
	if (inv->words.dashes)
		return report_code(inv, RINGSIDE_NOT_SUPPORTED,
		        "a sandbox with a workload of its own is not supported yet: start it as a console");
	if (o->name && !name_valid(o->name))
		return report_usage(
		        inv, "not a name (1 to %d of A-Z a-z 0-9 . _ -, not starting with . or -)", NAME_MAX_BYTES);
	if (o->dir && !realpath(o->dir, dir))
		return report_code(inv, RINGSIDE_INVALID_PATH, "--dir %s: %s",
		        ringside_escape(shown, sizeof(shown), o->dir, strlen(o->dir)), strerrordesc_np(errno));

	struct ringside_create spec = {
		.name = o->name,
		.provider = o->provider,
		.directory = o->dir ? dir : NULL,
		.console_limit = (uint32_t)o->console_limit.value,
		.ring_bytes = o->ring.value,
		.if_missing = o->if_missing,
		.memory_bytes = o->memory.value,
		.cpu_millis = o->cpu_millis.value,
		.pids = (uint32_t)o->pids.value,
		.nlabels = o->labels.count,
	};
	struct ringside_label *labels = calloc(o->labels.count + 1, sizeof(*labels));
	char **copies = calloc(o->labels.count + 1, sizeof(*copies));
	size_t bad = o->labels.count;
	for (size_t i = 0; labels && copies && i < o->labels.count; i++)
		if (!split_label(o->labels.items[i], &copies[i], &labels[i]) && bad == o->labels.count)
			bad = i;
	spec.labels = labels;
	if (!labels || !copies)
		status = report_code(inv, RINGSIDE_RESOURCE_LIMIT, "out of memory");
	else if (bad < o->labels.count)
		status = report_usage(inv, "--label takes KEY=VALUE, KEY of A-Z a-z 0-9 . _ / -");
	else
		status = create(inv, &spec);
	for (size_t i = 0; copies && i < o->labels.count; i++)
		free(copies[i]);
	free(copies);
	free(labels);
	return status;
}

const struct command command_create = {
	.name = "create",
	.arguments = "[--name NAME] [options]",
	.summary = "make a sandbox; prints its name, or its id when it has none",
	.options = table,
	.options_size = sizeof(struct create_options),
	.run = run_create,
};
