/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended reliable connections: the numbers of shared receive queues, and a target's choice of one per message. */
#include "qp/qp_xrc.h"

#include "qp/qp_int.h"

/* ---- control thread ---- */

void qp_target_attr(struct qp_target *t, struct qp_xrcd *d, struct qp_attr *a)
{
	memset(t, 0, sizeof(*t));
	t->cq.error = 1;
	const struct qp_srq_attr sa = { .wqe_slots = 1,
					.ring = { .region = &t->srq.none,
						  .region_size = sizeof(t->srq.none),
						  .nslots = 1,
						  .slot_size = QP_SLOT_SIZE } };
	a->xrc = QP_XRC_TARGET;
	a->xrcd = d;
	a->target = t;
	a->pd = 0;
	a->scq = a->rcq = &t->cq;
	a->srq = qp_srq_init(&t->srq, &sa) == SPSC_OK ? &t->srq : NULL; /* NULL: qp_init() will refuse the attributes */
	a->region = t;
	a->region_size = sizeof(*t);
	a->shm_off = offsetof(struct qp_target, shm);
	a->sq_off = offsetof(struct qp_target, sq);
	a->sq_slots = 1;
	a->rq_off = 0;
	a->rq_slots = 0;
}

/* Counts a use of the PD in the domain. False: the domain has no room for another PD. */
static bool pd_add(struct qp_xrcd *d, uint32_t pd)
{
	uint32_t at = QP_XRCD_PDS;

	for (uint32_t i = 0; i < QP_XRCD_PDS; i++) {
		if (d->users[i] > 0 && d->pd[i] == pd) {
			d->users[i]++;
			return true;
		}
		if (d->users[i] == 0 && at == QP_XRCD_PDS)
			at = i;
	}
	if (at == QP_XRCD_PDS)
		return false;
	d->users[at] = 1;
	__atomic_store_n(&d->pd[at], pd, __ATOMIC_RELAXED); /* relaxed: no other data depends on it */
	if (at >= d->end)
		__atomic_store_n(&d->end, at + 1, __ATOMIC_RELAXED);
	return true;
}

static void pd_del(struct qp_xrcd *d, uint32_t pd)
{
	for (uint32_t i = 0; i < d->end; i++) {
		if (d->users[i] == 0 || d->pd[i] != pd || --d->users[i] > 0)
			continue;
		__atomic_store_n(&d->pd[i], 0, __ATOMIC_RELAXED);
		/* release: pairs with the acquire in gone_of(); a worker that sees the count does not find the PD */
		__atomic_store_n(&d->gone, d->gone + 1, __ATOMIC_RELEASE);
	}
}

bool qp_xsrq_publish(struct qp_dev *dev, struct qp_srq *srq, uint32_t from)
{
	for (uint32_t i = 0; i < QP_XSRQ_NUMS; i++) {
		const uint32_t num = (from + i) % QP_XSRQ_NUMS;

		if (num == 0 || dev->xsrq[num] != NULL)
			continue;
		if (!pd_add(srq->xrcd, srq->pd))
			return false;
		srq->num = num;
		/* release: pairs with the acquire in qp_xrc_choose(); the queue is complete */
		__atomic_store_n(&dev->xsrq[num], srq, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

void qp_xsrq_withdraw(struct qp_dev *dev, struct qp_srq *srq)
{
	__atomic_store_n(&dev->xsrq[srq->num], NULL, __ATOMIC_RELEASE);
	pd_del(srq->xrcd, srq->pd);
}

/* ---- workers ---- */

bool qp_xrcd_has(const struct qp_xrcd *d, uint32_t pd)
{
	const uint32_t end = __atomic_load_n(&d->end, __ATOMIC_RELAXED);

	for (uint32_t i = 0; pd != 0 && i < end; i++)
		if (__atomic_load_n(&d->pd[i], __ATOMIC_RELAXED) == pd)
			return true;
	return false;
}

/* A message begins: its header names the QP's receive queue from here on. */
bool qp_xrc_choose(struct qp_ctx *ctx, struct qp *qp, const struct ddp_hdr *h)
{
	struct qp_srq *srq = NULL;

	if (qp->xrc == QP_XRC_TARGET && !rdmap_op_of(h->opcode)->invalidates && h->stag < QP_XSRQ_NUMS)
		srq = __atomic_load_n(&qp->dev->xsrq[h->stag], __ATOMIC_ACQUIRE);
	if (srq == NULL || srq->xrcd != qp->xrcd) {
		ctx->stats.xrc_refused++;
		return false;
	}
	if (qp->srq != srq) {
		qp_xrc_leave(ctx, qp);
		rn_list_push_back(&srq->targets[ctx->worker], &qp->xrc_link);
		qp->srq = srq;
		qp->rcq = srq->cq;
		qp->recv_pd = srq->pd;
	}
	return true;
}

static uint64_t gone_of(const struct qp_xrcd *d) { return __atomic_load_n(&d->gone, __ATOMIC_ACQUIRE); }

uint32_t qp_xrc_pd(struct qp *qp)
{
	const uint64_t gone = gone_of(qp->xrcd);

	if (rn_unlikely(gone != qp->target->gone) && !qp_xrcd_has(qp->xrcd, qp->pd))
		qp->pd = 0;
	qp->target->gone = gone;
	return qp->pd;
}

bool qp_xrc_other_pd(struct qp *qp, struct qp_access *a)
{
	if (qp->xrc != QP_XRC_TARGET)
		return false;
	const uint64_t gone = gone_of(qp->xrcd);
	const uint32_t pd = qp_mr_pd(qp->dev, a->stag);
	if (pd == qp->pd || !qp_xrcd_has(qp->xrcd, pd))
		return false;
	a->pd = qp->pd = pd;
	qp->target->gone = gone;
	return true;
}
