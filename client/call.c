/*
 * call.c - one request to the control daemon and its answer.
 *
 * A connection carries one request of ours at a time. An answer that came too late for its call has an old id and is
 * skipped, so that running into a timeout leaves the connection usable.
 */
#include <errno.h>
#include <string.h>

#include "client/internal.h"
#include "wire/clock.h"
#include "wire/fd.h"

void control_reply_release(struct control_reply *r)
{
	for (unsigned i = 0; i < FRAME_MAX_FDS; i++)
		fd_close(&r->fds[i]);
	if (r->message)
		wire__control_reply__free_unpacked(r->message, NULL);
	r->message = NULL;
}

/* The connection is of no more use: forgets it and says so. */
static int control_lost(struct ringside *rs, int negative_errno, struct ringside_error *err)
{
	conn_free(rs->conn);
	rs->conn = NULL;
	if (negative_errno == -EPROTO)
		return error_set(err, RINGSIDE_PROTOCOL_ERROR, "ringsided sent something that is not of its protocol");
	return error_set(err, RINGSIDE_UNAVAILABLE,
	        "the connection to ringsided is lost (it has ended or is being replaced); what was asked for may "
	        "have been done or not");
}

static uint64_t deadline_after(uint64_t ms, uint64_t extra_ms)
{
	uint64_t deadline;
	if (__builtin_add_overflow(ms, extra_ms, &ms) || __builtin_add_overflow(clock_mono_ms(), ms, &deadline))
		return UINT64_MAX;
	return deadline;
}

static int timed_out(uint64_t ms, struct ringside_error *err)
{
	return error_set(err, RINGSIDE_TIMEOUT,
	        "ringsided has not answered for %llu s; what was asked for may still be done",
	        (unsigned long long)(ms / 1000));
}

/* Unpacks the frame and takes its descriptors, so that none is left behind whatever the message is. */
static int take_reply(struct conn *c, const struct frame *f, struct control_reply *out)
{
	for (unsigned i = 0; i < FRAME_MAX_FDS; i++)
		out->fds[i] = i < f->fds ? conn_take_fd(c, i) : -1;
	out->message = f->type == FRAME_MESSAGE ? wire__control_reply__unpack(NULL, f->length, f->payload) : NULL;
	if (out->message)
		return 0;
	control_reply_release(out);
	return -EPROTO;
}

/* An error without a request is why the daemon ends the connection. 0: it is none. */
static int last_words(struct ringside *rs, const Wire__ControlReply *m, struct ringside_error *err)
{
	if (m->id != 0 || m->body_case != WIRE__CONTROL_REPLY__BODY_ERROR)
		return 0;
	conn_free(rs->conn);
	rs->conn = NULL;
	return error_wire(err, m->error);
}

/* The next answer with the last request's id. */
static int await_reply(struct ringside *rs, uint64_t extra_ms, struct control_reply *out, struct ringside_error *err)
{
	uint64_t deadline = deadline_after(rs->call_ms, extra_ms);
	for (;;) {
		struct frame f;
		int r = conn_wait_frame(rs->conn, deadline, &f);
		if (r == 0)
			return timed_out(rs->call_ms, err);
		if (r > 0)
			r = take_reply(rs->conn, &f, out);
		if (r < 0)
			return control_lost(rs, r, err);
		if (out->message->id == rs->last_id)
			return 0;
		int code = last_words(rs, out->message, err);
		control_reply_release(out);
		if (code)
			return code;
	}
}

static int check_reply(struct ringside *rs, Wire__ControlReply__BodyCase expected, struct control_reply *out,
        struct ringside_error *err)
{
	Wire__ControlReply *m = out->message;
	int code = 0;
	if (m->body_case == WIRE__CONTROL_REPLY__BODY_ERROR)
		code = error_wire(err, m->error);
	else if (m->body_case != expected)
		code = control_lost(rs, -EPROTO, err);
	if (code)
		control_reply_release(out);
	return code;
}

int control_call(struct ringside *rs, Wire__ControlRequest *req, Wire__ControlReply__BodyCase expected,
        uint64_t extra_ms, struct control_reply *out, struct ringside_error *err)
{
	if (!rs->conn)
		return error_set(err, RINGSIDE_UNAVAILABLE, "the connection to ringsided is lost");
	req->id = ++rs->last_id;
	int r = conn_send_message(rs->conn, &req->base, NULL, 0);
	if (r == -EMSGSIZE)
		return error_set(err, RINGSIDE_TOO_LARGE, "the request (arguments and environment) is over %u KiB",
		        FRAME_MAX_PAYLOAD / 1024);
	if (r == -ENOMEM)
		return error_memory(err);
	if (r < 0 && r != -EPIPE) /* one that has gone may have said why */
		return control_lost(rs, r, err);
	int code = await_reply(rs, extra_ms, out, err);
	return code ? code : check_reply(rs, expected, out, err);
}

int control_call_more(struct ringside *rs, Wire__ControlReply__BodyCase expected, struct control_reply *out,
        struct ringside_error *err)
{
	int code = await_reply(rs, 0, out, err);
	return code ? code : check_reply(rs, expected, out, err);
}
