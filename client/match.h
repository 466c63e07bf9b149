/*
 * match.h - finds a pattern in a stream that comes in pieces, as if it were one text. The one user of PCRE2.
 *
 * The matcher keeps a window: what a match that has begun, and what the pattern looks back to, needs. New bytes are
 * written into its free end (matcher_space), then scanned. A match longer than the window is not found; the window
 * never grows.
 */
#ifndef CLIENT_MATCH_H
#define CLIENT_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/ringside.h"

struct matcher;

/* What follows the bytes that are scanned. */
enum match_end {
	MATCH_MORE,  /* more is there already: what could go on is not decided yet */
	MATCH_PAUSE, /* nothing now: a match is taken as it stands, and one that has only begun is kept */
	MATCH_FINAL, /* nothing ever */
};

/* invalid_argument: the pattern; the message says where. */
int matcher_new(const char *pattern, struct matcher **out, struct ringside_error *err);
void matcher_free(struct matcher *m); /* accepts NULL */

/* Forgets the window; the next byte has this offset. */
void matcher_restart(struct matcher *m, uint64_t offset);

/* Room for the next bytes: at least 1. */
uint8_t *matcher_space(struct matcher *m, size_t *room);

/* Scans with n further bytes, which stand in that space. *found: whether it matched, and then where. resource_limit:
 * given up. */
int matcher_scan(struct matcher *m, size_t n, enum match_end end, bool *found, uint64_t *offset, uint64_t *length,
        struct ringside_error *err);

#endif
