/*
 * unpack.h - messages out of frames, where memory may be short: "not a message" and "no memory for it" are two things.
 *
 *	struct unpack u;
 *	unpack_init(&u);
 *	Wire__Thing *m = wire__thing__unpack(&u.allocator, f->length, f->payload);
 *	if (!m && u.out_of_memory)
 *		… refuse unpack_id(f) with resource_limit: the connection is as good as before
 *
 * What was unpacked is given back as ever, with NULL for the allocator.
 */
#ifndef WIRE_UNPACK_H
#define WIRE_UNPACK_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

struct unpack {
	ProtobufCAllocator allocator;
	bool out_of_memory;
};

void unpack_init(struct unpack *u);

/* The request's or answer's id (field 1 of all of them, written first) out of the bytes alone; 0: none is there. */
uint64_t unpack_id(const struct frame *f);

#endif
