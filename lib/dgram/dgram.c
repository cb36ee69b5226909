/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram queue pairs: sending and receiving. */
#include "dgram/dgram.h"

#include "base/rn_be.h"
#include "crc32c/crc32c.h"

/* ---- the lists of QPs with something to send ---- */

static uint64_t turn_bit(const struct qp *qp) { return UINT64_C(1) << qp->tenant; }

void dgram_put(struct dgram_ctx *d, struct qp *qp)
{
	if (qp->ready)
		return;
	qp->ready = true;
	if ((d->turns & turn_bit(qp)) != 0) {
		rn_slist_push_back(&d->behind[qp->tenant], &qp->link);
		return;
	}
	d->turns |= turn_bit(qp);
	rn_slist_push_back(&d->ready, &qp->link);
}

/* The QP has left `ready`: the next one of its tenant comes behind those of the other tenants. */
static void next_turn(struct dgram_ctx *d, struct qp *qp)
{
	struct rn_slink *next = rn_slist_take(&d->behind[qp->tenant]);

	qp->ready = false;
	if (next != NULL)
		rn_slist_push_back(&d->ready, next);
	else
		d->turns &= ~turn_bit(qp);
}

struct qp *dgram_pop(struct dgram_ctx *d)
{
	struct qp *qp = rn_slist_pop(&d->ready, struct qp, link);

	if (qp != NULL)
		next_turn(d, qp);
	return qp;
}

/* Takes a QP that is destroyed or reset off the list, and drops its messages. */
static void unlist(struct dgram_ctx *d, struct qp *qp)
{
	if (qp->ready && rn_slist_remove(&d->ready, &qp->link))
		next_turn(d, qp);
	else if (qp->ready)
		(void)rn_slist_remove(&d->behind[qp->tenant], &qp->link);
	qp->ready = false;
	if (dgram_msgs_of(qp) != NULL)
		dgram_msgs_drop(d, dgram_msgs_of(qp), false);
}

void dgram_fail(struct dgram_ctx *d, struct qp *qp)
{
	if (dgram_msgs_of(qp) != NULL)
		dgram_msgs_drop(d, dgram_msgs_of(qp), true);
	qp_enter_error(d->qp, qp);
}

void dgram_ring_broken(struct dgram_ctx *d, struct qp *qp)
{
	d->qp->stats.bad_rings++;
	qp_event(d->qp, qp, QP_EVENT_FATAL, 0);
	dgram_fail(d, qp);
}

/* ---- verbs ---- */

void dgram_doorbell(struct dgram_ctx *d, struct qp *qp)
{
	if (rn_unlikely(qp->state == QP_S_ERR))
		dgram_fail(d, qp);
	else
		dgram_put(d, qp);
}

enum qp_verdict dgram_modify(struct dgram_ctx *d, struct qp *qp, enum qp_state to)
{
	if (to == QP_S_RESET)
		unlist(d, qp);
	else if (to == QP_S_ERR && dgram_msgs_of(qp) != NULL)
		dgram_msgs_drop(d, dgram_msgs_of(qp), true);
	enum qp_verdict v = qp_step(d->qp, qp, to);
	if (v == QP_OK && (to == QP_S_RTR || to == QP_S_RTS))
		dgram_doorbell(d, qp);
	return v;
}

void dgram_destroy(struct dgram_ctx *d, struct qp *qp)
{
	unlist(d, qp);
	qp_forget(d->qp, qp);
}

/* ---- sending ---- */

static bool receives(const struct qp *qp)
{
	return qp->state == QP_S_RTR || qp->state == QP_S_RTS || qp->state == QP_S_SQD;
}

bool dgram_waits(struct qp *qp)
{
	if (rn_unlikely(qp->midway || dgram_read_owed(qp)))
		return receives(qp);
	return qp->state == QP_S_RTS &&
	       (spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken || qp->sq.verdict != SPSC_OK);
}

static bool is_record(const struct qp_wqe *w) { return w->op == QP_WR_WRITE || w->op == QP_WR_WRITE_IMM; }

static uint32_t head_of(const struct qp_wqe *w)
{
	return is_record(w) || w->op == QP_WR_READ ? QP_UD_WRITE_LEN : QP_UD_ADDR_LEN;
}

static uint32_t bytes_of(const struct qp_wqe *w)
{
	return w->flags & QP_WF_INLINE ? w->inline_len : w->num_sge * (uint32_t)sizeof(struct qp_sge);
}

/* Checks the fields that give the work request's kind and length. */
static bool shape_good(const struct qp *qp, const struct qp_wqe *w)
{
	const bool read = w->op == QP_WR_READ;

	if (w->op != QP_WR_SEND && w->op != QP_WR_SEND_IMM && (dgram_msgs_of(qp) == NULL || !(is_record(w) || read)))
		return false;
	if (read && (w->num_sge != 1 || (w->flags & QP_WF_INLINE) != 0))
		return false;
	return w->num_sge <= QP_MAX_SGE && w->inline_len <= QP_MAX_INLINE &&
	       w->slots == qp_wqe_slots(head_of(w) + bytes_of(w));
}

/* A record has at least one octet, and ends below 2^64. */
static bool fits_record(const struct qp_send *s)
{
	return s->total > 0 && s->w.dgram_write.raddr <= UINT64_MAX - (s->total - 1);
}

/* The peer answers a Read with a Write-Record, so the Read's local memory must allow remote writes. */
static bool is_sink(const struct qp *qp, const struct qp_sge *g)
{
	const struct qp_access a = { .pd = qp->pd,
				     .stag = g->lkey,
				     .to = g->addr,
				     .len = g->len,
				     .rights = QP_ACC_REMOTE_WRITE,
				     .qpn = qp->qpn };

	return qp_mr_check(qp->dev, &a) == QP_MR_OK;
}

/* Whether the work request goes to a group, by its QPN or its address (of an IPv4 group, mapped into IPv6, or IPv6). */
static bool to_group(const struct qp_wqe *w)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const uint8_t *a = w->dgram_write.addr;

	return (w->ud.qpn & UDPL_QPN_MAX) == UDPL_QPN_GROUP || a[0] == 0xff ||
	       (memcmp(a, mapped, sizeof(mapped)) == 0 && a[12] >> 4 == 14);
}

/* Copies the next work request and checks the copy, as qp_sq_take does. */
static enum qp_take take(struct qp_ctx *ctx, struct qp *qp, struct qp_send *s, enum qp_wc_status *why)
{
	uint32_t at = qp->sq_taken;

	if (spsc_cons_avail(&qp->sq, at + 1) <= at)
		return qp->sq.verdict == SPSC_OK ? QP_TAKE_NONE : QP_TAKE_BAD_RING;
	memcpy(&s->w, spsc_cons_slot(&qp->sq, at), sizeof(s->w));
	s->sent = s->at = s->at_off = 0;
	ctx->stats.wqes++;
	if (rn_unlikely(!shape_good(qp, &s->w) || spsc_cons_avail(&qp->sq, at + s->w.slots) < at + s->w.slots)) {
		s->w.slots = 1;
		s->w.op = QP_WR_SEND; /* the operation that completions report */
		qp->sq_taken++;
		ctx->stats.bad_wqes++;
		*why = QP_WC_LOC_QP_OP_ERR;
		return QP_TAKE_BAD;
	}
	const uint32_t bytes = bytes_of(&s->w), first = QP_WQE_FIXED + head_of(&s->w);
	const uint32_t here = rn_min_u32(bytes, QP_SLOT_SIZE - first);

	memcpy(&s->u, (const uint8_t *)&s->w + first, here);
	if (bytes > here)
		spsc_cons_copy(&qp->sq, at + 1, (uint8_t *)&s->u + here, bytes - here);
	qp->sq_taken += s->w.slots;
	s->total = s->w.inline_len;
	*why = s->w.flags & QP_WF_INLINE ? QP_WC_SUCCESS : qp_sq_check_local(qp, s);
	if (*why == QP_WC_SUCCESS && (s->total > qp->max_msg || (head_of(&s->w) == QP_UD_WRITE_LEN && !fits_record(s))))
		*why = QP_WC_LOC_LEN_ERR;
	if (*why == QP_WC_SUCCESS && s->w.op == QP_WR_READ && !is_sink(qp, &s->u.sge[0]))
		*why = QP_WC_LOC_PROT_ERR;
	if (*why == QP_WC_SUCCESS && s->w.op == QP_WR_READ && to_group(&s->w))
		*why = QP_WC_LOC_QP_OP_ERR;
	return *why == QP_WC_SUCCESS ? QP_TAKE_OK : QP_TAKE_BAD;
}

/* The Q_Key that the datagram carries. An answer carries the one that the reader's request asked for. */
static uint32_t key_of(const struct qp *qp, const struct qp_send *s)
{
	const struct dgram_msgs *g = dgram_msgs_of(qp);

	return (s->w.ud.qkey & QP_QKEY_OWN) != 0 && (g == NULL || !g->answering) ? qp->qkey : s->w.ud.qkey;
}

/* Octets of each segment of the message. A segment to a group fits the path's MTU. */
static uint32_t unit_of(const struct dgram_msgs *g, const struct qp_send *s)
{
	return to_group(&s->w) ? g->group_unit : g->unit;
}

/* How many octets of the message the next segment carries. */
static uint32_t bytes_next(const struct dgram_msgs *g, const struct qp_send *s)
{
	const uint32_t left = s->w.op == QP_WR_READ ? 0 : s->total - s->sent; /* a Read request carries no data */

	return g != NULL ? rn_min_u32(left, unit_of(g, s)) : left;
}

/* Writes the header that follows the datagram's header in a segment of a Write-Record. */
static uint32_t put_record(const struct qp *qp, const struct qp_send *s, uint32_t len, uint8_t *buf)
{
	const struct ddp_hdr d = ddp_tagged(RDMAP_WRITE, s->sent + len == s->total, s->w.rkey,
					    s->w.dgram_write.raddr + s->sent);
	struct udpl_record r = { .id = qp->msn, .offset = s->sent };

	if (s->w.op == QP_WR_WRITE_IMM)
		memcpy(r.imm, &s->w.aux, sizeof(r.imm));
	udpl_record_build(buf, &r);
	return UDPL_RECORD_LEN + ddp_build(buf + UDPL_RECORD_LEN, &d);
}

/* Writes the whole request for a Read-Record. */
static uint32_t put_read(const struct qp *qp, const struct qp_send *s, uint8_t *buf)
{
	const struct udpl_hdr h = { .kind = UDPL_READ,
				    .total = qp->qkey,
				    .dst_qpn = s->w.ud.qpn & UDPL_QPN_MAX,
				    .src_qpn = qp->qpn,
				    .qkey = key_of(qp, s) };
	const struct ddp_hdr d = ddp_untagged(RDMAP_READ_REQ, true, 0, qp->msn, 0);
	const struct rdmap_read_req q = { .sink_stag = s->u.sge[0].lkey,
					  .sink_to = s->u.sge[0].addr,
					  .len = s->total,
					  .src_stag = s->w.rkey,
					  .src_to = s->w.dgram_write.raddr };

	udpl_build(buf, &h);
	rdmap_read_req_build(buf + UDPL_HDR_LEN + ddp_build(buf + UDPL_HDR_LEN, &d), &q);
	return UDPL_HDR_LEN + DDP_UNTAGGED_HDR_LEN + RDMAP_READ_REQ_LEN;
}

/* Writes the headers of the segment that carries the next len bytes. */
static uint32_t put_headers(const struct qp *qp, const struct qp_send *s, uint32_t len, uint8_t *buf)
{
	const bool imm = s->w.op == QP_WR_SEND_IMM || s->w.op == QP_WR_WRITE_IMM, record = is_record(&s->w);
	const bool many = len < s->total || record;
	const struct udpl_hdr h = {
		.kind = record ? UDPL_RECORD
			: many ? UDPL_SEGMENT
			       : UDPL_SEND,
		.unit = many ? unit_of(dgram_msgs_of(qp), s) : 0,
		.total = many ? s->total : 0,
		.flags = imm ? UDPL_F_IMM : 0,
		.dst_qpn = s->w.ud.qpn & UDPL_QPN_MAX,
		.src_qpn = qp->qpn,
		.qkey = key_of(qp, s),
	};
	/* The immediate is in wire order already. The MSN tells segments of one message from those of another. */
	const struct ddp_hdr d = ddp_untagged(s->w.flags & QP_WF_SOLICITED ? RDMAP_SEND_SE : RDMAP_SEND,
					      s->sent + len == s->total, imm ? rn_load_be32(&s->w.aux) : 0, qp->msn,
					      s->sent);

	udpl_build(buf, &h);
	if (rn_unlikely(record))
		return UDPL_HDR_LEN + put_record(qp, s, len, buf + UDPL_HDR_LEN);
	return UDPL_HDR_LEN + ddp_build(buf + UDPL_HDR_LEN, &d);
}

/* Where a datagram is made: pieces of memory, the first of which has been filled up to `at`. */
struct fill {
	const struct rn_iov *piece;
	uint32_t at;
	uint32_t sum; /* CRC32C of all bytes written so far */
};

static void fill_on(struct fill *f, const uint8_t *p, uint32_t len)
{
	while (len > 0) {
		if (rn_unlikely(f->at == f->piece->len)) {
			f->piece++;
			f->at = 0;
		}
		const uint32_t n = rn_min_u32(len, (uint32_t)f->piece->len - f->at);

		f->sum = crc32c_copy(f->sum, f->piece->base + f->at, p, n);
		f->at += n;
		p += n;
		len -= n;
	}
}

/*
 * Copies the next bytes of the message behind the headers and sums them in the same pass, so that the CRC is right even
 * if the client changes the bytes meanwhile.
 */
static enum qp_wc_status put_bytes(struct qp *qp, struct qp_send *s, uint32_t bytes, struct fill *f)
{
	const uint32_t end = s->sent + bytes;
	struct rn_iov iov[QP_SEG_SLICES];
	enum qp_mr_verdict v;

	if (s->w.flags & QP_WF_INLINE) {
		fill_on(f, s->u.data + s->sent, bytes);
		s->sent = end;
		return QP_WC_SUCCESS;
	}
	while (s->sent < end) {
		uint32_t len = end - s->sent;
		uint32_t n = qp_sq_slices(qp, s, &len, iov, &v);

		if (v != QP_MR_OK)
			return qp_mr_status(v);
		for (uint32_t i = 0; i < n; i++)
			fill_on(f, iov[i].base, (uint32_t)iov[i].len);
		s->sent += len;
	}
	return QP_WC_SUCCESS;
}

/* Ends the message that is being sent. */
static void complete(struct dgram_ctx *d, struct qp *qp, const struct qp_send *s, enum qp_wc_status status)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);
	const struct qp_wr wr = {
		.wr_id = s->w.wr_id, .len = s->total, .op = s->w.op, .flags = s->w.flags, .slots = s->w.slots
	};

	qp->midway = false;
	if (rn_unlikely(g != NULL && g->answering)) { /* an answer has no work request, so no completion */
		g->answering = false;
		d->qp->stats.ud_refused += status != QP_WC_SUCCESS;
	} else {
		qp_send_cqe(d->qp, qp, &wr, status);
		if (rn_unlikely(status != QP_WC_SUCCESS || qp->state == QP_S_ERR)) /* ERR: the CQ is full */
			dgram_fail(d, qp);
	}
	if (rn_unlikely(qp->state == QP_S_SQD))
		qp_look_drained(d->qp, qp);
}

static bool begin_answer(struct qp *qp)
{
	if (!dgram_read_owed(qp) || !receives(qp))
		return false;
	qp->msn++;
	dgram_read_begin(dgram_msgs_of(qp));
	return true;
}

/*
 * Begins the next work request or answer, alternately if both wait. The previous message must have been sent whole.
 * False: nothing can be sent.
 */
static bool begin(struct dgram_ctx *d, struct qp *qp, struct qp_send *s)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);
	enum qp_wc_status why = QP_WC_SUCCESS;

	if (g != NULL && !g->answered && begin_answer(qp))
		return true;
	if (g != NULL)
		g->answered = false;
	if (qp->state != QP_S_RTS)
		return begin_answer(qp);
	switch (take(d->qp, qp, s, &why)) {
	case QP_TAKE_OK: qp->msn++; return true;
	case QP_TAKE_BAD: complete(d, qp, s, why); return false;
	case QP_TAKE_BAD_RING: dgram_ring_broken(d, qp); return false;
	case QP_TAKE_NONE: return begin_answer(qp);
	}
	return false;
}

static void put_crc(struct fill *f)
{
	uint8_t crc[UDPL_CRC_LEN];

	if (rn_likely(f->piece->len - f->at >= UDPL_CRC_LEN)) {
		udpl_crc_put(f->piece->base, f->at, f->sum);
		return;
	}
	udpl_crc_put(crc, 0, f->sum);
	fill_on(f, crc, sizeof(crc));
}

uint32_t dgram_next(struct dgram_ctx *d, struct qp *qp)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);
	const struct qp_send *s = &g->send;

	if (qp->midway ? !receives(qp) : !begin(d, qp, &g->send))
		return 0;
	qp->midway = true;
	const uint32_t inner = s->w.op == QP_WR_READ ? DGRAM_INNER + RDMAP_READ_REQ_LEN
			       : is_record(&s->w)    ? DGRAM_INNER_MAX
						     : DGRAM_INNER;
	return UDPL_HDR_LEN + inner + bytes_next(g, s) + UDPL_CRC_LEN;
}

uint32_t dgram_out_to(struct dgram_ctx *d, struct qp *qp, const struct rn_iov *room, struct dgram_to *to)
{
	struct dgram_msgs *g = dgram_msgs_of(qp);
	struct qp_send whole, *s = g != NULL ? &g->send : &whole;

	if (rn_unlikely(qp->midway) ? !receives(qp) : !begin(d, qp, s))
		return 0;
	const bool read = s->w.op == QP_WR_READ;
	const uint32_t bytes = bytes_next(g, s);
	memcpy(to->addr, s->w.dgram.addr, QP_UD_ADDR_LEN);
	to->hop_limit = s->w.hop_limit;
	to->dst_qpn = s->w.ud.qpn & UDPL_QPN_MAX;
	to->src_qpn = qp->qpn;
	const uint32_t len = rn_unlikely(read) ? put_read(qp, s, room->base) : put_headers(qp, s, bytes, room->base);
	struct fill f = { .piece = room, .at = len, .sum = crc32c(0, room->base, len) };
	if (rn_unlikely(read))
		s->sent = s->total;
	const bool gone = g != NULL && g->answering && !dgram_read_allowed(qp, s, bytes);
	const enum qp_wc_status why = gone ? QP_WC_LOC_PROT_ERR : put_bytes(qp, s, bytes, &f);
	put_crc(&f);
	qp->midway = s->sent < s->total;
	if (!qp->midway || why != QP_WC_SUCCESS)
		complete(d, qp, s, why);
	if (why != QP_WC_SUCCESS)
		return 0;
	d->qp->stats.ud_out++;
	return len + bytes + UDPL_CRC_LEN;
}

/* ---- receiving ---- */

/* Writes the GRH in IPv6's form, whatever the packet's IP version: programs look for addresses in that form. */
void dgram_put_grh(uint8_t grh[DGRAM_GRH_LEN], const struct dgram_rx *rx)
{
	enum { VERSION = 6, NEXT_IBA = 0x1b };

	rn_store_be32(grh, (uint32_t)VERSION << 28 | (uint32_t)rx->tos << 20);
	rn_store_be16(grh + 4, (uint16_t)rx->len);
	grh[6] = NEXT_IBA;
	grh[7] = rx->hop_limit;
	memcpy(grh + 8, rx->src, 16);
	memcpy(grh + 24, rx->dst, 16);
}

/* Copies the message into a receive that has been taken. */
static enum qp_wc_status place(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct dgram_rx *rx,
			       const struct ddp_hdr *d)
{
	uint8_t grh[DGRAM_GRH_LEN];
	struct rn_iov src[2] = { { .base = grh, .len = sizeof(grh) } };

	if (d->payload_len > r->len || r->len - d->payload_len < DGRAM_GRH_LEN)
		return QP_WC_LOC_LEN_ERR;
	dgram_put_grh(grh, rx);
	src[1] = (struct rn_iov){ .base = (uint8_t *)(uintptr_t)rx->p + UDPL_HDR_LEN + d->hdr_len,
				  .len = d->payload_len };
	return qp_mr_status(qp_rq_place(ctx, qp, r, d, src, d->payload_len > 0 ? 2 : 1));
}

static void deliver(struct dgram_ctx *dg, struct qp *qp, const struct dgram_rx *rx, const struct ddp_hdr *d)
{
	struct qp_ctx *ctx = dg->qp;
	struct qp_recv r;
	struct qp_cqe cqe = { .byte_len = DGRAM_GRH_LEN + d->payload_len,
			      .flags = QP_WCF_GRH,
			      .solicited = d->opcode == RDMAP_SEND_SE,
			      .src_qp = rx->h->src_qpn };

	switch (dgram_recv_take(dg, qp, 0, &r)) {
	case QP_TAKE_OK: break;
	case QP_TAKE_BAD:
		qp_recv_cqe(ctx, qp, &r, &(struct qp_cqe){ .status = QP_WC_LOC_QP_OP_ERR }, NULL);
		dgram_fail(dg, qp);
		return;
	case QP_TAKE_BAD_RING: dgram_ring_broken(dg, qp); return;
	case QP_TAKE_NONE: ctx->stats.ud_no_recv++; return;
	}
	enum qp_wc_status status = place(ctx, qp, &r, rx, d);
	if (rn_likely(status == QP_WC_SUCCESS)) {
		if (rx->h->flags & UDPL_F_IMM) {
			cqe.flags |= QP_WCF_WITH_IMM;
			rn_store_be32(&cqe.aux, d->stag);
		}
		ctx->stats.ud_in++;
		ctx->stats.bytes_placed += d->payload_len;
		qp_recv_cqe(ctx, qp, &r, &cqe, rx->src);
		return;
	}
	qp_recv_cqe(ctx, qp, &r, &(struct qp_cqe){ .status = (uint8_t)status }, NULL);
	/* A too long message may be its sender's fault, so it must not end the queue pair. */
	if (status == QP_WC_LOC_LEN_ERR)
		ctx->stats.ud_too_long++;
	else
		dgram_fail(dg, qp);
}

/*
 * Whether the headers are those of a Send (RFC 5040, 4.3) that is one segment, or of one segment of a longer Send
 * (RFC 5041, 4.2).
 */
static bool is_send(const struct qp *qp, const struct udpl_hdr *h, const struct ddp_hdr *d)
{
	if (d->opcode != RDMAP_SEND && d->opcode != RDMAP_SEND_SE)
		return false;
	if (h->kind == UDPL_SEND)
		return d->last && d->mo == 0;
	return dgram_msgs_of(qp) != NULL && dgram_seg_fits(h->unit, h->total, d->mo, d->payload_len) &&
	       d->last == (d->mo + d->payload_len == h->total);
}

static void take_in(struct dgram_ctx *dg, struct qp *qp, const struct dgram_rx *rx)
{
	struct qp_ctx *ctx = dg->qp;
	struct ddp_hdr d;

	if (!rx->summed && !udpl_crc_good(rx->p, rx->len)) {
		ctx->stats.ud_crc++;
		return;
	}
	if (rn_unlikely(rx->h->kind == UDPL_RECORD)) {
		dgram_record_in(dg, qp, rx);
		return;
	}
	if (rn_unlikely(rx->h->kind == UDPL_READ)) {
		dgram_read_in(dg, qp, rx);
		return;
	}
	if (ddp_parse(rx->p + UDPL_HDR_LEN, rx->h->body_len, &d) != DDP_OK || !is_send(qp, rx->h, &d)) {
		ctx->stats.ud_bad++;
		return;
	}
	if (rx->h->qkey != qp->qkey) {
		ctx->stats.ud_qkey++;
		return;
	}
	if (rn_likely(rx->h->kind == UDPL_SEND))
		deliver(dg, qp, rx, &d);
	else
		dgram_seg_in(dg, qp, rx, &d);
}

void dgram_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx)
{
	if (!receives(qp)) {
		d->qp->stats.ud_no_qp++;
		return;
	}
	take_in(d, qp, rx);
	if (rn_unlikely(qp->state == QP_S_ERR)) /* a full CQ has ended the QP, or this is done already */
		dgram_fail(d, qp);
}
