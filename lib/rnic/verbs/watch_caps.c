/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts that are refused because they ask for more than the queue was made for. */
#include "rnic/verbs/watch.h"

void rnic_watch_caps(const struct rnic_sq *sq, const char *call, uint64_t sges, uint64_t inline_bytes)
{
	const uint32_t qpn = rn_container_of(sq, const struct rnic_qp, sq)->ex.qp_base.qp_num;

	if (sges > sq->max_sge)
		rnic_finding(RNIC_FIND_CAPS, "%s: queue pair %u: %llu SGEs, and its max_send_sge is %u", call, qpn,
			     (unsigned long long)sges, sq->max_sge);
	if (inline_bytes > sq->max_inline)
		rnic_finding(RNIC_FIND_CAPS, "%s: queue pair %u: %llu bytes inline, and its max_inline_data is %u",
			     call, qpn, (unsigned long long)inline_bytes, sq->max_inline);
}

void rnic_watch_recv_caps(const struct rnic_rq *rq, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge >= 0 && (uint32_t)wr->num_sge >= rq->sge_end && rq->sge_end != 0)
		rnic_finding(RNIC_FIND_CAPS, "ibv_post_recv: %d SGEs, and the receive queue was made for %u at most",
			     wr->num_sge, rq->sge_end - 1);
}

void rnic_watch_refused(const struct rnic_sq *sq, const struct ibv_send_wr *wr)
{
	uint64_t len = 0;

	for (int i = 0; i < wr->num_sge && (wr->send_flags & IBV_SEND_INLINE) != 0; i++)
		len += wr->sg_list[i].length;
	rnic_watch_caps(sq, "ibv_post_send",
			wr->num_sge > 0 && (wr->send_flags & IBV_SEND_INLINE) == 0 ? (uint64_t)wr->num_sge : 0, len);
}
