/* SPDX-License-Identifier: BSD-3-Clause */
#include "pkt/pkt_wire.h"

/* Most IPv6 extension headers before the transport header; honest traffic has only a few. */
#define IP6_EXT_MAX 4u

#define IP6_EXT_HOP_BY_HOP 0u
#define IP6_EXT_ROUTING    43u
#define IP6_EXT_FRAGMENT   44u
#define IP6_EXT_DSTOPTS    60u

/* The frame that is being read. The two lengths never change; `end` is cut to what the IP header promises. */
struct view {
	const uint8_t *frame;
	uint32_t contiguous;
	uint32_t end;
};

/* Whether the `len` bytes of headers at `off` are in the frame, and contiguous. */
static enum pkt_verdict need(const struct view *v, uint32_t off, uint32_t len)
{
	if (rn_unlikely(!rn_in_range(off, len, v->end)))
		return PKT_TRUNCATED;
	if (rn_unlikely(!rn_in_range(off, len, v->contiguous)))
		return PKT_SPLIT;
	return PKT_OK;
}

/* The fields behind the ports; out has the place and the length of the segment already. */
static inline void tcp_fields(const uint8_t *frame, const struct pkt_tcp_wire *t, uint32_t hdr_len, struct pkt *out)
{
	out->tcp_seq = rn_be32_get(t->seq);
	out->tcp_ack = rn_be32_get(t->ack);
	out->tcp_flags = t->flags;
	out->tcp_wnd = rn_be16_get(t->wnd);
	out->tcp_urg = rn_be16_get(t->urg);
	out->tcp_opt = frame + out->l4_off + PKT_TCP_LEN;
	out->tcp_opt_len = (uint8_t)(hdr_len - PKT_TCP_LEN);
	out->payload_off = out->l4_off + hdr_len;
	out->payload_len = out->l4_len - hdr_len;
}

static enum pkt_verdict parse_tcp(const struct view *v, struct pkt *out)
{
	enum pkt_verdict verdict = need(v, out->l4_off, PKT_TCP_LEN);
	if (verdict != PKT_OK)
		return verdict;

	const struct pkt_tcp_wire *t = (const void *)(v->frame + out->l4_off);
	uint32_t hdr_len = (t->doff >> 4) * 4u;
	if (rn_unlikely(hdr_len < PKT_TCP_LEN))
		return PKT_BAD_HEADER;
	verdict = need(v, out->l4_off, hdr_len);
	if (verdict != PKT_OK)
		return verdict;

	out->kind = PKT_KIND_TCP;
	out->sport = rn_be16_get(t->sport);
	out->dport = rn_be16_get(t->dport);
	tcp_fields(v->frame, t, hdr_len, out);
	return PKT_OK;
}

/* The lengths; out->l4_len is what the IP header promises. */
static inline enum pkt_verdict udp_fields(const struct pkt_udp_wire *u, struct pkt *out)
{
	const uint32_t len = rn_be16_get(u->len);

	if (rn_unlikely(len < PKT_UDP_LEN))
		return PKT_BAD_HEADER;
	if (rn_unlikely(len > out->l4_len))
		return PKT_TRUNCATED;
	out->l4_len = len;
	out->payload_off = out->l4_off + PKT_UDP_LEN;
	out->payload_len = len - PKT_UDP_LEN;
	return PKT_OK;
}

static enum pkt_verdict parse_udp(const struct view *v, struct pkt *out)
{
	enum pkt_verdict verdict = need(v, out->l4_off, PKT_UDP_LEN);
	if (verdict != PKT_OK)
		return verdict;

	const struct pkt_udp_wire *u = (const void *)(v->frame + out->l4_off);
	out->kind = PKT_KIND_UDP;
	out->sport = rn_be16_get(u->sport);
	out->dport = rn_be16_get(u->dport);
	return udp_fields(u, out);
}

static enum pkt_verdict parse_icmp(const struct view *v, uint8_t echo_request, struct pkt *out)
{
	enum pkt_verdict verdict = need(v, out->l4_off, PKT_ICMP_LEN);
	if (verdict != PKT_OK)
		return verdict;

	const struct pkt_icmp_wire *i = (const void *)(v->frame + out->l4_off);
	out->kind = i->type == echo_request && i->code == 0 ? PKT_KIND_ICMP_ECHO : PKT_KIND_ICMP;
	out->payload_off = out->l4_off + PKT_ICMP_LEN;
	out->payload_len = out->l4_len - PKT_ICMP_LEN;
	return PKT_OK;
}

static enum pkt_verdict parse_l4(const struct view *v, struct pkt *out)
{
	if (rn_likely(out->ip_proto == PKT_PROTO_TCP))
		return parse_tcp(v, out);
	if (out->ip_proto == PKT_PROTO_UDP)
		return parse_udp(v, out);
	if (out->ip_proto == PKT_PROTO_ICMP && out->ip_version == 4)
		return parse_icmp(v, PKT_ICMP_ECHO_REQUEST, out);
	if (out->ip_proto == PKT_PROTO_ICMP6 && out->ip_version == 6)
		return parse_icmp(v, PKT_ICMP6_ECHO_REQUEST, out);
	if (out->ip_proto == PKT_PROTO_IGMP && out->ip_version == 4)
		out->kind = PKT_KIND_IGMP;
	out->payload_off = out->l4_off;
	out->payload_len = out->l4_len;
	return PKT_OK;
}

/* pkt_sum() of a header without options: five words cannot overflow the accumulator. */
static inline uint64_t plain_ip4_sum(const struct pkt_ip4_wire *ip)
{
	uint32_t w[PKT_IP4_LEN / 4];

	memcpy(w, ip, sizeof(w));
	return (uint64_t)w[0] + w[1] + w[2] + w[3] + w[4];
}

static enum pkt_verdict parse_ip4(struct view *v, struct pkt *out)
{
	enum pkt_verdict verdict = need(v, out->l3_off, PKT_IP4_LEN);
	if (verdict != PKT_OK)
		return verdict;

	const struct pkt_ip4_wire *ip = (const void *)(v->frame + out->l3_off);
	uint32_t ihl = (ip->ver_ihl & 0x0fu) * 4u;
	uint32_t total = rn_be16_get(ip->total_len);
	if (rn_unlikely(ip->ver_ihl >> 4 != 4 || ihl < PKT_IP4_LEN || total < ihl))
		return PKT_BAD_HEADER;
	if (rn_unlikely(!rn_in_range(out->l3_off, total, v->end)))
		return PKT_TRUNCATED;
	verdict = need(v, out->l3_off, ihl);
	if (verdict != PKT_OK)
		return verdict;
	uint64_t sum = rn_likely(ihl == PKT_IP4_LEN) ? plain_ip4_sum(ip) : pkt_sum(ip, ihl);
	if (rn_unlikely(pkt_sum_fold(sum) != 0xffff))
		return PKT_BAD_CHECKSUM;

	v->end = out->l3_off + total;
	out->ip_version = 4;
	out->ip_proto = ip->proto;
	out->ip_tos = ip->tos;
	out->src = pkt_addr_ip4(rn_load_be32(ip->src));
	out->dst = pkt_addr_ip4(rn_load_be32(ip->dst));
	out->l4_off = (uint16_t)(out->l3_off + ihl);
	out->l4_len = total - ihl;
	/* RFC 791: any part but a whole packet has MF set or an offset */
	if (rn_unlikely(rn_be16_get(ip->frag) & PKT_IP4_FRAGMENT))
		return PKT_FRAGMENT;
	return parse_l4(v, out);
}

/* Walks over extension headers (RFC 8200, section 4); each step advances by at least 8 bytes. */
static enum pkt_verdict skip_ip6_ext(const struct view *v, struct pkt *out)
{
	for (uint32_t i = 0; i < IP6_EXT_MAX; i++) {
		uint8_t next = out->ip_proto;
		if (next == IP6_EXT_FRAGMENT)
			return PKT_FRAGMENT;
		if (rn_likely(next != IP6_EXT_HOP_BY_HOP && next != IP6_EXT_ROUTING && next != IP6_EXT_DSTOPTS))
			return PKT_OK;
		enum pkt_verdict verdict = need(v, out->l4_off, 8);
		if (verdict != PKT_OK)
			return verdict;
		const uint8_t *ext = v->frame + out->l4_off;
		uint32_t len = 8u + ext[1] * 8u;
		verdict = need(v, out->l4_off, len);
		if (verdict != PKT_OK)
			return verdict;
		out->ip_proto = ext[0];
		out->l4_off = (uint16_t)(out->l4_off + len);
		out->l4_len -= len;
	}
	return PKT_BAD_HEADER;
}

static enum pkt_verdict parse_ip6(struct view *v, struct pkt *out)
{
	enum pkt_verdict verdict = need(v, out->l3_off, PKT_IP6_LEN);
	if (verdict != PKT_OK)
		return verdict;

	const struct pkt_ip6_wire *ip = (const void *)(v->frame + out->l3_off);
	uint32_t word = rn_be32_get(ip->ver_tc_flow);
	uint32_t len = rn_be16_get(ip->payload_len);
	if (rn_unlikely(word >> 28 != 6))
		return PKT_BAD_HEADER;
	if (rn_unlikely(!rn_in_range(out->l3_off + PKT_IP6_LEN, len, v->end)))
		return PKT_TRUNCATED;

	v->end = out->l3_off + PKT_IP6_LEN + len;
	out->ip_version = 6;
	out->ip_proto = ip->next;
	out->ip_tos = (uint8_t)(word >> 20);
	memcpy(out->src.b, ip->src, sizeof(out->src.b));
	memcpy(out->dst.b, ip->dst, sizeof(out->dst.b));
	/* RFC 4942 section 2.2: a mapped address on the wire would impersonate an IPv4 flow */
	if (rn_unlikely(pkt_addr_is_ip4(&out->src) || pkt_addr_is_ip4(&out->dst)))
		return PKT_BAD_HEADER;
	out->l4_off = (uint16_t)(out->l3_off + PKT_IP6_LEN);
	out->l4_len = len;
	verdict = skip_ip6_ext(v, out);
	return rn_likely(verdict == PKT_OK) ? parse_l4(v, out) : verdict;
}

enum pkt_verdict pkt_parse(const uint8_t *frame, uint32_t contiguous_len, uint32_t frame_len, struct pkt *out)
{
	struct view v = { .frame = frame, .contiguous = rn_min_u32(contiguous_len, frame_len), .end = frame_len };
	enum pkt_verdict verdict = need(&v, 0, PKT_ETH_LEN);
	if (verdict != PKT_OK)
		return verdict;

	static const struct pkt none = { .vlan = PKT_NO_VLAN, .l3_off = PKT_ETH_LEN };
	*out = none;
	out->ethertype = rn_load_be16(frame + 12);
	if (out->ethertype == PKT_ETHERTYPE_VLAN) {
		verdict = need(&v, PKT_ETH_LEN, PKT_VLAN_LEN);
		if (verdict != PKT_OK)
			return verdict;
		out->vlan = rn_load_be16(frame + 14);
		out->ethertype = rn_load_be16(frame + 16);
		out->l3_off = PKT_ETH_LEN + PKT_VLAN_LEN;
	}
	if (rn_likely(out->ethertype == PKT_ETHERTYPE_IP4))
		return parse_ip4(&v, out);
	if (out->ethertype == PKT_ETHERTYPE_IP6)
		return parse_ip6(&v, out);
	out->kind = out->ethertype == PKT_ETHERTYPE_ARP ? PKT_KIND_ARP : PKT_KIND_OTHER;
	return PKT_OK;
}

/* Bytes of Ethernet's and IPv4's header, and of TCP's or UDP's ports, that are the same in all frames of a train. */
static inline bool same_train(const uint8_t *a, const uint8_t *b)
{
	uint64_t x[5], y[5];

	/* both MAC addresses, type, version, header length, TOS; fragment bits, TTL, protocol; addresses, ports */
	memcpy(x, a, 16);
	memcpy(y, b, 16);
	x[2] = rn_load_be32(a + 20);
	y[2] = rn_load_be32(b + 20);
	memcpy(x + 3, a + 26, 8);
	memcpy(y + 3, b + 26, 8);
	x[4] = rn_load_be32(a + 34);
	y[4] = rn_load_be32(b + 34);
	return ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4])) == 0;
}

bool pkt_parse_next(const uint8_t *frame, uint32_t contiguous_len, uint32_t frame_len, const uint8_t *before,
		    const struct pkt *read, struct pkt *out)
{
	const uint32_t l4_off = PKT_ETH_LEN + PKT_IP4_LEN;
	const bool tcp = read->kind == PKT_KIND_TCP;
	const uint32_t least = tcp ? PKT_TCP_LEN : PKT_UDP_LEN;

	if (read->l4_off != l4_off || (!tcp && read->kind != PKT_KIND_UDP) || contiguous_len < l4_off + least ||
	    !same_train(frame, before))
		return false;
	const struct pkt_ip4_wire *ip = (const void *)(frame + PKT_ETH_LEN);
	const struct pkt_tcp_wire *t = (const void *)(frame + l4_off);
	const uint32_t total = rn_be16_get(ip->total_len), hdr_len = tcp ? (t->doff >> 4) * 4u : PKT_UDP_LEN;
	if (hdr_len < least || total < PKT_IP4_LEN + hdr_len || PKT_ETH_LEN + total > frame_len ||
	    l4_off + hdr_len > contiguous_len || pkt_sum_fold(plain_ip4_sum(ip)) != 0xffff)
		return false;
	*out = *read;
	out->l4_len = total - PKT_IP4_LEN;
	if (!tcp)
		return udp_fields((const void *)(frame + l4_off), out) == PKT_OK;
	tcp_fields(frame, t, hdr_len, out);
	return true;
}

enum pkt_verdict pkt_arp_parse(const uint8_t *frame, uint32_t contiguous_len, const struct pkt *p, struct pkt_arp *out)
{
	if (!rn_in_range(p->l3_off, PKT_ARP_LEN, contiguous_len))
		return PKT_TRUNCATED;
	const struct pkt_arp_wire *a = (const void *)(frame + p->l3_off);
	if (rn_be16_get(a->htype) != 1 || rn_be16_get(a->ptype) != PKT_ETHERTYPE_IP4 || a->hlen != PKT_MAC_LEN ||
	    a->plen != 4)
		return PKT_BAD_HEADER;
	out->op = rn_be16_get(a->op);
	memcpy(out->sender_mac, a->sender_mac, PKT_MAC_LEN);
	memcpy(out->target_mac, a->target_mac, PKT_MAC_LEN);
	out->sender = pkt_addr_ip4(rn_load_be32(a->sender_ip));
	out->target = pkt_addr_ip4(rn_load_be32(a->target_ip));
	return PKT_OK;
}

/* The IP header that an ICMP error quotes, and the first bytes behind it; NULL: it is no TCP segment's. */
static const uint8_t *quoted_tcp(const uint8_t *q, uint32_t len, uint8_t ip_version, struct pkt_too_big *out)
{
	uint32_t at = PKT_IP6_LEN;

	if (ip_version == 4 && len >= PKT_IP4_LEN) {
		const struct pkt_ip4_wire *ip = (const void *)q;
		at = (ip->ver_ihl & 0x0fu) * 4u;
		if (ip->ver_ihl >> 4 != 4 || at < PKT_IP4_LEN || ip->proto != PKT_PROTO_TCP ||
		    (rn_be16_get(ip->frag) & PKT_IP4_FRAGMENT) != 0)
			return NULL;
		out->src = pkt_addr_ip4(rn_load_be32(ip->src));
		out->dst = pkt_addr_ip4(rn_load_be32(ip->dst));
	} else if (ip_version == 6 && len >= PKT_IP6_LEN) {
		const struct pkt_ip6_wire *ip = (const void *)q;
		if (rn_be32_get(ip->ver_tc_flow) >> 28 != 6 || ip->next != PKT_PROTO_TCP)
			return NULL;
		memcpy(out->src.b, ip->src, sizeof(out->src.b));
		memcpy(out->dst.b, ip->dst, sizeof(out->dst.b));
	} else {
		return NULL;
	}
	return rn_in_range(at, 8, len) ? q + at : NULL;
}

bool pkt_icmp_too_big(const uint8_t *frame, uint32_t contiguous_len, const struct pkt *p, struct pkt_too_big *out)
{
	if (p->kind != PKT_KIND_ICMP || !rn_in_range(p->payload_off, p->payload_len, contiguous_len))
		return false;
	const struct pkt_icmp_wire *i = (const void *)(frame + p->l4_off);
	bool v4 = p->ip_version == 4;

	if (v4 ? i->type != PKT_ICMP_UNREACHABLE || i->code != PKT_ICMP_FRAG_NEEDED
	       : i->type != PKT_ICMP6_TOO_BIG || i->code != 0)
		return false;
	const uint8_t *tcp = quoted_tcp(frame + p->payload_off, p->payload_len, p->ip_version, out);
	if (tcp == NULL)
		return false;
	out->sport = rn_load_be16(tcp);
	out->dport = rn_load_be16(tcp + 2);
	out->seq = rn_load_be32(tcp + 4);
	out->mtu = v4 ? rn_load_be16(i->rest + 2) : rn_load_be32(i->rest);
	return out->mtu >= (v4 ? PKT_IP4_MTU_MIN : PKT_IP6_MTU_MIN) && out->mtu <= UINT16_MAX;
}

/* Offset of the checksum field from the L4 header, or UINT32_MAX. */
static uint32_t csum_field(const struct pkt *p)
{
	switch (p->kind) {
	case PKT_KIND_TCP: return offsetof(struct pkt_tcp_wire, csum);
	case PKT_KIND_UDP: return offsetof(struct pkt_udp_wire, csum);
	case PKT_KIND_ICMP:
	case PKT_KIND_ICMP_ECHO: return offsetof(struct pkt_icmp_wire, csum);
	case PKT_KIND_ARP:
	case PKT_KIND_IGMP:
	case PKT_KIND_OTHER:
	case PKT_KINDS: break;
	}
	return UINT32_MAX;
}

bool pkt_l4_csum_ok(const struct pkt *p, const struct rn_iov *l4, uint32_t n)
{
	uint32_t field = csum_field(p);
	if (field == UINT32_MAX || n == 0)
		return false;

	if (p->kind == PKT_KIND_UDP) {
		struct rn_iov cut[2];
		uint16_t csum;
		uint32_t k = rn_iov_cut(l4, n, field, sizeof(csum), cut, RN_ARRAY_LEN(cut));
		if (k == UINT32_MAX)
			return false;
		rn_iov_gather(cut, k, &csum, sizeof(csum));
		if (csum == 0)
			return p->ip_version == 4;
	}
	uint64_t sum = pkt_sum_iov(l4, n);
	if (p->ip_proto != PKT_PROTO_ICMP) {
		sum = pkt_sum_add(sum, pkt_pseudo_sum(&p->src, &p->dst, p->ip_proto));
		sum = pkt_sum_add(sum, pkt_sum_len(p->l4_len));
	}
	return pkt_sum_fold(sum) == 0xffff;
}

void pkt_l4_csum_finish(const struct pkt *p, uint8_t *frame, const struct rn_iov *l4, uint32_t n)
{
	uint32_t field = csum_field(p);
	if (field == UINT32_MAX)
		return;
	uint8_t *csum = frame + p->l4_off + field;
	memset(csum, 0, 2);
	uint64_t sum = pkt_sum_iov(l4, n);
	if (p->ip_proto != PKT_PROTO_ICMP) {
		sum = pkt_sum_add(sum, pkt_pseudo_sum(&p->src, &p->dst, p->ip_proto));
		sum = pkt_sum_add(sum, pkt_sum_len(p->l4_len));
	}
	pkt_csum_store(csum, sum);
	if (p->kind == PKT_KIND_UDP && csum[0] == 0 && csum[1] == 0)
		memset(csum, 0xff, 2);
}

const char *pkt_verdict_name(enum pkt_verdict v)
{
	static const char *const names[PKT_VERDICTS] = {
		[PKT_OK] = "ok",
		[PKT_TRUNCATED] = "truncated",
		[PKT_SPLIT] = "split",
		[PKT_BAD_HEADER] = "bad-header",
		[PKT_BAD_CHECKSUM] = "bad-checksum",
		[PKT_FRAGMENT] = "fragment",
	};
	return (unsigned int)v < PKT_VERDICTS ? names[v] : "unknown";
}

bool pkt_addr_same_net(const struct pkt_addr *a, const struct pkt_addr *b, uint32_t bits)
{
	uint32_t whole = bits / 8;
	uint32_t rest = bits % 8;

	if (bits > 128 || memcmp(a->b, b->b, whole) != 0)
		return false;
	return rest == 0 || (uint8_t)(a->b[whole] ^ b->b[whole]) >> (8 - rest) == 0;
}
