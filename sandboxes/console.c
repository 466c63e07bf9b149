/*
 * console.c - the consoles of one sandbox, as console.h has it.
 */
#include "sandboxes/console.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring/ring.h"
#include "sandboxes/hosting.h"
#include "sandboxes/keeping.h"
#include "sandboxes/link.h"
#include "wire/clock.h"
#include "wire/codes.h"
#include "wire/fd.h"
#include "wire/log.h"
#include "wire/mark.h"

/* Output that a pty gives at the most: 191 MiB/s was measured on a fast machine. What a console may have printed since
 * the last look at it, when nobody can say any more. */
#define MAX_BYTES_PER_SECOND ((uint64_t)256 * 1024 * 1024)

/* ---- Descriptions ---- */

Wire__ConsoleInfo *info_copy(const Wire__ConsoleInfo *info)
{
	size_t n = wire__console_info__get_packed_size(info);
	uint8_t *packed = malloc(n ? n : 1);

	if (!packed)
		return NULL;
	wire__console_info__pack(info, packed);
	Wire__ConsoleInfo *copy = wire__console_info__unpack(NULL, n, packed);
	free(packed);
	return copy;
}

int info_set(char **field, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	if (*field != protobuf_c_empty_string)
		free(*field);
	*field = copy;
	return 0;
}

static void info_drop_exit(Wire__ConsoleInfo *info)
{
	if (info->exit)
		wire__exit__free_unpacked(info->exit, NULL);
	info->exit = NULL;
}

/* ---- The list ---- */

struct console *console_find(struct sandbox *s, const char *name)
{
	for (struct console *c = s->consoles; c; c = c->next)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static void forget_oldest_dropped(struct sandbox *s)
{
	for (struct console *c = s->consoles; c; c = c->next) {
		if (!c->dropped)
			continue;
		keep_drop(c, true);
		console_del(c);
		return;
	}
}

struct console *console_add(struct sandbox *s, Wire__ConsoleInfo *info)
{
	if (s->nconsoles >= CONSOLE_MAX_KNOWN)
		forget_oldest_dropped(s);
	struct console *c = s->nconsoles < CONSOLE_MAX_KNOWN ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		wire__console_info__free_unpacked(info, NULL);
		return NULL;
	}
	c->sandbox = s;
	c->info = info;
	c->ring_fd = c->marks_fd = -1;
	snprintf(c->name, sizeof(c->name), "%s", info->name);
	struct console **end = &s->consoles;
	while (*end)
		end = &(*end)->next;
	*end = c;
	s->nconsoles++;
	return c;
}

void console_close_memory(struct console *c)
{
	ring_free(c->ring);
	c->ring = NULL;
	fd_close(&c->ring_fd);
	fd_close(&c->marks_fd);
}

static void console_free(struct console *c)
{
	console_close_memory(c);
	wait_answer_all(&c->recorded, RESULT_UNAVAILABLE, "the sandbox is gone");
	wire__console_info__free_unpacked(c->info, NULL);
	free(c);
}

void console_del(struct console *c)
{
	struct sandbox *s = c->sandbox;

	for (struct console **at = &s->consoles; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		*at = c->next;
		s->nconsoles--;
		console_free(c);
		return;
	}
}

void console_free_all(struct sandbox *s)
{
	while (s->consoles)
		console_del(s->consoles);
}

bool console_readable(const struct console *c)
{
	return c && !c->dropped;
}

bool console_running(const struct console *c)
{
	return c->info->state == CONSOLE_RUNNING;
}

unsigned console_count_running(const struct sandbox *s)
{
	unsigned n = 0;

	for (const struct console *c = s->consoles; c; c = c->next)
		n += console_running(c);
	return n;
}

/* ---- Its memory ---- */

/* Both are what they have to be, or neither is taken. */
static int map_memory(int fds[2], struct ring **out)
{
	struct ring *ring = NULL, *marks = NULL;

	int r = fds[0] < 0 || fds[1] < 0 ? -EBADF : ring_open(fds[0], &ring);
	if (r == 0)
		r = ring_open(fds[1], &marks);
	if (r == 0 && ring_capacity(marks) != MARK_RING_BYTES)
		r = -EPROTO;
	ring_free(marks);
	if (r < 0) {
		ring_free(ring);
		return r;
	}
	*out = ring;
	return 0;
}

static void hold_memory(struct console *c, int fds[2])
{
	struct ring *ring;

	int r = map_memory(fds, &ring);
	if (r < 0) {
		log_error(sandbox_label(c->sandbox), c->name, "its memory is refused: %s", strerror(-r));
		if (r == -ENOMEM)
			hosting_missed(c->sandbox);
		return;
	}
	console_close_memory(c);
	c->ring = ring;
	c->ring_fd = fd_take(&fds[0]);
	c->marks_fd = fd_take(&fds[1]);
}

void console_refresh(struct console *c)
{
	if (!c->ring || !console_running(c))
		return;
	/* Two loads: a head that was taken first is never past the tail. */
	c->info->head_offset = ring_head(c->ring);
	c->info->tail_offset = ring_tail(c->ring);
	c->info->ring_bytes = ring_capacity(c->ring);
	if (c->info->tail_offset > c->high)
		c->high = c->info->tail_offset;
}

static bool is_kept(const struct console *c)
{
	return c->filed && c->file_incarnation == c->info->incarnation && c->file_state == c->info->state;
}

bool console_needs_file(const struct console *c)
{
	return !c->dropped && !console_running(c) && !is_kept(c) && c->ring_fd >= 0;
}

bool console_wants_memory(const struct console *c)
{
	return c->hosted && !c->dropped && c->ring_fd < 0 && (console_running(c) || !is_kept(c));
}

bool console_needs_row(const struct console *c)
{
	return !c->dropped && (c->row_incarnation != c->info->incarnation || c->row_state != c->info->state);
}

bool console_to_be_told(const struct console *c)
{
	return c->hosted && !c->dropped && c->info->state == CONSOLE_EXITED && is_kept(c) && !console_needs_row(c) &&
	       c->told_incarnation != c->info->incarnation;
}

/* ---- What the console daemon says ---- */

static void note_state(struct console *c)
{
	const char *label = sandbox_label(c->sandbox);

	if (console_running(c))
		log_info(label, c->name, "incarnation %u is RUNNING", c->info->incarnation);
	else
		log_info(label, c->name, "incarnation %u is EXITED at offset %" PRIu64, c->info->incarnation,
		        c->info->tail_offset);
}

static struct console *find_or_add(struct sandbox *s, const Wire__ConsoleInfo *info, bool *news)
{
	struct console *c = console_find(s, info->name);

	*news = !c || c->dropped || c->info->incarnation < info->incarnation;
	if (c)
		return c;
	Wire__ConsoleInfo *copy = info_copy(info);
	return copy ? console_add(s, copy) : NULL;
}

/* A lie about the past harms nobody but its sandbox, but must not make offsets go back: late and stale news are not
 * taken. */
static bool is_stale(const struct console *c, const Wire__ConsoleInfo *info)
{
	const Wire__ConsoleInfo *had = c->info;

	if (info->incarnation != had->incarnation)
		return info->incarnation < had->incarnation;
	return had->state == CONSOLE_LOST || (had->state == CONSOLE_EXITED && info->state == CONSOLE_RUNNING);
}

struct console *console_update(struct sandbox *s, const Wire__ConsoleInfo *info, int fds[2])
{
	bool news;
	struct console *c = find_or_add(s, info, &news);

	if (!c)
		hosting_missed(s);
	if (!c || (!news && is_stale(c, info)))
		return NULL;
	bool ended = info->state == CONSOLE_EXITED && (news || console_running(c));
	Wire__ConsoleInfo *copy = info_copy(info);
	if (!copy) {
		hosting_missed(s);
		return NULL;
	}
	wire__console_info__free_unpacked(c->info, NULL);
	c->info = copy;
	if (!link_shares_pids(s->link))
		copy->pid_start_time = 0; /* a pid of another namespace: never to be looked for here */
	if (news) {
		console_close_memory(c);
		c->asked = 0;
	}
	c->dropped = false;
	c->hosted = true;
	if (c->ring_fd < 0 && fds[0] >= 0)
		hold_memory(c, fds);
	if (news || ended)
		note_state(c);
	if (console_needs_file(c))
		keep_console(c, KEEP_FILE);
	else if (console_needs_row(c))
		keep_console(c, KEEP_ROW);
	if (info->state == CONSOLE_EXITED) {
		ring_free(c->ring);
		c->ring = NULL;
		console_trim(s);
	}
	return c;
}

/* ---- Its end ---- */

void console_unhost(struct console *c, const char *reason)
{
	c->hosted = false;
	if (!console_running(c)) {
		if (!console_needs_file(c) && !c->saving)
			console_close_memory(c);
		return;
	}
	console_refresh(c);
	c->info->state = CONSOLE_LOST;
	c->info->ended_at_ms = clock_wall_ms();
	c->info->clients = 0;
	info_drop_exit(c->info);
	if (info_set(&c->info->reason, reason) < 0)
		log_error(sandbox_label(c->sandbox), c->name, "out of memory");
	log_warn(sandbox_label(c->sandbox), c->name, "incarnation %u is LOST: %s", c->info->incarnation, reason);
	keep_console(c, KEEP_FILE);
	console_trim(c->sandbox);
}

bool console_drop(struct console *c)
{
	if (c->dropped || console_running(c))
		return true;
	Wire__ConsoleInfo *left = malloc(sizeof(*left));
	if (!left)
		return false;
	wire__console_info__init(left);
	left->incarnation = c->info->incarnation;
	left->state = c->info->state;
	left->tail_offset = c->info->tail_offset;
	left->ended_at_ms = c->info->ended_at_ms;
	if (info_set(&left->name, c->name) < 0) {
		free(left);
		return false;
	}
	wire__console_info__free_unpacked(c->info, NULL);
	c->info = left;
	c->dropped = true;
	c->hosted = false;
	c->want = KEEP_NOTHING;
	console_close_memory(c);
	keep_drop(c, false);
	return true;
}

static struct console *oldest_ended(struct sandbox *s, unsigned *count)
{
	struct console *oldest = NULL;

	*count = 0;
	for (struct console *c = s->consoles; c; c = c->next) {
		if (c->dropped || console_running(c))
			continue;
		++*count;
		/* Those that the console daemon has are its own to drop: it says so. */
		if (!c->hosted && (!oldest || c->info->ended_at_ms < oldest->info->ended_at_ms))
			oldest = c;
	}
	return oldest;
}

void console_trim(struct sandbox *s)
{
	unsigned count;

	for (struct console *c = oldest_ended(s, &count); c && count > CONSOLE_MAX_ENDED; c = oldest_ended(s, &count))
		if (!console_drop(c))
			return;
}

/* ---- Going on ---- */

static uint64_t next_step(uint64_t offset)
{
	return (offset / CONSOLE_OFFSET_STEP + 1) * CONSOLE_OFFSET_STEP;
}

/* What a LOST one may have printed after its file was written: its offsets were told to readers, and must not come
 * again. */
static uint64_t unseen_bytes(const struct console *c)
{
	if (!c->filed || c->info->ended_at_ms <= c->file_at_ms)
		return 0;
	uint64_t seconds = (c->info->ended_at_ms - c->file_at_ms) / 1000;
	return seconds < UINT64_MAX / 4 / MAX_BYTES_PER_SECOND ? seconds * MAX_BYTES_PER_SECOND : 0;
}

void console_next_start(const struct console *c, uint64_t *start_offset, uint32_t *incarnation)
{
	*start_offset = 0;
	*incarnation = 0;
	if (!c || c->hosted)
		return;
	uint64_t high = c->high > c->info->tail_offset ? c->high : c->info->tail_offset;
	*incarnation = c->info->incarnation + 1;
	*start_offset = c->info->state == CONSOLE_LOST ? next_step(high + unseen_bytes(c)) : c->info->tail_offset;
}
