/*
 * ring.h - the newest part of an endless byte stream, in memory shared between processes.
 *
 * Units      An offset is the absolute position of a byte since the stream's first: uint64_t, never reset, never
 *            reused. [head, tail) is retained, at most `capacity` bytes. Sizes in memory are size_t, in bytes.
 * Memory     A memfd: one header page, then a data area of capacity + RING_SLACK bytes, which each side maps twice in a
 *            row, so that every window is contiguous. The writer may be writing into the slack past the tail, and
 *            nowhere else: what lies within `capacity` of the tail is always whole.
 * Ownership  One writer. A reader is nothing but a cursor of its own; the writer does not know it, so a slow one costs
 *            no memory and delays nobody. It is told what it lost.
 * Order      The writer publishes one word: a release store of the tail, then a release fence before it touches the
 *            area again. A reader loads the tail (acquire), copies, fences (acquire), loads the tail again: the copy is
 *            valid where it lies at or above the head that the second tail leaves.
 * Trust      The creator seals the memfd (SHRINK, GROW, FUTURE_WRITE, SEAL). ring_open() checks seals, size and layout
 *            before it maps, and nothing that a hostile writer puts in the header later makes a reader touch memory
 *            outside its mapping, loop, or wait. Capacity comes from the descriptor's size, never from the header.
 * Blocking   Nothing here waits. Creating, opening and freeing make system calls, the rest makes none.
 * Errors     0 or a negative errno. Results come through out parameters, set on success alone.
 * Source     Order of stores: H.-J. Boehm, "Can seqlocks get along with programming language memory models?" (2012).
 *            Seals: memfd_create(2), fcntl(2).
 */
#ifndef RING_RING_H
#define RING_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_SLACK        ((size_t)64 * 1024) /* bytes the writer may prepare past the tail at once */
#define RING_MIN_CAPACITY ((size_t)4 * 1024)
#define RING_MAX_CAPACITY ((size_t)64 * 1024 * 1024)
#define RING_LAYOUT       1 /* version of the header; a reader refuses one it does not know (-EPROTO) */

struct ring;

struct ring_span {
	uint64_t offset;      /* of the first byte copied */
	uint64_t next_offset; /* what to ask for next; equal to offset when nothing was copied */
	uint64_t lost_bytes;  /* not 0: truncated; this many bytes between `from` and `offset` are gone */
};

/* ---- The writer's side ---- */

/*
 * Makes an empty ring whose first byte will have the offset `first`. capacity: bytes, a power of two from
 * RING_MIN_CAPACITY to RING_MAX_CAPACITY. name: for /proc, may be NULL. *out is the caller's until ring_free(). The
 * mapping is not inherited over fork (MADV_DONTFORK). -EINVAL (capacity, or `first` within 2^62 of wrapping), -ENOMEM,
 * -EMFILE.
 */
int ring_create(const char *name, size_t capacity, uint64_t first, struct ring **out);

/* The RING_SLACK bytes after the tail, for read(2) to fill. Valid until the next ring_publish() or ring_free(). */
void *ring_window(struct ring *r);

/* Makes the first n bytes of the window the stream's next; n ≤ RING_SLACK. Readers see them from here on. */
void ring_publish(struct ring *r, size_t n);

/* Copies n bytes in, in steps of the slack. For writers that have their bytes elsewhere. */
void ring_append(struct ring *r, const void *bytes, size_t n);

/* Begins again at a later offset: what was retained before is gone, and readers below it are told so. `first` must not
 * be below the tail (-EINVAL). Used where output is known to have been lost. */
int ring_skip_to(struct ring *r, uint64_t first);

/* ---- The readers' side ---- */

/* Maps a ring that somebody else writes, read-only. fd stays the caller's and may be closed at once. -EPERM: seals are
 * missing; -EPROTO: not a ring, or of another layout; -EINVAL: size; -ENOMEM. */
int ring_open(int fd, struct ring **out);

/*
 * Copies up to max bytes from the offset `from` on, or from the head where that is already gone. What it copies is
 * always whole: never torn, stale, or with a gap inside. 0, or -ERANGE: `from` is past the tail (*got is not set).
 * A copy that the writer overtakes in the middle gives its end, which is still whole, and says what was lost before it;
 * one that is lapped altogether is made again from the new head, and after a bounded number of such rounds (a hostile
 * or absurdly fast writer) it answers 0 bytes, at the head, with lost_bytes.
 */
int ring_read(const struct ring *r, uint64_t from, void *buf, size_t max, struct ring_span *got);

/* ---- Both sides ---- */

uint64_t ring_tail(const struct ring *r); /* acquire load: what lies before it can be read */
uint64_t ring_head(const struct ring *r); /* oldest retained offset, at the tail of this moment */
size_t ring_capacity(const struct ring *r);

/* The memfd, owned by the ring, or -1 after ring_close_fd() and for one that ring_open() made. */
int ring_fd(const struct ring *r);
void ring_close_fd(struct ring *r);

void ring_free(struct ring *r); /* accepts NULL */

#endif
