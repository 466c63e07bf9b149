/* shed.c - two ranges of memory, given back by madvise(2). */
#include "consoles/shed.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_MAX ((uintptr_t)8 * 1024)   /* the C library's own block of the thread, which must stay; glibc: 2.3 KiB */
#define FRAMES    ((uintptr_t)4 * 1024)   /* of this call and its red zone */
#define STACK     ((uintptr_t)256 * 1024) /* looked at below; the kernel keeps 1 MiB there free of anything else */

extern char end; /* of the program's data: end(3) */

/* Whole pages within [from, to). Parts that are not mapped are no error of ours. */
static void give_back(uintptr_t from, uintptr_t to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	from = (from + page - 1) / page * page;
	to = to / page * page;
	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void shed_memory(void)
{
	/* Not a local's address: a sanitizer may keep those elsewhere. */
	const uintptr_t stack = (uintptr_t)__builtin_frame_address(0) - FRAMES;
	const uintptr_t block = (uintptr_t)__builtin_thread_pointer(), heap_end = (uintptr_t)sbrk(0);

	give_back(stack - STACK, stack);
	/* A static program has the thread's block at the beginning of its heap, which follows its data; any other has it
	 * elsewhere, above or below, and its heap stays. */
	if (block >= (uintptr_t)&end && block < heap_end)
		give_back(block + BLOCK_MAX, heap_end);
}
