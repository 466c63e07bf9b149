/*
 * bench_echo.c - from a key that a client sends to the byte that comes back from the program, socket to socket.
 *
 * echo_p50, echo_p99            Ours against dtach: the same program that writes what it reads, raw terminals, one key
 *                               in flight, the next one as soon as the answer is there. Ours reads the byte from the
 *                               ring and says that it wants to be woken for more, as an attached client does.
 * echo_beside_flood_p50, _p99   The same while another console of the sandbox prints without end, against dtach alone;
 *                               with PAUSE_US between the keys on both sides, so that each finds the flood at full speed.
 * echo_syscalls                 System calls of the server per key, by strace -c, which only sees whom it may trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/ours.h"
#include "tests/bench/peers.h"
#include "tests/bench/programs.h"

#define BOX         "echo"
#define SAMPLES     41 /* short ones and many: where the processes stand on the processors changes from one to another */
#define KEYS        200 /* of one sample */
#define WARM        20
#define FLOODS      21
#define PAUSED_KEYS 60
#define PAUSE_US    2000
#define TRACED_KEYS 500
#define SECONDS     240

struct side {
	void (*key)(struct side *s); /* sends one and waits for its echo */
	struct ringside_console *c;
	uint64_t at;
	struct dtach *dtach;
};

/* ---- One key ---- */

static void our_key(struct side *s)
{
	struct ringside_span got;
	char buf[256];

	ours_key(s->c);
	for (;;) {
		if (ringside_console_read(s->c, s->at, buf, sizeof(buf), &got, NULL) != 0)
			bench_fail("the echo cannot be read");
		if (got.next_offset > s->at)
			break;
		if (ringside_console_arm(s->c, s->at))
			ringside_console_poll(s->c, 10000);
		if (!ringside_console_live(s->c))
			bench_fail("the console has gone");
	}
	s->at = got.next_offset;
}

static void dtach_key_and_back(struct side *s)
{
	struct pollfd p = { .fd = s->dtach->fd, .events = POLLIN };
	char buf[256];

	dtach_key(s->dtach);
	if (poll(&p, 1, 10000) != 1 || read(s->dtach->fd, buf, sizeof(buf)) <= 0)
		bench_fail("dtach has gone");
}

/* ---- Many ---- */

struct sample {
	double p50, p99; /* us */
};

static struct sample measure(struct side *s, unsigned keys, useconds_t pause)
{
	static double us[KEYS];
	struct sample r;

	for (int i = 0; i < WARM; i++)
		s->key(s);
	for (unsigned i = 0; i < keys; i++) {
		if (s->c) /* for the next one; no part of this one's way */
			ringside_console_arm(s->c, s->at);
		if (pause > 0)
			usleep(pause);
		uint64_t start = bench_now_ns();
		s->key(s);
		us[i] = (double)(bench_now_ns() - start) / 1000;
	}
	r.p50 = bench_median(us, keys); /* sorts them */
	r.p99 = us[keys * 99 / 100];
	return r;
}

static void pair_up(struct side *ours, struct side *peer, struct pairs *p50, struct pairs *p99)
{
	for (int i = 0; i < SAMPLES; i++) {
		struct sample a = measure(ours, KEYS, 0), b = measure(peer, KEYS, 0);

		pairs_add(p50, a.p50, b.p50);
		pairs_add(p99, a.p99, b.p99);
	}
	pairs_print(p50);
	pairs_print(p99);
}

static void against_dtach(struct side *ours, struct side *peer)
{
	struct pairs p50 = { .name = "echo_p50", .unit = "us", .digits = 1 };
	struct pairs p99 = { .name = "echo_p99", .unit = "us", .digits = 1 };

	pair_up(ours, peer, &p50, &p99);
}

static struct sample beside_one_flood(struct ours *o, struct side *ours, bool raw, double *mib_per_s)
{
	static unsigned next;
	char name[32];
	struct sample r;

	snprintf(name, sizeof(name), "flood-%u", next++);
	struct ringside_console *c = ours_open(o, BOX, name, program_flood(raw, 0));
	ours_await(c, 1);
	ours_key(c);
	ours_await(c, (uint64_t)1024 * 1024);
	uint64_t from = ringside_console_tail(c), start = bench_now_ns();
	r = measure(ours, PAUSED_KEYS, PAUSE_US);
	*mib_per_s =
	        (double)(ringside_console_tail(c) - from) / (1024 * 1024) / ((double)(bench_now_ns() - start) / 1e9);
	ours_close(o, BOX, name);
	ringside_console_close(c);
	return r;
}

/* No flood runs while dtach has its turn. */
static void beside_a_flood(struct ours *o, struct side *ours, struct side *peer, bool raw)
{
	const char *names[] = { "echo_beside_flood_p50", "echo_beside_flood_p99", "echo_beside_raw_flood_p50",
		"echo_beside_raw_flood_p99" };
	struct pairs p50 = { .name = names[raw ? 2 : 0], .unit = "us", .digits = 1 };
	struct pairs p99 = { .name = names[raw ? 3 : 1], .unit = "us", .digits = 1 };
	double speed[FLOODS];

	for (int i = 0; i < FLOODS; i++) {
		struct sample a = beside_one_flood(o, ours, raw, &speed[i]), b = measure(peer, PAUSED_KEYS, PAUSE_US);

		pairs_add(&p50, a.p50, b.p50);
		pairs_add(&p99, a.p99, b.p99);
	}
	pairs_print(&p50);
	pairs_print(&p99);
	printf("%s the flood meanwhile: %.1fMiB/s\n", p50.name, bench_median(speed, FLOODS));
}

/* ---- System calls ---- */

/* strace's last line: "100.00    0.012345           6      2000           total", with calls in the fourth column,
 * which an "errors" column may follow. */
static long total_calls(const char *path)
{
	char line[256];
	long calls, all = -1;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, " total") && sscanf(line, "%*s %*s %*s %ld", &calls) == 1)
			all = calls;
	if (f)
		fclose(f);
	return all;
}

/* Returns once it is attached, which strace says on its standard error. -1: it may not. */
static pid_t begin_tracing(pid_t server, const char *path)
{
	posix_spawn_file_actions_t files;
	char number[16], said[256] = "";
	const char *argv[] = { "strace", "-c", "-f", "-p", number, "-o", path, NULL };
	int ends[2], status;
	size_t have = 0;
	pid_t pid;
	ssize_t n;

	snprintf(number, sizeof(number), "%d", (int)server);
	if (pipe2(ends, O_CLOEXEC) < 0)
		bench_die("pipe2");
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[1], 2);
	if (posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, NULL) != 0)
		bench_die("strace");
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	while (have < sizeof(said) - 1 && !strstr(said, "attached") &&
	        (n = read(ends[0], said + have, sizeof(said) - 1 - have)) > 0)
		said[have += (size_t)n] = '\0';
	close(ends[0]);
	if (strstr(said, "attached"))
		return pid;
	waitpid(pid, &status, 0);
	return -1;
}

/* Calls per key; below 0: not to be had. */
static double calls_per_key(struct side *s, pid_t server)
{
	char path[] = "/tmp/ringside-bench-strace-XXXXXX";
	int fd = mkstemp(path), status;

	if (fd < 0)
		bench_die("mkstemp");
	close(fd);
	pid_t tracer = begin_tracing(server, path);
	if (tracer > 0) {
		for (int i = 0; i < TRACED_KEYS; i++) {
			s->key(s);
			if (s->c)
				ringside_console_arm(s->c, s->at);
		}
		kill(tracer, SIGINT);
		waitpid(tracer, &status, 0);
	}
	long calls = tracer > 0 ? total_calls(path) : -1;
	unlink(path);
	return calls < 0 ? -1 : (double)calls / TRACED_KEYS;
}

static void count_calls(struct ours *o, struct side *ours, struct side *peer)
{
	struct pairs calls = { .name = "echo_syscalls", .unit = "/key", .digits = 2 };

	if (!bench_program_exists("strace")) {
		puts("echo_syscalls not measured: no strace");
		return;
	}
	for (int i = 0; i < 3; i++) {
		double a = calls_per_key(ours, ours_consoled(o, BOX)), b = calls_per_key(peer, peer->dtach->pid);

		if (a < 0 || b < 0) {
			puts("echo_syscalls not measured: not allowed to trace");
			return;
		}
		pairs_add(&calls, a, b);
	}
	pairs_print(&calls);
}

int main(int argc, char **argv)
{
	struct dtach dtach;
	struct ours o;

	programs_run(argc, argv);
	if (!bench_program_exists("dtach")) {
		puts("echo not measured: no dtach");
		return 0;
	}
	bench_start(SECONDS);
	ours_begin(&o);
	ours_box(&o, BOX, 0);
	struct side ours = { .key = our_key, .c = ours_open(&o, BOX, "keys", program_echo()), .at = 1 };
	struct side peer = { .key = dtach_key_and_back, .dtach = &dtach };

	ours_await(ours.c, 1);
	dtach_spawn_ns(&dtach, program_echo());
	dtach_attach(&dtach);
	against_dtach(&ours, &peer);
	beside_a_flood(&o, &ours, &peer, false);
	beside_a_flood(&o, &ours, &peer, true);
	count_calls(&o, &ours, &peer);
	dtach_end(&dtach);
	ringside_console_close(ours.c);
	ours_end(&o);
	return 0;
}
