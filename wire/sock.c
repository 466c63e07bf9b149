/*
 * sock.c - unix stream sockets by directory and name.
 *
 * A socket's address holds 107 bytes. /proc/self/fd/DIRFD/NAME is short whatever the directory's own path, and names
 * the directory that was checked, not the one that has its path by now.
 */
#include "wire/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/fd.h"
#include "wire/text.h"

#define LOCK_ROUNDS 8 /* how often a lock file may vanish while it is being locked */

/* One component: the directory was checked, and nothing below or above it. */
static bool plain_name(const char *name)
{
	return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* /proc/self/fd/FD, and /NAME where name is not NULL. */
static int proc_address(int fd, const char *name, struct sockaddr_un *out)
{
	int n;

	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	n = snprintf(
	        out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d%s%s", fd, name ? "/" : "", name ? name : "");
	return n < 0 || (size_t)n >= sizeof(out->sun_path) ? -ENAMETOOLONG : 0;
}

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

/* Removes a socket at the name that nobody listens on. */
static int remove_stale(int dirfd, const char *name)
{
	int fd = sock_connect_at(dirfd, name);

	switch (fd) {
	case -ECONNREFUSED:
		return unlinkat(dirfd, name, 0) == 0 || errno == ENOENT ? 0 : -errno;
	case -ENOENT:
		return 0;
	case -ENOTSOCK:
	case -ELOOP:
		return -EEXIST;
	case -EAGAIN: /* somebody listens and has much to do */
		return -EADDRINUSE;
	default:
		if (fd < 0)
			return fd;
		fd_close(&fd);
		return -EADDRINUSE;
	}
}

int sock_bind_at(int dirfd, const char *name)
{
	struct sockaddr_un address;
	int fd = -1;
	int r = plain_name(name) ? proc_address(dirfd, name, &address) : -EINVAL;

	if (r < 0)
		return r;
	fd = new_socket();
	if (fd < 0)
		return fd;
	/* Linux makes the file with the mode that the socket has: right from its first moment. */
	if (fchmod(fd, 0600) < 0)
		goto failed;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	if (errno != EADDRINUSE)
		goto failed;
	r = remove_stale(dirfd, name);
	if (r < 0)
		goto out;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
failed:
	r = -errno;
out:
	fd_close(&fd);
	return r;
}

/* Connects to the socket that `node` (O_PATH) is. */
static int connect_node(int node)
{
	struct sockaddr_un address;
	struct stat st;
	int fd, r;

	if (fstat(node, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	r = proc_address(node, NULL, &address);
	if (r < 0)
		return r;
	fd = new_socket();
	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		r = -errno;
		fd_close(&fd);
		return r;
	}
	return fd;
}

int sock_connect_at(int dirfd, const char *name)
{
	int node, r;

	if (!plain_name(name))
		return -EINVAL;
	/* O_PATH opens nothing: neither a link nor a FIFO or device that was put there has an effect. */
	node = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (node < 0)
		return -errno;
	r = connect_node(node);
	fd_close(&node);
	return r;
}

int sock_pair(int out[2])
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	out[0] = pair[0];
	out[1] = pair[1];
	return 0;
}

int sock_peer(int fd, pid_t *pid, uid_t *uid, gid_t *gid)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return -errno;
	*pid = cred.pid;
	*uid = cred.uid;
	*gid = cred.gid;
	return 0;
}

/* ---- The lock ---- */

static pid_t read_holder(int fd)
{
	char text[24];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	uint64_t pid;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return text_parse_u64(text, INT32_MAX, &pid) ? (pid_t)pid : 0;
}

/* For people alone, so a full disk does not keep anybody from the lock: the file is empty then. */
static void write_holder(int fd)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		(void)!ftruncate(fd, 0);
}

/* Whether the file that was locked is still the one at the name. */
static bool still_there(int fd, int dirfd, const char *name)
{
	struct stat locked, named;

	return fstat(fd, &locked) == 0 && fstatat(dirfd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

static int open_lock(int dirfd, const char *name)
{
	struct stat st;
	/* O_NONBLOCK: should a FIFO stand there, nothing waits for its other end. */
	int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		fd_close(&fd);
		return -EEXIST;
	}
	return fd;
}

static int lock(int fd)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int sock_lock_at(int dirfd, const char *name, pid_t *holder)
{
	if (!plain_name(name))
		return -EINVAL;
	for (int round = 0; round < LOCK_ROUNDS; round++) {
		int fd = open_lock(dirfd, name);
		int r;

		if (fd < 0)
			return fd;
		r = lock(fd);
		if (r == -EWOULDBLOCK)
			*holder = read_holder(fd);
		/* Somebody may have removed the file in between: a lock on a file without a name keeps nobody out. */
		if (r == 0 && still_there(fd, dirfd, name)) {
			write_holder(fd);
			return fd;
		}
		if (r == 0)
			r = -ESTALE;
		fd_close(&fd);
		if (r != -ESTALE)
			return r;
	}
	return -ESTALE;
}
