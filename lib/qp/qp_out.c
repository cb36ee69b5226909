/* SPDX-License-Identifier: BSD-3-Clause */
/* The next TCP segment of a connection as header fields and slices. */
#include "qp/qp_priv.h"

/* One chunk's bytes from off on, at most len, appended to tx; false when they do not fit. */
static bool chunk_slices(const struct qp_conn *c, uint64_t ref, uint32_t off, uint32_t len, struct qp_tx *tx)
{
	if (rn_unlikely(ref == QP_REF_FRAME)) {
		if (tx->n == QP_TX_IOV - 1)
			return false;
		tx->iov[tx->n++] = (struct rn_iov){ .base = c->setup->out.buf + off, .len = len };
		tx->stable = false;
		return true;
	}
	const struct qp_rec *r = (const struct qp_rec *)(uintptr_t)ref;
	uint32_t k = rn_iov_cut(r->iov, r->f.n_iov, off, len, tx->iov + tx->n, QP_TX_IOV - 1 - tx->n);
	if (k == UINT32_MAX)
		return false;
	tx->n += k;
	return true;
}

static uint32_t chunk_copy(const struct qp_conn *c, uint64_t ref, uint32_t off, uint32_t len, uint8_t *dst)
{
	struct rn_iov iov[MPA_TX_IOV(QP_SEG_SLICES, MPA_TX_MARKERS)];

	if (ref == QP_REF_FRAME) {
		memcpy(dst, c->setup->out.buf + off, len);
		return len;
	}
	const struct qp_rec *r = (const struct qp_rec *)(uintptr_t)ref;
	uint32_t k = rn_iov_cut(r->iov, r->f.n_iov, off, len, iov, RN_ARRAY_LEN(iov));
	return k == UINT32_MAX ? 0 : rn_iov_gather(iov, k, dst, len);
}

/* Segments of more slices than QP_TX_IOV end in one slice of the bounce buffer. */
static void gather(struct qp_ctx *ctx, const struct qp_conn *c, struct qp_tx *tx)
{
	uint32_t left = tx->tcp.len, idx = tx->tcp.chunk, off = tx->tcp.off, bounced = 0;

	tx->n = 0;
	tx->stable = true;
	while (left > 0) {
		const struct tcpl_chunk *ch = tcpl_chunk(&c->tcp, idx);
		uint32_t take = rn_min_u32(ch->len - off, left);

		if (rn_unlikely(bounced > 0 || !chunk_slices(c, ch->ref, off, take, tx)))
			bounced += chunk_copy(c, ch->ref, off, take, ctx->bounce + bounced);
		left -= take;
		off = 0;
		idx++;
	}
	if (bounced > 0) {
		tx->iov[tx->n++] = (struct rn_iov){ .base = ctx->bounce, .len = bounced };
		tx->stable = false;
	}
}

bool qp_conn_out(struct qp_ctx *ctx, struct qp_conn *c, struct qp_tx *tx)
{
	if (c->state == QP_C_FREE)
		return false;
	if (rn_unlikely(c->qp != NULL && c->qp->state == QP_S_ERR && qp_conn_streaming(c))) /* its CQ takes no more */
		qp_terminate(ctx, c, iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false), NULL);
	qp_tx_fill(ctx, c);
	if (rn_unlikely(c->state == QP_C_DRAINING))
		qp_conn_drained(ctx, c);
	if (tcpl_out(&c->tcp, ctx->now, &tx->tcp)) {
		gather(ctx, c, tx);
		return true;
	}
	if (rn_unlikely(tcpl_get_state(&c->tcp) == TCPL_S_CLOSED))
		qp_conn_finish(ctx, c);
	else
		qp_conn_rest(ctx, c);
	return false;
}
