/*
 * mark.h - typed marks at offsets of a console's output, kept beside the bytes in a ring of their own.
 *
 * A mark is MARK_SIZE bytes, packed a field at a time, little-endian; the marks' ring has MARK_RING_BYTES, so that a
 * mark's position is always a multiple of MARK_SIZE and the oldest are forgotten first. They stand in cursor order.
 *
 *    0       8       16     20    24    28     32    34   36
 *   +-------+-------+------+-----+-----+------+-----+----+---------------------------+
 *   | offset| wall  | kind | a   | b   | inc. | len | 0  | text, len ≤ MARK_MAX_TEXT |
 *   +-------+-------+------+-----+-----+------+-----+----+---------------------------+
 */
#ifndef WIRE_MARK_H
#define WIRE_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MARK_SIZE       256
#define MARK_MAX_TEXT   (MARK_SIZE - 36)
#define MARK_RING_BYTES ((size_t)128 * 1024) /* 512 marks */
#define MARK_LAYOUT     1

struct mark {
	uint64_t offset; /* in the console's output */
	uint64_t at_ms;  /* wall clock */
	uint32_t kind;   /* enum mark_kind; what a and b mean stands in codes.def */
	uint32_t a, b;
	uint32_t incarnation;
	uint16_t text_len;
	char text[MARK_MAX_TEXT + 1]; /* bytes from the sandbox, not trusted; NUL added */
};

void mark_pack(const struct mark *m, uint8_t out[MARK_SIZE]);
bool mark_unpack(const uint8_t in[MARK_SIZE], struct mark *out); /* false: not a mark */

#endif
