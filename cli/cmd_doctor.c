/* cmd_doctor.c - doctor: looks at what Ringside needs, and says what to do where something is missing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/show.h"

static const char *const verdicts[] = { [CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail" };

void finding_set(struct finding *f, enum check_verdict verdict, const char *remedy, const char *fmt, ...)
{
	char text[sizeof(f->detail)];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ringside_escape(f->detail, sizeof(f->detail), text, strlen(text));
	f->verdict = verdict;
	f->remedy = verdict == CHECK_OK ? "" : remedy;
}

static json_t *finding_json(const struct check *c, const struct finding *f)
{
	json_t *j = json_object();
	json_object_set_new(j, "name", json_string(c->name));
	json_object_set_new(j, "status", json_string(verdicts[f->verdict]));
	json_object_set_new(j, "detail", json_text(f->detail));
	json_object_set_new(j, "remedy", json_text_or_null(f->remedy));
	return j;
}

/* json NULL: a line for people. Answers whether it is bad. */
static bool examine(const struct check *c, json_t *json)
{
	struct finding f = { .remedy = "" };
	c->run(&f);
	if (json)
		json_array_append_new(json, finding_json(c, &f));
	else
		printf("%-4s %s: %s%s%s\n", verdicts[f.verdict], c->name, f.detail, *f.remedy ? "; " : "", f.remedy);
	return f.verdict == CHECK_FAIL;
}

static int run_doctor(struct invocation *inv, const void *options)
{
	(void)options;
	int status;
	bool bad = false;
	if (!take_words(inv, 0, 0, &status))
		return status;
	json_t *json = inv->json ? json_array() : NULL;
	for (size_t i = 0; i < checks_own_count; i++)
		bad |= examine(&checks_own[i], json);
	for (size_t i = 0; i < checks_host_count; i++)
		bad |= examine(&checks_host[i], json);
	status = json ? json_print(json) : finish_output();
	return bad ? EXIT_FAILED : status;
}

const struct command command_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "look at what Ringside needs from this machine",
	.json = "one JSON array, errors as an object",
	.notes = "Changes and starts nothing. Status 1 when a check fails.",
	.run = run_doctor,
};
