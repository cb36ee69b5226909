/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups that a datagram queue pair is attached to. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

static int tell(struct ibv_qp *qp, const union ibv_gid *group, enum ipc_type type)
{
	struct ipc_msg m = { .type = (uint16_t)type, .len = IPC_MSG_LEN(attach), .attach = { .qp = qp->handle } };

	if (qp->qp_type != IBV_QPT_UD || rnic_qp(qp)->sq.many)
		return EINVAL;
	if (!rnic_gid_is_group(group)) {
		rnic_unsupported(type == IPC_ATTACH ? "ibv_attach_mcast" : "ibv_detach_mcast", RNIC_GROUPS);
		return EINVAL;
	}
	memcpy(m.attach.group, group->raw, sizeof(m.attach.group));
	return rnic_call(rnic_qp(qp)->s, &m, IPC_MSG_HDR, -1);
}

/* lid is ignored: there are no LIDs on Ethernet. */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	RNIC_BESIDE(ibv_attach_mcast, qp->context, EINVAL, qp, gid, lid);
	return tell(qp, gid, IPC_ATTACH);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	RNIC_BESIDE(ibv_detach_mcast, qp->context, EINVAL, qp, gid, lid);
	return tell(qp, gid, IPC_DETACH);
}
