/* marks.c - packs marks into their ring; carries what a ring retains into the next incarnation's. */
#include "consoles/marks.h"

#include <errno.h>

#include "wire/clock.h"
#include "wire/mark.h"

int ring_carry_on(const char *name, size_t capacity, const struct ring *earlier, struct ring **out)
{
	uint64_t from = ring_head(earlier);
	struct ring *fresh;
	int err = ring_create(name, capacity, from, &fresh);

	if (err < 0)
		return err;
	while (from < ring_tail(earlier)) {
		struct ring_span got;

		/* Nobody writes the earlier one any more, so this gets what it asks for. */
		err = ring_read(earlier, from, ring_window(fresh), RING_SLACK, &got);
		if (err < 0 || got.offset != from || got.next_offset == from) {
			ring_free(fresh);
			return err < 0 ? err : -EIO;
		}
		ring_publish(fresh, (size_t)(got.next_offset - from));
		from = got.next_offset;
	}
	*out = fresh;
	return 0;
}

int marks_new(const struct ring *earlier, struct ring **out)
{
	if (earlier)
		return ring_carry_on("ringside-marks", MARK_RING_BYTES, earlier, out);
	return ring_create("ringside-marks", MARK_RING_BYTES, 0, out);
}

void marks_add(struct ring *marks, enum mark_kind kind, uint64_t offset, uint32_t incarnation, uint32_t a, uint32_t b)
{
	const struct mark m = {
		.offset = offset,
		.at_ms = clock_wall_ms(),
		.kind = kind,
		.a = a,
		.b = b,
		.incarnation = incarnation,
	};

	mark_pack(&m, ring_window(marks));
	ring_publish(marks, MARK_SIZE);
}
