/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. Posting is in post.c. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/fail.h"
#include "rnic/verbs/watch.h"

/*
 * Checks the requested attributes; the depth is rounded up to what the ring holds, the number of SGEs stays as
 * requested.
 */
static int attr_fit(const struct ipc_dev_info *dev, struct ibv_srq_attr *a, uint32_t *each)
{
	uint32_t max_sge = rn_min_u32(dev->max_sge, QP_MAX_SGE);

	if (a->max_wr == 0 || a->max_wr > dev->max_wr || a->max_sge > max_sge || a->srq_limit > a->max_wr)
		return EINVAL;
	*each = qp_rwqe_slots(a->max_sge);
	a->max_wr = rnic_slots_for(a->max_wr, *each) / *each;
	a->max_sge = rn_max_u32(a->max_sge, 1);
	return 0;
}

static int ring_make(struct rnic_srq *srq, uint32_t slots)
{
	struct rnic_session *s = srq->s;
	struct spsc_place at = {
		.region = s->queues, .region_size = IPC_QUEUES_SIZE, .nslots = slots, .slot_size = QP_SLOT_SIZE
	};

	srq->shm_size = spsc_size(slots, QP_SLOT_SIZE);
	srq->shm_off = at.off = rnic_shm_alloc(s->shm, srq->shm_size);
	if (srq->shm_off == 0)
		return ENOMEM;
	return spsc_prod_attach(&srq->rq.ring, &at) == SPSC_OK ? 0 : EINVAL;
}

/* srq->xrcd and cq are set for an XRC queue. */
static int srq_tell(struct rnic_srq *srq, struct ibv_pd *pd, uint32_t slots, uint32_t limit)
{
	struct ipc_msg m = { .type = IPC_CREATE_SRQ, .len = IPC_MSG_LEN(create_srq) };
	int rc;

	m.create_srq.pd = rnic_pd(pd)->number;
	m.create_srq.wqe_slots = srq->rq.wqe_slots;
	m.create_srq.cookie = (uintptr_t)srq;
	m.create_srq.ring_off = srq->shm_off;
	m.create_srq.ring_slots = slots;
	m.create_srq.limit = limit;
	m.create_srq.async = rnic_ctx(pd->context)->async.handle;
	m.create_srq.xrcd = srq->xrcd != NULL ? srq->xrcd->number : 0;
	m.create_srq.cq = srq->cq != NULL ? srq->cq->handle : 0;
	rc = rnic_call(srq->s, &m, IPC_MSG_LEN(create_srq_ok), -1);
	srq->ibv.handle = m.create_srq_ok.handle;
	srq->number = m.create_srq_ok.number;
	return rc;
}

/* xrcd, cq: for an XRC queue; else NULL. */
static struct ibv_srq *srq_make(struct ibv_pd *pd, struct ibv_srq_init_attr *init, struct ibv_xrcd *xrcd,
				struct ibv_cq *cq)
{
	struct rnic_ctx *ctx = rnic_ctx(pd->context);
	struct ibv_srq_attr a = init->attr;
	struct rnic_srq *srq = NULL;
	uint32_t each = 0, slots;
	int rc = rnic_inject(INJECT_CREATE_SRQ);

	if (rc == 0)
		rc = attr_fit(&ctx->info, &a, &each);
	if (rc == 0)
		rc = posix_memalign((void **)&srq, RN_CACHE_LINE, sizeof(*srq));
	if (rc != 0) {
		errno = rc;
		return NULL;
	}
	memset(srq, 0, sizeof(*srq));
	srq->s = ctx->s;
	srq->xrcd = xrcd != NULL ? rnic_xrcd(xrcd) : NULL;
	srq->cq = cq;
	srq->max_wr = a.max_wr;
	srq->max_sge = a.max_sge;
	srq->rq.sge_end = a.max_sge + 1;
	srq->rq.wqe_slots = each;
	srq->rq.asks = true; /* messages of reliable datagrams may wait even where those of connections may not */
	slots = rnic_slots_for(a.max_wr, each);
	rc = ring_make(srq, slots);
	if (rc == 0)
		rc = srq_tell(srq, pd, slots, a.srq_limit);
	if (rc != 0) {
		if (srq->shm_off != 0)
			rnic_shm_free(srq->s->shm, srq->shm_off, srq->shm_size);
		free(srq);
		errno = rc;
		return NULL;
	}
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = init->srq_context;
	srq->ibv.pd = pd;
	rnic_pd_use(pd);
	if (xrcd != NULL) {
		__atomic_fetch_add(&srq->xrcd->refs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&rnic_cq(cq)->refs, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	init->attr = a;
	rnic_watch_open_srq(srq);
	rnic_made(RNIC_OBJ_SRQ, srq);
	return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	RNIC_BESIDE(ibv_create_srq, pd->context, NULL, pd, init);
	return srq_make(pd, init, NULL, NULL);
}

struct ibv_srq *rnic_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a)
{
	struct ibv_srq_init_attr init = { .srq_context = a->srq_context, .attr = a->attr };
	struct ibv_srq *srq;
	const uint32_t of_xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	/* Without a type the queue is a basic one. */
	const enum ibv_srq_type type = (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? a->srq_type : IBV_SRQT_BASIC;
	const bool xrc = type == IBV_SRQT_XRC;
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (xrc ? of_xrc : 0);

	if ((a->comp_mask & ~known) != 0 || (type != IBV_SRQT_BASIC && !xrc)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if ((a->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || a->pd == NULL || a->pd->context != c ||
	    (xrc && ((a->comp_mask & of_xrc) != of_xrc || a->xrcd == NULL || a->xrcd->context != c || a->cq == NULL ||
		     a->cq->context != c))) {
		errno = EINVAL;
		return NULL;
	}
	srq = srq_make(a->pd, &init, xrc ? a->xrcd : NULL, xrc ? a->cq : NULL);
	if (srq != NULL)
		a->attr = init.attr;
	return srq;
}

/* The size cannot be changed: the device's attributes do not have IBV_DEVICE_SRQ_RESIZE. */
int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *a, int mask)
{
	struct rnic_srq *srq = rnic_srq(ibsrq);
	struct ipc_msg m = { .type = IPC_MODIFY_SRQ, .len = IPC_MSG_LEN(modify_srq) };

	RNIC_BESIDE(ibv_modify_srq, ibsrq->context, EINVAL, ibsrq, a, mask);
	if ((mask & IBV_SRQ_MAX_WR) != 0)
		return EOPNOTSUPP;
	if (mask != IBV_SRQ_LIMIT || a->srq_limit > srq->max_wr)
		return EINVAL;
	m.modify_srq.srq = ibsrq->handle;
	m.modify_srq.limit = a->srq_limit;
	return rnic_call(srq->s, &m, IPC_MSG_HDR, -1);
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *a)
{
	struct rnic_srq *srq = rnic_srq(ibsrq);
	struct ipc_msg m = { .type = IPC_QUERY_SRQ, .len = IPC_MSG_LEN(handle), .handle = { .handle = ibsrq->handle } };
	int rc;

	RNIC_BESIDE(ibv_query_srq, ibsrq->context, EINVAL, ibsrq, a);
	rc = rnic_call(srq->s, &m, IPC_MSG_LEN(query_srq_ok), -1);
	if (rc != 0)
		return rc;
	*a = (struct ibv_srq_attr){ .max_wr = srq->max_wr, .max_sge = srq->max_sge, .srq_limit = m.query_srq_ok.limit };
	return 0;
}

static bool srq_async_of(const void *slot, void *arg)
{
	return ((const struct ipc_async_event *)slot)->cookie == (uintptr_t)arg;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct rnic_srq *srq = rnic_srq(ibsrq);
	int rc;

	RNIC_BESIDE(ibv_destroy_srq, ibsrq->context, EINVAL, ibsrq);
	if (__atomic_load_n(&srq->refs, __ATOMIC_ACQUIRE) != 0)
		return EBUSY;
	rc = rnic_call_handle(srq->s, IPC_DESTROY_SRQ, ibsrq->handle);
	if (rc != 0 && !rnic_dead(srq->s))
		return rc;
	rnic_fail_forget(srq);
	rnic_watch_close_srq(srq);
	rnic_evq_drop(&rnic_ctx(ibsrq->context)->async, srq_async_of, srq, NULL, NULL);
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != srq->async_events)
		rnic_ack_wait(&ibsrq->cond, &ibsrq->mutex, "ibv_destroy_srq");
	pthread_mutex_unlock(&ibsrq->mutex);
	pthread_mutex_destroy(&ibsrq->mutex);
	pthread_cond_destroy(&ibsrq->cond);
	if (!rnic_dead(srq->s))
		rnic_shm_free(srq->s->shm, srq->shm_off, srq->shm_size);
	if (srq->xrcd != NULL) {
		__atomic_fetch_sub(&srq->xrcd->refs, 1, __ATOMIC_RELEASE);
		__atomic_fetch_sub(&rnic_cq(srq->cq)->refs, 1, __ATOMIC_RELEASE);
	}
	rnic_pd_leave(ibsrq->pd);
	rnic_gone(RNIC_OBJ_SRQ, srq);
	free(srq);
	return 0;
}
