/* clip.c - see clip.h. */
#include "cli/clip.h"

#include <string.h>

void clip_add(struct clip *c, const uint8_t *bytes, size_t n)
{
	size_t room = CLIP_HEAD - c->nhead;
	size_t first = n < room ? n : room;
	memcpy(c->head + c->nhead, bytes, first);
	c->nhead += first;
	bytes += first;
	n -= first;
	if (n > CLIP_TAIL) { /* only the end of it can stay */
		c->ntail += n - CLIP_TAIL;
		bytes += n - CLIP_TAIL;
		n = CLIP_TAIL;
	}
	size_t at = (size_t)(c->ntail % CLIP_TAIL);
	size_t before_wrap = n < CLIP_TAIL - at ? n : CLIP_TAIL - at;
	memcpy(c->tail + at, bytes, before_wrap);
	memcpy(c->tail, bytes + before_wrap, n - before_wrap);
	c->ntail += n;
}

size_t clip_take(const struct clip *c, uint8_t *out, uint64_t *omitted)
{
	memcpy(out, c->head, c->nhead);
	size_t kept = c->ntail < CLIP_TAIL ? (size_t)c->ntail : CLIP_TAIL;
	*omitted = c->ntail - kept;
	size_t at = (size_t)((c->ntail - kept) % CLIP_TAIL);
	size_t before_wrap = kept < CLIP_TAIL - at ? kept : CLIP_TAIL - at;
	memcpy(out + c->nhead, c->tail + at, before_wrap);
	memcpy(out + c->nhead + before_wrap, c->tail, kept - before_wrap);
	return c->nhead + kept;
}
