/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels, and the asynchronous events of a context. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

static struct rnic_chan *chan_of(struct ibv_comp_channel *c) { return (struct rnic_chan *)c; }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	RNIC_BESIDE(ibv_create_comp_channel, c, NULL, c);
	struct rnic_chan *ch = calloc(1, sizeof(*ch));
	int rc = rnic_inject(INJECT_CREATE_CHANNEL);

	if (ch == NULL)
		return NULL;
	if (rc == 0)
		rc = rnic_evq_open(&ch->q, rnic_ctx(c)->s, IPC_CHANNEL_COMP, rnic_ctx(c)->index);
	if (rc != 0) {
		free(ch);
		errno = rc;
		return NULL;
	}
	ch->ibv.context = c;
	ch->ibv.fd = ch->q.fd;
	rnic_made(RNIC_OBJ_CHANNEL, ch);
	return &ch->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	RNIC_BESIDE(ibv_destroy_comp_channel, channel->context, EINVAL, channel);
	int rc;

	if (__atomic_load_n(&channel->refcnt, __ATOMIC_ACQUIRE) != 0)
		return EBUSY;
	rc = rnic_evq_close(&chan_of(channel)->q);
	if (rc == 0) {
		rnic_gone(RNIC_OBJ_CHANNEL, channel);
		free(channel);
	}
	return rc;
}

/* ---- completion events ---- */

static void comp_seen(const void *slot, void *arg)
{
	const struct ipc_comp_event *ev = slot;

	(void)arg;
	((struct rnic_cq *)(uintptr_t)ev->cq_cookie)->comp_events++;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	RNIC_BESIDE(ibv_get_cq_event, channel->context, -1, channel, cq, cq_context);
	union {
		struct ipc_comp_event ev;
		uint8_t slot[IPC_EVENT_SLOT_SMALL];
	} u;

	/* cq_cookie is the CQ (ibv_create_cq); ibv_destroy_cq removes the events of its CQ. */
	if (rnic_evq_get(&chan_of(channel)->q, u.slot, comp_seen, NULL) != 0)
		return -1;
	*cq = (struct ibv_cq *)(uintptr_t)u.ev.cq_cookie;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	RNIC_BESIDE_VOID(ibv_ack_cq_events, cq->context, cq, nevents);
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- asynchronous events ---- */

enum about { ABOUT_DEVICE, ABOUT_CQ, ABOUT_QP, ABOUT_SRQ, ABOUT_WQ };

static enum about about(uint32_t type)
{
	switch ((enum ibv_event_type)type) {
	case IBV_EVENT_CQ_ERR: return ABOUT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: return ABOUT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: return ABOUT_SRQ;
	case IBV_EVENT_WQ_FATAL: return ABOUT_WQ; /* of another device: rnicd has no such queues */
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE: break;
	}
	return ABOUT_DEVICE;
}

static void async_seen(const void *slot, void *arg)
{
	const struct ipc_async_event *ev = slot;

	(void)arg;
	switch (about(ev->type)) {
	case ABOUT_CQ: ((struct rnic_cq *)(uintptr_t)ev->cookie)->async_events++; break;
	case ABOUT_QP: ((struct rnic_qp *)(uintptr_t)ev->cookie)->async_events++; break;
	case ABOUT_SRQ: ((struct rnic_srq *)(uintptr_t)ev->cookie)->async_events++; break;
	case ABOUT_WQ:
	case ABOUT_DEVICE: break;
	}
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	RNIC_BESIDE(ibv_get_async_event, c, -1, c, event);
	union {
		struct ipc_async_event ev;
		uint8_t slot[IPC_EVENT_SLOT_SMALL];
	} u;

	if (rnic_evq_get(&rnic_ctx(c)->async, u.slot, async_seen, NULL) != 0)
		return -1;
	memset(event, 0, sizeof(*event));
	event->event_type = (enum ibv_event_type)u.ev.type;
	switch (about(u.ev.type)) {
	case ABOUT_CQ: event->element.cq = (struct ibv_cq *)(uintptr_t)u.ev.cookie; break;
	case ABOUT_QP: event->element.qp = (struct ibv_qp *)(uintptr_t)u.ev.cookie; break;
	case ABOUT_SRQ: event->element.srq = (struct ibv_srq *)(uintptr_t)u.ev.cookie; break;
	case ABOUT_WQ: event->element.wq = (struct ibv_wq *)(uintptr_t)u.ev.cookie; break;
	case ABOUT_DEVICE: event->element.port_num = (int)u.ev.cookie; break;
	}
	return 0;
}

static void acked(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	(*completed)++;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_wq *wq = event->element.wq;

	switch (about((uint32_t)event->event_type)) {
	case ABOUT_CQ: acked(&cq->mutex, &cq->cond, &cq->async_events_completed); break;
	case ABOUT_QP: acked(&qp->mutex, &qp->cond, &qp->events_completed); break;
	case ABOUT_SRQ: acked(&srq->mutex, &srq->cond, &srq->events_completed); break;
	case ABOUT_WQ: acked(&wq->mutex, &wq->cond, &wq->events_completed); break;
	case ABOUT_DEVICE: break;
	}
}
