/*
 * guard.h - a parent for the test program that knows every process the tests started, however it was detached.
 *
 * guard_start() forks: the parent becomes a subreaper, reaps whatever is orphaned below it, as any PID 1 would, and
 * passes the program's end on; the child goes on and runs the tests. So what a test leaves behind (a daemon, a keeper,
 * a program that called setsid) is found by descent, which no change of session, environment or working directory can
 * hide.
 */
#ifndef TESTS_SUPPORT_GUARD_H
#define TESTS_SUPPORT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Once, first thing in main(). Returns in the child. */
void guard_start(void);

/* Every process below the guard but the test program itself (its own children included), up to max. How many. */
size_t guard_descendants(pid_t *out, size_t max);

/* Is there still a process pid that is not a zombie? */
bool process_alive(pid_t pid);

/* Its parent, or 0 when there is no such process. */
pid_t process_parent(pid_t pid);

/* Its arguments joined by spaces, or "(name)" for one that has none. Returns dst. */
char *process_line(pid_t pid, char *dst, size_t size);

#endif
