/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of <rnic/rnicdv.h>, beyond standard verbs. */
#include <rnic/rnicdv.h>

#include <string.h>
#include <time.h>

#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

/*
 * Whether a queue pair may have the design; prints a line if not. A process has one place where its iWARP runs: in
 * rnicd, in itself over rnicd's streams (host and assisted), or in itself over the kernel's sockets.
 */
static bool design_served(const struct rnic_session *s, uint32_t design, enum ibv_qp_type type)
{
	static const char *const name[] = { "", "offloaded", "assisted", "host", "embedded" };
	const bool streams = s->design == IPC_DESIGN_HOST || s->design == IPC_DESIGN_ASSISTED;
	const bool asks_streams = design == IPC_DESIGN_HOST || design == IPC_DESIGN_ASSISTED;

	if (design == IPC_DESIGN_ANY || design == s->design)
		return true;
	if (streams && asks_streams && (type == IBV_QPT_RC || type == IBV_QPT_UC))
		return true;
	if (design >= RN_ARRAY_LEN(name))
		rnic_complain("rnic: rnicdv_create_qp: design %u is not known", design);
	else
		rnic_complain(
			"rnic: rnicdv_create_qp: the process runs in design %s, and a queue pair in it cannot have "
			"design %s: start the program with rnicrun --design %s (RNIC_DESIGN); host and assisted go "
			"together",
			name[s->design], name[design], name[design]);
	return false;
}

static struct ibv_qp *dv_refuse(int err)
{
	errno = err;
	return NULL;
}

struct ibv_qp *rnicdv_create_qp(struct ibv_context *c, struct ibv_qp_init_attr_ex *a, const struct rnicdv_qp_attr *dv)
{
	const uint32_t bits = RNICDV_QP_ATTR_FLAGS | RNICDV_QP_ATTR_DESIGN | RNICDV_QP_ATTR_MAPS |
			      RNICDV_QP_ATTR_UDP_PORT;
	const uint32_t flags = dv->comp_mask & RNICDV_QP_ATTR_FLAGS ? dv->flags : 0;
	const uint32_t design = dv->comp_mask & RNICDV_QP_ATTR_DESIGN ? dv->design : 0;
	struct rnic_qp_kind k = { .rd_flags = flags,
				  .maps = dv->comp_mask & RNICDV_QP_ATTR_MAPS ? dv->maps : 0,
				  .udp_port = dv->comp_mask & RNICDV_QP_ATTR_UDP_PORT ? dv->udp_port : 0,
				  .design = IPC_DESIGN_ANY };
	const uint32_t known = dv->type == RNICDV_QPT_RD ? RNICDV_QP_UNORDERED | RNICDV_QP_STRICT : 0;

	_Static_assert((int)IPC_RD_UNORDERED == (int)RNICDV_QP_UNORDERED && (int)IPC_RD_STRICT == (int)RNICDV_QP_STRICT,
		       "the daemon's numbers");
	_Static_assert((int)IPC_DESIGN_OFFLOADED == (int)RNICDV_DESIGN_OFFLOADED &&
			       (int)IPC_DESIGN_ASSISTED == (int)RNICDV_DESIGN_ASSISTED &&
			       (int)IPC_DESIGN_HOST == (int)RNICDV_DESIGN_HOST &&
			       (int)IPC_DESIGN_EMBEDDED == (int)RNICDV_DESIGN_EMBEDDED,
		       "the daemon's numbers");
	if (!rnic_ours(c) || (dv->comp_mask & ~bits) != 0 || (flags & ~known) != 0 || dv->type > RNICDV_QPT_RD ||
	    (dv->type != RNICDV_QPT_VERBS && a->qp_type != IBV_QPT_UD) ||
	    ((k.maps != 0 || k.udp_port != 0) && dv->type != RNICDV_QPT_UD) || k.maps > QP_MAPS_MAX ||
	    !design_served(rnic_ctx(c)->s, design, a->qp_type))
		return dv_refuse(EOPNOTSUPP);
	if (dv->type == RNICDV_QPT_VERBS && a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC)
		return rnic_create_qp_ex(c, a); /* with the process's design */
	if (dv->type == RNICDV_QPT_VERBS)
		k.design = (enum ipc_design)design;
	else
		k.datagram = dv->type == RNICDV_QPT_RD ? IPC_RD : IPC_UD_LONG;
	return rnic_create_qp_as(c, a, &k);
}

int rnicdv_query_device(struct ibv_context *c, struct rnicdv_device_attr *a)
{
	if (!rnic_ours(c) || a->comp_mask != 0)
		return EOPNOTSUPP;
	a->max_ud_msg = rnic_ctx(c)->info.ud_max;
	return 0;
}

int rnicdv_group_bind(struct ibv_qp *qp, const union ibv_gid *group, uint32_t tag, struct ibv_mr *mr, void *addr,
		      uint64_t length)
{
	struct ipc_msg m = { .type = IPC_GROUP_BIND,
			     .len = IPC_MSG_LEN(group_bind),
			     .group_bind = { .qp = qp->handle, .tag = tag } };

	if (!rnic_ours(qp->context))
		return EOPNOTSUPP;
	if (qp->qp_type != IBV_QPT_UD || !rnic_gid_is_group(group) || (mr != NULL && length == 0))
		return EINVAL;
	memcpy(m.group_bind.group, group->raw, sizeof(m.group_bind.group));
	if (mr != NULL) {
		m.group_bind.stag = mr->rkey;
		m.group_bind.addr = (uintptr_t)addr;
		m.group_bind.len = length;
	}
	return rnic_call(rnic_qp(qp)->s, &m, IPC_MSG_HDR, -1);
}

#define SPIN_NS    (50 * RN_NS_PER_US)
#define NAP_MAX_NS (500 * RN_NS_PER_US)
#define NAP_PART   8u /* a nap lasts 1/8 of the time waited so far, and so delays a completion by at most that */

/* During the first SPIN_NS of a wait returns at once (the caller polls again); then naps, longer each time. */
static void wait_more(uint64_t waited, uint64_t left)
{
	const uint64_t ns = rn_min_u64(rn_min_u64(waited / NAP_PART, NAP_MAX_NS), left);
	const struct timespec nap = { .tv_nsec = (long)ns };

	if (waited > SPIN_NS)
		nanosleep(&nap, NULL);
}

int rnicdv_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc, int64_t timeout_us)
{
	const uint64_t begun = rnic_clock(CLOCK_MONOTONIC);
	const uint64_t span = timeout_us < 0 || timeout_us > INT64_MAX / (int64_t)RN_NS_PER_US
				      ? RN_NEVER
				      : (uint64_t)timeout_us * RN_NS_PER_US;
	int n;

	while ((n = ibv_poll_cq(cq, num, wc)) == 0) {
		const uint64_t waited = rnic_clock(CLOCK_MONOTONIC) - begun;

		if (waited >= span)
			break;
		wait_more(waited, span - waited);
	}
	return n;
}

int rnicdv_wc_read_record(struct ibv_cq_ex *ex, struct rnicdv_record *r)
{
	_Static_assert((int)QP_WC_RECORD == (int)IBV_WC_DRIVER1 &&
			       (int)QP_WCF_RECORD_WHOLE == (int)RNICDV_WC_RECORD_WHOLE &&
			       (int)QP_WCF_RECORD_MORE == (int)RNICDV_WC_RECORD_MORE &&
			       (int)QP_WCF_RECORD_MAP == (int)RNICDV_WC_RECORD_MAP,
		       "the daemon's numbers");
	if (!rnic_ours(ex->context))
		return EOPNOTSUPP;
	const struct qp_cqe *e = &((const struct rnic_cq *)ex)->cur;

	if (e->op != QP_WC_RECORD)
		return EINVAL;
	*r = (struct rnicdv_record){
		.addr = e->wr_id,
		.length = e->byte_len,
		.flags = e->flags & (QP_WCF_RECORD_WHOLE | QP_WCF_RECORD_MORE | QP_WCF_RECORD_MAP),
	};
	return 0;
}

int rnicdv_read_map(struct ibv_qp *qp, struct rnicdv_map *to)
{
	_Static_assert(QP_MAP_SEGS == RNICDV_MAP_SEGMENTS && QP_MAPS_MAX == RNICDV_MAPS_MAX, "the daemon's numbers");
	struct qp_record_map m;

	if (!rnic_ours(qp->context))
		return EOPNOTSUPP;
	if (!rnic_qp_map(rnic_qp(qp), &m))
		return ENOENT;
	*to = (struct rnicdv_map){
		.addr = m.to, .length = m.total, .unit = m.unit, .valid = m.valid, .src_qp = m.src_qp
	};
	memcpy(to->segment, m.seg, sizeof(to->segment));
	return 0;
}
