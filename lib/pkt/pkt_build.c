/* SPDX-License-Identifier: BSD-3-Clause */
#include "pkt/pkt_wire.h"

#define TTL_DEFAULT 64u

uint32_t pkt_l2_build(uint8_t *out, const struct pkt_l2 *l2, uint16_t ethertype)
{
	memcpy(out, l2->dst, PKT_MAC_LEN);
	memcpy(out + PKT_MAC_LEN, l2->src, PKT_MAC_LEN);
	if (l2->vlan == PKT_NO_VLAN) {
		rn_store_be16(out + 12, ethertype);
		return PKT_ETH_LEN;
	}
	rn_store_be16(out + 12, PKT_ETHERTYPE_VLAN);
	rn_store_be16(out + 14, l2->vlan);
	rn_store_be16(out + 16, ethertype);
	return PKT_ETH_LEN + PKT_VLAN_LEN;
}

uint32_t pkt_arp_build(uint8_t *out, const struct pkt_l2 *l2, const struct pkt_arp *arp)
{
	uint32_t off = pkt_l2_build(out, l2, PKT_ETHERTYPE_ARP);
	struct pkt_arp_wire *a = (void *)(out + off);

	a->htype = rn_be16_of(1);
	a->ptype = rn_be16_of(PKT_ETHERTYPE_IP4);
	a->hlen = PKT_MAC_LEN;
	a->plen = 4;
	a->op = rn_be16_of(arp->op);
	memcpy(a->sender_mac, arp->sender_mac, PKT_MAC_LEN);
	memcpy(a->sender_ip, arp->sender.b + 12, 4);
	memcpy(a->target_mac, arp->target_mac, PKT_MAC_LEN);
	memcpy(a->target_ip, arp->target.b + 12, 4);
	off += PKT_ARP_LEN;
	/* 802.3 asks for 60 bytes without the tag, and a frame may lose its tag on the way */
	uint32_t min = l2->vlan == PKT_NO_VLAN ? PKT_ETH_MIN : PKT_ETH_MIN + PKT_VLAN_LEN;
	memset(out + off, 0, min - off);
	return min;
}

void pkt_icmp_echo_reply(uint8_t *frame, const struct pkt *p)
{
	uint8_t mac[PKT_MAC_LEN];
	memcpy(mac, frame, PKT_MAC_LEN);
	memcpy(frame, frame + PKT_MAC_LEN, PKT_MAC_LEN);
	memcpy(frame + PKT_MAC_LEN, mac, PKT_MAC_LEN);

	uint8_t reply;
	if (p->ip_version == 4) {
		struct pkt_ip4_wire *ip = (void *)(frame + p->l3_off);
		memcpy(ip->src, p->dst.b + 12, 4);
		memcpy(ip->dst, p->src.b + 12, 4);
		ip->ttl = TTL_DEFAULT;
		memset(ip->csum, 0, sizeof(ip->csum));
		pkt_csum_store(ip->csum, pkt_sum(ip, (ip->ver_ihl & 0x0fu) * 4u));
		reply = PKT_ICMP_ECHO_REPLY;
	} else {
		struct pkt_ip6_wire *ip = (void *)(frame + p->l3_off);
		memcpy(ip->src, p->dst.b, sizeof(ip->src));
		memcpy(ip->dst, p->src.b, sizeof(ip->dst));
		ip->hop_limit = TTL_DEFAULT;
		reply = PKT_ICMP6_ECHO_REPLY;
	}

	/* addresses only change places in the ICMPv6 pseudo header, so the type is all that the checksum sees */
	struct pkt_icmp_wire *icmp = (void *)(frame + p->l4_off);
	uint16_t csum, from, to;
	memcpy(&from, icmp, sizeof(from));
	icmp->type = reply;
	memcpy(&to, icmp, sizeof(to));
	memcpy(&csum, icmp->csum, sizeof(csum));
	csum = pkt_csum_update(csum, from, to);
	memcpy(icmp->csum, &csum, sizeof(csum));
}

/* Writes the IP header with length and checksum left for later; returns its length. */
static uint32_t ip_build(uint8_t *out, const struct pkt_flow *f, uint8_t proto)
{
	uint8_t ttl = f->ttl != 0 ? f->ttl : TTL_DEFAULT;

	if (pkt_addr_is_ip4(&f->src)) {
		struct pkt_ip4_wire *ip = (void *)out;
		memset(ip, 0, sizeof(*ip));
		ip->ver_ihl = 0x45;
		ip->tos = f->tos;
		ip->frag = rn_be16_of(PKT_IP4_DF);
		ip->ttl = ttl;
		ip->proto = proto;
		memcpy(ip->src, f->src.b + 12, 4);
		memcpy(ip->dst, f->dst.b + 12, 4);
		return PKT_IP4_LEN;
	}
	struct pkt_ip6_wire *ip = (void *)out;
	ip->ver_tc_flow = rn_be32_of(0x60000000u | (uint32_t)f->tos << 20);
	ip->payload_len = rn_be16_of(0);
	ip->next = proto;
	ip->hop_limit = ttl;
	memcpy(ip->src, f->src.b, sizeof(ip->src));
	memcpy(ip->dst, f->dst.b, sizeof(ip->dst));
	return PKT_IP6_LEN;
}

static uint16_t flow_ethertype(const struct pkt_flow *f)
{
	return pkt_addr_is_ip4(&f->src) ? PKT_ETHERTYPE_IP4 : PKT_ETHERTYPE_IP6;
}

void pkt_tcp_template_init(struct pkt_tcp_template *t, const struct pkt_flow *flow)
{
	memset(t, 0, sizeof(*t));
	t->l2_len = (uint8_t)pkt_l2_build(t->hdr, &flow->l2, flow_ethertype(flow));
	t->l3_len = (uint8_t)ip_build(t->hdr + t->l2_len, flow, PKT_PROTO_TCP);
	if (t->l3_len == PKT_IP4_LEN)
		t->ip_sum = pkt_sum_fold(pkt_sum(t->hdr + t->l2_len, PKT_IP4_LEN));

	struct pkt_tcp_wire *tcp = (void *)(t->hdr + t->l2_len + t->l3_len);
	tcp->sport = rn_be16_of(flow->sport);
	tcp->dport = rn_be16_of(flow->dport);
	uint64_t sum = pkt_pseudo_sum(&flow->src, &flow->dst, PKT_PROTO_TCP);
	t->l4_sum = pkt_sum_fold(sum);
}

void pkt_tcp_template_set_dst_mac(struct pkt_tcp_template *t, const uint8_t mac[PKT_MAC_LEN])
{
	memcpy(t->hdr, mac, PKT_MAC_LEN);
}

void pkt_tcp_template_set_tos(struct pkt_tcp_template *t, uint8_t tos)
{
	if (t->l3_len == PKT_IP4_LEN) {
		struct pkt_ip4_wire *ip = (void *)(t->hdr + t->l2_len);
		ip->tos = tos;
		t->ip_sum = pkt_sum_fold(pkt_sum(ip, PKT_IP4_LEN));
	} else {
		struct pkt_ip6_wire *ip = (void *)(t->hdr + t->l2_len);
		ip->ver_tc_flow = rn_be32_of(0x60000000u | (uint32_t)tos << 20);
	}
}

uint32_t pkt_tcp_build(struct pkt_tcp_template *t, const struct pkt_tcp_seg *s, enum pkt_csum mode, uint8_t *out)
{
	uint32_t l4_off = (uint32_t)t->l2_len + t->l3_len;
	uint32_t tcp_len = PKT_TCP_LEN + s->opt_len + s->payload_len;

	/* the ports end the header that is built in advance; a constant length is fast for the common case */
	if (rn_likely(l4_off == PKT_ETH_LEN + PKT_IP4_LEN))
		memcpy(out, t->hdr, PKT_ETH_LEN + PKT_IP4_LEN + 4);
	else
		memcpy(out, t->hdr, l4_off + 4);
	if (t->l3_len == PKT_IP4_LEN) {
		struct pkt_ip4_wire *ip = (void *)(out + t->l2_len);
		uint16_t total = (uint16_t)(PKT_IP4_LEN + tcp_len);
		ip->total_len = rn_be16_of(total);
		ip->id = rn_be16_of(t->ip_id);
		pkt_csum_store(ip->csum, (uint64_t)t->ip_sum + __builtin_bswap16(total) + __builtin_bswap16(t->ip_id));
		t->ip_id++;
	} else {
		struct pkt_ip6_wire *ip = (void *)(out + t->l2_len);
		ip->payload_len = rn_be16_of((uint16_t)tcp_len);
	}

	struct pkt_tcp_wire *tcp = (void *)(out + l4_off);
	tcp->seq = rn_be32_of(s->seq);
	tcp->ack = rn_be32_of(s->ack);
	tcp->doff = (uint8_t)((PKT_TCP_LEN + s->opt_len) / 4 << 4);
	tcp->flags = s->flags;
	tcp->wnd = rn_be16_of(s->wnd);
	memset(tcp->csum, 0, sizeof(tcp->csum));
	tcp->urg = rn_be16_of(0);
	if (s->opt_len != 0)
		memcpy(tcp + 1, s->opt, s->opt_len);

	uint64_t sum = (uint64_t)t->l4_sum + pkt_sum_len(tcp_len);
	switch (mode) {
	case PKT_CSUM_FULL:
		sum = pkt_sum_add(sum, pkt_sum(tcp, PKT_TCP_LEN + s->opt_len));
		sum = pkt_sum_add(sum, s->payload_sum);
		pkt_csum_store(tcp->csum, sum);
		break;
	case PKT_CSUM_PSEUDO: {
		/* not complemented: the port adds the rest and complements (DPDK RTE_MBUF_F_TX_TCP_CKSUM) */
		uint16_t v = pkt_sum_fold(sum);
		memcpy(tcp->csum, &v, sizeof(v));
		break;
	}
	}
	return l4_off + PKT_TCP_LEN + s->opt_len;
}

void pkt_udp_template_init(struct pkt_udp_template *t, const struct pkt_flow *flow)
{
	memset(t, 0, sizeof(*t));
	t->l2_len = (uint8_t)pkt_l2_build(t->hdr, &flow->l2, flow_ethertype(flow));
	t->l3_len = (uint8_t)ip_build(t->hdr + t->l2_len, flow, PKT_PROTO_UDP);
	if (t->l3_len == PKT_IP4_LEN)
		t->ip_sum = pkt_sum_fold(pkt_sum(t->hdr + t->l2_len, PKT_IP4_LEN));

	struct pkt_udp_wire *udp = (void *)(t->hdr + t->l2_len + t->l3_len);
	udp->sport = rn_be16_of(flow->sport);
	udp->dport = rn_be16_of(flow->dport);
	t->l4_sum = pkt_sum_fold(pkt_pseudo_sum(&flow->src, &flow->dst, PKT_PROTO_UDP));
}

uint32_t pkt_udp_template_build(const struct pkt_udp_template *t, uint32_t payload_len, uint64_t payload_sum,
				enum pkt_csum mode, uint8_t *out)
{
	const uint32_t l4_off = (uint32_t)t->l2_len + t->l3_len;
	const uint16_t udp_len = (uint16_t)(PKT_UDP_LEN + payload_len);

	/* a constant length is fast for the common case */
	if (rn_likely(l4_off == PKT_ETH_LEN + PKT_IP4_LEN))
		memcpy(out, t->hdr, PKT_ETH_LEN + PKT_IP4_LEN + PKT_UDP_LEN);
	else
		memcpy(out, t->hdr, l4_off + PKT_UDP_LEN);
	if (t->l3_len == PKT_IP4_LEN) {
		struct pkt_ip4_wire *ip = (void *)(out + t->l2_len);
		const uint16_t total = (uint16_t)(PKT_IP4_LEN + udp_len);
		ip->total_len = rn_be16_of(total);
		pkt_csum_store(ip->csum, (uint64_t)t->ip_sum + __builtin_bswap16(total));
	} else {
		struct pkt_ip6_wire *ip = (void *)(out + t->l2_len);
		ip->payload_len = rn_be16_of(udp_len);
	}

	struct pkt_udp_wire *udp = (void *)(out + l4_off);
	udp->len = rn_be16_of(udp_len);

	uint64_t sum = (uint64_t)t->l4_sum + pkt_sum_len(udp_len);
	switch (mode) {
	case PKT_CSUM_FULL:
		sum = pkt_sum_add(pkt_sum_add(sum, pkt_sum(udp, PKT_UDP_LEN)), payload_sum);
		pkt_csum_store(udp->csum, sum);
		/* RFC 768: a computed zero is sent as all ones */
		if (udp->csum[0] == 0 && udp->csum[1] == 0)
			memset(udp->csum, 0xff, sizeof(udp->csum));
		break;
	case PKT_CSUM_PSEUDO: {
		uint16_t v = pkt_sum_fold(sum);
		memcpy(udp->csum, &v, sizeof(v));
		break;
	}
	}
	return l4_off + PKT_UDP_LEN;
}

uint32_t pkt_udp_build(uint8_t *out, const struct pkt_flow *flow, uint32_t payload_len, uint64_t payload_sum,
		       enum pkt_csum mode)
{
	struct pkt_udp_template t;

	pkt_udp_template_init(&t, flow);
	return pkt_udp_template_build(&t, payload_len, payload_sum, mode, out);
}
