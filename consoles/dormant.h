/*
 * dormant.h - waits for terminals that nobody has open, without spinning on them.
 *
 * A pty whose slave is closed everywhere reports a hang-up for as long as that lasts; polled as usual it would never
 * let the loop sleep. Its program may be alive all the same, and open the terminal again. Here such a master is watched
 * for edges: what the program prints then wakes it, and until then it costs nothing. One epoll descriptor per daemon.
 */
#ifndef CONSOLES_DORMANT_H
#define CONSOLES_DORMANT_H

#include <uv.h>

struct dormant {
	void (*wake)(struct dormant *d); /* something has happened there: read it */
	struct dormant *next;            /* of those that could not be watched */
};

/* Once per daemon. 0 or -errno. */
int dormant_setup(uv_loop_t *loop);

/* d is the caller's and stays until dormant_del(). Where the system refuses the watch (it has none left, or no memory),
 * wake() is called every now and then instead. */
void dormant_add(int master, struct dormant *d);
void dormant_del(int master, struct dormant *d); /* may be called from wake() */

#endif
