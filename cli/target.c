/* target.c - see target.h. */
#include "cli/target.h"

#include <stdio.h>
#include <string.h>

#include "wire/text.h"

static bool refuse(const char *word, const char *what, char *why)
{
	char shown[96];
	text_escape(shown, sizeof(shown), word, strlen(word));
	snprintf(why, TARGET_WHY_BYTES, "not a %s (1 to %d of A-Z a-z 0-9 . _ -, not starting with . or -): %s", what,
	        NAME_MAX_BYTES, shown);
	return false;
}

static bool copy_name(const char *from, size_t n, char out[NAME_MAX_BYTES + 1])
{
	if (n == 0 || n > NAME_MAX_BYTES)
		return false;
	memcpy(out, from, n);
	out[n] = '\0';
	return name_valid(out);
}

bool target_console(const char *word, struct target *out, char why[TARGET_WHY_BYTES])
{
	const char *slash = strchr(word, '/');
	struct target t = { .sandbox = TARGET_DEFAULT };
	const char *console = slash ? slash + 1 : word;
	if (slash && !copy_name(word, (size_t)(slash - word), t.sandbox))
		return refuse(word, "BOX/NAME", why);
	if (!copy_name(console, strlen(console), t.console))
		return refuse(word, slash ? "BOX/NAME" : "console's name", why);
	*out = t;
	return true;
}

bool target_sandbox(const char *word, struct target *out, char why[TARGET_WHY_BYTES])
{
	struct target t = { .sandbox = TARGET_DEFAULT };
	if (word && strchr(word, '/') && target_console(word, &t, why)) {
		/* Without saying which sandbox that is: `rm box/dev` does not mean `rm box`. */
		snprintf(why, TARGET_WHY_BYTES, "%s/%s is a console, and a sandbox is wanted here", t.sandbox,
		        t.console);
		return false;
	}
	if (word && !copy_name(word, strlen(word), t.sandbox))
		return refuse(word, "sandbox's name or id", why);
	*out = t;
	return true;
}

bool target_is_default(const struct target *t)
{
	return strcmp(t->sandbox, TARGET_DEFAULT) == 0;
}
