/* test_stream.c - what a client of one console may expect: wake-ups, writes, keys, sizes, the end, and its own rights.
 */
#include "tests/unit/consoles/harness.h"

#define RING ((uint64_t)1024 * 1024)

static int setup(void **state)
{
	*state = harness_start(0, RING);
	return 0;
}

static int teardown(void **state)
{
	harness_kill(*state);
	return 0;
}

/* ---- Wake-ups ---- */

static uint64_t wait_tail(struct conn *s)
{
	struct frame f;

	assert_int_equal(conn_wait_frame(s, harness_deadline(), &f), 1);
	assert_int_equal(f.type, FRAME_TAIL);
	assert_int_equal(f.length, 8);
	return frame_get_u64(f.payload);
}

static void a_level_reader_is_woken_once_per_level(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "stty raw -echo; printf ready; exec cat");
	struct conn *s = harness_open(h, "dev", WRITE);
	struct frame f;

	harness_wait_text(ring, 0, "ready");
	assert_int_equal(conn_send_u64(s, FRAME_LEVEL, 0), 0); /* is behind: told at once */
	assert_int_equal(wait_tail(s), 5);
	stream_send_write(s, 1, "a", 1, false, 0, false); /* not level: not told */
	harness_wait_text(ring, 0, "readya");
	stream_done(stream_reply(s));
	assert_int_equal(conn_wait_frame(s, clock_mono_ms() + 50, &f), 0);
	assert_int_equal(conn_send_u64(s, FRAME_LEVEL, 6), 0); /* level: told with the next byte */
	assert_int_equal(conn_wait_frame(s, clock_mono_ms() + 50, &f), 0);
	stream_send_write(s, 2, "b", 1, false, 0, false);
	for (unsigned seen = 0; seen != (1 << FRAME_TAIL | 1 << FRAME_MESSAGE);
	        seen |= 1u << f.type) /* in either order */
		assert_int_equal(conn_wait_frame(s, harness_deadline(), &f), 1);
	harness_wait_text(ring, 0, "readyab");
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* Follows the ring as a reader that takes all does, up to `end`. How often it was woken. */
static unsigned follow(struct conn *s, const struct ring *ring, uint64_t end)
{
	unsigned woken = 0;

	for (uint64_t at = ring_tail(ring); at < end; at = ring_tail(ring)) {
		assert_int_equal(conn_send_u64(s, FRAME_LEVEL, at), 0);
		assert_true(wait_tail(s) > at);
		woken++;
	}
	return woken;
}

static void a_flood_is_told_of_seldom_and_to_its_last_byte(void **state)
{
	enum { READY = 5, FLOOD = 16 * 1024 * 1024, LAST = 3, END = READY + FLOOD + LAST };
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev",
	        "stty raw -echo; printf ready; head -c 1 >go; head -c 16777216 /dev/zero; printf end; exec sleep 1000");
	struct conn *s = harness_open(h, "dev", WRITE);
	struct frame f;

	harness_wait_text(ring, 0, "ready");
	stream_done(stream_write(s, 1, "g", 1, 0));
	uint64_t start = clock_mono_ms();
	unsigned woken = follow(s, ring, END);
	uint64_t took = clock_mono_ms() - start;

	assert_int_equal(ring_tail(ring), END);
	assert_int_equal(conn_send_u64(s, FRAME_LEVEL, END), 0);
	assert_int_equal(conn_wait_frame(s, clock_mono_ms() + 50, &f), 0);
	/* With some 4 KiB a read it could have been 4096 times. On a machine so busy that it is no flood, it is. */
	if (took < 500)
		assert_in_range(woken, 1, FLOOD / (RING / 4) + took / 5 + 128);
	conn_free(s);
	ring_free(ring);
	harness_done(harness_close(h, "dev", 0));
	harness_shutdown(h);
}

/* Floods wait for a key's echo, but not for ever, also where none comes and the next key is there already. */
static void keys_that_are_not_answered_do_not_stop_another_consoles_flood(void **state)
{
	enum { ENOUGH = 1024 * 1024 };
	struct harness *h = *state;
	struct ring *flood = harness_run(h, "flood", "stty raw; exec cat /dev/zero");
	struct ring *ring = harness_run(h, "mute", "stty raw -echo; printf ready; exec sleep 1000");
	struct conn *s = harness_open(h, "mute", WRITE);
	uint64_t deadline = harness_deadline(), from;

	harness_wait_text(ring, 0, "ready");
	wait_until(ring_tail(flood) > ENOUGH);
	from = ring_tail(flood);
	for (unsigned i = 0; i < 500 || ring_tail(flood) < from + ENOUGH; i++) {
		assert_true(clock_mono_ms() < deadline);
		if (i < 2000) /* what the terminal takes without anybody reading */
			assert_int_equal(conn_send(s, FRAME_DATA, CHANNEL_INPUT, "k", 1, NULL, 0), 0);
		usleep(500);
	}
	conn_free(s);
	/* It ends with the last one unanswered. */
	harness_done(harness_close(h, "mute", 0));
	from = ring_tail(flood);
	wait_until(ring_tail(flood) > from + ENOUGH);
	harness_done(harness_close(h, "flood", 0));
	ring_free(ring);
	ring_free(flood);
	harness_shutdown(h);
}

static void the_end_is_told_after_the_last_byte_and_also_to_who_comes_later(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "read x; seq 1 500");
	struct conn *s = harness_open(h, "dev", WRITE), *late;
	Wire__StreamReply *r;

	stream_send_write(s, 1, "\n", 1, false, 0, false);
	r = stream_reply_of(s, WIRE__STREAM_REPLY__BODY_ENDED);
	assert_int_equal(r->id, 0);
	assert_int_equal(r->ended->state, CONSOLE_EXITED);
	assert_int_equal(r->ended->tail_offset, ring_tail(ring));
	assert_non_null(strstr(harness_text(ring, 0), "\n500\r\n"));
	stream_done(r);

	late = harness_open(h, "dev", WRITE);
	stream_done(stream_reply_of(late, WIRE__STREAM_REPLY__BODY_ENDED));
	r = stream_write(late, 1, "x", 1, 0);
	assert_int_equal(r->write->error->code, RESULT_NOT_RUNNING);
	stream_done(r);
	conn_free(s);
	conn_free(late);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Writes ---- */

static void from_a_writes_offset_on_stands_what_it_caused_and_nothing_before(void **state)
{
	struct harness *h = *state;
	struct ring *ring =
	        harness_run(h, "dev", "i=0; while read x; do i=$((i+1)); echo $i; seq 1 300; echo end$i; done");
	struct conn *s = harness_open(h, "dev", WRITE);
	char first[32], last[32];

	for (int i = 1; i <= 30; i++) {
		Wire__StreamReply *r = stream_write(s, (uint64_t)i, "go\n", 3, 0);

		assert_null(r->write->error);
		assert_int_equal(r->write->written, 3);
		snprintf(first, sizeof(first), "go\r\n%d\r\n", i);
		snprintf(last, sizeof(last), "end%d\r\n", i);
		harness_wait_text(ring, r->write->tail_offset, last);
		assert_memory_equal(harness_text(ring, r->write->tail_offset), first, strlen(first));
		stream_done(r);
	}
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void fill_lines(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = i % 64 == 63 ? '\n' : (char)('a' + (int)(i / 64 % 26));
}

/* With echo and the program's own copy, twice the paste comes back while it still goes in. */
static void a_large_paste_into_a_program_that_echoes_arrives_whole(void **state)
{
	enum { SIZE = 240 * 1024 };
	struct harness *h = *state;
	struct ring *ring =
	        harness_run(h, "dev", "stty -echo; printf ready; cat > copy; cmp copy reference && printf same");
	struct conn *s = harness_open(h, "dev", WRITE);
	static char paste[SIZE];
	char path[PATH_MAX];
	Wire__StreamReply *r;
	int fd;

	fill_lines(paste, SIZE);
	snprintf(path, sizeof(path), "%s/workspace/reference", h->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fd_write_all(fd, paste, SIZE), 0);
	close(fd);
	harness_wait_text(ring, 0, "ready");
	r = stream_write(s, 1, paste, SIZE, 0);
	assert_null(r->write->error);
	assert_int_equal(r->write->written, SIZE);
	stream_done(r);
	stream_done(stream_write(s, 2, "\004", 1, 0));
	harness_wait_text(ring, 0, "same");
	conn_free(s);
	ring_free(ring);

	ring = harness_run(h, "copy", "stty -echo; printf ready; exec cat");
	s = harness_open(h, "copy", WRITE);
	harness_wait_text(ring, 0, "ready");
	r = stream_write(s, 1, paste, SIZE, 0);
	assert_null(r->write->error);
	stream_done(r);
	wait_until(ring_tail(ring) == 5 + SIZE + SIZE / 64); /* each newline comes back as CR LF */
	conn_free(s);
	ring_free(ring);

	/* The kernel drops part of an echo that is not fetched as fast as it comes (n_tty.c, ECHO_DISCARD_WATERMARK),
	 * so what comes back is not exact here; that it all goes in is. */
	ring = harness_run(h, "echo", "exec cat");
	s = harness_open(h, "echo", WRITE);
	r = stream_write(s, 1, paste, SIZE, 0);
	assert_null(r->write->error);
	assert_int_equal(r->write->written, SIZE);
	stream_done(r);
	wait_until(ring_tail(ring) > SIZE + SIZE / 64);
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_write_to_a_program_that_does_not_read_times_out_and_says_how_much_was_taken(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "stty raw -echo; printf ready; exec sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE);
	static char much[60 * 1024];
	Wire__StreamReply *r;
	uint64_t began = clock_mono_ms();

	harness_wait_text(ring, 0, "ready");
	memset(much, 'x', sizeof(much));
	r = stream_write(s, 1, much, sizeof(much), 200);
	assert_non_null(r->write->error);
	assert_int_equal(r->write->error->code, RESULT_TIMEOUT);
	assert_true(r->write->written > 0 && r->write->written < sizeof(much));
	assert_true(clock_mono_ms() - began >= 190);
	stream_done(r);
	r = stream_write(s, 2, much, sizeof(much), 100); /* the queue goes on */
	assert_non_null(r->write->error);
	assert_int_equal(r->write->error->code, RESULT_TIMEOUT);
	assert_true(r->write->written < sizeof(much));
	stream_done(r);
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void the_write_that_does_not_fit_the_queue_is_busy_and_not_begun(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "stty raw -echo; printf ready; exec sleep 600");
	enum { WRITERS = 20, FIT = 17 }; /* 17 pieces of 60 KiB fit 1 MiB */
	struct conn *s[WRITERS];
	static char piece[60 * 1024];
	struct frame f;

	harness_wait_text(ring, 0, "ready");
	memset(piece, 'x', sizeof(piece));
	for (unsigned i = 0; i < WRITERS; i++) {
		s[i] = harness_open(h, "dev", WRITE);
		stream_send_write(s[i], 1, piece, sizeof(piece), false, 60000, false);
		assert_int_equal(conn_wait_flushed(s[i], harness_deadline()), 0);
	}
	for (unsigned i = FIT; i < WRITERS; i++) {
		Wire__StreamReply *r = stream_reply(s[i]);

		assert_int_equal(r->write->error->code, RESULT_BUSY);
		assert_int_equal(r->write->written, 0);
		stream_done(r);
	}
	for (unsigned i = 0; i < FIT; i++) /* those still wait */
		assert_int_equal(conn_wait_frame(s[i], 0, &f), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		conn_free(s[i]);
	harness_done(harness_close(h, "dev", 0));
	ring_free(ring);
	harness_shutdown(h);
}

static void bytes_of_two_writers_do_not_mix(void **state)
{
	enum { SIZE = 96 * 1024 };
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "stty raw -echo; printf ready; exec cat");
	struct conn *a = harness_open(h, "dev", WRITE), *b = harness_open(h, "dev", WRITE);
	static char as[SIZE], bs[SIZE];
	const char *text, *other;

	harness_wait_text(ring, 0, "ready");
	memset(as, 'a', SIZE);
	memset(bs, 'b', SIZE);
	for (size_t at = 0; at < SIZE; at += SIZE / 4) { /* in pieces, sent in turns */
		stream_send_write(a, 1, as + at, SIZE / 4, at + SIZE / 4 < SIZE, 0, false);
		stream_send_write(b, 1, bs + at, SIZE / 4, at + SIZE / 4 < SIZE, 0, false);
	}
	stream_done(stream_reply_of(a, WIRE__STREAM_REPLY__BODY_WRITE));
	stream_done(stream_reply_of(b, WIRE__STREAM_REPLY__BODY_WRITE));
	wait_until(ring_tail(ring) == 5 + 2 * SIZE);
	text = harness_text(ring, 5);
	other = text[0] == 'a' ? "b" : "a";
	assert_int_equal(strcspn(text, other), SIZE);
	conn_free(a);
	conn_free(b);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_writer_that_leaves_in_between_drops_the_rest_and_the_next_one_goes_on(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "stty raw -echo; printf ready; exec cat");
	struct conn *a = harness_open(h, "dev", WRITE), *b = harness_open(h, "dev", WRITE);
	Wire__StreamReply *r;

	harness_wait_text(ring, 0, "ready");
	stream_send_write(a, 1, "half", 4, true, 60000, false);
	harness_wait_text(ring, 0, "half");
	stream_send_write(b, 1, "next", 4, false, 60000, false);
	assert_int_equal(conn_wait_flushed(b, harness_deadline()), 0);
	conn_free(a);
	r = stream_reply_of(b, WIRE__STREAM_REPLY__BODY_WRITE);
	assert_null(r->write->error);
	stream_done(r);
	harness_wait_text(ring, 0, "readyhalfnext");
	conn_free(b);
	ring_free(ring);
	harness_shutdown(h);
}

/* Far more than the daemon would hold: it goes through in pieces, at the program's pace. */
static void a_write_of_many_pieces_is_held_back_and_not_refused(void **state)
{
	enum { SIZE = 3 * 1024 * 1024 };
	struct harness *h = *state;
	struct ring *ring =
	        harness_run(h, "dev", "stty raw -echo; printf ready; head -c 3145728 | md5sum; exec sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE);
	char *much = malloc(SIZE);
	Wire__StreamReply *r;

	assert_non_null(much);
	memset(much, 'x', SIZE);
	harness_wait_text(ring, 0, "ready");
	r = stream_write(s, 1, much, SIZE, 0);
	assert_null(r->write->error);
	assert_int_equal(r->write->written, SIZE);
	stream_done(r);
	harness_wait_text(ring, 5, "  -");
	assert_memory_equal(harness_text(ring, 5), "c1887f0c970afa48194adf7f5c504696", 32);
	free(much);
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_line_that_the_terminal_would_cut_is_refused_unless_told_otherwise(void **state)
{
	struct harness *h = *state;
	struct ring *ring =
	        harness_run(h, "dev", "stty -echo; printf ready; while read x; do printf \"<${#x}>\"; done");
	struct conn *s = harness_open(h, "dev", WRITE);
	static char line[5000];
	Wire__StreamReply *r;

	harness_wait_text(ring, 0, "ready");
	memset(line, 'x', sizeof(line));
	line[4096] = '\n';
	r = stream_write(s, 1, line, 4097, 0);
	assert_non_null(r->write->error);
	assert_int_equal(r->write->error->code, RESULT_CANONICAL_LINE_LIMIT);
	assert_int_equal(r->write->written, 0);
	stream_done(r);
	line[4096] = 'x';
	line[4095] = '\n';
	r = stream_write(s, 2, line, 4096, 0); /* the longest that fits */
	assert_null(r->write->error);
	stream_done(r);
	harness_wait_text(ring, 5, "<4095>");

	line[4095] = 'x';
	stream_send_write(s, 3, line, 3000, true, 0, false); /* too long over two pieces */
	stream_send_write(s, 3, line, 3000, false, 0, false);
	r = stream_reply_of(s, WIRE__STREAM_REPLY__BODY_WRITE);
	assert_non_null(r->write->error);
	assert_int_equal(r->write->error->code, RESULT_CANONICAL_LINE_LIMIT);
	assert_int_equal(r->write->written, 3000);
	stream_done(r);
	line[10] = '\n';
	stream_send_write(s, 4, line, 4999, false, 0, true); /* cut, as asked for */
	r = stream_reply_of(s, WIRE__STREAM_REPLY__BODY_WRITE);
	assert_null(r->write->error);
	assert_int_equal(r->write->written, 4999);
	stream_done(r);
	harness_wait_text(ring, 5, "<3010>");
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_terminal_in_raw_mode_takes_lines_of_any_length(void **state)
{
	struct harness *h = *state;
	struct ring *ring =
	        harness_run(h, "dev", "stty raw -echo; printf ready; head -c 50000 | wc -c; exec sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE);
	static char line[50000];
	Wire__StreamReply *r;

	harness_wait_text(ring, 0, "ready");
	memset(line, 'x', sizeof(line));
	r = stream_write(s, 1, line, sizeof(line), 0);
	assert_null(r->write->error);
	stream_done(r);
	harness_wait_text(ring, 5, "50000");
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Keys and rights ---- */

static void send_keys(struct conn *s, const char *keys)
{
	assert_int_equal(conn_send(s, FRAME_DATA, CHANNEL_INPUT, keys, strlen(keys), NULL, 0), 0);
}

static void keys_go_in_without_an_answer_and_come_back_as_echo(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "read x; printf \"got $x\"; exec sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE | ATTACH | RESIZE);
	struct frame f;

	send_keys(s, "a");
	harness_wait_text(ring, 0, "a");
	send_keys(s, "b\r");
	harness_wait_text(ring, 0, "ab\r\ngot ab");
	assert_int_equal(conn_wait_frame(s, clock_mono_ms() + 20, &f), 0);
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

static void who_may_only_read_is_told_and_stays(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "printf ready; exec cat");
	struct conn *s = harness_open(h, "dev", READ_ONLY | ATTACH);
	Wire__StreamReply *r;

	harness_wait_text(ring, 0, "ready");
	send_keys(s, "x");
	r = stream_reply(s);
	assert_int_equal(r->id, 0);
	assert_int_equal(r->error->code, RESULT_PERMISSION_DENIED);
	stream_done(r);
	r = stream_write(s, 7, "x", 1, 0);
	assert_int_equal(r->id, 7);
	assert_int_equal(r->write->error->code, RESULT_PERMISSION_DENIED);
	stream_done(r);
	stream_send_resize(s, 8, 100, 30);
	r = stream_reply(s);
	assert_int_equal(r->id, 8);
	assert_int_equal(r->error->code, RESULT_PERMISSION_DENIED);
	stream_done(r);
	assert_string_equal(harness_text(ring, 0), "ready");
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Size ---- */

static void assert_resized(struct conn *s, uint32_t cols, uint32_t rows)
{
	Wire__StreamReply *r = stream_reply_of(s, WIRE__STREAM_REPLY__BODY_RESIZED);

	assert_int_equal(r->resized->cols, cols);
	assert_int_equal(r->resized->rows, rows);
	stream_done(r);
}

static void the_size_is_that_of_the_client_that_acted_last(void **state)
{
	struct harness *h = *state;
	struct ring *ring =
	        harness_run(h, "dev", "trap 'stty size' WINCH; stty -echo; printf ready; while :; do sleep 0.02; done");
	struct conn *a = harness_open(h, "dev", WRITE | RESIZE | ATTACH),
	            *b = harness_open(h, "dev", WRITE | RESIZE | ATTACH);
	struct conn *watcher = harness_open(h, "dev", READ_ONLY | ATTACH);

	harness_wait_text(ring, 0, "ready");
	stream_send_resize(a, 1, 100, 30);
	assert_resized(watcher, 100, 30);
	harness_wait_text(ring, 0, "30 100");
	stream_send_resize(b, 1, 90, 20);
	assert_resized(watcher, 90, 20);
	harness_wait_text(ring, 0, "20 90");
	send_keys(a, "x"); /* acts: its size again */
	assert_resized(watcher, 100, 30);
	send_keys(b, "x");
	assert_resized(watcher, 90, 20);
	assert_resized(b, 100, 30);
	conn_free(b);
	send_keys(a, "x");
	assert_resized(watcher, 100, 30);
	conn_free(a);
	conn_free(watcher);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_size_out_of_bounds_is_refused(void **state)
{
	static const struct {
		uint32_t cols, rows;
		bool fine;
	} sizes[] = { { 1, 24, false }, { 80, 1, false }, { 1001, 24, false }, { 80, 501, false },
		{ 65536 + 80, 24, false }, { 2, 2, true }, { 1000, 500, true } };
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "exec sleep 600");
	struct conn *s = harness_open(h, "dev", WRITE | RESIZE);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		Wire__StreamReply *r;

		stream_send_resize(s, i + 1, sizes[i].cols, sizes[i].rows);
		r = stream_reply_of(s, sizes[i].fine ? WIRE__STREAM_REPLY__BODY_DONE : WIRE__STREAM_REPLY__BODY_ERROR);
		assert_int_equal(r->id, i + 1);
		if (!sizes[i].fine)
			assert_int_equal(r->error->code, RESULT_INVALID_ARGUMENT);
		stream_done(r);
	}
	conn_free(s);
	ring_free(ring);
	harness_shutdown(h);
}

/* ---- Peers that misbehave ---- */

static void who_breaks_the_protocol_is_dropped_and_nobody_else(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "stty raw -echo; printf ready; exec cat");
	struct conn *good = harness_open(h, "dev", WRITE), *bad;
	Wire__StreamRequest nameless = WIRE__STREAM_REQUEST__INIT;

	harness_wait_text(ring, 0, "ready");
	bad = harness_open(h, "dev", WRITE);
	assert_int_equal(conn_send(bad, FRAME_MESSAGE, 0, "\xff\xff\xff", 3, NULL, 0), 0);
	assert_true(stream_is_dropped(bad));
	conn_free(bad);
	bad = harness_open(h, "dev", WRITE);
	assert_int_equal(conn_send(bad, FRAME_DATA, CHANNEL_STDERR, "x", 1, NULL, 0), 0);
	assert_true(stream_is_dropped(bad));
	conn_free(bad);
	bad = harness_open(h, "dev", WRITE);
	assert_int_equal(conn_send(bad, FRAME_LEVEL, 0, "123", 3, NULL, 0), 0);
	assert_true(stream_is_dropped(bad));
	conn_free(bad);
	bad = harness_open(h, "dev", WRITE);
	assert_int_equal(conn_send_message(bad, &nameless.base, NULL, 0), 0);
	assert_true(stream_is_dropped(bad));
	conn_free(bad);
	bad = harness_open(h, "dev", WRITE);
	assert_int_equal(write(conn_fd(bad), "GET / HTTP/1.1\r\n\r\n", 18), 18);
	assert_true(stream_is_dropped(bad));
	conn_free(bad);

	stream_done(stream_write(good, 1, "fine", 4, 0));
	harness_wait_text(ring, 0, "readyfine");
	conn_free(good);
	ring_free(ring);
	harness_shutdown(h);
}

static void a_client_that_never_reads_is_dropped_and_its_console_goes_on(void **state)
{
	struct harness *h = *state;
	struct ring *ring = harness_run(h, "dev", "stty raw -echo; printf ready; exec cat");
	struct conn *deaf = harness_open(h, "dev", WRITE), *good = harness_open(h, "dev", WRITE);
	int small = 4096, r = 0;

	harness_wait_text(ring, 0, "ready");
	setsockopt(conn_fd(deaf), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (uint64_t id = 1; id < 200000 && r == 0; id++) {
		Wire__StreamRequest q = WIRE__STREAM_REQUEST__INIT;
		Wire__Resize size = WIRE__RESIZE__INIT;

		q.id = id;
		q.body_case = WIRE__STREAM_REQUEST__BODY_RESIZE; /* refused each time: an answer each time */
		q.resize = &size;
		r = conn_send_message(deaf, &q.base, NULL, 0);
		if (r == -ENOBUFS)
			r = conn_wait_flushed(deaf, harness_deadline());
		if (r == 0 && conn_queued(deaf) > 64 * 1024)
			r = conn_wait_flushed(deaf, harness_deadline());
	}
	assert_int_equal(r, -EPIPE);
	stream_done(stream_write(good, 1, "fine", 4, 0));
	harness_wait_text(ring, 0, "readyfine");
	conn_free(deaf);
	conn_free(good);
	ring_free(ring);
	harness_shutdown(h);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_level_reader_is_woken_once_per_level),
		TEST(a_flood_is_told_of_seldom_and_to_its_last_byte),
		TEST(keys_that_are_not_answered_do_not_stop_another_consoles_flood),
		TEST(the_end_is_told_after_the_last_byte_and_also_to_who_comes_later),
		TEST(from_a_writes_offset_on_stands_what_it_caused_and_nothing_before),
		TEST(a_large_paste_into_a_program_that_echoes_arrives_whole),
		TEST(a_write_to_a_program_that_does_not_read_times_out_and_says_how_much_was_taken),
		TEST(the_write_that_does_not_fit_the_queue_is_busy_and_not_begun),
		TEST(bytes_of_two_writers_do_not_mix),
		TEST(a_writer_that_leaves_in_between_drops_the_rest_and_the_next_one_goes_on),
		TEST(a_write_of_many_pieces_is_held_back_and_not_refused),
		TEST(a_line_that_the_terminal_would_cut_is_refused_unless_told_otherwise),
		TEST(a_terminal_in_raw_mode_takes_lines_of_any_length),
		TEST(keys_go_in_without_an_answer_and_come_back_as_echo),
		TEST(who_may_only_read_is_told_and_stays),
		TEST(the_size_is_that_of_the_client_that_acted_last),
		TEST(a_size_out_of_bounds_is_refused),
		TEST(who_breaks_the_protocol_is_dropped_and_nobody_else),
		TEST(a_client_that_never_reads_is_dropped_and_its_console_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
