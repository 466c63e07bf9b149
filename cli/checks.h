/* checks.h - what `doctor` looks at: each check finds one thing out, changes nothing, and says what to do about it. */
#ifndef CLI_CHECKS_H
#define CLI_CHECKS_H

#include <stddef.h>

enum check_verdict { CHECK_OK, CHECK_WARN, CHECK_FAIL };

struct finding {
	enum check_verdict verdict;
	char detail[512];
	const char *remedy; /* ""; literal */
};

struct check {
	const char *name;
	void (*run)(struct finding *out); /* *out: CHECK_OK, empty */
};

extern const struct check checks_host[]; /* checks_host.c: the kernel and its limits */
extern const size_t checks_host_count;
extern const struct check checks_own[]; /* checks_own.c: Ringside's own programs and folders */
extern const size_t checks_own_count;

void finding_set(struct finding *f, enum check_verdict verdict, const char *remedy, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

#endif
