/* crc32c.h - CRC-32C (Castagnoli), the checksum of custody's files. It finds damage, not malice. Source: RFC 3720,
 * appendix B.4. */
#ifndef SANDBOXES_CRC32C_H
#define SANDBOXES_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, 0 at the start: crc32c(crc32c(0, a), b) is that of a and b in a row. Any thread. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

#endif
