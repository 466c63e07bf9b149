/* test_console.c - one console's life: started, observed, read to its last byte, ended, started again. */
#include "tests/unit/consoles/harness.h"

#define RING ((uint64_t)64 * 1024)

static int setup(void **state)
{
	*state = harness_start(0, RING);
	return 0;
}

static int teardown(void **state)
{
	harness_kill(*state);
	return 0;
}

static const Wire__ConsoleInfo *started(const Wire__ConsoledReply *r)
{
	return r->start->console;
}

/* ---- Output and end ---- */

static void what_a_console_prints_is_in_its_ring_and_its_end_comes_after_the_last_byte(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "printf one; printf two; exit 7");
	Wire__ConsoledReply *e = harness_exited(h, "dev");

	assert_string_equal(harness_text(ring, 0), "onetwo");
	assert_int_equal(e->event->console->tail_offset, 6);
	assert_int_equal(e->event->console->state, CONSOLE_EXITED);
	assert_int_equal(e->event->console->exit->code, 7);
	assert_string_equal(e->event->console->reason, "exit");
	harness_done(e);
	ring_free(ring);
	harness_shutdown(h);
}

static void no_byte_is_lost_when_a_program_prints_and_leaves_at_once(void **state)
{
	struct harness *h = *state;
	struct conn *s;

	for (int round = 0; round < 40; round++) {
		struct ring *ring = harness_run(h, "burst", "read x; seq 1 2000; exec true");
		uint64_t before = ring_tail(ring);
		Wire__ConsoledReply *e;
		const char *text;

		s = harness_open(h, "burst", WRITE);
		stream_done(stream_write(s, 1, "\n", 1, 0));
		e = harness_exited(h, "burst");
		text = harness_text(ring, before > RING / 2 ? before - RING / 2 : 0);
		/* 2,000 lines with CR LF, after the echo; the info's offset is the ring's. */
		assert_int_equal(e->event->console->tail_offset, ring_tail(ring));
		assert_true(strlen(text) >= 10893);
		assert_string_equal(text + strlen(text) - 12, "1999\r\n2000\r\n");
		harness_done(e);
		conn_free(s);
		ring_free(ring);
	}
	harness_shutdown(h);
}

static void a_background_child_that_holds_the_terminal_does_not_delay_the_end(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(
	        h, "dev", "trap '' HUP; sleep 600 & while ! grep -q sleep /proc/$!/comm; do :; done; printf done");
	Wire__ConsoledReply *e = harness_exited(h, "dev");
	Wire__ConsoledReply *r;

	assert_string_equal(harness_text(ring, 0), "done");
	assert_int_equal(e->event->console->n_leftovers, 1);
	assert_string_equal(e->event->console->leftovers[0]->comm, "sleep");
	assert_int_equal(kill((pid_t)e->event->console->leftovers[0]->pid, 0), 0);

	r = harness_close(h, "dev", 300);
	assert_true(r->closed->n_steps >= 1);
	assert_int_equal(r->closed->n_survivors, 0);
	assert_false(r->closed->unproven);
	assert_int_equal(r->closed->state, CONSOLE_EXITED);
	wait_until(kill((pid_t)e->event->console->leftovers[0]->pid, 0) < 0);
	harness_done(r);
	harness_done(e);
	ring_free(ring);
	harness_shutdown(h);
}

/* User and system time of a process, in clock ticks. */
static unsigned long cpu_ticks(pid_t pid)
{
	char path[64], line[1024];
	unsigned long user = 0, system_ = 0;
	FILE *f;
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	p = strrchr(line, ')');
	assert_non_null(p);
	assert_int_equal(sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system_), 2);
	return user + system_;
}

static void a_terminal_that_its_program_has_closed_costs_nothing_and_is_read_when_it_opens_it_again(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev",
	        "printf before; exec </dev/null >/dev/null 2>&1; sleep 1; (printf after; read x; printf \"got $x\") "
	        ">/dev/tty "
	        "</dev/tty; exec sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE);
	unsigned long ticks;

	harness_wait_text(ring, 0, "before");
	ticks = cpu_ticks(h->pid);
	harness_wait_text(ring, 0, "after");
	/* A second of spinning would be a hundred. */
	assert_in_range(cpu_ticks(h->pid) - ticks, 0, 20);
	stream_done(stream_write(s, 1, "hello\n", 6, 0));
	harness_wait_text(ring, 0, "got hello");
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void what_is_written_to_a_closed_terminal_waits_until_it_is_open_again(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev",
	        "printf before; exec </dev/null >/dev/null 2>&1; sleep 0.5; exec </dev/tty >/dev/tty; read x; printf "
	        "\"got $x\"; "
	        "sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE);
	Wire__StreamReply *r;

	harness_wait_text(ring, 0, "before");
	r = stream_write(s, 1, "hello\n", 6, 0);
	assert_null(r->write->error);
	assert_int_equal(r->write->written, 6);
	stream_done(r);
	harness_wait_text(ring, 0, "got hello");
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Start ---- */

static void a_name_that_runs_is_reattached_whatever_is_asked_for(void **state)
{
	static const char *const other[] = { "/nowhere/at/all", NULL };
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "exec sleep 600");
	Wire__ConsoledReply *r = harness_start_console(h, &(struct start){ .name = "dev", .argv = other });

	assert_true(r->start->reattached);
	assert_null(r->start->failure);
	assert_int_equal(started(r)->state, CONSOLE_RUNNING);
	assert_int_equal(started(r)->incarnation, 1);
	assert_true(h->fds[0] >= 0 && h->fds[1] >= 0);
	harness_done(r);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_program_that_fails_at_once_is_answered_as_ended_with_what_it_said(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "echo no such thing; exit 3", NULL };
	struct harness *h = *state;
	Wire__ConsoledReply *r =
	        harness_start_console(h, &(struct start){ .name = "dev", .argv = argv, .observe_ms = WAIT_MS });

	assert_int_equal(started(r)->state, CONSOLE_EXITED);
	assert_int_equal(started(r)->exit->code, 3);
	assert_null(r->start->failure);
	assert_int_equal(r->start->startup_output.len, 15);
	assert_memory_equal(r->start->startup_output.data, "no such thing\r\n", 15);
	harness_done(r);
	harness_shutdown(h);
}

static void a_program_that_lives_is_answered_as_running_when_its_observation_ends(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "echo up; exec sleep 600", NULL };
	struct harness *h = *state;
	uint64_t began = clock_mono_ms();
	Wire__ConsoledReply *r =
	        harness_start_console(h, &(struct start){ .name = "dev", .argv = argv, .observe_ms = 150 });

	assert_true(clock_mono_ms() - began >= 149);
	assert_int_equal(started(r)->state, CONSOLE_RUNNING);
	assert_true(started(r)->pid > 0);
	assert_true(started(r)->pid_start_time > 0);
	assert_int_equal(r->start->startup_output.len, 0);
	harness_done(r);
	harness_shutdown(h);
}

static unsigned count_consoles(struct harness *h)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__ConsoleList list = WIRE__CONSOLE_LIST__INIT;
	Wire__ConsoledReply *r;
	unsigned n;

	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &list;
	r = harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_LIST);
	n = (unsigned)r->list->n_consoles;
	harness_done(r);
	return n;
}

static void assert_start_fails(
        struct harness *h, const char *program, const char *cwd, enum result code, uint32_t exit_code, const char *word)
{
	const char *const argv[] = { program, NULL };
	Wire__ConsoledReply *r = harness_start_console(h, &(struct start){ .name = "bad", .argv = argv, .cwd = cwd });

	assert_non_null(r->start->failure);
	assert_string_equal(result_name(r->start->failure->code), result_name((unsigned)code));
	assert_non_null(strstr(r->start->failure->message, word));
	assert_null(strchr(r->start->failure->message, '\n'));
	assert_int_equal(started(r)->state, CONSOLE_EXITED);
	assert_int_equal(started(r)->exit->code, exit_code);
	assert_int_equal(h->fds[0], -1);
	harness_done(r);
	assert_int_equal(count_consoles(h), 0);
}

static void write_file(struct harness *h, const char *name, const char *content, mode_t mode)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/workspace/%s", h->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, content, strlen(content)), 0);
	close(fd);
}

static void a_start_that_fails_says_why_and_leaves_nothing_behind(void **state)
{
	struct harness *h = *state;

	write_file(h, "text", "just text\n", 0644);
	write_file(h, "junk", "just junk\n", 0755);
	write_file(h, "orphan", "#!/no/such/interpreter\n", 0755);
	assert_start_fails(h, "no-such-program", NULL, RESULT_NOT_FOUND, 127, "no-such-program");
	assert_start_fails(h, "/no/such/program", NULL, RESULT_NOT_FOUND, 127, "/no/such/program");
	assert_start_fails(h, "./orphan", NULL, RESULT_NOT_FOUND, 127, "interpreter");
	assert_start_fails(h, "./text", NULL, RESULT_NOT_EXECUTABLE, 126, "./text");
	assert_start_fails(h, "./junk", NULL, RESULT_NOT_EXECUTABLE, 126, "./junk");
	assert_start_fails(h, "/tmp", NULL, RESULT_NOT_EXECUTABLE, 126, "/tmp");
	assert_start_fails(h, "/bin/sh", "/no/such/folder", RESULT_BAD_CWD, 126, "/no/such/folder");
	assert_start_fails(h, "/bin/sh", "text", RESULT_BAD_CWD, 126, "text");
	harness_shutdown(h);
}

static void a_failed_start_leaves_the_earlier_incarnation_as_it_was(void **state)
{
	static const char *const nowhere[] = { "no-such-program", NULL }, *const denied[] = { "/tmp", NULL };
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "printf kept");
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__TakeConsole take = WIRE__TAKE_CONSOLE__INIT;
	Wire__ConsoledReply *r;

	harness_done(harness_exited(h, "dev"));
	ring_free(ring);
	for (int i = 0; i < 2; i++) { /* found out before and after the fork */
		r = harness_start_console(h, &(struct start){ .name = "dev", .argv = i ? denied : nowhere });
		assert_non_null(r->start->failure);
		assert_int_equal(started(r)->incarnation, 2);
		assert_int_equal(started(r)->tail_offset, 4);
		harness_done(r);
	}
	take.name = (char *)(uintptr_t) "dev";
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_TAKE;
	q.take = &take;
	r = harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_TAKE);
	assert_int_equal(r->take->console->incarnation, 1);
	assert_int_equal(r->take->console->exit->code, 0);
	assert_int_equal(ring_open(h->fds[0], &ring), 0);
	assert_string_equal(harness_text(ring, 0), "kept");
	ring_free(ring);
	harness_done(r);
	harness_shutdown(h);
}

/* The n-th mark of a ring of marks. */
static struct mark mark_at(const struct ring *marks, unsigned n)
{
	uint8_t bytes[MARK_SIZE];
	struct ring_span got;
	struct mark m;

	assert_int_equal(ring_read(marks, n * MARK_SIZE, bytes, sizeof(bytes), &got), 0);
	assert_int_equal(got.next_offset - got.offset, MARK_SIZE);
	assert_true(mark_unpack(bytes, &m));
	return m;
}

static void the_next_incarnation_goes_on_where_the_last_one_ended(void **state)
{
	struct harness *h = *state;
	struct ring *first = harness_run(h, "dev", "printf first; exit 2"), *second, *marks;
	Wire__ConsoledReply *e;
	int fds[TAKEN_FDS];

	harness_done(harness_event(h, WIRE__CONSOLE_EVENT__KIND__STARTED, "dev", NULL));
	harness_done(harness_exited(h, "dev"));
	second = harness_run(h, "dev", "printf second");
	e = harness_event(h, WIRE__CONSOLE_EVENT__KIND__STARTED, "dev", fds);
	assert_int_equal(e->event->console->incarnation, 2);
	harness_done(e);
	harness_done(harness_exited(h, "dev"));
	assert_string_equal(harness_text(second, 0), "firstsecond");
	assert_string_equal(harness_text(first, 0), "first"); /* an old reader's ring is left as it was */

	assert_int_equal(ring_open(fds[1], &marks), 0);
	assert_int_equal(ring_tail(marks) / MARK_SIZE, 6);
	assert_int_equal(mark_at(marks, 0).kind, MARK_START);
	assert_int_equal(mark_at(marks, 1).kind, MARK_RESIZE);
	assert_int_equal(mark_at(marks, 1).a, 80);
	assert_int_equal(mark_at(marks, 1).b, 24);
	assert_int_equal(mark_at(marks, 2).kind, MARK_EXIT);
	assert_int_equal(mark_at(marks, 2).a, 2);
	assert_int_equal(mark_at(marks, 2).offset, 5);
	assert_int_equal(mark_at(marks, 3).kind, MARK_START);
	assert_int_equal(mark_at(marks, 3).a, 2);
	assert_int_equal(mark_at(marks, 3).offset, 5);
	assert_int_equal(mark_at(marks, 5).kind, MARK_EXIT);
	assert_int_equal(mark_at(marks, 5).offset, 11);
	harness_drop_fds(fds);
	ring_free(marks);
	ring_free(first);
	ring_free(second);
	harness_shutdown(h);
}

static void a_name_whose_host_was_lost_goes_on_after_a_gap(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "printf back", NULL };
	const uint64_t offset = (uint64_t)1 << 40;
	struct harness *h = *state;
	struct ring *ring, *marks;
	Wire__ConsoledReply *r = harness_start_console(h,
	        &(struct start){
	                .name = "dev", .argv = argv, .observe_ms = WAIT_MS, .start_offset = offset, .incarnation = 5 });

	assert_int_equal(started(r)->incarnation, 5);
	assert_int_equal(started(r)->tail_offset, offset + 4);
	assert_int_equal(ring_open(h->fds[0], &ring), 0);
	assert_int_equal(ring_open(h->fds[1], &marks), 0);
	assert_string_equal(harness_text(ring, offset), "back");
	assert_int_equal(mark_at(marks, 0).kind, MARK_GAP);
	assert_int_equal(mark_at(marks, 0).offset, offset);
	assert_int_equal(mark_at(marks, 1).kind, MARK_START);
	ring_free(ring);
	ring_free(marks);
	harness_done(r);
	harness_shutdown(h);
}

static void the_start_over_the_limit_is_told_who_runs(void **state)
{
	static const char *const argv[] = { "/bin/sh", NULL };
	struct harness *h = *state;
	struct ring *ring;
	Wire__ConsoledReply *r;

	harness_hello(h, 2, 0);
	ring_free(harness_run(h, "ended", "exit"));
	harness_done(harness_exited(h, "ended"));
	ring_free(harness_run(h, "one", "exec sleep 600"));
	ring = harness_run(h, "two", "exec sleep 600"); /* the ended one does not count */
	r = harness_answer(h, harness_send_start(h, &(struct start){ .name = "three", .argv = argv }));
	assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_ERROR);
	assert_int_equal(r->error->code, RESULT_CONSOLE_LIMIT);
	assert_string_equal(r->error->message,
	        "2 of 2 consoles are running: one (idle 0s), two (idle 0s); close one or raise the sandbox's limit");
	harness_done(r);
	harness_done(harness_close(h, "one", 0));
	ring_free(ring);
	ring_free(harness_run(h, "three", "exec sleep 600"));
	harness_shutdown(h);
}

static void a_start_that_makes_no_sense_is_refused(void **state)
{
	static const char *const argv[] = { "/bin/sh", NULL };
	static const struct start bad[] = {
		{ .name = "", .argv = argv },
		{ .name = "-x", .argv = argv },
		{ .name = "a/b", .argv = argv },
		{ .name = "x", .argv = argv, .cols = 1 },
		{ .name = "x", .argv = argv, .rows = 501 },
		{ .name = "x", .argv = argv, .ring_bytes = 5000 },
		{ .name = "x", .argv = argv, .ring_bytes = (uint64_t)1 << 40 },
		{ .name = "x", .argv = argv, .observe_ms = UINT32_MAX },
	};
	struct harness *h = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		Wire__ConsoledReply *r = harness_answer(h, harness_send_start(h, &bad[i]));

		assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_ERROR);
		assert_int_equal(r->error->code, RESULT_INVALID_ARGUMENT);
		harness_done(r);
	}
	assert_int_equal(count_consoles(h), 0);
	harness_shutdown(h);
}

static void a_program_gets_the_base_environment_and_what_was_given_and_nothing_of_the_daemon(void **state)
{
	static const char *const argv[] = { "env", NULL };
	struct harness *h = *state;
	Wire__EnvVar lang = WIRE__ENV_VAR__INIT, extra = WIRE__ENV_VAR__INIT, *env[] = { &lang, &extra };
	char expected[PATH_MAX + 256];
	Wire__ConsoledReply *r;

	lang.name = (char *)(uintptr_t) "LANG";
	lang.value = (ProtobufCBinaryData){ .len = 1, .data = (uint8_t *)(uintptr_t) "C" };
	extra.name = (char *)(uintptr_t) "EXTRA";
	extra.value = (ProtobufCBinaryData){ .len = 3, .data = (uint8_t *)(uintptr_t) "a b" };
	r = harness_start_console(
	        h, &(struct start){ .name = "dev", .argv = argv, .observe_ms = WAIT_MS, .env = env, .n_env = 2 });
	snprintf(expected, sizeof(expected),
	        "TERM=xterm-256color\r\nLANG=C\r\nHOME=%s\r\nPATH=/usr/local/bin:/usr/bin:/bin\r\nUSER=tester\r\n"
	        "SHELL=/bin/sh\r\nEXTRA=a b\r\n",
	        h->dir);
	assert_int_equal(r->start->startup_output.len, strlen(expected));
	assert_memory_equal(r->start->startup_output.data, expected, strlen(expected));
	harness_done(r);
	harness_shutdown(h);
}

static void without_a_command_the_shell_runs_in_the_workspace_with_the_size_asked_for(void **state)
{
	struct harness *h = *state;
	Wire__ConsoledReply *r = harness_start_console(h, &(struct start){ .name = "dev", .cols = 132, .rows = 43 });
	struct ring *ring;
	struct conn *s;
	char workspace[PATH_MAX];

	assert_int_equal(started(r)->n_argv, 1);
	assert_memory_equal(started(r)->argv[0].data, "/bin/sh", 7);
	assert_int_equal(ring_open(h->fds[0], &ring), 0);
	harness_done(r);
	s = harness_open(h, "dev", WRITE);
	stream_done(stream_write(s, 1, "pwd; stty size; tty\n", 20, 0));
	snprintf(workspace, sizeof(workspace), "%s/workspace\r\n43 132\r\n/dev/pts/", h->dir);
	harness_wait_text(ring, 0, workspace);
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Ends ---- */

static void the_oldest_ended_console_is_dropped_past_thirty_two(void **state)
{
	struct harness *h = *state;
	Wire__ConsoledReply *e;
	char name[16];

	for (int i = 0; i < 33; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		ring_free(harness_run(h, name, "exit"));
		harness_done(harness_exited(h, name));
	}
	e = harness_event(h, WIRE__CONSOLE_EVENT__KIND__DROPPED, "c0", NULL);
	harness_done(e);
	harness_shutdown(h);
}

static void a_close_ends_what_ignores_it_and_gives_a_receipt_of_each_step(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "trap '' HUP TERM; printf ready; while :; do sleep 0.05; done");
	Wire__ConsoledReply *r;

	harness_wait_text(ring, 0, "ready");
	r = harness_close(h, "dev", 700);
	assert_int_equal(r->closed->n_steps, 3);
	assert_string_equal(r->closed->steps[0]->signal, "SIGHUP");
	assert_string_equal(r->closed->steps[1]->signal, "SIGTERM");
	assert_string_equal(r->closed->steps[2]->signal, "SIGKILL");
	assert_true(r->closed->steps[2]->at_ms >= 700);
	assert_int_equal(r->closed->exit->signal, SIGKILL);
	assert_int_equal(r->closed->tail_offset, ring_tail(ring));
	harness_done(r);
	r = harness_exited(h, "dev");
	assert_string_equal(r->event->console->reason, "closed");
	harness_done(r);

	r = harness_close(h, "dev", 700); /* nothing is left: nothing is done */
	assert_int_equal(r->closed->n_steps, 0);
	assert_int_equal(r->closed->state, CONSOLE_EXITED);
	assert_int_equal(r->closed->exit->signal, SIGKILL);
	harness_done(r);
	ring_free(ring);
	harness_shutdown(h);
}

static void output_of_a_closing_program_is_kept_to_its_last_byte(void **state)
{
	struct harness *h = *state;
	struct ring *ring =
	        harness_run(h, "dev", "trap 'seq 1 3000; exit 0' HUP; printf ready; while :; do sleep 0.05; done");
	Wire__ConsoledReply *r;
	const char *text;

	harness_wait_text(ring, 0, "ready");
	r = harness_close(h, "dev", 20000);
	text = harness_text(ring, 0);
	assert_string_equal(text + strlen(text) - 12, "2999\r\n3000\r\n");
	assert_int_equal(r->closed->n_steps, 1);
	harness_done(r);
	ring_free(ring);
	harness_shutdown(h);
}

static void an_idle_console_ends_and_an_attached_one_is_not_idle(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "exec sleep 600", NULL };
	struct harness *h = *state;
	struct start s = { .name = "dev", .argv = argv, .idle_ttl_ms = 200 };
	struct conn *attached;
	Wire__ConsoledReply *e;
	uint64_t left;

	harness_done(harness_start_console(h, &s));
	attached = harness_open(h, "dev", ATTACH | WRITE | RESIZE);
	usleep(400000); /* twice the time, which must not matter */
	left = clock_mono_ms();
	harness_done(harness_start_console(h, &s)); /* an answer: it is still there, no event has come */
	assert_int_equal(h->nevents, 1);            /* STARTED */
	conn_free(attached);
	e = harness_exited(h, "dev");
	assert_true(clock_mono_ms() - left >= 190);
	assert_string_equal(e->event->console->reason, "idle");
	harness_done(e);
	harness_shutdown(h);
}

static void send_signal(struct harness *h, const char *name, uint32_t sig, enum result expected)
{
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	Wire__SignalConsole signal_ = WIRE__SIGNAL_CONSOLE__INIT;
	Wire__ConsoledReply *r;

	signal_.name = (char *)(uintptr_t)name;
	signal_.signal = sig;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_SIGNAL;
	q.signal = &signal_;
	r = harness_answer(h, harness_send(h, &q, NULL, 0));
	if (expected == RESULT_OK) {
		assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_CONSOLE);
	} else {
		assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_ERROR);
		assert_int_equal(r->error->code, expected);
	}
	harness_done(r);
}

static void signals_reach_the_foreground_and_do_not_wait_behind_a_write(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev",
	        "trap 'printf [int]' INT; trap 'printf [usr1]' USR1; stty raw -echo; printf ready; while :; do sleep "
	        "0.02; done");
	struct conn *s = harness_open(h, "dev", WRITE);
	static char much[200 * 1024];

	harness_wait_text(ring, 0, "ready");
	memset(much, 'x', sizeof(much));
	stream_send_write(s, 1, much, 60 * 1024, false, 0, false); /* nobody reads it */
	assert_int_equal(conn_wait_flushed(s, harness_deadline()), 0);
	send_signal(h, "dev", SIGINT, RESULT_OK);
	harness_wait_text(ring, 0, "[int]");
	send_signal(h, "dev", SIGUSR1, RESULT_OK);
	harness_wait_text(ring, 0, "[usr1]");
	send_signal(h, "dev", 0, RESULT_INVALID_ARGUMENT);
	send_signal(h, "dev", 4711, RESULT_INVALID_ARGUMENT);
	send_signal(h, "nobody", SIGINT, RESULT_NOT_FOUND);
	harness_done(harness_close(h, "dev", 0));
	send_signal(h, "dev", SIGINT, RESULT_NOT_RUNNING);
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Over time ---- */

static unsigned count_fds(pid_t pid)
{
	char command[128];
	unsigned n = 0;
	FILE *f;

	snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", (int)pid);
	f = popen(command, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%u", &n), 1);
	pclose(f);
	return n;
}

static unsigned count_children(pid_t pid)
{
	char path[64], list[4096];
	unsigned n = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	got = read(fd, list, sizeof(list));
	assert_true(got >= 0);
	close(fd);
	for (ssize_t i = 0; i < got; i++)
		n += list[i] == ' ';
	return n;
}

static void hundreds_of_consoles_leave_no_descriptor_and_no_zombie(void **state)
{
	struct harness *h = *state;
	unsigned fds = 0;

	for (int round = 0; round < 300; round++) {
		Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
		Wire__ConsoleKept kept = WIRE__CONSOLE_KEPT__INIT;
		Wire__ConsoledReply *e;

		ring_free(harness_run(h, "dev", "true"));
		e = harness_exited(h, "dev");
		kept.name = (char *)(uintptr_t) "dev";
		kept.incarnation = e->event->console->incarnation;
		assert_int_equal(kept.incarnation, round + 1);
		harness_done(e);
		q.body_case = WIRE__CONSOLED_REQUEST__BODY_KEPT;
		q.kept = &kept;
		harness_done(harness_call(h, &q, WIRE__CONSOLED_REPLY__BODY_DONE));
		harness_done(harness_event(h, WIRE__CONSOLE_EVENT__KIND__STARTED, "dev", NULL));
		if (round == 0) {
			wait_until(count_children(h->pid) == 0);
			fds = count_fds(h->pid);
		}
	}
	wait_until(count_children(h->pid) == 0);
	wait_until(count_fds(h->pid) == fds);
	harness_shutdown(h);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_a_console_prints_is_in_its_ring_and_its_end_comes_after_the_last_byte),
		TEST(no_byte_is_lost_when_a_program_prints_and_leaves_at_once),
		TEST(a_background_child_that_holds_the_terminal_does_not_delay_the_end),
		TEST(a_terminal_that_its_program_has_closed_costs_nothing_and_is_read_when_it_opens_it_again),
		TEST(what_is_written_to_a_closed_terminal_waits_until_it_is_open_again),
		TEST(a_name_that_runs_is_reattached_whatever_is_asked_for),
		TEST(a_program_that_fails_at_once_is_answered_as_ended_with_what_it_said),
		TEST(a_program_that_lives_is_answered_as_running_when_its_observation_ends),
		TEST(a_start_that_fails_says_why_and_leaves_nothing_behind),
		TEST(a_failed_start_leaves_the_earlier_incarnation_as_it_was),
		TEST(the_next_incarnation_goes_on_where_the_last_one_ended),
		TEST(a_name_whose_host_was_lost_goes_on_after_a_gap),
		TEST(the_start_over_the_limit_is_told_who_runs),
		TEST(a_start_that_makes_no_sense_is_refused),
		TEST(a_program_gets_the_base_environment_and_what_was_given_and_nothing_of_the_daemon),
		TEST(without_a_command_the_shell_runs_in_the_workspace_with_the_size_asked_for),
		TEST(the_oldest_ended_console_is_dropped_past_thirty_two),
		TEST(a_close_ends_what_ignores_it_and_gives_a_receipt_of_each_step),
		TEST(output_of_a_closing_program_is_kept_to_its_last_byte),
		TEST(an_idle_console_ends_and_an_attached_one_is_not_idle),
		TEST(signals_reach_the_foreground_and_do_not_wait_behind_a_write),
		TEST(hundreds_of_consoles_leave_no_descriptor_and_no_zombie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
