/* Removing what strangers' programs left: all of it, nothing beside it, whatever its shape. */
#include "tests/unit/providers/fixture.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

struct place {
	char dir[64];
	int fd;
	struct remove_error why;
};

static int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	snprintf(p->dir, sizeof(p->dir), "/tmp/ringside-remove-XXXXXX");
	if (!mkdtemp(p->dir)) {
		free(p);
		return -1;
	}
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->fd < 0 ? -1 : 0;
}

static int drop_place(void **state)
{
	struct place *p = *state;
	char command[256];

	close(p->fd);
	snprintf(command, sizeof(command), "chmod -R u+rwx %s; rm -rf %s", p->dir, p->dir);
	int r = system(command);
	free(p);
	return r;
}

static void touch(int at, const char *path)
{
	int fd = openat(at, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static bool there(int at, const char *path)
{
	struct stat st;

	return fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void files_directories_links_fifos_and_sockets_go(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "t/a", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "t/a/.hidden", 0700), 0);
	touch(p->fd, "t/a/.hidden/\x01 odd \xff name");
	assert_int_equal(mkfifoat(p->fd, "t/fifo", 0600), 0);
	assert_int_equal(symlinkat("nowhere", p->fd, "t/dangling"), 0);
	assert_int_equal(mknodat(p->fd, "t/socket", S_IFSOCK | 0600, 0), 0);
	for (int i = 0; i < 500; i++) {
		char name[32];

		snprintf(name, sizeof(name), "t/a/%d", i);
		touch(p->fd, name);
	}
	assert_int_equal(remove_tree_at(p->fd, "t", UINT64_MAX, &p->why), 0);
	assert_false(there(p->fd, "t"));
	assert_int_equal(remove_tree_at(p->fd, "t", UINT64_MAX, &p->why), 0);
}

static void links_are_removed_and_never_followed(void **state)
{
	struct place *p = *state;
	char outside[128];

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "kept", 0700), 0);
	touch(p->fd, "kept/file");
	snprintf(outside, sizeof(outside), "%s/kept", p->dir);
	assert_int_equal(symlinkat(outside, p->fd, "t/absolute"), 0);
	assert_int_equal(symlinkat("../kept", p->fd, "t/relative"), 0);
	assert_int_equal(symlinkat("..", p->fd, "t/up"), 0);
	assert_int_equal(linkat(p->fd, "kept/file", p->fd, "t/hard", 0), 0);
	assert_int_equal(remove_tree_at(p->fd, "t", UINT64_MAX, &p->why), 0);
	assert_true(there(p->fd, "kept/file"));

	assert_int_equal(symlinkat("kept", p->fd, "link"), 0);
	assert_int_not_equal(remove_tree_at(p->fd, "link", UINT64_MAX, &p->why), 0);
	assert_true(there(p->fd, "kept/file"));
}

static void the_kept_entry_stays_and_only_at_the_top(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "t/sub", 0700), 0);
	touch(p->fd, "t/record");
	touch(p->fd, "t/sub/record");
	int fd = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(remove_contents(fd, "record", UINT64_MAX, &p->why), 0);
	assert_true(there(fd, "record"));
	assert_false(there(fd, "sub"));
	close(fd);
}

/* Unprivileged: root is never refused. Build trees do leave directories without write permission behind. */
static void directories_without_rights_go_too(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	assert_int_equal(fchmod(p->fd, 0777), 0);
	if (geteuid() == 0)
		assert_int_equal(fchownat(p->fd, "t", 65534, 65534, 0), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(2);
		int deep = 0;
		for (deep = 0; deep < 2; deep++)
			if (mkdirat(p->fd, deep ? "t/closed/inner" : "t/closed", 0700) < 0)
				_exit(3);
		touch(p->fd, "t/closed/inner/file");
		if (fchmodat(p->fd, "t/closed/inner", 0555, 0) < 0 || fchmodat(p->fd, "t/closed", 0000, 0) < 0)
			_exit(4);
		if (unlinkat(p->fd, "t/closed/inner/file", 0) == 0)
			_exit(5); /* the rights do not hold here, so nothing would be shown */
		int fd = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_exit(remove_contents(fd, NULL, UINT64_MAX, &p->why) == 0 ? 0 : 6);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_false(there(p->fd, "t/closed"));
}

/* Deeper than any path and than there are descriptors. */
static void a_tree_of_any_depth_goes_with_few_descriptors(void **state)
{
	struct place *p = *state;
	enum { DEPTH = 3000 };
	struct rlimit limit;

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	int at = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(mkdirat(at, "d", 0700), 0);
		if (i % 100 == 0)
			touch(at, "file");
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	touch(p->fd, "t/.deep-0"); /* a name that the removal itself would use */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, limit.rlim_max }), 0);
	int r = remove_tree_at(p->fd, "t", UINT64_MAX, &p->why);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(r, 0);
	assert_false(there(p->fd, "t"));
}

static void something_else_with_the_name_is_left_alone(void **state)
{
	struct place *p = *state;

	touch(p->fd, "t");
	assert_int_equal(remove_tree_at(p->fd, "t", UINT64_MAX, &p->why), -ENOTDIR);
	assert_true(there(p->fd, "t"));
}

static void a_passed_deadline_is_told_with_the_place(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	touch(p->fd, "t/file");
	assert_int_equal(remove_tree_at(p->fd, "t", clock_mono_ms(), &p->why), -ETIMEDOUT);
	assert_string_equal(p->why.path, "file");
	assert_true(there(p->fd, "t/file"));
}

/* Somebody who goes on filling must not keep the caller for ever, nor be followed out of the tree. */
static void a_tree_that_is_being_filled_ends_with_an_answer(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "t/d", 0700), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0;; i++) {
			char name[32];

			snprintf(name, sizeof(name), "t/d/%u", i);
			mkdirat(p->fd, "t/d", 0700);
			int fd = openat(p->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
			if (fd >= 0)
				close(fd);
		}
	}
	int r = remove_tree_at(p->fd, "t", clock_mono_ms() + 300, &p->why);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(r == 0 || r == -EBUSY || r == -ETIMEDOUT);
	assert_int_equal(remove_tree_at(p->fd, "t", UINT64_MAX, &p->why), 0);
	assert_false(there(p->fd, "t"));
}

/* In a mount namespace of a child. What is mounted is not ours to empty. */
static int try_with_a_mount(struct place *p)
{
	char mounted[128];

	if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ||
	        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 100;
	snprintf(mounted, sizeof(mounted), "%s/t/a/mounted", p->dir);
	if (mount("none", mounted, "tmpfs", 0, "size=64k") < 0)
		return 100;
	int top = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* the old one is of the old namespace */
	touch(top, "t/a/mounted/precious");
	if (remove_tree_at(top, "t", UINT64_MAX, &p->why) != -EXDEV)
		return 1;
	if (!there(top, "t/a/mounted/precious"))
		return 2;
	if (strcmp(p->why.path, "mounted") != 0)
		return 3;
	umount(mounted);
	return remove_tree_at(top, "t", UINT64_MAX, &p->why) == 0 ? 0 : 4;
}

static void a_mount_point_is_not_entered(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "t", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "t/a", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "t/a/mounted", 0700), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(try_with_a_mount(p));
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 100) {
		print_message("mounting is not allowed here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, drop_place)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_directories_links_fifos_and_sockets_go),
		TEST(links_are_removed_and_never_followed),
		TEST(the_kept_entry_stays_and_only_at_the_top),
		TEST(directories_without_rights_go_too),
		TEST(a_tree_of_any_depth_goes_with_few_descriptors),
		TEST(something_else_with_the_name_is_left_alone),
		TEST(a_passed_deadline_is_told_with_the_place),
		TEST(a_tree_that_is_being_filled_ends_with_an_answer),
		TEST(a_mount_point_is_not_entered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
