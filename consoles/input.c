/* input.c - a list of requests, each a list of pieces, pumped into the terminal from the head. */
#include "consoles/input.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>

#include "consoles/lines.h"

struct piece {
	struct piece *next;
	size_t size, done;
	bool judged; /* its lines were looked at */
	unsigned char bytes[];
};

struct request {
	struct request *next;
	struct input_request ask;
	struct piece *first, **last;
	size_t waiting;    /* bytes in its pieces */
	size_t line;       /* bytes of an unfinished line so far */
	bool begun;        /* its tail was sampled */
	bool open;         /* more pieces will come */
	bool held;         /* its sender is not to go on for now */
	bool over;         /* its sender is gone: to be dropped */
	uint64_t deadline; /* on the loop's clock */
	struct input_result result;
};

struct input {
	uv_timer_t timer;
	uint64_t armed; /* when the timer fires; 0: it does not run */
	struct terminal *terminal;
	struct ring *ring;
	struct request *head, **tail;
	size_t waiting; /* bytes of all pieces, and each request's own weight */
	bool busy;      /* going through the list: nobody else may take anything out of it */
	bool stuck;     /* the head waits for the terminal: the timer tries too */
};

/* What a key sends at most; more at once is a paste, and nobody waits for the echo of its every piece. */
#define KEY_BYTES 32

/* What a request weighs beside its bytes, so that empty ones are bounded too. */
#define REQUEST_WEIGHT (sizeof(struct request) + sizeof(struct piece))

/* ---- Lists ---- */

static struct piece *piece_new(const void *bytes, size_t n)
{
	struct piece *p = malloc(sizeof(*p) + n);

	if (!p)
		return NULL;
	*p = (struct piece){ .size = n };
	if (n > 0)
		memcpy(p->bytes, bytes, n);
	return p;
}

static void add_piece(struct input *in, struct request *r, struct piece *p)
{
	*r->last = p;
	r->last = &p->next;
	r->waiting += p->size;
	in->waiting += p->size;
}

static void drop_piece(struct input *in, struct request *r)
{
	struct piece *p = r->first;

	r->waiting -= p->size;
	in->waiting -= p->size;
	r->first = p->next;
	if (!r->first)
		r->last = &r->first;
	free(p);
}

static void unlink_request(struct input *in, struct request *r)
{
	struct request **at = &in->head;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (in->tail == &r->next)
		in->tail = at;
	in->waiting -= REQUEST_WEIGHT;
}

/* Takes a request out and tells its sender, which may begin another from inside. */
static void finish(struct input *in, struct request *r, enum result error)
{
	const struct input_request ask = r->ask;
	const bool over = r->over;
	struct input_result result = r->result;

	result.error = error;
	unlink_request(in, r);
	while (r->first)
		drop_piece(in, r);
	free(r);
	if (!over && !(ask.keys && error == RESULT_OK))
		ask.handler->on_done(ask.ctx, ask.id, &result);
}

static struct request *find_open(const struct input *in, const void *ctx)
{
	for (struct request *r = in->head; r; r = r->next)
		if (r->open && !r->over && r->ask.ctx == ctx)
			return r;
	return NULL;
}

/* ---- Time ---- */

static void on_timer(uv_timer_t *timer);

static uint64_t now(const struct input *in)
{
	return uv_now(in->timer.loop);
}

/* Progress only moves deadlines away, so a timer that stands may fire too early, never too late. */
static void arm(struct input *in, uint64_t when)
{
	if (in->armed && in->armed <= when)
		return;
	in->armed = when;
	uv_timer_start(&in->timer, on_timer, when > now(in) ? when - now(in) : 0, 0);
}

static void arm_for_list(struct input *in)
{
	if (!in->head && in->armed) {
		in->armed = 0;
		uv_timer_stop(&in->timer);
	}
	for (const struct request *r = in->head; r; r = r->next)
		arm(in, r->deadline);
	if (in->head && in->stuck)
		arm(in, now(in) + INPUT_RETRY_MS);
}

static void progress(struct input *in, struct request *r)
{
	r->deadline = now(in) + r->ask.timeout_ms;
}

/* ---- Writing ---- */

/* Whether the sender of a request in pieces should be read from; it hears of a change to yes. */
static void update_hold(struct input *in, struct request *r)
{
	bool was = r->held;

	r->held = r->open && (r != in->head || r->waiting > INPUT_PIECES_MAX);
	if (was && !r->held && !r->over)
		r->ask.handler->on_continue(r->ask.ctx);
}

static bool piece_fits(struct input *in, struct request *r, struct piece *p)
{
	struct termios t;

	if (p->judged || r->ask.raw_lines || r->ask.keys)
		return true;
	p->judged = true;
	if (!r->open && r->line + p->size <= LINES_MAX) /* cannot be too long, and nothing follows: no system call */
		return true;
	return tcgetattr(terminal_master(in->terminal), &t) < 0 || lines_fit(&t, &r->line, p->bytes, p->size);
}

static void begin(struct input *in, struct request *r)
{
	r->begun = true;
	if (!r->ask.keys) {
		terminal_drain(in->terminal, INPUT_DRAIN);
		r->result.tail_offset = ring_tail(in->ring);
	}
	update_hold(in, r);
}

/* Writes what the terminal takes of the first piece. true: the piece is done. Where it is not, the loop says when the
 * program has read; but of a terminal that nobody had open, or whose bytes went from one of its buffers into the next,
 * nothing tells, so the timer tries as well. */
static bool push(struct input *in, struct request *r)
{
	struct piece *p = r->first;
	ssize_t n = p->size > p->done ? terminal_write(in->terminal, p->bytes + p->done, p->size - p->done) : 0;

	if (n > 0) {
		p->done += (size_t)n;
		r->result.written += (uint64_t)n;
		progress(in, r);
	}
	in->stuck = p->done < p->size;
	return !in->stuck;
}

/* Goes on with the head. true: it is over, the next one's turn has come. */
static bool advance(struct input *in, struct request *r)
{
	if (!r->begun && !r->over)
		begin(in, r);
	while (r->first && !r->over) {
		if (!piece_fits(in, r, r->first)) {
			finish(in, r, RESULT_CANONICAL_LINE_LIMIT);
			return true;
		}
		if (!push(in, r)) {
			terminal_want_room(in->terminal, true);
			return false;
		}
		drop_piece(in, r);
		update_hold(in, r);
	}
	if (r->open && !r->over) {
		terminal_want_room(in->terminal, false);
		return false;
	}
	finish(in, r, RESULT_OK);
	return true;
}

static void drop_abandoned(struct input *in)
{
	struct request *next;

	for (struct request *r = in->head; r; r = next) {
		next = r->next;
		if (r->over)
			finish(in, r, RESULT_OK);
	}
}

void input_pump(struct input *in)
{
	if (in->busy)
		return;
	in->busy = true;
	while (in->head && advance(in, in->head))
		;
	drop_abandoned(in);
	in->busy = false;
	if (!in->head)
		terminal_want_room(in->terminal, false);
	arm_for_list(in);
}

/* Ends what is late: one after another, since each end may change the list. */
static bool expire_one(struct input *in)
{
	for (struct request *r = in->head; r; r = r->next) {
		if (r->deadline <= now(in)) {
			finish(in, r, RESULT_TIMEOUT);
			return true;
		}
	}
	return false;
}

static void on_timer(uv_timer_t *timer)
{
	struct input *in = timer->data;

	in->armed = 0;
	in->busy = true;
	while (expire_one(in))
		;
	in->busy = false;
	input_pump(in);
}

/* ---- Requests ---- */

static struct request *request_new(const struct input_request *q, const void *bytes, size_t n, bool more)
{
	struct request *r = calloc(1, sizeof(*r));
	struct piece *p = piece_new(bytes, n);

	if (!r || !p) {
		free(r);
		free(p);
		return NULL;
	}
	r->ask = *q;
	if (r->ask.timeout_ms == 0)
		r->ask.timeout_ms = INPUT_TIMEOUT_MS;
	r->open = more;
	r->first = p;
	r->last = &p->next;
	r->waiting = n;
	return r;
}

static void enqueue(struct input *in, struct request *r)
{
	*in->tail = r;
	in->tail = &r->next;
	in->waiting += r->waiting + REQUEST_WEIGHT;
	progress(in, r);
	update_hold(in, r);
}

enum result input_begin(struct input *in, const struct input_request *q, const void *bytes, size_t n, bool more)
{
	struct request *r;
	ssize_t taken = 0;

	if (n > INPUT_QUEUE_MAX || in->waiting + REQUEST_WEIGHT > INPUT_QUEUE_MAX - n)
		return RESULT_BUSY;
	/* A key that the terminal takes at once is copied nowhere. */
	if (q->keys && !in->head) {
		taken = n > 0 ? terminal_write(in->terminal, bytes, n) : 0;
		if (taken == (ssize_t)n && n <= KEY_BYTES)
			terminal_typed(in->terminal);
		if (taken == (ssize_t)n)
			return RESULT_OK;
		if (taken < 0)
			taken = 0;
	}
	r = request_new(q, (const char *)bytes + taken, n - (size_t)taken, more);
	if (!r)
		return RESULT_RESOURCE_LIMIT;
	r->result.written = (uint64_t)taken;
	enqueue(in, r);
	input_pump(in);
	return RESULT_OK;
}

void input_continue(struct input *in, const void *ctx, const void *bytes, size_t n, bool more)
{
	struct request *r = find_open(in, ctx);
	struct piece *p;

	if (!r)
		return;
	p = piece_new(bytes, n);
	if (!p) {
		finish(in, r, RESULT_RESOURCE_LIMIT);
		input_pump(in); /* those behind it */
		return;
	}
	r->open = more;
	add_piece(in, r, p);
	progress(in, r);
	update_hold(in, r);
	input_pump(in);
}

bool input_may_continue(const struct input *in, const void *ctx)
{
	const struct request *r = find_open(in, ctx);

	return !r || !r->held;
}

void input_abandon(struct input *in, const void *ctx)
{
	for (struct request *r = in->head; r; r = r->next)
		if (r->ask.ctx == ctx)
			r->over = true;
	if (!in->busy) {
		drop_abandoned(in);
		input_pump(in);
	}
}

/* ---- Life ---- */

int input_new(uv_loop_t *loop, struct terminal *terminal, struct ring *ring, struct input **out)
{
	struct input *in = calloc(1, sizeof(*in));

	if (!in)
		return -ENOMEM;
	(void)uv_timer_init(loop, &in->timer); /* cannot fail */
	in->timer.data = in;
	in->terminal = terminal;
	in->ring = ring;
	in->tail = &in->head;
	*out = in;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void input_free(struct input *in, enum result error)
{
	if (!in)
		return;
	assert(!in->busy);
	in->busy = true; /* for good: who is told may abandon, which then only marks */
	while (in->head)
		finish(in, in->head, error);
	uv_close((uv_handle_t *)&in->timer, on_closed);
}
