/*
 * reaper.c - one SIGCHLD for all children; see reaper.h.
 *
 * SIGCHLD merges, so each one is taken as "some may be dead". A child is looked at before it is reaped (WNOWAIT): its
 * number stays taken until its owner's entry has been found and taken out of the list.
 */
#include "consoles/reaper.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* Per turn of the loop: a PID 1 over which a bomb's orphans rain still serves its connections. */
#define REAPED_PER_TURN 256

static uv_signal_t sigchld;
static uv_timer_t again;
static struct reaper_child *children;

static struct reaper_child *take_child(pid_t pid)
{
	for (struct reaper_child **at = &children; *at; at = &(*at)->next) {
		struct reaper_child *c = *at;
		if (c->pid != pid)
			continue;
		*at = c->next;
		c->next = NULL;
		return c;
	}
	return NULL;
}

/* False: nobody is dead. */
static bool reap_one(void)
{
	siginfo_t dead = { 0 };
	int status = 0;

	while (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0) {
		if (errno != EINTR)
			return false;
	}
	if (dead.si_pid == 0)
		return false;

	struct reaper_child *c = take_child(dead.si_pid);
	while (waitpid(dead.si_pid, &status, WNOHANG | __WALL) < 0 && errno == EINTR)
		;
	if (c)
		c->on_reaped(c, status);
	return true;
}

static void on_again(uv_timer_t *handle);

static void reap_some(void)
{
	unsigned n = 0;

	while (n < REAPED_PER_TURN && reap_one())
		n++;
	if (n == REAPED_PER_TURN)
		uv_timer_start(&again, on_again, 0, 0);
}

static void on_again(uv_timer_t *handle)
{
	(void)handle;
	reap_some();
}

static void on_sigchld(uv_signal_t *handle, int signum)
{
	(void)handle;
	(void)signum;
	reap_some();
}

int reaper_setup(uv_loop_t *loop)
{
	int r = uv_signal_init(loop, &sigchld);
	if (r < 0)
		return r;
	r = uv_timer_init(loop, &again);
	if (r < 0)
		return r;
	r = uv_signal_start(&sigchld, on_sigchld, SIGCHLD);
	if (r < 0)
		return r;
	/* Neither keeps a loop alive that has nothing else to do. */
	uv_unref((uv_handle_t *)&sigchld);
	uv_unref((uv_handle_t *)&again);
	/* What died before the handler stood has sent its signal already. */
	reap_some();
	return 0;
}

void reaper_add(struct reaper_child *c)
{
	c->next = children;
	children = c;
}

bool reaper_knows(pid_t pid)
{
	for (const struct reaper_child *c = children; c; c = c->next) {
		if (c->pid == pid)
			return true;
	}
	return false;
}
