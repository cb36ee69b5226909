/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair of an id, with completion queues of its own if the program gives none. */
#include "rnic/cm/cm.h"

static int cq_own(struct rdma_cm_id *id, uint32_t wrs, struct ibv_comp_channel **ch, struct ibv_cq **cq)
{
	*ch = ibv_create_comp_channel(id->verbs);
	if (*ch == NULL)
		return errno;
	*cq = ibv_create_cq(id->verbs, wrs > 0 ? (int)wrs : 1, id, *ch, 0);
	if (*cq == NULL) {
		int rc = errno;
		ibv_destroy_comp_channel(*ch);
		*ch = NULL;
		return rc;
	}
	return 0;
}

static void cqs_free(struct rnic_cm_id *id)
{
	struct rdma_cm_id *r = &id->id;

	if (id->own_send_cq) {
		ibv_destroy_cq(r->send_cq);
		ibv_destroy_comp_channel(r->send_cq_channel);
		r->send_cq = NULL;
		r->send_cq_channel = NULL;
	}
	if (id->own_recv_cq) {
		ibv_destroy_cq(r->recv_cq);
		ibv_destroy_comp_channel(r->recv_cq_channel);
		r->recv_cq = NULL;
		r->recv_cq_channel = NULL;
	}
	id->own_send_cq = id->own_recv_cq = false;
}

static int cqs_make(struct rnic_cm_id *id, struct ibv_qp_init_attr_ex *a)
{
	struct rdma_cm_id *r = &id->id;
	int rc = 0;

	if (a->send_cq == NULL) {
		rc = cq_own(r, a->cap.max_send_wr, &r->send_cq_channel, &r->send_cq);
		id->own_send_cq = rc == 0;
		a->send_cq = r->send_cq;
	}
	if (rc == 0 && a->recv_cq == NULL) {
		rc = cq_own(r, a->cap.max_recv_wr, &r->recv_cq_channel, &r->recv_cq);
		id->own_recv_cq = rc == 0;
		a->recv_cq = r->recv_cq;
	}
	if (rc != 0)
		cqs_free(id);
	return rc;
}

/* Moves a channel adapter's QP to INIT, so that receives may be posted at once; an RNIC's QP begins in INIT. */
static int qp_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .qkey = RDMA_UDP_QKEY, .port_num = 1 };
	int rc;

	if (qp->qp_type == IBV_QPT_UD) { /* no connection will bring the QP up */
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
		for (a.qp_state = IBV_QPS_RTR; rc == 0 && a.qp_state <= IBV_QPS_RTS; a.qp_state++)
			rc = ibv_modify_qp(qp, &a, IBV_QP_STATE);
		return rc;
	}
	if (rnic_ctx(qp->context)->info.roce)
		return ibv_modify_qp(qp, &a, IBV_QP_STATE);
	qp->state = IBV_QPS_INIT;
	return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *rid, struct ibv_qp_init_attr_ex *a)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ibv_qp *qp;
	int rc;

	if (rid->verbs == NULL || rid->qp != NULL || (a->qp_type == IBV_QPT_UD) != (rid->ps == RDMA_PS_UDP))
		return cm_ret(EINVAL);
	if ((a->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || a->pd == NULL) {
		a->comp_mask |= IBV_QP_INIT_ATTR_PD;
		a->pd = rid->pd;
	}
	if (a->pd == NULL || a->pd->context != rid->verbs)
		return cm_ret(EINVAL);
	rc = cqs_make(id, a);
	if (rc != 0)
		return cm_ret(rc);
	if (a->srq == NULL)
		a->srq = rid->srq;
	qp = rnic_create_qp_ex(rid->verbs, a);
	rc = qp != NULL ? qp_ready(qp) : errno;
	if (rc != 0) {
		if (qp != NULL)
			ibv_destroy_qp(qp);
		cqs_free(id);
		return cm_ret(rc);
	}
	id->made_qpn = qp->qp_num;
	rid->qp = qp;
	rid->pd = a->pd;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *rid, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex a = rnic_qp_attr_ex(pd, init);
	int rc = rdma_create_qp_ex(rid, &a);

	if (rc == 0) {
		init->cap = a.cap;
		init->send_cq = a.send_cq;
		init->recv_cq = a.recv_cq;
	}
	return rc;
}

void rdma_destroy_qp(struct rdma_cm_id *rid)
{
	struct ibv_qp *qp = rid->qp;

	if (qp == NULL)
		return;
	rid->qp = NULL; /* first, for a thread that reads an event of the id now */
	ibv_destroy_qp(qp);
	cqs_free(cm_id(rid));
}

/* ---- the shared receive queue that an id's QP uses when its attributes name none ---- */

int rdma_create_srq_ex(struct rdma_cm_id *rid, struct ibv_srq_init_attr_ex *a)
{
	struct ibv_srq *srq;

	if (rid->verbs == NULL || rid->srq != NULL || (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0)
		return cm_ret(EINVAL);
	if ((a->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || a->pd == NULL) {
		a->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		a->pd = rid->pd;
	}
	srq = rnic_create_srq_ex(rid->verbs, a);
	if (srq == NULL)
		return -1;
	if (rid->pd == NULL)
		rid->pd = a->pd;
	rid->srq = srq;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *rid, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex a = { .srq_context = init->srq_context,
					  .attr = init->attr,
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_BASIC,
					  .pd = pd };
	int rc = rdma_create_srq_ex(rid, &a);

	if (rc == 0)
		init->attr = a.attr;
	return rc;
}

void rdma_destroy_srq(struct rdma_cm_id *rid)
{
	if (rid->srq == NULL || ibv_destroy_srq(rid->srq) != 0)
		return;
	rid->srq = NULL;
}

/* The attributes for RTR name no destination, because the connection manager attaches the QP to the connection. */
int rdma_init_qp_attr(struct rdma_cm_id *rid, struct ibv_qp_attr *a, int *mask)
{
	enum ibv_qp_state to = a->qp_state;

	if (rid->verbs == NULL || to == IBV_QPS_RESET)
		return cm_ret(EINVAL);
	memset(a, 0, sizeof(*a));
	a->qp_state = to;
	*mask = IBV_QP_STATE;
	if (rid->ps == RDMA_PS_UDP) {
		a->port_num = rid->port_num;
		a->qkey = RDMA_UDP_QKEY;
		if (to == IBV_QPS_INIT)
			*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
		else if (to == IBV_QPS_RTS)
			*mask |= IBV_QP_SQ_PSN;
	} else if (to == IBV_QPS_INIT) {
		*mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		a->port_num = rid->port_num;
		a->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				     (cm_adapter(cm_id(rid)) ? IBV_ACCESS_REMOTE_ATOMIC : 0);
	} else if (to == IBV_QPS_RTS && cm_id(rid)->opt.ack_timeout != 0) {
		*mask |= IBV_QP_TIMEOUT;
		a->timeout = cm_id(rid)->opt.ack_timeout;
	}
	return 0;
}
