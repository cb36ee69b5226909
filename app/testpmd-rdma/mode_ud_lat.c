/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency of unreliable datagrams: the two sides send to each other in turn, Sends or Write-Records, each with its
 * number; or the client reads, and waits for the completion of the whole answer. A message that is not answered within
 * LOST_NS counts as lost: the next one is sent, and the lost one is in no latency figure.
 */
#include "tp_ud.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#define SQ_DEPTH     64u
#define SIGNAL_EVERY 16u
#define RECVS        32u /* receives posted on each queue pair; an incomplete message occupies one for a while */
#define LOST_NS      UINT64_C(20000000)
#define POLLS_A_LOOK 32u /* empty polls between two looks at the clock, which takes longer than a poll */

struct ud_lat {
	uint64_t posted[TP_MAX_QPS], done[TP_MAX_QPS];
	uint32_t came;    /* number of the last complete message */
	uint32_t came_on; /* its queue pair */
	uint64_t place;   /* its slot */
	uint64_t from;    /* ns: when the client began to wait; 0: not yet */
	bool any;
};

static void ud_lat_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	(void)p;
	*sq = SQ_DEPTH;
	*rq = RECVS;
}

static enum tp_verdict ud_lat_recv(struct tp_run *r, uint32_t q)
{
	struct tp_session *s = r->s;
	struct ibv_sge sge = { (uintptr_t)s->region + tp_rx_off(&s->layout, q, 0) - TP_GRH,
			       (uint32_t)r->p->size + TP_GRH, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = tp_wr_id(TP_WR_RECV, q, 0), .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(tp_qp(s, q), &wr, &bad);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a receive");
}

static enum tp_verdict ud_lat_prepare(struct tp_run *r)
{
	enum tp_verdict v = tp_ud_prepare(r);

	if (v != TP_OK)
		return v;
	r->state = calloc(1, sizeof(struct ud_lat));
	if (r->state == NULL)
		return tp_fail(r->s->err, TP_NO_MEMORY, "out of memory");
	tp_fill_tx(r);
	for (uint32_t q = 0; r->p->mode == TP_SEND_LAT && q < r->p->qps; q++)
		for (unsigned i = 0; v == TP_OK && i < RECVS; i++)
			v = ud_lat_recv(r, q);
	return v;
}

/* Polls and handles completions; idles after an empty poll. */
static enum tp_verdict ud_lat_poll(struct tp_run *r)
{
	struct ud_lat *l = r->state;
	struct tp_ud_msg m;
	struct ibv_wc wc;
	enum tp_verdict v;
	int n = ibv_poll_cq(r->s->cq, 1, &wc);

	if (n < 0)
		return tp_fail(r->s->err, TP_VERBS_ERROR, "polling the completion queue failed");
	if (n == 0)
		return tp_idle(r);
	tp_busy(r);
	if (wc.status != IBV_WC_SUCCESS || wc.opcode < IBV_WC_RECV) {
		const uint32_t q = tp_wr_qp(wc.wr_id);

		if (tp_wr_kind(wc.wr_id) == TP_WR_DATA && q < r->p->qps)
			l->done[q] = tp_wr_count(wc.wr_id, l->done[q]);
		return tp_session_wc(r->s, &wc);
	}
	v = tp_ud_take(r, &wc, &m);
	if (v != TP_OK)
		return v;
	if (m.whole) {
		l->came = m.number;
		l->came_on = m.qp;
		l->place = m.place;
		l->any = true;
	}
	return wc.opcode == IBV_WC_RECV ? ud_lat_recv(r, m.qp) : TP_OK;
}

static uint64_t read_slot(const struct tp_run *r, uint32_t number)
{
	return r->p->mode == TP_READ_LAT ? number / r->p->qps % r->p->slots : 0;
}

static enum tp_verdict ud_lat_post(struct tp_run *r, uint32_t q, uint32_t number)
{
	struct tp_session *s = r->s;
	struct ud_lat *l = r->state;
	const bool reads = r->p->mode == TP_READ_LAT;
	const uint64_t slot = read_slot(r, number);
	const uint64_t tx = tp_tx_off(&s->layout, q, slot), rx = tp_rx_off(&s->layout, q, slot);
	struct ibv_sge sge = { (uintptr_t)s->region + (reads ? rx : tx), (uint32_t)r->p->size, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .imm_data = htobe32(number),
				  .wr.rdma = { s->peer.addr + (reads ? tx : rx), s->peer.rkey } };
	enum tp_verdict v = TP_OK;

	while (v == TP_OK && l->posted[q] - l->done[q] >= SQ_DEPTH)
		v = ud_lat_poll(r);
	if (v != TP_OK)
		return v;
	wr.opcode = reads                       ? IBV_WR_RDMA_READ
		    : r->p->mode == TP_SEND_LAT ? IBV_WR_SEND_WITH_IMM
						: IBV_WR_RDMA_WRITE_WITH_IMM;
	l->posted[q]++;
	r->posted++;
	r->fig.sent++;
	r->fig.sent_bytes += r->p->size;
	wr.wr_id = tp_wr_id(TP_WR_DATA, q, l->posted[q]);
	wr.send_flags = (!reads && r->p->size <= s->inline_max ? IBV_SEND_INLINE : 0) |
			(l->posted[q] % SIGNAL_EVERY == 0 ? IBV_SEND_SIGNALED : 0);
	errno = tp_post_send(s, q, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a datagram");
}

static enum tp_verdict ud_lat_ping(struct tp_run *r, uint64_t i)
{
	struct ud_lat *l = r->state;

	if (r->s->is_server)
		return ud_lat_post(r, l->came_on, l->came);
	l->any = false;
	l->from = 0;
	tp_busy(r);
	return ud_lat_post(r, (uint32_t)(i % r->p->qps), (uint32_t)i + 1);
}

/* The server accepts any later ping as the next one: those in between are lost. */
static bool is_back(const struct tp_run *r, uint32_t number)
{
	const struct ud_lat *l = r->state;

	if (!l->any || r->s->is_server)
		return l->any;
	return r->p->mode == TP_READ_LAT ? l->place == read_slot(r, number) : l->came == number;
}

/* Whether the client has waited too long. With completion events each poll looks at the clock, else few do. */
static bool is_lost(const struct tp_run *r)
{
	struct ud_lat *l = r->state;

	if (r->s->is_server || (!r->s->point.events && r->spins % POLLS_A_LOOK != POLLS_A_LOOK - 1))
		return false;
	const uint64_t now = tp_now();
	if (l->from == 0)
		l->from = now;
	return now - l->from > LOST_NS;
}

static enum tp_verdict ud_lat_await(struct tp_run *r, uint64_t i, enum tp_pong *pong)
{
	struct ud_lat *l = r->state;
	enum tp_verdict v = TP_OK;

	while (v == TP_OK && !is_back(r, (uint32_t)i + 1)) {
		if (r->s->is_server && r->s->fin_seen) {
			*pong = TP_PONG_ENDED;
			return TP_OK;
		}
		v = ud_lat_poll(r);
		if (is_lost(r)) {
			*pong = TP_PONG_LOST;
			return v;
		}
	}
	l->any = false;
	return v;
}

static enum tp_verdict ud_lat_run(struct tp_run *r)
{
	if (r->s->is_server && r->p->mode == TP_READ_LAT)
		return tp_ctrl_wait_fin(r->s, TP_NO_TIMEOUT);
	return tp_ping_pong(r, ud_lat_ping, ud_lat_await);
}

const struct tp_engine tp_ud_lat = {
	.mode = TP_SEND_LAT,
	.two_sided = true,
	.ping_pong = true,
	.depths = ud_lat_depths,
	.prepare = ud_lat_prepare,
	.run = ud_lat_run,
	.verify = tp_ud_verify,
};
