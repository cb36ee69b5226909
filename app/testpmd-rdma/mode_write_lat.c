/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Write latency: the two sides write to each other in turn and watch the last byte of the message change in
 * memory. Half a round trip is reported. The last byte is 1, 2, 3 .. for each further use of a buffer, so it always
 * differs from the byte before it; the other bytes carry the pattern.
 */
#include "tp_engine.h"

#include <errno.h>
#include <stdlib.h>

#define SQ_DEPTH       64u
#define SIGNAL_EVERY   16u
#define SPINS_PER_POLL 16u /* checks of the memory between two polls of the completion queue */

struct lat_count {
	uint64_t posted, done;
};

static void write_lat_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	(void)p;
	*sq = SQ_DEPTH;
	*rq = 0;
}

static enum tp_verdict write_lat_prepare(struct tp_run *r)
{
	r->state = calloc(r->p->qps, sizeof(struct lat_count));
	if (r->state == NULL)
		return tp_fail(r->s->err, TP_NO_MEMORY, "out of memory");
	tp_fill_tx(r);
	return TP_OK;
}

/* Which buffer ping number i uses, and its mark. */
static uint64_t slot_of(const struct tp_point *p, uint64_t i, uint8_t *mark)
{
	uint64_t on_qp = i / p->qps;

	*mark = (uint8_t)(on_qp / p->slots + 1);
	return on_qp % p->slots;
}

static enum tp_verdict poll_cq(struct tp_run *r)
{
	struct lat_count *count = r->state;
	struct ibv_wc wc;
	enum tp_verdict v = TP_OK;
	int n;

	while (v == TP_OK && (n = ibv_poll_cq(r->s->cq, 1, &wc)) != 0) {
		if (n < 0)
			return tp_fail(r->s->err, TP_VERBS_ERROR, "polling the completion queue failed");
		v = tp_session_wc(r->s, &wc);
		if (v == TP_OK && tp_wr_kind(wc.wr_id) == TP_WR_DATA) {
			struct lat_count *c = &count[tp_wr_qp(wc.wr_id)];

			c->done = tp_wr_count(wc.wr_id, c->done);
		}
	}
	return v;
}

static enum tp_verdict write_lat_ping(struct tp_run *r, uint64_t i)
{
	struct tp_session *s = r->s;
	uint32_t q = (uint32_t)(i % r->p->qps);
	struct lat_count *c = (struct lat_count *)r->state + q;
	uint8_t mark;
	uint64_t slot = slot_of(r->p, i, &mark), off = tp_tx_off(&s->layout, q, slot);
	struct ibv_sge sge = { (uintptr_t)s->region + off, (uint32_t)r->p->size, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { s->peer.addr + tp_rx_off(&s->layout, q, slot), s->peer.rkey } };
	enum tp_verdict v = TP_OK;

	while (v == TP_OK && c->posted - c->done >= SQ_DEPTH) {
		v = poll_cq(r);
		if (v == TP_OK && c->posted - c->done >= SQ_DEPTH)
			v = tp_idle(r);
	}
	if (v != TP_OK)
		return v;
	s->region[off + r->p->size - 1] = mark;
	c->posted++;
	r->posted++;
	wr.wr_id = tp_wr_id(TP_WR_DATA, q, c->posted);
	wr.send_flags = (r->p->size <= s->inline_max ? IBV_SEND_INLINE : 0) |
			(c->posted % SIGNAL_EVERY == 0 ? IBV_SEND_SIGNALED : 0);
	errno = tp_post_send(s, q, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a Write");
}

/* Wait for ping i of the peer. */
static enum tp_verdict write_lat_await(struct tp_run *r, uint64_t i, enum tp_pong *pong)
{
	struct tp_session *s = r->s;
	uint8_t mark;
	uint64_t slot = slot_of(r->p, i, &mark);
	const _Atomic uint8_t *last =
		(const void *)(s->region + tp_rx_off(&s->layout, (uint32_t)(i % r->p->qps), slot) + r->p->size - 1);
	enum tp_verdict v = TP_OK;
	uint32_t spins = 0;

	tp_busy(r);
	while (v == TP_OK && atomic_load_explicit(last, memory_order_acquire) != mark) {
		if (++spins % SPINS_PER_POLL != 0) {
			tp_pause();
			continue;
		}
		v = poll_cq(r);
		if (v == TP_OK)
			v = tp_idle(r);
		if (s->fin_seen && s->fin_posted <= i) {
			*pong = TP_PONG_ENDED;
			break;
		}
	}
	return v;
}

static enum tp_verdict write_lat_run(struct tp_run *r)
{
	enum tp_verdict v = tp_ping_pong(r, write_lat_ping, write_lat_await);

	/* Every queue pair has carried at least this many. */
	r->min_posted = r->posted / r->p->qps;
	return v;
}

/* All but the last byte, which is the mark. */
static enum tp_verdict write_lat_verify(struct tp_run *r)
{
	enum tp_verdict v = TP_OK;

	for (uint32_t q = 0; v == TP_OK && q < r->p->qps; q++)
		v = tp_check_rx(r, q, r->s->fin_min_posted, r->p->size - 1);
	return v;
}

const struct tp_engine tp_write_lat = {
	.mode = TP_WRITE_LAT,
	.two_sided = true,
	.ping_pong = true,
	.fence = true,
	.depths = write_lat_depths,
	.prepare = write_lat_prepare,
	.run = write_lat_run,
	.verify = write_lat_verify,
};
