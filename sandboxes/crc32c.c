/* crc32c.c - the checksum of crc32c.h, a byte at a time from a table that is made on first use. */
#include "sandboxes/crc32c.h"

#include <pthread.h>

#define POLYNOMIAL 0x82f63b78U /* 0x1edc6f41, reflected */

static uint32_t table[256];
static pthread_once_t table_made = PTHREAD_ONCE_INIT;

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t v = i;
		for (int bit = 0; bit < 8; bit++)
			v = (v >> 1) ^ (v & 1 ? POLYNOMIAL : 0);
		table[i] = v;
	}
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	pthread_once(&table_made, make_table);
	crc = ~crc;
	for (size_t i = 0; i < n; i++)
		crc = (crc >> 8) ^ table[(crc ^ p[i]) & 0xff];
	return ~crc;
}
