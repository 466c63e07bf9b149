/* Promises of wire/codes.h: names, numbers and states are stable, and nothing outside the list breaks anybody. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/codes.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const unsigned all_results[] = {
#define RESULT(name, number, text, status, meaning) number,
#include "wire/codes.def"
};

/* Numbers on the wire, which peers of other versions hold us to: written here a second time on purpose. */
static void numbers_and_names_on_the_wire_do_not_change(void **state)
{
	(void)state;
	assert_int_equal(RESULT_OK, 0);
	assert_int_equal(RESULT_STALE_EPOCH, 1);
	assert_int_equal(RESULT_RESOURCE_UNKNOWN, 16);
	assert_int_equal(RESULT_INVALID_ARGUMENT, 17);
	assert_int_equal(RESULT_BUSY, 22);
	assert_int_equal(RESULT_ABORTED, 32);
	assert_string_equal(result_name(RESULT_CONSOLE_LIMIT), "console_limit");
	assert_string_equal(result_name(RESULT_OFFSET_OUT_OF_RANGE), "offset_out_of_range");
	assert_string_equal(console_state_name(CONSOLE_LOST), "LOST");
	assert_string_equal(sandbox_state_name(SANDBOX_SUSPENDED), "SUSPENDED");
	assert_string_equal(mark_kind_name(MARK_GAP), "gap");
}

static void every_code_has_a_name_of_its_own_a_meaning_and_an_exit_status(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(all_results); i++) {
		assert_true(strlen(result_name(all_results[i])) > 0);
		assert_true(strlen(result_meaning(all_results[i])) > 0);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(result_name(all_results[i]), result_name(all_results[j]));
		if (all_results[i] == RESULT_OK)
			assert_int_equal(result_exit_status(RESULT_OK), 0);
		else
			assert_in_range(result_exit_status(all_results[i]), 1, 5);
	}
}

static void a_number_of_a_newer_peer_has_a_name_all_the_same(void **state)
{
	(void)state;
	assert_string_equal(result_name(60000), "internal");
	assert_non_null(result_meaning(60000));
	assert_int_equal(result_exit_status(60000), 1);
	assert_string_equal(console_state_name(0), "UNKNOWN");
	assert_string_equal(sandbox_state_name(0xffffffff), "UNKNOWN");
	assert_string_equal(mark_kind_name(0), "UNKNOWN");
}

static void an_errno_becomes_the_code_that_users_can_act_on(void **state)
{
	(void)state;
	assert_int_equal(result_from_errno(0), RESULT_OK);
	assert_int_equal(result_from_errno(ENOENT), RESULT_NOT_FOUND);
	assert_int_equal(result_from_errno(EACCES), RESULT_PERMISSION_DENIED);
	assert_int_equal(result_from_errno(ENOEXEC), RESULT_NOT_EXECUTABLE);
	assert_int_equal(result_from_errno(EMFILE), RESULT_RESOURCE_LIMIT);
	assert_int_equal(result_from_errno(EAGAIN), RESULT_RESOURCE_LIMIT);
	assert_int_equal(result_from_errno(ENOSPC), RESULT_RESOURCE_LIMIT);
	assert_int_equal(result_from_errno(EMSGSIZE), RESULT_TOO_LARGE);
	assert_int_equal(result_from_errno(ECONNRESET), RESULT_UNAVAILABLE);
	assert_int_equal(result_from_errno(EPROTO), RESULT_PROTOCOL_ERROR);
	assert_int_equal(result_from_errno(EEXIST), RESULT_ALREADY_EXISTS);
	assert_int_equal(result_from_errno(ENOBUFS), RESULT_BUSY);
	assert_int_equal(result_from_errno(ETIMEDOUT), RESULT_TIMEOUT);
	assert_int_equal(result_from_errno(99999), RESULT_INTERNAL);
}

static void the_sign_of_an_errno_does_not_matter(void **state)
{
	(void)state;
	assert_int_equal(result_from_errno(-ENOENT), RESULT_NOT_FOUND);
	assert_int_equal(result_from_errno(-EMFILE), RESULT_RESOURCE_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_and_names_on_the_wire_do_not_change),
		cmocka_unit_test(every_code_has_a_name_of_its_own_a_meaning_and_an_exit_status),
		cmocka_unit_test(a_number_of_a_newer_peer_has_a_name_all_the_same),
		cmocka_unit_test(an_errno_becomes_the_code_that_users_can_act_on),
		cmocka_unit_test(the_sign_of_an_errno_does_not_matter),
	};
	return cmocka_run_group_tests_name("wire/codes", tests, NULL, NULL);
}
