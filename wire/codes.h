/*
 * codes.h - result codes, states and mark kinds: enums and names made from codes.def, the one list.
 *
 * A function of the edges (adapter contract, wire, front ends) returns enum result; inside, functions return 0 or a
 * negative errno and the place that decides translates once.
 */
#ifndef WIRE_CODES_H
#define WIRE_CODES_H

#include <stdbool.h>

enum result {
#define RESULT(name, number, text, status, meaning) RESULT_##name = number,
#include "wire/codes.def"
};

enum console_state {
#define CONSOLE_STATE(name, number, text, meaning) CONSOLE_##name = number,
#include "wire/codes.def"
};

enum sandbox_state {
#define SANDBOX_STATE(name, number, text, meaning) SANDBOX_##name = number,
#include "wire/codes.def"
};

enum mark_kind {
#define MARK_KIND(name, number, text, meaning) MARK_##name = number,
#include "wire/codes.def"
};

/* The stable name of a code; numbers that no list has (a newer peer's) give "internal" or "UNKNOWN", never NULL. */
const char *result_name(unsigned code);
const char *result_meaning(unsigned code);
int result_exit_status(unsigned code);
const char *console_state_name(unsigned state);
const char *sandbox_state_name(unsigned state);
const char *mark_kind_name(unsigned kind);

/* The code that an errno of a start, file or socket call stands for: ENOENT → not_found, EMFILE → resource_limit, … */
enum result result_from_errno(int err);

#endif
