/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages over the control connection. Sleeps on its completion channel; polls it inside busy loops. */
#include "tp_clock.h"
#include "tp_session.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define SLICE_MS 100 /* how late a broken connection or a stop is noticed while sleeping */

enum tp_verdict tp_ctrl_send(struct tp_session *s, const struct tp_msg *m)
{
	uint8_t *buf = s->ctrl_buf + (TP_CTRL_MSGS + s->ctrl_sent) * TP_MSG_SIZE;
	struct ibv_sge sge = { (uintptr_t)buf, TP_MSG_SIZE, s->ctrl_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_CTRL, 0, s->ctrl_sent),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (s->ctrl_sent == TP_CTRL_MSGS)
		return tp_fail(s->err, TP_BAD_PEER, "more control messages than a run has");
	tp_msg_encode(buf, m);
	s->ctrl_sent++;
	errno = ibv_post_send(s->ctrl.id->qp, &wr, &bad);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "sending a control message");
}

static enum tp_verdict take_message(struct tp_session *s, const struct ibv_wc *wc)
{
	/* The peer cannot write here any more, so decoding in place is decoding a copy. */
	const uint8_t *wire = s->ctrl_buf + (wc->wr_id & 0xff) * TP_MSG_SIZE;
	struct tp_msg *m = &s->inbox[s->inbox_tail % TP_CTRL_MSGS];
	enum tp_verdict v = tp_msg_decode(m, wire, wc->byte_len, s->err);

	if (v != TP_OK)
		return v;
	if (m->type == TP_MSG_ERROR)
		return tp_fail(s->err, TP_BAD_PEER, "the %s says: %s", s->is_server ? "client" : "server", m->text);
	if (m->type == TP_MSG_FIN) {
		s->fin_posted = m->word[0];
		s->fin_min_posted = m->word[1];
		s->peer_stopped = m->word[2] != 0;
		s->fin_seen = true;
		return TP_OK;
	}
	s->inbox_tail++;
	return TP_OK;
}

enum tp_verdict tp_ctrl_pump(struct tp_session *s)
{
	struct ibv_wc wc;
	enum tp_verdict v;
	int n;

	while ((n = ibv_poll_cq(s->ctrl_cq, 1, &wc)) > 0) {
		if (wc.status == IBV_WC_WR_FLUSH_ERR)
			return tp_fail(s->err, TP_PEER_GONE, "the %s closed the connection: see its output",
				       s->is_server ? "client" : "server");
		if (wc.status != IBV_WC_SUCCESS)
			return tp_wc_fail(s, &wc);
		s->cards_done += tp_wr_kind(wc.wr_id) == TP_WR_CARDS;
		if (tp_wr_kind(wc.wr_id) != TP_WR_CTRL_RECV)
			continue;
		v = take_message(s, &wc);
		if (v != TP_OK)
			return v;
	}
	return n == 0 ? TP_OK : tp_fail(s->err, TP_VERBS_ERROR, "polling the control completion queue failed");
}

/* Sleeps once on the control channel. */
static enum tp_verdict nap(struct tp_session *s)
{
	struct pollfd fd = { .fd = s->ctrl_chan->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, SLICE_MS) <= 0)
		return TP_OK;
	if (ibv_get_cq_event(s->ctrl_chan, &cq, &context) != 0)
		return errno == EAGAIN ? TP_OK : tp_verbs_fail(s->err, "waiting for a control event");
	ibv_ack_cq_events(cq, 1);
	errno = ibv_req_notify_cq(cq, 0);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "asking for control events");
}

enum tp_verdict tp_ctrl_rdma(struct tp_session *s, enum ibv_wr_opcode op, uint64_t local, uint64_t remote, uint32_t len)
{
	const uint32_t want = s->cards_done + 1;
	const uint64_t start = tp_now();
	struct ibv_sge sge = { (uintptr_t)s->region + local, len, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_CARDS, 0, 0),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { s->peer.addr + remote, s->peer.rkey } },
			   *bad;
	enum tp_verdict v;

	errno = ibv_post_send(s->ctrl.id->qp, &wr, &bad);
	if (errno != 0)
		return tp_verbs_fail(s->err, "exchanging queue pairs");
	while ((v = tp_ctrl_pump(s)) == TP_OK && s->cards_done != want) {
		if (atomic_load(&s->dead) || tp_now() - start > s->point.timeout)
			return tp_fail(s->err, TP_PEER_GONE, "the server went away while queue pairs were exchanged");
		v = nap(s);
		if (v != TP_OK)
			return v;
	}
	return v;
}

/* Receives and sleeps until a message or a FIN has come. */
static enum tp_verdict wait_any(struct tp_session *s, bool fin, uint64_t timeout)
{
	uint64_t start = tp_now();

	for (;;) {
		/* read before receiving: messages that came before the end still count */
		bool dead = atomic_load(&s->dead);
		enum tp_verdict v = tp_ctrl_pump(s);

		if (v != TP_OK)
			return v;
		if (fin ? s->fin_seen : s->inbox_head != s->inbox_tail)
			return TP_OK;
		if (dead)
			return tp_fail(s->err, TP_PEER_GONE, "the %s closed the connection: see its output",
				       s->is_server ? "client" : "server");
		if (s->is_server && atomic_load(s->stop))
			return tp_fail(s->err, TP_STOPPED, "the server is stopping");
		if (timeout != TP_NO_TIMEOUT && tp_now() - start > timeout)
			return tp_fail(s->err, TP_TIMEOUT,
				       "the %s does not answer: is the other side still running, and is the "
				       "network up? (--timeout sets how long to wait)",
				       s->is_server ? "client" : "server");
		v = nap(s);
		if (v != TP_OK)
			return v;
	}
}

enum tp_verdict tp_ctrl_wait(struct tp_session *s, enum tp_msg_type type, struct tp_msg *m, uint64_t timeout)
{
	enum tp_verdict v = wait_any(s, false, timeout);

	if (v != TP_OK)
		return v;
	*m = s->inbox[s->inbox_head++ % TP_CTRL_MSGS];
	if (m->type != type)
		return tp_fail(s->err, TP_BAD_PEER, "the peer sent message %u where %u was due", (unsigned)m->type,
			       (unsigned)type);
	return TP_OK;
}

enum tp_verdict tp_ctrl_wait_fin(struct tp_session *s, uint64_t timeout) { return wait_any(s, true, timeout); }

enum tp_verdict tp_ctrl_send_fin(struct tp_session *s, uint64_t posted, uint64_t min_posted)
{
	struct tp_msg m = { .type = TP_MSG_FIN, .word = { posted, min_posted, atomic_load(s->stop) } };

	return tp_ctrl_send(s, &m);
}
