/*
 * shed.h - what a forked process that never allocates gives back: its copies of the parent's heap and of unused stack.
 *
 * A fork copies nothing until one of the two writes; but then the other is left alone with the old page. So a keeper
 * would come to hold, for as long as it lives, most of what the console daemon's heap was at its fork: 64 KiB with a few
 * consoles, ten times that with hundreds of busy ones.
 */
#ifndef CONSOLES_SHED_H
#define CONSOLES_SHED_H

/* Only for a process that uses nothing on the heap any more, and never returns to its caller's caller's locals there.
 * Where the heap cannot be told from other memory (a program that is not static) it stays. Never fails. */
void shed_memory(void);

#endif
