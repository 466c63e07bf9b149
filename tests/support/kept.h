/*
 * kept.h - one program under its keeper, driven without a loop: for the tests of the keeper alone.
 */
#ifndef TESTS_SUPPORT_KEPT_H
#define TESTS_SUPPORT_KEPT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consoles/keeper.h"
#include "consoles/pty.h"
#include "wire/clock.h"
#include "wire/fd.h"

#define KEPT_DEADLINE_MS 30000

struct kept {
	struct keeper keeper;
	int out;    /* read end of the program's standard output, or the pty's master */
	bool began; /* STARTED or FAILED has come */
	bool failed, exited, empty;
	int status;
	struct keeper_report last;
};

/* Starts argv under a keeper, on a pty or with a pipe as its output. 0 or -errno. */
static inline int kept_start(struct kept *k, const char *const *argv, const char *const *envp, bool tty)
{
	struct keeper_spec spec = {
		.path = argv[0], .argv = argv, .envp = envp, .cwd = "/", .tty = -1, .label = "test"
	};
	int ends[2] = { -1, -1 }, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	*k = (struct kept){ .keeper = { .pid = -1, .sock = -1 }, .out = -1 };
	int r = tty ? pty_open(80, 24, &ends[0], &ends[1]) : pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0) {
		fd_set_nonblocking(ends[0], 1);
		if (tty)
			spec.tty = ends[1];
		spec.in = null;
		spec.out = spec.err = ends[1];
		r = keeper_spawn(&spec, &k->keeper);
	}
	if (r == 0)
		k->out = fd_take(&ends[0]);
	/* Programs of these tests are exec'ed by a child that has its own copies already. */
	fd_close(&ends[0]);
	fd_close(&ends[1]);
	fd_close(&null);
	return r;
}

/* A fault in what the keeper said, or NULL. */
static inline const char *kept_take(struct kept *k)
{
	const struct keeper_report *r = &k->last;

	switch (r->kind) {
	case REPORT_STARTED:
	case REPORT_FAILED:
		if (k->began)
			return "a second STARTED or FAILED";
		k->began = true;
		k->failed = r->kind == REPORT_FAILED;
		return NULL;
	case REPORT_EXITED:
		if (!k->began || k->failed || k->exited || k->empty)
			return "EXITED out of order";
		k->exited = true;
		k->status = r->status;
		return NULL;
	case REPORT_EMPTY:
		if (!k->began || k->empty || (!k->failed && !k->exited))
			return "EMPTY out of order";
		k->empty = true;
		return NULL;
	case REPORT_SIGNALLED:
		return NULL;
	}
	return "a report of no kind";
}

/* Waits for one report. NULL and k->last; or what went wrong ("gone" when the keeper's socket is at its end). */
static inline const char *kept_next(struct kept *k, uint64_t deadline)
{
	for (;;) {
		int r = keeper_report(&k->keeper, &k->last);
		if (r > 0)
			return kept_take(k);
		if (r < 0)
			return "gone";
		uint64_t now = clock_mono_ms();
		if (now >= deadline)
			return "nothing in time";
		struct pollfd p = { .fd = k->keeper.sock, .events = POLLIN };
		poll(&p, 1, (int)(deadline - now));
	}
}

/* Waits until a report of this kind has come. NULL, or what went wrong. */
static inline const char *kept_wait(struct kept *k, enum keeper_report_kind kind)
{
	const uint64_t deadline = clock_mono_ms() + KEPT_DEADLINE_MS;
	const char *wrong;

	do
		wrong = kept_next(k, deadline);
	while (!wrong && k->last.kind != (uint32_t)kind);
	return wrong;
}

static inline int kept_signal(struct kept *k, int sig, uint32_t number)
{
	const struct keeper_order o = {
		.kind = ORDER_SIGNAL_ALL, .order = number, .signal = sig, .cont = sig != SIGKILL
	};

	return keeper_order(&k->keeper, &o);
}

/* Waits for the program's first byte. */
static inline bool kept_is_ready(struct kept *k)
{
	struct pollfd p = { .fd = k->out, .events = POLLIN };
	char byte;

	return poll(&p, 1, KEPT_DEADLINE_MS) == 1 && read(k->out, &byte, 1) == 1;
}

/* SIGKILL until all is gone, proven; then the keeper is reaped. NULL, or what went wrong. */
static inline const char *kept_kill(struct kept *k)
{
	const uint64_t deadline = clock_mono_ms() + KEPT_DEADLINE_MS;
	const char *wrong = NULL;

	for (uint32_t n = 1000; !k->empty; n++) {
		kept_signal(k, SIGKILL, n);
		do
			wrong = kept_next(k, deadline);
		while (!wrong && !k->empty && !(k->last.kind == REPORT_SIGNALLED && k->last.order == n));
		if (wrong)
			return wrong;
	}
	return NULL;
}

/* The last of it: the keeper has left, of its own will, and is reaped. NULL, or what went wrong. */
static inline const char *kept_reap(struct kept *k)
{
	int status;

	if (waitpid(k->keeper.pid, &status, 0) != k->keeper.pid)
		return "no keeper to reap";
	fd_close(&k->keeper.sock);
	fd_close(&k->out);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return "the keeper was killed";
	return NULL;
}

#endif
