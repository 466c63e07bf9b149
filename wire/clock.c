/* clock.c - the two clocks. Both come from the vDSO: no system call, so they may be asked often. */
#include "wire/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t = { 0, 0 };

	/* Cannot fail: both clocks exist on every Linux, and t is ours. */
	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_mono_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

uint64_t clock_wall_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / 1000000;
}
