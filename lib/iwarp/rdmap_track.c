/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/rdmap_track.h"

#include "base/rn_seq.h"

struct iw_err rdmap_verdict_err(enum rdmap_verdict v, const struct ddp_hdr *h)
{
	bool rr = h->opcode == RDMAP_READ_REQ;

	switch (v) {
	case RDMAP_NO_BUFFER:
	case RDMAP_IRD_OVERFLOW: /* the inbound depth is QN 1's buffer count (RFC 5040 section 5.1.2) */
		return iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER, rr);
	case RDMAP_MSN_REPEAT:
	case RDMAP_MSN_GAP: return iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_MSN_RANGE, rr);
	case RDMAP_MO_WRONG: return iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_MO, rr);
	case RDMAP_TOO_LONG: return iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_TOO_LONG, rr);
	case RDMAP_READ_STAG: return iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, rr);
	case RDMAP_READ_TO:
	case RDMAP_READ_OVERRUN: return iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS, rr);
	case RDMAP_OP_CHANGED:
	case RDMAP_READ_NONE: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE, rr);
	case RDMAP_OK:
	case RDMAP_DONE:
	case RDMAP_READ_LAST:
	case RDMAP_ATOMIC_ID: break;
	}
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, rr);
}

void ddp_uq_init(struct ddp_uq *q) { *q = (struct ddp_uq){ .msn = 1 }; /* RFC 5041 section 5.1: MSNs start at 1 */ }

enum rdmap_verdict ddp_uq_check(const struct ddp_uq *q, const struct ddp_hdr *h, uint32_t posted, uint32_t buf_len)
{
	if (h->msn != q->msn)
		return rn_seq_lt(h->msn, q->msn) ? RDMAP_MSN_REPEAT : RDMAP_MSN_GAP;
	if (posted == 0)
		return RDMAP_NO_BUFFER;
	if (q->open && (h->opcode != q->opcode || h->stag != q->stag))
		return RDMAP_OP_CHANGED;
	if (h->mo != q->mo)
		return RDMAP_MO_WRONG;
	if (!rn_in_range(h->mo, h->payload_len, buf_len))
		return RDMAP_TOO_LONG;
	return h->last ? RDMAP_DONE : RDMAP_OK;
}

void ddp_uq_advance(struct ddp_uq *q, const struct ddp_hdr *h)
{
	if (h->last) {
		q->msn++;
		q->mo = 0;
		q->open = false;
		return;
	}
	q->mo += h->payload_len;
	q->opcode = h->opcode;
	q->stag = h->stag;
	q->open = true;
}

enum rdmap_verdict ddp_uq_peek(const struct ddp_uq *q, const struct ddp_hdr *h, uint32_t posted, uint32_t *slot)
{
	if (rn_seq_lt(h->msn, q->msn))
		return RDMAP_MSN_REPEAT;
	*slot = h->msn - q->msn;
	return *slot < posted ? RDMAP_OK : RDMAP_NO_BUFFER;
}

void rdmap_readq_init(struct rdmap_readq *q, struct rdmap_read *ring, uint32_t entries, uint32_t ord)
{
	*q = (struct rdmap_readq){ .ring = ring, .mask = entries - 1, .ord = rn_min_u32(ord, entries) };
}

struct rdmap_read *rdmap_readq_head(const struct rdmap_readq *q)
{
	return q->head == q->tail ? NULL : &q->ring[q->head & q->mask];
}

struct rdmap_read *rdmap_readq_post(struct rdmap_readq *q, uint32_t stag, uint64_t to, uint32_t len, uint32_t cookie)
{
	struct rdmap_read *r = &q->ring[q->tail++ & q->mask];

	*r = (struct rdmap_read){ .stag = stag, .to = to, .len = len, .cookie = cookie };
	return r;
}

void rdmap_readq_post_atomic(struct rdmap_readq *q, uint32_t stag, uint64_t to, uint32_t id, uint32_t cookie)
{
	q->ring[q->tail++ & q->mask] = (struct rdmap_read){
		.stag = stag, .to = to, .len = sizeof(uint64_t), .cookie = cookie, .id = id, .atomic = true
	};
}

bool rdmap_readq_bring(struct rdmap_readq *q, uint32_t id)
{
	struct rdmap_read *head = rdmap_readq_head(q);

	for (uint32_t i = q->head; i != q->tail; i++) {
		struct rdmap_read *r = &q->ring[i & q->mask];

		if (r->id != id)
			continue;
		const struct rdmap_read other = *head;
		*head = *r;
		if (r != head)
			*r = other;
		return true;
	}
	return false;
}

enum rdmap_verdict rdmap_readq_check_atomic(const struct rdmap_readq *q, uint32_t id)
{
	const struct rdmap_read *r = rdmap_readq_head(q);

	if (r == NULL || !r->atomic)
		return RDMAP_READ_NONE;
	return r->id == id ? RDMAP_DONE : RDMAP_ATOMIC_ID;
}

enum rdmap_verdict rdmap_readq_check(const struct rdmap_readq *q, const struct ddp_hdr *h)
{
	const struct rdmap_read *r = rdmap_readq_head(q);

	if (r == NULL || r->atomic)
		return RDMAP_READ_NONE;
	/* The sink of a zero-length Read is not validated, so neither is its echo (RFC 5040 section 5.2). */
	if (r->len > 0 && h->stag != r->stag)
		return RDMAP_READ_STAG;
	if (r->len > 0 && h->to != r->to + r->got)
		return RDMAP_READ_TO;
	if (!rn_in_range(r->got, h->payload_len, r->len))
		return RDMAP_READ_OVERRUN;
	bool end = r->got + h->payload_len == r->len;
	if (end != h->last)
		return RDMAP_READ_LAST;
	return end ? RDMAP_DONE : RDMAP_OK;
}

void rdmap_readq_advance(struct rdmap_readq *q, const struct ddp_hdr *h)
{
	struct rdmap_read *r = &q->ring[q->head & q->mask];

	r->got += h->payload_len;
	if (h->last)
		q->head++;
}

enum rdmap_verdict rdmap_readq_peek(const struct rdmap_readq *q, const struct ddp_hdr *h)
{
	for (uint32_t i = q->head; i != q->tail; i++) {
		const struct rdmap_read *r = &q->ring[i & q->mask];

		if (!r->atomic && h->stag == r->stag && h->to >= r->to &&
		    rn_in_range(h->to - r->to, h->payload_len, r->len))
			return RDMAP_OK;
	}
	return q->head == q->tail ? RDMAP_READ_NONE : RDMAP_READ_OVERRUN;
}

enum rdmap_verdict rdmap_ird_take(struct rdmap_ird *q)
{
	if (q->used >= q->depth)
		return RDMAP_IRD_OVERFLOW;
	q->used++;
	return RDMAP_OK;
}
