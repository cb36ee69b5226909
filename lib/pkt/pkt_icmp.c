/* SPDX-License-Identifier: BSD-3-Clause */
#include "pkt/pkt_icmp.h"

#include "pkt/pkt_wire.h"

#define PORT_UNREACHABLE 3u /* code of PKT_ICMP_UNREACHABLE */
#define TTL              64u

bool pkt_icmp_refused(const uint8_t *frame, uint32_t contiguous_len, const struct pkt *p, struct pkt_refused *out)
{
	if (p->kind != PKT_KIND_ICMP || p->ip_version != 4 ||
	    !rn_in_range(p->payload_off, p->payload_len, contiguous_len) || p->payload_len < PKT_IP4_LEN)
		return false;
	const struct pkt_icmp_wire *i = (const void *)(frame + p->l4_off);
	if (i->type != PKT_ICMP_UNREACHABLE || i->code != PORT_UNREACHABLE)
		return false;

	const uint8_t *quote = frame + p->payload_off;
	const struct pkt_ip4_wire *ip = (const void *)quote;
	uint32_t at = (ip->ver_ihl & 0x0fu) * 4u;
	if (ip->ver_ihl >> 4 != 4 || at < PKT_IP4_LEN || ip->proto != PKT_PROTO_UDP ||
	    (rn_be16_get(ip->frag) & PKT_IP4_FRAGMENT) != 0 || !rn_in_range(at, PKT_UDP_LEN, p->payload_len))
		return false;
	const struct pkt_udp_wire *udp = (const void *)(quote + at);
	out->src = pkt_addr_ip4(rn_load_be32(ip->src));
	out->dst = pkt_addr_ip4(rn_load_be32(ip->dst));
	out->sport = rn_be16_get(udp->sport);
	out->dport = rn_be16_get(udp->dport);
	return true;
}

/* Whether an address is one station's: not this network's, nor loopback, a group or broadcast. */
static bool may_be_told(const struct pkt_addr *a)
{
	return pkt_addr_is_ip4(a) && a->b[12] != 0 && a->b[12] != 127 && a->b[12] < 224;
}

uint32_t pkt_icmp_port_build(uint8_t *out, const struct pkt_l2 *l2, const uint8_t *frame, uint32_t contiguous_len,
			     const struct pkt *p)
{
	uint32_t quote = rn_min_u32((uint32_t)(p->l4_off - p->l3_off) + p->l4_len, PKT_ICMP_QUOTE);

	if (p->kind != PKT_KIND_UDP || p->ip_version != 4 || !may_be_told(&p->src) || !may_be_told(&p->dst) ||
	    (frame[0] & 1) != 0 || !rn_in_range(p->l3_off, quote, contiguous_len))
		return 0;
	uint32_t at = pkt_l2_build(out, l2, PKT_ETHERTYPE_IP4);
	struct pkt_ip4_wire *ip = (void *)(out + at);
	struct pkt_icmp_wire *icmp = (void *)(ip + 1);

	*ip = (struct pkt_ip4_wire){ .ver_ihl = 0x45,
				     .tos = 0xc0, /* RFC 1812, section 4.3.2.5 */
				     .total_len = rn_be16_of((uint16_t)(PKT_IP4_LEN + PKT_ICMP_LEN + quote)),
				     .ttl = TTL,
				     .proto = PKT_PROTO_ICMP };
	memcpy(ip->src, p->dst.b + 12, sizeof(ip->src));
	memcpy(ip->dst, p->src.b + 12, sizeof(ip->dst));
	pkt_csum_store(ip->csum, pkt_sum(ip, PKT_IP4_LEN));
	*icmp = (struct pkt_icmp_wire){ .type = PKT_ICMP_UNREACHABLE, .code = PORT_UNREACHABLE };
	memcpy(icmp + 1, frame + p->l3_off, quote);
	pkt_csum_store(icmp->csum, pkt_sum(icmp, PKT_ICMP_LEN + quote));
	return at + PKT_IP4_LEN + PKT_ICMP_LEN + quote;
}
