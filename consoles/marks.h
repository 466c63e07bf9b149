/*
 * marks.h - a console's marks: typed notes at offsets, in a ring of their own that readers map like the output's.
 */
#ifndef CONSOLES_MARKS_H
#define CONSOLES_MARKS_H

#include <stdint.h>

#include "ring/ring.h"
#include "wire/codes.h"

/* An empty ring of marks, or one that begins with what `earlier` (may be NULL) retains. 0 or -errno, as ring_create().
 */
int marks_new(const struct ring *earlier, struct ring **out);

/* Adds a mark, stamped with this moment. Offsets must not go back. */
void marks_add(struct ring *marks, enum mark_kind kind, uint64_t offset, uint32_t incarnation, uint32_t a, uint32_t b);

/* A new ring that goes on where `earlier` ends, with what it retains of it. */
int ring_carry_on(const char *name, size_t capacity, const struct ring *earlier, struct ring **out);

#endif
