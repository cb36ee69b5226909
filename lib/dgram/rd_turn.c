/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: whether a segment of a peer's run has its turn, and the segments that are kept until then. */
#include <string.h>

#include "dgram/rd_int.h"

/* ---- the chains of an unordered run: the engine has one current chain, the others lie in k->chains ---- */

static struct iw_err chain_err(void)
{
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, false);
}

static bool had_turn(const struct rd_pair *p, uint32_t number)
{
	const uint32_t ahead = number - p->next;

	return ahead > RD_SPAN || (ahead < RD_SPAN && (p->k->map >> ahead & 1) != 0);
}

/* The chain in k->chains whose next segment has this number. */
static struct rd_chain *chain_at(const struct rd_work *k, uint32_t number)
{
	rn_slist_each(struct rd_chain, c, &k->chains, link)
		if (c->at == number)
			return c;
	return NULL;
}

/* Moves the engine's current chain to k->chains. False: the peer has more chains than it may have. */
static bool chain_aside(struct rd_ctx *d, struct rd_work *k)
{
	struct qp_msgs *m = &k->m;
	struct rd_chain *c;

	if (!k->chained)
		return true;
	if (k->n_chains == RD_WIN || (c = rn_pool_pop(&d->chains, struct rd_chain, link)) == NULL)
		return false;
	c->at = k->at;
	c->imm_held = m->imm_held;
	c->imm = m->imm;
	c->imm_len = m->imm_len;
	c->write_len = m->write_len;
	c->uq = m->uq_send;
	c->recv = k->work.recv;
	rn_slist_push_front(&k->chains, &c->link);
	k->n_chains++;
	k->work.recv.loaded = false;
	k->chained = false;
	return true;
}

/* Makes a chain of k->chains the engine's current one. */
static void chain_resume(struct rd_ctx *d, struct rd_work *k, struct rd_chain *c)
{
	const struct rd_chain one = *c; /* a copy: chain_aside() may store the other chain at *c */
	struct qp_msgs *m = &k->m;

	(void)rn_slist_remove(&k->chains, &c->link);
	k->n_chains--;
	rn_pool_push_front(&d->chains, &c->link);
	(void)chain_aside(d, k);
	m->imm_held = one.imm_held;
	m->imm = one.imm;
	m->imm_len = one.imm_len;
	m->write_len = one.write_len;
	m->uq_send = one.uq;
	k->work.recv = one.recv;
	k->at = one.at;
	k->chained = true;
}

static void chain_begin(struct rd_work *k, uint32_t number)
{
	struct qp_msgs *m = &k->m;

	m->imm_held = false;
	m->imm_len = m->write_len = 0;
	ddp_uq_init(&m->uq_send);
	k->at = number;
	k->chained = true;
}

/*
 * Makes the segment's chain the engine's current one. Returns RD_TURN_NEXT, RD_TURN_EARLY, or RD_TURN_ENDED: the peer's
 * chains are impossible, and k->m.err has the error.
 */
static enum rd_turn chain_turn(struct rd_ctx *d, struct rd_work *k, const struct rd_seg *s)
{
	const bool first = (s->flags & RD_F_FIRST) != 0, here = k->chained && k->at == s->number;
	struct rd_chain *c = here ? NULL : chain_at(k, s->number);

	if (here && !first)
		return RD_TURN_NEXT;
	if (!first && c == NULL)
		return RD_TURN_EARLY;
	k->m.err = chain_err();
	if (first && (here || c != NULL)) /* the segment begins a chain, but another chain needs its number */
		return RD_TURN_ENDED;
	if (c != NULL)
		chain_resume(d, k, c);
	else if (chain_aside(d, k))
		chain_begin(k, s->number);
	else
		return RD_TURN_ENDED;
	return RD_TURN_NEXT;
}

/* Notes that the segment has had its turn in its chain. False: the peer's chain is impossible; p->k->m.err. */
static bool chain_went_on(struct rd_pair *p, const struct rd_seg *s)
{
	struct rd_work *k = p->k;

	k->at = s->number + 1;
	k->chained = (s->flags & RD_F_LAST) == 0;
	k->m.err = chain_err();
	return k->chained ? !had_turn(p, k->at) : !k->work.recv.loaded;
}

/* ---- a segment's turn ---- */

/*
 * Sets the MSNs that the engine expects to those of the segment: in an unordered run the order of messages in a queue,
 * and of answers, is not checked. False: the segment answers no request of ours.
 */
static bool align(struct rd_pair *p, const struct ddp_hdr *h, uint32_t asked)
{
	struct qp_msgs *m = &p->k->m;

	if (p->peer_loose && !h->tagged && h->qn == DDP_QN_SEND && !m->uq_send.open)
		m->uq_send.msn = h->msn;
	if (p->peer_loose && !h->tagged && h->qn == DDP_QN_READ_REQ)
		m->uq_read.msn = h->msn;
	if (h->opcode != RDMAP_READ_RESP && h->opcode != RDMAP_ATOMIC_RESP)
		return true;
	m->uq_atomic.msn = h->opcode == RDMAP_ATOMIC_RESP ? h->msn : m->uq_atomic.msn;
	return rdmap_readq_bring(&m->readq, asked);
}

static enum qp_push push(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s)
{
	const struct rn_iov ulpdu = { .base = (uint8_t *)(uintptr_t)s->p, .len = s->len };
	struct ddp_hdr h;

	enum ddp_verdict v = ddp_parse(s->p, s->len, &h);
	if (v != DDP_OK)
		p->k->m.err = ddp_verdict_err(v, &h);
	else if (h.opcode == RDMAP_TERMINATE)
		p->k->m.err = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE, false);
	else if ((p->peer_loose || p->loose) && !align(p, &h, s->asked))
		p->k->m.err = rdmap_verdict_err(RDMAP_READ_NONE, &h);
	else
		return qp_push(d->qp, &p->k->m, &h, &ulpdu, 1);
	return QP_PUSH_FAILED;
}

static void note_turn(struct rd_ctx *d, struct rd_pair *p, uint32_t number)
{
	if (p->k->promised > 0)
		rd_unpromise(d, p, 1);
	for (p->k->map |= UINT64_C(1) << (number - p->next); p->k->map & 1; p->k->map >>= 1)
		p->next++;
	p->owes = true;
	p->k->used = d->qp->now;
}

enum rd_turn rd_take_turn(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s)
{
	struct qp *qp = p->qp;
	enum rd_turn t = RD_TURN_NEXT;

	if (p->peer_loose)
		t = chain_turn(d, p->k, s);
	else if (s->number != p->next)
		t = RD_TURN_EARLY;
	if (t == RD_TURN_EARLY)
		return t;
	const enum qp_push r = t == RD_TURN_NEXT ? push(d, p, s) : QP_PUSH_FAILED;
	if (qp->state == QP_S_ERR || qp->rq.verdict != SPSC_OK) {
		rd_qp_error(d, qp);
		return RD_TURN_ENDED;
	}
	if (r == QP_PUSH_NOT_READY) {
		p->k->chained = p->k->chained && !(s->flags & RD_F_FIRST);
		return RD_TURN_WAITS;
	}
	if (r != QP_PUSH_FAILED) {
		note_turn(d, p, s->number);
		rd_look_drained(p);
		if (!p->peer_loose || chain_went_on(p, s))
			return RD_TURN_NEXT;
	}
	rd_fail(d, p, s->p, s->len);
	return RD_TURN_ENDED;
}

/* ---- segments that are kept ---- */

/*
 * How many ns a message waits for a receive: as long as the QP allows, but not more RNR times than the sender allows.
 */
static uint64_t wait_of(const struct qp *qp, uint8_t rnr)
{
	if (rnr == 0 || rnr > RD_RNR_LAST)
		return qp->rnr_ns;
	return rn_min_u64(qp->rnr_ns, (rnr - 1) * qp->rnr_unit_ns);
}

/* Begins the wait of a pair for a receive. If several segments wait, the first one decides how long the pair waits. */
static void begin_wait(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s)
{
	const uint64_t ns = wait_of(p->qp, s->rnr);
	struct rd_work *k = p->k;

	if (k->waits && k->wait_number == s->number)
		return;
	d->qp->stats.rnr_waits++;
	k->wait_number = s->number;
	rn_wheel_arm(&d->ends, &k->wait_end, ns == RN_NEVER ? RN_NEVER : d->qp->now + ns);
	if (k->waits)
		return;
	k->waits = true;
	rd_side_of(p->qp)->waiting++;
	qp_recv_waits(d->qp, p->qp);
	rn_list_push_back(&d->waits, &k->of_waits);
	d->n_waits++;
}

void rd_impossible(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len)
{
	p->k->m.err = chain_err();
	rd_fail(d, p, seg, len);
}

bool rd_keep(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s, bool waits)
{
	struct rd_work *k = p->k;
	struct rd_hold *x;

	if (k->holds >= RD_WIN + k->promised || (x = rn_pool_pop(&d->holds, struct rd_hold, link)) == NULL)
		return false;
	x->len = s->len;
	x->asked = s->asked;
	x->flags = s->flags;
	x->rnr = s->rnr;
	memcpy(x->seg, s->p, s->len);
	*rd_held(k, s->number) = x;
	k->holds++;
	d->stats.held++;
	if (waits && !k->waits)
		begin_wait(d, p, s);
	return true;
}

static struct rd_seg seg_of(const struct rd_hold *x, uint32_t number)
{
	return (struct rd_seg){
		.p = x->seg, .len = x->len, .number = number, .asked = x->asked, .flags = x->flags, .rnr = x->rnr
	};
}

/* rd_take_held() for an ordered run. */
static bool take_in_order(struct rd_ctx *d, struct rd_pair *p)
{
	struct rd_work *k = p->k;
	const struct rd_hold *x;

	for (uint32_t n = 0; k->holds > 0 && (x = *rd_held(k, p->next)) != NULL; n++) {
		const struct rd_seg s = seg_of(x, p->next);
		if (n == RD_WIN) {
			if (!rn_link_linked(&k->of_due))
				rn_list_push_back(&d->due, &k->of_due);
			break;
		}
		const enum rd_turn t = rd_take_turn(d, p, &s);
		if (t == RD_TURN_ENDED)
			return false;
		if (t == RD_TURN_WAITS) {
			begin_wait(d, p, &s);
			return true;
		}
		rd_drop_hold(d, k, s.number);
	}
	rd_wait_over(d, p);
	return true;
}

/* Looks at all kept segments by number: in an unordered run a segment that waits does not hold up others. */
bool rd_take_held(struct rd_ctx *d, struct rd_pair *p)
{
	const uint32_t from = p->next;
	bool waits = false;

	if (!p->peer_loose)
		return take_in_order(d, p);
	for (uint32_t i = 0; i < RD_SPAN && p->k->holds > 0; i++) {
		const struct rd_hold *x = *rd_held(p->k, from + i);
		if (x == NULL)
			continue;
		const struct rd_seg s = seg_of(x, from + i);
		const enum rd_turn t = rd_take_turn(d, p, &s);
		if (t == RD_TURN_ENDED)
			return false;
		if (t == RD_TURN_EARLY || (t == RD_TURN_WAITS && waits))
			continue;
		if (t == RD_TURN_WAITS) {
			begin_wait(d, p, &s);
			waits = true;
		} else {
			rd_drop_hold(d, p->k, s.number);
		}
	}
	if (!waits)
		rd_wait_over(d, p);
	return true;
}
