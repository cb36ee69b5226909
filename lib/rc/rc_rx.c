/* SPDX-License-Identifier: BSD-3-Clause */
/* From received bytes to FPDUs. The CRC of each is checked before anything in it is used. */
#include "rc/rc_int.h"

/* RFC 5044, 7.1.2: the initiator's first FPDU opens our direction; in the peer-to-peer model it is its RTR. */
void rc_rx_first(struct rc_ctx *ctx, struct rc *c)
{
	rc_to(ctx, c, RC_OPERATIONAL);
	if (!rc_is_up(c)) {
		struct qp_fx *fx = rc_fx_conn(ctx, QP_FX_ESTABLISHED, c);

		rc_tell(c, RC_NEWS_UP);
		fx->ird = (uint16_t)c->m.ird.depth;
		fx->ord = (uint16_t)c->m.readq.ord;
	}
}

/* Gives the engine a segment in its turn. placed: its bytes have been placed already. */
static inline void push(struct rc_ctx *ctx, struct rc *c, const struct ddp_hdr *h, const struct mpa_view *v,
			bool placed)
{
	enum qp_push p = qp_push(&ctx->qp, &c->m, h, rn_likely(!placed) ? v->ulpdu : NULL, v->n);

	if (rn_unlikely(p == QP_PUSH_NOT_READY)) {
		if (rc_rnr_wait(ctx, c, v))
			return;
		c->m.keeps = false;
		p = qp_push(&ctx->qp, &c->m, h, v->ulpdu, v->n);
		c->m.keeps = true;
	}
	if (rn_unlikely(c->rnr.state != RC_RNR_NONE))
		c->rnr.until = RN_NEVER; /* the next message that waits has a time limit of its own */
	switch (p) {
	case QP_PUSH_DELIVERED: rc_ask(c, RC_TODO_ACK); return;
	case QP_PUSH_TERMINATE: rc_term_received(ctx, c, v, h->hdr_len); return;
	case QP_PUSH_FAILED: rc_terminate(ctx, c, c->m.err, rc_named(c, v)); return;
	case QP_PUSH_OK:
	case QP_PUSH_NOT_READY: return;
	}
}

RN_STRAIGHT void rc_rx_fpdu(struct rc_ctx *ctx, struct rc *c, const struct mpa_view *v)
{
	uint8_t scratch[DDP_MAX_HDR_LEN];
	struct ddp_hdr h;
	const uint8_t *p = mpa_view_head(v, scratch, rn_min_u32(v->ulpdu_len, DDP_MAX_HDR_LEN));
	enum ddp_verdict dv = ddp_parse(p, v->ulpdu_len, &h);

	if (rn_unlikely(c->state == RC_WAIT_FIRST))
		rc_rx_first(ctx, c);
	if (rn_unlikely(dv != DDP_OK)) {
		qp_push_malformed(&ctx->qp, &c->m, dv, &h);
		rc_terminate(ctx, c, c->m.err, v);
		return;
	}
	bool placed = rn_unlikely(c->blk->n_ooo != 0) && rc_ooo_placed(c, &h, v);
	if (rn_likely(!placed))
		ctx->qp.stats.copied_rx += h.payload_len;
	c->in.cut = h.last || h.opcode == RDMAP_WRITE ? 0 : (uint16_t)v->ulpdu_len;
	c->in.cut_op = h.opcode;
	push(ctx, c, &h, v, placed);
}

static void llp_error(struct rc_ctx *ctx, struct rc *c, struct iw_err e)
{
	qp_event(&ctx->qp, c->m.qp, QP_EVENT_FATAL, qp_vendor_err(e));
	rc_terminate(ctx, c, e, NULL);
}

/* The bytes of one call of rc_in. */
struct input {
	const struct rn_iov *iov;
	uint32_t n;
	uint32_t pos; /* offset in Full Operation of its first octet */
	bool crc_due; /* no CRC check of FPDUs that lie whole in iov */
};

/*
 * The FPDU at this offset is wrong: looks which spacings of markers would fit, if the peer's differ from those agreed.
 */
static RN_COLD void try_spacings(struct rc *c, const struct input *b, uint32_t pos)
{
	struct mpa_rx rx = c->in.mpa;

	rx.crc = rx.crc && !b->crc_due;
	if (pos - b->pos < UINT32_MAX / 2 && (c->agreed.rx_markers != 0 || c->policy.markers))
		c->spacings = (uint8_t)mpa_fitting(&rx, pos, b->iov, b->n, pos - b->pos);
}

static void rx_empty(struct rc_ctx *ctx, struct rc *c, const struct input *b, uint32_t pos)
{
	if (c->state == RC_WAIT_FIRST && c->agreed.rtr == MPA_RTR_SEND) {
		rc_rx_first(ctx, c);
		return;
	}
	ctx->qp.stats.framing_errors++;
	try_spacings(c, b, pos);
	llp_error(ctx, c, mpa_rx_err(MPA_RX_EMPTY));
}

/* The CRC of an FPDU that has not come from this process, or in pieces: summed in the stage as they were copied. */
static bool crc_good(struct rc_ctx *ctx, const struct mpa_view *v)
{
	ctx->qp.stats.summed_rx += v->crc_on ? v->raw_len : 0;
	ctx->qp.stats.copied_rx += v->staged ? v->raw_len : 0;
	return mpa_rx_crc(v);
}

static inline void deframe(struct rc_ctx *ctx, struct rc *c, const struct input *b)
{
	struct mpa_rx_in in;
	struct mpa_view v;

	mpa_rx_input(&in, b->iov, b->n);
	while (rc_streaming(c) && c->m.qp != NULL && c->rnr.state != RC_RNR_WAITS) {
		enum mpa_rx_verdict r = mpa_rx_next(&c->in.mpa, &in, &v);

		switch (r) {
		case MPA_RX_FPDU:
		case MPA_RX_EMPTY:
			ctx->qp.stats.fpdus_in++;
			ctx->qp.stats.staged += v.staged;
			if (rn_unlikely(!(b->crc_due && !v.staged) && !crc_good(ctx, &v))) {
				ctx->qp.stats.crc_errors++;
				try_spacings(c, b, v.pos);
				llp_error(ctx, c, iw_err_of(IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CRC, false));
				return;
			}
			if (rn_likely(r == MPA_RX_FPDU))
				rc_rx_fpdu(ctx, c, &v);
			else
				rx_empty(ctx, c, b, v.pos);
			break;
		case MPA_RX_MORE:
			if (rn_unlikely(c->in.mpa.stage != NULL))
				rc_stage_look(ctx, c);
			return;
		case MPA_RX_NEED_STAGE:
			if (!rc_stage_get(ctx, c))
				return;
			break;
		case MPA_RX_BAD_MARKER:
		case MPA_RX_TOO_SHORT:
			ctx->qp.stats.framing_errors++;
			try_spacings(c, b, c->in.mpa.start);
			llp_error(ctx, c, mpa_rx_err(r));
			return;
		}
	}
}

/* MPA frames end anywhere in a segment: Full Operation may begin in the same segment. */
static void setup_bytes(struct rc_ctx *ctx, struct rc *c, struct rn_iov *iov, uint32_t n, uint32_t pos)
{
	uint32_t i = 0;

	while (i < n && (c->state == RC_WAIT_REQ || c->state == RC_WAIT_REP)) {
		uint32_t used = rc_neg_feed(ctx, c, iov[i].base, iov[i].len);

		pos += used;
		iov[i].base += used;
		iov[i].len -= used;
		if (iov[i].len == 0)
			i++;
	}
	c->in.base = pos;
	if (i < n && rc_streaming(c)) {
		c->in.heard = true;
		deframe(ctx, c, &(const struct input){ .iov = iov + i, .n = n - i, .pos = mpa_rx_pos(&c->in.mpa) });
	} else if (i < n && (c->state == RC_WAIT_ACCEPT || c->state == RC_WAIT_QP)) {
		/* RFC 5044, 7.1.2: no FPDU before the Reply, and none by the responder before the initiator's first. */
		ctx->qp.stats.neg_errors++;
		rc_reset(ctx, c);
		rc_end(ctx, c, QP_FX_CONNECT_ERROR, 0);
	}
}

uint32_t rc_in(struct rc_ctx *ctx, struct rc *c, const struct rc_bytes *b)
{
	if (c->state >= RC_TERMINATING)
		return b->len;
	if (rn_likely(rc_streaming(c))) {
		c->in.ragged |= c->in.mpa.pos != c->in.mpa.start;
		c->in.heard = true;
		deframe(ctx, c,
			&(const struct input){
				.iov = b->iov, .n = b->n, .pos = mpa_rx_pos(&c->in.mpa), .crc_due = b->crc_due });
	} else {
		setup_bytes(ctx, c, b->iov, b->n, b->pos);
	}
	return rn_likely(c->rnr.state != RC_RNR_WAITS) ? b->len : rn_min_u32(rc_used(c) - b->pos, b->len);
}

/* Before the stream was up a FIN is a refusal, afterwards the orderly end. */
void rc_fin(struct rc_ctx *ctx, struct rc *c)
{
	if (c->state == RC_FREE || c->state == RC_DEAD)
		return;
	if (c->rnr.state != RC_RNR_NONE) {
		c->rnr.fin = true;
		rc_rnr_bound(ctx, c);
		return;
	}
	/* RFC 5044, 7.2: a FIN inside an FPDU is not orderly. */
	bool broken = rc_streaming(c) && c->in.mpa.pos != c->in.mpa.start;
	rc_peer_ended(ctx, c, RC_DEAD);
	rc_end(ctx, c, QP_FX_CONNECT_ERROR, broken);
}

bool rc_terminate_ahead(const struct rc *c, const uint8_t *p, uint32_t n)
{
	if (!rc_streaming(c) || c->in.mpa.pos != c->in.mpa.start)
		return false;
	uint32_t at = mpa_lead(c->in.mpa.pos, c->in.mpa.step) + MPA_LEN_FIELD + 1; /* offset of RDMAP's control octet */
	return at < n && (p[at] & 0xf) == RDMAP_TERMINATE;
}
