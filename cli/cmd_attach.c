/* cmd_attach.c - attach: a person at a console. */
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/attach.h"
#include "cli/command.h"
#include "cli/show.h"

#define LAST_WORD_MS 200

struct attach_flags {
	bool read_only, raw;
	struct number from;
};

#define AT(field) offsetof(struct attach_flags, field)
static const struct option_spec table[] = {
	{ .name = "read-only", .kind = OPTION_FLAG, .at = AT(read_only), .help = "look, but neither type nor resize" },
	{ .name = "from",
	        .kind = OPTION_NUMBER,
	        .at = AT(from),
	        .value = "N",
	        .help = "show its output from this offset on" },
	{ .name = "raw", .kind = OPTION_FLAG, .at = AT(raw), .help = "let every sequence through to the terminal" },
	{ 0 },
};

/* The last word, unless the terminal takes nothing: then leaving matters more. */
static void tell(const struct target *t, const char *what, uint64_t next_offset)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	if (poll(&p, 1, LAST_WORD_MS) <= 0)
		return;
	fprintf(stderr, "%s[%s/%s %s next_offset=%llu]\n", isatty(STDERR_FILENO) ? "\n" : "", t->sandbox, t->console,
	        what, (unsigned long long)next_offset);
}

static int finish(const struct invocation *inv, const struct target *t, const struct ringside_console *c,
        const struct attach_result *r)
{
	const struct ringside_console_info *info = ringside_console_info(c);
	char text[SHOW_TIME_BYTES], ended[SHOW_TIME_BYTES + 16];
	switch (r->end) {
	case ATTACH_DETACHED:
		tell(t, "detached", r->next_offset);
		return EXIT_DONE;
	case ATTACH_ENDED:
		snprintf(ended, sizeof(ended), "ended: %s", show_exit(text, &info->exit));
		tell(t, ended, r->next_offset);
		return ringside_exit_status(&info->exit);
	case ATTACH_GONE:
		tell(t, "lost: what hosted it is gone", r->next_offset);
		return EXIT_FAILED;
	case ATTACH_SIGNAL:
		kill(getpid(), r->signal); /* as if there had been nothing to put back */
		return 128 + r->signal;
	case ATTACH_OUTPUT:
		return report_code(inv, RINGSIDE_UNAVAILABLE, "standard output takes no more (next_offset=%llu)",
		        (unsigned long long)r->next_offset);
	case ATTACH_REFUSED:
		break;
	}
	return report_error(inv, &r->err);
}

static int run_attach(struct invocation *inv, const void *options)
{
	const struct attach_flags *o = options;
	int status;
	struct target t;
	struct ringside *rs;
	struct ringside_console *c;
	struct ringside_error err;
	if (!take_words(inv, 1, 1, &status) || !take_console(inv, inv->words.plain[0], &t, &status) ||
	        !take_daemon(inv, &rs, &status))
		return status;
	unsigned rights = RINGSIDE_ATTACH | (o->read_only ? 0u : RINGSIDE_WRITE | RINGSIDE_RESIZE);
	int code = ringside_console_open(rs, t.sandbox, t.console, rights, &c, &err);
	ringside_close(rs); /* not needed any more, whatever becomes of the daemon */
	if (code)
		return report_error(inv, &err);
	struct attach_options how = {
		.read_only = o->read_only, .raw = o->raw, .from_given = o->from.given, .from = o->from.value
	};
	struct attach_result result;
	attach_run(c, &how, &result);
	status = finish(inv, &t, c, &result);
	ringside_console_close(c);
	return status;
}

const struct command command_attach = {
	.name = "attach",
	.arguments = "[BOX/]NAME [--read-only] [--from N]",
	.summary = "sit down at a console; Ctrl-] leaves it running",
	.notes = "Where standard input is no terminal it is sent as it is, and its end detaches; with --read-only it "
	         "is not looked at.\n"
	         "The console has the size of the terminal that was last typed at.\n"
	         "Status 0 when detached, else the console's own exit (128+n for a signal), 1 when it was lost.",
	.json = "errors as one JSON object; the output is as ever",
	.options = table,
	.options_size = sizeof(struct attach_flags),
	.run = run_attach,
};
