/*
 * main.c - ringside-consoled: owns the terminals of one sandbox, from the byte that commits it to its shutdown.
 *
 * Programs of its own uid run beside it, so it protects itself: it cannot be dumped or opened (from the first line), no
 * signal of theirs does anything, and orders come by its connection alone. It needs nothing of its environment.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "consoles/consoled.h"
#include "consoles/dormant.h"
#include "consoles/process.h"
#include "consoles/server.h"
#include "wire/fd.h"
#include "wire/log.h"
#include "wire/uvguard.h"

#define BACKLOG 16

static uv_loop_t loop;
static struct consoled the_daemon;
static struct server the_server;

/* Every signal that may be ignored is, but those by which faults of its own show and SIGCHLD, which the reaper needs.
 */
static void ignore_signals(void)
{
	static const int KEPT[] = { SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };

	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		bool keep = false;

		for (size_t i = 0; i < sizeof(KEPT) / sizeof(KEPT[0]); i++)
			keep |= KEPT[i] == sig;
		if (!keep)
			signal(sig, SIG_IGN); /* fails for SIGKILL and SIGSTOP */
	}
}

/* A descriptor per console, stream and keeper: as many as the host allows. */
static void raise_file_limit(void)
{
	int err = uvguard_raise_files();

	if (err < 0)
		log_warn(NULL, NULL, "cannot raise the limit of open files: %s", strerror(-err));
}

static int fail(const char *step, int err)
{
	log_error(the_daemon.options.sandbox, NULL, "cannot %s: %s", step, strerror(err));
	return 1;
}

/* Waits for the byte that says that somebody has durably noted this process. false: nobody will. */
static bool wait_for_commit(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;
	ssize_t n;

	do {
		n = poll(&p, 1, -1);
		if (n > 0)
			n = read(fd, &byte, 1);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	return n == 1;
}

static int prepare(void)
{
	const struct options *o = &the_daemon.options;
	const int keep[] = { o->listen_fd, o->commit_fd };

	fd_close_from(3, keep, sizeof(keep) / sizeof(keep[0]));
	if (fcntl(o->listen_fd, F_SETFD, FD_CLOEXEC) < 0 || fd_set_nonblocking(o->listen_fd, 1) < 0)
		return fail("use the socket it was given", errno);
	clearenv();
	umask(022);
	if (chdir(o->workspace) < 0)
		return fail("enter the workspace", errno);
	raise_file_limit();
	return 0;
}

static int serve(void)
{
	int listen_fd = the_daemon.options.listen_fd, commit_fd = the_daemon.options.commit_fd;
	int err;

	/* Before the commit, so that whoever gives it can connect right after; nobody is accepted until then. */
	if (listen(listen_fd, BACKLOG) < 0)
		return fail("listen", errno);
	if (commit_fd >= 0 && !wait_for_commit(commit_fd))
		return 0;
	fd_close(&commit_fd);

	uvguard_setup();
	err = uv_loop_init(&loop);
	if (err == 0)
		err = uvguard_open(&loop);
	if (err < 0)
		return fail("make its loop", -err);
	the_daemon.loop = &loop;
	the_daemon.console_limit = CONSOLE_LIMIT_DEFAULT;
	the_daemon.ring_bytes = RING_BYTES_DEFAULT;
	err = process_setup(&loop);
	if (err == 0)
		err = dormant_setup(&loop);
	if (err == 0)
		err = server_init(&the_server, &the_daemon, listen_fd);
	if (err < 0)
		return fail("start", -err);
	log_info(the_daemon.options.sandbox, NULL, "serving");
	uv_run(&loop, UV_RUN_DEFAULT);

	server_release(&the_server);
	uv_run(&loop, UV_RUN_NOWAIT); /* closes what was released */
	log_info(the_daemon.options.sandbox, NULL, "ended");
	return 0;
}

/* The leak checker at exit opens this process as a debugger does, which it is protected from. */
static void allow_leak_check(void)
{
#if defined(__SANITIZE_ADDRESS__)
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#endif
#endif
}

int main(int argc, char **argv)
{
	const char *why;
	int status;

	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	ignore_signals();
	log_setup("consoled", STDERR_FILENO, LOG_LEVEL_INFO);
	if (options_parse(argc, argv, &the_daemon.options, &why) < 0) {
		fprintf(stderr, "ringside-consoled: cannot use %s\n", why);
		return 2;
	}
	if (the_daemon.options.version) {
		puts("ringside-consoled " RINGSIDE_VERSION);
		allow_leak_check();
		return 0;
	}
	status = prepare();
	if (status == 0)
		status = serve();
	allow_leak_check();
	return status;
}
