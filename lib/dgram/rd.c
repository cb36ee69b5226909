/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: the header, work requests on their way to pairs, verbs, time, and the end of a flow. */
#include <string.h>

#include "base/rn_be.h"
#include "base/rn_seq.h"
#include "dgram/rd_int.h"

/* ---- the header ---- */

bool rd_part_parse(const uint8_t *p, uint32_t len, uint32_t at, struct rd_part *part)
{
	if (len - at < RD_PART_LEN)
		return false;
	*part = (struct rd_part){ .len = rn_load_be16(p + at),
				  .flags = p[at + 2] & (RD_F_FIRST | RD_F_LAST),
				  .rnr = p[at + 3],
				  .qkey = rn_load_be32(p + at + 4),
				  .at = at + RD_PART_LEN };
	return part->len > 0 && part->len <= len - part->at;
}

void rd_part_build(uint8_t *p, const struct rd_part *part)
{
	rn_store_be32(p, part->len << 16 | (uint32_t)part->flags << 8 | part->rnr);
	rn_store_be32(p + 4, part->qkey);
}

/* Whether the octets from `at` on are 1 to RD_PARTS parts, and nothing else. */
static bool parts_good(const uint8_t *p, uint32_t len, uint32_t at)
{
	struct rd_part part;
	uint32_t n = 0;

	for (; at < len && n < RD_PARTS; n++, at = part.at + part.len)
		if (!rd_part_parse(p, len, at, &part))
			return false;
	return n > 0 && at == len;
}

bool rd_parse(const uint8_t *p, uint32_t len, struct rd_hdr *h)
{
	if (len < RD_HDR_LEN)
		return false;
	*h = (struct rd_hdr){ .kind = p[0],
			      .flags = p[1],
			      .rnr = p[2],
			      .room = p[3],
			      .dst_qpn = rn_load_be32(p + 4),
			      .src_qpn = rn_load_be32(p + 8),
			      .qkey = rn_load_be32(p + 12),
			      .run = rn_load_be32(p + 16),
			      .peer_run = rn_load_be32(p + 20),
			      .number = rn_load_be32(p + 24),
			      .taken = rn_load_be32(p + 28),
			      .body = RD_HDR_LEN };
	if (h->flags & RD_F_MORE) {
		h->body += RD_MORE_LEN;
		if (len < h->body)
			return false;
		h->more = rn_load_be64(p + RD_HDR_LEN);
	}
	return h->kind >= RD_SEGMENT && h->kind <= RD_SEGMENTS && h->dst_qpn <= RD_QPN_MAX &&
	       h->src_qpn <= RD_QPN_MAX && (h->run != 0 || h->kind == RD_REFUSED) && len <= RD_PACKET_MAX &&
	       (h->kind != RD_SEGMENTS || parts_good(p, len, h->body));
}

uint32_t rd_build(uint8_t *p, const struct rd_hdr *h)
{
	const uint8_t flags = (uint8_t)((h->flags & ~RD_F_MORE) | (h->more != 0 ? RD_F_MORE : 0));

	rn_store_be32(p, (uint32_t)h->kind << 24 | (uint32_t)flags << 16 | (uint32_t)h->rnr << 8 | h->room);
	rn_store_be32(p + 4, h->dst_qpn);
	rn_store_be32(p + 8, h->src_qpn);
	rn_store_be32(p + 12, h->qkey);
	rn_store_be32(p + 16, h->run);
	rn_store_be32(p + 20, h->peer_run);
	rn_store_be32(p + 24, h->number);
	rn_store_be32(p + 28, h->taken);
	if (h->more == 0)
		return RD_HDR_LEN;
	rn_store_be64(p + RD_HDR_LEN, h->more);
	return RD_HDR_LEN + RD_MORE_LEN;
}

enum qp_verdict rd_attach(struct qp *qp, struct rd_side *side, struct rd_manner manner)
{
	if (!qp->many)
		return QP_BAD_ATTR;
	memset(side, 0, sizeof(*side));
	side->qp = qp;
	side->loose = manner.loose;
	side->strict = manner.strict;
	for (uint32_t i = 0; i < RD_SENDS; i++)
		rn_slist_push_back(&side->spare, &side->send[i].link);
	qp->beside = side;
	qp->sparing = true; /* completions tell of errors: a peer's fault raises no event of the QP */
	return QP_OK;
}

/* ---- which pair takes the next work request ---- */

/* Reads the work request at the queue's head and its destination. False: its length or destination is impossible. */
static bool head_dest(struct qp *qp, struct qp_wqe_dest *to, struct qp_wqe *w)
{
	const uint32_t at = qp->sq_taken;

	memcpy(w, spsc_cons_slot(&qp->sq, at), sizeof(*w));
	if (w->slots < 2 || w->slots > QP_WQE_MAX_SLOTS || spsc_cons_avail(&qp->sq, at + w->slots) < at + w->slots)
		return false;
	memcpy(to, spsc_cons_slot(&qp->sq, at + w->slots - 1), sizeof(*to));
	return to->qpn <= RD_QPN_MAX;
}

/* The QP goes to ERR: all work of all pairs completes, and the peers are told. May be called again. */
void rd_qp_error(struct rd_ctx *d, struct qp *qp)
{
	struct rd_pair *p;

	qp_set_state(qp, QP_S_ERR);
	while ((p = rd_at(d, rd_side_of(qp)->pairs.first)) != NULL)
		rd_end(d, p, RD_END_FAIL, true);
	qp_enter_error(d->qp, qp);
}

/* Fails the work request alone, because there is no free pair for its peer. */
static void no_place(struct rd_ctx *d, struct qp *qp, const struct qp_wqe *w)
{
	const struct qp_wr wr = {
		.wr_id = w->wr_id, .op = w->op < QP_WR_OPS ? w->op : QP_WR_SEND, .flags = w->flags, .slots = w->slots
	};

	qp->sq_taken += w->slots;
	rd_side_of(qp)->failed = true;
	qp_send_cqe(d->qp, qp, &wr, QP_WC_RETRY_EXC_ERR);
}

enum next {
	NEXT_OK,
	NEXT_BAD,  /* the work request is malformed, so the QP cannot go on */
	NEXT_LATER /* the work request stays in the queue: for its fence, or for want of working memory for its pair */
};

/* Gives the next work request to its pair. */
static enum next route_next(struct rd_ctx *d, struct qp *qp)
{
	const uint64_t bad = d->qp->stats.bad_wqes;
	struct rd_side *side = rd_side_of(qp);
	struct qp_wqe_dest to;
	struct qp_wqe w;

	if (rn_unlikely(!head_dest(qp, &to, &w)))
		return NEXT_BAD;
	if (rn_unlikely((w.flags & QP_WF_FENCE) && qp->reads_open > 0)) { /* of any peer */
		side->fenced = true;
		return NEXT_LATER;
	}
	struct rd_pair *p = rd_find(d, qp, to.addr, to.qpn);
	if (p == NULL)
		p = rd_make(d, qp, to.addr, to.qpn);
	if (p == NULL) {
		no_place(d, qp, &w);
		return NEXT_OK;
	}
	if (rn_unlikely(!rd_wake_to_send(d, p))) {
		d->stats.no_work++;
		rd_again(d, qp);
		return NEXT_LATER;
	}
	struct rd_send *x = rn_slist_pop(&side->spare, struct rd_send, link);
	enum qp_take t = qp_sq_take(d->qp, &p->k->m, &x->s, &x->why);
	x->qkey = to.qkey & QP_QKEY_OWN ? qp->qkey : to.qkey;
	if (rn_unlikely(t == QP_TAKE_NONE || t == QP_TAKE_BAD_RING)) {
		rn_slist_push_back(&side->spare, &x->link);
		rd_put(d, p); /* the pair may rest again */
		return NEXT_BAD;
	}
	rn_slist_push_back(&p->k->sends, &x->link);
	rd_put(d, p);
	return d->qp->stats.bad_wqes == bad ? NEXT_OK : NEXT_BAD;
}

/* Whether a work request has failed on a QP that goes to ERR then (RNICDV_QP_STRICT). */
static bool stops(const struct qp *qp)
{
	return rn_unlikely(rd_side_of(qp)->failed) && rd_side_of(qp)->strict &&
	       (qp->state == QP_S_RTS || qp->state == QP_S_SQD);
}

void rd_route(struct rd_ctx *d, struct qp *qp)
{
	struct rd_side *side = rd_side_of(qp);
	enum next next = NEXT_OK;

	side->fenced = false;
	while (next != NEXT_LATER && qp->state == QP_S_RTS && !stops(qp) && !rn_slist_empty(&side->spare)) {
		bool any = spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken;

		if (!any && rn_likely(qp->sq.verdict == SPSC_OK))
			break;
		next = any ? route_next(d, qp) : NEXT_BAD;
		if (rn_likely(next != NEXT_BAD))
			continue;
		d->qp->stats.bad_wqes++;
		qp_event(d->qp, qp, QP_EVENT_FATAL, 0);
		rd_qp_error(d, qp);
	}
	if (stops(qp) || rn_unlikely(qp->state == QP_S_ERR)) /* ERR: a full CQ has ended the QP */
		rd_qp_error(d, qp);
	if (rn_unlikely(qp->state == QP_S_SQD))
		qp_look_drained(d->qp, qp);
}

void rd_settle(struct rd_ctx *d, struct qp *qp)
{
	if ((rn_unlikely(rd_side_of(qp)->fenced) && qp->reads_open == 0) || rn_unlikely(qp->state == QP_S_SQD))
		rd_route(d, qp);
}

/* ---- verbs, time, the end of a flow ---- */

/*
 * Moves the first of the pairs that wait for a receive to the end of their list, and takes the pair's kept segments if
 * there is a receive now.
 */
static void look_first(struct rd_ctx *d)
{
	struct rd_work *k = rn_list_pop(&d->waits, struct rd_work, of_waits);
	struct rd_pair *p = k->pair;
	struct qp *qp = p->qp;

	rn_list_push_back(&d->waits, &k->of_waits);
	if (qp_rq_any(qp) && rd_take_held(d, p))
		rd_put(d, p);
	rd_settle(d, qp);
}

void rd_doorbell(struct rd_ctx *d, struct qp *qp)
{
	if (rn_unlikely(qp->state == QP_S_ERR)) {
		rd_qp_error(d, qp);
		return;
	}
	if (rd_side_of(qp)->waiting > 0)
		rd_recvs(d);
	if (qp->state != QP_S_ERR) {
		qp->rung = true;
		rd_route(d, qp);
	}
}

void rd_recvs(struct rd_ctx *d) { d->looks = d->n_waits; }

/* Whether the pair has waited for the same segment of the peer since k->gap_at, not counting waits for a receive. */
static bool has_gap(const struct rd_work *k)
{
	return !k->waits && (k->holds > 0 || k->map != 0) && k->gap == k->pair->next;
}

/* Whether the missing segment cannot come any more. An honest peer has said so long ago. */
static bool gap_stays(const struct rd_ctx *d, const struct rd_work *k)
{
	return has_gap(k) && d->qp->now - k->gap_at >= 2 * RD_SURE_NS;
}

/* The pair has waited for a receive for too long. */
static void wait_ends(struct rd_ctx *d, struct rd_work *k)
{
	const struct rd_hold *x = *rd_held(k, k->wait_number);

	d->qp->stats.rnr_timeouts++;
	d->stats.rnr_ends++;
	k->m.err = iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER, false);
	rd_fail(d, k->pair, x->seg, x->len);
}

bool rd_look(struct rd_ctx *d)
{
	struct rn_timer *end = rn_wheel_pop(&d->ends, d->qp->now);
	if (end != NULL) {
		wait_ends(d, rn_container_of(end, struct rd_work, wait_end));
		return true;
	}
	struct rd_work *k = rn_list_pop(&d->due, struct rd_work, of_due);
	if (k != NULL) {
		struct rd_pair *p = k->pair;
		struct qp *of = p->qp;
		if (rn_unlikely(gap_stays(d, k)))
			rd_impossible(d, p, NULL, 0);
		else if (rd_take_held(d, p))
			rd_put(d, p);
		rd_settle(d, of);
		return true;
	}
	struct qp *qp = rd_take_again(d);
	if (qp != NULL) {
		rd_route(d, qp);
		return true;
	}
	if (d->looks == 0 || d->n_waits == 0) {
		d->looks = 0;
		return false;
	}
	d->looks--;
	look_first(d);
	return true;
}

/* Removes all pairs of the QP, without completions. */
static void abandon(struct rd_ctx *d, struct qp *qp)
{
	struct rd_pair *p;

	while ((p = rd_at(d, rd_side_of(qp)->pairs.first)) != NULL)
		rd_end(d, p, RD_END_ABANDON, true);
}

/* Counts the pairs whose work requests SQD waits for: none begins from now on. */
static void begin_sqd(struct rd_ctx *d, struct qp *qp)
{
	struct rd_side *side = rd_side_of(qp);

	side->draining = 0;
	for (struct rd_pair *p = rd_at(d, side->pairs.first); p != NULL; p = rd_at(d, p->in[RD_IN_QP].next)) {
		struct rd_work *k = rd_work_of(p);

		if (k == NULL)
			continue;
		k->drains = k->work.wr_head != k->work.wr_tail;
		side->draining += k->drains;
	}
	qp->midway = side->draining > 0;
}

/* Pairs with work that was taken, and could not begin in SQD, send it now. */
static void put_pairs(struct rd_ctx *d, const struct qp *qp)
{
	for (struct rd_pair *p = rd_at(d, rd_side_of(qp)->pairs.first); p != NULL; p = rd_at(d, p->in[RD_IN_QP].next))
		rd_put(d, p);
}

enum qp_verdict rd_modify(struct rd_ctx *d, struct qp *qp, enum qp_state to)
{
	if (to == QP_S_RESET) {
		abandon(d, qp);
		rd_side_of(qp)->failed = false;
	}
	if (to == QP_S_ERR)
		rd_qp_error(d, qp);
	if (to == QP_S_SQD)
		begin_sqd(d, qp);
	enum qp_verdict v = qp_step(d->qp, qp, to);
	if (v == QP_OK && to == QP_S_RTS)
		put_pairs(d, qp);
	if (v == QP_OK && (to == QP_S_RTR || to == QP_S_RTS))
		rd_doorbell(d, qp);
	return v;
}

void rd_destroy(struct rd_ctx *d, struct qp *qp)
{
	abandon(d, qp);
	rd_again_over(d, qp);
	qp_forget(d->qp, qp);
}

void rd_lost(struct rd_ctx *d, const uint8_t addr[RD_ADDR_LEN])
{
	for (struct rd_pair *p = rd_at(d, rd_addr_list(d, addr)->first), *next; p != NULL; p = next) {
		next = rd_at(d, p->in[RD_IN_ADDR].next);
		if (memcmp(p->addr, addr, RD_ADDR_LEN) != 0)
			continue;
		if (p->state == RD_ENDED) {
			rd_give_back(d, p);
			continue;
		}
		rd_again(d, p->qp); /* rd_route() now might end the pair that comes next in this loop */
		rd_end(d, p, RD_END_FAIL, false);
	}
}

uint32_t rd_next_run(struct rd_ctx *d, uint32_t qpn)
{
	const uint32_t clock = d->run + (uint32_t)(d->qp->now / RD_RUN_NS);
	uint32_t *last = &d->last_run[qpn % RD_RUNS];

	*last = *last == 0 ? clock : rn_seq_max(clock, *last + 1);
	*last += *last == 0; /* 0 is no run number */
	return *last;
}

uint64_t rd_timer(const struct rd_ctx *d)
{
	const uint64_t tick = rn_min_u64(d->probe_at, d->hurry_at);

	return rd_any_again(d) || !rn_list_empty(&d->due) ? 0 : rn_min_u64(tick, rn_wheel_next(&d->ends));
}

/* For how long the worker stood still since the last call, ns. */
static uint64_t stood_still(struct rd_ctx *d)
{
	const uint64_t stood = d->stood != NULL ? *d->stood : 0, ns = stood - d->stood_seen;

	d->stood_seen = stood;
	return ns;
}

void rd_arm_probe(struct rd_ctx *d)
{
	if (d->probe_at != RN_NEVER)
		return;
	d->probe_at = d->qp->now + RD_PROBE_NS;
	(void)stood_still(d);
}

/* Packets are on the way for longer by the time in which the worker stood still; no time lies ahead of now. */
static void allow(struct rd_work *k, uint64_t stood, uint64_t now)
{
	k->used = rn_min_u64(k->used + stood, now);
	k->mark_at = rn_min_u64(k->mark_at + stood, now);
	k->gap_at = rn_min_u64(k->gap_at + stood, now);
}

static void note_sure(struct rd_work *k, uint64_t now)
{
	if (now - k->mark_at < RD_SURE_NS)
		return;
	k->sure = k->mark;
	k->mark = k->pair->sent;
	k->mark_at = now;
}

/* Notes since when the pair waits for a segment; if for too long, rd_look() ends the pair. */
static void note_gap(struct rd_ctx *d, struct rd_work *k)
{
	if (!has_gap(k)) {
		k->gap = k->pair->next;
		k->gap_at = d->qp->now;
	} else if (gap_stays(d, k) && !rn_link_linked(&k->of_due)) {
		rn_list_push_back(&d->due, &k->of_due);
	}
}

/* Asks silent peers whether they still know their pairs: the REFUSED that told of a pair's end may have been lost. */
static void probe(struct rd_ctx *d)
{
	if (d->probe_at > d->qp->now)
		return;
	const uint64_t stood = stood_still(d);
	rn_list_each(struct rd_work, k, &d->busy, of_busy) {
		allow(k, stood, d->qp->now);
		note_sure(k, d->qp->now);
		note_gap(d, k);
		if (!rd_gives_back(d, k->pair) &&
		    d->qp->now - k->used < (k->pair->peer_run != 0 ? RD_PROBE_NS : RD_SURE_NS))
			continue;
		k->pair->owes = true;
		rd_put(d, k->pair);
	}
	d->probe_at = rn_list_empty(&d->busy) ? RN_NEVER : d->qp->now + RD_PROBE_NS;
}

void rd_tick(struct rd_ctx *d)
{
	probe(d);
	rd_tick_widened(d);
}
