/*
 * console.h - one console as the control daemon knows it: what it is, its memory, and what of it is kept on disk.
 *
 * Known from the ledger (a former daemon's), or from the console daemon. A RUNNING or EXITED console that the console
 * daemon has is `hosted`; its ring and marks are held here as descriptors from its first moment, so that they outlive
 * the console daemon. Of others custody's file is what is left. A name that was dropped (more than the 32 ended ones
 * that are kept) is remembered for one thing: where its offsets and incarnations go on.
 *
 * Loop thread only. A pointer to one is good for the turn of the loop at most; find it again by name.
 */
#ifndef SANDBOXES_CONSOLE_H
#define SANDBOXES_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sandboxes/sandbox.h"
#include "wire/name.h"
#include "wire/wire.h"

#define CONSOLE_MAX_ENDED   32   /* readable ones of a sandbox; the oldest go first */
#define CONSOLE_MAX_KNOWN   1024 /* names of a sandbox, dropped ones included; the oldest dropped one is forgotten */
#define CONSOLE_OFFSET_STEP ((uint64_t)1 << 40) /* a lost console's next incarnation begins at a multiple of this */

struct ring;

/* What a save writes; each includes those before. */
enum keep_what { KEEP_NOTHING, KEEP_ROW, KEEP_FILE };

struct console {
	struct console *next;
	struct sandbox *sandbox;
	char name[NAME_MAX_BYTES + 1];
	Wire__ConsoleInfo *info; /* as last heard; of a dropped one: name, incarnation, tail */
	bool hosted;
	bool dropped;
	bool listed;               /* while a link asks what there is */
	unsigned asked;            /* how often its memory was asked for beside that */
	uint32_t told_incarnation; /* the console daemon has heard that this one is kept; 0: none */

	int ring_fd, marks_fd; /* -1: not held */
	struct ring *ring;     /* mapped while RUNNING */

	/* What is on disk, see keeping.h */
	bool saving; /* one is in hand, of this: */
	uint32_t saving_incarnation, saving_state;
	enum keep_what want;                 /* to be done after it */
	uint32_t row_incarnation, row_state; /* of the ledger's row */
	bool filed;                          /* custody has a file that holds something of it */
	uint32_t file_incarnation, file_state;
	uint64_t file_tail, file_at_ms; /* where that reaches, and since when */
	uint64_t high;                  /* no offset from here on was ever told to a reader, as far as is known */
	struct wait_list recorded;
};

struct console *console_find(struct sandbox *s, const char *name); /* dropped ones too; NULL */
/* Takes info over. NULL: no memory, or too many names; info is freed. */
struct console *console_add(struct sandbox *s, Wire__ConsoleInfo *info);
void console_del(struct console *c);
void console_free_all(struct sandbox *s);

bool console_readable(const struct console *c); /* not dropped */
bool console_running(const struct console *c);
bool console_needs_file(const struct console *c);   /* it has ended, and what its memory holds is not on disk */
bool console_needs_row(const struct console *c);    /* the ledger does not have it as it is */
bool console_wants_memory(const struct console *c); /* its console daemon should hand it over, and has not yet */
bool console_to_be_told(const struct console *c);   /* its console daemon does not know yet that it is kept */
unsigned console_count_running(const struct sandbox *s);

/*
 * The console daemon has it like this now. Takes the descriptors (fds[i] is -1 afterwards) where they are news: they
 * are mapped and checked, and refused when they are not a ring and its marks. A new incarnation or state is kept on
 * disk. NULL: not taken in.
 */
struct console *console_update(struct sandbox *s, const Wire__ConsoleInfo *info, int fds[2]);

/* Brings head and tail of a RUNNING one up to what its ring says at this moment. */
void console_refresh(struct console *c);

/* What hosted it is gone. A RUNNING one becomes LOST and is kept as it is now; an ended one lives on in its file. */
void console_unhost(struct console *c, const char *reason);

/* The console daemon, or the bound, has dropped an ended one. false: it stays for now, for want of memory. */
bool console_drop(struct console *c);
void console_trim(struct sandbox *s); /* drops the oldest ended ones past CONSOLE_MAX_ENDED */

/* Where the next incarnation begins, when the console daemon does not know the name: fills both fields in, or sets them
 * to 0. */
void console_next_start(const struct console *c, uint64_t *start_offset, uint32_t *incarnation);

void console_close_memory(struct console *c);

/* A copy of its own; NULL: memory. */
Wire__ConsoleInfo *info_copy(const Wire__ConsoleInfo *info);
/* Replaces a string of an unpacked message. -ENOMEM: it stays. */
int info_set(char **field, const char *value);

#endif
