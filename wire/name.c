/* name.c - what names may look like. Plain ASCII by hand: <ctype.h> answers differently with the locale. */
#include "wire/name.h"

#include <string.h>

#define LABEL_KEY_MAX_BYTES 63

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* 1 to max bytes of letters, digits and what stands in `others`. */
static bool consists_of(const char *s, size_t max, const char *others)
{
	size_t n = 0;

	for (; s[n] != '\0'; n++) {
		if (n == max)
			return false;
		if (!is_letter(s[n]) && !is_digit(s[n]) && strchr(others, s[n]) == NULL)
			return false;
	}
	return n > 0;
}

bool name_valid(const char *name)
{
	return name[0] != '.' && name[0] != '-' && consists_of(name, NAME_MAX_BYTES, "._-");
}

bool env_name_valid(const char *name)
{
	if (is_digit(name[0]) || !consists_of(name, (size_t)-1, "_"))
		return false;
	return strncmp(name, "_t", 2) != 0 && strncmp(name, "__t_", 4) != 0;
}

bool label_key_valid(const char *key)
{
	return (is_letter(key[0]) || is_digit(key[0])) && consists_of(key, LABEL_KEY_MAX_BYTES, "._/-");
}
