/*
 * exec_plan.h - what an exec request comes to: a program with everything its start needs, or the answer that it gets
 * instead.
 *
 * No process and no connection in here. Everything that the request holds is checked: it comes from outside.
 */
#ifndef CONSOLES_EXEC_PLAN_H
#define CONSOLES_EXEC_PLAN_H

#include <stdint.h>

#include "consoles/exec.h"
#include "consoles/keeper.h"
#include "wire/codes.h"

/* The exit codes that shells have for these. */
#define EXEC_EXIT_CANNOT    126
#define EXEC_EXIT_NOT_FOUND 127

/* What a request gets that starts nothing. */
struct exec_refusal {
	enum result code;   /* not OK: the result is this failure, with `text` as its message */
	uint32_t exit_code; /* code OK: the program "exits" with this, after `text` as a line on stderr */
	char text[512];
};

struct exec_plan {
	char **argv, **envp; /* NULL-terminated */
	char *cwd;           /* absolute */
	char *path;          /* of the program; NULL: refused */
	struct exec_refusal refusal;
};

/* 0, with a path or a refusal; -ENOMEM: nothing is held. */
int exec_plan_make(const Wire__ExecSpec *spec, const struct exec_defaults *defaults, struct exec_plan *out);
void exec_plan_release(struct exec_plan *p);

/* What a start that failed at `step` comes to. */
void exec_plan_failed(const struct exec_plan *p, enum keeper_step step, int error, struct exec_refusal *out);

#endif
