/* test_pty.c - what a new pseudo-terminal is like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "consoles/pty.h"
#include "tests/support/leftovers.h"

struct pair {
	int master, slave;
};

static int open_pair(void **state)
{
	static struct pair p;

	*state = &p;
	return pty_open(100, 30, &p.master, &p.slave);
}

static int close_pair(void **state)
{
	struct pair *p = *state;

	close(p->master);
	close(p->slave);
	return 0;
}

static void it_has_the_size_that_was_asked_for(void **state)
{
	const struct pair *p = *state;
	struct winsize size;

	assert_int_equal(ioctl(p->slave, TIOCGWINSZ, &size), 0);
	assert_int_equal(size.ws_col, 100);
	assert_int_equal(size.ws_row, 30);
	assert_int_equal(pty_resize(p->master, PTY_MAX_COLS, PTY_MAX_ROWS), 0);
	assert_int_equal(ioctl(p->slave, TIOCGWINSZ, &size), 0);
	assert_int_equal(size.ws_col, PTY_MAX_COLS);
	assert_int_equal(size.ws_row, PTY_MAX_ROWS);
}

static void its_master_never_blocks_and_its_slave_does(void **state)
{
	const struct pair *p = *state;
	char byte;

	assert_true(fcntl(p->master, F_GETFL) & O_NONBLOCK);
	assert_int_equal(read(p->master, &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(fcntl(p->slave, F_GETFL) & O_NONBLOCK);
}

static void neither_end_survives_an_exec(void **state)
{
	const struct pair *p = *state;

	assert_true(fcntl(p->master, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(p->slave, F_GETFD) & FD_CLOEXEC);
}

static void opening_it_makes_it_nobodys_controlling_terminal(void **state)
{
	const struct pair *p = *state;
	int status;

	/* In a process without one, which an open without O_NOCTTY would give one. */
	pid_t pid = fork();
	if (pid == 0) {
		int m, s;
		setsid();
		_exit(pty_open(80, 24, &m, &s) < 0 || open("/dev/tty", O_RDWR) >= 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(pty_foreground_group(p->master), 0);
}

static void it_erases_whole_characters(void **state)
{
	const struct pair *p = *state;
	struct termios t;

	assert_int_equal(tcgetattr(p->slave, &t), 0);
	assert_true(t.c_iflag & IUTF8);
}

static void the_foreground_group_is_the_one_that_reads_the_terminal(void **state)
{
	const struct pair *p = *state;
	char byte;

	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		if (ioctl(p->slave, TIOCSCTTY, 0) == 0 && write(p->slave, "r", 1) == 1)
			pause();
		_exit(1);
	}
	struct pollfd ready = { .fd = p->master, .events = POLLIN };
	assert_int_equal(poll(&ready, 1, 10000), 1);
	assert_int_equal(read(p->master, &byte, 1), 1);
	pid_t group = pty_foreground_group(p->master);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(group, pid);
}

static void editing_of_lines_is_told_of_the_slave_as_it_is_now(void **state)
{
	const struct pair *p = *state;
	struct termios t;

	assert_true(pty_is_canonical(p->master));
	assert_int_equal(tcgetattr(p->slave, &t), 0);
	cfmakeraw(&t);
	assert_int_equal(tcsetattr(p->slave, TCSANOW, &t), 0);
	assert_false(pty_is_canonical(p->master));
}

static void out_of_descriptors_is_an_error_that_leaves_none_behind(void **state)
{
	struct rlimit before, tight;
	int m = -2, s = -2, fds = count_fds();

	(void)state;
	getrlimit(RLIMIT_NOFILE, &before);
	/* The lowest free number, and the one after: no terminal, then a master without a slave. */
	int lowest = dup(0);
	close(lowest);
	for (int more = 0; more <= 1; more++) {
		tight = (struct rlimit){ .rlim_cur = (rlim_t)(lowest + more), .rlim_max = before.rlim_max };
		setrlimit(RLIMIT_NOFILE, &tight);
		int r = pty_open(80, 24, &m, &s);
		setrlimit(RLIMIT_NOFILE, &before);
		assert_int_equal(r, -EMFILE);
		assert_int_equal(m, -2);
		assert_int_equal(s, -2);
	}
	assert_int_equal(count_fds(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_has_the_size_that_was_asked_for, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(its_master_never_blocks_and_its_slave_does, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(neither_end_survives_an_exec, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(
		        opening_it_makes_it_nobodys_controlling_terminal, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(it_erases_whole_characters, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(
		        the_foreground_group_is_the_one_that_reads_the_terminal, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(
		        editing_of_lines_is_told_of_the_slave_as_it_is_now, open_pair, close_pair),
		cmocka_unit_test(out_of_descriptors_is_an_error_that_leaves_none_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
