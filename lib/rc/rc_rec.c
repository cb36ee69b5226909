/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a record: as slices or as a copy.
 *
 * The memory that a message is sent from may change at any time, since its owner may write to it (RFC 5040 allows
 * that). So the CRC is summed over the very bytes that are sent, in the pass that copies them, and anew for each
 * retransmission. A peer that has taken one sending of an FPDU throws the other one away whole.
 *
 * A peer that has taken a part of an FPDU could put together bytes of two sendings, and only one CRC can be right. So
 * a copy of the FPDU is kept from the first sending on, and retransmissions are taken from the copy:
 *
 *   this side sends the FPDU in parts         without a free copy the FPDU is not begun (rc_may_cut)
 *   a box on the way is known to cut          without a free copy the FPDU is not made (rc_tx_copies)
 *   a box on the way may cut (rc_part.keep)   without a free copy the FPDU is sent whole, from the client's memory
 *
 * A copy is kept, too, of an FPDU in flight whose memory the client gets back, since our Terminate stands behind the
 * FPDU and the QP's requests are flushed:
 *
 *   the client gets the memory (rc_let_go)    without a free copy the stream is reset
 *
 * The number of copies bounds the memory. What can wait leaves a quarter of them to what cannot go on otherwise, and
 * one tenant leaves a quarter to the others. So a connection with FPDUs in flight needs no copy that another one waits
 * for: an acknowledgement gives it the next turn.
 */
#include "rc/rc_int.h"

static inline bool whole(const struct rc_rec *r, const struct rc_part *p) { return p->len == r->f.len; }

uint32_t rc_slices(const struct rc_part *part, bool alone, struct rn_iov *iov, uint32_t max, bool *crc_due)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)part->ref;

	*crc_due = false;
	if (part->ref == RC_REF_FRAME)
		return 0;
	if (r->copy != NULL || (r->crc && (!alone || !whole(r, part) || part->keep)))
		return 0;
	if (r->f.markers != 0 && MPA_TX_IOV(r->f.n_iov - 2u, r->f.markers) > max)
		return 0; /* must be copied, with the markers inserted */
	uint32_t n = rn_iov_cut(r->f.iov, mpa_tx_slices(&r->f), part->off, part->len, iov, max);
	*crc_due = r->crc;
	return n == UINT32_MAX ? 0 : n;
}

bool rc_refers(uint64_t ref, const uint8_t *base, uint64_t len)
{
	const struct rc_rec *r = (const struct rc_rec *)(uintptr_t)ref;

	if (ref == RC_REF_FRAME)
		return false;
	for (uint32_t k = 0; k < r->f.n_iov; k++)
		if ((uint64_t)((const uint8_t *)r->f.iov[k].base - base) < len)
			return true;
	return false;
}

/* The whole FPDU, with its CRC if it has one. Each byte is read once. */
static void sum(struct rc_ctx *ctx, struct rc_rec *r, uint8_t *dst)
{
	ctx->qp.stats.copied_tx += r->f.len;
	ctx->qp.stats.summed_tx += r->crc ? r->f.len : 0;
	mpa_tx_copy(&r->f, r->crc, dst);
}

/* Whether a copy is free for an FPDU that can go without one, or wait. */
static bool spare(const struct rc_ctx *ctx, const struct rc *c)
{
	const uint32_t all = ctx->cfg.copies;

	return ctx->copies_left > all / 4 && ctx->copies_of[rc_tenant(c)] < all - all / 2;
}

/* Keeps a copy of the FPDU if one is free. */
static bool keep_copy(struct rc_ctx *ctx, const struct rc *c, struct rc_rec *r, bool need)
{
	if (r->copy == NULL && (need ? rc_copy_left(ctx, c) : spare(ctx, c))) {
		r->copy = rc_copy_get(ctx, r->tenant);
		sum(ctx, r, r->copy);
	}
	return r->copy != NULL;
}

/* A connection has a quarter of the copies at most. */
bool rc_tx_copies(struct rc_ctx *ctx, struct rc *c)
{
	if (!c->agreed.crc)
		return true;
	if (c->out.flying != 0)
		return c->out.flying < ctx->cfg.copies / 4 && spare(ctx, c);
	if (!rc_copy_left(ctx, c)) {
		rc_cut_waits(ctx, c);
		return false;
	}
	return true;
}

void rc_cut_waits(struct rc_ctx *ctx, struct rc *c)
{
	ctx->qp.stats.no_copy++;
	rc_starve(ctx, c, RC_WANT_COPY);
}

void rc_keep(struct rc_ctx *ctx, const struct rc *c, uint64_t ref)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)ref;

	if (r->crc)
		(void)keep_copy(ctx, c, r, true);
}

/* Whether a byte of the record lies elsewhere than in the record: in memory of a client. */
static bool lends(const struct rc_ctx *ctx, struct rc_rec *r)
{
	const uint8_t *from = (const uint8_t *)r;
	const uint64_t size = (uint64_t)(rc_rec_inline(ctx, r) + QP_MAX_INLINE - from);

	for (uint32_t k = 0; k < r->f.n_iov; k++)
		if (r->f.iov[k].len != 0 && (uint64_t)((const uint8_t *)r->f.iov[k].base - from) >= size)
			return true;
	return false;
}

bool rc_let_go(struct rc_ctx *ctx, const struct rc *c, uint64_t ref)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)ref;

	return ref == RC_REF_FRAME || !lends(ctx, r) || keep_copy(ctx, c, r, true);
}

/*
 * Copies a part of an FPDU. An FPDU with a CRC is taken from its copy, which is made first if necessary. One that was
 * sent whole without a copy, and that a box has cut, has none: the bytes of that sending are no longer known.
 */
static void copy_part(struct rc_ctx *ctx, const struct rc *c, struct rc_rec *r, const struct rc_part *part,
		      uint8_t *dst)
{
	struct rn_iov iov[MPA_TX_IOV(QP_SEG_SLICES, MPA_TX_MARKERS)];

	if (r->crc || r->copy != NULL) {
		if (!keep_copy(ctx, c, r, part->off == 0))
			sum(ctx, r, ctx->copy_once);
		memcpy(dst, (r->copy != NULL ? r->copy : ctx->copy_once) + part->off, part->len);
		return;
	}
	/* room for all slices of a record, so the cut cannot fail */
	uint32_t k = rn_iov_cut(r->f.iov, mpa_tx_slices(&r->f), part->off, part->len, iov, RN_ARRAY_LEN(iov));
	rn_iov_gather(iov, k, dst, part->len);
}

RN_STRAIGHT void rc_copy(struct rc_ctx *ctx, const struct rc *c, const struct rc_part *part, uint8_t *dst,
			 bool *crc_due)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)part->ref;
	bool open = *crc_due;

	*crc_due = false;
	ctx->qp.stats.copied_tx += part->len;
	if (rn_unlikely(part->ref == RC_REF_FRAME)) {
		memcpy(dst, c->setup->out.buf + part->off, part->len);
		return;
	}
	if (rn_unlikely(!whole(r, part) || r->copy != NULL || (part->keep && r->crc && keep_copy(ctx, c, r, false)))) {
		copy_part(ctx, c, r, part, dst);
		return;
	}
	*crc_due = open && r->crc;
	if (r->crc && !*crc_due)
		ctx->qp.stats.summed_tx += part->len;
	mpa_tx_copy(&r->f, r->crc && !*crc_due, dst);
}
