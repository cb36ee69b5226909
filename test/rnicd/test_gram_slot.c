/* SPDX-License-Identifier: BSD-3-Clause */
/* The slots of a datagram socket's memory (plane/gram_slot.c). The test plays the sender and the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "eal.h"
#include "plane/gram.h"

#define LONG  40000u
#define SHORT 32000u

static struct rnicd_port_cfg port_cfg = { .vlan = PKT_NO_VLAN };
static struct rnicd_port port = { .cfg = &port_cfg };
static struct rnicd_worker worker;
static struct gram gram;
static struct pkt from = { .sport = 1000, .dport = 2000 };
static struct rte_mbuf *frame;
static uint32_t id;

static int setup(void **state)
{
	(void)state;
	rnicd.n_workers = 1;
	struct rte_mempool *pool = pool_for_test("gram", 15, LONG);
	frame = pool != NULL ? rte_pktmbuf_alloc(pool) : NULL;
	gram.mem = calloc(1, IPC_GRAM_SIZE);
	if (frame == NULL || gram.mem == NULL || rte_pktmbuf_append(frame, LONG) == NULL)
		return -1;
	memset(rte_pktmbuf_mtod(frame, void *), 0, LONG);
	worker.now = RN_NS_PER_S;
	return 0;
}

static int teardown(void **state)
{
	struct rte_mempool *pool = frame->pool;

	(void)state;
	rte_pktmbuf_free(frame);
	rte_mempool_free(pool);
	free(gram.mem);
	return 0;
}

static void read_all(void) { gram.mem->rx_head = gram.mem->rx_tail; }

/* A datagram that comes whole in one segment. True: it is delivered. */
static bool long_one(uint32_t slot)
{
	from.payload_len = LONG;
	const struct gram_seg s = { .q = &from,
				    .unit = UINT16_MAX,
				    .total = LONG,
				    .id = ++id,
				    .stag = gram_lend(&worker, &gram, 0, &from),
				    .to = (uint64_t)slot * IPC_GRAM_SLOT };

	return gram_place(&worker, &port, &gram, frame, &s);
}

static bool short_one(void)
{
	from.payload_len = SHORT;
	const struct ipc_gram_rec rec = gram_record(&port, frame, &from);

	return gram_deliver(&worker, &port, &gram, frame, 0, &rec);
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

	if (!eal_for_test())
		return 1;
	return cmocka_run_group_tests(tests, setup, teardown);
}
