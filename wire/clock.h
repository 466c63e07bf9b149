/* clock.h - the two clocks. Durations use the monotonic one, which suspends and clock changes do not move. */
#ifndef WIRE_CLOCK_H
#define WIRE_CLOCK_H

#include <stdint.h>

uint64_t clock_mono_ms(void); /* CLOCK_MONOTONIC, milliseconds */
uint64_t clock_mono_ns(void);
uint64_t clock_wall_ms(void); /* CLOCK_REALTIME, milliseconds since 1970 */

#endif
