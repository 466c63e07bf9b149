/*
 * console.c - one opened console: the mapped ring, and the direct connection that says when to look at it.
 *
 * Reading never touches the connection. What comes on it is small and rare: TAIL (there is more than the level that was
 * armed), the end, a size, answers to writes. The peer may live inside a sandbox and is not trusted: whatever it sends,
 * this side neither waits for it nor touches memory outside the mapping, and a broken protocol is a lost connection.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/mark.h"
#include "wire/sock.h"

#define INPUT_CHUNK ((size_t)32 * 1024) /* of one DATA frame */

/* ---- Opening and closing ---- */

int console_from_parts(struct ring *ring, struct ring *marks, int fd, const Wire__ConsoleInfo *info,
        const char *sandbox, struct ringside_console **out, struct ringside_error *err)
{
	struct ringside_console *c = calloc(1, sizeof(*c));
	struct memory *m = memory_new(0);
	int r = c && m && convert_console(m, info, sandbox, NULL, &c->info) ? 0 : -ENOMEM;
	if (r == 0 && fd >= 0)
		r = conn_new(fd, STREAM_OUT_LIMIT, &c->conn);
	if (r < 0) {
		ring_free(ring);
		ring_free(marks);
		fd_close(&fd);
		memory_free(m);
		free(c);
		return error_errno(err, r, "cannot open the console");
	}
	c->ring = ring;
	c->marks = marks;
	c->memory = m;
	c->ended = c->conn == NULL;
	*out = c;
	return 0;
}

static int open_ring(int *fd, struct ring **out, struct ringside_error *err)
{
	int r = *fd >= 0 ? ring_open(*fd, out) : -EBADF;
	fd_close(fd);
	if (r == 0)
		return 0;
	if (r == -ENOMEM)
		return error_memory(err);
	return error_set(err, RINGSIDE_PROTOCOL_ERROR,
	        "the console's output was handed over as something that is not a sealed ring (%s)",
	        strerrordesc_np(-r));
}

static int open_parts(
        struct control_reply *reply, const char *sandbox, struct ringside_console **out, struct ringside_error *err)
{
	const Wire__OpenStreamReply *open = reply->message->open;
	struct ring *ring = NULL, *marks = NULL;
	int code = open_ring(&reply->fds[0], &ring, err);
	if (!code && reply->fds[1] >= 0)
		code = open_ring(&reply->fds[1], &marks, err);
	if (!code && open->live && reply->fds[2] < 0)
		code = error_set(err, RINGSIDE_PROTOCOL_ERROR, "the console runs and came without a connection to it");
	if (code) {
		ring_free(ring);
		ring_free(marks);
		return code;
	}
	int fd = open->live ? fd_take(&reply->fds[2]) : -1;
	const char *name = open->sandbox && *open->sandbox ? open->sandbox : sandbox;
	return console_from_parts(ring, marks, fd, open->console, name, out, err);
}

int ringside_console_open(struct ringside *rs, const char *sandbox, const char *name, unsigned rights,
        struct ringside_console **out, struct ringside_error *err)
{
	if (!sandbox || !*sandbox || !name || !*name)
		return error_set(err, RINGSIDE_INVALID_ARGUMENT, "the sandbox or the console is missing");
	Wire__OpenStream body = WIRE__OPEN_STREAM__INIT;
	body.sandbox = (char *)(uintptr_t)sandbox;
	body.name = (char *)(uintptr_t)name;
	body.write = rights & RINGSIDE_WRITE;
	body.resize = rights & RINGSIDE_RESIZE;
	body.attach = rights & RINGSIDE_ATTACH;
	Wire__ControlRequest req = WIRE__CONTROL_REQUEST__INIT;
	req.body_case = WIRE__CONTROL_REQUEST__BODY_OPEN;
	req.open = &body;

	struct control_reply reply;
	int code = control_call(rs, &req, WIRE__CONTROL_REPLY__BODY_OPEN, 0, &reply, err);
	if (code)
		return code;
	uint64_t kept_until = reply.message->open->kept_until;
	code = open_parts(&reply, sandbox, out, err);
	if (!code)
		(*out)->kept_until = kept_until;
	control_reply_release(&reply);
	return code;
}

void ringside_console_close(struct ringside_console *c)
{
	if (!c)
		return;
	conn_free(c->conn);
	ring_free(c->ring);
	ring_free(c->marks);
	memory_free(c->memory);
	free(c);
}

/* ---- What it is, and reading ---- */

const struct ringside_console_info *ringside_console_info(const struct ringside_console *c)
{
	return &c->info;
}

bool ringside_console_live(const struct ringside_console *c)
{
	return c->conn && !c->ended;
}

uint64_t ringside_console_kept_until(const struct ringside_console *c)
{
	return c->kept_until;
}

uint64_t ringside_console_head(const struct ringside_console *c)
{
	return ring_head(c->ring);
}

uint64_t ringside_console_tail(const struct ringside_console *c)
{
	return ring_tail(c->ring);
}

int ringside_console_read(const struct ringside_console *c, uint64_t from, void *buf, size_t max,
        struct ringside_span *got, struct ringside_error *err)
{
	struct ring_span span;
	int r = ring_read(c->ring, from, buf, max, &span);
	if (r < 0)
		return error_set(err, RINGSIDE_OFFSET_OUT_OF_RANGE, "offset %llu is past the tail, which is at %llu",
		        (unsigned long long)from, (unsigned long long)ring_tail(c->ring));
	*got = (struct ringside_span){
		.offset = span.offset,
		.next_offset = span.next_offset,
		.lost_bytes = span.lost_bytes,
	};
	return 0;
}

bool ringside_console_mark(const struct ringside_console *c, uint64_t *cursor, struct ringside_mark *out)
{
	static_assert(sizeof(out->text) > MARK_MAX_TEXT, "ringside.h: a mark's text does not fit");
	uint8_t packed[MARK_SIZE];
	struct ring_span span;
	struct mark mark;
	if (!c->marks)
		return false;
	/* Marks are whole multiples; one that cannot be unpacked (a hostile writer's) is passed over. The ring is
	 * bounded, so is this. */
	for (size_t looked = 0; looked <= ring_capacity(c->marks) / MARK_SIZE; looked++) {
		if (ring_read(c->marks, *cursor, packed, sizeof(packed), &span) < 0 ||
		        span.next_offset - span.offset != sizeof(packed))
			return false;
		*cursor = span.next_offset;
		if (!mark_unpack(packed, &mark))
			continue;
		*out = (struct ringside_mark){
			.offset = mark.offset,
			.at_ms = mark.at_ms,
			.kind = (int)mark.kind,
			.a = mark.a,
			.b = mark.b,
			.incarnation = mark.incarnation,
		};
		memcpy(out->text, mark.text, mark.text_len);
		return true;
	}
	return false;
}

/* ---- The connection ---- */

int ringside_console_fd(const struct ringside_console *c)
{
	return c->conn ? conn_fd(c->conn) : -1;
}

short ringside_console_events(const struct ringside_console *c)
{
	if (!c->conn)
		return 0;
	return conn_wants_write(c->conn) ? POLLIN | POLLOUT : POLLIN;
}

size_t ringside_console_queued(const struct ringside_console *c)
{
	return c->conn ? conn_queued(c->conn) : 0;
}

void console_gone(struct ringside_console *c)
{
	conn_free(c->conn);
	c->conn = NULL;
	if (!c->ended) {
		c->gone = true;
		c->info.state = RINGSIDE_CONSOLE_LOST;
	}
	c->ended = true;
	c->armed = false;
}

/* What is borrowed from info stays where it is: only numbers change, and strings are added. */
static void take_end(struct ringside_console *c, const Wire__ConsoleInfo *w)
{
	c->ended = true;
	c->armed = false;
	c->info.state = RINGSIDE_CONSOLE_EXITED;
	c->info.tail_offset = ring_tail(c->ring);
	c->info.ended_at_ms = w->ended_at_ms;
	const char *reason = memory_string(c->memory, w->reason);
	if (reason)
		c->info.reason = reason;
	struct ringside_exit e;
	if (convert_exit(c->memory, w->exit, &e))
		c->info.exit = e;
}

static unsigned take_reply(struct ringside_console *c, const Wire__StreamReply *m)
{
	bool to_write = m->id != 0 && m->id == c->write.id;
	switch (m->body_case) {
	case WIRE__STREAM_REPLY__BODY_ERROR:
		if (to_write) {
			write_reply(c, NULL, m->error);
			return RINGSIDE_HAS_WRITTEN;
		}
		error_wire(&c->refusal, m->error);
		return RINGSIDE_HAS_REFUSED;
	case WIRE__STREAM_REPLY__BODY_WRITE:
		if (!to_write)
			return 0; /* of a write that was given up */
		write_reply(c, m->write, NULL);
		return RINGSIDE_HAS_WRITTEN;
	case WIRE__STREAM_REPLY__BODY_ENDED:
		take_end(c, m->ended);
		return RINGSIDE_HAS_ENDED;
	case WIRE__STREAM_REPLY__BODY_RESIZED:
		c->info.cols = m->resized->cols;
		c->info.rows = m->resized->rows;
		return RINGSIDE_HAS_RESIZED;
	default:
		return 0; /* done, or what a newer daemon may say unasked */
	}
}

/* Bits of what it says, or -EPROTO. */
static int take_frame(struct ringside_console *c, const struct frame *f)
{
	if (f->type == FRAME_TAIL) {
		if (f->length != 8)
			return -EPROTO;
		/* One that answers an older level is stale: the newer level is still with the daemon. */
		if (!c->armed || frame_get_u64(f->payload) <= c->armed_level)
			return 0;
		c->armed = false;
		return RINGSIDE_HAS_OUTPUT;
	}
	if (f->type != FRAME_MESSAGE)
		return 0;
	Wire__StreamReply *m = wire__stream_reply__unpack(NULL, f->length, f->payload);
	if (!m)
		return -EPROTO;
	unsigned what = take_reply(c, m);
	wire__stream_reply__free_unpacked(m, NULL);
	return (int)what;
}

static int take_frames(struct ringside_console *c, unsigned *what)
{
	struct frame f;
	int r;
	while ((r = conn_next(c->conn, &f)) > 0) {
		r = take_frame(c, &f);
		if (r < 0)
			break;
		*what |= (unsigned)r;
	}
	return r;
}

static unsigned lost(struct ringside_console *c)
{
	bool write_waits = c->write.id != 0 && !c->write.answered;
	console_gone(c);
	if (write_waits)
		write_reply(c, NULL, NULL);
	return (c->gone ? RINGSIDE_HAS_GONE : 0) | (write_waits ? RINGSIDE_HAS_WRITTEN : 0);
}

unsigned ringside_console_dispatch(struct ringside_console *c, short revents)
{
	unsigned what = 0;
	int r = 0;
	if (!c->conn)
		return 0;
	if (revents & (POLLIN | POLLHUP | POLLERR)) {
		r = conn_fill(c->conn);
		int taken = take_frames(c, &what);
		if (r >= 0)
			r = taken;
	}
	if (r >= 0 && (revents & POLLOUT)) {
		r = conn_flush(c->conn);
		if (r >= 0)
			write_pump(c);
	}
	if (r < 0 && c->conn)
		what |= lost(c);
	return what;
}

unsigned ringside_console_poll(struct ringside_console *c, uint64_t timeout_ms)
{
	uint64_t start = clock_mono_ms(), waited = 0;
	do {
		struct pollfd p = { .fd = ringside_console_fd(c), .events = ringside_console_events(c) };
		if (p.fd < 0)
			return 0;
		uint64_t left = timeout_ms - waited;
		int r = poll(&p, 1, timeout_ms == UINT64_MAX ? -1 : left > INT32_MAX ? INT32_MAX : (int)left);
		unsigned what = r > 0 ? ringside_console_dispatch(c, p.revents) : 0;
		if (what)
			return what;
		waited = clock_mono_ms() - start;
	} while (timeout_ms == UINT64_MAX || waited < timeout_ms);
	return 0;
}

bool ringside_console_arm(struct ringside_console *c, uint64_t level)
{
	if (!c->conn || c->ended || ring_tail(c->ring) > level)
		return false;
	if (c->armed && c->armed_level == level)
		return true;
	int r = conn_send_u64(c->conn, FRAME_LEVEL, level);
	if (r == -ENOBUFS)
		return true; /* the peer takes nothing now; POLLOUT wakes the caller, who arms again */
	if (r < 0)
		return true; /* so does poll(2), with the hang-up */
	c->armed = true;
	c->armed_level = level;
	return true;
}

/* ---- Keys and size ---- */

size_t ringside_console_input(struct ringside_console *c, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	size_t taken = 0;
	while (c->conn && taken < n) {
		size_t chunk = n - taken < INPUT_CHUNK ? n - taken : INPUT_CHUNK;
		if (conn_send(c->conn, FRAME_DATA, CHANNEL_INPUT, p + taken, chunk, NULL, 0) < 0)
			break;
		taken += chunk;
	}
	return taken;
}

bool ringside_console_set_size(struct ringside_console *c, uint32_t cols, uint32_t rows)
{
	if (!c->conn)
		return false;
	Wire__Resize size = WIRE__RESIZE__INIT;
	size.cols = cols;
	size.rows = rows;
	Wire__StreamRequest req = WIRE__STREAM_REQUEST__INIT;
	req.id = ++c->last_id;
	req.body_case = WIRE__STREAM_REQUEST__BODY_RESIZE;
	req.resize = &size;
	return conn_send_message(c->conn, &req.base, NULL, 0) == 0;
}

int ringside_console_refusal(const struct ringside_console *c, struct ringside_error *err)
{
	if (err)
		*err = c->refusal;
	return c->refusal.code;
}
