/* test_shed.c - what a process gives back, and that what it still needs is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "consoles/shed.h"

#define DEEP ((size_t)160 * 1024)
#define KEPT ((size_t)32 * 1024)

/* KiB of the stack that are in memory. */
static long stack_kib(void)
{
	char line[512];
	long kib = -1;
	int in_stack = 0;
	FILE *f = fopen("/proc/self/smaps", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (strchr(line, '-') && strspn(line, "0123456789abcdef") > 0)
			in_stack = strstr(line, "[stack]") != NULL;
		else if (in_stack && sscanf(line, "Rss: %ld kB", &kib) == 1)
			break;
	}
	if (f)
		fclose(f);
	return kib;
}

__attribute__((noinline)) static void go_deep(void)
{
	volatile char frame[DEEP];

	for (size_t i = 0; i < DEEP; i += 1024)
		frame[i] = 1;
	assert_true(frame[0] == 1);
}

/* Run in a child; its exit status says which of its promises was broken. */
static int child(void)
{
	volatile char frame[KEPT];
	char *heap = malloc(KEPT);
	long before;

	if (!heap)
		return 1;
	memset(heap, 'h', KEPT);
	for (size_t i = 0; i < KEPT; i++)
		frame[i] = (char)i;
	go_deep();
	before = stack_kib();
	shed_memory();
	if (before < (long)(DEEP / 1024) || stack_kib() > before - 100)
		return 2;
	for (size_t i = 0; i < KEPT; i++)
		if (frame[i] != (char)i)
			return 3;
	for (size_t i = 0; i < KEPT; i++)
		if (heap[i] != 'h')
			return 4;
	free(heap);
	go_deep();
	return 0;
}

/* This program is not static, so its heap is one that cannot be told from other memory. */
static void unused_stack_goes_and_frames_and_a_heap_that_cannot_be_told_stay(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unused_stack_goes_and_frames_and_a_heap_that_cannot_be_told_stay),
	};
	return cmocka_run_group_tests_name("shed", tests, NULL, NULL);
}
