/* What is a caller's bug is refused before the adapter hears of it; what an adapter lacks is said, never pretended. */
#include "tests/unit/providers/fixture.h"

/* ---- An adapter that counts what reaches it, and answers what it is told to ---- */

static unsigned reached;
static enum lookup_outcome looked_up;
static enum result attached;

static struct sandbox_info counting_info = { .provider = "counting", .lookup = { .create = LOOKUP_FINAL } };

static enum result count_create(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        const struct sandbox_create *options, struct sandbox_session **out, struct sandbox_error *err)
{
	(void)a, (void)ctx, (void)operation_key, (void)options, (void)out, (void)err;
	reached++;
	return RESULT_OK;
}

static enum result count_lookup(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *operation_key,
        enum lookup_outcome *outcome, struct sandbox_session **out, struct sandbox_error *err)
{
	(void)a, (void)ctx, (void)operation_key, (void)out, (void)err;
	reached++;
	*outcome = looked_up;
	return RESULT_OK;
}

static enum result count_attach(struct sandbox_adapter *a, const struct sandbox_context *ctx, const char *ref,
        struct sandbox_session **out, struct sandbox_error *err)
{
	(void)a, (void)ctx, (void)ref, (void)out, (void)err;
	reached++;
	return attached;
}

static enum result count_exec(struct sandbox_session *s, const struct sandbox_context *ctx,
        const struct exec_options *options, struct exec_output *out, struct sandbox_error *err)
{
	(void)s, (void)ctx, (void)options, (void)out, (void)err;
	reached++;
	return RESULT_OK;
}

static const struct sandbox_adapter_ops counting_ops = {
	.create = count_create, .lookup = count_lookup, .attach = count_attach
};
static struct sandbox_adapter counting = { &counting_ops, &counting_info };
static const struct sandbox_session_ops counting_session_ops = { .exec = count_exec };
static struct sandbox_session counting_session = { &counting_session_ops, "sb-1", "sb-1" };
static const struct sandbox_session_ops empty_session_ops = { .exec = NULL };
static struct sandbox_session empty_session = { &empty_session_ops, "sb-1", "sb-1" };
static const struct sandbox_adapter_ops empty_ops = { .create = NULL };
static struct sandbox_adapter empty = { &empty_ops, &counting_info };

static enum result granted(const struct sandbox_context *self)
{
	(void)self;
	return RESULT_OK;
}

static const struct sandbox_context ctx = {
	.authority = AUTHORITY_OWNER, .owner_id = "t", .epoch = 1, .fence = granted
};
static struct sandbox_error err;

static int reset(void **state)
{
	(void)state;
	reached = 0;
	counting_info.lookup.create = LOOKUP_FINAL;
	return 0;
}

static void refused(enum result r)
{
	if (r != RESULT_INVALID_ARGUMENT)
		fail_msg("answered %s", result_name(r));
	assert_int_equal(reached, 0);
	assert_true(err.message[0] != '\0');
	err.message[0] = '\0';
}

/* ---- Adapters ---- */

static enum result create_with(const struct sandbox_context *c, const char *key, const char *id, const char *name)
{
	const struct sandbox_create options = { .id = id, .name = name };
	struct sandbox_session *s = NULL;

	return adapter_create(&counting, c, key, &options, &s, &err);
}

static void a_create_without_what_it_needs_reaches_nobody(void **state)
{
	static const struct sandbox_context fenceless = { .authority = AUTHORITY_OWNER };
	char long_key[SANDBOX_KEY_BYTES + 1], long_id[SANDBOX_ID_BYTES + 1];
	struct sandbox_session *s = NULL;

	(void)state;
	memset(long_key, 'k', sizeof(long_key) - 1);
	long_key[sizeof(long_key) - 1] = '\0';
	memset(long_id, 'i', sizeof(long_id) - 1);
	long_id[sizeof(long_id) - 1] = '\0';

	refused(create_with(NULL, "key", "sb-1", NULL));
	refused(create_with(&fenceless, "key", "sb-1", NULL));
	refused(create_with(&ctx, NULL, "sb-1", NULL));
	refused(create_with(&ctx, "", "sb-1", NULL));
	refused(create_with(&ctx, "a key", "sb-1", NULL));
	refused(create_with(&ctx, "a\nkey", "sb-1", NULL));
	refused(create_with(&ctx, "k\xc3\xa4y", "sb-1", NULL));
	refused(create_with(&ctx, long_key, "sb-1", NULL));
	refused(create_with(&ctx, "key", NULL, NULL));
	refused(create_with(&ctx, "key", "", NULL));
	refused(create_with(&ctx, "key", "../etc", NULL));
	refused(create_with(&ctx, "key", ".hidden", NULL));
	refused(create_with(&ctx, "key", long_id, NULL));
	refused(create_with(&ctx, "key", "sb-1", "a/b"));
	refused(adapter_create(&counting, &ctx, "key", NULL, &s, &err));

	assert_int_equal(create_with(&ctx, long_key + 1, long_id + 1, "box"), RESULT_OK);
	assert_int_equal(create_with(&ctx, "create:sb-1:0f~!", "sb-1", ""), RESULT_OK);
	assert_int_equal(reached, 2);
}

static void a_lookup_or_attach_without_what_it_needs_reaches_nobody(void **state)
{
	enum lookup_outcome outcome;
	struct sandbox_session *s = NULL;
	char long_ref[SANDBOX_REF_BYTES + 1];

	(void)state;
	memset(long_ref, 'r', sizeof(long_ref) - 1);
	long_ref[sizeof(long_ref) - 1] = '\0';
	refused(adapter_lookup(&counting, NULL, "key", &outcome, &s, &err));
	refused(adapter_lookup(&counting, &ctx, NULL, &outcome, &s, &err));
	refused(adapter_attach(&counting, &ctx, NULL, &s, &err));
	refused(adapter_attach(&counting, &ctx, "", &s, &err));
	refused(adapter_attach(&counting, &ctx, long_ref, &s, &err));
	refused(adapter_attach(&counting, NULL, "ref", &s, &err));
}

static void not_found_counts_only_where_it_was_declared_final(void **state)
{
	enum lookup_outcome outcome = LOOKUP_FOUND;
	struct sandbox_session *s = NULL;

	(void)state;
	looked_up = LOOKUP_NOT_FOUND;
	attached = RESULT_NOT_FOUND;
	assert_int_equal(adapter_lookup(&counting, &ctx, "key", &outcome, &s, &err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_NOT_FOUND);
	assert_int_equal(adapter_attach(&counting, &ctx, "ref", &s, &err), RESULT_NOT_FOUND);

	counting_info.lookup.create = LOOKUP_NONFINAL;
	assert_int_equal(adapter_lookup(&counting, &ctx, "key", &outcome, &s, &err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_NOT_FOUND_NONFINAL);
	assert_int_equal(adapter_attach(&counting, &ctx, "ref", &s, &err), RESULT_RESOURCE_UNKNOWN);
	looked_up = LOOKUP_UNKNOWN;
	assert_int_equal(adapter_lookup(&counting, &ctx, "key", &outcome, &s, &err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_UNKNOWN);

	counting_info.lookup.create = LOOKUP_NONE;
	reached = 0;
	assert_int_equal(adapter_lookup(&counting, &ctx, "key", &outcome, &s, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(reached, 0);
}

static void an_adapter_says_what_it_lacks(void **state)
{
	const struct sandbox_create options = { .id = "sb-1" };
	enum lookup_outcome outcome;
	enum released released;
	struct snapshot_data data;
	struct sandbox_session *s = NULL;

	(void)state;
	assert_int_equal(adapter_create(&empty, &ctx, "key", &options, &s, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(
	        adapter_restore(&empty, &ctx, "snap", "hash", "key", &options, &s, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(adapter_lookup(&empty, &ctx, "key", &outcome, &s, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(adapter_lookup_snapshot(&empty, &ctx, "key", &outcome, &data, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(adapter_attach(&empty, &ctx, "ref", &s, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(adapter_release(&empty, &ctx, "ref", &released, &err), RESULT_NOT_SUPPORTED);
	assert_non_null(strstr(err.message, "counting"));
	assert_int_equal(adapter_release(&empty, &ctx, "ref", &released, NULL), RESULT_NOT_SUPPORTED);
	assert_int_equal(
	        adapter_restore(&empty, &ctx, "snap", NULL, "key", &options, &s, &err), RESULT_INVALID_ARGUMENT);
	assert_null(s);
}

/* ---- Sessions ---- */

static enum result exec_with(const char *const *argv, const char *const *env, const char *key)
{
	const struct exec_options options = { .argv = argv, .env = env, .process_key = key };
	struct exec_output out;

	return session_exec(&counting_session, &ctx, &options, &out, &err);
}

static void a_command_that_cannot_be_reaches_nobody(void **state)
{
	static const char *const none[] = { NULL }, *const blank[] = { "", NULL }, *const ls[] = { "ls", NULL };
	static const char *const wrong[] = { "NAME", "=x", "1A=x", "A B=x", "A-B=x", "_t=x", "_tmp=x", "__t_=x",
		"__t_x=1", "\xc3\xa4=x" };
	static const char *const right[] = { "A=", "_a9=x=y", "PATH=/bin", "__u=1", NULL };
	struct exec_output out;

	(void)state;
	refused(exec_with(NULL, NULL, "key"));
	refused(exec_with(none, NULL, "key"));
	refused(exec_with(blank, NULL, "key"));
	refused(exec_with(ls, NULL, NULL));
	refused(exec_with(ls, NULL, ""));
	refused(session_exec(&counting_session, &ctx, NULL, &out, &err));
	refused(session_exec(&counting_session, NULL, NULL, &out, &err));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *const env[] = { "GOOD=1", wrong[i], NULL };

		refused(exec_with(ls, env, "key"));
	}
	char huge[600];
	memset(huge, 'A', sizeof(huge));
	snprintf(huge + 500, 10, "=x");
	const char *const env[] = { huge, NULL };
	refused(exec_with(ls, env, "key"));

	assert_int_equal(exec_with(ls, right, "key"), RESULT_OK);
	assert_int_equal(exec_with(ls, NULL, "key"), RESULT_OK);
	assert_int_equal(reached, 2);
}

static void a_session_says_what_it_lacks(void **state)
{
	static const char *const ls[] = { "ls", NULL };
	const struct exec_options options = { .argv = ls, .process_key = "key" };
	struct exec_output out;
	struct snapshot_data data;
	enum terminated terminated;
	int fd = -1;

	(void)state;
	assert_int_equal(session_exec(&empty_session, &ctx, &options, &out, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_terminate(&empty_session, &ctx, "key", &terminated, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_upload(&empty_session, &ctx, "/workspace/a", 0, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_download(&empty_session, &ctx, "/workspace/a", 1, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_snapshot(&empty_session, &ctx, "key", &data, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_close(&empty_session, &ctx, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_export_tree(&empty_session, &ctx, &out, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_import_tree(&empty_session, &ctx, 0, &err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_connect(&empty_session, &ctx, &fd, &err), RESULT_NOT_SUPPORTED);
	assert_non_null(strstr(err.message, "sb-1"));
	assert_int_equal(session_close(&empty_session, &ctx, NULL), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_close(&empty_session, NULL, &err), RESULT_INVALID_ARGUMENT);
	assert_int_equal(session_upload(&empty_session, &ctx, NULL, 0, &err), RESULT_INVALID_ARGUMENT);
	assert_int_equal(session_upload(&empty_session, &ctx, "/a", -1, &err), RESULT_INVALID_ARGUMENT);
	assert_int_equal(session_import_tree(&empty_session, &ctx, -1, &err), RESULT_INVALID_ARGUMENT);
	assert_int_equal(session_terminate(&empty_session, &ctx, NULL, &terminated, &err), RESULT_INVALID_ARGUMENT);
}

static void nothing_is_freed_without_harm(void **state)
{
	(void)state;
	session_free(NULL);
	adapter_free(NULL);
}

/* ---- The registry ---- */

static void every_name_of_the_list_has_its_adapter(void **state)
{
	const struct adapter_env env = { .state_dir = "/nonexistent", .consoled_path = "/nonexistent" };
	unsigned n = 0;

	(void)state;
	for (const char *const *name = adapter_names(); *name; name++, n++) {
		struct sandbox_adapter *a = adapter_new(*name, &env);

		assert_non_null(a);
		assert_string_equal(a->info->provider, *name);
		adapter_free(a);
	}
	assert_true(n > 0);
	assert_null(adapter_new("nobody", &env));
	assert_null(adapter_new("", &env));
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_create_without_what_it_needs_reaches_nobody),
		TEST(a_lookup_or_attach_without_what_it_needs_reaches_nobody),
		TEST(not_found_counts_only_where_it_was_declared_final),
		TEST(an_adapter_says_what_it_lacks),
		TEST(a_command_that_cannot_be_reaches_nobody),
		TEST(a_session_says_what_it_lacks),
		TEST(nothing_is_freed_without_harm),
		TEST(every_name_of_the_list_has_its_adapter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
