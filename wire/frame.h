/*
 * frame.h - how messages lie on a byte stream.
 *
 *    0        4      5      6         8
 *   +--------+------+------+---------+----------------------+
 *   | length | type | fds  | channel | payload, length bytes |     little-endian
 *   +--------+------+------+---------+----------------------+
 *
 * length ≤ FRAME_MAX_PAYLOAD. fds: descriptors that ride on the frame (SCM_RIGHTS on its first byte), ≤ FRAME_MAX_FDS.
 * channel is used by DATA frames only, else 0. Anything else is a protocol error, found before a byte of payload is
 * kept. The decoder is a pure function of bytes: no I/O, no allocation.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER      8
#define FRAME_MAX_PAYLOAD ((uint32_t)64 * 1024)
#define FRAME_MAX_FDS     4

enum frame_type {
	FRAME_MESSAGE = 1, /* a protobuf message of the protocol that the connection speaks */
	FRAME_DATA = 2,    /* bytes of a stream; an empty payload is the stream's end */
	FRAME_LEVEL = 3,   /* u64: the sender has every byte before this offset and wants to hear once there is more */
	FRAME_TAIL = 4,    /* u64: the tail, now past the LEVEL that was sent */
};

/* Channels of DATA frames. */
enum frame_channel { CHANNEL_INPUT = 0, CHANNEL_STDOUT = 1, CHANNEL_STDERR = 2 };

struct frame {
	uint32_t length;
	uint8_t type;
	uint8_t fds;
	uint16_t channel;
	const uint8_t *payload; /* into the caller's buffer */
};

/* Decodes a header alone; the payload is NULL. 0, or -EPROTO: this is not a frame. */
int frame_decode_header(const uint8_t buf[FRAME_HEADER], struct frame *out);

/* Decodes the frame at the start of buf. The bytes it takes; 0: more are needed; -EPROTO: this is not a frame. */
long frame_decode(const uint8_t *buf, size_t n, struct frame *out);

/* Writes a header for f (its payload is not touched) into 8 bytes. */
void frame_encode_header(const struct frame *f, uint8_t out[FRAME_HEADER]);

uint64_t frame_get_u64(const uint8_t *p); /* little-endian, any alignment */
void frame_put_u64(uint8_t *p, uint64_t v);

#endif
