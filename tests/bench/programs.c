/* programs.c - a flood and an echo on standard input and output. */
#include <stdbool.h>

#include "tests/bench/programs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define LINE  64
#define BLOCK ((size_t)64 * 1024)

/* ---- The programs ---- */

static void set_terminal(bool raw_output)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t) < 0)
		bench_die("tcgetattr");
	cfmakeraw(&t);
	if (!raw_output)
		t.c_oflag |= OPOST | ONLCR;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &t) < 0)
		bench_die("tcsetattr");
}

static void put(const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t done = write(STDOUT_FILENO, bytes, n);

		if (done <= 0)
			exit(1);
		bytes += done;
		n -= (size_t)done;
	}
}

static _Noreturn void flood(bool raw, uint64_t bytes)
{
	static char block[BLOCK];
	char go;

	memset(block, 'x', sizeof(block));
	for (size_t i = LINE - 1; i < sizeof(block); i += LINE)
		block[i] = '\n';
	set_terminal(raw);
	put("R", 1);
	if (read(STDIN_FILENO, &go, 1) != 1)
		exit(1);
	for (uint64_t left = bytes; bytes == 0 || left > 0;) {
		size_t n = bytes == 0 || left > sizeof(block) ? sizeof(block) : (size_t)left;

		put(block, n);
		left -= bytes == 0 ? 0 : n;
	}
	exit(0);
}

static _Noreturn void echo(void)
{
	char buf[4096];
	ssize_t n;

	set_terminal(true);
	put("R", 1);
	while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0)
		put(buf, (size_t)n);
	exit(0);
}

void programs_run(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "program") != 0)
		return;
	if (strcmp(argv[2], "echo") == 0)
		echo();
	if (strcmp(argv[2], "flood") == 0 && argc == 5)
		flood(strcmp(argv[3], "raw") == 0, strtoull(argv[4], NULL, 10));
	bench_fail("no such program: %s", argv[2]);
}

/* ---- How to run them ---- */

static const char *self(void)
{
	static char path[4096];

	if (!*path && readlink("/proc/self/exe", path, sizeof(path) - 1) <= 0)
		bench_die("/proc/self/exe");
	return path;
}

const char *const *program_flood(bool raw, uint64_t bytes)
{
	static char number[32];
	static const char *argv[PROGRAM_ARGS];

	snprintf(number, sizeof(number), "%" PRIu64, bytes);
	memcpy(argv, (const char *[]){ self(), "program", "flood", raw ? "raw" : "cooked", number, NULL },
	        sizeof(argv));
	return argv;
}

const char *const *program_echo(void)
{
	static const char *argv[PROGRAM_ARGS];

	argv[0] = self();
	argv[1] = "program";
	argv[2] = "echo";
	return argv;
}

uint64_t flood_output(bool raw, uint64_t bytes)
{
	return raw ? bytes : bytes + bytes / LINE;
}
