/*
 * filter.c - the state machine of filter.h: finds where sequences begin and end, and knows nothing of their meaning.
 *
 * Source: ECMA-48 for the shapes; what terminals do with controls inside sequences, ESC in the middle of one, and CAN
 * and SUB is P. Williams, "A parser for DEC's ANSI-compatible video terminals" (vt100.net).
 */
#include "cli/filter.h"

#include <string.h>

enum state {
	GROUND,
	CHARACTER, /* inside a UTF-8 character */
	ESCAPE,    /* after ESC, and its intermediates */
	CSI,
	STRING,       /* OSC, DCS, SOS, PM, APC */
	STRING_ESCAPE /* after ESC inside one: the end if \ follows */
};

enum { ENQ = 0x05, BEL = 0x07, BS = 0x08, CAN = 0x18, SUB = 0x1a, ESC = 0x1b, DEL = 0x7f };

/* Where output goes. */
struct sink {
	uint8_t *at;
};

static void put(struct sink *s, const void *bytes, size_t n)
{
	memcpy(s->at, bytes, n);
	s->at += n;
}

static void put_replacement(struct sink *s)
{
	put(s, "\xef\xbf\xbd", 3);
}

void filter_init(struct filter *f, enum filter_policy policy)
{
	memset(f, 0, offsetof(struct filter, held));
	memset(&f->modes_on, 0, sizeof(*f) - offsetof(struct filter, modes_on));
	f->policy = policy;
}

static void hold(struct filter *f, uint8_t b)
{
	if (f->nheld < sizeof(f->held))
		f->held[f->nheld++] = b;
	else
		f->too_long = true;
}

static void begin(struct filter *f, enum state state)
{
	f->state = (uint8_t)state;
	f->nheld = 0;
	f->too_long = false;
}

/* Controls act at once, also inside a sequence. */
static void control(const struct filter *f, uint8_t b, struct sink *s)
{
	bool text = b == '\n' || b == '\r' || b == '\t' || b == BS;
	if (f->policy == FILTER_TEXT ? text : b != ENQ)
		put(s, &b, 1);
}

static void end_sequence(struct filter *f, struct sink *s)
{
	if (!f->too_long && filter_allows(f, f->held, f->nheld))
		put(s, f->held, f->nheld);
	begin(f, GROUND);
}

static void begin_escape(struct filter *f)
{
	begin(f, ESCAPE);
	hold(f, ESC);
}

/* ---- Characters ---- */

/* Further bytes after the first, or 0: no character begins so. */
static uint8_t further(uint8_t b)
{
	return b >= 0xc2 && b <= 0xdf ? 1 : b >= 0xe0 && b <= 0xef ? 2 : b >= 0xf0 && b <= 0xf4 ? 3 : 0;
}

/* May `b` be the second byte after `first`? Overlong forms, surrogates and what is past U+10FFFF may not. */
static bool second_fits(uint8_t first, uint8_t b)
{
	uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	return b >= low && b <= high;
}

static uint32_t code_point(const uint8_t *p, size_t n)
{
	if (n == 2)
		return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
	if (n == 3)
		return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 |
	       (p[3] & 0x3f);
}

/* Marks, embeddings, overrides and isolates of the bidirectional algorithm: they show text in another order than it
 * has. */
static bool reorders(uint32_t c)
{
	return c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

static void run_byte(struct filter *f, uint8_t b, struct sink *s);

static void end_character(struct filter *f, struct sink *s)
{
	uint32_t c = code_point(f->held, f->nheld);
	if (c >= 0x80 && c <= 0x9f) { /* C1: the same as ESC and a letter */
		begin_escape(f);
		run_byte(f, (uint8_t)(c - 0x40), s);
		return;
	}
	if (f->policy != FILTER_TEXT || !(reorders(c) || c == 0x2028 || c == 0x2029))
		put(s, f->held, f->nheld);
	begin(f, GROUND);
}

static void in_character(struct filter *f, uint8_t b, struct sink *s)
{
	bool fits = f->nheld == 1 ? second_fits(f->held[0], b) : (b & 0xc0) == 0x80;
	if (!fits) {
		put_replacement(s);
		begin(f, GROUND);
		run_byte(f, b, s);
		return;
	}
	hold(f, b);
	if (--f->utf8_need == 0)
		end_character(f, s);
}

/* ---- States ---- */

static void in_ground(struct filter *f, uint8_t b, struct sink *s)
{
	if (b == ESC) {
		begin_escape(f);
	} else if (b < 0x20) {
		control(f, b, s);
	} else if (b < DEL) {
		put(s, &b, 1);
	} else if (b == DEL) {
		if (f->policy != FILTER_TEXT)
			put(s, &b, 1);
	} else if (further(b)) {
		begin(f, CHARACTER);
		hold(f, b);
		f->utf8_need = further(b);
	} else {
		put_replacement(s);
	}
}

static void in_escape(struct filter *f, uint8_t b, struct sink *s)
{
	bool first = f->nheld == 1;
	hold(f, b);
	if (b < 0x30) /* an intermediate */
		return;
	if (first && b == '[')
		f->state = CSI;
	else if (first && (b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_'))
		f->state = STRING;
	else
		end_sequence(f, s);
}

static void in_csi(struct filter *f, uint8_t b, struct sink *s)
{
	hold(f, b);
	if (b >= 0x40)
		end_sequence(f, s);
}

static void in_string(struct filter *f, uint8_t b, struct sink *s)
{
	bool osc = f->held[1] == ']';
	if (b == BEL && osc) {
		hold(f, b);
		end_sequence(f, s);
	} else if (b == ESC) {
		f->state = STRING_ESCAPE;
	} else if (b >= 0x20 && b != DEL) {
		hold(f, b);
	}
}

static void in_string_escape(struct filter *f, uint8_t b, struct sink *s)
{
	if (b == '\\') {
		hold(f, ESC);
		hold(f, b);
		end_sequence(f, s);
		return;
	}
	begin_escape(f); /* the string was given up for another sequence */
	run_byte(f, b, s);
}

static bool in_sequence(const struct filter *f)
{
	return f->state == ESCAPE || f->state == CSI;
}

static void run_byte(struct filter *f, uint8_t b, struct sink *s)
{
	if ((b == CAN || b == SUB) && f->state != GROUND && f->state != CHARACTER) {
		begin(f, GROUND); /* given up; the terminal has seen nothing of it */
		return;
	}
	if (in_sequence(f) && b == ESC) {
		begin_escape(f);
		return;
	}
	if (in_sequence(f) && (b < 0x20 || b == DEL)) {
		if (b != DEL)
			control(f, b, s);
		return;
	}
	if (in_sequence(f) && b >= 0x80) { /* no sequence has such a byte */
		begin(f, GROUND);
		in_ground(f, b, s);
		return;
	}
	switch ((enum state)f->state) {
	case GROUND:
		in_ground(f, b, s);
		break;
	case CHARACTER:
		in_character(f, b, s);
		break;
	case ESCAPE:
		in_escape(f, b, s);
		break;
	case CSI:
		in_csi(f, b, s);
		break;
	case STRING:
		in_string(f, b, s);
		break;
	case STRING_ESCAPE:
		in_string_escape(f, b, s);
		break;
	}
}

static size_t plain_run(const uint8_t *in, size_t n)
{
	size_t i = 0;
	while (i < n && in[i] >= 0x20 && in[i] < DEL)
		i++;
	return i;
}

size_t filter_run(struct filter *f, const uint8_t *in, size_t n, uint8_t *out)
{
	struct sink s = { .at = out };
	for (size_t i = 0; i < n;) {
		/* Most output is plain ASCII: copied in runs. */
		size_t plain = f->state == GROUND ? plain_run(in + i, n - i) : 0;
		if (plain > 0) {
			put(&s, in + i, plain);
			i += plain;
		} else {
			run_byte(f, in[i++], &s);
		}
	}
	return (size_t)(s.at - out);
}

size_t filter_cut(struct filter *f, uint8_t out[3])
{
	struct sink s = { .at = out };
	if (f->state == CHARACTER)
		put_replacement(&s);
	begin(f, GROUND);
	return (size_t)(s.at - out);
}
