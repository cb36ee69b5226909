/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the rig share: a segment on the link, and the call that sends a node's segment over the link. */
#ifndef RIG_INT_H
#define RIG_INT_H

#include "rig.h"

struct rig_pkt {
	struct rc_tcp_pkt qp; /* first member: the packet's address is the reference */
	struct rn_iov iov[8];
	struct rig_pkt *next;
	uint64_t at, serial;
	int to;
	uint32_t flow;
	struct tcpl_seg seg;
	uint8_t opt[TCPL_OPT_MAX];
	uint8_t data[];
};

/* Sends one segment of node from: the link may lose, repeat, delay or cut the segment, as rig_cfg.link says. */
void rig_transmit(struct rig *r, int from, uint32_t flow, const struct tcpl_out *o, const uint8_t *data);

#endif
