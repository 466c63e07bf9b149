/*
 * fault.h - the test's side of tests/preload/faultlib.h: a control file, and faults armed for one moment.
 *
 * Programs with faults are those of VARIANT=debug: neither static nor with a sanitizer, whose allocator would be the
 * one to be replaced. They are looked for in RINGSIDE_FAULT_BUILD, or beside the test program's own variant.
 *
 * The way of a test: fault_arm() for the n-th call, one request, fault_disarm(), for n = 1, 2, … until a request came
 * to its end without the fault being reached.
 */
#ifndef TESTS_SUPPORT_FAULT_H
#define TESTS_SUPPORT_FAULT_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/preload/faultlib.h"

/* Which calls fail, in whom; what the tests go through one by one. */
struct fault_class {
	const char *name;
	uint32_t kinds;
	enum fault_whom whom;
};

/* `what` below the debug variant's tree: "bin/ringsided", "lib/faultlib.so". NULL: it was not built. */
static inline const char *fault_path(char out[PATH_MAX], const char *what)
{
	const char *given = getenv("RINGSIDE_FAULT_BUILD");
	char self[PATH_MAX];

	if (given) {
		snprintf(out, PATH_MAX, "%s/%s", given, what);
	} else {
		/* B/VARIANT/tests/integration/test_x → B/debug/… */
		ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
		if (n < 0)
			return NULL;
		self[n] = '\0';
		for (int up = 0; up < 4; up++) {
			char *slash = strrchr(self, '/');
			if (!slash)
				return NULL;
			*slash = '\0';
		}
		snprintf(out, PATH_MAX, "%.3000s/debug/%.1000s", self, what);
	}
	return access(out, R_OK) == 0 ? out : NULL;
}

/* A control that nobody listens to yet, in a file at `path`. NULL: it cannot be made. */
static inline struct fault_control *fault_control_new(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	void *at = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, sizeof(struct fault_control)) == 0)
		at = mmap(NULL, sizeof(struct fault_control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static inline void fault_control_free(struct fault_control *c)
{
	if (c)
		munmap(c, sizeof(*c));
}

/* From now on the n-th call and the `times - 1` after it fail in pid, or in what it has forked. */
static inline void fault_arm(
        struct fault_control *c, const struct fault_class *what, pid_t pid, int64_t n, int64_t times)
{
	atomic_store(&c->armed, 0);
	c->kinds = what->kinds;
	c->whom = what->whom;
	c->pid = pid;
	c->error = 0;
	memset(c->first, 0, sizeof(c->first));
	atomic_store(&c->after, n - 1);
	atomic_store(&c->times, times);
	atomic_store(&c->seen, 0);
	atomic_store(&c->hits, 0);
	atomic_store(&c->armed, 1);
}

/* How many calls have failed. */
static inline uint64_t fault_disarm(struct fault_control *c)
{
	atomic_store(&c->armed, 0);
	return atomic_load(&c->hits);
}

#define FAULT_ALWAYS INT64_MAX

#endif
