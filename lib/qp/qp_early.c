/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placing a segment ahead of its turn (RFC 5041, 5.3). A client may poll its memory, and programs rely on the order of
 * InfiniBand: a message shows after all earlier ones, its last bytes show after its others, and of two Writes to one
 * place the later one wins. So only a segment of the open message may be placed early, and not the message's last one.
 * It must be certain which message a segment belongs to. A Send has its MSN. A Read Response has a known length: it
 * ends when all requested bytes have arrived. A Write has neither: it may end inside the hole, and another Write may
 * begin there and go on at the same place. So Writes wait.
 */
#include "qp/qp_int.h"

#define DIST_MAX (UINT32_C(1) << 30) /* bytes: no window reaches farther ahead */

uint32_t qp_early(const struct qp_msgs *m, const struct ddp_hdr *h)
{
	uint64_t dist, room;

	if (h->last || m->qp == NULL)
		return 0;
	if (h->opcode == RDMAP_READ_RESP) {
		const struct rdmap_read *r = rdmap_readq_head(&m->readq);
		if (r == NULL || r->atomic || r->stag != h->stag)
			return 0;
		dist = h->to - (r->to + r->got);
		room = r->len - r->got - 1; /* all but the last byte, which is placed in its turn */
	} else {
		const struct ddp_uq *q = &m->uq_send;
		if (!rdmap_op_of(h->opcode)->takes_recv || !q->open || !m->work->recv.loaded)
			return 0;
		if (h->opcode != q->opcode || h->msn != q->msn || h->stag != q->stag)
			return 0;
		dist = (uint64_t)h->mo - q->mo;
		room = m->work->recv.len - q->mo;
	}
	if (dist >= DIST_MAX || dist + h->payload_len > room)
		return 0;
	return (uint32_t)dist;
}

bool qp_early_place(struct qp_ctx *ctx, const struct qp_msgs *m, const struct ddp_hdr *h, const struct rn_iov *ulpdu,
		    uint32_t n)
{
	struct rn_iov iov[QP_ULPDU_IOV];
	const struct qp_access a = {
		.pd = m->qp->pd, .stag = h->stag, .to = h->to, .len = h->payload_len, .rights = QP_ACC_LOCAL_WRITE
	};
	uint32_t k = qp_payload(h, ulpdu, n, iov);
	enum qp_mr_verdict v;

	if (h->opcode == RDMAP_READ_RESP)
		v = qp_place(ctx, m->dev, &a, iov, k);
	else
		v = qp_rq_place(ctx, m->qp, &m->work->recv, h, iov, k);
	if (v != QP_MR_OK)
		return false;
	ctx->stats.ooo_placed++;
	ctx->stats.bytes_placed += h->payload_len;
	return true;
}
