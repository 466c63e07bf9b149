/*
 * wires.h - two ends of a socket for tests of connections: a conn (or its descriptor) at one, raw bytes at the other.
 * And descriptors that can be told apart, to see which one has arrived where.
 */
#ifndef TESTS_UNIT_WIRE_WIRES_H
#define TESTS_UNIT_WIRE_WIRES_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/frame.h"

/* A frame in bytes at out, which has FRAME_HEADER + n of them: the payload is `seed`, `seed` + 1, … Returns its size.
 */
static inline size_t put_frame(uint8_t *out, unsigned type, unsigned fds, size_t n, unsigned seed)
{
	const struct frame f = { .length = (uint32_t)n, .type = (uint8_t)type, .fds = (uint8_t)fds };

	frame_encode_header(&f, out);
	for (size_t i = 0; i < n; i++)
		out[FRAME_HEADER + i] = (uint8_t)(seed + i);
	return FRAME_HEADER + n;
}

/* Whether the payload is what put_frame() makes. */
static inline int payload_is(const struct frame *f, size_t n, unsigned seed)
{
	if (f->length != n)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (f->payload[i] != (uint8_t)(seed + i))
			return 0;
	}
	return 1;
}

/* Sends raw bytes with descriptors, as many as one likes (at most 32). */
static inline ssize_t send_raw(int sock, const void *bytes, size_t n, const int *fds, size_t nfds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(32 * sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)bytes, n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (nfds > 0) {
		struct cmsghdr *cm;

		mh.msg_control = control.bytes;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, nfds * sizeof(int));
	}
	return sendmsg(sock, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A descriptor with a number inside, and the number inside a descriptor (-1: none). */
static inline int tagged_fd(uint32_t tag)
{
	int fd = memfd_create("tag", MFD_CLOEXEC);

	if (fd >= 0 && pwrite(fd, &tag, sizeof(tag), 0) != sizeof(tag)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static inline int64_t tag_of(int fd)
{
	uint32_t tag;

	return pread(fd, &tag, sizeof(tag), 0) == sizeof(tag) ? (int64_t)tag : -1;
}

#endif
