/* test_program.c - what a start's request comes to: arguments, environment, folder, and the file along PATH. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "consoles/environment.h"
#include "consoles/program.h"

struct fixture {
	char dir[64], workspace[128], path[512];
	struct options options;
	Wire__ConsoleSpec spec;
	ProtobufCBinaryData argv[4];
};

static void make_file(struct fixture *f, const char *name, mode_t mode)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const char *base = getenv("TMPDIR");
	char path[PATH_MAX];

	snprintf(f->dir, sizeof(f->dir), "%.40s/program-XXXXXX", base ? base : "/tmp");
	assert_non_null(mkdtemp(f->dir));
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", f->dir, i == 0 ? "one" : i == 1 ? "two" : "work");
		assert_int_equal(mkdir(path, 0700), 0);
	}
	make_file(f, "one/plain", 0644);
	make_file(f, "two/plain", 0755);
	make_file(f, "two/tool", 0755);
	make_file(f, "one/denied", 0644);
	make_file(f, "work/local", 0755);
	snprintf(f->workspace, sizeof(f->workspace), "%s/work", f->dir);
	snprintf(f->path, sizeof(f->path), "%s/one:%s/two", f->dir, f->dir);
	f->options = (struct options){
		.workspace = f->workspace, .home = "/h", .user = "u", .shell = "/bin/sh", .path = f->path
	};
	wire__console_spec__init(&f->spec);
	f->spec.name = (char *)(uintptr_t) "dev";
	f->spec.argv = f->argv;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static int prepare(struct fixture *f, const char *name, struct program *out, struct failure *why)
{
	f->spec.n_argv = name ? 1 : 0;
	if (name)
		f->argv[0] = (ProtobufCBinaryData){ .len = strlen(name), .data = (uint8_t *)(uintptr_t)name };
	return program_prepare(&f->options, &f->spec, out, why);
}

static void assert_found(struct fixture *f, const char *name, const char *expected)
{
	char path[PATH_MAX];
	struct program p;
	struct failure why;

	snprintf(path, sizeof(path), "%s/%s", f->dir, expected);
	assert_int_equal(prepare(f, name, &p, &why), 0);
	assert_string_equal(p.path, path);
	assert_string_equal(p.argv[0], name);
	assert_null(p.argv[1]);
	program_release(&p);
}

static void a_name_is_searched_along_the_path_and_the_first_that_runs_counts(void **state)
{
	struct fixture *f = *state;
	struct program p;
	struct failure why;

	assert_found(f, "tool", "two/tool");
	assert_found(f, "plain", "two/plain"); /* the one before it cannot be run */
	assert_int_equal(prepare(f, "denied", &p, &why), -1);
	assert_int_equal(why.code, RESULT_NOT_EXECUTABLE);
	assert_true(why.of_exec);
	assert_int_equal(prepare(f, "nothing", &p, &why), -1);
	assert_int_equal(why.code, RESULT_NOT_FOUND);
	assert_true(why.of_exec);
	assert_int_equal(failure_exit_code(&why), 127);
}

static void the_programs_own_path_is_searched_also_its_relative_folders(void **state)
{
	struct fixture *f = *state;
	Wire__EnvVar var = WIRE__ENV_VAR__INIT, *env[] = { &var };
	struct program p;
	struct failure why;

	var.name = (char *)(uintptr_t) "PATH";
	var.value = (ProtobufCBinaryData){ .len = 7, .data = (uint8_t *)(uintptr_t) "/none:." };
	f->spec.env = env;
	f->spec.n_env = 1;
	assert_found(f, "local", "work/./local");
	assert_int_equal(prepare(f, "tool", &p, &why), -1);
	var.value = (ProtobufCBinaryData){ .len = 6, .data = (uint8_t *)(uintptr_t) "/none:" };
	assert_found(f, "local", "work/local"); /* an empty folder is the working directory */
}

static void a_name_with_a_slash_is_not_searched(void **state)
{
	struct fixture *f = *state;
	struct program p;
	struct failure why;

	assert_int_equal(prepare(f, "./tool", &p, &why), 0);
	assert_string_equal(p.path, "./tool");
	program_release(&p);
}

/* expected: absolute, or what stands behind the workspace where it begins with '+'. */
static void assert_cwd(struct fixture *f, const char *asked, const char *expected)
{
	struct program p;
	struct failure why;
	char path[PATH_MAX];

	f->spec.cwd = (char *)(uintptr_t)asked;
	assert_int_equal(prepare(f, "/x", &p, &why), 0);
	snprintf(path, sizeof(path), "%s%s", expected[0] == '+' ? f->workspace : "", expected + (expected[0] == '+'));
	assert_string_equal(p.cwd, path);
	program_release(&p);
}

static void the_folder_is_the_workspace_or_below_it_or_absolute(void **state)
{
	struct fixture *f = *state;
	static char longest[2 * PATH_MAX];
	struct program p;
	struct failure why;

	assert_cwd(f, "", "+");
	assert_cwd(f, "sub/below", "+/sub/below");
	assert_cwd(f, "/workspace", "+");
	assert_cwd(f, "/workspace/sub", "+/sub");
	assert_cwd(f, "/workspaces", "/workspaces");
	assert_cwd(f, "/etc", "/etc");
	memset(longest, 'x', sizeof(longest) - 1);
	f->spec.cwd = longest;
	assert_int_equal(prepare(f, "/x", &p, &why), -1);
	assert_int_equal(why.code, RESULT_BAD_CWD);
}

static void without_arguments_it_is_the_shell(void **state)
{
	struct fixture *f = *state;
	struct program p;
	struct failure why;

	assert_int_equal(prepare(f, NULL, &p, &why), 0);
	assert_string_equal(p.path, "/bin/sh");
	assert_string_equal(p.argv[0], "/bin/sh");
	program_release(&p);
}

static void bytes_that_no_argument_or_variable_can_have_are_refused(void **state)
{
	struct fixture *f = *state;
	Wire__EnvVar var = WIRE__ENV_VAR__INIT, *env[] = { &var };
	struct program p;
	struct failure why;

	f->argv[0] = (ProtobufCBinaryData){ .len = 3, .data = (uint8_t *)(uintptr_t) "a\0b" };
	f->spec.n_argv = 1;
	assert_int_equal(program_prepare(&f->options, &f->spec, &p, &why), -1);
	assert_int_equal(why.code, RESULT_INVALID_ARGUMENT);
	assert_false(why.of_exec);
	assert_int_equal(prepare(f, "", &p, &why), -1);
	assert_int_equal(why.code, RESULT_INVALID_ARGUMENT);

	f->spec.env = env;
	f->spec.n_env = 1;
	var.name = (char *)(uintptr_t) "1X";
	assert_int_equal(prepare(f, "/x", &p, &why), -1);
	assert_int_equal(why.code, RESULT_INVALID_ARGUMENT);
	var.name = (char *)(uintptr_t) "X";
	var.value = (ProtobufCBinaryData){ .len = 3, .data = (uint8_t *)(uintptr_t) "a\0b" };
	assert_int_equal(prepare(f, "/x", &p, &why), -1);
	assert_int_equal(why.code, RESULT_INVALID_ARGUMENT);
}

static void more_variables_than_the_limit_are_refused(void **state)
{
	struct fixture *f = *state;
	static Wire__EnvVar *env[ENVIRONMENT_MAX + 1];
	Wire__EnvVar var = WIRE__ENV_VAR__INIT;
	struct program p;
	struct failure why;

	var.name = (char *)(uintptr_t) "X";
	for (int i = 0; i <= ENVIRONMENT_MAX; i++)
		env[i] = &var;
	f->spec.env = env;
	f->spec.n_env = ENVIRONMENT_MAX + 1;
	assert_int_equal(prepare(f, "/x", &p, &why), -1);
	assert_int_equal(why.code, RESULT_TOO_LARGE);
	f->spec.n_env = ENVIRONMENT_MAX;
	assert_int_equal(prepare(f, "/x", &p, &why), 0);
	assert_string_equal(p.envp[6], "X="); /* one, though it was given often */
	assert_null(p.envp[7]);
	program_release(&p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_name_is_searched_along_the_path_and_the_first_that_runs_counts),
		TEST(the_programs_own_path_is_searched_also_its_relative_folders),
		TEST(a_name_with_a_slash_is_not_searched),
		TEST(the_folder_is_the_workspace_or_below_it_or_absolute),
		TEST(without_arguments_it_is_the_shell),
		TEST(bytes_that_no_argument_or_variable_can_have_are_refused),
		TEST(more_variables_than_the_limit_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
