/*
 * launch.h - the way of a forked child to its program: session, terminal, streams, signals, directory, exec.
 *
 * Runs between fork and exec: calls only what signal-safety(7) lists. It comes back never; a step that fails is written
 * as a struct launch_failure to a close-on-exec pipe, so that end of file there means that the program runs.
 */
#ifndef CONSOLES_LAUNCH_H
#define CONSOLES_LAUNCH_H

#include <stdint.h>

#include "consoles/keeper.h"

struct launch_failure {
	int32_t step, error;
};

/* report: the pipe's write end. spec's descriptors are the only others that it looks at; all but 0, 1, 2 are gone
 * after. */
_Noreturn void launch_program(const struct keeper_spec *spec, int report);

#endif
