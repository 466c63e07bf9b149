/*
 * ring.c - the ring of ring.h: a sealed memfd, its double mapping, one writer's stores and any reader's loads.
 *
 *   descriptor   | header page | data area: capacity + RING_SLACK |
 *   mapping      | header page | data area                        | data area, once more             |
 *
 * The byte at offset o lies at o % area, so a window that runs over the end of the area goes on in the second mapping,
 * which is the same memory: neither read(2) into the window nor a reader's copy is ever split.
 *
 *                     head = tail - capacity                 tail            tail + RING_SLACK
 *   ..................|--------------- whole ---------------|---- the writer's ----|
 *
 * The writer's part is RING_SLACK long and the area is capacity + RING_SLACK, so its bytes share memory with those just
 * below the head and with no others. That is why one number, the tail, says which bytes are whole.
 *
 * Never here: a lock, a wait, a system call outside create, open and free, a value of the header used unchecked.
 */
#include "ring/ring.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* From linux/memfd.h of 6.3; older systems lack the name, and older kernels answer EINVAL to the flag. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Bytes of a ring's name in /proc; the kernel takes 249 and refuses more, which would be a poor reason to have no ring.
 */
#define NAME_BYTES 200

/* Copies that are overtaken in whole before a reader is told "nothing, at the head": each means that the writer went
 * through at least what was to be copied while it was copied, so a second one is rare and a fourth is no accident. */
#define MAX_ROUNDS 4

/* Offsets may begin this far below 2^64 at most, so that no sum of an offset and a size in memory ever wraps. */
#define WRAP_RESERVE ((uint64_t)1 << 62)

static const char MAGIC[8] = { 'R', 'I', 'N', 'G', 'S', 'I', 'D', 'E' };

/* The header page's beginning. What is published is in two words; only ring_skip_to() changes both (see there). */
struct header {
	char magic[sizeof(MAGIC)];
	uint32_t layout;
	uint32_t reserved;      /* zero */
	_Atomic uint64_t first; /* no byte before it is in the ring */
	_Atomic uint64_t tail;
};
static_assert(
        sizeof(struct header) == 32, "the header is shared with other builds: no padding of the compiler's choice");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock inside the header could not be shared, nor taken by a reader");

struct ring {
	struct header *header; /* start of the mapping; read-only for one that was opened */
	unsigned char *data;
	size_t capacity;
	size_t area; /* capacity + RING_SLACK */
	int fd;
};

/* ---- Memory ---- */

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t mapping_size(const struct ring *r)
{
	return page_size() + 2 * r->area;
}

/* On systems with pages larger than RING_MIN_CAPACITY the smallest rings cannot be mapped twice, so they are refused.
 */
static bool capacity_valid(size_t capacity)
{
	return capacity >= RING_MIN_CAPACITY && capacity <= RING_MAX_CAPACITY && (capacity & (capacity - 1)) == 0 &&
	       capacity % page_size() == 0;
}

static struct ring *ring_new(size_t capacity)
{
	struct ring *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->capacity = capacity;
	r->area = capacity + RING_SLACK;
	r->fd = -1;
	return r;
}

/* Maps fd, whose size has been settled, with the data area twice. On failure nothing stays mapped. */
static int map_twice(struct ring *r, int fd, int prot)
{
	size_t page = page_size();
	/* One reservation first: the two mappings must be neighbours, and another thread may map something meanwhile.
	 */
	unsigned char *base =
	        mmap(NULL, mapping_size(r), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -errno;
	if (mmap(base, page + r->area, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
	        mmap(base + page + r->area, r->area, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)page) == MAP_FAILED) {
		int err = errno;

		munmap(base, mapping_size(r));
		return -err;
	}
	r->header = (struct header *)(void *)base;
	r->data = base + page;
	return 0;
}

static int memfd_new(const char *name)
{
	char label[NAME_BYTES + 1];
	int fd;

	snprintf(label, sizeof(label), "%s", name ? name : "ring");
	/* A host that forbids executable memfds (vm.memfd_noexec=2) refuses one that does not ask to be none. */
	fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

/* Makes, sizes, maps and seals the memory, in this order: FUTURE_WRITE leaves only the mapping that is there writable.
 */
static int make_memory(struct ring *r, const char *name)
{
	int err;

	r->fd = memfd_new(name);
	if (r->fd < 0) {
		err = r->fd;
		r->fd = -1;
		return err;
	}
	if (ftruncate(r->fd, (off_t)(page_size() + r->area)) < 0)
		return -errno;
	err = map_twice(r, r->fd, PROT_READ | PROT_WRITE);
	if (err < 0)
		return err;
	/* A process that a daemon forks and that never execs would else hold every ring in memory, writable. */
	if (madvise(r->header, mapping_size(r), MADV_DONTFORK) < 0)
		return -errno;
	if (fcntl(r->fd, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	return 0;
}

/* ---- The writer's side ---- */

static bool first_valid(uint64_t first)
{
	return first <= UINT64_MAX - WRAP_RESERVE;
}

int ring_create(const char *name, size_t capacity, uint64_t first, struct ring **out)
{
	struct ring *r;
	int err;

	if (!capacity_valid(capacity) || !first_valid(first))
		return -EINVAL;
	r = ring_new(capacity);
	if (!r)
		return -ENOMEM;
	err = make_memory(r, name);
	if (err < 0) {
		ring_free(r);
		return err;
	}
	memcpy(r->header->magic, MAGIC, sizeof(MAGIC));
	r->header->layout = RING_LAYOUT;
	atomic_init(&r->header->first, first);
	atomic_init(&r->header->tail, first);
	*out = r;
	return 0;
}

/* The writer is the only one to store it, so its own load needs no order. */
static uint64_t own_tail(const struct ring *r)
{
	return atomic_load_explicit(&r->header->tail, memory_order_relaxed);
}

/* gcc warns that ThreadSanitizer does not model fences. It need not: it is kept out of the one racing access. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
static inline void fence(memory_order order)
{
	atomic_thread_fence(order);
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/*
 * The bytes before the tail become visible with it (the release store). The next ones overwrite what has just fallen
 * below the head, and must not become visible before the tail that says so: a release store orders what comes before it
 * alone, so without the fence a processor may let a reader see new bytes, the old tail twice, and call them whole.
 */
static void store_tail(struct ring *r, uint64_t tail)
{
	atomic_store_explicit(&r->header->tail, tail, memory_order_release);
	fence(memory_order_release);
}

void *ring_window(struct ring *r)
{
	return r->data + own_tail(r) % r->area;
}

void ring_publish(struct ring *r, size_t n)
{
	assert(n <= RING_SLACK);
	store_tail(r, own_tail(r) + n);
}

void ring_append(struct ring *r, const void *bytes, size_t n)
{
	const unsigned char *from = bytes;

	while (n > 0) {
		size_t step = n < RING_SLACK ? n : RING_SLACK;

		memcpy(ring_window(r), from, step);
		ring_publish(r, step);
		from += step;
		n -= step;
	}
}

int ring_skip_to(struct ring *r, uint64_t first)
{
	if (first < own_tail(r) || !first_valid(first))
		return -EINVAL;
	/* `first` before the tail: who sees the new tail must not take what lies in memory for the bytes below it. Who
	 * sees the new `first` with the old tail finds an empty ring, which at that moment it is. */
	atomic_store_explicit(&r->header->first, first, memory_order_release);
	store_tail(r, first);
	return 0;
}

/* ---- The readers' side ---- */

/* Whether fd is what ring_create() makes, with its size settled for good; *capacity follows from that size. */
static int check_descriptor(int fd, size_t *capacity)
{
	size_t overhead = page_size() + RING_SLACK;
	struct stat st;
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0)
		return errno == EBADF ? -EBADF : -EPERM; /* EINVAL: a kind of file that has no seals */
	if ((seals & SEALS) != SEALS)
		return -EPERM;
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || fs.f_type != TMPFS_MAGIC) /* hugetlbfs has seals too, and other rules of mapping */
		return -EPROTO;
	if (st.st_size < 0 || (uint64_t)st.st_size < overhead || (uint64_t)st.st_size - overhead > RING_MAX_CAPACITY)
		return -EINVAL;
	*capacity = (size_t)st.st_size - overhead;
	return capacity_valid(*capacity) ? 0 : -EINVAL;
}

int ring_open(int fd, struct ring **out)
{
	struct ring *r;
	size_t capacity;
	int err = check_descriptor(fd, &capacity);

	if (err < 0)
		return err;
	r = ring_new(capacity);
	if (!r)
		return -ENOMEM;
	err = map_twice(r, fd, PROT_READ);
	if (err == 0 && (memcmp(r->header->magic, MAGIC, sizeof(MAGIC)) != 0 || r->header->layout != RING_LAYOUT))
		err = -EPROTO;
	if (err < 0) {
		ring_free(r);
		return err;
	}
	*out = r;
	return 0;
}

/* The oldest offset retained when the tail is `tail`. Whatever the header holds: head ≤ tail ≤ head + capacity. */
static uint64_t head_at(const struct ring *r, uint64_t tail)
{
	uint64_t first = atomic_load_explicit(&r->header->first, memory_order_relaxed);

	if (first >= tail)
		return tail;
	return tail - first > r->capacity ? tail - r->capacity : first;
}

/*
 * The one access that races with the writer, by design: what was overwritten meanwhile is found by the second load of
 * the tail and thrown away. ThreadSanitizer is kept out of it, and since it also replaces memcpy() by one that it
 * watches, its builds copy by hand (volatile, or the compiler would make a memcpy of the loop).
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(UNDER_TSAN)
__attribute__((no_sanitize("thread"), noinline)) static void copy_racing(void *to, const unsigned char *from, size_t n)
{
	volatile unsigned char *t = to;
	const volatile unsigned char *f = from;

	for (size_t i = 0; i < n; i++)
		t[i] = f[i];
}
#else
static void copy_racing(void *to, const unsigned char *from, size_t n)
{
	memcpy(to, from, n);
}
#endif

static void set_span(struct ring_span *got, uint64_t from, uint64_t offset, size_t n)
{
	got->offset = offset;
	got->next_offset = offset + n;
	got->lost_bytes = offset - from;
}

int ring_read(const struct ring *r, uint64_t from, void *buf, size_t max, struct ring_span *got)
{
	uint64_t head = from;

	for (int round = 0; round < MAX_ROUNDS; round++) {
		uint64_t tail = ring_tail(r);
		uint64_t offset;
		size_t n;

		if (from > tail)
			return -ERANGE;
		head = head_at(r, tail);
		offset = from > head ? from : head;
		n = tail - offset < max ? (size_t)(tail - offset) : max; /* ≤ capacity, by head_at() */
		if (n > 0) {
			copy_racing(buf, r->data + offset % r->area, n);
			fence(memory_order_acquire);
			head = head_at(r, ring_tail(r));
		}
		if (head <= offset) {
			set_span(got, from, offset, n);
			return 0;
		}
		/* Overtaken. What lies at or above the new head is whole all the same; giving it, and not copying
		 * again, is what lets a reader at the head of a flood get on, for there every copy is overtaken by a
		 * little. */
		if (head - offset < n) {
			size_t gone = (size_t)(head - offset);

			memmove(buf, (unsigned char *)buf + gone, n - gone);
			set_span(got, from, head, n - gone);
			return 0;
		}
	}
	set_span(got, from, head, 0);
	return 0;
}

/* ---- Both sides ---- */

uint64_t ring_tail(const struct ring *r)
{
	return atomic_load_explicit(&r->header->tail, memory_order_acquire);
}

uint64_t ring_head(const struct ring *r)
{
	return head_at(r, ring_tail(r));
}

size_t ring_capacity(const struct ring *r)
{
	return r->capacity;
}

int ring_fd(const struct ring *r)
{
	return r->fd;
}

void ring_close_fd(struct ring *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

void ring_free(struct ring *r)
{
	if (!r)
		return;
	if (r->header)
		munmap(r->header, mapping_size(r));
	ring_close_fd(r);
	free(r);
}
