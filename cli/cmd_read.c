/*
 * cmd_read.c - read: a console's output from an offset on, waiting for what it is asked to wait for.
 *
 * Bytes go to standard output as they come, and the position to standard error. With --json the answer is one object
 * and its bytes are held, so they are bounded.
 */
#include <stddef.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/show.h"
#include "cli/write_out.h"

#define JSON_MAX_DEFAULT ((uint64_t)1024 * 1024)

struct read_options {
	struct number from, tail, max, wait, until_idle;
	const char *until;
	bool until_exit, raw;
};

#define AT(field) offsetof(struct read_options, field)
static const struct option_spec table[] = {
	{ .name = "from",
	        .kind = OPTION_NUMBER,
	        .at = AT(from),
	        .value = "N",
	        .help = "begin at this offset (the oldest kept)" },
	{ .name = "tail",
	        .kind = OPTION_SIZE,
	        .at = AT(tail),
	        .value = "BYTES",
	        .help = "begin so far before the end" },
	{ .name = "max",
	        .kind = OPTION_SIZE,
	        .at = AT(max),
	        .value = "BYTES",
	        .help = "give no more than this (with --json: 1M); go on at next_offset" },
	{ .name = "wait",
	        .kind = OPTION_DURATION,
	        .at = AT(wait),
	        .value = "DUR",
	        .help = "wait so long: for any output, or for what an --until says" },
	{ .name = "until",
	        .kind = OPTION_STRING,
	        .at = AT(until),
	        .value = "REGEX",
	        .help = "wait until it matches (PCRE2); the output ends where the match ends" },
	{ .name = "until-idle",
	        .kind = OPTION_DURATION,
	        .at = AT(until_idle),
	        .value = "DUR",
	        .help = "wait until so long without output" },
	{ .name = "until-exit", .kind = OPTION_FLAG, .at = AT(until_exit), .help = "wait until the console has ended" },
	{ .name = "raw", .kind = OPTION_FLAG, .at = AT(raw), .help = "to a terminal too: every byte as it is" },
	{ 0 },
};

/* Where bytes go that are not held. */
struct stream {
	struct write_out out;
	uint64_t told_lost;
	int error;
};

/* from: where the output goes on. */
static void tell_loss(struct stream *s, uint64_t from, uint64_t lost_bytes)
{
	fprintf(stderr, "truncated from=%llu lost_bytes=%llu\n", (unsigned long long)from,
	        (unsigned long long)lost_bytes);
	s->told_lost += lost_bytes;
}

static int take_bytes(void *ctx, uint64_t offset, uint64_t lost_bytes, const void *bytes, size_t n)
{
	struct stream *s = ctx;
	if (lost_bytes) {
		s->error = write_out_end(&s->out);
		tell_loss(s, offset, lost_bytes);
	}
	if (!s->error)
		s->error = write_out_bytes(&s->out, bytes, n);
	return s->error;
}

static unsigned conditions(const struct read_options *o)
{
	unsigned until = (o->until ? RINGSIDE_UNTIL_MATCH : 0u) | (o->until_idle.given ? RINGSIDE_UNTIL_IDLE : 0u) |
	                 (o->until_exit ? RINGSIDE_UNTIL_EXIT : 0u);
	return until ? until : o->wait.given ? RINGSIDE_UNTIL_OUTPUT : 0u;
}

static uint64_t start_offset(const struct read_options *o, struct ringside_console *c)
{
	uint64_t head = ringside_console_head(c), tail = ringside_console_tail(c);
	if (o->from.given)
		return o->from.value;
	if (o->tail.given && tail - head > o->tail.value)
		return tail - o->tail.value;
	return head;
}

/* A plain wait that ran out is an answer like another; an --until that was not met is not. An end is silence for ever.
 */
static bool met(unsigned until, int reason)
{
	switch (reason) {
	case RINGSIDE_REASON_TIMEOUT:
		return (until & (RINGSIDE_UNTIL_MATCH | RINGSIDE_UNTIL_IDLE | RINGSIDE_UNTIL_EXIT)) == 0;
	case RINGSIDE_REASON_EXIT:
		return until != RINGSIDE_UNTIL_MATCH;
	default:
		return true;
	}
}

static int read_json(const struct ringside_console *c, const struct ringside_answer *a)
{
	const struct ringside_console_info *info = ringside_console_info(c);
	json_t *j = json_object();
	json_object_set_new(j, "sandbox", json_text(info->sandbox));
	json_object_set_new(j, "console", json_text(info->name));
	json_object_set_new(j, "incarnation", json_u64(info->incarnation));
	json_object_set_new(j, "state", json_text(ringside_console_state_name(a->state)));
	json_object_set_new(j, "offset", json_u64(a->offset));
	json_object_set_new(j, "next_offset", json_u64(a->next_offset));
	json_object_set_new(j, "head_offset", json_u64(a->head_offset));
	json_object_set_new(j, "tail_offset", json_u64(a->tail_offset));
	json_object_set_new(j, "truncated", json_boolean(a->lost_bytes != 0));
	json_object_set_new(j, "lost_bytes", json_u64(a->lost_bytes));
	json_object_set_new(j, "reason", json_string(ringside_reason_name(a->reason)));
	json_object_set_new(j, "exit", json_exit(&a->exit));
	if (a->reason == RINGSIDE_REASON_MATCH) {
		json_object_set_new(j, "match_offset", json_u64(a->match_offset));
		json_object_set_new(j, "match_length", json_u64(a->match_length));
	}
	json_object_set_new(j, "data_base64", json_base64(a->data, a->size));
	return json_print(j);
}

static int read_lines(struct stream *s, const struct ringside_console *c, const struct ringside_answer *a, bool was_met)
{
	uint64_t kept_until = ringside_console_kept_until(c);
	int r = write_out_end(&s->out);
	if (a->lost_bytes > s->told_lost)
		tell_loss(s, a->next_offset, a->lost_bytes - s->told_lost);
	fprintf(stderr, "next_offset=%llu\n", (unsigned long long)a->next_offset);
	if (a->state == RINGSIDE_CONSOLE_LOST && kept_until)
		fprintf(stderr, "lost kept_until=%llu\n", (unsigned long long)kept_until);
	if (!was_met)
		fprintf(stderr, "not_met reason=%s\n", ringside_reason_name(a->reason));
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int read_console(const struct invocation *inv, const struct read_options *o, struct ringside_console *c)
{
	struct stream stream = { 0 };
	struct ringside_answer *a;
	struct ringside_error err;
	unsigned until = conditions(o);
	struct ringside_read_options how = {
		.from = start_offset(o, c),
		.max = o->max.value ? o->max.value
		       : inv->json  ? JSON_MAX_DEFAULT
		                    : 0,
		.until = until,
		.pattern = o->until,
		.idle_ms = o->until_idle.value,
		.sink = inv->json ? NULL : take_bytes,
		.sink_ctx = &stream,
	};
	write_out_init(&stream.out, o->raw);
	if (ringside_read_wait(c, &how, o->wait.given ? o->wait.value : UINT64_MAX, &a, &err))
		return report_error(inv, &err);
	bool was_met = met(until, a->reason);
	int status = inv->json ? read_json(c, a) : read_lines(&stream, c, a, was_met);
	ringside_free(a);
	return status == EXIT_DONE && !was_met ? EXIT_NOT_MET : status;
}

static int run_read(struct invocation *inv, const void *options)
{
	const struct read_options *o = options;
	int status;
	struct target t;
	struct ringside *rs;
	struct ringside_console *c;
	struct ringside_error err;
	if (!take_words(inv, 1, 1, &status) || !take_console(inv, inv->words.plain[0], &t, &status))
		return status;
	/* To the library 0 is "no limit": the opposite of what was asked for. */
	if (o->max.given && o->max.value == 0)
		return report_usage(inv, "--max takes at least 1 byte; ringside ps shows the offsets alone");
	if (o->from.given && o->tail.given)
		return report_usage(inv, "--from and --tail are two answers to one question");
	if (!take_daemon(inv, &rs, &status))
		return status;
	if (ringside_console_open(rs, t.sandbox, t.console, 0, &c, &err)) {
		status = report_error(inv, &err);
	} else {
		status = read_console(inv, o, c);
		ringside_console_close(c);
	}
	ringside_close(rs);
	return status;
}

const struct command command_read = {
	.name = "read",
	.arguments = "[BOX/]NAME [options]",
	.summary = "print a console's output; its position goes to standard error",
	.notes = "Without --wait and --until… it prints what is there. An --until without --wait waits as long as it "
	         "takes.\n"
	         "Standard error: next_offset=N, where to go on; truncated from=N lost_bytes=N, when older output was\n"
	         "overwritten; not_met reason=R. Status 4 when an --until was not met in time: the output is printed "
	         "all the same.",
	.options = table,
	.options_size = sizeof(struct read_options),
	.run = run_read,
};
