/*
 * write.c - one piece of input, sent in as many messages as it needs, and its one answer.
 *
 * The bytes are never copied whole: what the connection's queue does not take yet stays with the caller until the queue
 * drains. A write that is given up in the middle takes the connection with it, because the console daemon holds the
 * rest of the same request to be coming.
 */
#include <errno.h>
#include <string.h>

#include "client/internal.h"
#include "wire/clock.h"

/* Beyond the time in which a program must take something: other clients' writes stand in the same queue before this
 * one, and a program may take a long one slowly. It guards against a console daemon that has stopped answering. */
#define ANSWER_SLACK_MS ((uint64_t)10 * 60 * 1000)

static int send_chunk(struct ringside_console *c, size_t n)
{
	struct pending_write *w = &c->write;
	Wire__Write body = WIRE__WRITE__INIT;
	body.data = (ProtobufCBinaryData){ .len = n, .data = (uint8_t *)(uintptr_t)(w->bytes + w->sent) };
	body.more = w->sent + n < w->size;
	body.timeout_ms = w->timeout_ms;
	body.raw_lines = w->raw_lines;
	Wire__StreamRequest req = WIRE__STREAM_REQUEST__INIT;
	req.id = w->id;
	req.body_case = WIRE__STREAM_REQUEST__BODY_WRITE;
	req.write = &body;
	return conn_send_message(c->conn, &req.base, NULL, 0);
}

/* -ENOBUFS is no failure: the queue is full, and POLLOUT brings us back. */
void write_pump(struct ringside_console *c)
{
	struct pending_write *w = &c->write;
	while (c->conn && w->id && !w->answered && w->sent < w->size) {
		size_t left = w->size - w->sent;
		size_t n = left < STREAM_CHUNK ? left : STREAM_CHUNK;
		if (send_chunk(c, n) < 0)
			return;
		w->sent += n;
	}
}

/* r, or e, or neither: the connection is gone. */
void write_reply(struct ringside_console *c, const Wire__WriteReply *r, const Wire__Error *e)
{
	struct pending_write *w = &c->write;
	w->answered = true;
	w->sent = w->size; /* what was not sent is not wanted any more */
	if (r) {
		w->written.tail_offset = r->tail_offset;
		w->written.written = r->written;
		e = r->error;
	}
	if (e)
		error_wire(&w->error, e);
	else if (!r)
		error_set(&w->error, RINGSIDE_UNAVAILABLE,
		        "the connection to the console was lost; how much of the input was taken is not known");
}

int ringside_console_write_begin(struct ringside_console *c, const void *bytes, size_t n,
        const struct ringside_write_options *options, struct ringside_error *err)
{
	if (c->write.id)
		return error_set(err, RINGSIDE_BUSY, "another write on this console has not been answered yet");
	if (!c->conn || c->ended)
		return error_set(err, RINGSIDE_NOT_RUNNING, "the console has ended");
	c->write = (struct pending_write){
		.bytes = bytes,
		.size = n,
		.id = ++c->last_id,
		.timeout_ms = options ? options->timeout_ms : 0,
		.raw_lines = options && options->raw_lines,
	};
	if (n > 0) {
		write_pump(c);
	} else if (send_chunk(c, 0) < 0) { /* no bytes: asks where the tail is when a write's turn comes */
		c->write.id = 0;
		return error_set(err, RINGSIDE_BUSY, "the connection to the console takes nothing now");
	}
	return 0;
}

int ringside_console_write_end(struct ringside_console *c, struct ringside_written *out, struct ringside_error *err)
{
	struct pending_write *w = &c->write;
	if (!w->id || !w->answered)
		return error_set(err, RINGSIDE_BUSY, "the write is not answered yet");
	*out = w->written;
	int code = w->error.code;
	if (code && err)
		*err = w->error;
	w->id = 0;
	return code;
}

int ringside_console_write(struct ringside_console *c, const void *bytes, size_t n,
        const struct ringside_write_options *options, struct ringside_written *out, struct ringside_error *err)
{
	*out = (struct ringside_written){ 0 };
	int code = ringside_console_write_begin(c, bytes, n, options, err);
	if (code)
		return code;
	uint64_t limit = options && options->timeout_ms ? options->timeout_ms : WRITE_DEFAULT_MS;
	uint64_t deadline, now = clock_mono_ms();
	if (__builtin_add_overflow(now, limit, &deadline) ||
	        __builtin_add_overflow(deadline, ANSWER_SLACK_MS, &deadline))
		deadline = UINT64_MAX;
	while (!c->write.answered && (now = clock_mono_ms()) < deadline)
		ringside_console_poll(c, deadline - now);
	if (c->write.answered)
		return ringside_console_write_end(c, out, err);
	c->write.id = 0;
	console_gone(c);
	return error_set(err, RINGSIDE_TIMEOUT,
	        "the console daemon has not answered; how much of the input was taken is not known");
}
