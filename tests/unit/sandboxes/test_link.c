/*
 * test_link.c - the promises of sandboxes/link.h: every call is answered once, and a console daemon that lies is
 * dropped.
 *
 * The console daemon is played by the other end of a socketpair, on the same loop: each test says what it answers.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "sandboxes/link.h"
#include "wire/fd.h"
#include "wire/mark.h"
#include "wire/sock.h"
#include "wire/uvconn.h"

#define DEADLINE_MS 30000

struct fixture;
typedef void peer_fn(struct fixture *f, const Wire__ConsoledRequest *q);

struct fixture {
	uv_loop_t loop;
	uv_timer_t deadline;
	bool late;
	struct link *link;
	struct uvconn *peer;
	bool peer_gone;
	peer_fn *on_request; /* what it does with requests after the hello */
	bool silent_hello, old_layout;
	uint64_t last_id; /* of the request that came last */
	/* What the link told. */
	bool ready;
	unsigned events, downs;
	char why[256];
	int event_fds;
	bool free_in_event;
};

static char name_dev[] = "dev";

/* ---- The console daemon's side ---- */

static void peer_send(struct fixture *f, Wire__ConsoledReply *m, const int *fds, unsigned nfds)
{
	assert_int_equal(uvconn_send_message(f->peer, &m->base, fds, nfds), 0);
}

static void peer_hello(struct fixture *f, uint64_t id)
{
	static uint8_t instance[LINK_INSTANCE] = "0123456789abcde";
	static char version[] = "9.9";
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoledHelloReply h = WIRE__CONSOLED_HELLO_REPLY__INIT;

	h.protocol = CONSOLE_PROTOCOL_VERSION;
	h.version = version;
	h.pid = 1;
	h.instance = (ProtobufCBinaryData){ .len = sizeof(instance), .data = instance };
	h.ring_layout = f->old_layout ? RING_LAYOUT + 1 : RING_LAYOUT;
	h.marks_layout = MARK_LAYOUT;
	m.id = id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_HELLO;
	m.hello = &h;
	peer_send(f, &m, NULL, 0);
}

static void peer_on_frame(struct uvconn *u, const struct frame *frame, void *ctx)
{
	struct fixture *f = ctx;
	Wire__ConsoledRequest *q = wire__consoled_request__unpack(NULL, frame->length, frame->payload);

	(void)u;
	assert_non_null(q);
	f->last_id = q->id;
	if (q->body_case != WIRE__CONSOLED_REQUEST__BODY_HELLO) {
		if (f->on_request)
			f->on_request(f, q);
	} else if (!f->silent_hello) {
		peer_hello(f, q->id);
	}
	wire__consoled_request__free_unpacked(q, NULL);
}

static void peer_on_gone(struct uvconn *u, int err, void *ctx)
{
	struct fixture *f = ctx;

	(void)err;
	f->peer_gone = true;
	f->peer = NULL;
	uvconn_close(u);
}

static const struct uvconn_handler peer_handler = { .on_frame = peer_on_frame, .on_gone = peer_on_gone };

/* ---- The owner's side ---- */

static void on_ready(struct link *l, void *ctx)
{
	(void)l;
	((struct fixture *)ctx)->ready = true;
}

static void on_event(
        struct link *l, Wire__ConsoleEvent__Kind kind, const Wire__ConsoleInfo *info, int fds[2], void *ctx)
{
	struct fixture *f = ctx;

	(void)kind;
	assert_true(link_info_valid(info));
	f->events++;
	f->event_fds = (fds[0] >= 0) + (fds[1] >= 0);
	if (f->free_in_event) {
		link_free(l);
		f->link = NULL;
	}
}

static void on_down(struct link *l, const char *why, void *ctx)
{
	struct fixture *f = ctx;

	f->downs++;
	snprintf(f->why, sizeof(f->why), "%s", why);
	assert_ptr_equal(f->link, l);
	link_free(l); /* the usual thing to do from here */
	f->link = NULL;
}

static const struct link_handler handler = { .on_ready = on_ready, .on_event = on_event, .on_down = on_down };

static void on_deadline(uv_timer_t *t)
{
	((struct fixture *)t->data)->late = true;
}

#define run_until(f, condition)                                              \
	do {                                                                 \
		uv_timer_start(&(f)->deadline, on_deadline, DEADLINE_MS, 0); \
		while (!(condition) && !(f)->late)                           \
			uv_run(&(f)->loop, UV_RUN_ONCE);                     \
		uv_timer_stop(&(f)->deadline);                               \
		assert_false((f)->late);                                     \
	} while (0)

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2];

	uv_loop_init(&f->loop);
	uv_timer_init(&f->loop, &f->deadline);
	f->deadline.data = f;
	if (sock_pair(pair) < 0 || uvconn_new(&f->loop, pair[1], 1 << 20, &peer_handler, f, &f->peer) < 0)
		return -1;
	*state = f;
	return link_new(&f->loop, pair[0], 8, 1 << 20, &handler, f, &f->link);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	link_free(f->link);
	uvconn_close(f->peer);
	uv_close((uv_handle_t *)&f->deadline, NULL);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	int r = uv_loop_close(&f->loop);
	free(f);
	return r;
}

/* ---- Calls ---- */

struct heard {
	unsigned answers;
	enum result code;
	unsigned fds;
	bool more;
};

static void note(struct link_answer *a, void *ctx)
{
	struct heard *h = ctx;

	h->answers++;
	h->code = a->code;
	h->fds = (unsigned)((a->fds[0] >= 0) + (a->fds[1] >= 0));
	h->more = a->more;
	assert_true(a->code == RESULT_OK ? a->reply != NULL : a->message != NULL);
}

static int call_list(struct fixture *f, uint64_t timeout_ms, struct heard *h)
{
	Wire__ConsoleList list = WIRE__CONSOLE_LIST__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	q.body_case = WIRE__CONSOLED_REQUEST__BODY_LIST;
	q.list = &list;
	return link_call(f->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_LIST, timeout_ms, note, h);
}

static int call_take(struct fixture *f, struct heard *h)
{
	Wire__TakeConsole take = WIRE__TAKE_CONSOLE__INIT;
	Wire__ConsoledRequest q = WIRE__CONSOLED_REQUEST__INIT;

	take.name = name_dev;
	q.body_case = WIRE__CONSOLED_REQUEST__BODY_TAKE;
	q.take = &take;
	return link_call(f->link, &q, -1, WIRE__CONSOLED_REPLY__BODY_TAKE, 0, note, h);
}

static void good_info(Wire__ConsoleInfo *info)
{
	wire__console_info__init(info);
	info->name = name_dev;
	info->incarnation = 1;
	info->state = CONSOLE_RUNNING;
}

static void answer_list(struct fixture *f, uint64_t id, Wire__ConsoleInfo *info, bool more)
{
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoleListReply list = WIRE__CONSOLE_LIST_REPLY__INIT;

	list.consoles = &info;
	list.n_consoles = info ? 1 : 0;
	m.id = id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_LIST;
	m.list = &list;
	m.more = more;
	peer_send(f, &m, NULL, 0);
}

static void answer_empty_list(struct fixture *f, const Wire__ConsoledRequest *q)
{
	answer_list(f, q->id, NULL, false);
}

static void a_link_is_ready_after_its_hello(void **state)
{
	struct fixture *f = *state;

	run_until(f, f->ready);
	assert_string_equal(link_version(f->link), "9.9");
	assert_int_equal(link_peer_pid(f->link), getpid());
	assert_true(link_shares_pids(f->link));
}

static void memory_of_another_layout_is_refused_at_the_hello(void **state)
{
	struct fixture *f = *state;

	f->old_layout = true;
	run_until(f, f->downs > 0);
	assert_false(f->ready);
	assert_non_null(strstr(f->why, "layout"));
}

static void an_answer_comes_back_to_its_call(void **state)
{
	struct fixture *f = *state;
	struct heard h = { 0 };

	f->on_request = answer_empty_list;
	run_until(f, f->ready);
	assert_int_equal(call_list(f, 0, &h), 0);
	assert_int_equal(h.answers, 0); /* never from inside the call */
	run_until(f, h.answers > 0);
	assert_int_equal(h.code, RESULT_OK);
	assert_int_equal(h.answers, 1);
}

static void answer_in_three_parts(struct fixture *f, const Wire__ConsoledRequest *q)
{
	Wire__ConsoleInfo info;

	good_info(&info);
	answer_list(f, q->id, &info, true);
	answer_list(f, q->id, &info, true);
	answer_list(f, q->id, NULL, false);
}

static void a_list_comes_in_parts_and_the_last_one_ends_it(void **state)
{
	struct fixture *f = *state;
	struct heard h = { 0 };

	f->on_request = answer_in_three_parts;
	run_until(f, f->ready);
	call_list(f, 0, &h);
	run_until(f, h.answers == 3);
	assert_false(h.more);
}

static void answer_error(struct fixture *f, const Wire__ConsoledRequest *q)
{
	static char message[] = "no such thing";
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__Error e = WIRE__ERROR__INIT;

	e.code = q->body_case == WIRE__CONSOLED_REQUEST__BODY_TAKE ? RESULT_NOT_FOUND : 999999;
	e.message = message;
	m.id = q->id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_ERROR;
	m.error = &e;
	peer_send(f, &m, NULL, 0);
}

static void an_error_keeps_its_code_and_an_unknown_one_is_internal(void **state)
{
	struct fixture *f = *state;
	struct heard take = { 0 }, list = { 0 };

	f->on_request = answer_error;
	run_until(f, f->ready);
	call_take(f, &take);
	call_list(f, 0, &list);
	run_until(f, take.answers && list.answers);
	assert_int_equal(take.code, RESULT_NOT_FOUND);
	assert_int_equal(list.code, RESULT_INTERNAL);
}

static void every_call_in_hand_is_answered_when_the_console_daemon_dies(void **state)
{
	struct fixture *f = *state;
	struct heard h[5] = { 0 };

	run_until(f, f->ready);
	for (int i = 0; i < 5; i++)
		assert_int_equal(call_list(f, 0, &h[i]), 0);
	uvconn_close(f->peer);
	f->peer = NULL;
	run_until(f, f->downs > 0);
	assert_int_equal(f->downs, 1);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(h[i].answers, 1);
		assert_int_equal(h[i].code, RESULT_UNAVAILABLE);
	}
}

static void every_call_in_hand_is_answered_when_the_link_is_freed(void **state)
{
	struct fixture *f = *state;
	struct heard h = { 0 };

	run_until(f, f->ready);
	call_list(f, 0, &h);
	link_free(f->link);
	f->link = NULL;
	assert_int_equal(h.answers, 1);
	assert_int_equal(h.code, RESULT_UNAVAILABLE);
	assert_int_equal(f->downs, 0);
}

static void a_call_that_is_not_answered_in_time_is_told_so_and_the_late_answer_harms_nobody(void **state)
{
	struct fixture *f = *state;
	struct heard late = { 0 }, next = { 0 };

	run_until(f, f->ready);
	call_list(f, 20, &late);
	run_until(f, late.answers > 0);
	assert_int_equal(late.code, RESULT_TIMEOUT);
	answer_list(f, f->last_id, NULL, false);
	f->on_request = answer_empty_list;
	call_list(f, 0, &next);
	run_until(f, next.answers > 0);
	assert_int_equal(next.code, RESULT_OK);
	assert_int_equal(late.answers, 1);
	assert_int_equal(f->downs, 0);
}

static void a_call_past_the_bound_is_refused(void **state)
{
	struct fixture *f = *state;
	static struct heard h[LINK_MAX_CALLS + 1];

	run_until(f, f->ready);
	memset(h, 0, sizeof(h));
	for (int i = 0; i < LINK_MAX_CALLS; i++)
		assert_int_equal(call_list(f, 0, &h[i]), 0);
	assert_int_equal(call_list(f, 0, &h[LINK_MAX_CALLS]), -EBUSY);
	link_free(f->link);
	f->link = NULL;
	for (int i = 0; i < LINK_MAX_CALLS; i++)
		assert_int_equal(h[i].answers, 1);
	assert_int_equal(h[LINK_MAX_CALLS].answers, 0);
}

/* ---- Descriptors ---- */

static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void answer_take(struct fixture *f, const Wire__ConsoledRequest *q)
{
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__TakeReply take = WIRE__TAKE_REPLY__INIT;
	Wire__ConsoleInfo info;
	int fds[2] = { open("/dev/null", O_RDONLY | O_CLOEXEC), open("/dev/null", O_RDONLY | O_CLOEXEC) };

	good_info(&info);
	take.console = &info;
	m.id = q->id;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_TAKE;
	m.take = &take;
	peer_send(f, &m, fds, 2);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

static void descriptors_that_nobody_takes_are_closed(void **state)
{
	struct fixture *f = *state;
	struct heard h = { 0 };

	f->on_request = answer_take;
	run_until(f, f->ready);
	unsigned before = open_fds();
	call_take(f, &h);
	run_until(f, h.answers > 0);
	assert_int_equal(h.fds, 2);
	assert_int_equal(open_fds(), before);
}

/* ---- Lies ---- */

static void assert_dropped(struct fixture *f)
{
	run_until(f, f->downs > 0);
	assert_null(f->link);
	run_until(f, f->peer_gone);
}

static void an_answer_that_was_not_asked_for_ends_the_link(void **state)
{
	struct fixture *f = *state;

	run_until(f, f->ready);
	answer_list(f, 12345, NULL, false);
	assert_dropped(f);
}

static void an_answer_of_another_kind_ends_the_link(void **state)
{
	struct fixture *f = *state;
	struct heard h = { 0 };

	f->on_request = answer_take;
	run_until(f, f->ready);
	call_list(f, 0, &h);
	assert_dropped(f);
	assert_int_equal(h.answers, 1);
	assert_int_equal(h.code, RESULT_UNAVAILABLE);
}

static void send_event(struct fixture *f, Wire__ConsoleInfo *info, int kind)
{
	Wire__ConsoledReply m = WIRE__CONSOLED_REPLY__INIT;
	Wire__ConsoleEvent e = WIRE__CONSOLE_EVENT__INIT;

	e.kind = (Wire__ConsoleEvent__Kind)kind;
	e.console = info;
	m.body_case = WIRE__CONSOLED_REPLY__BODY_EVENT;
	m.event = &e;
	peer_send(f, &m, NULL, 0);
}

static void a_good_event_is_passed_on(void **state)
{
	struct fixture *f = *state;
	Wire__ConsoleInfo info;

	run_until(f, f->ready);
	good_info(&info);
	send_event(f, &info, WIRE__CONSOLE_EVENT__KIND__CHANGED);
	run_until(f, f->events == 1);
}

static void an_event_that_is_not_known_is_passed_over(void **state)
{
	struct fixture *f = *state;
	Wire__ConsoleInfo info;

	run_until(f, f->ready);
	good_info(&info);
	send_event(f, &info, 77);
	send_event(f, &info, WIRE__CONSOLE_EVENT__KIND__CHANGED);
	run_until(f, f->events == 1);
	assert_int_equal(f->downs, 0);
}

/* Each makes one thing about a good description impossible. */
static void lie_name(Wire__ConsoleInfo *i)
{
	static char bad[] = "../../etc";
	i->name = bad;
}
static void lie_state(Wire__ConsoleInfo *i)
{
	i->state = CONSOLE_LOST; /* which only we can know */
}
static void lie_unknown_state(Wire__ConsoleInfo *i)
{
	i->state = 77;
}
static void lie_incarnation(Wire__ConsoleInfo *i)
{
	i->incarnation = 0;
}
static void lie_offsets(Wire__ConsoleInfo *i)
{
	i->head_offset = 2;
	i->tail_offset = 1;
}
static void lie_ring(Wire__ConsoleInfo *i)
{
	i->ring_bytes = (uint64_t)1 << 50;
}
static char long_text[20 * 1024];
static void lie_size(Wire__ConsoleInfo *i)
{
	memset(long_text, 'x', sizeof(long_text) - 1);
	i->reason = long_text;
}

static void each_impossible_description_ends_the_link(void **state)
{
	static void (*const lies[])(Wire__ConsoleInfo *) = { lie_name, lie_state, lie_unknown_state, lie_incarnation,
		lie_offsets, lie_ring, lie_size };

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		void *own;
		Wire__ConsoleInfo info;

		assert_int_equal(setup(&own), 0);
		struct fixture *f = own;
		run_until(f, f->ready);
		good_info(&info);
		lies[i](&info);
		send_event(f, &info, WIRE__CONSOLE_EVENT__KIND__CHANGED);
		assert_dropped(f);
		assert_int_equal(f->events, 0);
		assert_int_equal(teardown(&own), 0);
	}
}

static void bytes_that_are_no_message_end_the_link(void **state)
{
	struct fixture *f = *state;

	run_until(f, f->ready);
	assert_int_equal(uvconn_send(f->peer, FRAME_MESSAGE, 0, "\xff\xff\xff", 3), 0);
	assert_dropped(f);
}

static void a_frame_of_a_stream_ends_the_link(void **state)
{
	struct fixture *f = *state;

	run_until(f, f->ready);
	assert_int_equal(uvconn_send(f->peer, FRAME_DATA, CHANNEL_STDOUT, "x", 1), 0);
	assert_dropped(f);
}

static void a_link_may_be_freed_from_its_own_event(void **state)
{
	struct fixture *f = *state;
	Wire__ConsoleInfo info;

	run_until(f, f->ready);
	f->free_in_event = true;
	good_info(&info);
	send_event(f, &info, WIRE__CONSOLE_EVENT__KIND__CHANGED);
	send_event(f, &info, WIRE__CONSOLE_EVENT__KIND__CHANGED);
	run_until(f, f->peer_gone);
	assert_int_equal(f->events, 1);
	assert_int_equal(f->downs, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_link_is_ready_after_its_hello),
		TEST(memory_of_another_layout_is_refused_at_the_hello),
		TEST(an_answer_comes_back_to_its_call),
		TEST(a_list_comes_in_parts_and_the_last_one_ends_it),
		TEST(an_error_keeps_its_code_and_an_unknown_one_is_internal),
		TEST(every_call_in_hand_is_answered_when_the_console_daemon_dies),
		TEST(every_call_in_hand_is_answered_when_the_link_is_freed),
		TEST(a_call_that_is_not_answered_in_time_is_told_so_and_the_late_answer_harms_nobody),
		TEST(a_call_past_the_bound_is_refused),
		TEST(descriptors_that_nobody_takes_are_closed),
		TEST(an_answer_that_was_not_asked_for_ends_the_link),
		TEST(an_answer_of_another_kind_ends_the_link),
		TEST(a_good_event_is_passed_on),
		TEST(an_event_that_is_not_known_is_passed_over),
		cmocka_unit_test(each_impossible_description_ends_the_link),
		TEST(bytes_that_are_no_message_end_the_link),
		TEST(a_frame_of_a_stream_ends_the_link),
		TEST(a_link_may_be_freed_from_its_own_event),
	};
	return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
