/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: packets to send. */
#include <string.h>

#include "dgram/rd_int.h"

uint32_t rd_term(uint8_t term[RDMAP_TERM_MAX_LEN], struct iw_err e, const uint8_t *seg, uint32_t len)
{
	uint8_t head[DDP_MAX_HDR_LEN + RDMAP_READ_REQ_LEN] = { 0 };

	if (len > 0)
		memcpy(head, seg, rn_min_u32(len, sizeof(head)));
	return rdmap_term_build(term, e, len > 0 ? head : NULL, len);
}

void rd_fail(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len)
{
	struct qp *qp = p->qp;

	d->stats.refused++;
	p->k->term_len = rd_term(p->k->term, p->k->m.err, seg, len);
	rd_end(d, p, RD_END_FAIL, true);
	rd_route(d, qp);
}

static struct rd_hdr hdr_of(struct rd_pair *p, enum rd_kind kind)
{
	p->owes = false;
	return (struct rd_hdr){ .kind = (uint8_t)kind,
				.flags = kind != RD_REFUSED ? RD_F_PACKS : 0,
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

/* What filling a packet has led to. */
struct filled {
	uint8_t *body;
	uint32_t max, len;   /* octets of the body: at most, and so far */
	uint32_t n;          /* segments */
	bool parts;          /* the octets of struct rd_part are before each segment */
	struct rd_part part; /* of the last segment */
	enum qp_pull v;      /* FAILED: the message that is next has failed, and so has the pair */
	bool room;           /* rd_send elements were all in use, so a work request may wait in the queue for one */
};

/*
 * Gives the engine the pair's next work request. False: there is none, the engine is busy with earlier ones, or f->v
 * says that the work request has failed.
 */
static bool hand(struct rd_ctx *d, struct rd_pair *p, struct filled *f)
{
	struct rn_slist *spare = &rd_side_of(p->qp)->spare;
	struct rd_send *x;

	if (!qp_takes(&p->k->m) || (x = rn_slist_pop(&p->k->sends, struct rd_send, link)) == NULL)
		return false;
	p->k->qkey = x->qkey;
	f->v = qp_hand(d->qp, &p->k->m, &x->s, x->why);
	f->room |= rn_slist_empty(spare);
	rn_slist_push_back(spare, &x->link);
	return f->v != QP_PULL_FAILED;
}

/* Whether the engine may have a segment of the pair, or a work request waits for the engine. */
static bool any_segment(const struct rd_work *k)
{
	return k->m.src != QP_SRC_NONE || k->work.send.loaded || k->work.resp_head != k->work.resp_tail ||
	       !rn_slist_empty(&k->sends);
}

/* Length of the engine's next segment, without the rd_part before it; 0: there is none now, f->v says why. */
static uint32_t next_len(struct rd_ctx *d, struct rd_pair *p, struct filled *f)
{
	uint32_t len = 0;

	f->v = QP_PULL_NONE;
	if (!p->k->inside) /* not in the middle of a message: hand() sets p->k->qkey, which the message still needs */
		(void)hand(d, p, f);
	do {
		if (f->v != QP_PULL_FAILED)
			f->v = qp_peek(d->qp, &p->k->m, f->max, &len);
	} while (f->v == QP_PULL_NONE && hand(d, p, f)); /* look again: a request without segments may be done */
	return f->v == QP_PULL_OK ? len : 0;
}

/* Writes the engine's next segment, of which next_len() has told. False: there is none, f->v says why. */
static bool put_segment(struct rd_ctx *d, struct rd_pair *p, struct filled *f)
{
	uint8_t inl[QP_MAX_INLINE], head[QP_SEG_HDR_MAX], *at = f->body + f->len;
	struct rd_work *k = p->k;
	const bool first = !k->inside;
	struct rn_iov iov[QP_SEG_SLICES];
	struct qp_seg seg = { .hdr = head, .inl = inl, .iov = iov };
	const uint32_t qkey = k->m.src == QP_SRC_RESP ? qp_asked(&k->m) : k->qkey;

	f->v = qp_pull(d->qp, &k->m, f->max, &seg);
	k->inside = k->m.src != QP_SRC_NONE;
	if (f->v != QP_PULL_OK)
		return false;
	f->part.qkey = qkey;
	f->part.rnr = p->qp->rnr_told;
	f->part.flags = p->loose ? (uint8_t)((first ? RD_F_FIRST : 0) | (k->inside ? 0 : RD_F_LAST)) : 0;
	f->part.len = seg.hdr_len + seg.len;
	if (f->parts) {
		rd_part_build(at, &f->part);
		at += RD_PART_LEN;
		f->len += RD_PART_LEN;
	}
	memcpy(at, head, seg.hdr_len);
	rn_iov_gather(iov, seg.n, at + seg.hdr_len, seg.len);
	f->len += f->part.len;
	f->n++;
	*rd_wr_of(k, p->sent++) = seg.wr;
	return true;
}

/*
 * Writes the segments of one packet: those that are there now and fit, if the peer takes SEGMENTS, else one. No message
 * is cut because little room is left.
 */
static void fill(struct rd_ctx *d, struct rd_pair *p, struct filled *f)
{
	uint32_t len;

	while (f->n < RD_PARTS && rd_may_send(p) && any_segment(p->k) && (len = next_len(d, p, f)) > 0) {
		if (f->n == 0)
			f->parts = p->packs && len + 2 * RD_PART_LEN + DDP_TAGGED_HDR_LEN <= f->max;
		else if (RD_PART_LEN + len > f->max - f->len)
			return;
		if (!put_segment(d, p, f) || !f->parts)
			return;
	}
}

/* The header of the packet with the segments that were written, of which the first has this number. */
static struct rd_hdr segments_hdr(struct rd_pair *p, struct filled *f, uint32_t number)
{
	struct rd_hdr h = hdr_of(p, f->n > 1 ? RD_SEGMENTS : RD_SEGMENT);

	h.number = number;
	h.flags |= p->loose ? RD_F_LOOSE : 0;
	h.qkey = 0;
	if (f->n > 1)
		return h;
	h.flags |= f->part.flags;
	h.qkey = f->part.qkey;
	h.rnr = f->part.rnr;
	if (f->parts) /* the segment has remained alone */
		memmove(f->body, f->body + RD_PART_LEN, f->len -= RD_PART_LEN);
	return h;
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

/* Ends the pair because the source of a Read has gone before the answer was sent. The Terminate names the request. */
static void fail_answer(struct rd_ctx *d, struct rd_pair *p)
{
	const struct qp_resp *of = qp_resp_oldest(&p->k->m);
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, of->msn, 0);
	uint8_t seg[DDP_UNTAGGED_HDR_LEN + RDMAP_READ_REQ_LEN];

	rdmap_read_req_build(seg + ddp_build(seg, &h), &of->r);
	p->k->m.err.hdrct = IW_HDRCT_LEN | IW_HDRCT_DDP | IW_HDRCT_RDMAP;
	rd_fail(d, p, seg, sizeof(seg));
}

/* Ends the pair of which a message has failed, or gives work requests to pairs if there is room for them now. */
static void after_fill(struct rd_ctx *d, struct rd_pair *p, const struct filled *f)
{
	if (f->v == QP_PULL_FAILED && p->k->m.src == QP_SRC_RESP)
		fail_answer(d, p);
	else if (f->v == QP_PULL_FAILED)
		rd_fail(d, p, NULL, 0);
	else if (f->room)
		rd_route(d, p->qp);
}

/* Writes a packet without segments, if one is due. f: the engine has no segment now. */
static uint32_t out_taken(struct rd_ctx *d, struct rd_pair *p, uint8_t *buf, const struct filled *f)
{
	after_fill(d, p, f);
	if (f->v == QP_PULL_FAILED || p->state != RD_UP)
		return 0;
	if (!p->owes) {
		rd_rest(d, p);
		return 0;
	}
	struct rd_hdr h = hdr_of(p, RD_TAKEN);
	rd_ask_room(d, p, &h);
	return rd_build(buf, &h);
}

uint32_t rd_out(struct rd_ctx *d, struct rd_pair *p, uint8_t *buf)
{
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
	const uint32_t more = p->k->map != 0 ? RD_MORE_LEN : 0, number = p->sent;
	struct filled f = { .body = buf + RD_HDR_LEN + more, .max = RD_SEG_MAX - more, .v = QP_PULL_NONE };
	fill(d, p, &f);
	if (f.n == 0)
		return out_taken(d, p, buf, &f);
	struct rd_hdr h = segments_hdr(p, &f, number);
	d->stats.segs_out += f.n;
	d->stats.packs_out += f.n > 1;
	rd_arm_probe(d);
	rd_ask_room(d, p, &h);
	const uint32_t len = rd_build(buf, &h) + f.len;
	if (rn_unlikely(f.v == QP_PULL_FAILED))
		rd_put(d, p); /* the caller still has the pair: its place must not be used for another one yet */
	after_fill(d, p, &f);
	return len;
}
