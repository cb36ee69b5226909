/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: packets that come. */
#include <string.h>

#include "base/rn_seq.h"
#include "dgram/rd_int.h"

static bool may_receive(const struct qp *qp)
{
	return qp->state == QP_S_RTR || qp->state == QP_S_RTS || qp->state == QP_S_SQD;
}

/* REFUSED to a packet of which nothing is known here. */
static uint32_t refuse(struct rd_ctx *d, const struct rd_rx *rx, uint8_t *answer)
{
	const struct rd_hdr h = { .kind = RD_REFUSED,
				  .dst_qpn = rx->h->src_qpn,
				  .src_qpn = rx->h->dst_qpn,
				  .run = rx->h->peer_run,
				  .peer_run = rx->h->run };

	d->stats.refused++;
	rd_build(answer, &h);
	return RD_HDR_LEN;
}

enum turn {
	TURN_NEXT,  /* the segment has had its turn */
	TURN_WAITS, /* for a receive */
	TURN_ENDED, /* the pair has */
};

/* The segment whose turn it is. */
static enum turn take_turn(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len)
{
	const struct rn_iov ulpdu = { .base = (uint8_t *)(uintptr_t)seg, .len = len };
	struct qp *qp = p->m.qp;
	struct ddp_hdr h;

	enum ddp_verdict v = ddp_parse(seg, len, &h);
	enum qp_push r = QP_PUSH_FAILED;
	if (v != DDP_OK)
		p->m.err = ddp_verdict_err(v, &h);
	else if (h.opcode == RDMAP_TERMINATE)
		p->m.err = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE, false);
	else
		r = qp_push(d->qp, &p->m, &h, &ulpdu, 1);
	if (qp->state == QP_S_ERR || qp->rq.verdict != SPSC_OK) {
		rd_qp_error(d, qp);
		return TURN_ENDED;
	}
	if (r == QP_PUSH_NOT_READY)
		return TURN_WAITS;
	if (r == QP_PUSH_FAILED) {
		rd_fail(d, p, seg, len);
		return TURN_ENDED;
	}
	p->next++;
	p->owes = true;
	p->used = d->qp->now;
	return TURN_NEXT;
}

static void begin_wait(struct rd_ctx *d, struct rd_pair *p)
{
	struct qp *qp = p->m.qp;

	if (p->waits)
		return;
	d->qp->stats.rnr_waits++;
	p->waits = true;
	rd_side_of(qp)->waiting++;
	p->wait_end = qp->rnr_ns == RN_NEVER ? RN_NEVER : d->qp->now + qp->rnr_ns;
	qp_recv_waits(d->qp, qp);
	rn_list_push_back(&d->waits, &p->of_waits);
}

/* Takes the held segments whose turn has come. Returns false when the pair has ended. */
bool rd_take_held(struct rd_ctx *d, struct rd_pair *p)
{
	struct rd_hold *x;

	while ((x = p->held[p->next % RD_WIN]) != NULL) {
		const uint32_t i = p->next % RD_WIN;
		enum turn t = take_turn(d, p, x->seg, x->len);

		if (t == TURN_ENDED)
			return false;
		if (t == TURN_WAITS) {
			begin_wait(d, p);
			return true;
		}
		rd_wait_over(d, p);
		rd_drop_hold(d, p, i);
	}
	return true;
}

static void keep(struct rd_ctx *d, struct rd_pair *p, uint32_t number, const uint8_t *seg, uint32_t len)
{
	struct rd_hold *x = rn_slist_pop(&d->holds, struct rd_hold, link);

	x->len = len;
	memcpy(x->seg, seg, len);
	p->held[number % RD_WIN] = x;
	p->holds++;
	d->stats.held++;
}

/* Our segments below h->taken have had their turn at the peer. False: the pair has ended. */
static bool take_acks(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h)
{
	if (h->peer_run != p->run || h->taken - p->acked > p->sent - p->acked || h->taken == p->acked)
		return true;
	for (; p->acked != h->taken; p->acked++)
		if (p->wr_of[p->acked % RD_WIN] != QP_WR_NONE)
			qp_acked(&p->m, p->wr_of[p->acked % RD_WIN]);
	p->used = d->qp->now;
	rd_put(d, p);
	if (qp_complete(d->qp, &p->m) == QP_PULL_FAILED) {
		rd_fail(d, p, NULL, 0);
		return false;
	}
	return true;
}

/* The peer's run is over, and with it ours. */
static void in_refused(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx)
{
	struct rd_pair *p = rd_find(d, qp, rx->addr, rx->h->src_qpn);
	struct rdmap_term t = { 0 };

	if (p == NULL || (rx->h->peer_run != p->run && (rx->h->peer_run != 0 || rx->h->run != p->peer_run))) {
		d->stats.bad++;
		return;
	}
	if (!take_acks(d, p, rx->h)) /* what had its turn before the end has succeeded */
		return;
	if (rdmap_term_parse(rx->p + RD_HDR_LEN, rx->len - RD_HDR_LEN, &t) != RDMAP_TERM_SHORT)
		qp_blame(&p->m, &t);
	d->stats.refused++;
	p->term_len = 0;
	rd_end(d, p, RD_END_FAIL, p->peer_run != 0 && p->peer_run != rx->h->run);
	rd_route(d, qp);
}

/*
 * The pair that a segment belongs to, made when need be. NULL: *refused says whether the peer must hear of it, or the
 * segment is of an earlier run.
 */
static struct rd_pair *pair_for(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, bool *refused)
{
	const struct rd_hdr *h = rx->h;
	struct rd_pair *p = rd_find(d, qp, rx->addr, h->src_qpn);

	*refused = true;
	if (h->peer_run != 0 && (p == NULL || h->peer_run != p->run))
		return NULL;
	if (p != NULL && p->peer_run != 0 && h->run != p->peer_run) {
		*refused = false;
		if (rn_seq_lt(h->run, p->peer_run))
			return NULL;
		if (p->next > 0) { /* the peer has begun anew: of our run it knows nothing any more */
			p->term_len = 0;
			rd_end(d, p, RD_END_FAIL, false);
			rd_route(d, qp);
			p = rd_find(d, qp, rx->addr, h->src_qpn);
		} else {
			for (uint32_t i = 0; i < RD_WIN; i++)
				rd_drop_hold(d, p, i);
		}
		*refused = true;
	}
	if (p == NULL)
		p = rd_make(d, qp, rx->addr, h->src_qpn);
	if (p != NULL)
		p->peer_run = h->run;
	return p;
}

/* What answers a request of ours needs no Q_Key: its sender may know none. */
static bool is_answer(const uint8_t *seg, uint32_t len)
{
	struct ddp_hdr h;

	return ddp_parse(seg, len, &h) == DDP_OK && (h.opcode == RDMAP_READ_RESP || h.opcode == RDMAP_ATOMIC_RESP);
}

static uint32_t in_segment(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t *answer)
{
	const uint8_t *seg = rx->p + RD_HDR_LEN;
	const uint32_t len = rx->len - RD_HDR_LEN, number = rx->h->number;
	bool refused;

	struct rd_pair *p = pair_for(d, qp, rx, &refused);
	if (p == NULL) {
		d->stats.bad++;
		return refused ? refuse(d, rx, answer) : 0;
	}
	if (rn_unlikely(rx->h->qkey != qp->qkey) && !is_answer(seg, len)) {
		d->qp->stats.ud_qkey++;
		p->m.err = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, false);
		p->m.err.hdrct = IW_HDRCT_LEN | IW_HDRCT_DDP;
		rd_fail(d, p, seg, len);
		return 0;
	}
	if (!take_acks(d, p, rx->h))
		return 0;
	if (number - p->next >= RD_WIN || p->held[number % RD_WIN] != NULL) {
		d->stats.bad++;
		return 0;
	}
	d->stats.segs_in++;
	rd_arm_probe(d);
	enum turn t = number == p->next ? take_turn(d, p, seg, len) : TURN_WAITS;
	if (t == TURN_ENDED)
		return 0;
	if (t == TURN_WAITS) {
		keep(d, p, number, seg, len);
		if (number == p->next)
			begin_wait(d, p);
	} else if (!rd_take_held(d, p)) {
		return 0;
	}
	rd_put(d, p);
	return 0;
}

/* TAKEN is about these two runs. A peer that has heard nothing of ours asks only whether its own is known. */
static bool told_of(const struct rd_pair *p, const struct rd_hdr *h)
{
	if (h->peer_run == 0)
		return h->run == p->peer_run;
	return h->peer_run == p->run && (p->peer_run == 0 || p->peer_run == h->run);
}

uint32_t rd_in(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t answer[RD_ANSWER_MAX])
{
	struct rd_pair *p;

	if (qp == NULL || qp->beside == NULL || !qp->many || !may_receive(qp)) {
		if (rx->h->kind != RD_REFUSED)
			return refuse(d, rx, answer);
		d->stats.bad++;
		return 0;
	}
	switch ((enum rd_kind)rx->h->kind) {
	case RD_SEGMENT: return in_segment(d, qp, rx, answer);
	case RD_TAKEN:
		p = rd_find(d, qp, rx->addr, rx->h->src_qpn);
		if (p == NULL || !told_of(p, rx->h))
			return refuse(d, rx, answer);
		p->peer_run = rx->h->run;
		(void)take_acks(d, p, rx->h);
		return 0;
	case RD_REFUSED: in_refused(d, qp, rx); return 0;
	}
	return 0;
}
