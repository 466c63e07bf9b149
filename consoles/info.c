/* info.c - facts into messages. */
#include "consoles/info.h"

#include <stdlib.h>
#include <string.h>

/* protobuf-c's strings are not const, though packing only reads them. */
static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

ProtobufCBinaryData *info_copy_argv(char *const *argv, size_t *n_out)
{
	static const char CUT[] = "…";
	size_t bytes = 0, n = 0, entries;
	ProtobufCBinaryData *list;
	char *at;

	while (argv[n] && bytes + strlen(argv[n]) + 1 <= INFO_ARGV_BYTES)
		bytes += strlen(argv[n++]) + 1;
	entries = n + (argv[n] ? 1 : 0);
	list = malloc(entries * sizeof(*list) + bytes + sizeof(CUT));
	if (!list)
		return NULL;
	at = (char *)(list + entries);
	for (size_t i = 0; i < entries; i++) {
		const char *s = i < n ? argv[i] : CUT;

		list[i] = (ProtobufCBinaryData){ .len = strlen(s), .data = (uint8_t *)at };
		at = stpcpy(at, s) + 1;
	}
	*n_out = entries;
	return list;
}

void info_fill_processes(const struct keeper_proc *procs, uint32_t n, Wire__Process *storage, Wire__Process **list)
{
	for (uint32_t i = 0; i < n; i++) {
		wire__process__init(&storage[i]);
		storage[i].pid = (uint32_t)procs[i].pid;
		storage[i].comm = text(procs[i].comm);
		list[i] = &storage[i];
	}
}

void info_fill_exit(Wire__Exit *out, const struct process_exit *e)
{
	wire__exit__init(out);
	out->code = e->code;
	out->signal = e->signal;
	if (!e->status_known) {
		out->code = 255;
		out->name = text("STATUS_UNKNOWN"); /* its keeper died before it could tell */
	}
}

void info_fill(struct info_message *m, const struct console_facts *facts)
{
	Wire__ConsoleInfo *info = &m->info;

	wire__console_info__init(info);
	info->name = text(facts->name);
	info->incarnation = facts->incarnation;
	info->state = (uint32_t)facts->state;
	info->pid = facts->pid;
	info->pid_start_time = facts->pid_start_time;
	info->argv = facts->argv;
	info->n_argv = facts->n_argv;
	info->cwd = text(facts->cwd ? facts->cwd : "");
	info->cols = facts->cols;
	info->rows = facts->rows;
	info->start_offset = facts->start_offset;
	info->head_offset = facts->head_offset;
	info->tail_offset = facts->tail_offset;
	info->ring_bytes = facts->ring_bytes;
	info->started_at_ms = facts->started_at_ms;
	info->ended_at_ms = facts->ended_at_ms;
	info->idle_ms = facts->idle_ms;
	info->idle_ttl_ms = facts->idle_ttl_ms;
	info->clients = facts->clients;
	info->reason = text(facts->reason ? facts->reason : "");
	if (facts->state != CONSOLE_EXITED)
		return;
	info_fill_exit(&m->exit, &facts->exit);
	info->exit = &m->exit;
	info_fill_processes(facts->exit.procs, facts->exit.nprocs, m->processes, m->list);
	info->leftovers = m->list;
	info->n_leftovers = facts->exit.nprocs;
}
