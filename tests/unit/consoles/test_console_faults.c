/*
 * test_console_faults.c - a start in which the system says no: every step that can fail is made to, one after another,
 * until there is none left to fail. The sources are included, so that their calls can be counted and refused here.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "consoles/console.h"
#include "consoles/dormant.h"
#include "consoles/environment.h"
#include "consoles/marks.h"
#include "consoles/program.h"
#include "consoles/pty.h"
#include "consoles/terminal.h"

static int calls;        /* made so far */
static int refused_call; /* the number of the one to refuse; 0: none */
static int refuse_with;  /* its errno */

static bool refused(void)
{
	if (++calls != refused_call)
		return false;
	errno = refuse_with;
	return true;
}

#define calloc(...)         (refused() ? NULL : calloc(__VA_ARGS__))
#define malloc(...)         (refused() ? NULL : malloc(__VA_ARGS__))
#define reallocarray(...)   (refused() ? NULL : reallocarray(__VA_ARGS__))
#define strdup(...)         (refused() ? NULL : strdup(__VA_ARGS__))
#define info_copy_argv(...) (refused() ? NULL : info_copy_argv(__VA_ARGS__))
#define ring_create(...)    (refused() ? -refuse_with : ring_create(__VA_ARGS__))
#define ring_carry_on(...)  (refused() ? -refuse_with : ring_carry_on(__VA_ARGS__))
#define marks_new(...)      (refused() ? -refuse_with : marks_new(__VA_ARGS__))
#define pty_open(...)       (refused() ? -refuse_with : pty_open(__VA_ARGS__))
#define terminal_new(...)   (refused() ? -refuse_with : terminal_new(__VA_ARGS__))
#define input_new(...)      (refused() ? -refuse_with : input_new(__VA_ARGS__))
#define process_start(...)  (refused() ? -refuse_with : process_start(__VA_ARGS__))
#include "consoles/console.c"
#include "consoles/scrollback.c"
#define out_of_memory program_out_of_memory
#include "consoles/program.c"
#define check environment_check
#include "consoles/environment.c"
#undef calloc
#undef malloc
#undef strdup

static struct {
	unsigned started, failed, ended;
} seen;

static void count_started(struct console *c, void *ctx)
{
	(void)c;
	(void)ctx;
	seen.started++;
}

static void count_failed(struct console *c, const struct failure *why, void *ctx)
{
	(void)c;
	(void)why;
	(void)ctx;
	seen.failed++;
}

static void count_ended(struct console *c, void *ctx)
{
	(void)c;
	(void)ctx;
	seen.ended++;
}

static const struct console_handler handler = {
	.on_started = count_started, .on_failed = count_failed, .on_ended = count_ended, .on_changed = count_ended
};

static uv_loop_t loop;
static struct consoled daemon_ = {
	.loop = &loop,
	.options = { .workspace = "/",
	        .home = "/",
	        .user = "u",
	        .shell = "/bin/sh",
	        .path = "/usr/bin:/bin",
	        .sandbox = "test" },
	.console_limit = 8,
	.ring_bytes = 4096,
};

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static Wire__ConsoleSpec spec_of(ProtobufCBinaryData argv[2])
{
	Wire__ConsoleSpec spec = WIRE__CONSOLE_SPEC__INIT;

	argv[0] = (ProtobufCBinaryData){ .len = 4, .data = (uint8_t *)(uintptr_t) "echo" };
	argv[1] = (ProtobufCBinaryData){ .len = 2, .data = (uint8_t *)(uintptr_t) "hi" };
	spec.name = (char *)(uintptr_t) "dev";
	spec.argv = argv;
	spec.n_argv = 2;
	return spec;
}

/* Starts with the n-th call refused. true: there was no such call, the console is running and then ended. */
static bool start_with_fault(int n, int err, struct console *earlier, struct console **out)
{
	ProtobufCBinaryData argv[2];
	const Wire__ConsoleSpec spec = spec_of(argv);
	struct failure why = { 0 };
	struct console *c = NULL;
	unsigned fds = count_fds();
	int r;

	memset(&seen, 0, sizeof(seen));
	calls = 0;
	refused_call = n;
	refuse_with = err;
	r = console_new(&daemon_, &spec, earlier, &handler, NULL, &c, &why);
	refused_call = 0;
	if (calls >= n) {
		assert_int_equal(r, -1);
		assert_null(c);
		assert_int_equal(why.code, RESULT_RESOURCE_LIMIT);
		assert_true(strlen(why.message) > 0);
		uv_run(&loop, UV_RUN_NOWAIT);
		assert_int_equal(count_fds(), fds);
		return false;
	}
	assert_int_equal(r, 0);
	/* To its end, and until all that is left open is what an ended console has: two memories. */
	while (seen.ended == 0 || c->process || count_fds() != fds + 2)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(seen.started, 1);
	*out = c;
	return true;
}

static void a_start_that_fails_at_any_step_leaves_nothing_and_the_next_one_succeeds(void **state)
{
	struct console *first = NULL, *second = NULL;
	int n = 1;

	(void)state;
	while (!start_with_fault(n, n % 2 ? ENOMEM : EMFILE, NULL, &first))
		n++;
	assert_true(n > 10);
	assert_int_equal(ring_tail(first->scrollback.ring), 4);

	/* Once more over an ended one, which must stay whole. */
	for (n = 1; !start_with_fault(n, n % 2 ? ENOMEM : EMFILE, first, &second); n++)
		assert_int_equal(ring_tail(first->scrollback.ring), 4);
	assert_int_equal(ring_tail(second->scrollback.ring), 8);
	assert_int_equal(console_facts(second)->incarnation, 2);
	console_free(first);
	console_free(second);
	uv_run(&loop, UV_RUN_NOWAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_that_fails_at_any_step_leaves_nothing_and_the_next_one_succeeds),
	};
	int failed;

	if (uv_loop_init(&loop) < 0 || process_setup(&loop) < 0 || dormant_setup(&loop) < 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed;
}
