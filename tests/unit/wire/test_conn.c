/* Promises of wire/conn.h: one end a conn, the other raw bytes or another conn. Every test ends with as many open
 * descriptors as it began with. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wire/test_dir.h"
#include "tests/unit/wire/wires.h"
#include "wire/clock.h"
#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/sock.h"
#include "wire/wire.h"

#define LIMIT ((size_t)256 * 1024)

struct fixture {
	struct conn *conn;
	int peer;
	int open_before;
};

static int connect_both(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2];

	if (f == NULL)
		return -1;
	f->open_before = open_descriptors();
	if (sock_pair(pair) < 0 || conn_new(pair[0], LIMIT, &f->conn) < 0)
		return -1;
	f->peer = pair[1];
	*state = f;
	return 0;
}

static int free_both(void **state)
{
	struct fixture *f = *state;
	int before = f->open_before, after;

	conn_free(f->conn);
	fd_close(&f->peer);
	free(f);
	after = open_descriptors();
	if (after != before)
		(void)fprintf(stderr, "%d descriptors before the test, %d after it\n", before, after);
	return after == before ? 0 : -1;
}

static void hang_up(struct fixture *f)
{
	fd_close(&f->peer);
}

/* Reads n bytes that the conn sent. */
static void read_raw(int peer, uint8_t *out, size_t n)
{
	while (n > 0) {
		ssize_t r = recv(peer, out, n, 0);

		assert_true(r > 0);
		out += r;
		n -= (size_t)r;
	}
}

/* ---- In ---- */

static void a_frame_that_comes_in_two_parts_is_given_once_and_whole(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER + 24];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 0, 24, 3);
	struct frame got;

	for (size_t split = 1; split < n; split++) {
		assert_int_equal(send_raw(f->peer, bytes, split, NULL, 0), split);
		assert_int_equal(conn_fill(f->conn), 1);
		assert_int_equal(conn_next(f->conn, &got), 0);
		assert_int_equal(conn_fill(f->conn), 0);
		assert_int_equal(send_raw(f->peer, bytes + split, n - split, NULL, 0), n - split);
		assert_int_equal(conn_fill(f->conn), 1);
		assert_int_equal(conn_next(f->conn, &got), 1);
		assert_true(payload_is(&got, 24, 3));
		assert_int_equal(conn_next(f->conn, &got), 0);
	}
}

static void frames_that_come_byte_by_byte_are_whole(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[3 * (FRAME_HEADER + 5)];
	size_t n = 0;
	unsigned given = 0;
	struct frame got;

	for (unsigned i = 0; i < 3; i++)
		n += put_frame(bytes + n, FRAME_DATA, 0, 5, 10 * i);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(send_raw(f->peer, bytes + i, 1, NULL, 0), 1);
		assert_int_equal(conn_fill(f->conn), 1);
		while (conn_next(f->conn, &got) == 1)
			assert_true(payload_is(&got, 5, 10 * given++));
	}
	assert_int_equal(given, 3);
}

static void many_frames_in_one_read_come_one_after_another(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[40 * (FRAME_HEADER + 7)];
	size_t n = 0;
	unsigned given = 0;
	struct frame got;
	int r;

	for (unsigned i = 0; i < 40; i++)
		n += put_frame(bytes + n, FRAME_MESSAGE, 0, 7, i);
	assert_int_equal(send_raw(f->peer, bytes, n, NULL, 0), n);
	while (given < 40) {
		assert_int_equal(conn_fill(f->conn), 1);
		while ((r = conn_next(f->conn, &got)) == 1)
			assert_true(payload_is(&got, 7, given++));
		assert_int_equal(r, 0);
	}
	assert_int_equal(conn_fill(f->conn), 0);
}

/* Whoever fills again before taking what is there must not make the buffer grow without end, or lose anything. */
static void filling_with_a_whole_frame_in_hand_reads_nothing_more(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[2 * (FRAME_HEADER + 7)];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 0, 7, 1);
	int waiting = -1;
	struct frame got;

	n += put_frame(bytes + n, FRAME_MESSAGE, 0, 7, 2);
	assert_int_equal(send_raw(f->peer, bytes, n / 2, NULL, 0), n / 2);
	assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(send_raw(f->peer, bytes + n / 2, n / 2, NULL, 0), n / 2);
	for (int i = 0; i < 100; i++)
		assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(recv(conn_fd(f->conn), &waiting, 1, MSG_PEEK), 1);
	assert_int_equal(conn_next(f->conn, &got), 1);
	assert_true(payload_is(&got, 7, 1));
	assert_int_equal(conn_next(f->conn, &got), 0);
	assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(conn_next(f->conn, &got), 1);
	assert_true(payload_is(&got, 7, 2));
}

static void the_largest_frame_passes_in_pieces(void **state)
{
	struct fixture *f = *state;
	size_t n = FRAME_HEADER + FRAME_MAX_PAYLOAD, sent = 0;
	uint8_t *bytes = malloc(n);
	struct frame got;
	int r = 0;

	assert_non_null(bytes);
	put_frame(bytes, FRAME_MESSAGE, 0, FRAME_MAX_PAYLOAD, 9);
	while (r == 0) {
		size_t piece = n - sent < 777 ? n - sent : 777;

		assert_int_equal(send_raw(f->peer, bytes + sent, piece, NULL, 0), piece);
		sent += piece;
		while (conn_fill(f->conn) == 1) {
			r = conn_next(f->conn, &got);
			if (r != 0)
				break;
		}
	}
	assert_int_equal(r, 1);
	assert_int_equal(sent, n);
	assert_true(payload_is(&got, FRAME_MAX_PAYLOAD, 9));
	free(bytes);
}

static void a_hostile_length_is_refused_with_the_header_alone(void **state)
{
	static const char *const hostile[] = {
		"\xff\xff\xff\xff\x01\x00\x00\x00",
		"\x01\x00\x01\x00\x01\x00\x00\x00", /* 64 KiB + 1 */
		"\xff\xff\xff\x7f\x02\x00\x00\x00",
		"\x00\x00\x00\x00\x00\x00\x00\x00",
		"\x04\x00\x00\x00\x03\x00\x00\x00", /* a LEVEL of 4 bytes */
		"\x00\x00\x00\x00\x01\x05\x00\x00", /* 5 descriptors */
		"GET / HTTP/1.1\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		struct conn *c;
		struct frame got;
		int pair[2];

		assert_int_equal(sock_pair(pair), 0);
		assert_int_equal(conn_new(pair[0], LIMIT, &c), 0);
		assert_int_equal(send_raw(pair[1], hostile[i], 8, NULL, 0), 8);
		assert_int_equal(conn_fill(c), 1);
		assert_int_equal(conn_next(c, &got), -EPROTO);
		/* And it stays so. */
		assert_int_equal(conn_next(c, &got), -EPROTO);
		assert_int_equal(conn_fill(c), -EPROTO);
		conn_free(c);
		fd_close(&pair[1]);
	}
}

static void the_last_frames_are_given_before_the_peer_is_gone(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER + 5];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 0, 5, 1);
	struct frame got;

	assert_int_equal(send_raw(f->peer, bytes, n, NULL, 0), n);
	hang_up(f);
	assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(conn_next(f->conn, &got), 1);
	assert_int_equal(conn_next(f->conn, &got), 0);
	assert_int_equal(conn_fill(f->conn), -ECONNRESET);
}

static void a_peer_that_goes_in_the_middle_of_a_frame_is_gone(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER + 5];
	struct frame got;

	put_frame(bytes, FRAME_MESSAGE, 0, 5, 1);
	assert_int_equal(send_raw(f->peer, bytes, 10, NULL, 0), 10);
	hang_up(f);
	assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(conn_next(f->conn, &got), 0);
	assert_int_equal(conn_fill(f->conn), -ECONNRESET);
}

static void nothing_waits_on_a_blocking_socket(void **state)
{
	struct fixture *f = *state;
	uint8_t payload[32 * 1024] = { 0 };

	/* The other holder of the socket may have cleared O_NONBLOCK: it belongs to the open file. */
	assert_int_equal(fd_set_nonblocking(conn_fd(f->conn), 0), 0);
	assert_int_equal(conn_fill(f->conn), 0);
	while (!conn_wants_write(f->conn))
		assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, payload, sizeof(payload), NULL, 0), 0);
	assert_int_equal(conn_flush(f->conn), 0);
}

/* ---- Descriptors in ---- */

static void descriptors_arrive_with_their_frame_in_order_and_close_on_exec(void **state)
{
	struct fixture *f = *state;
	int fds[FRAME_MAX_FDS], copy;
	struct frame got;

	for (unsigned i = 0; i < FRAME_MAX_FDS; i++)
		fds[i] = tagged_fd(100 + i);
	{
		uint8_t bytes[FRAME_HEADER + 3];
		size_t n = put_frame(bytes, FRAME_MESSAGE, FRAME_MAX_FDS, 3, 1);

		assert_int_equal(send_raw(f->peer, bytes, n, fds, FRAME_MAX_FDS), n);
	}
	assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(conn_next(f->conn, &got), 1);
	for (unsigned i = FRAME_MAX_FDS; i-- > 0;) {
		copy = conn_take_fd(f->conn, i);
		assert_int_equal(tag_of(copy), 100 + i);
		assert_int_equal(fcntl(copy, F_GETFD), FD_CLOEXEC);
		assert_int_equal(conn_take_fd(f->conn, i), -1); /* taken once */
		fd_close(&copy);
		fd_close(&fds[i]);
	}
	assert_int_equal(conn_take_fd(f->conn, FRAME_MAX_FDS), -1);
	assert_int_equal(conn_take_fd(f->conn, 1000), -1);
}

static void descriptors_that_nobody_took_are_closed_with_the_next_frame(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER];
	int fd = tagged_fd(1), before;
	struct frame got;

	put_frame(bytes, FRAME_MESSAGE, 1, 0, 0);
	assert_int_equal(send_raw(f->peer, bytes, FRAME_HEADER, &fd, 1), FRAME_HEADER);
	before = open_descriptors();
	assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(conn_next(f->conn, &got), 1);
	assert_int_equal(open_descriptors(), before + 1);
	assert_int_equal(conn_next(f->conn, &got), 0);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(conn_take_fd(f->conn, 0), -1);
	fd_close(&fd);
}

static void descriptors_of_frames_sent_close_together_are_not_mixed_up(void **state)
{
	struct fixture *f = *state;
	static const unsigned counts[] = { 0, 2, 0, 1, 4, 0, 3 };
	uint32_t tag = 0;
	uint32_t expected = 0;
	unsigned given = 0;

	for (unsigned i = 0; i < 7; i++) {
		uint8_t bytes[FRAME_HEADER + 6];
		int fds[FRAME_MAX_FDS];
		size_t n = put_frame(bytes, FRAME_MESSAGE, counts[i], 6, i);

		for (unsigned j = 0; j < counts[i]; j++)
			fds[j] = tagged_fd(tag++);
		assert_int_equal(send_raw(f->peer, bytes, n, fds, counts[i]), n);
		for (unsigned j = 0; j < counts[i]; j++)
			fd_close(&fds[j]);
	}
	while (given < 7) {
		struct frame got;

		assert_int_equal(conn_fill(f->conn), 1);
		while (conn_next(f->conn, &got) == 1) {
			assert_int_equal(got.fds, counts[given]);
			assert_true(payload_is(&got, 6, given));
			for (unsigned j = 0; j < got.fds; j++) {
				int fd = conn_take_fd(f->conn, j);

				assert_int_equal(tag_of(fd), expected++);
				fd_close(&fd);
			}
			given++;
		}
	}
}

static void descriptors_that_ride_on_the_first_byte_wait_for_the_last(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER + 6];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 2, 6, 1);
	struct frame got;

	for (size_t split = 1; split < n; split++) {
		int fds[2] = { tagged_fd(7), tagged_fd(8) }, fd;

		assert_int_equal(send_raw(f->peer, bytes, split, fds, 2), split);
		assert_int_equal(conn_fill(f->conn), 1);
		assert_int_equal(conn_next(f->conn, &got), 0);
		assert_int_equal(send_raw(f->peer, bytes + split, n - split, NULL, 0), n - split);
		assert_int_equal(conn_fill(f->conn), 1);
		assert_int_equal(conn_next(f->conn, &got), 1);
		fd = conn_take_fd(f->conn, 1);
		assert_int_equal(tag_of(fd), 8);
		fd_close(&fd);
		fd_close(&fds[0]);
		fd_close(&fds[1]);
	}
}

/* Sends `n` bytes with `nfds` descriptors, and reads until it is refused. That none is left open shows in the teardown.
 */
static void assert_refused(struct fixture *f, const uint8_t *bytes, size_t n, unsigned nfds, int because)
{
	int fds[32], r = 0;
	struct frame got;

	for (unsigned i = 0; i < nfds; i++)
		fds[i] = tagged_fd(i);
	assert_int_equal(send_raw(f->peer, bytes, n, fds, nfds), n);
	for (unsigned i = 0; i < nfds; i++)
		fd_close(&fds[i]);
	for (int i = 0; i < 10 && r >= 0; i++) {
		r = conn_fill(f->conn);
		while (r > 0)
			r = conn_next(f->conn, &got);
	}
	assert_int_equal(r, because);
}

static void more_descriptors_than_announced_are_closed_and_refused(void **state)
{
	uint8_t bytes[FRAME_HEADER + 3];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 1, 3, 1);

	assert_refused(*state, bytes, n, 2, -EPROTO);
}

static void descriptors_that_nothing_announced_are_closed_and_refused(void **state)
{
	uint8_t bytes[FRAME_HEADER + 3];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 0, 3, 1);

	assert_refused(*state, bytes, n, 1, -EPROTO);
}

static void more_descriptors_than_a_frame_may_have_are_closed_and_refused(void **state)
{
	uint8_t bytes[FRAME_HEADER + 3];
	size_t n = put_frame(bytes, FRAME_MESSAGE, FRAME_MAX_FDS, 3, 1);

	assert_refused(*state, bytes, n, FRAME_MAX_FDS + 1, -EPROTO);
}

static void a_crowd_of_descriptors_on_a_single_byte_is_closed_and_refused(void **state)
{
	uint8_t byte = 0;

	assert_refused(*state, &byte, 1, 32, -EPROTO);
}

static void announced_descriptors_that_did_not_come_are_a_protocol_error(void **state)
{
	uint8_t bytes[FRAME_HEADER + 3];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 1, 3, 1);

	assert_refused(*state, bytes, n, 0, -EPROTO);
}

static void descriptors_on_a_later_byte_of_their_frame_are_refused_before_its_end(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER + 50];
	struct frame got;

	put_frame(bytes, FRAME_MESSAGE, 0, 50, 1);
	assert_int_equal(send_raw(f->peer, bytes, 9, NULL, 0), 9);
	assert_int_equal(conn_fill(f->conn), 1);
	assert_int_equal(conn_next(f->conn, &got), 0);
	assert_refused(f, bytes + 9, 2, 1, -EPROTO);
}

static void descriptors_drip_fed_on_a_frame_that_never_ends_are_bounded(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER + 200];
	int fd = tagged_fd(1), before, r = 0;

	put_frame(bytes, FRAME_MESSAGE, 4, 200, 1);
	before = open_descriptors();
	for (size_t i = 0; i < 100 && r >= 0; i++) {
		assert_int_equal(send_raw(f->peer, bytes + i, 1, &fd, 1), 1);
		r = conn_fill(f->conn);
	}
	assert_int_equal(r, -EPROTO);
	assert_in_range(open_descriptors(), before, before + 2 * FRAME_MAX_FDS);
	fd_close(&fd);
}

static void having_no_room_for_descriptors_is_our_own_fault_and_not_the_peers(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER];
	struct rlimit old, none;
	int fds[2] = { tagged_fd(1), tagged_fd(2) }, r;

	put_frame(bytes, FRAME_MESSAGE, 2, 0, 0);
	assert_int_equal(send_raw(f->peer, bytes, FRAME_HEADER, fds, 2), FRAME_HEADER);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = conn_fill(f->conn);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

/* ---- Out ---- */

static void what_is_sent_goes_out_at_once_when_nothing_is_queued(void **state)
{
	struct fixture *f = *state;
	static const uint8_t tail[] = { 8, 0, 0, 0, FRAME_TAIL, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1 };
	uint8_t got[FRAME_HEADER + 8];

	assert_int_equal(conn_send(f->conn, FRAME_DATA, CHANNEL_STDERR, "hello", 5, NULL, 0), 0);
	assert_int_equal(conn_queued(f->conn), 0);
	assert_int_equal(recv(f->peer, got, sizeof(got), 0), FRAME_HEADER + 5);
	assert_memory_equal(got, "\x05\0\0\0\x02\0\x02\0hello", FRAME_HEADER + 5);
	assert_int_equal(conn_send(f->conn, FRAME_DATA, CHANNEL_STDERR, NULL, 0, NULL, 0), 0);
	assert_int_equal(recv(f->peer, got, sizeof(got), 0), FRAME_HEADER);
	assert_int_equal(conn_send_u64(f->conn, FRAME_TAIL, 0x0102030405060708), 0);
	read_raw(f->peer, got, sizeof(tail));
	assert_memory_equal(got, tail, sizeof(tail));
}

/* Fills the socket and the queue with frames of `size`. How many were taken. */
static unsigned fill_queue(struct conn *c, size_t size)
{
	uint8_t payload[FRAME_MAX_PAYLOAD];
	unsigned n = 0;
	int r;

	for (;; n++) {
		memset(payload, (int)n, size);
		r = conn_send(c, FRAME_DATA, 0, payload, size, NULL, 0);
		if (r < 0)
			break;
	}
	assert_int_equal(r, -ENOBUFS);
	return n;
}

static void a_full_queue_refuses_a_frame_and_keeps_every_one_before(void **state)
{
	struct fixture *f = *state;
	static uint8_t bytes[FRAME_HEADER + 5000];
	unsigned n = fill_queue(f->conn, 5000);
	size_t queued = conn_queued(f->conn);

	assert_in_range(queued, LIMIT - sizeof(bytes), LIMIT);
	assert_true(conn_wants_write(f->conn));
	assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, bytes, 5000, NULL, 0), -ENOBUFS);
	assert_int_equal(conn_queued(f->conn), queued);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(conn_flush(f->conn), 0);
		read_raw(f->peer, bytes, sizeof(bytes));
		assert_memory_equal(bytes, "\x88\x13\0\0\x02\0\0\0", FRAME_HEADER);
		for (size_t j = 0; j < 5000; j++)
			assert_int_equal(bytes[FRAME_HEADER + j], (uint8_t)i);
	}
	assert_int_equal(conn_queued(f->conn), 0);
	assert_int_equal(recv(f->peer, bytes, 1, MSG_DONTWAIT), -1);
	/* And there is room again. */
	assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, bytes, 5000, NULL, 0), 0);
}

static void a_frame_over_the_limit_is_refused_and_harms_nothing(void **state)
{
	struct fixture *f = *state;
	static uint8_t payload[FRAME_MAX_PAYLOAD + 1];
	uint8_t byte;

	assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, payload, FRAME_MAX_PAYLOAD + 1, NULL, 0), -EMSGSIZE);
	assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, payload, SIZE_MAX, NULL, 0), -EMSGSIZE);
	assert_int_equal(recv(f->peer, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, payload, FRAME_MAX_PAYLOAD, NULL, 0), 0);
}

static void a_queue_that_can_never_hold_a_frame_refuses_it(void **state)
{
	struct conn *c;
	int pair[2];
	uint8_t payload[93] = { 0 };

	(void)state;
	assert_int_equal(sock_pair(pair), 0);
	assert_int_equal(conn_new(pair[0], 100, &c), 0);
	assert_int_equal(conn_send(c, FRAME_DATA, 0, payload, 93, NULL, 0), -ENOBUFS);
	assert_int_equal(conn_send(c, FRAME_DATA, 0, payload, 92, NULL, 0), 0);
	conn_free(c);
	fd_close(&pair[1]);
}

static void queued_descriptors_are_copies_and_arrive_with_their_frame(void **state)
{
	struct fixture *f = *state;
	struct conn *other;
	uint32_t tag = 0, seen = 0;
	unsigned before = fill_queue(f->conn, 20000), data = 0;
	int peer = fd_dup_cloexec(f->peer);

	assert_int_equal(conn_new(peer, LIMIT, &other), 0);
	for (unsigned i = 0; i < 6; i++) {
		int fds[2] = { tagged_fd(tag), tagged_fd(tag + 1) };

		tag += 2;
		assert_int_equal(conn_send(f->conn, FRAME_MESSAGE, 0, "m", 1, fds, 2), 0);
		fd_close(&fds[0]);
		fd_close(&fds[1]);
		assert_int_equal(conn_send(f->conn, FRAME_MESSAGE, 0, "n", 1, NULL, 0), 0);
	}
	while (seen < tag) {
		struct frame got;

		assert_int_equal(conn_flush(f->conn), 0);
		assert_int_equal(conn_fill(other), 1);
		while (conn_next(other, &got) == 1) {
			data += got.type == FRAME_DATA;
			for (unsigned i = 0; i < got.fds; i++) {
				int fd = conn_take_fd(other, i);

				assert_int_equal(tag_of(fd), seen++);
				fd_close(&fd);
			}
		}
	}
	assert_int_equal(data, before);
	conn_free(other);
}

static void queued_descriptors_have_a_bound_of_their_own(void **state)
{
	struct fixture *f = *state;
	int fd = tagged_fd(1), before, r = 0;
	unsigned n = 0;

	(void)fill_queue(f->conn, 20000);
	before = open_descriptors();
	for (; n < 1000 && r == 0; n++)
		r = conn_send(f->conn, FRAME_MESSAGE, 0, "m", 1, &fd, 1);
	assert_int_equal(r, -ENOBUFS);
	assert_int_equal(open_descriptors(), before + 64);
	/* Frames without any still have room. */
	assert_int_equal(conn_send(f->conn, FRAME_MESSAGE, 0, "m", 1, NULL, 0), 0);
	fd_close(&fd);
}

static void having_no_descriptor_left_refuses_one_frame_and_harms_nothing(void **state)
{
	struct fixture *f = *state;
	int fd = tagged_fd(1), r;
	size_t queued;
	struct rlimit old, none;

	(void)fill_queue(f->conn, 20000);
	queued = conn_queued(f->conn);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = conn_send(f->conn, FRAME_MESSAGE, 0, "m", 1, &fd, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(r == -EMFILE || r == -EINVAL); /* fcntl(2): no number from 3 up may be had */
	assert_int_equal(conn_queued(f->conn), queued);
	assert_int_equal(conn_send(f->conn, FRAME_MESSAGE, 0, "m", 1, &fd, 1), 0);
	fd_close(&fd);
}

static void sending_to_a_peer_that_has_gone_is_an_error_and_no_signal(void **state)
{
	struct fixture *f = *state;

	hang_up(f);
	assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, "x", 1, NULL, 0), -EPIPE);
	assert_int_equal(conn_send(f->conn, FRAME_DATA, 0, "x", 1, NULL, 0), -EPIPE);
	assert_int_equal(conn_flush(f->conn), -EPIPE);
	assert_int_equal(conn_queued(f->conn), 0);
}

static void the_last_words_of_a_peer_can_be_read_after_a_failed_send(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[FRAME_HEADER + 5];
	size_t n = put_frame(bytes, FRAME_MESSAGE, 0, 5, 1);
	struct frame got;

	(void)fill_queue(f->conn, 20000);
	assert_int_equal(send_raw(f->peer, bytes, n, NULL, 0), n);
	hang_up(f);
	assert_int_equal(conn_flush(f->conn), -EPIPE);
	assert_int_equal(conn_wait_frame(f->conn, clock_mono_ms() + 5000, &got), 1);
	assert_true(payload_is(&got, 5, 1));
	assert_int_equal(conn_wait_frame(f->conn, clock_mono_ms() + 5000, &got), -ECONNRESET);
}

/* ---- Messages ---- */

static void a_message_small_or_large_comes_back_as_it_went_in(void **state)
{
	struct fixture *f = *state;
	static const size_t sizes[] = { 0, 1, 2000, 2048, 3000, 65000 };
	static uint8_t data[65536], bytes[FRAME_HEADER + FRAME_MAX_PAYLOAD];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 11);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		Wire__Write write = WIRE__WRITE__INIT;
		Wire__StreamRequest request = WIRE__STREAM_REQUEST__INIT, *got;
		struct frame frame;
		size_t n;

		write.data.data = data;
		write.data.len = sizes[i];
		request.id = 42;
		request.body_case = WIRE__STREAM_REQUEST__BODY_WRITE;
		request.write = &write;
		assert_int_equal(conn_send_message(f->conn, &request.base, NULL, 0), 0);
		n = wire__stream_request__get_packed_size(&request);
		read_raw(f->peer, bytes, FRAME_HEADER + n);
		assert_int_equal(frame_decode(bytes, FRAME_HEADER + n, &frame), FRAME_HEADER + n);
		assert_int_equal(frame.type, FRAME_MESSAGE);
		got = wire__stream_request__unpack(NULL, frame.length, frame.payload);
		assert_non_null(got);
		assert_int_equal(got->id, 42);
		assert_int_equal(got->write->data.len, sizes[i]);
		assert_memory_equal(got->write->data.data, data, sizes[i]);
		wire__stream_request__free_unpacked(got, NULL);
	}
}

static void a_message_larger_than_a_frame_is_refused_and_harms_nothing(void **state)
{
	struct fixture *f = *state;
	static uint8_t data[FRAME_MAX_PAYLOAD];
	Wire__Write write = WIRE__WRITE__INIT;
	uint8_t byte;

	write.data.data = data;
	write.data.len = sizeof(data);
	assert_int_equal(conn_send_message(f->conn, &write.base, NULL, 0), -EMSGSIZE);
	assert_int_equal(recv(f->peer, &byte, 1, MSG_DONTWAIT), -1);
	write.data.len = 5;
	assert_int_equal(conn_send_message(f->conn, &write.base, NULL, 0), 0);
}

/* ---- Without a loop ---- */

static void waiting_for_a_frame_ends_at_its_deadline(void **state)
{
	struct fixture *f = *state;
	uint64_t deadline = clock_mono_ms() + 30;
	uint8_t bytes[FRAME_HEADER];
	struct frame got;

	assert_int_equal(conn_wait_frame(f->conn, deadline, &got), 0);
	assert_true(clock_mono_ms() >= deadline);
	/* One that has passed still gives what is there. */
	put_frame(bytes, FRAME_MESSAGE, 0, 0, 0);
	assert_int_equal(send_raw(f->peer, bytes, FRAME_HEADER, NULL, 0), FRAME_HEADER);
	assert_int_equal(conn_wait_frame(f->conn, 0, &got), 1);
	assert_int_equal(conn_wait_frame(f->conn, 0, &got), 0);
}

static void waiting_for_the_queue_ends_at_its_deadline(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(conn_wait_flushed(f->conn, 0), 0);
	(void)fill_queue(f->conn, 20000);
	assert_int_equal(conn_wait_flushed(f->conn, clock_mono_ms() + 30), -ETIMEDOUT);
	hang_up(f);
	assert_int_equal(conn_wait_flushed(f->conn, UINT64_MAX), -EPIPE);
}

/* Both directions full at once: an echoing process that stops reading while its own output waits. */
static void waiting_for_answers_writes_the_questions_as_well(void **state)
{
	struct fixture *f = *state;
	static uint8_t payload[50000];
	unsigned sent = 0, got = 0;
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		struct conn *c;
		struct frame frame;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (conn_new(f->peer, LIMIT, &c) < 0)
			_exit(1);
		for (unsigned n = 0; n < 100; n++) {
			if (conn_wait_frame(c, UINT64_MAX, &frame) != 1)
				_exit(2);
			if (conn_send(c, FRAME_DATA, 0, frame.payload, frame.length, NULL, 0) < 0)
				_exit(3);
			if (conn_wait_flushed(c, UINT64_MAX) < 0)
				_exit(4);
		}
		_exit(0);
	}
	while (got < 100) {
		struct frame frame;

		while (sent < 100) {
			memset(payload, (int)sent, sizeof(payload));
			if (conn_send(f->conn, FRAME_DATA, 0, payload, sizeof(payload), NULL, 0) == -ENOBUFS)
				break;
			sent++;
		}
		assert_int_equal(conn_wait_frame(f->conn, clock_mono_ms() + 20000, &frame), 1);
		assert_int_equal(frame.length, sizeof(payload));
		assert_int_equal(frame.payload[49999], (uint8_t)got);
		got++;
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- Size ---- */

/* What a sanitizer's allocator does not answer. clang has no __SANITIZE_ADDRESS__. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REAL_MALLOC 0
#elif defined(__has_feature)
#define REAL_MALLOC (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define REAL_MALLOC 1
#endif

#if REAL_MALLOC
static void a_thousand_idle_connections_do_not_cost_a_frame_each(void **state)
{
	enum { CONNECTIONS = 200 }; /* few enough for the usual 1024 descriptors */
	static struct conn *conns[CONNECTIONS];
	static int peers[CONNECTIONS];
	static uint8_t bytes[FRAME_HEADER + FRAME_MAX_PAYLOAD];
	size_t before, each;
	struct frame got;

	(void)state;
	before = mallinfo2().uordblks;
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		int pair[2];

		assert_int_equal(sock_pair(pair), 0);
		peers[i] = pair[1];
		assert_int_equal(conn_new(pair[0], LIMIT, &conns[i]), 0);
		/* A burst of the largest frames, and then a few small ones, as a client's life is. */
		for (unsigned n = 0; n < 14; n++) {
			size_t size = put_frame(bytes, FRAME_DATA, 0, n < 4 ? FRAME_MAX_PAYLOAD : 10, n);
			int r;

			assert_int_equal(send_raw(peers[i], bytes, size, NULL, 0), size);
			do {
				assert_true(conn_fill(conns[i]) >= 0);
				r = conn_next(conns[i], &got);
			} while (r == 0);
			assert_int_equal(r, 1);
			assert_true(payload_is(&got, size - FRAME_HEADER, n));
			assert_int_equal(conn_next(conns[i], &got), 0);
		}
	}
	each = (mallinfo2().uordblks - before) / CONNECTIONS;
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		conn_free(conns[i]);
		fd_close(&peers[i]);
	}
	assert_in_range(each, 100, 2048);
}
#endif

/* ---- All of it, at random ---- */

static uint32_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)random_state * n >> 32);
}

struct model {
	struct conn *from, *to;
	unsigned sent, got, frames;
	uint32_t tags_sent, tags_got;
	uint32_t sizes[600];
	uint8_t fds[600];
};

static void model_send(struct model *m)
{
	static const uint32_t size_classes[] = { 1, 20, 300, 5000, FRAME_MAX_PAYLOAD };
	static uint8_t payload[FRAME_MAX_PAYLOAD];
	uint32_t size = random_below(size_classes[random_below(5)] + 1);
	unsigned nfds = random_below(4) == 0 ? random_below(FRAME_MAX_FDS + 1) : 0;
	int fds[FRAME_MAX_FDS], r;

	for (unsigned i = 0; i < nfds; i++)
		fds[i] = tagged_fd(m->tags_sent + i);
	for (uint32_t i = 0; i < size; i++)
		payload[i] = (uint8_t)(m->sent + i);
	r = conn_send(m->from, FRAME_DATA, 0, payload, size, fds, nfds);
	for (unsigned i = 0; i < nfds; i++)
		fd_close(&fds[i]);
	assert_true(r == 0 || r == -ENOBUFS);
	if (r < 0)
		return;
	m->sizes[m->sent] = size;
	m->fds[m->sent++] = (uint8_t)nfds;
	m->tags_sent += nfds;
}

static void model_receive(struct model *m)
{
	struct frame f;
	int r;

	assert_true(conn_fill(m->to) >= 0);
	while (random_below(8) != 0 && (r = conn_next(m->to, &f)) != 0) {
		assert_int_equal(r, 1);
		assert_true(payload_is(&f, m->sizes[m->got], m->got));
		assert_int_equal(f.fds, m->fds[m->got]);
		for (unsigned i = 0; i < f.fds; i++) {
			int fd = random_below(3) == 0 ? -1 : conn_take_fd(m->to, i); /* some are left to it */

			if (fd >= 0)
				assert_int_equal(tag_of(fd), m->tags_got + i);
			fd_close(&fd);
		}
		m->tags_got += f.fds;
		m->got++;
	}
}

static void frames_and_descriptors_arrive_once_whole_and_in_order_however_they_are_cut(void **state)
{
	struct fixture *f = *state;
	int small = 4096;

	for (unsigned round = 0; round < 8; round++) {
		struct model m = { .frames = 600 };
		int pair[2];

		random_state = 12345 + round;
		assert_int_equal(sock_pair(pair), 0);
		/* A small socket cuts frames at odd places and keeps the queue in use. */
		assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		assert_int_equal(conn_new(pair[0], 200000, &m.from), 0);
		assert_int_equal(conn_new(pair[1], 200000, &m.to), 0);
		while (m.got < m.frames) {
			if (m.sent < m.frames && random_below(3) > 0)
				model_send(&m);
			else if (random_below(2) > 0)
				assert_int_equal(conn_flush(m.from), 0);
			else
				model_receive(&m);
		}
		conn_free(m.from);
		conn_free(m.to);
	}
	(void)f;
}

#define CONN_TEST(test) cmocka_unit_test_setup_teardown(test, connect_both, free_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONN_TEST(a_frame_that_comes_in_two_parts_is_given_once_and_whole),
		CONN_TEST(frames_that_come_byte_by_byte_are_whole),
		CONN_TEST(many_frames_in_one_read_come_one_after_another),
		CONN_TEST(filling_with_a_whole_frame_in_hand_reads_nothing_more),
		CONN_TEST(the_largest_frame_passes_in_pieces),
		CONN_TEST(a_hostile_length_is_refused_with_the_header_alone),
		CONN_TEST(the_last_frames_are_given_before_the_peer_is_gone),
		CONN_TEST(a_peer_that_goes_in_the_middle_of_a_frame_is_gone),
		CONN_TEST(nothing_waits_on_a_blocking_socket),
		CONN_TEST(descriptors_arrive_with_their_frame_in_order_and_close_on_exec),
		CONN_TEST(descriptors_that_nobody_took_are_closed_with_the_next_frame),
		CONN_TEST(descriptors_of_frames_sent_close_together_are_not_mixed_up),
		CONN_TEST(descriptors_that_ride_on_the_first_byte_wait_for_the_last),
		CONN_TEST(more_descriptors_than_announced_are_closed_and_refused),
		CONN_TEST(descriptors_that_nothing_announced_are_closed_and_refused),
		CONN_TEST(more_descriptors_than_a_frame_may_have_are_closed_and_refused),
		CONN_TEST(a_crowd_of_descriptors_on_a_single_byte_is_closed_and_refused),
		CONN_TEST(announced_descriptors_that_did_not_come_are_a_protocol_error),
		CONN_TEST(descriptors_on_a_later_byte_of_their_frame_are_refused_before_its_end),
		CONN_TEST(descriptors_drip_fed_on_a_frame_that_never_ends_are_bounded),
		CONN_TEST(having_no_room_for_descriptors_is_our_own_fault_and_not_the_peers),
		CONN_TEST(what_is_sent_goes_out_at_once_when_nothing_is_queued),
		CONN_TEST(a_full_queue_refuses_a_frame_and_keeps_every_one_before),
		CONN_TEST(a_frame_over_the_limit_is_refused_and_harms_nothing),
		CONN_TEST(a_queue_that_can_never_hold_a_frame_refuses_it),
		CONN_TEST(queued_descriptors_are_copies_and_arrive_with_their_frame),
		CONN_TEST(queued_descriptors_have_a_bound_of_their_own),
		CONN_TEST(having_no_descriptor_left_refuses_one_frame_and_harms_nothing),
		CONN_TEST(sending_to_a_peer_that_has_gone_is_an_error_and_no_signal),
		CONN_TEST(the_last_words_of_a_peer_can_be_read_after_a_failed_send),
		CONN_TEST(a_message_small_or_large_comes_back_as_it_went_in),
		CONN_TEST(a_message_larger_than_a_frame_is_refused_and_harms_nothing),
		CONN_TEST(waiting_for_a_frame_ends_at_its_deadline),
		CONN_TEST(waiting_for_the_queue_ends_at_its_deadline),
		CONN_TEST(waiting_for_answers_writes_the_questions_as_well),
#if REAL_MALLOC
		CONN_TEST(a_thousand_idle_connections_do_not_cost_a_frame_each),
#endif
		CONN_TEST(frames_and_descriptors_arrive_once_whole_and_in_order_however_they_are_cut),
	};
	alarm(120);
	return cmocka_run_group_tests_name("wire/conn", tests, NULL, NULL);
}
