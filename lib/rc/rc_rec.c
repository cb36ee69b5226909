/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a record: as slices or as a copy.
 *
 * The memory that a message is sent from may change at any time: a peer reads what its owner writes (RFC 5040 has
 * nothing against it). So a CRC is summed over the very bytes that leave, in the pass that copies them, and again when
 * they are sent again. A peer that has taken one sending of an FPDU throws the other one away whole. Of an FPDU that
 * this side sends in parts the peer could put together bytes of two sendings: the parts are taken from a copy, made
 * when the first part leaves.
 *
 * One case has no mend here: a box on the way cuts a segment in two, one half is lost, and the memory has changed when
 * the FPDU is sent again. The peer then joins an old half with a new one, and its CRC check ends the connection. Only a
 * copy of each FPDU, kept until it is acknowledged, would prevent that.
 */
#include "rc/rc_int.h"

static inline bool whole(const struct rc_rec *r, const struct rc_part *p) { return p->len == r->f.len; }

uint32_t rc_slices(const struct rc_part *part, bool alone, struct rn_iov *iov, uint32_t max, bool *crc_due)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)part->ref;

	*crc_due = false;
	if (part->ref == RC_REF_FRAME)
		return 0;
	if (r->crc && (!alone || !whole(r, part) || r->copy != NULL))
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
 * Peers with small windows must not take the stages from those who receive: beyond a quarter of them the parts come
 * from the memory itself, and the CRC is good as long as that stays as it is.
 */
static void keep_copy(struct rc_ctx *ctx, struct rc_rec *r)
{
	if (ctx->tx_stages < (ctx->cfg.stages + 3) / 4)
		r->copy = rc_stage_get(ctx);
	if (r->copy != NULL) {
		mpa_tx_copy(&r->f, true, r->copy);
		ctx->tx_stages++;
	} else {
		mpa_tx_crc(&r->f);
	}
}

/* A part of an FPDU; with CRC from its copy, which is made now unless it is there. */
static void copy_part(struct rc_ctx *ctx, struct rc_rec *r, const struct rc_part *part, uint8_t *dst)
{
	struct rn_iov iov[MPA_TX_IOV(QP_SEG_SLICES, MPA_TX_MARKERS)];

	if (r->crc && r->copy == NULL)
		keep_copy(ctx, r);
	if (r->copy != NULL) {
		memcpy(dst, r->copy + part->off, part->len);
		return;
	}
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
	if (rn_unlikely(!whole(r, part) || r->copy != NULL)) {
		copy_part(ctx, r, part, dst);
		return;
	}
	*crc_due = open && r->crc;
	mpa_tx_copy(&r->f, r->crc && !*crc_due, dst);
}
