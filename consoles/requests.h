/*
 * requests.h - what each request does, and the answers that come later. Only server.c calls these.
 */
#ifndef CONSOLES_REQUESTS_H
#define CONSOLES_REQUESTS_H

#include "consoles/server.h"

struct request {
	const Wire__ConsoledRequest *message;
	struct ticket ticket;
	struct console *console; /* of the request's name, where its route needs one */
};

void on_hello(struct server *s, const struct request *q);
void on_start(struct server *s, const struct request *q);
void on_list(struct server *s, const struct request *q);
void on_open(struct server *s, const struct request *q);
void on_signal(struct server *s, const struct request *q);
void on_resize(struct server *s, const struct request *q);
void on_close(struct server *s, const struct request *q);
void on_exec(struct server *s, const struct request *q);
void on_take(struct server *s, const struct request *q);
void on_kept(struct server *s, const struct request *q);
void on_shutdown(struct server *s, const struct request *q);

/* A start's answer, when it is due. */
void answer_start(const struct observed *o, void *ctx);

#endif
