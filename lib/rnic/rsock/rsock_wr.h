/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: the receive of one message, and the encoding of a work request's 64-bit id. */
#ifndef RNIC_RSOCK_WR_H
#define RNIC_RSOCK_WR_H

#include "rnic/rsock/rsock.h"

#define WR_RECV (UINT64_C(1) << 63) /* with it, the message's index; else requests << 32 | bytes of the send ring */

struct rsock_recv {
	struct ibv_recv_wr wr;
	struct ibv_sge sge;
};

static inline void rsock_recv_fill(struct rsock_recv *r, const struct rsock *rs, uint32_t index)
{
	r->sge = (struct ibv_sge){ (uintptr_t)&rs->msg[index], sizeof(*rs->msg), rs->mr->lkey };
	r->wr = (struct ibv_recv_wr){ .wr_id = WR_RECV | index, .sg_list = &r->sge, .num_sge = 1 };
}

#endif
