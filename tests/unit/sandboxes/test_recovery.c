/* Promises of sandboxes/recovery.h: what a daemon knows at its start, from the ledger of the one before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "providers/instance.h"
#include "sandboxes/console.h"
#include "sandboxes/daemon.h"
#include "sandboxes/hosting.h"
#include "sandboxes/recovery.h"
#include "wire/codes.h"

#define ID          "sb-aaaaaaaaaaaa"
#define PID         4711
#define START_TIME  8812345
#define OTHER_BOOT  "00000000-0000-4000-8000-000000000000"
#define THREADS     2
#define THREAD_IDLE 100 /* ms */

static struct daemon d;
static char dir[64];

static int setup(void **state)
{
	char path[128], why[512];

	(void)state;
	memset(&d, 0, sizeof(d));
	snprintf(dir, sizeof(dir), "/tmp/ringside-recovery-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(d.env.state_dir, sizeof(d.env.state_dir), "%s", dir);
	snprintf(path, sizeof(path), "%s/ledger.db", dir);
	assert_int_equal(ledger_open(path, &d.env.ledger, why, sizeof(why)), 0);
	assert_int_equal(ledger_take_lease(d.env.ledger, "test", &d.env.epoch), 0);
	d.sandboxes_end = &d.sandboxes;
	assert_int_equal(uv_loop_init(&d.loop), 0);
	assert_int_equal(jobs_new(&d.loop, THREADS, THREAD_IDLE, NULL, NULL, &d.provider_jobs), 0);
	assert_int_equal(jobs_new(&d.loop, THREADS, THREAD_IDLE, NULL, NULL, &d.disk_jobs), 0);
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "ledger.db", "ledger.db-wal", "ledger.db-shm" };
	char path[128];

	(void)state;
	while (d.sandboxes) {
		hosting_release(d.sandboxes);
		sandbox_del(d.sandboxes);
	}
	jobs_free(d.provider_jobs);
	jobs_free(d.disk_jobs);
	uv_run(&d.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&d.loop), 0);
	ledger_close(d.env.ledger);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

/* A former daemon's sandbox, whose console daemon ran in this boot of the machine, with a console that runs. */
static void put_sandbox(const char *boot)
{
	struct instance i = { .pid = PID - 1, .start_time = START_TIME - 1 };
	char line[INSTANCE_LINE_BYTES];
	uint8_t packed[1024];
	Wire__ConsoleInfo info = WIRE__CONSOLE_INFO__INIT;

	snprintf(i.boot_id, sizeof(i.boot_id), "%s", boot);
	assert_int_equal(instance_format(&i, line, sizeof(line)), 0);
	const struct ledger_resource pending = { .resource_id = "res-a",
		.owner_id = "test",
		.provider = "host",
		.kind = LEDGER_SANDBOX,
		.operation_key = "create:a" };
	const struct ledger_sandbox box = { .id = ID,
		.name = "box",
		.provider = "host",
		.state = SANDBOX_RUNNING,
		.reason = "",
		.resource_id = "res-a",
		.spec_json = "{}",
		.instance = line };
	assert_int_equal(ledger_add_sandbox(d.env.ledger, d.env.epoch, &box, &pending), 0);
	info.name = (char *)(uintptr_t) "dev";
	info.pid = PID;
	info.pid_start_time = START_TIME;
	const struct ledger_console row = { .sandbox_id = ID,
		.name = "dev",
		.incarnation = 1,
		.state = CONSOLE_RUNNING,
		.info = packed,
		.info_bytes = (uint32_t)wire__console_info__pack(&info, packed) };
	assert_int_equal(ledger_put_console(d.env.ledger, d.env.epoch, &row), 0);
}

static const Wire__ConsoleInfo *loaded_console(void)
{
	char why[512];

	assert_int_equal(recovery_load(&d, why, sizeof(why)), 0);
	assert_non_null(d.sandboxes);
	const struct console *c = console_find(d.sandboxes, "dev");
	assert_non_null(c);
	assert_int_equal(c->info->pid, PID);
	return c->info;
}

static void a_program_of_this_boot_is_remembered_by_its_start_time(void **state)
{
	char boot[INSTANCE_BOOT_BYTES];

	(void)state;
	assert_int_equal(instance_boot_id(boot), 0);
	put_sandbox(boot);
	assert_int_equal(loaded_console()->pid_start_time, START_TIME);
}

/* Who has the number after a reboot is a stranger: with no start time nobody is looked for, or ended. */
static void a_program_of_another_boot_is_never_looked_for(void **state)
{
	(void)state;
	put_sandbox(OTHER_BOOT);
	assert_int_equal(loaded_console()->pid_start_time, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_program_of_this_boot_is_remembered_by_its_start_time),
		TEST(a_program_of_another_boot_is_never_looked_for),
	};
	return cmocka_run_group_tests_name("sandboxes/recovery", tests, NULL, NULL);
}
