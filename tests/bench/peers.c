/* peers.c - dtach's socket, and a pty with nothing around it. */
#include "tests/bench/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/guard.h"

#define ARGS_MAX      16
#define PROCESSES_MAX 4096
#define READ_BYTES    ((size_t)64 * 1024)
#define QUIET_MS      50
#define PACKET        10
#define PACKET_KEYS   0
#define PACKET_JOIN   1

extern char **environ;

/* ---- Anything ---- */

pid_t peer_spawn(const char *const *argv)
{
	posix_spawn_file_actions_t files;
	pid_t pid;
	int err;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, 0, 1);
	err = posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (err != 0)
		bench_fail("%s: %s", argv[0], strerror(err));
	return pid;
}

static void wait_for(pid_t pid, const char *name)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			bench_die("waitpid");
	if (status != 0)
		bench_fail("%s ended with status 0x%x", name, (unsigned)status);
}

void peer_run(const char *const *argv)
{
	wait_for(peer_spawn(argv), argv[0]);
}

/* ---- dtach ---- */

uint64_t dtach_spawn_ns(struct dtach *d, const char *const *argv)
{
	const char *args[ARGS_MAX] = { "dtach", "-n", d->socket };
	size_t n = 3;
	uint64_t start;

	*d = (struct dtach){ .dir = "/tmp/ringside-bench-dtach-XXXXXX", .fd = -1 };
	if (!mkdtemp(d->dir))
		bench_die("mkdtemp");
	snprintf(d->socket, sizeof(d->socket), "%s/s", d->dir);
	while (*argv && n < ARGS_MAX - 1)
		args[n++] = *argv++;
	start = bench_now_ns();
	peer_run(args);
	return bench_now_ns() - start;
}

static void put_packet(const struct dtach *d, unsigned char type, const char *keys, unsigned char n)
{
	unsigned char packet[PACKET] = { type, n };

	memcpy(packet + 2, keys, n);
	if (write(d->fd, packet, sizeof(packet)) != sizeof(packet))
		bench_die("dtach");
}

void dtach_key(struct dtach *d)
{
	put_packet(d, PACKET_KEYS, "k", 1);
}

/* The program may not be there yet, and what it prints before somebody has joined is gone: keys are tried until one
 * comes back, then the terminal is left to grow quiet. */
static void await_echo(struct dtach *d)
{
	struct pollfd p = { .fd = d->fd, .events = POLLIN };
	uint64_t since = 0;
	char buf[256];

	do {
		dtach_key(d);
		if (!bench_wait(&since, 1))
			bench_fail("dtach does not answer");
	} while (poll(&p, 1, QUIET_MS) == 0);
	while (poll(&p, 1, QUIET_MS) == 1)
		if (read(d->fd, buf, sizeof(buf)) <= 0)
			bench_die("dtach");
}

/* It has left its starter, and the peer that the socket names is the process that made it, which has ended. */
static pid_t find_server(const struct dtach *d)
{
	static pid_t pids[PROCESSES_MAX];
	size_t n = guard_descendants(pids, PROCESSES_MAX);
	char line[4096];

	for (size_t i = 0; i < n; i++)
		if (strncmp(process_line(pids[i], line, sizeof(line)), "dtach ", 6) == 0 && strstr(line, d->socket))
			return pids[i];
	bench_fail("no dtach serves %s", d->socket);
}

void dtach_attach(struct dtach *d)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memcpy(a.sun_path, d->socket, sizeof(d->socket));
	d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (d->fd < 0 || connect(d->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		bench_die(d->socket);
	put_packet(d, PACKET_JOIN, "", 0);
	d->pid = find_server(d);
	await_echo(d);
}

/* With its program the session ends, and the socket file goes. */
void dtach_end(struct dtach *d)
{
	uint64_t since = 0;

	if (d->fd >= 0)
		close(d->fd);
	if (d->pid > 0)
		kill(d->pid, SIGTERM);
	while (d->pid > 0 && kill(d->pid, 0) == 0)
		if (!bench_wait(&since, 1))
			bench_fail("dtach does not end");
	unlink(d->socket);
	rmdir(d->dir);
}

/* ---- bare ---- */

static void read_all(int master, uint64_t bytes)
{
	static char buf[READ_BYTES];

	for (uint64_t got = 0; got < bytes;) {
		ssize_t n = read(master, buf, sizeof(buf));

		if (n <= 0)
			bench_die("read from the pty");
		got += (uint64_t)n;
	}
}

static void bare_loop(const char *const *argv, uint64_t bytes, struct bare *out)
{
	uint64_t start, cpu;
	int master, status;
	pid_t pid = forkpty(&master, NULL, NULL, &(struct winsize){ .ws_col = 80, .ws_row = 24 });

	if (pid < 0)
		bench_die("forkpty");
	if (pid == 0) {
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	read_all(master, 1); /* it is ready */
	cpu = bench_cpu_ns(getpid());
	start = bench_now_ns();
	if (write(master, "g", 1) != 1)
		bench_die("write to the pty");
	read_all(master, bytes);
	out->ns = bench_now_ns() - start;
	out->cpu_ns = bench_cpu_ns(getpid()) - cpu;
	waitpid(pid, &status, 0);
}

void bare_flood(const char *const *argv, uint64_t bytes, struct bare *out)
{
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		bench_die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bare_loop(argv, bytes, out);
		_exit(write(ends[1], out, sizeof(*out)) == sizeof(*out) ? 0 : 1);
	}
	close(ends[1]);
	ssize_t n = read(ends[0], out, sizeof(*out));
	close(ends[0]);
	if (waitpid(pid, &status, 0) != pid || status != 0 || n != sizeof(*out))
		bench_fail("the bare loop failed");
}
