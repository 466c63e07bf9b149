/* Promises of wire/log.h, read back from a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/clock.h"
#include "wire/fd.h"
#include "wire/log.h"

static int reader = -1, writer = -1;

static int make_pipe(void **state)
{
	int p[2];

	(void)state;
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	reader = p[0];
	writer = p[1];
	log_setup("consoled", writer, LOG_LEVEL_INFO);
	return 0;
}

static int close_pipe(void **state)
{
	(void)state;
	log_setup("ringside", STDERR_FILENO, LOG_LEVEL_WARN);
	fd_close(&reader);
	fd_close(&writer);
	return 0;
}

/* What was logged since the last call. */
static const char *logged(void)
{
	static char text[65536];
	ssize_t n = read(reader, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void assert_matches(const char *text, const char *pattern)
{
	regex_t re;
	int r;

	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	r = regexec(&re, text, 0, NULL, 0);
	regfree(&re);
	if (r != 0)
		fail_msg("does not match %s: %s", pattern, text);
}

#define TIME "^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}Z "

static void a_line_has_time_level_component_sandbox_console_and_message(void **state)
{
	(void)state;
	log_error("box", "dev", "cannot start %s: %s", "/bin/zsh", "no such file");
	assert_matches(logged(), TIME "level=error component=consoled sandbox=box console=dev "
	                              "msg=\"cannot start /bin/zsh: no such file\"\n$");
}

static void what_is_not_known_is_left_out_and_each_event_is_a_line(void **state)
{
	(void)state;
	log_warn(NULL, NULL, "first");
	log_info("box", NULL, "second");
	assert_matches(logged(), TIME "level=warn component=consoled msg=\"first\"\n"
	                              "[^ ]+ level=info component=consoled sandbox=box msg=\"second\"\n$");
}

static void the_time_is_that_of_the_wall_clock_in_utc(void **state)
{
	struct tm tm = { 0 };
	time_t before = time(NULL), at;
	const char *rest;

	(void)state;
	log_info(NULL, NULL, "now");
	rest = strptime(logged(), "%Y-%m-%dT%H:%M:%S", &tm);
	assert_non_null(rest);
	assert_int_equal(*rest, '.');
	at = timegm(&tm);
	assert_in_range(at, before - 1, time(NULL) + 1);
}

static void a_message_cannot_forge_a_line_or_speak_to_a_terminal(void **state)
{
	(void)state;
	log_warn(NULL, NULL, "%s", "x\"\nlevel=error component=fake\033[2J\\");
	assert_matches(logged(), "^[^\n]*msg=\"x\\\\\"\\\\nlevel=error component=fake\\\\e\\[2J\\\\\\\\\"\n$");
}

static void a_name_that_is_none_is_quoted(void **state)
{
	(void)state;
	log_warn("a b\n", "", "m");
	assert_matches(logged(), " sandbox=\"a b\\\\n\" console=\"\" msg=\"m\"\n$");
}

static void levels_past_the_chosen_one_write_nothing(void **state)
{
	(void)state;
	log_debug("box", NULL, "quiet");
	assert_string_equal(logged(), "");
	log_setup("consoled", writer, LOG_LEVEL_ERROR);
	log_warn("box", NULL, "quiet");
	log_info("box", NULL, "quiet");
	assert_string_equal(logged(), "");
	log_error("box", NULL, "loud");
	assert_matches(logged(), "msg=\"loud\"\n$");
}

static void a_line_that_is_too_long_is_cut_and_shows_it(void **state)
{
	static char text[20000], name[5000];
	size_t n;

	(void)state;
	memset(text, '\033', sizeof(text) - 1); /* each becomes two bytes */
	memset(name, '\001', sizeof(name) - 1); /* each becomes four */
	log_error(name, name, "%s", text);
	n = strlen(logged());
	assert_in_range(n, 3000, 4096);
	log_error(NULL, NULL, "%s", text);
	assert_matches(logged(), "^[^\n]*…\"\n$");
}

static void errno_is_left_as_it_was(void **state)
{
	(void)state;
	errno = ENOENT;
	log_error(NULL, NULL, "%m");
	assert_int_equal(errno, ENOENT);
	assert_matches(logged(), "msg=\"No such file or directory\"");
	log_setup("consoled", -1, LOG_LEVEL_INFO);
	errno = ENOENT;
	log_error(NULL, NULL, "to nowhere");
	assert_int_equal(errno, ENOENT);
}

static void a_full_pipe_or_disk_loses_the_line_and_waits_for_nobody(void **state)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	for (int i = 0; i < 5000; i++) /* 64 KiB hold about 700 */
		log_info("box", "dev", "line %d", i);
	assert_matches(logged(), "msg=\"line 0\"\n");
	log_setup("consoled", full, LOG_LEVEL_INFO);
	log_info("box", "dev", "lost");
	fd_close(&full);
}

/* As many as a peer can cause: a disk that logs fill is everybody's. */
static void a_flood_of_lines_is_cut_and_how_many_is_told(void **state)
{
	int file = memfd_create("log", MFD_CLOEXEC);
	const uint64_t deadline = clock_mono_ms() + 20000;
	char text[256];
	off_t end;

	(void)state;
	assert_true(file >= 0);
	log_setup("consoled", file, LOG_LEVEL_INFO);
	for (int i = 0; i < 4 * LOG_LINES_AT_ONCE; i++)
		log_info(NULL, NULL, "x");
	end = lseek(file, 0, SEEK_CUR);
	assert_true(end >= LOG_LINES_AT_ONCE * (off_t)60); /* what is no flood is all there */
	assert_true(end < 2 * LOG_LINES_AT_ONCE * (off_t)100);
	while (lseek(file, 0, SEEK_CUR) == end && clock_mono_ms() < deadline)
		log_info(NULL, NULL, "again");
	ssize_t n = pread(file, text, sizeof(text) - 1, end);
	text[n > 0 ? n : 0] = '\0';
	assert_matches(
	        text, "level=warn component=consoled msg=\"[0-9]+ lines were left out: too many at once\"\n.*again");
	close(file);
}

static void lines_of_several_processes_do_not_mix(void **state)
{
	enum { PROCESSES = 4, LINES = 100 };
	pid_t pids[PROCESSES];
	unsigned lines = 0;
	int status;

	(void)state;
	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			for (int j = 0; j < LINES; j++)
				log_info("box", NULL, "%d-%d", i, j);
			_exit(0);
		}
	}
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
	for (char *save = NULL, *line = strtok_r((char *)(uintptr_t)logged(), "\n", &save); line != NULL;
	        line = strtok_r(NULL, "\n", &save)) {
		assert_matches(line, TIME "level=info component=consoled sandbox=box msg=\"[0-9]+-[0-9]+\"$");
		lines++;
	}
	assert_int_equal(lines, PROCESSES * LINES);
}

#define WITH_PIPE(test) cmocka_unit_test_setup_teardown(test, make_pipe, close_pipe)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PIPE(a_line_has_time_level_component_sandbox_console_and_message),
		WITH_PIPE(what_is_not_known_is_left_out_and_each_event_is_a_line),
		WITH_PIPE(the_time_is_that_of_the_wall_clock_in_utc),
		WITH_PIPE(a_message_cannot_forge_a_line_or_speak_to_a_terminal),
		WITH_PIPE(a_name_that_is_none_is_quoted),
		WITH_PIPE(levels_past_the_chosen_one_write_nothing),
		WITH_PIPE(a_line_that_is_too_long_is_cut_and_shows_it),
		WITH_PIPE(errno_is_left_as_it_was),
		WITH_PIPE(a_full_pipe_or_disk_loses_the_line_and_waits_for_nobody),
		WITH_PIPE(a_flood_of_lines_is_cut_and_how_many_is_told),
		WITH_PIPE(lines_of_several_processes_do_not_mix),
	};
	alarm(60);
	return cmocka_run_group_tests_name("wire/log", tests, NULL, NULL);
}
