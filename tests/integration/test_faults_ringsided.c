/*
 * test_faults_ringsided.c - the control daemon when calls of its own fail: each allocation, mapping, descriptor, thread, write,
 * sync and watch in turn, and several in a row.
 *
 * A request that meets a fault is done or refused with a code that says so. The daemon lives, its consoles run on and lose
 * no byte, the same request succeeds afterwards, what was missed meanwhile is caught up with, and no descriptor, process,
 * sandbox or row is left over.
 */
#include "tests/support/fault.h"
#include "tests/support/home.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "client/ringside.h"

#define MOST_FAULTS 1000 /* of one request: more, and the loop would never have come to its end */
#define SETTLE_MS   20000

/* A console that must not notice anything. */
struct witness {
	struct ringside_console *c;
	uint64_t next; /* what was read so far */
	unsigned count;
};

struct ringsided {
	struct home *h;
	struct fault_control *control;
	struct running *program;
	struct ringside *rs;
	bool small_disk; /* its state is on a file system of its own, which only it and what it starts see */
	pid_t pid, consoled;
	struct witness echo, ticker;
	int came_of_it; /* of what the scenario did: enum ringside_code */
	size_t fds, consoled_fds;
};

static const char *outcome_name(int code)
{
	return ringside_code_name(code);
}

/* ---- The daemon ---- */

#define MOUNT_SMALL "cd '%s' && mkdir -p state && mount -t tmpfs -o size=2m,mode=700 tmpfs state && cd / &&"

/* In the foreground, so that it is this one; its words go to a file. */
static void begin_daemon(struct ringsided *d)
{
	char lib[PATH_MAX];

	if (!fault_path(lib, "lib/faultlib.so"))
		fail_msg("no debug variant: make VARIANT=debug all preloads");
	const char *script = home_format(d->h,
	        "%s exec env LD_PRELOAD='%s' FAULT_CONTROL='%s/control' FAULT_PROGRAM=ringsided '%s/ringsided' "
	        "--foreground --custody-interval 500ms 2>>'%s/ringsided.err'",
	        d->small_disk ? home_format(d->h, MOUNT_SMALL, d->h->dir) : "", lib, d->h->dir, d->h->bin, d->h->dir);
	atomic_store(&d->control->ready, 0);
	const char *const argv[] = { "unshare", "-m", "sh", "-c", script, NULL };
	d->program = program_begin(d->h, d->small_disk ? argv : argv + 2, NULL, 0);
	d->pid = running_pid(d->program);
}

static bool is_alive(struct ringsided *d)
{
	return !running_ended(d->program);
}

static void connect_client(struct ringsided *d)
{
	const struct ringside_options options = { .no_start = true };
	struct ringside_error err;

	ringside_close(d->rs);
	d->rs = NULL;
	wait_until("the daemon serves", ringside_open(&options, &d->rs, &err) == 0 || !is_alive(d));
	if (!d->rs)
		fail_msg("the daemon has ended: %s", read_file(d->h, home_path(d->h, "ringsided.err"), NULL));
}

static void check(int code, const struct ringside_error *err)
{
	if (code != 0)
		fail_msg("%s: %s", err->name, err->message);
}

/* ---- Witnesses ---- */

static const char *news(struct witness *w)
{
	static char buf[1 << 20];
	struct ringside_span got;
	struct ringside_error err;

	check(ringside_console_read(w->c, w->next, buf, sizeof(buf) - 1, &got, &err), &err);
	assert_int_equal(got.lost_bytes, 0);
	buf[got.next_offset - got.offset] = '\0';
	return buf;
}

static void check_ticker(struct witness *w)
{
	const char *text = news(w), *line = text;

	for (const char *end; (end = strstr(line, "\r\n")) != NULL; line = end + 2) {
		char expected[32];
		int n = snprintf(expected, sizeof(expected), "tick %u\r\n", w->count + 1);
		if (strncmp(line, expected, (size_t)n) != 0)
			fail_msg("after tick %u: %.40s", w->count, line);
		w->count++;
	}
	w->next += (uint64_t)(line - text);
}

static void check_echo(struct witness *w)
{
	char line[32], expected[64];
	struct ringside_written written;
	struct ringside_error err;

	w->count++;
	int n = snprintf(line, sizeof(line), "%u\n", w->count);
	snprintf(expected, sizeof(expected), "%u\r\n%u\r\n", w->count, w->count);
	check(ringside_console_write(w->c, line, (size_t)n, NULL, &written, &err), &err);
	wait_until("the echo of a witness", strlen(news(w)) >= strlen(expected));
	assert_string_equal(news(w), expected);
	w->next += strlen(expected);
}

/* ---- Requests ---- */

static int start(struct ringsided *d, const char *name, const char *const *argv, uint32_t observe_ms)
{
	const struct ringside_start spec = {
		.argv = argv, .no_observe = observe_ms == 0, .observe_ms = observe_ms, .ring_bytes = 65536
	};
	struct ringside_started *out;
	struct ringside_error err;

	int code = ringside_start(d->rs, "box", name, &spec, &out, &err);
	if (code == 0) {
		code = out->failure_code;
		ringside_free(out);
	}
	return code;
}

static int open_console(struct ringsided *d, const char *name, unsigned rights, struct ringside_console **out)
{
	struct ringside_error err;

	return ringside_console_open(d->rs, "box", name, rights, out, &err);
}

static int end_console(struct ringsided *d, const char *name)
{
	struct ringside_closed *out;
	struct ringside_error err;

	int code = ringside_console_end(d->rs, "box", name, 0, &out, &err);
	if (code == 0)
		ringside_free(out);
	return code;
}

static int create(struct ringsided *d, const char *name)
{
	const struct ringside_create spec = { .name = name };
	struct ringside_sandbox *out;
	struct ringside_error err;

	int code = ringside_create(d->rs, &spec, &out, &err);
	if (code == 0)
		ringside_free(out);
	return code;
}

static int remove_sandbox(struct ringsided *d, const char *name)
{
	struct ringside_error err;

	return ringside_remove(d->rs, name, NULL, &err);
}

static int list_sandboxes(struct ringsided *d, bool all, struct ringside_sandboxes **out)
{
	struct ringside_error err;

	return ringside_list(d->rs, all, out, &err);
}

static int list_consoles(struct ringsided *d, struct ringside_consoles **out)
{
	struct ringside_error err;

	return ringside_ps(d->rs, NULL, out, &err);
}

/* The console daemon's descriptors, which it shows to root alone; 0 to others. */
static size_t its_fds_of(const struct ringsided *d)
{
	return geteuid() == 0 ? process_fds(d->consoled) : 0;
}

/* ---- What is left over ---- */

static unsigned count_children(pid_t parent, unsigned *zombies)
{
	unsigned n = 0;
	DIR *proc = opendir("/proc");

	*zombies = 0;
	assert_non_null(proc);
	for (struct dirent *e; (e = readdir(proc));) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid <= 1 || process_parent(pid) != parent)
			continue;
		n++;
		*zombies += !process_alive(pid) && process_parent(pid) == parent;
	}
	closedir(proc);
	return n;
}

/*
 * Of the daemon nothing but what it began with; of the console daemon the two witnesses' keepers. Each at some moment, not
 * all at one: custody and the witnesses' doings come and go, and what has leaked does not.
 */
static void check_settled(const struct ringsided *d, const char *what)
{
	bool own_fds = false, own_children = false, its_fds = false, its_children = false;
	uint64_t until = now_ms() + SETTLE_MS;
	unsigned zombies;

	for (;;) {
		own_fds = own_fds || process_fds(d->pid) <= d->fds;
		its_fds = its_fds || its_fds_of(d) <= d->consoled_fds;
		own_children = own_children || count_children(d->pid, &zombies) == 0;
		its_children = its_children || (count_children(d->consoled, &zombies) == 2 && zombies == 0);
		if (own_fds && own_children && its_fds && its_children)
			return;
		if (now_ms() > until)
			break;
		poll(NULL, 0, 5);
	}
	fail_msg("%s: ringsided has %zu descriptors instead of %zu and %u children; its console daemon %zu instead of "
	         "%zu, and %u "
	         "keepers instead of 2",
	        what, process_fds(d->pid), d->fds, count_children(d->pid, &zombies), its_fds_of(d), d->consoled_fds,
	        count_children(d->consoled, &zombies));
}

static bool is_witness(const char *name)
{
	return strcmp(name, "echo") == 0 || strcmp(name, "ticker") == 0;
}

/* Ends whatever the scenario has made. */
static void clean_up(struct ringsided *d)
{
	struct ringside_consoles *consoles;
	struct ringside_sandboxes *sandboxes;

	assert_int_equal(list_sandboxes(d, false, &sandboxes), 0);
	for (size_t i = 0; i < sandboxes->count; i++) {
		if (strcmp(sandboxes->items[i].name, "box") == 0)
			continue;
		int code = remove_sandbox(d, sandboxes->items[i].id);
		if (code != 0)
			fail_msg("sandbox %s (%s, %s) cannot be removed: %s", sandboxes->items[i].name,
			        ringside_sandbox_state_name(sandboxes->items[i].state), sandboxes->items[i].reason,
			        outcome_name(code));
	}
	ringside_free(sandboxes);
	assert_int_equal(list_consoles(d, &consoles), 0);
	for (size_t i = 0; i < consoles->count; i++)
		if (!is_witness(consoles->items[i].name))
			assert_int_equal(end_console(d, consoles->items[i].name), 0);
	ringside_free(consoles);
}

/* ---- The scenarios' frame ---- */

struct scenario {
	const char *name;
	void (*prepare)(struct ringsided *d); /* without faults; may be NULL */
	int (*act)(struct ringsided *d);
	void (*verify)(struct ringsided *d); /* what must come true in the end, whatever failed; may be NULL */
};

static const struct fault_class classes[] = {
	{ "memory", FAULT_MEMORY, FAULT_SELF },
	{ "mappings", FAULT_MAP, FAULT_SELF },
	{ "descriptors", FAULT_DESCRIPTOR, FAULT_SELF },
	{ "processes", FAULT_PROCESS, FAULT_SELF },
	{ "room on disk", FAULT_DISK, FAULT_SELF },
	{ "syncs", FAULT_SYNC, FAULT_SELF },
	{ "watches", FAULT_WATCH, FAULT_SELF },
	{ "a child's descriptors", FAULT_DESCRIPTOR, FAULT_OFFSPRING },
	{ "a child's processes", FAULT_PROCESS, FAULT_OFFSPRING },
};
#define CLASSES (sizeof(classes) / sizeof(classes[0]))

/* Codes that blame the system, and not the request or the daemon. */
static bool is_typed(int code)
{
	switch (code) {
	case RINGSIDE_OK:
	case RINGSIDE_RESOURCE_LIMIT:
	case RINGSIDE_UNAVAILABLE:
	case RINGSIDE_BUSY:
	case RINGSIDE_RELEASE_FAILED:
	case RINGSIDE_INTERNAL: /* a disk that does not do what it is told */
		return true;
	default:
		return false;
	}
}

static void expect_alive(struct ringsided *d, const struct scenario *s, const struct fault_class *c, int64_t n)
{
	if (!is_alive(d))
		fail_msg("%s: the daemon died when number %lld of the %s failed (%s)\n%s", s->name, (long long)n,
		        c->name, d->control->first, read_file(d->h, home_path(d->h, "ringsided.err"), NULL));
}

/* One round with the n-th call failing (and `times` - 1 more). true: the fault was reached. */
static bool round_of(
        struct ringsided *d, const struct scenario *s, const struct fault_class *c, int64_t n, int64_t times)
{
	char what[160];

	if (s->prepare)
		s->prepare(d);
	fault_arm(d->control, c, d->pid, n, times);
	int code = d->came_of_it = s->act(d);
	uint64_t hits = fault_disarm(d->control);

	snprintf(what, sizeof(what), "%s, %s %lld: %s, %llu hits (%s)", s->name, c->name, (long long)n,
	        outcome_name(code), (unsigned long long)hits, d->control->first);
	if (getenv("RINGSIDE_FAULT_VERBOSE"))
		fprintf(stderr, "%s\n", what);
	expect_alive(d, s, c, n);
	if (!is_typed(code) || (hits == 0 && code != 0))
		fail_msg("%s", what);
	if (!ringside_connected(d->rs))
		connect_client(d);
	if (s->verify)
		s->verify(d);
	/* Once more, with all well: after a refusal as after a success, from the same beginning. */
	clean_up(d);
	if (s->prepare)
		s->prepare(d);
	code = d->came_of_it = s->act(d);
	if (code != 0)
		fail_msg("%s; and afterwards %s", what, outcome_name(code));
	if (s->verify)
		s->verify(d);
	clean_up(d);
	check_echo(&d->echo);
	check_ticker(&d->ticker);
	check_settled(d, what);
	expect_alive(d, s, c, n);
	return hits > 0;
}

/* Each of the first calls, then ever fewer of the hundreds that the ledger makes. */
static int64_t next_of(int64_t n)
{
	return n + 1 + (n > 20 ? n / 3 : 0);
}

static void run(struct ringsided *d, const struct scenario *s)
{
	unsigned faults = 0;

	for (size_t i = 0; i < CLASSES; i++) {
		const struct fault_class *c = &classes[i];
		int64_t n = 1;
		for (; round_of(d, s, c, n, 1); n = next_of(n))
			assert_true(++faults < MOST_FAULTS);
		if (n > 1)
			round_of(d, s, c, 1, c->kinds == FAULT_WATCH ? 3 : 10);
	}
	assert_true(faults > 0);
	if (getenv("RINGSIDE_FAULT_VERBOSE"))
		fprintf(stderr, "%s: %u faults\n", s->name, faults);
}

/* ---- The scenarios ---- */

static const char *const sleeper[] = { "sleep", "600", NULL };
static const char *const lines[] = { "cat", NULL };

static int act_start(struct ringsided *d)
{
	return start(d, "job", sleeper, 0);
}

static void a_start_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "start", .act = act_start });
}

static void prepare_lines(struct ringsided *d)
{
	assert_int_equal(start(d, "job", lines, 0), 0);
}

/* What is opened works, whatever failed on the way. */
static int act_open(struct ringsided *d)
{
	struct ringside_console *c;
	struct ringside_written w;
	struct ringside_error err;
	struct ringside_answer *a;

	int code = open_console(d, "job", RINGSIDE_WRITE, &c);
	if (code != 0)
		return code;
	code = ringside_console_write(c, "word\n", 5, NULL, &w, &err);
	if (code == 0) {
		const struct ringside_read_options o = {
			.from = w.tail_offset, .until = RINGSIDE_UNTIL_MATCH, .pattern = "word\\r\\nword\\r\\n"
		};
		code = ringside_read_wait(c, &o, 30000, &a, &err);
		if (code == 0) {
			assert_int_equal(a->reason, RINGSIDE_REASON_MATCH);
			ringside_free(a);
		}
	}
	ringside_console_close(c);
	return code;
}

static void an_open_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "open", .prepare = prepare_lines, .act = act_open });
}

/* A console whose memory the daemon could not take is read all the same, once it can. */
static int act_start_and_open(struct ringsided *d)
{
	int code = start(d, "job", lines, 0);

	return code != 0 ? code : act_open(d);
}

static void what_was_started_under_a_fault_can_be_read(void **state)
{
	run(*state, &(struct scenario){ .name = "start and open", .act = act_start_and_open });
}

/* Neither the news of the console nor the answer to its start could be mapped. */
static void a_console_whose_memory_did_not_come_is_opened_all_the_same(void **state)
{
	static const struct fault_class mappings = { "mappings", FAULT_MAP, FAULT_SELF };
	struct ringsided *d = *state;

	for (int64_t times = 1; times <= 2; times++) {
		fault_arm(d->control, &mappings, d->pid, 1, times);
		assert_int_equal(start(d, "job", lines, 0), 0);
		assert_int_equal(fault_disarm(d->control), times);
		assert_int_equal(act_open(d), 0);
		clean_up(d);
		check_settled(d, "a console that could not be mapped");
	}
}

static int act_signal(struct ringsided *d)
{
	struct ringside_error err;

	return ringside_signal(d->rs, "box", "job", SIGWINCH, NULL, &err);
}

static void a_signal_is_sent_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "signal", .prepare = prepare_lines, .act = act_signal });
}

static int act_resize(struct ringsided *d)
{
	struct ringside_error err;

	return ringside_resize(d->rs, "box", "job", 100, 30, NULL, &err);
}

static void a_resize_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "resize", .prepare = prepare_lines, .act = act_resize });
}

static int act_close(struct ringsided *d)
{
	return end_console(d, "job");
}

static void a_close_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "close", .prepare = prepare_lines, .act = act_close });
}

static int act_lists(struct ringsided *d)
{
	struct ringside_sandboxes *sandboxes;
	struct ringside_sandbox *box;
	struct ringside_consoles *consoles;
	struct ringside_status *status;
	struct ringside_error err;

	int code = list_sandboxes(d, true, &sandboxes);
	if (code == 0) {
		assert_true(sandboxes->count >= 1);
		ringside_free(sandboxes);
		code = ringside_show(d->rs, "box", &box, &err);
	}
	if (code == 0) {
		assert_int_equal(box->consoled_pid, d->consoled);
		ringside_free(box);
		code = list_consoles(d, &consoles);
	}
	if (code == 0) {
		assert_true(consoles->count >= 3);
		ringside_free(consoles);
		code = ringside_status(d->rs, &status, &err);
	}
	if (code == 0)
		ringside_free(status);
	return code;
}

static void lists_are_whole_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "lists", .prepare = prepare_lines, .act = act_lists });
}

/* ---- Exec ---- */

static void count_bytes(void *ctx, int stream, const void *bytes, size_t n)
{
	(void)bytes;
	if (stream == 1)
		*(size_t *)ctx += n;
}

static int act_exec(struct ringsided *d)
{
	static const char *const argv[] = { "sh", "-c", "head -c 100000 /dev/zero; exit 7", NULL };
	const struct ringside_exec_spec spec = { .argv = argv };
	struct ringside_exec *x;
	struct ringside_error err;
	size_t n = 0;
	bool done = false;

	int code = ringside_exec_open(d->rs, "box", &spec, &x, &err);
	if (code != 0)
		return code;
	while (code == 0 && !done) {
		struct pollfd p = { .fd = ringside_exec_fd(x), .events = ringside_exec_events(x) };
		assert_true(poll(&p, 1, DEADLINE_MS) > 0);
		code = ringside_exec_dispatch(x, p.revents, count_bytes, &n, &done, &err);
	}
	if (code == 0) {
		const struct ringside_exec_result *r = ringside_exec_result(x);
		code = r->failure_code;
		if (code == 0) {
			assert_int_equal(r->exit.code, 7);
			assert_int_equal(n, 100000);
		}
	}
	ringside_exec_close(x);
	return code;
}

static void an_exec_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "exec", .act = act_exec });
}

/* ---- Clients ---- */

static int act_connect(struct ringsided *d)
{
	const struct ringside_options options = { .no_start = true, .connect_ms = 5000 };
	struct ringside *rs;
	struct ringside_status *status;
	struct ringside_error err;

	(void)d;
	int code = ringside_open(&options, &rs, &err);
	if (code != 0)
		return code;
	code = ringside_status(rs, &status, &err);
	if (code == 0)
		ringside_free(status);
	ringside_close(rs);
	return code;
}

static void a_client_is_served_or_let_go(void **state)
{
	run(*state, &(struct scenario){ .name = "connect", .act = act_connect });
}

/* ---- Sandboxes ---- */

static int act_create(struct ringsided *d)
{
	return create(d, "extra");
}

/* A sandbox that was refused leaves nothing: not its name, not its folder, not a console daemon. */
static void a_create_is_done_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "create", .act = act_create });
}

static void prepare_sandbox(struct ringsided *d)
{
	assert_int_equal(create(d, "extra"), 0);
}

static int act_remove(struct ringsided *d)
{
	return remove_sandbox(d, "extra");
}

/* Whatever has failed: asked again, it goes. */
static void verify_removed(struct ringsided *d)
{
	struct ringside_sandbox *box;
	struct ringside_error err;

	int code = ringside_show(d->rs, "extra", &box, &err);
	check(code, &err);
	bool there = box->state != RINGSIDE_SANDBOX_TERMINATED;
	ringside_free(box);
	if (there)
		assert_int_equal(remove_sandbox(d, "extra"), 0);
}

static void a_removal_is_done_or_can_be_asked_for_again(void **state)
{
	run(*state, &(struct scenario){
	                    .name = "rm", .prepare = prepare_sandbox, .act = act_remove, .verify = verify_removed });
}

/* How the daemon has the console: its state, 0 where it does not know it. */
static int state_of(struct ringsided *d, const char *name)
{
	struct ringside_consoles *consoles;
	int state = 0;

	if (list_consoles(d, &consoles) != 0)
		return -1;
	for (size_t i = 0; i < consoles->count; i++)
		if (strcmp(consoles->items[i].name, name) == 0)
			state = consoles->items[i].state;
	ringside_free(consoles);
	return state;
}

/* Nothing has been ended then: whoever looks finds everything as it was. */
static void a_removal_that_the_ledger_does_not_take_leaves_the_consoles_as_they_are(void **state)
{
	struct ringsided *d = *state;
	const struct fault_class full = { "room on disk", FAULT_DISK, FAULT_SELF };

	fault_arm(d->control, &full, d->pid, 1, FAULT_ALWAYS);
	int code = remove_sandbox(d, "box");
	assert_true(fault_disarm(d->control) > 0);
	assert_int_equal(code, RINGSIDE_RESOURCE_LIMIT);
	assert_int_equal(state_of(d, "echo"), RINGSIDE_CONSOLE_RUNNING);
	assert_int_equal(state_of(d, "ticker"), RINGSIDE_CONSOLE_RUNNING);
	assert_int_equal(start(d, "job", sleeper, 0), 0);
	clean_up(d);
	check_echo(&d->echo);
	check_ticker(&d->ticker);
}

/* ---- Ends and custody ---- */

static void prepare_leaver(struct ringsided *d)
{
	static const char *const argv[] = { "sh", "-c", "read x; echo bye; exit 5", NULL };

	assert_int_equal(start(d, "job", argv, 0), 0);
}

/* What a next daemon would find in the ledger; 0: no such console. */
static int recorded_state_of(struct ringsided *d, const char *name)
{
	sqlite3 *db;
	sqlite3_stmt *q;
	int state = 0;

	assert_int_equal(
	        sqlite3_open_v2(home_path(d->h, "state/ledger.db"), &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, DEADLINE_MS);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT state FROM consoles WHERE name = ?", -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_ROW)
		state = sqlite3_column_int(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return state;
}

/* The console daemon has heard that its ended console is kept, and holds nothing for it any more. */
static bool is_let_go_of(struct ringsided *d)
{
	return geteuid() == 0 ? its_fds_of(d) <= d->consoled_fds
	                      : recorded_state_of(d, "job") == RINGSIDE_CONSOLE_EXITED;
}

/* Its end is told to who reads, by the console daemon; the control daemon hears of it by an event that may meet the fault. */
static int act_exit(struct ringsided *d)
{
	struct ringside_console *c;
	struct ringside_written w;
	struct ringside_error err;
	struct ringside_answer *a;
	const struct ringside_read_options o = { .until = RINGSIDE_UNTIL_EXIT };

	int code = open_console(d, "job", RINGSIDE_WRITE, &c);
	if (code != 0)
		return code;
	check(ringside_console_write(c, "go\n", 3, NULL, &w, &err), &err);
	check(ringside_read_wait(c, &o, 30000, &a, &err), &err);
	assert_int_equal(a->reason, RINGSIDE_REASON_EXIT);
	assert_int_equal(a->exit.code, 5);
	ringside_free(a);
	ringside_console_close(c);
	/* Until it is kept, or something has failed. */
	for (uint64_t until = now_ms() + 3000;
	        !is_let_go_of(d) && atomic_load(&d->control->hits) == 0 && now_ms() < until;)
		poll(NULL, 0, 5);
	return 0;
}

/* It has heard of it, what was printed is on disk and the ledger knows: the console daemon has let go of it (see
 * check_settled()). */
static void verify_ended(struct ringsided *d)
{
	struct ringside_console *c;
	struct ringside_error err;
	struct ringside_span got;
	char buf[65536];

	if (d->came_of_it != 0)
		return; /* it runs on: to open it was what met the fault */
	/* By itself: to ask how the consoles are would bring the news along. */
	wait_until("the end is known, and kept", is_let_go_of(d) || !is_alive(d));
	assert_int_equal(state_of(d, "job"), RINGSIDE_CONSOLE_EXITED);
	wait_until("the ledger knows", recorded_state_of(d, "job") == RINGSIDE_CONSOLE_EXITED);
	check(ringside_console_open(d->rs, "box", "job", 0, &c, &err), &err);
	uint64_t tail = ringside_console_tail(c);
	check(ringside_console_read(c, tail - 5, buf, 5, &got, &err), &err);
	assert_memory_equal(buf, "bye\r\n", 5);
	ringside_console_close(c);
}

static void an_end_is_heard_of_and_kept_whatever_fails(void **state)
{
	run(*state, &(struct scenario){
	                    .name = "exit", .prepare = prepare_leaver, .act = act_exit, .verify = verify_ended });
}

/* Nobody asks for the console meanwhile, which would be one more occasion. */
static void an_end_that_the_ledger_did_not_take_is_written_down_later(void **state)
{
	struct ringsided *d = *state;
	const struct fault_class syncs = { "syncs", FAULT_SYNC, FAULT_SELF };

	/* Custody's file and folder are synced first, then the ledger; other consoles' saves come in between. */
	for (int n = 1; n <= 8; n++) {
		prepare_leaver(d);
		assert_int_equal(recorded_state_of(d, "job"), RINGSIDE_CONSOLE_RUNNING);
		fault_arm(d->control, &syncs, d->pid, n, 1);
		assert_int_equal(act_exit(d), 0);
		fault_disarm(d->control);
		wait_until("the ledger knows", recorded_state_of(d, "job") == RINGSIDE_CONSOLE_EXITED);
		clean_up(d);
	}
}

static void prepare_ended(struct ringsided *d)
{
	static const char *const argv[] = { "echo", "bye", NULL };

	assert_int_equal(start(d, "job", argv, 10000), 0);
	check_settled(d, "an ended console is kept");
}

static int act_open_ended(struct ringsided *d)
{
	struct ringside_console *c;
	struct ringside_error err;
	struct ringside_span got;
	char buf[8] = "";

	int code = open_console(d, "job", 0, &c);
	if (code != 0)
		return code;
	check(ringside_console_read(c, ringside_console_tail(c) - 5, buf, 5, &got, &err), &err);
	assert_string_equal(buf, "bye\r\n");
	ringside_console_close(c);
	return code;
}

static void what_was_kept_is_read_or_refused(void **state)
{
	run(*state, &(struct scenario){ .name = "open kept", .prepare = prepare_ended, .act = act_open_ended });
}

/* ---- A full disk ---- */

/* Fills the daemon's file system to the last byte, or makes room again. */
static void fill_disk(struct ringsided *d, bool full)
{
	static const char zeros[4096];
	const char *path = home_format(d->h, "/proc/%d/root%s/state/filler", d->pid, d->h->dir);
	size_t n = sizeof(zeros);

	if (!full) {
		assert_int_equal(unlink(path), 0);
		return;
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (n > 0)
		if (write(fd, zeros, n) < 0)
			n /= 2;
	close(fd);
}

static bool has_said(struct ringsided *d, const char *text)
{
	size_t n = 0;
	const char *log = read_file(d->h, home_path(d->h, "ringsided.err"), &n);

	return log && contains(log, n, text);
}

/* Nothing can be kept: consoles run, end and are read all the same, and what was not kept is when there is room. */
static void a_full_disk_is_told_and_made_up_for(void **state)
{
	static const char *const waiter[] = { "sh", "-c", "read x; echo bye; exit 5", NULL };
	struct ringsided *d = *state;
	struct ringside_error err;

	if (!d->small_disk) {
		print_message("needs root: a file system of its own\n");
		return;
	}
	assert_int_equal(start(d, "job", waiter, 0), 0);
	fill_disk(d, true);
	assert_int_equal(act_exit(d), 0);
	wait_until("the log says it", has_said(d, "its output is not kept: No space left on device"));
	assert_false(is_let_go_of(d)); /* the console daemon still has what is nowhere else */
	assert_int_equal(state_of(d, "job"), RINGSIDE_CONSOLE_EXITED);
	assert_int_equal(act_open_ended(d), 0);
	assert_int_equal(start(d, "during", lines, 0), 0);
	assert_int_equal(create(d, "extra"), RINGSIDE_RESOURCE_LIMIT);
	check_echo(&d->echo);
	check_ticker(&d->ticker);

	fill_disk(d, false);
	assert_int_equal(end_console(d, "during"), 0);
	wait_until("both are kept", is_let_go_of(d));
	assert_int_equal(create(d, "extra"), 0);
	assert_int_equal(act_open_ended(d), 0);
	clean_up(d);
	d->fds += 2; /* one ended console more, whose memory is held as long as its console daemon has it */
	check_settled(d, "a full disk");
	check_echo(&d->echo);
	check_ticker(&d->ticker);
	/* A next daemon would not see this file system, nor find in it what is to be closed. */
	check(ringside_down(d->rs, true, &err), &err);
	assert_int_equal(running_end(d->h, d->program, DEADLINE_MS)->status, 0);
	d->h->keep_daemon = true;
}

/* ---- The console daemon's death ---- */

static pid_t consoled_of(struct ringsided *d, const char *name)
{
	struct ringside_sandbox *box;
	struct ringside_error err;

	if (ringside_show(d->rs, name, &box, &err) != 0)
		return 0;
	pid_t pid = (pid_t)box->consoled_pid;
	ringside_free(box);
	return pid;
}

static int start_in_extra(struct ringsided *d)
{
	static const char *const argv[] = { "sh", "-c", "echo bye; exec sleep 600", NULL };
	const struct ringside_start spec = { .argv = argv, .no_observe = true, .ring_bytes = 65536 };
	struct ringside_started *out;
	struct ringside_error err;

	int code = ringside_start(d->rs, "extra", "job", &spec, &out, &err);
	if (code == 0)
		ringside_free(out);
	return code;
}

static void prepare_doomed(struct ringsided *d)
{
	struct ringside_console *c;
	struct ringside_error err;

	assert_int_equal(create(d, "extra"), 0);
	assert_int_equal(start_in_extra(d), 0);
	check(ringside_console_open(d->rs, "extra", "job", 0, &c, &err), &err);
	wait_until("the program has printed", ringside_console_tail(c) == 5);
	ringside_console_close(c);
}

static bool is_lost(struct ringsided *d)
{
	struct ringside_consoles *consoles;
	struct ringside_error err;
	bool lost = false;

	if (ringside_ps(d->rs, "extra", &consoles, &err) != 0)
		return false;
	for (size_t i = 0; i < consoles->count; i++)
		lost |= consoles->items[i].state == RINGSIDE_CONSOLE_LOST;
	ringside_free(consoles);
	return lost;
}

static int act_kill_consoled(struct ringsided *d)
{
	pid_t pid = consoled_of(d, "extra");

	if (pid == 0) /* to ask met the fault */
		return RINGSIDE_UNAVAILABLE;
	kill_and_wait(pid, SIGKILL);
	for (uint64_t until = now_ms() + 2000; !is_lost(d) && atomic_load(&d->control->hits) == 0 && now_ms() < until;)
		poll(NULL, 0, 5);
	return 0;
}

/* Its console is LOST with its output readable, and its name goes on. */
static void verify_lost(struct ringsided *d)
{
	struct ringside_console *c;
	struct ringside_error err;
	struct ringside_span got;
	char buf[8] = "";

	if (!is_lost(d) && consoled_of(d, "extra") != 0)
		kill_and_wait(consoled_of(d, "extra"), SIGKILL);
	wait_until("the console is lost", is_lost(d));
	check(ringside_console_open(d->rs, "extra", "job", 0, &c, &err), &err);
	check(ringside_console_read(c, 0, buf, 5, &got, &err), &err);
	assert_string_equal(buf, "bye\r\n");
	ringside_console_close(c);
	int code = start_in_extra(d);
	if (code != 0)
		fail_msg("a lost console cannot be started again: %s", outcome_name(code));
}

static void a_dead_console_daemon_is_noticed_and_its_output_kept_whatever_fails(void **state)
{
	run(*state,
	        &(struct scenario){
	                .name = "kill", .prepare = prepare_doomed, .act = act_kill_consoled, .verify = verify_lost });
}

/* ---- Starts of the daemon itself ---- */

static void stop_daemon(struct ringsided *d)
{
	kill(d->pid, SIGTERM);
	struct ran *r = running_end(d->h, d->program, DEADLINE_MS);
	assert_int_equal(r->status, 0);
	d->program = NULL;
}

/* A start that meets a fault serves, or ends with a word; and the next one has everything. */
static void a_start_of_the_daemon_serves_or_says_why_not(void **state)
{
	static const struct fault_class kinds[] = {
		/* Whoever has the control mapped: its pid is not known yet. */
		{ "memory", FAULT_MEMORY, FAULT_OFFSPRING },
		{ "room on disk", FAULT_DISK, FAULT_OFFSPRING },
		{ "processes", FAULT_PROCESS, FAULT_OFFSPRING },
	};
	struct ringsided *d = *state;
	const struct ringside_options options = { .no_start = true, .connect_ms = 100 };
	struct ringside_error err;
	unsigned refused = 0, served = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t hits = 1;
		for (int64_t n = 1; hits > 0; n = n + 1 + (n > 10 ? n / 2 : 0)) {
			stop_daemon(d);
			ringside_close(d->rs);
			d->rs = NULL;
			fault_arm(d->control, &kinds[i], 0, n, 1);
			begin_daemon(d);
			while (!running_ended(d->program) && ringside_open(&options, &d->rs, &err) != 0)
				poll(NULL, 0, 5);
			hits = fault_disarm(d->control);
			if (running_ended(d->program)) {
				struct ran *r = running_end(d->h, d->program, DEADLINE_MS);
				if (r->status != 1)
					fail_msg("status %d when number %lld of its %s failed (%s)", r->status,
					        (long long)n, kinds[i].name, d->control->first);
				assert_true(hits > 0);
				refused++;
				begin_daemon(d);
			} else {
				served++;
			}
			connect_client(d);
			wait_until("the sandbox is found again", consoled_of(d, "box") == d->consoled);
			check_echo(&d->echo);
			check_ticker(&d->ticker);
			assert_int_equal(act_start(d), 0);
			clean_up(d);
		}
	}
	assert_true(refused > 0 && served > 0);
}

/* ---- Fixture ---- */

static void forget(void *what)
{
	struct ringsided *d = what;

	ringside_console_close(d->echo.c);
	ringside_console_close(d->ticker.c);
	ringside_close(d->rs);
	fault_control_free(d->control);
	free(d);
}

static void begin_witness(struct ringsided *d, struct witness *w, const char *name, const char *const *argv)
{
	const struct ringside_start spec = { .argv = argv, .no_observe = true, .ring_bytes = 4 << 20 };
	struct ringside_started *out;
	struct ringside_error err;

	check(ringside_start(d->rs, "box", name, &spec, &out, &err), &err);
	ringside_free(out);
	check(ringside_console_open(d->rs, "box", name, RINGSIDE_WRITE, &w->c, &err), &err);
}

/* The fewest descriptors over some rounds of custody, which has some more while it writes. */
static void learn_fds(struct ringsided *d)
{
	for (uint64_t until = now_ms() + 1200; now_ms() < until; poll(NULL, 0, 2)) {
		size_t own = process_fds(d->pid), consoled = its_fds_of(d);
		d->fds = own < d->fds ? own : d->fds;
		d->consoled_fds = consoled < d->consoled_fds ? consoled : d->consoled_fds;
	}
}

static int setup_with(void **state, bool small_disk)
{
	static const char *const ticker[] = { "sh", "-c", "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.02; done",
		NULL };
	void *home;
	char bin[PATH_MAX];

	/* Hundreds of rounds of syncs; what they are worth on a disk is not asked here. */
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 1);
	if (home_setup(&home) < 0)
		return -1;
	struct home *h = home;
	if (!fault_path(bin, "bin"))
		fail_msg("no debug variant: make VARIANT=debug all preloads");
	snprintf(h->bin, sizeof(h->bin), "%.4000s", bin);
	struct ringsided *d = calloc(1, sizeof(*d));
	assert_non_null(d);
	d->h = h;
	d->small_disk = small_disk;
	home_defer(h, forget, d);
	d->control = fault_control_new(home_path(h, "control"));
	assert_non_null(d->control);
	setenv("RINGSIDE_HOME", h->dir, 1);
	begin_daemon(d);
	connect_client(d);
	*state = d;

	assert_int_equal(create(d, "box"), 0);
	d->consoled = consoled_of(d, "box");
	begin_witness(d, &d->echo, "echo", lines);
	begin_witness(d, &d->ticker, "ticker", ticker);
	check_echo(&d->echo);
	/* The first of a kind makes what stays. */
	assert_int_equal(act_start(d), 0);
	clean_up(d);
	assert_int_equal(create(d, "extra"), 0);
	clean_up(d);
	d->fds = d->consoled_fds = SIZE_MAX;
	learn_fds(d);
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, false);
}

static int setup_small_disk(void **state)
{
	return setup_with(state, geteuid() == 0);
}

static int teardown(void **state)
{
	struct ringsided *d = *state;
	void *home = d->h;

	return home_teardown(&home);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_start_is_done_or_refused),
		TEST(an_open_is_done_or_refused),
		TEST(what_was_started_under_a_fault_can_be_read),
		TEST(a_console_whose_memory_did_not_come_is_opened_all_the_same),
		TEST(a_signal_is_sent_or_refused),
		TEST(a_resize_is_done_or_refused),
		TEST(a_close_is_done_or_refused),
		TEST(lists_are_whole_or_refused),
		TEST(an_exec_is_done_or_refused),
		TEST(a_client_is_served_or_let_go),
		TEST(a_create_is_done_or_refused),
		TEST(a_removal_is_done_or_can_be_asked_for_again),
		TEST(a_removal_that_the_ledger_does_not_take_leaves_the_consoles_as_they_are),
		TEST(an_end_is_heard_of_and_kept_whatever_fails),
		TEST(an_end_that_the_ledger_did_not_take_is_written_down_later),
		TEST(what_was_kept_is_read_or_refused),
		cmocka_unit_test_setup_teardown(a_full_disk_is_told_and_made_up_for, setup_small_disk, teardown),
		TEST(a_dead_console_daemon_is_noticed_and_its_output_kept_whatever_fails),
		TEST(a_start_of_the_daemon_serves_or_says_why_not),
	};

	return HOME_MAIN("faults of the control daemon", tests);
}
