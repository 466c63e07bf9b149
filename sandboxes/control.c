/*
 * control.c - the socket and the clients of control.h, and the table of requests.
 *
 * What is true of each kind of request stands in its row and is checked once, above all handlers: that the daemon still
 * takes requests, that a sandbox of the name exists, that a console's name is one.
 */
#include "sandboxes/control.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandboxes/requests.h"
#include "sandboxes/sandbox.h"
#include "wire/fd.h"
#include "wire/log.h"
#include "wire/name.h"
#include "wire/sock.h"
#include "wire/text.h"
#include "wire/unpack.h"
#include "wire/uvconn.h"

#define LISTEN_BACKLOG  128
#define ACCEPTS_AT_ONCE 16
#define ACCEPT_PAUSE_MS 100 /* when descriptors have run out: those who wait are taken as soon as some are free */
#define CLIENT_NAME     64
#define MESSAGE_BYTES   512

/* A reply that does not fit the connection's queue yet. */
struct chunk {
	struct chunk *next;
	int fds[CONTROL_REPLY_FDS];
	unsigned nfds;
	size_t n;
	uint8_t bytes[];
};

struct client {
	struct client *next, **at; /* in the control's list, while it is connected */
	struct control *control;
	struct uvconn *conn;
	unsigned refs; /* the connection's, each request's, and a callback's while it runs */
	unsigned outstanding;
	bool greeted;
	bool gone;
	struct chunk *backlog, **backlog_end;
	size_t backlog_bytes;
	char name[CLIENT_NAME];
};

struct control {
	struct daemon *daemon;
	int dirfd;
	int fd;
	uv_poll_t poll;
	uv_timer_t pause;
	unsigned handles; /* not yet closed */
	unsigned nclients;
	struct client *clients;
	bool full_said;
};

/* ---- Clients ---- */

static void client_unref(struct client *c)
{
	if (--c->refs > 0)
		return;
	free(c);
}

static void drop_backlog(struct client *c)
{
	while (c->backlog) {
		struct chunk *k = c->backlog;
		c->backlog = k->next;
		for (unsigned i = 0; i < k->nfds; i++)
			fd_close(&k->fds[i]);
		free(k);
	}
	c->backlog_end = &c->backlog;
	c->backlog_bytes = 0;
}

static void client_drop(struct client *c)
{
	if (c->gone)
		return;
	c->gone = true;
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	c->control->nclients--;
	drop_backlog(c);
	uvconn_close(c->conn);
	client_unref(c);
}

/* ---- Sending ---- */

static int send_chunk(struct client *c, const void *bytes, size_t n, const int *fds, unsigned nfds)
{
	int r = conn_send(uvconn_conn(c->conn), FRAME_MESSAGE, 0, bytes, n, fds, nfds);

	uvconn_sent(c->conn);
	return r;
}

/* Holds it back until the queue has room. */
static int add_backlog(struct client *c, const void *bytes, size_t n, const int *fds, unsigned nfds)
{
	if (n > CONTROL_BACKLOG_BYTES - c->backlog_bytes)
		return -ENOBUFS;
	struct chunk *k = malloc(sizeof(*k) + n);
	if (!k)
		return -ENOMEM;
	*k = (struct chunk){ .n = n };
	memcpy(k->bytes, bytes, n);
	for (; k->nfds < nfds; k->nfds++) {
		k->fds[k->nfds] = fd_dup_cloexec(fds[k->nfds]);
		if (k->fds[k->nfds] >= 0)
			continue;
		while (k->nfds-- > 0)
			fd_close(&k->fds[k->nfds]);
		free(k);
		return -EMFILE;
	}
	*c->backlog_end = k;
	c->backlog_end = &k->next;
	c->backlog_bytes += n;
	return 0;
}

static void on_drained(struct uvconn *u, void *ctx)
{
	struct client *c = ctx;

	(void)u;
	while (c->backlog) {
		struct chunk *k = c->backlog;
		int r = send_chunk(c, k->bytes, k->n, k->fds, k->nfds);
		if (r == -ENOBUFS || r == -EPIPE || r == -ECONNRESET) /* of one that has gone on_gone() tells */
			return;
		if (r < 0) {
			log_warn(NULL, NULL, "dropped client %s, which cannot be answered: %s", c->name, strerror(-r));
			client_drop(c);
			return;
		}
		c->backlog = k->next;
		if (!c->backlog)
			c->backlog_end = &c->backlog;
		c->backlog_bytes -= k->n;
		for (unsigned i = 0; i < k->nfds; i++)
			fd_close(&k->fds[i]);
		free(k);
	}
}

/* -EMFILE: nothing was sent, for want of descriptors. After any other failure the client is gone, or is dropped here.
 */
static int client_send(struct client *c, const Wire__ControlReply *m, const int *fds, unsigned nfds)
{
	if (c->gone)
		return -EPIPE;
	uint8_t bytes[FRAME_MAX_PAYLOAD]; /* not from the heap: where that is exhausted, the answer says so */
	size_t n = wire__control_reply__get_packed_size(m);
	int r = -EMSGSIZE;

	if (n <= sizeof(bytes)) {
		wire__control_reply__pack(m, bytes);
		r = c->backlog ? -ENOBUFS : send_chunk(c, bytes, n, fds, nfds);
		if (r == -ENOBUFS)
			r = add_backlog(c, bytes, n, fds, nfds);
	}
	/* A dead connection says so itself; what cannot be answered any more must not be waited for. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET && r != -EMFILE) {
		log_warn(NULL, NULL, "dropped client %s, which cannot be answered: %s", c->name, strerror(-r));
		client_drop(c);
	}
	return r;
}

static void send_error(struct client *c, uint64_t id, enum result code, const char *message)
{
	Wire__Error error = WIRE__ERROR__INIT;
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;

	error.code = code;
	error.message = lend(message);
	m.id = id;
	m.body_case = WIRE__CONTROL_REPLY__BODY_ERROR;
	m.error = &error;
	client_send(c, &m, NULL, 0);
}

/* ---- Requests ---- */

static void request_free(struct request *r)
{
	r->client->outstanding--;
	client_unref(r->client);
	sandbox_unref(r->sandbox);
	wire__control_request__free_unpacked(r->q, NULL);
	free(r);
}

void request_reply(struct request *r, Wire__ControlReply *m, const int *fds, unsigned nfds)
{
	m->id = r->q->id;
	m->more = false;
	if (wire__control_reply__get_packed_size(m) > FRAME_MAX_PAYLOAD)
		send_error(r->client, r->q->id, RESULT_TOO_LARGE, "the answer does not fit a frame");
	else if (client_send(r->client, m, fds, nfds) == -EMFILE)
		send_error(r->client, r->q->id, RESULT_RESOURCE_LIMIT, "the control daemon is out of descriptors");
	request_free(r);
}

void request_part(struct request *r, Wire__ControlReply *m)
{
	m->id = r->q->id;
	m->more = true;
	client_send(r->client, m, NULL, 0);
}

void request_fail(struct request *r, enum result code, const char *fmt, ...)
{
	char message[MESSAGE_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	send_error(r->client, r->q->id, code, message);
	request_free(r);
}

void request_ok(struct request *r)
{
	Wire__ControlReply m = WIRE__CONTROL_REPLY__INIT;
	Wire__Ok ok = WIRE__OK__INIT;

	m.body_case = WIRE__CONTROL_REPLY__BODY_OK;
	m.ok = &ok;
	request_reply(r, &m, NULL, 0);
}

/* ---- The table ---- */

enum needs {
	NEEDS_SANDBOX = 1 << 0, /* one of that name or id exists */
	NEEDS_CONSOLE = 1 << 1, /* the console's name is a name */
	ANY_TIME = 1 << 2,      /* also while the daemon goes down */
};

#define IN(type)      offsetof(Wire__##type, sandbox)
#define NAME_IN(type) offsetof(Wire__##type, name)
#define ROUTE(name)   [WIRE__CONTROL_REQUEST__BODY_##name]

static const struct route {
	const char *name;
	unsigned needs;
	void (*handle)(struct request *r);
	size_t sandbox_at, console_at; /* where the body has the two names */
} routes[] = {
	ROUTE(HELLO) = { "hello", ANY_TIME, on_hello },
	ROUTE(STATUS) = { "status", ANY_TIME, on_status },
	ROUTE(CREATE) = { "create", 0, on_create },
	ROUTE(LIST) = { "ls", 0, on_list },
	ROUTE(SHOW) = { "show", 0, on_show },
	ROUTE(REMOVE) = { "rm", NEEDS_SANDBOX, on_remove, IN(RemoveSandbox) },
	ROUTE(START) = { "start", 0, on_start },
	ROUTE(CONSOLES) = { "ps", 0, on_consoles },
	ROUTE(OPEN) = { "open", NEEDS_SANDBOX | NEEDS_CONSOLE, on_open, IN(OpenStream), NAME_IN(OpenStream) },
	ROUTE(SIGNAL) = { "signal", NEEDS_SANDBOX | NEEDS_CONSOLE, on_signal, IN(ConsoleSignal),
	        NAME_IN(ConsoleSignal) },
	ROUTE(RESIZE) = { "resize", NEEDS_SANDBOX | NEEDS_CONSOLE, on_resize, IN(ConsoleResize),
	        NAME_IN(ConsoleResize) },
	ROUTE(CLOSE) = { "close", NEEDS_SANDBOX | NEEDS_CONSOLE, on_close, IN(ConsoleClose), NAME_IN(ConsoleClose) },
	ROUTE(EXEC) = { "exec", 0, on_exec },
	ROUTE(DOWN) = { "down", 0, on_down },
};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))
static_assert(ROUTES == WIRE__CONTROL_REQUEST__BODY_DOWN + 1, "the last kind of request has no route");

static const char *body_string(const struct request *r, size_t at)
{
	/* All bodies are pointers in one union; the row says which type this one is. */
	return *(char *const *)((const char *)r->q->hello + at);
}

void request_no_such_sandbox(struct request *r, const char *name)
{
	char shown[160];

	request_fail(r, RESULT_NOT_FOUND, "no sandbox '%s'; `ringside ls` shows those that exist",
	        text_escape(shown, sizeof(shown), name, strlen(name)));
}

void request_bad_name(struct request *r, const char *name)
{
	char shown[160];

	request_fail(r, RESULT_INVALID_ARGUMENT,
	        "'%s' is not a console's name: 1 to %d of [A-Za-z0-9._-], not starting with '.' or '-'",
	        text_escape(shown, sizeof(shown), name, strlen(name)), NAME_MAX_BYTES);
}

/* false: it was answered. */
static bool meet_needs(struct request *r, const struct route *route)
{
	if (r->daemon->stopping && !(route->needs & ANY_TIME)) {
		request_fail(r, RESULT_UNAVAILABLE, "the control daemon is going down");
		return false;
	}
	if (route->needs & NEEDS_SANDBOX) {
		const char *name = body_string(r, route->sandbox_at);
		struct sandbox *s = sandbox_find(r->daemon, name);
		if (!s) {
			request_no_such_sandbox(r, name);
			return false;
		}
		r->sandbox = sandbox_ref(s);
	}
	if (route->needs & NEEDS_CONSOLE) {
		r->console = body_string(r, route->console_at);
		if (!name_valid(r->console)) {
			request_bad_name(r, r->console);
			return false;
		}
	}
	return true;
}

/* ---- Frames ---- */

static void protocol_error(struct client *c, uint64_t id, const char *what)
{
	log_warn(NULL, NULL, "client %s broke the protocol: %s", c->name, what);
	send_error(c, id, RESULT_PROTOCOL_ERROR, what);
	client_drop(c);
}

static void refuse_unknown(struct client *c, const Wire__ControlRequest *q)
{
	send_error(c, q->id, RESULT_NOT_SUPPORTED,
	        "this ringsided (version " RINGSIDE_VERSION ") does not know the request");
}

/* Takes q over. */
static void begin_request(struct client *c, Wire__ControlRequest *q)
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r) {
		send_error(c, q->id, RESULT_RESOURCE_LIMIT, "out of memory");
		wire__control_request__free_unpacked(q, NULL);
		return;
	}
	r->daemon = c->control->daemon;
	r->client = c;
	r->q = q;
	c->refs++;
	c->outstanding++;
	const struct route *route = &routes[q->body_case];
	if (meet_needs(r, route))
		route->handle(r);
}

static void on_message(struct client *c, Wire__ControlRequest *q)
{
	bool hello = q->body_case == WIRE__CONTROL_REQUEST__BODY_HELLO;

	if (q->id == 0)
		protocol_error(c, 0, "a request without an id");
	else if (hello == c->greeted)
		protocol_error(c, q->id, hello ? "a second hello" : "a request before the hello");
	else if (q->body_case == WIRE__CONTROL_REQUEST__BODY__NOT_SET || (size_t)q->body_case >= ROUTES)
		refuse_unknown(c, q);
	else if (c->outstanding >= CONTROL_MAX_OUTSTANDING)
		send_error(c, q->id, RESULT_BUSY, "64 requests of this connection are in hand already");
	else {
		begin_request(c, q);
		return;
	}
	wire__control_request__free_unpacked(q, NULL);
}

static void on_message_frame(struct client *c, const struct frame *f)
{
	struct unpack memory;

	unpack_init(&memory);
	Wire__ControlRequest *q = wire__control_request__unpack(&memory.allocator, f->length, f->payload);
	if (q)
		on_message(c, q);
	else if (memory.out_of_memory && unpack_id(f) != 0)
		send_error(c, unpack_id(f), RESULT_RESOURCE_LIMIT, "the control daemon is out of memory");
	else
		protocol_error(c, 0, "a frame that is not a request");
}

static void on_frame(struct uvconn *u, const struct frame *f, void *ctx)
{
	struct client *c = ctx;

	(void)u;
	c->refs++; /* it may be dropped in here */
	if (f->type != FRAME_MESSAGE)
		protocol_error(c, 0, "a frame that is not a message");
	else
		on_message_frame(c, f);
	client_unref(c);
}

static void on_gone(struct uvconn *u, int err, void *ctx)
{
	struct client *c = ctx;

	(void)u;
	if (err == -EPROTO) {
		c->refs++;
		protocol_error(c, 0, "bytes that are not a frame");
		client_unref(c);
		return;
	}
	client_drop(c);
}

static const struct uvconn_handler client_handler = {
	.on_frame = on_frame,
	.on_gone = on_gone,
	.on_drained = on_drained,
};

void request_greet(struct request *r, const char *name)
{
	struct client *c = r->client;

	c->greeted = true;
	text_escape(c->name, sizeof(c->name), name, strlen(name));
}

/* ---- Accepting ---- */

static bool peer_allowed(int fd)
{
	pid_t pid;
	uid_t uid;
	gid_t gid;

	if (sock_peer(fd, &pid, &uid, &gid) < 0)
		return false;
	if (uid == geteuid() || uid == 0)
		return true;
	log_warn(NULL, NULL, "refused process %ld of user %lu", (long)pid, (unsigned long)uid);
	return false;
}

/* Whoever connects and says nothing must not keep out those who want something: of these the oldest goes first. */
static void make_room(struct control *control, struct client *newest)
{
	struct client *out = newest;

	for (struct client *c = control->clients; c; c = c->next)
		if (!c->greeted)
			out = c;
	send_error(out, 0, RESULT_BUSY, "4096 clients are connected already");
	client_drop(out);
}

/* Takes fd over on success. */
static int client_new(struct control *control, int fd)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->control = control;
	c->refs = 1;
	c->backlog_end = &c->backlog;
	snprintf(c->name, sizeof(c->name), "(before hello)");
	int r = uvconn_new(&control->daemon->loop, fd, CONTROL_QUEUE_BYTES, &client_handler, c, &c->conn);
	if (r < 0) {
		free(c);
		return r;
	}
	c->next = control->clients;
	c->at = &control->clients;
	if (c->next)
		c->next->at = &c->next;
	control->clients = c;
	control->nclients++;
	if (control->nclients > CONTROL_MAX_CLIENTS)
		make_room(control, c);
	return 0;
}

static void on_readable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
	struct control *c = timer->data;

	uv_poll_start(&c->poll, UV_READABLE, on_readable);
}

/* The connection stays in the kernel's queue, readable for ever: polling on would spin. */
static void pause_accepting(struct control *c, int err)
{
	if (!c->full_said)
		log_error(NULL, NULL, "cannot accept clients: %s", strerror(err));
	c->full_said = true;
	uv_poll_stop(&c->poll);
	uv_timer_start(&c->pause, on_pause_over, ACCEPT_PAUSE_MS, 0);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct control *c = poll->data;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
				pause_accepting(c, errno);
			return;
		}
		c->full_said = false;
		if (!peer_allowed(fd) || client_new(c, fd) < 0)
			fd_close(&fd);
	}
}

/* ---- Opening and closing ---- */

static void on_handle_closed(uv_handle_t *handle)
{
	struct control *c = handle->data;

	if (--c->handles > 0)
		return;
	fd_close(&c->fd);
	free(c);
}

static const char *bind_error(int r)
{
	switch (r) {
	case -EEXIST:
		return "something that is not a socket is in its place, and is left alone";
	case -EADDRINUSE:
		return "another program listens there";
	default:
		return strerror(-r);
	}
}

int control_open(struct daemon *d, int dirfd, struct control **out, char *message, unsigned size)
{
	struct control *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct control){ .daemon = d, .dirfd = dirfd };
	c->fd = sock_bind_at(dirfd, CONTROL_SOCKET);
	int r = c->fd < 0 ? c->fd : listen(c->fd, LISTEN_BACKLOG) < 0 ? -errno : 0;
	if (r == 0)
		r = uv_poll_init(&d->loop, &c->poll, c->fd);
	if (r < 0) {
		snprintf(message, size, "cannot listen at %s/%s: %s", d->options.paths.runtime_dir, CONTROL_SOCKET,
		        bind_error(r));
		fd_close(&c->fd);
		free(c);
		return r;
	}
	uv_timer_init(&d->loop, &c->pause);
	c->poll.data = c->pause.data = c;
	c->handles = 2;
	uv_poll_start(&c->poll, UV_READABLE, on_readable);
	*out = c;
	return 0;
}

unsigned control_clients(const struct control *c)
{
	return c->nclients;
}

void control_stop(struct control *c)
{
	if (!c)
		return;
	/* Before the lock is let go of: after that the socket there may be another daemon's. */
	unlinkat(c->dirfd, CONTROL_SOCKET, 0);
	uv_poll_stop(&c->poll);
	uv_timer_stop(&c->pause);
}

void control_close(struct control *c)
{
	if (!c)
		return;
	while (c->clients)
		client_drop(c->clients);
	uv_close((uv_handle_t *)&c->poll, on_handle_closed);
	uv_close((uv_handle_t *)&c->pause, on_handle_closed);
}
