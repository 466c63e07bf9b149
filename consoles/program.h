/*
 * program.h - what a start's request comes to: the file to execute, its arguments, environment and folder.
 *
 * All of it is worked out before anything is opened or forked, so that a wrong request costs nothing.
 */
#ifndef CONSOLES_PROGRAM_H
#define CONSOLES_PROGRAM_H

#include "consoles/failure.h"
#include "consoles/options.h"
#include "wire/wire.h"

struct program {
	char *path;  /* of the file to execute */
	char **argv; /* ends with NULL */
	char **envp;
	char *cwd; /* absolute */
};

/*
 * Fills *out, to be given to program_release(). An empty argv is the shell; an empty cwd the workspace, a relative one
 * is below it, and /workspace means it wherever it is. A name without a slash is searched along the program's own PATH.
 * -1 and *why, with of_exec set where the request was fine and the program is not there or cannot be run.
 */
int program_prepare(const struct options *o, const Wire__ConsoleSpec *spec, struct program *out, struct failure *why);
void program_release(struct program *p); /* accepts one that is all zero */

#endif
