/*
 * hosting.h - a sandbox and its console daemon: the link, what it tells of consoles, its loss, and finding it again.
 */
#ifndef SANDBOXES_HOSTING_H
#define SANDBOXES_HOSTING_H

#include "sandboxes/sandbox.h"

/* For a sandbox that is being made: what hosting it will need, so that to find its console daemon again needs no memory.
 * -ENOMEM. */
int hosting_init(struct sandbox *s);

/* A connection was made: hello, what consoles there are, all their memory. Then the sandbox is hosted and its uses are
 * answered. Takes fd over. */
void hosting_begin(struct sandbox *s, int fd);
/* There is no console daemon: RUNNING consoles are LOST, what their programs left running is ended. */
void hosting_dead(struct sandbox *s);
/* It could not be found out, or not be reached: tried again later, a bounded number of times. */
void hosting_retry(struct sandbox *s);
/* What its console daemon told, or what it should have handed over, did not come in for want of memory or descriptors:
 * it is asked again soon. */
void hosting_missed(struct sandbox *s);
/* Asks a hosted sandbox for one console's memory, and answers w when that has come, or why not. */
void hosting_hold(struct sandbox *s, const char *console, struct wait *w);
/* Asks a hosted sandbox how its consoles are, and answers w when that is known here, or after timeout_ms. */
void hosting_refresh(struct sandbox *s, uint64_t timeout_ms, struct wait *w);
/* Drops the link, if any, and plans nothing. What was in hand there is answered. */
void hosting_end(struct sandbox *s);
/* The same for a sandbox that is about to be freed. */
void hosting_release(struct sandbox *s);

#endif
