/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: create, modify, query, destroy. Posting is in post.c. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/fail.h"
#include "rnic/verbs/watch.h"

#define CQ_NONE_WR 1 /* minimum depth of a work queue, in work requests */

/* An XRC initiator has no receive queue, so attributes of one are ignored. */
static bool receives(const struct ibv_qp_init_attr_ex *a) { return a->qp_type != IBV_QPT_XRC_SEND; }
static struct ibv_srq *srq_of(const struct ibv_qp_init_attr_ex *a) { return receives(a) ? a->srq : NULL; }

/*
 * Checks the requested capabilities. Depths and inline bytes are rounded up to what the slots hold anyway. The numbers
 * of SGEs stay as requested, because programs (UCX) have arrays of just that length for them.
 */
static int cap_fit(const struct ipc_dev_info *dev, struct ibv_qp_init_attr_ex *a, enum ipc_ud kind, uint32_t *sq_each,
		   uint32_t *rq_each)
{
	const bool srq = srq_of(a) != NULL;
	const uint32_t head = kind == IPC_UD_LONG ? QP_UD_WRITE_LEN : kind == IPC_UD_PLAIN ? QP_UD_ADDR_LEN : 0;
	struct ibv_qp_cap *cap = &a->cap;
	uint32_t bytes;

	if (srq || !receives(a)) /* the queue pair has no receive queue of its own: attributes of one are ignored */
		cap->max_recv_wr = cap->max_recv_sge = 0;
	if (cap->max_send_wr > dev->max_wr || cap->max_recv_wr > dev->max_wr ||
	    cap->max_send_sge > rn_min_u32(dev->max_sge, QP_MAX_SGE) ||
	    cap->max_recv_sge > rn_min_u32(dev->max_sge, QP_MAX_SGE) ||
	    cap->max_inline_data > rn_min_u32(dev->max_inline, QP_MAX_INLINE))
		return EINVAL;
	cap->max_send_wr = rn_max_u32(cap->max_send_wr, CQ_NONE_WR);
	bytes = rn_max_u32(cap->max_send_sge * (uint32_t)sizeof(struct qp_sge), cap->max_inline_data);
	const uint32_t dest = kind == IPC_RD; /* the last slot names the destination */
	*sq_each = rn_max_u32(qp_wqe_slots(head + bytes), 1) + dest;
	*rq_each = rn_max_u32(qp_rwqe_slots(cap->max_recv_sge), 1);
	bytes = (*sq_each - dest) * QP_SLOT_SIZE - QP_WQE_FIXED - head;
	cap->max_send_sge = rn_max_u32(cap->max_send_sge, 1);
	cap->max_inline_data = rn_min_u32(rn_min_u32(bytes, QP_MAX_INLINE), dev->max_inline);
	if (srq)
		return 0;
	cap->max_recv_wr = rnic_slots_for(rn_max_u32(cap->max_recv_wr, CQ_NONE_WR), *rq_each) / *rq_each;
	cap->max_recv_sge = rn_max_u32(cap->max_recv_sge, 1);
	return 0;
}

/* Allocates in the queue region: struct qp_shm, the SQ, the RQ (rq_slots 0: none). */
static int qp_rings_make(struct rnic_qp *qp, uint32_t sq_slots, uint32_t rq_slots, struct ipc_create_qp *arg)
{
	struct rnic_session *s = qp->s;
	uint64_t sq_size = spsc_size(sq_slots, QP_SLOT_SIZE), rq_size = spsc_size(rq_slots, QP_SLOT_SIZE);
	struct spsc_place at = { .region = s->queues, .region_size = IPC_QUEUES_SIZE, .slot_size = QP_SLOT_SIZE };

	qp->shm_size = sizeof(struct qp_shm) + sq_size + rq_size;
	qp->shm_off = rnic_shm_alloc(s->shm, qp->shm_size);
	qp->sq.ends_mask = rnic_slots_for(qp->sq.max_wr, 1) - 1;
	qp->sq.ends = calloc(qp->sq.ends_mask + 1, sizeof(*qp->sq.ends));
	if (qp->shm_off == 0 || qp->sq.ends == NULL)
		return ENOMEM;
	qp->shm = (struct qp_shm *)(void *)(s->queues + qp->shm_off);
	arg->shm_off = qp->shm_off;
	arg->sq_off = qp->shm_off + sizeof(struct qp_shm);
	arg->rq_off = rq_slots > 0 ? arg->sq_off + sq_size : 0;
	arg->sq_slots = sq_slots;
	arg->rq_slots = rq_slots;
	at.off = arg->sq_off;
	at.nslots = sq_slots;
	if (spsc_prod_attach(&qp->sq.ring, &at) != SPSC_OK)
		return EINVAL;
	qp->sq.sized_end = qp->sq.ring.own;
	if (rq_slots == 0)
		return 0;
	at.off = arg->rq_off;
	at.nslots = rq_slots;
	return spsc_prod_attach(&qp->rq.ring, &at) == SPSC_OK ? 0 : EINVAL;
}

static int maps_make(struct rnic_qp *qp, uint32_t maps, struct ipc_create_qp *arg)
{
	struct spsc_place at = { .region = qp->s->queues, .region_size = IPC_QUEUES_SIZE, .slot_size = QP_MAP_SIZE };

	if (maps == 0)
		return 0;
	arg->maps = at.nslots = rnic_slots_for(maps, 1);
	qp->maps_size = spsc_size(at.nslots, QP_MAP_SIZE);
	arg->maps_off = at.off = qp->maps_off = rnic_shm_alloc(qp->s->shm, qp->maps_size);
	if (qp->maps_off == 0)
		return ENOMEM;
	return spsc_cons_attach(&qp->maps, &at) == SPSC_OK ? 0 : EINVAL;
}

static void maps_free(struct rnic_qp *qp)
{
	if (qp->maps_off != 0)
		rnic_shm_free(qp->s->shm, qp->maps_off, qp->maps_size);
}

bool rnic_qp_map(struct rnic_qp *qp, struct qp_record_map *map)
{
	rnic_spin_lock(&qp->rq.lock);
	const bool there = qp->maps_off != 0 && spsc_cons_avail(&qp->maps, 1) > 0;
	if (there) {
		memcpy(map, spsc_cons_slot(&qp->maps, 0), sizeof(*map));
		spsc_cons_release(&qp->maps, 1);
	}
	rnic_spin_unlock(&qp->rq.lock);
	return there;
}

static int qp_tell(struct rnic_qp *qp, const struct ibv_qp_init_attr_ex *a, struct ipc_msg *m)
{
	int rc;

	m->create_qp.pd = rnic_pd(a->pd)->number;
	m->create_qp.send_cq = a->send_cq->handle;
	m->create_qp.recv_cq = (receives(a) ? a->recv_cq : a->send_cq)->handle;
	m->create_qp.xrc = a->qp_type == IBV_QPT_XRC_SEND ? IPC_XRC_INITIATOR : IPC_XRC_NONE;
	m->create_qp.sig_all = a->sq_sig_all != 0;
	m->create_qp.cookie = (uintptr_t)qp;
	m->create_qp.max_send_wr = a->cap.max_send_wr;
	m->create_qp.max_recv_wr = a->cap.max_recv_wr;
	m->create_qp.deaf = (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
			    (a->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
	m->create_qp.srq = srq_of(a) != NULL ? a->srq->handle : 0;
	m->create_qp.async = rnic_ctx(a->pd->context)->async.handle;
	rc = rnic_call(qp->s, m, IPC_MSG_LEN(create_qp_ok), -1);
	if (rc == 0 && m->create_qp_ok.db_bit >= IPC_MAX_QPS)
		rc = EPROTO;
	return rc;
}

static void qp_fill(struct rnic_qp *qp, const struct ibv_qp_init_attr_ex *a, const struct ipc_create_qp_ok *ok)
{
	struct ibv_qp *b = &qp->ex.qp_base;

	b->context = a->pd->context;
	b->qp_context = a->qp_context;
	b->pd = a->pd;
	b->send_cq = a->send_cq;
	b->recv_cq = receives(a) ? a->recv_cq : NULL;
	b->srq = srq_of(a);
	b->handle = ok->handle;
	b->qp_num = ok->qpn;
	b->qp_type = a->qp_type;
	/* An RNIC's QP begins in INIT (see ibv_query_qp()); this field begins as RESET, as in stock libibverbs. */
	b->state = IBV_QPS_RESET;
	qp->cap = a->cap;
	qp->doorbells = qp->s->ctrl->doorbell;
	qp->db_word = ok->db_bit / 64;
	qp->db_mask = UINT64_C(1) << (ok->db_bit % 64);
	qp->sq.sig_all = a->sq_sig_all ? QP_WF_SIGNALED : 0;
	qp->sq.max_sge = a->cap.max_send_sge;
	qp->sq.max_inline = a->cap.max_inline_data;
	qp->sq.xrc = a->qp_type == IBV_QPT_XRC_SEND;
	qp->rq.sge_end = b->srq != NULL || !receives(a) ? 0 : a->cap.max_recv_sge + 1;
	qp->rq.wqe_slots = qp_rwqe_slots(a->cap.max_recv_sge);
	qp->rq.asks = rnic_ctx(b->context)->info.rnr_waits || qp->sq.many;
	rnic_pd_use(b->pd);
	__atomic_fetch_add(&rnic_cq(a->send_cq)->refs, 1, __ATOMIC_RELAXED);
	if (b->recv_cq != NULL)
		__atomic_fetch_add(&rnic_cq(b->recv_cq)->refs, 1, __ATOMIC_RELAXED);
	if (b->srq != NULL)
		__atomic_fetch_add(&rnic_srq(b->srq)->refs, 1, __ATOMIC_RELAXED);
	rnic_qp_list(qp);
}

/* 0, or the errno for a type that is not supported. */
static int attr_check(struct ibv_context *c, const struct ibv_qp_init_attr_ex *a, enum ipc_ud kind)
{
	const bool xrc = a->qp_type == IBV_QPT_XRC_SEND && rnic_ctx(c)->info.xrc;

	if (a->qp_type == IBV_QPT_DRIVER
		    ? kind != IPC_RD
		    : a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD && !xrc) {
		rnic_unsupported("ibv_create_qp",
				 "the types of queue pairs are IBV_QPT_RC, IBV_QPT_UC and IBV_QPT_UD, and with qp-port "
				 "IBV_QPT_XRC_SEND and IBV_QPT_XRC_RECV");
		return EOPNOTSUPP;
	}
	if (a->pd == NULL || a->send_cq == NULL || (receives(a) && a->recv_cq == NULL))
		return EINVAL;
	if (a->pd->context != c || a->send_cq->context != c || (receives(a) && a->recv_cq->context != c) ||
	    (srq_of(a) != NULL && a->srq->context != c))
		return EINVAL;
	return 0;
}

/* Maximum bytes of a datagram message; 0: no datagrams. */
static uint32_t max_message(const struct ipc_dev_info *dev, enum ipc_ud kind)
{
	switch (kind) {
	case IPC_UD_NONE:
	case IPC_RD: break;
	case IPC_UD_PLAIN: return dev->ud_mtu;
	case IPC_UD_LONG: return dev->ud_max;
	}
	return 0;
}

/*
 * The attributes of a queue pair in RESET, for ibv_query_qp(). By default a message of reliable datagrams waits until
 * there is a receive.
 */
static void attr_begin(struct rnic_qp *qp) { qp->attr = (struct ibv_qp_attr){ .rnr_retry = qp->sq.many ? 7 : 0 }; }

static void qp_shm_free(struct rnic_qp *qp)
{
	rnic_target_free(qp);
	maps_free(qp);
	rnic_shm_free(qp->s->shm, qp->shm_off, qp->shm_size);
}

static struct ibv_qp *qp_make(struct ibv_context *c, struct ibv_qp_init_attr_ex *a, const struct rnic_qp_kind *k)
{
	const enum ipc_ud kind = k->datagram;
	struct rnic_ctx *ctx = rnic_ctx(c);
	struct ipc_msg m = { .type = IPC_CREATE_QP, .len = IPC_MSG_LEN(create_qp) };
	uint32_t sq_each = 0, rq_each = 0;
	struct rnic_qp *qp = NULL;
	int rc = attr_check(c, a, kind);

	if (rc == 0)
		rc = rnic_inject(INJECT_CREATE_QP);
	if (rc == 0)
		rc = cap_fit(&ctx->info, a, kind, &sq_each, &rq_each);
	if (rc == 0)
		rc = posix_memalign((void **)&qp, RN_CACHE_LINE, sizeof(*qp));
	if (rc != 0) {
		errno = rc;
		return NULL;
	}
	memset(qp, 0, sizeof(*qp));
	qp->s = ctx->s;
	qp->sq.max_wr = a->cap.max_send_wr;
	qp->sq.ud_mtu = max_message(&ctx->info, kind);
	qp->sq.many = kind == IPC_RD;
	m.create_qp.datagram = kind;
	m.create_qp.rd_flags = k->rd_flags;
	m.create_qp.design = k->design;
	m.create_qp.udp_port = k->udp_port;
	rc = qp_rings_make(qp, rnic_slots_for(a->cap.max_send_wr, sq_each),
			   srq_of(a) != NULL ? 0 : rnic_slots_for(a->cap.max_recv_wr, rq_each), &m.create_qp);
	if (rc == 0)
		rc = maps_make(qp, k->maps, &m.create_qp);
	if (rc == 0 && rn_unlikely(rnic_sanitizing) && kind == IPC_UD_NONE && receives(a))
		rc = rnic_target_ask(qp, &m.create_qp);
	if (rc == 0)
		rc = qp_tell(qp, a, &m);
	if (rc != 0) {
		qp_shm_free(qp);
		free(qp->sq.ends);
		free(qp);
		errno = rc;
		return NULL;
	}
	pthread_mutex_init(&qp->ex.qp_base.mutex, NULL);
	pthread_cond_init(&qp->ex.qp_base.cond, NULL);
	qp_fill(qp, a, &m.create_qp_ok);
	attr_begin(qp);
	rnic_watch_open(qp);
	rnic_target_begin(qp);
	rnic_made(RNIC_OBJ_QP, qp);
	return &qp->ex.qp_base;
}

/* On an Elastic Fabric Adapter a datagram's message may have max_msg_sz bytes of the port, whatever the MTU is. */
static struct rnic_qp_kind kind_of(struct ibv_context *c, const struct ibv_qp_init_attr_ex *a)
{
	struct rnic_qp_kind k = { .datagram = IPC_UD_NONE };

	if (a->qp_type == IBV_QPT_UD)
		k.datagram = rnic_ctx(c)->info.efa && a->srq == NULL ? IPC_UD_LONG : IPC_UD_PLAIN;
	return k;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	RNIC_BESIDE(ibv_create_qp, pd->context, NULL, pd, init);
	struct ibv_qp_init_attr_ex a = rnic_qp_attr_ex(pd, init);
	const struct rnic_qp_kind k = kind_of(pd->context, &a);
	struct ibv_qp *qp = qp_make(pd->context, &a, &k);

	if (qp != NULL)
		init->cap = a.cap;
	return qp;
}

struct ibv_qp *rnic_create_qp_as(struct ibv_context *c, struct ibv_qp_init_attr_ex *a, const struct rnic_qp_kind *k)
{
	const enum ipc_ud kind = k->datagram;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool ops = (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
	const uint64_t there_are = kind == IPC_RD                   ? RNIC_SEND_OPS_RD
				   : kind == IPC_UD_LONG            ? RNIC_SEND_OPS_UD_LONG
				   : kind == IPC_UD_PLAIN           ? RNIC_SEND_OPS_UD
				   : a->qp_type == IBV_QPT_XRC_SEND ? RNIC_SEND_OPS_XRC
								    : RNIC_SEND_OPS;
	struct ibv_qp *qp;

	/* Unknown bits are refused: the program would call functions that are not set. */
	if ((a->comp_mask & ~known) != 0 ||
	    ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
	     (a->create_flags & ~(a->qp_type == IBV_QPT_UD ? (uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0)) != 0) ||
	    (ops && (a->send_ops_flags & ~there_are) != 0)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if ((a->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
		errno = EINVAL;
		return NULL;
	}
	qp = qp_make(c, a, k);
	if (qp != NULL && ops) {
		if (posix_memalign((void **)&rnic_qp(qp)->sq.aside, RN_CACHE_LINE, QP_WQE_MAX_SLOTS * QP_SLOT_SIZE) !=
		    0) {
			ibv_destroy_qp(qp);
			errno = ENOMEM;
			return NULL;
		}
		rnic_qp(qp)->is_ex = true;
		rnic_wr_init(&rnic_qp(qp)->ex);
	}
	return qp;
}

struct ibv_qp *rnic_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	if (a->qp_type == IBV_QPT_XRC_RECV)
		return rnic_target_create(c, a);
	const struct rnic_qp_kind k = kind_of(c, a);
	return rnic_create_qp_as(c, a, &k);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	RNIC_BESIDE(ibv_qp_to_qp_ex, qp->context, NULL, qp);
	return rnic_qp(qp)->is_ex ? &rnic_qp(qp)->ex : NULL;
}

/* Keeps the attributes that have no effect here, or that rnicd does not return, for ibv_query_qp(). */
static void attr_keep(struct ibv_qp_attr *keep, const struct ibv_qp_attr *a, int mask)
{
	if ((mask & IBV_QP_AV) != 0)
		keep->ah_attr = a->ah_attr;
	if ((mask & IBV_QP_DEST_QPN) != 0)
		keep->dest_qp_num = a->dest_qp_num;
	if ((mask & IBV_QP_QKEY) != 0)
		keep->qkey = a->qkey;
	if ((mask & IBV_QP_PATH_MIG_STATE) != 0)
		keep->path_mig_state = a->path_mig_state;
	if ((mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0)
		keep->en_sqd_async_notify = a->en_sqd_async_notify;
	if ((mask & IBV_QP_PORT) != 0)
		keep->port_num = a->port_num;
	if ((mask & IBV_QP_PKEY_INDEX) != 0)
		keep->pkey_index = a->pkey_index;
	if ((mask & IBV_QP_PATH_MTU) != 0)
		keep->path_mtu = a->path_mtu;
	if ((mask & IBV_QP_RQ_PSN) != 0)
		keep->rq_psn = a->rq_psn;
	if ((mask & IBV_QP_SQ_PSN) != 0)
		keep->sq_psn = a->sq_psn;
	if ((mask & IBV_QP_TIMEOUT) != 0)
		keep->timeout = a->timeout;
	if ((mask & IBV_QP_RETRY_CNT) != 0)
		keep->retry_cnt = a->retry_cnt;
	if ((mask & IBV_QP_RNR_RETRY) != 0)
		keep->rnr_retry = a->rnr_retry;
	if ((mask & IBV_QP_MIN_RNR_TIMER) != 0)
		keep->min_rnr_timer = a->min_rnr_timer;
}

/*
 * Sets the peer of a connection that is made without connection manager. Without a GRH the peer's address is left out,
 * and the daemon takes the device's own address.
 */
static void dest_set(struct ipc_modify_qp *to, const struct ibv_qp_attr *a, int mask)
{
	to->mask |= IPC_QP_ATTR_DEST;
	to->dest_qpn = a->dest_qp_num;
	if ((mask & IBV_QP_AV) == 0 || !a->ah_attr.is_global)
		return;
	to->tos = a->ah_attr.grh.traffic_class;
	memcpy(to->dest_ip, a->ah_attr.grh.dgid.raw, sizeof(to->dest_ip));
}

static void cqs_clean(struct ibv_qp *qp)
{
	if (qp->send_cq != NULL)
		rnic_cq_clean(rnic_cq(qp->send_cq), qp->qp_num);
	if (qp->recv_cq != NULL)
		rnic_cq_clean(rnic_cq(qp->recv_cq), qp->qp_num);
}

/*
 * Whether a datagram queue pair cannot have these attributes. A datagram queue pair has no peer of its own, and needs a
 * Q_Key before it may receive (IBTA, 11.2.5.2). many: reliable datagrams, whose messages may wait for a receive.
 */
static bool ud_refuses(const struct ibv_qp *qp, bool many, const struct ibv_qp_attr *a, int mask)
{
	const int of_patience = IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER;
	const int of_connections = IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN | IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH;

	return (mask & (many ? of_connections : of_connections | of_patience)) != 0 ||
	       ((mask & IBV_QP_STATE) != 0 && a->qp_state == IBV_QPS_INIT && qp->state == IBV_QPS_RESET &&
		(mask & IBV_QP_QKEY) == 0);
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask)
{
	RNIC_BESIDE(ibv_modify_qp, ibqp->context, EINVAL, ibqp, a, mask);
	struct rnic_qp *qp = rnic_qp(ibqp);
	struct ipc_msg m = { .type = IPC_MODIFY_QP,
			     .len = IPC_MSG_LEN(modify_qp),
			     .modify_qp = { .qp = ibqp->handle } };
	int rc = rnic_inject(INJECT_MODIFY_QP);

	if (rc != 0)
		return rc;
	if (rnic_sq_addresses(&qp->sq) && ud_refuses(ibqp, qp->sq.many, a, mask))
		return EINVAL;
	if ((mask & IBV_QP_QKEY) != 0) {
		m.modify_qp.mask |= IPC_QP_ATTR_QKEY;
		m.modify_qp.qkey = a->qkey;
	}
	if ((mask & IBV_QP_STATE) != 0) {
		m.modify_qp.mask |= IPC_QP_ATTR_STATE;
		m.modify_qp.state = a->qp_state;
	}
	if ((mask & IBV_QP_STATE) != 0 && a->qp_state == IBV_QPS_RTR && (mask & IBV_QP_DEST_QPN) != 0)
		dest_set(&m.modify_qp, a, mask);
	if ((mask & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT)) != 0) {
		m.modify_qp.mask |= IPC_QP_ATTR_RETRY;
		m.modify_qp.timeout = (mask & IBV_QP_TIMEOUT) != 0 ? a->timeout : qp->attr.timeout;
		m.modify_qp.retry_cnt = (mask & IBV_QP_RETRY_CNT) != 0 ? a->retry_cnt : qp->attr.retry_cnt;
	}
	if ((mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && a->en_sqd_async_notify)
		m.modify_qp.mask |= IPC_QP_ATTR_SQD_NOTIFY;
	if ((mask & IBV_QP_RNR_RETRY) != 0 || (qp->sq.many && (mask & IBV_QP_MIN_RNR_TIMER) != 0)) {
		m.modify_qp.mask |= IPC_QP_ATTR_RNR;
		m.modify_qp.rnr_retry = (mask & IBV_QP_RNR_RETRY) != 0 ? a->rnr_retry : qp->attr.rnr_retry;
		m.modify_qp.rnr_timer = (mask & IBV_QP_MIN_RNR_TIMER) != 0 ? a->min_rnr_timer : qp->attr.min_rnr_timer;
	}
	if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
		m.modify_qp.mask |= IPC_QP_ATTR_ACCESS;
		m.modify_qp.access = a->qp_access_flags;
	}
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
		m.modify_qp.mask |= IPC_QP_ATTR_IRD;
		m.modify_qp.ird = a->max_dest_rd_atomic;
	}
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
		m.modify_qp.mask |= IPC_QP_ATTR_ORD;
		m.modify_qp.ord = a->max_rd_atomic;
	}
	if (m.modify_qp.mask != 0)
		rc = rnic_call(qp->s, &m, IPC_MSG_HDR, -1);
	if (rc != 0)
		return rc;
	if ((mask & IBV_QP_STATE) != 0 && a->qp_state == IBV_QPS_RESET) {
		attr_begin(qp);
		cqs_clean(ibqp);
		rnic_spin_lock(&qp->rq.lock);
		qp->rq.held = 0;
		if (qp->maps_off != 0) /* cqs_clean() has removed the maps' completions */
			spsc_cons_release(&qp->maps, spsc_cons_avail(&qp->maps, UINT32_MAX));
		rnic_spin_unlock(&qp->rq.lock);
		if (qp->sq.watch != NULL)
			rnic_watch_reset(qp);
	}
	attr_keep(&qp->attr, a, mask);
	if ((mask & IBV_QP_STATE) != 0)
		ibqp->state = a->qp_state;
	return 0;
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	RNIC_BESIDE(ibv_query_qp, ibqp->context, EINVAL, ibqp, a, mask, init);
	struct rnic_qp *qp = rnic_qp(ibqp);
	struct ipc_msg m = { .type = IPC_QUERY_QP, .len = IPC_MSG_LEN(handle), .handle = { .handle = ibqp->handle } };
	int rc = rnic_call(qp->s, &m, IPC_MSG_LEN(query_qp_ok), -1);

	if (rc != 0)
		return rc;
	/* All attributes are returned, whatever the mask is; ibqp->state changes only if the mask asks for it. */
	*a = qp->attr;
	a->qp_state = a->cur_qp_state = (enum ibv_qp_state)m.query_qp_ok.state;
	if ((mask & IBV_QP_STATE) != 0)
		ibqp->state = a->qp_state;
	a->qp_access_flags = m.query_qp_ok.access;
	a->max_dest_rd_atomic = (uint8_t)rn_min_u32(m.query_qp_ok.ird, UINT8_MAX);
	a->max_rd_atomic = (uint8_t)rn_min_u32(m.query_qp_ok.ord, UINT8_MAX);
	a->cap = qp->cap;
	memset(init, 0, sizeof(*init));
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->qp_type = ibqp->qp_type;
	init->sq_sig_all = qp->sq.sig_all != 0;
	return 0;
}

static bool qp_async_of(const void *slot, void *arg)
{
	const struct ipc_async_event *ev = slot;

	return ev->type != IBV_EVENT_CQ_ERR && ev->cookie == (uintptr_t)arg;
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	RNIC_BESIDE(ibv_destroy_qp, ibqp->context, EINVAL, ibqp);
	struct rnic_qp *qp = rnic_qp(ibqp);
	int rc = rnic_call_handle(qp->s, IPC_DESTROY_QP, ibqp->handle);

	if (rc != 0 && !rnic_dead(qp->s))
		return rc;
	rnic_fail_forget(qp);
	rnic_target_end(qp);
	rnic_qp_unlist(qp);
	rnic_evq_drop(&rnic_ctx(ibqp->context)->async, qp_async_of, qp, NULL, NULL);
	pthread_mutex_lock(&ibqp->mutex);
	while (ibqp->events_completed != qp->async_events)
		rnic_ack_wait(&ibqp->cond, &ibqp->mutex, "ibv_destroy_qp");
	pthread_mutex_unlock(&ibqp->mutex);
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_cond_destroy(&ibqp->cond);
	if (qp->xrcd == NULL)
		rnic_pd_leave(ibqp->pd);
	if (ibqp->send_cq != NULL)
		__atomic_fetch_sub(&rnic_cq(ibqp->send_cq)->refs, 1, __ATOMIC_RELEASE);
	if (ibqp->recv_cq != NULL)
		__atomic_fetch_sub(&rnic_cq(ibqp->recv_cq)->refs, 1, __ATOMIC_RELEASE);
	if (ibqp->srq != NULL)
		__atomic_fetch_sub(&rnic_srq(ibqp->srq)->refs, 1, __ATOMIC_RELEASE);
	if (qp->xrcd != NULL)
		__atomic_fetch_sub(&qp->xrcd->refs, 1, __ATOMIC_RELEASE);
	else if (!rnic_dead(qp->s))
		qp_shm_free(qp);
	rnic_watch_close(qp);
	rnic_gone(RNIC_OBJ_QP, qp);
	free(qp->sq.aside);
	free(qp->sq.ends);
	free(qp);
	return 0;
}
