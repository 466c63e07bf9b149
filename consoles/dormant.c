/* dormant.c - an edge-triggered epoll set inside the loop's level-triggered one. */
#include "consoles/dormant.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct {
	int epoll;
	uv_poll_t poll;
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

int dormant_setup(uv_loop_t *loop)
{
	int err;

	the_set.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (the_set.epoll < 0)
		return -errno;
	err = uv_poll_init(loop, &the_set.poll, the_set.epoll);
	if (err == 0)
		err = uv_poll_start(&the_set.poll, UV_READABLE, on_edge);
	return err;
}

int dormant_add(int master, struct dormant *d)
{
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET, .data.ptr = d };

	return epoll_ctl(the_set.epoll, EPOLL_CTL_ADD, master, &edge) < 0 ? -errno : 0;
}

void dormant_del(int master)
{
	epoll_ctl(the_set.epoll, EPOLL_CTL_DEL, master, NULL);
}
