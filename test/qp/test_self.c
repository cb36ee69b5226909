/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair that is connected to itself (RC_SELF): one connection, whose TCP receives its own segments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define SIZE 100000u

static struct rig *r;
static struct rig_node *n;

static void join(const struct rig_cfg *cfg)
{
	r = rig_new(cfg);
	n = &r->n[0];
	rig_connect_self(r, 0);
	assert_int_equal(rig_fx(r, 0, QP_FX_CONNECT_REPLY)->priv_len, 0);
	assert_int_equal(n->q[0].qp.state, QP_S_RTS);
}

static struct rig_cfg defaults(void)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.connect_flags = RC_KEEP_RECV;
	return cfg;
}

static void fill(uint32_t at, uint32_t len, unsigned salt)
{
	for (uint32_t i = 0; i < len; i++)
		n->mem[at + i] = (uint8_t)(i * 7 + (i >> 8) + salt);
}

static void post(uint8_t op, uint64_t id, uint32_t from, uint32_t len, uint64_t to)
{
	struct qp_sge sge = rig_sge(n, from, len);
	struct rig_wr w = {
		.wr_id = id, .op = op, .flags = QP_WF_SIGNALED, .sge = &sge, .num_sge = 1, .raddr = to, .rkey = n->rkey
	};

	assert_true(rig_post(n, 0, &w));
}

static void done(uint64_t id, enum qp_wc_status status)
{
	struct qp_cqe e = rig_wait(r, &n->scq_client);

	assert_int_equal(e.wr_id, id);
	assert_int_equal(e.status, status);
}

/* Sends, Writes, Reads and Atomics, in both directions of the one connection. */
static void work(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct qp_sge dst = rig_sge(n, 2 * SIZE, SIZE);
		uint64_t *word = (uint64_t *)(void *)(n->mem + 4 * SIZE), was;

		fill(0, SIZE, i);
		assert_true(rig_post_recv(n, 0, 70 + i, &dst, 1));
		post(QP_WR_SEND, 1, 0, SIZE, 0);
		struct qp_cqe e = rig_wait(r, &n->rcq_client);
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_true(e.wr_id == 70 + i && e.byte_len == SIZE);
		assert_memory_equal(n->mem, n->mem + 2 * SIZE, SIZE);
		done(1, QP_WC_SUCCESS);

		fill(0, SIZE, i + 1);
		post(QP_WR_WRITE, 2, 0, SIZE, RIG_IOVA(0) + SIZE);
		post(QP_WR_READ, 3, 3 * SIZE, SIZE, RIG_IOVA(0) + SIZE); /* reads the bytes of the Write before it */
		done(2, QP_WC_SUCCESS);
		done(3, QP_WC_SUCCESS);
		assert_memory_equal(n->mem, n->mem + 3 * SIZE, SIZE);

		memset(word, 0, 16);
		*word = was = 40 + i;
		struct qp_sge old = rig_sge(n, 4 * SIZE + 8, 8);
		struct rig_wr add = { .wr_id = 4,
				      .op = QP_WR_FETCH_ADD,
				      .flags = QP_WF_SIGNALED,
				      .sge = &old,
				      .num_sge = 1,
				      .raddr = RIG_IOVA(0) + 4 * SIZE,
				      .rkey = n->rkey,
				      .operand = 2 };
		assert_true(rig_post(n, 0, &add));
		done(4, QP_WC_SUCCESS);
		assert_true(word[0] == was + 2 && word[1] == was);
	}
}

static void work_of_every_kind(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 8; how++) {
		struct rig_cfg cfg = defaults();
		cfg.crc = (how & 1) != 0;
		cfg.markers[0] = (how & 2) != 0;
		cfg.split = (how & 4) != 0;
		join(&cfg);
		work(3);
		assert_int_equal(rig_fx_count(r, 0, QP_FX_ESTABLISHED), 1);
		assert_int_equal(n->ctx.rc.qp.stats.ddp_errors + n->ctx.rc.qp.stats.rdmap_errors, 0);
		rig_free(r);
	}
}

/* Its TCP connects and works over a line that loses and repeats segments. */
static void over_a_bad_line(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct rig_cfg cfg = defaults();
		cfg.seed = seed;
		cfg.link = (struct rig_link){
			.loss = 30000, .dup = 20000, .reorder = 50000, .delay_ns = 5000, .reorder_ns = 40000
		};
		join(&cfg);
		work(1);
		rig_free(r);
	}
}

/* Requests and Responses share the rings: more than a window of either at once. */
static void many_at_once(void **state)
{
	struct rig_cfg cfg = defaults();

	(void)state;
	join(&cfg);
	for (uint32_t i = 0; i < 60; i++) {
		struct qp_sge dst = rig_sge(n, (1 + i) * 30000, 30000);
		assert_true(rig_post_recv(n, 0, i, &dst, 1));
	}
	fill(0, 30000, 9);
	for (uint32_t i = 0; i < 60; i++)
		post(QP_WR_SEND, i, 0, 30000, 0);
	for (uint32_t i = 0; i < 60; i++) {
		struct qp_cqe e = rig_wait(r, &n->rcq_client);
		assert_true(e.wr_id == i && e.status == QP_WC_SUCCESS);
		assert_memory_equal(n->mem, n->mem + (1 + i) * 30000, 30000);
	}
	for (uint32_t i = 0; i < 60; i++)
		done(i, QP_WC_SUCCESS);
	rig_free(r);
}

/* A refused request is the connection's own: the request that is to blame gets the error, the others are flushed. */
static void refusals_find_their_request(void **state)
{
	static const struct {
		uint8_t op;
		enum qp_wc_status status;
	} bad[] = {
		{ QP_WR_WRITE, QP_WC_REM_ACCESS_ERR },
		{ QP_WR_READ, QP_WC_REM_ACCESS_ERR },
	};

	(void)state;
	for (unsigned i = 0; i < RN_ARRAY_LEN(bad); i++) {
		struct rig_cfg cfg = defaults();
		join(&cfg);
		struct qp_sge sge = rig_sge(n, 0, 100);
		struct rig_wr w = { .wr_id = 1,
				    .op = bad[i].op,
				    .flags = QP_WF_SIGNALED,
				    .sge = &sge,
				    .num_sge = 1,
				    .raddr = RIG_IOVA(0) + RIG_MEM,
				    .rkey = n->rkey };
		assert_true(rig_post_recv(n, 0, 5, &sge, 1));
		assert_true(rig_post(n, 0, &w));
		post(QP_WR_WRITE, 2, 0, 100, RIG_IOVA(0) + SIZE);
		done(1, bad[i].status);
		done(2, QP_WC_WR_FLUSH_ERR);
		assert_int_equal(n->q[0].qp.state, QP_S_ERR);
		rig_free(r);
	}
}

/* RESET ends the connection without a segment; the queue pair can connect to itself again. */
static void again_after_reset(void **state)
{
	struct rig_cfg cfg = defaults();

	(void)state;
	join(&cfg);
	work(1);
	assert_int_equal(rc_modify(&n->ctx.rc, &n->q[0].qp, QP_S_RESET), QP_OK);
	rig_run(r, 300 * RN_NS_PER_S); /* until TIME_WAIT is over */
	assert_int_equal(rc_get_state(&n->conn[0].rc), RC_FREE);
	assert_int_equal(rc_modify(&n->ctx.rc, &n->q[0].qp, QP_S_INIT), QP_OK);
	n->n_fx = 0;
	rig_connect_self(r, 0);
	work(1);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_of_every_kind), cmocka_unit_test(over_a_bad_line),
		cmocka_unit_test(many_at_once),       cmocka_unit_test(refusals_find_their_request),
		cmocka_unit_test(again_after_reset),
	};

	return cmocka_run_group_tests_name("qp_self", tests, NULL, NULL);
}
