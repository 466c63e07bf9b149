/*
 * host.c - the host adapter: its two tables, and what each call comes to on the disk (folder.h) and of processes
 * (daemon.h).
 */
#include "providers/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "providers/crashpoint.h"
#include "providers/host/daemon.h"
#include "providers/host/folder.h"
#include "wire/clock.h"
#include "wire/fd.h"

#define REMOVE_MS (10 * 60 * 1000) /* of a workspace with a million files on a slow disk */

struct host {
	struct sandbox_adapter base;
	struct adapter_env env;
};

struct host_session {
	struct sandbox_session base;
	struct host *host;
};

static const struct sandbox_info host_info = {
	.provider = "host",
	.egress = EGRESS_UNENFORCED,
	.browser = BROWSER_NONE,
	.desktop = DESKTOP_NONE,
	.lookup = { .create = LOOKUP_FINAL, .snapshot = LOOKUP_NONE },
	.termination = TERMINATION_CONFIRMED,
};

static struct host *host_of(struct sandbox_adapter *a)
{
	return (struct host *)a;
}

static struct host_session *session_of(struct sandbox_session *s)
{
	return (struct host_session *)s;
}

__attribute__((format(printf, 3, 4))) static enum result say(
        struct sandbox_error *err, enum result r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	return r;
}

/* ---- The session ---- */

static enum result host_connect(
        struct sandbox_session *s, const struct sandbox_context *ctx, int *out_fd, struct sandbox_error *err)
{
	struct host_daemon_of d = {
		.env = &session_of(s)->host->env, .ctx = ctx, .id = s->id, .folder = -1, .err = err
	};
	struct folder_record record;

	int folders = folders_open(d.env->state_dir);
	d.folder = folders < 0 ? folders : folder_open(folders, s->id);
	fd_close(&folders);
	int r = d.folder < 0 ? d.folder : folder_read(d.folder, &record);
	enum result result;
	if (r == -ENOENT)
		result = say(err, RESULT_NOT_FOUND, "the sandbox's folder is gone");
	else if (r < 0)
		result = say(err, RESULT_UNAVAILABLE, "cannot read the sandbox's folder: %s", strerror(-r));
	else
		result = host_daemon_connect(&d, &record, out_fd);
	if (d.folder >= 0)
		fd_close(&d.folder);
	return result;
}

static enum result remove_folder(
        int folders, const char *id, const struct sandbox_context *ctx, struct sandbox_error *err)
{
	struct remove_error why;
	uint64_t deadline_ms = ctx->deadline_ms ? ctx->deadline_ms : clock_mono_ms() + REMOVE_MS;

	enum result fenced = context_fence(ctx);
	if (fenced != RESULT_OK)
		return fenced;
	int r = folder_remove(folders, id, deadline_ms, &why);
	if (r == -EXDEV)
		return say(
		        err, RESULT_RELEASE_FAILED, "%s in the workspace is a mount point: unmount it first", why.path);
	if (r < 0)
		return say(err, RESULT_RELEASE_FAILED, "cannot remove the sandbox's folder%s%s: %s",
		        *why.path ? " at " : "", why.path, strerror(-r));
	return RESULT_OK;
}

static enum result host_close(struct sandbox_session *s, const struct sandbox_context *ctx, struct sandbox_error *err)
{
	struct host_daemon_of d = {
		.env = &session_of(s)->host->env, .ctx = ctx, .id = s->id, .folder = -1, .err = err
	};

	int folders = folders_open(d.env->state_dir);
	if (folders >= 0)
		d.folder = folder_open(folders, s->id);
	enum result r = host_daemon_stop(&d);
	CRASH_POINT("host.close.after_stop");
	if (d.folder >= 0)
		fd_close(&d.folder);
	if (r == RESULT_OK && folders >= 0)
		r = remove_folder(folders, s->id, ctx, err);
	else if (r == RESULT_OK && folders != -ENOENT)
		r = say(err, RESULT_RELEASE_FAILED, "cannot open the state directory: %s", strerror(-folders));
	if (folders >= 0)
		fd_close(&folders);
	return r;
}

static void host_session_free(struct sandbox_session *s)
{
	free(session_of(s));
}

/* What is NULL here comes later, and is not_supported until then. */
static const struct sandbox_session_ops session_ops = {
	.close = host_close,
	.connect = host_connect,
	.free = host_session_free,
};

static enum result session_new(struct host *h, const char *id, struct sandbox_session **out, struct sandbox_error *err)
{
	struct host_session *s = calloc(1, sizeof(*s));
	if (!s)
		return say(err, RESULT_UNAVAILABLE, "out of memory");

	s->base.ops = &session_ops;
	s->host = h;
	snprintf(s->base.id, sizeof(s->base.id), "%s", id);
	snprintf(s->base.ref, sizeof(s->base.ref), "%s", id);
	*out = &s->base;
	return RESULT_OK;
}

/* ---- create ---- */

static bool lies_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* The directory that a user gave, with its links resolved once and for all. */
static enum result check_directory(struct host *h, const char *given, char out[PATH_MAX], struct sandbox_error *err)
{
	char state[PATH_MAX];

	if (given[0] != '/')
		return say(err, RESULT_INVALID_ARGUMENT, "the directory is not an absolute path");
	if (!realpath(given, out))
		return say(err, errno == EACCES ? RESULT_PERMISSION_DENIED : RESULT_INVALID_PATH, "the directory: %s",
		        strerror(errno));
	if (strchr(out, '\n'))
		return say(err, RESULT_INVALID_ARGUMENT, "the directory's path holds a line break");
	/* One sandbox's workspace in another's folder would go with it. */
	if (realpath(h->env.state_dir, state) && lies_in(out, state))
		return say(err, RESULT_INVALID_ARGUMENT, "the directory is inside the state directory");
	int fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return say(err, errno == EACCES ? RESULT_PERMISSION_DENIED : RESULT_INVALID_PATH, "the directory: %s",
		        strerror(errno));
	fd_close(&fd);
	return RESULT_OK;
}

static enum result make_folder(struct host *h, const struct sandbox_context *ctx, const char *id,
        const struct folder_record *record, struct sandbox_error *err)
{
	struct remove_error why;

	enum result fenced = context_fence(ctx);
	if (fenced != RESULT_OK)
		return fenced;
	int folders = folders_make(h->env.state_dir);
	int r = folders < 0 ? folders : folder_prepare(folders, record);
	if (r == 0)
		fenced = context_fence(
		        ctx); /* a second time, since a disk may have taken long: what follows cannot be taken back */
	if (r == 0 && fenced == RESULT_OK)
		r = folder_publish(folders, record->operation_key, id);
	if (folders >= 0 && (r < 0 || fenced != RESULT_OK))
		(void)folder_discard(folders, record->operation_key, &why); /* what stays, lookup() clears */
	if (folders >= 0)
		fd_close(&folders);
	if (r == -EEXIST)
		return say(err, RESULT_ALREADY_EXISTS, "there is a sandbox with that id");
	if (r < 0)
		return say(err, RESULT_UNAVAILABLE, "cannot make the sandbox's folder: %s", strerror(-r));
	return fenced;
}

static enum result host_create(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        const struct sandbox_create *options, struct sandbox_session **out, struct sandbox_error *err)
{
	struct host *h = host_of(a);
	struct folder_record record = { .directory = "" };

	if (options->memory_bytes || options->cpu_millis || options->pids)
		return say(err, RESULT_NOT_SUPPORTED, "the host provider enforces no limits");
	snprintf(record.operation_key, sizeof(record.operation_key), "%s", operation_key);
	snprintf(record.name, sizeof(record.name), "%s", options->name ? options->name : "");
	enum result r = RESULT_OK;
	if (options->directory && *options->directory)
		r = check_directory(h, options->directory, record.directory, err);
	if (r == RESULT_OK)
		r = make_folder(h, ctx, options->id, &record, err);
	return r == RESULT_OK ? session_new(h, options->id, out, err) : r;
}

/* ---- lookup, attach ---- */

static enum result find(struct host *h, int folders, const char *operation_key, enum lookup_outcome *outcome,
        struct sandbox_session **out, struct sandbox_error *err)
{
	char id[SANDBOX_ID_BYTES];
	struct remove_error why;

	int r = folder_find(folders, operation_key, id);
	if (r == 1) {
		enum result made = session_new(h, id, out, err);

		if (made == RESULT_OK)
			*outcome = LOOKUP_FOUND;
		return made;
	}
	/* Nothing of that key has come to be. What a creation that was cut short left goes, and then it is final. */
	if (r == 0)
		r = folder_discard(folders, operation_key, &why);
	*outcome = r == 0 ? LOOKUP_NOT_FOUND : LOOKUP_UNKNOWN;
	if (r < 0)
		(void)say(err, RESULT_OK, "the sandboxes' folder cannot be looked through: %s", strerror(-r));
	return RESULT_OK;
}

static enum result host_lookup(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        enum lookup_outcome *outcome, struct sandbox_session **out, struct sandbox_error *err)
{
	struct host *h = host_of(a);

	enum result r = context_fence(ctx);
	if (r != RESULT_OK)
		return r;
	int folders = folders_open(h->env.state_dir);
	if (folders < 0) {
		*outcome = folders == -ENOENT ? LOOKUP_NOT_FOUND : LOOKUP_UNKNOWN;
		if (folders != -ENOENT)
			(void)say(err, RESULT_OK, "the sandboxes' folder cannot be opened: %s", strerror(-folders));
		return RESULT_OK;
	}
	r = find(h, folders, operation_key, outcome, out, err);
	fd_close(&folders);
	return r;
}

static enum result host_attach(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
        struct sandbox_session **out, struct sandbox_error *err)
{
	struct host *h = host_of(a);

	if (!name_valid(ref) || strlen(ref) >= SANDBOX_ID_BYTES)
		return say(err, RESULT_INVALID_ARGUMENT, "the reference is not one of this provider");
	enum result r = context_fence(ctx);
	if (r != RESULT_OK)
		return r;
	int folders = folders_open(h->env.state_dir);
	int there = folders == -ENOENT ? 0 : folders < 0 ? folders : folder_exists(folders, ref);
	if (folders >= 0)
		fd_close(&folders);
	if (there < 0)
		return say(err, RESULT_UNAVAILABLE, "cannot read the sandbox's folder: %s", strerror(-there));
	/* A folder that somebody has removed does not end what runs: as long as it does, it is there to be closed. */
	bool lives = there == 1;
	const struct host_daemon_of d = { .env = &h->env, .ctx = ctx, .id = ref, .folder = -1, .err = err };
	if (!lives)
		r = host_daemon_lives(&d, &lives);
	if (r != RESULT_OK)
		return r;
	if (!lives)
		return say(err, RESULT_NOT_FOUND, "there is no such sandbox");
	return session_new(h, ref, out, err);
}

static void host_free(struct sandbox_adapter *a)
{
	free(host_of(a));
}

static const struct sandbox_adapter_ops adapter_ops = {
	.create = host_create,
	.lookup = host_lookup,
	.attach = host_attach,
	.free = host_free,
};

struct sandbox_adapter *host_adapter_new(const struct adapter_env *env)
{
	struct host *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;

	h->base.ops = &adapter_ops;
	h->base.info = &host_info;
	h->env = *env;
	return &h->base;
}
