/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Soak of unreliable datagrams: a seeded mix of Sends, Write-Records and Read-Records of random length and alignment.
 * Every range that a completion reports as valid is compared; bytes that no completion reports count as lost. Operation
 * number k of a queue pair is a function of (seed, side, queue pair, k); k is the immediate of a Send and of a record.
 * Each operation has a slot of its own, which the receiver overwrites when no more completions can report it, so that
 * bytes of an earlier operation are not mistaken for valid ones.
 *
 * The receiver reports the end of an operation by a record of its own, sent twice. Then the sender uses the slot for
 * another operation. An operation counts as lost GONE_NS after a later one has ended, or AGE_NS after it was posted;
 * then its slot is used again, too.
 */
#include "tp_pattern.h"
#include "tp_soaking.h"
#include "tp_ud.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GONE_NS  UINT64_C(600000000) /* longer than rnicd's record-timeout is by default */
#define AGE_NS   UINT64_C(3000000000)
#define QUIET_NS UINT64_C(300000000)
#define ACKS     2u
#define WIPE     0

struct ud_slot {
	bool busy, sent; /* sent: its work request is complete */
	uint32_t k;
	uint64_t since; /* ns */
};

struct ud_qp {
	uint32_t posted, next; /* own operations; the slot to look at first */
	uint32_t acks;         /* reports under way */
	uint64_t over_since;   /* ns: post time of the latest operation that has ended */
	struct ud_slot *slot;
};

struct ud_soak {
	struct tp_soaking sum;
	uint64_t last_at; /* ns: time of the last arrival */
	struct ud_qp qp[];
};

static void ud_soak_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	*sq = p->depth + 2 * ACKS * p->depth;
	*rq = p->depth;
}

static struct tp_soak_op op_of(const struct tp_run *r, bool by_server, uint32_t q, uint32_t k)
{
	struct tp_soak_op op = tp_soak_op(r, by_server, q, k);

	/* Only the length of Sends varies, because the receive has been posted before. */
	op.off = op.kind == TP_SOAK_SEND ? 0 : op.off;
	if (op.len + op.off > TP_MAX_UD_SIZE)
		op.len = (uint32_t)TP_MAX_UD_SIZE - op.off;
	return op;
}

static enum tp_verdict ud_soak_recv(struct tp_run *r, uint32_t q, uint64_t slot)
{
	struct tp_session *s = r->s;
	struct ibv_sge sge = { (uintptr_t)s->region + tp_rx_off(&s->layout, q, slot) - TP_GRH,
			       (uint32_t)r->p->size + TP_GRH, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = tp_wr_id(TP_WR_RECV, q, slot), .sg_list = &sge, .num_sge = 1 }, *bad;

	memset(s->region + tp_rx_off(&s->layout, q, slot), WIPE, r->p->size);
	errno = ibv_post_recv(tp_qp(s, q), &wr, &bad);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a receive");
}

static enum tp_verdict ud_soak_prepare(struct tp_run *r)
{
	const struct tp_point *p = r->p;
	struct tp_session *s = r->s;
	struct ud_soak *st = calloc(1, sizeof(*st) + p->qps * (sizeof(st->qp[0]) + p->depth * sizeof(struct ud_slot)));
	enum tp_verdict v = TP_OK;

	r->state = st;
	if (st == NULL)
		return tp_fail(s->err, TP_NO_MEMORY, "out of memory");
	tp_soak_fill_constant(r);
	for (uint32_t q = 0; q < p->qps; q++) {
		st->qp[q].slot = (struct ud_slot *)(void *)&st->qp[p->qps] + (size_t)q * p->depth;
		for (uint32_t i = 0; r->rx && v == TP_OK && i < p->depth; i++)
			v = ud_soak_recv(r, q, i);
	}
	return v;
}

static enum tp_verdict ud_soak_post(struct tp_run *r, uint32_t q, uint32_t slot, uint64_t now)
{
	struct tp_session *s = r->s;
	struct ud_soak *st = r->state;
	const uint32_t k = st->qp[q].posted++;
	const struct tp_soak_op op = op_of(r, s->is_server, q, k);
	const uint64_t there = tp_rx_off(&s->layout, q, r->p->depth + slot);
	const uint64_t back = tp_rx_off(&s->layout, q, 2 * r->p->depth + slot);
	uint8_t *tx = s->region + tp_tx_off(&s->layout, q, slot) + op.off, *sink = s->region + back + op.off;
	struct ibv_sge sge = { (uintptr_t)(op.kind == TP_SOAK_READ ? sink : tx), op.len, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_DATA, q, slot),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .imm_data = htobe32(k),
				  .send_flags = IBV_SEND_SIGNALED,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .wr.rdma = { s->peer.addr + there + op.off, s->peer.rkey } };

	if (op.kind == TP_SOAK_READ) {
		memset(sink, WIPE, op.len);
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = s->peer.addr + s->layout.constant + s->layout.head + op.off;
	} else {
		tp_pattern_fill(tx, op.len, op.seed, 0);
	}
	if (op.kind == TP_SOAK_WRITE)
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	st->qp[q].slot[slot] = (struct ud_slot){ .busy = true, .k = k, .since = now };
	st->sum.started++;
	st->sum.bytes += op.len;
	errno = tp_post_send(s, q, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting an operation");
}

/* Reports the end of operation k to the sender, twice, as a datagram may be lost. Without a report the operation ends
 * by time. */
static enum tp_verdict ud_soak_ack(struct tp_run *r, uint32_t q, uint32_t k)
{
	struct tp_session *s = r->s;
	struct ud_qp *uq = &((struct ud_soak *)r->state)->qp[q];
	struct ibv_sge sge = { (uintptr_t)s->region + tp_credit_out(q), 8, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_CREDIT, q, 0),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .imm_data = htobe32(k),
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { s->peer.addr + tp_credit_in(q), s->peer.rkey } };

	for (unsigned i = 0; i < ACKS && uq->acks < 2 * ACKS * r->p->depth; i++) {
		uq->acks++;
		errno = tp_post_send(s, q, &wr);
		if (errno != 0)
			return tp_verbs_fail(s->err, "telling that an operation is over");
	}
	return TP_OK;
}

/* Compares [at, at + len), which a completion reports as valid, with the pattern of seed from position pos on. */
static void ud_compare(struct tp_run *r, uint32_t k, const struct tp_soak_op *op, const struct tp_ud_msg *m,
		       uint64_t seed, uint64_t pos)
{
	static const char *const what[] = {
		[TP_SOAK_SEND] = "Send", [TP_SOAK_WRITE] = "Write-Record", [TP_SOAK_READ] = "Read-Record"
	};
	const size_t bad = tp_pattern_check(m->at, m->len, seed, pos);

	r->fig.checked += m->len;
	if (bad != TP_PATTERN_GOOD && r->fig.wrong++ == 0)
		tp_fail(r->s->err, TP_CORRUPT,
			"wrong data: %s number %" PRIu32
			" of %u bytes at alignment %u, told as valid from byte %" PRIu64
			" on, of which number %zu is wrong (it is 0x%02x); repeat with --seed %" PRIu64,
			what[op->kind], k, op->len, op->off, m->off - op->off, bad, m->at[bad], r->p->seed);
}

static enum tp_verdict ud_misplaced(struct tp_run *r, uint32_t k, const struct tp_ud_msg *m)
{
	return tp_fail(r->s->err, TP_CORRUPT,
		       "%" PRIu64 " bytes at %" PRIu64 " of a slot are told as operation %" PRIu32
		       ", which is another one; repeat with --seed %" PRIu64,
		       m->len, m->off, k, r->p->seed);
}

/* The peer's Send or Write-Record. */
static enum tp_verdict ud_soak_come(struct tp_run *r, const struct ibv_wc *wc, const struct tp_ud_msg *m)
{
	const struct tp_soak_op op = op_of(r, !r->s->is_server, m->qp, m->number);
	const bool send = wc->opcode == IBV_WC_RECV;
	enum tp_verdict v = TP_OK;

	if (op.kind != (send ? TP_SOAK_SEND : TP_SOAK_WRITE) || m->off < op.off || m->off + m->len > op.off + op.len ||
	    m->whole != (m->len == op.len))
		return ud_misplaced(r, m->number, m);
	ud_compare(r, m->number, &op, m, op.seed, m->off - op.off);
	if (!m->last)
		return TP_OK;
	((struct ud_soak *)r->state)->sum.come++;
	if (send)
		v = ud_soak_recv(r, m->qp, wc->wr_id & 0xffffffffff);
	else
		memset(m->at - (m->off - op.off), WIPE, op.len);
	return v == TP_OK ? ud_soak_ack(r, m->qp, m->number) : v;
}

/* The answer to an own Read-Record. */
static enum tp_verdict ud_soak_answer(struct tp_run *r, const struct tp_ud_msg *m)
{
	struct tp_session *s = r->s;
	struct ud_slot *at = &((struct ud_soak *)r->state)->qp[m->qp].slot[m->slot - 2 * r->p->depth];
	const struct tp_soak_op op = op_of(r, s->is_server, m->qp, at->k);

	if (!at->busy || op.kind != TP_SOAK_READ || m->off < op.off || m->off + m->len > op.off + op.len)
		return ud_misplaced(r, at->k, m);
	ud_compare(r, at->k, &op, m, tp_soak_constant(r, true), s->layout.head + m->off);
	if (m->last)
		at->busy = false;
	return TP_OK;
}

static void ud_over(struct ud_qp *uq, struct ud_slot *slot)
{
	slot->busy = false;
	if (slot->since > uq->over_since)
		uq->over_since = slot->since;
}

static enum tp_verdict ud_soak_on_gram(struct tp_run *r, const struct ibv_wc *wc, uint64_t now)
{
	struct ud_soak *st = r->state;
	struct tp_ud_msg m;
	enum tp_verdict v = tp_ud_parse(r, wc, &m);

	if (v != TP_OK)
		return v;
	st->last_at = now;
	if (m.credit) {
		struct ud_qp *uq = &st->qp[(wc->wr_id - (uintptr_t)r->s->region) / 128];

		for (uint32_t i = 0; i < r->p->depth; i++)
			if (uq->slot[i].busy && uq->slot[i].k == m.number)
				ud_over(uq, &uq->slot[i]);
		return TP_OK;
	}
	if (wc->opcode == IBV_WC_RECV)
		return ud_soak_come(r, wc, &m);
	if (m.slot < r->p->depth || m.slot >= 3 * r->p->depth)
		return ud_misplaced(r, m.number, &m);
	return m.slot < 2 * r->p->depth ? ud_soak_come(r, wc, &m) : ud_soak_answer(r, &m);
}

static enum tp_verdict ud_soak_on_wc(struct tp_run *r, const struct ibv_wc *wc, uint64_t now)
{
	struct ud_soak *st = r->state;
	const uint32_t q = tp_wr_qp(wc->wr_id);

	if (wc->status == IBV_WC_SUCCESS && wc->opcode >= IBV_WC_RECV)
		return ud_soak_on_gram(r, wc, now);
	if (wc->status == IBV_WC_SUCCESS && tp_wr_kind(wc->wr_id) == TP_WR_DATA && q < r->p->qps)
		st->qp[q].slot[(wc->wr_id & 0xffffffffff) % r->p->depth].sent = true;
	if (wc->status == IBV_WC_SUCCESS && tp_wr_kind(wc->wr_id) == TP_WR_CREDIT && q < r->p->qps)
		st->qp[q].acks--;
	return tp_session_wc(r->s, wc);
}

/* A free slot. now: 0 while completions wait that may report a slot. */
static bool is_free(const struct ud_qp *uq, const struct ud_slot *s, uint64_t now)
{
	if (s->since == 0)
		return true;
	return s->sent &&
	       (!s->busy || now > s->since + AGE_NS || (now > s->since + GONE_NS && uq->over_since > s->since));
}

/* Posts one operation of this queue pair, if it has a slot. */
static enum tp_verdict ud_soak_start(struct tp_run *r, uint32_t q, uint64_t now, bool drained, bool *posted)
{
	struct ud_qp *uq = &((struct ud_soak *)r->state)->qp[q];

	for (uint32_t i = 0; i < r->p->depth; i++) {
		const uint32_t slot = (uq->next + i) % r->p->depth;

		if (!is_free(uq, &uq->slot[slot], drained ? now : 0))
			continue;
		uq->next = slot + 1;
		*posted = true;
		return ud_soak_post(r, q, slot, now);
	}
	return TP_OK;
}

static bool all_free(const struct tp_run *r, uint64_t now)
{
	const struct ud_soak *st = r->state;

	for (uint32_t q = 0; q < r->p->qps; q++)
		for (uint32_t i = 0; i < r->p->depth; i++)
			if (!is_free(&st->qp[q], &st->qp[q].slot[i], now))
				return false;
	return true;
}

static enum tp_verdict ud_soak_end(struct tp_run *r)
{
	const struct tp_soaking *sum = r->state;

	r->posted = sum->started;
	r->fig.sent = sum->started;
	r->fig.sent_bytes = sum->bytes;
	return tp_ctrl_send_fin(r->s, r->posted, 0);
}

/* Late datagrams may still come. */
static bool ud_soak_all_come(const struct tp_run *r, uint64_t now)
{
	return now - ((const struct ud_soak *)r->state)->last_at > QUIET_NS;
}

static enum tp_verdict ud_soak_run(struct tp_run *r)
{
	static const struct tp_soak_way way = { .by_time = true, /* this time may free a slot */
						.on_wc = ud_soak_on_wc,
						.start = ud_soak_start,
						.done = all_free,
						.end = ud_soak_end,
						.all_come = ud_soak_all_come };

	((struct ud_soak *)r->state)->last_at = tp_now();
	return tp_soak_run(r, &way);
}

const struct tp_engine tp_ud_soak = {
	.mode = TP_SOAK,
	.two_sided = true,
	.depths = ud_soak_depths,
	.prepare = ud_soak_prepare,
	.run = ud_soak_run,
};
