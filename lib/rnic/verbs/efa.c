/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of libefa (<infiniband/efadv.h>) for devices with `personality = efa`, whose SRD queue pairs are reliable
 * datagrams in any order (RNICDV_QPT_RD with RNICDV_QP_UNORDERED). Calls for another vendor's device go to the stock
 * library; calls for our devices of another personality fail with EOPNOTSUPP.
 */
#include <infiniband/efadv.h>

#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

#define CAP_RDMA_WRITE (1u << 3) /* EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE of newer headers */

/* Whether the program's structure, which may be of an older version, has the field. */
#define HAS(type, field, len) ((len) >= offsetof(type, field) + sizeof(((type *)0)->field))

static bool is_efa(const struct ibv_context *c)
{
	const struct ipc_dev_info *i = &rnic_ctx((struct ibv_context *)(uintptr_t)c)->info;

	return i->efa && i->ud_max != 0;
}

int efadv_query_device(struct ibv_context *c, struct efadv_device_attr *attr, uint32_t inlen)
{
	RNIC_BESIDE(efadv_query_device, c, EOPNOTSUPP, c, attr, inlen);
	const struct ipc_dev_info *i = &rnic_ctx(c)->info;
	const struct efadv_device_attr full = {
		.max_sq_wr = rn_min_u32(i->max_wr, RNIC_EFA_WR),
		.max_rq_wr = rn_min_u32(i->max_wr, RNIC_EFA_WR),
		.max_sq_sge = RNIC_EFA_SQ_SGE,
		.max_rq_sge = 1,
		.inline_buf_size = (uint16_t)i->max_inline,
		.device_caps = EFADV_DEVICE_ATTR_CAPS_RDMA_READ | EFADV_DEVICE_ATTR_CAPS_RNR_RETRY |
			       EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID | CAP_RDMA_WRITE,
		.max_rdma_size = RNIC_EFA_RDMA,
	};

	if (!is_efa(c))
		return EOPNOTSUPP;
	if (!HAS(struct efadv_device_attr, inline_buf_size, inlen))
		return EINVAL;
	memset(attr, 0, inlen);
	memcpy(attr, &full, rn_min_u32(inlen, sizeof(full)));
	return 0;
}

/* ---- queue pairs ---- */

static struct ibv_qp *refuse(int err)
{
	errno = err;
	return NULL;
}

struct ibv_qp *efadv_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a, struct efadv_qp_init_attr *efa,
				  uint32_t inlen)
{
	RNIC_BESIDE(efadv_create_qp_ex, c, refuse(EOPNOTSUPP), c, a, efa, inlen);
	if (!is_efa(c))
		return refuse(EOPNOTSUPP);
	if (efa == NULL || !HAS(struct efadv_qp_init_attr, driver_qp_type, inlen) || efa->comp_mask != 0)
		return refuse(EINVAL);
	/* A newer program may ask for something in fields that are unknown here. */
	for (uint32_t i = offsetof(struct efadv_qp_init_attr, reserved); i < inlen; i++)
		if (((const uint8_t *)efa)[i] != 0)
			return refuse(EOPNOTSUPP);
	if (a->qp_type == IBV_QPT_UD)
		return rnic_create_qp_ex(c, a);
	if (a->qp_type != IBV_QPT_DRIVER || efa->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD || a->srq != NULL)
		return refuse(EOPNOTSUPP);
	const struct rnic_qp_kind srd = { .datagram = IPC_RD, .rd_flags = IPC_RD_UNORDERED };
	return rnic_create_qp_as(c, a, &srd);
}

struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init, uint32_t driver_qp_type)
{
	RNIC_BESIDE(efadv_create_driver_qp, pd->context, refuse(EOPNOTSUPP), pd, init, driver_qp_type);
	struct ibv_qp_init_attr_ex a = rnic_qp_attr_ex(pd, init);
	struct efadv_qp_init_attr efa = { .driver_qp_type = driver_qp_type };
	struct ibv_qp *qp;

	if (init->qp_type != IBV_QPT_DRIVER)
		return refuse(EINVAL);
	qp = efadv_create_qp_ex(pd->context, &a, &efa, sizeof(efa));
	if (qp != NULL)
		init->cap = a.cap;
	return qp;
}

/* ---- address handles ---- */

int efadv_query_ah(struct ibv_ah *ah, struct efadv_ah_attr *attr, uint32_t inlen)
{
	RNIC_BESIDE(efadv_query_ah, ah->context, EOPNOTSUPP, ah, attr, inlen);
	const struct efadv_ah_attr full = { .ahn = rnic_ah(ah)->number };

	if (!is_efa(ah->context))
		return EOPNOTSUPP;
	if (!HAS(struct efadv_ah_attr, ahn, inlen))
		return EINVAL;
	memset(attr, 0, inlen);
	memcpy(attr, &full, rn_min_u32(inlen, sizeof(full)));
	return 0;
}

/* ---- completion queues ---- */

static int read_sgid(struct efadv_cq *dv, union ibv_gid *sgid)
{
	const struct rnic_cq *cq = rn_container_of(dv, struct rnic_cq, efa);

	/* The rule in efadv.h: if the sender has an address handle, the completion has its number and no address. */
	if ((cq->cur.op & QP_WC_RECV) == 0 || rnic_cq_slid(cq, &cq->cur, cq->from) != RNIC_AHN_NONE)
		return -ENOENT;
	memcpy(sgid->raw, cq->from, sizeof(sgid->raw));
	return 0;
}

struct ibv_cq_ex *efadv_create_cq(struct ibv_context *c, struct ibv_cq_init_attr_ex *a, struct efadv_cq_init_attr *efa,
				  uint32_t inlen)
{
	struct ibv_cq_ex *none = NULL;

	RNIC_BESIDE(efadv_create_cq, c, (errno = EOPNOTSUPP, none), c, a, efa, inlen);
	if (!is_efa(c)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (efa == NULL || !HAS(struct efadv_cq_init_attr, wc_flags, inlen) || efa->comp_mask != 0) {
		errno = EINVAL;
		return NULL;
	}
	if ((efa->wc_flags & ~(uint64_t)EFADV_WC_EX_WITH_SGID) != 0) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct ibv_cq_ex *ex = rnic_create_cq_ex(c, a);
	if (ex != NULL && (efa->wc_flags & EFADV_WC_EX_WITH_SGID) != 0)
		((struct rnic_cq *)ex)->efa.wc_read_sgid = read_sgid;
	return ex;
}

struct efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *ex)
{
	RNIC_BESIDE(efadv_cq_from_ibv_cq_ex, ex->context, NULL, ex);
	return &((struct rnic_cq *)ex)->efa;
}
