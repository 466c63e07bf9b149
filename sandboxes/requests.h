/*
 * requests.h - the handlers of the control protocol's requests; control.c has the table that calls them.
 *
 * Each consumes its request. requests.c: the daemon's and sandboxes'; requests_console.c: consoles'; broker.c: those
 * that hand the client a connection of its own.
 */
#ifndef SANDBOXES_REQUESTS_H
#define SANDBOXES_REQUESTS_H

#include "sandboxes/control.h"
#include "sandboxes/sandbox.h"

void on_hello(struct request *r);
void on_status(struct request *r);
void on_create(struct request *r);
void on_list(struct request *r);
void on_show(struct request *r);
void on_remove(struct request *r);
void on_down(struct request *r);

void on_start(struct request *r);
void on_consoles(struct request *r);
void on_signal(struct request *r);
void on_resize(struct request *r);
void on_close(struct request *r);

void on_open(struct request *r);
void on_exec(struct request *r);

/* ---- What several of them need ---- */

void request_greet(struct request *r, const char *client_name);
void request_no_such_sandbox(struct request *r, const char *name);
void request_bad_name(struct request *r, const char *name);
void request_no_such_console(struct request *r);

/* Finds the sandbox of a start or exec, which may ask for "default" to be made. false: it was answered. */
bool request_sandbox_or_default(struct request *r, const char *name, bool create_default);

/* How long a console daemon has for an answer that takes no time. */
#define ANSWER_MS 10000

#endif
