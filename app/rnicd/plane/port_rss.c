/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port_rss.h"

#include <string.h>

#include <rte_ethdev.h>

#define KEY_MIN 40u /* octets that the hash of two IPv6 addresses and TCP ports takes */

static bool read_key(const struct rnicd_port *port, const struct rte_eth_dev_info *info, struct rnicd_rss *rss)
{
	static const uint8_t none[RNICD_RSS_KEY_MAX];
	/* some drivers do not say how long their key is; it is at least as long as the hash needs */
	const uint8_t len = info->hash_key_size != 0 ? info->hash_key_size : KEY_MIN;
	struct rte_eth_rss_conf conf = { .rss_key = rss->key, .rss_key_len = len };
	const uint64_t tcp = pkt_addr_is_ip4(&port->cfg->ip) ? RTE_ETH_RSS_NONFRAG_IPV4_TCP
							     : RTE_ETH_RSS_NONFRAG_IPV6_TCP;

	return len >= KEY_MIN && len <= RNICD_RSS_KEY_MAX && rte_eth_dev_rss_hash_conf_get(port->ethdev, &conf) == 0 &&
	       (conf.rss_hf & tcp) != 0 && memcmp(rss->key, none, sizeof(none)) != 0;
}

static bool read_table(const struct rnicd_port *port, const struct rte_eth_dev_info *info, struct rnicd_rss *rss)
{
	struct rte_eth_rss_reta_entry64 reta[RNICD_RSS_TABLE_MAX / RTE_ETH_RETA_GROUP_SIZE];

	if (info->reta_size < RTE_ETH_RETA_GROUP_SIZE || info->reta_size > RNICD_RSS_TABLE_MAX ||
	    !rn_is_pow2(info->reta_size))
		return false;
	memset(reta, 0, sizeof(reta));
	for (uint32_t i = 0; i < info->reta_size / RTE_ETH_RETA_GROUP_SIZE; i++)
		reta[i].mask = UINT64_MAX;
	if (rte_eth_dev_rss_reta_query(port->ethdev, reta, info->reta_size) != 0)
		return false;
	rss->size = info->reta_size;
	for (uint32_t i = 0; i < rss->size; i++) {
		rss->table[i] = reta[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
		if (rss->table[i] >= port->caps.queues)
			return false;
	}
	return true;
}

void port_rss_read(struct rnicd_port *port)
{
	struct rte_eth_dev_info info;

	memset(&port->rss, 0, sizeof(port->rss));
	port->owners = RNICD_OWNERS_HASH;
	if (port->caps.queues > 1 && rte_eth_dev_info_get(port->ethdev, &info) == 0 &&
	    read_key(port, &info, &port->rss) && read_table(port, &info, &port->rss))
		port->owners = RNICD_OWNERS_RSS;
}
