/*
 * filter.h - what of a console's output may reach the terminal of the person who looks at it.
 *
 * A console's bytes come from a sandbox. Written to a terminal as they are they could set its clipboard, make it type
 * answers into the person's shell, or hide what they do. The filter is a state machine over the stream: a sequence is
 * held until it is whole, then passed or dropped as the policy says; what is cut by the end of a piece waits for the
 * next. UTF-8 alone: single bytes that are not part of a character come out as U+FFFD, and the C1 controls written as
 * characters count as the sequences that they are.
 *
 * Bounds   A sequence over FILTER_HELD bytes is dropped whole. Output is at most 3 bytes for each byte put in, plus
 * FILTER_HELD.
 */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum filter_policy {
	FILTER_TEXT,   /* text and colours (SGR), nothing that moves or asks: for `read` */
	FILTER_REPLAY, /* everything but what asks the terminal for an answer, clipboard access and DCS: old output,
	                  which had its answers */
	FILTER_LIVE,   /* as REPLAY, but the program that asks now gets its answers */
};

#define FILTER_HELD    4096
#define FILTER_ROOM(n) ((n)*3 + FILTER_HELD)
#define FILTER_RESTORE 512
#define FILTER_MODES   32 /* private modes whose state is remembered: see filter_rules.c */

struct filter {
	enum filter_policy policy; /* may be changed between pieces */
	uint8_t state;             /* enum in filter.c */
	uint8_t utf8_need;         /* bytes that the character lacks */
	bool too_long;             /* the sequence in hand is dropped whatever it turns out to be */
	size_t nheld;
	uint8_t held[FILTER_HELD];

	/* What the stream has changed about the terminal, for filter_restore(). */
	uint32_t modes_on, modes_off; /* bits in the order of filter_rules.c */
	unsigned keyboard_pushes;
	bool scroll_region, cursor_style, keypad, modify_keys, charset;
};

void filter_init(struct filter *f, enum filter_policy policy);
/* out: FILTER_ROOM(n) bytes. Answers how many were written. */
size_t filter_run(struct filter *f, const uint8_t *in, size_t n, uint8_t *out);
/* The stream has a gap here, or ends: what is held is dropped. A character that was begun comes out as U+FFFD. */
size_t filter_cut(struct filter *f, uint8_t out[3]);

/* The sequences that undo what the stream has set: into out, at most FILTER_RESTORE bytes. Answers how many. */
size_t filter_restore(const struct filter *f, char out[FILTER_RESTORE]);

/* ---- filter_rules.c, for filter.c ---- */

/* A whole sequence, beginning with ESC: passes or not; what it sets is noted where it passes. */
bool filter_allows(struct filter *f, const uint8_t *sequence, size_t n);

#endif
