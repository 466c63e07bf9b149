/*
 * fuzz_ring_reader.c - a reader at the mercy of its input: the bytes are a little program that forges descriptors, sets
 * the header's words, and reads; a change can also be put off until the reader is in the middle of a call, at any of
 * its loads or half through its copy. The source is included, so that those points can be reached.
 *
 * Checked after each call: what ring.h promises whoever writes the header. The data area is stamped by position, so a
 * byte from outside it shows; the buffer is as long as the capacity and no longer, whatever `max` says.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/ring/forge.h"
#include "tests/unit/ring/stamp.h"

static void point(void);
static void *interrupted_memcpy(void *to, const void *from, size_t n);

#undef atomic_load_explicit
#undef memcpy
#define atomic_load_explicit(p, order) (point(), __atomic_load_n((const uint64_t *)(p), order))
#define memcpy(to, from, n)            interrupted_memcpy(to, from, n)
#include "ring/ring.c"
#undef memcpy

#define CAPACITY RING_MIN_CAPACITY
#define AREA     (CAPACITY + RING_SLACK)
#define STEPS    200 /* of one program */

#define require(what)                     \
	do {                              \
		if (!(what))              \
			__builtin_trap(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* ---- The input, taken from its front ---- */

struct input {
	const uint8_t *p;
	size_t left;
};

static uint64_t take(struct input *in, size_t bytes)
{
	uint64_t v = 0;

	for (; bytes > 0 && in->left > 0; bytes--, in->left--)
		v = v << 8 | *in->p++;
	return v;
}

/* An offset: anything at all, or near the tail of now, where things happen. */
static uint64_t take_offset(struct input *in, const struct forge *f)
{
	uint64_t how = take(in, 1), near, off;

	if (how & 1)
		return take(in, 8);
	memcpy(&near, f->map + FORGE_TAIL, sizeof(near));
	off = take(in, 1 + how / 4 % 3);
	return how & 2 ? near + off : near - off;
}

/* ---- What happens in the middle of a call ---- */

static struct {
	struct forge *forge;
	unsigned countdown; /* points until it does; 0: it does not */
	bool again;         /* and at each point after */
	uint64_t first, tail;
} change;

static void point(void)
{
	if (change.countdown == 0 || --change.countdown > 0)
		return;
	forge_set(change.forge, FORGE_FIRST, change.first);
	forge_set(change.forge, FORGE_TAIL, change.tail);
	if (change.again) { /* wanders on: a writer that laps for ever */
		change.tail += AREA;
		change.countdown = 1;
	}
}

static void *interrupted_memcpy(void *to, const void *from, size_t n)
{
	memcpy(to, from, n / 2);
	point();
	return memcpy((unsigned char *)to + n / 2, (const unsigned char *)from + n / 2, n - n / 2);
}

static void plan_change(struct input *in, struct forge *f)
{
	change.forge = f;
	change.countdown = (unsigned)take(in, 1) % 12;
	change.again = take(in, 1) & 1;
	change.first = take_offset(in, f);
	change.tail = take_offset(in, f);
}

/* ---- What the reader does ---- */

static void read_once(struct input *in, struct forge *f, const struct ring *r, unsigned char *buf)
{
	uint64_t from = take_offset(in, f), n;
	size_t max = take(in, 1) & 1 ? SIZE_MAX : (size_t)take(in, 2);
	struct ring_span got = { 1, 2, 3 };
	int err = ring_read(r, from, buf, max, &got);

	change.countdown = 0;
	if (err != 0) {
		require(err == -ERANGE);
		require(got.offset == 1 && got.next_offset == 2 && got.lost_bytes == 3);
		return;
	}
	require(got.offset >= from && got.next_offset >= got.offset);
	require(got.lost_bytes == got.offset - from);
	n = got.next_offset - got.offset;
	require(n <= max && n <= CAPACITY);
	for (uint64_t i = 0; i < n; i++)
		require(buf[i] == stamp((got.offset + i) % AREA));
}

static void look_around(const struct ring *r)
{
	uint64_t tail, head;

	change.countdown = 0;
	tail = ring_tail(r);
	head = ring_head(r);
	require(head <= tail && tail - head <= CAPACITY);
	require(ring_capacity(r) == CAPACITY && ring_fd(r) == -1);
}

/* A descriptor of any size, seals and header, each wrong or not: opened or refused, never more. */
static void open_something(struct input *in)
{
	unsigned wrong = (unsigned)take(in, 1);
	size_t size = wrong & 1 ? (size_t)take(in, 3) : forge_size(wrong & 2 ? (size_t)take(in, 4) : 2 * CAPACITY);
	int seals = wrong & 4 ? (int)take(in, 1) & (FORGE_SEALS | F_SEAL_WRITE) : FORGE_SEALS;
	struct ring *r = NULL;
	struct forge f;

	if (size < forge_page() || forge_new(&f, size, 0) < 0)
		return;
	if (wrong & 8)
		f.map[take(in, 1) % 12] ^= (unsigned char)take(in, 1);
	if (fcntl(f.fd, F_ADD_SEALS, seals) == 0 && ring_open(f.fd, &r) == 0) {
		size_t capacity = ring_capacity(r);

		require((seals & FORGE_SEALS) == FORGE_SEALS);
		require(forge_size(capacity) == size && capacity <= RING_MAX_CAPACITY);
		require(capacity >= RING_MIN_CAPACITY && (capacity & (capacity - 1)) == 0);
		require(memcmp(f.map, FORGE_MAGIC, 8) == 0);
		ring_free(r);
	}
	forge_free(&f);
}

static struct forge *the_forge(struct ring **r)
{
	static struct forge f;
	static struct ring *opened;

	if (!opened) {
		require(forge_new(&f, forge_size(CAPACITY), FORGE_SEALS) == 0);
		stamp_fill(f.map + forge_page(), 0, AREA);
		require(ring_open(f.fd, &opened) == 0);
	}
	forge_set(&f, FORGE_FIRST, 0);
	forge_set(&f, FORGE_TAIL, 0);
	change.countdown = 0;
	*r = opened;
	return &f;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static unsigned char *buf;
	struct input in = { bytes, n };
	struct ring *r;
	struct forge *f = the_forge(&r);

	if (!buf)
		buf = malloc(CAPACITY);
	require(buf);
	for (int i = 0; i < STEPS && in.left > 0; i++)
		switch (take(&in, 1) % 8) {
		case 0:
			forge_set(f, FORGE_FIRST, take_offset(&in, f));
			break;
		case 1:
			forge_set(f, FORGE_TAIL, take_offset(&in, f));
			break;
		case 2:
			look_around(r);
			break;
		case 3:
			open_something(&in);
			break;
		case 4:
		case 5:
			plan_change(&in, f);
			/* fall through */
		default:
			read_once(&in, f, r, buf);
		}
	return 0;
}
