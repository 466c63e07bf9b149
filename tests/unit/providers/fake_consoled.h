/*
 * fake_consoled.h - a console daemon without consoles, inside the test program itself: started again with a console
 * daemon's arguments it becomes one. It looks at what it was given more strictly than the real one would, and
 * misbehaves on request, by the label of its sandbox.
 *
 *   deaf    hears no shutdown          mute     never listens          dies     leaves right after its byte
 *   full    listens, accepts nobody    keeper   deaf, with a child that writes in the workspace for a while after its
 * death
 */
#ifndef TESTS_UNIT_PROVIDERS_FAKE_CONSOLED_H
#define TESTS_UNIT_PROVIDERS_FAKE_CONSOLED_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/frame.h"
#include "wire/wire.h"

extern char **environ;

static inline const char *fake_argument(int argc, char **argv, const char *name)
{
	size_t n = strlen(name);

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, n) == 0 && argv[i][2 + n] == '=')
			return argv[i] + 3 + n;
	return NULL;
}

__attribute__((noreturn)) static inline void fake_objects(const char *to)
{
	dprintf(STDERR_FILENO, "objects to %s\n", to);
	_exit(40);
}

/* The descriptors 0 to 4 and no others. */
static inline void fake_check_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned seen = 0;

	while ((entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		if (fd > 4)
			fake_objects("a descriptor that is not its own");
		seen |= 1U << fd;
	}
	closedir(dir);
	if (seen != 0x1f)
		fake_objects("a descriptor that is missing");
}

static inline bool fake_status_is_zero(const char *status, const char *field)
{
	const char *p = strstr(status, field);

	return p && strspn(p + strlen(field), "0 \t") >= 16;
}

static inline void fake_check_process(void)
{
	char text[4096], cwd[16] = "";
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (environ[0])
		fake_objects("its environment");
	if (getsid(0) != getpid())
		fake_objects("its session");
	if (!getcwd(cwd, sizeof(cwd)) || strcmp(cwd, "/") != 0)
		fake_objects("its directory");
	if (!fake_status_is_zero(text, "SigBlk:") || !fake_status_is_zero(text, "SigIgn:"))
		fake_objects("blocked or ignored signals");
}

static inline void fake_check_socket(int fd)
{
	struct sockaddr_un address;
	socklen_t n = sizeof(address);
	int listening = 1;
	socklen_t size = sizeof(listening);

	if (getsockname(fd, (struct sockaddr *)&address, &n) < 0 || address.sun_family != AF_UNIX ||
	        n <= offsetof(struct sockaddr_un, sun_path))
		fake_objects("its socket");
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 || listening)
		fake_objects("a socket on which somebody else listens");
}

static inline void fake_check_arguments(int argc, char **argv)
{
	static const char *const needed[] = { "sandbox", "workspace", "home", "user", "shell", "path" };

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!fake_argument(argc, argv, needed[i]) || !*fake_argument(argc, argv, needed[i]))
			fake_objects(needed[i]);
	if (access(fake_argument(argc, argv, "workspace"), X_OK) < 0)
		fake_objects("its workspace");
	if (access(fake_argument(argc, argv, "shell"), X_OK) < 0)
		fake_objects("its shell");
}

/* As a keeper does: outlives its console daemon for a while, busy in the workspace. */
static inline void fake_keeper(const char *workspace)
{
	int alive[2];
	char c, path[4200];

	if (pipe2(alive, O_CLOEXEC) < 0)
		_exit(41);
	if (fork() != 0)
		return; /* the write end stays open here until death */
	close(alive[1]);
	(void)!read(alive[0], &c, 1);
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "%s/late-%d", workspace, i);
		close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
	}
	_exit(0);
}

static inline bool fake_is_shutdown(const struct frame *f)
{
	bool is = false;

	if (f->type != FRAME_MESSAGE)
		fake_objects("a frame that is no message");
	Wire__ConsoledRequest *r = wire__consoled_request__unpack(NULL, f->length, f->payload);
	if (!r || r->id == 0)
		fake_objects("a message that is no request");
	is = r->body_case == WIRE__CONSOLED_REQUEST__BODY_SHUTDOWN;
	wire__consoled_request__free_unpacked(r, NULL);
	return is;
}

/* Reads one connection; true: shut down. A newer one replaces it. */
static inline bool fake_read(int *conn, uint8_t *buf, size_t size, size_t *have)
{
	struct frame f;
	long taken;
	ssize_t n = recv(*conn, buf + *have, size - *have, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		close(*conn);
		*conn = -1;
		return false;
	}
	*have += n > 0 ? (size_t)n : 0;
	while ((taken = frame_decode(buf, *have, &f)) != 0) {
		if (taken < 0)
			fake_objects("what is no frame");
		if (fake_is_shutdown(&f))
			return true;
		memmove(buf, buf + taken, *have - (size_t)taken);
		*have -= (size_t)taken;
	}
	return false;
}

static inline void fake_serve(int listen_fd, bool deaf)
{
	static uint8_t buf[2 * FRAME_MAX_PAYLOAD];
	int conn = -1;
	size_t have = 0;

	for (;;) {
		struct pollfd p[2] = { { .fd = listen_fd, .events = POLLIN }, { .fd = conn, .events = POLLIN } };

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents && fake_read(&conn, buf, sizeof(buf), &have) && !deaf)
			_exit(0);
		if (p[0].revents) {
			int next = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

			if (next < 0)
				continue;
			if (conn >= 0)
				close(conn);
			conn = next;
			have = 0;
		}
	}
}

__attribute__((noreturn)) static inline void fake_consoled(int argc, char **argv)
{
	const char *label = fake_argument(argc, argv, "sandbox");
	int listen_fd = atoi(fake_argument(argc, argv, "listen-fd"));
	int commit_fd = atoi(fake_argument(argc, argv, "commit-fd"));
	char byte;

	fake_check_descriptors();
	fake_check_process();
	fake_check_socket(listen_fd);
	fake_check_arguments(argc, argv);
	if (read(commit_fd, &byte, 1) != 1)
		_exit(0);
	if (strcmp(label, "dies") == 0)
		_exit(7);
	if (strcmp(label, "keeper") == 0)
		fake_keeper(fake_argument(argc, argv, "workspace"));
	if (strcmp(label, "mute") != 0 && listen(listen_fd, strcmp(label, "full") == 0 ? 0 : 16) < 0)
		_exit(42);
	close(commit_fd);
	if (strcmp(label, "mute") == 0 || strcmp(label, "full") == 0)
		for (;;)
			pause();
	fake_serve(listen_fd, strcmp(label, "deaf") == 0 || strcmp(label, "keeper") == 0);
	_exit(0);
}

/* First thing in main(): does not return where the program was started as a console daemon. */
static inline void fake_consoled_if_asked(int argc, char **argv)
{
	if (argc > 1 && fake_argument(argc, argv, "listen-fd"))
		fake_consoled(argc, argv);
}

#endif
