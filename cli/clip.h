/* clip.h - the beginning and the end of a stream of any length, and how much was left out between. */
#ifndef CLI_CLIP_H
#define CLI_CLIP_H

#include <stddef.h>
#include <stdint.h>

#define CLIP_HEAD 4096
#define CLIP_TAIL 4096

/* Zeroed: empty. */
struct clip {
	uint8_t head[CLIP_HEAD];
	uint8_t tail[CLIP_TAIL]; /* a ring: the newest byte is before tail[ntail % CLIP_TAIL] */
	size_t nhead;
	uint64_t ntail; /* bytes that came after the head was full */
};

void clip_add(struct clip *c, const uint8_t *bytes, size_t n);
/* Head and tail in one piece: at most CLIP_HEAD + CLIP_TAIL bytes. Answers how many; *omitted: bytes between the two.
 */
size_t clip_take(const struct clip *c, uint8_t *out, uint64_t *omitted);

#endif
