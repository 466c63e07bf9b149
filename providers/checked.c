/*
 * checked.c - the way to an adapter's methods: what is a caller's bug for every adapter is refused here, once, before
 * anything is sent.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "providers/sandbox.h"
#include "wire/name.h"

__attribute__((format(printf, 3, 4))) static enum result refuse(
        struct sandbox_error *err, enum result r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	return r;
}

#define BUG(...) refuse(err, RESULT_INVALID_ARGUMENT, __VA_ARGS__)

/* Adapters may write to *err without asking whether anyone wants it. */
#define ERROR_OR_LOCAL(err)            \
	struct sandbox_error unwanted; \
	if (!(err))                    \
		(err) = &unwanted;     \
	(err)->message[0] = '\0'

static enum result check_context(const struct sandbox_context *ctx, struct sandbox_error *err)
{
	return ctx && ctx->fence ? RESULT_OK : BUG("no context, or one without a fence");
}

static enum result check_key(const char *what, const char *key, struct sandbox_error *err)
{
	if (!key || !*key)
		return BUG("no %s", what);
	if (strlen(key) >= SANDBOX_KEY_BYTES)
		return BUG("the %s is longer than %d bytes", what, SANDBOX_KEY_BYTES - 1);
	for (const char *p = key; *p; p++)
		if (*p <= ' ' || *p > '~')
			return BUG("the %s holds a character that is not printable ASCII", what);
	return RESULT_OK;
}

static enum result check_text(const char *what, const char *text, size_t size, struct sandbox_error *err)
{
	if (!text || !*text)
		return BUG("no %s", what);
	return strlen(text) < size ? RESULT_OK : BUG("the %s is longer than %zu bytes", what, size - 1);
}

static enum result check_create(const struct sandbox_create *o, struct sandbox_error *err)
{
	if (!o || !o->id || !name_valid(o->id) || strlen(o->id) >= SANDBOX_ID_BYTES)
		return BUG("the sandbox has no id, or one that is not a name");
	if (o->name && *o->name && !name_valid(o->name))
		return BUG("the sandbox's name is not a name");
	return RESULT_OK;
}

/* ---- Adapters ---- */

#define LACKS(what) refuse(err, RESULT_NOT_SUPPORTED, "%s cannot %s", a->info->provider, what)

enum result adapter_create(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        const struct sandbox_create *options, struct sandbox_session **out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_key("operation key", operation_key, err);
	if (r == RESULT_OK)
		r = check_create(options, err);
	if (r != RESULT_OK)
		return r;
	return a->ops->create ? a->ops->create(a, ctx, operation_key, options, out, err) : LACKS("create");
}

enum result adapter_restore(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *snapshot_id,
        const char *manifest_hash, const char *operation_key, const struct sandbox_create *options,
        struct sandbox_session **out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_text("snapshot id", snapshot_id, SANDBOX_REF_BYTES, err);
	if (r == RESULT_OK)
		r = check_text("manifest hash", manifest_hash, SANDBOX_HASH_BYTES, err);
	if (r == RESULT_OK)
		r = check_key("operation key", operation_key, err);
	if (r == RESULT_OK)
		r = check_create(options, err);
	if (r != RESULT_OK)
		return r;
	if (!a->ops->restore)
		return LACKS("restore snapshots");
	return a->ops->restore(a, ctx, snapshot_id, manifest_hash, operation_key, options, out, err);
}

static void soften(enum lookup_class declared, enum lookup_outcome *outcome)
{
	if (*outcome == LOOKUP_NOT_FOUND && declared != LOOKUP_FINAL)
		*outcome = LOOKUP_NOT_FOUND_NONFINAL;
}

enum result adapter_lookup(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        enum lookup_outcome *outcome, struct sandbox_session **out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_key("operation key", operation_key, err);
	if (r != RESULT_OK)
		return r;
	if (!a->ops->lookup || a->info->lookup.create == LOOKUP_NONE)
		return LACKS("look a creation up");
	r = a->ops->lookup(a, ctx, operation_key, outcome, out, err);
	if (r == RESULT_OK)
		soften(a->info->lookup.create, outcome);
	return r;
}

enum result adapter_lookup_snapshot(struct sandbox_adapter *a, const struct sandbox_context *ctx,
        const char *operation_key, enum lookup_outcome *outcome, struct snapshot_data *out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_key("operation key", operation_key, err);
	if (r != RESULT_OK)
		return r;
	if (!a->ops->lookup_snapshot || a->info->lookup.snapshot == LOOKUP_NONE)
		return LACKS("look a snapshot up");
	r = a->ops->lookup_snapshot(a, ctx, operation_key, outcome, out, err);
	if (r == RESULT_OK)
		soften(a->info->lookup.snapshot, outcome);
	return r;
}

enum result adapter_attach(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
        struct sandbox_session **out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_text("reference", ref, SANDBOX_REF_BYTES, err);
	if (r != RESULT_OK)
		return r;
	if (!a->ops->attach)
		return LACKS("attach to a sandbox");
	r = a->ops->attach(a, ctx, ref, out, err);
	return r == RESULT_NOT_FOUND && a->info->lookup.create != LOOKUP_FINAL ? RESULT_RESOURCE_UNKNOWN : r;
}

enum result adapter_release(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
        enum released *out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_text("reference", ref, SANDBOX_REF_BYTES, err);
	if (r != RESULT_OK)
		return r;
	return a->ops->release ? a->ops->release(a, ctx, ref, out, err) : LACKS("release snapshots");
}

void adapter_free(struct sandbox_adapter *a)
{
	if (a)
		a->ops->free(a);
}

/* ---- Sessions ---- */

#undef LACKS
#define LACKS(what) refuse(err, RESULT_NOT_SUPPORTED, "the provider of %s cannot %s", s->id, what)

static enum result check_env(const char *const *env, struct sandbox_error *err)
{
	char name[256];

	for (; env && *env; env++) {
		size_t n = strcspn(*env, "=");

		if ((*env)[n] != '=')
			return BUG("an environment entry has no '='");
		if (n >= sizeof(name))
			return BUG("an environment name is longer than %zu bytes", sizeof(name) - 1);
		memcpy(name, *env, n);
		name[n] = '\0';
		if (!env_name_valid(name))
			return BUG("an environment name is malformed or reserved");
	}
	return RESULT_OK;
}

enum result session_exec(struct sandbox_session *s, const struct sandbox_context *ctx,
        const struct exec_options *options, struct exec_output *out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r != RESULT_OK)
		return r;
	if (!options || !options->argv || !options->argv[0] || !*options->argv[0])
		return BUG("the command is empty");
	r = check_env(options->env, err);
	if (r == RESULT_OK)
		r = check_key("process key", options->process_key, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->exec ? s->ops->exec(s, ctx, options, out, err) : LACKS("run commands");
}

enum result session_terminate(struct sandbox_session *s, const struct sandbox_context *ctx, const char *process_key,
        enum terminated *out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_key("process key", process_key, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->terminate ? s->ops->terminate(s, ctx, process_key, out, err) : LACKS("end commands");
}

static enum result check_transfer(
        const struct sandbox_context *ctx, const char *path, int fd, struct sandbox_error *err)
{
	enum result r = check_context(ctx, err);
	if (r != RESULT_OK)
		return r;
	if (!path || !*path)
		return BUG("no path");
	return fd >= 0 ? RESULT_OK : BUG("no descriptor");
}

enum result session_upload(struct sandbox_session *s, const struct sandbox_context *ctx, const char *path, int from_fd,
        struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_transfer(ctx, path, from_fd, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->upload ? s->ops->upload(s, ctx, path, from_fd, err) : LACKS("take files");
}

enum result session_download(struct sandbox_session *s, const struct sandbox_context *ctx, const char *path, int to_fd,
        struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_transfer(ctx, path, to_fd, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->download ? s->ops->download(s, ctx, path, to_fd, err) : LACKS("give files");
}

enum result session_snapshot(struct sandbox_session *s, const struct sandbox_context *ctx, const char *operation_key,
        struct snapshot_data *out, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r == RESULT_OK)
		r = check_key("operation key", operation_key, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->snapshot ? s->ops->snapshot(s, ctx, operation_key, out, err) : LACKS("take snapshots");
}

enum result session_close(struct sandbox_session *s, const struct sandbox_context *ctx, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->close ? s->ops->close(s, ctx, err) : LACKS("close it");
}

enum result session_export_tree(struct sandbox_session *s, const struct sandbox_context *ctx, struct exec_output *out,
        struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->export_tree ? s->ops->export_tree(s, ctx, out, err) : LACKS("export its tree");
}

enum result session_import_tree(
        struct sandbox_session *s, const struct sandbox_context *ctx, int from_fd, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r != RESULT_OK)
		return r;
	if (from_fd < 0)
		return BUG("no descriptor");
	return s->ops->import_tree ? s->ops->import_tree(s, ctx, from_fd, err) : LACKS("import a tree");
}

enum result session_connect(
        struct sandbox_session *s, const struct sandbox_context *ctx, int *out_fd, struct sandbox_error *err)
{
	ERROR_OR_LOCAL(err);
	enum result r = check_context(ctx, err);
	if (r != RESULT_OK)
		return r;
	return s->ops->connect ? s->ops->connect(s, ctx, out_fd, err) : LACKS("connect to its console daemon");
}

void session_free(struct sandbox_session *s)
{
	if (s)
		s->ops->free(s);
}
