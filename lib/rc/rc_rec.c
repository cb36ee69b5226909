/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a record: as slices or as a copy.
 *
 * The memory that a message is sent from may change at any time: a peer reads what its owner writes (RFC 5040 has
 * nothing against it). So a CRC is summed over the very bytes that leave, in the pass that copies them, and again when
 * they are sent again. A peer that has taken one sending of an FPDU throws the other one away whole.
 *
 * A peer that has taken a part of an FPDU could put together bytes of two sendings, and only one CRC can be right. So a
 * copy of the FPDU is kept from its first sending on, and what is sent again is taken from the copy: where this side
 * sends the FPDU in parts, and where a box on the way may cut segments in two (rc_part.keep).
 */
#include "rc/rc_int.h"

static inline bool whole(const struct rc_rec *r, const struct rc_part *p) { return p->len == r->f.len; }

uint32_t rc_slices(const struct rc_part *part, bool alone, struct rn_iov *iov, uint32_t max, bool *crc_due)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)part->ref;

	*crc_due = false;
	if (part->ref == RC_REF_FRAME)
		return 0;
	if (r->crc && (!alone || !whole(r, part) || part->keep || r->copy != NULL))
		return 0;
	if (r->f.markers != 0 && MPA_TX_IOV(r->f.n_iov - 2u, r->f.markers) > max)
		return 0; /* copied, with the markers put in on the way */
	uint32_t n = rn_iov_cut(r->iov, mpa_tx_slices(&r->f), part->off, part->len, iov, max);
	*crc_due = r->crc;
	return n == UINT32_MAX ? 0 : n;
}

bool rc_refers(uint64_t ref, const uint8_t *base, uint64_t len)
{
	const struct rc_rec *r = (const struct rc_rec *)(uintptr_t)ref;

	if (ref == RC_REF_FRAME)
		return false;
	for (uint32_t k = 0; k < r->f.n_iov; k++)
		if ((uint64_t)((const uint8_t *)r->iov[k].base - base) < len)
			return true;
	return false;
}

/*
 * False: all copies are in use. The bytes then come from the memory itself; the CRC is good while they stay the same.
 */
static bool keep_copy(struct rc_ctx *ctx, struct rc_rec *r)
{
	if (r->copy == NULL && r->f.len <= ctx->cfg.max_mtu && (r->copy = rc_copy_get(ctx)) != NULL)
		mpa_tx_copy(&r->f, true, r->copy);
	return r->copy != NULL;
}

/*
 * One connection has a quarter of the copies at most. While an FPDU is on the way, its acknowledgement gives the
 * connection its next turn.
 */
bool rc_tx_copies(const struct rc_ctx *ctx, const struct rc *c)
{
	return c->out.flying == 0 || (ctx->copies_left > 0 && c->out.flying < ctx->cfg.copies / 4);
}

/* A part of an FPDU; with CRC from its copy, which is made now unless it is there. */
static void copy_part(struct rc_ctx *ctx, struct rc_rec *r, const struct rc_part *part, uint8_t *dst)
{
	struct rn_iov iov[MPA_TX_IOV(QP_SEG_SLICES, MPA_TX_MARKERS)];

	if (r->crc && keep_copy(ctx, r)) {
		memcpy(dst, r->copy + part->off, part->len);
		return;
	}
	if (r->crc)
		mpa_tx_crc(&r->f);
	/* as many slices as a record can have: it cannot fail */
	uint32_t k = rn_iov_cut(r->iov, mpa_tx_slices(&r->f), part->off, part->len, iov, RN_ARRAY_LEN(iov));
	rn_iov_gather(iov, k, dst, part->len);
}

void rc_copy(struct rc_ctx *ctx, const struct rc *c, const struct rc_part *part, uint8_t *dst, bool *crc_due)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)part->ref;
	bool open = *crc_due;

	*crc_due = false;
	if (rn_unlikely(part->ref == RC_REF_FRAME)) {
		memcpy(dst, c->setup->out.buf + part->off, part->len);
		return;
	}
	if (rn_unlikely(!whole(r, part) || r->copy != NULL || (part->keep && r->crc && keep_copy(ctx, r)))) {
		copy_part(ctx, r, part, dst);
		return;
	}
	*crc_due = open && r->crc;
	mpa_tx_copy(&r->f, r->crc && !*crc_due, dst);
}
