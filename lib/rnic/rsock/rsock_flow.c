/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: sending messages, handling completions, offering credits and buffers. */
#include "rnic/rsock/rsock.h"

#include "rnic/rsock/rsock_wr.h"

#define BATCH 32

void rsock_move(struct rsock *rs, enum rsock_state state)
{
	rs->state = state;
	rsock_kick(rs);
}

void rsock_over(struct rsock *rs, int err)
{
	if (rs->state == RSOCK_GONE)
		return;
	rs->err = rs->so_error = err;
	rsock_move(rs, RSOCK_GONE);
}

void rsock_lost(struct rsock *rs)
{
	rs->broken = true;
	rsock_over(rs, rs->rx_end ? 0 : ECONNRESET);
}

/* ---- sending ---- */

/* Posts a list of n requests; the last one gets a completion if `tell`. */
static void post(struct rsock *rs, struct ibv_send_wr *first, struct ibv_send_wr *last, uint32_t n, bool tell)
{
	struct ibv_send_wr *bad;

	rs->quiet_wrs += n;
	rs->sq_free -= n;
	if (tell) {
		last->wr_id = (uint64_t)rs->quiet_wrs << 32 | rs->quiet_bytes;
		last->send_flags |= IBV_SEND_SIGNALED;
		rs->quiet_wrs = rs->quiet_bytes = 0;
	}
	if (ibv_post_send(rs->id->qp, first, &bad) != 0)
		rsock_lost(rs);
}

static void msg_fill(struct ibv_send_wr *wr, struct ibv_sge *sge, uint32_t *le)
{
	*le = htole32(*le);
	*sge = (struct ibv_sge){ (uintptr_t)le, sizeof(*le), 0 };
	*wr = (struct ibv_send_wr){
		.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE
	};
}

void rsock_write_post(struct rsock *rs, const struct rsock_write *w, const uint32_t *msg)
{
	struct ibv_sge sge[2] = { { (uintptr_t)w->from, w->n, rs->mr->lkey } };
	struct ibv_send_wr wr[2] = { { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge[0], .num_sge = 1 } };
	uint32_t le = msg != NULL ? *msg : 0;
	bool tell;

	wr[0].wr.rdma.remote_addr = w->to;
	wr[0].wr.rdma.rkey = w->key;
	if (w->n <= rs->inl)
		wr[0].send_flags = IBV_SEND_INLINE;
	rs->quiet_bytes += w->ring;
	/*
	 * At most a quarter of queue and ring may be in flight without a request that has a completion; CREDIT always
	 * has one.
	 */
	tell = rs->quiet_bytes >= rs->ssize / 4 || rs->quiet_wrs >= rs->sq_size / 4 || w->ring == 0;
	if (msg == NULL) {
		post(rs, &wr[0], &wr[0], 1, tell);
		return;
	}
	msg_fill(&wr[1], &sge[1], &le);
	wr[0].next = &wr[1];
	post(rs, &wr[0], &wr[1], 2, tell);
}

void rsock_msg_post(struct rsock *rs, enum rsock_msg type, uint32_t value)
{
	uint32_t le = rsock_msg(type, value);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	msg_fill(&wr, &sge, &le);
	post(rs, &wr, &wr, 1, true);
}

/* ---- offering buffers and credits ---- */

static uint64_t peer64(const struct rsock *rs, uint64_t v) { return rs->peer_big ? htobe64(v) : htole64(v); }
static uint32_t peer32(const struct rsock *rs, uint32_t v) { return rs->peer_big ? htobe32(v) : htole32(v); }

void rsock_offer(struct rsock *rs)
{
	uint32_t half = rs->rsize / 2, msg;
	bool buffer = rs->r_free >= half;
	bool credit = (uint16_t)(rs->granted - rs->rseq) <= rs->credits / 2;

	if (rs->rx_end || (!buffer && !credit) || !rsock_room(rs, 2))
		return;
	rs->granted = (uint16_t)(rs->rseq + rs->credits);
	msg = rsock_msg(RSOCK_CREDIT, rs->granted);
	if (!buffer) {
		rsock_msg_post(rs, RSOCK_CREDIT, rs->granted);
		return;
	}
	struct rsock_sge s = { peer64(rs, (uintptr_t)(rs->rbuf + rs->r_next)), peer32(rs, rs->mr->rkey),
			       peer32(rs, half) };
	struct rsock_write w = {
		.from = &s, .n = sizeof(s), .to = rs->peer_sgl.addr + rs->peer_slot * sizeof(s), .key = rs->peer_sgl.key
	};
	rs->peer_slot = (rs->peer_slot + 1) % rs->peer_sgl.length;
	rs->r_next = rs->r_next == 0 ? half : 0;
	rs->r_free -= half;
	rs->r_offered += half;
	rsock_write_post(rs, &w, &msg);
}

/*
 * Takes the next SGL entry if the peer has written it. A CREDIT follows each offered buffer, but not each CREDIT has a
 * buffer. An entry that is still being written has no length yet, since the length is its last part.
 */
static void target_take(struct rsock *rs)
{
	volatile struct rsock_sge *from = &rs->sgl[rs->next_sgl];
	uint32_t length = from->length;

	if (length == 0 || rs->ntargets == RSOCK_SGL)
		return;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	rs->target[rs->ntargets++] = (struct rsock_sge){ from->addr, from->key, length };
	from->length = 0;
	rs->next_sgl = (rs->next_sgl + 1) % RSOCK_SGL;
}

/* ---- completions ---- */

static void on_control(struct rsock *rs, uint32_t what)
{
	if (what == RSOCK_SHUTDOWN) {
		rs->rx_end = true;
		if (rs->tx_shut)
			rsock_over(rs, 0);
	} else if (what == RSOCK_DISCONNECT) {
		rs->rx_end = true;
		rsock_over(rs, 0);
	}
}

static void on_message(struct rsock *rs, uint32_t msg)
{
	uint32_t value = msg & RSOCK_VALUE_MASK;

	switch ((enum rsock_msg)(msg >> RSOCK_VALUE_BITS)) {
	case RSOCK_DATA:
		if (value > rs->r_offered || rs->rx_end) {
			rsock_over(rs, EPROTO);
			return;
		}
		rs->r_offered -= value;
		rs->r_avail += value;
		rs->rseq++;
		break;
	case RSOCK_CREDIT:
		rs->seq_max = (uint16_t)value;
		target_take(rs);
		break;
	case RSOCK_IOMAP: break;
	case RSOCK_CONTROL: on_control(rs, value); break;
	default: rsock_over(rs, EPROTO);
	}
}

/* Handles n completions and posts again the receives among them. */
static void completions(struct rsock *rs, const struct ibv_wc *wc, int n)
{
	struct rsock_recv again[BATCH];
	struct ibv_recv_wr *bad;
	unsigned k = 0;

	for (int i = 0; i < n; i++) {
		uint32_t low = (uint32_t)wc[i].wr_id;
		if (wc[i].status != IBV_WC_SUCCESS) {
			rsock_lost(rs);
			return;
		}
		if ((wc[i].wr_id & WR_RECV) == 0) {
			rs->sq_free += (uint32_t)(wc[i].wr_id >> 32);
			rs->s_used -= low;
			continue;
		}
		if (rs->state != RSOCK_OPEN)
			continue;
		if (wc[i].byte_len != sizeof(*rs->msg)) {
			rsock_over(rs, EPROTO);
			continue;
		}
		on_message(rs, le32toh(rs->msg[low]));
		rsock_recv_fill(&again[k], rs, low);
		if (k > 0)
			again[k - 1].wr.next = &again[k].wr;
		k++;
	}
	if (k > 0 && ibv_post_recv(rs->id->qp, &again[0].wr, &bad) != 0)
		rsock_lost(rs);
}

void rsock_progress(struct rsock *rs)
{
	struct ibv_wc wc[BATCH];
	bool any = false;
	int n;

	if (rs->cq == NULL || (rs->state != RSOCK_OPEN && rs->state != RSOCK_GONE))
		return;
	do {
		n = ibv_poll_cq(rs->cq, BATCH, wc);
		if (n < 0) {
			rs->broken = true;
			rsock_over(rs, EIO);
		}
		if (n > 0)
			completions(rs, wc, n);
		any |= n > 0;
	} while (n == BATCH);
	if (!any)
		return;
	rsock_offer(rs);
	rsock_kick(rs);
}
