/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: received packets. */
#include <string.h>

#include "base/rn_seq.h"
#include "dgram/rd_int.h"

static bool may_receive(const struct qp *qp)
{
	return qp->state == QP_S_RTR || qp->state == QP_S_RTS || qp->state == QP_S_SQD;
}

/* What is remembered of this packet's run, if the run has ended: packets of the run may come late. NULL: nothing. */
static const struct rd_told *told(const struct rd_ctx *d, const struct rd_rx *rx)
{
	for (uint32_t i = 0; i < RD_TOLD; i++) {
		const struct rd_told *t = &d->told[i];

		if (t->len > 0 && t->qpn == rx->h->dst_qpn && t->peer_qpn == rx->h->src_qpn &&
		    t->peer_run == rx->h->run && memcmp(t->addr, rx->addr, RD_ADDR_LEN) == 0)
			return t;
	}
	return NULL;
}

/* Writes REFUSED, the answer to a packet of an unknown pair. */
static uint32_t refuse(struct rd_ctx *d, const struct rd_rx *rx, uint8_t *answer)
{
	const struct rd_told *t = told(d, rx);
	const struct rd_hdr h = { .kind = RD_REFUSED,
				  .dst_qpn = rx->h->src_qpn,
				  .src_qpn = rx->h->dst_qpn,
				  .run = rx->h->peer_run,
				  .peer_run = rx->h->run,
				  .taken = t != NULL ? t->taken : 0,
				  .more = t != NULL ? t->more : 0 };
	const uint32_t len = rd_build(answer, &h);

	d->stats.refused++;
	if (t == NULL)
		return len;
	memcpy(answer + len, t->term, t->len);
	return len + t->len;
}

static struct iw_err key_err(void)
{
	struct iw_err e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, false);

	e.hdrct = IW_HDRCT_LEN | IW_HDRCT_DDP;
	return e;
}

/*
 * Whether a packet of an unknown pair may make the pair: its first segment has the QP's Q_Key. No answer is due to a
 * pair that does not exist, so an answer, too, needs the Q_Key. False: the packet's run has ended, and refuse() has the
 * Terminate.
 */
static bool may_make(struct rd_ctx *d, const struct qp *qp, const struct rd_rx *rx)
{
	struct rd_part first = { .at = rx->h->body, .len = rx->len - rx->h->body, .qkey = rx->h->qkey };

	if (rx->h->kind == RD_SEGMENTS)
		(void)rd_part_parse(rx->p, rx->len, rx->h->body, &first);
	if (rn_likely(first.qkey == qp->qkey))
		return true;
	struct rd_told *t = &d->told[d->n_told++ % RD_TOLD];
	*t = (struct rd_told){ .qpn = rx->h->dst_qpn, .peer_qpn = rx->h->src_qpn, .peer_run = rx->h->run };
	memcpy(t->addr, rx->addr, RD_ADDR_LEN);
	t->len = rd_term(t->term, key_err(), rx->p + first.at, first.len);
	d->qp->stats.ud_qkey++;
	return false;
}

/* Notes that the peer has taken our segment acked + i. False: this was known already. */
static bool take_ack(struct rd_work *k, uint32_t i)
{
	const uint32_t wr = *rd_wr_of(k, k->acked + i);

	if (k->had >> i & 1)
		return false;
	k->had |= UINT64_C(1) << i;
	k->n_had++;
	if (wr != QP_WR_NONE)
		qp_acked(&k->m, wr);
	return true;
}

/* h->more; 0 if it reports a segment that was not sent, since such a report is not believed. */
static uint64_t more_of(const struct rd_pair *p, const struct rd_hdr *h)
{
	if (!p->loose || h->more == 0)
		return 0;
	const uint32_t last = h->taken + 64 - (uint32_t)__builtin_clzll(h->more);

	return last - p->k->acked < p->sent - p->k->acked ? h->more : 0;
}

/*
 * Handles the report in a header: our segments below h->taken, and those of h->more, have had their turn at the peer.
 * False: the pair has ended.
 */
static bool take_acks(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h)
{
	struct rd_work *k = rd_work_of(p);
	bool news = false;
	uint32_t n = 0;

	if (k == NULL || h->peer_run != p->run || h->taken - k->acked > p->sent - k->acked)
		return true;
	for (uint64_t more = more_of(p, h), left; more != 0; more = left) {
		left = more & (more - 1);
		const uint32_t i = h->taken - k->acked + 1 + (uint32_t)__builtin_ctzll(more);
		if (i < RD_SPAN)
			news |= take_ack(k, i);
	}
	for (; k->acked != h->taken; k->acked++, k->n_had--, k->had >>= 1, n++)
		news |= take_ack(k, 0) || !p->loose;
	k->more -= rn_min_u32(k->more, n);
	rd_promised(d, p, h);
	if (!news)
		return true;
	k->used = d->qp->now;
	rd_put(d, p);
	if (qp_complete(d->qp, &k->m) == QP_PULL_FAILED) {
		rd_fail(d, p, NULL, 0);
		return false;
	}
	rd_look_drained(p);
	return true;
}

/* Whether the REFUSED is about this pair's runs. A peer that knows no run of ours names its own. */
static bool refusal_of(const struct rd_pair *p, const struct rd_hdr *h)
{
	return h->peer_run == p->run || (h->peer_run == 0 && p->peer_run != 0 && h->run == p->peer_run);
}

/* The peer's run is over, and so is ours. */
static void in_refused(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx)
{
	struct rd_pair *p = rd_find(d, qp, rx->addr, rx->h->src_qpn);
	struct rdmap_term t = { 0 };

	if (p == NULL || !refusal_of(p, rx->h)) {
		d->stats.bad++;
		return;
	}
	if (!take_acks(d, p, rx->h)) /* segments that had their turn before the end have succeeded */
		return;
	if (rdmap_term_parse(rx->p + rx->h->body, rx->len - rx->h->body, &t) != RDMAP_TERM_SHORT && !p->rests)
		qp_blame(&p->k->m, &t);
	d->stats.refused++;
	rd_end(d, p, RD_END_FAIL, p->peer_run != 0 && p->peer_run != rx->h->run);
	rd_route(d, qp);
}

/* Notes the run of a packet of the peer, and whether the peer takes SEGMENTS. */
static void note_peer(struct rd_pair *p, const struct rd_hdr *h)
{
	p->peer_run = h->run;
	p->packs = (h->flags & RD_F_PACKS) != 0;
}

/*
 * The pair that a segment belongs to, which is made if necessary. NULL: there is none. *refused then says whether the
 * peer must be told; it must not be if the segment is of an earlier run.
 */
static struct rd_pair *pair_for(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, bool *refused)
{
	const struct rd_hdr *h = rx->h;
	struct rd_pair *p = rd_find(d, qp, rx->addr, h->src_qpn);

	*refused = true;
	if (h->peer_run != 0 && (p == NULL || h->peer_run != p->run))
		return NULL;
	if (rn_unlikely(p == NULL) && told(d, rx) != NULL) /* the run has ended */
		return NULL;
	if (p != NULL && p->peer_run != 0 && h->run != p->peer_run) {
		*refused = false;
		if (rn_seq_lt(h->run, p->peer_run))
			return NULL;
		if (p->next > 0 || (!p->rests && p->k->map != 0)) { /* the peer has begun anew: our run is void */
			rd_end(d, p, RD_END_FAIL, false);
			rd_route(d, qp);
			*refused = true;
			if (!may_receive(qp)) /* a strict QP goes to ERR with the work requests of our run */
				return NULL;
			p = rd_find(d, qp, rx->addr, h->src_qpn);
		} else if (!p->rests) {
			rd_drop_holds(d, p->k);
			rd_unpromise(d, p, p->k->promised);
			rd_wait_over(d, p); /* the segment that waited for a receive is gone */
		}
		*refused = true;
	}
	if (p == NULL && may_make(d, qp, rx))
		p = rd_make(d, qp, rx->addr, h->src_qpn);
	if (p != NULL)
		note_peer(p, h);
	return p;
}

/*
 * Whether the segment is an answer to a Read or Atomic of ours that is under way. An answer carries no Q_Key, as the
 * peer may not know our Q_Key.
 */
static bool is_answer(const struct rd_pair *p, const uint8_t *seg, uint32_t len)
{
	struct ddp_hdr h;

	return rdmap_readq_count(&p->k->m.readq) > 0 && ddp_parse(seg, len, &h) == DDP_OK &&
	       (h.opcode == RDMAP_READ_RESP || h.opcode == RDMAP_ATOMIC_RESP);
}

/* Whether the segment's number is in the window, and the segment has not come yet. */
static bool in_window(struct rd_pair *p, const struct rd_seg *s)
{
	const uint32_t ahead = s->number - p->next;
	const bool loose = (s->flags & RD_F_LOOSE) != 0;
	struct rd_work *k = p->k;

	if (loose != p->peer_loose) {
		if (p->next > 0 || k->map != 0 || k->holds > 0) /* a run is either ordered or unordered */
			return false;
		p->peer_loose = loose;
	}
	if (!loose)
		return ahead < RD_WIN + k->promised && *rd_held(k, s->number) == NULL;
	return ahead < RD_SPAN && (k->map >> ahead & 1) == 0 && *rd_held(k, s->number) == NULL &&
	       (ahead == 0 || k->holds < RD_WIN);
}

/* Takes a segment, which has come in a packet of the pair. False: the pair has ended. */
static bool take_one(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s)
{
	if (rn_unlikely(s->asked != p->qp->qkey) && !is_answer(p, s->p, s->len)) {
		d->qp->stats.ud_qkey++;
		p->k->m.err = key_err();
		rd_fail(d, p, s->p, s->len);
		return false;
	}
	if (!in_window(p, s)) {
		d->stats.bad++;
		return true;
	}
	d->stats.segs_in++;
	const enum rd_turn t = rd_take_turn(d, p, s);
	if (t == RD_TURN_NEXT) /* further segments of a packet may lie behind those that are kept */
		return p->k->holds == 0 || rd_take_held(d, p);
	if (t == RD_TURN_ENDED)
		return false;
	if (rn_likely(rd_keep(d, p, s, t == RD_TURN_WAITS)))
		return true;
	rd_impossible(d, p, s->p, s->len);
	return false;
}

/* Takes the segments of a SEGMENTS, one after the other. False: the pair has ended. */
static bool take_parts(struct rd_ctx *d, struct rd_pair *p, const struct rd_rx *rx)
{
	const uint8_t loose = rx->h->flags & RD_F_LOOSE;
	uint32_t at = rx->h->body, number = rx->h->number;
	struct rd_part part;

	for (; at < rx->len && rd_part_parse(rx->p, rx->len, at, &part); at = part.at + part.len) {
		const struct rd_seg s = { .p = rx->p + part.at,
					  .len = part.len,
					  .number = number++,
					  .asked = part.qkey,
					  .flags = part.flags | loose,
					  .rnr = part.rnr };
		if (!take_one(d, p, &s))
			return false;
	}
	return true;
}

static bool take_segments(struct rd_ctx *d, struct rd_pair *p, const struct rd_rx *rx)
{
	const struct rd_seg s = { .p = rx->p + rx->h->body,
				  .len = rx->len - rx->h->body,
				  .number = rx->h->number,
				  .asked = rx->h->qkey,
				  .flags = rx->h->flags,
				  .rnr = rx->h->rnr };

	return rx->h->kind == RD_SEGMENTS ? take_parts(d, p, rx) : take_one(d, p, &s);
}

static uint32_t in_segments(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t *answer)
{
	bool refused;

	struct rd_pair *p = pair_for(d, qp, rx, &refused);
	if (p == NULL) {
		d->stats.bad++;
		return refused ? refuse(d, rx, answer) : 0;
	}
	if (rn_unlikely(!rd_wake(d, p))) {
		d->stats.no_work++;
		rd_end(d, p, RD_END_FAIL, false);
		return refuse(d, rx, answer);
	}
	rd_arm_probe(d);
	if (!take_acks(d, p, rx->h) || !take_segments(d, p, rx))
		return 0;
	if (rx->h->flags & RD_F_MUCH)
		rd_promise(d, p);
	rd_put(d, p);
	return 0;
}

/* Whether the TAKEN is about this pair's runs. A peer that knows no run of ours only asks whether its own is known. */
static bool told_of(const struct rd_pair *p, const struct rd_hdr *h)
{
	if (h->peer_run == 0)
		return h->run == p->peer_run;
	return h->peer_run == p->run && (p->peer_run == 0 || p->peer_run == h->run);
}

/*
 * Whether a segment of the peer's run below this number has not come. The flow must have delivered the segment by now,
 * so an earlier pair, which has ended, took it.
 */
static bool lacks(const struct rd_pair *p, uint32_t below)
{
	struct rd_work *k = rd_work_of(p);

	for (uint32_t n = p->next; rn_seq_lt(n, below); n++) {
		const uint32_t ahead = n - p->next;
		if (k == NULL || ahead >= (k->wide != NULL ? RD_WIDE : RD_SPAN) ||
		    (*rd_held(k, n) == NULL && (ahead >= RD_SPAN || !(k->map >> ahead & 1))))
			return true;
	}
	return false;
}

static uint32_t in_taken(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t *answer)
{
	struct rd_pair *p = rd_find(d, qp, rx->addr, rx->h->src_qpn);

	if (p == NULL || !told_of(p, rx->h))
		return refuse(d, rx, answer);
	note_peer(p, rx->h);
	if (!take_acks(d, p, rx->h))
		return 0;
	if (rx->h->flags & RD_F_BACK)
		rd_take_back(d, p, rx->h);
	if (!lacks(p, rx->h->number))
		return 0;
	d->stats.refused++;
	rd_end(d, p, RD_END_FAIL, true);
	rd_route(d, qp);
	return 0;
}

uint32_t rd_in(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t answer[RD_ANSWER_MAX])
{
	if (qp == NULL || qp->beside == NULL || !qp->many || !may_receive(qp)) {
		if (rx->h->kind != RD_REFUSED)
			return refuse(d, rx, answer);
		d->stats.bad++;
		return 0;
	}
	uint32_t len = 0;
	switch ((enum rd_kind)rx->h->kind) {
	case RD_SEGMENT:
	case RD_SEGMENTS: len = in_segments(d, qp, rx, answer); break;
	case RD_TAKEN: len = in_taken(d, qp, rx, answer); break;
	case RD_REFUSED: in_refused(d, qp, rx); break;
	}
	rd_settle(d, qp);
	return len;
}
