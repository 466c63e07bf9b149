/*
 * uvguard.c - libuv's allocator with a reserve, and epoll_ctl(2) with patience; see uvguard.h.
 *
 * Both tables are static and untouched until a shortage, so they cost address space alone.
 */
#include "wire/uvguard.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/fd.h"

/* ---- Memory ---- */

/* libuv's array has a pointer for each descriptor and two more, rounded up to a power of two. */
static struct {
	bool taken;
	_Alignas(max_align_t) unsigned char bytes[2 * (size_t)UVGUARD_MAX_FD * sizeof(void *)];
} reserve;

static void guarded_free(void *p)
{
	if (p == reserve.bytes)
		reserve.taken = false;
	else
		free(p);
}

static void *leave_reserve(size_t n)
{
	void *p = malloc(n);

	if (!p)
		return NULL;
	memcpy(p, reserve.bytes, sizeof(reserve.bytes));
	reserve.taken = false;
	return p;
}

static void *guarded_realloc(void *p, size_t n)
{
	void *moved;

	if (p == reserve.bytes)
		return n <= sizeof(reserve.bytes) ? p : leave_reserve(n);
	moved = realloc(p, n);
	if (moved || reserve.taken || n > sizeof(reserve.bytes))
		return moved;
	if (p) {
		size_t had = malloc_usable_size(p);

		memcpy(reserve.bytes, p, had < n ? had : n);
		free(p);
	}
	reserve.taken = true;
	return reserve.bytes;
}

void uvguard_setup(void)
{
	/* Fails for a missing function alone. */
	(void)uv_replace_allocator(malloc, guarded_realloc, calloc, guarded_free);
}

/* ---- Watches ---- */

static struct {
	uv_loop_t *loop; /* NULL: none is guarded */
	int epoll;
	uv_async_t wake; /* the poll phase has begun: it would sleep on */
	uv_timer_t again;
	unsigned waiting;
	int end;                         /* no descriptor from here on waits */
	uint32_t events[UVGUARD_MAX_FD]; /* what it is to be watched for; 0: it does not wait */
} guard;

static long real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	return syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

static void forget(int fd)
{
	guard.waiting -= guard.events[fd] != 0;
	guard.events[fd] = 0;
}

static void try_again(int fd)
{
	struct epoll_event event = { .events = guard.events[fd], .data.fd = fd };

	/* Any other answer than "still no room" cannot be told to anybody; the descriptor's owner finds out by itself.
	 */
	if (real_epoll_ctl(guard.epoll, EPOLL_CTL_ADD, fd, &event) == 0 || (errno != ENOSPC && errno != ENOMEM))
		forget(fd);
}

static void try_all(uv_timer_t *timer)
{
	for (int fd = 0; fd < guard.end && guard.waiting > 0; fd++)
		if (guard.events[fd] != 0)
			try_again(fd);
	if (guard.waiting > 0)
		uv_timer_start(timer, try_all, UVGUARD_AGAIN_MS, 0);
	else
		guard.end = 0;
}

/* The timer was started in the poll phase: the sleep that was about to begin did not know of it. */
static void on_wake(uv_async_t *async)
{
	(void)async;
}

static void remember(int fd, uint32_t events)
{
	guard.waiting += guard.events[fd] == 0;
	guard.events[fd] = events;
	if (fd >= guard.end)
		guard.end = fd + 1;
	if (!uv_is_active((uv_handle_t *)&guard.again))
		uv_timer_start(&guard.again, try_all, UVGUARD_AGAIN_MS, 0);
	(void)uv_async_send(&guard.wake);
}

/* A call of libuv's for a handle that has been started: with the descriptor as its data. What it asks for only to see
 * whether it can be watched has -1 there, and is to be told the truth. */
static bool is_guarded(int epoll, int fd, const struct epoll_event *event)
{
	return guard.loop && epoll == guard.epoll && fd >= 0 && fd < UVGUARD_MAX_FD && event && event->data.fd == fd &&
	       event->events != 0;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	bool waits = guard.loop && epoll == guard.epoll && fd >= 0 && fd < UVGUARD_MAX_FD && guard.events[fd] != 0;
	long r = real_epoll_ctl(epoll, operation, fd, event);

	if (waits && operation == EPOLL_CTL_DEL) {
		forget(fd);
		return 0;
	}
	if (r == 0) {
		if (waits)
			forget(fd);
		return 0;
	}
	if (!is_guarded(epoll, fd, event))
		return -1;
	if ((operation == EPOLL_CTL_ADD && (errno == ENOSPC || errno == ENOMEM)) ||
	        (operation == EPOLL_CTL_MOD && waits)) {
		remember(fd, event->events);
		return 0;
	}
	return -1;
}

int uvguard_open(uv_loop_t *loop)
{
	int r = uv_async_init(loop, &guard.wake, on_wake);

	if (r < 0)
		return r;
	(void)uv_timer_init(loop, &guard.again); /* cannot fail */
	uv_unref((uv_handle_t *)&guard.wake);
	uv_unref((uv_handle_t *)&guard.again);
	guard.epoll = uv_backend_fd(loop);
	guard.loop = loop;
	return 0;
}

void uvguard_close(uv_loop_t *loop)
{
	if (guard.loop != loop)
		return;
	guard.loop = NULL;
	uv_close((uv_handle_t *)&guard.wake, NULL);
	uv_close((uv_handle_t *)&guard.again, NULL);
}

/* ---- Descriptors ---- */

int uvguard_raise_files(void)
{
	return fd_raise_limit(UVGUARD_MAX_FD);
}
