/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pair: states, completions, flush. */
#include "qp/qp_hold.h"
#include "qp/qp_int.h"

enum qp_verdict qp_init(struct qp *qp, const struct qp_attr *a)
{
	struct spsc_place at = { .region = a->region, .region_size = a->region_size, .slot_size = QP_SLOT_SIZE };

	*qp = (struct qp){ .type = (uint8_t)a->type,
			   .sig_all = a->sig_all != 0,
			   .access = (uint8_t)(a->access & QP_ACC_ALL),
			   .qpn = a->qpn,
			   .pd = a->pd,
			   .recv_pd = a->pd,
			   .dev = a->dev,
			   .scq = a->scq,
			   .rcq = a->rcq,
			   .srq = a->srq,
			   .owner = a->owner,
			   .max_msg = a->max_msg,
			   .sparing = a->sparing,
			   .tenant = a->tenant,
			   .many = a->many,
			   .xrc = (uint8_t)a->xrc,
			   .srqn_mask = a->xrc == QP_XRC_INITIATOR ? UINT16_MAX : 0,
			   .xrcd = a->xrcd,
			   .target = a->target,
			   .rung = true };
	if (a->dev == NULL || a->scq == NULL || a->rcq == NULL)
		return QP_BAD_ATTR;
	if (!rn_in_range(a->shm_off, sizeof(*qp->shm), a->region_size) ||
	    ((uintptr_t)a->region + a->shm_off) % RN_CACHE_LINE != 0)
		return QP_BAD_ATTR;
	qp->shm = (struct qp_shm *)(void *)((uint8_t *)a->region + a->shm_off);
	at.off = a->sq_off;
	at.nslots = a->sq_slots;
	if (spsc_cons_attach(&qp->sq, &at) != SPSC_OK)
		return QP_BAD_ATTR;
	at.off = a->rq_off;
	at.nslots = a->rq_slots;
	if (a->srq != NULL) {
		at = (struct spsc_place){ .region = &a->srq->none,
					  .region_size = sizeof(a->srq->none),
					  .nslots = 1,
					  .slot_size = QP_SLOT_SIZE };
		qp->recv_pd = a->srq->pd;
	}
	if (spsc_cons_attach(&qp->rq, &at) != SPSC_OK)
		return QP_BAD_ATTR;
	qp_set_state(qp, QP_S_RESET);
	return QP_OK;
}

/*
 * Sets the QP's access rights. A QP that holds back Writes (qp_hold.c) never has QP_ACC_REMOTE_WRITE itself: each Write
 * fails the usual check, and the slow path then finds the hold.
 */
void qp_access_set(struct qp *qp, uint32_t access)
{
	qp->access = (uint8_t)(access & QP_ACC_ALL);
	if (rn_unlikely(qp->holds)) {
		qp->hold->writes = (access & QP_ACC_REMOTE_WRITE) != 0;
		qp->access &= (uint8_t)~QP_ACC_REMOTE_WRITE;
	}
}

void qp_set(struct qp *qp, const struct qp_tune *t)
{
	qp_access_set(qp, t->access);
	qp->qkey = t->qkey;
	qp->rnr_ns = t->rnr_ns;
	qp->silence_ns = t->silence_ns;
	qp->rnr_told = t->rnr_told;
	qp->rnr_unit_ns = t->rnr_unit_ns;
	qp->tell_drained |= t->tell_drained;
}

void qp_set_state(struct qp *qp, enum qp_state to)
{
	qp->state = (uint8_t)to;
	__atomic_store_n(&qp->shm->state, to, __ATOMIC_RELEASE); /* for the client to read; never read back */
}

const char *qp_state_name(enum qp_state s)
{
	switch (s) {
	case QP_S_RESET: return "RESET";
	case QP_S_INIT: return "INIT";
	case QP_S_RTR: return "RTR";
	case QP_S_RTS: return "RTS";
	case QP_S_SQD: return "SQD";
	case QP_S_ERR: return "ERR";
	}
	return "?";
}

/* Releases the slots of finished work requests to the client. */
void qp_release(struct qp *qp)
{
	if (qp->sq_done > 0) {
		spsc_cons_release(&qp->sq, qp->sq_done);
		qp->sq_taken -= qp->sq_done;
		qp->sq_done = 0;
	}
	if (qp->rq_done > 0) {
		spsc_cons_release(&qp->rq, qp->rq_done);
		qp->rq_done = 0;
	}
}

void qp_event(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err)
{
	struct qp_fx *fx = qp_fx_add(ctx, QP_FX_QP_EVENT, qp->owner);

	fx->code = (uint8_t)ev;
	fx->vendor_err = vendor_err;
}

/* Raises an event about something that a completion reports too, unless the QP is `sparing`. */
void qp_event_too(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err)
{
	if (!qp->sparing)
		qp_event(ctx, qp, ev, vendor_err);
}

/* ---- completions ---- */

/* op: of a checked copy, below QP_WR_OPS. */
static uint8_t wc_op(uint8_t op)
{
	static const uint8_t of[QP_WR_OPS] = {
		[QP_WR_SEND] = QP_WC_SEND,           [QP_WR_SEND_INV] = QP_WC_SEND,
		[QP_WR_WRITE] = QP_WC_RDMA_WRITE,    [QP_WR_READ] = QP_WC_RDMA_READ,
		[QP_WR_SEND_IMM] = QP_WC_SEND,       [QP_WR_WRITE_IMM] = QP_WC_RDMA_WRITE,
		[QP_WR_CMP_SWAP] = QP_WC_COMP_SWAP,  [QP_WR_FETCH_ADD] = QP_WC_FETCH_ADD,
		[QP_WR_LOCAL_INV] = QP_WC_LOCAL_INV, [QP_WR_BIND_MW] = QP_WC_BIND_MW,
	};

	return of[op];
}

static inline __attribute__((always_inline)) void push(struct qp_ctx *ctx, struct qp *qp, struct qp_cq *cq,
						       const struct qp_cqe *cqe, const uint8_t *from)
{
	/* A full or corrupt CQ ends its QPs: the carrier finds this QP in ERR. A QP in ERR stays there. */
	if (rn_unlikely(!qp_cq_push(ctx, cq, cqe, from)) && qp->state != QP_S_ERR) {
		qp_set_state(qp, QP_S_ERR);
		qp_event(ctx, qp, QP_EVENT_FATAL, 0);
	}
}

/* Ends a send work request: its slots are released, and a CQE is written if asked for or if it failed. */
void qp_send_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_wr *wr, enum qp_wc_status status)
{
	qp->sq_done += wr->slots;
	qp_list_qp(ctx, qp);
	if (status == QP_WC_SUCCESS && !qp->sig_all && !(wr->flags & QP_WF_SIGNALED))
		return;
	struct qp_cqe cqe = { .wr_id = wr->wr_id, .qpn = qp->qpn, .op = wc_op(wr->op), .status = (uint8_t)status };
	if (status == QP_WC_SUCCESS)
		cqe.byte_len = wr->len;
	else
		cqe.solicited = 1;
	if (status != QP_WC_SUCCESS && status != QP_WC_WR_FLUSH_ERR)
		cqe.vendor_err = qp->vendor_err;
	push(ctx, qp, qp->scq, &cqe, NULL);
}

/* with: length, flags, status, aux, solicited; op, if it is not QP_WC_RECV. */
void qp_recv_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct qp_cqe *with,
		 const uint8_t *from)
{
	struct qp_cqe cqe = *with;

	cqe.wr_id = r->wr_id;
	cqe.qpn = qp->qpn;
	cqe.op |= QP_WC_RECV;
	if (cqe.status != QP_WC_SUCCESS)
		cqe.solicited = 1;
	qp->rq_done += r->slots;
	qp_list_qp(ctx, qp);
	push(ctx, qp, qp->rcq, &cqe, from);
}

uint32_t qp_extra_room(const struct qp_ctx *ctx, struct qp *qp)
{
	struct qp_cq_ring *r = &qp->rcq->ring[ctx->worker];
	const uint32_t size = r->prod.mask + 1, taken = r->pending + size / 2;
	const uint32_t room = spsc_prod_free(&r->prod, size);

	return room > taken ? room - taken : 0;
}

void qp_extra_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_cqe *with, const uint8_t *from)
{
	struct qp_cqe cqe = *with;

	cqe.qpn = qp->qpn;
	push(ctx, qp, qp->rcq, &cqe, from);
}

/* ---- flush ---- */

static void count_flushed(struct qp_ctx *ctx, struct qp *qp)
{
	ctx->stats.flushed++;
	qp->flushed++;
}

/*
 * The number of flushes in a turn is bounded, however many entries clients' rings have, since other queue pairs wait
 * for the turn's end. A queue pair flushes a portion at once, as long as the turn has flushes left. The rest is flushed
 * at the ends of this turn and of the next ones (qp_flush_on), one portion of each queue pair after another.
 */
#define FLUSH_PORTION 256u  /* slots of each queue */
#define FLUSH_TURN    4096u /* work requests at once, and as many again at the turn's end */

/* left: slots. What a client posts meanwhile is flushed at its next doorbell. */
static void flush_sq(struct qp_ctx *ctx, struct qp *qp, uint32_t left, enum qp_wc_status status)
{
	while (left > 0 && spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken) {
		struct qp_wqe w;

		memcpy(&w, spsc_cons_slot(&qp->sq, qp->sq_taken), sizeof(w));
		uint32_t have = spsc_cons_avail(&qp->sq, qp->sq_taken + 1) - qp->sq_taken;
		uint8_t slots = (uint8_t)rn_min_u32(w.slots == 0 || w.slots > QP_WQE_MAX_SLOTS ? 1 : w.slots, have);
		struct qp_wr wr = { .wr_id = w.wr_id, .op = w.op < QP_WR_OPS ? w.op : QP_WR_SEND, .slots = slots };
		qp->sq_taken += slots;
		left -= rn_min_u32(slots, left);
		count_flushed(ctx, qp);
		qp_send_cqe(ctx, qp, &wr, status);
	}
}

static void flush_rq(struct qp_ctx *ctx, struct qp *qp, uint32_t left)
{
	const struct qp_cqe with = { .status = QP_WC_WR_FLUSH_ERR };

	while (left > 0 && spsc_cons_avail(&qp->rq, qp->rq_done + 1) > qp->rq_done) {
		struct qp_rwqe w;
		struct qp_recv r;

		memcpy(&w, spsc_cons_slot(&qp->rq, qp->rq_done), sizeof(w));
		uint32_t have = spsc_cons_avail(&qp->rq, qp->rq_done + 1) - qp->rq_done;
		r.wr_id = w.wr_id;
		r.slots = (uint8_t)rn_min_u32(w.slots == 0 || w.slots > QP_WQE_MAX_SLOTS ? 1 : w.slots, have);
		left -= rn_min_u32(r.slots, left);
		count_flushed(ctx, qp);
		qp_recv_cqe(ctx, qp, &r, &with, NULL);
	}
}

void qp_flush_send(struct qp_ctx *ctx, struct qp *qp, const struct qp_send *s)
{
	const struct qp_wr wr = { .wr_id = s->w.wr_id, .op = s->w.op, .slots = s->w.slots };

	count_flushed(ctx, qp);
	qp_taken_cqe(ctx, qp, &wr, QP_WC_WR_FLUSH_ERR);
}

void qp_flush_recv(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r)
{
	count_flushed(ctx, qp);
	qp_recv_cqe(ctx, qp, r, &(struct qp_cqe){ .status = QP_WC_WR_FLUSH_ERR }, NULL);
}

/* Flushes the work requests that the carrier has taken from the queues, oldest first; finished ones still succeed. */
void qp_flush_work(struct qp_ctx *ctx, struct qp *qp, struct qp_work *k)
{
	for (; k->wr_head != k->wr_tail; k->wr_head++) {
		const struct qp_wr *wr = &k->wr[k->wr_head & k->wr_mask];

		if (wr->done == QP_WR_TOLD)
			continue;
		if (!wr->done)
			count_flushed(ctx, qp);
		qp_taken_cqe(ctx, qp, wr,
			     wr->done || wr->status != QP_WC_SUCCESS ? (enum qp_wc_status)wr->status
								     : QP_WC_WR_FLUSH_ERR);
	}
	if (k->send.loaded && !k->send.started)
		qp_flush_send(ctx, qp, &k->send);
	k->send.loaded = false;
	if (k->recv.loaded)
		qp_flush_recv(ctx, qp, &k->recv);
	k->recv.loaded = false;
}

static bool posted(struct qp *qp)
{
	return spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken ||
	       spsc_cons_avail(&qp->rq, qp->rq_done + 1) > qp->rq_done;
}

/* Flushes a portion, and adds its work requests to *count; lists the queue pair while there is more. */
static void flush_portion(struct qp_ctx *ctx, struct qp *qp, uint32_t *count)
{
	const uint64_t before = ctx->stats.flushed;

	flush_sq(ctx, qp, FLUSH_PORTION, QP_WC_WR_FLUSH_ERR);
	flush_rq(ctx, qp, FLUSH_PORTION);
	*count += (uint32_t)(ctx->stats.flushed - before);
	if (posted(qp))
		rn_list_push_back(&ctx->flushing, &qp->flush_link);
}

/* The counts begin anew with each turn. In a turn, qp_flush() may be called often. */
static void look_turn(struct qp_ctx *ctx)
{
	if (ctx->flush_turn == ctx->now)
		return;
	ctx->flush_turn = ctx->now;
	ctx->flushed = ctx->flushed_late = 0;
}

void qp_flush_on(struct qp_ctx *ctx)
{
	struct qp *qp;

	look_turn(ctx);
	while (ctx->flushed_late < FLUSH_TURN && !qp_ctx_full(ctx) &&
	       (qp = rn_list_pop(&ctx->flushing, struct qp, flush_link)) != NULL)
		flush_portion(ctx, qp, &ctx->flushed_late);
}

void qp_target_clear(struct qp_ctx *ctx, struct qp *qp)
{
	qp_xrc_leave(ctx, qp);
	qp->srq = &qp->target->srq;
	qp->rcq = &qp->target->cq;
	qp->recv_pd = qp->pd = 0;
}

void qp_unlist(struct qp_ctx *ctx, struct qp *qp)
{
	rn_list_remove(&ctx->flushing, &qp->flush_link);
	if (rn_unlikely(qp->xrc == QP_XRC_TARGET))
		qp_target_clear(ctx, qp);
}

/* The QP goes to ERR, and everything outstanding or posted completes in order. May be called again. */
void qp_enter_error(struct qp_ctx *ctx, struct qp *qp)
{
	const uint64_t before = ctx->stats.flushed;

	look_turn(ctx);
	qp_set_state(qp, QP_S_ERR);
	/* Pairs with the fence in librnic's recv_posted(): this flush finds a receive, or the poster sees ERR. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (qp->msgs != NULL && qp->msgs->work != NULL)
		qp_flush_work(ctx, qp, qp->msgs->work);
	ctx->flushed += (uint32_t)(ctx->stats.flushed - before);
	if (!rn_link_linked(&qp->flush_link)) { /* a listed QP is flushed in qp_flush_on() */
		if (ctx->flushed < FLUSH_TURN)
			flush_portion(ctx, qp, &ctx->flushed);
		else
			rn_list_push_back(&ctx->flushing, &qp->flush_link);
	}
	if (qp->srq != NULL && qp->xrc == QP_XRC_NONE && !qp->last_told) {
		qp->last_told = true;
		qp_event(ctx, qp, QP_EVENT_LAST_WQE, 0);
	}
}

bool qp_failed(const struct qp *qp) { return qp->state == QP_S_ERR; }

bool qp_send_waits(struct qp *qp)
{
	return qp->msgs == NULL && (qp->state == QP_S_RTR || qp->state == QP_S_RTS) &&
	       spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken;
}

void qp_unreachable(struct qp_ctx *ctx, struct qp *qp)
{
	if (!qp_send_waits(qp))
		return;
	flush_sq(ctx, qp, 1, QP_WC_RETRY_EXC_ERR);
	qp_enter_error(ctx, qp);
}

/* ---- changes of state ---- */

void qp_look_drained(struct qp_ctx *ctx, struct qp *qp)
{
	if (!qp->tell_drained || qp->midway || (qp->msgs != NULL && qp_msgs_busy(qp->msgs)))
		return;
	qp->tell_drained = false;
	qp_event(ctx, qp, QP_EVENT_SQ_DRAINED, 0);
}

static void forget(struct qp_ctx *ctx, struct qp *qp)
{
	for (uint32_t i = 0; i < ctx->n_dirty_qp; i++)
		if (ctx->dirty_qp[i] == qp)
			ctx->dirty_qp[i--] = ctx->dirty_qp[--ctx->n_dirty_qp];
	qp->listed = 0;
	if (rn_unlikely(qp->holds))
		qp_hold_settle(ctx, qp, false);
	qp_unlist(ctx, qp);
	qp_release(qp);
	spsc_cons_release(&qp->sq, spsc_cons_avail(&qp->sq, qp->sq.mask + 1));
	spsc_cons_release(&qp->rq, spsc_cons_avail(&qp->rq, qp->rq.mask + 1));
	qp->sq_taken = 0;
}

void qp_forget(struct qp_ctx *ctx, struct qp *qp)
{
	forget(ctx, qp);
	qp->state = QP_S_RESET;
}

static void reset(struct qp_ctx *ctx, struct qp *qp)
{
	forget(ctx, qp);
	qp_cq_publish(ctx, qp->scq); /* the QP's CQEs must all be in the ring: the client removes them */
	qp_cq_publish(ctx, qp->rcq);
	qp->vendor_err = 0;
	qp->last_told = qp->tell_drained = false;
	qp->reads_open = 0;
	qp_set_state(qp, QP_S_RESET);
}

enum qp_verdict qp_step(struct qp_ctx *ctx, struct qp *qp, enum qp_state to)
{
	switch (to) {
	case QP_S_RESET: reset(ctx, qp); return QP_OK;
	case QP_S_INIT:
		if (qp->state != QP_S_RESET && qp->state != QP_S_INIT)
			return QP_BAD_STATE;
		qp_set_state(qp, QP_S_INIT);
		return QP_OK;
	case QP_S_RTR:
	case QP_S_RTS:
		if (qp->state == QP_S_SQD && to == QP_S_RTS) {
			qp->tell_drained = false;
			qp_set_state(qp, to);
		}
		if (qp->state != QP_S_RTR && qp->state != QP_S_RTS && (qp->state != QP_S_INIT || to == QP_S_RTS))
			return QP_BAD_STATE; /* IBTA, 11.2.5.2: RTS has RTR before it */
		if (qp->state < (uint8_t)to) /* a connection may have set RTS already */
			qp_set_state(qp, to);
		return QP_OK;
	case QP_S_SQD:
		if (qp->state != QP_S_RTS && qp->state != QP_S_SQD) {
			qp->tell_drained = false;
			return QP_BAD_STATE;
		}
		qp_set_state(qp, QP_S_SQD); /* from SQD, too: a step by which attributes change */
		qp_look_drained(ctx, qp);
		return QP_OK;
	case QP_S_ERR: qp_enter_error(ctx, qp); return QP_OK;
	}
	return QP_BAD_STATE;
}
