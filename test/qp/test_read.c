/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read-Record: A sends requests, B answers with Write-Records into A's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "record_rig.h"

struct read {
	uint32_t m, len;
	uint64_t from;
	uint32_t rkey, qkey, lkey, num_sge;
};

/* A reads record m of B's memory to the same record's place in A's memory. */
static void post_read_as(struct rig *r, const struct read *x)
{
	struct rig_qp *p = &A->q[0];
	const uint32_t at = FROM + x->m % SLOTS * SLOT;
	struct {
		struct qp_wqe w;
		struct qp_sge sge[4];
	} e = { .w = { .wr_id = x->m,
		       .op = QP_WR_READ,
		       .flags = QP_WF_SIGNALED,
		       .num_sge = (uint8_t)x->num_sge,
		       .slots = 2,
		       .rkey = x->rkey,
		       .ud = { .qpn = 10, .qkey = x->qkey } } };

	e.w.dgram_write.raddr = x->from;
	e.sge[0] = (struct qp_sge){ .addr = RIG_IOVA(0) + at, .len = x->len, .lkey = x->lkey };
	e.sge[1] = (struct qp_sge){ .lkey = x->lkey };
	spsc_prod_copy(&p->sq, 0, &e, sizeof(e));
	spsc_prod_publish(&p->sq, 2);
	dgram_doorbell(&A->dgram, &p->qp);
}

static void post_read(struct rig *r, uint32_t m, uint32_t len)
{
	const uint32_t at = FROM + m % SLOTS * SLOT;

	for (uint32_t i = 0; i < len; i++)
		B->mem[at + i] = byte_of(m, i);
	memset(A->mem + at, 0xee, SLOT);
	post_read_as(r, &(struct read){ m, len, there(m), B->rkey, QKEY, A->lkey, 1 });
}

/* B receives A's requests; B's answers are on the wire. */
static void ask(struct rig *r)
{
	n_wire = 0;
	send_from(A);
	for (uint32_t i = 0, n = n_wire; i < n; i++)
		in(r, &wire[i]);
	n_wire = 0;
	send_from(B);
}

static void a_read_brings_a_record(void **state)
{
	static const uint32_t lens[] = { 1, UNIT, UNIT + 1, 5 * UNIT - 3, SLOT };
	struct rig *r = pair();

	(void)state;
	for (uint32_t k = 0; k < RN_ARRAY_LEN(lens); k++) {
		post_read(r, k, lens[k]);
		ask(r);
		struct qp_cqe c = got(&A->scq_client);
		assert_true(c.status == QP_WC_SUCCESS && c.op == QP_WC_RDMA_READ && c.wr_id == k);
		assert_int_equal(n_wire, (lens[k] + UNIT - 1) / UNIT);
		for (uint32_t i = n_wire; i-- > 0;)
			in_at(A, &wire[i]);
		c = got(&A->rcq_client);
		assert_true(c.op == QP_WC_RECORD && c.byte_len == lens[k] && c.flags == QP_WCF_RECORD_WHOLE);
		assert_true(c.wr_id == RIG_IOVA(0) + FROM + k * SLOT && c.src_qp == 10);
		assert_memory_equal(A->mem + FROM + k * SLOT, B->mem + FROM + k * SLOT, lens[k]);
		assert_true(lens[k] == SLOT || A->mem[FROM + k * SLOT + lens[k]] == 0xee);
	}
	none(&B->rcq_client);
	none(&B->scq_client);
	/* completions do not name lost parts of an answer */
	post_read(r, 9, 3 * UNIT);
	ask(r);
	in_at(A, &wire[0]);
	in_at(A, &wire[2]);
	clock_on(r, TIMEOUT);
	struct qp_cqe c = got(&A->rcq_client);
	assert_true(c.byte_len == UNIT && c.flags == QP_WCF_RECORD_MORE);
	c = got(&A->rcq_client);
	assert_true(c.byte_len == UNIT && c.flags == 0 && c.wr_id == RIG_IOVA(0) + FROM + 9 * SLOT + 2 * UNIT);
	assert_int_equal(A->mem[FROM + 9 * SLOT + UNIT], 0xee);
	rig_free(r);
}

static void who_may_not_read_gets_no_answer(void **state)
{
	struct rig *r = pair();
	struct qp_piece piece = { B->mem + FROM, SLOT };
	const struct qp_mr_attr write_only = { .pd = RIG_PD,
					       .rights = QP_ACC_LOCAL_WRITE | QP_ACC_REMOTE_WRITE,
					       .iova = there(0),
					       .len = SLOT,
					       .pieces = &piece,
					       .npieces = 1 };
	struct qp_mr_attr other_pd = write_only;
	uint32_t wo, foreign;

	(void)state;
	other_pd.pd = RIG_PD + 1;
	other_pd.rights = QP_ACC_REMOTE_READ;
	assert_int_equal(qp_mr_reg(&B->dev, &write_only, &wo), QP_MR_OK);
	assert_int_equal(qp_mr_reg(&B->dev, &other_pd, &foreign), QP_MR_OK);
	const struct read bad[] = { { 0, 100, there(0), B->rkey ^ 1, QKEY, A->lkey, 1 },
				    { 0, 100, there(0), wo, QKEY, A->lkey, 1 },
				    { 0, 100, there(0), foreign, QKEY, A->lkey, 1 },
				    { 0, 100, RIG_IOVA(1) + RIG_MEM - 99, B->rkey, QKEY, A->lkey, 1 },
				    { 0, 100, UINT64_MAX - 99, B->rkey, QKEY, A->lkey, 1 } };
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		post_read_as(r, &bad[i]);
	ask(r);
	assert_int_equal(stats(r)->ud_refused, RN_ARRAY_LEN(bad));
	post_read_as(r, &(struct read){ 0, 100, there(0), B->rkey, QKEY + 1, A->lkey, 1 });
	ask(r);
	assert_int_equal(stats(r)->ud_qkey, 1);
	qp_set(&B->q[0].qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE_WRITE });
	post_read(r, 0, 100);
	ask(r);
	assert_int_equal(stats(r)->ud_refused, RN_ARRAY_LEN(bad) + 1);
	assert_true(n_wire == 0 && !dgram_waits(&B->q[0].qp));
	rig_free(r);
}

/* Errors of the reader: a sink in two pieces, or a sink without the right to write. */
static void a_read_without_a_good_sink_fails(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct rig *r = pair();
		const uint32_t local = rig_reg(A, 0, RIG_MEM, QP_ACC_LOCAL_WRITE, RIG_PD);

		post_read_as(
			r, &(struct read){ 0, 100, there(0), B->rkey, QKEY, i == 0 ? local : A->lkey, i == 0 ? 1 : 2 });
		ask(r);
		const struct qp_cqe c = got(&A->scq_client);
		assert_int_equal(c.status, i == 0 ? QP_WC_LOC_PROT_ERR : QP_WC_LOC_QP_OP_ERR);
		assert_int_equal(A->ctx.rc.qp.stats.ud_out, 0);
		rig_free(r);
	}
}

/* The number of answers is bounded, each request has one answer, and posted work requests get turns between them. */
static void answers_take_turns_with_what_is_posted(void **state)
{
	struct rig *r = pair();
	struct udpl_hdr h;

	(void)state;
	n_wire = 0;
	for (uint32_t i = 0; i <= DGRAM_ANSWERS; i++)
		post_read(r, i, UNIT);
	send_from(A);
	for (uint32_t i = 0; i < n_wire; i++) {
		in(r, &wire[i]);
		in(r, &wire[i]); /* the wire repeats it */
	}
	assert_int_equal(stats(r)->ud_full, 2); /* the last request is refused both times */
	assert_int_equal(stats(r)->ud_again, DGRAM_ANSWERS);
	/* B sends to itself meanwhile */
	struct rig_qp *p = &B->q[0];
	for (uint32_t i = 0; i < 4; i++) {
		struct qp_wqe w = { .op = QP_WR_SEND, .num_sge = 1, .slots = 1, .ud = { .qpn = 10, .qkey = QKEY } };
		w.dgram.sge[0] = rig_sge(B, 0, 8);
		spsc_prod_copy(&p->sq, 0, &w, sizeof(w));
		spsc_prod_publish(&p->sq, 1);
	}
	n_wire = 0;
	send_from(B);
	assert_int_equal(n_wire, DGRAM_ANSWERS + 4);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(udpl_parse(wire[i].p, wire[i].len, &h), UDPL_OK);
		assert_int_equal(h.kind, i % 2 == 0 ? UDPL_RECORD : UDPL_SEND);
	}
	rig_free(r);
}

static void an_answer_stops_when_its_memory_goes(void **state)
{
	struct rig *r = pair();
	struct dgram_to to;
	struct qp_cqe c;

	(void)state;
	n_wire = 0;
	post_read(r, 0, 3 * UNIT);
	post_read(r, 1, 3 * UNIT);
	send_from(A);
	in(r, &wire[0]);
	in(r, &wire[1]);
	wire[0].len = dgram_out(&B->dgram, dgram_pop(&B->dgram), wire[0].p, &to);
	assert_int_equal(qp_mr_dereg(&B->dev, B->rkey), QP_MR_OK);
	while (dgram_waits(&B->q[0].qp))
		assert_int_equal(dgram_out(&B->dgram, &B->q[0].qp, wire[1].p, &to), 0);
	assert_int_equal(stats(r)->ud_refused, 2);
	assert_int_equal(B->q[0].qp.state, QP_S_RTS);
	in_at(A, &wire[0]);
	clock_on(r, TIMEOUT);
	c = got(&A->rcq_client);
	assert_true(c.byte_len == UNIT && c.flags == 0);
	rig_free(r);

	/* ERR in the middle of an answer: no completion, since an answer is nobody's work request */
	r = pair();
	post_read(r, 0, 3 * UNIT);
	n_wire = 0;
	send_from(A);
	in(r, &wire[0]);
	assert_true(dgram_out(&B->dgram, dgram_pop(&B->dgram), wire[0].p, &to) > 0 && B->q[0].qp.midway);
	assert_int_equal(dgram_modify(&B->dgram, &B->q[0].qp, QP_S_ERR), QP_OK);
	rc_flush(&B->ctx.rc);
	none(&B->scq_client);
	assert_true(!dgram_waits(&B->q[0].qp) && !dgram_read_owed(&B->q[0].qp));
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_brings_a_record),
		cmocka_unit_test(who_may_not_read_gets_no_answer),
		cmocka_unit_test(a_read_without_a_good_sink_fails),
		cmocka_unit_test(answers_take_turns_with_what_is_posted),
		cmocka_unit_test(an_answer_stops_when_its_memory_goes),
	};

	return cmocka_run_group_tests_name("qp_read", tests, NULL, NULL);
}
