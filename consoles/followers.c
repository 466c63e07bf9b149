/* followers.c - two intrusive lists: everybody, and those who wait for output. */
#include "consoles/followers.h"

#include <stddef.h>

static void disarm(struct follower *f)
{
	if (!f->at_armed)
		return;
	*f->at_armed = f->next_armed;
	if (f->next_armed)
		f->next_armed->at_armed = f->at_armed;
	f->at_armed = NULL;
	f->next_armed = NULL;
}

static void arm(struct follower *f)
{
	struct followers *s = f->set;

	if (f->at_armed)
		return;
	f->next_armed = s->armed;
	if (s->armed)
		s->armed->at_armed = &f->next_armed;
	s->armed = f;
	f->at_armed = &s->armed;
}

void followers_add(struct followers *s, struct follower *f)
{
	f->set = s;
	f->next = s->all;
	if (s->all)
		s->all->at = &f->next;
	s->all = f;
	f->at = &s->all;
	f->at_armed = NULL;
	f->next_armed = NULL;
	s->count++;
	s->attached += f->attached;
}

void followers_del(struct follower *f)
{
	struct followers *s = f->set;

	if (!s)
		return;
	disarm(f);
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	f->next = NULL;
	f->at = NULL;
	f->set = NULL;
	s->count--;
	s->attached -= f->attached;
}

void followers_level(struct follower *f, uint64_t level, uint64_t tail)
{
	f->level = level;
	if (tail > level) {
		disarm(f);
		f->ops->on_tail(f, tail);
	} else if (f->set) {
		arm(f);
	}
}

void followers_tail(struct followers *s, uint64_t tail)
{
	struct follower *next;

	for (struct follower *f = s->armed; f; f = next) {
		next = f->next_armed;
		if (tail <= f->level)
			continue;
		disarm(f);
		f->ops->on_tail(f, tail);
	}
}

void followers_size(struct followers *s, uint16_t cols, uint16_t rows)
{
	struct follower *next;

	for (struct follower *f = s->all; f; f = next) {
		next = f->next;
		f->ops->on_size(f, cols, rows);
	}
}

void followers_end(struct followers *s, const Wire__ConsoleInfo *info)
{
	while (s->all) {
		struct follower *f = s->all;

		followers_del(f);
		f->ops->on_end(f, info);
	}
}
