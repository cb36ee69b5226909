/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole data plane over a wired pair of ports: connections and all operations. The cases send by copy and by
 * reference, over a shaped line, through an impaired network, and from a port to itself, with one worker and with two.
 * At the end of each case all packet buffers have come back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "twin.h"
#include "plane/dataplane.h"
#include "plane/worker_int.h"

/* The parameters of a case. */
struct given {
	const char *name;
	uint32_t workers, mtu;
	bool crc, always, markers, self;
	uint64_t rate_bps;
	struct rnicd_impair_cfg impair;
	uint32_t zcopy_min;
	uint32_t bytes;    /* length of a message */
	uint32_t messages; /* number of messages of each kind */
};

static void configure(const struct given *g)
{
	twin_configure(g->mtu);
	rnicd.cfg.n_workers = g->workers;
	rnicd.cfg.zcopy_min = g->zcopy_min;
	for (uint32_t i = 0; i < 2; i++) {
		struct rnicd_port_cfg *p = &rnicd.cfg.port[i];
		p->rate_bps = g->rate_bps;
		p->impair = g->impair;
		p->crc = g->crc;
		p->crc_always = g->always;
		p->markers = g->markers;
	}
}

static void fill(uint8_t *p, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (uint8_t)((i * 31 + seed * 7) ^ (i >> 8));
}

static void one_completion(struct twin *t, uint64_t wr_id, enum qp_wc_op op)
{
	struct qp_cqe cqe;
	assert_true(twin_wait(t, &cqe));
	assert_int_equal(cqe.status, QP_WC_SUCCESS);
	assert_int_equal(cqe.op, op);
	assert_int_equal(cqe.wr_id, wr_id);
}

static void post(struct twin *t, enum qp_wr_op op, uint64_t id, uint64_t addr, uint32_t len)
{
	const struct twin *peer = t == &twin[0] ? &twin[1] : &twin[0];
	struct qp_wqe w = { .wr_id = id,
			    .op = (uint8_t)op,
			    .flags = QP_WF_SIGNALED,
			    .num_sge = 1,
			    .slots = 1,
			    .raddr = addr + TWIN_ARENA / 2,
			    .rkey = peer->stag,
			    .sge = { { addr, len, t->stag } } };
	assert_true(twin_post(t, &w));
}

/* Sends messages one at a time; their bytes are compared at the other end. */
static void exchange(const struct given *g)
{
	const uint32_t half = TWIN_ARENA / 2;

	for (uint32_t i = 0; i < g->messages; i++) {
		uint32_t len = g->bytes - i % 3;
		fill(twin[0].arena, len, i);
		post(&twin[0], QP_WR_WRITE, 3 * i, 0, len);
		twin_ring(&twin[0]);
		one_completion(&twin[0], 3 * i, QP_WC_RDMA_WRITE);
		assert_memory_equal(twin[1].arena + half, twin[0].arena, len);

		memset(twin[0].arena, 0, len);
		post(&twin[0], QP_WR_READ, 3 * i + 1, 0, len);
		twin_ring(&twin[0]);
		one_completion(&twin[0], 3 * i + 1, QP_WC_RDMA_READ);
		assert_memory_equal(twin[1].arena + half, twin[0].arena, len);

		assert_true(twin_post_recv(&twin[1], 1000 + i, 64, len));
		twin_ring(&twin[1]);
		memset(twin[1].arena, 0, len + 64);
		post(&twin[0], QP_WR_SEND, 3 * i + 2, 0, len);
		twin_ring(&twin[0]);
		one_completion(&twin[0], 3 * i + 2, QP_WC_SEND);
		one_completion(&twin[1], 1000 + i, QP_WC_RECV);
		assert_memory_equal(twin[1].arena + 64, twin[0].arena, len);
	}
}

/* Sends many messages at once in both directions. */
static void stream(const struct given *g)
{
	uint32_t n = rn_min_u32(g->messages * 4, 256), left[2] = { n, n };

	for (uint32_t i = 0; i < n; i++) {
		post(&twin[0], QP_WR_WRITE, i, 0, g->bytes);
		post(&twin[1], i % 2 ? QP_WR_READ : QP_WR_WRITE, i, 0, g->bytes);
	}
	twin_ring(&twin[0]);
	twin_ring(&twin[1]);
	for (uint32_t t = 0; t < 2; t++) {
		while (left[t] > 0) {
			struct qp_cqe cqe;
			assert_true(twin_wait(&twin[t], &cqe));
			assert_int_equal(cqe.status, QP_WC_SUCCESS);
			assert_int_equal(cqe.wr_id, n - left[t]);
			left[t]--;
		}
	}
}

/* True: all packet buffers of the daemon have come back. */
static bool nothing_left(void)
{
	uint64_t end = rnicd_now() + 2 * RN_NS_PER_S;
	uint32_t used;

	do {
		used = 0;
		for (uint32_t i = 0; i < rnicd.n_ports; i++)
			used += rte_mempool_in_use_count(rnicd.port[i]->pool);
		for (uint32_t i = 0; i < rnicd.n_workers; i++)
			used += rte_mempool_in_use_count(worker_at[i]->small_pool);
	} while (used != 0 && rnicd_now() < end);
	return used == 0;
}

static void both_ways(void **state)
{
	const struct given *g = *state;

	configure(g);
	assert_true(twin_start(0, g->self ? 0 : 1));
	/* each round waits until TIME_WAIT is over */
	for (uint32_t round = 0; round < (g->bytes > 100 ? 1 : 2); round++) {
		assert_true(twin_connect());
		exchange(g);
		stream(g);
		assert_true(twin_disconnect());
	}
	assert_true(twin_quiet(&twin[0]) && twin_quiet(&twin[1]));
	assert_true(nothing_left());
	uint64_t taken = 0;
	for (uint32_t w = 0; w < rnicd.n_workers; w++)
		taken += twin[0].client[w].ext_taken;
	/* by reference if the pieces are long and few enough, otherwise by copy */
	assert_true((taken != 0) == (g->zcopy_min != 0 && g->zcopy_min < g->mtu - 200 && !g->markers));
	if (g->impair.loss != 0)
		assert_true(rnicd.port[0]->stats[0].impair_lost != 0);
	twin_stop();
}

/* DPDK can be started only once in a process, so the case with the most workers comes first. */
static const struct given cases[] = {
	{ .name = "two_workers", .workers = 2, .mtu = 1500, .crc = true, .bytes = 20000, .messages = 10 },
	{ .name = "plain_1500", .workers = 1, .mtu = 1500, .crc = true, .bytes = 20000, .messages = 20 },
	{ .name = "small_messages", .workers = 1, .mtu = 1500, .crc = true, .bytes = 67, .messages = 60 },
	{ .name = "jumbo_by_reference",
	  .workers = 1,
	  .mtu = 9000,
	  .crc = true,
	  .zcopy_min = 2048,
	  .bytes = 300000,
	  .messages = 8 },
	{ .name = "markers_are_copied",
	  .workers = 1,
	  .mtu = 9000,
	  .crc = true,
	  .markers = true,
	  .zcopy_min = 256,
	  .bytes = 100000,
	  .messages = 8 },
	{ .name = "to_oneself", .workers = 1, .mtu = 1500, .crc = true, .self = true, .bytes = 20000, .messages = 10 },
	{ .name = "shaped_1g",
	  .workers = 1,
	  .mtu = 1500,
	  .crc = true,
	  .rate_bps = 1000000000,
	  .bytes = 20000,
	  .messages = 5 },
	{ .name = "lossy",
	  .workers = 1,
	  .mtu = 1500,
	  .crc = true,
	  .bytes = 20000,
	  .messages = 10,
	  .impair = { .seed = 3,
		      .loss = UINT32_MAX / 50,
		      .duplicate = UINT32_MAX / 100,
		      .reorder = UINT32_MAX / 50,
		      .corrupt = UINT32_MAX / 100 } },
	{ .name = "lossy_by_reference",
	  .workers = 1,
	  .mtu = 9000,
	  .crc = true,
	  .zcopy_min = 1024,
	  .bytes = 200000,
	  .messages = 4,
	  .impair = { .seed = 4,
		      .loss = UINT32_MAX / 50,
		      .duplicate = UINT32_MAX / 50,
		      .reorder = UINT32_MAX / 50,
		      .corrupt = UINT32_MAX / 50,
		      .delay_ns = 100000,
		      .jitter_ns = 50000 } },
	{ .name = "largest_mtu",
	  .workers = 1,
	  .mtu = RNICD_MTU_MAX,
	  .crc = true,
	  .zcopy_min = 2048,
	  .bytes = 300000,
	  .messages = 10 },
	{ .name = "largest_mtu_copied_and_lossy",
	  .workers = 1,
	  .mtu = RNICD_MTU_MAX,
	  .crc = true,
	  .always = true,
	  .markers = true,
	  .bytes = 300000,
	  .messages = 10,
	  .impair = { .seed = 5, .loss = UINT32_MAX / 50, .reorder = UINT32_MAX / 50, .corrupt = UINT32_MAX / 50 } },
	{ .name = "summed_inside_too",
	  .workers = 1,
	  .mtu = 9000,
	  .crc = true,
	  .always = true,
	  .bytes = 300000,
	  .messages = 10 },
};

static void shaped_line_is_not_outrun(void **state)
{
	const struct given *g = &cases[6];
	struct qp_cqe cqe;

	(void)state;
	configure(g);
	assert_true(twin_start(0, 1));
	assert_true(twin_connect());
	uint64_t start = rnicd_now();
	for (uint32_t i = 0; i < 100; i++)
		post(&twin[0], QP_WR_WRITE, i, 0, 100000);
	twin_ring(&twin[0]);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(twin_wait(&twin[0], &cqe));
	/* 10 MB of payload take the line more than 80 ms */
	assert_true(rnicd_now() - start > 80 * RN_NS_PER_MS);
	assert_true(twin_disconnect());
	twin_stop();
}

/*
 * When a Write completes, nothing is in flight: the timer that was armed for the segment is not left behind. It may be,
 * if the machine was so busy that TCP has sent a segment twice.
 */
static void completed_write_leaves_no_timer(void **state)
{
	uint32_t left = 0;

	(void)state;
	configure(&cases[0]);
	assert_true(twin_start(0, 1));
	assert_true(twin_connect());
	for (uint32_t i = 0; i < 20; i++) {
		post(&twin[0], QP_WR_WRITE, i, 0, 64);
		twin_ring(&twin[0]);
		one_completion(&twin[0], i, QP_WC_RDMA_WRITE);
		const struct conn *c = conn_of(twin[0].conn);
		left += rn_timer_armed(&c->timer) && c->timer.when < rc_tcp_next_wake(&c->qc);
	}
	assert_in_range(left, 0, 10);
	assert_true(twin_disconnect());
	twin_stop();
}

int main(void)
{
	struct CMUnitTest tests[RN_ARRAY_LEN(cases) + 2];

	for (size_t i = 0; i < RN_ARRAY_LEN(cases); i++)
		tests[i] = (struct CMUnitTest){ .name = cases[i].name,
						.test_func = both_ways,
						.initial_state = (void *)(uintptr_t)&cases[i] };
	tests[RN_ARRAY_LEN(cases)] = (struct CMUnitTest)cmocka_unit_test(shaped_line_is_not_outrun);
	tests[RN_ARRAY_LEN(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(completed_write_leaves_no_timer);
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rnicd_dataplane_exit();
	return rc;
}
