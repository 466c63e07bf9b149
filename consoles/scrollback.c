/* scrollback.c - makes, carries on and gives out a console's two rings. */
#include "consoles/scrollback.h"

#include <stdio.h>

#include "consoles/marks.h"
#include "wire/name.h"

int scrollback_init(struct scrollback *out, const char *name, size_t capacity, uint64_t start_offset,
        const struct scrollback *earlier)
{
	char label[NAME_MAX_BYTES + 16];
	int err;

	snprintf(label, sizeof(label), "ringside-%s", name);
	*out = (struct scrollback){ .gap = start_offset > (earlier ? ring_tail(earlier->ring) : 0) };
	if (earlier && !out->gap)
		err = ring_carry_on(label, capacity, earlier->ring, &out->ring);
	else
		err = ring_create(label, capacity, start_offset, &out->ring);
	if (err < 0)
		return err;
	out->start = ring_tail(out->ring);
	return marks_new(earlier ? earlier->marks : NULL, &out->marks);
}

void scrollback_release(struct scrollback *s)
{
	ring_free(s->ring);
	ring_free(s->marks);
	*s = (struct scrollback){ 0 };
}

unsigned scrollback_fds(const struct scrollback *s, int out[2])
{
	out[0] = ring_fd(s->ring);
	out[1] = ring_fd(s->marks);
	return out[0] >= 0 && out[1] >= 0 ? 2 : 0;
}

void scrollback_close_fds(struct scrollback *s)
{
	ring_close_fd(s->ring);
	ring_close_fd(s->marks);
}

size_t scrollback_newest(const struct scrollback *s, void *buf, size_t max)
{
	uint64_t tail = ring_tail(s->ring), from = s->start;
	struct ring_span got;

	if (tail - from > max)
		from = tail - max;
	return ring_read(s->ring, from, buf, max, &got) == 0 ? (size_t)(got.next_offset - got.offset) : 0;
}
