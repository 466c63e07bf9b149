/* signals.h - signals as a new program expects them. */
#ifndef WIRE_SIGNALS_H
#define WIRE_SIGNALS_H

/*
 * Every signal back to its default action, between fork and exec: ignored ones survive an exec. By the kernel's own
 * rt_sigaction(2), since the C library keeps its two internal signals from sigaction(), and a posix_spawn() of it
 * somewhere up our ancestry (make's, for one) leaves just those ignored for all descendants. Async-signal-safe.
 */
void signals_default(void);

#endif
