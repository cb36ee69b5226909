/* SPDX-License-Identifier: BSD-3-Clause */
/* The two queues between the control thread and the workers. One thread plays both sides; no worker is started. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "border/event.h"
#include "border/expect.h"
#include "border/news.h"
#include "border/stream_view.h"

#define WORKERS 3u
#define MANY    (4 * CMD_SLOTS)

static struct cmd cmds[MANY];
static uint32_t n_done;
static struct cmd *last_done[2]; /* the last command that worker 0, and worker 1, has done */
static bool in_order;
static uint32_t n_events;

static bool to_one(const struct cmd *c) { return (c - cmds) % 7 == 0; }

static void done(struct cmd *c)
{
	struct cmd **last = &last_done[to_one(c)];

	in_order &= c > *last;
	*last = c;
	n_done++;
}

static void take(const struct event *ev)
{
	(void)ev;
	n_events++;
}

static int setup(void **state)
{
	char err[128];

	(void)state;
	rnicd.n_workers = rnicd.cfg.n_workers = WORKERS;
	n_done = n_events = 0;
	last_done[0] = last_done[1] = NULL;
	in_order = true;
	for (uint32_t i = 0; i < MANY; i++)
		cmds[i] = (struct cmd){ .type = CMD_NOTHING, .done = done };
	return event_start(WORKERS, err, sizeof(err)) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	event_stop();
	return 0;
}

/* A worker's turn. */
static uint32_t work(uint32_t worker)
{
	struct cmd *c;
	uint32_t n = 0;

	while ((c = cmd_take(worker)) != NULL) {
		event_answer(worker, c);
		n++;
	}
	return n;
}

static void commands_beyond_the_queue_wait_in_order(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		cmd_send(&cmds[i], to_one(&cmds[i]));
	while (n_done < MANY) {
		(void)work(1);
		(void)work(0);
		event_collect(MANY, take);
	}
	assert_true(in_order);
	assert_false(cmd_waits(0));
	assert_int_equal(n_events, 0);
}

static void command_to_all_is_done_once_after_the_last_answer(void **state)
{
	(void)state;
	cmd_send_all(&cmds[0]);
	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_true(cmd_waits(w));
		assert_int_equal(event_collect(MANY, take), 0);
		assert_int_equal(n_done, 0);
		assert_int_equal(work(w), 1);
		if (w + 1 < WORKERS)
			assert_int_equal(event_collect(MANY, take), 1);
	}
	assert_int_equal(event_collect(MANY, take), 1);
	assert_int_equal(n_done, 1);
}

static void full_event_queue_still_takes_every_answer(void **state)
{
	uint32_t lossless = 0;

	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		cmd_send(&cmds[i], 0);
	for (struct event *ev; (ev = event_room(0, EVENT_LOSSLESS)) != NULL; lossless++) {
		ev->type = EVENT_FX;
		ev->fx.priv_len = 0;
		event_put(0);
	}
	assert_int_equal(work(0), CMD_SLOTS);
	assert_null(event_room(0, EVENT_LOSSLESS));
	assert_int_equal(event_collect(10 * MANY, take), lossless + CMD_SLOTS);
	assert_int_equal(n_events, lossless);
	assert_int_equal(n_done, CMD_SLOTS);
	assert_non_null(event_room(0, EVENT_LOSSLESS));
	while (n_done < MANY) {
		(void)work(0);
		event_collect(MANY, take);
	}
}

static void droppable_events_leave_room_for_lossless_ones(void **state)
{
	uint32_t droppable = 0, lossless = 0;

	(void)state;
	for (struct event *ev; (ev = event_room(2, EVENT_DROPPABLE)) != NULL; droppable++) {
		ev->type = EVENT_NEIGH;
		event_put(2);
	}
	assert_int_not_equal(droppable, 0);
	for (struct event *ev; (ev = event_room(2, EVENT_LOSSLESS)) != NULL; lossless++) {
		ev->type = EVENT_FX;
		ev->fx.priv_len = 0;
		event_put(2);
	}
	assert_in_range(lossless, 1024, UINT32_MAX); /* effects of several turns */
	assert_int_equal(event_collect(10 * MANY, take), droppable + lossless);
}

/* ---- events of different lengths ---- */

#define ROUNDS 20000u

static uint32_t heard;

static uint8_t nth_byte(uint32_t n, uint32_t i) { return (uint8_t)(n * 7 + i); }

/* Checks the next event: an effect with private data of any length, or a datagram's message. */
static void hear(const struct event *ev)
{
	const uint32_t n = heard++, len = n * 37 % (IPC_PRIV_MAX + 1);
	const uint8_t *bytes = n % 3 != 0 ? ev->fx.priv : ev->sidr.body;

	assert_int_equal(ev->worker, 1);
	assert_int_equal(ev->type, n % 3 != 0 ? EVENT_FX : EVENT_SIDR);
	assert_int_equal(n % 3 != 0 ? ev->fx.priv_len : ev->sidr.len, len);
	if (n % 3 != 0)
		assert_int_equal(ev->fx.owner, n);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(bytes[i], nth_byte(n, i));
}

static void say(uint32_t n)
{
	struct event *ev = event_room(1, n % 3 != 0 ? EVENT_LOSSLESS : EVENT_DROPPABLE);
	const uint32_t len = n * 37 % (IPC_PRIV_MAX + 1);

	assert_non_null(ev);
	uint8_t *bytes = n % 3 != 0 ? ev->fx.priv : ev->sidr.body;
	ev->type = n % 3 != 0 ? EVENT_FX : EVENT_SIDR;
	if (n % 3 != 0)
		ev->fx = (struct event_fx){ .owner = n, .priv_len = (uint16_t)len };
	else
		ev->sidr = (struct event_sidr){ .len = len };
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = nth_byte(n, i);
	event_put(1);
}

/* The queue goes round many times, and an event may begin at its end and go on at its start. */
static void events_of_any_length_come_whole_and_in_order(void **state)
{
	(void)state;
	heard = 0;
	for (uint32_t n = 0; n < ROUNDS; n++) {
		say(n);
		if (n % 5 == 0) {
			cmd_send(&cmds[0], 1);
			assert_int_equal(work(1), 1);
			event_collect(MANY, hear);
		}
	}
	event_collect(MANY, hear);
	assert_int_equal(heard, ROUNDS);
	assert_int_equal(n_done, ROUNDS / 5);
}

#define PAGES_MOST 80u /* pages of the queue's ring (256 KiB), its head, and an event beside the ring */

/* Pages that the queue has touched stay resident. They are few, however many events have gone through the queue. */
static void a_queue_is_small(void **state)
{
	static uintptr_t pages[4 * PAGES_MOST];
	uint32_t n = 0;

	(void)state;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct event *ev = event_room(1, EVENT_LOSSLESS);
		const uintptr_t page = (uintptr_t)ev / 4096;
		uint32_t k = 0;
		while (k < n && pages[k] != page)
			k++;
		if (k == n && n < RN_ARRAY_LEN(pages))
			pages[n++] = page;
		ev->type = EVENT_FX;
		ev->fx.priv_len = 0;
		event_put(1);
		event_collect(MANY, take);
	}
	assert_in_range(n, 1, PAGES_MOST);
}

static void an_answer_comes_before_what_is_told_after_it(void **state)
{
	(void)state;
	cmd_send(&cmds[0], 0);
	assert_int_equal(work(0), 1);
	struct event *ev = event_room(0, EVENT_LOSSLESS);
	ev->type = EVENT_FX;
	ev->fx.priv_len = 0;
	event_put(0);
	assert_int_equal(event_collect(1, take), 1);
	assert_int_equal(n_done, 1);
	assert_int_equal(n_events, 0);
	assert_int_equal(event_collect(1, take), 1);
	assert_int_equal(n_events, 1);
}

static void control_thread_does_not_sleep_over_an_event(void **state)
{
	(void)state;
	assert_true(event_prepare_sleep());
	event_awake();
	cmd_send(&cmds[0], 1);
	assert_int_equal(work(1), 1);
	assert_false(event_prepare_sleep());
	assert_int_equal(event_collect(MANY, take), 1);
	assert_true(event_prepare_sleep());
	event_awake();
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/*
 * The control thread reads its eventfd if a worker has written to it since the last read, however long ago: an eventfd
 * that stays readable would end every sleep at once.
 */
static void a_knock_is_read_when_a_worker_has_knocked(void **state)
{
	(void)state;
	event_awake();
	assert_false(readable(rnicd.control_fd));
	assert_true(event_prepare_sleep());
	cmd_send(&cmds[0], 1);
	assert_int_equal(work(1), 1);
	event_flush(1);
	assert_true(readable(rnicd.control_fd));
	assert_false(event_prepare_sleep()); /* the answer is there already: no sleep, and the descriptor is not read */
	assert_true(readable(rnicd.control_fd));
	event_awake();
	assert_int_equal(event_collect(MANY, take), 1);
	assert_true(event_prepare_sleep());
	event_awake();
	assert_false(readable(rnicd.control_fd));
}

static void expected_port_is_forgotten_after_its_time(void **state)
{
	const uint64_t now = 1000 * RN_NS_PER_S;

	(void)state;
	assert_false(expect_is(1, 80, now));
	expect_put(1, 80, now);
	assert_true(expect_is(1, 80, now));
	assert_false(expect_is(0, 80, now));
	assert_false(expect_is(1, 81, now));
	assert_true(expect_is(1, 80, now + EXPECT_NS - RN_NS_PER_MS));
	assert_false(expect_is(1, 80, now + EXPECT_NS + RN_NS_PER_MS));
	for (uint32_t i = 0; i < EXPECT_PORTS; i++)
		expect_put(1, (uint16_t)(1000 + i), now);
	assert_false(expect_is(1, 80, now));
}

static void the_latest_news_are_kept_and_the_oldest_of_them_stand_for_older_ones(void **state)
{
	char longer[2 * NEWS_TEXT];
	struct news n;

	(void)state;
	const uint64_t first = news_next();
	assert_false(news_get(first, &n));
	for (uint32_t i = 0; i < NEWS_KEPT + 10; i++)
		news_add(i % 2 == 0 ? NEWS_CLIENT : NEWS_CONNECTION, "fact %u", i);
	assert_int_equal(news_next(), first + NEWS_KEPT + 10);
	assert_true(news_get(first, &n));
	assert_int_equal(n.number, first + 10);
	assert_string_equal(n.text, "fact 10");
	assert_int_equal(n.kind, NEWS_CLIENT);
	assert_true(news_get(first + NEWS_KEPT + 9, &n));
	assert_string_equal(n.text, "fact 521");
	assert_false(news_get(first + NEWS_KEPT + 10, &n));
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	news_add(NEWS_ERROR, "%s", longer);
	assert_true(news_get(news_next() - 1, &n));
	assert_int_equal(strlen(n.text), NEWS_TEXT - 1);
}

/* A program rings all sockets of a block and one behind, and goes on ringing those of the first word. */
static void a_user_has_a_bounded_part_of_a_turn_and_each_of_its_sockets_a_turn(void **state)
{
	static struct ipc_sock_bell bell;
	static struct stream_user u = { .bell = &bell, .blocks = IPC_SOCK_BLOCKS };
	uint32_t rung[STREAM_RINGS_MAX], n = 0, of_turn;

	(void)state;
	memset(bell.block[0].bits, 0xff, sizeof(bell.block[0].bits));
	bell.block[0].summary = UINT64_MAX;
	bell.block[1].bits[0] = bell.block[1].summary = 1;
	for (uint32_t turn = 0; turn <= IPC_MAX_QPS / STREAM_RINGS_EACH; turn++) {
		of_turn = stream_user_take(&u, rung);
		assert_in_range(of_turn, 1, STREAM_RINGS_MAX);
		n += of_turn;
		bell.block[0].bits[0] = UINT64_MAX;
		bell.block[0].summary |= 1;
	}
	assert_int_equal(n, IPC_MAX_QPS + 1 + 64);
	assert_int_equal(rung[0], IPC_MAX_QPS);
	of_turn = stream_user_take(&u, rung);
	assert_int_equal(of_turn, 64);
	for (uint32_t i = 0; i < of_turn; i++)
		assert_int_equal(rung[i], i);
	assert_int_equal(stream_user_take(&u, rung), 0);
	assert_false(stream_users_rung(&u));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(commands_beyond_the_queue_wait_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(command_to_all_is_done_once_after_the_last_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(full_event_queue_still_takes_every_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(events_of_any_length_come_whole_and_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(a_queue_is_small, setup, teardown),
		cmocka_unit_test_setup_teardown(droppable_events_leave_room_for_lossless_ones, setup, teardown),
		cmocka_unit_test_setup_teardown(an_answer_comes_before_what_is_told_after_it, setup, teardown),
		cmocka_unit_test_setup_teardown(control_thread_does_not_sleep_over_an_event, setup, teardown),
		cmocka_unit_test_setup_teardown(a_knock_is_read_when_a_worker_has_knocked, setup, teardown),
		cmocka_unit_test(expected_port_is_forgotten_after_its_time),
		cmocka_unit_test(a_user_has_a_bounded_part_of_a_turn_and_each_of_its_sockets_a_turn),
		cmocka_unit_test(the_latest_news_are_kept_and_the_oldest_of_them_stand_for_older_ones),
	};
	return cmocka_run_group_tests_name("border", tests, NULL, NULL);
}
