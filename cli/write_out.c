/* write_out.c - see write_out.h. */
#include "cli/write_out.h"

#include <unistd.h>

#include "wire/fd.h"

#define PIECE 4096

void write_out_init(struct write_out *w, bool raw)
{
	w->filtered = !raw && isatty(STDOUT_FILENO);
	filter_init(&w->filter, FILTER_TEXT);
}

int write_out_bytes(struct write_out *w, const void *bytes, size_t n)
{
	uint8_t out[FILTER_ROOM(PIECE)];
	const uint8_t *p = bytes;
	if (!w->filtered)
		return fd_write_all(STDOUT_FILENO, bytes, n);
	while (n > 0) {
		size_t piece = n < PIECE ? n : PIECE;
		int r = fd_write_all(STDOUT_FILENO, out, filter_run(&w->filter, p, piece, out));
		if (r < 0)
			return r;
		p += piece;
		n -= piece;
	}
	return 0;
}

int write_out_end(struct write_out *w)
{
	uint8_t out[8];
	if (!w->filtered)
		return 0;
	size_t n = filter_cut(&w->filter, out);
	/* A colour that the console left on is not to stay on this terminal. */
	out[n++] = 0x1b;
	out[n++] = '[';
	out[n++] = 'm';
	return fd_write_all(STDOUT_FILENO, out, n);
}
