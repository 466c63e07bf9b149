/*
 * home.c - a temporary Ringside for one test: commands with their output and deadline, JSON, waits, the check at the
 * end.
 */
#include "tests/support/home.h"

#include "client/ringside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MS      5
#define MAX_LEFTOVERS 4096
#define OUTPUT_PIECE  65536
#define MAX_ARGS      64
#define GONE_MS       15000 /* from `down --all` to no process at all */

struct deferred {
	struct deferred *next;
	void (*undo)(void *what);
	void *what;
};

struct running {
	struct running *next;
	pid_t pid;
	int in, out, err;
	const char *input; /* what is still to be written */
	size_t input_left;
	char *input_copy;
	struct ran *ran;
	size_t out_room, err_room;
	uint64_t began;
	bool reaped;
	int status;
	char line[512]; /* for messages */
};

/* ---- Memory and paths ---- */

void home_defer(struct home *h, void (*undo)(void *what), void *what)
{
	struct deferred *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	*d = (struct deferred){ .next = h->deferred, .undo = undo, .what = what };
	h->deferred = d;
}

static void run_deferred(struct home *h)
{
	while (h->deferred) {
		struct deferred *d = h->deferred;
		h->deferred = d->next;
		d->undo(d->what);
		free(d);
	}
}

void *home_hold(struct home *h, void *memory)
{
	assert_non_null(memory);
	home_defer(h, free, memory);
	return memory;
}

char *home_format(struct home *h, const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;

	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	assert_true(n >= 0);
	return home_hold(h, s);
}

char *home_path(struct home *h, const char *fmt, ...)
{
	va_list ap;
	char name[PATH_MAX];

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	return home_format(h, "%s/%s", h->dir, name);
}

void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "we");

	if (!f)
		fail_msg("cannot write %s: %s", path, strerror(errno));
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

char *read_file(struct home *h, const char *path, size_t *n)
{
	FILE *f = fopen(path, "re");
	size_t used = 0, room = 65536;

	if (!f)
		return NULL;
	char *buf = malloc(room + 1);
	for (;;) {
		assert_non_null(buf);
		size_t got = fread(buf + used, 1, room - used, f);
		used += got;
		if (got == 0)
			break;
		if (used == room)
			buf = realloc(buf, (room *= 2) + 1);
	}
	fclose(f);
	buf[used] = '\0';
	if (n)
		*n = used;
	return home_hold(h, buf);
}

bool contains(const void *bytes, size_t n, const char *text)
{
	return memmem(bytes, n, text, strlen(text)) != NULL;
}

/* ---- Time ---- */

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t wait_begin(void)
{
	return now_ms() + DEADLINE_MS;
}

void wait_more(uint64_t until, const char *what, const char *file, int line)
{
	if (now_ms() > until) {
		print_error("%s:%d: waited %d s in vain: %s\n", file, line, DEADLINE_MS / 1000, what);
		fail();
	}
	poll(NULL, 0, PAUSE_MS);
}

/* ---- Commands ---- */

static char *program_path(struct home *h, const char *name)
{
	char *path = home_format(h, "%s/%s", h->bin, name);

	return !strchr(name, '/') && access(path, X_OK) == 0 ? path : home_format(h, "%s", name);
}

/* Only what a user's shell would have, and this test's RINGSIDE_HOME. */
static void child_main(struct home *h, const char *path, const char *const *argv, const int fds[3])
        __attribute__((noreturn));
static void child_main(struct home *h, const char *path, const char *const *argv, const int fds[3])
{
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], i) < 0)
			_exit(125);
	setenv("RINGSIDE_HOME", h->dir, 1);
	setenv("PATH", h->search, 1);
	execvp(path, (char *const *)(uintptr_t)argv);
	dprintf(2, "cannot run %s: %s\n", path, strerror(errno));
	_exit(127);
}

struct running *program_begin(struct home *h, const char *const *argv, const void *in, size_t n)
{
	int i[2] = { -1, -1 }, o[2], e[2];
	struct running *r = calloc(1, sizeof(*r));
	const char *path = program_path(h, argv[0]);

	assert_non_null(r);
	r->ran = home_hold(h, calloc(1, sizeof(*r->ran)));
	for (int a = 0; argv[a] && strlen(r->line) < sizeof(r->line) - 100; a++)
		snprintf(r->line + strlen(r->line), 100, "%s%.90s", a ? " " : "", argv[a]);
	if (in) {
		assert_int_equal(pipe2(i, O_CLOEXEC), 0);
		r->input_copy = malloc(n + 1);
		assert_non_null(r->input_copy);
		memcpy(r->input_copy, in, n);
		r->input = r->input_copy;
		r->input_left = n;
		fcntl(i[1], F_SETFL, O_NONBLOCK);
	} else {
		i[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	assert_int_equal(pipe2(o, O_CLOEXEC), 0);
	assert_int_equal(pipe2(e, O_CLOEXEC), 0);
	/* Scripts find the programs under test by their names, too. */
	snprintf(h->search, sizeof(h->search), "%s:%s", h->bin, getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
	fflush(NULL);
	r->began = now_ms();
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0)
		child_main(h, path, argv, (int[3]){ i[0], o[1], e[1] });
	close(i[0]);
	close(o[1]);
	close(e[1]);
	r->in = i[1];
	r->out = o[0];
	r->err = e[0];
	fcntl(r->out, F_SETFL, O_NONBLOCK);
	fcntl(r->err, F_SETFL, O_NONBLOCK);
	r->next = h->running;
	h->running = r;
	return r;
}

static void close_once(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Appends what is there; closes at its end. */
static void take_output(int *fd, char **text, size_t *len, size_t *room)
{
	while (*fd >= 0) {
		if (*room - *len <= OUTPUT_PIECE) {
			*room = 2 * *room + 2 * OUTPUT_PIECE;
			*text = realloc(*text, *room);
			assert_non_null(*text);
		}
		ssize_t n = read(*fd, *text + *len, OUTPUT_PIECE);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			close_once(fd);
			n = 0;
		}
		*len += (size_t)n;
		(*text)[*len] = '\0';
	}
}

static void give_input(struct running *r)
{
	while (r->in >= 0 && r->input_left > 0) {
		ssize_t n = write(r->in, r->input, r->input_left);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) /* it does not want more */
			break;
		r->input += n;
		r->input_left -= (size_t)n;
	}
	close_once(&r->in);
}

/* Moves streams along, waiting for them at most ms. */
static void running_pump(struct running *r, int ms)
{
	struct pollfd p[3] = { { .fd = r->out, .events = POLLIN }, { .fd = r->err, .events = POLLIN },
		{ .fd = r->in, .events = POLLOUT } };

	poll(p, 3, ms);
	take_output(&r->out, &r->ran->out, &r->ran->out_len, &r->out_room);
	take_output(&r->err, &r->ran->err, &r->ran->err_len, &r->err_room);
	give_input(r);
	if (!r->reaped && waitpid(r->pid, &r->status, WNOHANG) == r->pid)
		r->reaped = true;
}

/* Once the program has ended its streams are read to what they hold; a daemon that it left may keep them open for ever.
 */
bool running_ended(struct running *r)
{
	running_pump(r, 0);
	return r->reaped;
}

pid_t running_pid(const struct running *r)
{
	return r->pid;
}

static void running_forget(struct home *h, struct running *r)
{
	struct running **p = &h->running;

	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	close_once(&r->in);
	close_once(&r->out);
	close_once(&r->err);
	free(r->input_copy);
	if (r->ran->out)
		home_hold(h, r->ran->out);
	else
		r->ran->out = home_hold(h, strdup(""));
	if (r->ran->err)
		home_hold(h, r->ran->err);
	else
		r->ran->err = home_hold(h, strdup(""));
	free(r);
}

struct ran *running_end(struct home *h, struct running *r, uint64_t deadline_ms)
{
	uint64_t until = now_ms() + deadline_ms;
	struct ran *ran = r->ran;

	while (!running_ended(r)) {
		if (now_ms() > until) {
			kill(r->pid, SIGKILL);
			waitpid(r->pid, NULL, 0);
			print_error("still running after %llu ms: %s\n--- stdout:\n%s\n--- stderr:\n%s\n",
			        (unsigned long long)deadline_ms, r->line, ran->out ? ran->out : "",
			        ran->err ? ran->err : "");
			running_forget(h, r);
			fail();
		}
		running_pump(r, 50);
	}
	running_pump(r, 0);
	ran->took_ms = now_ms() - r->began;
	ran->status = WIFSIGNALED(r->status) ? 128 + WTERMSIG(r->status) : WEXITSTATUS(r->status);
	running_forget(h, r);
	return ran;
}

struct ran *run_program(struct home *h, const char *const *argv, const void *in, size_t n, uint64_t deadline_ms)
{
	return running_end(h, program_begin(h, argv, in, n), deadline_ms);
}

/* argv of `ringside`, from the arguments of a call that ends with NULL. */
static void collect(const char *argv[MAX_ARGS], va_list ap)
{
	int n = 0;

	argv[n++] = "ringside";
	while ((argv[n] = va_arg(ap, const char *)))
		assert_true(++n < MAX_ARGS);
}

struct ran *ringside(struct home *h, ...)
{
	const char *argv[MAX_ARGS];
	va_list ap;

	va_start(ap, h);
	collect(argv, ap);
	va_end(ap);
	return run_program(h, argv, NULL, 0, DEADLINE_MS);
}

struct ran *ringside_in(struct home *h, const void *in, size_t n, ...)
{
	const char *argv[MAX_ARGS];
	va_list ap;

	va_start(ap, n);
	collect(argv, ap);
	va_end(ap);
	return run_program(h, argv, in, n, DEADLINE_MS);
}

struct running *ringside_begin(struct home *h, ...)
{
	const char *argv[MAX_ARGS];
	va_list ap;

	va_start(ap, h);
	collect(argv, ap);
	va_end(ap);
	return program_begin(h, argv, NULL, 0);
}

struct ran *ran_status_at(struct ran *r, int want, const char *file, int line)
{
	if (r->status != want) {
		print_error("%s:%d: status %d, not %d\n--- stdout:\n%s\n--- stderr:\n%s\n", file, line, r->status, want,
		        r->out, r->err);
		fail();
	}
	return r;
}

/* ---- JSON ---- */

static void forget_json(void *j)
{
	json_decref(j);
}

static json_t *parse(struct home *h, const char *text, size_t n)
{
	json_error_t e;
	json_t *j = json_loadb(text, n, 0, &e);

	if (!j)
		fail_msg("not JSON (%s at byte %d): %s", e.text, e.position, text);
	home_defer(h, forget_json, j);
	return j;
}

json_t *ran_json(struct home *h, const struct ran *r)
{
	return parse(h, r->out, r->out_len);
}

json_t *ran_error(struct home *h, const struct ran *r)
{
	json_t *e = json_object_get(parse(h, r->err, r->err_len), "error");

	if (!json_is_object(e))
		fail_msg("no error object: %s", r->err);
	return e;
}

const json_t *json_at(const json_t *j, const char *path)
{
	char step[128];

	while (j && *path) {
		size_t n = strcspn(path, ".");
		assert_true(n < sizeof(step));
		memcpy(step, path, n);
		step[n] = '\0';
		j = json_is_array(j) ? json_array_get(j, strtoul(step, NULL, 10)) : json_object_get(j, step);
		path += path[n] ? n + 1 : n;
	}
	return j;
}

static const json_t *must(const json_t *j, const char *path, bool right, const char *type)
{
	if (!right) {
		char *s = json_dumps(j, JSON_ENCODE_ANY);
		print_error("no %s at \"%s\" in %s\n", type, path, s);
		free(s);
		fail();
	}
	return json_at(j, path);
}

const char *json_text(const json_t *j, const char *path)
{
	return json_string_value(must(j, path, json_is_string(json_at(j, path)), "string"));
}

uint64_t json_number(const json_t *j, const char *path)
{
	return (uint64_t)json_integer_value(must(j, path, json_is_integer(json_at(j, path)), "whole number"));
}

bool json_truth(const json_t *j, const char *path)
{
	return json_is_true(must(j, path, json_is_boolean(json_at(j, path)), "true or false"));
}

static int base64_value(char c)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c ? strchr(alphabet, c) : NULL;

	return p ? (int)(p - alphabet) : -1;
}

char *json_bytes(struct home *h, const json_t *j, const char *path, size_t *n)
{
	const char *s = json_text(j, path);
	size_t len = strlen(s), used = 0;
	char *out = home_hold(h, malloc(len + 1));
	unsigned bits = 0, have = 0;

	if (len % 4)
		fail_msg("%s is not base64: its length is %zu", path, len);
	for (; *s && *s != '='; s++) {
		int v = base64_value(*s);
		if (v < 0)
			fail_msg("%s is not base64: '%c'", path, *s);
		bits = bits << 6 | (unsigned)v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[used++] = (char)(bits >> have & 0xff);
		}
	}
	out[used] = '\0';
	if (n)
		*n = used;
	return out;
}

/* ---- Daemons ---- */

struct ringside *home_connect(struct home *h)
{
	struct ringside *rs;
	struct ringside_error err;

	/* The library looks for them in the environment of its own process. */
	setenv("RINGSIDE_HOME", h->dir, 1);
	setenv("RINGSIDE_DAEMON", home_format(h, "%s/ringsided", h->bin), 1);
	if (ringside_open(NULL, &rs, &err))
		fail_msg("%s: %s", err.name, err.message);
	return rs;
}

pid_t daemon_pid(struct home *h)
{
	return (pid_t)json_number(ran_json(h, ran_ok(ringside(h, "up", "--json", NULL))), "pid");
}

pid_t consoled_pid(struct home *h, const char *box)
{
	return (pid_t)json_number(ran_json(h, ran_ok(ringside(h, "show", box, "--json", NULL))), "consoled_pid");
}

void kill_and_wait(pid_t pid, int sig)
{
	assert_true(pid > 1);
	assert_int_equal(kill(pid, sig), 0);
	wait_until("a killed process is gone", !process_alive(pid));
}

size_t process_fds(pid_t pid)
{
	char path[64];
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* ---- Set-up and the check at the end ---- */

static void find_programs(struct home *h)
{
	const char *given = getenv("RINGSIDE_BIN");
	char self[PATH_MAX];

	if (given) {
		snprintf(h->bin, sizeof(h->bin), "%s", given);
		return;
	}
	/* B/tests/integration/test_x → B/bin */
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(n > 0);
	self[n] = '\0';
	for (int up = 0; up < 3; up++) {
		char *slash = strrchr(self, '/');
		assert_non_null(slash);
		*slash = '\0';
	}
	snprintf(h->bin, sizeof(h->bin), "%.4000s/bin", self);
}

int home_setup(void **state)
{
	struct home *h = calloc(1, sizeof(*h));
	const char *tmp = getenv("TMPDIR");

	signal(SIGPIPE, SIG_IGN);
	snprintf(h->dir, sizeof(h->dir), "%s/rs.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(h->dir)) {
		print_error("mkdtemp %s: %s\n", h->dir, strerror(errno));
		free(h);
		return -1;
	}
	find_programs(h);
	h->gone_ms = GONE_MS;
	*state = h;
	return 0;
}

/* Runs `down --all` without asserts, which must not be used in a teardown. */
static bool down_all(struct home *h)
{
	const char *argv[] = { "ringside", "down", "--all", NULL };
	struct running *r = program_begin(h, argv, NULL, 0);
	uint64_t until = now_ms() + DEADLINE_MS;

	while (!running_ended(r) && now_ms() < until)
		running_pump(r, 50);
	bool ok = r->reaped && WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0;
	if (!ok)
		print_error("down --all: %s, status %x: %s\n", r->reaped ? "ended" : "does not end",
		        (unsigned)r->status, r->ran->err ? r->ran->err : "");
	if (!r->reaped) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
	}
	running_forget(h, r);
	return ok;
}

static void end_running(struct home *h)
{
	while (h->running) {
		struct running *r = h->running;
		if (!r->reaped) {
			kill(r->pid, SIGKILL);
			waitpid(r->pid, NULL, 0);
		}
		running_forget(h, r);
	}
}

/* What is still there after the deadline is named and killed: the test has failed. */
static bool nothing_left(const struct home *h)
{
	static pid_t left[MAX_LEFTOVERS];
	uint64_t until = now_ms() + h->gone_ms;
	char line[512];
	size_t n;

	while ((n = guard_descendants(left, MAX_LEFTOVERS)) > 0 && now_ms() < until)
		poll(NULL, 0, PAUSE_MS);
	if (n == 0)
		return true;
	for (size_t i = 0; i < n; i++)
		print_error("left behind: %d %s\n", left[i], process_line(left[i], line, sizeof(line)));
	for (until = now_ms() + GONE_MS; n > 0 && now_ms() < until; n = guard_descendants(left, MAX_LEFTOVERS))
		for (size_t i = 0; i < n; i++)
			kill(left[i], SIGKILL);
	return false;
}

static int dirt_found;

static int look_for_reports(const char *path, const struct stat *st, int type, struct FTW *at)
{
	static const char *const signs[] = { "ERROR: AddressSanitizer", "runtime error:", "ERROR: LeakSanitizer",
		"WARNING: ThreadSanitizer" };
	char buf[65536];

	(void)at;
	if (type != FTW_F || !strstr(path, ".log") || st->st_size == 0)
		return 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		char *found = memmem(buf, (size_t)n, signs[i], strlen(signs[i]));
		if (found) {
			print_error("%s:\n%.4000s\n", path, found);
			dirt_found++;
			break;
		}
	}
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	remove(path);
	return 0;
}

int home_teardown(void **state)
{
	struct home *h = *state;
	bool ok = true;

	end_running(h);
	run_deferred(h);
	if (!h->keep_daemon)
		ok = down_all(h);
	if (!nothing_left(h))
		ok = false;
	dirt_found = 0;
	nftw(h->dir, look_for_reports, 32, FTW_PHYS);
	if (dirt_found)
		ok = false;
	if (getenv("RINGSIDE_KEEP"))
		print_message("kept: %s\n", h->dir);
	else
		nftw(h->dir, remove_entry, 32, FTW_PHYS | FTW_DEPTH);
	run_deferred(h);
	free(h);
	return ok ? 0 : -1;
}
