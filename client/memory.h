/*
 * memory.h - one object made of many pieces, freed as one.
 *
 * The object handed to callers is the first piece; strings and arrays inside it are further pieces of the same memory.
 * So a caller needs one call to give back a list of structs of strings, and no error path here has to take half an
 * object apart.
 */
#ifndef CLIENT_MEMORY_H
#define CLIENT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct memory;

/* A new object of `size` zeroed bytes (aligned for anything). NULL: out of memory. */
struct memory *memory_new(size_t size);
void *memory_object(struct memory *m);               /* the first piece */
struct memory *memory_of_object(const void *object); /* and back */
void memory_free(struct memory *m);                  /* accepts NULL */

/* Further pieces, zeroed; NULL: out of memory, or count × size overflows. A count of 0 gives a piece all the same. */
void *memory_array(struct memory *m, size_t count, size_t size);
/* A copy with a NUL added. bytes may be NULL when n is 0. */
char *memory_bytes(struct memory *m, const void *bytes, size_t n);
char *memory_string(struct memory *m, const char *s); /* NULL gives "" */
/* Frees `allocated` (from malloc) with it. false: out of memory, and it stays the caller's. */
bool memory_adopt(struct memory *m, void *allocated);

#endif
