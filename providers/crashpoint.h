/*
 * crashpoint.h - named places at which a test can have the process die as by kill -9.
 *
 * CRASH_POINT("host.create.after_mkdir") does nothing unless the build defines RINGSIDE_CRASH_POINTS and the
 * environment's RINGSIDE_CRASH_AT is that name. Put one after each step that leaves something behind.
 */
#ifndef PROVIDERS_CRASHPOINT_H
#define PROVIDERS_CRASHPOINT_H

#ifdef RINGSIDE_CRASH_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void crash_point(const char *name)
{
	const char *at = getenv("RINGSIDE_CRASH_AT");

	if (at && strcmp(at, name) == 0)
		kill(getpid(), SIGKILL);
}
#define CRASH_POINT(name) crash_point(name)
#else
#define CRASH_POINT(name) ((void)0)
#endif

#endif
