/* idle.c - a time stamp and a timer that looks at it. */
#include "consoles/idle.h"

static void on_timer(uv_timer_t *timer);

uint64_t idle_ms(const struct idle *i)
{
	return i->running && !i->attached ? uv_now(i->timer.loop) - i->last : 0;
}

static void arm(struct idle *i)
{
	uint64_t ms = idle_ms(i);

	if (i->running && i->ttl_ms > 0 && !i->attached)
		uv_timer_start(&i->timer, on_timer, ms < i->ttl_ms ? i->ttl_ms - ms : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct idle *i = (struct idle *)(void *)((char *)timer - offsetof(struct idle, timer));

	if (i->attached) /* armed again when the last of them leaves */
		return;
	if (idle_ms(i) < i->ttl_ms)
		arm(i);
	else if (!i->on_idle(i))
		uv_timer_start(timer, on_timer, IDLE_AGAIN_MS, 0);
}

void idle_init(struct idle *i, uv_loop_t *loop, uint64_t ttl_ms, bool (*on_idle)(struct idle *i))
{
	*i = (struct idle){ .ttl_ms = ttl_ms, .on_idle = on_idle };
	(void)uv_timer_init(loop, &i->timer); /* cannot fail */
}

void idle_start(struct idle *i)
{
	i->running = true;
	idle_touch(i);
	arm(i);
}

void idle_stop(struct idle *i)
{
	i->running = false;
	uv_timer_stop(&i->timer);
}

void idle_touch(struct idle *i)
{
	i->last = uv_now(i->timer.loop);
}

void idle_attached(struct idle *i, bool somebody_is)
{
	if (i->attached == somebody_is)
		return;
	i->attached = somebody_is;
	idle_touch(i);
	arm(i);
}
