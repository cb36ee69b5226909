/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair that holds back the peer's Writes: no byte shows before the client has seen the record of the Write;
 * then bytes show in an order that a seed draws; and all bytes show before anything that the specification orders after
 * the Write.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "qp/qp_hold.h"
#include "rig.h"

#define BLANK 0xEE
#define LEN   4000u
#define FAR   100000u

static struct rig *R;
static struct rig_node *A, *Z;
static struct qp_hold hold;
static struct qp_hold_shm shm;

static void begin_with(uint64_t seed, bool ordered)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	R = rig_new(&cfg);
	A = &R->n[0];
	Z = &R->n[1];
	memset(&shm, 0, sizeof(shm));
	qp_hold_begin(&Z->q[0].qp, &hold, &shm, seed, ordered);
	rig_connect(R, 0);
	for (uint32_t i = 0; i < 2 * FAR; i++)
		A->mem[i] = (uint8_t)(i % 199 + 1);
	memset(Z->mem, BLANK, RIG_MEM);
}

static void post_op(enum qp_wr_op op, uint32_t from, uint32_t to, uint32_t len)
{
	const struct qp_sge g = rig_sge(A, from, len);
	const struct rig_wr w = { .op = (uint8_t)op,
				  .flags = QP_WF_SIGNALED,
				  .sge = &g,
				  .num_sge = 1,
				  .raddr = op == QP_WR_SEND ? 0 : RIG_IOVA(1) + to,
				  .rkey = Z->rkey };

	assert_true(rig_post(A, 0, &w));
}

static void post_write(uint32_t from, uint32_t to, uint32_t len) { post_op(QP_WR_WRITE, from, to, len); }

static uint32_t shown(uint32_t from, uint32_t len)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < len; i++)
		n += Z->mem[from + i] != BLANK;
	return n;
}

/* The client has seen all records and rings the doorbell. */
static void ring_bell(void)
{
	shm.shown = shm.put;
	rc_doorbell(&Z->ctx.rc, &Z->q[0].qp);
}

static void nothing_shows_before_the_client_has_seen_it(void **state)
{
	(void)state;
	begin_with(7, false);
	post_write(0, 0, 1000);
	rig_run(R, 100 * RN_NS_PER_MS);
	/* the sender's Write completes without delay */
	assert_int_equal(rig_wait(R, &A->scq_client).status, QP_WC_SUCCESS);
	rc_doorbell(&Z->ctx.rc, &Z->q[0].qp);
	assert_int_equal(shown(0, 1000), 0);
	assert_true(shm.put > 3 && shm.held == shm.put && shm.rec[0].to == RIG_IOVA(1) && shm.rec[0].stag == Z->rkey);
	while (shm.held > 0)
		ring_bell();
	assert_memory_equal(Z->mem, A->mem, 1000);
	rig_free(R);
}

/* A hash of the order in which the bytes show. *early: a byte showed before one at a lower address. */
static uint64_t order_of(uint64_t seed, bool *early)
{
	static uint8_t seen[LEN];
	uint64_t sum = 0;

	begin_with(seed, false);
	memset(seen, 0, sizeof(seen));
	*early = false;
	post_write(0, 0, LEN);
	rig_run(R, 100 * RN_NS_PER_MS);
	do {
		for (uint32_t i = 0; i < LEN; i++) {
			if (seen[i] || Z->mem[i] == BLANK)
				continue;
			seen[i] = 1;
			sum = sum * 31 + i;
			*early |= i > 0 && !seen[i - 1];
		}
		ring_bell();
	} while (shm.held > 0);
	assert_memory_equal(Z->mem, A->mem, LEN);
	rig_free(R);
	return sum;
}

static void bytes_show_in_an_order_that_the_seed_draws(void **state)
{
	bool early[3];

	(void)state;
	const uint64_t one = order_of(1, &early[0]);
	assert_true(one == order_of(1, &early[1]) && one != order_of(2, &early[2]));
	assert_true(early[0] && early[2]);
	order_of(0, &early[0]);
	assert_false(early[0]);
}

static void all_of_it_is_there_before_a_send_is_delivered(void **state)
{
	(void)state;
	begin_with(3, false);
	const struct qp_sge g = rig_sge(Z, 2 * FAR, 64);
	assert_true(rig_post_recv(Z, 0, 1, &g, 1));
	post_write(0, 0, LEN);
	post_write(FAR, FAR, 8);
	post_op(QP_WR_SEND, 0, 0, 8);
	assert_int_equal(rig_wait(R, &Z->rcq_client).status, QP_WC_SUCCESS);
	assert_memory_equal(Z->mem, A->mem, LEN);
	assert_memory_equal(Z->mem + FAR, A->mem + FAR, 8);
	assert_true(shm.held == 0 && shm.allowed == 0);
	rig_free(R);
}

static void a_read_and_an_atomic_find_what_was_written_before(void **state)
{
	(void)state;
	begin_with(3, false);
	post_write(0, 0, 512);
	post_op(QP_WR_READ, FAR, 0, 512);
	rig_wait(R, &A->scq_client);
	rig_wait(R, &A->scq_client);
	assert_memory_equal(A->mem + FAR, A->mem, 512);
	post_write(8, 1024, 8);
	const struct qp_sge g = rig_sge(A, FAR, 8);
	const struct rig_wr w = { .op = QP_WR_FETCH_ADD,
				  .flags = QP_WF_SIGNALED,
				  .sge = &g,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1) + 1024,
				  .rkey = Z->rkey,
				  .operand = 5 };
	assert_true(rig_post(A, 0, &w));
	rig_wait(R, &A->scq_client);
	rig_wait(R, &A->scq_client);
	assert_int_equal(rig_word(A, FAR), rig_word(A, 8));
	assert_int_equal(rig_word(Z, 1024), rig_word(A, 8) + 5);
	assert_int_equal(shm.allowed, shm.put);
	rig_free(R);
}

static void what_is_written_later_wins(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		begin_with(seed, false);
		post_write(0, 0, LEN);
		post_write(FAR, 100, 3000);
		post_write(2000, 500, 10);
		rig_run(R, 100 * RN_NS_PER_MS);
		while (shm.held > 0)
			ring_bell();
		assert_memory_equal(Z->mem, A->mem, 100);
		assert_memory_equal(Z->mem + 100, A->mem + FAR, 400);
		assert_memory_equal(Z->mem + 500, A->mem + 2000, 10);
		assert_memory_equal(Z->mem + 510, A->mem + FAR + 410, 2590);
		rig_free(R);
	}
}

/* True: with some seed a flag that was written after its data shows before all data. */
static bool flag_first(bool ordered)
{
	bool first = false;

	for (uint64_t seed = 1; seed < 20; seed++) {
		begin_with(seed, ordered);
		post_write(0, 0, LEN);
		post_write(0, FAR, 8);
		rig_run(R, 100 * RN_NS_PER_MS);
		while (shm.held > 0) {
			ring_bell();
			first |= shown(FAR, 8) > 0 && shown(0, LEN) < LEN;
		}
		rig_free(R);
	}
	return first;
}

static void a_later_write_shows_before_an_earlier_one_unless_ordered(void **state)
{
	(void)state;
	assert_true(flag_first(false));
	assert_false(flag_first(true));
}

static void a_long_write_is_whole_although_little_is_held(void **state)
{
	(void)state;
	begin_with(9, false);
	post_write(0, 0, 2 * FAR);
	rig_run(R, 400 * RN_NS_PER_MS);
	assert_true(shown(0, 2 * FAR) > FAR && shm.held <= QP_HOLD_CELLS);
	while (shm.held > 0)
		ring_bell();
	assert_memory_equal(Z->mem, A->mem, 2 * FAR);
	rig_free(R);
}

static void a_region_that_is_gone_is_not_written_to(void **state)
{
	(void)state;
	begin_with(5, false);
	const uint32_t whole = Z->rkey;
	Z->rkey = rig_reg(Z, FAR, 4096, QP_ACC_ALL, RIG_PD);
	post_write(0, FAR, 100);
	rig_run(R, 100 * RN_NS_PER_MS);
	assert_true(shm.held > 0);
	assert_int_equal(qp_mr_dereg(&Z->dev, Z->rkey), QP_MR_OK);
	while (shm.held > 0)
		ring_bell();
	assert_int_equal(shown(FAR, 100), 0);
	Z->rkey = whole;
	rig_free(R);
}

static void rights_are_looked_at_when_a_write_comes(void **state)
{
	(void)state;
	begin_with(5, false);
	qp_set(&Z->q[0].qp, &(struct qp_tune){ .access = QP_ACC_REMOTE_READ });
	post_write(0, 0, 100);
	assert_int_equal(rig_wait(R, &A->scq_client).status, QP_WC_REM_ACCESS_ERR);
	assert_int_equal(shm.held, 0);
	rig_free(R);
}

static void a_client_that_scribbles_spoils_its_own_bytes_alone(void **state)
{
	(void)state;
	begin_with(6, false);
	post_write(0, 0, LEN);
	rig_run(R, 100 * RN_NS_PER_MS);
	memset(&shm, 0xff, sizeof(shm));
	for (uint32_t i = 0; i < 1000; i++) {
		shm.shown = i * 77777777u;
		rc_doorbell(&Z->ctx.rc, &Z->q[0].qp);
	}
	shm.shown = hold.put;
	for (uint32_t i = 0; i < 1000 && hold.n > 0; i++)
		rc_doorbell(&Z->ctx.rc, &Z->q[0].qp);
	assert_int_equal(hold.n, 0);
	assert_int_equal(shown(LEN, 2 * FAR), 0);
	rig_free(R);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_shows_before_the_client_has_seen_it),
		cmocka_unit_test(bytes_show_in_an_order_that_the_seed_draws),
		cmocka_unit_test(all_of_it_is_there_before_a_send_is_delivered),
		cmocka_unit_test(a_read_and_an_atomic_find_what_was_written_before),
		cmocka_unit_test(what_is_written_later_wins),
		cmocka_unit_test(a_later_write_shows_before_an_earlier_one_unless_ordered),
		cmocka_unit_test(a_long_write_is_whole_although_little_is_held),
		cmocka_unit_test(a_region_that_is_gone_is_not_written_to),
		cmocka_unit_test(rights_are_looked_at_when_a_write_comes),
		cmocka_unit_test(a_client_that_scribbles_spoils_its_own_bytes_alone),
	};

	return cmocka_run_group_tests_name("qp_hold", tests, NULL, NULL);
}
