/* ours.c - libringside, with every failure fatal. */
#include "tests/bench/ours.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define CALL_MS 60000

static void check(int code, const struct ringside_error *err, const char *what)
{
	if (code != 0)
		bench_fail("%s: %s: %s", what, err->name, err->message);
}

/* ---- The home ---- */

static void find_programs(struct ours *o)
{
	const char *given = getenv("RINGSIDE_BIN");
	char self[PATH_MAX], daemon[PATH_MAX + 16];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		bench_die("/proc/self/exe");
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	if (given)
		snprintf(o->bin, sizeof(o->bin), "%s", given);
	else if (snprintf(o->bin, sizeof(o->bin), "%s/../../bin", self) >= (int)sizeof(o->bin))
		bench_fail("the path of this program is too long");
	if (snprintf(daemon, sizeof(daemon), "%s/ringsided", o->bin) >= (int)sizeof(daemon) || access(daemon, X_OK) < 0)
		bench_fail("no ringsided in %s", o->bin);
	setenv("RINGSIDE_DAEMON", daemon, 1);
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *at)
{
	(void)st;
	(void)what;
	(void)at;
	return remove(path);
}

static char home_to_remove[sizeof(((struct ours *)NULL)->home)];

static void remove_home(void)
{
	nftw(home_to_remove, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void ours_begin(struct ours *o)
{
	struct ringside_error err;

	*o = (struct ours){ .home = "/tmp/ringside-bench-XXXXXX" };
	find_programs(o);
	if (!mkdtemp(o->home))
		bench_die("mkdtemp");
	memcpy(home_to_remove, o->home, sizeof(o->home));
	atexit(remove_home); /* also when the benchmark fails */
	setenv("RINGSIDE_HOME", o->home, 1);
	check(ringside_open(NULL, &o->rs, &err), &err, "ringsided");
	ringside_set_timeout(o->rs, CALL_MS);
}

void ours_end(struct ours *o)
{
	struct ringside_error err;

	check(ringside_down(o->rs, true, &err), &err, "down");
	ringside_close(o->rs);
}

/* ---- Sandboxes ---- */

void ours_box(struct ours *o, const char *box, uint32_t console_limit)
{
	const struct ringside_create spec = { .name = box, .provider = "host", .console_limit = console_limit };
	struct ringside_sandbox *made;
	struct ringside_error err;

	check(ringside_create(o->rs, &spec, &made, &err), &err, "create");
	ringside_free(made);
}

pid_t ours_consoled(struct ours *o, const char *box)
{
	struct ringside_sandbox *s;
	struct ringside_error err;

	check(ringside_show(o->rs, box, &s, &err), &err, "show");
	pid_t pid = (pid_t)s->consoled_pid;
	ringside_free(s);
	return pid;
}

static struct ringside_status *status_of(struct ours *o)
{
	struct ringside_status *s;
	struct ringside_error err;

	check(ringside_status(o->rs, &s, &err), &err, "status");
	return s;
}

pid_t ours_ringsided(struct ours *o)
{
	struct ringside_status *s = status_of(o);
	pid_t pid = (pid_t)s->pid;

	ringside_free(s);
	return pid;
}

unsigned ours_running(struct ours *o)
{
	struct ringside_status *s = status_of(o);
	unsigned n = s->consoles;

	ringside_free(s);
	return n;
}

/* ---- Consoles ---- */

pid_t ours_start(struct ours *o, const char *box, const char *name, const char *const *argv)
{
	const struct ringside_start spec = { .argv = argv, .no_observe = true };
	struct ringside_started *started;
	struct ringside_error err;

	check(ringside_start(o->rs, box, name, &spec, &started, &err), &err, "start");
	pid_t pid = (pid_t)started->console.pid;
	ringside_free(started);
	return pid;
}

struct ringside_console *ours_open(struct ours *o, const char *box, const char *name, const char *const *argv)
{
	struct ringside_console *c;
	struct ringside_error err;

	ours_start(o, box, name, argv);
	check(ringside_console_open(o->rs, box, name, RINGSIDE_WRITE | RINGSIDE_RESIZE | RINGSIDE_ATTACH, &c, &err),
	        &err, "open");
	return c;
}

void ours_close(struct ours *o, const char *box, const char *name)
{
	struct ringside_closed *closed;
	struct ringside_error err;

	check(ringside_console_end(o->rs, box, name, 0, &closed, &err), &err, "close");
	ringside_free(closed);
}

void ours_await(struct ringside_console *c, uint64_t offset)
{
	uint64_t since = 0, tail;

	while ((tail = ringside_console_tail(c)) < offset) {
		if (ringside_console_arm(c, tail))
			ringside_console_poll(c, 1000);
		if (!ringside_console_live(c) || !bench_wait(&since, 0))
			bench_fail("a console's output stopped at %llu of %llu", (unsigned long long)tail,
			        (unsigned long long)offset);
	}
}

void ours_key(struct ringside_console *c)
{
	if (ringside_console_input(c, "k", 1) != 1)
		bench_fail("a console takes no key");
}
