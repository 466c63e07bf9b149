/*
 * followers.h - who wants to hear of one console: of new output once, of its size, of its end.
 *
 * A follower that is level says so with an offset, and is told once when the tail is past it; those that are behind and
 * busy reading cost nothing, however many they are. Following changes nothing about the console itself.
 *
 * Ownership  A follower is embedded in its owner, who takes it out before it goes. A callback may take its own one out.
 */
#ifndef CONSOLES_FOLLOWERS_H
#define CONSOLES_FOLLOWERS_H

#include <stdbool.h>
#include <stdint.h>

struct follower;
struct followers;
typedef struct Wire__ConsoleInfo Wire__ConsoleInfo;

struct follower_ops {
	void (*on_tail)(struct follower *f, uint64_t tail);
	void (*on_size)(struct follower *f, uint16_t cols, uint16_t rows);
	/* The last byte is in the ring. The follower is out of the set already. */
	void (*on_end)(struct follower *f, const Wire__ConsoleInfo *info);
};

struct follower {
	const struct follower_ops *ops;
	bool attached;       /* a person's terminal: keeps the console from being idle, takes part in its size */
	uint16_t cols, rows; /* its own size; 0: not known */

	/* The set's own: */
	struct followers *set; /* NULL: in none */
	struct follower *next, **at;
	struct follower *next_armed, **at_armed; /* at_armed NULL: not armed */
	uint64_t level;
};

struct followers {
	struct follower *all, *armed;
	unsigned count, attached;
};

void followers_add(struct followers *s, struct follower *f);
void followers_del(struct follower *f); /* nothing for one that is in no set */

/* f has everything before `level`. It is told now, or with the first followers_tail() past that. */
void followers_level(struct follower *f, uint64_t level, uint64_t tail);

void followers_tail(struct followers *s, uint64_t tail);
void followers_size(struct followers *s, uint16_t cols, uint16_t rows);
void followers_end(struct followers *s, const Wire__ConsoleInfo *info);

#endif
