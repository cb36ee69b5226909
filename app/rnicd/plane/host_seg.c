/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/host_seg.h"

#include "pkt/pkt.h"

#define TCP_SUM_AT 16u
#define UDP_SUM_AT 6u

/* Finds the L3 and L4 headers. Returns the L4 protocol; 0: unknown. Does not pass over IPv6 extension headers. */
static uint8_t l4_at(const uint8_t *frame, uint32_t first, uint32_t *l3, uint32_t *l4)
{
	uint32_t at = PKT_ETH_LEN;

	if (first < at + PKT_VLAN_LEN)
		return 0;
	uint16_t type = rn_load_be16(frame + at - 2);
	if (type == PKT_ETHERTYPE_VLAN) {
		at += PKT_VLAN_LEN;
		type = rn_load_be16(frame + at - 2);
	}
	*l3 = at;
	if (type == PKT_ETHERTYPE_IP4 && first >= at + PKT_IP4_LEN && frame[at] >> 4 == 4) {
		*l4 = at + (frame[at] & 15u) * 4;
		return (frame[at] & 15u) < 5 || (rn_load_be16(frame + at + 6) & 0x3fff) != 0 ? 0 : frame[at + 9];
	}
	if (type == PKT_ETHERTYPE_IP6 && first >= at + PKT_IP6_LEN && frame[at] >> 4 == 6) {
		*l4 = at + PKT_IP6_LEN;
		return frame[at + 6];
	}
	return 0;
}

static bool is_ip4(const uint8_t *l3) { return l3[0] >> 4 == 4; }

/* Large segments of TCP only: a large UDP datagram of the kernel's stands for several datagrams. */
static bool gso_fits(const struct virtio_net_hdr *h, uint8_t proto, bool ip4)
{
	uint8_t type = h->gso_type & (uint8_t)~VIRTIO_NET_HDR_GSO_ECN;

	if (type == VIRTIO_NET_HDR_GSO_NONE)
		return h->gso_type == VIRTIO_NET_HDR_GSO_NONE;
	return proto == PKT_PROTO_TCP && h->gso_size != 0 &&
	       type == (ip4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6);
}

enum host_sum host_sum_of(const struct virtio_net_hdr *h, const uint8_t *frame, uint32_t first)
{
	uint32_t l3, l4;

	if (!(h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)) {
		if (h->gso_type != VIRTIO_NET_HDR_GSO_NONE)
			return HOST_BAD;
		return (h->flags & VIRTIO_NET_HDR_F_DATA_VALID) != 0 ? HOST_SUM_VALID : HOST_SUM_UNKNOWN;
	}
	uint8_t proto = l4_at(frame, first, &l3, &l4);
	if (proto == 0 || h->csum_start != l4 || !gso_fits(h, proto, is_ip4(frame + l3)))
		return HOST_BAD;
	if (proto == PKT_PROTO_TCP && h->csum_offset == TCP_SUM_AT && first >= l4 + PKT_TCP_LEN)
		return HOST_SUM_TCP;
	return proto == PKT_PROTO_UDP && h->csum_offset == UDP_SUM_AT && first >= l4 + PKT_UDP_LEN ? HOST_SUM_UDP
												   : HOST_BAD;
}

bool host_seg_of(const uint8_t *frame, uint32_t first, uint32_t len, struct host_seg *s)
{
	if (l4_at(frame, first, &s->l3, &s->l4) != PKT_PROTO_TCP || s->l3 != PKT_ETH_LEN)
		return false;
	const uint8_t *ip = frame + s->l3, *tcp = frame + s->l4;
	const bool ip4 = is_ip4(ip);
	if ((ip4 && s->l4 != s->l3 + PKT_IP4_LEN) || first < s->l4 + PKT_TCP_LEN)
		return false;
	const uint32_t doff = (tcp[12] >> 4) * 4u;
	const uint32_t total = ip4 ? rn_load_be16(ip + 2) : rn_load_be16(ip + 4) + PKT_IP6_LEN;
	s->hdr = s->l4 + doff;
	if (doff < PKT_TCP_LEN || first < s->hdr || s->hdr >= len || s->l3 + total != len ||
	    (tcp[13] & ~PKT_TCP_PSH) != PKT_TCP_ACK)
		return false;
	s->frame = frame;
	s->payload = len - s->hdr;
	s->seq = rn_load_be32(tcp + 4);
	s->push = (tcp[13] & PKT_TCP_PSH) != 0;
	return true;
}

/* The headers agree in all that a joined segment has only once. */
static bool alike(const struct host_seg *a, const struct host_seg *b)
{
	const uint8_t *x = a->frame + a->l3, *y = b->frame + b->l3;
	const uint8_t *t = a->frame + a->l4, *u = b->frame + b->l4;

	if (a->l4 != b->l4 || a->hdr != b->hdr || memcmp(a->frame, b->frame, PKT_ETH_LEN) != 0)
		return false;
	/* IPv4: all but length, identification and checksum; IPv6: all but length */
	if (is_ip4(x) ? memcmp(x, y, 2) != 0 || memcmp(x + 6, y + 6, 4) != 0 || memcmp(x + 12, y + 12, 8) != 0
		      : memcmp(x, y, 4) != 0 || memcmp(x + 6, y + 6, PKT_IP6_LEN - 6) != 0)
		return false;
	/* all but sequence number, PSH and checksum */
	return memcmp(t, u, 4) == 0 && memcmp(t + 8, u + 8, 5) == 0 && ((t[13] ^ u[13]) & ~PKT_TCP_PSH) == 0 &&
	       memcmp(t + 14, u + 14, 2) == 0 && memcmp(t + 18, u + 18, a->hdr - a->l4 - 18) == 0;
}

bool host_join_add(struct host_join *j, const struct host_seg *s)
{
	const struct host_seg *head = &j->head;

	if (j->full || s->payload > head->payload || s->seq != head->seq + j->payload || !alike(head, s) ||
	    head->hdr - head->l3 + j->payload + s->payload > HOST_SEG_MAX)
		return false;
	j->n++;
	j->payload += s->payload;
	j->push |= s->push;
	j->full = s->payload < head->payload;
	return true;
}

static uint32_t add(uint32_t sum, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 2)
		sum += rn_load_be16(p + i);
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

void host_join_head(const struct host_join *j, uint8_t *hdr, struct virtio_net_hdr *h)
{
	const struct host_seg *s = &j->head;
	uint8_t *ip = hdr + s->l3, *tcp = hdr + s->l4;
	const uint32_t l4_len = s->hdr - s->l4 + j->payload;

	memcpy(hdr, s->frame, s->hdr);
	const bool ip4 = is_ip4(ip);
	if (ip4) {
		rn_store_be16(ip + 2, (uint16_t)(PKT_IP4_LEN + l4_len));
		rn_store_be16(ip + 10, 0);
		rn_store_be16(ip + 10, (uint16_t)~fold(add(0, ip, PKT_IP4_LEN)));
	} else {
		rn_store_be16(ip + 4, (uint16_t)l4_len);
	}
	rn_store_be16(tcp + TCP_SUM_AT,
		      fold(add(PKT_PROTO_TCP + l4_len, ip4 ? ip + 12 : ip + 8, ip4 ? 2 * 4 : 2 * 16)));
	tcp[13] = (uint8_t)(PKT_TCP_ACK | (j->push ? PKT_TCP_PSH : 0));
	*h = (struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				      .gso_type = ip4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6,
				      .hdr_len = (uint16_t)s->hdr,
				      .gso_size = (uint16_t)s->payload,
				      .csum_start = (uint16_t)s->l4,
				      .csum_offset = TCP_SUM_AT };
}

void host_defer(const uint8_t *frame, uint32_t first, struct virtio_net_hdr *h)
{
	uint32_t l3, l4;
	const uint8_t proto = l4_at(frame, first, &l3, &l4);

	memset(h, 0, sizeof(*h));
	if (proto != PKT_PROTO_TCP && proto != PKT_PROTO_UDP)
		return;
	h->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	h->csum_start = (uint16_t)l4;
	h->csum_offset = proto == PKT_PROTO_TCP ? TCP_SUM_AT : UDP_SUM_AT;
}
