/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/qp_dev.h"

/* Bits of an entry's word. */
#define WORD_KEY      UINT64_C(0xff)
#define WORD_VALID    (UINT64_C(1) << 8)  /* a region that may be used */
#define WORD_WINDOW   (UINT64_C(1) << 9)  /* a window that is bound */
#define WORD_BUSY     (UINT64_C(1) << 10) /* a window that a worker is binding */
#define WORD_MW       (UINT64_C(1) << 11) /* a window, bound or not */
#define WORD_GEN_STEP (UINT64_C(1) << 12)

/*
 * The free indices are an unordered array, whose n-th element lies in the n-th entry, so drawing any of them takes one
 * step. An element of 0 has never been written and stands for n + 1, so a new table is all zeros, and the memory of a
 * large one is not touched before it is used.
 */
static void free_put(struct qp_dev *dev, uint32_t i) { dev->mr[dev->n_free++].free = i; }

static uint32_t free_get(const struct qp_dev *dev, uint32_t at)
{
	return dev->mr[at].free != 0 ? dev->mr[at].free : at + 1;
}

static uint32_t free_draw(struct qp_dev *dev)
{
	uint32_t at = rn_rng_below(&dev->rng, dev->n_free), i = free_get(dev, at);

	dev->n_free--;
	if (at != dev->n_free)
		dev->mr[at].free = free_get(dev, dev->n_free);
	return i;
}

void qp_dev_init(struct qp_dev *dev, struct qp_mr *mr, uint32_t n, uint64_t seed)
{
	*dev = (struct qp_dev){ .mr = mr, .n = n, .n_free = n - 1 };
	rn_rng_seed(&dev->rng, seed);
}

void qp_dev_stir(struct qp_dev *dev, uint64_t random) { rn_rng_seed(&dev->rng, rn_rng_u64(&dev->rng) ^ random); }

static bool attr_good(const struct qp_mr_attr *a)
{
	uint64_t end = 0;

	if (a->npieces == 0) /* a null region */
		return a->iova == 0 && a->len == UINT64_MAX && a->rights == QP_ACC_LOCAL_WRITE;
	if (a->len == 0 || (a->rights & ~(uint32_t)QP_ACC_ALL) != 0)
		return false;
	if (a->iova > UINT64_MAX - (a->len - 1))
		return false;
	for (uint32_t i = 0; i < a->npieces; i++) {
		if (a->pieces[i].end <= end)
			return false;
		end = a->pieces[i].end;
	}
	return end == a->len;
}

/* A worker that read the old word must not take new fields for old ones: the generation moves first. */
static void word_move(struct qp_mr *mr)
{
	__atomic_store_n(&mr->word, (mr->word & ~(WORD_GEN_STEP - 1)) + WORD_GEN_STEP, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Draws a free entry, whose fields may be written until entry_publish. NULL: none is free. */
static struct qp_mr *entry_take(struct qp_dev *dev)
{
	if (dev->n_free == 0)
		return NULL;
	struct qp_mr *mr = &dev->mr[free_draw(dev)];
	word_move(mr);
	dev->live++;
	return mr;
}

static uint32_t entry_publish(struct qp_dev *dev, struct qp_mr *mr, uint64_t how)
{
	/* Any key but the last one of this entry: an STag is never that of the entry's last use. */
	uint32_t key = (mr->last_key + 1u + rn_rng_below(&dev->rng, QP_STAG_KEYS)) & (uint32_t)WORD_KEY;

	/* Release: pairs with the acquire in entry_read(). */
	__atomic_store_n(&mr->word, mr->word | how | key, __ATOMIC_RELEASE);
	return (uint32_t)(mr - dev->mr) << 8 | key;
}

static void entry_free(struct qp_dev *dev, uint32_t i)
{
	dev->mr[i].kind = QP_ENTRY_FREE;
	dev->mr[i].last_key = (uint8_t)(dev->mr[i].word & WORD_KEY); /* no worker changes the word of a free entry */
	dev->live--;
	free_put(dev, i);
}

static void region_fill(struct qp_mr *mr, const struct qp_mr_attr *a)
{
	mr->pd = a->pd;
	mr->rights = (uint8_t)a->rights;
	mr->iova = a->iova;
	mr->len = a->len;
	mr->npieces = a->npieces;
	mr->one = a->pieces[0];
	mr->pieces = a->npieces == 1 ? &mr->one : a->pieces;
	mr->kind = QP_ENTRY_MR;
}

enum qp_mr_verdict qp_mr_reg(struct qp_dev *dev, const struct qp_mr_attr *a, uint32_t *stag)
{
	if (!attr_good(a))
		return QP_MR_BAD_ATTR;
	struct qp_mr *mr = entry_take(dev);
	if (mr == NULL)
		return QP_MR_FULL;
	region_fill(mr, a);
	*stag = entry_publish(dev, mr, WORD_VALID);
	return QP_MR_OK;
}

static bool is_region(const struct qp_dev *dev, uint32_t stag)
{
	uint32_t i = stag >> 8;

	return i > 0 && i < dev->n && dev->mr[i].kind == QP_ENTRY_MR &&
	       (dev->mr[i].word & WORD_KEY) == (stag & WORD_KEY);
}

enum qp_mr_verdict qp_mr_change(struct qp_dev *dev, uint32_t stag, const struct qp_mr_attr *a)
{
	if (!is_region(dev, stag))
		return QP_MR_BAD_STAG;
	if (!attr_good(a))
		return QP_MR_BAD_ATTR;
	struct qp_mr *mr = &dev->mr[stag >> 8];
	word_move(mr);
	region_fill(mr, a);
	/* Release: pairs with the acquire in entry_read(). */
	__atomic_store_n(&mr->word, mr->word | WORD_VALID | (stag & WORD_KEY), __ATOMIC_RELEASE);
	return QP_MR_OK;
}

enum qp_mr_verdict qp_mr_dereg(struct qp_dev *dev, uint32_t stag)
{
	uint32_t i = stag >> 8;

	if (!is_region(dev, stag))
		return QP_MR_BAD_STAG;
	__atomic_fetch_and(&dev->mr[i].word, ~WORD_VALID, __ATOMIC_SEQ_CST);
	entry_free(dev, i);
	return QP_MR_OK;
}

/* The fields of a valid region, all of one generation. */
struct entry {
	uint64_t word;
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
	uint64_t word = __atomic_load_n(&mr->word, __ATOMIC_ACQUIRE);
	if (rn_unlikely((word & (WORD_VALID | WORD_KEY)) != (WORD_VALID | (stag & WORD_KEY))))
		return QP_MR_BAD_STAG;
	e->word = word;
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
	if (rn_unlikely(a->pd != e->pd))
		return QP_MR_BAD_PD;
	if (rn_unlikely((e->rights & a->rights) != a->rights))
		return QP_MR_BAD_RIGHTS;
	if (rn_unlikely(a->to > UINT64_MAX - (a->len - 1)))
		return QP_MR_TO_WRAP;
	if (rn_unlikely(a->to < e->iova || !rn_in_range(a->to - e->iova, a->len, e->len)))
		return QP_MR_BAD_BOUNDS;
	return QP_MR_OK;
}

/* ---- windows, looked up ---- */

struct window {
	uint64_t word;
	uint32_t pd, rights;
	uint64_t iova, len;
	uint64_t parent_word, start;
	uint32_t parent, qpn;
	bool narrow; /* type 2 */
};

static enum qp_mr_verdict window_read(const struct qp_dev *dev, uint32_t stag, struct window *w)
{
	uint32_t i = stag >> 8;

	if (i == 0 || i >= dev->n)
		return QP_MR_BAD_STAG;
	const struct qp_mr *mw = &dev->mr[i];
	uint64_t word = __atomic_load_n(&mw->word, __ATOMIC_ACQUIRE);
	if ((word & (WORD_WINDOW | WORD_KEY)) != (WORD_WINDOW | (stag & WORD_KEY)))
		return QP_MR_BAD_STAG;
	*w = (struct window){ .word = word,
			      .pd = mw->pd,
			      .rights = mw->rights,
			      .iova = mw->iova,
			      .len = mw->len,
			      .parent_word = mw->win.parent_word,
			      .start = mw->win.start,
			      .parent = mw->win.parent,
			      .qpn = mw->win.qpn,
			      .narrow = mw->kind == QP_ENTRY_MW_2 };
	/* Pairs with the stores in qp_mw_bind(). */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&mw->word, __ATOMIC_RELAXED) == word ? QP_MR_OK : QP_MR_BAD_STAG;
}

/* Checks the owner of a window: type 2 belongs to one QP, type 1 to its protection domain. */
static enum qp_mr_verdict window_owner(const struct window *w, uint32_t pd, uint32_t qpn)
{
	return pd == w->pd && (!w->narrow || w->qpn == qpn) ? QP_MR_OK : QP_MR_BAD_PD;
}

/*
 * Looks up a peer's access through a window: *e becomes the window's region, *off the place of the access in the
 * region.
 */
static enum qp_mr_verdict window_get(const struct qp_dev *dev, const struct qp_access *a, struct entry *e,
				     uint64_t *off)
{
	struct window w;

	if ((a->rights & QP_ACC_REMOTE) == 0 || window_read(dev, a->stag, &w) != QP_MR_OK)
		return QP_MR_BAD_STAG;
	enum qp_mr_verdict v = window_owner(&w, a->pd, a->qpn);
	if (v != QP_MR_OK)
		return v;
	const struct entry range = { .pd = a->pd, .rights = w.rights, .iova = w.iova, .len = w.len };
	v = entry_check(&range, a);
	if (v != QP_MR_OK)
		return v;
	uint32_t stag = w.parent << 8 | (uint32_t)(w.parent_word & WORD_KEY);
	if (entry_read(dev, stag, e) != QP_MR_OK || e->word != w.parent_word)
		return QP_MR_BAD_STAG;
	*off = (w.start - e->iova) + (a->to - w.iova);
	return QP_MR_OK;
}

uint32_t qp_mr_pd(const struct qp_dev *dev, uint32_t stag)
{
	struct entry e;
	struct window w;

	if (entry_read(dev, stag, &e) == QP_MR_OK)
		return e.pd;
	return window_read(dev, stag, &w) == QP_MR_OK ? w.pd : 0;
}

/* A function of its own, so that the lookup of a region keeps the entry in registers. */
static __attribute__((noinline)) enum qp_mr_verdict window_check(const struct qp_dev *dev, const struct qp_access *a)
{
	struct entry e;
	uint64_t off;

	return window_get(dev, a, &e, &off);
}

enum qp_mr_verdict qp_mr_check(const struct qp_dev *dev, const struct qp_access *a)
{
	struct entry e;

	if (a->len == 0)
		return QP_MR_OK;
	if (rn_unlikely(entry_read(dev, a->stag, &e) != QP_MR_OK))
		return window_check(dev, a);
	return entry_check(&e, a);
}

static enum qp_mr_verdict null_slices(const struct qp_piece two[2], const struct qp_access *a, struct rn_iov *out,
				      uint32_t max, uint32_t *n)
{
	const struct qp_piece *p = &two[(a->rights & QP_ACC_LOCAL_WRITE) != 0];

	for (uint32_t left = a->len; left > 0; left -= out[*n - 1].len) {
		if (*n == max)
			return QP_MR_TOO_MANY;
		out[(*n)++] = (struct rn_iov){ .base = p->base, .len = (uint32_t)rn_min_u64(left, p->end) };
	}
	return QP_MR_OK;
}

/* The piece of a region's list in which the byte at `off` lies. */
static uint32_t piece_at(const struct entry *e, uint64_t off)
{
	uint32_t from = 0, upto = e->npieces - 1;

	while (from < upto) {
		const uint32_t mid = from + (upto - from) / 2;

		if (e->pieces[mid].end > off)
			upto = mid;
		else
			from = mid + 1;
	}
	return from;
}

/* The slices of an access that begins `off` bytes into a region. */
static inline enum qp_mr_verdict entry_slices(const struct entry *e, uint64_t off, const struct qp_access *a,
					      struct rn_iov *out, uint32_t max, uint32_t *n)
{
	uint32_t len = a->len;

	if (rn_likely(e->npieces == 1)) {
		if (max == 0)
			return QP_MR_TOO_MANY;
		out[0] = (struct rn_iov){ .base = e->one.base + off, .len = len };
		*n = 1;
		return QP_MR_OK;
	}
	if (e->npieces == 0)
		return null_slices(e->pieces, a, out, max, n);
	for (uint32_t i = piece_at(e, off); len > 0 && i < e->npieces; i++) {
		const struct qp_piece *p = &e->pieces[i];
		const uint64_t begin = i > 0 ? p[-1].end : 0;

		if (*n == max)
			return QP_MR_TOO_MANY;
		uint32_t take = (uint32_t)rn_min_u64(p->end - off, len);
		out[(*n)++] = (struct rn_iov){ .base = p->base + (off - begin), .len = take };
		len -= take;
		off += take;
	}
	return QP_MR_OK;
}

static __attribute__((noinline)) enum qp_mr_verdict window_slices(const struct qp_dev *dev, const struct qp_access *a,
								  struct rn_iov *out, uint32_t max, uint32_t *n)
{
	struct entry e;
	uint64_t off;
	enum qp_mr_verdict v = window_get(dev, a, &e, &off);

	return v == QP_MR_OK ? entry_slices(&e, off, a, out, max, n) : v;
}

enum qp_mr_verdict qp_mr_slices(const struct qp_dev *dev, const struct qp_access *a, struct rn_iov *out, uint32_t max,
				uint32_t *n)
{
	struct entry e;

	*n = 0;
	if (a->len == 0)
		return QP_MR_OK;
	if (rn_unlikely(entry_read(dev, a->stag, &e) != QP_MR_OK))
		return window_slices(dev, a, out, max, n);
	enum qp_mr_verdict v = entry_check(&e, a);
	if (rn_unlikely(v != QP_MR_OK))
		return v;
	return entry_slices(&e, a->to - e.iova, a, out, max, n);
}

/* Compares and swaps the word that was looked at: pairs with the stores of registering and binding. */
static enum qp_mr_verdict word_clear(struct qp_mr *mr, uint64_t word, uint64_t bit)
{
	return __atomic_compare_exchange_n(&mr->word, &word, word & ~bit, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)
		       ? QP_MR_OK
		       : QP_MR_BAD_STAG;
}

enum qp_mr_verdict qp_mr_invalidate(struct qp_dev *dev, uint32_t pd, uint32_t qpn, uint32_t stag)
{
	struct window w;
	struct entry e;

	if (entry_read(dev, stag, &e) == QP_MR_OK) {
		if (pd != e.pd)
			return QP_MR_BAD_PD;
		if ((e.rights & QP_ACC_REMOTE) == 0)
			return QP_MR_BAD_RIGHTS;
		return word_clear(&dev->mr[stag >> 8], e.word, WORD_VALID);
	}
	enum qp_mr_verdict v = window_read(dev, stag, &w);
	if (v == QP_MR_OK)
		v = window_owner(&w, pd, qpn);
	if (v == QP_MR_OK && !w.narrow)
		v = QP_MR_BAD_RIGHTS;
	return v == QP_MR_OK ? word_clear(&dev->mr[stag >> 8], w.word, WORD_WINDOW) : v;
}

/* ---- windows, allocated and bound ---- */

enum qp_mr_verdict qp_mw_alloc(struct qp_dev *dev, uint32_t pd, enum qp_entry_kind kind, uint32_t *stag)
{
	struct qp_mr *mw = entry_take(dev);

	if (mw == NULL)
		return QP_MR_FULL;
	mw->pd = pd;
	mw->kind = (uint8_t)kind;
	*stag = entry_publish(dev, mw, WORD_MW);
	return QP_MR_OK;
}

void qp_mw_close(struct qp_dev *dev, uint32_t stag)
{
	/* A worker that is binding the window finds its word changed and gives up. */
	__atomic_fetch_and(&dev->mr[stag >> 8].word, ~(WORD_MW | WORD_WINDOW | WORD_BUSY), __ATOMIC_SEQ_CST);
}

void qp_mw_free(struct qp_dev *dev, uint32_t stag) { entry_free(dev, stag >> 8); }

/* Checks the region that a window is to be bound to. */
static enum qp_mr_verdict bind_check(const struct qp_mw_bind *b, const struct entry *e)
{
	const uint32_t changes = QP_ACC_REMOTE_WRITE | QP_ACC_REMOTE_ATOMIC;

	if (b->pd != e->pd)
		return QP_MR_BAD_PD;
	if ((e->rights & QP_ACC_MW_BIND) == 0 || ((b->access & changes) && !(e->rights & QP_ACC_LOCAL_WRITE)))
		return QP_MR_BAD_RIGHTS;
	if (b->addr < e->iova || !rn_in_range(b->addr - e->iova, b->len, e->len))
		return QP_MR_BAD_BOUNDS;
	return QP_MR_OK;
}

enum qp_mr_verdict qp_mw_bind(struct qp_dev *dev, const struct qp_mw_bind *b)
{
	struct entry e = { 0 };
	uint32_t i = b->stag >> 8;

	if (i == 0 || i >= dev->n)
		return QP_MR_BAD_STAG;
	struct qp_mr *mw = &dev->mr[i];
	uint64_t word = __atomic_load_n(&mw->word, __ATOMIC_ACQUIRE);
	bool narrow = mw->kind == QP_ENTRY_MW_2; /* as with pd: valid if the word is unchanged at the exchange below */
	if ((word & (WORD_MW | WORD_BUSY)) != WORD_MW)
		return QP_MR_BAD_STAG;
	if (b->pd != mw->pd)
		return QP_MR_BAD_PD;
	if ((b->access & ~(uint32_t)(QP_ACC_REMOTE | QP_ACC_ZERO_BASED)) != 0 ||
	    (narrow && (b->len == 0 || (word & WORD_WINDOW) != 0)))
		return QP_MR_BAD_ATTR;
	if (b->len > 0) {
		enum qp_mr_verdict v = entry_read(dev, b->lkey, &e);
		if (v == QP_MR_OK)
			v = bind_check(b, &e);
		if (v != QP_MR_OK)
			return v;
	}
	uint64_t busy = (word & ~(WORD_GEN_STEP - 1)) + WORD_GEN_STEP + (WORD_MW | WORD_BUSY);
	if (!__atomic_compare_exchange_n(&mw->word, &word, busy, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return QP_MR_BAD_STAG;
	__atomic_thread_fence(__ATOMIC_RELEASE); /* the word moves before the fields: pairs with window_read() */
	mw->rights = (uint8_t)(b->access & QP_ACC_REMOTE);
	mw->iova = b->access & QP_ACC_ZERO_BASED ? 0 : b->addr;
	mw->len = b->len;
	mw->win.parent_word = e.word;
	mw->win.start = b->addr;
	mw->win.parent = b->lkey >> 8;
	mw->win.qpn = b->qpn;
	uint64_t bound = (busy & ~WORD_BUSY) | (b->stag & WORD_KEY) | (b->len > 0 ? WORD_WINDOW : 0);
	return __atomic_compare_exchange_n(&mw->word, &busy, bound, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)
		       ? QP_MR_OK
		       : QP_MR_BAD_STAG;
}
