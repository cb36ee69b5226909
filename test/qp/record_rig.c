/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "record_rig.h"

struct rig *pair_with(uint32_t cqe)
{
	struct rig *r = gram_pair(cqe, dgram_max(UNIT));

	memset(B->mem + FROM, 0xee, SLOTS * SLOT);
	return r;
}

struct rig *pair(void) { return pair_with(0); }

uint8_t byte_of(uint32_t m, uint32_t i)
{
	const uint8_t b = (uint8_t)(m * 31 + i * 7 + (i >> 8) * 13 + 1);

	return b == 0xee ? 0 : b;
}

uint64_t there(uint32_t m) { return RIG_IOVA(1) + FROM + m % SLOTS * SLOT; }

void post_write(struct rig *r, const struct write *x)
{
	struct rig_qp *p = &A->q[0];
	const uint32_t at = FROM + x->m % SLOTS * SLOT;
	struct {
		struct qp_wqe w;
		struct qp_sge sge[4];
	} e = { .w = { .wr_id = x->m,
		       .op = x->op,
		       .flags = QP_WF_SIGNALED,
		       .num_sge = 2,
		       .slots = 2,
		       .rkey = x->rkey,
		       .aux = x->op == QP_WR_WRITE_IMM ? x->m : 0,
		       .ud = { .qpn = x->group ? UDPL_QPN_GROUP : 10, .qkey = x->qkey } } };

	for (uint32_t i = 0; i < x->len; i++)
		A->mem[at + i] = byte_of(x->m, i);
	e.w.dgram_write.raddr = x->to;
	e.sge[0] = rig_sge(A, at, x->len / 3);
	e.sge[1] = rig_sge(A, at + x->len / 3, x->len - x->len / 3);
	spsc_prod_copy(&p->sq, 0, &e, sizeof(e));
	spsc_prod_publish(&p->sq, 2);
	dgram_doorbell(&A->dgram, &p->qp);
}

void post(struct rig *r, uint32_t m, uint32_t len)
{
	post_write(r, &(struct write){ m, len, there(m), B->rkey, QKEY, QP_WR_WRITE });
}

uint32_t told(struct rig *r, const struct qp_cqe *c, uint32_t m)
{
	const uint32_t off = (uint32_t)(c->wr_id - there(m));

	assert_true(c->status == QP_WC_SUCCESS && c->op == QP_WC_RECORD && c->src_qp == 10 && c->qpn == 10);
	assert_true(off + c->byte_len <= SLOT);
	for (uint32_t i = off; i < off + c->byte_len; i++)
		assert_int_equal(B->mem[FROM + m % SLOTS * SLOT + i], byte_of(m, i));
	return off;
}
