/*
 * lifecycle.h - a sandbox's way through the world: created, connected to, closed, and settled after a crash.
 *
 * The loop's side. What reaches a provider or the ledger runs as one job at a time on the sandbox's lane (calls.h); its
 * result decides the next step here.
 */
#ifndef SANDBOXES_LIFECYCLE_H
#define SANDBOXES_LIFECYCLE_H

#include "ledger/ledger.h"
#include "sandboxes/sandbox.h"

/* Makes a sandbox of *spec (taken over on success) under a new id. It is CREATING; sandbox_use() waits for it. -ENOMEM,
 * -EBUSY. */
int lifecycle_create(struct daemon *d, struct spec *spec, struct sandbox **out);

/*
 * Answers w once the sandbox is hosted: at once where it is, else after its create or a connection. Where w->start is
 * unset a console daemon that does not run is not started: not_running. May answer before it returns.
 */
void sandbox_use(struct sandbox *s, struct wait *w);
/* Ends everything in it and releases it. Answers w (which may be NULL) when it is TERMINATED or the release failed. */
void sandbox_close(struct sandbox *s, struct wait *w);

enum connect_mode {
	CONNECT_START, /* the console daemon is started where it does not run */
	CONNECT_IF_ALIVE,
	CONNECT_AFTER_LOSS /* the same; it may be about to die, which is worth a moment's wait */
};

/* For the parts that an operation consists of. */
void lifecycle_connect(struct sandbox *s, enum connect_mode mode); /* nothing when an operation is in hand */
void lifecycle_link_down(struct sandbox *s); /* while closing: the console daemon has gone, go on */
/* After a crash: what the ledger says of the resource decides. */
void lifecycle_recover(struct sandbox *s, enum ledger_state resource);

#endif
