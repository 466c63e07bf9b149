/* stream.c - frames of one connection into calls on one console, and its news back. */
#include "consoles/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/unpack.h"
#include "wire/uvconn.h"

struct stream {
	uv_idle_t anchor; /* never started: its close callback frees the stream, when no callback is on the stack any
	                     more */
	struct follower follower;
	struct uvconn *conn;
	struct console *console; /* NULL once it has ended */
	struct stream_rights rights;
	bool closed;

	/* A write in pieces. */
	bool pieces;      /* its last piece is yet to come */
	bool pieces_over; /* it was answered already: what still comes of it is dropped */
	uint64_t pieces_id;
	uint64_t unread_id; /* of a request that there was no memory to read: further pieces of it are dropped */

	struct stream *next, **at; /* all of them */
};

static struct stream *all_streams;
static unsigned stream_count;

/* ---- Life ---- */

static void on_anchor_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void stream_close(struct stream *s)
{
	if (s->closed)
		return;
	s->closed = true;
	if (s->console) {
		if (console_input(s->console))
			input_abandon(console_input(s->console), s);
		console_unfollow(s->console, &s->follower);
		s->console = NULL;
	}
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
	stream_count--;
	uvconn_close(s->conn);
	uv_close((uv_handle_t *)&s->anchor, on_anchor_closed);
}

/* ---- Answers ---- */

/* A peer that has gone is heard of when it is read from. One that does not read its answers is dropped. */
static void sent(struct stream *s, int err)
{
	if (err == -ENOBUFS || err == -ENOMEM)
		stream_close(s);
}

static void reply(struct stream *s, Wire__StreamReply *r)
{
	if (!s->closed)
		sent(s, uvconn_send_message(s->conn, &r->base, NULL, 0));
}

static void fill_error(Wire__Error *e, enum result code, const char *message)
{
	wire__error__init(e);
	e->code = (uint32_t)code;
	e->message = (char *)(uintptr_t)message; /* only read */
}

/* id 0: an event, for what has no answer. */
static void refuse(struct stream *s, uint64_t id, enum result code, const char *message)
{
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	Wire__Error e;

	fill_error(&e, code, message);
	r.id = id;
	r.body_case = WIRE__STREAM_REPLY__BODY_ERROR;
	r.error = &e;
	reply(s, &r);
}

static void break_off(struct stream *s, const char *why)
{
	refuse(s, 0, RESULT_PROTOCOL_ERROR, why);
	stream_close(s);
}

/* ---- News of the console ---- */

static struct stream *stream_of(struct follower *f)
{
	return (struct stream *)((char *)f - offsetof(struct stream, follower));
}

static void on_tail(struct follower *f, uint64_t tail)
{
	struct stream *s = stream_of(f);

	sent(s, uvconn_send_u64(s->conn, FRAME_TAIL, tail));
}

static void on_size(struct follower *f, uint16_t cols, uint16_t rows)
{
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	Wire__Resize size = WIRE__RESIZE__INIT;

	size.cols = cols;
	size.rows = rows;
	r.body_case = WIRE__STREAM_REPLY__BODY_RESIZED;
	r.resized = &size;
	reply(stream_of(f), &r);
}

static void on_end(struct follower *f, const Wire__ConsoleInfo *info)
{
	struct stream *s = stream_of(f);
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;

	s->console = NULL;
	r.body_case = WIRE__STREAM_REPLY__BODY_ENDED;
	r.ended = (Wire__ConsoleInfo *)(uintptr_t)info; /* only read */
	reply(s, &r);
	if (!s->closed)
		uvconn_pause(s->conn, false);
}

static const struct follower_ops follower_ops = { .on_tail = on_tail, .on_size = on_size, .on_end = on_end };

/* ---- Input ---- */

/* What a person is told; the code says the same to a program. */
static const char *explain(enum result code)
{
	switch (code) {
	case RESULT_OK:
		return "";
	case RESULT_BUSY:
		return "1 MiB waits to be read by the program; nothing of this was written";
	case RESULT_TIMEOUT:
		return "the program did not read it in time";
	case RESULT_NOT_RUNNING:
		return "the console has ended";
	case RESULT_CANONICAL_LINE_LIMIT:
		return "a line over 4095 bytes would be cut by the terminal: send shorter lines, or switch the "
		       "terminal to raw mode";
	default:
		return result_meaning((unsigned)code);
	}
}

static void answer_write(struct stream *s, uint64_t id, const struct input_result *result)
{
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	Wire__WriteReply w = WIRE__WRITE_REPLY__INIT;
	Wire__Error e;

	w.tail_offset = result->tail_offset;
	w.written = result->written;
	if (result->error != RESULT_OK) {
		fill_error(&e, result->error, explain(result->error));
		w.error = &e;
	}
	r.id = id;
	r.body_case = WIRE__STREAM_REPLY__BODY_WRITE;
	r.write = &w;
	reply(s, &r);
}

static void on_done(void *ctx, uint64_t id, const struct input_result *result)
{
	struct stream *s = ctx;

	if (id == 0) {
		refuse(s, 0, result->error, explain(result->error));
		return;
	}
	if (s->pieces && s->pieces_id == id) {
		s->pieces_over = true;
		if (!s->closed)
			uvconn_pause(s->conn, false);
	}
	answer_write(s, id, result);
}

static void on_continue(void *ctx)
{
	struct stream *s = ctx;

	if (!s->closed)
		uvconn_pause(s->conn, false);
}

static const struct input_handler input_handler = { .on_done = on_done, .on_continue = on_continue };

/* Somebody acts: which may change the size, whose news may find the stream's queue full and close it. NULL then. */
static struct input *touch(struct stream *s)
{
	if (s->console)
		console_touched_by(s->console, &s->follower);
	return s->console ? console_input(s->console) : NULL;
}

static void on_keys(struct stream *s, const uint8_t *bytes, size_t n)
{
	const struct input_request q = { .handler = &input_handler, .ctx = s, .keys = true };
	struct input *in;
	enum result code;

	if (!s->rights.write) {
		refuse(s, 0, RESULT_PERMISSION_DENIED, "this connection may only read");
		return;
	}
	in = n > 0 ? touch(s) : NULL;
	if (!in)
		return; /* its end was told */
	code = input_begin(in, &q, bytes, n, false);
	if (code != RESULT_OK)
		refuse(s, 0, code, explain(code));
}

static void begin_write(struct stream *s, uint64_t id, const Wire__Write *w)
{
	const struct input_request q = {
		.handler = &input_handler,
		.ctx = s,
		.id = id,
		.timeout_ms = w->timeout_ms,
		.raw_lines = w->raw_lines,
	};
	struct input *in = s->rights.write ? touch(s) : NULL;
	enum result code;

	s->pieces = w->more;
	s->pieces_id = id;
	s->pieces_over = false;
	if (!s->rights.write)
		code = RESULT_PERMISSION_DENIED;
	else if (!in)
		code = RESULT_NOT_RUNNING;
	else
		code = input_begin(in, &q, w->data.data, w->data.len, w->more);
	if (code != RESULT_OK) {
		s->pieces_over = true;
		answer_write(s, id, &(struct input_result){ .error = code });
	}
}

static void continue_write(struct stream *s, uint64_t id, const Wire__Write *w)
{
	struct input *in;

	if (id != s->pieces_id) {
		break_off(s, "a write began inside another one");
		return;
	}
	if (!w->more)
		s->pieces = false;
	in = s->pieces_over ? NULL : touch(s);
	if (in)
		input_continue(in, s, w->data.data, w->data.len, w->more);
}

static void on_write(struct stream *s, uint64_t id, const Wire__Write *w)
{
	if (s->pieces)
		continue_write(s, id, w);
	else
		begin_write(s, id, w);
	/* Not read from while the program has enough to take: that is the peer's back-pressure. */
	if (!s->closed && s->pieces && !s->pieces_over && s->console &&
	        !input_may_continue(console_input(s->console), s))
		uvconn_pause(s->conn, true);
}

static void on_resize(struct stream *s, uint64_t id, const Wire__Resize *size)
{
	Wire__StreamReply r = WIRE__STREAM_REPLY__INIT;
	Wire__Done done = WIRE__DONE__INIT;
	enum result code;

	if (!s->rights.resize)
		code = RESULT_PERMISSION_DENIED;
	else if (!s->console)
		code = RESULT_NOT_RUNNING;
	else
		code = console_resize(s->console, &s->follower, size->cols, size->rows);
	if (code == RESULT_INVALID_ARGUMENT) {
		refuse(s, id, code, "a terminal has 2x2 to 1000x500 characters");
	} else if (code != RESULT_OK) {
		refuse(s, id, code, explain(code));
	} else {
		r.id = id;
		r.body_case = WIRE__STREAM_REPLY__BODY_DONE;
		r.done = &done;
		reply(s, &r);
	}
}

/* ---- Frames ---- */

/* A request that there is no memory for. It may be a piece of a write, which is over with it. */
static void refuse_unread(struct stream *s, uint64_t id)
{
	s->unread_id = id;
	if (s->pieces && id == s->pieces_id) {
		s->pieces = false;
		if (s->console)
			input_abandon(console_input(s->console), s);
	}
	refuse(s, id, RESULT_RESOURCE_LIMIT, "the console daemon is out of memory");
}

static void on_message(struct stream *s, const struct frame *f)
{
	struct unpack memory;
	Wire__StreamRequest *q;

	unpack_init(&memory);
	q = wire__stream_request__unpack(&memory.allocator, f->length, f->payload);
	if (!q && memory.out_of_memory && unpack_id(f) != 0) {
		refuse_unread(s, unpack_id(f));
		return;
	}
	if (!q) {
		break_off(s, "not a request");
		return;
	}
	if (q->id == 0)
		break_off(s, "a request has no id");
	else if (q->body_case == WIRE__STREAM_REQUEST__BODY_WRITE && q->id == s->unread_id)
		; /* a further piece of what was refused */
	else if (q->body_case == WIRE__STREAM_REQUEST__BODY_WRITE)
		on_write(s, q->id, q->write);
	else if (q->body_case == WIRE__STREAM_REQUEST__BODY_RESIZE)
		on_resize(s, q->id, q->resize);
	else
		refuse(s, q->id, RESULT_NOT_SUPPORTED, "this console daemon does not know the request");
	wire__stream_request__free_unpacked(q, NULL);
}

static void on_level(struct stream *s, const struct frame *f)
{
	if (f->length != sizeof(uint64_t))
		break_off(s, "a level has 8 bytes");
	else if (s->console)
		console_level(s->console, &s->follower, frame_get_u64(f->payload));
}

static void on_frame(struct uvconn *u, const struct frame *f, void *ctx)
{
	struct stream *s = ctx;

	(void)u;
	if (s->closed)
		return;
	if (f->type == FRAME_DATA && f->channel == CHANNEL_INPUT)
		on_keys(s, f->payload, f->length);
	else if (f->type == FRAME_LEVEL)
		on_level(s, f);
	else if (f->type == FRAME_MESSAGE)
		on_message(s, f);
	else
		break_off(s, "a frame that has no meaning here");
}

static void on_gone(struct uvconn *u, int err, void *ctx)
{
	struct stream *s = ctx;

	(void)u;
	if (err == -EPROTO && !s->closed)
		break_off(s, "not a frame");
	else
		stream_close(s);
}

static const struct uvconn_handler conn_handler = { .on_frame = on_frame, .on_gone = on_gone };

/* ---- Opening ---- */

static void follow(struct stream *s, struct console *c)
{
	struct info_message m;

	if (console_state(c) == CONSOLE_RUNNING) {
		s->console = c;
		console_follow(c, &s->follower);
		return;
	}
	info_fill(&m, console_facts(c));
	on_end(&s->follower, &m.info);
}

int stream_open(uv_loop_t *loop, int sock, struct console *c, const struct stream_rights *rights)
{
	struct stream *s;
	int err;

	if (stream_count >= STREAMS_MAX)
		return -EMFILE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	err = uvconn_new(loop, sock, STREAM_QUEUE, &conn_handler, s, &s->conn);
	if (err < 0) {
		free(s);
		return err;
	}
	(void)uv_idle_init(loop, &s->anchor); /* cannot fail */
	s->anchor.data = s;
	s->rights = *rights;
	s->follower.ops = &follower_ops;
	s->follower.attached = rights->attach;
	s->next = all_streams;
	if (s->next)
		s->next->at = &s->next;
	s->at = &all_streams;
	all_streams = s;
	stream_count++;
	follow(s, c);
	return 0;
}

void streams_close_all(void)
{
	while (all_streams)
		stream_close(all_streams);
}
