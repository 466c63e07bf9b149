/*
 * sandbox.c - the table of sandboxes of sandbox.h, their names, and how they are described.
 */
#include "sandboxes/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandboxes/console.h"
#include "sandboxes/hosting.h"
#include "sandboxes/link.h"
#include "wire/log.h"

/* ---- The table ---- */

int sandbox_add(struct daemon *d, const char *id, struct spec *spec, struct sandbox **out)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	int r = -ENOMEM;

	if (!s)
		return -ENOMEM;
	if (lane_new(d->provider_jobs, &s->calls) < 0 || lane_new(d->disk_jobs, &s->disk) < 0)
		goto failed;
	if (strlen(id) >= sizeof(s->id)) {
		r = -EINVAL;
		goto failed;
	}
	s->daemon = d;
	r = hosting_init(s);
	if (r < 0)
		goto failed;
	s->refs = 1;
	s->loaded_resource = -1;
	s->state = SANDBOX_CREATING;
	snprintf(s->id, sizeof(s->id), "%s", id);
	s->spec = *spec;
	*spec = (struct spec){ 0 };
	s->adapter = ringsided_adapter(d, s->spec.provider);
	*d->sandboxes_end = s;
	d->sandboxes_end = &s->next;
	*out = s;
	return 0;
failed:
	lane_free(s->calls);
	lane_free(s->disk);
	free(s);
	return r;
}

void sandbox_del(struct sandbox *s)
{
	struct daemon *d = s->daemon;

	for (struct sandbox **at = &d->sandboxes; *at; at = &(*at)->next) {
		if (*at != s)
			continue;
		*at = s->next;
		if (d->sandboxes_end == &s->next)
			d->sandboxes_end = at;
		sandbox_unref(s);
		return;
	}
}

struct sandbox *sandbox_ref(struct sandbox *s)
{
	s->refs++;
	return s;
}

void sandbox_unref(struct sandbox *s)
{
	if (!s || --s->refs > 0)
		return;
	console_free_all(s);
	hosting_release(s);
	session_free(s->session);
	lane_free(s->calls);
	lane_free(s->disk);
	spec_release(&s->spec);
	free(s);
}

struct sandbox *sandbox_find_name(struct daemon *d, const char *name)
{
	for (struct sandbox *s = d->sandboxes; s; s = s->next)
		if (*s->spec.name && strcmp(s->spec.name, name) == 0)
			return s;
	return NULL;
}

struct sandbox *sandbox_find(struct daemon *d, const char *name_or_id)
{
	struct sandbox *s = sandbox_find_name(d, name_or_id);

	if (s)
		return s;
	for (s = d->sandboxes; s; s = s->next)
		if (strcmp(s->id, name_or_id) == 0)
			return s;
	return NULL;
}

/* ---- What it is called, and how it is ---- */

const char *sandbox_label(const struct sandbox *s)
{
	return *s->spec.name ? s->spec.name : s->id;
}

void sandbox_set_state(struct sandbox *s, uint32_t state, const char *reason)
{
	if (s->state != state)
		log_info(sandbox_label(s), NULL, "%s → %s%s%s", sandbox_state_name(s->state), sandbox_state_name(state),
		        *reason ? ": " : "", reason);
	s->state = state;
	snprintf(s->reason, sizeof(s->reason), "%s", reason);
}

bool sandbox_usable(const struct sandbox *s)
{
	return s->state == SANDBOX_RUNNING && !s->closing;
}

const char *sandbox_why_unusable(const struct sandbox *s, char *out, size_t size)
{
	if (s->closing)
		snprintf(out, size, "sandbox %s is being removed", sandbox_label(s));
	else
		snprintf(out, size, "sandbox %s is %s%s%s", sandbox_label(s), sandbox_state_name(s->state),
		        *s->reason ? ": " : "", s->reason);
	return out;
}

int sandbox_path(const char *state_dir, const char *id, const char *sub, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/sandboxes/%s%s%s", state_dir, id, sub ? "/" : "", sub ? sub : "");

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* ---- Descriptions ---- */

void spec_describe(const struct spec *spec, Wire__SandboxInfo *out, struct sandbox_text *space)
{
	out->name = spec->name;
	out->provider = spec->provider;
	out->console_limit = spec->console_limit;
	out->ring_bytes = spec->ring_bytes;
	for (size_t i = 0; i < spec->nlabels; i++) {
		wire__label__init(&space->labels[i]);
		space->labels[i].key = spec->labels[i].key;
		space->labels[i].value = spec->labels[i].value;
		space->label_list[i] = &space->labels[i];
	}
	out->labels = space->label_list;
	out->n_labels = spec->nlabels;
}

/* The workspace of a host sandbox is the directory that was given, or one in its folder. */
static void describe_workspace(const struct sandbox *s, Wire__SandboxInfo *out, struct sandbox_text *space)
{
	const char *state_dir = s->daemon->env.state_dir;

	if (strcmp(s->spec.provider, "host") != 0)
		return;
	if (*s->spec.directory)
		snprintf(space->directory, sizeof(space->directory), "%s", s->spec.directory);
	else if (sandbox_path(state_dir, s->id, "workspace", space->directory, sizeof(space->directory)) < 0)
		return;
	out->workspace = out->directory = space->directory;
}

void sandbox_describe(const struct sandbox *s, Wire__SandboxInfo *out, struct sandbox_text *space)
{
	wire__sandbox_info__init(out);
	spec_describe(&s->spec, out, space);
	out->id = lend(s->id);
	out->state = s->state;
	out->reason = lend(s->reason);
	out->created_at_ms = s->created_at_ms;
	out->consoles_running = console_count_running(s);
	out->ref = lend(s->ref);
	out->limits = lend("none");
	describe_workspace(s, out, space);
	if (s->hosted) {
		out->consoled_pid = (uint32_t)link_peer_pid(s->link);
		out->consoled_version = lend(link_version(s->link));
	}
}
