/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP about UDP on IPv4: no socket has the port that a datagram was for (RFC 792; RFC 1122, section 4.1.3.1). Pure. */
#ifndef PKT_ICMP_H
#define PKT_ICMP_H

#include "pkt/pkt.h"

#define PKT_ICMP_QUOTE 528u /* bytes of the datagram that are quoted at most: RFC 1812, section 4.3.2.3 */

/* Room for the frame that pkt_icmp_port_build() makes. */
#define PKT_ICMP_PORT_MAX (PKT_ETH_LEN + PKT_VLAN_LEN + PKT_IP4_LEN + PKT_ICMP_LEN + PKT_ICMP_QUOTE)

/* A UDP datagram that we sent, as an ICMP message quotes it. */
struct pkt_refused {
	struct pkt_addr src, dst;
	uint16_t sport, dport;
};

/*
 * Reads "port unreachable" about a UDP datagram from a parsed PKT_KIND_ICMP. False: another message, one about another
 * kind of packet, or one cut short. The message may be forged: only its form is checked.
 */
bool pkt_icmp_refused(const uint8_t *frame, uint32_t contiguous_len, const struct pkt *p, struct pkt_refused *out);

/*
 * Writes the whole "port unreachable" frame that answers a parsed UDP datagram; returns its length. 0: no message may
 * answer this datagram (RFC 1122, section 3.2.2), or its headers are not contiguous.
 */
uint32_t pkt_icmp_port_build(uint8_t *out, const struct pkt_l2 *l2, const uint8_t *frame, uint32_t contiguous_len,
			     const struct pkt *p);

#endif
