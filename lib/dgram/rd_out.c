/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: packets to send. */
#include <string.h>

#include "dgram/rd_int.h"

/* Builds the Terminate for the peer: the error, and the first octets of the segment that led to it. */
static void put_term(struct rd_work *k, struct iw_err e, const uint8_t *seg, uint32_t len)
{
	uint8_t head[DDP_MAX_HDR_LEN + RDMAP_READ_REQ_LEN] = { 0 };

	if (len > 0)
		memcpy(head, seg, rn_min_u32(len, sizeof(head)));
	k->term_len = rdmap_term_build(k->term, e, len > 0 ? head : NULL, len);
}

void rd_fail(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len)
{
	struct qp *qp = p->qp;

	d->stats.refused++;
	put_term(p->k, p->k->m.err, seg, len);
	rd_end(d, p, RD_END_FAIL, true);
	rd_route(d, qp);
}

static struct rd_hdr hdr_of(struct rd_pair *p, enum rd_kind kind)
{
	p->owes = false;
	return (struct rd_hdr){ .kind = (uint8_t)kind,
				.dst_qpn = p->peer_qpn,
				.src_qpn = p->qpn,
				.qkey = p->k != NULL ? p->k->qkey : 0,
				.run = p->run,
				.peer_run = p->peer_run,
				.taken = p->next,
				.room = rd_room(p),
				.number = kind == RD_TAKEN ? p->k->sure : 0,
				.more = p->k != NULL ? p->k->map >> 1 : 0 };
}

/* Writes the last packet of a pair that has ended. */
static uint32_t out_refused(struct rd_ctx *d, struct rd_pair *p, uint8_t *buf)
{
	const struct rd_hdr h = hdr_of(p, RD_REFUSED);
	const uint32_t at = rd_build(buf, &h), len = p->k != NULL ? p->k->term_len : 0;

	if (len > 0)
		memcpy(buf + at, p->k->term, len);
	rd_give_back(d, p);
	return at + len;
}

/* What out_segment() learns from hand(). */
struct handed {
	enum qp_pull v; /* FAILED: the work request has failed */
	bool room;      /* rd_send elements were all in use, so a work request may wait in the queue for one */
};

/*
 * Gives the engine the pair's next work request. False: there is none, the engine is busy with earlier ones, or o->v
 * says that the work request has failed.
 */
static bool hand(struct rd_ctx *d, struct rd_pair *p, struct handed *o)
{
	struct rn_slist *spare = &rd_side_of(p->qp)->spare;
	struct rd_send *x;

	if (!qp_takes(&p->k->m) || (x = rn_slist_pop(&p->k->sends, struct rd_send, link)) == NULL)
		return false;
	p->k->qkey = x->qkey;
	o->v = qp_hand(d->qp, &p->k->m, &x->s, x->why);
	o->room |= rn_slist_empty(spare);
	rn_slist_push_back(spare, &x->link);
	return o->v != QP_PULL_FAILED;
}

/* Whether the engine may have a segment of the pair, or a work request waits for the engine. */
static bool any_segment(const struct rd_work *k)
{
	return k->m.src != QP_SRC_NONE || k->work.send.loaded || k->work.resp_head != k->work.resp_tail ||
	       !rn_slist_empty(&k->sends);
}

/*
 * Writes the engine's next segment to `at`, behind the header. Returns its length; 0: there is none now; *gone: there
 * is none because the pair has ended. h gets the segment's flags and Q_Key (or MSN of the request).
 */
static uint32_t out_segment(struct rd_ctx *d, struct rd_pair *p, uint8_t *at, struct rd_hdr *h, bool *gone)
{
	const uint32_t max = p->k->map != 0 ? RD_SEG_MAX - RD_MORE_LEN : RD_SEG_MAX;
	const bool first = p->k->m.src == QP_SRC_NONE;
	struct qp *qp = p->qp;
	struct rn_iov iov[QP_SEG_SLICES];
	uint8_t inl[QP_MAX_INLINE], head[QP_SEG_HDR_MAX];
	struct qp_seg seg = { .hdr = head, .inl = inl, .iov = iov };
	struct handed o = { .v = QP_PULL_NONE };
	uint32_t len;

	if (first) /* not in the middle of a message: hand() sets p->k->qkey, which the message still needs */
		(void)hand(d, p, &o);
	do {
		if (o.v != QP_PULL_FAILED)
			o.v = qp_peek(d->qp, &p->k->m, max, &len);
	} while (o.v == QP_PULL_NONE && hand(d, p, &o)); /* look again: a request without segments may be done */
	h->qkey = o.v == QP_PULL_OK && p->k->m.src == QP_SRC_RESP ? qp_asked(&p->k->m) : p->k->qkey;
	if (o.v == QP_PULL_OK)
		o.v = qp_pull(d->qp, &p->k->m, max, &seg);
	if (p->loose)
		h->flags = (uint8_t)(RD_F_LOOSE | (first ? RD_F_FIRST : 0) |
				     (p->k->m.src == QP_SRC_NONE ? RD_F_LAST : 0));
	*gone = o.v == QP_PULL_FAILED;
	if (*gone)
		rd_fail(d, p, NULL, 0);
	else if (o.room)
		rd_route(d, qp);
	*gone |= p->state != RD_UP;
	if (*gone || o.v != QP_PULL_OK)
		return 0;
	memcpy(at, head, seg.hdr_len);
	rn_iov_gather(iov, seg.n, at + seg.hdr_len, seg.len);
	*rd_wr_of(p->k, p->sent) = seg.wr;
	return seg.hdr_len + seg.len;
}

bool rd_more(struct rd_ctx *d, struct rd_pair *p)
{
	if (p->state == RD_FREE || p->state == RD_GONE)
		return false;
	if (p->state == RD_ENDED || p->qp->state == QP_S_ERR)
		return true;
	if (p->rests)
		return false;
	if (p->owes || (rd_may_send(p) && any_segment(p->k)))
		return true;
	rd_rest(d, p);
	return false;
}

uint32_t rd_out(struct rd_ctx *d, struct rd_pair *p, uint8_t *buf)
{
	uint32_t len = 0;
	bool gone = false;

	if (p->state == RD_FREE || p->state == RD_GONE)
		return 0;
	if (p->state == RD_ENDED)
		return out_refused(d, p, buf);
	if (p->qp->state == QP_S_ERR) {
		rd_qp_error(d, p->qp);
		return 0;
	}
	if (p->rests)
		return 0;
	p->k->used = d->qp->now;
	struct rd_hdr h = { .flags = 0 }; /* out_segment() sets flags and qkey */
	const uint32_t at = RD_HDR_LEN + (p->k->map != 0 ? RD_MORE_LEN : 0);
	if (rd_may_send(p) && any_segment(p->k))
		len = out_segment(d, p, buf + at, &h, &gone);
	if (gone)
		return 0;
	if (len == 0 && !p->owes) {
		rd_rest(d, p);
		return 0;
	}
	const uint8_t flags = h.flags;
	const uint32_t qkey = h.qkey;
	h = hdr_of(p, len > 0 ? RD_SEGMENT : RD_TAKEN);
	if (len > 0) {
		h.flags = flags;
		h.qkey = qkey;
		h.rnr = p->qp->rnr_told;
		h.number = p->sent++;
		rd_arm_probe(d);
		d->stats.segs_out++;
	}
	rd_ask_room(d, p, &h);
	return rd_build(buf, &h) + len;
}
