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
