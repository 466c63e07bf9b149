/* Promises of wire/fd.h. What closes many descriptors runs in a child: the test's own must stay. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/fd.h"

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void close_leaves_minus_one_and_keeps_errno(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int number = fd;

	(void)state;
	errno = ENOTTY;
	fd_close(&fd);
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(fd, -1);
	assert_false(is_open(number));
	errno = ENOTTY;
	fd_close(&fd); /* nothing to close */
	assert_int_equal(errno, ENOTTY);
}

static void take_hands_over_and_leaves_minus_one(void **state)
{
	int fd = 7;

	(void)state;
	assert_int_equal(fd_take(&fd), 7);
	assert_int_equal(fd, -1);
	assert_int_equal(fd_take(&fd), -1);
}

static void nonblocking_is_set_and_unset(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(fd_set_nonblocking(fd, 1), 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_nonblocking(fd, 0), 0);
	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
	fd_close(&fd);
	assert_int_equal(fd_set_nonblocking(-1, 1), -EBADF);
}

static void a_duplicate_is_close_on_exec_and_no_standard_stream(void **state)
{
	int copy = fd_dup_cloexec(0);

	(void)state;
	assert_true(copy >= 3);
	assert_int_equal(fcntl(copy, F_GETFD), FD_CLOEXEC);
	fd_close(&copy);
	assert_int_equal(fd_dup_cloexec(-1), -EBADF);
}

/* From here on this process has no close_range(2), as on an old kernel or under a strict filter. */
static void forbid_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(1); /* no answer: the test fails */
	if (syscall(SYS_close_range, 100, 100, 0) == 0 || errno != ENOSYS)
		_exit(1);
}

/* In a child: opens 3..19, closes from `lowest` but `keep`, and answers with a bit for each of 0..19 that is open. */
static uint32_t open_after_close_from(int lowest, const int *keep, size_t n, int old_kernel)
{
	uint32_t open_ones = 0;
	int result[2], status;
	pid_t pid;

	assert_int_equal(pipe2(result, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int answer = fcntl(result[1], F_DUPFD, 30);

		for (int fd = 0; fd < 20; fd++)
			(void)dup2(answer, fd);
		if (old_kernel)
			forbid_close_range();
		fd_close_from(lowest, keep, n);
		for (int fd = 0; fd < 20; fd++)
			open_ones |= (uint32_t)is_open(fd) << fd;
		/* The answer itself may be closed by now: one that was kept does as well. */
		(void)!write(is_open(answer) ? answer : 0, &open_ones, sizeof(open_ones));
		_exit(0);
	}
	fd_close(&result[1]);
	assert_int_equal(read(result[0], &open_ones, sizeof(open_ones)), sizeof(open_ones));
	fd_close(&result[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return open_ones;
}

static void close_from_closes_everything_from_the_lowest_up(void **state)
{
	(void)state;
	assert_int_equal(open_after_close_from(3, NULL, 0, 0), 0x7);
	assert_int_equal(open_after_close_from(1, NULL, 0, 0), 0x1);
	assert_int_equal(open_after_close_from(20, NULL, 0, 0), 0xfffff);
}

static void close_from_spares_what_is_to_be_kept_in_any_order(void **state)
{
	const int keep[] = { 17, 3, 9, 8, -1, 9, 1, 19 };

	(void)state;
	assert_int_equal(open_after_close_from(3, keep, 8, 0), 0x7 | 1 << 3 | 1 << 8 | 1 << 9 | 1 << 17 | 1 << 19);
}

static void close_from_does_without_close_range(void **state)
{
	const int keep[] = { 17, 3 };

	(void)state;
	assert_int_equal(open_after_close_from(3, keep, 2, 1), 0x7 | 1 << 3 | 1 << 17);
}

static void write_all_writes_all_of_it_in_many_pieces(void **state)
{
	enum { SIZE = 300000 };
	static char sent[SIZE], got[SIZE];
	int p[2], status;
	size_t n = 0;
	pid_t pid;

	(void)state;
	for (int i = 0; i < SIZE; i++)
		sent[i] = (char)(i * 7);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fd_write_all(p[1], sent, SIZE) == 0 ? 0 : 1);
	fd_close(&p[1]);
	while (n < SIZE) {
		ssize_t r = read(p[0], got + n, SIZE - n);

		assert_true(r > 0);
		n += (size_t)r;
	}
	fd_close(&p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_memory_equal(sent, got, SIZE);
}

static void write_all_tells_a_full_disk(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(fd_write_all(fd, "x", 1), -ENOSPC);
	assert_int_equal(fd_write_all(fd, "x", 0), 0);
	fd_close(&fd);
}

static rlim_t files_allowed(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur;
}

static void a_raised_limit_of_files_is_given_back_as_it_was_before_the_first_time(void **state)
{
	struct rlimit limit;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 200;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fd_restore_limit(); /* nothing was raised */
	assert_int_equal(files_allowed(), 200);
	assert_int_equal(fd_raise_limit(300), 0);
	assert_int_equal(files_allowed(), 300);
	assert_int_equal(fd_raise_limit(SIZE_MAX), 0);
	assert_int_equal(files_allowed(), limit.rlim_max);
	fd_restore_limit();
	assert_int_equal(files_allowed(), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_leaves_minus_one_and_keeps_errno),
		cmocka_unit_test(take_hands_over_and_leaves_minus_one),
		cmocka_unit_test(nonblocking_is_set_and_unset),
		cmocka_unit_test(a_duplicate_is_close_on_exec_and_no_standard_stream),
		cmocka_unit_test(close_from_closes_everything_from_the_lowest_up),
		cmocka_unit_test(close_from_spares_what_is_to_be_kept_in_any_order),
		cmocka_unit_test(close_from_does_without_close_range),
		cmocka_unit_test(write_all_writes_all_of_it_in_many_pieces),
		cmocka_unit_test(write_all_tells_a_full_disk),
		cmocka_unit_test(a_raised_limit_of_files_is_given_back_as_it_was_before_the_first_time),
	};
	alarm(60);
	return cmocka_run_group_tests_name("wire/fd", tests, NULL, NULL);
}
