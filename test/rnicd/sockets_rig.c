/* SPDX-License-Identifier: BSD-3-Clause */
#include "sockets_rig.h"

int sockets_begin(void **state)
{
	static const uint8_t mac[PKT_MAC_LEN] = { 2 };
	char err[256];

	(void)state;
	for (uint32_t i = 0; i < DEVS; i++) {
		rnicd.cfg.port[i] =
			(struct rnicd_port_cfg){ .name = "lo", .mtu = 1500, .mpa_rev = 2, .max_ird = 4, .max_ord = 4 };
		rnicd.cfg.port[i].ip = pkt_addr_ip4(LOOPBACK + i);
		if (!ks_port_add(mac))
			return -1;
	}
	rnicd.cfg.flows = 64;
	rnicd.cfg.record_timeout_ns = rnicd.cfg.record_linger_ns = RN_NS_PER_S;
	ks.net = &ks_net_kernel;
	return ks_start(err, sizeof(err)) ? 0 : -1;
}
