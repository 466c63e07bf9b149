/*
 * recovery.h - what the ledger knows, brought back into memory at the daemon's start, and each sandbox taken up where
 * it stands.
 *
 *   ledger says          what follows
 *   RUNNING, live        attach; connect if its console daemon lives, else its consoles are LOST and it waits to be used
 *   CREATING, pending    lookup: found is released, proven absent is released, else `unknown` and FAILED
 *   CREATING, live       released: whoever asked for it never got an answer
 *   releasing            the close goes on
 *   released             what was kept of it goes, and it is TERMINATED
 */
#ifndef SANDBOXES_RECOVERY_H
#define SANDBOXES_RECOVERY_H

#include "sandboxes/daemon.h"

/* Reads; before the loop runs, since it waits for the disk. 0 or -errno, with a message for people. */
int recovery_load(struct daemon *d, char *message, unsigned size);
/* Begins what the table says, for all that were loaded; does not wait. */
void recovery_begin(struct daemon *d);

#endif
