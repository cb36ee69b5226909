/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wire layouts for pkt's own files. Every struct is bytes only (alignment 1) and may lie over a frame at any address.
 */
#ifndef PKT_WIRE_H
#define PKT_WIRE_H

#include "base/rn_be.h"
#include "pkt/pkt.h"

struct pkt_eth_wire {
	uint8_t dst[PKT_MAC_LEN];
	uint8_t src[PKT_MAC_LEN];
	rn_be16 type;
};

struct pkt_ip4_wire {
	uint8_t ver_ihl;
	uint8_t tos;
	rn_be16 total_len;
	rn_be16 id;
	rn_be16 frag; /* flags and offset in units of 8 */
	uint8_t ttl;
	uint8_t proto;
	uint8_t csum[2];
	uint8_t src[4];
	uint8_t dst[4];
};

#define PKT_IP4_MTU_MIN  68u   /* RFC 791 */
#define PKT_IP6_MTU_MIN  1280u /* RFC 8200, section 5 */
#define PKT_IP4_DF       0x4000u
#define PKT_IP4_FRAGMENT 0x3fffu /* MF and the offset */

struct pkt_ip6_wire {
	rn_be32 ver_tc_flow;
	rn_be16 payload_len;
	uint8_t next;
	uint8_t hop_limit;
	uint8_t src[16];
	uint8_t dst[16];
};

struct pkt_tcp_wire {
	rn_be16 sport, dport;
	rn_be32 seq, ack;
	uint8_t doff; /* upper four bits, in units of 4 */
	uint8_t flags;
	rn_be16 wnd;
	uint8_t csum[2];
	rn_be16 urg;
};

struct pkt_udp_wire {
	rn_be16 sport, dport;
	rn_be16 len;
	uint8_t csum[2];
};

struct pkt_icmp_wire {
	uint8_t type;
	uint8_t code;
	uint8_t csum[2];
	uint8_t rest[4];
};

struct pkt_arp_wire {
	rn_be16 htype, ptype;
	uint8_t hlen, plen;
	rn_be16 op;
	uint8_t sender_mac[6], sender_ip[4];
	uint8_t target_mac[6], target_ip[4];
};

_Static_assert(sizeof(struct pkt_eth_wire) == PKT_ETH_LEN, "Ethernet header");
_Static_assert(sizeof(struct pkt_ip4_wire) == PKT_IP4_LEN, "IPv4 header");
_Static_assert(sizeof(struct pkt_ip6_wire) == PKT_IP6_LEN, "IPv6 header");
_Static_assert(sizeof(struct pkt_tcp_wire) == PKT_TCP_LEN, "TCP header");
_Static_assert(sizeof(struct pkt_udp_wire) == PKT_UDP_LEN, "UDP header");
_Static_assert(sizeof(struct pkt_icmp_wire) == PKT_ICMP_LEN, "ICMP header");
_Static_assert(sizeof(struct pkt_arp_wire) == PKT_ARP_LEN, "ARP packet");

#define PKT_ICMP_ECHO_REPLY    0u
#define PKT_ICMP_UNREACHABLE   3u
#define PKT_ICMP_FRAG_NEEDED   4u /* code of PKT_ICMP_UNREACHABLE */
#define PKT_ICMP6_TOO_BIG      2u
#define PKT_ICMP_ECHO_REQUEST  8u
#define PKT_ICMP6_ECHO_REQUEST 128u
#define PKT_ICMP6_ECHO_REPLY   129u

/* Pseudo header without the length (RFC 9293 section 3.1, RFC 8200 section 8.1): addresses and protocol. */
static inline uint64_t pkt_pseudo_sum(const struct pkt_addr *src, const struct pkt_addr *dst, uint8_t proto)
{
	uint32_t from = pkt_addr_is_ip4(src) ? 12 : 0;
	uint64_t sum = pkt_sum(src->b + from, 16 - from) + (uint64_t)__builtin_bswap16(proto);

	/* an IPv4-mapped source always comes with an IPv4-mapped destination here */
	return pkt_sum_add(sum, pkt_sum(dst->b + from, 16 - from));
}

static inline uint64_t pkt_sum_len(uint32_t len)
{
	return (uint64_t)__builtin_bswap16((uint16_t)(len >> 16)) + __builtin_bswap16((uint16_t)len);
}

static inline void pkt_csum_store(uint8_t csum[2], uint64_t sum)
{
	uint16_t v = (uint16_t)~pkt_sum_fold(sum);
	memcpy(csum, &v, sizeof(v));
}

#endif
