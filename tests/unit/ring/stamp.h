/*
 * stamp.h - bytes that say where they belong: the content of a stamped stream follows from the offset alone, so every
 * byte that a reader gets can be checked, in any process and at any time. A byte of another offset is wrong with a
 * probability of 255 in 256, a displaced run of 16 with one that never happens.
 */
#ifndef TESTS_UNIT_RING_STAMP_H
#define TESTS_UNIT_RING_STAMP_H

#include <stddef.h>
#include <stdint.h>

static inline unsigned char stamp(uint64_t offset)
{
	return (unsigned char)((offset * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

static inline void stamp_fill(void *to, uint64_t offset, size_t n)
{
	unsigned char *p = to;

	for (size_t i = 0; i < n; i++)
		p[i] = stamp(offset + i);
}

/* How many of n bytes, starting at the offset, are right before the first that is not; n: all are. */
static inline size_t stamp_right(const void *bytes, uint64_t offset, size_t n)
{
	const unsigned char *p = bytes;
	size_t i = 0;

	while (i < n && p[i] == stamp(offset + i))
		i++;
	return i;
}

/* Numbers for tests that must be repeatable from a seed (splitmix64). */
static inline uint64_t rng_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* 0 ≤ result < limit; limit 0 gives 0. */
static inline uint64_t rng_below(uint64_t *state, uint64_t limit)
{
	return limit ? rng_next(state) % limit : 0;
}

#endif
