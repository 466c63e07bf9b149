/* dormant.c - an edge-triggered epoll set inside the loop's level-triggered one. */
#include "consoles/dormant.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LOOK_MS 100 /* at those that cannot be watched */

static struct {
	int epoll;
	uv_poll_t poll;
	uv_timer_t look;
	struct dormant *unwatched;
} the_set = { .epoll = -1 };

/* One event a call: wake() may take any master out of the set, also one whose event would stand further down a list. */
static void on_edge(uv_poll_t *poll, int status, int events)
{
	struct epoll_event edge;
	struct dormant *d;

	(void)poll;
	(void)events;
	if (status < 0 || epoll_wait(the_set.epoll, &edge, 1, 0) != 1)
		return;
	d = edge.data.ptr;
	d->wake(d);
}

/* One a call, for the same reason; each goes to the end of the list. */
static void on_look(uv_timer_t *timer)
{
	struct dormant *d = the_set.unwatched;
	struct dormant **end = &the_set.unwatched;

	if (!d)
		return;
	the_set.unwatched = d->next;
	d->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = d;
	uv_timer_start(timer, on_look, LOOK_MS, 0);
	d->wake(d);
}

int dormant_setup(uv_loop_t *loop)
{
	int err;

	the_set.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (the_set.epoll < 0)
		return -errno;
	(void)uv_timer_init(loop, &the_set.look); /* cannot fail */
	err = uv_poll_init(loop, &the_set.poll, the_set.epoll);
	if (err == 0)
		err = uv_poll_start(&the_set.poll, UV_READABLE, on_edge);
	return err;
}

void dormant_add(int master, struct dormant *d)
{
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET, .data.ptr = d };

	if (epoll_ctl(the_set.epoll, EPOLL_CTL_ADD, master, &edge) == 0)
		return;
	d->next = the_set.unwatched;
	the_set.unwatched = d;
	uv_timer_start(&the_set.look, on_look, LOOK_MS, 0);
}

void dormant_del(int master, struct dormant *d)
{
	struct dormant **at = &the_set.unwatched;

	while (*at && *at != d)
		at = &(*at)->next;
	if (*at)
		*at = d->next;
	else
		epoll_ctl(the_set.epoll, EPOLL_CTL_DEL, master, NULL);
}
