/* cmd_control.c - resize, signal, close: what is done to a console from outside. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/show.h"

/* Both answer with the console as it is then. */
static int show_console(
        const struct invocation *inv, int code, struct ringside_console_info *c, const struct ringside_error *err)
{
	if (code)
		return report_error(inv, err);
	int status = inv->json ? json_print(json_console(c)) : 0;
	ringside_free(c);
	return status;
}

/* ---- resize ---- */

struct resize_options {
	struct number cols, rows;
};

static const struct option_spec resize_table[] = {
	{ .name = "cols",
	        .kind = OPTION_NUMBER,
	        .at = offsetof(struct resize_options, cols),
	        .max = RINGSIDE_MAX_COLS,
	        .value = "N",
	        .help = "columns" },
	{ .name = "rows",
	        .kind = OPTION_NUMBER,
	        .at = offsetof(struct resize_options, rows),
	        .max = RINGSIDE_MAX_ROWS,
	        .value = "N",
	        .help = "lines" },
	{ 0 },
};

static int run_resize(struct invocation *inv, const void *options)
{
	const struct resize_options *o = options;
	int status;
	struct target t;
	struct ringside *rs;
	struct ringside_console_info *c = NULL;
	struct ringside_error err;
	if (!take_words(inv, 1, 1, &status) || !take_console(inv, inv->words.plain[0], &t, &status))
		return status;
	if (!o->cols.given || !o->rows.given || o->cols.value < RINGSIDE_MIN_COLS || o->rows.value < RINGSIDE_MIN_ROWS)
		return report_usage(inv, "resize takes --cols and --rows, %dx%d to %dx%d", RINGSIDE_MIN_COLS,
		        RINGSIDE_MIN_ROWS, RINGSIDE_MAX_COLS, RINGSIDE_MAX_ROWS);
	if (!take_daemon(inv, &rs, &status))
		return status;
	int code =
	        ringside_resize(rs, t.sandbox, t.console, (uint32_t)o->cols.value, (uint32_t)o->rows.value, &c, &err);
	status = show_console(inv, code, c, &err);
	ringside_close(rs);
	return status;
}

/* ---- signal ---- */

static int run_signal(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	struct target t;
	struct ringside *rs;
	struct ringside_console_info *c = NULL;
	struct ringside_error err;
	if (!take_words(inv, 2, 2, &status) || !take_console(inv, inv->words.plain[0], &t, &status))
		return status;
	int sig = ringside_signal_number(inv->words.plain[1]);
	if (!sig) {
		char shown[96];
		const char *word = inv->words.plain[1];
		return report_usage(inv, "not a signal: a name like INT or SIGINT, or a number, is wanted: not %s",
		        ringside_escape(shown, sizeof(shown), word, strlen(word)));
	}
	if (!take_daemon(inv, &rs, &status))
		return status;
	int code = ringside_signal(rs, t.sandbox, t.console, sig, &c, &err);
	status = show_console(inv, code, c, &err);
	ringside_close(rs);
	return status;
}

/* ---- close ---- */

struct close_options {
	struct number grace;
};

static const struct option_spec close_table[] = {
	{ .name = "grace",
	        .kind = OPTION_DURATION,
	        .at = offsetof(struct close_options, grace),
	        .value = "DUR",
	        .help = "from the hang-up to SIGKILL (3s)" },
	{ 0 },
};

static int close_json(const struct ringside_closed *r)
{
	json_t *steps = json_array();
	for (size_t i = 0; i < r->nsteps; i++) {
		json_t *s = json_object();
		json_object_set_new(s, "signal", json_text(r->steps[i].signal));
		json_object_set_new(s, "at_ms", json_u64(r->steps[i].at_ms));
		json_object_set_new(s, "left", json_u64(r->steps[i].left));
		json_array_append_new(steps, s);
	}
	json_t *j = json_object();
	json_object_set_new(j, "state", json_text(ringside_console_state_name(r->state)));
	json_object_set_new(j, "exit", json_exit(&r->exit));
	json_object_set_new(j, "steps", steps);
	json_object_set_new(j, "survivors", json_processes(r->survivors, r->nsurvivors));
	if (r->unproven)
		json_object_set_new(j, "unproven", json_true());
	return json_print(j);
}

static int close_lines(const struct ringside_closed *r)
{
	char text[SHOW_TIME_BYTES], comm[64];
	printf("%s %s%s\n", ringside_console_state_name(r->state), show_exit(text, &r->exit),
	        r->unproven ? " (its keeper died: its processes were ended by search, not proven gone)" : "");
	for (size_t i = 0; i < r->nsteps; i++)
		printf("  %-8s after %llu ms, to %u\n",
		        ringside_escape(comm, sizeof(comm), r->steps[i].signal, strlen(r->steps[i].signal)),
		        (unsigned long long)r->steps[i].at_ms, r->steps[i].left);
	for (size_t i = 0; i < r->nsurvivors; i++)
		printf("  survivor pid %u %s\n", r->survivors[i].pid,
		        ringside_escape(comm, sizeof(comm), r->survivors[i].comm, strlen(r->survivors[i].comm)));
	return finish_output();
}

static int run_close(struct invocation *inv, const void *options)
{
	const struct close_options *o = options;
	int status;
	struct target t;
	struct ringside *rs;
	struct ringside_closed *r;
	struct ringside_error err;
	if (!take_words(inv, 1, 1, &status) || !take_console(inv, inv->words.plain[0], &t, &status) ||
	        !take_daemon(inv, &rs, &status))
		return status;
	uint64_t grace = o->grace.given ? o->grace.value : RINGSIDE_DEFAULT_GRACE;
	if (ringside_console_end(rs, t.sandbox, t.console, grace, &r, &err)) {
		status = report_error(inv, &err);
	} else {
		status = inv->json ? close_json(r) : close_lines(r);
		if (r->nsurvivors)
			status = EXIT_FAILED;
		ringside_free(r);
	}
	ringside_close(rs);
	return status;
}

const struct command command_resize = {
	.name = "resize",
	.arguments = "[BOX/]NAME --cols N --rows N",
	.summary = "set a console's size",
	.options = resize_table,
	.options_size = sizeof(struct resize_options),
	.run = run_resize,
};

const struct command command_signal = {
	.name = "signal",
	.arguments = "[BOX/]NAME SIGNAL",
	.summary = "send a signal to what is in a console's foreground",
	.run = run_signal,
};

const struct command command_close = {
	.name = "close",
	.arguments = "[BOX/]NAME [--grace DUR]",
	.summary = "end a console and everything it started; prints a receipt",
	.notes = "Status 1 when the kernel holds processes that even SIGKILL did not end.",
	.options = close_table,
	.options_size = sizeof(struct close_options),
	.run = run_close,
};
