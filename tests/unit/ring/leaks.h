/* leaks.h - what this process holds right now, so that a test can say that it holds no more than before. */
#ifndef TESTS_UNIT_RING_LEAKS_H
#define TESTS_UNIT_RING_LEAKS_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static inline int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Mappings of memfds whose name begins with `name`. */
static inline int memfd_mappings(const char *name)
{
	char line[512], what[128];
	FILE *f = fopen("/proc/self/maps", "re");
	int n = 0;

	if (!f)
		return -1;
	snprintf(what, sizeof(what), "/memfd:%s", name);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, what) != NULL;
	fclose(f);
	return n;
}

#endif
