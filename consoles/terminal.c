/*
 * terminal.c - one pty master in a uv_poll_t, its hang-up, and the reads that fill the ring.
 *
 * In a flood two things are put off, by one timer: the news of output, since each costs two messages and a reader's
 * turn, and, while a key is on its way through another terminal, the next read.
 */
#include "consoles/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "consoles/dormant.h"
#include "consoles/pacing.h"
#include "wire/fd.h"

#define NEWS_MS    5 /* news of a flood is put off for so long, unknown to anybody who looks 60 times a second, */
#define NEWS_SHARE 4 /* or until a part of the ring of 1/NEWS_SHARE has come: the reader has the rest to keep up */
#define HOLD_MS    3 /* how long a flood waits for what a program makes of a key */

struct terminal {
	uv_poll_t poll;
	uv_timer_t later;
	unsigned handles; /* not yet closed by libuv */
	struct dormant dormant;
	int master;
	struct ring *ring;
	struct pacing pacing;
	const struct terminal_handler *handler;
	void *ctx;
	int wanted, watched; /* UV_READABLE and UV_WRITABLE: what is wanted, and what is asked for */
	bool listening, asleep, closed;
	size_t untold; /* bytes published since on_output() */
	bool held;     /* its flood waits for a key */
	bool turn;     /* it has waited: the next event is its own */
	struct terminal *next_held;
};

/* Whose program was given a key and has not answered; NULL: nobody's. */
static struct terminal *typed;
static uint64_t typed_at;
static struct terminal *held;

static void on_event(uv_poll_t *poll, int status, int events);
static void on_later(uv_timer_t *later);

/* Brings what the loop polls for in line with what is wanted. */
static void watch(struct terminal *t, int wanted)
{
	t->wanted = wanted;
	if (t->closed || t->asleep || t->held || !t->listening || t->watched == wanted)
		return;
	t->watched = wanted;
	uv_poll_start(&t->poll, wanted, on_event); /* can fail for a closing handle only */
}

/* ---- Nobody at the other end ---- */

static ssize_t read_once(struct terminal *t, size_t most);

static void wake_up(struct terminal *t)
{
	if (!t->asleep)
		return;
	dormant_del(t->master, &t->dormant);
	t->asleep = false;
	t->watched = 0;
	watch(t, UV_READABLE);
}

static void on_wake(struct dormant *d)
{
	struct terminal *t = (struct terminal *)((char *)d - offsetof(struct terminal, dormant));

	if (read_once(t, RING_SLACK) != -EIO && !t->closed)
		wake_up(t);
}

/* The slave may have been opened and written to between the failed read and the watch: the edge is armed first, then
 * the terminal is read once more. */
static void fall_asleep(struct terminal *t)
{
	if (t->asleep || t->closed || !t->listening)
		return;
	uv_poll_stop(&t->poll);
	t->asleep = true;
	dormant_add(t->master, &t->dormant);
	if (read_once(t, RING_SLACK) != -EIO && !t->closed)
		wake_up(t);
}

/* ---- Later ---- */

static void tell(struct terminal *t)
{
	t->untold = 0;
	if (!t->held)
		uv_timer_stop(&t->later);
	t->handler->on_output(t->ctx);
}

static void tell_in_time(struct terminal *t)
{
	if (t->untold >= ring_capacity(t->ring) / NEWS_SHARE || !pacing_floods(&t->pacing, uv_now(t->poll.loop)))
		tell(t);
	else if (!uv_is_active((uv_handle_t *)&t->later))
		uv_timer_start(&t->later, on_later, NEWS_MS, 0);
}

static bool key_is_awaited(const struct terminal *t)
{
	return typed && typed != t && uv_now(t->poll.loop) - typed_at < HOLD_MS;
}

static void hold(struct terminal *t)
{
	t->held = true;
	t->next_held = held;
	held = t;
	t->watched = 0;
	uv_poll_stop(&t->poll);
	uv_timer_start(&t->later, on_later, HOLD_MS, 0);
}

static void let_go(struct terminal *t)
{
	struct terminal **at = &held;

	if (!t->held)
		return;
	while (*at != t)
		at = &(*at)->next_held;
	*at = t->next_held;
	t->held = false;
	t->turn = true;
	watch(t, t->wanted);
}

static void on_later(uv_timer_t *later)
{
	struct terminal *t = later->data;

	let_go(t);
	if (t->untold > 0)
		tell(t);
}

/* The program has answered; whoever typed has been told. */
static void key_is_answered(void)
{
	typed = NULL;
	while (held)
		let_go(held);
}

/* ---- Reading ---- */

/* One read(2) of at most RING_SLACK bytes, published and told. Bytes; 0: nothing there; -EIO: nobody has the other end
 * open. */
static ssize_t read_once(struct terminal *t, size_t most)
{
	ssize_t n = read(t->master, ring_window(t->ring), most);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EIO;
	if (n == 0) /* a pty gives EIO for this, but an end of file told again and again would be a busy loop too */
		return -EIO;
	/* Here a scanner of terminal modes will look at the window before it is published. */
	ring_publish(t->ring, (size_t)n);
	t->untold += (size_t)n;
	pacing_account(&t->pacing, (size_t)n, uv_now(t->poll.loop));
	tell_in_time(t);
	if (typed == t)
		key_is_answered();
	return n;
}

static void read_event(struct terminal *t)
{
	uint64_t now = uv_now(t->poll.loop);

	if (!t->turn && pacing_floods(&t->pacing, now) && key_is_awaited(t)) {
		hold(t);
		return;
	}
	t->turn = false;
	for (unsigned i = 1;; i++) {
		ssize_t n = read_once(t, pacing_size(&t->pacing, RING_SLACK, now));

		if (t->closed)
			return;
		if (n < 0)
			fall_asleep(t);
		if (n <= 0 || !pacing_again(&t->pacing, t->master, (size_t)n, i, now))
			return;
	}
}

void terminal_drain(struct terminal *t, size_t most)
{
	size_t got = 0;

	while (got < most && !t->closed) {
		ssize_t n = read_once(t, RING_SLACK);

		if (n <= 0)
			return;
		got += (size_t)n;
	}
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct terminal *t = poll->data;

	if (status < 0) { /* libuv's word for an error condition; a terminal has none but the hang-up */
		t->watched = 0;
		fall_asleep(t);
		return;
	}
	if (events & UV_READABLE)
		read_event(t);
	if ((events & UV_WRITABLE) && !t->closed)
		t->handler->on_room(t->ctx);
}

/* ---- Writing ---- */

ssize_t terminal_write(struct terminal *t, const void *bytes, size_t n)
{
	ssize_t taken = write(t->master, bytes, n);

	if (taken < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EIO;
	pacing_typed(&t->pacing, uv_now(t->poll.loop));
	if (t->asleep) /* it was taken, so somebody has opened the other end */
		wake_up(t);
	return taken;
}

void terminal_typed(struct terminal *t)
{
	typed = t;
	typed_at = uv_now(t->poll.loop);
}

void terminal_want_room(struct terminal *t, bool wanted)
{
	watch(t, wanted ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

/* ---- Life ---- */

int terminal_new(uv_loop_t *loop, int master, struct ring *ring, const struct terminal_handler *handler, void *ctx,
        struct terminal **out)
{
	struct terminal *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	err = uv_poll_init(loop, &t->poll, master);
	if (err < 0) {
		free(t);
		return err;
	}
	(void)uv_timer_init(loop, &t->later); /* cannot fail */
	t->poll.data = t->later.data = t;
	t->handles = 2;
	t->dormant.wake = on_wake;
	t->master = master;
	t->ring = ring;
	t->handler = handler;
	t->ctx = ctx;
	*out = t;
	return 0;
}

void terminal_listen(struct terminal *t)
{
	t->listening = true;
	watch(t, UV_READABLE);
}

int terminal_master(const struct terminal *t)
{
	return t->master;
}

static void on_closed(uv_handle_t *handle)
{
	struct terminal *t = handle->data;

	if (--t->handles == 0)
		free(t);
}

void terminal_close(struct terminal *t)
{
	if (!t || t->closed)
		return;
	if (t->asleep)
		dormant_del(t->master, &t->dormant);
	t->closed = true;
	let_go(t);
	if (typed == t)
		key_is_answered();
	uv_close((uv_handle_t *)&t->poll, on_closed);
	uv_close((uv_handle_t *)&t->later, on_closed);
	fd_close(&t->master); /* libuv has let go of it in uv_close() */
}
