/*
 * wait.c - a read that waits: for output, a match, silence, the end, or the time.
 *
 * A step copies what is new out of the ring, searches it, gives it away, and then asks in a fixed order whether the
 * read is over: match, enough, end, silence, time. It never blocks; ringside_read_wait() is steps with poll(2) between
 * them.
 *
 * Bytes are given in order and without a gap inside the answer. Where the ring overtakes the reader in the middle, an
 * answer that holds its bytes begins again after the gap (lost_bytes then counts everything since `from`); a sink is
 * told of the gap.
 */
#include "client/wait.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "client/match.h"
#include "wire/clock.h"

#define STEP_BYTES  ((size_t)1024 * 1024) /* copied in one step at most */
#define CHUNK_BYTES ((size_t)64 * 1024)   /* copied at once */

struct collected {
	uint8_t *bytes;
	size_t size, capacity;
};

struct ringside_wait {
	struct ringside_console *c;
	struct ringside_read_options o;
	uint64_t max;
	struct matcher *matcher; /* NULL: nothing is searched */
	uint8_t *chunk;          /* where bytes go that are not searched; NULL with a matcher */
	uint64_t position;       /* the next byte to copy out */
	bool bounded;            /* the read ends at `stop`: what was there when it became clear that it is enough */
	uint64_t stop;
	uint64_t deadline, idle_deadline;
	bool work_left; /* the step ended because it was long enough */
	bool matched;
	uint64_t match_offset, match_length;

	/* The answer as far as it has come: [offset, given_to) was given. */
	uint64_t offset, given_to;
	uint64_t given;   /* bytes */
	uint64_t lost;    /* since `from`; with a sink: in all */
	uint64_t to_tell; /* of it, what the sink has not been told yet */
	struct collected collected;
};

static uint64_t after(uint64_t now, uint64_t ms)
{
	uint64_t at;
	return __builtin_add_overflow(now, ms, &at) ? UINT64_MAX : at;
}

/* ---- Making one ---- */

static int check_options(
        const struct ringside_console *c, const struct ringside_read_options *o, struct ringside_error *err)
{
	uint64_t tail = ringside_console_tail(c);
	if (o->from > tail)
		return error_set(err, RINGSIDE_OFFSET_OUT_OF_RANGE, "offset %llu is past the tail, which is at %llu",
		        (unsigned long long)o->from, (unsigned long long)tail);
	if ((o->until & RINGSIDE_UNTIL_MATCH) && !o->pattern)
		return error_set(err, RINGSIDE_INVALID_ARGUMENT, "a read until a match needs a pattern");
	if (!o->sink && o->max > RINGSIDE_READ_MAX)
		return error_set(err, RINGSIDE_TOO_LARGE, "one answer holds at most %zu bytes", RINGSIDE_READ_MAX);
	return 0;
}

int wait_new_at(uint64_t now_ms, struct ringside_console *c, const struct ringside_read_options *options,
        uint64_t timeout_ms, struct ringside_wait **out, struct ringside_error *err)
{
	int code = check_options(c, options, err);
	if (code)
		return code;
	struct ringside_wait *w = calloc(1, sizeof(*w));
	if (!w)
		return error_memory(err);
	w->c = c;
	w->o = *options;
	w->o.pattern = NULL;
	w->max = options->max ? options->max : options->sink ? UINT64_MAX : RINGSIDE_READ_MAX;
	w->position = w->offset = w->given_to = options->from;
	w->deadline = options->until ? after(now_ms, timeout_ms) : UINT64_MAX;
	w->idle_deadline = options->until & RINGSIDE_UNTIL_IDLE ? after(now_ms, options->idle_ms) : UINT64_MAX;
	w->bounded = options->until == 0;
	w->stop = ringside_console_tail(c);
	w->work_left = true;
	if (options->until & RINGSIDE_UNTIL_MATCH) {
		code = matcher_new(options->pattern, &w->matcher, err);
		if (!code)
			matcher_restart(w->matcher, options->from);
	} else if (!(w->chunk = malloc(CHUNK_BYTES))) {
		code = error_memory(err);
	}
	if (code) {
		ringside_wait_free(w);
		return code;
	}
	*out = w;
	return 0;
}

int ringside_wait_new(struct ringside_console *c, const struct ringside_read_options *options, uint64_t timeout_ms,
        struct ringside_wait **out, struct ringside_error *err)
{
	return wait_new_at(clock_mono_ms(), c, options, timeout_ms, out, err);
}

void ringside_wait_free(struct ringside_wait *w)
{
	if (!w)
		return;
	matcher_free(w->matcher);
	free(w->chunk);
	free(w->collected.bytes);
	free(w);
}

/* ---- Giving bytes away ---- */

static int collect(struct collected *b, const void *bytes, size_t n, struct ringside_error *err)
{
	if (n > b->capacity - b->size) {
		size_t capacity = b->capacity ? b->capacity : CHUNK_BYTES;
		while (capacity - b->size < n)
			capacity *= 2; /* ends: both are at most RINGSIDE_READ_MAX, see check_options() */
		uint8_t *grown = realloc(b->bytes, capacity);
		if (!grown)
			return error_memory(err);
		b->bytes = grown;
		b->capacity = capacity;
	}
	memcpy(b->bytes + b->size, bytes, n);
	b->size += n;
	return 0;
}

static bool full(const struct ringside_wait *w)
{
	return w->given >= w->max;
}

/* Output before `offset` is gone. Once the answer is full nothing is given any more, and nothing is missing in it. */
static void note_loss(struct ringside_wait *w, uint64_t offset, uint64_t lost)
{
	if (full(w))
		return;
	if (w->o.sink) {
		w->lost += lost;
		w->to_tell += lost;
		if (w->given == 0)
			w->offset = offset;
	} else {
		w->lost = offset - w->o.from;
		w->offset = offset;
		w->given = 0;
		w->collected.size = 0;
	}
	w->given_to = offset;
}

static int give(struct ringside_wait *w, const uint8_t *bytes, uint64_t from, uint64_t to, struct ringside_error *err)
{
	if (full(w) || to <= from)
		return 0;
	uint64_t room = w->max - w->given;
	size_t n = to - from < room ? (size_t)(to - from) : (size_t)room;
	int code = 0;
	if (!w->o.sink)
		code = collect(&w->collected, bytes, n, err);
	else if (w->o.sink(w->o.sink_ctx, from, w->to_tell, bytes, n))
		code = error_set(err, RINGSIDE_ABORTED, "the reader took no more");
	if (code)
		return code;
	w->to_tell = 0;
	w->given += n;
	w->given_to = from + n;
	return 0;
}

/* A match ends the answer. It may have been decided by bytes that came after it, when those had been given already: an
 * answer that holds its bytes is cut, a sink has had them. */
static void take_back(struct ringside_wait *w, uint64_t end)
{
	if (w->o.sink || end >= w->given_to)
		return;
	uint64_t from = end > w->offset ? end : w->offset;
	w->given -= w->given_to - from;
	w->collected.size -= (size_t)(w->given_to - from);
	w->given_to = from;
}

/* ---- One piece of the ring ---- */

/* Copies a piece out of the ring. *bytes lie where they are searched, or in the chunk. */
static int copy_out(struct ringside_wait *w, const uint8_t **bytes, struct ring_span *span, struct ringside_error *err)
{
	size_t room = CHUNK_BYTES;
	uint8_t *to = w->matcher ? matcher_space(w->matcher, &room) : w->chunk;
	if (w->bounded && !w->matcher && w->stop - w->position < room)
		room = (size_t)(w->stop - w->position);
	if (ring_read(w->c->ring, w->position, to, room, span) < 0)
		return error_set(
		        err, RINGSIDE_PROTOCOL_ERROR, "the console's tail went back: its host cannot be trusted");
	if (span->lost_bytes && w->matcher) {
		/* No match goes over a gap. The copy stands behind what is forgotten now. */
		matcher_restart(w->matcher, span->offset);
		uint8_t *front = matcher_space(w->matcher, &room);
		memmove(front, to, (size_t)(span->next_offset - span->offset));
		to = front;
	}
	*bytes = to;
	return 0;
}

static int search(struct ringside_wait *w, size_t n, enum match_end end, struct ringside_error *err)
{
	if (!w->matcher)
		return 0;
	return matcher_scan(w->matcher, n, end, &w->matched, &w->match_offset, &w->match_length, err);
}

static int take_piece(struct ringside_wait *w, struct ring_span *span, struct ringside_error *err)
{
	const uint8_t *bytes = NULL;
	int code = copy_out(w, &bytes, span, err);
	if (code)
		return code;
	if (span->lost_bytes)
		note_loss(w, span->offset, span->lost_bytes);
	w->position = span->next_offset;
	size_t n = (size_t)(span->next_offset - span->offset);
	if (n == 0)
		return 0;
	code = search(w, n, ringside_console_tail(w->c) > w->position ? MATCH_MORE : MATCH_PAUSE, err);
	if (code)
		return code;
	if (!w->matched)
		return give(w, bytes, span->offset, span->next_offset, err);
	uint64_t end = w->match_offset + w->match_length;
	take_back(w, end);
	return give(w, bytes, span->offset, end, err);
}

/* ---- Is it over? ---- */

static bool at_stop(const struct ringside_wait *w)
{
	return w->bounded && (w->position >= w->stop || (full(w) && !w->matcher));
}

/* Everything that is there, but no more than a step's worth. */
static int take_new(struct ringside_wait *w, uint64_t now, struct ringside_error *err)
{
	size_t copied = 0;
	w->work_left = false;
	while (!w->matched && !at_stop(w)) {
		struct ring_span span;
		int code = take_piece(w, &span, err);
		if (code)
			return code;
		if (span.next_offset == span.offset && !span.lost_bytes)
			return 0;
		if (w->o.until & RINGSIDE_UNTIL_IDLE)
			w->idle_deadline = after(now, w->o.idle_ms);
		if ((w->o.until & RINGSIDE_UNTIL_OUTPUT) && !w->bounded && span.next_offset > span.offset) {
			w->bounded = true;
			w->stop = ringside_console_tail(w->c);
		}
		copied += (size_t)(span.next_offset - span.offset);
		if (copied >= STEP_BYTES) {
			w->work_left = true;
			return 0;
		}
	}
	return 0;
}

/* The reason that the read is over, or 0. `ended`: no more will come, known before the last look into the ring. */
static int is_over(struct ringside_wait *w, uint64_t now, bool ended, struct ringside_error *err, int *code)
{
	*code = 0;
	if (w->matched)
		return RINGSIDE_REASON_MATCH;
	bool all_read = w->position >= ringside_console_tail(w->c);
	if (ended && all_read && w->matcher) {
		*code = search(w, 0, MATCH_FINAL, err);
		if (w->matched)
			take_back(w, w->match_offset + w->match_length);
		if (*code || w->matched)
			return w->matched ? RINGSIDE_REASON_MATCH : 0;
	}
	if (at_stop(w) && w->given > 0)
		return RINGSIDE_REASON_OUTPUT;
	if (ended && all_read)
		return RINGSIDE_REASON_EXIT;
	if (at_stop(w) || now >= w->deadline)
		return RINGSIDE_REASON_TIMEOUT;
	return now >= w->idle_deadline && !w->work_left ? RINGSIDE_REASON_IDLE : 0;
}

static int answer(struct ringside_wait *w, int reason, struct ringside_answer **out, struct ringside_error *err)
{
	struct memory *m = memory_new(sizeof(**out));
	if (!m || (w->collected.bytes && !memory_adopt(m, w->collected.bytes))) {
		memory_free(m);
		return error_memory(err);
	}
	struct ringside_answer *a = memory_object(m);
	*a = (struct ringside_answer){
		.offset = w->offset,
		.next_offset = w->given_to,
		.head_offset = ringside_console_head(w->c),
		.tail_offset = ringside_console_tail(w->c),
		.lost_bytes = w->lost,
		.reason = reason,
		.state = w->c->info.state,
		.exit = w->c->info.exit,
		.data = w->o.sink            ? NULL
		        : w->collected.bytes ? w->collected.bytes
		                             : (const uint8_t *)"",
		.size = w->collected.size,
	};
	w->collected = (struct collected){ 0 };
	a->exit.name = memory_string(m, w->c->info.exit.name);
	if (reason == RINGSIDE_REASON_MATCH) {
		a->match_offset = w->match_offset;
		a->match_length = w->match_length;
	}
	if (!a->exit.name) {
		memory_free(m);
		return error_memory(err);
	}
	*out = a;
	return 0;
}

int wait_step_at(
        uint64_t now_ms, struct ringside_wait *w, bool *done, struct ringside_answer **out, struct ringside_error *err)
{
	*done = false;
	bool ended = w->c->ended;
	int reason, code = take_new(w, now_ms, err);
	if (code)
		return code;
	reason = is_over(w, now_ms, ended, err, &code);
	if (code)
		return code;
	if (reason) {
		code = answer(w, reason, out, err);
		*done = !code;
		return code;
	}
	/* More has come meanwhile, or the end was heard of after this step began to look. */
	if (!w->work_left && !ringside_console_arm(w->c, w->position))
		w->work_left = true;
	return 0;
}

int ringside_wait_step(struct ringside_wait *w, bool *done, struct ringside_answer **out, struct ringside_error *err)
{
	return wait_step_at(clock_mono_ms(), w, done, out, err);
}

uint64_t ringside_wait_deadline(const struct ringside_wait *w)
{
	if (w->work_left)
		return 0;
	return w->deadline < w->idle_deadline ? w->deadline : w->idle_deadline;
}

static void wait_for_more(struct ringside_wait *w)
{
	uint64_t deadline = ringside_wait_deadline(w);
	uint64_t now = clock_mono_ms();
	if (deadline == UINT64_MAX)
		ringside_console_poll(w->c, UINT64_MAX);
	else
		ringside_console_poll(w->c, deadline > now ? deadline - now : 0);
}

int ringside_read_wait(struct ringside_console *c, const struct ringside_read_options *options, uint64_t timeout_ms,
        struct ringside_answer **out, struct ringside_error *err)
{
	struct ringside_wait *w;
	bool done = false;
	int code = ringside_wait_new(c, options, timeout_ms, &w, err);
	if (code)
		return code;
	for (;;) {
		code = ringside_wait_step(w, &done, out, err);
		if (code || done)
			break;
		wait_for_more(w);
	}
	ringside_wait_free(w);
	return code;
}
