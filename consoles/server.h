/*
 * server.h - the console daemon as its owner sees it: requests in, answers and events out.
 *
 * server.c wires owner, table and open answers together and routes requests; requests.c holds what each does.
 */
#ifndef CONSOLES_SERVER_H
#define CONSOLES_SERVER_H

#include <stdint.h>

#include "consoles/consoled.h"
#include "consoles/observe.h"
#include "consoles/owner.h"
#include "consoles/table.h"

#define INSTANCE_BYTES 16

struct server {
	struct consoled *daemon;
	struct owner *owner;
	struct table *table;
	struct observers *observers;
	uint8_t instance[INSTANCE_BYTES]; /* random: tells a restarted daemon from the same one */

	/* Once a shutdown was asked for: */
	bool ending;
	unsigned end_waits; /* consoles, and the execs as one, that are not gone yet */
	bool execs_waited_for;
	struct ticket end_ticket; /* of the last who asked */
};

/* Serves the owner from now on. listen_fd listens already and is taken over on success. 0 or -errno. */
int server_init(struct server *s, struct consoled *d, int listen_fd);
/* Closes every connection. Ends no process: that has been done, or the daemon's end does it. */
void server_release(struct server *s);

#endif
