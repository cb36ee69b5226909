/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: making, arming, destroying. Polling is in poll.c. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/fail.h"
#include "rnic/verbs/watch.h"

#define CQ_FLAGS_KNOWN (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

/* One ring per worker, in the queue region. */
struct rings {
	uint64_t off, size, stride;
	struct spsc_cons ring[IPC_MAX_WORKERS];
};

static uint32_t slot_size(bool wide) { return wide ? QP_CQE_WIDE : QP_CQE_SIZE; }

static int cq_rings_make(struct rnic_session *s, uint32_t slots, bool wide, struct rings *r)
{
	uint64_t line = RN_CACHE_LINE;

	r->stride = (spsc_size(slots, slot_size(wide)) + line - 1) & ~(line - 1);
	r->size = r->stride * s->workers;
	r->off = rnic_shm_alloc(s->shm, r->size);
	if (r->off == 0)
		return ENOMEM;
	for (uint32_t i = 0; i < s->workers; i++) {
		struct spsc_place at = { .region = s->queues,
					 .region_size = IPC_QUEUES_SIZE,
					 .off = r->off + i * r->stride,
					 .nslots = slots,
					 .slot_size = slot_size(wide) };
		if (spsc_cons_attach(&r->ring[i], &at) != SPSC_OK)
			return EINVAL;
	}
	return 0;
}

static void rings_use(struct rnic_cq *cq, const struct rings *r, uint32_t slots)
{
	cq->rings_off = r->off;
	cq->rings_size = r->size;
	cq->nrings = cq->s->workers;
	memcpy(cq->ring, r->ring, sizeof(cq->ring));
	cq->ex.cqe = (int)slots;
}

static void shm_give(struct rnic_cq *cq)
{
	if (cq->shm_off != 0)
		rnic_shm_free(cq->s->shm, cq->shm_off, sizeof(struct qp_cq_shm));
	if (cq->rings_off != 0)
		rnic_shm_free(cq->s->shm, cq->rings_off, cq->rings_size);
}

static int shm_take(struct rnic_cq *cq, uint32_t slots, struct ipc_create_cq *arg)
{
	struct rings r = { 0 };
	int rc = cq_rings_make(cq->s, slots, cq->wide, &r);

	rings_use(cq, &r, slots);
	cq->shm_off = rc == 0 ? rnic_shm_alloc(cq->s->shm, sizeof(struct qp_cq_shm)) : 0;
	if (rc == 0 && cq->shm_off == 0)
		rc = ENOMEM;
	cq->shm = (struct qp_cq_shm *)(void *)(cq->s->queues + cq->shm_off);
	arg->shm_off = cq->shm_off;
	arg->ring_off = r.off;
	arg->ring_stride = r.stride;
	arg->cqe = slots;
	arg->wide = cq->wide;
	return rc;
}

static struct rnic_cq *cq_make(struct ibv_context *c, const struct ibv_cq_init_attr_ex *a)
{
	struct rnic_ctx *ctx = rnic_ctx(c);
	struct ipc_msg m = { .type = IPC_CREATE_CQ, .len = IPC_MSG_LEN(create_cq) };
	struct rnic_cq *cq;
	int rc;

	/* A channel of an earlier session has a number that means another channel, or none, in this one. */
	if (a->cqe == 0 || a->cqe > ctx->info.max_cqe || a->comp_vector >= (uint32_t)c->num_comp_vectors ||
	    (a->channel != NULL && ((struct rnic_chan *)a->channel)->q.s != ctx->s)) {
		errno = EINVAL;
		return NULL;
	}
	if (posix_memalign((void **)&cq, RN_CACHE_LINE, sizeof(*cq)) != 0) {
		errno = ENOMEM;
		return NULL;
	}
	memset(cq, 0, sizeof(*cq));
	cq->s = ctx->s;
	cq->ex.context = c;
	cq->ex.channel = a->channel;
	cq->asked = a->cqe;
	cq->wide = ctx->ahns != NULL; /* wide entries have the sender's address, for which ahn.c finds the number */
	cq->watched = rnic_sanitizing;
	if (cq->watched)
		rnic_late_init(cq);
	cq->ex.cq_context = a->cq_context;
	pthread_mutex_init(&cq->ex.mutex, NULL);
	pthread_cond_init(&cq->ex.cond, NULL);
	rc = rnic_inject(INJECT_CREATE_CQ);
	if (rc == 0)
		rc = shm_take(cq, rnic_slots_for(a->cqe, 1), &m.create_cq);
	if (rc == 0) {
		m.create_cq.dev = ctx->index;
		m.create_cq.channel = a->channel != NULL ? ((struct rnic_chan *)a->channel)->q.handle : 0;
		m.create_cq.cookie = (uintptr_t)cq;
		m.create_cq.comp_vector = a->comp_vector;
		m.create_cq.async = ctx->async.handle;
		rc = rnic_call(cq->s, &m, IPC_MSG_LEN(handle), -1);
	}
	if (rc != 0) {
		shm_give(cq);
		free(cq);
		errno = rc;
		return NULL;
	}
	cq->ex.handle = m.handle.handle;
	if (a->channel != NULL)
		__atomic_fetch_add(&a->channel->refcnt, 1, __ATOMIC_RELAXED);
	rnic_made(RNIC_OBJ_CQ, cq);
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			     int comp_vector)
{
	RNIC_BESIDE(ibv_create_cq, c, NULL, c, cqe, cq_context, channel, comp_vector);
	struct ibv_cq_init_attr_ex a = { .cqe = cqe > 0 ? (uint32_t)cqe : 0,
					 .cq_context = cq_context,
					 .channel = channel,
					 .comp_vector = (uint32_t)comp_vector };
	struct rnic_cq *cq = cq_make(c, &a);

	return cq != NULL ? ibv_cq_ex_to_cq(&cq->ex) : NULL;
}

struct ibv_cq_ex *rnic_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a)
{
	struct rnic_cq *cq;

	if ((a->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) != 0 ||
	    ((a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (a->flags & ~(uint32_t)CQ_FLAGS_KNOWN) != 0)) {
		errno = EINVAL;
		return NULL;
	}
	if ((a->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) != 0) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	cq = cq_make(c, a);
	if (cq == NULL)
		return NULL;
	cq->is_ex = true;
	rnic_poll_ex_init(&cq->ex, a->wc_flags);
	return &cq->ex;
}

/*
 * Removes a queue pair's unread completions when it is reset, as adapters do, so that they are not mistaken for
 * completions of its next use; older completions move up. Completions of a destroyed queue pair stay, since libfabric
 * still reads them.
 */
void rnic_cq_clean(struct rnic_cq *cq, uint32_t qpn)
{
	rnic_spin_lock(&cq->lock);
	for (uint32_t r = 0; r < cq->nrings; r++) {
		struct spsc_cons *ring = &cq->ring[r];
		uint32_t gone = 0;

		for (uint32_t i = spsc_cons_avail(ring, UINT32_MAX); i-- > 0;) {
			const struct qp_cqe *e = spsc_cons_slot(ring, i);
			if (e->qpn == qpn)
				gone++;
			else if (gone > 0)
				memcpy((void *)(uintptr_t)spsc_cons_slot(ring, i + gone), e, slot_size(cq->wide));
		}
		spsc_cons_release(ring, gone);
	}
	rnic_spin_unlock(&cq->lock);
}

static uint32_t unread(struct rnic_cq *cq)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cq->nrings; i++)
		n += spsc_cons_avail(&cq->ring[i], UINT32_MAX);
	return n;
}

/* The CQ's lock is held during the request: no thread may take entries while the workers move them. */
static int grow(struct rnic_cq *cq, uint32_t slots)
{
	struct ipc_msg m = { .type = IPC_RESIZE_CQ, .len = IPC_MSG_LEN(resize_cq) };
	struct rings r = { 0 };
	int rc = cq_rings_make(cq->s, slots, cq->wide, &r);

	if (rc == 0) {
		m.resize_cq.cq = cq->ex.handle;
		m.resize_cq.cqe = slots;
		m.resize_cq.ring_off = r.off;
		m.resize_cq.ring_stride = r.stride;
		rc = rnic_call(cq->s, &m, IPC_MSG_HDR, -1);
	}
	if (rc == 0) {
		rnic_shm_free(cq->s->shm, cq->rings_off, cq->rings_size);
		rings_use(cq, &r, slots);
	} else if (r.off != 0 && !rnic_dead(cq->s)) {
		rnic_shm_free(cq->s->shm, r.off, r.size);
	}
	return rc;
}

/* The ring never becomes smaller: one with more room than asked for is good enough. Unread completions must fit. */
int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct rnic_cq *cq = rnic_cq(ibcq);
	int rc;

	RNIC_BESIDE(ibv_resize_cq, ibcq->context, EINVAL, ibcq, cqe);
	if (cqe <= 0 || (uint32_t)cqe > rnic_ctx(ibcq->context)->info.max_cqe)
		return EINVAL;
	rnic_spin_lock(&cq->lock);
	rc = rnic_dead(cq->s) ? EIO : 0;
	/*
	 * Each grow(), here to the present size, waits until every worker has taken a turn. After two turns the
	 * completions of all datagrams that were posted before this call are in the rings, and can be counted.
	 */
	for (int i = 0; i < 2 && rc == 0 && cqe < ibcq->cqe; i++)
		rc = grow(cq, cq->ring[0].mask + 1);
	if (rc == 0 && unread(cq) > (uint32_t)cqe)
		rc = EINVAL;
	if (rc == 0 && cqe > ibcq->cqe)
		rc = grow(cq, rnic_slots_for((uint32_t)cqe, 1));
	if (rc == 0)
		cq->asked = (uint32_t)cqe;
	rnic_spin_unlock(&cq->lock);
	return rc;
}

int rnic_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct rnic_cq *cq = rnic_cq(ibcq);
	uint32_t *armed = &cq->shm->armed;
	uint32_t want = solicited_only ? QP_CQ_ARM_SOLICITED : QP_CQ_ARM_ANY;
	uint32_t now = __atomic_load_n(armed, __ATOMIC_RELAXED);

	/* The wider of two requests counts until the event comes. */
	while (now < want && !__atomic_compare_exchange_n(armed, &now, want, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	/*
	 * Partner: the worker that publishes a completion, fences, and takes the word. One of the two sees the other:
	 * either the worker finds the queue armed, or the poll that follows here finds the completion.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return rnic_dead(cq->s) ? EIO : 0;
}

static bool comp_of(const void *slot, void *arg)
{
	return ((const struct ipc_comp_event *)slot)->cq_cookie == (uintptr_t)arg;
}

static bool cq_async_of(const void *slot, void *arg)
{
	const struct ipc_async_event *ev = slot;

	return ev->type == IBV_EVENT_CQ_ERR && ev->cookie == (uintptr_t)arg;
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	RNIC_BESIDE(ibv_destroy_cq, ibcq->context, EINVAL, ibcq);
	struct rnic_cq *cq = rnic_cq(ibcq);
	int rc;

	if (__atomic_load_n(&cq->refs, __ATOMIC_ACQUIRE) != 0)
		return EBUSY;
	rc = rnic_call_handle(cq->s, IPC_DESTROY_CQ, ibcq->handle);
	if (rc != 0 && !rnic_dead(cq->s))
		return rc;
	rnic_fail_forget(cq);
	/*
	 * The daemon sends no new events from here on. Unfetched ones are removed, fetched ones must be acknowledged.
	 */
	if (ibcq->channel != NULL) {
		rnic_evq_drop(&((struct rnic_chan *)ibcq->channel)->q, comp_of, cq, NULL, NULL);
		__atomic_fetch_sub(&ibcq->channel->refcnt, 1, __ATOMIC_RELEASE);
	}
	rnic_evq_drop(&rnic_ctx(ibcq->context)->async, cq_async_of, cq, NULL, NULL);
	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != cq->comp_events || ibcq->async_events_completed != cq->async_events)
		rnic_ack_wait(&ibcq->cond, &ibcq->mutex, "ibv_destroy_cq");
	pthread_mutex_unlock(&ibcq->mutex);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	if (!rnic_dead(cq->s))
		shm_give(cq);
	rnic_gone(RNIC_OBJ_CQ, cq);
	free(cq);
	return 0;
}
