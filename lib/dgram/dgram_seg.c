/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of many segments. The first segment of a message to arrive, whichever it is, takes a receive. Each segment
 * is placed in the receive when it arrives, and the receive completes when no segment is missing. A message that gets
 * no new segment for d->timeout ends incomplete: it is counted and has no completion, and a later message uses its
 * receive.
 */
#include "dgram/dgram.h"

#include "base/rn_be.h"

void dgram_msgs_init(struct dgram_msgs *g, struct qp *qp, uint32_t unit, uint32_t group_unit, uint32_t msn)
{
	memset(g, 0, sizeof(*g));
	g->qp = qp;
	g->unit = unit;
	g->group_unit = group_unit;
	qp->beside = g;
	qp->msn = msn;
}

/* ---- receives whose message has ended incomplete ---- */

_Static_assert(DGRAM_OPEN <= 32, "struct dgram_msgs has a bit for each message");

static bool is_spare(const struct dgram_msgs *g, uint32_t place)
{
	return !(g->track.msg[place].open && g->track.msg[place].holds);
}

static void put_recv(struct dgram_msgs *g, uint32_t place, const struct qp_recv *r)
{
	g->recv[place] = *r;
	g->taken |= UINT32_C(1) << place;
}

static void drop_recv(struct dgram_msgs *g, uint32_t place) { g->taken &= ~(UINT32_C(1) << place); }

/* Takes a receive that an incomplete message has left: the first one from `place` on, in a circle. False: none. */
static RN_COLD bool spare_take(struct dgram_msgs *g, uint32_t place, struct qp_recv *r)
{
	for (uint32_t i = 0; i < DGRAM_OPEN; i++) {
		const uint32_t at = (place + i) % DGRAM_OPEN;

		if ((g->taken >> at & 1) == 0 || !is_spare(g, at))
			continue;
		*r = g->recv[at];
		drop_recv(g, at);
		return true;
	}
	return false;
}

enum qp_take dgram_recv_take(struct dgram_ctx *d, struct qp *qp, uint32_t place, struct qp_recv *r)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);

	if (g != NULL && rn_unlikely(g->taken != 0) && spare_take(g, place, r))
		return QP_TAKE_OK;
	return qp_rq_take(d->qp, qp, r);
}

/* ---- the end of a message ---- */

/* A receive that the message held stays at the message's place. */
void dgram_msg_end(struct dgram_ctx *d, struct dgram_msgs *g, struct dgram_msg *m)
{
	rn_list_remove(&d->open, &m->link);
	dgram_track_end(&g->track, m, &m->key, d->qp->now);
}

/*
 * Ends a message whose time is over, or which must make room. False: the message is a record and stays open, because
 * the CQ, or the ring of maps, has no room to report it; d->timeout begins anew.
 */
static bool end_incomplete(struct dgram_ctx *d, struct dgram_msgs *g, struct dgram_msg *m)
{
	if (m->record && !dgram_record_tell(d, g->qp, m)) {
		m->at = d->qp->now;
		rn_list_remove(&d->open, &m->link);
		rn_list_push_back(&d->open, &m->link);
		return false;
	}
	d->qp->stats.ud_incomplete += m->valid < m->total;
	dgram_msg_end(d, g, m);
	return true;
}

void dgram_msgs_drop(struct dgram_ctx *d, struct dgram_msgs *g, bool told)
{
	for (uint32_t i = 0; i < DGRAM_OPEN; i++) {
		if (g->track.msg[i].open)
			dgram_msg_end(d, g, &g->track.msg[i]);
		if ((g->taken >> i & 1) != 0 && told)
			qp_flush_recv(d->qp, g->qp, &g->recv[i]);
		drop_recv(g, i);
	}
	if (g->qp->midway && !g->answering && told)
		qp_flush_send(d->qp, g->qp, &g->send);
	g->qp->midway = g->answering = false;
	g->answer_head = g->answer_tail;
}

/* ---- time ---- */

static struct dgram_msgs *msgs_of(struct dgram_msg *m)
{
	struct dgram_track *t = rn_container_of(m - m->place, struct dgram_track, msg[0]);

	return rn_container_of(t, struct dgram_msgs, track);
}

const struct qp *dgram_msg_qp(const struct dgram_msg *m, uint32_t *qpn)
{
	const struct dgram_track *t = rn_container_of(m - m->place, const struct dgram_track, msg[0]);
	const struct qp *qp = rn_container_of(t, const struct dgram_msgs, track)->qp;

	*qpn = qp->qpn;
	return qp;
}

uint64_t dgram_due(const struct dgram_ctx *d)
{
	const struct dgram_msg *m = rn_list_first(&d->open, struct dgram_msg, link);

	return m != NULL ? m->at + d->timeout : RN_NEVER;
}

bool dgram_timer(struct dgram_ctx *d)
{
	struct dgram_msg *m = rn_list_first(&d->open, struct dgram_msg, link);

	if (rn_likely(m == NULL) || d->qp->now < m->at + d->timeout)
		return false;
	struct dgram_msgs *g = msgs_of(m);
	(void)end_incomplete(d, g, m);
	if (rn_unlikely(g->qp->state == QP_S_ERR)) /* a full CQ has ended the QP */
		dgram_fail(d, g->qp);
	return true;
}

/* ---- segments ---- */

struct dgram_msg *dgram_msg_begin(struct dgram_ctx *d, struct dgram_msgs *g, const struct udpl_hdr *h,
				  const struct dgram_key *k)
{
	if (dgram_track_over(&g->track, k, d->qp->now, d->linger)) {
		d->qp->stats.ud_again++;
		return NULL;
	}
	struct dgram_msg *m = dgram_track_crowded(&g->track, k);
	m = m != NULL && !end_incomplete(d, g, m) ? NULL : dgram_track_open(&g->track, k, h->unit, h->total);
	if (m == NULL) {
		d->qp->stats.ud_full++;
		return NULL;
	}
	m->at = d->qp->now;
	rn_list_push_back(&d->open, &m->link);
	return m;
}

void dgram_msg_placed(struct dgram_ctx *d, struct dgram_msg *m, uint32_t off, uint32_t len)
{
	dgram_msg_mark(m, off, len);
	d->qp->stats.ud_in++;
	d->qp->stats.bytes_placed += len;
	m->at = d->qp->now;
	rn_list_remove(&d->open, &m->link);
	rn_list_push_back(&d->open, &m->link);
}

static enum qp_wc_status place_grh(struct dgram_ctx *d, struct qp *qp, const struct qp_recv *r,
				   const struct dgram_rx *rx)
{
	uint8_t grh[DGRAM_GRH_LEN];
	const struct rn_iov src = { .base = grh, .len = sizeof(grh) };
	const struct ddp_hdr at = { .mo = 0 };

	if (r->len < DGRAM_GRH_LEN || r->len - DGRAM_GRH_LEN < rx->h->total)
		return QP_WC_LOC_LEN_ERR;
	dgram_put_grh(grh, rx);
	return qp_mr_status(qp_rq_place(d->qp, qp, r, &at, &src, 1));
}

/* Takes a receive for the message and writes its GRH. False: there is none; the segment is dropped and counted. */
static bool give_recv(struct dgram_ctx *d, struct qp *qp, struct dgram_msg *m, const struct dgram_rx *rx)
{
	struct qp_recv r;

	switch (dgram_recv_take(d, qp, m->place, &r)) {
	case QP_TAKE_OK: break;
	case QP_TAKE_BAD:
		qp_recv_cqe(d->qp, qp, &r, &(struct qp_cqe){ .status = QP_WC_LOC_QP_OP_ERR }, NULL);
		dgram_fail(d, qp);
		return false;
	case QP_TAKE_BAD_RING: dgram_ring_broken(d, qp); return false;
	case QP_TAKE_NONE:
		d->qp->stats.ud_no_recv++;
		dgram_msg_end(d, dgram_msgs_of(qp), m);
		return false;
	}
	const enum qp_wc_status status = place_grh(d, qp, &r, rx);
	if (rn_likely(status == QP_WC_SUCCESS)) {
		qp_rq_keep(d->qp, qp, &r);
		put_recv(dgram_msgs_of(qp), m->place, &r);
		m->holds = true;
		return true;
	}
	qp_recv_cqe(d->qp, qp, &r, &(struct qp_cqe){ .status = (uint8_t)status }, NULL);
	if (status != QP_WC_LOC_LEN_ERR) {
		dgram_fail(d, qp);
		return false;
	}
	d->qp->stats.ud_too_long++;
	dgram_msg_end(d, dgram_msgs_of(qp), m);
	return false;
}

static void complete_msg(struct dgram_ctx *d, struct qp *qp, struct dgram_msg *m, const struct dgram_rx *rx,
			 const struct ddp_hdr *h)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);
	struct qp_cqe cqe = { .byte_len = DGRAM_GRH_LEN + m->total,
			      .flags = QP_WCF_GRH,
			      .solicited = h->opcode == RDMAP_SEND_SE,
			      .src_qp = rx->h->src_qpn };

	if (rx->h->flags & UDPL_F_IMM) {
		cqe.flags |= QP_WCF_WITH_IMM;
		rn_store_be32(&cqe.aux, h->stag);
	}
	qp_recv_cqe(d->qp, qp, &g->recv[m->place], &cqe, rx->src);
	drop_recv(g, m->place);
	dgram_msg_end(d, g, m);
}

void dgram_seg_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx, const struct ddp_hdr *h)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);
	struct qp_ctx *ctx = d->qp;
	struct dgram_key k = { .src_qpn = rx->h->src_qpn, .id = h->msn };
	struct ddp_hdr at = *h;

	memcpy(k.src, rx->src, sizeof(k.src));
	struct dgram_msg *m = dgram_track_find(&g->track, &k);
	if (m == NULL && ((m = dgram_msg_begin(d, g, rx->h, &k)) == NULL || !give_recv(d, qp, m, rx)))
		return;
	if (m->record || m->unit != rx->h->unit || m->total != rx->h->total) {
		ctx->stats.ud_bad++;
		return;
	}
	if (dgram_msg_has(m, h->mo)) {
		ctx->stats.ud_again++;
		return;
	}
	const struct rn_iov src = { .base = (uint8_t *)(uintptr_t)rx->p + UDPL_HDR_LEN + h->hdr_len,
				    .len = h->payload_len };
	at.mo += DGRAM_GRH_LEN;
	at.last = m->valid + h->payload_len == m->total; /* the last segment to arrive */
	const enum qp_mr_verdict v = qp_rq_place(ctx, qp, &g->recv[m->place], &at, &src, 1);
	if (rn_unlikely(v != QP_MR_OK)) { /* the memory of the receive has been deregistered */
		qp_recv_cqe(ctx, qp, &g->recv[m->place], &(struct qp_cqe){ .status = (uint8_t)qp_mr_status(v) }, NULL);
		drop_recv(g, m->place);
		dgram_fail(d, qp);
		return;
	}
	dgram_msg_placed(d, m, h->mo, h->payload_len);
	if (at.last)
		complete_msg(d, qp, m, rx, h);
}
