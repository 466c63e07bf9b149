/*
 * exec.c - one command with separate streams, on a connection of its own.
 *
 * Nothing is held here: output goes to the sink as it comes, and what the caller does not take stays with the program;
 * input is taken only as the connection takes it. The sockets' back-pressure is the whole flow control.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "wire/fd.h"

#define INPUT_CHUNK ((size_t)32 * 1024) /* of one DATA frame */

struct ringside_exec {
	struct conn *conn; /* NULL: the result is there, or it is gone */
	struct ringside_exec_result *result;
};

static int exec_from_fd(int *fd, struct ringside_exec **out, struct ringside_error *err)
{
	if (*fd < 0)
		return error_set(err, RINGSIDE_PROTOCOL_ERROR, "the command's connection was not handed over");
	struct ringside_exec *x = calloc(1, sizeof(*x));
	int r = x ? conn_new(*fd, STREAM_OUT_LIMIT, &x->conn) : -ENOMEM;
	if (r < 0) {
		free(x);
		return error_errno(err, r, "cannot open the command's connection");
	}
	fd_take(fd);
	*out = x;
	return 0;
}

int ringside_exec_open(struct ringside *rs, const char *sandbox, const struct ringside_exec_spec *spec,
        struct ringside_exec **out, struct ringside_error *err)
{
	if (!sandbox || !*sandbox)
		return error_set(err, RINGSIDE_INVALID_ARGUMENT, "the sandbox is missing");
	if (!spec->argv || !spec->argv[0])
		return error_set(err, RINGSIDE_INVALID_ARGUMENT, "the command is missing");
	Wire__ExecSpec w = WIRE__EXEC_SPEC__INIT;
	w.cwd = (char *)(uintptr_t)(spec->cwd ? spec->cwd : "");
	w.stdin_stream = spec->stdin_stream;
	w.timeout_ms = spec->timeout_ms;
	w.idle_timeout_ms = spec->idle_timeout_ms;
	w.n_argv = strings_count(spec->argv);
	w.argv = strings_bytes(spec->argv, w.n_argv);
	struct env_messages *env = env_messages_new(spec->env, spec->nenv);
	w.n_env = spec->nenv;
	w.env = env_messages_list(env);

	Wire__ExecInSandbox body = WIRE__EXEC_IN_SANDBOX__INIT;
	body.sandbox = (char *)(uintptr_t)sandbox;
	body.spec = &w;
	body.create_default = spec->create_default;
	Wire__ControlRequest req = WIRE__CONTROL_REQUEST__INIT;
	req.body_case = WIRE__CONTROL_REQUEST__BODY_EXEC;
	req.exec = &body;

	struct control_reply reply;
	int code = w.argv && env ? control_call(rs, &req, WIRE__CONTROL_REPLY__BODY_OK, 0, &reply, err)
	                         : error_memory(err);
	free(w.argv);
	env_messages_free(env);
	if (code)
		return code;
	code = exec_from_fd(&reply.fds[0], out, err);
	control_reply_release(&reply);
	return code;
}

void ringside_exec_close(struct ringside_exec *x)
{
	if (!x)
		return;
	conn_free(x->conn);
	ringside_free(x->result);
	free(x);
}

int ringside_exec_fd(const struct ringside_exec *x)
{
	return x->conn ? conn_fd(x->conn) : -1;
}

short ringside_exec_events(const struct ringside_exec *x)
{
	if (!x->conn)
		return 0;
	return conn_wants_write(x->conn) ? POLLIN | POLLOUT : POLLIN;
}

static int take_result(struct ringside_exec *x, const struct frame *f, struct ringside_error *err)
{
	Wire__ExecResult *w = wire__exec_result__unpack(NULL, f->length, f->payload);
	if (!w)
		return error_set(err, RINGSIDE_PROTOCOL_ERROR, "the command's result cannot be read");
	struct memory *m = memory_new(sizeof(*x->result));
	bool ok = m && convert_exec_result(m, w, memory_object(m));
	wire__exec_result__free_unpacked(w, NULL);
	if (!ok) {
		memory_free(m);
		return error_memory(err);
	}
	x->result = memory_object(m);
	return 0;
}

static int take_frame(
        struct ringside_exec *x, const struct frame *f, ringside_exec_sink *sink, void *ctx, struct ringside_error *err)
{
	if (f->type == FRAME_MESSAGE)
		return take_result(x, f, err);
	if (f->type == FRAME_DATA && f->length > 0 && (f->channel == CHANNEL_STDOUT || f->channel == CHANNEL_STDERR))
		sink(ctx, f->channel == CHANNEL_STDOUT ? 1 : 2, f->payload, f->length);
	return 0; /* the end of a stream says nothing that the result does not */
}

int ringside_exec_dispatch(struct ringside_exec *x, short revents, ringside_exec_sink *sink, void *ctx, bool *done,
        struct ringside_error *err)
{
	int code = 0, r = 0;
	*done = x->result != NULL;
	if (!x->conn)
		return *done ? 0 : error_set(err, RINGSIDE_UNAVAILABLE, "the connection to the command was lost");
	if (revents & POLLOUT)
		r = conn_flush(
		        x->conn); /* a program that ended does not read: its result may be waiting all the same */
	if (revents & (POLLIN | POLLHUP | POLLERR)) {
		struct frame f;
		r = conn_fill(x->conn);
		int next = 0;
		while (!code && !x->result && (next = conn_next(x->conn, &f)) > 0)
			code = take_frame(x, &f, sink, ctx, err);
		if (next < 0)
			r = next;
	} else if (r < 0) {
		r = 0; /* POLLHUP follows, behind what is still to be read */
	}
	*done = x->result != NULL;
	if (!code && !*done && r < 0)
		code = error_set(err, RINGSIDE_UNAVAILABLE,
		        "the connection to the command was lost before it ended: what hosts it has died, or was "
		        "closed");
	if (*done || code) {
		conn_free(x->conn);
		x->conn = NULL;
	}
	return code;
}

size_t ringside_exec_room(const struct ringside_exec *x)
{
	size_t queued = x->conn ? conn_queued(x->conn) : STREAM_OUT_LIMIT;
	return queued + INPUT_CHUNK + FRAME_HEADER <= STREAM_OUT_LIMIT ? INPUT_CHUNK : 0;
}

int ringside_exec_input(struct ringside_exec *x, const void *bytes, size_t n, struct ringside_error *err)
{
	if (!x->conn)
		return error_set(err, RINGSIDE_UNAVAILABLE, "the connection to the command was lost");
	int r = conn_send(x->conn, FRAME_DATA, CHANNEL_INPUT, bytes, n, NULL, 0);
	if (r == -EPIPE || r == -ECONNRESET)
		return 0; /* as to a program that has ended: its result, or the loss, is what comes next */
	return r < 0 ? error_errno(err, r, "cannot send input to the command") : 0;
}

const struct ringside_exec_result *ringside_exec_result(const struct ringside_exec *x)
{
	return x->result;
}
