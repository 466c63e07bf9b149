/* checks_host.c - what this kernel and this user's limits allow. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/checks.h"
#include "wire/fd.h"
#include "wire/text.h"

/* Fewer left than this is worth a word: consoles take one terminal each, and about three descriptors. */
#define FEW_TERMINALS   64
#define FEW_DESCRIPTORS 4096

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* A number from a file of /proc; -1: there is none. */
static long long number_in(const char *path)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	fd_close(&fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	text[strcspn(text, " \n")] = '\0';
	uint64_t v;
	return text_parse_u64(text, INT64_MAX, &v) ? (long long)v : -1;
}

static void check_terminals(struct finding *f)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		finding_set(f, CHECK_FAIL,
		        errno == ENOSPC ? "raise kernel.pty.max" : "mount devpts on /dev/pts, with /dev/ptmx",
		        "no terminal can be opened: %s", strerrordesc_np(errno));
		return;
	}
	fd_close(&fd);
	long long max = number_in("/proc/sys/kernel/pty/max"), used = number_in("/proc/sys/kernel/pty/nr");
	if (max < 0 || used < 0)
		finding_set(f, CHECK_OK, "", "a terminal can be opened; how many more is not known");
	else if (max - used < FEW_TERMINALS)
		finding_set(f, CHECK_WARN, "raise kernel.pty.max", "%lld of %lld terminals are in use", used, max);
	else
		finding_set(f, CHECK_OK, "", "%lld of %lld terminals are in use", used, max);
}

static void check_descriptors(struct finding *f)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0) {
		finding_set(f, CHECK_WARN, "", "the limit is not known: %s", strerrordesc_np(errno));
		return;
	}
	enum check_verdict v = r.rlim_max < FEW_DESCRIPTORS ? CHECK_WARN : CHECK_OK;
	finding_set(f, v, v == CHECK_OK ? "" : "raise the hard limit (ulimit -Hn, limits.conf, LimitNOFILE)",
	        "%llu open files, %llu at most", (unsigned long long)r.rlim_cur, (unsigned long long)r.rlim_max);
}

static void check_seals(struct finding *f)
{
	const char *remedy = "a kernel of 5.1 or newer is needed (memfd_create, F_SEAL_FUTURE_WRITE)";
	int fd = memfd_create("doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		finding_set(f, CHECK_FAIL, remedy, "no memory can be shared: %s", strerrordesc_np(errno));
		return;
	}
	int r = ftruncate(fd, 4096);
	if (r == 0)
		r = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
	int e = errno;
	fd_close(&fd);
	if (r < 0)
		finding_set(f, CHECK_FAIL, remedy, "memory cannot be sealed: %s", strerrordesc_np(e));
	else
		finding_set(f, CHECK_OK, "", "memory can be shared and sealed");
}

static void check_subreaper(struct finding *f)
{
	int on;
	if (prctl(PR_GET_CHILD_SUBREAPER, &on, 0, 0, 0) < 0)
		finding_set(f, CHECK_FAIL, "a kernel of 3.4 or newer is needed", "PR_SET_CHILD_SUBREAPER: %s",
		        strerrordesc_np(errno));
	else
		finding_set(f, CHECK_OK, "", "what a program leaves behind can be kept track of");
}

static void check_pidfd(struct finding *f)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	long r = fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0);
	int e = errno;
	fd_close(&fd);
	if (r < 0)
		finding_set(f, CHECK_FAIL,
		        "a kernel of 5.3 or newer is needed, and a seccomp profile that lets pidfd_open through",
		        "processes cannot be held by descriptor: %s", strerrordesc_np(e));
	else
		finding_set(f, CHECK_OK, "", "processes can be held by descriptor");
}

static void check_user_namespaces(struct finding *f)
{
	long long most = number_in("/proc/sys/user/max_user_namespaces");
	long long allowed = number_in("/proc/sys/kernel/unprivileged_userns_clone"); /* Debian's; absent elsewhere */
	long long restricted = number_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
	if (most == 0 || (geteuid() != 0 && (allowed == 0 || restricted == 1)))
		finding_set(f, CHECK_WARN, "isolated sandboxes on this machine need them; sandboxes on the host do not",
		        "this user cannot make user namespaces");
	else
		finding_set(f, CHECK_OK, "", "user namespaces can be made");
}

static void check_bubblewrap(struct finding *f)
{
	const char *list = getenv("PATH");
	char path[4096];
	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ":");
		if (n < sizeof(path) - sizeof("/bwrap")) {
			memcpy(path, p, n);
			strcpy(path + n, "/bwrap");
			if (access(path, X_OK) == 0) {
				finding_set(f, CHECK_OK, "", "%s", path);
				return;
			}
		}
		p += n + (p[n] == ':');
	}
	finding_set(f, CHECK_WARN,
	        "install bubblewrap for isolated sandboxes on this machine; sandboxes on the host do not need it",
	        "no bwrap in PATH");
}

const struct check checks_host[] = {
	{ "terminals", check_terminals },
	{ "open_files", check_descriptors },
	{ "shared_memory", check_seals },
	{ "subreaper", check_subreaper },
	{ "pidfd", check_pidfd },
	{ "user_namespaces", check_user_namespaces },
	{ "bubblewrap", check_bubblewrap },
};
const size_t checks_host_count = sizeof(checks_host) / sizeof(checks_host[0]);
