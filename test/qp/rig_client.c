/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

struct qp_sge rig_sge(const struct rig_node *n, uint32_t off, uint32_t len)
{
	return (struct qp_sge){ .addr = RIG_IOVA(n->id) + off, .len = len, .lkey = n->lkey };
}

uint64_t rig_word(const struct rig_node *n, uint32_t off)
{
	uint64_t v;

	memcpy(&v, n->mem + off, sizeof(v));
	return v;
}

void rig_word_set(struct rig_node *n, uint32_t off, uint64_t v) { memcpy(n->mem + off, &v, sizeof(v)); }

bool rig_queue(struct rig_node *n, uint32_t q, const struct rig_wr *w)
{
	struct rig_qp *p = &n->q[q];
	uint8_t raw[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] = { 0 };
	struct qp_wqe *e = (struct qp_wqe *)(void *)raw;
	uint32_t bytes = w->flags & QP_WF_INLINE ? w->inl_len : w->num_sge * (uint32_t)sizeof(struct qp_sge);
	struct qp_wqe h = { .wr_id = w->wr_id,
			    .op = w->op,
			    .flags = w->flags,
			    .num_sge = (uint8_t)w->num_sge,
			    .slots = (uint8_t)qp_wqe_slots(bytes),
			    .inline_len = (uint16_t)w->inl_len,
			    .srqn = w->srqn,
			    .raddr = w->raddr,
			    .rkey = w->rkey,
			    .aux = w->aux };

	*e = h;
	if (bytes > 0)
		memcpy(raw + QP_WQE_FIXED, w->flags & QP_WF_INLINE ? w->inl : (const void *)w->sge, bytes);
	if (w->op == QP_WR_CMP_SWAP || w->op == QP_WR_FETCH_ADD) {
		e->atomic.operand = w->operand;
		e->atomic.swap = w->swap;
	} else if (w->op == QP_WR_BIND_MW) {
		e->bind.len = w->bind_len;
		e->bind.access = w->access;
	}
	if (spsc_prod_free(&p->sq, h.slots) < h.slots)
		return false;
	spsc_prod_copy(&p->sq, 0, raw, (size_t)h.slots * QP_SLOT_SIZE);
	spsc_prod_publish(&p->sq, h.slots);
	return true;
}

bool rig_post(struct rig_node *n, uint32_t q, const struct rig_wr *w)
{
	if (!rig_queue(n, q, w))
		return false;
	rc_doorbell(&n->ctx.rc, &n->q[q].qp);
	return true;
}

bool rig_post_recv(struct rig_node *n, uint32_t q, uint64_t wr_id, const struct qp_sge *sge, uint32_t num_sge)
{
	struct rig_qp *p = &n->q[q];
	uint8_t raw[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] = { 0 };
	struct qp_rwqe *e = (struct qp_rwqe *)(void *)raw;

	e->wr_id = wr_id;
	e->num_sge = (uint8_t)num_sge;
	e->slots = (uint8_t)qp_rwqe_slots(num_sge);
	if (num_sge > 0)
		memcpy(raw + QP_RWQE_FIXED, sge, num_sge * sizeof(*sge));
	if (spsc_prod_free(&p->rq, e->slots) < e->slots)
		return false;
	spsc_prod_copy(&p->rq, 0, raw, (size_t)e->slots * QP_SLOT_SIZE);
	spsc_prod_publish(&p->rq, e->slots);
	if (spsc_prod_asked(&p->rq) != 0)
		rc_doorbell(&n->ctx.rc, &p->qp);
	return true;
}

bool rig_poll(struct spsc_cons *c, struct qp_cqe *out)
{
	if (spsc_cons_avail(c, 1) == 0)
		return false;
	memcpy(out, spsc_cons_slot(c, 0), sizeof(*out));
	spsc_cons_release(c, 1);
	return true;
}

struct qp_cqe rig_wait(struct rig *r, struct spsc_cons *c)
{
	struct qp_cqe cqe = { 0 };

	for (;;) {
		if (rig_poll(c, &cqe))
			return cqe;
		if (!rig_step(r)) {
			if (rig_poll(c, &cqe))
				return cqe;
			fail_msg("no completion");
		}
	}
}
