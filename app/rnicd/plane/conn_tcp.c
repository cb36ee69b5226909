/* SPDX-License-Identifier: BSD-3-Clause */
/* How TCP is configured on the connections of each port. */
#include "plane/worker_int.h"

#define BBR_RCV_SPACE (4u << 20) /* bytes: enough for the peer to go on sending while a hole is repaired */

/* Constant after start. [0]: connections of the connection manager. [1]: connections without it. */
static struct tcpl_cfg tcp_cfg[RNICD_MAX_PORTS][2];

const struct tcpl_cfg *conn_tcp_cfg(uint32_t port, uint32_t flags)
{
	return &tcp_cfg[port][(flags & RC_KEEP_RECV) != 0];
}

void conn_tcp_init(const struct rnicd_port *port)
{
	static const struct tcpl_cc *const control[] = {
		[RNICD_CUBIC] = &tcpl_cubic, [RNICD_NEWRENO] = &tcpl_newreno, [RNICD_BBR] = &tcpl_bbr
	};
	static const uint8_t ahead[] = { [RNICD_AHEAD_PLACE] = TCPL_AHEAD_PLACE,
					 [RNICD_AHEAD_BUFFER] = TCPL_AHEAD_HOLD,
					 [RNICD_AHEAD_DROP] = TCPL_AHEAD_DROP };
	struct tcpl_cfg *cfg = &tcp_cfg[port->index][0];
	uint32_t ip = pkt_addr_is_ip4(&port->cfg->ip) ? PKT_IP4_LEN : PKT_IP6_LEN;

	tcpl_cfg_default(cfg, (uint16_t)(port->mtu - ip - PKT_TCP_LEN));
	cfg->cc = control[port->cfg->congestion];
	if (port->cfg->congestion == RNICD_BBR)
		cfg->rcv_space = BBR_RCV_SPACE;
	if (port->cfg->min_rto_ns != 0)
		cfg->min_rto_ns = port->cfg->min_rto_ns;
	cfg->pace = port->cfg->pacing;
	cfg->tracks = port->n_paths != 0;
	cfg->use_ts = !cfg->tracks;
	cfg->ahead = ahead[port->cfg->ahead];
	/* for a drop ahead of a hole a peer without SACK counts ACKs (RFC 5681, 3.2); several paths need SACK */
	cfg->use_sack = cfg->ahead != TCPL_AHEAD_DROP || cfg->tracks;
	cfg->keep_idle_ns = port->cfg->keepalive_ns;
	tcp_cfg[port->index][1] = *cfg;
	tcp_cfg[port->index][1].keep_idle_ns = port->cfg->qp_keepalive_ns;
}
