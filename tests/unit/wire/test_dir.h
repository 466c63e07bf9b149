/*
 * test_dir.h - a directory of the test's own, removed with all that is in it, and a count of open descriptors, so that
 * a test whose code leaks one fails.
 */
#ifndef TESTS_UNIT_WIRE_TEST_DIR_H
#define TESTS_UNIT_WIRE_TEST_DIR_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct test_dir {
	char path[PATH_MAX];
	int fd;
	int open_before; /* descriptors, before the test */
};

static inline int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (d == NULL)
		return -1;
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static inline int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

/* A cmocka setup: *state is a struct test_dir. */
static inline int make_test_dir(void **state)
{
	struct test_dir *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -1;
	t->open_before = open_descriptors();
	(void)snprintf(t->path, sizeof(t->path), "/tmp/ringside-wire-XXXXXX");
	if (mkdtemp(t->path) == NULL) {
		free(t);
		return -1;
	}
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = t;
	return t->fd < 0 ? -1 : 0;
}

/* A cmocka teardown: fails the test where it left descriptors open. */
static inline int remove_test_dir(void **state)
{
	struct test_dir *t = *state;
	int before = t->open_before, after;

	close(t->fd);
	(void)nftw(t->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	free(t);
	after = open_descriptors();
	if (after != before)
		(void)fprintf(stderr, "%d descriptors before the test, %d after it\n", before, after);
	return after == before ? 0 : -1;
}

#endif
