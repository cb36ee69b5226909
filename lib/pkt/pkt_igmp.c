/* SPDX-License-Identifier: BSD-3-Clause */
#include "pkt/pkt_igmp.h"

#include "pkt/pkt_wire.h"

#define QUERY     0x11u
#define REPORT_V1 0x12u
#define REPORT_V2 0x16u
#define LEAVE_V2  0x17u
#define REPORT_V3 0x22u

#define MESSAGE_LEN  8u  /* of versions 1 and 2, and before the records of version 3 */
#define QUERY3_LEN   12u /* smallest length of a version 3 query */
#define RECORD_LEN   8u
#define V1_WITHIN_MS 10000u

#define OPT_END   0u
#define OPT_NOP   1u
#define OPT_ALERT 0x94u /* router alert, RFC 2113 */
#define ALERT_LEN 4u

#define TOS_CONTROL 0xc0u /* internetwork control, RFC 3376, section 4 */

/* ---- queries ---- */

static bool has_router_alert(const uint8_t *ip, uint32_t hdr_len)
{
	uint32_t at = PKT_IP4_LEN;

	while (at < hdr_len && ip[at] != OPT_END) {
		if (ip[at] == OPT_NOP) {
			at++;
			continue;
		}
		if (hdr_len - at < 2 || ip[at + 1] < 2 || ip[at + 1] > hdr_len - at)
			return false;
		if (ip[at] == OPT_ALERT)
			return ip[at + 1] == ALERT_LEN;
		at += ip[at + 1];
	}
	return false;
}

/* A code is tenths of a second, or a small floating point number of them (RFC 3376, section 4.1.1). */
static uint32_t code_ms(uint8_t code)
{
	uint32_t tenths = code < 128 ? code : ((code & 15u) + 16u) << ((code >> 4 & 7u) + 3u);

	return tenths * 100;
}

/* A query's version, by its length and code (RFC 3376, section 7.1); 0: none. */
static uint8_t version_of(const uint8_t *m, uint32_t len)
{
	if (len == MESSAGE_LEN)
		return m[1] == 0 ? 1 : 2;
	if (len < QUERY3_LEN || (len - QUERY3_LEN) / 4 < rn_load_be16(m + 10))
		return 0;
	return 3;
}

enum pkt_igmp_verdict pkt_igmp_parse(const uint8_t *frame, uint32_t contiguous, const struct pkt *p,
				     struct pkt_igmp_query *q)
{
	const uint8_t *ip = frame + p->l3_off, *m = frame + p->l4_off;
	const struct pkt_addr all_hosts = pkt_addr_ip4(PKT_IP4_ALL_HOSTS);

	if (p->l4_len < MESSAGE_LEN || !rn_in_range(p->l4_off, p->l4_len, contiguous) ||
	    pkt_sum_fold(pkt_sum(m, p->l4_len)) != 0xffff || ip[8] != 1)
		return PKT_IGMP_BAD;
	if (m[0] != QUERY)
		return PKT_IGMP_OTHER;
	q->version = version_of(m, p->l4_len);
	q->group = pkt_addr_ip4(rn_load_be32(m + 4));
	q->all = rn_load_be32(m + 4) == 0;
	q->within_ms = q->version == 1 ? V1_WITHIN_MS : q->version == 2 ? m[1] * 100u : code_ms(m[1]);
	/* RFC 3376, section 9.1: most forged queries fail these checks */
	if (q->version == 0 || (q->version > 1 && !has_router_alert(ip, p->l4_off - (uint32_t)p->l3_off)) ||
	    (q->all ? !pkt_addr_eq(&p->dst, &all_hosts) : !pkt_addr_is_group(&q->group)))
		return PKT_IGMP_BAD;
	return PKT_IGMP_QUERY;
}

/* ---- reports ---- */

/* Writes the IPv4 header with the router alert, which all messages of hosts have except those of version 1. */
static uint32_t igmp_ip_build(uint8_t *out, const struct pkt_addr *src, const struct pkt_addr *dst, uint32_t len,
			      bool alert)
{
	struct pkt_ip4_wire *ip = (void *)out;
	uint32_t hdr = PKT_IP4_LEN + (alert ? ALERT_LEN : 0);

	memset(out, 0, hdr);
	ip->ver_ihl = (uint8_t)(0x40 | hdr / 4);
	ip->tos = TOS_CONTROL;
	ip->total_len = rn_be16_of((uint16_t)(hdr + len));
	ip->frag = rn_be16_of(PKT_IP4_DF);
	ip->ttl = 1;
	ip->proto = PKT_PROTO_IGMP;
	memcpy(ip->src, src->b + 12, 4);
	memcpy(ip->dst, dst->b + 12, 4);
	if (alert) {
		out[PKT_IP4_LEN] = OPT_ALERT;
		out[PKT_IP4_LEN + 1] = ALERT_LEN;
	}
	pkt_csum_store(ip->csum, pkt_sum(ip, hdr));
	return hdr;
}

/* Writes the message without its checksum; returns its length. */
static uint32_t message(uint8_t *m, uint32_t version, const struct pkt_igmp_record *r, uint32_t n)
{
	uint32_t len = MESSAGE_LEN;

	memset(m, 0, MESSAGE_LEN);
	if (version < 3) {
		m[0] = r->says == PKT_IGMP_LEAVES ? LEAVE_V2 : version == 2 ? REPORT_V2 : REPORT_V1;
		memcpy(m + 4, r->group.b + 12, 4);
		return len;
	}
	m[0] = REPORT_V3;
	rn_store_be16(m + 6, (uint16_t)n);
	for (uint32_t i = 0; i < n; i++, len += RECORD_LEN) {
		memset(m + len, 0, RECORD_LEN);
		m[len] = (uint8_t)r[i].says;
		memcpy(m + len + 4, r[i].group.b + 12, 4);
	}
	return len;
}

uint32_t pkt_igmp_build(uint8_t *out, const struct pkt_l2 *l2, const struct pkt_addr *src, uint32_t version,
			const struct pkt_igmp_record *r, uint32_t n)
{
	struct pkt_addr dst = version == 3                 ? pkt_addr_ip4(PKT_IP4_IGMP3)
			      : r->says == PKT_IGMP_LEAVES ? pkt_addr_ip4(PKT_IP4_ALL_ROUTERS)
							   : r->group;
	struct pkt_l2 to = *l2;
	uint32_t len = version < 3 ? MESSAGE_LEN : MESSAGE_LEN + n * RECORD_LEN;

	pkt_group_mac(to.dst, &dst);
	uint32_t off = pkt_l2_build(out, &to, PKT_ETHERTYPE_IP4);
	const uint32_t min = off - PKT_ETH_LEN + PKT_ETH_MIN;
	off += igmp_ip_build(out + off, src, &dst, len, version > 1);
	message(out + off, version, r, n);
	uint16_t sum = (uint16_t)~pkt_sum_fold(pkt_sum(out + off, len));
	memcpy(out + off + 2, &sum, sizeof(sum));
	off += len;
	if (off >= min)
		return off;
	memset(out + off, 0, min - off);
	return min;
}
