/*
 * pty.c - opening a pseudo-terminal by the kernel's own calls; see pty.h.
 *
 * Not posix_openpt() and grantpt(): those look groups up and, in old versions, start a setuid helper. The kernel sets
 * mode and owner of the slave by the mount options of devpts, and what opens the slave here has it through the master.
 */
#include "consoles/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "wire/fd.h"

/* The slave by its path: only for kernels before 4.13, which have no TIOCGPTPEER. */
static int open_slave_by_name(int master)
{
	unsigned number;
	char path[32];

	if (ioctl(master, TIOCGPTN, &number) < 0)
		return -errno;
	snprintf(path, sizeof(path), "/dev/pts/%u", number);

	int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_slave(int master)
{
	int locked = 0;

	if (ioctl(master, TIOCSPTLCK, &locked) < 0)
		return -errno;

	int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == ENOTTY || errno == EINVAL)
		return open_slave_by_name(master);
	return -errno;
}

/* Erasing in the line discipline takes a whole character with IUTF8, and leaves half of one without. */
static int set_utf8(int slave)
{
	struct termios t;

	if (tcgetattr(slave, &t) < 0)
		return -errno;
	t.c_iflag |= IUTF8;
	return tcsetattr(slave, TCSANOW, &t) < 0 ? -errno : 0;
}

int pty_open(uint16_t cols, uint16_t rows, int *master, int *slave)
{
	int r, s = -1;

	int m = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (m < 0)
		return -errno;

	r = s = open_slave(m);
	if (r < 0)
		goto out;
	r = set_utf8(s);
	if (r < 0)
		goto out;
	r = pty_resize(m, cols, rows);
	if (r < 0)
		goto out;

	*master = fd_take(&m);
	*slave = fd_take(&s);
out:
	fd_close(&s);
	fd_close(&m);
	return r;
}

int pty_resize(int master, uint16_t cols, uint16_t rows)
{
	const struct winsize size = { .ws_col = cols, .ws_row = rows };

	return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

pid_t pty_foreground_group(int master)
{
	pid_t group = tcgetpgrp(master);

	return group > 0 ? group : 0;
}

bool pty_is_canonical(int master)
{
	struct termios t;

	/* Asked of the master, Linux answers for the slave: the line discipline is its. */
	return tcgetattr(master, &t) == 0 && (t.c_lflag & ICANON);
}
