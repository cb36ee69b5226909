/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests other than Sends and Writes of bytes: Read and Atomic Requests, immediate data, and local operations
 * (bind, invalidate). The work request in m->work->send is next.
 */
#include "base/rn_be.h"
#include "qp/qp_imm.h"
#include "qp/qp_int.h"

static void done_with(struct qp_msgs *m)
{
	m->work->send.loaded = false;
	m->src = QP_SRC_NONE;
}

/* Makes a message of one segment. Returns where the caller writes the small payload that the opcode has. */
uint8_t *qp_pull_short(const struct ddp_hdr *h, struct qp_seg *seg)
{
	uint8_t *payload = seg->hdr + ddp_build(seg->hdr, h);

	seg->hdr_len = (uint32_t)(payload - seg->hdr) + rdmap_op_of(h->opcode)->min_payload;
	seg->n = seg->len = 0;
	seg->wr = QP_WR_NONE;
	return payload;
}

/* How many Read Requests the Read needs: one for each sink with bytes; one if there are no bytes. */
static uint8_t sinks_of(const struct qp_send *s)
{
	uint8_t n = 0;

	for (uint32_t i = 0; i < s->w.num_sge; i++)
		n = (uint8_t)(n + (s->u.sge[i].len > 0));
	return n > 0 ? n : 1;
}

/*
 * Makes the next Request of a Read. Between two Requests the peer's Reads have their turn, and each Request waits for
 * its place in the depth: otherwise two ends that read from each other would deadlock.
 */
static void read_request(struct qp_msgs *m, struct qp_seg *seg)
{
	struct qp_send *s = &m->work->send;
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, m->msn_read++, 0);
	struct rdmap_read_req q = { .src_stag = s->w.rkey, .src_to = s->w.raddr + s->sent };

	if (!s->started) {
		struct qp_wr *wr = qp_sq_start(m, s);
		wr->sinks = sinks_of(s);
		wr->due = wr->sinks;
	}
	while (s->at + 1 < s->w.num_sge && s->u.sge[s->at].len == 0)
		s->at++;
	if (s->w.num_sge > 0) {
		q.sink_stag = s->u.sge[s->at].lkey;
		q.sink_to = s->u.sge[s->at].addr;
		q.len = s->u.sge[s->at].len;
	}
	rdmap_read_req_build(qp_pull_short(&h, seg), &q);
	rdmap_readq_post(&m->readq, q.sink_stag, q.sink_to, q.len, s->wr)->id = h.msn;
	s->sent += q.len;
	s->at++;
	if (s->sent == s->total)
		done_with(m);
	else
		m->src = QP_SRC_NONE;
}

/* Verbs' atomics are the RFC's with one field of 64 bits (RFC 7306, 5.1). The identifier is the Request's MSN. */
static void atomic_request(struct qp_msgs *m, struct qp_seg *seg)
{
	struct qp_send *s = &m->work->send;
	const struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_REQ, true, 0, m->msn_read, 0);
	struct rdmap_atomic_req q = { .op = RDMAP_FETCH_ADD,
				      .id = m->msn_read,
				      .stag = s->w.rkey,
				      .to = s->w.raddr,
				      .data = s->w.atomic.operand,
				      .mask = RDMAP_ADD_ONE_FIELD };

	if (s->w.op == QP_WR_CMP_SWAP) {
		q.op = RDMAP_CMP_SWAP;
		q.data = s->w.atomic.swap;
		q.compare = s->w.atomic.operand;
		q.mask = q.compare_mask = UINT64_MAX;
	}
	rdmap_atomic_req_build(qp_pull_short(&h, seg), &q);
	qp_sq_start(m, s)->key = m->msn_read++;
	rdmap_readq_post_atomic(&m->readq, s->u.sge[0].lkey, s->u.sge[0].addr, q.id, s->wr);
	done_with(m);
}

/*
 * Makes the zero-length Write that carries the immediate of the Send behind it; that Send is an ordinary one from then
 * on.
 */
static void imm_note(struct qp_msgs *m, struct qp_seg *seg)
{
	struct qp_send *s = &m->work->send;
	const uint32_t imm = rn_load_be32((const uint8_t *)&s->w.aux);
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, QP_IMM_STAG, (uint64_t)QP_IMM_MARK << 32 | imm);

	(void)qp_pull_short(&h, seg);
	s->w.op = QP_WR_SEND;
}

/* Makes a zero-length Write (RFC 5040, 5.2), so that an immediate behind it belongs to a Write of length 0. */
static void write_nothing(struct qp_msgs *m, struct qp_seg *seg)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, 0, 0);

	(void)qp_pull_short(&h, seg);
	m->wrote = false;
}

/*
 * The Write, if there are bytes, is sent already; the acknowledgement of the Immediate Data behind it completes both.
 */
static void write_imm(struct qp_msgs *m, struct qp_seg *seg)
{
	struct qp_send *s = &m->work->send;
	const enum rdmap_opcode op = s->w.flags & QP_WF_SOLICITED ? RDMAP_IMM_SE : RDMAP_IMM;
	const struct ddp_hdr h = ddp_untagged(op, true, qp_srqn(m->qp, &s->w), m->msn_send, 0);

	if (!s->started) /* no bytes */
		qp_sq_start(m, s);
	if (m->wrote) {
		write_nothing(m, seg);
		return;
	}
	uint8_t *payload = qp_pull_short(&h, seg);
	memset(payload, 0, RDMAP_IMM_LEN);
	memcpy(payload, &s->w.aux, sizeof(s->w.aux));
	seg->wr = s->wr;
	m->work->wr[s->wr & m->work->wr_mask].imm_msn = (uint16_t)m->msn_send++;
	done_with(m);
}

bool qp_op_local(const struct qp_send *s) { return s->w.op == QP_WR_LOCAL_INV || s->w.op == QP_WR_BIND_MW; }

/* Whether the queue pair's turn ends with this work request. The carrier of a `many` QP hands over one at a time. */
static bool ends_turn(struct qp *qp) { return ++qp->locals % QP_LOCALS == 0 && !qp->many; }

/* Binds and invalidates at once: earlier work requests have been sent, or wait for their answer (see QP_WF_FENCE). */
enum qp_pull qp_op_do_local(struct qp_ctx *ctx, struct qp_msgs *m)
{
	struct qp_send *s = &m->work->send;
	struct qp *qp = m->qp;
	enum qp_mr_verdict v;

	ctx->stats.locals++;
	if (s->w.op == QP_WR_LOCAL_INV) {
		v = qp_mr_invalidate(m->dev, qp->pd, qp->qpn, s->w.aux);
	} else {
		const struct qp_mw_bind b = { .pd = qp->pd,
					      .qpn = qp->qpn,
					      .stag = s->w.rkey,
					      .lkey = s->w.aux,
					      .addr = s->w.raddr,
					      .len = s->w.bind.len,
					      .access = s->w.bind.access };
		v = qp_mw_bind(m->dev, &b);
	}
	if (v != QP_MR_OK)
		return qp_sq_fail(ctx, m, QP_WC_MW_BIND_ERR);
	qp_sq_start(m, s)->done = 1;
	done_with(m);
	const enum qp_pull done = qp_complete(ctx, m);
	return done == QP_PULL_OK && ends_turn(qp) ? QP_PULL_LATER : done;
}

/* Bytes of the segment that qp_op_pull makes. */
uint32_t qp_op_len(const struct qp_msgs *m)
{
	const struct qp_send *s = &m->work->send;

	switch ((enum qp_wr_op)s->w.op) {
	case QP_WR_READ: return DDP_UNTAGGED_HDR_LEN + RDMAP_READ_REQ_LEN;
	case QP_WR_SEND_IMM: return DDP_TAGGED_HDR_LEN;
	case QP_WR_WRITE_IMM: return m->wrote ? DDP_TAGGED_HDR_LEN : DDP_UNTAGGED_HDR_LEN + RDMAP_IMM_LEN;
	case QP_WR_CMP_SWAP:
	case QP_WR_FETCH_ADD: return DDP_UNTAGGED_HDR_LEN + RDMAP_ATOMIC_REQ_LEN;
	case QP_WR_LOCAL_INV:
	case QP_WR_BIND_MW:
	case QP_WR_SEND:
	case QP_WR_SEND_INV:
	case QP_WR_WRITE:
	case QP_WR_OPS: break; /* handled in qp_pull.c */
	}
	return 0;
}

void qp_op_pull(struct qp_msgs *m, struct qp_seg *seg)
{
	switch ((enum qp_wr_op)m->work->send.w.op) {
	case QP_WR_READ: read_request(m, seg); return;
	case QP_WR_SEND_IMM: imm_note(m, seg); return;
	case QP_WR_WRITE_IMM: write_imm(m, seg); return;
	case QP_WR_CMP_SWAP:
	case QP_WR_FETCH_ADD: atomic_request(m, seg); return;
	case QP_WR_LOCAL_INV:
	case QP_WR_BIND_MW:
	case QP_WR_SEND:
	case QP_WR_SEND_INV:
	case QP_WR_WRITE:
	case QP_WR_OPS: break; /* not reached: qp_peek returns OK for none of these */
	}
}

/* Makes the answer to the oldest request of the peer, an Atomic that has been executed (RFC 7306, 5.4). */
void qp_atomic_pull(struct qp_msgs *m, struct qp_seg *seg)
{
	struct qp_work *k = m->work;
	const struct qp_resp *p = qp_resp_oldest(m);
	const struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_RESP, true, 0, m->msn_atomic++, 0);

	rdmap_atomic_resp_build(qp_pull_short(&h, seg), &p->atomic);
	k->resp_head++;
	rdmap_ird_give(&m->ird);
	m->src = QP_SRC_NONE;
}
