/* checks_own.c - Ringside's own programs, folders and daemon. Starts nothing and makes nothing. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/checks.h"
#include "client/ringside.h"
#include "wire/fd.h"
#include "wire/paths.h"

/* Of the state directory: scrollback is kept there, and workspaces that have no directory of their own. */
#define LITTLE_SPACE ((uint64_t)1024 * 1024 * 1024)
#define NO_SPACE     ((uint64_t)64 * 1024 * 1024)

/* ---- Folders ---- */

static void check_dir(struct finding *f, const char *dir)
{
	struct stat st;
	if (lstat(dir, &st) < 0 && errno == ENOENT)
		finding_set(f, CHECK_OK, "", "%.400s is made when it is needed", dir);
	else if (lstat(dir, &st) < 0)
		finding_set(f, CHECK_FAIL, "make its parent accessible, or set RINGSIDE_HOME", "%.400s: %s", dir,
		        strerrordesc_np(errno));
	else if (!S_ISDIR(st.st_mode))
		finding_set(f, CHECK_FAIL, "move it away, or set RINGSIDE_HOME", "%.400s is not a directory", dir);
	else if (st.st_uid != geteuid())
		finding_set(f, CHECK_FAIL, "set RINGSIDE_HOME or XDG_RUNTIME_DIR to a directory of yours",
		        "%.400s is another user's", dir);
	else if (st.st_mode & 022)
		finding_set(f, CHECK_FAIL, "chmod 0700 it", "%.400s can be written by others", dir);
	else
		finding_set(f, CHECK_OK, "", "%.400s", dir);
}

static bool find_paths(struct finding *f, struct paths *paths)
{
	int r = paths_find(paths);
	if (r == 0)
		return true;
	finding_set(f, CHECK_FAIL, "set RINGSIDE_HOME, or HOME and XDG_RUNTIME_DIR, to absolute paths",
	        "cannot tell where Ringside's directories are: %s", strerrordesc_np(-r));
	return false;
}

static void check_runtime_dir(struct finding *f)
{
	struct paths paths;
	if (find_paths(f, &paths))
		check_dir(f, paths.runtime_dir);
}

static void check_state_dir(struct finding *f)
{
	struct paths paths;
	if (find_paths(f, &paths))
		check_dir(f, paths.state_dir);
}

/* Of the nearest folder above that exists. */
static void check_space(struct finding *f)
{
	struct paths paths;
	struct statvfs st;
	if (!find_paths(f, &paths))
		return;
	while (statvfs(paths.state_dir, &st) < 0) {
		char *slash = strrchr(paths.state_dir, '/');
		if (!slash || slash == paths.state_dir) {
			finding_set(f, CHECK_WARN, "", "the space of the state directory is not known: %s",
			        strerrordesc_np(errno));
			return;
		}
		*slash = '\0';
	}
	uint64_t free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	enum check_verdict v = free_bytes < NO_SPACE ? CHECK_FAIL : free_bytes < LITTLE_SPACE ? CHECK_WARN : CHECK_OK;
	finding_set(f, v, v == CHECK_OK ? "" : "make room, or set RINGSIDE_HOME to a larger disk",
	        "%llu MiB are free for the state", (unsigned long long)(free_bytes / (1024 * 1024)));
}

/* ---- Programs ---- */

/* Where programs are installed: beside this one, or in libexec. */
static bool find_program(const char *name, char *out, size_t size)
{
	static const char *const places[] = { "", "../libexec/ringside/" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return false;
	self[n] = '\0';
	char *slash = strrchr(self, '/');
	if (!slash)
		return false;
	slash[1] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int len = snprintf(out, size, "%s%s%s", self, places[i], name);
		if (len > 0 && (size_t)len < size && access(out, X_OK) == 0)
			return true;
	}
	return false;
}

static void check_ringsided(struct finding *f)
{
	char path[PATH_MAX];
	const char *given = getenv("RINGSIDE_DAEMON");
	if (given && *given)
		finding_set(f, access(given, X_OK) == 0 ? CHECK_OK : CHECK_FAIL,
		        "RINGSIDE_DAEMON must name a program, or be unset", "RINGSIDE_DAEMON=%.400s", given);
	else if (find_program("ringsided", path, sizeof(path)))
		finding_set(f, CHECK_OK, "", "%.400s", path);
	else
		finding_set(f, CHECK_WARN, "install ringsided beside ringside, or in ../libexec/ringside",
		        "not beside this program: it is looked for in PATH");
}

/* A program without an interpreter runs in any root. -1: not a program that this machine runs. */
static int is_static(const char *path)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int answer = -1;
	if (fd >= 0 && pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	        memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 &&
	        head.e_phentsize == sizeof(part)) {
		answer = 1;
		for (unsigned i = 0; i < head.e_phnum; i++) {
			off_t at = (off_t)head.e_phoff + (off_t)(i * sizeof(part));
			if (pread(fd, &part, sizeof(part), at) != (ssize_t)sizeof(part))
				answer = -1;
			else if (part.p_type == PT_INTERP)
				answer = 0;
			if (answer != 1)
				break;
		}
	}
	fd_close(&fd);
	return answer;
}

static void check_consoled(struct finding *f)
{
	char path[PATH_MAX];
	const char *given = getenv("RINGSIDE_CONSOLED");
	if (given && *given)
		snprintf(path, sizeof(path), "%s", given);
	else if (!find_program("ringside-consoled", path, sizeof(path))) {
		finding_set(f, CHECK_FAIL, "install ringside-consoled beside ringsided",
		        "the console daemon was not found");
		return;
	}
	int linked = is_static(path);
	if (linked < 0)
		finding_set(f, CHECK_FAIL, "install it again", "%.400s is not a program for this machine", path);
	else if (linked == 0)
		finding_set(f, CHECK_WARN,
		        "sandboxes without this machine's libraries cannot run it: use the release build",
		        "%.400s is not static", path);
	else
		finding_set(f, CHECK_OK, "", "%.400s, static", path);
}

/* ---- The daemon ---- */

static void check_daemon(struct finding *f)
{
	struct ringside *rs;
	struct ringside_error err;
	struct ringside_status *s;
	struct ringside_options o = { .client = "ringside doctor", .no_start = true, .connect_ms = 3000 };
	int code = ringside_open(&o, &rs, &err);
	if (code == RINGSIDE_UNAVAILABLE) {
		finding_set(f, CHECK_OK, "", "not running: the first command that needs it starts it");
		return;
	}
	if (!code) {
		ringside_set_timeout(rs, 3000);
		code = ringside_status(rs, &s, &err);
		if (!code) {
			finding_set(f, CHECK_OK, "", "version %.64s, pid %u, %u sandboxes, %u running consoles",
			        s->version, s->pid, s->sandboxes, s->consoles);
			ringside_free(s);
		}
		ringside_close(rs);
	}
	if (code)
		finding_set(f, CHECK_FAIL, "see its log in the state directory", "%s: %.400s", err.name, err.message);
}

const struct check checks_own[] = {
	{ "runtime_dir", check_runtime_dir },
	{ "state_dir", check_state_dir },
	{ "disk_space", check_space },
	{ "ringsided", check_ringsided },
	{ "consoled", check_consoled },
	{ "daemon", check_daemon },
};
const size_t checks_own_count = sizeof(checks_own) / sizeof(checks_own[0]);
