/*
 * memory.c - see memory.h. Blocks of growing size in a list; the first one carries the object, so that the object's
 * address is all that is needed to free everything.
 */
#include "client/memory.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "client/ringside.h"

#define BLOCK_BYTES 2048 /* most answers fit one block; a longer piece gets a block of its size */

struct block {
	struct block *next;
	size_t size, used;
	void *adopted; /* freed with it */
	alignas(max_align_t) unsigned char bytes[];
};

/* The first block; `current` is where pieces go. */
struct memory {
	struct block *current;
	struct block *more;
	alignas(max_align_t) unsigned char object[];
};

static size_t aligned(size_t n)
{
	return (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

struct memory *memory_new(size_t size)
{
	struct memory *m = calloc(1, sizeof(*m) + size);
	return m;
}

void *memory_object(struct memory *m)
{
	return m->object;
}

struct memory *memory_of_object(const void *object)
{
	/* The object was handed out as const to keep callers from changing it; it is ours to free. */
	return (struct memory *)((uintptr_t)object - offsetof(struct memory, object));
}

void memory_free(struct memory *m)
{
	if (!m)
		return;
	for (struct block *b = m->more, *next; b; b = next) {
		next = b->next;
		free(b->adopted);
		free(b);
	}
	free(m);
}

static struct block *block_with_room(struct memory *m, size_t size)
{
	struct block *b = m->current;
	if (b && size <= b->size - b->used)
		return b;
	size_t want = size > BLOCK_BYTES ? size : BLOCK_BYTES;
	b = calloc(1, sizeof(*b) + want);
	if (!b)
		return NULL;
	b->size = want;
	b->next = m->more;
	m->more = m->current = b;
	return b;
}

static void *piece(struct memory *m, size_t size)
{
	if (size > SIZE_MAX / 2)
		return NULL;
	size = aligned(size ? size : 1);
	struct block *b = block_with_room(m, size);
	if (!b)
		return NULL;
	void *p = b->bytes + b->used;
	b->used += size;
	return p;
}

void *memory_array(struct memory *m, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	return piece(m, bytes);
}

char *memory_bytes(struct memory *m, const void *bytes, size_t n)
{
	if (n > SIZE_MAX / 4)
		return NULL;
	char *p = piece(m, n + 1);
	if (p && n)
		memcpy(p, bytes, n);
	return p;
}

char *memory_string(struct memory *m, const char *s)
{
	return memory_bytes(m, s, s ? strlen(s) : 0);
}

bool memory_adopt(struct memory *m, void *allocated)
{
	struct block *b = calloc(1, sizeof(*b));
	if (!b)
		return false;
	b->adopted = allocated;
	b->next = m->more;
	m->more = b;
	return true;
}

void ringside_free(const void *object)
{
	if (object)
		memory_free(memory_of_object(object));
}
