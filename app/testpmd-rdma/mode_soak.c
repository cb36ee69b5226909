/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Soak: a seeded random mix of Sends, Writes and Reads of random length and alignment, each compared byte by byte.
 * Operation number k of a queue pair is a function of (seed, side, queue pair, k), so the receiver can compute what
 * must come next: a Send with its pattern, or the 8-byte Send that follows a Write, whose bytes must then be in their
 * slot. Reads fetch from an area of constant pattern and are compared by the reader.
 *
 * The receiver RDMA-Writes the number of the operation that it waits for into the sender's credit word; a sender is
 * never more than `depth` operations ahead of it, which is the number of receives and of slots.
 */
#include "tp_pattern.h"
#include "tp_soaking.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define NOTE_LEN 8u

struct soak_qp {
	uint64_t posted, done; /* own operations */
	uint64_t expect;       /* number of the peer's operation that the next receive belongs to */
	uint64_t posted_recv, received, granted;
	uint64_t first;  /* number of the first own operation that the peer receives */
	uint64_t *stamp; /* ns, of operation k at k % depth */
	bool *completed; /* operation k at k % depth, for k in [done, posted) */
	bool credit_busy;
};

struct soak {
	struct tp_soaking sum;
	uint64_t noted; /* number of own operations that make the peer receive */
	struct soak_qp qp[];
};

static void soak_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	*sq = 2 * p->depth + 1; /* a Write takes two requests; one more for the credit */
	*rq = p->depth;
}

/* The first operation from k on that is not a Read: the receiver does not notice Reads. */
static uint64_t next_noticed(const struct tp_run *r, bool by_server, uint32_t q, uint64_t k)
{
	while (tp_soak_op(r, by_server, q, k).kind == TP_SOAK_READ)
		k++;
	return k;
}

static enum tp_verdict soak_post_recv(struct tp_run *r, uint32_t q)
{
	struct tp_session *s = r->s;
	struct soak_qp *sq = &((struct soak *)r->state)->qp[q];
	uint64_t slot = sq->posted_recv++ % r->p->depth;
	struct ibv_sge sge = { (uintptr_t)s->region + tp_rx_off(&s->layout, q, slot), (uint32_t)s->layout.stride,
			       s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = tp_wr_id(TP_WR_RECV, q, 0), .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(tp_qp(s, q), &wr, &bad);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a receive");
}

static enum tp_verdict soak_prepare(struct tp_run *r)
{
	const struct tp_point *p = r->p;
	struct tp_session *s = r->s;
	struct soak *k =
		calloc(1, sizeof(*k) + p->qps * (sizeof(k->qp[0]) + p->depth * (sizeof(uint64_t) + sizeof(bool))));
	enum tp_verdict v = TP_OK;

	if (k == NULL)
		return tp_fail(s->err, TP_NO_MEMORY, "out of memory");
	r->state = k;
	tp_soak_fill_constant(r);
	for (uint32_t q = 0; q < p->qps; q++) {
		k->qp[q].stamp = (uint64_t *)(void *)&k->qp[p->qps] + (size_t)q * p->depth;
		k->qp[q].completed = (bool *)((uint64_t *)(void *)&k->qp[p->qps] + (size_t)p->qps * p->depth) +
				     (size_t)q * p->depth;
		k->qp[q].first = next_noticed(r, s->is_server, q, 0);
		k->qp[q].expect = next_noticed(r, !s->is_server, q, 0);
		for (uint32_t i = 0; r->rx && v == TP_OK && i < p->depth; i++)
			v = soak_post_recv(r, q);
	}
	return v;
}

static enum tp_verdict post_op(struct tp_run *r, uint32_t q, uint64_t now)
{
	struct tp_session *s = r->s;
	struct soak *st = r->state;
	struct soak_qp *sq = &st->qp[q];
	uint64_t k = sq->posted++, slot = k % r->p->depth;
	struct tp_soak_op op = tp_soak_op(r, s->is_server, q, k);
	uint8_t *tx = s->region + tp_tx_off(&s->layout, q, slot) + op.off;
	struct ibv_sge sge = { (uintptr_t)tx, op.len, s->mr->lkey };
	struct ibv_sge note = { (uintptr_t)s->region + s->layout.fence, NOTE_LEN, s->mr->lkey };
	struct ibv_send_wr second = { .wr_id = tp_wr_id(TP_WR_DATA, q, k + 1),
				      .sg_list = &note,
				      .num_sge = 1,
				      .opcode = IBV_WR_SEND,
				      .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_DATA, q, k + 1),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	if (op.kind == TP_SOAK_READ) {
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = s->peer.addr + s->layout.constant + op.off;
	} else {
		tp_pattern_fill(tx, op.len, op.seed, 0);
		st->noted++;
	}
	if (op.kind == TP_SOAK_WRITE) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = s->peer.addr + tp_rx_off(&s->layout, q, r->p->depth + slot) + op.off;
		wr.send_flags = 0;
		wr.next = &second;
	}
	wr.wr.rdma.rkey = s->peer.rkey;
	st->sum.bytes += op.len;
	st->sum.started++;
	sq->stamp[slot] = now;
	errno = tp_post_send(s, q, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting an operation");
}

/* Compares the bytes of operation k at buf with the pattern of seed, from position pos on. */
static void compare(struct tp_run *r, uint64_t k, const struct tp_soak_op *op, const void *buf, uint64_t seed,
		    uint64_t pos)
{
	static const char *const what[] = {
		[TP_SOAK_SEND] = "Send", [TP_SOAK_WRITE] = "Write", [TP_SOAK_READ] = "Read"
	};
	size_t bad = tp_pattern_check(buf, op->len, seed, pos);

	r->fig.checked += op->len;
	if (bad != TP_PATTERN_GOOD && r->fig.wrong++ == 0)
		tp_fail(r->s->err, TP_CORRUPT,
			"wrong data: %s number %" PRIu64 " of %u bytes at alignment %u, first wrong byte %zu "
			"(it is 0x%02x); repeat with --seed %" PRIu64,
			what[op->kind], k, op->len, op->off, bad, ((const uint8_t *)buf)[bad], r->p->seed);
}

static enum tp_verdict soak_grant(struct tp_run *r, uint32_t q, uint64_t step)
{
	struct tp_session *s = r->s;
	struct soak_qp *sq = &((struct soak *)r->state)->qp[q];
	uint64_t *word = (uint64_t *)(void *)(s->region + tp_credit_out(q));
	struct ibv_sge sge = { (uintptr_t)word, 8, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_CREDIT, q, 0),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { s->peer.addr + tp_credit_in(q), s->peer.rkey } };

	if (sq->credit_busy || sq->expect - sq->granted < step)
		return TP_OK;
	sq->granted = sq->expect;
	*word = htole64(sq->granted);
	sq->credit_busy = true;
	errno = tp_post_send(s, q, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a credit Write");
}

static uint64_t grant_step(const struct tp_run *r) { return r->p->depth / 4 + 1; }

static enum tp_verdict soak_on_recv(struct tp_run *r, const struct ibv_wc *wc)
{
	struct tp_session *s = r->s;
	uint32_t q = tp_wr_qp(wc->wr_id);
	struct soak *st = r->state;
	struct soak_qp *sq = &st->qp[q];
	uint64_t k = sq->expect, recv_slot = sq->received++ % r->p->depth;
	struct tp_soak_op op = tp_soak_op(r, !s->is_server, q, k);
	uint32_t due = op.kind == TP_SOAK_WRITE ? NOTE_LEN : op.len;
	enum tp_verdict v;

	if (wc->byte_len != due)
		return tp_fail(s->err, TP_CORRUPT,
			       "message %" PRIu64 " of queue pair %u has %u bytes instead of %u: lost, doubled or "
			       "out of order; repeat with --seed %" PRIu64,
			       k, q, wc->byte_len, due, r->p->seed);
	if (op.kind == TP_SOAK_WRITE)
		compare(r, k, &op, s->region + tp_rx_off(&s->layout, q, r->p->depth + k % r->p->depth) + op.off,
			op.seed, 0);
	else
		compare(r, k, &op, s->region + tp_rx_off(&s->layout, q, recv_slot), op.seed, 0);
	st->sum.come++;
	sq->expect = next_noticed(r, !s->is_server, q, k + 1);
	v = soak_post_recv(r, q);
	return v == TP_OK ? soak_grant(r, q, grant_step(r)) : v;
}

static enum tp_verdict soak_on_wc(struct tp_run *r, const struct ibv_wc *wc, uint64_t now)
{
	struct tp_session *s = r->s;
	uint32_t q = tp_wr_qp(wc->wr_id);
	struct soak_qp *sq;
	struct tp_soak_op op;
	uint64_t k;

	if (wc->status != IBV_WC_SUCCESS || q >= r->p->qps)
		return tp_session_wc(s, wc);
	sq = &((struct soak *)r->state)->qp[q];
	if (tp_wr_kind(wc->wr_id) == TP_WR_RECV)
		return soak_on_recv(r, wc);
	if (tp_wr_kind(wc->wr_id) == TP_WR_CREDIT) {
		sq->credit_busy = false;
		return soak_grant(r, q, grant_step(r));
	}
	if (tp_wr_kind(wc->wr_id) != TP_WR_DATA)
		return tp_session_wc(s, wc);
	k = tp_wr_count(wc->wr_id, sq->done) - 1;
	if (k - sq->done >= sq->posted - sq->done || sq->completed[k % r->p->depth])
		return tp_fail(s->err, TP_CORRUPT,
			       "operation %" PRIu64 " of queue pair %u completed twice or without being posted", k, q);
	r->fig.overtaken += k != sq->done;
	sq->completed[k % r->p->depth] = true;
	while (sq->done < sq->posted && sq->completed[sq->done % r->p->depth])
		sq->completed[sq->done++ % r->p->depth] = false;
	tp_hist_add(&r->hist, now - sq->stamp[k % r->p->depth]);
	op = tp_soak_op(r, s->is_server, q, k);
	if (op.kind == TP_SOAK_READ)
		compare(r, k, &op, s->region + tp_tx_off(&s->layout, q, k % r->p->depth) + op.off,
			tp_soak_constant(r, true), op.off);
	return TP_OK;
}

static enum tp_verdict soak_start(struct tp_run *r, uint32_t q, uint64_t now, bool drained, bool *posted)
{
	const struct soak_qp *sq = &((const struct soak *)r->state)->qp[q];
	const _Atomic uint64_t *word = (const void *)(r->s->region + tp_credit_in(q));
	uint64_t awaited = le64toh(atomic_load_explicit(word, memory_order_acquire));

	(void)drained;
	if (awaited < sq->first)
		awaited = sq->first; /* nothing granted yet; Reads before this operation need no receiver */
	if (sq->posted - sq->done >= r->p->depth || (sq->posted >= awaited && sq->posted - awaited >= r->p->depth))
		return TP_OK;
	*posted = true;
	return post_op(r, q, now);
}

static bool soak_done(const struct tp_run *r, uint64_t now)
{
	const struct soak *st = r->state;

	(void)now;
	for (uint32_t q = 0; q < r->p->qps; q++)
		if (st->qp[q].done != st->qp[q].posted || st->qp[q].credit_busy)
			return false;
	return true;
}

static enum tp_verdict soak_end(struct tp_run *r)
{
	r->posted = ((const struct soak *)r->state)->noted;
	return tp_ctrl_send_fin(r->s, r->posted, 0);
}

static bool soak_all_come(const struct tp_run *r, uint64_t now)
{
	(void)now;
	return ((const struct soak *)r->state)->sum.come == r->s->fin_posted;
}

static enum tp_verdict soak_run(struct tp_run *r)
{
	static const struct tp_soak_way way = {
		.on_wc = soak_on_wc, .start = soak_start, .done = soak_done, .end = soak_end, .all_come = soak_all_come
	};

	return tp_soak_run(r, &way);
}

const struct tp_engine tp_soak = {
	.mode = TP_SOAK,
	.two_sided = true,
	.depths = soak_depths,
	.prepare = soak_prepare,
	.run = soak_run,
};
