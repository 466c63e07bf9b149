/*
 * keeping.c - the jobs of keeping.h. A job has copies of everything, its own duplicates of the descriptors included:
 * the console that it was made for may be another incarnation, or forgotten, when it is done.
 */
#include "sandboxes/keeping.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring/ring.h"
#include "sandboxes/hosting.h"
#include "sandboxes/link.h"
#include "wire/codes.h"
#include "wire/fd.h"
#include "wire/log.h"

/* Which console of which sandbox; what a job and its end both need. */
struct subject {
	struct sandbox *sandbox; /* a reference, for the loop's side alone */
	const struct calls_env *env;
	char sandbox_id[SANDBOX_ID_BYTES];
	char console[NAME_MAX_BYTES + 1];
};

static struct subject subject_of(struct sandbox *s, const char *console)
{
	struct subject j = { .sandbox = sandbox_ref(s), .env = &s->daemon->env };

	snprintf(j.sandbox_id, sizeof(j.sandbox_id), "%s", s->id);
	snprintf(j.console, sizeof(j.console), "%s", console);
	return j;
}

/* Where its file is: dir is the caller's, PATH_MAX bytes. */
static int subject_place(const struct subject *j, char *dir, struct custody_place *out)
{
	int r = sandbox_path(j->env->state_dir, j->sandbox_id, "custody", dir, PATH_MAX);

	*out = (struct custody_place){ .dir = dir, .sandbox_id = j->sandbox_id, .console = j->console };
	return r;
}

/* ---- Saving ---- */

struct save {
	struct subject j;
	enum keep_what what;
	int fds[2];              /* its own; -1: not held, so the file stays as it is */
	Wire__ConsoleInfo *info; /* its own */
	/* Results */
	bool filed;
	struct custody_entry entry;
	int file_err, row_err;
};

/* The file first. A LOST or ended console whose memory is not held has what its file has. */
static void save_file(struct save *s)
{
	char dir[PATH_MAX];
	struct custody_place place;

	s->file_err = subject_place(&s->j, dir, &place);
	if (s->file_err == 0 && s->what == KEEP_FILE && s->fds[0] >= 0) {
		s->entry = (struct custody_entry){ .incarnation = s->info->incarnation, .state = s->info->state };
		s->file_err = custody_write(&place, s->fds[0], s->fds[1], &s->entry);
		s->filed = s->file_err == 0;
	}
	if (!s->filed && s->info->state != CONSOLE_EXITED)
		s->filed = custody_peek(&place, &s->entry) == 0;
}

/* What the row says of the output is what the file has of it: that is all there is, should the memory go. */
static void save_row(struct save *s)
{
	struct ledger_console row = { .sandbox_id = s->j.sandbox_id, .name = s->j.console };
	uint64_t first = s->info->tail_offset;

	if (s->info->state != CONSOLE_EXITED && s->filed) {
		s->info->head_offset = s->entry.head;
		s->info->tail_offset = s->entry.tail;
	} else if (s->info->state == CONSOLE_LOST && s->fds[0] < 0) {
		s->info->head_offset = s->info->tail_offset; /* nothing of it is left */
	}
	row.incarnation = s->info->incarnation;
	row.state = s->info->state;
	/* An incarnation that the file does not have yet begins later: its name must never go on before that. */
	row.tail_offset = s->info->tail_offset > first ? s->info->tail_offset : first;
	size_t n = wire__console_info__get_packed_size(s->info);
	uint8_t *packed = malloc(n ? n : 1);
	if (!packed) {
		s->row_err = -ENOMEM;
		return;
	}
	wire__console_info__pack(s->info, packed);
	row.info = packed;
	row.info_bytes = (uint32_t)n;
	s->row_err = ledger_put_console(s->j.env->ledger, s->j.env->epoch, &row);
	free(packed);
}

static void save_work(void *arg)
{
	struct save *s = arg;

	save_file(s);
	save_row(s);
}

static void on_told(struct link_answer *a, void *ctx)
{
	(void)a; /* it lets its descriptors go, or it is gone: nothing depends on the answer */
	(void)ctx;
}

/* The console daemon may let go of what it holds. */
static void tell_kept(struct console *c)
{
	Wire__ConsoleKept kept = WIRE__CONSOLE_KEPT__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;
	struct sandbox *s = c->sandbox;

	if (!s->link || !c->hosted)
		return;
	kept.name = c->name;
	kept.incarnation = c->info->incarnation;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_KEPT;
	q.kept = &kept;
	if (link_call(s->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_DONE, 0, on_told, NULL) == 0)
		c->told_incarnation = c->info->incarnation;
}

static void note_save(struct console *c, const struct save *s)
{
	c->filed = s->filed;
	if (s->filed) {
		c->file_incarnation = s->entry.incarnation;
		c->file_state = s->entry.state;
		c->file_tail = s->entry.tail;
		c->file_at_ms = s->entry.written_at_ms;
	}
	if (s->row_err == 0) {
		c->row_incarnation = s->info->incarnation;
		c->row_state = s->info->state;
	}
	if (c->info->incarnation != s->info->incarnation || c->info->state != s->info->state)
		return; /* it has moved on meanwhile, and that is to be saved too */
	if (c->info->state == CONSOLE_LOST) {
		c->info->head_offset = s->info->head_offset;
		c->info->tail_offset = s->info->tail_offset;
	}
	if (console_to_be_told(c))
		tell_kept(c);
	if (!c->hosted && !console_needs_file(c))
		console_close_memory(c);
}

static void log_save(const struct save *s)
{
	const char *label = sandbox_label(s->j.sandbox);

	if (s->file_err < 0)
		log_error(label, s->j.console, "its output is not kept: %s", strerror(-s->file_err));
	if (s->row_err < 0)
		log_error(label, s->j.console, "the ledger does not take it: %s", strerror(-s->row_err));
}

static void save_done(void *arg)
{
	struct save *s = arg;
	struct sandbox *sandbox = s->j.sandbox;
	struct console *c = console_find(sandbox, s->j.console);

	log_save(s);
	if (s->row_err == -ESTALE)
		ringsided_lease_lost(sandbox->daemon);
	if (c) {
		enum keep_what want = c->want;
		c->saving = false;
		c->want = KEEP_NOTHING;
		if (!c->dropped)
			note_save(c, s);
		if (want != KEEP_NOTHING)
			keep_console(c, want);
		/* Also when the disk is full: a console that runs is not to be called a failure for that. */
		if (!c->saving || c->info->incarnation == s->info->incarnation)
			wait_answer_all(&c->recorded, RESULT_OK, NULL);
	}
	fd_close(&s->fds[0]);
	fd_close(&s->fds[1]);
	wire__console_info__free_unpacked(s->info, NULL);
	sandbox_unref(sandbox);
}

static int add_save(struct console *c, enum keep_what what)
{
	struct save s = { .what = what, .fds = { -1, -1 } };
	int r = 0;

	console_refresh(c);
	s.info = info_copy(c->info);
	if (!s.info)
		return -ENOMEM;
	if (what == KEEP_FILE && c->ring_fd >= 0) {
		s.fds[0] = fd_dup_cloexec(c->ring_fd);
		s.fds[1] = s.fds[0] < 0 ? s.fds[0] : fd_dup_cloexec(c->marks_fd);
		r = s.fds[1] < 0 ? s.fds[1] : 0;
	}
	s.j = subject_of(c->sandbox, c->name);
	if (r == 0)
		r = lane_add(c->sandbox->disk, save_work, save_done, &s, sizeof(s));
	if (r == 0)
		return 0;
	if (s.fds[0] >= 0)
		fd_close(&s.fds[0]);
	if (s.fds[1] >= 0)
		fd_close(&s.fds[1]);
	wire__console_info__free_unpacked(s.info, NULL);
	sandbox_unref(c->sandbox);
	return r;
}

void keep_console(struct console *c, enum keep_what what)
{
	bool same = c->saving_incarnation == c->info->incarnation && c->saving_state == c->info->state;

	if (c->dropped || c->sandbox->closing)
		return; /* all that is kept of it is about to go */
	if (c->saving) {
		if (what > c->want && !(same && what == KEEP_ROW))
			c->want = what;
		return;
	}
	int r = add_save(c, what);
	if (r < 0) {
		/* The next look at what has changed tries again. */
		ringsided_watch_rings(c->sandbox->daemon);
		log_error(sandbox_label(c->sandbox), c->name, "cannot be kept now: %s", strerror(-r));
		wait_answer_all(&c->recorded, RESULT_OK, NULL);
		return;
	}
	c->saving = true;
	c->saving_incarnation = c->info->incarnation;
	c->saving_state = c->info->state;
	ringsided_watch_rings(c->sandbox->daemon);
}

void keep_when_recorded(struct console *c, struct wait *w)
{
	if (c->row_incarnation == c->info->incarnation || !c->saving)
		w->done(w, RESULT_OK, NULL);
	else
		wait_add(&c->recorded, w);
}

static bool has_changed(const struct console *c)
{
	if (c->dropped || c->saving)
		return false;
	if (!console_running(c))
		return console_needs_file(c);
	if (!c->ring)
		return false;
	return !c->filed || c->file_incarnation != c->info->incarnation || c->file_tail != ring_tail(c->ring);
}

void keep_changed(struct sandbox *s)
{
	for (struct console *c = s->consoles; c; c = c->next) {
		if (has_changed(c))
			keep_console(c, KEEP_FILE);
		else if (console_needs_row(c) && !c->saving)
			keep_console(c, KEEP_ROW);
		else if (console_to_be_told(c))
			tell_kept(c);
		else if (console_wants_memory(c) && c->asked++ < KEEP_MAX_ASKS)
			hosting_missed(s);
	}
}

/* ---- Dropping ---- */

struct drop {
	struct subject j;
	bool row_too;
	uint32_t incarnation, state;
	uint64_t tail;
	int err;
};

static void drop_work(void *arg)
{
	struct drop *d = arg;
	const struct calls_env *env = d->j.env;
	char dir[PATH_MAX];
	struct custody_place place;

	d->err = subject_place(&d->j, dir, &place);
	if (d->err == 0)
		d->err = custody_drop(&place);
	struct ledger_console row = {
		.sandbox_id = d->j.sandbox_id,
		.name = d->j.console,
		.incarnation = d->incarnation,
		.state = d->state,
		.tail_offset = d->tail,
	};
	int r = d->row_too ? ledger_drop_console(env->ledger, env->epoch, row.sandbox_id, row.name)
	                   : ledger_put_console(env->ledger, env->epoch, &row);
	if (d->err == 0 && r != -ENOENT)
		d->err = r;
}

static void drop_done(void *arg)
{
	struct drop *d = arg;

	if (d->err < 0)
		log_error(sandbox_label(d->j.sandbox), d->j.console, "what was kept of it is not removed: %s",
		        strerror(-d->err));
	if (d->err == -ESTALE)
		ringsided_lease_lost(d->j.sandbox->daemon);
	sandbox_unref(d->j.sandbox);
}

void keep_drop(struct console *c, bool row_too)
{
	struct drop d = {
		.j = subject_of(c->sandbox, c->name),
		.row_too = row_too,
		.incarnation = c->info->incarnation,
		.state = c->info->state,
		.tail = c->info->tail_offset,
	};

	c->filed = false;
	if (lane_add(c->sandbox->disk, drop_work, drop_done, &d, sizeof(d)) < 0) {
		/* A file that nobody asks for any more; it goes with the sandbox. */
		log_error(sandbox_label(c->sandbox), c->name, "what was kept of it is not removed: too much to do");
		sandbox_unref(c->sandbox);
	}
}

/* ---- Reading ---- */

struct fetch {
	struct subject j;
	struct kept_output kept;
	keep_read_fn *done;
	void *ctx;
};

static void fetch_work(void *arg)
{
	struct fetch *f = arg;
	char dir[PATH_MAX];
	struct custody_place place;

	f->kept.err = subject_place(&f->j, dir, &place);
	if (f->kept.err == 0)
		f->kept.err = custody_read(&place, &f->kept.entry, &f->kept.fds[0], &f->kept.fds[1]);
}

static void fetch_done(void *arg)
{
	struct fetch *f = arg;

	if (f->kept.err < 0 && f->kept.err != -ENOENT)
		log_error(sandbox_label(f->j.sandbox), f->j.console, "what was kept of it cannot be read: %s",
		        strerror(-f->kept.err));
	f->done(&f->kept, f->ctx);
	fd_close(&f->kept.fds[0]);
	fd_close(&f->kept.fds[1]);
	sandbox_unref(f->j.sandbox);
}

int keep_read(struct sandbox *s, const char *name, keep_read_fn *done, void *ctx)
{
	struct fetch f = { .j = subject_of(s, name), .kept = { .fds = { -1, -1 } }, .done = done, .ctx = ctx };

	int r = lane_add(s->disk, fetch_work, fetch_done, &f, sizeof(f));
	if (r < 0)
		sandbox_unref(s);
	return r;
}
