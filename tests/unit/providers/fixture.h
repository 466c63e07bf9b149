/*
 * fixture.h - a state directory of its own, the layer above as far as an adapter needs it, and the count of what is
 * left.
 *
 * The test program is a subreaper: whatever a console daemon or a killed caller leaves becomes its child, so "no
 * process is left" is what waitpid(2) says and not what a list of names says.
 */
#ifndef TESTS_UNIT_PROVIDERS_FIXTURE_H
#define TESTS_UNIT_PROVIDERS_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "providers/instance.h"
#include "providers/remove_tree.h"
#include "providers/sandbox.h"
#include "tests/unit/providers/fake_consoled.h"
#include "wire/clock.h"

#define PATIENCE_MS 20000 /* for anything that has to happen: far over what a loaded machine takes */

struct fixture {
	char dir[64];            /* of the test */
	char state[80];          /* the adapters' */
	char consoled[PATH_MAX]; /* the program, fake or real */
	bool real;               /* it is the real one */
	struct adapter_env env;
	struct sandbox_adapter *host;
	int record_fails; /* what record_instance() answers instead of recording */
	unsigned records;
	/* The fence: asked so often, and from its refuse_from-th time on (counted from 1, 0: never) answers refusal. */
	unsigned asked, refuse_from;
	enum result refusal;
	struct sandbox_context ctx;
	struct sandbox_error err;
};

/* ---- The layer above: one file per sandbox with its line ---- */

static inline int store_instance(void *data, const char *id, const char *line)
{
	struct fixture *f = data;
	char path[256], temporary[300];

	f->records++;
	if (f->record_fails)
		return f->record_fails;
	snprintf(path, sizeof(path), "%s/instance-%s", f->dir, id);
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	FILE *out = fopen(temporary, "we");
	if (!out || fputs(line, out) < 0 || fclose(out) != 0 || rename(temporary, path) < 0)
		return -EIO;
	return 0;
}

static inline int load_instance(void *data, const char *id, char *out, size_t size)
{
	const struct fixture *f = data;
	char path[256];

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/instance-%s", f->dir, id);
	FILE *in = fopen(path, "re");
	if (!in)
		return errno == ENOENT ? 0 : -errno;
	if (!fgets(out, (int)size, in))
		out[0] = '\0';
	fclose(in);
	return 0;
}

static inline enum result scripted_fence(const struct sandbox_context *self)
{
	struct fixture *f = self->fence_data;

	f->asked++;
	return f->refuse_from && f->asked >= f->refuse_from ? f->refusal : RESULT_OK;
}

static inline void refuse_from(struct fixture *f, unsigned nth, enum result refusal)
{
	f->asked = 0;
	f->refuse_from = nth;
	f->refusal = refusal;
}

/* ---- Setting up ---- */

static inline int setup(void **state)
{
	const char *real = getenv("RINGSIDE_CONSOLED");
	struct fixture *f = calloc(1, sizeof(*f));

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(f->dir, sizeof(f->dir), "/tmp/ringside-providers-XXXXXX");
	if (!mkdtemp(f->dir)) {
		free(f);
		return -1;
	}
	snprintf(f->state, sizeof(f->state), "%s/state", f->dir);
	f->real = real && *real;
	if (f->real)
		snprintf(f->consoled, sizeof(f->consoled), "%s", real);
	else if (readlink("/proc/self/exe", f->consoled, sizeof(f->consoled) - 1) < 0)
		f->consoled[0] = '\0'; /* every start fails, and says so */
	f->env = (struct adapter_env){
		.state_dir = f->state,
		.consoled_path = f->consoled,
		.record_instance = store_instance,
		.recall_instance = load_instance,
		.data = f,
	};
	f->ctx = (struct sandbox_context){
		.authority = AUTHORITY_OWNER,
		.owner_id = "tester",
		.epoch = 1,
		.fence = scripted_fence,
		.fence_data = f,
	};
	f->host = adapter_new("host", &f->env);
	*state = f;
	return f->host ? 0 : -1;
}

/* Ends what a failed test has left running: every child that the subreaper has. */
static inline void end_children(void)
{
	char path[64], text[4096];

	for (int rounds = 0; rounds < 100; rounds++) {
		snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

		if (fd >= 0)
			close(fd);
		if (n <= 0)
			return;
		text[n] = '\0';
		char *p = text;
		for (long pid = strtol(p, &p, 10); pid > 0; pid = strtol(p, &p, 10))
			kill((pid_t)pid, SIGKILL);
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	struct remove_error why;

	adapter_free(f->host);
	end_children();
	int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = remove_tree_at(parent, f->dir + strlen("/tmp/"), UINT64_MAX, &why);
	close(parent);
	free(f);
	return r;
}

/* ---- What is left ---- */

/* Waits until this process has no child of any kind, reaping as it goes. */
static inline void no_process_is_left(void)
{
	uint64_t deadline = clock_mono_ms() + PATIENCE_MS;

	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return;
		if (clock_mono_ms() > deadline)
			fail_msg("a process is left");
		if (pid == 0)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/* Counts entries below path, itself not; -1: there is no such directory. */
static inline int entries_in(const char *path)
{
	const struct dirent *entry;
	int n = 0;
	DIR *dir = opendir(path);

	if (!dir)
		return -1;
	while ((entry = readdir(dir)) != NULL)
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(dir);
	return n;
}

static inline void nothing_is_on_the_disk(const struct fixture *f)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/sandboxes", f->state);
	int n = entries_in(path);
	if (n > 0)
		fail_msg("%d entries are left in %s", n, path);
}

/* ---- Calls as tests make them ---- */

static inline const char *path_of(const struct fixture *f, const char *id, const char *rest)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/sandboxes/%s%s%s", f->state, id, *rest ? "/" : "", rest);
	return path;
}

static inline bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static inline enum result try_create(struct fixture *f, const char *id, const char *key, const char *name,
        const char *directory, struct sandbox_session **out)
{
	const struct sandbox_create options = { .id = id, .name = name, .directory = directory };

	return adapter_create(f->host, &f->ctx, key, &options, out, &f->err);
}

static inline struct sandbox_session *create(struct fixture *f, const char *id, const char *name)
{
	struct sandbox_session *s = NULL;
	char key[64];

	snprintf(key, sizeof(key), "create:%s:0f", id);
	enum result r = try_create(f, id, key, name, NULL, &s);
	if (r != RESULT_OK)
		fail_msg("create: %s: %s", result_name(r), f->err.message);
	return s;
}

static inline int connect_to(struct fixture *f, struct sandbox_session *s)
{
	int fd = -1;
	enum result r = session_connect(s, &f->ctx, &fd, &f->err);

	if (r != RESULT_OK)
		fail_msg("connect: %s: %s", result_name(r), f->err.message);
	assert_true(fd >= 0);
	return fd;
}

static inline void close_and_free(struct fixture *f, struct sandbox_session *s)
{
	enum result r = session_close(s, &f->ctx, &f->err);

	if (r != RESULT_OK)
		fail_msg("close: %s: %s", result_name(r), f->err.message);
	session_free(s);
}

static inline struct instance recorded_instance(struct fixture *f, const char *id)
{
	char line[SANDBOX_INSTANCE_BYTES];
	struct instance i;

	assert_int_equal(load_instance(f, id, line, sizeof(line)), 0);
	assert_int_equal(instance_parse(line, &i), 0);
	return i;
}

static inline bool is_alive(const struct instance *i)
{
	int pidfd = instance_open(i);

	if (pidfd >= 0)
		close(pidfd);
	return pidfd >= 0;
}

#endif
