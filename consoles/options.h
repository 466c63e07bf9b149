/*
 * options.h - the console daemon's arguments, as whoever starts it gives them. Its environment says nothing.
 */
#ifndef CONSOLES_OPTIONS_H
#define CONSOLES_OPTIONS_H

#include <stdbool.h>

/* Strings are argv's. */
struct options {
	int listen_fd;         /* a bound unix stream socket that does not listen yet */
	int commit_fd;         /* one byte from here allows the daemon to serve; -1: none is waited for */
	const char *sandbox;   /* a label for log lines */
	const char *workspace; /* absolute: where consoles start */
	const char *home, *user, *shell, *path; /* of the consoles' environment */
	bool version;                           /* only the version was asked for */
};

/* 0; -EINVAL: *why says what is wrong, in a few words that live as long as argv. */
int options_parse(int argc, char **argv, struct options *out, const char **why);

#endif
