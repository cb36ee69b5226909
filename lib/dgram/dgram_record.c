/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Write-Record: a Write over datagrams. Each segment is placed when it arrives, and completions tell the target
 * which octets are valid: one completion when the record is whole; else, when no new segment has come for d->timeout,
 * one completion for each valid range. A record consumes no receive. Memory, bounds and rights are checked with each
 * segment, so an STag that is invalidated in the middle of a record stops the rest of the record. A queue pair with a
 * ring of maps gets one completion for an incomplete record, and a map that says which segments have come.
 *
 * A record to a group names a tag in place of an STag, as the members share no STag. Each member has bound the tag to
 * memory of its own.
 */
#include <string.h>

#include "dgram/dgram.h"

_Static_assert(QP_MAP_SEGS == UDPL_SEGS_MAX, "a bit for each segment of a record");

enum spsc_verdict dgram_msgs_maps(struct dgram_msgs *g, const struct spsc_place *at)
{
	return spsc_prod_attach(&g->maps, at);
}

/*
 * Reports an incomplete record by a map and one completion. The client can see the map before the completion: the map
 * is published at once, the completion at the turn's end.
 */
static bool tell_map(struct dgram_ctx *d, struct qp *qp, struct dgram_msg *m, struct qp_cqe *cqe)
{
	struct spsc_prod *ring = &dgram_msgs_of(qp)->maps;

	if (qp_extra_room(d->qp, qp) == 0 || spsc_prod_free(ring, 1) == 0)
		return false;
	struct qp_record_map *map = spsc_prod_slot(ring, 0);
	*map = (struct qp_record_map){
		.to = m->to, .unit = m->unit, .total = m->total, .valid = m->valid, .src_qp = m->key.src_qpn
	};
	memcpy(map->seg, m->map, ((m->total - 1) / m->unit / 64 + 1) * sizeof(map->seg[0]));
	spsc_prod_publish(ring, 1);
	cqe->wr_id = m->to;
	cqe->byte_len = m->valid;
	cqe->flags = QP_WCF_RECORD_MAP | (m->has_imm ? QP_WCF_WITH_IMM : 0);
	qp_extra_cqe(d->qp, qp, cqe, m->key.src);
	m->told = m->total;
	return true;
}

bool dgram_record_tell(struct dgram_ctx *d, struct qp *qp, struct dgram_msg *m)
{
	struct qp_cqe cqe = { .op = QP_WC_RECORD, .src_qp = m->key.src_qpn };
	uint32_t off = m->told, len;

	if (m->has_imm)
		memcpy(&cqe.aux, m->imm, sizeof(m->imm));
	if (dgram_msgs_of(qp)->maps.slots != NULL && m->valid > 0 && m->valid < m->total)
		return tell_map(d, qp, m, &cqe);
	for (len = dgram_msg_valid(m, &off); len > 0; len = dgram_msg_valid(m, &off)) {
		uint32_t next = off + len;

		if (qp_extra_room(d->qp, qp) == 0)
			return false;
		cqe.wr_id = m->to + off;
		cqe.byte_len = len;
		cqe.flags = m->has_imm ? QP_WCF_WITH_IMM : 0;
		if (len == m->total)
			cqe.flags |= QP_WCF_RECORD_WHOLE;
		else if (dgram_msg_valid(m, &next) > 0)
			cqe.flags |= QP_WCF_RECORD_MORE;
		qp_extra_cqe(d->qp, qp, &cqe, m->key.src);
		off += len;
		m->told = off;
	}
	return true;
}

/* Parses the headers of the segment. False: they are impossible. */
static bool parse_record(const struct dgram_rx *rx, struct udpl_record *r, struct ddp_hdr *h)
{
	const uint8_t *body = rx->p + UDPL_HDR_LEN;

	if (rx->h->body_len < DGRAM_INNER_MAX)
		return false;
	udpl_record_parse(body, r);
	return ddp_parse(body + UDPL_RECORD_LEN, rx->h->body_len - UDPL_RECORD_LEN, h) == DDP_OK &&
	       h->opcode == RDMAP_WRITE && h->to >= r->offset &&
	       dgram_seg_fits(rx->h->unit, rx->h->total, r->offset, h->payload_len) &&
	       h->last == (r->offset + h->payload_len == rx->h->total);
}

static struct dgram_bind *bind_of(struct dgram_msgs *g, const uint8_t group[16], uint32_t tag)
{
	for (uint32_t i = 0; i < g->n_binds; i++)
		if (g->bind[i].tag == tag && memcmp(g->bind[i].group, group, sizeof(g->bind[i].group)) == 0)
			return &g->bind[i];
	return NULL;
}

bool dgram_bind(struct dgram_msgs *g, const struct dgram_bind *b)
{
	struct dgram_bind *old = bind_of(g, b->group, b->tag);

	if (old == NULL && (b->len == 0 || g->n_binds == DGRAM_BINDS))
		return false;
	if (b->len == 0)
		*old = g->bind[--g->n_binds];
	else
		*(old != NULL ? old : &g->bind[g->n_binds++]) = *b;
	return true;
}

/* Replaces the group's tag by the STag of this member's memory. False: the tag is bound to nothing. */
static bool to_member(struct dgram_msgs *g, const struct dgram_rx *rx, struct ddp_hdr *h)
{
	const struct dgram_bind *b = bind_of(g, rx->dst, h->stag);

	if (b == NULL || h->to > b->len || h->payload_len > b->len - h->to)
		return false;
	h->stag = b->stag;
	h->to += b->to;
	return true;
}

/* The memory that the segment writes to. */
static struct qp_access access_of(const struct qp *qp, const struct ddp_hdr *h)
{
	return (struct qp_access){ .pd = qp->pd,
				   .stag = h->stag,
				   .to = h->to,
				   .len = h->payload_len,
				   .rights = QP_ACC_REMOTE_WRITE,
				   .qpn = qp->qpn };
}

static bool may_write(const struct qp *qp, const struct ddp_hdr *h)
{
	const struct qp_access a = access_of(qp, h);

	return qp_mr_check(qp->dev, &a) == QP_MR_OK;
}

/* Whether the segment belongs to this record and is not a duplicate. */
static bool is_wanted(struct dgram_ctx *d, const struct qp *qp, const struct dgram_msg *m, const struct dgram_rx *rx,
		      const struct udpl_record *r, const struct ddp_hdr *h)
{
	if (!m->record || m->unit != rx->h->unit || m->total != rx->h->total || m->stag != h->stag ||
	    m->to != h->to - r->offset) {
		*(may_write(qp, h) ? &d->qp->stats.ud_bad : &d->qp->stats.ud_refused) += 1;
		return false;
	}
	if (m->told > 0 || dgram_msg_has(m, r->offset)) {
		d->qp->stats.ud_again++;
		return false;
	}
	return true;
}

/*
 * The record of the segment. A segment that may not write begins none; qp_place() checks the segments of a record that
 * has begun. NULL: there is none, which is counted.
 */
static struct dgram_msg *record_of(struct dgram_ctx *d, const struct qp *qp, const struct dgram_rx *rx,
				   const struct udpl_record *r, const struct ddp_hdr *h)
{
	struct dgram_key k = { .src_qpn = rx->h->src_qpn, .id = r->id };
	struct dgram_msgs *g = dgram_msgs_of(qp);

	memcpy(k.src, rx->src, sizeof(k.src));
	struct dgram_msg *m = dgram_track_find(&g->track, &k);
	if (m != NULL)
		return m;
	if (!may_write(qp, h)) {
		d->qp->stats.ud_refused++;
		return NULL;
	}
	m = dgram_msg_begin(d, g, rx->h, &k);
	if (m == NULL)
		return NULL;
	m->record = true;
	m->has_imm = (rx->h->flags & UDPL_F_IMM) != 0;
	memcpy(m->imm, r->imm, sizeof(m->imm));
	m->stag = h->stag;
	m->to = h->to - r->offset;
	return m;
}

void dgram_record_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);
	struct udpl_record r;
	struct ddp_hdr h;

	if (g == NULL || !parse_record(rx, &r, &h)) {
		d->qp->stats.ud_bad++;
		return;
	}
	if (rx->h->qkey != qp->qkey) {
		d->qp->stats.ud_qkey++;
		return;
	}
	if (rn_unlikely(rx->h->dst_qpn == UDPL_QPN_GROUP) && !to_member(g, rx, &h)) {
		d->qp->stats.ud_refused++;
		return;
	}
	if ((qp->access & QP_ACC_REMOTE_WRITE) == 0) {
		d->qp->stats.ud_refused++;
		return;
	}
	struct dgram_msg *m = record_of(d, qp, rx, &r, &h);
	if (m == NULL || !is_wanted(d, qp, m, rx, &r, &h))
		return;
	struct qp_access a = access_of(qp, &h);
	const struct rn_iov src = { .base = (uint8_t *)(uintptr_t)rx->p + UDPL_HDR_LEN + UDPL_RECORD_LEN + h.hdr_len,
				    .len = h.payload_len };
	a.last = m->valid + h.payload_len == m->total;
	if (qp_place(d->qp, qp->dev, &a, &src, 1) != QP_MR_OK) { /* STag invalidated in the middle of a record */
		d->qp->stats.ud_refused++;
		return;
	}
	dgram_msg_placed(d, m, r.offset, h.payload_len);
	/* If the CQ has no room, dgram_timer() writes the completions later. */
	if (m->valid == m->total && dgram_record_tell(d, qp, m))
		dgram_msg_end(d, g, m);
}
