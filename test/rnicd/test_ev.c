/* SPDX-License-Identifier: BSD-3-Clause */
/* Event queues toward clients (client_ev.c); the test plays the rest of the control thread, and poll(). */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/client.h"

#define CHANNELS 1000u
#define SLOTS    16u

/* ---- functions that the file under test calls ---- */

static struct loop_timer *armed;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed = t;
}
uint64_t rnicd_now(void) { return 1; }
void *user_alloc(struct user *u, size_t size)
{
	(void)u;
	return calloc(1, size);
}
void user_free(struct user *u, void *p)
{
	(void)u;
	free(p);
}
static uint32_t drops;
void client_drop(struct client *c, const char *why)
{
	(void)why;
	c->state = CLIENT_DYING;
	drops++;
}

static bool room[CHANNELS]; /* in the eventfd of each channel */
static uint32_t polls;
static struct client_chan chan[CHANNELS];
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout)
{
	assert_int_equal(n, 1);
	assert_int_equal(timeout, 0);
	polls++;
	for (uint32_t i = 0; i < CHANNELS; i++)
		if (chan[i].fd == p->fd)
			p->revents = room[i] ? POLLOUT : 0;
	return p->revents != 0;
}

/* The eventfd of channel i is the number 1000000 + i. */
static bool filled; /* that of channel 0, between poll() and write() */
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n)
{
	(void)p;
	assert_in_range(fd, 1000000, 1000000 + CHANNELS - 1);
	return filled && fd == 1000000 ? -1 : (ssize_t)n;
}

/* ---- tests ---- */

static struct client client;
static uint8_t *memory;

static int setup(void **state)
{
	const size_t each = (spsc_size(SLOTS, IPC_EVENT_SLOT_SMALL) + 4095) & ~(size_t)4095;

	(void)state;
	memset(&client, 0, sizeof(client));
	memset(chan, 0, sizeof(chan));
	memset(room, 0, sizeof(room));
	drops = 0;
	memory = aligned_alloc(4096, each * CHANNELS);
	assert_non_null(memory);
	memset(memory, 0, each * CHANNELS);
	for (uint32_t i = 0; i < CHANNELS; i++) {
		const struct spsc_place at = { .region = memory,
					       .region_size = each * CHANNELS,
					       .off = each * i,
					       .nslots = SLOTS,
					       .slot_size = IPC_EVENT_SLOT_SMALL };
		chan[i].c = &client;
		chan[i].fd = 1000000 + (int)i;
		chan[i].slot_size = IPC_EVENT_SLOT_SMALL;
		assert_int_equal(spsc_prod_attach(&chan[i].ring, &at), SPSC_OK);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CHANNELS; i++)
		ev_chan_fini(&chan[i]);
	free(memory);
	assert_int_equal(client.waiting, 0);
	return 0;
}

/* Pushes an event into each of the first n channels. */
static void push(uint32_t n)
{
	const struct ipc_comp_event ev = { .cq_cookie = 5 };

	for (uint32_t i = 0; i < n; i++)
		assert_true(ev_push_copy(&chan[i], NULL, &ev, sizeof(ev)));
}

/* The timer is due. Returns the number of channels that were looked at. */
static uint32_t tick(void)
{
	struct loop_timer *t = armed;

	assert_non_null(t);
	armed = NULL;
	polls = 0;
	t->due(t);
	return polls;
}

static void thousands_of_full_channels_do_not_hold_the_control_thread(void **state)
{
	(void)state;
	push(CHANNELS);
	for (uint32_t i = 0; i < 20; i++)
		assert_in_range(tick(), 1, 256);
}

static void each_channel_has_its_turn(void **state)
{
	(void)state;
	push(CHANNELS);
	room[3] = room[CHANNELS - 1] = true;
	for (uint32_t i = 0; i < CHANNELS / 256 + 1; i++)
		tick();
	assert_int_equal(chan[3].delivered, 1);
	assert_int_equal(chan[CHANNELS - 1].delivered, 1);
	assert_int_equal(client.waiting, CHANNELS - 2);
}

static void few_channels_are_looked_at_once_in_a_tick(void **state)
{
	(void)state;
	push(3);
	assert_int_equal(tick(), 3);
	room[2] = true;
	assert_int_equal(tick(), 3);
	assert_int_equal(tick(), 2);
	room[0] = room[1] = true;
	tick();
	assert_null(armed);
	assert_int_equal(client.waiting, 0);
}

static void filled_eventfd_drops_its_client_and_no_other_channel(void **state)
{
	(void)state;
	push(2);
	room[0] = room[1] = true;
	filled = true;
	tick();
	filled = false;
	assert_int_equal(drops, 1);
	tick();
	assert_int_equal(chan[1].delivered, 1);
	assert_null(armed);
}

static void push_of(uint32_t i, struct rn_list *object, uint64_t cookie)
{
	const struct ipc_comp_event ev = { .cq_cookie = cookie };

	assert_true(ev_push_copy(&chan[i], object, &ev, sizeof(ev)));
}

static uint64_t cookie_of(const struct ev_node *n) { return ((const struct ipc_comp_event *)n->data)->cq_cookie; }

/*
 * Nobody may pass this event: the link to the event behind it leads nowhere. Taking the event before it off the list
 * does not follow the link.
 */
static struct rn_link *fence_up(struct ev_node *n)
{
	struct rn_link *next = n->link.next;

	assert_non_null(next);
	n->link.next = (struct rn_link *)(uintptr_t)16;
	return next;
}

static void the_end_of_an_object_passes_no_events_of_others(void **state)
{
	struct rn_list mine = { .first = NULL }, others = { .first = NULL };

	(void)state;
	push_of(0, &mine, 1);
	push_of(0, &others, 2);
	push_of(1, &mine, 3);
	push_of(0, &others, 4);
	push_of(1, &others, 5);
	push_of(1, NULL, 6);
	struct ev_node *first = rn_list_first(&others, struct ev_node, of_object);
	struct ev_node *last = rn_list_last(&others, struct ev_node, of_object);
	struct rn_link *next0 = fence_up(first), *next1 = fence_up(last);
	ev_cancel_all(&mine);
	first->link.next = next0;
	last->link.next = next1;
	assert_true(rn_list_empty(&mine));
	assert_true(chan[0].waiting == 2 && chan[1].waiting == 2 && client.waiting == 4);
	assert_ptr_equal(chan[0].events.first, &first->link);
	assert_ptr_equal(chan[1].events.first, &last->link);
	room[0] = room[1] = true;
	tick(); /* a delivered event leaves its object's list, too */
	assert_true(rn_list_empty(&others));
	assert_true(chan[0].delivered == 2 && chan[1].delivered == 2 && client.waiting == 0);
}

static void an_object_moves_its_events_in_order_and_no_others(void **state)
{
	struct rn_list mine = { .first = NULL };
	static const uint64_t order[] = { 1, 3, 4 };
	uint32_t n = 0;

	(void)state;
	push_of(1, NULL, 1);
	push_of(0, NULL, 2);
	push_of(0, &mine, 3);
	push_of(0, &mine, 4);
	push_of(0, NULL, 5);
	ev_migrate(&mine, &chan[1]);
	assert_true(chan[0].waiting == 2 && chan[1].waiting == 3);
	rn_list_each(const struct ev_node, e, &chan[1].events, link)
		assert_int_equal(cookie_of(e), order[n++]);
	assert_int_equal(n, 3);
	ev_chan_fini(&chan[1]); /* also from the object's list */
	assert_true(rn_list_empty(&mine));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(thousands_of_full_channels_do_not_hold_the_control_thread, setup,
						teardown),
		cmocka_unit_test_setup_teardown(each_channel_has_its_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(few_channels_are_looked_at_once_in_a_tick, setup, teardown),
		cmocka_unit_test_setup_teardown(filled_eventfd_drops_its_client_and_no_other_channel, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_of_an_object_passes_no_events_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(an_object_moves_its_events_in_order_and_no_others, setup, teardown),
	};

	return cmocka_run_group_tests_name("ev", tests, NULL, NULL);
}
