/* children.h - holding on to the children of a process that is about to be killed. */
#ifndef PROVIDERS_CHILDREN_H
#define PROVIDERS_CHILDREN_H

#include <stdint.h>
#include <sys/types.h>

#define CHILDREN_MAX 512 /* a console daemon has a keeper for each of at most 256 consoles, and one for each exec */

struct children {
	unsigned n;
	int pidfds[CHILDREN_MAX];
};

/* Opens a pidfd of each child of parent, which must not be starting new ones (stop it first). What is over the maximum
 * is left out. 0 or -errno. */
int children_open(pid_t parent, struct children *out);
/* Waits until all have ended. 0, or -ETIMEDOUT at deadline_ms (clock_mono_ms()). */
int children_wait(const struct children *c, uint64_t deadline_ms);
void children_close(struct children *c);

#endif
