/* SPDX-License-Identifier: BSD-3-Clause */
/* A received segment: TCP, then stream slices, then FPDUs, each with its CRC checked before anything is believed. */
#include "base/rn_seq.h"
#include "qp/qp_priv.h"

/* RFC 5044, 7.1.2: the initiator's first FPDU opens our direction; in the peer-to-peer model it is its RTR. */
void qp_rx_first(struct qp_ctx *ctx, struct qp_conn *c)
{
	qp_conn_to(ctx, c, QP_C_OPERATIONAL);
	if (!c->up) {
		struct qp_fx *fx = qp_fx_conn(ctx, QP_FX_ESTABLISHED, c);

		c->up = true;
		fx->ird = (uint16_t)c->ird.depth;
		fx->ord = (uint16_t)c->readq.ord;
	}
}

void qp_rx_fpdu(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v)
{
	uint8_t scratch[DDP_MAX_HDR_LEN];
	struct ddp_hdr h;
	const uint8_t *p = mpa_view_head(v, scratch, rn_min_u32(v->ulpdu_len, DDP_MAX_HDR_LEN));
	enum ddp_verdict dv = ddp_parse(p, v->ulpdu_len, &h);

	if (rn_unlikely(c->state == QP_C_WAIT_FIRST))
		qp_rx_first(ctx, c);
	if (rn_unlikely(dv != DDP_OK)) {
		ctx->stats.ddp_errors++;
		qp_event(ctx, c->qp, QP_EVENT_REQ_ERR, 0);
		qp_terminate(ctx, c, ddp_verdict_err(dv, &h), v);
		return;
	}
	bool placed = rn_unlikely(c->blk->n_ooo != 0) && qp_ooo_placed(c, &h, v);
	c->cut = h.last || h.opcode == RDMAP_WRITE ? 0 : (uint16_t)v->ulpdu_len;
	c->cut_op = h.opcode;
	qp_rx_segment(ctx, c, &h, placed ? NULL : v);
}

static void llp_error(struct qp_ctx *ctx, struct qp_conn *c, struct iw_err e)
{
	qp_event(ctx, c->qp, QP_EVENT_FATAL, qp_vendor_err(e));
	qp_terminate(ctx, c, e, NULL);
}

static void rx_empty(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->state == QP_C_WAIT_FIRST && c->agreed.rtr == MPA_RTR_SEND) {
		qp_rx_first(ctx, c);
		return;
	}
	ctx->stats.framing_errors++;
	llp_error(ctx, c, mpa_rx_err(MPA_RX_EMPTY));
}

void qp_rx_stage_back(struct qp_ctx *ctx, struct qp_conn *c)
{
	uint8_t *mem = c->rx.stage != NULL ? mpa_rx_take_stage(&c->rx) : NULL;

	if (mem != NULL)
		qp_stage_put(ctx, mem);
}

static bool stage_give(struct qp_ctx *ctx, struct qp_conn *c)
{
	uint8_t *mem = qp_stage_get(ctx);

	if (mem == NULL)
		return false;
	if (mpa_rx_give_stage(&c->rx, mem, MPA_STAGE_SIZE))
		return true;
	qp_stage_put(ctx, mem);
	return false;
}

static void deframe(struct qp_ctx *ctx, struct qp_conn *c, const struct rn_iov *iov, uint32_t n)
{
	struct mpa_rx_in in;
	struct mpa_view v;

	mpa_rx_input(&in, iov, n);
	while (qp_conn_streaming(c) && c->qp != NULL && c->rnr != QP_RNR_WAITS) {
		enum mpa_rx_verdict r = mpa_rx_next(&c->rx, &in, &v);

		switch (r) {
		case MPA_RX_FPDU:
		case MPA_RX_EMPTY:
			ctx->stats.fpdus_in++;
			ctx->stats.staged += v.staged;
			if (rn_unlikely(!mpa_rx_crc(&v))) {
				ctx->stats.crc_errors++;
				llp_error(ctx, c, iw_err_of(IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CRC, false));
				return;
			}
			if (rn_likely(r == MPA_RX_FPDU))
				qp_rx_fpdu(ctx, c, &v);
			else
				rx_empty(ctx, c);
			break;
		case MPA_RX_MORE:
			if (mpa_rx_idle(&c->rx))
				qp_rx_stage_back(ctx, c);
			return;
		case MPA_RX_NEED_STAGE:
			/* The bytes are acknowledged already: without a place to keep them the stream is lost. */
			if (!stage_give(ctx, c)) {
				qp_conn_reset(ctx, c);
				return;
			}
			break;
		case MPA_RX_BAD_MARKER:
		case MPA_RX_TOO_SHORT:
			ctx->stats.framing_errors++;
			llp_error(ctx, c, mpa_rx_err(r));
			return;
		}
	}
}

/* MPA frames end anywhere in a segment: what follows is the beginning of Full Operation. */
static void setup_bytes(struct qp_ctx *ctx, struct qp_conn *c, struct rn_iov *iov, uint32_t n, uint32_t seq)
{
	uint32_t i = 0;

	while (i < n && (c->state == QP_C_WAIT_REQ || c->state == QP_C_WAIT_REP)) {
		uint32_t used = qp_neg_feed(ctx, c, iov[i].base, iov[i].len);

		seq += used;
		iov[i].base += used;
		iov[i].len -= used;
		if (iov[i].len == 0)
			i++;
	}
	c->rx_base = seq;
	if (i < n && qp_conn_streaming(c))
		deframe(ctx, c, iov + i, n - i);
	else if (i < n && (c->state == QP_C_WAIT_ACCEPT || c->state == QP_C_WAIT_QP)) {
		/* RFC 5044, 7.1.2: no FPDU before the Reply, and none by the responder before the initiator's first. */
		ctx->stats.neg_errors++;
		qp_conn_reset(ctx, c);
		qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, 0);
	}
}

/* In-order bytes. True: the packet is kept, for a QP that is not ready to receive. */
bool qp_rx_slice(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s)
{
	const struct qp_pkt *pkt = (const struct qp_pkt *)(uintptr_t)s->ref;
	struct rn_iov iov[QP_PKT_MAX_IOV];

	if (c->state >= QP_C_TERMINATING)
		return false;
	uint32_t n = rn_iov_cut(pkt->iov, pkt->n, s->off, s->len, iov, QP_PKT_MAX_IOV);
	if (rn_unlikely(n == UINT32_MAX)) {
		qp_conn_reset(ctx, c);
	} else if (rn_likely(qp_conn_streaming(c))) {
		c->ragged |= c->rx.pos != c->rx.start;
		deframe(ctx, c, iov, n);
	} else {
		setup_bytes(ctx, c, iov, n, s->seq);
	}
	return rn_unlikely(c->rnr == QP_RNR_WAITS) && qp_rnr_rest(ctx, c, s);
}

/* The peer sends no more. Before the stream was up that is a refusal, after it the orderly end. */
void qp_rx_fin(struct qp_ctx *ctx, struct qp_conn *c)
{
	c->peer_fin = true;
	if (c->state == QP_C_FREE || c->state == QP_C_DEAD)
		return;
	/* RFC 5044, 7.2: a FIN inside an FPDU is not orderly. */
	bool broken = qp_conn_streaming(c) && c->rx.pos != c->rx.start;
	qp_conn_to(ctx, c, QP_C_DEAD);
	qp_conn_shutdown(ctx, c);
	qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, broken);
}

/*
 * Whether the segment begins with a Terminate. What the same segment acknowledges is then not complete yet: the Terminate
 * may be about it. Only a guess by the first octets, in the usual case of one slice; what it holds back is completed by
 * the next acknowledgement at the latest, or flushed with the stream's end.
 */
static bool terminate_ahead(const struct qp_conn *c, const struct tcpl_slice *s)
{
	const struct qp_pkt *pkt = (const struct qp_pkt *)(uintptr_t)s->ref;

	if (!qp_conn_streaming(c) || c->rx.pos != c->rx.start)
		return false;
	uint32_t marker = c->rx.markers && c->rx.pos % MPA_MARKER_STEP == 0 ? MPA_MARKER_LEN : 0;
	uint32_t at = s->off + marker + MPA_LEN_FIELD + 1; /* of the RDMAP control octet */
	return at < pkt->iov[0].len && (pkt->iov[0].base[at] & 0xf) == RDMAP_TERMINATE;
}

#define ACKED_AHEAD 3u /* FPDUs between the one that is done with and the one whose record is fetched */

static void acked(struct qp_ctx *ctx, struct qp_conn *c, bool complete)
{
	uint64_t ref;

	while (tcpl_acked(&c->tcp, &ref)) {
		__builtin_prefetch((const void *)(uintptr_t)tcpl_chunk(&c->tcp, c->tcp.q_head + ACKED_AHEAD)->ref, 1);
		if (rn_unlikely(ref == QP_REF_FRAME)) {
			c->setup->out_live = false;
			if (c->setup->fin_due)
				qp_conn_shutdown(ctx, c);
			qp_conn_setup_done(ctx, c);
			continue;
		}
		struct qp_rec *r = (struct qp_rec *)(uintptr_t)ref;
		if (r->wr != QP_WR_NONE && c->qp != NULL)
			qp_sq_acked(c, r->wr);
		qp_rec_put(ctx, r);
	}
	if (rn_likely(complete))
		qp_sq_complete(ctx, c);
}

/* The in-order part of a segment. True: its packet is kept. */
static inline bool in_order(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_ev *ev)
{
	if (rn_unlikely(c->rnr != QP_RNR_NONE))
		qp_rnr_keep(ctx, c, &ev->slice);
	else if (rn_likely(!qp_rx_slice(ctx, c, &ev->slice)))
		return false;
	((struct qp_pkt *)(uintptr_t)ev->slice.ref)->twice = ev->held;
	return true;
}

/* Whether there is no room for the segment's packet; that which fills a hole needs none. */
static bool full(struct qp_ctx *ctx, const struct qp_conn *c, const struct tcpl_seg *seg)
{
	if (rn_unlikely(c->rnr != QP_RNR_NONE) && ctx->rnr_kept >= ctx->cfg.rnr_pkts) {
		ctx->stats.rnr_drops++;
		return true;
	}
	if (rn_likely(ctx->held < ctx->cfg.hold_pkts) || rn_seq_le(seg->seq, c->tcp.rcv_nxt))
		return false;
	ctx->stats.hold_drops++;
	return true;
}

bool qp_conn_segment(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_seg *seg)
{
	struct tcpl_ev ev = { 0 };
	struct tcpl_slice s;
	struct tcpl_seg bare;
	bool kept = false;

	if (rn_unlikely(c->state == QP_C_FREE))
		return false;
	/* What has bytes or ends the stream needs memory; without, it is as if it had been lost on the way. */
	if ((seg->len > 0 || (seg->flags & TCPL_FIN)) && rn_unlikely(!qp_conn_wake(ctx, c)))
		return false;
	if (seg->len > 0 && rn_unlikely(full(ctx, c, seg))) {
		bare = *seg; /* its acknowledgement still counts */
		bare.len = 0;
		bare.flags &= (uint8_t)~(TCPL_FIN | TCPL_PSH);
		seg = &bare;
	}
	(void)tcpl_in(&c->tcp, ctx->now, seg, &ev); /* verdicts are counted by the engine; what counts here is ev */
	ctx->held += ev.held;
	if (seg->len > 0)
		qp_answer_put(ctx, c);
	else
		qp_ready_put(ctx, c);
	if (rn_unlikely(ev.bits & TCPL_EV_CONNECTED) && c->state == QP_C_OPENING) {
		if (c->flags & QP_CONN_SELF) {
			qp_neg_self(ctx, c);
		} else {
			qp_neg_send(c);
			qp_conn_to(ctx, c, QP_C_WAIT_REP);
		}
	}
	if (ev.bits & TCPL_EV_ACKED)
		acked(ctx, c, !(ev.bits & TCPL_EV_DATA) || !terminate_ahead(c, &ev.slice));
	if (ev.bits & TCPL_EV_DATA)
		kept = in_order(ctx, c, &ev);
	while (c->rnr == QP_RNR_NONE && tcpl_rx_next(&c->tcp, &s)) {
		ctx->held--;
		if (rn_likely(!qp_rx_slice(ctx, c, &s)))
			qp_ref_back(ctx, s.ref);
		else
			((struct qp_pkt *)(uintptr_t)s.ref)->twice = false;
	}
	/* What is in order by now is no longer early, and a packet of which a part is kept stays whole. */
	if (rn_unlikely(ev.held) && !kept && rn_seq_ge(ev.ooo.seq, c->tcp.rcv_nxt))
		qp_ooo_place(ctx, c, &ev.ooo);
	if (rn_unlikely(c->rnr != QP_RNR_NONE))
		qp_rnr_window(c);
	if (rn_unlikely(ev.bits & TCPL_EV_PEER_FIN)) {
		if (c->rnr != QP_RNR_NONE)
			qp_rnr_fin(ctx, c);
		else
			qp_rx_fin(ctx, c);
	}
	if (rn_unlikely(ev.bits & (TCPL_EV_RESET | TCPL_EV_TIMEOUT)))
		qp_conn_lost(ctx, c, ev.bits);
	return ev.held || kept;
}
