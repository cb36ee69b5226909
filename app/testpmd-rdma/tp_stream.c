/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipeline of the bandwidth modes: keep `depth` operations outstanding on every queue pair, post them in linked
 * batches, ask for a completion of every Nth, poll in batches. One clock reading per turn, no system call.
 *
 * Sends are paced by credit, so that no receive queue ever runs dry (on iWARP that ends the connection): the receiver
 * RDMA-Writes the number of receives it has posted so far into a word of the sender's region.
 *
 * With unreliable datagrams Write-Records are paced too, since their completions take room in the target's queue, and
 * Read-Records, since their work requests complete before the answer is there. Each message carries its number, and the
 * sender stays within a bound of the highest number that the peer has reported. A sender that gets no report for
 * UD_PATIENCE_NS treats its posted messages as lost.
 */
#include "tp_engine.h"
#include "tp_ud.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POLL_BATCH     32
#define TURNS_PER_LOOK 256u /* turns between two checks of the control queue while busy */
#define UD_PATIENCE_NS UINT64_C(100000000)
/* after this silence nothing more comes: longer than the default of record-timeout */
#define UD_QUIET_NS UINT64_C(300000000)

enum phase { WARM, MEASURE, DRAIN }; /* WARM and MEASURE post; DRAIN only collects */

struct stream_qp {
	uint64_t posted, done; /* operations */
	uint64_t granted;      /* receives posted, told to the peer */
	uint64_t posted_recv, arrived;
	/* with messages that may be lost: the highest number that was reported back, or received here */
	uint64_t heard;
	uint64_t assumed;                  /* credit that was taken after UD_PATIENCE_NS */
	uint64_t stalled_with, stalled_at; /* as the stall began: operations posted; ns */
	uint64_t *stamp;                   /* when the signalled request with count c was posted: stamp[c & mask], ns */
	uint32_t unsignaled, used_recv;
	uint32_t tx_slot;
	bool stalled, credit_busy;
};

struct stream {
	struct tp_run *r;
	struct tp_session *s;
	enum ibv_wr_opcode opcode;
	bool ud;          /* messages may be lost */
	uint64_t last_at; /* ns: time of the last arrival from the other side */
	enum phase phase;
	struct stream_qp *qp;
	struct ibv_send_wr *wr; /* one chain of `batch` requests, used for every post */
	struct ibv_sge *sge;
	struct ibv_recv_wr *rwr;
	struct ibv_sge *rsge;
	uint64_t *stamps;
	uint64_t posted, done, target; /* operations over all queue pairs; target: stop posting there */
	uint64_t received;
	uint64_t begin, done_begin, cpu_begin;
	uint32_t turns, mask, refill, n_stalled,
		open; /* open: queue pairs with something outstanding; refill: recvs per post */
};

void tp_stream_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	*sq = p->depth + 1; /* one more request, to signal the end of an unsignalled tail */
	*rq = 0;
}

void tp_stream_send_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	*sq = p->depth + 1 + 1; /* and one for the credit */
	*rq = tp_recv_depth(p);
}

static enum tp_verdict post_recvs(struct stream *st, uint32_t q, uint32_t n)
{
	struct tp_session *s = st->s;
	struct stream_qp *sq = &st->qp[q];
	struct ibv_recv_wr *bad;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t slot = sq->posted_recv++ % st->r->p->slots;

		st->rsge[i].addr = (uintptr_t)s->region + tp_rx_off(&s->layout, q, slot);
		st->rsge[i].addr -= st->ud ? TP_GRH : 0;
		st->rwr[i].wr_id = tp_wr_id(TP_WR_RECV, q, st->ud ? slot : 0);
		st->rwr[i].next = i + 1 < n ? &st->rwr[i + 1] : NULL;
	}
	errno = ibv_post_recv(tp_qp(s, q), st->rwr, &bad);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting receives");
}

static struct stream *stream_new(struct tp_run *r)
{
	const struct tp_point *p = r->p;
	uint32_t ring = 1, refill = tp_recv_depth(p) / 4;
	size_t fixed;
	struct stream *st;
	uint8_t *mem;

	while (ring < p->depth + 2)
		ring *= 2;
	fixed = sizeof(*st) + p->qps * (sizeof(*st->qp) + ring * sizeof(uint64_t)) +
		p->batch * (sizeof(*st->wr) + sizeof(*st->sge)) + refill * (sizeof(*st->rwr) + sizeof(*st->rsge));
	mem = calloc(1, fixed);
	if (mem == NULL)
		return NULL;
	st = (struct stream *)(void *)mem;
	st->qp = (struct stream_qp *)(st + 1);
	st->stamps = (uint64_t *)(st->qp + p->qps);
	st->wr = (struct ibv_send_wr *)(st->stamps + (size_t)p->qps * ring);
	st->rwr = (struct ibv_recv_wr *)(st->wr + p->batch);
	st->sge = (struct ibv_sge *)(st->rwr + refill);
	st->rsge = st->sge + p->batch;
	st->r = r;
	st->s = r->s;
	st->ud = p->qp_type == TP_QP_UD;
	st->mask = ring - 1;
	st->refill = refill;
	for (uint32_t q = 0; q < p->qps; q++)
		st->qp[q].stamp = st->stamps + (size_t)q * ring;
	for (uint32_t i = 0; i < p->batch; i++) {
		st->sge[i].length = (uint32_t)p->size;
		st->sge[i].lkey = r->s->mr->lkey;
		st->wr[i].sg_list = &st->sge[i];
		st->wr[i].num_sge = 1;
	}
	for (uint32_t i = 0; i < refill; i++) {
		st->rsge[i].length = (uint32_t)p->size + (p->qp_type == TP_QP_UD ? TP_GRH : 0);
		st->rsge[i].lkey = r->s->mr->lkey;
		st->rwr[i].sg_list = &st->rsge[i];
		st->rwr[i].num_sge = 1;
	}
	return st;
}

enum tp_verdict tp_stream_prepare(struct tp_run *r)
{
	r->state = stream_new(r);
	if (r->state == NULL)
		return tp_fail(r->s->err, TP_NO_MEMORY, "out of memory: use a smaller --depth or --qps");
	tp_fill_tx(r);
	return TP_OK;
}

enum tp_verdict tp_stream_prepare_recv(struct tp_run *r)
{
	enum tp_verdict v = tp_stream_prepare(r);
	struct stream *st = r->state;

	for (uint32_t q = 0; v == TP_OK && r->rx && q < r->p->qps; q++) {
		for (unsigned i = 0; v == TP_OK && i < 4; i++)
			v = post_recvs(st, q, st->refill);
		st->qp[q].granted = st->qp[q].posted_recv;
	}
	return v;
}

static bool is_paced(const struct stream *st) { return st->opcode == IBV_WR_SEND || st->ud; }

/* The total number of Sends for which the peer has posted receives, beginning with those of tp_stream_prepare_recv. */
static uint64_t credit(const struct stream *st, uint32_t q)
{
	const _Atomic uint64_t *word = (const void *)(st->s->region + tp_credit_in(q));
	const struct stream_qp *sq = &st->qp[q];
	uint64_t c;

	if (!is_paced(st))
		return UINT64_MAX;
	if (st->opcode == IBV_WR_RDMA_READ) {
		c = sq->heard + st->r->p->depth;
	} else {
		c = atomic_load_explicit(word, memory_order_acquire);
		c = c != 0 ? le64toh(c) : 4 * (uint64_t)st->refill;
	}
	return c > sq->assumed ? c : sq->assumed;
}

/* The number of messages that the peer may send in all. */
static uint64_t to_grant(const struct stream *st, const struct stream_qp *sq)
{
	return st->ud ? sq->heard + 4 * (uint64_t)st->refill : sq->posted_recv;
}

/*
 * Tell the peer of receives posted. One such Write per queue pair at a time; the next Write reports receives posted
 * meanwhile.
 */
static enum tp_verdict stream_grant(struct stream *st, uint32_t q)
{
	struct tp_session *s = st->s;
	struct stream_qp *sq = &st->qp[q];
	uint64_t *word = (uint64_t *)(void *)(s->region + tp_credit_out(q));
	struct ibv_sge sge = { (uintptr_t)word, 8, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_CREDIT, q, 0),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { s->peer.addr + tp_credit_in(q), s->peer.rkey } };

	if (sq->credit_busy || to_grant(st, sq) - sq->granted < (st->ud ? st->refill : 1))
		return TP_OK;
	sq->granted = to_grant(st, sq);
	*word = htole64(sq->granted);
	sq->credit_busy = true;
	errno = tp_post_send(s, q, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a credit Write");
}

static enum tp_verdict post(struct stream *st, uint32_t q, uint32_t n, bool last, uint64_t now)
{
	struct tp_session *s = st->s;
	const struct tp_point *p = st->r->p;
	struct stream_qp *sq = &st->qp[q];
	bool is_read = st->opcode == IBV_WR_RDMA_READ;

	if (sq->posted == sq->done)
		st->open++;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t tx = tp_tx_off(&s->layout, q, sq->tx_slot), rx = tp_rx_off(&s->layout, q, sq->tx_slot);
		struct ibv_send_wr *wr = &st->wr[i];

		st->sge[i].addr = (uintptr_t)s->region + (is_read ? rx : tx);
		wr->wr.rdma.remote_addr = s->peer.addr + (is_read ? tx : rx);
		wr->send_flags = p->size <= s->inline_max && !is_read ? IBV_SEND_INLINE : 0;
		wr->next = i + 1 < n ? wr + 1 : NULL;
		sq->posted++;
		wr->imm_data = htobe32((uint32_t)sq->posted);
		if (++sq->tx_slot == p->slots)
			sq->tx_slot = 0;
		if (++sq->unsignaled >= p->signal_every || (last && i + 1 == n)) {
			sq->unsignaled = 0;
			wr->send_flags |= IBV_SEND_SIGNALED;
			wr->wr_id = tp_wr_id(TP_WR_DATA, q, sq->posted);
			sq->stamp[sq->posted & st->mask] = now;
		} else {
			wr->wr_id = tp_wr_id(TP_WR_DATA, q, 0);
		}
	}
	st->posted += n;
	errno = tp_post_send(s, q, st->wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a batch");
}

/*
 * Post what this queue pair may have: whole batches while posting is open, then one signalled end if a tail is unknown.
 */
static enum tp_verdict fill(struct stream *st, uint32_t q, uint64_t now)
{
	const struct tp_point *p = st->r->p;
	struct stream_qp *sq = &st->qp[q];
	enum tp_verdict v = TP_OK;

	if (sq->stalled) {
		sq->stalled = false;
		st->n_stalled--;
	}
	while (v == TP_OK) {
		bool closed = st->phase == DRAIN || st->posted >= st->target;
		uint32_t n = p->batch;

		if (closed && sq->unsignaled == 0)
			break;
		if (closed)
			n = 1;
		else if (sq->posted - sq->done + n > p->depth)
			break;
		else if (n > st->target - st->posted)
			n = (uint32_t)(st->target - st->posted);
		if (sq->posted + n > credit(st, q)) {
			sq->stalled = true;
			st->n_stalled++;
			if (sq->stalled_with != sq->posted)
				sq->stalled_at = now;
			sq->stalled_with = sq->posted;
			if (!st->ud || now - sq->stalled_at < UD_PATIENCE_NS)
				break;
			sq->assumed = sq->posted + 4 * (uint64_t)st->refill;
			continue;
		}
		v = post(st, q, n, closed || n == st->target - st->posted, now);
		if (p->compute != 0 && !closed)
			now = tp_compute(p->compute);
	}
	return v;
}

static enum tp_verdict fill_all(struct stream *st, uint64_t now, bool only_stalled)
{
	enum tp_verdict v = TP_OK;

	for (uint32_t q = 0; v == TP_OK && q < st->r->p->qps; q++)
		if (!only_stalled || st->qp[q].stalled)
			v = fill(st, q, now);
	return v;
}

/* Receives complete in the order of posting. */
static void touch(const struct stream *st, uint32_t q)
{
	const struct tp_point *p = st->r->p;
	uint64_t slot = st->qp[q].arrived % p->slots, sum = 0;
	const uint64_t *at = (const void *)(st->s->region + tp_rx_off(&st->s->layout, q, slot));

	for (uint64_t i = 0; i < p->size / sizeof(*at); i++)
		sum += at[i];
	__asm__ volatile("" ::"r"(sum)); /* so that the compiler does not remove the sum */
}

static enum tp_verdict stream_on_recv(struct stream *st, const struct ibv_wc *wc)
{
	uint32_t q = tp_wr_qp(wc->wr_id);
	struct stream_qp *sq = &st->qp[q];
	enum tp_verdict v;

	if (wc->byte_len != st->r->p->size)
		return tp_fail(st->s->err, TP_CORRUPT, "a Send of %u bytes arrived where %llu were sent", wc->byte_len,
			       (unsigned long long)st->r->p->size);
	if (st->r->p->touch)
		touch(st, q);
	sq->arrived++;
	st->received++;
	if (++sq->used_recv < st->refill)
		return TP_OK;
	sq->used_recv = 0;
	v = post_recvs(st, q, st->refill);
	return v == TP_OK ? stream_grant(st, q) : v;
}

/* A message of unreliable datagrams, or a part of one, or the answer to a Read. */
static enum tp_verdict stream_on_gram(struct stream *st, const struct ibv_wc *wc, uint64_t now)
{
	struct tp_ud_msg m;
	struct stream_qp *sq;
	uint64_t number;
	enum tp_verdict v = tp_ud_take(st->r, wc, &m);

	if (v != TP_OK || m.credit)
		return v;
	sq = &st->qp[m.qp];
	st->last_at = now;
	if (st->opcode == IBV_WR_RDMA_READ) /* the last one with this slot */
		number = sq->posted - (sq->posted - 1 - m.slot + st->r->p->slots) % st->r->p->slots;
	else
		number = sq->heard + (uint64_t)(int64_t)(int32_t)(m.number - (uint32_t)sq->heard);
	if ((int64_t)(number - sq->heard) > 0)
		sq->heard = number;
	st->received += m.last;
	if (st->opcode == IBV_WR_RDMA_READ)
		return fill(st, m.qp, now);
	if (wc->opcode == IBV_WC_RECV && ++sq->used_recv == st->refill) {
		sq->used_recv = 0;
		v = post_recvs(st, m.qp, st->refill);
	}
	return v == TP_OK ? stream_grant(st, m.qp) : v;
}

static enum tp_verdict stream_on_wc(struct stream *st, const struct ibv_wc *wc, uint64_t now)
{
	uint32_t q = tp_wr_qp(wc->wr_id);
	struct stream_qp *sq;
	uint64_t count;

	if (st->ud && wc->status == IBV_WC_SUCCESS && wc->opcode >= IBV_WC_RECV)
		return stream_on_gram(st, wc, now);
	if (wc->status != IBV_WC_SUCCESS || q >= st->r->p->qps)
		return tp_session_wc(st->s, wc);
	sq = &st->qp[q];
	switch (tp_wr_kind(wc->wr_id)) {
	case TP_WR_DATA:
		count = tp_wr_count(wc->wr_id, sq->done);
		if (st->phase == MEASURE)
			tp_hist_add(&st->r->hist, now - sq->stamp[count & st->mask]);
		st->done += count - sq->done;
		sq->done = count;
		if (sq->done == sq->posted)
			st->open--;
		return fill(st, q, now);
	case TP_WR_RECV: return stream_on_recv(st, wc);
	case TP_WR_CREDIT: sq->credit_busy = false; return stream_grant(st, q);
	case TP_WR_FENCE:
	case TP_WR_FENCE_RECV:
	case TP_WR_CTRL:
	case TP_WR_CTRL_RECV:
	case TP_WR_CARDS: break;
	}
	return tp_session_wc(st->s, wc);
}

static void begin_measure(struct stream *st, uint64_t now)
{
	st->phase = MEASURE;
	st->begin = now;
	st->done_begin = st->done;
	st->cpu_begin = tp_cpu_ns();
	if (st->r->p->iters != 0)
		st->target = st->done + st->r->p->iters;
	tp_progress_phase(st->r, 3, now);
}

static void end_measure(struct stream *st, uint64_t now)
{
	struct tp_figures *f = &st->r->fig;

	st->phase = DRAIN;
	f->ops = st->done - st->done_begin;
	f->bytes = f->ops * st->r->p->size;
	f->ns = now - st->begin;
	f->cpu_ns = tp_cpu_ns() - st->cpu_begin;
	f->cpu_ops = f->ops != 0 ? f->ops : 1;
}

/* Moves from phase to phase; at each change, every queue pair is served. */
static enum tp_verdict step(struct stream *st, uint64_t now)
{
	const struct tp_point *p = st->r->p;
	bool stop = tp_should_stop(st->r);

	switch (st->phase) {
	case WARM:
		if (!stop && (p->warmup_ops != 0 ? st->done < p->warmup_ops : now - st->begin < p->warmup))
			return TP_OK;
		begin_measure(st, now);
		return fill_all(st, now, false);
	case MEASURE:
		tp_progress_tick(st->r, now, st->done - st->done_begin);
		if (p->iters == 0 ? now - st->begin >= p->duration : st->done >= st->target)
			stop = true;
		if (stop) {
			end_measure(st, now);
			return fill_all(st, now, false);
		}
		if (st->posted >= st->target)
			return fill_all(st, now, false); /* the last operations: learn of each tail */
		return TP_OK;
	case DRAIN: break;
	}
	return TP_OK;
}

static bool tx_finished(const struct stream *st) { return st->phase == DRAIN && st->open == 0 && st->n_stalled == 0; }

static enum tp_verdict send_fin(struct stream *st)
{
	struct tp_run *r = st->r;

	r->posted = st->posted;
	r->min_posted = UINT64_MAX;
	for (uint32_t q = 0; q < r->p->qps; q++)
		if (st->qp[q].posted < r->min_posted)
			r->min_posted = st->qp[q].posted;
	r->fin_sent = true;
	r->fig.sent = st->ud ? st->posted : 0;
	r->fig.sent_bytes = r->fig.sent * r->p->size;
	return tp_ctrl_send_fin(st->s, r->posted, r->min_posted);
}

/* Whether everything has come, or counts as lost. */
static bool all_heard(struct stream *st)
{
	const bool reads = st->opcode == IBV_WR_RDMA_READ;
	const uint64_t due = reads ? st->posted : st->s->fin_posted;

	if (!reads && !st->s->fin_seen)
		st->last_at = tp_now();
	return (reads || st->s->fin_seen) && (st->received >= due || (st->ud && tp_now() - st->last_at > UD_QUIET_NS));
}

static bool rx_finished(struct stream *st)
{
	if (!is_paced(st) || (!st->r->rx && st->opcode != IBV_WR_RDMA_READ))
		return true;
	if (!all_heard(st))
		return false;
	for (uint32_t q = 0; q < st->r->p->qps; q++)
		if (st->qp[q].credit_busy)
			return false;
	return true;
}

/* One turn: polls, handles completions, moves to the next phase if it is time. */
static enum tp_verdict stream_turn(struct stream *st)
{
	struct ibv_wc wc[POLL_BATCH];
	enum tp_verdict v = TP_OK;
	uint64_t now;
	int n = ibv_poll_cq(st->s->cq, POLL_BATCH, wc);

	if (n < 0)
		return tp_fail(st->s->err, TP_VERBS_ERROR, "polling the completion queue failed");
	now = tp_now();
	for (int i = 0; i < n && v == TP_OK; i++)
		v = stream_on_wc(st, &wc[i], now);
	if (v == TP_OK)
		v = step(st, now);
	if (v == TP_OK && st->n_stalled > 0)
		v = fill_all(st, now, true);
	if (v == TP_OK && ++st->turns % TURNS_PER_LOOK == 0)
		v = tp_ctrl_pump(st->s);
	if (v != TP_OK || n > 0) {
		tp_busy(st->r);
		return v;
	}
	st->r->awaits_credit = st->n_stalled > 0;
	return tp_idle(st->r);
}

enum tp_verdict tp_stream_run(struct tp_run *r, enum ibv_wr_opcode opcode)
{
	struct stream *st = r->state;
	enum tp_verdict v = TP_OK;

	st->opcode = opcode;
	for (uint32_t i = 0; i < r->p->batch; i++) {
		st->wr[i].opcode = !st->ud                       ? opcode
				   : opcode == IBV_WR_SEND       ? IBV_WR_SEND_WITH_IMM
				   : opcode == IBV_WR_RDMA_WRITE ? IBV_WR_RDMA_WRITE_WITH_IMM
								 : opcode;
		st->wr[i].wr.rdma.rkey = r->s->peer.rkey;
	}
	st->phase = r->tx ? WARM : DRAIN;
	st->target = UINT64_MAX;
	st->begin = tp_now();
	tp_progress_phase(r, 2, st->begin);
	if (r->tx && r->p->warmup_ops == 0 && r->p->warmup == 0)
		begin_measure(st, st->begin);
	if (r->tx)
		v = fill_all(st, st->begin, false);
	while (v == TP_OK) {
		v = stream_turn(st);
		if (v == TP_OK && !r->fin_sent && tx_finished(st))
			v = send_fin(st);
		if (r->fin_sent && rx_finished(st))
			break;
	}
	return v;
}
