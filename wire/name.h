/*
 * name.h - what names may look like. Names end up in paths, messages and prompts, so the alphabet is small.
 *
 * Sandboxes and consoles: 1 to 64 of [A-Za-z0-9._-], not starting with '.' or '-'. Environment variables:
 * [A-Za-z_][A-Za-z0-9_]*; those starting with "_t" or "__t_" are kept for the wrapper in the sandbox.
 */
#ifndef WIRE_NAME_H
#define WIRE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define NAME_MAX_BYTES 64 /* without the NUL */

bool name_valid(const char *name);
bool env_name_valid(const char *name); /* for an exec: reserved ones are refused */
bool label_key_valid(const char *key); /* 1 to 63 of [A-Za-z0-9._/-], starting with a letter or digit */

#endif
