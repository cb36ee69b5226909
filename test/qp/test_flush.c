/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes beside other work. The rings' indices are the client's, but the number of flushed requests in a turn is
 * bounded, and in the end all requests are flushed, in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "qp/qp_engine.h"

#define QPS    64u
#define SLOTS  32768u
#define CQE    65536u
#define REGION (UINT64_C(16) << 20)
#define TURN   8192u /* most work requests that a turn flushes: twice 4,096 */

/* All queue pairs belong to one client and share the same rings: a client can pretend so. */
static struct {
	uint8_t *region;
	struct qp_ctx ctx;
	struct qp_dev dev;
	struct qp_mr mr[4];
	struct qp_cq cq;
	struct qp qp[QPS];
	uint64_t sq_off;
	struct spsc_cons client; /* the client's end of the CQ */
	struct qp_cq own[QPS];   /* own_queues(): a small CQ for each queue pair */
} t;

static uint64_t round_up(uint64_t n) { return (n + 4095) & ~UINT64_C(4095); }

static int make(void **state)
{
	const uint64_t cq = 0, ring = 4096;
	uint64_t at = ring + round_up(spsc_size(CQE, QP_CQE_SIZE));

	(void)state;
	memset(&t, 0, sizeof(t));
	t.region = aligned_alloc(4096, REGION);
	assert_non_null(t.region);
	memset(t.region, 0, REGION);
	const struct qp_cq_attr c = { .owner = 1,
				      .region = t.region,
				      .region_size = REGION,
				      .shm_off = cq,
				      .ring_off = ring,
				      .ring_stride = spsc_size(CQE, QP_CQE_SIZE),
				      .workers = 1,
				      .cqe = CQE };
	const struct spsc_place place = {
		.region = t.region, .region_size = REGION, .off = ring, .nslots = CQE, .slot_size = QP_CQE_SIZE
	};
	assert_int_equal(qp_cq_init(&t.cq, &c), SPSC_OK);
	assert_int_equal(spsc_cons_attach(&t.client, &place), SPSC_OK);
	qp_dev_init(&t.dev, t.mr, 4, 1);
	assert_int_equal(qp_ctx_init(&t.ctx, 0), QP_OK);
	t.sq_off = at;
	at += round_up(spsc_size(SLOTS, QP_SLOT_SIZE));
	uint64_t rq = at, shm = at + 4096;
	for (uint32_t i = 0; i < QPS; i++) {
		const struct qp_attr a = { .owner = 10 + i,
					   .qpn = 10 + i,
					   .pd = 1,
					   .dev = &t.dev,
					   .scq = &t.cq,
					   .rcq = &t.cq,
					   .region = t.region,
					   .region_size = REGION,
					   .shm_off = shm + i * sizeof(struct qp_shm),
					   .sq_off = t.sq_off,
					   .sq_slots = SLOTS,
					   .rq_off = rq,
					   .rq_slots = 1 };
		assert_int_equal(qp_init(&t.qp[i], &a), QP_OK);
		assert_int_equal(qp_step(&t.ctx, &t.qp[i], QP_S_ERR), QP_OK);
	}
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < QPS; i++)
		qp_forget(&t.ctx, &t.qp[i]);
	assert_true(rn_list_empty(&t.ctx.flushing));
	free(t.region);
	return 0;
}

static void post(uint32_t n)
{
	struct spsc_hdr *h = (struct spsc_hdr *)(void *)(t.region + t.sq_off);

	__atomic_store_n(&h->prod, h->prod + n, __ATOMIC_RELEASE);
}

static uint64_t turn(void)
{
	uint64_t before = t.ctx.stats.flushed;

	t.ctx.now++;
	qp_flush(&t.ctx);
	return t.ctx.stats.flushed - before;
}

/* Takes the completions of the turn; returns their number. */
static uint32_t poll_all(uint32_t qpn)
{
	uint32_t n = 0;

	while (spsc_cons_avail(&t.client, 1) > 0) {
		struct qp_cqe e;
		spsc_cons_copy(&t.client, 0, &e, sizeof(e));
		spsc_cons_release(&t.client, 1);
		assert_int_equal(e.status, QP_WC_WR_FLUSH_ERR);
		n += qpn == 0 || e.qpn == qpn;
	}
	return n;
}

static void one_turn_flushes_no_more_than_its_share(void **state)
{
	uint64_t all = 0;

	(void)state;
	post(SLOTS);
	uint64_t before = t.ctx.stats.flushed;
	for (uint32_t i = 0; i < QPS; i++) /* all queue pairs enter the error state at once */
		qp_enter_error(&t.ctx, &t.qp[i]);
	uint64_t n = t.ctx.stats.flushed - before + turn();
	assert_true(n > 0 && n <= TURN);
	for (uint32_t turns = 0; !rn_list_empty(&t.ctx.flushing); turns++) {
		assert_true(turns < 100000);
		all += n;
		poll_all(0);
		n = turn();
		assert_true(n <= TURN);
	}
	assert_true(all + n >= SLOTS);
}

/* A carrier needs all of its work requests flushed when it lets go of them. Others that are posted wait then. */
static void work_under_way_counts_in_the_turn(void **state)
{
	static struct qp_wr wr[TURN / 2];
	static struct qp_work k;
	static struct qp_msgs m;

	(void)state;
	memset(wr, 0, sizeof(wr));
	k = (struct qp_work){ .wr = wr, .wr_mask = TURN / 2 - 1, .wr_tail = TURN / 2 };
	m = (struct qp_msgs){ .qp = &t.qp[0], .work = &k };
	post(SLOTS);
	t.qp[0].msgs = &m;
	uint64_t before = t.ctx.stats.flushed;
	for (uint32_t i = 0; i < QPS; i++)
		qp_enter_error(&t.ctx, &t.qp[i]);
	t.qp[0].msgs = NULL;
	assert_int_equal(t.ctx.stats.flushed - before, TURN / 2);
	assert_in_range(turn(), 1, TURN / 2 + 512);
}

static void what_is_flushed_late_comes_in_order_and_whole(void **state)
{
	uint32_t got = 0;

	(void)state;
	post(SLOTS);
	qp_enter_error(&t.ctx, &t.qp[0]);
	for (uint32_t turns = 0; got < SLOTS; turns++) {
		assert_true(turns < 1000);
		qp_enter_error(&t.ctx, &t.qp[0]); /* entering again does not lose the turn */
		(void)turn();
		got += poll_all(t.qp[0].qpn);
	}
	assert_int_equal(got, SLOTS);
	assert_true(rn_list_empty(&t.ctx.flushing));
}

static void who_leaves_is_on_no_list(void **state)
{
	(void)state;
	post(SLOTS);
	qp_enter_error(&t.ctx, &t.qp[0]);
	(void)turn();
	assert_false(rn_list_empty(&t.ctx.flushing));
	assert_int_equal(qp_step(&t.ctx, &t.qp[0], QP_S_RESET), QP_OK);
	assert_true(rn_list_empty(&t.ctx.flushing));
	assert_int_equal(turn(), 0);
}

static void flushing_often_in_one_turn_flushes_no_more(void **state)
{
	(void)state;
	post(SLOTS);
	const uint64_t before = t.ctx.stats.flushed;
	t.ctx.now++;
	for (uint32_t i = 0; i < QPS; i++) {
		qp_enter_error(&t.ctx, &t.qp[i]);
		qp_flush(&t.ctx); /* as a worker whose list of effects is full */
	}
	assert_in_range(t.ctx.stats.flushed - before, 1, TURN + 512);
	assert_int_not_equal(turn(), 0);
}

/* ---- effects that find no room ---- */

#define OWN_CQE   4u
#define OWN_OWNER 1000u

/* Gives each queue pair, which is in ERR then, a completion queue of its own. */
static void own_queues(void)
{
	const uint64_t size = round_up(4096 + spsc_size(OWN_CQE, QP_CQE_SIZE)), at = REGION - QPS * size;

	for (uint32_t i = 0; i < QPS; i++) {
		const struct qp_cq_attr c = { .owner = OWN_OWNER + i,
					      .region = t.region,
					      .region_size = REGION,
					      .shm_off = at + i * size,
					      .ring_off = at + i * size + 4096,
					      .ring_stride = spsc_size(OWN_CQE, QP_CQE_SIZE),
					      .workers = 1,
					      .cqe = OWN_CQE };
		assert_int_equal(qp_cq_init(&t.own[i], &c), SPSC_OK);
		t.qp[i].scq = t.qp[i].rcq = &t.own[i];
	}
}

/* Takes all effects. Marks the owners of those with this type, each of which must have one. Returns their number. */
static uint32_t take(enum qp_fx_type type, bool seen[QPS])
{
	uint32_t n = 0;

	assert_true(t.ctx.n_fx <= QP_FX_MAX);
	for (uint32_t i = 0; i < t.ctx.n_fx; i++) {
		if (t.ctx.fx[i].type != type)
			continue;
		assert_in_range(t.ctx.fx[i].owner, OWN_OWNER, OWN_OWNER + QPS - 1);
		assert_false(seen[t.ctx.fx[i].owner - OWN_OWNER]);
		seen[t.ctx.fx[i].owner - OWN_OWNER] = true;
		n++;
	}
	qp_drained(&t.ctx);
	return n;
}

/* As many effects as there may be before a call. They are of no queue. */
static void fill_effects(void)
{
	t.ctx.n_fx = QP_FX_MAX - QP_FX_PER_CALL;
	assert_false(qp_ctx_full(&t.ctx));
	memset(t.ctx.fx, 0, sizeof(t.ctx.fx));
}

static void armed_queue_is_notified_though_effects_have_no_room(void **state)
{
	bool seen[QPS] = { false };
	uint32_t told = 0;

	(void)state;
	own_queues();
	for (uint32_t i = 0; i < QPS; i++)
		t.own[i].shm->armed = i % 2 != 0 ? QP_CQ_ARM_ANY : QP_CQ_ARM_SOLICITED;
	post(1);
	t.ctx.now++;
	fill_effects();
	for (uint32_t i = 0; i < QPS; i++)
		qp_enter_error(&t.ctx, &t.qp[i]);
	qp_flush(&t.ctx);
	for (uint32_t i = 0; i < QPS; i++) /* all completions can be seen */
		assert_int_equal(((struct spsc_hdr *)(void *)t.own[i].ring[0].prod.hdr)->prod, 1);
	for (uint32_t calls = 0; calls < 10; calls++) {
		told += take(QP_FX_CQ_NOTIFY, seen);
		if (!qp_flush_left(&t.ctx))
			break;
		qp_flush(&t.ctx);
	}
	assert_int_equal(told, QPS);
	assert_false(qp_flush_left(&t.ctx));
}

/* The effects of a flush are exactly the notifications of these queues, in order. */
static void assert_told(uint32_t first, uint32_t n)
{
	assert_int_equal(t.ctx.n_fx, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(t.ctx.fx[i].type, QP_FX_CQ_NOTIFY);
		assert_int_equal(t.ctx.fx[i].owner, OWN_OWNER + first + i);
	}
	qp_drained(&t.ctx);
}

static void notification_waits_its_turn_for_the_callers_room(void **state)
{
	(void)state;
	own_queues();
	for (uint32_t i = 0; i < QPS; i++)
		t.own[i].shm->armed = QP_CQ_ARM_ANY;
	post(1);
	t.ctx.now++;
	t.ctx.notify_room = 3;
	for (uint32_t i = 0; i < QPS; i++)
		qp_enter_error(&t.ctx, &t.qp[i]);
	qp_flush(&t.ctx);
	assert_told(0, 3);
	assert_false(qp_flush_left(&t.ctx)); /* without room another call would be in vain */
	qp_flush(&t.ctx);
	assert_told(0, 0);
	post(1); /* meanwhile the queues get more entries, which can be seen at once */
	for (uint32_t i = 0; i < QPS; i++)
		qp_enter_error(&t.ctx, &t.qp[i]);
	qp_flush(&t.ctx);
	assert_told(0, 0);
	for (uint32_t i = 0; i < QPS; i++)
		assert_int_equal(((struct spsc_hdr *)(void *)t.own[i].ring[0].prod.hdr)->prod, 2);
	t.own[3].shm->armed = QP_CQ_UNARMED;
	t.ctx.notify_room = 10;
	qp_flush(&t.ctx);
	assert_told(4, 10);
	qp_cq_told(&t.ctx, &t.own[20]);
	assert_told(20, 1);
	qp_cq_leave(&t.ctx, &t.own[14]);
	qp_cq_told(&t.ctx, &t.own[14]);
	assert_told(14, 0);
	t.ctx.notify_room = 5;
	qp_flush(&t.ctx);
	assert_told(15, 5);
	t.ctx.notify_room = UINT32_MAX;
	qp_flush(&t.ctx);
	assert_told(21, QPS - 21);
	assert_true(rn_list_empty(&t.ctx.waiting_cq));
	assert_int_equal(t.ctx.notify_room, UINT32_MAX);
}

static void late_flush_waits_for_room_for_its_effects(void **state)
{
	static struct qp_wr wr[TURN / 2];
	static struct qp_work k;
	static struct qp_msgs m;
	bool seen[QPS] = { false };
	uint32_t told = 0;

	(void)state;
	own_queues();
	t.qp[0].scq = &t.cq;
	memset(wr, 0, sizeof(wr));
	k = (struct qp_work){ .wr = wr, .wr_mask = TURN / 2 - 1, .wr_tail = TURN / 2 };
	m = (struct qp_msgs){ .qp = &t.qp[0], .work = &k };
	t.ctx.now++;
	t.qp[0].msgs = &m;
	qp_enter_error(&t.ctx, &t.qp[0]); /* the turn flushes no more at once */
	t.qp[0].msgs = NULL;
	post(OWN_CQE + 1); /* more than the CQs take */
	for (uint32_t i = 0; i < QPS; i++)
		qp_enter_error(&t.ctx, &t.qp[i]);
	fill_effects();
	for (uint32_t turns = 0; turns < 2 * QPS; turns++) {
		(void)turn();
		told += take(QP_FX_CQ_ERROR, seen);
		fill_effects();
	}
	assert_int_equal(told, QPS - 1);
	assert_true(rn_list_empty(&t.ctx.flushing));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make, unmake)
	const struct CMUnitTest tests[] = {
		T(one_turn_flushes_no_more_than_its_share),
		T(work_under_way_counts_in_the_turn),
		T(what_is_flushed_late_comes_in_order_and_whole),
		T(who_leaves_is_on_no_list),
		T(flushing_often_in_one_turn_flushes_no_more),
		T(armed_queue_is_notified_though_effects_have_no_room),
		T(notification_waits_its_turn_for_the_callers_room),
		T(late_flush_waits_for_room_for_its_effects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
