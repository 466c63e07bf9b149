/* mark.c - marks as bytes. They are read from memory that another process may be writing: nothing is taken on trust. */
#include "wire/mark.h"

#include <string.h>

#include "wire/frame.h"

enum {
	AT_OFFSET = 0,
	AT_WALL = 8,
	AT_KIND_A = 16, /* two u32 each, written as one u64: the lower half first */
	AT_B_INCARNATION = 24,
	AT_LENGTH = 32,
	AT_RESERVED = 34,
	AT_TEXT = 36,
};
_Static_assert(AT_TEXT + MARK_MAX_TEXT == MARK_SIZE, "the text ends where the mark does");
_Static_assert(MARK_RING_BYTES % MARK_SIZE == 0, "marks do not straddle the ring's end");

void mark_pack(const struct mark *m, uint8_t out[MARK_SIZE])
{
	size_t len = m->text_len < MARK_MAX_TEXT ? m->text_len : MARK_MAX_TEXT;

	memset(out, 0, MARK_SIZE);
	frame_put_u64(out + AT_OFFSET, m->offset);
	frame_put_u64(out + AT_WALL, m->at_ms);
	frame_put_u64(out + AT_KIND_A, (uint64_t)m->a << 32 | m->kind);
	frame_put_u64(out + AT_B_INCARNATION, (uint64_t)m->incarnation << 32 | m->b);
	out[AT_LENGTH] = (uint8_t)len;
	out[AT_LENGTH + 1] = (uint8_t)(len >> 8);
	memcpy(out + AT_TEXT, m->text, len);
}

bool mark_unpack(const uint8_t in[MARK_SIZE], struct mark *out)
{
	uint64_t kind_a = frame_get_u64(in + AT_KIND_A);
	uint64_t b_incarnation = frame_get_u64(in + AT_B_INCARNATION);
	unsigned len = in[AT_LENGTH] | (unsigned)in[AT_LENGTH + 1] << 8;

	/* A kind that this version does not know is a mark all the same: a newer daemon may have made it. */
	if ((uint32_t)kind_a == 0 || len > MARK_MAX_TEXT || in[AT_RESERVED] != 0 || in[AT_RESERVED + 1] != 0)
		return false;
	out->offset = frame_get_u64(in + AT_OFFSET);
	out->at_ms = frame_get_u64(in + AT_WALL);
	out->kind = (uint32_t)kind_a;
	out->a = (uint32_t)(kind_a >> 32);
	out->b = (uint32_t)b_incarnation;
	out->incarnation = (uint32_t)(b_incarnation >> 32);
	out->text_len = (uint16_t)len;
	memcpy(out->text, in + AT_TEXT, len);
	out->text[len] = '\0';
	return true;
}
