/*
 * test_static_consoled.c - the console daemon as it is released: one file that needs nothing of the sandbox it runs in.
 *
 * It is put alone into an empty folder, which becomes its root: no libraries, no /proc, no /dev, no shell.
 * RINGSIDE_RELEASE_BIN names the folder of the release programs, since a sanitizer's build is not static; without it,
 * the programs under test.
 */
#include "tests/support/home.h"
#include "wire/conn.h"
#include "wire/fd.h"
#include "wire/sock.h"
#include "wire/wire.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *release_program(struct home *h)
{
	const char *bin = getenv("RINGSIDE_RELEASE_BIN");

	return home_format(h, "%s/ringside-consoled", bin ? bin : h->bin);
}

/* What `file` means by static: nothing interprets it, and it asks for no library. */
static void the_release_program_asks_for_no_library(void **state)
{
	struct home *h = *state;
	size_t n;
	const char *elf = read_file(h, release_program(h), &n);
	Elf64_Ehdr e;

	h->keep_daemon = true;
	assert_non_null(elf);
	assert_true(n > sizeof(e));
	memcpy(&e, elf, sizeof(e));
	assert_memory_equal(e.e_ident, ELFMAG, SELFMAG);
	assert_true(e.e_phoff + (size_t)e.e_phnum * sizeof(Elf64_Phdr) <= n);
	assert_true(e.e_phnum > 0);
	for (unsigned i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;
		memcpy(&p, elf + e.e_phoff + i * sizeof(p), sizeof(p));
		assert_int_not_equal(p.p_type, PT_INTERP);
		if (p.p_type != PT_DYNAMIC)
			continue;
		for (size_t at = 0; at + sizeof(Elf64_Dyn) <= p.p_filesz; at += sizeof(Elf64_Dyn)) {
			Elf64_Dyn d;
			memcpy(&d, elf + p.p_offset + at, sizeof(d));
			assert_int_not_equal(d.d_tag, DT_NEEDED);
		}
	}
}

/* ---- In an empty root ---- */

struct alone {
	pid_t pid;
	int commit;
	struct conn *conn;
	uint64_t id;
};

static void child_main(const char *root, int listen_fd, int commit_fd, int log_fd) __attribute__((noreturn));
static void child_main(const char *root, int listen_fd, int commit_fd, int log_fd)
{
	char listen_arg[32], commit_arg[32];
	int null = open("/dev/null", O_RDWR);
	int l = fcntl(listen_fd, F_DUPFD, 10), c = fcntl(commit_fd, F_DUPFD, 10); /* these are to be inherited */

	snprintf(listen_arg, sizeof(listen_arg), "--listen-fd=%d", l);
	snprintf(commit_arg, sizeof(commit_arg), "--commit-fd=%d", c);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log_fd, 2) < 0)
		_exit(120);
	if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0)
		_exit(121);
	if (chroot(root) < 0 || chdir("/") < 0)
		_exit(122);
	const char *argv[] = { "ringside-consoled", listen_arg, commit_arg, "--sandbox=empty", "--workspace=/",
		"--home=/", "--user=nobody", "--shell=/bin/sh", "--path=/", NULL };
	const char *envp[] = { NULL };
	execve("/ringside-consoled", (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp);
	_exit(123);
}

static void copy_program(struct home *h, const char *from, const char *to)
{
	size_t n;
	const char *bytes = read_file(h, from, &n);

	assert_non_null(bytes);
	write_file(to, bytes, n);
	assert_int_equal(chmod(to, 0755), 0);
}

static void leave(void *what)
{
	struct alone *a = what;

	fd_close(&a->commit);
	conn_free(a->conn);
	kill(a->pid, SIGKILL);
	waitpid(a->pid, NULL, 0);
	free(a);
}

static struct alone *start_alone(struct home *h)
{
	const char *root = home_path(h, "root");
	int commit[2];
	struct alone *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	assert_int_equal(mkdir(root, 0700), 0);
	copy_program(h, release_program(h), home_path(h, "root/ringside-consoled"));

	int dir = open(h->dir, O_DIRECTORY | O_CLOEXEC);
	int sock = sock_bind_at(dir, "console.sock");
	int log = open(home_path(h, "consoled.log"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(dir >= 0 && sock >= 0 && log >= 0);
	assert_int_equal(pipe2(commit, O_CLOEXEC), 0);
	fflush(NULL);
	a->pid = fork();
	assert_true(a->pid >= 0);
	if (a->pid == 0)
		child_main(root, sock, commit[0], log);
	a->commit = commit[1];
	home_defer(h, leave, a);
	fd_close(&commit[0]);
	fd_close(&sock);
	fd_close(&log);
	assert_int_equal(write(a->commit, "x", 1), 1);

	int fd = -ECONNREFUSED;
	wait_until("the console daemon listens", (fd = sock_connect_at(dir, "console.sock")) != -ECONNREFUSED);
	if (fd < 0)
		fail_msg("connect: %s", strerror(-fd));
	fd_close(&dir);
	assert_int_equal(conn_new(fd, 1 << 20, &a->conn), 0);
	return a;
}

/* The answer to one request; events in between are passed over. */
static Wire__ConsoledReply *ask(struct alone *a, Wire__ConsoledRequest *q)
{
	struct frame f;

	q->id = ++a->id;
	assert_int_equal(conn_send_message(a->conn, &q->base, NULL, 0), 0);
	for (;;) {
		assert_int_equal(conn_wait_frame(a->conn, now_ms() + DEADLINE_MS, &f), 1);
		assert_int_equal(f.type, FRAME_MESSAGE);
		Wire__ConsoledReply *r = wire__consoled_reply__unpack(NULL, f.length, f.payload);
		assert_non_null(r);
		if (r->id == q->id)
			return r;
		wire__consoled_reply__free_unpacked(r, NULL);
	}
}

static void say_hello(struct alone *a)
{
	Wire__ConsoledHello hello = WIRE__CONSOLED_HELLO__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	hello.protocol = CONSOLE_PROTOCOL_VERSION;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_HELLO;
	q.hello = &hello;
	Wire__ConsoledReply *r = ask(a, &q);
	assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_HELLO);
	assert_int_equal(r->hello->protocol, CONSOLE_PROTOCOL_VERSION);
	assert_string_equal(r->hello->version, RINGSIDE_VERSION);
	assert_int_equal(r->hello->instance.len, 16);
	wire__consoled_reply__free_unpacked(r, NULL);
}

static void it_serves_in_an_empty_root(void **state)
{
	struct home *h = *state;

	h->keep_daemon = true;
	say_hello(start_alone(h));
}

/* There is no terminal to be had and no shell: the refusal is an answer with a code, and the daemon goes on. */
static void a_start_that_cannot_be_is_refused_and_the_daemon_goes_on(void **state)
{
	struct home *h = *state;
	struct alone *a = start_alone(h);
	Wire__ConsoleSpec spec = WIRE__CONSOLE_SPEC__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	h->keep_daemon = true;
	say_hello(a);
	spec.name = (char[]){ "dev" };
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_START;
	q.start = &spec;
	Wire__ConsoledReply *r = ask(a, &q);
	if (r->body_case == WIRE__CONSOLED_REPLY__BODY_START) {
		assert_non_null(r->start->failure);
		assert_int_not_equal(r->start->failure->code, 0);
	} else {
		assert_int_equal(r->body_case, WIRE__CONSOLED_REPLY__BODY_ERROR);
		assert_int_not_equal(r->error->code, 0);
	}
	wire__consoled_reply__free_unpacked(r, NULL);
	say_hello(a);
	assert_int_equal(kill(a->pid, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(the_release_program_asks_for_no_library),
		HOME_TEST(it_serves_in_an_empty_root),
		HOME_TEST(a_start_that_cannot_be_is_refused_and_the_daemon_goes_on),
	};
	return HOME_MAIN("static_consoled", tests);
}
