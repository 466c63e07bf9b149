/* The host adapter's promises: create, lookup, attach, connect, close, each also done twice, refused, or meeting a
 * ruin. */
#include "tests/unit/providers/fixture.h"

#include <sys/resource.h>

#include "wire/sock.h"

/* ---- create ---- */

static void a_created_sandbox_has_a_private_folder_and_a_workspace(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	umask(0);
	struct sandbox_session *s = create(f, "sb-1", "box");
	assert_string_equal(s->id, "sb-1");
	assert_string_equal(s->ref, "sb-1");
	assert_int_equal(lstat(path_of(f, "sb-1", ""), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(lstat(path_of(f, "sb-1", "workspace"), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(lstat(path_of(f, "sb-1", "record"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(f->records, 0); /* no process was started for it */
	close_and_free(f, s);
	nothing_is_on_the_disk(f);
}

static void a_directory_of_the_users_is_used_and_survives(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = NULL;
	char mine[128], file[160], link[128];

	snprintf(mine, sizeof(mine), "%s/mine", f->dir);
	snprintf(file, sizeof(file), "%s/file", mine);
	snprintf(link, sizeof(link), "%s/link", f->dir);
	assert_int_equal(mkdir(mine, 0755), 0);
	close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(symlink(mine, link), 0);

	assert_int_equal(try_create(f, "sb-1", "k1", "keeper", link, &s), RESULT_OK);
	assert_false(exists(path_of(f, "sb-1", "workspace")));
	if (!f->real)
		close(connect_to(f, s)); /* whose "keeper" writes in its workspace, so that we see which it is */
	f->ctx.deadline_ms = clock_mono_ms() + 2000;
	close_and_free(f, s);
	assert_true(exists(file));
	if (!f->real) {
		snprintf(file, sizeof(file), "%s/late-0", mine);
		assert_true(exists(file));
	}
	nothing_is_on_the_disk(f);
	no_process_is_left();
}

static void a_directory_that_cannot_be_is_refused_and_nothing_made(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = NULL;
	char path[192];

	assert_int_equal(try_create(f, "sb-1", "k", NULL, "relative/path", &s), RESULT_INVALID_ARGUMENT);
	snprintf(path, sizeof(path), "%s/nowhere", f->dir);
	assert_int_equal(try_create(f, "sb-1", "k", NULL, path, &s), RESULT_INVALID_PATH);
	assert_int_equal(try_create(f, "sb-1", "k", NULL, f->consoled, &s), RESULT_INVALID_PATH);
	snprintf(path, sizeof(path), "%s/line\nbreak", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(try_create(f, "sb-1", "k", NULL, path, &s), RESULT_INVALID_ARGUMENT);

	/* In the state directory it would be removed with a sandbox. */
	struct sandbox_session *other = create(f, "sb-2", NULL);
	snprintf(path, sizeof(path), "%s/sandboxes/sb-2/workspace", f->state);
	assert_int_equal(try_create(f, "sb-1", "k", NULL, path, &s), RESULT_INVALID_ARGUMENT);
	assert_int_equal(try_create(f, "sb-1", "k", NULL, f->state, &s), RESULT_INVALID_ARGUMENT);
	snprintf(path, sizeof(path), "%s/state-beside", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(try_create(f, "sb-1", "k", NULL, path, &s), RESULT_OK);
	close_and_free(f, s);
	close_and_free(f, other);
	assert_null(strchr(f->err.message, '\n'));
	nothing_is_on_the_disk(f);
}

static void limits_it_cannot_enforce_are_refused(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = NULL;
	const struct sandbox_create options = { .id = "sb-1", .memory_bytes = 1 << 30 };

	assert_int_equal(adapter_create(f->host, &f->ctx, "k", &options, &s, &f->err), RESULT_NOT_SUPPORTED);
	nothing_is_on_the_disk(f);
}

/* The same creation once more is the one that was; another one's id is taken. */
static void the_same_key_again_is_the_same_sandbox(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *first = NULL, *again = NULL, *other = NULL;

	assert_int_equal(try_create(f, "sb-1", "k1", "box", NULL, &first), RESULT_OK);
	close(open(path_of(f, "sb-1", "workspace/file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(try_create(f, "sb-1", "k1", "box", NULL, &again), RESULT_OK);
	assert_string_equal(again->ref, first->ref);
	assert_true(exists(path_of(f, "sb-1", "workspace/file")));
	assert_int_equal(try_create(f, "sb-1", "k2", "box", NULL, &other), RESULT_ALREADY_EXISTS);
	assert_null(other);
	assert_true(exists(path_of(f, "sb-1", "workspace/file")));
	session_free(again);
	close_and_free(f, first);
	nothing_is_on_the_disk(f);
}

static void a_key_may_hold_what_a_file_name_cannot(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = NULL, *found = NULL;
	enum lookup_outcome outcome = LOOKUP_UNKNOWN;

	assert_int_equal(try_create(f, "sb-1", "../../a%2F/b\"", NULL, NULL, &s), RESULT_OK);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "../../a%2F/b\"", &outcome, &found, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_FOUND);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "../../a//b\"", &outcome, &found, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_NOT_FOUND);
	session_free(found);
	close_and_free(f, s);
	nothing_is_on_the_disk(f);
}

/* At each of the times that it is asked in turn, until it is never refused. */
static void a_refused_fence_creates_nothing(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = NULL;
	unsigned refusals = 0;

	for (unsigned n = 1; n < 20; n++) {
		refuse_from(f, n, n % 2 ? RESULT_STALE_EPOCH : RESULT_CLEANUP_CLAIM_LOST);
		enum result r = try_create(f, "sb-1", "k1", NULL, NULL, &s);
		if (r == RESULT_OK) {
			refuse_from(f, 0, RESULT_OK);
			close_and_free(f, s);
			assert_true(refusals >= 1);
			nothing_is_on_the_disk(f);
			return;
		}
		assert_int_equal(r, f->refusal);
		refusals++;
		nothing_is_on_the_disk(f);
	}
	fail_msg("it asks for ever");
}

/* ---- lookup, attach ---- */

static void lookup_finds_by_key_and_is_final(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *one = create(f, "sb-1", NULL), *two = create(f, "sb-2", NULL), *found = NULL;
	enum lookup_outcome outcome = LOOKUP_UNKNOWN;

	assert_int_equal(f->host->info->lookup.create, LOOKUP_FINAL);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "create:sb-2:0f", &outcome, &found, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_FOUND);
	assert_string_equal(found->ref, "sb-2");
	session_free(found);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "create:sb-2:0", &outcome, &found, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_NOT_FOUND);
	close_and_free(f, two);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "create:sb-2:0f", &outcome, &found, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_NOT_FOUND);
	close_and_free(f, one);
}

static void before_the_first_sandbox_nothing_is_found(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = NULL;
	enum lookup_outcome outcome = LOOKUP_UNKNOWN;

	assert_int_equal(adapter_lookup(f->host, &f->ctx, "k", &outcome, &s, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_NOT_FOUND);
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &s, &f->err), RESULT_NOT_FOUND);
	assert_false(exists(f->state)); /* and looking makes nothing */
}

/* What others keep in the same folder is neither found nor touched. */
static void folders_of_others_are_left_alone(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL), *found = NULL;
	enum lookup_outcome outcome = LOOKUP_UNKNOWN;

	assert_int_equal(mkdir(path_of(f, "sb-docker", ""), 0700), 0);
	assert_int_equal(mkdir(path_of(f, "sb-docker", "custody"), 0700), 0);
	assert_int_equal(mkdir(path_of(f, "sb-empty", ""), 0700), 0);
	close(open(path_of(f, "stray-file", ""), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(symlink("/etc", path_of(f, "link", "")), 0);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "k", &outcome, &found, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_NOT_FOUND);
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-docker", &found, &f->err), RESULT_NOT_FOUND);
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-empty", &found, &f->err), RESULT_NOT_FOUND);
	assert_int_not_equal(adapter_attach(f->host, &f->ctx, "link", &found, &f->err), RESULT_OK);
	close_and_free(f, s);
	assert_true(exists(path_of(f, "sb-docker", "custody")));
	assert_true(exists(path_of(f, "sb-empty", "")));
	assert_true(exists(path_of(f, "link", "")));
}

/* A record that cannot be read might be the one that is asked for. */
static void a_record_that_cannot_be_read_makes_the_answer_unknown(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL), *found = NULL;
	enum lookup_outcome outcome = LOOKUP_FOUND;
	int fd = open(path_of(f, "sb-1", "record"), O_WRONLY | O_TRUNC | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "of a newer version\n", 19), 19);
	close(fd);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "create:sb-1:0f", &outcome, &found, &f->err), RESULT_OK);
	assert_int_equal(outcome, LOOKUP_UNKNOWN);
	assert_true(f->err.message[0] != '\0');
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &found, &f->err), RESULT_UNAVAILABLE);
	close_and_free(f, s);
}

static void a_reference_that_is_no_name_reaches_no_path(void **state)
{
	static const char *const wrong[] = { "..", ".", "a/b", "/etc", "-x", ".gone-sb-1", "sb 1",
		"0123456789012345678901234567890123456789012345678901234567890123" };
	struct fixture *f = *state;
	struct sandbox_session *s = NULL;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (adapter_attach(f->host, &f->ctx, wrong[i], &s, &f->err) != RESULT_INVALID_ARGUMENT)
			fail_msg("taken: %s", wrong[i]);
	assert_int_equal(f->asked, 0);
}

static void a_refused_fence_is_the_answer_of_lookup_and_attach(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL), *found = NULL;
	enum lookup_outcome outcome = LOOKUP_UNKNOWN;

	refuse_from(f, 1, RESULT_CLEANUP_CLAIM_LOST);
	assert_int_equal(adapter_lookup(f->host, &f->ctx, "create:sb-1:0f", &outcome, &found, &f->err),
	        RESULT_CLEANUP_CLAIM_LOST);
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &found, &f->err), RESULT_CLEANUP_CLAIM_LOST);
	assert_null(found);
	refuse_from(f, 0, RESULT_OK);
	close_and_free(f, s);
}

/* ---- connect ---- */

static bool hangs_up(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	return poll(&p, 1, timeout_ms) > 0 && recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) <= 0 && errno != EAGAIN;
}

static void a_first_connect_starts_a_daemon_and_a_second_finds_it(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", "box"), *again = NULL;
	pid_t pid = 0;
	uid_t uid;
	gid_t gid;

	int first = connect_to(f, s);
	struct instance i = recorded_instance(f, "sb-1");
	assert_int_equal(sock_peer(first, &pid, &uid, &gid), 0);
	assert_int_equal(pid, i.pid);
	assert_true(is_alive(&i));
	assert_int_equal(f->records, 1);
	assert_true(exists(path_of(f, "sb-1", "consoled.log")));
	close(first);

	/* As after a restart of the control daemon. */
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &again, &f->err), RESULT_OK);
	int second = connect_to(f, again);
	struct instance j = recorded_instance(f, "sb-1");
	assert_int_equal(j.pid, i.pid);
	assert_int_equal(f->records, 1);
	assert_false(hangs_up(second, 50));
	close(second);
	session_free(again);
	close_and_free(f, s);
	assert_false(is_alive(&i));
	nothing_is_on_the_disk(f);
	no_process_is_left();
}

static void a_daemon_that_died_is_replaced(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);

	close(connect_to(f, s));
	for (int round = 0; round < 3; round++) {
		struct instance i = recorded_instance(f, "sb-1");

		assert_int_equal(instance_end(&i, clock_mono_ms() + PATIENCE_MS), 0);
		close(connect_to(f, s));
		struct instance j = recorded_instance(f, "sb-1");
		assert_true(i.pid != j.pid || i.start_time != j.start_time);
		assert_false(is_alive(&i));
		assert_true(is_alive(&j));
	}
	close_and_free(f, s);
	no_process_is_left();
}

/* Without its socket nobody can reach it any more: there must not be two, so it is ended first. */
static void a_daemon_without_its_socket_is_ended_and_replaced(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	char line[SANDBOX_INSTANCE_BYTES];

	close(connect_to(f, s));
	struct instance i = recorded_instance(f, "sb-1");
	assert_int_equal(load_instance(f, "sb-1", line, sizeof(line)), 0);
	char *socket = strstr(line, " socket=");
	assert_non_null(socket);
	assert_int_equal(unlink(path_of(f, "sb-1", socket + strlen(" socket="))), 0);
	close(connect_to(f, s));
	assert_false(is_alive(&i));
	struct instance j = recorded_instance(f, "sb-1");
	assert_true(is_alive(&j));
	close_and_free(f, s);
	no_process_is_left();
}

/* The number of a recorded daemon has gone to somebody else, who must not be touched. */
static void whoever_has_the_recorded_number_now_is_not_touched(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	struct instance innocent = { .pid = fork() };
	char line[SANDBOX_INSTANCE_BYTES];

	if (innocent.pid == 0)
		for (;;)
			pause();
	assert_int_equal(instance_boot_id(innocent.boot_id), 0);
	assert_int_equal(instance_start_time(innocent.pid, &innocent.start_time), 0);
	snprintf(line, sizeof(line), "pid=%ld start=%llu boot=%s socket=console-00000000.sock", (long)innocent.pid,
	        (unsigned long long)innocent.start_time - 1, innocent.boot_id);
	assert_int_equal(store_instance(f, "sb-1", line), 0);

	close(connect_to(f, s));
	assert_true(is_alive(&innocent));
	assert_int_equal(store_instance(f, "sb-1", line), 0); /* and not on closing either */
	struct instance daemon = recorded_instance(f, "sb-1");
	(void)daemon;
	close_and_free(f, s);
	assert_true(is_alive(&innocent));
	end_children();
}

static void what_cannot_be_recorded_does_not_serve(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	int fd = -1;

	f->record_fails = -ESTALE;
	assert_int_equal(session_connect(s, &f->ctx, &fd, &f->err), RESULT_STALE_EPOCH);
	f->record_fails = -ENOSPC;
	assert_int_equal(session_connect(s, &f->ctx, &fd, &f->err), RESULT_UNAVAILABLE);
	assert_non_null(strstr(f->err.message, "No space"));
	assert_int_equal(fd, -1);
	no_process_is_left();
	assert_int_equal(entries_in(path_of(f, "sb-1", "")), 3); /* record, workspace, log: no socket */
	f->record_fails = 0;
	close(connect_to(f, s));
	close_and_free(f, s);
	no_process_is_left();
}

static void a_record_that_is_not_understood_is_never_taken_for_nobody(void **state)
{
	static const char *const odd[] = { "pid=1", "container=4711", "pid=1 start=1 boot=x",
		"pid=1 start=1 boot=x socket=../../../etc/passwd", "pid=1 start=1 boot=x socket=" };
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	int fd = -1;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_int_equal(store_instance(f, "sb-1", odd[i]), 0);
		assert_int_equal(session_connect(s, &f->ctx, &fd, &f->err), RESULT_INTERNAL);
		assert_int_not_equal(session_close(s, &f->ctx, &f->err), RESULT_OK);
	}
	assert_true(exists(path_of(f, "sb-1", "workspace")));
	assert_int_equal(store_instance(f, "sb-1", ""), 0);
	close_and_free(f, s);
}

/* At each time that it is asked: no daemon may be left by a connect that was refused. */
static void a_refused_fence_starts_nothing(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	unsigned refusals = 0;
	int fd = -1;

	for (unsigned n = 1; n < 20; n++) {
		refuse_from(f, n, RESULT_STALE_EPOCH);
		enum result r = session_connect(s, &f->ctx, &fd, &f->err);
		if (r == RESULT_OK)
			break;
		assert_int_equal(r, RESULT_STALE_EPOCH);
		refusals++;
		no_process_is_left();
	}
	assert_true(fd >= 0);
	assert_true(refusals >= 2);
	close(fd);
	refuse_from(f, 0, RESULT_OK);

	/* A living one is not even connected to: that would take its owner away. */
	int owner = connect_to(f, s);
	refuse_from(f, 1, RESULT_STALE_EPOCH);
	assert_int_equal(session_connect(s, &f->ctx, &fd, &f->err), RESULT_STALE_EPOCH);
	assert_false(hangs_up(owner, 50));
	close(owner);
	refuse_from(f, 0, RESULT_OK);
	close_and_free(f, s);
	no_process_is_left();
}

static void a_sandbox_whose_folder_is_gone_cannot_be_connected_to(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL), *again = NULL;
	int fd = -1;

	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &again, &f->err), RESULT_OK);
	close_and_free(f, s);
	assert_int_equal(session_connect(again, &f->ctx, &fd, &f->err), RESULT_NOT_FOUND);
	close_and_free(f, again); /* closing what is gone is fine */
}

static void a_program_that_cannot_start_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	int fd = -1;

	snprintf(f->consoled, sizeof(f->consoled), "/nonexistent/ringside-consoled");
	assert_int_equal(session_connect(s, &f->ctx, &fd, &f->err), RESULT_UNAVAILABLE);
	assert_non_null(strstr(f->err.message, "/nonexistent/ringside-consoled: No such file"));
	assert_int_equal(entries_in(path_of(f, "sb-1", "")), 3);
	close_and_free(f, s);
	no_process_is_left();
	nothing_is_on_the_disk(f);
}

static void a_daemon_that_dies_or_stays_mute_is_not_waited_for_in_vain(void **state)
{
	struct fixture *f = *state;
	int fd = -1;

	if (f->real)
		skip();
	struct sandbox_session *dies = create(f, "sb-1", "dies"), *mute = create(f, "sb-2", "mute");
	assert_int_equal(session_connect(dies, &f->ctx, &fd, &f->err), RESULT_UNAVAILABLE);
	f->ctx.deadline_ms = clock_mono_ms() + 200;
	assert_int_equal(session_connect(mute, &f->ctx, &fd, &f->err), RESULT_TIMEOUT);
	f->ctx.deadline_ms = 0;
	no_process_is_left();
	close_and_free(f, dies);
	close_and_free(f, mute);
	nothing_is_on_the_disk(f);
}

/* A daemon with a full backlog is alive and holds terminals: it is told of, never ended. */
static void a_daemon_that_takes_no_connection_is_not_ended_for_it(void **state)
{
	struct fixture *f = *state;
	struct instance i;
	int fds[64], n = 0;
	enum result r = RESULT_OK;

	if (f->real)
		skip();
	struct sandbox_session *s = create(f, "sb-1", "full");
	f->ctx.deadline_ms = clock_mono_ms() + 300;
	while (n < 64 && (r = session_connect(s, &f->ctx, &fds[n], &f->err)) == RESULT_OK) {
		n++;
		f->ctx.deadline_ms = clock_mono_ms() + 300;
	}
	assert_true(n > 0 && n < 64);
	assert_int_equal(r, RESULT_UNAVAILABLE);
	f->ctx.deadline_ms = 0;
	i = recorded_instance(f, "sb-1");
	assert_true(is_alive(&i));
	while (n > 0)
		close(fds[--n]);
	close_and_free(f, s);
	assert_false(is_alive(&i));
	no_process_is_left();
}

/* Whichever descriptor is the one too many: a daemon that cannot be looked at is never taken for a dead one. */
static void running_out_of_descriptors_never_costs_a_living_daemon(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	struct rlimit before, low;
	unsigned failures = 0;
	int fd = -1;

	close(connect_to(f, s));
	struct instance i = recorded_instance(f, "sb-1");
	int free_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(free_fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	for (int n = 0; n < 8; n++) {
		low.rlim_cur = (rlim_t)(free_fd + n);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		enum result r = session_connect(s, &f->ctx, &fd, &f->err);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		if (r == RESULT_OK) {
			close(fd);
		} else {
			assert_int_equal(r, RESULT_UNAVAILABLE);
			failures++;
		}
		assert_true(is_alive(&i));
	}
	assert_true(failures >= 3);
	assert_int_equal(f->records, 1);
	close_and_free(f, s);
	no_process_is_left();
}

/* ---- close ---- */

static void closing_twice_is_fine(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);

	close(connect_to(f, s));
	assert_int_equal(session_close(s, &f->ctx, &f->err), RESULT_OK);
	assert_int_equal(session_close(s, &f->ctx, &f->err), RESULT_OK);
	session_free(s);
	no_process_is_left();
	nothing_is_on_the_disk(f);
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &s, &f->err), RESULT_NOT_FOUND);
}

static void a_deaf_daemon_is_killed(void **state)
{
	struct fixture *f = *state;

	if (f->real)
		skip();
	struct sandbox_session *s = create(f, "sb-1", "deaf");
	close(connect_to(f, s));
	struct instance i = recorded_instance(f, "sb-1");
	f->ctx.deadline_ms = clock_mono_ms() + 2000; /* half of it for asking */
	assert_int_equal(session_close(s, &f->ctx, &f->err), RESULT_OK);
	assert_false(is_alive(&i));
	f->ctx.deadline_ms = 0;
	session_free(s);
	no_process_is_left();
	nothing_is_on_the_disk(f);
}

/* A stopped one neither answers nor leaves by itself. */
static void a_stopped_daemon_is_killed(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);

	close(connect_to(f, s));
	struct instance i = recorded_instance(f, "sb-1");
	assert_int_equal(kill(i.pid, SIGSTOP), 0);
	f->ctx.deadline_ms = clock_mono_ms() + 2000;
	assert_int_equal(session_close(s, &f->ctx, &f->err), RESULT_OK);
	assert_false(is_alive(&i));
	f->ctx.deadline_ms = 0;
	session_free(s);
	no_process_is_left();
	nothing_is_on_the_disk(f);
}

/* Whoever removes the folder (a person, or a program inside, of the same user) does not make the daemon a stray: a
 * later control daemon, which knows what was recorded and no more, still finds and ends it. */
static void a_daemon_whose_folder_was_removed_is_still_ended(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL), *later = NULL;
	struct remove_error why;
	int fd = -1;

	close(connect_to(f, s));
	session_free(s);
	struct instance i = recorded_instance(f, "sb-1");
	int folders = open(path_of(f, "", ""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(remove_tree_at(folders, "sb-1", UINT64_MAX, &why), 0);
	close(folders);

	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &later, &f->err), RESULT_OK);
	assert_int_equal(session_connect(later, &f->ctx, &fd, &f->err), RESULT_NOT_FOUND);
	assert_true(is_alive(&i));
	close_and_free(f, later);
	assert_false(is_alive(&i));
	no_process_is_left();
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &later, &f->err), RESULT_NOT_FOUND);
}

/* Keepers end what they keep when their daemon is killed; the folder is removed once they are done. */
static void what_a_killed_daemons_keepers_still_write_is_removed_too(void **state)
{
	struct fixture *f = *state;

	if (f->real)
		skip();
	struct sandbox_session *s = create(f, "sb-1", "keeper");
	close(connect_to(f, s));
	f->ctx.deadline_ms = clock_mono_ms() + 2000;
	assert_int_equal(session_close(s, &f->ctx, &f->err), RESULT_OK);
	f->ctx.deadline_ms = 0;
	session_free(s);
	nothing_is_on_the_disk(f);
	/* The fake and its child have both ended when close() answers: nothing that still runs is met here. */
	pid_t left;
	unsigned ended = 0;
	while ((left = waitpid(-1, NULL, WNOHANG)) > 0)
		ended++;
	assert_int_equal(left, -1);
	assert_int_equal(ended, 2);
}

static void links_in_the_workspace_lead_nowhere_on_close(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	char precious[128], file[160];

	snprintf(precious, sizeof(precious), "%s/precious", f->dir);
	snprintf(file, sizeof(file), "%s/file", precious);
	assert_int_equal(mkdir(precious, 0700), 0);
	close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(symlink(precious, path_of(f, "sb-1", "workspace/link")), 0);
	assert_int_equal(mkdir(path_of(f, "sb-1", "custody"), 0700), 0);
	close(open(path_of(f, "sb-1", "custody/dev.ring"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	close_and_free(f, s);
	assert_true(exists(file));
	nothing_is_on_the_disk(f);
}

/* Also where a program has put a link in the place of the workspace itself. */
static void a_workspace_that_became_a_link_leads_nowhere(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	char precious[128], file[160];

	snprintf(precious, sizeof(precious), "%s/precious", f->dir);
	snprintf(file, sizeof(file), "%s/file", precious);
	assert_int_equal(mkdir(precious, 0700), 0);
	close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(rmdir(path_of(f, "sb-1", "workspace")), 0);
	assert_int_equal(symlink(precious, path_of(f, "sb-1", "workspace")), 0);
	close_and_free(f, s);
	assert_true(exists(file));
	nothing_is_on_the_disk(f);
}

/* At each time that it is asked: what was not yet done is still there to be done. */
static void a_refused_fence_closes_no_further(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	unsigned refusals = 0;

	close(connect_to(f, s));
	struct instance i = recorded_instance(f, "sb-1");
	refuse_from(f, 1, RESULT_STALE_EPOCH);
	assert_int_equal(session_close(s, &f->ctx, &f->err), RESULT_STALE_EPOCH);
	assert_true(is_alive(&i));
	assert_true(exists(path_of(f, "sb-1", "workspace")));
	for (unsigned n = 1; n < 20; n++) {
		refuse_from(f, n, RESULT_CLEANUP_CLAIM_LOST);
		enum result r = session_close(s, &f->ctx, &f->err);
		if (r == RESULT_OK)
			break;
		assert_int_equal(r, RESULT_CLEANUP_CLAIM_LOST);
		assert_true(exists(path_of(f, "sb-1", "workspace")));
		refusals++;
	}
	assert_true(refusals >= 2);
	refuse_from(f, 0, RESULT_OK);
	session_free(s);
	no_process_is_left();
	nothing_is_on_the_disk(f);
}

static void a_session_is_a_handle_and_freeing_it_ends_nothing(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);

	int fd = connect_to(f, s);
	struct instance i = recorded_instance(f, "sb-1");
	session_free(s);
	assert_true(is_alive(&i));
	assert_false(hangs_up(fd, 50));
	close(fd);
	assert_int_equal(adapter_attach(f->host, &f->ctx, "sb-1", &s, &f->err), RESULT_OK);
	close_and_free(f, s);
	no_process_is_left();
}

static void what_comes_later_is_not_supported_yet(void **state)
{
	struct fixture *f = *state;
	struct sandbox_session *s = create(f, "sb-1", NULL);
	static const char *const ls[] = { "ls", NULL };
	const struct exec_options options = { .argv = ls, .process_key = "k" };
	struct exec_output out;

	assert_int_equal(session_exec(s, &f->ctx, &options, &out, &f->err), RESULT_NOT_SUPPORTED);
	assert_int_equal(session_upload(s, &f->ctx, "/workspace/a", 0, &f->err), RESULT_NOT_SUPPORTED);
	assert_int_equal(f->host->info->capture_classes, 0);
	assert_int_equal(f->host->info->egress, EGRESS_UNENFORCED);
	close_and_free(f, s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_created_sandbox_has_a_private_folder_and_a_workspace),
		TEST(a_directory_of_the_users_is_used_and_survives),
		TEST(a_directory_that_cannot_be_is_refused_and_nothing_made),
		TEST(limits_it_cannot_enforce_are_refused),
		TEST(the_same_key_again_is_the_same_sandbox),
		TEST(a_key_may_hold_what_a_file_name_cannot),
		TEST(a_refused_fence_creates_nothing),
		TEST(lookup_finds_by_key_and_is_final),
		TEST(before_the_first_sandbox_nothing_is_found),
		TEST(folders_of_others_are_left_alone),
		TEST(a_record_that_cannot_be_read_makes_the_answer_unknown),
		TEST(a_reference_that_is_no_name_reaches_no_path),
		TEST(a_refused_fence_is_the_answer_of_lookup_and_attach),
		TEST(a_first_connect_starts_a_daemon_and_a_second_finds_it),
		TEST(a_daemon_that_died_is_replaced),
		TEST(a_daemon_without_its_socket_is_ended_and_replaced),
		TEST(whoever_has_the_recorded_number_now_is_not_touched),
		TEST(what_cannot_be_recorded_does_not_serve),
		TEST(a_record_that_is_not_understood_is_never_taken_for_nobody),
		TEST(a_refused_fence_starts_nothing),
		TEST(a_sandbox_whose_folder_is_gone_cannot_be_connected_to),
		TEST(a_program_that_cannot_start_leaves_nothing),
		TEST(a_daemon_that_dies_or_stays_mute_is_not_waited_for_in_vain),
		TEST(a_daemon_that_takes_no_connection_is_not_ended_for_it),
		TEST(running_out_of_descriptors_never_costs_a_living_daemon),
		TEST(closing_twice_is_fine),
		TEST(a_deaf_daemon_is_killed),
		TEST(a_stopped_daemon_is_killed),
		TEST(a_daemon_whose_folder_was_removed_is_still_ended),
		TEST(what_a_killed_daemons_keepers_still_write_is_removed_too),
		TEST(links_in_the_workspace_lead_nowhere_on_close),
		TEST(a_workspace_that_became_a_link_leads_nowhere),
		TEST(a_refused_fence_closes_no_further),
		TEST(a_session_is_a_handle_and_freeing_it_ends_nothing),
		TEST(what_comes_later_is_not_supported_yet),
	};

	fake_consoled_if_asked(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
