/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: pairs of queue pairs, and what passes between them. */
#include <string.h>

#include "base/rn_be.h"
#include "base/rn_sip.h"
#include "dgram/rd_int.h"

/* ---- the header ---- */

bool rd_parse(const uint8_t *p, uint32_t len, struct rd_hdr *h)
{
	if (len < RD_HDR_LEN)
		return false;
	*h = (struct rd_hdr){ .kind = p[0],
			      .flags = p[1],
			      .rnr = p[2],
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
	return h->kind >= RD_SEGMENT && h->kind <= RD_REFUSED && h->dst_qpn <= RD_QPN_MAX && h->src_qpn <= RD_QPN_MAX &&
	       (h->run != 0 || h->kind == RD_REFUSED) && len <= RD_PACKET_MAX;
}

uint32_t rd_build(uint8_t *p, const struct rd_hdr *h)
{
	const uint8_t flags = (uint8_t)((h->flags & ~RD_F_MORE) | (h->more != 0 ? RD_F_MORE : 0));

	rn_store_be32(p, (uint32_t)h->kind << 24 | (uint32_t)flags << 16 | (uint32_t)h->rnr << 8);
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

/* ---- pairs ---- */

void rd_init(struct rd_ctx *d, struct qp_ctx *qp, struct rd_pair *pair, uint32_t n_pairs, uint32_t run)
{
	*d = (struct rd_ctx){
		.qp = qp, .pair = pair, .n = n_pairs, .share = n_pairs, .run = run, .probe_at = RN_NEVER
	};
	d->free = rn_pool_of(pair, n_pairs, link);
	d->bucket = &d->one;
}

void rd_give_buckets(struct rd_ctx *d, struct rn_list *bucket, uint32_t n, const uint64_t key[2])
{
	d->bucket = bucket;
	d->bucket_mask = n - 1;
	memcpy(d->key, key, sizeof(d->key));
}

void rd_share(struct rd_ctx *d, uint32_t pairs) { d->share = rn_max_u32(pairs, 1); }

void rd_give_holds(struct rd_ctx *d, struct rd_hold *hold, uint32_t n_holds)
{
	d->holds = rn_pool_of(hold, n_holds, link);
}

void rd_give_chains(struct rd_ctx *d, struct rd_chain *chain, uint32_t n_chains)
{
	d->chains = rn_pool_of(chain, n_chains, link);
}

enum qp_verdict rd_attach(struct qp *qp, struct rd_side *side, struct rd_manner manner)
{
	if (!qp->many)
		return QP_BAD_ATTR;
	memset(side, 0, sizeof(*side));
	side->loose = manner.loose;
	side->strict = manner.strict;
	for (uint32_t i = 0; i < RD_SENDS; i++)
		rn_slist_push_back(&side->spare, &side->send[i].link);
	qp->beside = side;
	qp->sparing = true; /* completions tell of errors: a peer's fault raises no event of the QP */
	return QP_OK;
}

/* The one writer of a pair's state. */
static void rd_set_state(struct rd_pair *p, enum rd_state s) { p->state = (uint8_t)s; }

void rd_put(struct rd_ctx *d, struct rd_pair *p)
{
	if (p->listed || p->state == RD_FREE)
		return;
	p->listed = true;
	rn_slist_push_back(&d->ready, &p->link);
}

struct rd_pair *rd_pop(struct rd_ctx *d)
{
	struct rd_pair *p = rn_slist_pop(&d->ready, struct rd_pair, link);

	if (p != NULL)
		p->listed = false;
	return p;
}

/* Frees a pair that has let go of its QP and has nothing to send. */
void rd_give_back(struct rd_ctx *d, struct rd_pair *p)
{
	if (p->listed)
		(void)rn_slist_remove(&d->ready, &p->link);
	p->listed = false;
	rd_set_state(p, RD_FREE);
	rn_pool_push_back(&d->free, &p->link);
}

static struct rn_list *bucket_of(const struct rd_ctx *d, uint32_t qpn, const uint8_t *addr, uint32_t peer_qpn)
{
	const uint64_t numbers = (uint64_t)qpn << 32 | peer_qpn;

	return &d->bucket[rn_sip_hash(d->key, addr, RD_ADDR_LEN, numbers) & d->bucket_mask];
}

struct rd_pair *rd_find(const struct rd_ctx *d, const struct qp *qp, const uint8_t *addr, uint32_t peer_qpn)
{
	rn_list_each(struct rd_pair, p, bucket_of(d, qp->qpn, addr, peer_qpn), of_bucket)
		if (p->m.qp == qp && p->peer_qpn == peer_qpn && memcmp(p->addr, addr, RD_ADDR_LEN) == 0)
			return p;
	return NULL;
}

void rd_drop_hold(struct rd_ctx *d, struct rd_pair *p, uint32_t i)
{
	if (p->held[i] == NULL)
		return;
	rn_pool_push_front(&d->holds, &p->held[i]->link);
	p->held[i] = NULL;
	p->holds--;
}

void rd_drop_holds(struct rd_ctx *d, struct rd_pair *p)
{
	for (uint32_t i = 0; i < RD_SPAN && p->holds > 0; i++)
		rd_drop_hold(d, p, i);
}

/* Flushes the receives of incomplete messages, unless no completions may follow. */
static void drop_chains(struct rd_ctx *d, struct rd_pair *p, struct qp *qp, enum rd_end how)
{
	struct rd_chain *c;

	while ((c = rn_slist_pop(&p->chains, struct rd_chain, link)) != NULL) {
		if (c->recv.loaded && how == RD_END_FAIL)
			qp_flush_recv(d->qp, qp, &c->recv);
		rn_pool_push_front(&d->chains, &c->link);
	}
	p->n_chains = 0;
}

/* Keeps asking the client to ring while another pair of the QP waits, or another user of its shared receive queue. */
void rd_wait_over(struct rd_ctx *d, struct rd_pair *p)
{
	struct qp *qp = p->m.qp;

	if (!p->waits)
		return;
	p->waits = false;
	rn_list_remove(&d->waits, &p->of_waits);
	rd_side_of(qp)->waiting--;
	if (qp->srq != NULL)
		qp_recv_over(d->qp, qp, qp->srq);
	else if (rd_side_of(qp)->waiting == 0 && qp->state != QP_S_ERR)
		qp_recv_over(d->qp, qp, NULL);
}

/* Whether a work request on the way has a status already. */
static bool blamed(const struct rd_pair *p)
{
	for (uint32_t i = p->work.wr_head; i != p->work.wr_tail; i++)
		if (p->wr[i & p->work.wr_mask].status != QP_WC_SUCCESS)
			return true;
	return false;
}

/* Remembers how the peer's run ended, to refuse later segments of the run with the same Terminate. */
static void remember(struct rd_ctx *d, const struct rd_pair *p)
{
	struct rd_told *t = &d->told[d->n_told++ % RD_TOLD];

	*t = (struct rd_told){ .qpn = p->qpn,
			       .peer_qpn = p->peer_qpn,
			       .peer_run = p->peer_run,
			       .len = p->term_len,
			       .taken = p->next,
			       .more = p->map >> 1 };
	memcpy(t->addr, p->addr, RD_ADDR_LEN);
	memcpy(t->term, p->term, p->term_len);
}

/* Ends the run. `tell`: the peer is told, by the p->term_len octets of p->term. */
void rd_end(struct rd_ctx *d, struct rd_pair *p, enum rd_end how, bool tell)
{
	struct qp *qp = p->m.qp;
	struct rd_send *x;

	rd_drop_holds(d, p);
	rd_wait_over(d, p);
	rn_list_remove(&rd_side_of(qp)->pairs, &p->of_qp);
	rn_list_remove(bucket_of(d, p->qpn, p->addr, p->peer_qpn), &p->of_bucket);
	if (how == RD_END_FAIL) {
		rd_side_of(qp)->failed |= p->work.wr_head != p->work.wr_tail || !rn_slist_empty(&p->sends);
		if (!blamed(p))
			qp_unanswered(&p->m);
		qp_detach(d->qp, &p->m, QP_END_FAIL);
	} else {
		qp_abandon(&p->m);
	}
	drop_chains(d, p, qp, how);
	while ((x = rn_slist_pop(&p->sends, struct rd_send, link)) != NULL) {
		if (how == RD_END_FAIL)
			qp_flush_send(d->qp, qp, &x->s);
		rn_slist_push_back(&rd_side_of(qp)->spare, &x->link);
	}
	rd_set_state(p, RD_ENDED);
	d->used_by[qp->tenant]--;
	if (tell && p->term_len > 0)
		remember(d, p);
	if (tell)
		rd_put(d, p);
	else
		rd_give_back(d, p);
}

/* From now on rd_tick() looks at pairs that wait for the peer. */
void rd_arm_probe(struct rd_ctx *d)
{
	if (d->probe_at == RN_NEVER)
		d->probe_at = d->qp->now + RD_PROBE_NS;
}

/* Whether something is under way. */
static bool busy(const struct rd_pair *p)
{
	return p->state == RD_UP && (p->sent != p->acked || p->holds > 0 || p->n_chains > 0 ||
				     !rn_slist_empty(&p->sends) || !qp_msgs_resting(&p->m));
}

/* Whether nothing is under way, so that another pair may have this pair's place. */
static bool rests(const struct rd_pair *p) { return p->state == RD_UP && !p->listed && !p->owes && !busy(p); }

#define ANY_TENANT (-1)

/*
 * Ends the pair of the tenant that has rested longest, which fails nothing here. The peer's pair rests too, unless it
 * has sent meanwhile: then what it has sent is refused.
 */
static void evict(struct rd_ctx *d, int tenant, bool tell)
{
	struct rd_pair *old = NULL;

	for (uint32_t i = 0; i < d->n; i++) {
		struct rd_pair *p = &d->pair[i];

		if (rests(p) && (tenant == ANY_TENANT || p->m.qp->tenant == tenant) &&
		    (old == NULL || p->used < old->used))
			old = p;
	}
	if (old == NULL)
		return;
	d->stats.evicted++;
	old->term_len = 0;
	rd_end(d, old, RD_END_FAIL, tell);
}

/*
 * Takes a free pair. When that was the last one, another pair is ended ahead of need, and rd_out tells its peer. When
 * none is free, a pair is ended at once, and its peer finds out later.
 */
static struct rd_pair *take_free(struct rd_ctx *d, uint8_t tenant)
{
	if (d->used_by[tenant] >= d->share)
		evict(d, tenant, true);
	if (d->used_by[tenant] >= d->share)
		return NULL;
	if (rn_pool_empty(&d->free))
		evict(d, ANY_TENANT, false);
	struct rd_pair *p = rn_pool_pop(&d->free, struct rd_pair, link);
	if (p != NULL && rn_pool_empty(&d->free))
		evict(d, ANY_TENANT, true);
	return p;
}

struct rd_pair *rd_make(struct rd_ctx *d, struct qp *qp, const uint8_t *addr, uint32_t peer_qpn)
{
	struct rd_pair *p = take_free(d, qp->tenant);

	if (p == NULL) {
		d->stats.no_pair++;
		return NULL;
	}
	*p = (struct rd_pair){ .qpn = qp->qpn, .peer_qpn = peer_qpn, .used = d->qp->now };
	memcpy(p->addr, addr, RD_ADDR_LEN);
	if (++d->run == 0)
		d->run = 1;
	p->run = d->run;
	p->m.keeps = true;
	p->m.unordered = p->loose = rd_side_of(qp)->loose;
	p->work.wr = p->wr;
	p->work.wr_mask = RD_WRS - 1;
	qp_work_init(&p->work);
	qp_msgs_work(&p->m, &p->work);
	qp_attach(&p->m, qp);
	qp_msgs_init(&p->m, RD_DEPTH, RD_DEPTH);
	p->m.peer = p->addr;
	p->m.peer_qpn = peer_qpn;
	rd_set_state(p, RD_UP);
	d->used_by[qp->tenant]++;
	rn_list_push_back(&rd_side_of(qp)->pairs, &p->of_qp);
	rn_list_push_front(bucket_of(d, p->qpn, p->addr, p->peer_qpn), &p->of_bucket);
	return p;
}

/* ---- which pair takes the next work request ---- */

/* The destination of the work request at the queue's head. False: it is impossible. */
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
	while ((p = rn_list_first(&rd_side_of(qp)->pairs, struct rd_pair, of_qp)) != NULL)
		rd_end(d, p, RD_END_FAIL, true);
	qp_enter_error(d->qp, qp);
}

/* There is no free pair for this peer: the work request fails by itself. */
static void no_place(struct rd_ctx *d, struct qp *qp, const struct qp_wqe *w)
{
	const struct qp_wr wr = {
		.wr_id = w->wr_id, .op = w->op < QP_WR_OPS ? w->op : QP_WR_SEND, .flags = w->flags, .slots = w->slots
	};

	qp->sq_taken += w->slots;
	rd_side_of(qp)->failed = true;
	qp_send_cqe(d->qp, qp, &wr, QP_WC_RETRY_EXC_ERR);
}

/* Gives the next work request to its pair. False: its length is impossible, so the next one cannot be found. */
static bool route_next(struct rd_ctx *d, struct qp *qp)
{
	const uint64_t bad = d->qp->stats.bad_wqes;
	struct rd_side *side = rd_side_of(qp);
	struct qp_wqe_dest to;
	struct qp_wqe w;

	if (rn_unlikely(!head_dest(qp, &to, &w)))
		return false;
	struct rd_pair *p = rd_find(d, qp, to.addr, to.qpn);
	if (p == NULL)
		p = rd_make(d, qp, to.addr, to.qpn);
	if (p == NULL) {
		no_place(d, qp, &w);
		return true;
	}
	struct rd_send *x = rn_slist_pop(&side->spare, struct rd_send, link);
	enum qp_take t = qp_sq_take(d->qp, &p->m, &x->s, &x->why);
	x->qkey = to.qkey & QP_QKEY_OWN ? qp->qkey : to.qkey;
	if (rn_unlikely(t == QP_TAKE_NONE || t == QP_TAKE_BAD_RING)) {
		rn_slist_push_back(&side->spare, &x->link);
		return false;
	}
	rn_slist_push_back(&p->sends, &x->link);
	rd_put(d, p);
	return d->qp->stats.bad_wqes == bad;
}

/* A work request has failed, on a QP that does not go on then (RNICDV_QP_STRICT). */
static bool stops(const struct qp *qp)
{
	return rn_unlikely(rd_side_of(qp)->failed) && rd_side_of(qp)->strict &&
	       (qp->state == QP_S_RTS || qp->state == QP_S_SQD);
}

void rd_route(struct rd_ctx *d, struct qp *qp)
{
	const struct rd_side *side = rd_side_of(qp);

	while (qp->state == QP_S_RTS && !stops(qp) && !rn_slist_empty(&side->spare)) {
		bool any = spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken;

		if (!any && rn_likely(qp->sq.verdict == SPSC_OK))
			break;
		if (any && rn_likely(route_next(d, qp)))
			continue;
		d->qp->stats.bad_wqes++;
		qp_event(d->qp, qp, QP_EVENT_FATAL, 0);
		rd_qp_error(d, qp);
	}
	if (stops(qp))
		rd_qp_error(d, qp);
}

/* ---- verbs, time, the end of a flow ---- */

void rd_doorbell(struct rd_ctx *d, struct qp *qp)
{
	if (rn_unlikely(qp->state == QP_S_ERR)) {
		rd_qp_error(d, qp);
		return;
	}
	if (rd_side_of(qp)->waiting > 0)
		rn_list_each(struct rd_pair, p, &rd_side_of(qp)->pairs, of_qp)
			if (p->waits && qp->state != QP_S_ERR && qp_rq_any(qp) && rd_take_held(d, p))
				rd_put(d, p);
	if (qp->state != QP_S_ERR) {
		qp->rung = true;
		rd_route(d, qp);
	}
}

void rd_recvs(struct rd_ctx *d)
{
	d->looks = 0;
	rn_list_each(const struct rd_pair, p, &d->waits, of_waits)
		d->looks++;
}

/* By turns. Pairs that have ended meanwhile cause some others to be looked at twice, which does no harm. */
bool rd_look(struct rd_ctx *d)
{
	struct rd_pair *p = d->looks > 0 ? rn_list_first(&d->waits, struct rd_pair, of_waits) : NULL;

	if (p == NULL) {
		d->looks = 0;
		return false;
	}
	d->looks--;
	rn_list_remove(&d->waits, &p->of_waits);
	rn_list_push_back(&d->waits, &p->of_waits);
	if (p->m.qp->srq != NULL && qp_rq_any(p->m.qp) && rd_take_held(d, p))
		rd_put(d, p);
	return true;
}

/* Removes all pairs of the QP, without completions. */
static void abandon(struct rd_ctx *d, struct qp *qp)
{
	struct rd_pair *p;

	while ((p = rn_list_first(&rd_side_of(qp)->pairs, struct rd_pair, of_qp)) != NULL)
		rd_end(d, p, RD_END_ABANDON, true);
}

enum qp_verdict rd_modify(struct rd_ctx *d, struct qp *qp, enum qp_state to)
{
	if (to == QP_S_RESET) {
		abandon(d, qp);
		rd_side_of(qp)->failed = false;
	}
	if (to == QP_S_ERR)
		rd_qp_error(d, qp);
	enum qp_verdict v = qp_step(d->qp, qp, to);
	if (v == QP_OK && (to == QP_S_RTR || to == QP_S_RTS))
		rd_doorbell(d, qp);
	return v;
}

void rd_destroy(struct rd_ctx *d, struct qp *qp)
{
	abandon(d, qp);
	qp_forget(d->qp, qp);
}

void rd_lost(struct rd_ctx *d, const uint8_t addr[RD_ADDR_LEN])
{
	for (uint32_t i = 0; i < d->n; i++) {
		struct rd_pair *p = &d->pair[i];
		struct qp *qp = p->m.qp;

		if (p->state == RD_FREE || memcmp(p->addr, addr, RD_ADDR_LEN) != 0)
			continue;
		if (p->state == RD_ENDED) {
			rd_give_back(d, p);
			continue;
		}
		p->term_len = 0;
		rd_end(d, p, RD_END_FAIL, false);
		rd_route(d, qp);
	}
}

uint64_t rd_timer(const struct rd_ctx *d)
{
	uint64_t due = d->probe_at;

	rn_list_each(const struct rd_pair, p, &d->waits, of_waits)
		due = rn_min_u64(due, p->wait_end);
	return due;
}

/* Asks a silent peer whether it still knows the pair: the notice of the pair's end may have been lost. */
static void probe(struct rd_ctx *d)
{
	bool any = false;

	if (d->probe_at > d->qp->now)
		return;
	for (uint32_t i = 0; i < d->n; i++) {
		struct rd_pair *p = &d->pair[i];

		if (!busy(p))
			continue;
		any = true;
		if (d->qp->now - p->used < RD_PROBE_NS)
			continue;
		p->owes = true;
		rd_put(d, p);
	}
	d->probe_at = any ? d->qp->now + RD_PROBE_NS : RN_NEVER;
}

void rd_tick(struct rd_ctx *d)
{
	probe(d);
	rn_list_each(struct rd_pair, p, &d->waits, of_waits) {
		const struct rd_hold *x = p->held[p->wait_number % RD_SPAN];

		if (p->wait_end > d->qp->now)
			continue;
		d->qp->stats.rnr_timeouts++;
		d->stats.rnr_ends++;
		p->m.err = iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER, false);
		rd_fail(d, p, x->seg, x->len);
	}
}
