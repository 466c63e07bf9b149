/*
 * environment.h - the environment of a console's program: the base that every terminal needs, and what the start adds.
 *
 * Nothing of the daemon's own goes in. The base is TERM, LANG, HOME, PATH, USER and SHELL; a start may override each.
 */
#ifndef CONSOLES_ENVIRONMENT_H
#define CONSOLES_ENVIRONMENT_H

#include "consoles/failure.h"
#include "consoles/options.h"
#include "wire/wire.h"

#define ENVIRONMENT_MAX 1024 /* variables that one start may give */

/* "NAME=value" strings, ends with NULL, in one piece of memory for free(3). -1 and *why: a name that is not one, or a
 * value with a NUL, or no memory. The last of several values for one name counts. */
int environment_build(
        const struct options *o, Wire__EnvVar *const *add, size_t n_add, char ***out, struct failure *why);

/* The value of `name` in an environment; NULL: it is not there. */
const char *environment_get(const char *const *env, const char *name);

/* The shell to start where none is named: the option's, else bash or sh, whichever is there. */
const char *environment_shell(const struct options *o);

#endif
