/* lines.c - counts bytes since the last line end, as the terminal's modes define one. */
#include "consoles/lines.h"

/* Which bytes end a line. A control character of 0 (_POSIX_VDISABLE) is switched off. */
static void find_ends(const struct termios *t, bool ends[256])
{
	static const int CHARACTERS[] = { VEOF, VEOL, VEOL2 };

	ends['\n'] = !(t->c_iflag & INLCR);
	ends['\r'] = (t->c_iflag & ICRNL) && !(t->c_iflag & IGNCR);
	for (size_t i = 0; i < sizeof(CHARACTERS) / sizeof(CHARACTERS[0]); i++)
		if (t->c_cc[CHARACTERS[i]] != 0)
			ends[t->c_cc[CHARACTERS[i]]] = true;
}

bool lines_fit(const struct termios *t, size_t *pending, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	bool ends[256] = { false };
	size_t line = *pending;

	if (!(t->c_lflag & ICANON)) {
		*pending = 0;
		return true;
	}
	find_ends(t, ends);
	for (size_t i = 0; i < n; i++) {
		if (ends[p[i]])
			line = 0;
		else if (++line > LINES_MAX)
			return false;
	}
	*pending = line;
	return true;
}
