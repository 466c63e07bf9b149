/* frame.c - how messages lie on a byte stream. Fields are written and read one at a time, never by casting a struct. */
#include "wire/frame.h"

#include <errno.h>

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t frame_get_u64(const uint8_t *p)
{
	return (uint64_t)get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

void frame_put_u64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

/* What is true of each type stands here once, so that no receiver has to check it again. */
static int check(const struct frame *f)
{
	if (f->length > FRAME_MAX_PAYLOAD || f->fds > FRAME_MAX_FDS)
		return -EPROTO;
	switch (f->type) {
	case FRAME_MESSAGE:
		return f->channel == 0 ? 0 : -EPROTO;
	case FRAME_DATA:
		return f->channel <= CHANNEL_STDERR ? 0 : -EPROTO;
	case FRAME_LEVEL:
	case FRAME_TAIL:
		return f->channel == 0 && f->length == sizeof(uint64_t) ? 0 : -EPROTO;
	default:
		return -EPROTO;
	}
}

int frame_decode_header(const uint8_t buf[FRAME_HEADER], struct frame *out)
{
	const struct frame f = {
		.length = get_u32(buf),
		.type = buf[4],
		.fds = buf[5],
		.channel = (uint16_t)(buf[6] | buf[7] << 8),
	};
	int r = check(&f);

	if (r < 0)
		return r;
	*out = f;
	return 0;
}

long frame_decode(const uint8_t *buf, size_t n, struct frame *out)
{
	struct frame f;
	int r;

	if (n < FRAME_HEADER)
		return 0;
	r = frame_decode_header(buf, &f);
	if (r < 0)
		return r;
	if (n - FRAME_HEADER < f.length)
		return 0;
	f.payload = buf + FRAME_HEADER;
	*out = f;
	return (long)FRAME_HEADER + (long)f.length;
}

void frame_encode_header(const struct frame *f, uint8_t out[FRAME_HEADER])
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(f->length >> (8 * i));
	out[4] = f->type;
	out[5] = f->fds;
	out[6] = (uint8_t)f->channel;
	out[7] = (uint8_t)(f->channel >> 8);
}
