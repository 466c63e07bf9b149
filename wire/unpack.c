/* unpack.c - an allocator that remembers that it had nothing to give. */
#include "wire/unpack.h"

#include <stdlib.h>

#define TAG_OF_ID ((1 << 3) | 0) /* field 1, varint. Source: protobuf's encoding */

static void *allocate(void *data, size_t n)
{
	struct unpack *u = data;
	void *p = malloc(n);

	if (p == NULL && n > 0)
		u->out_of_memory = true;
	return p;
}

static void give_back(void *data, void *p)
{
	(void)data;
	free(p);
}

void unpack_init(struct unpack *u)
{
	*u = (struct unpack){ .allocator = { .alloc = allocate, .free = give_back, .allocator_data = u } };
}

uint64_t unpack_id(const struct frame *f)
{
	uint64_t id = 0;

	if (f->length < 2 || f->payload[0] != TAG_OF_ID)
		return 0;
	for (uint32_t i = 1; i < f->length && i <= 10; i++) {
		unsigned shift = 7 * (i - 1);
		uint8_t byte = f->payload[i];

		if (shift < 64)
			id |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return id;
	}
	return 0;
}
