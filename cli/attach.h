/* attach.h - one person at one console: the loop between an outer terminal and an opened console. */
#ifndef CLI_ATTACH_H
#define CLI_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "client/ringside.h"

struct attach_options {
	bool read_only;
	bool raw; /* no filter */
	bool from_given;
	uint64_t from;
};

enum attach_end {
	ATTACH_DETACHED, /* Ctrl-], or the end of the input */
	ATTACH_ENDED,    /* the console has ended: its info has the exit */
	ATTACH_GONE,     /* the connection to it broke */
	ATTACH_SIGNAL,   /* this program was asked to end: `signal` */
	ATTACH_OUTPUT,   /* standard output takes no more */
	ATTACH_REFUSED,  /* err */
};

struct attach_result {
	enum attach_end end;
	int signal;
	uint64_t next_offset; /* what was shown up to */
	struct ringside_error err;
};

/* Runs until one of the ends. The outer terminal is as it was before when this returns. */
void attach_run(struct ringside_console *c, const struct attach_options *options, struct attach_result *out);

#endif
