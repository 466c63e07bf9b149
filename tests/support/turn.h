/*
 * turn.h - running a loop until something has happened, or a deadline has passed.
 */
#ifndef TESTS_SUPPORT_TURN_H
#define TESTS_SUPPORT_TURN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "wire/clock.h"

#define TURN_DEADLINE_MS 30000

static inline void turn_tick(uv_timer_t *timer)
{
	(void)timer; /* it only ends the loop's wait, so that the condition is looked at */
}

/* Runs the loop until happened(ctx). False: not in time. */
static inline bool turn_until(uv_loop_t *loop, bool (*happened)(void *ctx), void *ctx)
{
	const uint64_t deadline = clock_mono_ms() + TURN_DEADLINE_MS;
	uv_timer_t tick;
	bool yes;

	uv_timer_init(loop, &tick);
	uv_timer_start(&tick, turn_tick, 5, 5);
	while (!(yes = happened(ctx)) && clock_mono_ms() < deadline)
		uv_run(loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(loop, UV_RUN_NOWAIT);
	return yes;
}

#endif
