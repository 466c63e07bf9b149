/*
 * consoled.h - what every part of the console daemon may know: how it was started, what its owner has set, its loop.
 *
 * One of it per daemon, filled before the first console starts. The parts keep a pointer to it and never copy it, since
 * the owner's hello changes the two settings below.
 */
#ifndef CONSOLES_CONSOLED_H
#define CONSOLES_CONSOLED_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "consoles/options.h"

#define CONSOLE_LIMIT_DEFAULT 8   /* live consoles of one sandbox */
#define CONSOLE_LIMIT_MAX     256 /* what a setting may raise it to */
#define ENDED_MAX             32  /* ended consoles whose rings stay readable; the oldest goes first */
#define RING_BYTES_DEFAULT    ((size_t)1024 * 1024)

struct consoled {
	uv_loop_t *loop;
	struct options options;
	uint32_t console_limit; /* set by the owner's hello */
	size_t ring_bytes;      /* of a console that does not say; set by the owner's hello */
};

#endif
