/*
 * text.h - bytes from outside, made fit to print, and the numbers people write.
 */
#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copies n bytes for a terminal or a log line: printable UTF-8 stays, everything else (controls, escape, DEL, C1,
 * broken UTF-8, bidi overrides) becomes \xNN or \n, \t, \r, \e. Never more than size - 1 bytes, never a cut escape or
 * character; a cut text ends in "…". Returns dst.
 */
char *text_escape(char *dst, size_t size, const void *bytes, size_t n);

/* The same in double quotes, with \" and \\: a program can read it back. Closed also when cut; size ≥ 3. */
char *text_quote(char *dst, size_t size, const void *bytes, size_t n);

/* "250ms", "10s", "1.5m", "2h", "1d", "90" (seconds), "0". Parts of a millisecond are rounded up, so that only 0 is 0.
 * false: not a duration, or over 2^53 ms. */
bool text_parse_duration(const char *s, uint64_t *out_ms);

/* "4096", "64K", "1M", "4G", "2T", "64KiB" (binary multiples). false: not a size, or it does not fit. */
bool text_parse_size(const char *s, uint64_t *out_bytes);

/* Decimal digits alone. false: anything else, or over max. */
bool text_parse_u64(const char *s, uint64_t max, uint64_t *out);

/* "INT", "SIGINT", "int" or "2" → 2; 0: unknown. And back: "SIGINT", or "SIG34"; never NULL. */
int text_parse_signal(const char *s);
const char *text_signal_name(int sig);

#endif
