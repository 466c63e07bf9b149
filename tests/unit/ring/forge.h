/*
 * forge.h - a ring made by somebody who means no good: any size, any seals, and a mapping of the whole file that stays
 * writable behind the seals, so that the header can say anything at any time.
 *
 * The layout stands here a second time, by numbers: it is shared with every build that was ever released, so a change
 * of it must show as a failing test.
 */
#ifndef TESTS_UNIT_RING_FORGE_H
#define TESTS_UNIT_RING_FORGE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring/ring.h"

#define FORGE_SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define FORGE_MAGIC  "RINGSIDE" /* at 0, 8 bytes */
#define FORGE_LAYOUT 8          /* u32 */
#define FORGE_FIRST  16         /* u64 */
#define FORGE_TAIL   24         /* u64 */

struct forge {
	int fd;
	size_t size;
	unsigned char *map; /* the whole file, once, writable */
};

static inline size_t forge_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t forge_size(size_t capacity)
{
	return forge_page() + capacity + RING_SLACK;
}

static inline void forge_set(struct forge *f, size_t at, uint64_t value)
{
	atomic_store_explicit((_Atomic uint64_t *)(void *)(f->map + at), value, memory_order_relaxed);
}

static inline void forge_set_layout(struct forge *f, uint32_t layout)
{
	memcpy(f->map + FORGE_LAYOUT, &layout, sizeof(layout));
}

static inline void forge_free(struct forge *f)
{
	if (f->map)
		munmap(f->map, f->size);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct forge){ .fd = -1 };
}

/* A file of `size` bytes (at least a page) with a right header, first and tail 0, and these seals. 0, or -1 and errno.
 */
static inline int forge_new(struct forge *f, size_t size, int seals)
{
	void *map;

	*f = (struct forge){ .fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING), .size = size };
	if (f->fd < 0)
		return -1;
	if (ftruncate(f->fd, (off_t)size) < 0)
		goto failed;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (map == MAP_FAILED)
		goto failed;
	f->map = map;
	memcpy(f->map, FORGE_MAGIC, 8);
	forge_set_layout(f, RING_LAYOUT);
	if (seals != 0 && fcntl(f->fd, F_ADD_SEALS, seals) < 0)
		goto failed;
	return 0;
failed:
	forge_free(f);
	return -1;
}

#endif
