/*
 * fuzz_frame.c - bytes of a hostile peer, through everything that looks at them first: the frame decoder, a connection
 * that gets them cut at any place and with descriptors nobody announced, and the envelopes of every protocol.
 *
 * The input's last byte seeds where the rest is cut and where descriptors ride. What the connection gives must be what
 * the decoder sees in the uncut bytes, and at the end no descriptor may be left open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/frame.h"
#include "wire/mark.h"
#include "wire/sock.h"
#include "wire/text.h"
#include "wire/wire.h"

#define MAX_FDS 6 /* on one cut: more than a frame may have */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

static const ProtobufCMessageDescriptor *const *envelopes(size_t *n)
{
	static const ProtobufCMessageDescriptor *all[7];

	all[0] = &wire__control_request__descriptor;
	all[1] = &wire__control_reply__descriptor;
	all[2] = &wire__consoled_request__descriptor;
	all[3] = &wire__consoled_reply__descriptor;
	all[4] = &wire__stream_request__descriptor;
	all[5] = &wire__stream_reply__descriptor;
	all[6] = &wire__exec_result__descriptor;
	*n = 7;
	return all;
}

/* What was unpacked must pack into exactly the bytes it says. */
static void unpack_as_each(const uint8_t *bytes, size_t size)
{
	size_t n;
	const ProtobufCMessageDescriptor *const *all = envelopes(&n);

	for (size_t i = 0; i < n; i++) {
		ProtobufCMessage *m = protobuf_c_message_unpack(all[i], NULL, size, bytes);
		size_t packed;
		uint8_t *again;

		if (m == NULL)
			continue;
		packed = protobuf_c_message_get_packed_size(m);
		again = malloc(packed > 0 ? packed : 1);
		require(again != NULL && protobuf_c_message_pack(m, again) == packed);
		free(again);
		protobuf_c_message_free_unpacked(m, NULL);
	}
}

static void print_as_text(const uint8_t *bytes, size_t size)
{
	char text[64];

	text_escape(text, sizeof(text), bytes, size);
	require(strnlen(text, sizeof(text)) < sizeof(text));
	for (const char *p = text; *p != '\0'; p++)
		require((unsigned char)*p >= ' ' && *p != 0x7f);
}

static void read_as_mark(const uint8_t *bytes, size_t size)
{
	struct mark m;
	uint8_t again[MARK_SIZE];

	if (size < MARK_SIZE || !mark_unpack(bytes, &m))
		return;
	require(m.text_len <= MARK_MAX_TEXT && m.text[m.text_len] == '\0');
	mark_pack(&m, again);
	require(memcmp(again, bytes, 36 + (size_t)m.text_len) == 0);
}

/* The next frame of the uncut bytes, as a copy of exactly its size: a sanitizer sees any look past its end. */
static long decode_copy(const uint8_t *bytes, size_t size, struct frame *out)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);
	uint8_t header[FRAME_HEADER];
	long n;

	require(copy != NULL);
	if (size > 0)
		memcpy(copy, bytes, size);
	n = frame_decode(copy, size, out);
	require(n <= (long)size && (n >= 0 || n == -EPROTO));
	if (n > 0) {
		require(n == FRAME_HEADER + (long)out->length && out->payload == copy + FRAME_HEADER);
		frame_encode_header(out, header);
		require(memcmp(header, copy, FRAME_HEADER) == 0);
		out->payload = bytes + FRAME_HEADER;
	}
	free(copy);
	return n;
}

struct run {
	struct conn *conn;
	const uint8_t *bytes; /* uncut */
	size_t size, at;      /* at: where the next frame starts that the connection will give */
	uint32_t random;
	int refused;
};

static uint32_t random_below(struct run *r, uint32_t n)
{
	r->random = r->random * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)r->random * n >> 32);
}

static void take_frames(struct run *r)
{
	while (!r->refused) {
		struct frame got, expected;
		int result = conn_next(r->conn, &got);

		if (result == 0)
			return;
		if (result < 0) {
			require(result == -EPROTO);
			r->refused = 1;
			return;
		}
		require(decode_copy(r->bytes + r->at, r->size - r->at, &expected) > 0);
		require(got.length == expected.length && got.type == expected.type && got.fds == expected.fds &&
		        got.channel == expected.channel);
		require(memcmp(got.payload, expected.payload, got.length) == 0);
		r->at += FRAME_HEADER + got.length;
		for (unsigned i = 0; i < got.fds; i++) {
			int fd = random_below(r, 2) ? conn_take_fd(r->conn, i) : -1;

			fd_close(&fd);
		}
		unpack_as_each(got.payload, got.length);
	}
}

/* Some bytes, and rarely some descriptors, into the peer's end. */
static size_t send_piece(struct run *r, int peer, size_t from)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control;
	uint32_t most = random_below(r, 3) ? 16 : 70000;
	size_t n = 1 + random_below(r, most);
	unsigned nfds = random_below(r, 6) == 0 ? 1 + random_below(r, MAX_FDS) : 0;
	struct iovec iov = { (void *)(uintptr_t)(r->bytes + from), n < r->size - from ? n : r->size - from };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (nfds > 0) {
		struct cmsghdr *cm;

		memset(&control, 0, sizeof(control));
		mh.msg_control = control.bytes;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		for (unsigned i = 0; i < nfds; i++)
			memcpy(CMSG_DATA(cm) + i * sizeof(int), &peer, sizeof(int));
	}
	sent = sendmsg(peer, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sent > 0 ? (size_t)sent : 0;
}

static void run_connection(const uint8_t *bytes, size_t size, uint32_t seed)
{
	struct run r = { .bytes = bytes, .size = size, .random = seed };
	int pair[2], lowest_free, now_free;

	lowest_free = fcntl(0, F_DUPFD_CLOEXEC, 0);
	fd_close(&(int){ lowest_free });
	require(sock_pair(pair) == 0);
	require(conn_new(pair[0], 4096, &r.conn) == 0);

	for (size_t from = 0; from < size && !r.refused;) {
		int result;

		from += send_piece(&r, pair[1], from);
		result = conn_fill(r.conn);
		require(result == 0 || result == 1 || result == -EPROTO);
		if (result < 0)
			r.refused = 1;
		else if (random_below(&r, 4) > 0) /* sometimes it fills again first */
			take_frames(&r);
	}
	while (!r.refused && conn_fill(r.conn) > 0)
		take_frames(&r);
	take_frames(&r);

	conn_free(r.conn);
	fd_close(&pair[1]);
	now_free = fcntl(0, F_DUPFD_CLOEXEC, 0);
	require(now_free == lowest_free);
	fd_close(&now_free);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame f;

	if (size == 0)
		return 0;
	(void)decode_copy(data, size, &f);
	unpack_as_each(data, size);
	print_as_text(data, size);
	read_as_mark(data, size);
	run_connection(data, size - 1, data[size - 1]);
	return 0;
}
