/* SPDX-License-Identifier: BSD-3-Clause */
/* What <rnic/rnicdv.h> offers beyond standard verbs. */
#include <rnic/rnicdv.h>

#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

struct ibv_qp *rnicdv_create_qp(struct ibv_context *c, struct ibv_qp_init_attr_ex *a, const struct rnicdv_qp_attr *dv)
{
	if (!rnic_ours(c) || dv->comp_mask != 0 || dv->type != RNICDV_QPT_UD || a->qp_type != IBV_QPT_UD) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return rnic_create_qp_as(c, a, IPC_UD_LONG);
}

int rnicdv_query_device(struct ibv_context *c, struct rnicdv_device_attr *a)
{
	if (!rnic_ours(c) || a->comp_mask != 0)
		return EOPNOTSUPP;
	a->max_ud_msg = rnic_ctx(c)->info.ud_max;
	return 0;
}

int rnicdv_wc_read_record(struct ibv_cq_ex *ex, struct rnicdv_record *r)
{
	_Static_assert((int)QP_WC_RECORD == (int)IBV_WC_DRIVER1 &&
			       (int)QP_WCF_RECORD_WHOLE == (int)RNICDV_WC_RECORD_WHOLE &&
			       (int)QP_WCF_RECORD_MORE == (int)RNICDV_WC_RECORD_MORE,
		       "the daemon's numbers");
	if (!rnic_ours(ex->context))
		return EOPNOTSUPP;
	const struct qp_cqe *e = &((const struct rnic_cq *)ex)->cur;

	if (e->op != QP_WC_RECORD)
		return EINVAL;
	*r = (struct rnicdv_record){
		.addr = e->wr_id,
		.length = e->byte_len,
		.flags = e->flags & (QP_WCF_RECORD_WHOLE | QP_WCF_RECORD_MORE),
	};
	return 0;
}
