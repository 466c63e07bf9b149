/*
 * bench_memory.c - what one more idle console costs in memory, against one more pane of tmux.
 *
 * memory_idle   PSS (smaps_rollup) of everything of ours, which is the console daemon, the keepers and the control
 *               daemon, without the pages of rings that are touched; against the tmux server's. The program is the same
 *               on both sides and counted on neither. A sample is the growth by STEP consoles and by STEP panes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/ours.h"
#include "tests/bench/peers.h"
#include "tests/bench/programs.h"
#include "tests/support/guard.h"

#define BOX     "memory"
#define STEP    8
#define GROWN   (PAIRS * STEP)
#define SECONDS 120

#define MAX_PROCESSES 4096

static const char *const PROGRAM[] = { "/bin/sleep", "1000000", NULL };

/* ---- Ours ---- */

/* Keepers are known by their parent: the console daemon. */
static double ours_kib(pid_t ringsided, pid_t consoled, double *keepers)
{
	static pid_t pids[MAX_PROCESSES];
	size_t n = guard_descendants(pids, MAX_PROCESSES);
	double keeper_kib = 0;

	for (size_t i = 0; i < n; i++)
		if (process_parent(pids[i]) == consoled)
			keeper_kib += bench_pss_kib(pids[i]);
	*keepers = keeper_kib;
	return keeper_kib + bench_pss_kib(ringsided) + bench_pss_kib(consoled) - bench_ring_pss_kib(ringsided) -
	       bench_ring_pss_kib(consoled);
}

static void start_some(struct ours *o)
{
	static unsigned next;
	char name[32];

	for (int i = 0; i < STEP; i++) {
		snprintf(name, sizeof(name), "m%u", next++);
		ours_start(o, BOX, name, PROGRAM);
	}
}

/* ---- tmux ---- */

static char tmux_socket[64];

/* `tmux -S SOCKET -f /dev/null ARG…`: neither the user's server nor his settings. */
static void tmux(const char *const *args)
{
	const char *argv[16] = { "tmux", "-S", tmux_socket, "-f", "/dev/null" };
	size_t n = 5;

	while (*args && n < 15)
		argv[n++] = *args++;
	peer_run(argv);
}

static void tmux_panes(int n)
{
	for (int i = 0; i < n; i++)
		tmux((const char *[]){ "new-window", "-d", "exec sleep 1000000", NULL });
}

static pid_t tmux_server(void)
{
	char line[256];
	static pid_t pids[MAX_PROCESSES];
	size_t n = guard_descendants(pids, MAX_PROCESSES);

	for (size_t i = 0; i < n; i++)
		if (strncmp(process_line(pids[i], line, sizeof(line)), "tmux ", 5) == 0)
			return pids[i];
	bench_fail("the tmux server is not there");
}

int main(int argc, char **argv)
{
	struct pairs memory = { .name = "memory_idle", .unit = "KiB", .digits = 1 };
	double keepers, first_keepers;
	char dir[] = "/tmp/ringside-bench-tmux-XXXXXX";
	struct ours o;

	programs_run(argc, argv);
	if (!bench_program_exists("tmux")) {
		puts("memory_idle not measured: no tmux");
		return 0;
	}
	bench_start(SECONDS);
	ours_begin(&o);
	ours_box(&o, BOX, 250);
	pid_t consoled = ours_consoled(&o, BOX), ringsided = ours_ringsided(&o);
	if (!mkdtemp(dir))
		bench_die("mkdtemp");
	snprintf(tmux_socket, sizeof(tmux_socket), "%s/s", dir);
	unsetenv("TMUX");
	tmux((const char *[]){ "new-session", "-d", "-x", "80", "-y", "24", "exec sleep 1000000", NULL });
	pid_t server = tmux_server();

	start_some(&o); /* the first ones pay for what all share */
	tmux_panes(STEP);
	double ours = ours_kib(ringsided, consoled, &first_keepers), peer = bench_pss_kib(server);
	const double ours_first = ours, peer_first = peer;
	for (int i = 0; i < PAIRS; i++) {
		start_some(&o);
		double ours_now = ours_kib(ringsided, consoled, &keepers);
		tmux_panes(STEP);
		double peer_now = bench_pss_kib(server);

		pairs_add(&memory, (ours_now - ours) / STEP, (peer_now - peer) / STEP);
		ours = ours_now;
		peer = peer_now;
	}
	pairs_print(&memory);
	printf("memory_idle_mean ours=%.1fKiB (keeper %.1fKiB) peer=%.1fKiB ratio=%.2f\n", (ours - ours_first) / GROWN,
	        (keepers - first_keepers) / GROWN, (peer - peer_first) / GROWN,
	        (ours - ours_first) / (peer - peer_first));
	tmux((const char *[]){ "kill-server", NULL });
	for (uint64_t since = 0; process_alive(server) && bench_wait(&since, 1);)
		;
	unlink(tmux_socket);
	rmdir(dir);
	ours_end(&o);
	return 0;
}
