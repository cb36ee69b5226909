/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/qp_hold.h"

#include "base/rn_seq.h"
#include "qp/qp_int.h"

void qp_hold_begin(struct qp *qp, struct qp_hold *h, struct qp_hold_shm *shm, uint64_t seed, bool ordered)
{
	*h = (struct qp_hold){ .shm = shm, .by_chance = seed != 0, .ordered = ordered, .ended = true };
	rn_rng_seed(&h->draw, seed);
	qp->hold = h;
	qp->holds = true;
	qp_access_set(qp, qp->access);
}

static void hold_tell(struct qp_hold *h)
{
	__atomic_store_n(&h->shm->held, h->n, __ATOMIC_RELAXED);
	__atomic_store_n(&h->shm->put, h->put, __ATOMIC_RELEASE); /* partner: the client reads put, then the records */
}

/* Places the held piece number i. The region is looked up anew, since it may be gone or another one by now. */
static void hold_place(struct qp_ctx *ctx, struct qp *qp, uint32_t i)
{
	struct qp_hold *h = qp->hold;
	const struct qp_held b = h->held[i];
	const struct qp_access a = { .pd = qp->pd,
				     .stag = b.r.stag,
				     .to = b.r.to,
				     .len = b.r.len,
				     .rights = QP_ACC_REMOTE_WRITE,
				     .qpn = qp->qpn,
				     .last = true };
	const struct rn_iov from = { .base = h->shm->cell[b.cell], .len = b.r.len };

	(void)qp_place(ctx, qp->dev, &a, &from, 1);
	h->used &= ~(UINT64_C(1) << b.cell);
	h->n--;
	memmove(&h->held[i], &h->held[i + 1], (h->n - i) * sizeof(h->held[0]));
}

static void hold_place_all(struct qp_ctx *ctx, struct qp *qp)
{
	while (qp->hold->n > 0)
		hold_place(ctx, qp, qp->hold->by_chance ? rn_rng_below(&qp->hold->draw, qp->hold->n) : 0);
}

void qp_hold_settle(struct qp_ctx *ctx, struct qp *qp, bool atomic)
{
	struct qp_hold *h = qp->hold;

	hold_place_all(ctx, qp);
	if (atomic)
		__atomic_store_n(&h->shm->allowed, h->put, __ATOMIC_RELAXED);
	hold_tell(h);
}

void qp_hold_some(struct qp_ctx *ctx, struct qp *qp)
{
	struct qp_hold *h = qp->hold;
	const uint32_t shown = __atomic_load_n(&h->shm->shown, __ATOMIC_ACQUIRE);
	uint32_t seen = 0;

	/*
	 * Pieces that the client has not seen are the last ones in held[]. `shown` is the client's and not trusted: any
	 * value only decides which of the held pieces are placed.
	 */
	while (seen < h->n && rn_seq_lt(h->held[seen].number, shown))
		seen++;
	uint32_t some = h->by_chance && seen > 0 ? 1 + rn_rng_below(&h->draw, seen) : seen;
	for (; some > 0; some--, seen--)
		hold_place(ctx, qp, h->by_chance ? rn_rng_below(&h->draw, seen) : 0);
	hold_tell(h);
}

/*
 * The later Write wins: held pieces for the same place are placed first, and so are all pieces if the STag is another
 * one.
 */
static void make_way(struct qp_ctx *ctx, struct qp *qp, const struct qp_hold_rec *r)
{
	struct qp_hold *h = qp->hold;

	if (h->n > 0 && h->held[0].r.stag != r->stag) {
		hold_place_all(ctx, qp);
		return;
	}
	for (uint32_t i = 0; i < h->n;) {
		const struct qp_hold_rec *o = &h->held[i].r;
		if (o->to - r->to < r->len || r->to - o->to < o->len)
			hold_place(ctx, qp, i);
		else
			i++;
	}
}

enum qp_mr_verdict qp_hold_write(struct qp_ctx *ctx, struct qp *qp, const struct qp_access *a, const struct rn_iov *src,
				 uint32_t n)
{
	struct qp_hold *h = qp->hold;
	struct rn_iov sub[QP_ULPDU_IOV + 1];
	const enum qp_mr_verdict v = h->writes ? qp_mr_check(qp->dev, a) : QP_MR_BAD_RIGHTS;

	if (v != QP_MR_OK)
		return v;
	if (h->ordered && h->ended)
		hold_place_all(ctx, qp);
	h->ended = a->last;
	for (uint32_t done = 0; done < a->len;) {
		const uint32_t most = h->by_chance ? 1 + rn_rng_below(&h->draw, QP_HOLD_CELL) : QP_HOLD_CELL;
		const struct qp_hold_rec r = { .to = a->to + done,
					       .stag = a->stag,
					       .len = rn_min_u32(most, a->len - done) };

		make_way(ctx, qp, &r);
		if (h->n == QP_HOLD_CELLS)
			hold_place(ctx, qp, h->by_chance ? rn_rng_below(&h->draw, h->n) : 0);
		const uint32_t cell = (uint32_t)__builtin_ctzll(~h->used);
		const uint32_t k = rn_iov_cut(src, n, done, r.len, sub, RN_ARRAY_LEN(sub));
		if (k == UINT32_MAX)
			return QP_MR_TOO_MANY;
		rn_iov_gather(sub, k, h->shm->cell[cell], r.len);
		h->used |= UINT64_C(1) << cell;
		h->held[h->n++] = (struct qp_held){ .r = r, .number = h->put, .cell = (uint8_t)cell };
		h->shm->rec[h->put++ % QP_HOLD_CELLS] = r;
		done += r.len;
	}
	hold_tell(h);
	return QP_MR_OK;
}
