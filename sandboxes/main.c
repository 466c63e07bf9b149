/*
 * main.c - ringsided: the control daemon of one user on one host.
 *
 *   ringsided                goes to the background; the command ends, with status 0, once the daemon serves
 *   ringsided --foreground   stays; logs to standard error
 *
 * One per user (or per RINGSIDE_HOME): the lock beside the socket decides, and the second is refused with status 5.
 * Other statuses: 1 it cannot start, 2 usage. The environment: RINGSIDE_HOME (paths), RINGSIDE_PROVIDER (the default
 * provider), RINGSIDE_CONSOLED (the console daemon's program, else it is looked for beside this one).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandboxes/daemon.h"
#include "wire/fd.h"
#include "wire/log.h"
#include "wire/paths.h"
#include "wire/sock.h"
#include "wire/text.h"
#include "wire/uvguard.h"

#define LOCK_NAME     "control.lock"
#define LOG_NAME      "ringsided.log"
#define OLD_LOG_NAME  "ringsided.log.1"
#define LOG_MAX_BYTES ((off_t)4 * 1024 * 1024) /* a larger one is put aside at the start, over the one before */
#define MESSAGE_BYTES 1024

enum status { STATUS_OK = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_RUNNING = 5 };

struct arguments {
	bool foreground;
	uint64_t custody_ms;
};

/* What the background process tells the one that started it. Shorter than PIPE_BUF: whole or not at all. */
struct verdict {
	int status;
	char message[MESSAGE_BYTES];
};

/* ---- Arguments ---- */

static int usage(FILE *f, int status)
{
	fputs("usage: ringsided [--foreground] [--custody-interval DURATION]\n"
	      "       ringsided --version | --help\n",
	        f);
	return status;
}

/* -1: go on; else the status to leave with. */
static int parse(int argc, char **argv, struct arguments *out)
{
	static const struct option options[] = {
		{ "foreground", no_argument, NULL, 'f' },
		{ "custody-interval", required_argument, NULL, 'c' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 'f':
			out->foreground = true;
			break;
		case 'c':
			if (!text_parse_duration(optarg, &out->custody_ms) || out->custody_ms == 0)
				return usage(stderr, STATUS_USAGE);
			break;
		case 'v':
			puts("ringsided " RINGSIDE_VERSION);
			return STATUS_OK;
		case 'h':
			return usage(stdout, STATUS_OK);
		default:
			return usage(stderr, STATUS_USAGE);
		}
	}
	return optind == argc ? -1 : usage(stderr, STATUS_USAGE);
}

/* ---- Surroundings ---- */

__attribute__((format(printf, 3, 4))) static enum status say(
        struct verdict *v, enum status status, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(v->message, sizeof(v->message), fmt, args);
	va_end(args);
	v->status = (int)status;
	return status;
}

static void set_signals(void)
{
	signal(SIGPIPE, SIG_IGN); /* a dead peer is an error of its connection */
	signal(SIGHUP, SIG_IGN);  /* a terminal that goes is not ours */
}

static bool executable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool beside_self(const char *sub, char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return false;
	self[n] = '\0';
	char *slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	int len = snprintf(out, size, "%s/%s", self, sub);
	return len > 0 && (size_t)len < size && executable(out);
}

static bool find_consoled(char *out, size_t size)
{
	const char *given = getenv("RINGSIDE_CONSOLED");

	if (given && *given)
		return snprintf(out, size, "%s", given) < (int)size && executable(out);
	return beside_self("ringside-consoled", out, size) ||
	       beside_self("../libexec/ringside/ringside-consoled", out, size);
}

/* ---- The log ---- */

static bool is_log(int fd, int state_dirfd)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && fstatat(state_dirfd, LOG_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* Called with the lock held: two daemons never rotate under each other. */
static int open_log_file(int state_dirfd)
{
	struct stat st;

	if (fstatat(state_dirfd, LOG_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > LOG_MAX_BYTES)
		renameat(state_dirfd, LOG_NAME, state_dirfd, OLD_LOG_NAME);
	return openat(state_dirfd, LOG_NAME, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* In the foreground the log is whatever standard error is, which may be the log file: then it is kept in bounds too. */
static void begin_log(int state_dirfd, bool foreground)
{
	if (!foreground || is_log(STDERR_FILENO, state_dirfd)) {
		int fd = open_log_file(state_dirfd);
		/* What the C library or a sanitizer says goes the same way. */
		if (fd >= 0)
			dup2(fd, STDERR_FILENO);
		fd_close(&fd);
	}
	log_setup("ringsided", STDERR_FILENO, LOG_LEVEL_INFO);
}

/* ---- The daemon ---- */

struct place {
	int runtime_dirfd, state_dirfd;
};

/* Directories and the lock. */
static enum status take_place(struct daemon_options *o, struct place *p, struct verdict *v)
{
	pid_t holder = 0;

	int r = paths_find(&o->paths);
	if (r < 0)
		return say(v, STATUS_FAILED,
		        "no place for the daemon's files: RINGSIDE_HOME, HOME and XDG_* must be absolute paths");
	p->runtime_dirfd = paths_make_private_dir(o->paths.runtime_dir);
	if (p->runtime_dirfd < 0)
		return say(
		        v, STATUS_FAILED, "cannot use %.400s: %s", o->paths.runtime_dir, strerror(-p->runtime_dirfd));
	p->state_dirfd = paths_make_private_dir(o->paths.state_dir);
	if (p->state_dirfd < 0)
		return say(v, STATUS_FAILED, "cannot use %.400s: %s", o->paths.state_dir, strerror(-p->state_dirfd));
	o->lock_fd = sock_lock_at(p->runtime_dirfd, LOCK_NAME, &holder);
	if (o->lock_fd == -EWOULDBLOCK)
		return say(v, STATUS_RUNNING, "ringsided is running already, pid %ld", (long)holder);
	if (o->lock_fd < 0)
		return say(v, STATUS_FAILED, "cannot lock %.400s/" LOCK_NAME ": %s", o->paths.runtime_dir,
		        strerror(-o->lock_fd));
	o->runtime_dirfd = p->runtime_dirfd;
	return STATUS_OK;
}

/* tell is called with the verdict once it serves, or cannot. */
static int serve(const struct arguments *a, void (*tell)(const struct verdict *v, void *ctx), void *ctx)
{
	static struct daemon d;
	struct daemon_options o = { .custody_ms = a->custody_ms, .lock_fd = -1 };
	struct place p = { -1, -1 };
	struct verdict v = { .status = STATUS_OK };
	const char *provider = getenv("RINGSIDE_PROVIDER");

	umask(077);
	/* Two descriptors for each console and one for each client: the default of 1024 is for programs that use select(2). */
	(void)uvguard_raise_files();
	uvguard_setup();
	set_signals();
	snprintf(o.default_provider, sizeof(o.default_provider), "%s", provider && *provider ? provider : "host");
	if (take_place(&o, &p, &v) != STATUS_OK) {
		fd_close(&p.runtime_dirfd);
		fd_close(&p.state_dirfd);
		tell(&v, ctx);
		return v.status;
	}
	begin_log(p.state_dirfd, a->foreground);
	if (!find_consoled(o.consoled_path, sizeof(o.consoled_path)))
		log_error(NULL, NULL, "the program ringside-consoled is not found: no sandbox can start a console");

	bool clean = true;
	if (ringsided_open(&d, &o, v.message, sizeof(v.message)) < 0) {
		v.status = STATUS_FAILED;
		log_error(NULL, NULL, "%s", v.message);
		tell(&v, ctx);
	} else {
		v.message[0] = '\0';
		tell(&v, ctx);
		clean = ringsided_run(&d);
	}
	if (!clean)
		_exit(STATUS_OK); /* a job still runs: what it uses must not be freed under it */
	ringsided_close(&d);
	fd_close(&p.runtime_dirfd);
	fd_close(&p.state_dirfd);
	return v.status;
}

/* ---- Foreground and background ---- */

static void tell_stderr(const struct verdict *v, void *ctx)
{
	(void)ctx;
	if (v->status != STATUS_OK)
		fprintf(stderr, "ringsided: %s\n", v->message);
}

static void detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO); /* until the log is open */
	}
	if (null > STDERR_FILENO)
		fd_close(&null);
	setsid();
	if (chdir("/") < 0)
		log_warn(NULL, NULL, "cannot leave the working directory: %s", strerror(errno));
}

static void tell_starter(const struct verdict *v, void *ctx)
{
	int *fd = ctx;

	fd_write_all(*fd, v, sizeof(*v));
	fd_close(fd);
}

static int hear_verdict(int fd)
{
	struct verdict v;
	ssize_t n;

	do
		n = read(fd, &v, sizeof(v));
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(v)) {
		fprintf(stderr, "ringsided: the daemon died at its start\n");
		return STATUS_FAILED;
	}
	tell_stderr(&v, NULL);
	return v.status;
}

/* No thread exists yet, so the child may do anything. */
static int serve_in_background(const struct arguments *a)
{
	static_assert(sizeof(struct verdict) <= 4096, "a verdict is one write to a pipe");
	int report[2];

	if (pipe2(report, O_CLOEXEC) < 0) {
		fprintf(stderr, "ringsided: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	pid_t pid = fork();
	if (pid < 0) {
		fprintf(stderr, "ringsided: cannot fork: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	if (pid == 0) {
		fd_close(&report[0]);
		detach();
		return serve(a, tell_starter, &report[1]);
	}
	fd_close(&report[1]);
	int status = hear_verdict(report[0]);
	fd_close(&report[0]);
	return status;
}

int main(int argc, char **argv)
{
	struct arguments a = { 0 };

	int status = parse(argc, argv, &a);
	if (status >= 0)
		return status;
	return a.foreground ? serve(&a, tell_stderr, NULL) : serve_in_background(&a);
}
