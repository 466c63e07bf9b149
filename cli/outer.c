/*
 * outer.c - see outer.h.
 *
 * O_NONBLOCK belongs to the open file, which the shell that started us shares: setting it on standard output would
 * break the shell when we are killed. So a terminal or a pipe is opened again, through /proc, and that one is
 * non-blocking. A regular file is not: opened again it would be written from its start; it never blocks for long
 * either.
 */
#include "cli/outer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ringside.h"
#include "wire/fd.h"

static int open_again(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || !(S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)))
		return -1;
	return open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void outer_open(struct outer *o)
{
	*o = (struct outer){ .in = STDIN_FILENO, .out = open_again(STDOUT_FILENO) };
	o->own_out = o->out >= 0;
	if (!o->own_out)
		o->out = STDOUT_FILENO;
	o->in_is_tty = isatty(STDIN_FILENO);
	o->out_is_tty = isatty(STDOUT_FILENO);
}

void outer_close(struct outer *o)
{
	outer_restore(o);
	if (o->own_out)
		fd_close(&o->out);
	o->own_out = false;
}

int outer_raw(struct outer *o)
{
	if (!o->in_is_tty || o->raw)
		return 0;
	if (tcgetattr(o->in, &o->before) < 0)
		return -errno;
	struct termios t = o->before;
	cfmakeraw(&t);
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	if (tcsetattr(o->in, TCSANOW, &t) < 0)
		return -errno;
	o->raw = true;
	return 0;
}

void outer_restore(struct outer *o)
{
	if (!o->raw)
		return;
	o->raw = false;
	/* Not TCSADRAIN: a terminal that is held (Ctrl-S) would keep us from leaving. */
	tcsetattr(o->in, TCSANOW, &o->before);
}

static uint32_t clamp(unsigned short v, uint32_t low, uint32_t high)
{
	return v < low ? low : v > high ? high : v;
}

bool outer_size(const struct outer *o, uint32_t *cols, uint32_t *rows)
{
	struct winsize ws = { 0 };
	int fd = o->out_is_tty ? STDOUT_FILENO : o->in;
	if (!(o->out_is_tty || o->in_is_tty) || ioctl(fd, TIOCGWINSZ, &ws) < 0 || !ws.ws_col || !ws.ws_row)
		return false;
	*cols = clamp(ws.ws_col, RINGSIDE_MIN_COLS, RINGSIDE_MAX_COLS);
	*rows = clamp(ws.ws_row, RINGSIDE_MIN_ROWS, RINGSIDE_MAX_ROWS);
	return true;
}

long outer_write(const struct outer *o, const void *bytes, size_t n)
{
	ssize_t done = write(o->out, bytes, n);
	if (done >= 0)
		return done;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

void outer_write_within(const struct outer *o, const void *bytes, size_t n, int ms)
{
	const uint8_t *p = bytes;
	while (n > 0) {
		long done = outer_write(o, p, n);
		if (done < 0)
			return;
		p += done;
		n -= (size_t)done;
		struct pollfd w = { .fd = o->out, .events = POLLOUT };
		if (n > 0 && poll(&w, 1, ms) <= 0)
			return;
	}
}
