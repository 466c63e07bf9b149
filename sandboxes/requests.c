/*
 * requests.c - requests about the daemon and about sandboxes.
 */
#include "sandboxes/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandboxes/console.h"
#include "sandboxes/gather.h"
#include "sandboxes/lifecycle.h"
#include "wire/frame.h"
#include "wire/log.h"
#include "wire/text.h"

#define SHOWN_BYTES 160

/* ---- hello, status ---- */

void on_hello(struct request *r)
{
	const Wire__ControlHello *q = r->q->hello;
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__ControlHelloReply hello = WIRE__CONTROL_HELLO_REPLY__INIT;

	if (q->protocol == 0) {
		request_fail(
		        r, RESULT_NOT_SUPPORTED, "protocol 0; this ringsided speaks 1 to %d", CONTROL_PROTOCOL_VERSION);
		return;
	}
	request_greet(r, q->client);
	hello.protocol = q->protocol < CONTROL_PROTOCOL_VERSION ? q->protocol : CONTROL_PROTOCOL_VERSION;
	hello.version = lend(RINGSIDE_VERSION);
	hello.pid = (uint32_t)getpid();
	m.body_case = WIRE__CONTROL_REPLY__BODY_HELLO;
	m.hello = &hello;
	request_reply(r, &m, NULL, 0);
}

void on_status(struct request *r)
{
	struct daemon *d = r->daemon;
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__StatusReply status = WIRE__STATUS_REPLY__INIT;
	char socket[PATH_MAX + 32];
	char *providers[DAEMON_MAX_PROVIDERS];

	snprintf(socket, sizeof(socket), "%s/%s", d->options.paths.runtime_dir, CONTROL_SOCKET);
	for (unsigned i = 0; i < d->nadapters; i++)
		providers[i] = lend(d->adapters[i]->info->provider);
	for (const struct sandbox *s = d->sandboxes; s; s = s->next) {
		status.sandboxes++;
		status.consoles += console_count_running(s);
	}
	status.pid = (uint32_t)getpid();
	status.version = lend(RINGSIDE_VERSION);
	status.started_at_ms = d->started_at_ms;
	status.epoch = d->env.epoch;
	status.clients = control_clients(d->control);
	status.socket = socket;
	status.state_dir = d->env.state_dir;
	status.providers = providers;
	status.n_providers = d->nadapters;
	status.default_provider = d->options.default_provider;
	m.body_case = WIRE__CONTROL_REPLY__BODY_STATUS;
	m.status = &status;
	request_reply(r, &m, NULL, 0);
}

/* ---- One sandbox ---- */

static void reply_sandbox(struct request *r, const struct sandbox *s)
{
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__SandboxInfo info;
	struct sandbox_text text;

	sandbox_describe(s, &info, &text);
	m.body_case = WIRE__CONTROL_REPLY__BODY_SANDBOX;
	m.sandbox = &info;
	request_reply(r, &m, NULL, 0);
}

/* A create is answered when the sandbox can be used. One that exists but whose console daemon does not start is still
 * made, and says so in its reason: a failure here would hide a sandbox that is there to be removed. */
static void on_created(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);

	if (code == RESULT_OK || sandbox_usable(r->sandbox))
		reply_sandbox(r, r->sandbox);
	else
		request_fail(r, code, "%s", message);
}

static void no_provider(struct request *r, const char *name)
{
	char list[256] = "", shown[SHOWN_BYTES];
	size_t at = 0;

	for (unsigned i = 0; i < r->daemon->nadapters && at < sizeof(list) - 66; i++)
		at += (size_t)snprintf(
		        list + at, sizeof(list) - at, "%s%.64s", i ? ", " : "", r->daemon->adapters[i]->info->provider);
	request_fail(r, RESULT_INVALID_ARGUMENT, "no provider '%s'; there are: %s",
	        text_escape(shown, sizeof(shown), name, strlen(name)), list);
}

/* Makes r->sandbox. false: it was answered. */
static bool create_sandbox(struct request *r, const Wire__CreateSandbox *q)
{
	struct spec spec = { 0 };
	char why[512];

	enum result code = spec_from_request(q, r->daemon->options.default_provider, &spec, why, sizeof(why));
	if (code != RESULT_OK) {
		request_fail(r, code, "%s", why);
		return false;
	}
	if (!ringsided_adapter(r->daemon, spec.provider)) {
		no_provider(r, spec.provider);
		spec_release(&spec);
		return false;
	}
	struct sandbox *s;
	int err = lifecycle_create(r->daemon, &spec, &s);
	spec_release(&spec);
	if (err < 0) {
		request_fail(r, RESULT_RESOURCE_LIMIT, "cannot begin to create a sandbox: %s", strerror(-err));
		return false;
	}
	r->sandbox = sandbox_ref(s);
	return true;
}

static void use_existing(struct request *r, struct sandbox *s)
{
	char why[REASON_BYTES + 128];

	r->sandbox = sandbox_ref(s);
	if (s->state == SANDBOX_CREATING)
		sandbox_use(s, &r->wait);
	else if (sandbox_usable(s))
		reply_sandbox(r, s);
	else
		request_fail(r, RESULT_NOT_RUNNING, "%s", sandbox_why_unusable(s, why, sizeof(why)));
}

void on_create(struct request *r)
{
	const Wire__CreateSandbox *q = r->q->create;
	struct sandbox *s = *q->name ? sandbox_find_name(r->daemon, q->name) : NULL;

	r->wait.done = on_created;
	r->wait.start = true;
	if (s && q->if_missing)
		use_existing(r, s);
	else if (s)
		request_fail(r, RESULT_ALREADY_EXISTS, "a sandbox '%s' exists already, it is %s", q->name,
		        sandbox_state_name(s->state));
	else if (create_sandbox(r, q))
		sandbox_use(r->sandbox, &r->wait);
}

bool request_sandbox_or_default(struct request *r, const char *name, bool create_default)
{
	Wire__CreateSandbox q = WIRE__CREATE_SANDBOX__INIT;
	struct sandbox *s = sandbox_find(r->daemon, name);

	if (s) {
		r->sandbox = sandbox_ref(s);
		return true;
	}
	if (!create_default || strcmp(name, "default") != 0) {
		request_no_such_sandbox(r, name);
		return false;
	}
	q.name = lend("default");
	return create_sandbox(r, &q);
}

/* ---- rm ---- */

static void on_removed(struct wait *w, enum result code, const char *message)
{
	struct request *r = request_of(w);

	if (code == RESULT_OK)
		reply_sandbox(r, r->sandbox);
	else
		request_fail(r, code, "sandbox %s was not released: %s", sandbox_label(r->sandbox), message);
}

void on_remove(struct request *r)
{
	r->wait.done = on_removed;
	sandbox_close(r->sandbox, &r->wait);
}

/* ---- Those that have ended: the ledger alone knows them ---- */

struct ended {
	struct request *r; /* the loop's */
	const struct calls_env *env;
	const char *wanted; /* one name or id, r's, which stays as it is meanwhile; NULL: all */
	Wire__SandboxInfo **list;
	size_t n;
	bool out_of_memory;
};

/* A description of its own: what the callback is given is gone after it. */
static Wire__SandboxInfo *copy_info(const Wire__SandboxInfo *info)
{
	size_t n = wire__sandbox_info__get_packed_size(info);
	uint8_t *packed = malloc(n ? n : 1);

	if (!packed)
		return NULL;
	wire__sandbox_info__pack(info, packed);
	Wire__SandboxInfo *copy = wire__sandbox_info__unpack(NULL, n, packed);
	free(packed);
	return copy;
}

static Wire__SandboxInfo *describe_row(const struct ledger_sandbox *row)
{
	Wire__SandboxInfo info = WIRE__SANDBOX_INFO__INIT;
	struct spec spec = { 0 };
	struct sandbox_text *text = malloc(sizeof(*text));

	if (!text)
		return NULL;
	/* A row whose envelope cannot be read is listed by what else it says. */
	if (spec_from_json(row->spec_json, &spec) == 0)
		spec_describe(&spec, &info, text);
	info.id = lend(row->id);
	info.name = lend(row->name);
	info.provider = lend(row->provider);
	info.state = row->state;
	info.reason = lend(row->reason);
	info.created_at_ms = row->created_at_ms;
	info.limits = lend("none");
	Wire__SandboxInfo *copy = copy_info(&info);
	spec_release(&spec);
	free(text);
	return copy;
}

static bool note_ended(const struct ledger_sandbox *row, void *ctx)
{
	struct ended *e = ctx;

	if (row->state != SANDBOX_TERMINATED)
		return true;
	if (e->wanted && strcmp(row->id, e->wanted) != 0 && strcmp(row->name, e->wanted) != 0)
		return true;
	Wire__SandboxInfo *info = describe_row(row);
	Wire__SandboxInfo **more = info ? reallocarray(e->list, e->n + 1, sizeof(*more)) : NULL;
	if (!more) {
		if (info)
			wire__sandbox_info__free_unpacked(info, NULL);
		e->out_of_memory = true;
		return false;
	}
	e->list = more;
	e->list[e->n++] = info;
	return true;
}

static void ended_work(void *arg)
{
	struct ended *e = arg;

	if (ledger_each_sandbox(e->env->ledger, note_ended, e) < 0)
		e->out_of_memory = true;
}

static void ended_free(struct ended *e)
{
	for (size_t i = 0; i < e->n; i++)
		wire__sandbox_info__free_unpacked(e->list[i], NULL);
	free(e->list);
}

static void ask_for_ended(struct request *r, const char *wanted, job_fn *done)
{
	struct ended e = { .r = r, .env = &r->daemon->env, .wanted = wanted };

	if (lane_add(r->daemon->lane, ended_work, done, &e, sizeof(e)) < 0)
		request_fail(r, RESULT_BUSY, "too many requests wait for the ledger");
}

/* ---- show ---- */

static void show_done(void *arg)
{
	struct ended *e = arg;
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;

	if (e->n > 0) {
		/* The one that had the name last. */
		m.body_case = WIRE__CONTROL_REPLY__BODY_SANDBOX;
		m.sandbox = e->list[e->n - 1];
		request_reply(e->r, &m, NULL, 0);
	} else if (e->out_of_memory) {
		request_fail(e->r, RESULT_INTERNAL, "the ledger cannot be read");
	} else {
		request_no_such_sandbox(e->r, e->wanted);
	}
	ended_free(e);
}

static void show_gathered(struct request *r, struct sandbox *const *all, size_t n)
{
	(void)n;
	reply_sandbox(r, all[0]);
}

void on_show(struct request *r)
{
	const char *name = r->q->show->sandbox;
	struct sandbox *s = sandbox_find(r->daemon, name);

	if (s)
		gather(r, s, false, show_gathered);
	else
		ask_for_ended(r, name, show_done);
}

/* ---- ls ---- */

/* Puts infos into as many replies as they need. */
struct lister {
	struct request *r;
	Wire__SandboxInfo **list;
	size_t n;
};

static void send_list(struct lister *l, bool more)
{
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__SandboxList list = WIRE__SANDBOX_LIST__INIT;

	list.sandboxes = l->list;
	list.n_sandboxes = l->n;
	m.body_case = WIRE__CONTROL_REPLY__BODY_LIST;
	m.list = &list;
	if (more)
		request_part(l->r, &m);
	else
		request_reply(l->r, &m, NULL, 0);
}

/* Of all, in order, the longest runs that fit a reply. */
static void reply_list(struct request *r, Wire__SandboxInfo **all, size_t n)
{
	struct lister l = { .r = r, .list = all };
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		size_t size = wire__sandbox_info__get_packed_size(all[i]);
		if (l.n > 0 && bytes + size > CONTROL_PART_BYTES) {
			send_list(&l, true);
			l.list = &all[i];
			l.n = 0;
			bytes = 0;
		}
		bytes += size;
		l.n++;
	}
	send_list(&l, false);
}

static void reply_all(struct request *r, Wire__SandboxInfo **ended, size_t nended)
{
	size_t n = nended, live = 0;
	Wire__SandboxInfo info;
	struct sandbox_text *text = malloc(sizeof(*text));

	for (const struct sandbox *s = r->daemon->sandboxes; s; s = s->next)
		live++;
	Wire__SandboxInfo **all = calloc(n + live + 1, sizeof(*all));
	bool ok = text && all;
	for (size_t i = 0; ok && i < nended; i++)
		all[i] = ended[i];
	for (const struct sandbox *s = r->daemon->sandboxes; ok && s; s = s->next) {
		sandbox_describe(s, &info, text);
		all[n] = copy_info(&info);
		ok = all[n] != NULL;
		n += ok;
	}
	if (ok)
		reply_list(r, all, n);
	else
		request_fail(r, RESULT_RESOURCE_LIMIT, "out of memory");
	for (size_t i = nended; all && i < n; i++)
		wire__sandbox_info__free_unpacked(all[i], NULL);
	free(all);
	free(text);
}

static void list_done(void *arg)
{
	struct ended *e = arg;

	if (e->out_of_memory)
		request_fail(e->r, RESULT_INTERNAL, "the ledger cannot be read");
	else
		reply_all(e->r, e->list, e->n);
	ended_free(e);
}

static void list_gathered(struct request *r, struct sandbox *const *all, size_t n)
{
	(void)all; /* with what has come to be meanwhile */
	(void)n;
	reply_all(r, NULL, 0);
}

void on_list(struct request *r)
{
	if (r->q->list->all)
		ask_for_ended(r, NULL, list_done);
	else
		gather(r, NULL, false, list_gathered);
}

/* ---- down ---- */

struct closing {
	struct wait wait;
	struct going_down *down;
	struct sandbox *sandbox; /* a reference */
};

struct going_down {
	struct request *r;
	size_t pending; /* closes, and one for the loop that begins them */
	char failed[256];
	size_t nclosing;
	struct closing list[];
};

static void close_over(struct going_down *g)
{
	struct request *r = g->r;

	if (--g->pending > 0)
		return;
	if (*g->failed) {
		request_fail(r, RESULT_RELEASE_FAILED, "not closed, so the daemon stays: %s", g->failed);
	} else {
		struct daemon *d = r->daemon;
		request_ok(r);
		ringsided_stop(d, "down --all");
	}
	free(g);
}

static void on_one_closed(struct wait *w, enum result code, const char *message)
{
	struct closing *c = (struct closing *)((char *)w - offsetof(struct closing, wait));
	struct going_down *g = c->down;
	size_t at = strlen(g->failed);

	if (code != RESULT_OK && at < sizeof(g->failed) - 1)
		snprintf(g->failed + at, sizeof(g->failed) - at, "%s%s (%.80s)", at ? ", " : "",
		        sandbox_label(c->sandbox), message);
	sandbox_unref(c->sandbox);
	close_over(g);
}

static void close_all(struct request *r)
{
	size_t n = 0;

	for (struct sandbox *s = r->daemon->sandboxes; s; s = s->next)
		n++;
	struct going_down *g = calloc(1, sizeof(*g) + n * sizeof(g->list[0]));
	if (!g) {
		request_fail(r, RESULT_RESOURCE_LIMIT, "out of memory");
		return;
	}
	g->r = r;
	g->pending = n + 1;
	for (struct sandbox *s = r->daemon->sandboxes; s; s = s->next)
		g->list[g->nclosing++] =
		        (struct closing){ .wait = { .done = on_one_closed }, .down = g, .sandbox = sandbox_ref(s) };
	for (size_t i = 0; i < n; i++)
		sandbox_close(g->list[i].sandbox, &g->list[i].wait);
	close_over(g);
}

void on_down(struct request *r)
{
	struct daemon *d = r->daemon;

	if (r->q->down->all) {
		close_all(r);
		return;
	}
	request_ok(r);
	ringsided_stop(d, "down");
}
