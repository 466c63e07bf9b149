/*
 * steps.c - the steps of scenarios, by the command line.
 */
#include "tests/support/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ARGS 64

void step_create(struct home *h, const char *box)
{
	ran_ok(ringside(h, "create", "--name", box, NULL));
}

const char *step_directory(struct home *h, const char *box)
{
	return json_text(ran_json(h, ran_ok(ringside(h, "show", "--json", box, NULL))), "directory");
}

/* ringside COMMAND --json CONSOLE and the arguments of the call. */
static json_t *json_command(struct home *h, const char *command, const char *console, va_list ap)
{
	const char *argv[MAX_ARGS] = { "ringside", command, "--json", console };
	int n = 4;

	while ((argv[n] = va_arg(ap, const char *)))
		assert_true(++n < MAX_ARGS);
	return ran_json(h, ran_ok(run_program(h, argv, NULL, 0, 2 * DEADLINE_MS)));
}

json_t *step_start(struct home *h, const char *console, ...)
{
	va_list ap;

	va_start(ap, console);
	json_t *j = json_command(h, "start", console, ap);
	va_end(ap);
	return j;
}

json_t *step_read(struct home *h, const char *console, ...)
{
	va_list ap;

	va_start(ap, console);
	json_t *j = json_command(h, "read", console, ap);
	va_end(ap);
	return j;
}

void step_shell(struct home *h, const char *console)
{
	json_t *j = step_start(h, console, "--observe", "0", STEP_SHELL, NULL);

	step_until(h, console, json_number(j, "head_offset"), "\\$ $", NULL);
}

uint64_t step_write(struct home *h, const char *console, const char *text)
{
	struct ran *r = ran_ok(ringside(h, "write", "--json", console, "--", text, NULL));

	return json_number(ran_json(h, r), "tail_offset");
}

uint64_t step_line(struct home *h, const char *console, const char *text)
{
	struct ran *r = ran_ok(ringside(h, "write", "--json", console, "--enter", "--", text, NULL));

	return json_number(ran_json(h, r), "tail_offset");
}

char *step_until(struct home *h, const char *console, uint64_t from, const char *pattern, uint64_t *next)
{
	const char *at = home_format(h, "%llu", (unsigned long long)from);
	json_t *j = step_read(h, console, "--from", at, "--wait", "50s", "--until", pattern, NULL);

	assert_string_equal(json_text(j, "reason"), "match");
	if (next)
		*next = json_number(j, "next_offset");
	return json_bytes(h, j, "data_base64", NULL);
}

json_t *step_until_exit(struct home *h, const char *console, uint64_t from, char **data, size_t *n)
{
	const char *at = home_format(h, "%llu", (unsigned long long)from);
	json_t *j = step_read(h, console, "--from", at, "--wait", "100s", "--until-exit", "--max", "64M", NULL);

	assert_string_equal(json_text(j, "reason"), "exit");
	if (data)
		*data = json_bytes(h, j, "data_base64", n);
	return j;
}

json_t *step_ps(struct home *h, const char *console)
{
	const char *slash = strchr(console, '/');
	size_t i;
	json_t *row;

	assert_non_null(slash);
	const char *box = home_format(h, "%.*s", (int)(slash - console), console);
	json_t *list = ran_json(h, ran_ok(ringside(h, "ps", "--json", box, NULL)));
	assert_true(json_is_array(list));
	json_array_foreach(list, i, row)
	{
		if (strcmp(json_text(row, "console"), slash + 1) == 0)
			return row;
	}
	fail_msg("ps does not list %s", console);
	return NULL;
}

bool step_state_is(struct home *h, const char *console, const char *state)
{
	return strcmp(json_text(step_ps(h, console), "state"), state) == 0;
}

char *step_command(struct home *h, const char *console, const char *command)
{
	static unsigned count;
	unsigned mark = ++count;

	/* The end is known by a text that the echo of the line does not hold. */
	const char *line = home_format(h, "%s; echo END-$((%u+0))-$?.", command, mark);
	uint64_t from = step_line(h, console, line);
	char *out = step_until(h, console, from, home_format(h, "END-%u-[0-9]+\\.", mark), NULL);
	char *echo_end = strchr(out, '\n');
	assert_non_null(echo_end);
	*strstr(echo_end, home_format(h, "END-%u-", mark)) = '\0';
	return echo_end + 1;
}

#define MAX_PROCESSES 4096

size_t step_count(struct home *h, const char *line)
{
	static pid_t pids[MAX_PROCESSES];
	char buf[512];
	size_t n = guard_descendants(pids, MAX_PROCESSES), found = 0;

	(void)h;
	for (size_t i = 0; i < n; i++)
		found += strcmp(process_line(pids[i], buf, sizeof(buf)), line) == 0;
	return found;
}

size_t step_count_program(struct home *h, const char *name)
{
	static pid_t pids[MAX_PROCESSES];
	char exe[4096];
	size_t n = guard_descendants(pids, MAX_PROCESSES), found = 0;

	for (size_t i = 0; i < n; i++) {
		ssize_t len = readlink(home_format(h, "/proc/%d/exe", pids[i]), exe, sizeof(exe) - 1);
		exe[len > 0 ? len : 0] = '\0';
		const char *slash = strrchr(exe, '/');
		found += slash && strcmp(slash + 1, name) == 0;
	}
	return found;
}

/* Field 8 of the program's stat is the foreground group of its terminal. */
const char *step_foreground(struct home *h, const char *console)
{
	pid_t pid = (pid_t)json_number(step_ps(h, console), "pid"), group = 0;
	char *line = home_hold(h, malloc(512));
	char *stat = read_file(h, home_format(h, "/proc/%d/stat", pid), NULL);
	char *after = stat ? strrchr(stat, ')') : NULL;

	if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %d", &group) != 1)
		return "";
	return process_line(group, line, 512);
}
