/*
 * info.h - what can be said of one console, as plain data, and as the message that carries it.
 */
#ifndef CONSOLES_INFO_H
#define CONSOLES_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "consoles/process.h"
#include "wire/codes.h"
#include "wire/name.h"
#include "wire/wire.h"

#define INFO_ARGV_BYTES 1024 /* of a command line that infos carry */

/* Kept by a console for as long as it is known. */
struct console_facts {
	char name[NAME_MAX_BYTES + 1];
	uint32_t incarnation;
	enum console_state state;
	uint32_t pid;
	uint64_t pid_start_time;
	ProtobufCBinaryData *argv; /* of info_copy_argv() */
	size_t n_argv;
	char *cwd;
	uint16_t cols, rows;
	uint64_t started_at_ms, ended_at_ms;
	uint64_t idle_ttl_ms;
	struct process_exit exit; /* once it is EXITED */
	const char *reason;       /* a literal */

	/* Of this moment, filled in when an info is made: */
	uint64_t start_offset; /* where this incarnation begins */
	uint64_t head_offset, tail_offset, ring_bytes;
	uint64_t idle_ms;
	uint32_t clients;
};

/* A message and what it points to. Not to be copied. Strings are the facts' own: good for as long as those are. */
struct info_message {
	Wire__ConsoleInfo info;
	Wire__Exit exit;
	Wire__Process processes[KEEPER_MAX_PROCS];
	Wire__Process *list[KEEPER_MAX_PROCS];
};

void info_fill(struct info_message *m, const struct console_facts *facts);

/* Copies a command line into one piece of memory for free(3), cut after INFO_ARGV_BYTES with a last "…". NULL: no
 * memory. */
ProtobufCBinaryData *info_copy_argv(char *const *argv, size_t *n_out);

/* Processes of a keeper's report as messages. `storage` and `list` have room for KEEPER_MAX_PROCS. */
void info_fill_processes(const struct keeper_proc *procs, uint32_t n, Wire__Process *storage, Wire__Process **list);
void info_fill_exit(Wire__Exit *out, const struct process_exit *e);

#endif
