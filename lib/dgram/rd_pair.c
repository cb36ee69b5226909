/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: pairs of queue pairs, and their working memory. */
#include <string.h>

#include "base/rn_sip.h"
#include "dgram/rd_int.h"

void rd_init(struct rd_ctx *d, struct qp_ctx *qp, struct rd_pair *pair, uint32_t n_pairs, uint32_t run)
{
	*d = (struct rd_ctx){ .qp = qp,
			      .pair = pair,
			      .share = UINT32_MAX,
			      .work_share = UINT32_MAX,
			      .run = run,
			      .probe_at = RN_NEVER,
			      .hurry_at = RN_NEVER };
	rn_wheel_init(&d->ends, 0);
	d->free = rn_pool_of(pair, n_pairs, link);
	d->both = &d->one[0];
	d->by_addr = &d->one[1];
}

void rd_give_buckets(struct rd_ctx *d, struct rd_list *bucket, uint32_t n, const uint64_t key[2])
{
	d->both = bucket;
	d->by_addr = bucket + n;
	d->bucket_mask = n - 1;
	memcpy(d->key, key, sizeof(d->key));
}

void rd_share(struct rd_ctx *d, uint32_t pairs, uint32_t works)
{
	d->share = rn_max_u32(pairs, 1);
	d->work_share = rn_max_u32(works, 1);
}

void rd_give_works(struct rd_ctx *d, struct rd_work *work, struct rd_hold *hold, struct rd_chain *chain, uint32_t n)
{
	d->n_works = n;
	d->works = rn_pool_of(work, n, link);
	d->holds = rn_pool_of(hold, n * RD_WIN, link);
	d->chains = rn_pool_of(chain, n * RD_WIN, link);
}

/* The one writer of a pair's state. */
static void rd_set_state(struct rd_pair *p, enum rd_state s) { p->state = (uint8_t)s; }

/* ---- pairs with something to send ---- */

static uint64_t bit_of(uint8_t tenant) { return UINT64_C(1) << tenant; }

static uint8_t turn_after(uint8_t tenant) { return (uint8_t)((tenant + 1u) % QP_TENANTS); }

/* A pair's link can lie in one list only: a listed pair stays where it is, and a free pair stays in the pool. */
static void put_into(struct rd_pair *p, struct rn_slist *list)
{
	if (p->listed || p->rests || p->state == RD_FREE)
		return;
	p->listed = true;
	rn_slist_push_back(list, &p->link);
}

void rd_put(struct rd_ctx *d, struct rd_pair *p)
{
	put_into(p, &d->tenant[p->tenant].ready);
	d->ready |= bit_of(p->tenant);
}

/* The first pair of a list of pairs with something to send; pairs that are gone are freed. NULL: there is none. */
static struct rd_pair *take_first(struct rd_ctx *d, struct rn_slist *of)
{
	struct rd_pair *p;

	while ((p = rn_slist_pop(of, struct rd_pair, link)) != NULL) {
		p->listed = false;
		if (rn_likely(p->state != RD_GONE))
			return p;
		rd_set_state(p, RD_FREE);
		rn_pool_push_back(&d->free, &p->link);
	}
	return NULL;
}

struct rd_pair *rd_pop(struct rd_ctx *d)
{
	struct rd_pair *p = NULL;

	while (p == NULL && d->ready != 0) {
		const uint8_t tenant = rn_bit_from(d->ready, d->ready_turn);

		p = take_first(d, &d->tenant[tenant].ready);
		if (rn_slist_empty(&d->tenant[tenant].ready))
			d->ready &= ~bit_of(tenant);
		d->ready_turn = turn_after(tenant);
	}
	return p;
}

void rd_park(struct rd_pair *p, struct rn_slist *where) { put_into(p, where); }

bool rd_unpark(struct rd_ctx *d, struct rn_slist *where)
{
	struct rd_pair *p = take_first(d, where);

	if (p != NULL)
		rd_put(d, p);
	return p != NULL;
}

uint32_t rd_pairs(const struct rd_ctx *d)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < QP_TENANTS; i++)
		n += d->tenant[i].pairs;
	return n;
}

/* ---- search ---- */

static struct rd_list *both_of(const struct rd_ctx *d, uint32_t qpn, const uint8_t *addr, uint32_t peer_qpn)
{
	const uint64_t numbers = (uint64_t)qpn << 32 | peer_qpn;

	return &d->both[rn_sip_hash(d->key, addr, RD_ADDR_LEN, numbers) & d->bucket_mask];
}

struct rd_list *rd_addr_list(const struct rd_ctx *d, const uint8_t *addr)
{
	return &d->by_addr[rn_sip_hash(d->key, addr, RD_ADDR_LEN, 0) & d->bucket_mask];
}

static bool is_between(const struct rd_pair *p, const struct qp *qp, const uint8_t *addr, uint32_t peer_qpn)
{
	return p->qp == qp && p->peer_qpn == peer_qpn && memcmp(p->addr, addr, RD_ADDR_LEN) == 0;
}

/*
 * Most packets and work requests are for few pairs, which d->near finds without the keyed hash. The places there are
 * never cleared: a pair that has ended has no QP, so is_between() is false, and a pair that was made anew at the place
 * is compared with what is searched for. A peer that makes its pairs share places of d->near gains the hash's cost.
 */
struct rd_pair *rd_find(struct rd_ctx *d, const struct qp *qp, const uint8_t *addr, uint32_t peer_qpn)
{
	uint16_t *near = &d->near[(qp->qpn * 3 + peer_qpn + addr[RD_ADDR_LEN - 1] * 7u) % RD_NEAR];
	struct rd_pair *p = rd_at(d, *near);

	if (rn_likely(p != NULL && is_between(p, qp, addr, peer_qpn)))
		return p;
	p = rd_at(d, both_of(d, qp->qpn, addr, peer_qpn)->first);
	while (p != NULL && !is_between(p, qp, addr, peer_qpn))
		p = rd_at(d, p->in[RD_IN_BOTH].next);
	if (p != NULL)
		*near = (uint16_t)(p - d->pair + 1);
	return p;
}

/* ---- working memory ---- */

/* Whether a pair of this tenant that rests can have working memory. */
static bool work_free(const struct rd_ctx *d, uint8_t tenant)
{
	return d->works_used < d->n_works && d->tenant[tenant].works < d->work_share;
}

/*
 * Whether one more pair of this tenant may send: an eighth of the working memories is left for pairs that only receive.
 */
static bool may_be_sender(const struct rd_ctx *d, uint8_t tenant)
{
	const uint32_t all = rn_max_u32(d->n_works / 8, 1), own = rn_max_u32(d->work_share / 8, 1);

	return d->senders + all < rn_max_u32(d->n_works, all + 1) &&
	       d->tenant[tenant].senders + own < rn_max_u32(d->work_share, own + 1);
}

/* Continues the engine's sequence of messages with the numbers that were stored when the pair began to rest. */
static void go_on(const struct rd_pair *p, const struct rd_rest *r, struct qp_msgs *m)
{
	qp_msgs_init(m, RD_DEPTH, RD_DEPTH);
	m->peer = p->addr;
	m->peer_qpn = p->peer_qpn;
	m->msn_send = r->msn_send;
	m->msn_read = r->msn_read;
	m->msn_atomic = r->msn_atomic;
	m->uq_send.msn = r->uq_send;
	m->uq_read.msn = r->uq_read;
	m->uq_atomic.msn = r->uq_atomic;
	m->imm_len = r->imm_len;
	m->wrote = p->wrote;
}

/* Takes the pair off the list of those that rest. It has no working memory yet. */
static void rest_over(struct rd_ctx *d, struct rd_pair *p)
{
	rd_delist(d, &d->tenant[p->tenant].rests, RD_IN_RESTS, p);
	p->rests = false;
	p->k = NULL;
}

/* Puts the pair, which has no working memory and is not listed, into the list of those that rest. */
static void rest_begins(struct rd_ctx *d, struct rd_pair *p, struct rd_rest rest)
{
	p->rests = true;
	p->rest = rest;
	rd_enlist_last(d, &d->tenant[p->tenant].rests, RD_IN_RESTS, p);
}

bool rd_wake(struct rd_ctx *d, struct rd_pair *p)
{
	struct rd_tenant *t = &d->tenant[p->tenant];
	struct rd_work *k;

	if (!p->rests)
		return true;
	if (!work_free(d, p->tenant))
		return false;
	const struct rd_rest rest = p->rest;
	k = rn_pool_pop(&d->works, struct rd_work, link);
	d->works_used++;
	t->works++;
	rest_over(d, p);
	rn_list_push_back(&d->busy, &k->of_busy);
	k->pair = p;
	k->used = d->qp->now;
	k->acked = k->sure = k->mark = p->sent;
	k->mark_at = k->gap_at = d->qp->now;
	k->gap = p->next;
	k->had = k->map = 0;
	k->n_had = k->n_chains = k->holds = k->term_len = 0;
	k->inside = k->sender = k->waits = k->drains = k->chained = k->gives = k->back = false;
	k->promised = k->more = 0;
	k->void_at = p->sent;
	k->m = (struct qp_msgs){ .keeps = true, .unordered = p->loose };
	k->work.wr = k->wr;
	k->work.wr_mask = RD_WRS - 1;
	qp_work_init(&k->work);
	qp_msgs_work(&k->m, &k->work);
	qp_attach(&k->m, p->qp);
	go_on(p, &rest, &k->m);
	p->k = k;
	return true;
}

bool rd_wake_to_send(struct rd_ctx *d, struct rd_pair *p)
{
	if (!p->rests && p->k->sender)
		return true;
	if (!may_be_sender(d, p->tenant) || !rd_wake(d, p))
		return false;
	p->k->sender = true;
	d->senders++;
	d->tenant[p->tenant].senders++;
	return true;
}

/* Gives the pair's working memory back to the pool. Nothing in it is needed any more. */
static void work_back(struct rd_ctx *d, struct rd_pair *p)
{
	rd_narrow(d, p);
	d->works_used--;
	d->tenant[p->tenant].works--;
	d->senders -= p->k->sender;
	d->tenant[p->tenant].senders -= p->k->sender;
	rn_pool_push_front(&d->works, &p->k->link);
	p->k = NULL;
}

/* Whether something is under way for which the pair needs its working memory. */
static bool busy(const struct rd_pair *p)
{
	const struct rd_work *k = p->k;

	return p->sent != k->acked || k->map != 0 || k->holds > 0 || k->n_chains > 0 || k->chained || k->promised > 0 ||
	       k->gives || !rn_slist_empty(&k->sends) || k->m.imm_held || k->m.write_len > 0 || !qp_msgs_resting(&k->m);
}

void rd_rest(struct rd_ctx *d, struct rd_pair *p)
{
	if (p->rests || p->listed || p->owes || busy(p))
		return;
	const struct qp_msgs *m = &p->k->m;
	const struct rd_rest rest = { .msn_send = m->msn_send,
				      .msn_read = m->msn_read,
				      .msn_atomic = m->msn_atomic,
				      .uq_send = m->uq_send.msn,
				      .uq_read = m->uq_read.msn,
				      .uq_atomic = m->uq_atomic.msn,
				      .imm_len = m->imm_len };
	p->wrote = m->wrote;
	rn_list_remove(&d->busy, &p->k->of_busy);
	rn_list_remove(&d->due, &p->k->of_due);
	work_back(d, p);
	rest_begins(d, p, rest);
}

/* ---- queues to be looked at again ---- */

void rd_again(struct rd_ctx *d, struct qp *qp)
{
	struct rd_side *side = rd_side_of(qp);

	if (!rn_link_linked(&side->of_again))
		rn_list_push_back(&d->tenant[qp->tenant].again, &side->of_again);
	d->again |= bit_of(qp->tenant);
	rd_hurry(d);
}

void rd_again_over(struct rd_ctx *d, struct qp *qp)
{
	struct rd_tenant *t = &d->tenant[qp->tenant];

	rn_list_remove(&t->again, &rd_side_of(qp)->of_again);
	if (rn_list_empty(&t->again))
		d->again &= ~bit_of(qp->tenant);
}

/* The next tenant with a queue for which there is working memory; QP_TENANTS: there is none. */
static uint8_t next_again(const struct rd_ctx *d)
{
	for (uint64_t left = d->again; left != 0;) {
		const uint8_t tenant = rn_bit_from(left, d->again_turn);

		if (may_be_sender(d, tenant) && work_free(d, tenant))
			return tenant;
		left &= ~bit_of(tenant);
	}
	return QP_TENANTS;
}

bool rd_any_again(const struct rd_ctx *d) { return next_again(d) != QP_TENANTS; }

struct qp *rd_take_again(struct rd_ctx *d)
{
	const uint8_t tenant = next_again(d);

	if (tenant == QP_TENANTS)
		return NULL;
	struct qp *qp = rn_list_first(&d->tenant[tenant].again, struct rd_side, of_again)->qp;
	rd_again_over(d, qp);
	d->again_turn = turn_after(tenant);
	return qp;
}

/* ---- the end of a pair ---- */

void rd_give_back(struct rd_ctx *d, struct rd_pair *p)
{
	if (p->k != NULL)
		work_back(d, p);
	rd_delist(d, rd_addr_list(d, p->addr), RD_IN_ADDR, p);
	d->tenant[p->tenant].ended--;
	rd_set_state(p, p->listed ? RD_GONE : RD_FREE);
	if (!p->listed)
		rn_pool_push_back(&d->free, &p->link);
}

void rd_drop_hold(struct rd_ctx *d, struct rd_work *k, uint32_t number)
{
	struct rd_hold **x = rd_held(k, number);

	if (*x == NULL)
		return;
	rn_pool_push_front(&d->holds, &(*x)->link);
	*x = NULL;
	k->holds--;
}

void rd_drop_holds(struct rd_ctx *d, struct rd_work *k)
{
	for (uint32_t i = 0; i < RD_WIDE && k->holds > 0; i++)
		rd_drop_hold(d, k, i);
}

/* Frees the chains. RD_END_FAIL: the receives of their incomplete messages complete as flushed. */
static void drop_chains(struct rd_ctx *d, struct rd_work *k, struct qp *qp, enum rd_end how)
{
	struct rd_chain *c;

	while ((c = rn_slist_pop(&k->chains, struct rd_chain, link)) != NULL) {
		if (c->recv.loaded && how == RD_END_FAIL)
			qp_flush_recv(d->qp, qp, &c->recv);
		rn_pool_push_front(&d->chains, &c->link);
	}
	k->n_chains = 0;
}

/*
 * Ends the pair's wait for a receive. The client is asked to ring after it posts receives as long as another pair of
 * the QP, or another QP of the shared receive queue, waits.
 */
void rd_wait_over(struct rd_ctx *d, struct rd_pair *p)
{
	struct qp *qp = p->qp;

	if (!p->k->waits)
		return;
	p->k->waits = false;
	rn_wheel_disarm(&d->ends, &p->k->wait_end);
	rn_list_remove(&d->waits, &p->k->of_waits);
	d->n_waits--;
	rd_side_of(qp)->waiting--;
	if (qp->srq != NULL)
		qp_recv_over(d->qp, qp, qp->srq);
	else if (rd_side_of(qp)->waiting == 0 && qp->state != QP_S_ERR)
		qp_recv_over(d->qp, qp, NULL);
}

void rd_drained(struct rd_pair *p)
{
	struct rd_side *side = rd_side_of(p->qp);

	p->k->drains = false;
	p->qp->midway = --side->draining > 0;
}

/* Whether a work request on the way has a status already. */
static bool blamed(const struct rd_work *k)
{
	for (uint32_t i = k->work.wr_head; i != k->work.wr_tail; i++)
		if (k->wr[i & k->work.wr_mask].status != QP_WC_SUCCESS)
			return true;
	return false;
}

/* Remembers how the peer's run ended, so that later segments of the run are refused with the same Terminate. */
static void remember(struct rd_ctx *d, const struct rd_pair *p)
{
	struct rd_told *t = &d->told[d->n_told++ % RD_TOLD];

	*t = (struct rd_told){ .qpn = p->qpn,
			       .peer_qpn = p->peer_qpn,
			       .peer_run = p->peer_run,
			       .len = p->k->term_len,
			       .taken = p->next,
			       .more = p->k->map >> 1 };
	memcpy(t->addr, p->addr, RD_ADDR_LEN);
	memcpy(t->term, p->k->term, p->k->term_len);
}

/* Ends all work of the pair that is under way: with completions (RD_END_FAIL) or without. */
static void end_work(struct rd_ctx *d, struct rd_pair *p, enum rd_end how)
{
	struct rd_side *side = rd_side_of(p->qp);
	struct rd_work *k = p->k;
	struct rd_send *x;

	rd_drop_holds(d, k);
	rd_narrow(d, p);
	rn_list_remove(&d->due, &k->of_due);
	rd_wait_over(d, p);
	rn_list_remove(&d->busy, &k->of_busy);
	if (how == RD_END_FAIL) {
		/* stop: a work request that was at fault itself has completed already */
		side->failed |= k->work.stop || k->work.wr_head != k->work.wr_tail || !rn_slist_empty(&k->sends);
		if (!blamed(k))
			qp_unanswered(&k->m);
		qp_detach(d->qp, &k->m, QP_END_FAIL);
	} else {
		qp_abandon(&k->m);
	}
	drop_chains(d, k, p->qp, how);
	while ((x = rn_slist_pop(&k->sends, struct rd_send, link)) != NULL) {
		if (how == RD_END_FAIL)
			qp_flush_send(d->qp, p->qp, &x->s);
		rn_slist_push_back(&side->spare, &x->link);
	}
	if (k->drains)
		rd_drained(p);
}

/*
 * When so many pairs of a tenant have ended and wait to send REFUSED, a further pair that ends sends none, unless the
 * pair owes its peer a report. Its peer learns of the end when it asks.
 */
#define ENDED_MAX 256u

void rd_end(struct rd_ctx *d, struct rd_pair *p, enum rd_end how, bool tell)
{
	struct rd_tenant *t = &d->tenant[p->tenant];

	if (p->rests)
		rest_over(d, p);
	else
		end_work(d, p, how);
	rd_delist(d, &rd_side_of(p->qp)->pairs, RD_IN_QP, p);
	rd_delist(d, both_of(d, p->qpn, p->addr, p->peer_qpn), RD_IN_BOTH, p);
	p->qp = NULL;
	rd_set_state(p, RD_ENDED);
	t->pairs--;
	if (tell && p->k != NULL && p->k->term_len > 0)
		remember(d, p);
	t->ended++;
	if (!tell || (t->ended > ENDED_MAX && !p->owes)) {
		rd_give_back(d, p);
		return;
	}
	if (p->k != NULL && p->k->term_len == 0 && p->k->map == 0)
		work_back(d, p);
	rd_put(d, p);
}

/* ---- the begin of a pair ---- */

/* Ends the tenant's pair that has rested longest. No work request fails here, as none of the pair is under way. */
static void evict(struct rd_ctx *d, const struct rd_tenant *t, bool tell)
{
	struct rd_pair *p = rd_at(d, t->rests.first);

	if (p == NULL)
		return;
	d->stats.evicted++;
	rd_end(d, p, RD_END_FAIL, tell);
}

/* Of the tenants with pairs at rest, the one with the most pairs. */
static const struct rd_tenant *largest(const struct rd_ctx *d)
{
	const struct rd_tenant *most = &d->tenant[0];

	for (uint32_t i = 1; i < QP_TENANTS; i++) {
		const struct rd_tenant *t = &d->tenant[i];
		if (t->rests.first != 0 && (most->rests.first == 0 || t->pairs > most->pairs))
			most = t;
	}
	return most;
}

/* Whether the tenant has its share of pairs. Pairs that have ended count only beyond ENDED_MAX. */
static bool has_share(const struct rd_ctx *d, const struct rd_tenant *t)
{
	return t->pairs >= d->share || (uint64_t)t->pairs + t->ended >= (uint64_t)d->share + ENDED_MAX;
}

/*
 * Takes a free pair. When the last free pair is taken, a pair at rest is ended in advance, and rd_out tells its peer.
 * When none is free, a pair at rest is ended at once. Its peer is not told: packets that it sends later are refused.
 */
static struct rd_pair *take_free(struct rd_ctx *d, uint8_t tenant)
{
	const struct rd_tenant *t = &d->tenant[tenant];

	if (has_share(d, t))
		evict(d, t, true);
	if (has_share(d, t))
		return NULL;
	if (rn_pool_empty(&d->free))
		evict(d, largest(d), false);
	struct rd_pair *p = rn_pool_pop(&d->free, struct rd_pair, link);
	if (p != NULL && rn_pool_empty(&d->free))
		evict(d, largest(d), true);
	return p;
}

struct rd_pair *rd_make(struct rd_ctx *d, struct qp *qp, const uint8_t *addr, uint32_t peer_qpn)
{
	struct rd_pair *p = take_free(d, qp->tenant);

	if (p == NULL) {
		d->stats.no_pair++;
		return NULL;
	}
	*p = (struct rd_pair){
		.qp = qp,
		.tenant = qp->tenant,
		.qpn = qp->qpn,
		.peer_qpn = peer_qpn,
		.run = rd_next_run(d, qp->qpn),
		.loose = rd_side_of(qp)->loose,
	};
	memcpy(p->addr, addr, RD_ADDR_LEN);
	rd_set_state(p, RD_UP);
	d->tenant[p->tenant].pairs++;
	rest_begins(
		d, p,
		(struct rd_rest){
			.msn_send = 1, .msn_read = 1, .msn_atomic = 1, .uq_send = 1, .uq_read = 1, .uq_atomic = 1 });
	rd_enlist_last(d, &rd_side_of(qp)->pairs, RD_IN_QP, p);
	rd_enlist_first(d, both_of(d, p->qpn, p->addr, p->peer_qpn), RD_IN_BOTH, p);
	rd_enlist_first(d, rd_addr_list(d, p->addr), RD_IN_ADDR, p);
	return p;
}
