/* SPDX-License-Identifier: BSD-3-Clause */
/* The slots of a datagram socket's memory (border/gram_slot.c). The test plays the sender and the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "border/grams.h"
#include "qp/qp.h"

#define LONG  40000u
#define SHORT 32000u

static struct rnicd_port port;
static struct qp_stats stats;
static uint64_t now = RN_NS_PER_S;
static const struct gram_plane plane; /* no function is called */
static struct grams grams = { .plane = &plane, .now = &now, .stats = &stats };
static struct gram gram;
static struct pkt from = { .sport = 1000, .dport = 2000 };
static uint8_t bytes[LONG];
static uint32_t id;

static int setup(void **state)
{
	(void)state;
	rnicd.n_workers = 1;
	rnicd.port[0] = &port;
	gram.mem = calloc(1, IPC_GRAM_SIZE);
	return gram.mem != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(gram.mem);
	return 0;
}

static void read_all(void) { gram.mem->rx_head = gram.mem->rx_tail; }

/* A datagram that comes whole in one segment. True: it is delivered. */
static bool long_one(uint32_t slot)
{
	const uint32_t before = gram.rx_tail;

	from.payload_len = LONG;
	const struct ipc_gram_rec rec = gram_record(0, &from, 64);
	const struct gram_seg s = { .q = &from,
				    .bytes = bytes,
				    .unit = UINT16_MAX,
				    .total = LONG,
				    .id = ++id,
				    .stag = gram_lend(&grams, &gram, 0, &from),
				    .to = (uint64_t)slot * IPC_GRAM_SLOT };

	gram_place(&grams, &gram, 0, &rec, &s);
	return gram.rx_tail != before;
}

static bool short_one(void)
{
	from.payload_len = SHORT;
	const struct ipc_gram_rec rec = gram_record(0, &from, 64);
	const struct rn_iov iov = { .base = bytes, .len = SHORT };

	return gram_deliver(&grams, &gram, 0, &rec, &iov, 1);
}

static void unread_slot_takes_none(void **state)
{
	(void)state;
	assert_true(long_one(0));
	assert_false(long_one(0));
	assert_true(long_one(1));
	read_all();
	assert_true(long_one(0));
	read_all();
}

/* The index of the ring comes around while no long datagram comes. */
static void read_slot_stays_free(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < IPC_GRAM_SLOTS; i++) {
		assert_true(long_one(i));
		read_all();
	}
	for (uint64_t n = 0; n < UINT32_MAX / 2 + IPC_GRAM_RING; n += SHORT) {
		if (!short_one())
			fail_msg("a short datagram is dropped");
		read_all();
	}
	for (uint32_t i = 0; i < IPC_GRAM_SLOTS; i++) {
		assert_true(long_one(i));
		read_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unread_slot_takes_none),
		cmocka_unit_test(read_slot_stays_free),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
