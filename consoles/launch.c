/*
 * launch.c - from fork to exec; see launch.h.
 *
 * All signals are blocked from before the fork until the handlers are gone, so no handler of the daemon runs in here.
 */
#include "consoles/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/fd.h"
#include "wire/signals.h"

static _Noreturn void fail(int report, enum keeper_step step, int error)
{
	const struct launch_failure f = { .step = (int32_t)step, .error = error };

	fd_write_all(report, &f, sizeof(f));
	_exit(127);
}

/* Out of the way of 0, 1 and 2, which are about to be something else. */
static int lift(int fd, int report)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (high < 0)
		fail(report, STEP_TERMINAL, errno);
	return high;
}

static void set_stream(int number, int fd, int report)
{
	if (dup2(fd, number) < 0)
		fail(report, STEP_TERMINAL, errno);
}

static void take_terminal(int tty, int report)
{
	if (ioctl(tty, TIOCSCTTY, 0) < 0)
		fail(report, STEP_TERMINAL, errno);
	for (int number = 0; number <= 2; number++)
		set_stream(number, tty, report);
}

static void set_streams(const struct keeper_spec *spec, int report)
{
	if (setsid() < 0)
		fail(report, STEP_TERMINAL, errno);
	if (spec->tty >= 0) {
		take_terminal(lift(spec->tty, report), report);
		return;
	}
	/* All are lifted before the first is set: they may be 0, 1 and 2 in any order. */
	int in = lift(spec->in, report), out = lift(spec->out, report), err = lift(spec->err, report);
	set_stream(0, in, report);
	set_stream(1, out, report);
	set_stream(2, err, report);
}

static int open_oom_score(void)
{
	return open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
}

/*
 * Programs go before the daemon when memory runs out. The file belongs to root while this process is not dumpable,
 * which it inherits from the daemon; it is made dumpable for the one call that opens it, since all that time a program
 * of the same user could look into this copy of the daemon's memory. exec makes the program dumpable by itself.
 */
static void prefer_for_oom(void)
{
	int fd = open_oom_score();

	if (fd < 0 && errno == EACCES) {
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		fd = open_oom_score();
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	}
	if (fd < 0)
		return;
	/* Refused where the host has set more already: as good. */
	if (write(fd, "500", 3) < 0)
		errno = 0;
	fd_close(&fd);
}

static void set_defaults(int report)
{
	sigset_t none;

	prefer_for_oom();
	fd_restore_limit();
	umask(022);
	signals_default();
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		fail(report, STEP_OTHER, errno);
}

_Noreturn void launch_program(const struct keeper_spec *spec, int report)
{
	report = lift(report, report);
	set_streams(spec, report);
	fd_close_from(3, &report, 1);
	set_defaults(report);
	if (chdir(spec->cwd) < 0)
		fail(report, STEP_CWD, errno);
	execve(spec->path, (char *const *)spec->argv, (char *const *)spec->envp);
	fail(report, STEP_EXEC, errno);
}
