/*
 * scenarios.h - programs that are hard to end, for whoever proves that they were.
 *
 * A test program runs itself again as `PROGRAM --scenario NAME`: scenario_main() is the first call of its main(). Each
 * scenario builds what it is named for, writes one byte to standard output, and goes on until it is killed, unless its
 * line in the table says that it leaves by itself.
 */
#ifndef TESTS_SUPPORT_SCENARIOS_H
#define TESTS_SUPPORT_SCENARIOS_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Live processes of the bombs. Hundreds are enough to outrun a killer that does not stop them first. */
#define BOMB_RUNNERS 48
#define BOMB_TREE    200
#define CHAIN_DEPTH  60
#define BROOD        30

static void scenario_ready(void)
{
	if (write(STDOUT_FILENO, "r", 1) != 1)
		_exit(3);
}

static _Noreturn void pause_forever(void)
{
	for (;;)
		pause();
}

static void ignore_signals(void)
{
	for (int sig = 1; sig < NSIG; sig++) {
		if (sig != SIGCHLD)
			signal(sig, SIG_IGN);
	}
}

static void leave_at_once(void)
{
	_exit(7);
}

static void sleep_quietly(void)
{
	scenario_ready();
	pause_forever();
}

static void ignore_everything(void)
{
	ignore_signals();
	if (fork() == 0)
		pause_forever();
	scenario_ready();
	pause_forever();
}

/* The classic daemon, three of them, each deaf, in sessions of their own. */
static void start_escapees(void)
{
	ignore_signals();
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			setsid();
			if (fork() == 0)
				pause_forever();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

static void escape_and_stay(void)
{
	start_escapees();
	scenario_ready();
	pause_forever();
}

static void escape_and_leave(void)
{
	start_escapees();
	scenario_ready();
	_exit(0);
}

/* The parent stands in vfork(2), uninterruptible, as long as its child has not exec'ed. */
static void stand_in_vfork(void)
{
	ignore_signals();
	scenario_ready();
	if (vfork() == 0)
		pause_forever();
	pause_forever();
}

static void stop_children(void)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			raise(SIGSTOP);
			pause_forever();
		}
		waitpid(pid, NULL, WUNTRACED);
	}
	scenario_ready();
	raise(SIGSTOP);
	pause_forever();
}

/* Children that hear, in sessions of their own: nothing but a signal to each ends them. */
static void raise_a_brood(void)
{
	int born[2];
	char byte;

	if (pipe(born) < 0)
		_exit(3);
	for (int i = 0; i < BROOD; i++) {
		if (fork() == 0) {
			setsid();
			if (write(born[1], "b", 1) != 1)
				_exit(3);
			pause_forever();
		}
	}
	for (int i = 0; i < BROOD; i++) {
		if (read(born[0], &byte, 1) != 1)
			_exit(3);
	}
	scenario_ready();
	pause_forever();
}

static void fork_deeply(void)
{
	ignore_signals();
	for (int depth = 0; depth < CHAIN_DEPTH; depth++) {
		if (fork() != 0)
			pause_forever();
	}
	scenario_ready();
	pause_forever();
}

/* Siblings by CLONE_PARENT: children of the keeper that it never forked. */
static void clone_siblings(void)
{
	ignore_signals();
	for (int i = 0; i < 3; i++) {
		if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0)
			pause_forever();
	}
	scenario_ready();
	pause_forever();
}

static void *live_on(void *arg)
{
	(void)arg;
	scenario_ready();
	pause_forever();
}

/* /proc shows it as a zombie, and it runs. */
static void leave_the_first_thread(void)
{
	pthread_t thread;

	ignore_signals();
	if (pthread_create(&thread, NULL, live_on, NULL) != 0)
		_exit(3);
	pthread_exit(NULL);
}

/* A subreaper of its own, that does not reap. */
static void keep_orphans(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	start_escapees();
	for (int i = 0; i < 5; i++) {
		if (fork() == 0)
			_exit(0);
	}
	scenario_ready();
	pause_forever();
}

/* A pid namespace with an init that is deaf, where this user may make one. */
static void nest_a_namespace(void)
{
	ignore_signals();
	if (unshare(CLONE_NEWPID) == 0 && fork() == 0) {
		start_escapees();
		pause_forever();
	}
	scenario_ready();
	pause_forever();
}

/* Wakes whoever is stopped, as fast as it can. */
static void continue_each_other(void)
{
	enum { PEERS = 8 };
	_Atomic pid_t *pids =
	        mmap(NULL, PEERS * sizeof(*pids), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ignore_signals();
	for (int i = 0; i < PEERS; i++) {
		if (fork() != 0)
			continue;
		/* Written by itself, so that no number is signalled before its process is there; all of them live
		 * until they are killed together. */
		pids[i] = getpid();
		for (int k = 0;; k = (k + 1) % PEERS) {
			pid_t pid = pids[k];
			if (pid > 0 && getpgid(pid) == getpgid(0))
				kill(pid, SIGCONT);
		}
	}
	scenario_ready();
	pause_forever();
}

/* Each lives for one fork: no number is there twice. */
static void run_away(void)
{
	ignore_signals();
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < BOMB_RUNNERS; i++) {
		if (fork() != 0)
			continue;
		for (;;) {
			if (fork() > 0)
				_exit(0);
		}
	}
	scenario_ready();
	pause_forever();
}

/* The same, each in a session of its own: no signal reaches two of them. */
static void run_away_alone(void)
{
	ignore_signals();
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < BOMB_RUNNERS; i++) {
		if (fork() != 0)
			continue;
		for (;;) {
			if (fork() > 0)
				_exit(0);
			setsid();
		}
	}
	scenario_ready();
	pause_forever();
}

/* A tree that grows back as long as one of it lives. `live` never is below what lives: who is killed stays counted. */
static void grow_a_tree(void)
{
	atomic_int *live = mmap(NULL, sizeof(*live), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned turn = 0;

	ignore_signals();
	signal(SIGCHLD, SIG_IGN);
	atomic_store(live, 1);
	scenario_ready();
	for (;;) {
		if (atomic_fetch_add(live, 1) < BOMB_TREE) {
			pid_t pid = fork();
			if (pid == 0)
				turn = (unsigned)getpid();
			else if (pid < 0)
				atomic_fetch_sub(live, 1);
			continue;
		}
		atomic_fetch_sub(live, 1);
		if (++turn % 16 == 0) {
			atomic_fetch_sub(live, 1);
			_exit(0);
		}
		sched_yield();
	}
}

struct scenario {
	const char *name;
	void (*run)(void);
	bool leaves; /* the program itself ends, with 0 or 7 */
	bool deaf;   /* only SIGKILL ends all of it */
};

static const struct scenario scenarios[] = {
	{ "leave-at-once", leave_at_once, .leaves = true },
	{ "sleep", .run = sleep_quietly },
	{ "ignore", ignore_everything, .deaf = true },
	{ "escape", escape_and_stay, .deaf = true },
	{ "escape-and-leave", escape_and_leave, .leaves = true, .deaf = true },
	{ "vfork", stand_in_vfork, .deaf = true },
	{ "stopped", .run = stop_children },
	{ "brood", .run = raise_a_brood },
	{ "deep", fork_deeply, .deaf = true },
	{ "siblings", clone_siblings, .deaf = true },
	{ "first-thread", leave_the_first_thread, .deaf = true },
	{ "orphanage", keep_orphans, .deaf = true },
	{ "namespace", nest_a_namespace, .deaf = true },
	{ "continue", continue_each_other, .deaf = true },
	{ "runaway", run_away, .deaf = true },
	{ "runaway-alone", run_away_alone, .deaf = true },
	{ "tree", grow_a_tree, .deaf = true },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

static inline const struct scenario *scenario_find(const char *name)
{
	for (size_t i = 0; i < SCENARIOS; i++) {
		if (strcmp(scenarios[i].name, name) == 0)
			return &scenarios[i];
	}
	return NULL;
}

/* Returns when the program was not started as a scenario. */
static inline void scenario_main(int argc, char **argv)
{
	const struct scenario *s = argc == 3 && strcmp(argv[1], "--scenario") == 0 ? scenario_find(argv[2]) : NULL;

	if (!s)
		return;
	s->run();
	_exit(3);
}

#endif
