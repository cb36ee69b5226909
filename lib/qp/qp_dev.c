/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/qp_dev.h"

#define WORD_VALID    (1u << 8)
#define WORD_KEY      0xffu
#define WORD_GEN_STEP (1u << 9)
#define NIL           UINT32_MAX

static void free_put(struct qp_dev *dev, uint32_t i)
{
	dev->mr[i].next_free = NIL;
	if (dev->free_tail != NIL)
		dev->mr[dev->free_tail].next_free = i;
	else
		dev->free_head = i;
	dev->free_tail = i;
}

void qp_dev_init(struct qp_dev *dev, struct qp_mr *mr, uint32_t n, uint64_t seed)
{
	*dev = (struct qp_dev){ .mr = mr, .n = n, .free_head = NIL, .free_tail = NIL };
	rn_rng_seed(&dev->rng, seed);
	for (uint32_t i = 0; i < n; i++) {
		mr[i] = (struct qp_mr){ .next_free = NIL };
		if (i > 0)
			free_put(dev, i);
	}
}

static bool attr_good(const struct qp_mr_attr *a)
{
	uint64_t sum = 0;

	if (a->npieces == 0 || a->len == 0 || (a->rights & ~(uint32_t)QP_ACC_ALL) != 0)
		return false;
	if (a->iova > UINT64_MAX - (a->len - 1))
		return false;
	for (uint32_t i = 0; i < a->npieces; i++) {
		if (a->pieces[i].len == 0 || a->pieces[i].len > a->len - sum)
			return false;
		sum += a->pieces[i].len;
	}
	return sum == a->len;
}

enum qp_mr_verdict qp_mr_reg(struct qp_dev *dev, const struct qp_mr_attr *a, uint32_t *stag)
{
	uint32_t i = dev->free_head;

	if (!attr_good(a))
		return QP_MR_BAD_ATTR;
	if (i == NIL)
		return QP_MR_FULL;
	struct qp_mr *mr = &dev->mr[i];
	dev->free_head = mr->next_free;
	if (dev->free_head == NIL)
		dev->free_tail = NIL;

	/* A worker that read the old word must not take new fields for old ones: the generation moves first. */
	uint32_t key = rn_rng_u32(&dev->rng) & WORD_KEY;
	uint32_t word = (mr->word & ~(WORD_GEN_STEP - 1)) + WORD_GEN_STEP;
	__atomic_store_n(&mr->word, word, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	mr->pd = a->pd;
	mr->rights = a->rights;
	mr->iova = a->iova;
	mr->len = a->len;
	mr->npieces = a->npieces;
	mr->one = a->pieces[0];
	mr->pieces = a->npieces == 1 ? &mr->one : a->pieces;
	mr->in_use = 1;
	/* Release: pairs with the acquire in entry_read(). */
	__atomic_store_n(&mr->word, word | WORD_VALID | key, __ATOMIC_RELEASE);
	dev->live++;
	*stag = i << 8 | key;
	return QP_MR_OK;
}

enum qp_mr_verdict qp_mr_dereg(struct qp_dev *dev, uint32_t stag)
{
	uint32_t i = stag >> 8;

	if (i == 0 || i >= dev->n || !dev->mr[i].in_use || (dev->mr[i].word & WORD_KEY) != (stag & WORD_KEY))
		return QP_MR_BAD_STAG;
	__atomic_fetch_and(&dev->mr[i].word, ~WORD_VALID, __ATOMIC_SEQ_CST);
	dev->mr[i].in_use = 0;
	dev->live--;
	free_put(dev, i);
	return QP_MR_OK;
}

/* The fields of a valid entry, all of one generation. */
struct entry {
	uint32_t pd, rights, npieces;
	uint64_t iova, len;
	struct qp_piece one;
	const struct qp_piece *pieces;
};

static inline enum qp_mr_verdict entry_read(const struct qp_dev *dev, uint32_t stag, struct entry *e)
{
	uint32_t i = stag >> 8;

	if (rn_unlikely(i == 0 || i >= dev->n))
		return QP_MR_BAD_STAG;
	const struct qp_mr *mr = &dev->mr[i];
	uint32_t word = __atomic_load_n(&mr->word, __ATOMIC_ACQUIRE);
	if (rn_unlikely((word & (WORD_VALID | WORD_KEY)) != (WORD_VALID | (stag & WORD_KEY))))
		return QP_MR_BAD_STAG;
	e->pd = mr->pd;
	e->rights = mr->rights;
	e->npieces = mr->npieces;
	e->iova = mr->iova;
	e->len = mr->len;
	e->one = mr->one;
	e->pieces = mr->pieces;
	/* The fields belong together when the word has not moved: pairs with the stores in qp_mr_reg(). */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return rn_likely(__atomic_load_n(&mr->word, __ATOMIC_RELAXED) == word) ? QP_MR_OK : QP_MR_BAD_STAG;
}

static inline enum qp_mr_verdict entry_check(const struct entry *e, const struct qp_access *a)
{
	if (rn_unlikely(e->pd != a->pd))
		return QP_MR_BAD_PD;
	if (rn_unlikely((e->rights & a->rights) != a->rights))
		return QP_MR_BAD_RIGHTS;
	if (rn_unlikely(a->to > UINT64_MAX - (a->len - 1)))
		return QP_MR_TO_WRAP;
	if (rn_unlikely(a->to < e->iova || !rn_in_range(a->to - e->iova, a->len, e->len)))
		return QP_MR_BAD_BOUNDS;
	return QP_MR_OK;
}

enum qp_mr_verdict qp_mr_check(const struct qp_dev *dev, const struct qp_access *a)
{
	struct entry e;

	if (a->len == 0)
		return QP_MR_OK;
	enum qp_mr_verdict v = entry_read(dev, a->stag, &e);
	return v == QP_MR_OK ? entry_check(&e, a) : v;
}

enum qp_mr_verdict qp_mr_slices(const struct qp_dev *dev, const struct qp_access *a, struct rn_iov *out, uint32_t max,
				uint32_t *n)
{
	struct entry e;

	*n = 0;
	if (a->len == 0)
		return QP_MR_OK;
	enum qp_mr_verdict v = entry_read(dev, a->stag, &e);
	if (v == QP_MR_OK)
		v = entry_check(&e, a);
	if (rn_unlikely(v != QP_MR_OK))
		return v;
	uint64_t off = a->to - e.iova;
	if (rn_likely(e.npieces == 1)) {
		if (max == 0)
			return QP_MR_TOO_MANY;
		out[0] = (struct rn_iov){ .base = e.one.base + off, .len = a->len };
		*n = 1;
		return QP_MR_OK;
	}
	uint32_t left = a->len;
	for (uint32_t i = 0; left > 0 && i < e.npieces; i++) {
		const struct qp_piece *p = &e.pieces[i];

		if (off >= p->len) {
			off -= p->len;
			continue;
		}
		if (*n == max)
			return QP_MR_TOO_MANY;
		uint32_t take = (uint32_t)rn_min_u64(p->len - off, left);
		out[(*n)++] = (struct rn_iov){ .base = p->base + off, .len = take };
		left -= take;
		off = 0;
	}
	return QP_MR_OK;
}

enum qp_mr_verdict qp_mr_invalidate(struct qp_dev *dev, uint32_t pd, uint32_t stag)
{
	struct entry e;
	enum qp_mr_verdict v = entry_read(dev, stag, &e);

	if (v != QP_MR_OK)
		return v;
	if (e.pd != pd)
		return QP_MR_BAD_PD;
	if ((e.rights & (QP_ACC_REMOTE_READ | QP_ACC_REMOTE_WRITE)) == 0)
		return QP_MR_BAD_RIGHTS;
	/* Only the entry that was looked at: pairs with the stores in qp_mr_reg() and qp_mr_dereg(). */
	struct qp_mr *mr = &dev->mr[stag >> 8];
	uint32_t word = __atomic_load_n(&mr->word, __ATOMIC_ACQUIRE);
	while ((word & (WORD_VALID | WORD_KEY)) == (WORD_VALID | (stag & WORD_KEY)))
		if (__atomic_compare_exchange_n(&mr->word, &word, word & ~WORD_VALID, false, __ATOMIC_SEQ_CST,
						__ATOMIC_ACQUIRE))
			return QP_MR_OK;
	return QP_MR_BAD_STAG;
}
