/*
 * match.c - see match.h.
 *
 *            run              start             valid      used
 *   window | … | looked back to | begun or new … | cut char | free …  |
 *
 * Soft partial matching at a pause: a whole match wins over one that could still grow, so that "\$ $" finds a prompt.
 * Hard partial matching where more is at hand: there `$` and `.*` at the end of a piece would else see an end that is
 * none.
 *
 * The text is UTF-8 with other bytes in it. It is searched run by run of valid UTF-8, since PCRE2_MATCH_INVALID_UTF and
 * partial matching do not go together: it passes over whole matches at the end of a run (10.42). A character cut by the
 * end of a piece is held back until the rest of it is there.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "client/match.h"

#define PATTERN_MAX    ((size_t)16 * 1024) /* bytes */
#define MATCH_LIMIT    1000000             /* backtracking steps from one starting point */
#define DEPTH_LIMIT    100000              /* nested backtracking points */
#define HEAP_LIMIT_KIB (32 * 1024)
#define UTF8_MAX       4

struct matcher {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
	bool utf;
	bool at_start;     /* window[0] is where the stream, as far as it is known here, begins */
	size_t lookbehind; /* bytes that must stay before the place where the search goes on */
	uint64_t base;     /* offset of window[0] */
	size_t run;        /* where the run of valid text in hand begins */
	size_t start;      /* where the search goes on */
	size_t valid;      /* the run is known to be valid up to here */
	size_t used;
	uint8_t window[RINGSIDE_MATCH_WINDOW];
};

static int compile(struct matcher *m, const char *pattern, struct ringside_error *err)
{
	const uint32_t common = PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (!context)
		return error_memory(err);
	pcre2_set_newline(context, PCRE2_NEWLINE_ANYCRLF);
	pcre2_set_max_pattern_length(context, PATTERN_MAX);
	int number;
	size_t at, n = strlen(pattern);
	m->utf = true;
	m->code = pcre2_compile((PCRE2_SPTR)pattern, n, common | PCRE2_UTF, &number, &at, context);
	if (!m->code && number <= PCRE2_ERROR_UTF8_ERR1 && number >= PCRE2_ERROR_UTF8_ERR21) {
		m->utf = false; /* a pattern of other bytes is meant as bytes */
		m->code = pcre2_compile((PCRE2_SPTR)pattern, n, common, &number, &at, context);
	}
	pcre2_compile_context_free(context);
	if (m->code)
		return 0;
	char text[128] = "";
	pcre2_get_error_message(number, (PCRE2_UCHAR *)text, sizeof(text));
	return error_set(
	        err, RINGSIDE_INVALID_ARGUMENT, "the pattern is not a regular expression: %s, at byte %zu", text, at);
}

static int set_limits(struct matcher *m, struct ringside_error *err)
{
	m->context = pcre2_match_context_create(NULL);
	m->data = pcre2_match_data_create(1, NULL); /* the whole match is all that is asked */
	if (!m->context || !m->data)
		return error_memory(err);
	pcre2_set_match_limit(m->context, MATCH_LIMIT);
	pcre2_set_depth_limit(m->context, DEPTH_LIMIT);
	pcre2_set_heap_limit(m->context, HEAP_LIMIT_KIB);
	uint32_t characters = 0;
	pcre2_pattern_info(m->code, PCRE2_INFO_MAXLOOKBEHIND, &characters);
	/* One more, since a line's start and a word's edge look at the character before even where none is counted. */
	m->lookbehind = ((size_t)characters + 1) * (m->utf ? UTF8_MAX : 1);
	if (m->lookbehind > sizeof(m->window) / 4)
		return error_set(err, RINGSIDE_INVALID_ARGUMENT,
		        "the pattern looks back over %u characters: that is too far", characters);
	return 0;
}

int matcher_new(const char *pattern, struct matcher **out, struct ringside_error *err)
{
	struct matcher *m = malloc(sizeof(*m));
	if (!m)
		return error_memory(err);
	memset(m, 0, offsetof(struct matcher, window));
	int code = compile(m, pattern, err);
	if (!code)
		code = set_limits(m, err);
	if (code) {
		matcher_free(m);
		return code;
	}
	*out = m;
	return 0;
}

void matcher_free(struct matcher *m)
{
	if (!m)
		return;
	pcre2_match_data_free(m->data);
	pcre2_match_context_free(m->context);
	pcre2_code_free(m->code);
	free(m);
}

void matcher_restart(struct matcher *m, uint64_t offset)
{
	m->base = offset;
	m->at_start = true;
	m->run = m->start = m->valid = m->used = 0;
}

static bool continues(uint8_t b)
{
	return (b & 0xc0) == 0x80;
}

static size_t less(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

static void drop_front(struct matcher *m, size_t n)
{
	memmove(m->window, m->window + n, m->used - n);
	m->base += n;
	m->at_start = false;
	m->used -= n;
	m->run = less(m->run, n);
	m->start = less(m->start, n);
	m->valid = less(m->valid, n);
	/* The cut may have gone through a character. */
	while (m->utf && m->run < m->valid && continues(m->window[m->run]))
		m->run++;
}

/*
 * What lies before the look-back of the place where the search goes on is not needed. It is moved out only when the
 * free end gets short, so that small pieces do not move the window each time. Where a match that has begun fills it,
 * its older half is given up: half, because a byte at a time would be scanned again for each byte.
 */
uint8_t *matcher_space(struct matcher *m, size_t *room)
{
	size_t keep_from = less(m->start, m->lookbehind);
	if (sizeof(m->window) - m->used < sizeof(m->window) / 2 && keep_from > 0)
		drop_front(m, keep_from);
	if (m->used == sizeof(m->window)) {
		drop_front(m, m->used / 2);
		/* What is looked back to stays in front, so that the cut is not taken for the beginning of a line. */
		if (m->start < m->lookbehind)
			m->start = m->lookbehind;
		while (m->utf && m->start < m->valid && continues(m->window[m->start]))
			m->start++;
	}
	*room = sizeof(m->window) - m->used;
	return m->window + m->used;
}

/* Length of the character at p; 0: none begins there; -1: one begins, and its end is not among the n bytes. */
static int character(const uint8_t *p, size_t n)
{
	uint8_t b = p[0];
	if (b < 0x80)
		return 1;
	int need = b >= 0xc2 && b <= 0xdf ? 2 : b >= 0xe0 && b <= 0xef ? 3 : b >= 0xf0 && b <= 0xf4 ? 4 : 0;
	/* The second byte excludes overlong forms, surrogates, and what is past U+10FFFF. */
	uint8_t low = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
	uint8_t high = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
	for (int i = 1; i < need; i++) {
		if ((size_t)i == n)
			return -1;
		if (i == 1 ? p[i] < low || p[i] > high : !continues(p[i]))
			return 0;
	}
	return need;
}

/* Moves m->valid on to the end of the run. Whether the run may go on with bytes that are yet to come. */
static bool run_may_go_on(struct matcher *m, enum match_end end)
{
	if (!m->utf)
		m->valid = m->used;
	while (m->valid < m->used) {
		int n = character(m->window + m->valid, m->used - m->valid);
		if (n < 0)
			return end != MATCH_FINAL;
		if (n == 0)
			return false;
		m->valid += (size_t)n;
	}
	return true;
}

static int given_up(int r, struct ringside_error *err)
{
	switch (r) {
	case PCRE2_ERROR_MATCHLIMIT:
	case PCRE2_ERROR_DEPTHLIMIT:
	case PCRE2_ERROR_HEAPLIMIT:
		return error_set(err, RINGSIDE_RESOURCE_LIMIT,
		        "the search was given up: on this output the pattern needs too much backtracking");
	case PCRE2_ERROR_NOMEMORY:
		return error_memory(err);
	default:
		return error_set(err, RINGSIDE_INTERNAL, "the search failed (PCRE2 error %d)", r);
	}
}

/* Searches the run in hand. What PCRE2 answers. */
static int search_run(struct matcher *m, bool goes_on, enum match_end end)
{
	uint32_t options = PCRE2_NO_UTF_CHECK;
	if (m->run > 0 || !m->at_start)
		options |= PCRE2_NOTBOL;
	/* A full window cannot wait for more: what matches now is all there will be. */
	bool full = m->used == sizeof(m->window);
	if (!goes_on)
		options |= PCRE2_NOTEOL;
	else if (end != MATCH_FINAL)
		options |= end == MATCH_MORE && !full ? PCRE2_PARTIAL_HARD : PCRE2_PARTIAL_SOFT;
	return pcre2_match(
	        m->code, m->window + m->run, m->valid - m->run, m->start - m->run, options, m->data, m->context);
}

static void take_hit(const struct matcher *m, uint64_t *offset, uint64_t *length)
{
	const size_t *at = pcre2_get_ovector_pointer(m->data);
	*offset = m->base + m->run + at[0];
	*length = less(at[1], at[0]);
}

int matcher_scan(struct matcher *m, size_t n, enum match_end end, bool *found, uint64_t *offset, uint64_t *length,
        struct ringside_error *err)
{
	m->used += n;
	*found = false;
	for (;;) {
		bool goes_on = run_may_go_on(m, end);
		int r = m->valid > m->run && m->start <= m->valid ? search_run(m, goes_on, end) : PCRE2_ERROR_NOMATCH;
		if (r >= 0) {
			*found = true;
			take_hit(m, offset, length);
			return 0;
		}
		if (r != PCRE2_ERROR_NOMATCH && r != PCRE2_ERROR_PARTIAL)
			return given_up(r, err);
		if (r == PCRE2_ERROR_PARTIAL)
			m->start = m->run + pcre2_get_ovector_pointer(m->data)[0];
		else if (m->start < m->valid)
			m->start = m->valid;
		if (goes_on)
			return 0;
		m->run = m->start = ++m->valid; /* behind the byte that is not text */
	}
}
