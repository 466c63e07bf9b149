/*
 * fixture.h - a ledger in a directory of its own, for each test; rows that are right unless a test makes them wrong.
 */
#ifndef TESTS_UNIT_LEDGER_FIXTURE_H
#define TESTS_UNIT_LEDGER_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ledger/ledger.h"

struct fixture {
	char dir[64];
	char path[96];
	char message[256];
	struct ledger *ledger; /* open, with a lease, unless a test has closed it */
	uint64_t epoch;
};

static inline void fixture_open(struct fixture *f)
{
	assert_int_equal(ledger_open(f->path, &f->ledger, f->message, sizeof(f->message)), 0);
}

static inline void fixture_close(struct fixture *f)
{
	ledger_close(f->ledger);
	f->ledger = NULL;
}

/* Only a directory and a path in it. */
static inline int setup_directory(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/tmp/ringside-ledger-XXXXXX");
	if (!mkdtemp(f->dir)) {
		free(f);
		return -1;
	}
	snprintf(f->path, sizeof(f->path), "%s/ledger.db", f->dir);
	*state = f;
	return 0;
}

static inline int setup_ledger(void **state)
{
	if (setup_directory(state) < 0)
		return -1;
	struct fixture *f = *state;

	return ledger_open(f->path, &f->ledger, f->message, sizeof(f->message)) < 0 ||
	                       ledger_take_lease(f->ledger, "tester", &f->epoch) < 0
	               ? -1
	               : 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	struct dirent *entry;

	fixture_close(f);
	DIR *dir = opendir(f->dir);
	while (dir && (entry = readdir(dir)))
		(void)unlinkat(dirfd(dir), entry->d_name, entry->d_type == DT_DIR ? AT_REMOVEDIR : 0);
	closedir(dir);
	rmdir(f->dir);
	free(f);
	return 0;
}

/* Everything made from one number, so that rows of different numbers never meet. */
struct texts {
	char resource[32], key[48], sandbox[32], name[32];
};

static inline struct texts texts_of(unsigned n)
{
	struct texts t;

	snprintf(t.resource, sizeof(t.resource), "res-%u", n);
	snprintf(t.key, sizeof(t.key), "create:sb-%u:0f", n);
	snprintf(t.sandbox, sizeof(t.sandbox), "sb-%u", n);
	snprintf(t.name, sizeof(t.name), "box%u", n);
	return t;
}

static inline struct ledger_resource resource_of(const struct texts *t)
{
	return (struct ledger_resource){
		.resource_id = t->resource,
		.owner_id = "tester",
		.provider = "host",
		.kind = LEDGER_SANDBOX,
		.operation_key = t->key,
	};
}

static inline struct ledger_sandbox sandbox_of(const struct texts *t)
{
	return (struct ledger_sandbox){
		.id = t->sandbox,
		.name = t->name,
		.provider = "host",
		.state = 1,
		.resource_id = t->resource,
		.spec_json = "{}",
	};
}

static inline int add_resource(struct ledger *l, uint64_t epoch, unsigned n)
{
	struct texts t = texts_of(n);
	struct ledger_resource row = resource_of(&t);

	return ledger_add_pending(l, epoch, &row);
}

static inline int add_sandbox(struct ledger *l, uint64_t epoch, unsigned n)
{
	struct texts t = texts_of(n);
	struct ledger_resource row = resource_of(&t);
	struct ledger_sandbox s = sandbox_of(&t);

	return ledger_add_sandbox(l, epoch, &s, &row);
}

static inline bool count_one(const struct ledger_resource *row, void *ctx)
{
	(void)row;
	++*(unsigned *)ctx;
	return true;
}

static inline unsigned count_resources(struct ledger *l)
{
	unsigned n = 0;

	assert_int_equal(ledger_each_resource(l, count_one, &n), 0);
	return n;
}

/* A copy of the row with that id, texts and all; found is false where there is none. */
struct found_resource {
	const char *wanted;
	bool found;
	enum ledger_state state;
	enum ledger_kind kind;
	char ref[64], outcome[64], provider[32], key[48];
	uint64_t epoch, acquired_at_ms, expires_at_ms, released_at_ms, claim;
};

static inline bool match_resource(const struct ledger_resource *row, void *ctx)
{
	struct found_resource *f = ctx;

	if (strcmp(row->resource_id, f->wanted) != 0)
		return true;
	f->found = true;
	f->state = row->state;
	f->kind = row->kind;
	snprintf(f->ref, sizeof(f->ref), "%s", row->ref);
	snprintf(f->outcome, sizeof(f->outcome), "%s", row->outcome);
	snprintf(f->provider, sizeof(f->provider), "%s", row->provider);
	snprintf(f->key, sizeof(f->key), "%s", row->operation_key);
	f->epoch = row->epoch;
	f->acquired_at_ms = row->acquired_at_ms;
	f->expires_at_ms = row->expires_at_ms;
	f->released_at_ms = row->released_at_ms;
	f->claim = row->claim;
	return false;
}

static inline struct found_resource find_resource(struct ledger *l, const char *id)
{
	struct found_resource f = { .wanted = id };

	assert_int_equal(ledger_each_resource(l, match_resource, &f), 0);
	return f;
}

struct found_sandbox {
	const char *wanted;
	bool found;
	uint32_t state;
	char name[32], reason[64], instance[128], spec_json[64];
	uint64_t created_at_ms, ended_at_ms;
};

static inline bool match_sandbox(const struct ledger_sandbox *s, void *ctx)
{
	struct found_sandbox *f = ctx;

	if (strcmp(s->id, f->wanted) != 0)
		return true;
	f->found = true;
	f->state = s->state;
	snprintf(f->name, sizeof(f->name), "%s", s->name);
	snprintf(f->reason, sizeof(f->reason), "%s", s->reason);
	snprintf(f->instance, sizeof(f->instance), "%s", s->instance);
	snprintf(f->spec_json, sizeof(f->spec_json), "%s", s->spec_json);
	f->created_at_ms = s->created_at_ms;
	f->ended_at_ms = s->ended_at_ms;
	return false;
}

static inline struct found_sandbox find_sandbox(struct ledger *l, const char *id)
{
	struct found_sandbox f = { .wanted = id };

	assert_int_equal(ledger_each_sandbox(l, match_sandbox, &f), 0);
	return f;
}

#endif
