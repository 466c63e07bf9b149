/*
 * leftovers.h - ending what a lost console daemon's programs left running.
 *
 * Normally there is nothing to do: a keeper that loses its console daemon ends everything of its program by itself.
 * This is for the case that keepers were killed too. What is recorded of a program is its pid and start time; it leads
 * a session of its own, so its session's members are ended with it. What has left the session is not found: it is the
 * next best thing, not a proof.
 *
 * Only for console daemons of our own pid namespace (others' programs die with their PID 1), and only in the boot in
 * which the pid was recorded. A pid is signalled through a pidfd whose start time was compared after it was opened.
 */
#ifndef SANDBOXES_LEFTOVERS_H
#define SANDBOXES_LEFTOVERS_H

#include <stdint.h>
#include <sys/types.h>

/* Keepers need at most this long to end everything themselves: the whole of a close. */
#define LEFTOVERS_KEEPERS_MS 6000

/* Ends the program and its session. start_time: field 22 of /proc/PID/stat; 0: not known, nothing is done. Answers how
 * many processes were signalled. Reads /proc: not on the loop. */
unsigned leftovers_end(pid_t pid, uint64_t start_time);

#endif
