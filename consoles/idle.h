/*
 * idle.h - how long nothing has happened in a console, and the call when it has been for long enough.
 *
 * Idle means no input, no output and nobody attached. Activity only notes the time; the timer finds out when it fires,
 * so that a byte costs no timer of its own.
 */
#ifndef CONSOLES_IDLE_H
#define CONSOLES_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define IDLE_AGAIN_MS 1000

/* Embedded. The timer's close callback is its owner's. */
struct idle {
	uv_timer_t timer;
	uint64_t ttl_ms; /* 0: none */
	uint64_t last;   /* on the loop's clock */
	bool attached, running;
	/* Once, ttl_ms after the last activity; false: it could not be seen to, and is asked again a little later. */
	bool (*on_idle)(struct idle *i);
};

void idle_init(struct idle *i, uv_loop_t *loop, uint64_t ttl_ms, bool (*on_idle)(struct idle *i));
void idle_start(struct idle *i); /* counting begins; until then and after idle_stop() it is 0 */
void idle_stop(struct idle *i);
void idle_touch(struct idle *i); /* something has happened */
void idle_attached(struct idle *i, bool somebody_is);
uint64_t idle_ms(const struct idle *i);

#endif
