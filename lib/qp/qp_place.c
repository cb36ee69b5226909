/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placing: the one copy of a received byte. In a long burst large segments are streamed past the caches (rn_stream.h),
 * for three reasons: the cached data that they would displace is worth more; streaming stores do not wait for a cache
 * line's memory; and they need not fetch lines from another core, where a client has read the buffer before.
 *
 * A client may watch the last byte of a message and take it for the whole. So the last word of a message is stored when
 * all other bytes have been: memcpy() and rn_copy() keep no order. After streamed stores the end of a message is held
 * back until a fence: qp_place_settle(). The fence comes when the turn's completions are published; by then the stores
 * have drained, and the fence does not wait.
 */
#include "qp/qp_int.h"

#define STREAM_BURST 16u   /* frames: a shorter burst is part of a dialogue, whose data is read at once */
#define DST_MAX      16u   /* pieces of a region looked up at a time */
#define STREAM_MIN   2048u /* bytes of a segment in one piece: below, streaming gains nothing */
#define WORD         8u    /* bytes at the end of a message that are one store */

/* Copies the end of a message: its last word comes behind all bytes that have been copied before. */
static inline void copy_end(uint8_t *dst, const uint8_t *src, uint32_t len)
{
	const uint32_t rest = len - rn_min_u32(len, WORD);

	rn_copy(dst, src, rest);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (rn_likely(len >= WORD))
		memcpy(dst + rest, src + rest, WORD);
	else
		memcpy(dst, src, len);
}

void qp_burst(struct qp_ctx *ctx, uint32_t frames) { ctx->stream.on = frames >= STREAM_BURST; }

void qp_place_fence(struct qp_ctx *ctx)
{
	struct qp_stream *st = &ctx->stream;

	rn_stream_fence();
	for (uint32_t i = 0; i < st->n; i++)
		copy_end(st->end[i].dst, st->end[i].bytes, st->end[i].len);
	st->n = 0;
	st->out = false;
}

static bool is_held(const struct qp_stream *st, const uint8_t *dst, uint32_t len)
{
	for (uint32_t i = 0; i < st->n; i++)
		if (dst < st->end[i].dst + st->end[i].len && st->end[i].dst < dst + len)
			return true;
	return false;
}

static void hold(struct qp_stream *st, uint8_t *dst, const uint8_t *src, uint32_t len)
{
	struct qp_stream_end *e = &st->end[st->n++];

	e->dst = dst;
	e->len = len;
	memcpy(e->bytes, src, len);
}

/* Places one slice of a segment in a long burst. last: the slice ends its message. */
static void put(struct qp_ctx *ctx, uint8_t *dst, const struct rn_iov *src, bool last)
{
	struct qp_stream *st = &ctx->stream;
	bool large = src->len >= STREAM_MIN;

	if (is_held(st, dst, src->len) || st->n == RN_ARRAY_LEN(st->end))
		qp_place_fence(ctx);
	uint32_t end = last && (large || st->out) ? rn_min_u32(src->len, sizeof(st->end[0].bytes)) : 0;
	uint32_t len = src->len - end;
	if (large) {
		st->copy(dst, src->base, len);
		st->out = true;
		ctx->stats.bytes_streamed += len;
	} else if (last && end == 0) {
		copy_end(dst, src->base, len);
	} else {
		rn_copy(dst, src->base, len);
	}
	if (end > 0)
		hold(st, dst + len, src->base + len, end);
}

/* Copies `bytes` bytes from list to list; both have that many. last: they end their message. */
static void copy_iov(const struct rn_iov *dst, const struct rn_iov *src, uint32_t bytes, bool last)
{
	uint32_t doff = 0, soff = 0;

	while (bytes > 0) {
		uint32_t take = rn_min_u32(rn_min_u32(dst->len - doff, src->len - soff), bytes);

		if (last && take == bytes)
			copy_end(dst->base + doff, src->base + soff, take);
		else
			rn_copy(dst->base + doff, src->base + soff, take);
		bytes -= take;
		doff += take;
		soff += take;
		if (doff == dst->len) {
			dst++;
			doff = 0;
		}
		if (soff == src->len) {
			src++;
			soff = 0;
		}
	}
}

/* For an access with more slices than a list holds: copies list by list, beginning with the k slices in dst. */
static enum qp_mr_verdict place_many(const struct qp_dev *dev, const struct qp_access *a, const struct rn_iov *src,
				     uint32_t n, struct rn_iov dst[DST_MAX], uint32_t k)
{
	struct qp_access part = *a;
	struct rn_iov sub[QP_ULPDU_IOV + 1];
	enum qp_mr_verdict v = QP_MR_TOO_MANY;
	uint32_t done = 0;

	while (v == QP_MR_TOO_MANY) {
		uint32_t got = (uint32_t)rn_iov_len(dst, k);

		if (rn_iov_cut(src, n, done, got, sub, RN_ARRAY_LEN(sub)) == UINT32_MAX)
			return QP_MR_TOO_MANY;
		copy_iov(dst, sub, got, false);
		done += got;
		part.to = a->to + done;
		part.len = a->len - done;
		v = qp_mr_slices(dev, &part, dst, DST_MAX, &k);
		if (v == QP_MR_OK) {
			if (rn_iov_cut(src, n, done, part.len, sub, RN_ARRAY_LEN(sub)) == UINT32_MAX)
				return QP_MR_TOO_MANY;
			copy_iov(dst, sub, part.len, a->last);
		}
	}
	return v;
}

enum qp_mr_verdict qp_place(struct qp_ctx *ctx, const struct qp_dev *dev, const struct qp_access *a,
			    const struct rn_iov *src, uint32_t n)
{
	struct rn_iov dst[DST_MAX];
	uint32_t k;

	enum qp_mr_verdict v = qp_mr_slices(dev, a, dst, DST_MAX, &k);
	if (ctx->stream.on && n == 1 && k == 1 && v == QP_MR_OK) {
		put(ctx, dst[0].base, &src[0], a->last);
		return QP_MR_OK;
	}
	qp_place_settle(ctx);
	if (rn_likely(v == QP_MR_OK && k == 1 && n == 1 && a->last))
		copy_end(dst[0].base, src[0].base, a->len);
	else if (rn_likely(v == QP_MR_OK && k == 1 && !a->last))
		rn_iov_gather(src, n, dst[0].base, a->len);
	else if (v == QP_MR_OK)
		copy_iov(dst, src, a->len, a->last);
	else if (v == QP_MR_TOO_MANY)
		return place_many(dev, a, src, n, dst, k);
	return v;
}

enum qp_mr_verdict qp_rq_place(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct ddp_hdr *h,
			       const struct rn_iov *src, uint32_t n)
{
	uint32_t mo = h->mo, left = (uint32_t)rn_iov_len(src, n), done = 0;
	struct rn_iov sub[QP_ULPDU_IOV + 1];

	/* nearly all receives have one piece of memory: no list has to be cut */
	if (rn_likely(r->num_sge == 1 && left > 0 && mo <= r->sge[0].len && left <= r->sge[0].len - mo &&
		      r->sge[0].addr <= UINT64_MAX - mo)) {
		const struct qp_access a = { .pd = qp->recv_pd,
					     .stag = r->sge[0].lkey,
					     .to = r->sge[0].addr + mo,
					     .len = left,
					     .rights = QP_ACC_LOCAL_WRITE,
					     .last = h->last };
		return qp_place(ctx, qp->dev, &a, src, n);
	}
	for (uint32_t i = 0; i < r->num_sge && left > 0; i++) {
		const struct qp_sge *g = &r->sge[i];

		if (mo >= g->len) {
			mo -= g->len;
			continue;
		}
		struct qp_access a = { .pd = qp->recv_pd,
				       .stag = g->lkey,
				       .to = g->addr + mo,
				       .len = rn_min_u32(g->len - mo, left),
				       .rights = QP_ACC_LOCAL_WRITE };
		if (g->addr > UINT64_MAX - mo)
			return QP_MR_TO_WRAP;
		uint32_t k = rn_iov_cut(src, n, done, a.len, sub, RN_ARRAY_LEN(sub));
		if (k == UINT32_MAX)
			return QP_MR_TOO_MANY;
		a.last = h->last && left == a.len;
		enum qp_mr_verdict v = qp_place(ctx, qp->dev, &a, sub, k);
		if (v != QP_MR_OK)
			return v;
		left -= a.len;
		done += a.len;
		mo = 0;
	}
	return QP_MR_OK;
}
