/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Read-Record: a request in one datagram, and a Write-Record into the reader's memory as the answer. The reader
 * keeps no state for a request: completions report the answer as they report any record. A queue pair sends answers and
 * its own work requests alternately. It holds at most DGRAM_ANSWERS answers that are yet to be sent. Rights are checked
 * when the request arrives, and again for each segment of the answer.
 */
#include "dgram/dgram.h"

static bool may_read(const struct qp *qp, uint32_t stag, uint64_t to, uint32_t len)
{
	const struct qp_access a = {
		.pd = qp->pd, .stag = stag, .to = to, .len = len, .rights = QP_ACC_REMOTE_READ, .qpn = qp->qpn
	};

	return (qp->access & QP_ACC_REMOTE_READ) != 0 && qp_mr_check(qp->dev, &a) == QP_MR_OK;
}

bool dgram_read_allowed(const struct qp *qp, const struct qp_send *s, uint32_t bytes)
{
	return may_read(qp, s->u.sge[0].lkey, s->u.sge[0].addr + s->sent, bytes);
}

static bool parse_read(const struct dgram_msgs *g, const struct dgram_rx *rx, struct ddp_hdr *h,
		       struct rdmap_read_req *q)
{
	const uint8_t *body = rx->p + UDPL_HDR_LEN;

	if (rx->h->body_len != DDP_UNTAGGED_HDR_LEN + RDMAP_READ_REQ_LEN || rx->h->dst_qpn == UDPL_QPN_GROUP ||
	    ddp_parse(body, rx->h->body_len, h) != DDP_OK || h->opcode != RDMAP_READ_REQ)
		return false;
	rdmap_read_req_parse(body + DDP_UNTAGGED_HDR_LEN, q);
	return q->len > 0 && q->len <= dgram_max(g->unit) && q->sink_to <= UINT64_MAX - (q->len - 1);
}

void dgram_read_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx)
{
	struct dgram_key k = { .src_qpn = rx->h->src_qpn };
	struct dgram_msgs *g = dgram_msgs_of(qp);
	struct rdmap_read_req q;
	struct ddp_hdr h;

	if (g == NULL || !parse_read(g, rx, &h, &q)) {
		d->qp->stats.ud_bad++;
		return;
	}
	if (rx->h->qkey != qp->qkey) {
		d->qp->stats.ud_qkey++;
		return;
	}
	if (!may_read(qp, q.src_stag, q.src_to, q.len)) {
		d->qp->stats.ud_refused++;
		return;
	}
	memcpy(k.src, rx->src, sizeof(k.src));
	k.id = h.msn;
	if (dgram_track_over(&g->track, &k, d->qp->now, d->linger)) {
		d->qp->stats.ud_again++;
		return;
	}
	if (g->answer_tail - g->answer_head == DGRAM_ANSWERS) {
		d->qp->stats.ud_full++;
		return;
	}
	struct dgram_answer *a = &g->answer[g->answer_tail++ % DGRAM_ANSWERS];
	*a = (struct dgram_answer){ .qpn = rx->h->src_qpn, .qkey = rx->h->total, .req = q };
	memcpy(a->addr, rx->src, sizeof(a->addr));
	dgram_track_end(&g->track, NULL, &k, d->qp->now);
	d->qp->stats.ud_in++;
	dgram_put(d, qp);
}

bool dgram_read_owed(const struct qp *qp)
{
	const struct dgram_msgs *g = dgram_msgs_of(qp);

	return g != NULL && g->answer_head != g->answer_tail;
}

void dgram_read_begin(struct dgram_msgs *g)
{
	const struct dgram_answer *a = &g->answer[g->answer_head++ % DGRAM_ANSWERS];
	struct qp_send *s = &g->send;

	s->w = (struct qp_wqe){
		.op = QP_WR_WRITE, .num_sge = 1, .ud = { .qpn = a->qpn, .qkey = a->qkey }, .rkey = a->req.sink_stag
	};
	memcpy(s->w.dgram_write.addr, a->addr, sizeof(a->addr));
	s->w.dgram_write.raddr = a->req.sink_to;
	s->u.sge[0] = (struct qp_sge){ .addr = a->req.src_to, .len = a->req.len, .lkey = a->req.src_stag };
	s->total = a->req.len;
	s->sent = s->at = s->at_off = 0;
	g->answering = true;
	g->answered = true;
}
