/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/flow_owner.h"

#include <rte_thash.h>

#include "base/rn_be.h"

#define TUPLE_MAX 9u /* words: two IPv6 addresses, the TCP ports */

/* The hash's input is that of Microsoft's "RSS hashing types": source and destination as received frames have them. */
uint32_t flow_rss_hash(const struct rnicd_rss *rss, const struct flow_key *k)
{
	const uint32_t first = pkt_addr_is_ip4(&k->local) ? 12 : 0; /* octet: an IPv4 address is the last four */
	uint32_t tuple[TUPLE_MAX], n = 0;

	for (uint32_t i = first; i < 16; i += 4)
		tuple[n++] = rn_load_be32(k->remote.b + i);
	for (uint32_t i = first; i < 16; i += 4)
		tuple[n++] = rn_load_be32(k->local.b + i);
	tuple[n++] = (uint32_t)k->rport << 16 | k->lport;
	return rte_softrss(tuple, n, rss->key);
}

uint32_t conn_owner(const struct conn_addr *a)
{
	const struct flow_key k = flow_key_of(a);

	return flow_owner_of(rnicd.port[a->port], &k, flow_hash(rnicd.secret, &k));
}

uint32_t ud_owner(uint32_t port, uint32_t qpn)
{
	return flow_owner(ud_hash(rnicd.secret, port, qpn), rnicd.cfg.n_workers);
}
