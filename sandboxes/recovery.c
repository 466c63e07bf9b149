/*
 * recovery.c - the start of recovery.h.
 */
#include "sandboxes/recovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/instance.h"
#include "sandboxes/console.h"
#include "sandboxes/custody.h"
#include "sandboxes/lifecycle.h"
#include "sandboxes/sandbox.h"
#include "wire/codes.h"
#include "wire/log.h"

struct loading {
	struct daemon *d;
	struct sandbox *sandbox; /* whose consoles are read */
	bool same_boot;          /* its console daemon was of this boot: pids that it told still mean something */
	int err;
};

/* ---- Consoles ---- */

static Wire__ConsoleInfo *remembered_info(const struct ledger_console *row)
{
	Wire__ConsoleInfo *info = malloc(sizeof(*info));

	if (!info)
		return NULL;
	wire__console_info__init(info);
	if (info_set(&info->name, row->name) < 0) {
		free(info);
		return NULL;
	}
	info->incarnation = row->incarnation;
	info->state = row->state;
	info->tail_offset = row->tail_offset;
	return info;
}

/* As it was described; a row without a description is a dropped name. */
static Wire__ConsoleInfo *row_info(const struct ledger_console *row, bool *dropped)
{
	Wire__ConsoleInfo *info =
	        row->info_bytes > 0 ? wire__console_info__unpack(NULL, row->info_bytes, row->info) : NULL;

	*dropped = false;
	if (info && strcmp(info->name, row->name) == 0) {
		info->incarnation = row->incarnation;
		info->state = row->state;
		return info;
	}
	if (info)
		wire__console_info__free_unpacked(info, NULL);
	*dropped = true;
	return remembered_info(row);
}

static bool row_valid(const struct ledger_console *row)
{
	return name_valid(row->name) &&
	       (row->state == CONSOLE_RUNNING || row->state == CONSOLE_EXITED || row->state == CONSOLE_LOST);
}

static void look_at_file(struct console *c)
{
	char dir[PATH_MAX];
	struct custody_entry e;
	struct sandbox *s = c->sandbox;
	struct custody_place place = { .dir = dir, .sandbox_id = s->id, .console = c->name };

	if (sandbox_path(s->daemon->env.state_dir, s->id, "custody", dir, sizeof(dir)) < 0)
		return;
	int r = custody_peek(&place, &e);
	if (r < 0 && r != -ENOENT)
		log_error(sandbox_label(s), c->name, "what was kept of it cannot be used: %s", strerror(-r));
	if (r < 0)
		return;
	c->filed = true;
	c->file_incarnation = e.incarnation;
	c->file_state = e.state;
	c->file_tail = e.tail;
	c->file_at_ms = e.written_at_ms;
}

static bool load_console(const struct ledger_console *row, void *ctx)
{
	struct loading *l = ctx;
	bool dropped;

	if (!row_valid(row)) {
		log_error(sandbox_label(l->sandbox), NULL, "the ledger has a console that cannot be; left alone");
		return true;
	}
	Wire__ConsoleInfo *info = row_info(row, &dropped);
	struct console *c = info ? console_add(l->sandbox, info) : NULL;
	if (!c) {
		l->err = -ENOMEM;
		return false;
	}
	if (!l->same_boot)
		info->pid_start_time = 0; /* whoever has the number now is a stranger, never to be looked for */
	c->dropped = dropped;
	c->row_incarnation = row->incarnation;
	c->row_state = row->state;
	c->high = row->tail_offset;
	if (!dropped)
		look_at_file(c);
	return true;
}

/* ---- Sandboxes ---- */

/* A row whose envelope cannot be read is still a sandbox that exists and can be removed. */
static int row_spec(const struct ledger_sandbox *row, struct spec *out)
{
	int r = spec_from_json(row->spec_json, out);

	if (r == -EUCLEAN) {
		log_error(row->id, NULL, "the ledger's record of how it was created cannot be read");
		r = spec_from_json("{}", out);
	}
	if (r < 0)
		return r;
	free(out->name);
	free(out->provider);
	out->name = strdup(row->name);
	out->provider = strdup(row->provider);
	if (out->name && out->provider)
		return 0;
	spec_release(out);
	return -ENOMEM;
}

static bool is_of_this_boot(const char *instance)
{
	struct instance i;
	char boot[INSTANCE_BOOT_BYTES];

	return instance_parse(instance, &i) == 0 && instance_boot_id(boot) == 0 && strcmp(i.boot_id, boot) == 0;
}

static bool load_sandbox(const struct ledger_sandbox *row, void *ctx)
{
	struct loading *l = ctx;
	struct spec spec;

	if (row->state == SANDBOX_TERMINATED)
		return true;
	l->err = row_spec(row, &spec);
	if (l->err < 0)
		return false;
	l->err = sandbox_add(l->d, row->id, &spec, &l->sandbox);
	if (l->err < 0) {
		spec_release(&spec);
		return false;
	}
	struct sandbox *s = l->sandbox;
	s->state = row->state;
	s->created_at_ms = row->created_at_ms;
	snprintf(s->reason, sizeof(s->reason), "%s", row->reason);
	snprintf(s->resource_id, sizeof(s->resource_id), "%s", row->resource_id);
	l->same_boot = is_of_this_boot(row->instance);
	int r = ledger_each_console(l->d->env.ledger, s->id, load_console, l);
	if (l->err == 0)
		l->err = r;
	return l->err == 0;
}

static bool load_resource(const struct ledger_resource *row, void *ctx)
{
	struct loading *l = ctx;

	for (struct sandbox *s = l->d->sandboxes; s; s = s->next) {
		if (strcmp(s->resource_id, row->resource_id) != 0)
			continue;
		snprintf(s->ref, sizeof(s->ref), "%s", row->ref);
		snprintf(s->operation_key, sizeof(s->operation_key), "%s", row->operation_key);
		s->loaded_resource = (int)row->state;
	}
	return true;
}

int recovery_load(struct daemon *d, char *message, unsigned size)
{
	struct loading l = { .d = d };

	int r = ledger_each_sandbox(d->env.ledger, load_sandbox, &l);
	if (r == 0)
		r = l.err;
	if (r == 0)
		r = ledger_each_resource(d->env.ledger, load_resource, &l);
	if (r < 0)
		snprintf(message, size, "cannot read the ledger: %s", strerror(-r));
	return r;
}

static void begin_one(struct sandbox *s)
{
	if (!s->adapter) {
		/* Only the adapter that made it may resolve it: it stays as it is, for a build that has it. */
		char why[REASON_BYTES];
		snprintf(why, sizeof(why), "this ringsided has no provider '%.64s'", s->spec.provider);
		sandbox_set_state(s, SANDBOX_FAILED, why);
	} else if (s->loaded_resource < 0) {
		sandbox_set_state(s, SANDBOX_FAILED, "the ledger has no resource for it");
	} else {
		lifecycle_recover(s, (enum ledger_state)s->loaded_resource);
	}
}

void recovery_begin(struct daemon *d)
{
	struct sandbox *s = d->sandboxes;

	while (s) {
		struct sandbox *current = sandbox_ref(s);
		begin_one(current);
		s = current->next;
		sandbox_unref(current);
	}
}
