/*
 * filter_rules.c - which sequences pass, and what those that pass change about the terminal.
 *
 * Source for the sequences: "XTerm Control Sequences" (ctlseqs), kitty's keyboard protocol.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli/filter.h"

/*
 * Private modes that a program may leave behind, and what a shell expects of each. Bits of modes_on and modes_off in
 * this order. `always`: put back even where the stream was not seen to change it, since its beginning may be long gone
 * and it does no harm.
 */
static const struct {
	uint16_t mode;
	bool normal;
	bool always;
} modes[] = {
	{ 1, false, true },    /* cursor keys send application codes */
	{ 3, false, false },   /* 132 columns */
	{ 5, false, false },   /* reverse video */
	{ 6, false, false },   /* origin */
	{ 7, true, false },    /* wrap at the margin */
	{ 9, false, false },   /* X10 mouse */
	{ 25, true, true },    /* cursor visible */
	{ 45, false, false },  /* reverse wrap */
	{ 66, false, false },  /* keypad */
	{ 69, false, false },  /* left and right margins */
	{ 1000, false, true }, /* mouse */
	{ 1001, false, false },
	{ 1002, false, true },
	{ 1003, false, true },
	{ 1004, false, true }, /* focus reports */
	{ 1005, false, false },
	{ 1006, false, true },
	{ 1015, false, false },
	{ 1016, false, false },
	{ 2004, false, true },  /* bracketed paste */
	{ 2026, false, false }, /* synchronized output */
	{ 2031, false, false }, /* colour scheme reports */
	{ 2048, false, false }, /* in-band resize reports */
	{ 47, false, false },   /* alternate screen: last, since leaving it moves the cursor */
	{ 1047, false, false },
	{ 1049, false, false },
};
#define NMODES (sizeof(modes) / sizeof(modes[0]))
static_assert(NMODES <= FILTER_MODES, "modes_on has a bit for each mode");

/* ---- CSI ---- */

struct csi {
	uint8_t prefix;       /* one of < = > ?, or 0 */
	uint8_t intermediate; /* the last one, or 0 */
	uint8_t final;
	const uint8_t *params;
	size_t nparams; /* bytes */
};

static struct csi csi_parts(const uint8_t *s, size_t n)
{
	struct csi c = { .final = s[n - 1] };
	size_t i = 2, end = n - 1;
	if (i < end && s[i] >= 0x3c && s[i] <= 0x3f)
		c.prefix = s[i++];
	while (end > i && s[end - 1] < 0x30)
		end--;
	if (end < n - 1)
		c.intermediate = s[n - 2];
	c.params = s + i;
	c.nparams = end - i;
	return c;
}

/* The next number of the parameters, from *at on; -1: none is left. An absent one is 0. */
static long next_param(const struct csi *c, size_t *at)
{
	if (*at > c->nparams)
		return -1;
	long v = 0;
	while (*at < c->nparams && c->params[*at] >= '0' && c->params[*at] <= '9') {
		v = v < 100000 ? v * 10 + (c->params[*at] - '0') : v;
		(*at)++;
	}
	while (*at < c->nparams && c->params[*at] != ';')
		(*at)++;
	(*at)++;
	return v;
}

static bool is_colour(const struct csi *c)
{
	if (c->prefix || c->intermediate || c->final != 'm')
		return false;
	for (size_t i = 0; i < c->nparams; i++)
		if (!strchr("0123456789;:", c->params[i]))
			return false;
	return true;
}

/* Window operations: 11 to 21 without 12 and 17 report; of these 20 and 21 report titles, which a program can have set.
 */
static bool window_report(const struct csi *c, bool titles_alone)
{
	size_t at = 0;
	long operation = next_param(c, &at);
	if (c->final != 't' || c->prefix || c->intermediate)
		return false;
	return titles_alone ? operation == 20 || operation == 21
	                    : operation == 11 || (operation >= 13 && operation <= 16) ||
	                              (operation >= 18 && operation <= 21);
}

/* Does the terminal answer it? */
static bool asks(const struct csi *c)
{
	switch (c->final) {
	case 'c': /* device attributes */
	case 'x': /* terminal parameters */
		return !c->intermediate;
	case 'n': /* device status; with > it switches key modifiers off */
		return c->prefix != '>';
	case 'p': /* modes */
		return c->intermediate == '$';
	case 'q': /* version */
		return c->prefix == '>';
	case 'm': /* key modifiers */
	case 'u': /* keyboard protocol */
	case 'S': /* graphics */
		return c->prefix == '?';
	case 't':
		return window_report(c, false);
	case 'w': /* presentation state */
		return c->intermediate == '$';
	case 'y': /* checksum */
		return c->intermediate == '*';
	case 'v': /* displayed extent */
		return c->intermediate == '"';
	case 'R': /* palette stack */
	case '|':
		return c->intermediate == '#' || c->intermediate == '$';
	default:
		return false;
	}
}

static void note_modes(struct filter *f, const struct csi *c)
{
	size_t at = 0;
	for (long mode; (mode = next_param(c, &at)) >= 0;) {
		for (size_t i = 0; i < NMODES; i++) {
			if (modes[i].mode != mode)
				continue;
			uint32_t bit = (uint32_t)1 << i;
			f->modes_on = c->final == 'h' ? f->modes_on | bit : f->modes_on & ~bit;
			f->modes_off = c->final == 'l' ? f->modes_off | bit : f->modes_off & ~bit;
		}
	}
}

static void note_keyboard(struct filter *f, const struct csi *c)
{
	size_t at = 0;
	long n = next_param(c, &at);
	if (c->prefix == '>' && f->keyboard_pushes < 8)
		f->keyboard_pushes++;
	else if (c->prefix == '<')
		f->keyboard_pushes -=
		        (unsigned)(n > 0 ? n : 1) < f->keyboard_pushes ? (unsigned)(n > 0 ? n : 1) : f->keyboard_pushes;
	else if (c->prefix == '=' && f->keyboard_pushes == 0)
		f->keyboard_pushes = 1;
}

static void note_csi(struct filter *f, const struct csi *c)
{
	if (c->prefix == '?' && !c->intermediate && (c->final == 'h' || c->final == 'l'))
		note_modes(f, c);
	else if (c->final == 'u' && c->prefix)
		note_keyboard(f, c);
	else if (c->final == 'r' && !c->prefix && !c->intermediate)
		f->scroll_region = c->nparams > 0;
	else if (c->final == 'q' && c->intermediate == ' ')
		f->cursor_style = true;
	else if (c->final == 'm' && c->prefix == '>')
		f->modify_keys = true;
}

static bool allows_csi(struct filter *f, const uint8_t *s, size_t n)
{
	struct csi c = csi_parts(s, n);
	if (f->policy == FILTER_TEXT)
		return is_colour(&c);
	if (window_report(&c, true) || (f->policy == FILTER_REPLAY && asks(&c)))
		return false;
	note_csi(f, &c);
	return true;
}

/* ---- The others ---- */

/* ESC ] number ; text BEL, or ESC \ at the end. */
static bool allows_osc(const struct filter *f, const uint8_t *s, size_t n)
{
	if (f->policy == FILTER_TEXT)
		return false;
	size_t end = s[n - 1] == 0x07 ? n - 1 : n - 2;
	long number = 0;
	size_t i = 2;
	for (; i < end && s[i] >= '0' && s[i] <= '9'; i++)
		number = number < 100000 ? number * 10 + (s[i] - '0') : number;
	if (number == 52) /* the clipboard */
		return false;
	/* "4;1;?", "11;?": asks for a colour. Titles and links, which may well have a question mark, are no questions.
	 */
	bool question = number >= 4 && number != 8 && end > i && s[end - 1] == '?';
	return f->policy != FILTER_REPLAY || !question;
}

static void forget(struct filter *f)
{
	f->modes_on = f->modes_off = 0;
	f->keyboard_pushes = 0;
	f->scroll_region = f->cursor_style = f->keypad = f->modify_keys = f->charset = false;
}

static bool allows_escape(struct filter *f, const uint8_t *s, size_t n)
{
	if (f->policy == FILTER_TEXT)
		return false;
	if (n == 2 && s[1] == 'Z') /* identify yourself */
		return f->policy != FILTER_REPLAY;
	if (n == 2 && s[1] == 'c') /* full reset */
		forget(f);
	if (n == 2 && (s[1] == '=' || s[1] == '>'))
		f->keypad = s[1] == '=';
	if (n == 3 && s[1] == '(')
		f->charset = s[2] != 'B';
	return true;
}

bool filter_allows(struct filter *f, const uint8_t *s, size_t n)
{
	switch (s[1]) {
	case '[':
		return allows_csi(f, s, n);
	case ']':
		return allows_osc(f, s, n);
	case 'P': /* DCS: queries, downloads, pictures */
	case 'X':
	case '^':
	case '_':
		return false;
	default:
		return allows_escape(f, s, n);
	}
}

/* ---- Back to what a shell expects ---- */

static void append(char *out, size_t *used, const char *s)
{
	size_t n = strlen(s);
	if (n < FILTER_RESTORE - *used) {
		memcpy(out + *used, s, n + 1);
		*used += n;
	}
}

size_t filter_restore(const struct filter *f, char out[FILTER_RESTORE])
{
	size_t used = 0;
	*out = '\0';
	append(out, &used, "\033[m"); /* colours */
	if (f->scroll_region)
		append(out, &used, "\0337\033[r\0338"); /* which moves the cursor: kept by hand */
	if (f->cursor_style)
		append(out, &used, "\033[0 q");
	if (f->keypad)
		append(out, &used, "\033>");
	if (f->modify_keys)
		append(out, &used, "\033[>4m");
	if (f->charset)
		append(out, &used, "\033(B");
	for (unsigned i = 0; i < f->keyboard_pushes; i++)
		append(out, &used, "\033[<u");
	for (size_t i = 0; i < NMODES; i++) {
		uint32_t bit = (uint32_t)1 << i;
		if (!modes[i].always && !((modes[i].normal ? f->modes_off : f->modes_on) & bit))
			continue;
		char one[16];
		snprintf(one, sizeof(one), "\033[?%u%c", modes[i].mode, modes[i].normal ? 'h' : 'l');
		append(out, &used, one);
	}
	return used;
}
