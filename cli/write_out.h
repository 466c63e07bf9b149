/*
 * write_out.h - bytes of a console to standard output: as they are into a file or a pipe; to a terminal text and
 * colours alone.
 */
#ifndef CLI_WRITE_OUT_H
#define CLI_WRITE_OUT_H

#include "cli/filter.h"

struct write_out {
	bool filtered;
	struct filter filter;
};

/* raw: as they are, whatever standard output is. */
void write_out_init(struct write_out *w, bool raw);
/* 0 or -errno. */
int write_out_bytes(struct write_out *w, const void *bytes, size_t n);
/* A gap in the stream, or its end. */
int write_out_end(struct write_out *w);

#endif
