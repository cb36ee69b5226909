/* SPDX-License-Identifier: BSD-3-Clause */
/* Send latency: the two sides send to each other in turn; half a round trip, from post to completed receive. */
#include "tp_engine.h"

#include <errno.h>
#include <stdlib.h>

#define SQ_DEPTH     64u
#define SIGNAL_EVERY 16u
#define RECVS        8u /* receives posted on each queue pair */

struct lat_count {
	uint64_t posted, done, received, posted_recv;
};

static void send_lat_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	(void)p;
	*sq = SQ_DEPTH;
	*rq = RECVS;
}

static enum tp_verdict send_lat_post_recv(struct tp_run *r, uint32_t q)
{
	struct tp_session *s = r->s;
	struct lat_count *c = (struct lat_count *)r->state + q;
	uint64_t slot = c->posted_recv++ % r->p->slots;
	struct ibv_sge sge = { (uintptr_t)s->region + tp_rx_off(&s->layout, q, slot), (uint32_t)r->p->size,
			       s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = tp_wr_id(TP_WR_RECV, q, 0), .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(tp_qp(s, q), &wr, &bad);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a receive");
}

static enum tp_verdict send_lat_prepare(struct tp_run *r)
{
	enum tp_verdict v = TP_OK;

	r->state = calloc(r->p->qps, sizeof(struct lat_count));
	if (r->state == NULL)
		return tp_fail(r->s->err, TP_NO_MEMORY, "out of memory");
	tp_fill_tx(r);
	for (uint32_t q = 0; q < r->p->qps; q++)
		for (unsigned i = 0; v == TP_OK && i < RECVS; i++)
			v = send_lat_post_recv(r, q);
	return v;
}

/* Polls and handles completions; idles after an empty poll. */
static enum tp_verdict poll_or_idle(struct tp_run *r)
{
	struct lat_count *c;
	struct ibv_wc wc;
	enum tp_verdict v;
	int n = ibv_poll_cq(r->s->cq, 1, &wc);

	if (n < 0)
		return tp_fail(r->s->err, TP_VERBS_ERROR, "polling the completion queue failed");
	if (n == 0)
		return tp_idle(r);
	tp_busy(r);
	v = tp_session_wc(r->s, &wc);
	if (v != TP_OK || tp_wr_qp(wc.wr_id) >= r->p->qps)
		return v;
	c = (struct lat_count *)r->state + tp_wr_qp(wc.wr_id);
	if (tp_wr_kind(wc.wr_id) == TP_WR_DATA) {
		c->done = tp_wr_count(wc.wr_id, c->done);
	} else if (tp_wr_kind(wc.wr_id) == TP_WR_RECV) {
		if (wc.byte_len != r->p->size)
			return tp_fail(r->s->err, TP_CORRUPT, "a Send of %u bytes arrived where %llu were sent",
				       wc.byte_len, (unsigned long long)r->p->size);
		c->received++;
	}
	return TP_OK;
}

static enum tp_verdict send_lat_ping(struct tp_run *r, uint64_t i)
{
	struct tp_session *s = r->s;
	uint32_t q = (uint32_t)(i % r->p->qps);
	struct lat_count *c = (struct lat_count *)r->state + q;
	uint64_t slot = i / r->p->qps % r->p->slots;
	struct ibv_sge sge = { (uintptr_t)s->region + tp_tx_off(&s->layout, q, slot), (uint32_t)r->p->size,
			       s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	enum tp_verdict v = TP_OK;

	while (v == TP_OK && c->posted - c->done >= SQ_DEPTH)
		v = poll_or_idle(r);
	if (v != TP_OK)
		return v;
	c->posted++;
	r->posted++;
	wr.wr_id = tp_wr_id(TP_WR_DATA, q, c->posted);
	wr.send_flags = (r->p->size <= s->inline_max ? IBV_SEND_INLINE : 0) |
			(c->posted % SIGNAL_EVERY == 0 ? IBV_SEND_SIGNALED : 0);
	errno = tp_post_send(s, q, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a Send");
}

static enum tp_verdict send_lat_await(struct tp_run *r, uint64_t i, enum tp_pong *pong)
{
	struct tp_session *s = r->s;
	uint32_t q = (uint32_t)(i % r->p->qps);
	struct lat_count *c = (struct lat_count *)r->state + q;
	enum tp_verdict v = TP_OK;

	tp_busy(r);
	while (v == TP_OK && c->received <= i / r->p->qps) {
		if (s->fin_seen && s->fin_posted <= i) {
			*pong = TP_PONG_ENDED;
			return TP_OK;
		}
		v = poll_or_idle(r);
	}
	return v == TP_OK ? send_lat_post_recv(r, q) : v;
}

static enum tp_verdict send_lat_run(struct tp_run *r)
{
	enum tp_verdict v = tp_ping_pong(r, send_lat_ping, send_lat_await);

	r->min_posted = r->posted / r->p->qps;
	return v;
}

const struct tp_engine tp_send_lat = {
	.mode = TP_SEND_LAT,
	.two_sided = true,
	.ping_pong = true,
	.depths = send_lat_depths,
	.prepare = send_lat_prepare,
	.run = send_lat_run,
	.verify = tp_verify_written,
};
