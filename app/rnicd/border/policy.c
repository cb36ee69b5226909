/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/policy.h"

#include "dgram/dgram.h"

struct mpa_policy conn_policy(const struct rnicd_port *port)
{
	const struct rnicd_port_cfg *c = port->cfg;

	return (struct mpa_policy){ .rev = c->mpa_rev,
				    .crc = c->crc,
				    .crc_must = c->crc_required,
				    .markers = c->markers,
				    .spacing = (uint16_t)(c->spacing < RNICD_SPACING_NONE ? 512u << c->spacing : 0),
				    .unmarked = c->spacing == RNICD_SPACING_NONE,
				    .p2p = c->peer_to_peer,
				    .rtr = c->rtr != 0 ? c->rtr : MPA_RTR_SEND | MPA_RTR_WRITE | MPA_RTR_READ,
				    .ird = c->max_ird,
				    .ord = c->max_ord,
				    .ird_max = c->max_ird };
}

uint32_t port_l2_len(const struct rnicd_port *port)
{
	return PKT_ETH_LEN + (port->cfg->vlan != PKT_NO_VLAN ? PKT_VLAN_LEN : 0);
}

uint32_t port_ip_len(const struct rnicd_port *port)
{
	return pkt_addr_is_ip4(&port->cfg->ip) ? PKT_IP4_LEN : PKT_IP6_LEN;
}

uint32_t ud_mtu(const struct rnicd_port *port)
{
	return port->cfg->ud_port == 0 ? 0 : udpl_mtu(port->mtu - port_ip_len(port) - PKT_UDP_LEN, DGRAM_INNER);
}

uint32_t ud_unit(const struct rnicd_port *port)
{
	return port->cfg->ud_port == 0 ? 0 : udpl_unit(port->mtu - port_ip_len(port) - PKT_UDP_LEN, DGRAM_INNER_MAX);
}

uint32_t ud_segment(const struct rnicd_port *port)
{
	if (port->cfg->segments == RNICD_SEGMENTS_MTU || ud_unit(port) == 0 || port_ip_len(port) != PKT_IP4_LEN)
		return ud_unit(port);
	return udpl_unit(UINT16_MAX - PKT_IP4_LEN - PKT_UDP_LEN, DGRAM_INNER_MAX);
}

uint32_t ud_max(const struct rnicd_port *port) { return dgram_max(ud_unit(port)); }
