/*
 * term.c - driving a program on a pty and seeing its screen.
 */
#include "tests/support/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vterm.h>

#define ALL_BYTES ((size_t)64 * 1024 * 1024) /* kept of what was printed; a test that floods more looks elsewhere */

struct term {
	int master;
	pid_t pid;
	bool reaped;
	int status;
	int cols, rows;
	VTerm *vt;
	VTermScreen *screen;
	bool alternate;
	char *all;
	size_t all_len, all_room;
	char text[64 * 1024];
};

/* What the terminal itself says: answers to queries. */
static void answer(const char *s, size_t len, void *user)
{
	struct term *t = user;

	if (t->master >= 0 && write(t->master, s, len) < 0 && errno != EAGAIN && errno != EIO)
		print_error("terminal's answer: %s\n", strerror(errno));
}

static int property(VTermProp prop, VTermValue *val, void *user)
{
	struct term *t = user;

	if (prop == VTERM_PROP_ALTSCREEN)
		t->alternate = val->boolean;
	return 1;
}

static const VTermScreenCallbacks callbacks = { .settermprop = property };

static bool reap(struct term *t)
{
	if (!t->reaped && waitpid(t->pid, &t->status, WNOHANG) == t->pid)
		t->reaped = true;
	return t->reaped;
}

/* At the test's end: whoever still sits at this terminal is sent away. */
static void release(void *what)
{
	struct term *t = what;

	if (t->master >= 0)
		close(t->master);
	if (t->pid > 0 && !reap(t)) {
		kill(t->pid, SIGKILL);
		waitpid(t->pid, NULL, 0);
	}
	if (t->vt)
		vterm_free(t->vt);
	free(t->all);
	free(t);
}

struct term *term_open(struct home *h, int cols, int rows, const char *const *argv)
{
	struct term *t = calloc(1, sizeof(*t));
	struct winsize size = { .ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows };
	char *beside = home_format(h, "%s/%s", h->bin, argv[0]);
	const char *path = access(beside, X_OK) == 0 ? beside : argv[0];

	assert_non_null(t);
	t->master = -1;
	home_defer(h, release, t);
	t->cols = cols;
	t->rows = rows;
	t->vt = vterm_new(rows, cols);
	assert_non_null(t->vt);
	vterm_set_utf8(t->vt, 1);
	vterm_output_set_callback(t->vt, answer, t);
	t->screen = vterm_obtain_screen(t->vt);
	vterm_screen_set_callbacks(t->screen, &callbacks, t);
	vterm_screen_enable_altscreen(t->screen, 1);
	vterm_screen_reset(t->screen, 1);

	fflush(NULL);
	t->pid = forkpty(&t->master, NULL, NULL, &size);
	assert_true(t->pid >= 0);
	if (t->pid == 0) {
		setenv("RINGSIDE_HOME", h->dir, 1);
		setenv("TERM", "xterm-256color", 1);
		execvp(path, (char *const *)(uintptr_t)argv);
		dprintf(2, "cannot run %s: %s\n", path, strerror(errno));
		_exit(127);
	}
	fcntl(t->master, F_SETFD, FD_CLOEXEC);
	fcntl(t->master, F_SETFL, O_NONBLOCK);
	return t;
}

struct term *term_attach(struct home *h, const char *console)
{
	const char *argv[] = { "ringside", "attach", console, NULL };

	return term_open(h, 80, 24, argv);
}

static void keep(struct term *t, const char *bytes, size_t n)
{
	if (t->all_len + n > ALL_BYTES)
		return;
	if (t->all_len + n > t->all_room) {
		t->all_room = (t->all_len + n) * 2;
		t->all = realloc(t->all, t->all_room);
		assert_non_null(t->all);
	}
	memcpy(t->all + t->all_len, bytes, n);
	t->all_len += n;
}

bool term_pump(struct term *t, int ms)
{
	struct pollfd p = { .fd = t->master, .events = POLLIN };
	char buf[65536];

	if (t->master < 0)
		return false;
	poll(&p, 1, ms);
	for (int round = 0; round < 64; round++) {
		ssize_t n = read(t->master, buf, sizeof(buf));
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n <= 0) {
			close(t->master);
			t->master = -1;
			return false;
		}
		keep(t, buf, (size_t)n);
		vterm_input_write(t->vt, buf, (size_t)n);
	}
	return true;
}

void term_bytes(struct term *t, const void *bytes, size_t n)
{
	const char *at = bytes;
	uint64_t until = now_ms() + DEADLINE_MS;

	while (n > 0) {
		struct pollfd p = { .fd = t->master, .events = POLLIN | POLLOUT };
		if (t->master < 0 || now_ms() > until)
			fail_msg("the terminal takes no more keys; its screen:\n%s", term_screen(t));
		poll(&p, 1, 1000);
		if (p.revents & (POLLIN | POLLHUP))
			term_pump(t, 0);
		if (t->master < 0 || !(p.revents & POLLOUT))
			continue;
		ssize_t w = write(t->master, at, n < 1024 ? n : 1024);
		if (w > 0) {
			at += w;
			n -= (size_t)w;
		}
	}
}

void term_keys(struct term *t, const char *keys)
{
	term_bytes(t, keys, strlen(keys));
}

void term_resize(struct term *t, int cols, int rows)
{
	struct winsize size = { .ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows };

	t->cols = cols;
	t->rows = rows;
	vterm_set_size(t->vt, rows, cols);
	assert_int_equal(ioctl(t->master, TIOCSWINSZ, &size), 0);
}

static size_t put_utf8(char *dst, uint32_t c)
{
	if (c < 0x80) {
		dst[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		dst[i] = (char)(0x80 | (c & 0x3f));
	dst[0] = (char)((0xf00 >> n & 0xff) | c);
	return n;
}

/* Cell by cell: vterm_screen_get_text() leaves out cells that nothing was written to. */
const char *term_screen(struct term *t)
{
	size_t used = 0;

	for (int row = 0; row < t->rows; row++) {
		for (int col = 0; col < t->cols && used < sizeof(t->text) - 8;) {
			VTermScreenCell cell;
			vterm_screen_get_cell(t->screen, (VTermPos){ .row = row, .col = col }, &cell);
			used += put_utf8(t->text + used, cell.chars[0] ? cell.chars[0] : ' ');
			col += cell.width > 1 ? cell.width : 1;
		}
		while (used > 0 && t->text[used - 1] == ' ')
			used--;
		t->text[used++] = '\n';
	}
	t->text[used] = '\0';
	return t->text;
}

bool term_shows(struct term *t, const char *text)
{
	return strstr(term_screen(t), text) != NULL;
}

static void wait_for(struct term *t, const char *text, bool shown)
{
	uint64_t until = now_ms() + DEADLINE_MS;

	while (term_shows(t, text) != shown) {
		bool open = term_pump(t, 20);
		if (term_shows(t, text) == shown)
			return;
		if (!open || now_ms() > until)
			fail_msg("%s: the screen %s \"%s\":\n%s", open ? "deadline" : "the terminal was closed",
			        shown ? "does not show" : "still shows", text, term_screen(t));
	}
}

void term_wait_shows(struct term *t, const char *text)
{
	wait_for(t, text, true);
}

void term_wait_hides(struct term *t, const char *text)
{
	wait_for(t, text, false);
}

bool term_printed(const struct term *t, const char *text)
{
	return t->all_len > 0 && memmem(t->all, t->all_len, text, strlen(text)) != NULL;
}

bool term_alternate(const struct term *t)
{
	return t->alternate;
}

pid_t term_pid(const struct term *t)
{
	return t->pid;
}

int term_wait_end(struct term *t)
{
	uint64_t until = now_ms() + DEADLINE_MS;

	while (!reap(t)) {
		if (now_ms() > until)
			fail_msg("the program does not end; its screen:\n%s", term_screen(t));
		if (!term_pump(t, 20))
			poll(NULL, 0, 5);
	}
	while (term_pump(t, 0) && t->master >= 0 &&
	        poll(&(struct pollfd){ .fd = t->master, .events = POLLIN }, 1, 0) > 0) {
	}
	return WIFSIGNALED(t->status) ? 128 + WTERMSIG(t->status) : WEXITSTATUS(t->status);
}

void term_close(struct term *t)
{
	if (t->master >= 0)
		close(t->master);
	t->master = -1;
	uint64_t until = now_ms() + DEADLINE_MS;
	while (!reap(t) && now_ms() < until)
		poll(NULL, 0, 5);
	if (!t->reaped)
		fail_msg("hung up, and did not end");
}
