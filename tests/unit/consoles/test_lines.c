/* test_lines.c - which inputs a canonical terminal would cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consoles/lines.h"

static struct termios canonical(void)
{
	struct termios t = { .c_iflag = ICRNL, .c_lflag = ICANON };

	t.c_cc[VEOF] = 4;
	return t;
}

static bool fits(struct termios t, size_t *pending, size_t x, const char *end)
{
	static char bytes[3 * LINES_MAX];

	memset(bytes, 'x', x);
	memcpy(bytes + x, end, strlen(end));
	return lines_fit(&t, pending, bytes, x + strlen(end));
}

static void a_line_may_have_4095_bytes_and_its_end(void **state)
{
	size_t pending = 0;

	(void)state;
	assert_true(fits(canonical(), &pending, LINES_MAX, "\n"));
	assert_int_equal(pending, 0);
	assert_true(fits(canonical(), &pending, LINES_MAX, ""));
	assert_int_equal(pending, LINES_MAX);
	pending = 0;
	assert_false(fits(canonical(), &pending, LINES_MAX + 1, "\n"));
	assert_int_equal(pending, 0);
}

static void what_came_before_counts(void **state)
{
	size_t pending = 0;

	(void)state;
	assert_true(fits(canonical(), &pending, 4000, ""));
	assert_false(fits(canonical(), &pending, 96, ""));
	assert_int_equal(pending, 4000);
	assert_true(fits(canonical(), &pending, 95, "\nabc"));
	assert_int_equal(pending, 3);
}

static void lines_end_where_the_terminals_modes_say(void **state)
{
	struct termios t = canonical();
	size_t pending = 0;

	(void)state;
	assert_true(fits(t, &pending, 10, "\r"));
	assert_int_equal(pending, 0);
	assert_true(fits(t, &pending, 10, "\004"));
	assert_int_equal(pending, 0);
	t.c_iflag &= ~(tcflag_t)ICRNL;
	assert_true(fits(t, &pending, 10, "\r"));
	assert_int_equal(pending, 11);
	t.c_cc[VEOL] = ';';
	assert_true(fits(t, &pending, 10, ";"));
	assert_int_equal(pending, 0);
	t.c_iflag |= INLCR; /* a newline becomes a carriage return, which ends nothing */
	assert_true(fits(t, &pending, 10, "\n"));
	assert_int_equal(pending, 11);
}

static void a_switched_off_character_ends_nothing(void **state)
{
	struct termios t = canonical();
	size_t pending = 0;

	(void)state;
	t.c_cc[VEOF] = 0;
	assert_true(lines_fit(&t, &pending, "a\0b", 3));
	assert_int_equal(pending, 3);
}

static void without_canonical_mode_everything_fits(void **state)
{
	struct termios t = canonical();
	size_t pending = 4000;

	(void)state;
	t.c_lflag &= ~(tcflag_t)ICANON;
	assert_true(fits(t, &pending, 2 * LINES_MAX, ""));
	assert_int_equal(pending, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_may_have_4095_bytes_and_its_end),
		cmocka_unit_test(what_came_before_counts),
		cmocka_unit_test(lines_end_where_the_terminals_modes_say),
		cmocka_unit_test(a_switched_off_character_ends_nothing),
		cmocka_unit_test(without_canonical_mode_everything_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
