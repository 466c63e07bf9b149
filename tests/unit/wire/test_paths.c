/* Promises of wire/paths.h. The environment is the test's own; what root gets is looked at only when run by root, and
 * the other way round. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wire/test_dir.h"
#include "wire/fd.h"
#include "wire/paths.h"

#define NOBODY 65534

/* Runs a check as a normal user: a child gives up root where it has it. The child answers with its exit status. */
static void as_a_user(int (*check)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && setuid(NOBODY) < 0)
			_exit(99);
		_exit(check());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("step %d failed", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static int clear_variables(void **state)
{
	(void)state;
	return unsetenv("RINGSIDE_HOME") | unsetenv("XDG_RUNTIME_DIR") | unsetenv("XDG_STATE_HOME") | unsetenv("HOME");
}

static void ringside_home_moves_everything_below_it(void **state)
{
	struct paths p;

	(void)state;
	setenv("RINGSIDE_HOME", "/x/home", 1);
	setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
	setenv("XDG_STATE_HOME", "/y", 1);
	assert_int_equal(paths_find(&p), 0);
	assert_string_equal(p.runtime_dir, "/x/home/run");
	assert_string_equal(p.state_dir, "/x/home/state");
}

static void root_has_the_systems_directories_whatever_else_is_set(void **state)
{
	struct paths p;

	(void)state;
	setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
	setenv("HOME", "/home/somebody", 1);
	assert_int_equal(paths_find(&p), 0);
	if (geteuid() != 0) { /* and nobody else has */
		assert_string_not_equal(p.runtime_dir, "/run/ringside");
		return;
	}
	assert_string_equal(p.runtime_dir, "/run/ringside");
	assert_string_equal(p.state_dir, "/var/lib/ringside");
}

static int check_user(void)
{
	struct paths p;

	setenv("HOME", "/home/me", 1);
	if (paths_find(&p) != 0 || strcmp(p.state_dir, "/home/me/.local/state/ringside") != 0)
		return 1;
	if (strcmp(p.runtime_dir, "/home/me/.local/state/ringside/run") != 0)
		return 2;
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	if (paths_find(&p) != 0 || strcmp(p.runtime_dir, "/run/user/7/ringside") != 0)
		return 3;
	setenv("XDG_STATE_HOME", "/state", 1);
	if (paths_find(&p) != 0 || strcmp(p.state_dir, "/state/ringside") != 0)
		return 4;
	/* Empty is unset. */
	setenv("XDG_STATE_HOME", "", 1);
	setenv("XDG_RUNTIME_DIR", "", 1);
	setenv("RINGSIDE_HOME", "", 1);
	if (paths_find(&p) != 0 || strcmp(p.runtime_dir, "/home/me/.local/state/ringside/run") != 0)
		return 5;
	return 0;
}

static void a_user_has_directories_of_his_own(void **state)
{
	(void)state;
	as_a_user(check_user);
}

static int check_homeless(void)
{
	struct paths p;

	if (paths_find(&p) != -ENOENT)
		return 1;
	setenv("HOME", "relative", 1);
	if (paths_find(&p) != -EINVAL)
		return 2;
	setenv("HOME", "/home/me", 1);
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	return paths_find(&p) == -EINVAL ? 0 : 3;
}

static void without_a_home_or_with_a_relative_one_there_is_an_error(void **state)
{
	struct paths p;

	(void)state;
	as_a_user(check_homeless);
	setenv("RINGSIDE_HOME", "relative/home", 1);
	assert_int_equal(paths_find(&p), -EINVAL);
}

static void a_path_that_does_not_fit_is_an_error_and_not_cut(void **state)
{
	char home[PATH_MAX];
	struct paths p;

	(void)state;
	memset(home, 'h', sizeof(home));
	home[0] = '/';
	home[PATH_MAX - 6] = '\0'; /* with "/run" it fits, with "/state" it does not */
	setenv("RINGSIDE_HOME", home, 1);
	assert_int_equal(paths_find(&p), -ENAMETOOLONG);
}

/* ---- The private directory ---- */

static const char *below(const struct test_dir *t, const char *rest)
{
	static char path[PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", t->path, rest);
	return path;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static void a_private_directory_is_made_with_its_parents(void **state)
{
	const struct test_dir *t = *state;
	mode_t old = umask(0); /* the mode must not depend on it */
	int fd = paths_make_private_dir(below(t, "a//b/./c/"));
	struct stat opened, named;

	umask(old);
	assert_true(fd >= 0);
	assert_int_equal(mode_of(below(t, "a/b/c")), 0700);
	assert_int_equal(fstat(fd, &opened), 0);
	assert_int_equal(stat(below(t, "a/b/c"), &named), 0);
	assert_int_equal(opened.st_ino, named.st_ino);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_PATH, 0);
	fd_close(&fd);
	/* And once more, now that it is there. */
	fd = paths_make_private_dir(below(t, "a/b/c"));
	assert_true(fd >= 0);
	fd_close(&fd);
}

static void a_directory_that_others_can_look_into_is_closed_to_them(void **state)
{
	const struct test_dir *t = *state;
	int fd;

	assert_int_equal(mkdir(below(t, "d"), 0700), 0);
	assert_int_equal(chmod(below(t, "d"), 0755), 0);
	fd = paths_make_private_dir(below(t, "d"));
	assert_true(fd >= 0);
	assert_int_equal(mode_of(below(t, "d")), 0700);
	fd_close(&fd);
}

static void a_directory_that_others_can_write_is_refused(void **state)
{
	const struct test_dir *t = *state;

	assert_int_equal(mkdir(below(t, "d"), 0700), 0);
	assert_int_equal(chmod(below(t, "d"), 0770), 0);
	assert_int_equal(paths_make_private_dir(below(t, "d")), -EPERM);
	assert_int_equal(chmod(below(t, "d"), 0702), 0);
	assert_int_equal(paths_make_private_dir(below(t, "d")), -EPERM);
	assert_int_equal(mode_of(below(t, "d")), 0702);
}

static void a_directory_of_somebody_else_is_refused(void **state)
{
	const struct test_dir *t = *state;

	if (geteuid() != 0) {
		assert_int_equal(paths_make_private_dir("/etc"), -EPERM);
		return;
	}
	assert_int_equal(mkdir(below(t, "d"), 0700), 0);
	assert_int_equal(chown(below(t, "d"), NOBODY, NOBODY), 0);
	assert_int_equal(paths_make_private_dir(below(t, "d")), -EPERM);
}

static void parents_may_be_links_and_the_directory_itself_may_not(void **state)
{
	const struct test_dir *t = *state;
	int fd;

	assert_int_equal(mkdir(below(t, "real"), 0700), 0);
	assert_int_equal(symlink("real", below(t, "link")), 0);
	fd = paths_make_private_dir(below(t, "link/d"));
	assert_true(fd >= 0);
	fd_close(&fd);
	assert_int_equal(mode_of(below(t, "real/d")), 0700);
	fd = paths_make_private_dir(below(t, "link"));
	assert_true(fd == -ENOTDIR || fd == -ELOOP);
}

static void what_is_no_directory_is_an_error(void **state)
{
	const struct test_dir *t = *state;
	int fd = open(below(t, "file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	fd_close(&fd);
	assert_int_equal(paths_make_private_dir(below(t, "file")), -ENOTDIR);
	assert_int_equal(paths_make_private_dir(below(t, "file/d")), -ENOTDIR);
	assert_int_equal(paths_make_private_dir("relative"), -EINVAL);
	assert_int_equal(paths_make_private_dir(""), -EINVAL);
	assert_int_equal(paths_make_private_dir("///"), -EINVAL);
}

static void a_path_of_the_systems_full_length_is_refused_without_harm(void **state)
{
	char path[PATH_MAX + 10];

	(void)state;
	memset(path, 'p', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(paths_make_private_dir(path), -ENAMETOOLONG);
}

#define WITH_ENV(test) cmocka_unit_test_setup(test, clear_variables)
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, make_test_dir, remove_test_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENV(ringside_home_moves_everything_below_it),
		WITH_ENV(root_has_the_systems_directories_whatever_else_is_set),
		WITH_ENV(a_user_has_directories_of_his_own),
		WITH_ENV(without_a_home_or_with_a_relative_one_there_is_an_error),
		WITH_ENV(a_path_that_does_not_fit_is_an_error_and_not_cut),
		WITH_DIR(a_private_directory_is_made_with_its_parents),
		WITH_DIR(a_directory_that_others_can_look_into_is_closed_to_them),
		WITH_DIR(a_directory_that_others_can_write_is_refused),
		WITH_DIR(a_directory_of_somebody_else_is_refused),
		WITH_DIR(parents_may_be_links_and_the_directory_itself_may_not),
		WITH_DIR(what_is_no_directory_is_an_error),
		WITH_DIR(a_path_of_the_systems_full_length_is_refused_without_harm),
	};
	alarm(60);
	return cmocka_run_group_tests_name("wire/paths", tests, NULL, NULL);
}
