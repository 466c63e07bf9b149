/*
 * text.c - bytes from outside, made fit to print, and the numbers people write.
 *
 * Characters are told apart by hand, not by <wctype.h>: daemons run without a locale, and the answer must not change
 * with one. What is kept is kept for how it looks; whatever moves, hides or turns other text is written out as bytes.
 */
#include "wire/text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ELLIPSIS "…"

/* ---- Escaping ---- */

/* The character at p: its length, and *c; 0: not UTF-8 (cut, overlong, surrogate, past U+10FFFF). */
static size_t decode_utf8(const unsigned char *p, size_t n, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len;
	uint32_t v;

	if (p[0] < 0x80) {
		*c = p[0];
		return 1;
	}
	if ((p[0] & 0xe0) == 0xc0)
		len = 2;
	else if ((p[0] & 0xf0) == 0xe0)
		len = 3;
	else if ((p[0] & 0xf8) == 0xf0)
		len = 4;
	else
		return 0;
	if (len > n)
		return 0;
	v = p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (p[i] & 0x3fu);
	}
	if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
		return 0;
	*c = v;
	return len;
}

/* Ranges that are never printed. Sorted. Source: Unicode 15, categories Cc, Cf, Zl, Zp, and noncharacters; U+200C and
 * U+200D stay, since scripts and emoji are joined by them. */
static const struct range {
	uint32_t first, last;
} unprintable[] = {
	{ 0x0000, 0x001f },   /* C0 */
	{ 0x007f, 0x009f },   /* DEL, C1 */
	{ 0x00ad, 0x00ad },   /* soft hyphen */
	{ 0x061c, 0x061c },   /* Arabic letter mark */
	{ 0x180e, 0x180e },   /* Mongolian vowel separator */
	{ 0x200b, 0x200b },   /* zero width space */
	{ 0x200e, 0x200f },   /* directional marks */
	{ 0x2028, 0x202e },   /* line and paragraph separator, bidi embeddings and overrides */
	{ 0x2060, 0x206f },   /* word joiner, invisible operators, bidi isolates */
	{ 0xfdd0, 0xfdef },   /* noncharacters */
	{ 0xfeff, 0xfeff },   /* byte order mark */
	{ 0xfff0, 0xfffb },   /* unassigned, interlinear annotation */
	{ 0xfffe, 0xffff },   /* noncharacters */
	{ 0xe0000, 0xe0fff }, /* tags, variation supplements */
};

static bool printable(uint32_t c)
{
	for (size_t i = 0; i < sizeof(unprintable) / sizeof(unprintable[0]); i++) {
		if (c <= unprintable[i].last)
			return c < unprintable[i].first;
	}
	return (c & 0xfffe) != 0xfffe; /* the last two of each plane are noncharacters */
}

/* What is written for the bytes at p: at most 4 bytes in out, *used of the input. */
static size_t write_unit(const unsigned char *p, size_t n, bool quoted, char out[8], size_t *used)
{
	static const char digits[] = "0123456789abcdef";
	static const char special[] = "\n\t\r\033", letter[] = "ntre";
	uint32_t c = 0;
	size_t len = decode_utf8(p, n, &c);
	const char *at;

	*used = 1;
	if (quoted && (p[0] == '"' || p[0] == '\\')) {
		out[0] = '\\';
		out[1] = (char)p[0];
		return 2;
	}
	if (len > 0 && printable(c)) {
		memcpy(out, p, len);
		*used = len;
		return len;
	}
	out[0] = '\\';
	at = p[0] != '\0' ? strchr(special, p[0]) : NULL;
	if (at != NULL) {
		out[1] = letter[at - special];
		return 2;
	}
	out[1] = 'x';
	out[2] = digits[p[0] >> 4];
	out[3] = digits[p[0] & 0xf];
	return 4;
}

/* Escapes into at most `room` bytes, without a NUL. Returns how many. */
static size_t escape(char *dst, size_t room, const unsigned char *p, size_t n, bool quoted)
{
	const size_t dots = sizeof(ELLIPSIS) - 1;
	size_t len = 0;
	size_t whole = 0; /* where a cut would go: the last end of a unit with room for the dots behind it */

	while (n > 0) {
		char unit[8];
		size_t used, w = write_unit(p, n, quoted, unit, &used);

		if (w > room - len) {
			if (dots > room)
				return whole;
			memcpy(dst + whole, ELLIPSIS, dots);
			return whole + dots;
		}
		memcpy(dst + len, unit, w);
		len += w;
		if (dots <= room && len <= room - dots)
			whole = len;
		p += used;
		n -= used;
	}
	return len;
}

char *text_escape(char *dst, size_t size, const void *bytes, size_t n)
{
	if (size > 0)
		dst[escape(dst, size - 1, bytes, n, false)] = '\0';
	return dst;
}

char *text_quote(char *dst, size_t size, const void *bytes, size_t n)
{
	size_t len;

	if (size < 3) {
		if (size > 0)
			dst[0] = '\0';
		return dst;
	}
	len = escape(dst + 1, size - 3, bytes, n, true);
	dst[0] = '"';
	dst[len + 1] = '"';
	dst[len + 2] = '\0';
	return dst;
}

/* ---- Numbers ---- */

#define MAX_DURATION_MS ((uint64_t)1 << 53) /* what a JSON number holds exactly */
#define MAX_DECIMALS    9

/* Digits at *s, at least one, up to max. Moves *s behind them. */
static bool take_digits(const char **s, uint64_t max, uint64_t *out)
{
	const char *p = *s;
	uint64_t v = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v) || v > max)
			return false;
	}
	if (p == *s)
		return false;
	*s = p;
	*out = v;
	return true;
}

bool text_parse_u64(const char *s, uint64_t max, uint64_t *out)
{
	uint64_t v;

	if (!take_digits(&s, max, &v) || *s != '\0')
		return false;
	*out = v;
	return true;
}

static uint64_t unit_of_duration(const char *s)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = { { "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(s, units[i].name) == 0)
			return units[i].ms;
	}
	return 0;
}

bool text_parse_duration(const char *s, uint64_t *out_ms)
{
	uint64_t whole, part = 0, scale = 1, unit, ms;

	if (!take_digits(&s, UINT64_MAX, &whole))
		return false;
	if (*s == '.') {
		const char *digits = ++s;

		if (!take_digits(&s, UINT64_MAX, &part) || s - digits > MAX_DECIMALS)
			return false;
		for (ptrdiff_t i = 0; i < s - digits; i++)
			scale *= 10;
	}
	unit = unit_of_duration(s);
	if (unit == 0 || __builtin_mul_overflow(whole, unit, &ms))
		return false;
	/* part < 10^9 and unit < 10^8: the product fits. */
	if (__builtin_add_overflow(ms, (part * unit + scale - 1) / scale, &ms) || ms > MAX_DURATION_MS)
		return false;
	*out_ms = ms;
	return true;
}

bool text_parse_size(const char *s, uint64_t *out_bytes)
{
	static const char units[] = "KMGT";
	uint64_t v;

	if (!take_digits(&s, UINT64_MAX, &v))
		return false;
	if (*s != '\0') {
		const char *unit = strchr(units, *s);
		unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;

		if (unit == NULL || v > UINT64_MAX >> shift)
			return false;
		s++;
		if (strcmp(s, "") != 0 && strcmp(s, "iB") != 0)
			return false;
		v <<= shift;
	}
	*out_bytes = v;
	return true;
}

/* ---- Signals ---- */

#define LAST_SIGNAL 64 /* Linux's _NSIG - 1 */

/* Names of this architecture's numbers. Real-time signals have numbers only: where they start is the C library's. */
static const char *const signal_names[LAST_SIGNAL + 1] = {
#define NAMED(name) [SIG##name] = "SIG" #name
	NAMED(HUP),
	NAMED(INT),
	NAMED(QUIT),
	NAMED(ILL),
	NAMED(TRAP),
	NAMED(ABRT),
	NAMED(BUS),
	NAMED(FPE),
	NAMED(KILL),
	NAMED(USR1),
	NAMED(SEGV),
	NAMED(USR2),
	NAMED(PIPE),
	NAMED(ALRM),
	NAMED(TERM),
	NAMED(STKFLT),
	NAMED(CHLD),
	NAMED(CONT),
	NAMED(STOP),
	NAMED(TSTP),
	NAMED(TTIN),
	NAMED(TTOU),
	NAMED(URG),
	NAMED(XCPU),
	NAMED(XFSZ),
	NAMED(VTALRM),
	NAMED(PROF),
	NAMED(WINCH),
	NAMED(IO),
	NAMED(PWR),
	NAMED(SYS),
#undef NAMED
#define NUMBERED(n) [n] = "SIG" #n
	NUMBERED(32),
	NUMBERED(33),
	NUMBERED(34),
	NUMBERED(35),
	NUMBERED(36),
	NUMBERED(37),
	NUMBERED(38),
	NUMBERED(39),
	NUMBERED(40),
	NUMBERED(41),
	NUMBERED(42),
	NUMBERED(43),
	NUMBERED(44),
	NUMBERED(45),
	NUMBERED(46),
	NUMBERED(47),
	NUMBERED(48),
	NUMBERED(49),
	NUMBERED(50),
	NUMBERED(51),
	NUMBERED(52),
	NUMBERED(53),
	NUMBERED(54),
	NUMBERED(55),
	NUMBERED(56),
	NUMBERED(57),
	NUMBERED(58),
	NUMBERED(59),
	NUMBERED(60),
	NUMBERED(61),
	NUMBERED(62),
	NUMBERED(63),
	NUMBERED(64),
#undef NUMBERED
};

int text_parse_signal(const char *s)
{
	uint64_t number;

	if (text_parse_u64(s, LAST_SIGNAL, &number))
		return (int)number;
	if (strncasecmp(s, "SIG", 3) == 0)
		s += 3;
	for (int sig = 1; sig <= LAST_SIGNAL; sig++) {
		if (signal_names[sig] != NULL && strcasecmp(s, signal_names[sig] + 3) == 0)
			return sig;
	}
	return 0;
}

const char *text_signal_name(int sig)
{
	return sig >= 1 && sig <= LAST_SIGNAL && signal_names[sig] != NULL ? signal_names[sig] : "SIG?";
}
