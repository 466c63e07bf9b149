/*
 * connect.c - the connection to the control daemon: finding it, starting it, greeting it, getting it back.
 *
 * One attempt is connect, check who listens, hello. A daemon that is just going away may still take a connection and
 * drop it, so anything that looks like "nobody there" before the hello is answered is tried again until the deadline.
 * Who may serve is decided by the daemon's lock, never here; a daemon started in vain simply leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/internal.h"
#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/sock.h"

#define CONTROL_SOCKET "control.sock"
#define RETRY_MIN_MS   1 /* between two attempts, doubling */
#define RETRY_MAX_MS   100

static bool nobody_there(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET || r == -EPIPE || r == -ENOTDIR;
}

static int connect_socket(const struct paths *paths)
{
	int dir = open(paths->runtime_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	int fd = sock_connect_at(dir, CONTROL_SOCKET);
	fd_close(&dir);
	return fd;
}

/* The socket's folder is private, but RINGSIDE_HOME may point anywhere. */
static int check_peer(int fd)
{
	uid_t uid;
	gid_t gid;
	pid_t pid;
	int r = sock_peer(fd, &pid, &uid, &gid);
	if (r < 0)
		return r;
	return uid == geteuid() || uid == 0 ? 0 : -EACCES;
}

/* Many may come at once: where the queue of those who wait to be accepted is full, there is a daemon, and room soon. */
static int connect_in_turn(const struct ringside *rs)
{
	uint64_t deadline = clock_mono_ms() + rs->connect_ms;
	uint64_t pause = RETRY_MIN_MS;
	for (;;) {
		int fd = connect_socket(&rs->paths);
		if (fd != -EAGAIN || clock_mono_ms() >= deadline)
			return fd;
		poll(NULL, 0, (int)pause);
		pause = pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
	}
}

/* 0 and rs->conn; or a negative errno, nothing described. */
static int open_conn(struct ringside *rs)
{
	int fd = connect_in_turn(rs);
	if (fd < 0)
		return fd;
	int r = check_peer(fd);
	if (r == 0)
		r = conn_new(fd, CONTROL_OUT_LIMIT, &rs->conn);
	if (r < 0)
		fd_close(&fd);
	return r;
}

static int hello(struct ringside *rs, struct ringside_error *err)
{
	Wire__ControlHello body = WIRE__CONTROL_HELLO__INIT;
	body.protocol = CONTROL_PROTOCOL_VERSION;
	body.client = rs->client;
	Wire__ControlRequest req = WIRE__CONTROL_REQUEST__INIT;
	req.body_case = WIRE__CONTROL_REQUEST__BODY_HELLO;
	req.hello = &body;

	struct control_reply reply;
	int code = control_call(rs, &req, WIRE__CONTROL_REPLY__BODY_HELLO, 0, &reply, err);
	if (code)
		return code;
	uint32_t protocol = reply.message->hello->protocol;
	control_reply_release(&reply);
	if (protocol != CONTROL_PROTOCOL_VERSION)
		return error_set(err, RINGSIDE_NOT_SUPPORTED,
		        "ringsided speaks protocol %u and this program %d: install them from one release", protocol,
		        CONTROL_PROTOCOL_VERSION);
	return 0;
}

/* One attempt. *again: nobody answered, and asking again may help. */
static int attempt(struct ringside *rs, bool *again, struct ringside_error *err)
{
	*again = false;
	int r = open_conn(rs);
	if (r == -EACCES)
		return error_set(
		        err, RINGSIDE_PERMISSION_DENIED, "the socket in %s is another user's", rs->paths.runtime_dir);
	if (r < 0) {
		*again = nobody_there(r);
		if (*again)
			return error_set(err, RINGSIDE_UNAVAILABLE,
			        "ringsided is not running (no one serves %s/%s); `ringside up` starts it",
			        rs->paths.runtime_dir, CONTROL_SOCKET);
		if (r == -ENOTSOCK || r == -ELOOP)
			return error_set(err, RINGSIDE_UNAVAILABLE,
			        "%s/%s is not a socket and is left alone: ringsided cannot serve there",
			        rs->paths.runtime_dir, CONTROL_SOCKET);
		return error_errno(err, r, rs->paths.runtime_dir);
	}
	uint64_t call_ms = rs->call_ms;
	rs->call_ms = rs->connect_ms; /* a daemon that hangs is told before a request waits for it */
	int code = hello(rs, err);
	rs->call_ms = call_ms;
	if (code) {
		/* Dropped before the answer: it is leaving, or it says why. */
		*again = rs->conn == NULL && code == RINGSIDE_UNAVAILABLE;
		conn_free(rs->conn);
		rs->conn = NULL;
	}
	return code;
}

/*
 * Starts one and connects. A start that finds the lock taken is no failure: another one begins to serve right now (then
 * the next attempt connects), or is leaving (then the next start succeeds).
 */
static int start_and_connect(struct ringside *rs, uint64_t deadline, struct ringside_error *err)
{
	uint64_t pause = RETRY_MIN_MS;
	for (;;) {
		bool again;
		int code = daemon_start(deadline, err);
		if (code)
			return code;
		code = attempt(rs, &again, err);
		if (!code || !again)
			return code;
		if (clock_mono_ms() >= deadline)
			return error_set(err, RINGSIDE_UNAVAILABLE,
			        "ringsided was started and does not answer at %.200s/%s", rs->paths.runtime_dir,
			        CONTROL_SOCKET);
		poll(NULL, 0, (int)pause);
		pause = pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
	}
}

static int connect_daemon(struct ringside *rs, struct ringside_error *err)
{
	uint64_t deadline = clock_mono_ms() + rs->connect_ms;
	bool again;
	int code = attempt(rs, &again, err);
	if (!code || !again || rs->no_start)
		return code;
	return start_and_connect(rs, deadline, err);
}

int ringside_open(const struct ringside_options *options, struct ringside **out, struct ringside_error *err)
{
	struct ringside *rs = calloc(1, sizeof(*rs));
	if (!rs)
		return error_memory(err);
	const char *client = options && options->client ? options->client : "libringside";
	strncpy(rs->client, client, sizeof(rs->client) - 1);
	rs->no_start = options && options->no_start;
	rs->connect_ms = options && options->connect_ms ? options->connect_ms : CONNECT_DEFAULT_MS;
	rs->call_ms = CALL_DEFAULT_MS;

	int r = paths_find(&rs->paths);
	int code = r < 0 ? error_errno(err, r,
	                           "no directories: RINGSIDE_HOME, or else HOME, has to be an absolute path, "
	                           "and XDG_STATE_HOME and XDG_RUNTIME_DIR where they are set")
	                 : connect_daemon(rs, err);
	if (code) {
		ringside_close(rs);
		return code;
	}
	*out = rs;
	return 0;
}

void ringside_close(struct ringside *rs)
{
	if (!rs)
		return;
	conn_free(rs->conn);
	free(rs);
}

int ringside_reconnect(struct ringside *rs, struct ringside_error *err)
{
	conn_free(rs->conn);
	rs->conn = NULL;
	return connect_daemon(rs, err);
}

bool ringside_connected(const struct ringside *rs)
{
	return rs->conn != NULL;
}

void ringside_set_timeout(struct ringside *rs, uint64_t ms)
{
	rs->call_ms = ms ? ms : UINT64_MAX;
}
