/*
 * test_exec.c - a command as its caller sees it: what it is started with, its streams, its result, and what ends it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "consoles/exec.h"
#include "consoles/process.h"
#include "tests/support/leftovers.h"
#include "tests/support/scenarios.h"
#include "tests/support/turn.h"
#include "wire/codes.h"
#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/sock.h"

/* Of this run alone: others may run beside it. */
#define MARKER_NAME "RINGSIDE_TEST_EXEC"
static char marker[64];

#define PATHS "/nowhere:relative:/usr/local/bin:/usr/bin:/bin"

static uv_loop_t *loop;
static char workspace[] = "/tmp/ringside-exec-XXXXXX";

/* ---- The caller ---- */

struct bytes {
	uint8_t *data;
	size_t n, size;
};

struct client {
	struct conn *conn;
	struct bytes out, err;
	Wire__ExecResult *result;
	bool closed; /* by the daemon */
	bool deaf;   /* reads nothing */
	const uint8_t *input;
	size_t input_left;
	bool end_input; /* after what is left */
	pid_t keeper;
};

static struct client client;

static void append(struct bytes *b, const void *p, size_t n)
{
	if (b->size - b->n < n) {
		b->size = (b->n + n) * 2;
		b->data = realloc(b->data, b->size);
		assert_non_null(b->data);
	}
	if (n > 0)
		memcpy(b->data + b->n, p, n);
	b->n += n;
}

static void take_frame(struct client *c, const struct frame *f)
{
	assert_null(c->result); /* the result is the last frame */
	if (f->type == FRAME_MESSAGE) {
		c->result = wire__exec_result__unpack(NULL, f->length, f->payload);
		assert_non_null(c->result);
		return;
	}
	assert_int_equal(f->type, FRAME_DATA);
	assert_true(f->channel == CHANNEL_STDOUT || f->channel == CHANNEL_STDERR);
	append(f->channel == CHANNEL_STDOUT ? &c->out : &c->err, f->payload, f->length);
}

static void read_frames(struct client *c)
{
	struct frame f;
	int r;

	if (c->deaf || c->closed)
		return;
	while ((r = conn_fill(c->conn)) > 0) {
		while (conn_next(c->conn, &f) > 0)
			take_frame(c, &f);
	}
	c->closed = r < 0;
}

static void write_frames(struct client *c)
{
	while (c->input_left > 0 && !c->closed) {
		size_t n = c->input_left < FRAME_MAX_PAYLOAD ? c->input_left : FRAME_MAX_PAYLOAD;
		if (conn_queued(c->conn) > 0 || conn_send(c->conn, FRAME_DATA, CHANNEL_INPUT, c->input, n, NULL, 0) < 0)
			break;
		c->input += n;
		c->input_left -= n;
	}
	if (c->input_left == 0 && c->end_input && conn_queued(c->conn) == 0) {
		c->end_input = false;
		conn_send(c->conn, FRAME_DATA, CHANNEL_INPUT, NULL, 0, NULL, 0);
	}
	conn_flush(c->conn);
}

static void pump(struct client *c)
{
	if (!c->conn)
		return;
	write_frames(c);
	read_frames(c);
}

static bool has_closed(void *ctx)
{
	struct client *c = ctx;

	pump(c);
	return c->closed;
}

static bool has_output(void *ctx)
{
	struct client *c = ctx;

	pump(c);
	return c->out.n > 0;
}

static bool no_exec_left(void *ctx)
{
	pump(ctx);
	return exec_count() == 0;
}

static bool is_childless(void *ctx)
{
	pump(ctx);
	return any_child() == 0;
}

#define wait_for(what)                                      \
	do {                                                \
		if (!turn_until(loop, what, &client))       \
			fail_msg("%s: not in time", #what); \
	} while (0)

static void run_for(uint64_t ms)
{
	const uint64_t until = clock_mono_ms() + ms;

	while (clock_mono_ms() < until) {
		pump(&client);
		uv_run(loop, UV_RUN_NOWAIT);
	}
}

static void hang_up(void)
{
	conn_free(client.conn);
	client.conn = NULL;
}

/* ---- Requests ---- */

struct request {
	Wire__ExecSpec spec;
	ProtobufCBinaryData argv[8];
	Wire__EnvVar var[4], *env[4];
};

static void add_arg(struct request *q, const void *bytes, size_t n)
{
	q->argv[q->spec.n_argv++] = (ProtobufCBinaryData){ .len = n, .data = (uint8_t *)(uintptr_t)bytes };
	q->spec.argv = q->argv;
}

static void add_env(struct request *q, const char *name, const void *value, size_t n)
{
	Wire__EnvVar *v = &q->var[q->spec.n_env];

	wire__env_var__init(v);
	v->name = (char *)(uintptr_t)name;
	v->value = (ProtobufCBinaryData){ .len = n, .data = (uint8_t *)(uintptr_t)value };
	q->env[q->spec.n_env++] = v;
	q->spec.env = q->env;
}

static void init_request(struct request *q, const char *const *argv)
{
	memset(q, 0, sizeof(*q));
	wire__exec_spec__init(&q->spec);
	for (; *argv; argv++)
		add_arg(q, *argv, strlen(*argv));
	const char *value = strchr(marker, '=') + 1;
	add_env(q, MARKER_NAME, value, strlen(value));
}

static int try_request(struct request *q)
{
	const struct exec_defaults defaults = { .workspace = workspace, .path = PATHS, .sandbox = "test" };
	int pair[2];

	assert_int_equal(sock_pair(pair), 0);
	int r = exec_start(loop, &q->spec, pair[0], &defaults, &client.keeper);
	if (r < 0) {
		/* Not taken over: it is still ours. */
		assert_int_equal(close(pair[0]), 0);
		close(pair[1]);
		return r;
	}
	assert_int_equal(conn_new(pair[1], 1024 * 1024, &client.conn), 0);
	return 0;
}

static void send_request(struct request *q)
{
	assert_int_equal(try_request(q), 0);
}

/* Runs a shell's script to its result. */
static void start_shell(const char *script, bool stdin_stream)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	struct request q;

	init_request(&q, argv);
	q.spec.stdin_stream = stdin_stream;
	send_request(&q);
}

static void start_scenario(const char *name)
{
	const char *const argv[] = { "/proc/self/exe", "--scenario", name, NULL };
	struct request q;

	init_request(&q, argv);
	send_request(&q);
}

static void assert_bytes(const struct bytes *b, const char *expected)
{
	assert_int_equal(b->n, strlen(expected));
	assert_memory_equal(b->n ? b->data : (const uint8_t *)"", expected, b->n);
}

static void assert_exit(uint32_t code, uint32_t sig)
{
	assert_non_null(client.result);
	assert_null(client.result->failure);
	assert_non_null(client.result->exit);
	assert_int_equal(client.result->exit->code, code);
	assert_int_equal(client.result->exit->signal, sig);
}

static void note_end(void *ctx)
{
	++*(int *)ctx;
}

static void forget_client(void)
{
	conn_free(client.conn);
	if (client.result)
		wire__exec_result__free_unpacked(client.result, NULL);
	free(client.out.data);
	free(client.err.data);
	client = (struct client){ 0 };
}

static int clean_up(void **state)
{
	int done = 0;

	(void)state;
	exec_end_all(0, note_end, &done);
	bool over = turn_until(loop, no_exec_left, &client) && done == 1 && turn_until(loop, is_childless, &client);
	forget_client();
	return over && find_marked(marker) == 0 ? 0 : -1;
}

/* ---- What it is started with ---- */

static void both_streams_and_the_exit_code_come_apart(void **state)
{
	(void)state;
	start_shell("echo out; echo err >&2; exit 3", false);
	assert_true(client.keeper > 0);
	wait_for(has_closed);
	assert_bytes(&client.out, "out\n");
	assert_bytes(&client.err, "err\n");
	assert_exit(3, 0);
	assert_false(client.result->timed_out || client.result->idle_timed_out || client.result->held);
	wait_for(no_exec_left);
}

static void a_deadly_signal_is_told_as_such(void **state)
{
	(void)state;
	start_shell("kill -SEGV $$", false);
	wait_for(has_closed);
	assert_exit(0, SIGSEGV);
}

static void the_environment_is_the_one_given_and_nothing_of_the_daemons(void **state)
{
	const char *const argv[] = { "env", NULL };
	struct request q;

	(void)state;
	setenv("SECRET", "of the daemon", 1);
	init_request(&q, argv);
	add_env(&q, "B", "two words\n=x", 12);
	add_env(&q, "EMPTY", "", 0);
	send_request(&q);
	wait_for(has_closed);
	char wanted[128];
	snprintf(wanted, sizeof(wanted), "%s\nB=two words\n=x\nEMPTY=\n", marker);
	assert_bytes(&client.out, wanted);
}

static void arguments_arrive_byte_for_byte(void **state)
{
	const char *const argv[] = { "printf", "%s|", "", "two words", "\xff\x01*", NULL };
	struct request q;

	(void)state;
	init_request(&q, argv);
	send_request(&q);
	wait_for(has_closed);
	assert_bytes(&client.out, "|two words|\xff\x01*|");
}

static void the_working_directory_is_the_workspace_or_below_or_elsewhere(void **state)
{
	static const char *const cwds[] = { "", "/workspace", "sub", "/workspace/sub", "/", "/workspaces" };
	char expected[6][64];
	const char *const argv[] = { "/bin/pwd", NULL };

	(void)state;
	snprintf(expected[0], 64, "%s\n", workspace);
	snprintf(expected[1], 64, "%s\n", workspace);
	snprintf(expected[2], 64, "%s/sub\n", workspace);
	snprintf(expected[3], 64, "%s/sub\n", workspace);
	snprintf(expected[4], 64, "/\n");
	expected[5][0] = '\0'; /* another directory, which is not there */
	for (int i = 0; i < 6; i++) {
		struct request q;
		init_request(&q, argv);
		q.spec.cwd = (char *)(uintptr_t)cwds[i];
		send_request(&q);
		wait_for(has_closed);
		assert_bytes(&client.out, expected[i]);
		assert_exit(i < 5 ? 0 : 126, 0);
		forget_client();
	}
}

static void stdin_is_empty_unless_it_is_asked_for(void **state)
{
	(void)state;
	start_shell("cat; echo end", false);
	wait_for(has_closed);
	assert_bytes(&client.out, "end\n");
}

/* ---- What cannot be started ---- */

static void run_path(const char *path)
{
	const char *const argv[] = { path, NULL };
	struct request q;

	init_request(&q, argv);
	send_request(&q);
	wait_for(has_closed);
}

static void an_unknown_command_is_127_with_a_line_that_names_it(void **state)
{
	static const char *const names[] = { "no-such-command", "/no/such/command", "./no-such-command" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		run_path(names[i]);
		assert_exit(127, 0);
		append(&client.err, "", 1);
		assert_non_null(strstr((char *)client.err.data, names[i]));
		assert_non_null(strchr((char *)client.err.data, '\n'));
		assert_int_equal(client.out.n, 0);
		forget_client();
	}
}

static void a_file_that_cannot_be_executed_is_126(void **state)
{
	(void)state;
	run_path("/etc/passwd");
	assert_exit(126, 0);
	assert_bytes(&client.err, "ringside: /etc/passwd: Permission denied\n");
}

static void a_bad_directory_is_126_with_a_line_that_names_it(void **state)
{
	const char *const argv[] = { "true", NULL };
	struct request q;

	(void)state;
	init_request(&q, argv);
	q.spec.cwd = (char[]){ "/no/such" };
	send_request(&q);
	wait_for(has_closed);
	assert_exit(126, 0);
	assert_bytes(&client.err, "ringside: /no/such: No such file or directory\n");
}

static void a_name_cannot_write_to_the_callers_terminal(void **state)
{
	(void)state;
	run_path("\033[31mred\n");
	assert_exit(127, 0);
	assert_bytes(&client.err, "ringside: \\e[31mred\\n: command not found\n");
}

static void assert_refused(struct request *q, enum result code)
{
	send_request(q);
	assert_int_equal(client.keeper, 0);
	wait_for(has_closed);
	assert_non_null(client.result);
	assert_null(client.result->exit);
	assert_non_null(client.result->failure);
	assert_int_equal(client.result->failure->code, code);
	assert_true(strlen(client.result->failure->message) > 0);
	assert_int_equal(client.out.n + client.err.n, 0);
	forget_client();
}

static void a_bad_request_is_an_invalid_argument(void **state)
{
	const char *const none[] = { NULL }, *const empty[] = { "", NULL }, *const sh[] = { "sh", NULL };
	struct request q;

	(void)state;
	init_request(&q, none);
	assert_refused(&q, RESULT_INVALID_ARGUMENT);
	init_request(&q, empty);
	assert_refused(&q, RESULT_INVALID_ARGUMENT);
	init_request(&q, sh);
	add_arg(&q, "a\0b", 3);
	assert_refused(&q, RESULT_INVALID_ARGUMENT);
	init_request(&q, sh);
	add_env(&q, "A", "a\0b", 3);
	assert_refused(&q, RESULT_INVALID_ARGUMENT);

	static const char *const names[] = { "", "1A", "A B", "A=B", "_t", "_tx", "__t_x" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		init_request(&q, sh);
		add_env(&q, names[i], "x", 1);
		assert_refused(&q, RESULT_INVALID_ARGUMENT);
	}
	assert_int_equal(exec_count(), 0);
}

static void out_of_descriptors_is_an_error_that_leaves_nothing_and_the_socket_ours(void **state)
{
	const char *const argv[] = { "true", NULL };
	struct rlimit before, tight;
	struct request q;
	int pair[2];

	(void)state;
	init_request(&q, argv);
	q.spec.stdin_stream = true;
	const struct exec_defaults defaults = { .workspace = workspace, .path = PATHS, .sandbox = "test" };
	assert_int_equal(sock_pair(pair), 0);
	getrlimit(RLIMIT_NOFILE, &before);
	int lowest = dup(0), fds = count_fds() - 1;
	close(lowest);
	/* One more each time, until all it needs is there. */
	int r = -EMFILE, tries = 0;
	for (; r == -EMFILE && tries < 20; tries++) {
		tight = (struct rlimit){ .rlim_cur = (rlim_t)(lowest + tries), .rlim_max = before.rlim_max };
		setrlimit(RLIMIT_NOFILE, &tight);
		r = exec_start(loop, &q.spec, pair[0], &defaults, &client.keeper);
		setrlimit(RLIMIT_NOFILE, &before);
		if (r == 0)
			break;
		for (int turns = 0; turns < 3; turns++)
			uv_run(loop, UV_RUN_NOWAIT);
		assert_int_equal(count_fds(), fds);
		assert_int_equal(exec_count(), 0);
	}
	assert_int_equal(r, 0);
	assert_true(tries > 5);
	assert_int_equal(conn_new(pair[1], 65536, &client.conn), 0);
	client.end_input = true;
	wait_for(has_closed);
	assert_non_null(client.result);
}

/* ---- Streams ---- */

static uint8_t *make_pattern(size_t n)
{
	uint8_t *p = malloc(n);
	uint32_t x = 12345;

	assert_non_null(p);
	for (size_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = (uint8_t)(x >> 24);
	}
	return p;
}

static void megabytes_go_through_both_ways_unharmed(void **state)
{
	const size_t size = 8 * 1024 * 1024 + 17;
	uint8_t *pattern = make_pattern(size);

	(void)state;
	start_shell("cat", true);
	client.input = pattern;
	client.input_left = size;
	client.end_input = true;
	wait_for(has_closed);
	assert_exit(0, 0);
	assert_int_equal(client.out.n, size);
	assert_memory_equal(client.out.data, pattern, size);
	free(pattern);
}

static void a_reader_that_stops_stops_the_program_and_loses_nothing(void **state)
{
	(void)state;
	start_shell("yes 0123456789abcde | head -c 33554432; echo done >&2", false);
	client.deaf = true;
	run_for(500);
	/* What one frame, the socket and the pipe can hold, and no more. */
	assert_int_equal(client.result == NULL && client.err.n == 0, 1);
	client.deaf = false;
	wait_for(has_closed);
	assert_int_equal(client.out.n, 33554432);
	for (size_t i = 0; i < client.out.n; i += 16)
		assert_memory_equal(client.out.data + i, "0123456789abcde\n", 16);
	assert_bytes(&client.err, "done\n");
	assert_exit(0, 0);
}

static void what_was_printed_before_the_exit_is_kept_for_a_slow_reader(void **state)
{
	(void)state;
	/* 64 KiB fit into the pipe: the program is gone long before they are read. */
	start_shell("head -c 65536 /dev/zero", false);
	client.deaf = true;
	run_for(EXEC_HELD_MS + 500);
	client.deaf = false;
	wait_for(has_closed);
	assert_int_equal(client.out.n, 65536);
	assert_false(client.result->held);
	assert_exit(0, 0);
}

static void a_program_that_does_not_read_leaves_the_caller_waiting(void **state)
{
	const size_t size = 4 * 1024 * 1024;
	uint8_t *pattern = make_pattern(size);

	(void)state;
	start_shell("read go < /dev/null; sleep 0.5; wc -c", true);
	client.input = pattern;
	client.input_left = size;
	client.end_input = true;
	run_for(250);
	assert_true(client.input_left > size / 2);
	wait_for(has_closed);
	assert_bytes(&client.out, "4194304\n");
	free(pattern);
}

static void input_that_nobody_wants_harms_nobody(void **state)
{
	const size_t size = 1024 * 1024;
	uint8_t *pattern = make_pattern(size);

	(void)state;
	start_shell("exec 0<&-; sleep 0.2; echo ok", true);
	client.input = pattern;
	client.input_left = size;
	client.end_input = true;
	wait_for(has_closed);
	assert_bytes(&client.out, "ok\n");
	assert_exit(0, 0);
	free(pattern);
}

static void a_frame_of_another_protocol_ends_it(void **state)
{
	(void)state;
	start_scenario("escape");
	wait_for(has_output);
	conn_send_u64(client.conn, FRAME_LEVEL, 1);
	wait_for(has_closed);
	assert_null(client.result);
	wait_for(no_exec_left);
	assert_int_equal(find_marked(marker), 0);
}

/* ---- Time ---- */

static void a_timeout_ends_everything_and_keeps_what_was_printed(void **state)
{
	const char *const argv[] = { "/proc/self/exe", "--scenario", "escape", NULL };
	struct request q;

	(void)state;
	init_request(&q, argv);
	q.spec.timeout_ms = 700;
	uint64_t before = clock_mono_ms();
	send_request(&q);
	wait_for(has_closed);
	assert_true(clock_mono_ms() - before >= 700 + EXEC_LIMIT_GRACE_MS);
	assert_bytes(&client.out, "r");
	assert_exit(0, SIGKILL);
	assert_string_equal(client.result->exit->name, "TIMEOUT");
	assert_true(client.result->timed_out);
	assert_false(client.result->idle_timed_out);
	assert_int_equal(client.result->n_survivors, 0);
	assert_int_equal(find_marked(marker), 0);
	wait_for(no_exec_left);
}

static void an_idle_timeout_counts_from_the_last_output(void **state)
{
	const char *const argv[] = { "sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.15; done; sleep 1000",
		NULL };
	struct request q;

	(void)state;
	init_request(&q, argv);
	q.spec.idle_timeout_ms = 500;
	uint64_t before = clock_mono_ms();
	send_request(&q);
	wait_for(has_closed);
	assert_true(clock_mono_ms() - before >= 5 * 150 + 500);
	assert_bytes(&client.out, "1\n2\n3\n4\n5\n6\n");
	assert_true(client.result->idle_timed_out);
	assert_false(client.result->timed_out);
	assert_string_equal(client.result->exit->name, "IDLE_TIMEOUT");
}

static void input_is_activity_too(void **state)
{
	const char *const argv[] = { "sh", "-c", "read a; read b; read c; echo $a$b$c", NULL };
	struct request q;

	(void)state;
	init_request(&q, argv);
	q.spec.stdin_stream = true;
	q.spec.idle_timeout_ms = 600;
	send_request(&q);
	for (int i = 0; i < 3; i++) {
		run_for(350);
		conn_send(client.conn, FRAME_DATA, CHANNEL_INPUT, "x\n", 2, NULL, 0);
	}
	wait_for(has_closed);
	assert_bytes(&client.out, "xxx\n");
	assert_exit(0, 0);
}

static void a_caller_that_does_not_read_makes_nobody_idle(void **state)
{
	const char *const argv[] = { "sh", "-c", "head -c 4194304 /dev/zero; echo done >&2", NULL };
	struct request q;

	(void)state;
	init_request(&q, argv);
	q.spec.idle_timeout_ms = 300;
	send_request(&q);
	client.deaf = true;
	run_for(1200);
	client.deaf = false;
	wait_for(has_closed);
	assert_int_equal(client.out.n, 4194304);
	assert_false(client.result->idle_timed_out);
	assert_exit(0, 0);
}

/* ---- What is left behind ---- */

static void a_stream_held_by_what_is_left_is_told_after_two_seconds(void **state)
{
	(void)state;
	start_shell("sleep 1000 & echo hi; exit 4", false);
	uint64_t before = clock_mono_ms();
	wait_for(has_closed);
	assert_true(clock_mono_ms() - before >= EXEC_HELD_MS - 100);
	assert_true(clock_mono_ms() - before < EXEC_HELD_MS + 1500);
	assert_bytes(&client.out, "hi\n");
	assert_true(client.result->held);
	assert_exit(4, 0);
	/* It lives on under its keeper. */
	assert_int_equal(exec_count(), 1);
	assert_int_not_equal(find_marked(marker), 0);
}

static void what_is_left_and_holds_nothing_delays_nothing(void **state)
{
	(void)state;
	start_shell("sleep 1000 >/dev/null 2>&1 & echo hi", false);
	uint64_t before = clock_mono_ms();
	wait_for(has_closed);
	assert_true(clock_mono_ms() - before < EXEC_HELD_MS - 500);
	assert_false(client.result->held);
	assert_exit(0, 0);
	run_for(200);
	assert_int_equal(exec_count(), 1);
	assert_int_not_equal(find_marked(marker), 0);
}

static void what_is_left_may_go_on_printing(void **state)
{
	char path[64];
	struct stat st;

	(void)state;
	/* Far more than a pipe holds, then a sign that it came to its end: it was neither stopped nor killed. */
	snprintf(path, sizeof(path), "%s/sign", workspace);
	start_shell("(trap '' HUP; sleep 2.2; head -c 262144 /dev/zero && echo x >sign) & exit 0", false);
	wait_for(has_closed);
	assert_true(client.result->held);
	wait_for(no_exec_left);
	assert_int_equal(stat(path, &st), 0);
	unlink(path);
}

static void a_held_stream_that_never_rests_is_answered_all_the_same(void **state)
{
	(void)state;
	start_shell("yes & exit 5", false);
	wait_for(has_closed);
	assert_true(client.result->held);
	assert_exit(5, 0);
}

/* ---- Hanging up ---- */

static void a_hang_up_ends_everything(void **state)
{
	(void)state;
	start_scenario("escape");
	wait_for(has_output);
	hang_up();
	wait_for(no_exec_left);
	assert_int_equal(find_marked(marker), 0);
}

static void a_hang_up_is_heard_while_input_waits(void **state)
{
	static uint8_t zeros[1024 * 1024];

	(void)state;
	start_shell("sleep 1000", true);
	client.input = zeros;
	client.input_left = sizeof(zeros);
	run_for(300);
	assert_true(client.input_left > 0);
	hang_up();
	uint64_t before = clock_mono_ms();
	wait_for(no_exec_left);
	assert_true(clock_mono_ms() - before < 2500); /* SIGHUP did it */
}

static void a_hang_up_while_output_waits_ends_it(void **state)
{
	(void)state;
	start_shell("yes", false);
	client.deaf = true;
	run_for(300);
	hang_up();
	wait_for(no_exec_left);
	assert_int_equal(find_marked(marker), 0);
}

static void the_daemons_end_gives_a_result_and_waits_for_no_reader(void **state)
{
	int done = 0;

	(void)state;
	start_shell("echo hi; sleep 1000", false);
	wait_for(has_output);
	exec_end_all(1000, note_end, &done);
	assert_int_equal(done, 0);
	wait_for(has_closed);
	assert_exit(0, SIGHUP);
	wait_for(no_exec_left);
	assert_int_equal(done, 1);
	forget_client();

	start_shell("yes", false);
	client.deaf = true;
	run_for(300);
	exec_end_all(1000, note_end, &done);
	wait_for(no_exec_left);
	assert_int_equal(done, 2);
}

static void a_killed_keeper_is_a_failure_and_not_an_exit_code(void **state)
{
	(void)state;
	start_scenario("escape");
	wait_for(has_output);
	kill(client.keeper, SIGKILL);
	wait_for(has_closed);
	assert_null(client.result->exit);
	assert_non_null(client.result->failure);
	assert_int_equal(client.result->failure->code, RESULT_UNAVAILABLE);
	wait_for(is_childless);
	assert_int_equal(find_marked(marker), 0);
}

/* ---- Nothing leaks ---- */

static void hundreds_of_commands_leak_nothing(void **state)
{
	int fds = -1, ended = 0;

	(void)state;
	for (int i = 0; i < 300; i++) {
		if (i % 10 == 9)
			start_scenario("escape");
		else
			start_shell(i % 2 ? "echo x" : "exec 1>&- 2>&-; exit 1", i % 3 == 0);
		if (i % 10 == 9) {
			hang_up();
			exec_end_all(0, note_end, &ended);
		} else {
			client.end_input = i % 3 == 0;
			wait_for(has_closed);
			assert_non_null(client.result);
		}
		wait_for(no_exec_left);
		wait_for(is_childless);
		forget_client();
		if (i == 9)
			fds = count_fds();
	}
	uv_run(loop, UV_RUN_NOWAIT);
	assert_int_equal(count_fds(), fds);
}

/* ---- */

static int set_up_all(void **state)
{
	char sub[64];

	(void)state;
	if (!mkdtemp(workspace))
		return -1;
	snprintf(sub, sizeof(sub), "%s/sub", workspace);
	mkdir(sub, 0700);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	loop = uv_default_loop();
	return process_setup(loop);
}

static int tear_down_all(void **state)
{
	char sub[64];

	(void)state;
	snprintf(sub, sizeof(sub), "%s/sub", workspace);
	rmdir(sub);
	return rmdir(workspace);
}

#define TEST(name) cmocka_unit_test_teardown(name, clean_up)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(both_streams_and_the_exit_code_come_apart),
		TEST(a_deadly_signal_is_told_as_such),
		TEST(the_environment_is_the_one_given_and_nothing_of_the_daemons),
		TEST(arguments_arrive_byte_for_byte),
		TEST(the_working_directory_is_the_workspace_or_below_or_elsewhere),
		TEST(stdin_is_empty_unless_it_is_asked_for),
		TEST(an_unknown_command_is_127_with_a_line_that_names_it),
		TEST(a_file_that_cannot_be_executed_is_126),
		TEST(a_bad_directory_is_126_with_a_line_that_names_it),
		TEST(a_name_cannot_write_to_the_callers_terminal),
		TEST(a_bad_request_is_an_invalid_argument),
		TEST(out_of_descriptors_is_an_error_that_leaves_nothing_and_the_socket_ours),
		TEST(megabytes_go_through_both_ways_unharmed),
		TEST(a_reader_that_stops_stops_the_program_and_loses_nothing),
		TEST(what_was_printed_before_the_exit_is_kept_for_a_slow_reader),
		TEST(a_program_that_does_not_read_leaves_the_caller_waiting),
		TEST(input_that_nobody_wants_harms_nobody),
		TEST(a_frame_of_another_protocol_ends_it),
		TEST(a_timeout_ends_everything_and_keeps_what_was_printed),
		TEST(an_idle_timeout_counts_from_the_last_output),
		TEST(input_is_activity_too),
		TEST(a_caller_that_does_not_read_makes_nobody_idle),
		TEST(a_stream_held_by_what_is_left_is_told_after_two_seconds),
		TEST(what_is_left_and_holds_nothing_delays_nothing),
		TEST(what_is_left_may_go_on_printing),
		TEST(a_held_stream_that_never_rests_is_answered_all_the_same),
		TEST(a_hang_up_ends_everything),
		TEST(a_hang_up_is_heard_while_input_waits),
		TEST(a_hang_up_while_output_waits_ends_it),
		TEST(the_daemons_end_gives_a_result_and_waits_for_no_reader),
		TEST(a_killed_keeper_is_a_failure_and_not_an_exit_code),
		TEST(hundreds_of_commands_leak_nothing),
	};

	scenario_main(argc, argv);
	snprintf(marker, sizeof(marker), MARKER_NAME "=%d", (int)getpid());
	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
