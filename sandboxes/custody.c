/*
 * custody.c - the files of custody.h.
 *
 *     0       8      12     16        24    32    40           48           56       64           68     72      76
 *    +-------+------+------+---------+-----+-----+------------+------------+--------+------------+------+-------+------+
 *    | magic |layout|marks'| capacity| head| tail| marks_first| marks_bytes| written| incarnation| state| body's| own |
 *    |       |      |layout|         |     |     |            |            | at     |            |      | crc   | crc |
 *    +-------+------+------+---------+-----+-----+------------+------------+--------+------------+------+-------+------+
 *    80: console's name, NUL-padded | 152: sandbox's id, NUL-padded | 224: zeros | 256: marks, then bytes
 *
 * All little-endian, a field at a time. The header is written last, so that what a failed write leaves behind under the
 * temporary name is not even a custody file.
 */
#include "sandboxes/custody.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/ring.h"
#include "sandboxes/crc32c.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/mark.h"
#include "wire/name.h"

#define LAYOUT          1
#define HEADER_BYTES    256
#define NAME_FIELD      72 /* the longest name or id, NUL-padded */
#define CHUNK_BYTES     ((size_t)64 * 1024)
#define SUFFIX          ".ring"
#define TMP_SUFFIX      ".ring.tmp"
#define FILE_NAME_BYTES (NAME_MAX_BYTES + sizeof(TMP_SUFFIX))

/* A copy that its writer keeps overtaking is given up with -EBUSY: a hostile one's. An honest one overtakes a memory copy
 * of 64 KiB only when it writes faster than memory is read, and each time brings the copy nearer to its end. */
#define MAX_RESTARTS 16

static const char MAGIC[8] = { 'R', 'S', 'C', 'U', 'S', 'T', 'D', 'Y' };

enum field {
	AT_LAYOUT = 8,
	AT_MARK_LAYOUT = 12,
	AT_CAPACITY = 16,
	AT_HEAD = 24,
	AT_TAIL = 32,
	AT_MARKS_FIRST = 40,
	AT_MARKS_BYTES = 48,
	AT_WRITTEN_AT = 56,
	AT_INCARNATION = 64,
	AT_STATE = 68,
	AT_BODY_CRC = 72,
	AT_HEADER_CRC = 76,
	AT_CONSOLE = 80,
	AT_SANDBOX = 152,
};

struct header {
	struct custody_entry entry;
	uint64_t marks_first, marks_bytes;
	uint32_t body_crc;
};

/* ---- The header's bytes ---- */

static void put_le(uint8_t *p, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)get_le(p, 4);
}

static bool place_valid(const struct custody_place *place)
{
	return name_valid(place->console) && strlen(place->sandbox_id) < NAME_FIELD;
}

static void pack_header(const struct custody_place *place, const struct header *h, uint8_t out[HEADER_BYTES])
{
	memset(out, 0, HEADER_BYTES);
	memcpy(out, MAGIC, sizeof(MAGIC));
	put_le(out + AT_LAYOUT, LAYOUT, 4);
	put_le(out + AT_MARK_LAYOUT, MARK_LAYOUT, 4);
	put_le(out + AT_CAPACITY, h->entry.capacity, 8);
	put_le(out + AT_HEAD, h->entry.head, 8);
	put_le(out + AT_TAIL, h->entry.tail, 8);
	put_le(out + AT_MARKS_FIRST, h->marks_first, 8);
	put_le(out + AT_MARKS_BYTES, h->marks_bytes, 8);
	put_le(out + AT_WRITTEN_AT, h->entry.written_at_ms, 8);
	put_le(out + AT_INCARNATION, h->entry.incarnation, 4);
	put_le(out + AT_STATE, h->entry.state, 4);
	put_le(out + AT_BODY_CRC, h->body_crc, 4);
	memcpy(out + AT_CONSOLE, place->console, strlen(place->console));
	memcpy(out + AT_SANDBOX, place->sandbox_id, strlen(place->sandbox_id));
	put_le(out + AT_HEADER_CRC, crc32c(0, out, HEADER_BYTES), 4);
}

static bool text_field_is(const uint8_t *field, const char *text)
{
	uint8_t expected[NAME_FIELD] = { 0 };

	memcpy(expected, text, strlen(text));
	return memcmp(field, expected, NAME_FIELD) == 0;
}

/* Checksum, whose file it is, and everything that the reader computes with later. */
static int unpack_header(const struct custody_place *place, uint8_t in[HEADER_BYTES], struct header *out)
{
	uint32_t crc = get_le32(in + AT_HEADER_CRC);

	put_le(in + AT_HEADER_CRC, 0, 4);
	if (memcmp(in, MAGIC, sizeof(MAGIC)) != 0 || crc32c(0, in, HEADER_BYTES) != crc)
		return -EUCLEAN;
	if (get_le32(in + AT_LAYOUT) != LAYOUT || get_le32(in + AT_MARK_LAYOUT) != MARK_LAYOUT)
		return -EUCLEAN;
	if (!text_field_is(in + AT_CONSOLE, place->console) || !text_field_is(in + AT_SANDBOX, place->sandbox_id))
		return -EUCLEAN;
	*out = (struct header){
		.entry = {
			.incarnation = get_le32(in + AT_INCARNATION),
			.state = get_le32(in + AT_STATE),
			.head = get_le(in + AT_HEAD, 8),
			.tail = get_le(in + AT_TAIL, 8),
			.capacity = get_le(in + AT_CAPACITY, 8),
			.written_at_ms = get_le(in + AT_WRITTEN_AT, 8),
		},
		.marks_first = get_le(in + AT_MARKS_FIRST, 8),
		.marks_bytes = get_le(in + AT_MARKS_BYTES, 8),
		.body_crc = get_le32(in + AT_BODY_CRC),
	};
	const struct custody_entry *e = &out->entry;
	if (e->capacity < RING_MIN_CAPACITY || e->capacity > RING_MAX_CAPACITY ||
	        (e->capacity & (e->capacity - 1)) != 0)
		return -EUCLEAN;
	if (e->tail < e->head || e->tail - e->head > e->capacity)
		return -EUCLEAN;
	if (out->marks_bytes > MARK_RING_BYTES || out->marks_bytes % MARK_SIZE != 0 ||
	        out->marks_first % MARK_SIZE != 0)
		return -EUCLEAN;
	return 0;
}

/* ---- Files ---- */

static void file_name(char *out, size_t size, const char *console, const char *suffix)
{
	snprintf(out, size, "%s%s", console, suffix);
}

/* The directory's own name is durable too, or what is in it would go with it. */
static int sync_parent(int dirfd)
{
	int parent = openat(dirfd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = parent < 0 || fsync(parent) < 0 ? -errno : 0;

	fd_close(&parent);
	return r;
}

static int open_dir(const char *dir, bool make)
{
	bool made = make && mkdir(dir, 0700) == 0;

	if (make && !made && errno != EEXIST)
		return -errno;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	int r = made ? sync_parent(fd) : 0;
	if (r == 0)
		return fd;
	fd_close(&fd);
	rmdir(dir); /* so that the next one makes it, and its name durable */
	return r;
}

static int write_at(int fd, const void *bytes, size_t n, uint64_t at)
{
	const char *p = bytes;

	while (n > 0) {
		ssize_t done = pwrite(fd, p, n, (off_t)at);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		p += done;
		n -= (size_t)done;
		at += (size_t)done;
	}
	return 0;
}

/* -EUCLEAN when the file ends before. */
static int read_exactly(int fd, void *out, size_t n)
{
	char *p = out;

	while (n > 0) {
		ssize_t got = read(fd, p, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -EUCLEAN;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

/* ---- Writing ---- */

/* The range of a ring that was copied to the file. */
struct copied {
	uint64_t first, end;
	uint32_t crc; /* goes on from the one given */
};

/*
 * Copies what the ring retains to fd at `at`. Chunk by chunk, each whole as of its own copy; when the writer has
 * overtaken the next chunk the file's part begins again there, so that what stands in the file is always one range, up
 * to the tail of the start. A copy of the whole ring at once would be overtaken by any flood, and never end.
 */
static int copy_ring(const struct ring *r, int fd, uint64_t at, uint32_t crc, struct copied *out)
{
	uint8_t *chunk = malloc(CHUNK_BYTES);
	uint64_t end = ring_tail(r), first = ring_head(r), pos = first;
	struct ring_span got;
	uint32_t sum = crc;
	unsigned restarts = 0;
	int err = 0;

	if (!chunk)
		return -ENOMEM;
	while (pos < end) {
		size_t want = end - pos < CHUNK_BYTES ? (size_t)(end - pos) : CHUNK_BYTES;
		err = ring_read(r, pos, chunk, want, &got);
		if (err < 0)
			break;
		if (got.offset != pos) {
			first = pos = got.offset;
			sum = crc;
			if (++restarts > MAX_RESTARTS) {
				err = -EBUSY;
				break;
			}
		}
		size_t n = (size_t)(got.next_offset - got.offset);
		if (n == 0)
			continue; /* only after a restart, which is counted */
		err = write_at(fd, chunk, n, at + (pos - first));
		if (err < 0)
			break;
		sum = crc32c(sum, chunk, n);
		pos += n;
	}
	free(chunk);
	if (err < 0)
		return err;
	*out = (struct copied){ .first = first, .end = pos, .crc = sum };
	return 0;
}

/* Whole marks of a ring whose positions are multiples of MARK_SIZE; anything else is no marks' ring. */
static int copy_marks(const struct ring *marks, int fd, struct header *h)
{
	struct copied got;

	if (ring_capacity(marks) != MARK_RING_BYTES)
		return -EPROTO;
	int r = copy_ring(marks, fd, HEADER_BYTES, 0, &got);
	if (r < 0)
		return r;
	if (got.first % MARK_SIZE != 0 || got.end % MARK_SIZE != 0)
		return -EPROTO;
	h->marks_first = got.first;
	h->marks_bytes = got.end - got.first;
	h->body_crc = got.crc;
	return 0;
}

/* Marks before bytes: a mark is published after the bytes that it stands behind, so none in the file is past the tail.
 */
static int write_body(const struct ring *ring, const struct ring *marks, int fd, struct header *h)
{
	struct copied got;

	int r = copy_marks(marks, fd, h);
	if (r < 0)
		return r;
	r = copy_ring(ring, fd, HEADER_BYTES + h->marks_bytes, h->body_crc, &got);
	if (r < 0)
		return r;
	h->entry.head = got.first;
	h->entry.tail = got.end;
	h->entry.capacity = ring_capacity(ring);
	h->body_crc = got.crc;
	/* A range that began again may have left more behind it. */
	if (ftruncate(fd, (off_t)(HEADER_BYTES + h->marks_bytes + (got.end - got.first))) < 0)
		return -errno;
	return 0;
}

static int write_file(
        const struct custody_place *place, const struct ring *ring, const struct ring *marks, int fd, struct header *h)
{
	uint8_t header[HEADER_BYTES];

	int r = write_body(ring, marks, fd, h);
	if (r < 0)
		return r;
	h->entry.written_at_ms = clock_wall_ms();
	pack_header(place, h, header);
	r = write_at(fd, header, sizeof(header), 0);
	if (r < 0)
		return r;
	return fsync(fd) < 0 ? -errno : 0;
}

/* Makes the file durable under its name. */
static int put_in_place(int dirfd, const char *tmp, const char *name)
{
	if (renameat(dirfd, tmp, dirfd, name) < 0)
		return -errno;
	return fsync(dirfd) < 0 ? -errno : 0;
}

static int write_in_dir(const struct custody_place *place, int dirfd, const struct ring *ring, const struct ring *marks,
        struct header *h)
{
	char name[FILE_NAME_BYTES], tmp[FILE_NAME_BYTES];

	file_name(name, sizeof(name), place->console, SUFFIX);
	file_name(tmp, sizeof(tmp), place->console, TMP_SUFFIX);
	/* What a crash left there is nobody's; O_EXCL, since a link at the name would lead elsewhere. */
	unlinkat(dirfd, tmp, 0);
	int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = write_file(place, ring, marks, fd, h);
	fd_close(&fd);
	if (r == 0)
		r = put_in_place(dirfd, tmp, name);
	if (r < 0)
		unlinkat(dirfd, tmp, 0);
	return r;
}

int custody_write(const struct custody_place *place, int bytes_fd, int marks_fd, struct custody_entry *entry)
{
	struct header h = { .entry = *entry };
	struct ring *ring = NULL, *marks = NULL;
	int dirfd = -1;

	if (!place_valid(place))
		return -EINVAL;
	int r = ring_open(bytes_fd, &ring);
	if (r == 0)
		r = ring_open(marks_fd, &marks);
	if (r == 0) {
		dirfd = open_dir(place->dir, true);
		r = dirfd < 0 ? dirfd : write_in_dir(place, dirfd, ring, marks, &h);
	}
	if (r == 0)
		*entry = h.entry;
	fd_close(&dirfd);
	ring_free(marks);
	ring_free(ring);
	return r;
}

/* ---- Reading ---- */

/* Opens the file and believes its header: the size of the file is what the header says, to the byte. */
static int open_file(const struct custody_place *place, struct header *h)
{
	char name[FILE_NAME_BYTES];
	uint8_t header[HEADER_BYTES];
	struct stat st;

	if (!place_valid(place))
		return -EINVAL;
	int dirfd = open_dir(place->dir, false);
	if (dirfd < 0)
		return dirfd;
	file_name(name, sizeof(name), place->console, SUFFIX);
	/* O_NONBLOCK: whatever else may stand at the name, opening it does not wait. */
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int r = fd < 0 ? (errno == ELOOP ? -EUCLEAN : -errno) : 0;
	fd_close(&dirfd);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		r = -EUCLEAN;
	else
		r = read_exactly(fd, header, sizeof(header));
	if (r == 0)
		r = unpack_header(place, header, h);
	if (r == 0 && (uint64_t)st.st_size != HEADER_BYTES + h->marks_bytes + (h->entry.tail - h->entry.head))
		r = -EUCLEAN;
	if (r < 0) {
		fd_close(&fd);
		return r;
	}
	return fd;
}

static int fill_ring(int fd, uint64_t n, struct ring *r, uint32_t *crc)
{
	uint8_t *chunk = malloc(CHUNK_BYTES);
	int err = 0;

	if (!chunk)
		return -ENOMEM;
	while (n > 0 && err == 0) {
		size_t part = n < CHUNK_BYTES ? (size_t)n : CHUNK_BYTES;
		err = read_exactly(fd, chunk, part);
		if (err < 0)
			break;
		*crc = crc32c(*crc, chunk, part);
		ring_append(r, chunk, part);
		n -= part;
	}
	free(chunk);
	return err;
}

static int read_file(int fd, const struct header *h, struct ring **ring, struct ring **marks)
{
	uint32_t crc = 0;

	int r = ring_create("custody-marks", MARK_RING_BYTES, h->marks_first, marks);
	if (r == 0)
		r = ring_create("custody-ring", (size_t)h->entry.capacity, h->entry.head, ring);
	if (r == -EINVAL)
		return -EUCLEAN; /* an offset that no console reaches */
	if (r == 0)
		r = fill_ring(fd, h->marks_bytes, *marks, &crc);
	if (r == 0)
		r = fill_ring(fd, h->entry.tail - h->entry.head, *ring, &crc);
	if (r == 0 && crc != h->body_crc)
		r = -EUCLEAN;
	return r;
}

int custody_peek(const struct custody_place *place, struct custody_entry *out)
{
	struct header h;
	int fd = open_file(place, &h);

	if (fd < 0)
		return fd;
	fd_close(&fd);
	*out = h.entry;
	return 0;
}

int custody_read(const struct custody_place *place, struct custody_entry *out, int *bytes_fd, int *marks_fd)
{
	struct ring *ring = NULL, *marks = NULL;
	struct header h;
	int copies[2] = { -1, -1 };

	int fd = open_file(place, &h);
	if (fd < 0)
		return fd;
	int r = read_file(fd, &h, &ring, &marks);
	if (r == 0) {
		copies[0] = fd_dup_cloexec(ring_fd(ring));
		copies[1] = fd_dup_cloexec(ring_fd(marks));
		if (copies[0] < 0 || copies[1] < 0)
			r = copies[0] < 0 ? copies[0] : copies[1];
	}
	if (r == 0) {
		*out = h.entry;
		*bytes_fd = fd_take(&copies[0]);
		*marks_fd = fd_take(&copies[1]);
	}
	fd_close(&copies[0]);
	fd_close(&copies[1]);
	ring_free(marks);
	ring_free(ring);
	fd_close(&fd);
	return r;
}

/* ---- Removing ---- */

int custody_drop(const struct custody_place *place)
{
	char name[FILE_NAME_BYTES];

	if (!place_valid(place))
		return -EINVAL;
	int dirfd = open_dir(place->dir, false);
	if (dirfd == -ENOENT)
		return 0;
	if (dirfd < 0)
		return dirfd;
	file_name(name, sizeof(name), place->console, SUFFIX);
	int r = unlinkat(dirfd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	fd_close(&dirfd);
	return r;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

int custody_drop_all(const char *dir)
{
	struct dirent *e;
	int fd = open_dir(dir, false);

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	DIR *d = fdopendir(fd);
	if (!d) {
		int err = -errno;
		fd_close(&fd);
		return err;
	}
	while ((e = readdir(d)) != NULL)
		if (ends_with(e->d_name, SUFFIX) || ends_with(e->d_name, TMP_SUFFIX))
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	return rmdir(dir) < 0 ? -errno : 0;
}
