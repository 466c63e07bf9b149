/* owner.c - the listening socket and the connection that counts. */
#include "consoles/owner.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/fd.h"
#include "wire/log.h"
#include "wire/sock.h"
#include "wire/unpack.h"
#include "wire/uvconn.h"

#define ACCEPT_RETRY_MS 100 /* out of descriptors: the socket stays readable, and polling it would spin */
#define MESSAGE_BYTES   512

struct owner {
	uv_poll_t listener;
	uv_timer_t retry;
	unsigned handles; /* not closed yet; the memory goes with the last */
	int listen_fd;
	const char *sandbox;
	owner_cb *on_request;
	void *ctx;
	struct uvconn *conn; /* NULL: nobody is there */
	uint64_t number;     /* of the connection */
	bool welcome;
	bool freed;
};

/* ---- The connection ---- */

static void drop_connection(struct owner *o)
{
	uvconn_close(o->conn);
	o->conn = NULL;
}

static void send_reply(struct owner *o, const Wire__ConsoledReply *r, const int *fds, unsigned nfds)
{
	int err;

	if (!o->conn)
		return;
	err = uvconn_send_message(o->conn, &r->base, fds, nfds);
	/* Descriptors that cannot be sent (there are no more) can be taken later; the answer itself must not be lost.
	 */
	if (err < 0 && err != -EPIPE && nfds > 0)
		err = uvconn_send_message(o->conn, &r->base, NULL, 0);
	if (err < 0 && err != -EPIPE) {
		log_warn(o->sandbox, NULL, "dropping the owner's connection: %s", strerror(-err));
		drop_connection(o);
	}
}

static void break_off(struct owner *o, const char *why)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__Error e = WIRE__ERROR__INIT;

	log_warn(o->sandbox, NULL, "the owner broke the protocol: %s", why);
	e.code = RESULT_PROTOCOL_ERROR;
	e.message = (char *)(uintptr_t)why; /* only read */
	r.body_case = WIRE__CONSOLED_REPLY__BODY_ERROR;
	r.error = &e;
	send_reply(o, &r, NULL, 0);
	drop_connection(o);
}

static const char *fault_of(const struct owner *o, const Wire__ConsoledRequest *q)
{
	if (!q)
		return "not a request";
	if (q->id == 0)
		return "a request has no id";
	if (!o->welcome && q->body_case != WIRE__CONSOLED_REQUEST__BODY_HELLO)
		return "a request before hello";
	return NULL;
}

static void on_frame(struct uvconn *u, const struct frame *f, void *ctx)
{
	struct owner *o = ctx;
	struct unpack memory;
	Wire__ConsoledRequest *q;
	const char *fault;

	if (u != o->conn)
		return;
	if (f->type != FRAME_MESSAGE) {
		break_off(o, "a frame that is no message");
		return;
	}
	unpack_init(&memory);
	q = wire__consoled_request__unpack(&memory.allocator, f->length, f->payload);
	if (!q && memory.out_of_memory && unpack_id(f) != 0) {
		const struct ticket t = { .connection = o->number, .id = unpack_id(f) };

		owner_refuse(o, &t, RESULT_RESOURCE_LIMIT, "the console daemon is out of memory");
		return;
	}
	fault = fault_of(o, q);
	if (fault) {
		break_off(o, fault);
	} else {
		const struct ticket t = { .connection = o->number, .id = q->id };

		o->on_request(q, &t, o->ctx);
	}
	if (q)
		wire__consoled_request__free_unpacked(q, NULL);
}

static void on_gone(struct uvconn *u, int err, void *ctx)
{
	struct owner *o = ctx;

	if (u != o->conn)
		return;
	if (err == -EPROTO)
		break_off(o, "not a frame");
	else
		log_info(o->sandbox, NULL, "the owner has gone");
	drop_connection(o);
}

static const struct uvconn_handler conn_handler = { .on_frame = on_frame, .on_gone = on_gone };

/* ---- The socket ---- */

static bool may_own(struct owner *o, int fd)
{
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int err = sock_peer(fd, &pid, &uid, &gid);

	if (err == 0 && (uid == geteuid() || uid == 0))
		return true;
	log_warn(o->sandbox, NULL, "refused a connection of another user");
	return false;
}

static void adopt(struct owner *o, int fd)
{
	struct uvconn *conn;
	int err;

	if (!may_own(o, fd)) {
		fd_close(&fd);
		return;
	}
	err = uvconn_new(o->listener.loop, fd, OWNER_QUEUE, &conn_handler, o, &conn);
	if (err < 0) {
		log_error(o->sandbox, NULL, "cannot serve a connection: %s", strerror(-err));
		fd_close(&fd);
		return;
	}
	drop_connection(o);
	o->conn = conn;
	o->number++;
	o->welcome = false;
}

static void on_connection(uv_poll_t *poll, int status, int events);

static void on_retry(uv_timer_t *timer)
{
	struct owner *o = timer->data;

	uv_poll_start(&o->listener, UV_READABLE, on_connection);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct owner *o = poll->data;
	int fd;

	(void)events;
	fd = status < 0 ? -1 : accept4(o->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		adopt(o, fd);
		return;
	}
	if (status == 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return;
	log_error(o->sandbox, NULL, "cannot accept a connection: %s",
	        status < 0 ? "error on the socket" : strerror(errno));
	uv_poll_stop(&o->listener);
	uv_timer_start(&o->retry, on_retry, ACCEPT_RETRY_MS, 0);
}

/* ---- Life ---- */

int owner_new(uv_loop_t *loop, int listen_fd, const char *sandbox, owner_cb *on_request, void *ctx, struct owner **out)
{
	struct owner *o = calloc(1, sizeof(*o));
	int err;

	if (!o)
		return -ENOMEM;
	err = uv_poll_init(loop, &o->listener, listen_fd);
	if (err < 0) {
		free(o);
		return err;
	}
	(void)uv_timer_init(loop, &o->retry); /* cannot fail */
	o->handles = 2;
	o->listener.data = o;
	o->retry.data = o;
	o->listen_fd = listen_fd;
	o->sandbox = sandbox;
	o->on_request = on_request;
	o->ctx = ctx;
	uv_poll_start(&o->listener, UV_READABLE, on_connection);
	*out = o;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct owner *o = handle->data;

	if (--o->handles == 0)
		free(o);
}

void owner_free(struct owner *o)
{
	if (!o || o->freed)
		return;
	o->freed = true;
	drop_connection(o);
	uv_close((uv_handle_t *)&o->listener, on_closed);
	uv_close((uv_handle_t *)&o->retry, on_closed);
	fd_close(&o->listen_fd);
}

/* ---- Requests and answers ---- */

void owner_welcome(struct owner *o)
{
	o->welcome = true;
}

int owner_take_fd(struct owner *o, unsigned i)
{
	return o->conn ? conn_take_fd(uvconn_conn(o->conn), i) : -1;
}

void owner_reply(struct owner *o, const struct ticket *t, Wire__ConsoledReply *r, const int *fds, unsigned nfds)
{
	if (t->connection != o->number)
		return;
	r->id = t->id;
	send_reply(o, r, fds, nfds);
}

void owner_refuse(struct owner *o, const struct ticket *t, enum result code, const char *fmt, ...)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__Error e = WIRE__ERROR__INIT;
	char message[MESSAGE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	e.code = (uint32_t)code;
	e.message = message;
	r.body_case = WIRE__CONSOLED_REPLY__BODY_ERROR;
	r.error = &e;
	owner_reply(o, t, &r, NULL, 0);
}

void owner_done(struct owner *o, const struct ticket *t)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;
	Wire__Done done = WIRE__DONE__INIT;

	r.body_case = WIRE__CONSOLED_REPLY__BODY_DONE;
	r.done = &done;
	owner_reply(o, t, &r, NULL, 0);
}

void owner_event(struct owner *o, Wire__ConsoleEvent *e, const int *fds, unsigned nfds)
{
	Wire__ConsoledReply r = WIRE__CONSOLED_REPLY__INIT;

	if (!o->welcome)
		return; /* it does not know yet what it speaks to; its list will say */
	r.body_case = WIRE__CONSOLED_REPLY__BODY_EVENT;
	r.event = e;
	send_reply(o, &r, fds, nfds);
}

size_t owner_queued(const struct owner *o)
{
	return o->conn ? conn_queued(uvconn_conn(o->conn)) : 0;
}
