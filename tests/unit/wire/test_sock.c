/* Promises of wire/sock.h, with real sockets and files in a directory of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wire/test_dir.h"
#include "wire/fd.h"
#include "wire/sock.h"

static void assert_connects(int dirfd, const char *name, int listener)
{
	int client = sock_connect_at(dirfd, name);
	int served;

	assert_true(client >= 0);
	served = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(served >= 0);
	assert_int_equal(send(client, "x", 1, MSG_NOSIGNAL), 1);
	fd_close(&client);
	fd_close(&served);
}

static int listening(int dirfd, const char *name)
{
	int fd = sock_bind_at(dirfd, name);

	assert_true(fd >= 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void make_file(int dirfd, const char *name, const char *text)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	fd_close(&fd);
}

static void a_bound_socket_is_private_nonblocking_and_does_not_listen_yet(void **state)
{
	const struct test_dir *t = *state;
	mode_t old = umask(0); /* the mode must not depend on it */
	int fd = sock_bind_at(t->fd, "s");
	struct stat st;

	umask(old);
	assert_true(fd >= 0);
	assert_int_equal(fstatat(t->fd, "s", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(sock_connect_at(t->fd, "s"), -ECONNREFUSED);
	assert_int_equal(listen(fd, 8), 0);
	assert_connects(t->fd, "s", fd);
	fd_close(&fd);
}

static void a_stale_socket_is_replaced(void **state)
{
	const struct test_dir *t = *state;
	int old = listening(t->fd, "s"), fresh;

	fd_close(&old); /* its owner died: the file stays */
	assert_int_equal(faccessat(t->fd, "s", F_OK, 0), 0);
	fresh = listening(t->fd, "s");
	assert_connects(t->fd, "s", fresh);
	fd_close(&fresh);
}

static void a_socket_that_somebody_listens_on_is_left_alone(void **state)
{
	const struct test_dir *t = *state;
	int fd = listening(t->fd, "s"), probe;

	assert_int_equal(sock_bind_at(t->fd, "s"), -EADDRINUSE);
	/* The probe is one connection that hangs up. */
	probe = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(probe >= 0);
	fd_close(&probe);
	assert_connects(t->fd, "s", fd);
	fd_close(&fd);
}

static void a_listener_with_a_full_backlog_counts_as_one_that_listens(void **state)
{
	const struct test_dir *t = *state;
	int fd = sock_bind_at(t->fd, "s");
	int waiting[16], n = 0, r = 0;

	assert_int_equal(listen(fd, 1), 0);
	while (n < 16) {
		r = sock_connect_at(t->fd, "s");
		if (r < 0)
			break;
		waiting[n++] = r;
	}
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(sock_bind_at(t->fd, "s"), -EADDRINUSE);
	while (n > 0)
		fd_close(&waiting[--n]);
	fd_close(&fd);
}

static void anything_but_a_socket_is_an_error_and_left_as_it_is(void **state)
{
	const struct test_dir *t = *state;
	char text[8] = "";
	struct stat st;
	int fd;

	make_file(t->fd, "file", "precious");
	assert_int_equal(sock_bind_at(t->fd, "file"), -EEXIST);
	fd = openat(t->fd, "file", O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, 8), 8);
	assert_memory_equal(text, "precious", 8);
	fd_close(&fd);

	assert_int_equal(mkdirat(t->fd, "dir", 0700), 0);
	assert_int_equal(sock_bind_at(t->fd, "dir"), -EEXIST);
	assert_int_equal(mkfifoat(t->fd, "fifo", 0600), 0);
	assert_int_equal(sock_bind_at(t->fd, "fifo"), -EEXIST);

	assert_int_equal(symlinkat("nowhere", t->fd, "link"), 0);
	assert_int_equal(sock_bind_at(t->fd, "link"), -EEXIST);
	assert_int_equal(fstatat(t->fd, "link", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(faccessat(t->fd, "nowhere", F_OK, 0), -1);
}

static void connecting_to_what_is_no_socket_says_so(void **state)
{
	const struct test_dir *t = *state;
	int fd = listening(t->fd, "s");

	assert_int_equal(sock_connect_at(t->fd, "missing"), -ENOENT);
	make_file(t->fd, "file", "x");
	assert_int_equal(sock_connect_at(t->fd, "file"), -ENOTSOCK);
	assert_int_equal(sock_connect_at(-1, "s"), -EBADF);
	/* A link to a good socket is refused as well: who can write the folder would choose the peer. */
	assert_int_equal(symlinkat("s", t->fd, "link"), 0);
	assert_int_equal(sock_connect_at(t->fd, "link"), -ELOOP);
	/* A FIFO is not opened, which would wait for its other end. */
	assert_int_equal(mkfifoat(t->fd, "fifo", 0600), 0);
	assert_int_equal(sock_connect_at(t->fd, "fifo"), -ENOTSOCK);
	fd_close(&fd);
}

static void a_directory_whose_path_is_too_long_for_a_socket_works(void **state)
{
	const struct test_dir *t = *state;
	char name[201];
	int dir = fd_dup_cloexec(t->fd), fd;

	memset(name, 'd', 200);
	name[200] = '\0';
	for (int depth = 0; depth < 10; depth++) {
		int next;

		assert_int_equal(mkdirat(dir, name, 0700), 0);
		next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		fd_close(&dir);
		dir = next;
	}
	fd = listening(dir, "console.sock");
	assert_connects(dir, "console.sock", fd);
	fd_close(&fd);
	fd_close(&dir);
}

static void a_name_that_is_a_path_or_too_long_is_refused(void **state)
{
	const struct test_dir *t = *state;
	char name[201];

	memset(name, 'n', 200);
	name[200] = '\0';
	assert_int_equal(sock_bind_at(t->fd, name), -ENAMETOOLONG);
	assert_int_equal(sock_bind_at(t->fd, "../s"), -EINVAL);
	assert_int_equal(sock_bind_at(t->fd, "/tmp/s"), -EINVAL);
	assert_int_equal(sock_bind_at(t->fd, ""), -EINVAL);
	assert_int_equal(sock_connect_at(t->fd, "a/b"), -EINVAL);
	assert_int_equal(sock_connect_at(t->fd, ".."), -EINVAL);
	assert_int_equal(sock_lock_at(t->fd, "a/b", &(pid_t){ 0 }), -EINVAL);
}

static void a_pair_is_connected_nonblocking_and_close_on_exec(void **state)
{
	int pair[2] = { -1, -1 };
	char byte;

	(void)state;
	assert_int_equal(sock_pair(pair), 0);
	assert_int_equal(read(pair[0], &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(write(pair[1], "x", 1), 1);
	assert_int_equal(read(pair[0], &byte, 1), 1);
	assert_int_equal(fcntl(pair[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(pair[1], F_GETFD), FD_CLOEXEC);
	fd_close(&pair[0]);
	fd_close(&pair[1]);
}

/* A socket that is bound here and handed down: the child that calls listen() is the peer. */
static void the_peer_is_the_process_that_listens(void **state)
{
	const struct test_dir *t = *state;
	int bound = sock_bind_at(t->fd, "s"), ready[2], client, status;
	pid_t child, pid = 0;
	uid_t uid = 0;
	gid_t gid = 0;
	char byte;

	assert_true(bound >= 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when an assertion below fails */
		(void)listen(bound, 8);
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	client = sock_connect_at(t->fd, "s");
	if (client >= 0)
		(void)sock_peer(client, &pid, &uid, &gid);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	fd_close(&client);
	fd_close(&bound);
	fd_close(&ready[0]);
	fd_close(&ready[1]);
	assert_int_equal(pid, child);
	assert_int_equal(uid, getuid());
	assert_int_equal(gid, getgid());
}

static void the_peer_of_a_file_is_an_error(void **state)
{
	const struct test_dir *t = *state;
	pid_t pid = 77;
	uid_t uid;
	gid_t gid;

	assert_int_equal(sock_peer(t->fd, &pid, &uid, &gid), -ENOTSOCK);
	assert_int_equal(pid, 77);
}

/* ---- The lock ---- */

static void a_lock_is_exclusive_and_names_its_holder(void **state)
{
	const struct test_dir *t = *state;
	pid_t holder = 0;
	int fd = sock_lock_at(t->fd, "lock", &holder);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	/* Locks belong to open files, so a second opening is refused in the same process too. */
	assert_int_equal(sock_lock_at(t->fd, "lock", &holder), -EWOULDBLOCK);
	assert_int_equal(holder, getpid());
	fd_close(&fd);
	fd = sock_lock_at(t->fd, "lock", &holder);
	assert_true(fd >= 0);
	fd_close(&fd);
}

static void a_lock_of_another_process_is_told_with_its_pid_and_ends_with_it(void **state)
{
	const struct test_dir *t = *state;
	pid_t holder = 0, child;
	int ready[2], status, fd, r;
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when an assertion below fails */
		pid_t nobody;

		if (sock_lock_at(t->fd, "lock", &nobody) < 0)
			_exit(1);
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	fd_close(&ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	fd_close(&ready[0]);
	r = sock_lock_at(t->fd, "lock", &holder);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(r, -EWOULDBLOCK);
	assert_int_equal(holder, child);

	fd = sock_lock_at(t->fd, "lock", &holder);
	assert_true(fd >= 0);
	fd_close(&fd);
}

static void a_lock_file_with_rubbish_in_it_gives_no_pid(void **state)
{
	const struct test_dir *t = *state;
	int fd;
	pid_t holder;

	make_file(t->fd, "lock", "4711 and more than any number can have in it, for a start\n");
	fd = openat(t->fd, "lock", O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	holder = 77;
	assert_int_equal(sock_lock_at(t->fd, "lock", &holder), -EWOULDBLOCK);
	assert_int_equal(holder, 0);
	make_file(t->fd, "lock", "");
	holder = 77;
	assert_int_equal(sock_lock_at(t->fd, "lock", &holder), -EWOULDBLOCK);
	assert_int_equal(holder, 0);
	make_file(t->fd, "lock", "99999999999\n");
	holder = 77;
	assert_int_equal(sock_lock_at(t->fd, "lock", &holder), -EWOULDBLOCK);
	assert_int_equal(holder, 0);
	fd_close(&fd);
	/* Nobody's any more: taken, and what stood there is gone. */
	fd = sock_lock_at(t->fd, "lock", &holder);
	assert_true(fd >= 0);
	assert_int_equal(sock_lock_at(t->fd, "lock", &holder), -EWOULDBLOCK);
	assert_int_equal(holder, getpid());
	fd_close(&fd);
}

static void a_lock_is_no_link_and_no_fifo(void **state)
{
	const struct test_dir *t = *state;
	pid_t holder;

	make_file(t->fd, "target", "precious");
	assert_int_equal(symlinkat("target", t->fd, "link"), 0);
	assert_int_equal(sock_lock_at(t->fd, "link", &holder), -ELOOP);
	assert_int_equal(mkfifoat(t->fd, "fifo", 0600), 0);
	assert_int_equal(sock_lock_at(t->fd, "fifo", &holder), -EEXIST);
	assert_int_equal(mkdirat(t->fd, "dir", 0700), 0);
	assert_int_equal(sock_lock_at(t->fd, "dir", &holder), -EISDIR);
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, make_test_dir, remove_test_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_DIR(a_bound_socket_is_private_nonblocking_and_does_not_listen_yet),
		WITH_DIR(a_stale_socket_is_replaced),
		WITH_DIR(a_socket_that_somebody_listens_on_is_left_alone),
		WITH_DIR(a_listener_with_a_full_backlog_counts_as_one_that_listens),
		WITH_DIR(anything_but_a_socket_is_an_error_and_left_as_it_is),
		WITH_DIR(connecting_to_what_is_no_socket_says_so),
		WITH_DIR(a_directory_whose_path_is_too_long_for_a_socket_works),
		WITH_DIR(a_name_that_is_a_path_or_too_long_is_refused),
		WITH_DIR(a_pair_is_connected_nonblocking_and_close_on_exec),
		WITH_DIR(the_peer_is_the_process_that_listens),
		WITH_DIR(the_peer_of_a_file_is_an_error),
		WITH_DIR(a_lock_is_exclusive_and_names_its_holder),
		WITH_DIR(a_lock_of_another_process_is_told_with_its_pid_and_ends_with_it),
		WITH_DIR(a_lock_file_with_rubbish_in_it_gives_no_pid),
		WITH_DIR(a_lock_is_no_link_and_no_fifo),
	};
	alarm(60);
	return cmocka_run_group_tests_name("wire/sock", tests, NULL, NULL);
}
