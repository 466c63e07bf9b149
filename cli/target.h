/*
 * target.h - what a command is about: BOX, BOX/NAME or NAME alone, which is a console of the sandbox `default`.
 */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include <stdbool.h>

#include "wire/name.h"

#define TARGET_DEFAULT "default"

struct target {
	char sandbox[NAME_MAX_BYTES + 1];
	char console[NAME_MAX_BYTES + 1]; /* "": none was named */
};

#define TARGET_WHY_BYTES 256

/* BOX/NAME, or NAME of the default sandbox. false: why says what is wrong. */
bool target_console(const char *word, struct target *out, char why[TARGET_WHY_BYTES]);
/* BOX; NULL: the default sandbox. */
bool target_sandbox(const char *word, struct target *out, char why[TARGET_WHY_BYTES]);
/* The sandbox is made when it is asked for first. */
bool target_is_default(const struct target *t);

#endif
