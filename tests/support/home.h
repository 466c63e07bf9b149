/*
 * home.h - a Ringside of its own for each test: a temporary RINGSIDE_HOME, the programs under test, and the promise
 * that nothing of it is left when the test is over.
 *
 * A test's fixture is `struct home *h = *state` with home_setup() and home_teardown(). What the functions here hand out
 * belongs to the home and goes with it, since a failing assert jumps out of the test. They fail the test by themselves
 * where the harness cannot go on (a program that cannot be started, a deadline); what a command answered is the test's
 * to judge.
 *
 * Programs   from RINGSIDE_BIN, or ../bin beside the test program's variant.
 * Teardown   `ringside down --all`; then no process may be left below the guard, and no log may hold a sanitizer's
 * report. Time       Every wait has a deadline, generous because the sanitizers and other work slow things down; none
 * is a sleep.
 */
#ifndef TESTS_SUPPORT_HOME_H
#define TESTS_SUPPORT_HOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/guard.h"

#define DEADLINE_MS 60000

struct home {
	char dir[256];     /* RINGSIDE_HOME */
	char bin[4096];    /* of the programs under test */
	char search[8192]; /* PATH of what is run */
	bool keep_daemon;  /* teardown does not call `down --all`: the test has ended everything by other means */
	uint64_t gone_ms;  /* from the test's end to no process at all */
	struct deferred *deferred;
	struct running *running;
};

int home_setup(void **state);
int home_teardown(void **state);

/* ---- Running a command to its end ---- */
struct ran {
	int status; /* exit status, 128 + n for a signal */
	char *out;  /* NUL-terminated, with out_len bytes before that */
	size_t out_len;
	char *err;
	size_t err_len;
	uint64_t took_ms;
};

/* ringside ARG…, ends with NULL. stdin is /dev/null. */
struct ran *ringside(struct home *h, ...) __attribute__((sentinel));
struct ran *ringside_in(struct home *h, const void *in, size_t n, ...) __attribute__((sentinel)); /* with stdin */
/* Any program, by path or looked up in bin and then PATH. deadline_ms: it fails the test when it takes longer. */
struct ran *run_program(struct home *h, const char *const *argv, const void *in, size_t n, uint64_t deadline_ms);

/* The same in two steps, for what must go on meanwhile. */
struct running;
struct running *ringside_begin(struct home *h, ...) __attribute__((sentinel));
struct running *program_begin(struct home *h, const char *const *argv, const void *in, size_t n);
pid_t running_pid(const struct running *r);
bool running_ended(struct running *r); /* takes its output meanwhile */
struct ran *running_end(
        struct home *h, struct running *r, uint64_t deadline_ms); /* waits, takes the result, forgets it */

/* Fails with what the command said when its status is another. Gives the command back. */
#define ran_ok(r)           ran_status((r), 0)
#define ran_status(r, want) ran_status_at((r), (want), __FILE__, __LINE__)
struct ran *ran_status_at(struct ran *r, int want, const char *file, int line);

/* ---- JSON ---- */
/* The object on stdout, or on stderr for an error. Fails the test where there is none, or something after it. */
json_t *ran_json(struct home *h, const struct ran *r);
json_t *ran_error(struct home *h, const struct ran *r); /* the inner object of {"error":{…}} */
/* By path: "sandbox", "exit.code", "steps.0.signal". Fails the test where there is no such value of that type. */
const char *json_text(const json_t *j, const char *path);
uint64_t json_number(const json_t *j, const char *path);
bool json_truth(const json_t *j, const char *path);
const json_t *json_at(const json_t *j, const char *path); /* NULL: there is none */
/* The decoded bytes of a base64 value, NUL-terminated; *n may be NULL. */
char *json_bytes(struct home *h, const json_t *j, const char *path, size_t *n);

/* ---- Waiting ---- */
/* Fails the test, naming what, when the condition has not come true in time. The condition is asked every few ms. */
#define wait_until(what, condition)                         \
	for (uint64_t until_ = wait_begin(); !(condition);) \
	wait_more(until_, (what), __FILE__, __LINE__)
uint64_t wait_begin(void);
void wait_more(uint64_t until, const char *what, const char *file, int line);
uint64_t now_ms(void);

/* ---- Daemons ---- */
struct ringside;
struct ringside *home_connect(struct home *h);       /* by libringside, the caller's to close; starts the daemon */
pid_t daemon_pid(struct home *h);                    /* of ringsided, by `up`, which starts it */
pid_t consoled_pid(struct home *h, const char *box); /* of a sandbox's console daemon, by `show` */
void kill_and_wait(pid_t pid, int sig);              /* until it is gone */
size_t process_fds(pid_t pid);                       /* how many descriptors it has open */

/* ---- Small things ---- */
char *home_path(struct home *h, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* below dir */
char *home_format(struct home *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void write_file(const char *path, const void *bytes, size_t n);
char *read_file(struct home *h, const char *path, size_t *n); /* NULL: no such file */
bool contains(const void *bytes, size_t n, const char *text);
void *home_hold(struct home *h, void *memory); /* freed at teardown */
/* undo(what) at teardown, newest first, before the check that nothing is left. */
void home_defer(struct home *h, void (*undo)(void *what), void *what);

/* main() of an integration test. */
#define HOME_TEST(f)           cmocka_unit_test_setup_teardown(f, home_setup, home_teardown)
#define HOME_MAIN(name, tests) (guard_start(), cmocka_run_group_tests_name((name), (tests), NULL, NULL))

#endif
