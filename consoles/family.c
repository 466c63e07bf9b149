/*
 * family.c - scans, the proof of descent, and the sweeps made of them; see family.h.
 *
 *   table   all processes that the last scan saw, by pid; each with a verdict: descends from here, or does not
 *   marks   descendants that a kill has already dealt with (stopped, killed), carried from scan to scan
 */
#include "consoles/family.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "consoles/procstat.h"
#include "wire/fd.h"

/* Generations between a process and this one that a proof follows. Who is deeper is left for later: what dies above it
 * brings it nearer, since orphans become our own children. */
#define CHAIN_MAX 4096

/* Scans of one stopping. A bomb that outruns them loses its parents to the SIGKILL that follows, and its rest to the
 * next round. */
#define STOP_SCANS 32

enum verdict { UNKNOWN, OURS, STRANGER };
enum { STOPPED = 1, KILLED = 2 };

struct member {
	int32_t pid, ppid, group;
	uint8_t verdict;
	uint8_t flags;
	bool dead, halted;
	uint64_t start;
};

struct mark {
	int32_t pid;
	uint8_t flags;
	uint64_t start;
};

static struct member table[FAMILY_MAX];
static unsigned count;
static struct mark marks[FAMILY_MAX];
static unsigned nmarks;

/* What a scan does with one of ours as soon as it knows that it is, which for most is when it reads it. */
typedef void sight(const struct family *f, struct member *m);

/* ---- One scan ---- */

static const struct mark *find_mark(int32_t pid)
{
	unsigned low = 0, high = nmarks;

	while (low < high) {
		unsigned mid = low + (high - low) / 2;
		if (marks[mid].pid == pid)
			return &marks[mid];
		if (marks[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static void load_mark(struct member *m)
{
	const struct mark *k = find_mark(m->pid);

	if (k && k->start == m->start)
		m->flags = k->flags;
}

static struct member *find_member(int32_t pid)
{
	unsigned low = 0, high = count;

	while (low < high) {
		unsigned mid = low + (high - low) / 2;
		if (table[mid].pid == pid)
			return &table[mid];
		if (table[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static bool child_counts(const struct family *f, pid_t pid, uint64_t start)
{
	return !f->counts || f->counts(pid, start, f->ctx);
}

/* What the parent's number alone tells; the rest is judged when all are in the table. */
static uint8_t judge_on_sight(const struct family *f, const struct procstat *s, pid_t self)
{
	if (s->ppid == self)
		return child_counts(f, s->pid, s->start) ? OURS : STRANGER;

	const struct member *parent = find_member(s->ppid);
	return parent && parent->verdict == OURS ? OURS : UNKNOWN;
}

static struct member *take_member(const struct family *f, const struct procstat *s, pid_t self)
{
	struct member *m = &table[count];

	*m = (struct member){
		.pid = s->pid,
		.ppid = s->ppid,
		.group = s->group,
		.verdict = s->pid == self ? STRANGER : judge_on_sight(f, s, self),
		.dead = procstat_dead(s),
		.halted = s->state == 'T' || s->state == 't',
		.start = s->start,
	};
	if (m->verdict == OURS)
		load_mark(m);
	count++;
	return m;
}

/* A dead child has no children: it is reaped and forgotten. Where the dead of a bomb stayed, scans would take longer
 * and longer, and its living would be further and further ahead of them. */
static bool bury(const struct family *f, const struct member *m, pid_t self)
{
	if (m->verdict != OURS || !m->dead || m->ppid != self || !f->bury)
		return false;
	f->bury(m->pid, f->ctx);
	return true;
}

/* False: not everything could be seen. */
static bool fill_table(const struct family *f, sight *on_sight)
{
	const pid_t self = getpid();
	struct procdir dir;
	struct procstat s;
	bool whole = true;
	pid_t pid;

	count = 0;
	if (procdir_open(&dir) < 0)
		return false;
	while ((pid = procdir_next(&dir)) > 0 && count < FAMILY_MAX) {
		/* The kernel lists them by number; the searches rely on it. */
		if (count > 0 && pid <= table[count - 1].pid)
			continue;
		int r = procstat_read(pid, &s);
		if (r < 0) {
			whole = whole && r == -ESRCH;
			continue;
		}
		struct member *m = take_member(f, &s, self);
		if (on_sight && m->verdict == OURS)
			on_sight(f, m);
		if (bury(f, m, self))
			count--;
	}
	procdir_close(&dir);
	return whole && pid == 0;
}

/* Follows the parents of m up to one whose verdict is known; then all on the way have the same. A scan is not one
 * moment, so the links may even make a circle: the steps are counted. */
static void judge(const struct family *f, struct member *m, pid_t self)
{
	uint8_t verdict = STRANGER;
	unsigned steps = 0;
	struct member *at = m;

	while (at && at->verdict == UNKNOWN && steps++ < count) {
		if (at->ppid == self) {
			verdict = child_counts(f, at->pid, at->start) ? OURS : STRANGER;
			break;
		}
		at = find_member(at->ppid);
	}
	if (at && at->verdict != UNKNOWN)
		verdict = at->verdict;

	for (at = m; at && at->verdict == UNKNOWN; at = at->ppid == self ? NULL : find_member(at->ppid))
		at->verdict = verdict;
}

/* Forgets those that are gone, and of the rest what is not in `keep`. */
static void save_marks(uint8_t keep)
{
	nmarks = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct member *m = &table[i];
		if (m->flags & keep)
			marks[nmarks++] = (struct mark){ m->pid, m->flags & keep, m->start };
	}
}

static bool scan(const struct family *f, sight *on_sight)
{
	const pid_t self = getpid();
	bool whole = fill_table(f, on_sight);

	for (unsigned i = 0; i < count; i++) {
		struct member *m = &table[i];
		if (m->verdict != UNKNOWN)
			continue;
		judge(f, m, self);
		if (m->verdict != OURS)
			continue;
		load_mark(m);
		if (on_sight)
			on_sight(f, m);
	}
	return whole;
}

static bool is_target(const struct member *m, pid_t group)
{
	return m->verdict == OURS && !m->dead && (group == 0 || m->group == group);
}

/* ---- The proof that one process descends from here ---- */

/* How often a chain is read again that changed while it was read: its middle is dying, often of our own signal. */
#define CHAIN_ATTEMPTS 8

enum descent { DESCENDS, DOES_NOT, CHANGED };

/*
 * Reads the chain of parents upwards to this process, then again downwards. A number can be reused between two reads of
 * the way up; but where the second reading shows the same parent, that parent has lived all the time in between (a
 * process never returns to a parent that it lost, and a new process is nobody's older ancestor), so the links that were
 * read in that time were its own. A direct child needs one reading: its number is taken until we reap it.
 */
static enum descent read_chain(const struct family *f, pid_t pid)
{
	static struct link {
		int32_t pid, ppid;
	} chain[CHAIN_MAX];
	const pid_t self = getpid();
	struct procstat s;
	unsigned n = 0;

	for (pid_t at = pid;; at = s.ppid) {
		if (procstat_read(at, &s) < 0)
			return at == pid ? DOES_NOT : CHANGED;
		if (s.ppid == self)
			break;
		if (n == CHAIN_MAX || s.ppid == 0)
			return DOES_NOT;
		chain[n++] = (struct link){ at, s.ppid };
	}
	if (!child_counts(f, s.pid, s.start))
		return DOES_NOT;

	while (n-- > 0) {
		if (procstat_read(chain[n].pid, &s) < 0 || s.ppid != chain[n].ppid)
			return CHANGED;
	}
	return DESCENDS;
}

static bool descends(const struct family *f, pid_t pid)
{
	enum descent d = CHANGED;

	for (int n = 0; n < CHAIN_ATTEMPTS && d == CHANGED; n++)
		d = read_chain(f, pid);
	return d == DESCENDS;
}

static int open_process(pid_t pid)
{
	long fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : (int)fd;
}

static int send_signal(int pidfd, pid_t pid, int sig)
{
	/* Kernels before 5.3, gVisor, and seccomp lists that do not know pidfds: the number alone, just checked. */
	long r = pidfd >= 0 ? syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) : kill(pid, sig);

	return r < 0 ? -errno : 0;
}

/* 0; -ESRCH: it is gone, or not ours (any more); -EPERM: another user's. */
static int signal_member(const struct family *f, const struct member *m, int sig, bool cont)
{
	int fd = open_process(m->pid);
	int r;

	if (fd == -ENOSYS || fd == -EPERM)
		fd = -1;
	else if (fd < 0)
		return fd;
	r = descends(f, m->pid) ? send_signal(fd, m->pid, sig) : -ESRCH;
	if (r == 0 && cont)
		send_signal(fd, m->pid, SIGCONT);
	fd_close(&fd);
	return r;
}

/* The same for one that was read this moment: a child's number is its own until we reap it, and since the reading
 * nobody was reaped. */
static int signal_on_sight(const struct family *f, const struct member *m, int sig)
{
	if (m->ppid == getpid())
		return send_signal(-1, m->pid, sig);
	return signal_member(f, m, sig, false);
}

/* ---- The sweeps ---- */

static void name_process(struct family_result *out, const struct member *m)
{
	struct procstat s;

	if (out->nprocs == KEEPER_MAX_PROCS || procstat_read(m->pid, &s) < 0 || s.start != m->start)
		return;
	struct keeper_proc *p = &out->procs[out->nprocs++];
	p->pid = m->pid;
	memcpy(p->comm, s.comm, sizeof(p->comm));
}

void family_list(const struct family *f, struct family_result *out)
{
	*out = (struct family_result){ .partial = !scan(f, NULL) };
	for (unsigned i = 0; i < count; i++) {
		if (!is_target(&table[i], 0))
			continue;
		out->got++;
		name_process(out, &table[i]);
	}
}

void family_signal(const struct family *f, int sig, bool cont, pid_t group, struct family_result *out)
{
	*out = (struct family_result){ .partial = !scan(f, NULL) };
	for (unsigned i = 0; i < count; i++) {
		if (!is_target(&table[i], group))
			continue;
		/* Named first: the signal may be the end of it. */
		name_process(out, &table[i]);
		if (signal_member(f, &table[i], sig, cont) == 0)
			out->got++;
	}
}

/* Groups that the current scan has told to stop. */
#define GROUPS_MAX 64
static struct {
	pid_t group[GROUPS_MAX];
	unsigned n;
} stopped_groups;

static bool is_new_group(pid_t group)
{
	for (unsigned i = 0; i < stopped_groups.n; i++) {
		if (stopped_groups.group[i] == group)
			return false;
	}
	if (stopped_groups.n < GROUPS_MAX)
		stopped_groups.group[stopped_groups.n++] = group;
	return true;
}

/*
 * The group of a child, all of it in one step that no fork gets past: the kernel restarts a fork that a signal meets.
 * As safe as the child's number: a group's is taken until its last member is reaped, dead or not, and a session made
 * below this process has members from below it alone. Only the group of this process is not of such a session.
 */
static void stop_group(const struct member *child)
{
	if (child->group > 1 && child->group != getpgrp() && is_new_group(child->group))
		kill(-child->group, SIGSTOP);
}

static unsigned stopped;

/* Told to stop as soon as it is seen: a process that lives for one fork is gone a moment later, but the kernel gives
 * its child a higher number, which this very scan comes to. */
static void stop_on_sight(const struct family *f, struct member *m)
{
	if (m->ppid == getpid())
		stop_group(m);
	if (m->dead || m->halted || (m->flags & STOPPED) || signal_on_sight(f, m, SIGSTOP) != 0)
		return;
	m->flags |= STOPPED;
	stopped++;
}

static void stop_all(const struct family *f)
{
	for (unsigned n = 0; n < STOP_SCANS; n++) {
		stopped = stopped_groups.n = 0;
		scan(f, stop_on_sight);
		save_marks(STOPPED | KILLED);
		if (stopped == 0)
			return;
	}
}

/* Of the killing that is under way. */
static struct family_result *killed;

static void kill_on_sight(const struct family *f, struct member *m)
{
	if (m->dead)
		return;
	name_process(killed, m);
	if (signal_on_sight(f, m, SIGKILL) != 0)
		return;
	if (!(m->flags & KILLED))
		killed->got++;
	m->flags |= KILLED;
}

void family_kill(const struct family *f, struct family_result *out)
{
	stop_all(f);

	*out = (struct family_result){ 0 };
	killed = out;
	out->partial = !scan(f, kill_on_sight);
	/* Who was stopped and runs in the next round was continued by somebody: it is stopped again then. */
	save_marks(KILLED);
}
