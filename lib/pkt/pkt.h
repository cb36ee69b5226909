/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets: Ethernet (IEEE 802.3, one 802.1Q tag), ARP (RFC 826), IPv4 (RFC 791), IPv6 (RFC 8200), ICMP echo (RFC 792),
 * UDP (RFC 768), TCP (RFC 9293) headers, parsed and built, and the Internet checksum (RFC 1071).
 *
 * Pure: no memory of its own, no state but the caller's, safe from any thread. All numbers in the structs are in host
 * order, all lengths and offsets are bytes. Addresses are 128 bits everywhere: an IPv4 address is IPv4-mapped
 * (RFC 4291, section 2.5.5.2).
 */
#ifndef PKT_H
#define PKT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/rn_base.h"
#include "base/rn_be.h"
#include "base/rn_iov.h"

/* ---- sizes and numbers of the wire ---- */

#define PKT_ETH_LEN     14u
#define PKT_VLAN_LEN    4u
#define PKT_ARP_LEN     28u
#define PKT_IP4_LEN     20u
#define PKT_IP6_LEN     40u
#define PKT_UDP_LEN     8u
#define PKT_TCP_LEN     20u
#define PKT_TCP_OPT_MAX 40u
#define PKT_ICMP_LEN    8u
#define PKT_ETH_MIN     60u /* a frame without FCS is padded to this */
#define PKT_MAC_LEN     6u

/* Room that the longest built header needs: Ethernet, VLAN, IPv6, TCP and its options. */
#define PKT_HDR_MAX (PKT_ETH_LEN + PKT_VLAN_LEN + PKT_IP6_LEN + PKT_TCP_LEN + PKT_TCP_OPT_MAX)

/* Bytes that a frame occupies on the wire beyond those in memory: preamble and SFD 8, FCS 4, inter-packet gap 12. */
#define PKT_WIRE_OVERHEAD 24u

#define PKT_ETHERTYPE_IP4  0x0800u
#define PKT_ETHERTYPE_ARP  0x0806u
#define PKT_ETHERTYPE_VLAN 0x8100u
#define PKT_ETHERTYPE_IP6  0x86ddu

#define PKT_PROTO_ICMP  1u
#define PKT_PROTO_IGMP  2u
#define PKT_PROTO_TCP   6u
#define PKT_PROTO_UDP   17u
#define PKT_PROTO_ICMP6 58u

#define PKT_TCP_FIN 0x01u
#define PKT_TCP_SYN 0x02u
#define PKT_TCP_RST 0x04u
#define PKT_TCP_PSH 0x08u
#define PKT_TCP_ACK 0x10u
#define PKT_TCP_URG 0x20u
#define PKT_TCP_ECE 0x40u
#define PKT_TCP_CWR 0x80u

#define PKT_NO_VLAN  0xffffu /* as a TCI: the frame carries no tag */
#define PKT_VID(tci) ((tci)&0x0fffu)

/* ---- addresses ---- */

struct pkt_addr {
	uint8_t b[16];
};

static inline bool pkt_addr_eq(const struct pkt_addr *a, const struct pkt_addr *b)
{
	uint64_t x[2], y[2];
	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

/* An IPv4 address in host order, as 128 bits. */
static inline struct pkt_addr pkt_addr_ip4(uint32_t host_order)
{
	struct pkt_addr a = { { [10] = 0xff, [11] = 0xff } };
	rn_store_be32(a.b + 12, host_order);
	return a;
}

static inline bool pkt_addr_is_ip4(const struct pkt_addr *a)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };
	return memcmp(a->b, prefix, sizeof(prefix)) == 0;
}

/* The IPv4 address in host order; only for an address of which pkt_addr_is_ip4() is true. */
static inline uint32_t pkt_addr_to_ip4(const struct pkt_addr *a) { return rn_load_be32(a->b + 12); }

/* A group of IPv4 hosts (RFC 1112, section 4): 224.0.0.0 to 239.255.255.255. */
static inline bool pkt_addr_is_group(const struct pkt_addr *a) { return a->b[12] >> 4 == 14 && pkt_addr_is_ip4(a); }

/* A group of hosts, of IPv4 or of IPv6 (RFC 4291, section 2.7). */
static inline bool pkt_addr_is_any_group(const struct pkt_addr *a) { return a->b[0] == 0xff || pkt_addr_is_group(a); }

/* The group's Ethernet address, which 32 groups share (RFC 1112, section 6.4). */
static inline void pkt_group_mac(uint8_t mac[PKT_MAC_LEN], const struct pkt_addr *group)
{
	mac[0] = 0x01;
	mac[1] = 0x00;
	mac[2] = 0x5e;
	mac[3] = group->b[13] & 0x7f;
	mac[4] = group->b[14];
	mac[5] = group->b[15];
}

/* True when a and b agree in their first `bits` of 128 (an IPv4 prefix of n bits counts as 96 + n). */
bool pkt_addr_same_net(const struct pkt_addr *a, const struct pkt_addr *b, uint32_t bits);

/* ---- parse ---- */

enum pkt_verdict {
	PKT_OK,           /* out is complete for its kind */
	PKT_TRUNCATED,    /* the frame ends before what its headers promise */
	PKT_SPLIT,        /* the headers are not all in the contiguous part: linearise and try again */
	PKT_BAD_HEADER,   /* a version, header length or total length that cannot be */
	PKT_BAD_CHECKSUM, /* IPv4 header checksum is wrong */
	PKT_FRAGMENT,     /* part of a fragmented IP packet: dropped and counted by rule, addresses are set */
	PKT_VERDICTS
};

enum pkt_kind {
	PKT_KIND_OTHER,     /* an ethertype or IP protocol that is none of the below */
	PKT_KIND_ARP,       /* read on with pkt_arp_parse() */
	PKT_KIND_ICMP_ECHO, /* echo request for IPv4 or IPv6; l4_off points at the ICMP header */
	PKT_KIND_ICMP,      /* any other ICMP or ICMPv6 message */
	PKT_KIND_TCP,
	PKT_KIND_UDP,
	PKT_KIND_IGMP, /* on IPv4; read on with pkt_igmp_parse() */
	PKT_KINDS
};

struct pkt {
	enum pkt_kind kind;
	uint8_t ip_version; /* 4, 6, or 0: not IP */
	uint8_t ip_proto;   /* after IPv6 extension headers */
	uint8_t ip_tos;     /* DSCP and ECN */
	uint8_t tcp_flags;
	uint16_t vlan;      /* TCI or PKT_NO_VLAN */
	uint16_t ethertype; /* the innermost */
	uint16_t l3_off;
	uint16_t l4_off;
	uint32_t l4_len; /* L4 header and payload as the IP length says: Ethernet padding is cut */
	uint16_t sport, dport;
	struct pkt_addr src, dst;
	uint32_t payload_off; /* behind the TCP or UDP header */
	uint32_t payload_len;
	uint32_t tcp_seq, tcp_ack;
	uint16_t tcp_wnd; /* as it stands, unscaled */
	uint16_t tcp_urg;
	const uint8_t *tcp_opt; /* into the frame; tcp_opt_len bytes, not looked at yet */
	uint8_t tcp_opt_len;    /* 0..40 */
};

/*
 * Reads the headers of a frame of frame_len bytes whose first contiguous_len bytes are at frame. Only those are read.
 * Neither the destination MAC (frame[0..6)) nor the TCP, UDP or ICMP checksum (pkt_l4_csum_ok) is checked. On any
 * verdict but PKT_OK only what is named at the verdict is set in out.
 */
RN_NODISCARD enum pkt_verdict pkt_parse(const uint8_t *frame, uint32_t contiguous_len, uint32_t frame_len,
					struct pkt *out);

/*
 * As pkt_parse, for a frame that is likely the next segment or datagram of a train: `frame` has the headers of `before`
 * except what differs between the frames of one connection (lengths, IPv4 identification, the fields behind the ports).
 * Of `before` PKT_TRAIN_LEN bytes are read; `read` is what pkt_parse or this function has read from it. Takes less than
 * half of pkt_parse's instructions. False: out is not valid, and pkt_parse has to read the frame. This is always so for
 * IPv6, VLAN tags and IPv4 options.
 */
#define PKT_TRAIN_LEN 38u /* Ethernet's and IPv4's header, and the ports */
bool pkt_parse_next(const uint8_t *frame, uint32_t contiguous_len, uint32_t frame_len, const uint8_t *before,
		    const struct pkt *read, struct pkt *out);

const char *pkt_verdict_name(enum pkt_verdict v);

/*
 * Verifies the checksum of a parsed TCP, UDP or ICMP packet (RFC 9293 section 3.1, RFC 768: zero means none on IPv4 and
 * is refused on IPv6, RFC 8200 section 8.1). l4[0..n) are exactly its l4_len bytes.
 */
bool pkt_l4_csum_ok(const struct pkt *p, const struct rn_iov *l4, uint32_t n);

/* ---- ICMP: a packet that we sent was too large ---- */

struct pkt_too_big {
	struct pkt_addr src, dst; /* of the packet that was too large */
	uint16_t sport, dport;
	uint32_t seq; /* TCP sequence number */
	uint32_t mtu; /* MTU of the link that the packet was too large for, as a router says */
};

/*
 * Reads "fragmentation needed" (RFC 792, RFC 1191 section 4) or "packet too big" (RFC 4443 section 3.2) about a TCP
 * segment from a parsed PKT_KIND_ICMP. False: another message, one about another kind of packet, one cut before the
 * sequence number, or one with an impossible MTU (0 from old routers; below 1280 for IPv6, RFC 8201 section 4). The
 * message may be forged: only its form is checked.
 */
bool pkt_icmp_too_big(const uint8_t *frame, uint32_t contiguous_len, const struct pkt *p, struct pkt_too_big *out);

/* ---- ARP ---- */

#define PKT_ARP_REQUEST 1u
#define PKT_ARP_REPLY   2u

struct pkt_arp {
	uint16_t op;
	uint8_t sender_mac[PKT_MAC_LEN];
	uint8_t target_mac[PKT_MAC_LEN];
	struct pkt_addr sender, target;
};

/* Reads an ARP packet for IPv4 over Ethernet at frame + p->l3_off; PKT_BAD_HEADER for any other kind of ARP. */
RN_NODISCARD enum pkt_verdict pkt_arp_parse(const uint8_t *frame, uint32_t contiguous_len, const struct pkt *p,
					    struct pkt_arp *out);

/* ---- build ---- */

struct pkt_l2 {
	uint8_t dst[PKT_MAC_LEN];
	uint8_t src[PKT_MAC_LEN];
	uint16_t vlan; /* TCI or PKT_NO_VLAN */
};

/* Writes an Ethernet header with its tag, if any; returns its length (14 or 18). */
uint32_t pkt_l2_build(uint8_t *out, const struct pkt_l2 *l2, uint16_t ethertype);

/* Writes a whole ARP frame, padded to PKT_ETH_MIN; returns its length. Room: 64 bytes. */
uint32_t pkt_arp_build(uint8_t *out, const struct pkt_l2 *l2, const struct pkt_arp *arp);

/*
 * Turns a parsed echo request into its reply in place (RFC 792, RFC 4443 section 4.2): addresses, MACs, type, checksum
 * by incremental update. The frame must be contiguous as far as the ICMP header.
 */
void pkt_icmp_echo_reply(uint8_t *frame, const struct pkt *p);

/* How the checksum of a built segment is filled in. */
enum pkt_csum {
	PKT_CSUM_FULL,   /* summed over header and payload here */
	PKT_CSUM_PSEUDO, /* pseudo header only: the port sums the rest (transmit offload) */
};

struct pkt_flow {
	struct pkt_l2 l2;
	struct pkt_addr src, dst; /* both IPv4-mapped or both IPv6 */
	uint16_t sport, dport;
	uint8_t tos;
	uint8_t ttl;
};

/*
 * One connection's headers, built once; a segment patches only what differs. Belongs to the connection's worker.
 */
struct pkt_tcp_template {
	uint32_t ip_sum; /* unfolded sum of the constant part of the IPv4 header */
	uint32_t l4_sum; /* unfolded sum of pseudo header addresses, protocol and ports */
	uint16_t ip_id;  /* next IPv4 identification; DF is set, so RFC 6864 leaves it free */
	uint8_t l2_len;
	uint8_t l3_len;
	uint8_t hdr[PKT_ETH_LEN + PKT_VLAN_LEN + PKT_IP6_LEN + PKT_TCP_LEN];
};

struct pkt_tcp_seg {
	uint32_t seq, ack;
	uint16_t wnd; /* scaled already */
	uint8_t flags;
	uint8_t opt_len; /* multiple of 4, <= 40 */
	const uint8_t *opt;
	uint32_t payload_len;
	uint64_t payload_sum; /* pkt_sum() of the payload from an even offset; read for PKT_CSUM_FULL only */
};

void pkt_tcp_template_init(struct pkt_tcp_template *t, const struct pkt_flow *flow);

/* Call when the neighbour's MAC has changed. */
void pkt_tcp_template_set_dst_mac(struct pkt_tcp_template *t, const uint8_t mac[PKT_MAC_LEN]);

/* Counts from the next segment on. */
void pkt_tcp_template_set_tos(struct pkt_tcp_template *t, uint8_t tos);

static inline uint32_t pkt_tcp_hdr_len(const struct pkt_tcp_template *t, uint32_t opt_len)
{
	return (uint32_t)t->l2_len + t->l3_len + PKT_TCP_LEN + opt_len;
}

/*
 * Writes all headers of a segment to out and not a byte more, since the payload may follow there already. Returns their
 * length, pkt_tcp_hdr_len().
 */
uint32_t pkt_tcp_build(struct pkt_tcp_template *t, const struct pkt_tcp_seg *s, enum pkt_csum mode, uint8_t *out);

/* The headers of UDP datagrams from one port to one other, built once; a datagram patches only what differs. */
struct pkt_udp_template {
	uint32_t ip_sum; /* unfolded sum of the constant part of the IPv4 header */
	uint32_t l4_sum; /* unfolded sum of pseudo header addresses and protocol */
	uint8_t l2_len;
	uint8_t l3_len;
	uint8_t hdr[PKT_ETH_LEN + PKT_VLAN_LEN + PKT_IP6_LEN + PKT_UDP_LEN];
};

void pkt_udp_template_init(struct pkt_udp_template *t, const struct pkt_flow *flow);

/* Writes all headers of a UDP datagram to out; returns their length. Payload sum as in struct pkt_tcp_seg. */
uint32_t pkt_udp_template_build(const struct pkt_udp_template *t, uint32_t payload_len, uint64_t payload_sum,
				enum pkt_csum mode, uint8_t *out);
/* The same without a template. */
uint32_t pkt_udp_build(uint8_t *out, const struct pkt_flow *flow, uint32_t payload_len, uint64_t payload_sum,
		       enum pkt_csum mode);

/* Completes a checksum that PKT_CSUM_PSEUDO left for the port. l4[0..n) are the packet's l4_len bytes. */
void pkt_l4_csum_finish(const struct pkt *p, uint8_t *frame, const struct rn_iov *l4, uint32_t n);

/* ---- Internet checksum ---- */

/*
 * Sums are unfolded 64-bit ones' complement sums of the bytes as they lie in memory; they add up with pkt_sum_add().
 * Parts that start at an odd offset of the whole go through pkt_sum_odd() first.
 */
uint64_t pkt_sum(const void *data, uint32_t len);

/* Copies len bytes and returns their sum: one pass instead of two. */
uint64_t pkt_sum_copy(void *dst, const void *src, uint32_t len);

/* Sum of a list whatever the parity of its pieces. */
uint64_t pkt_sum_iov(const struct rn_iov *iov, uint32_t n);

static inline uint64_t pkt_sum_add(uint64_t a, uint64_t b)
{
	uint64_t s = a + b;
	return s + (s < a);
}

/* Folds a sum to 16 bits, not complemented, in memory order. */
static inline uint16_t pkt_sum_fold(uint64_t sum)
{
	/* the halves change places and are added: the upper half of the result has the carry of the lower one */
	sum += sum << 32 | sum >> 32;
	uint32_t s = (uint32_t)(sum >> 32);
	s += s << 16 | s >> 16;
	return (uint16_t)(s >> 16);
}

/* The sum of the same bytes when they start at an odd offset (RFC 1071, section 2(B)). */
static inline uint64_t pkt_sum_odd(uint64_t sum) { return __builtin_bswap16(pkt_sum_fold(sum)); }

/*
 * Changes a checksum field for a 16-bit word that changes (RFC 1624, equation 3). All three lie in memory order.
 */
static inline uint16_t pkt_csum_update(uint16_t csum, uint16_t from, uint16_t to)
{
	return (uint16_t)~pkt_sum_fold((uint64_t)(uint16_t)~csum + (uint16_t)~from + to);
}

#endif
