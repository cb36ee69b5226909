/* SPDX-License-Identifier: BSD-3-Clause */
#include "udp/udpl.h"

#include <string.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"

#define VERSION_SHIFT 4
#define UNIT_HIGH     15u   /* of octet 0: the unit's high four bits */
#define MTU_MAX       4096u /* IBV_MTU_4096 */
#define MTU_MIN       256u

enum udpl_verdict udpl_parse(const uint8_t *p, uint32_t len, struct udpl_hdr *h)
{
	*h = (struct udpl_hdr){ 0 };
	if (len < UDPL_HDR_LEN + UDPL_CRC_LEN)
		return UDPL_SHORT;
	if (p[0] >> VERSION_SHIFT != UDPL_VERSION)
		return UDPL_BAD_VERSION;
	h->kind = p[1];
	h->flags = p[2];
	h->dst_qpn = rn_load_be32(p + 4);
	h->src_qpn = rn_load_be32(p + 8);
	h->qkey = rn_load_be32(p + 12);
	h->body_len = len - UDPL_HDR_LEN - UDPL_CRC_LEN;
	if (h->kind < UDPL_SEND || h->kind > UDPL_SOCK_ANSWER)
		return UDPL_BAD_KIND;
	if (h->dst_qpn > UDPL_QPN_MAX || h->src_qpn > UDPL_QPN_MAX)
		return UDPL_BAD_QPN;
	if (rn_likely(h->kind < UDPL_SEGMENT))
		return UDPL_OK;
	h->total = rn_load_be32(p + 16);
	if (h->kind == UDPL_READ)
		return UDPL_OK;
	h->unit = ((p[0] & UNIT_HIGH) << 8 | p[3]) * UDPL_UNIT;
	if (rn_unlikely(h->kind > UDPL_READ))
		return udpl_is_sock(h->dst_qpn) && udpl_is_sock(h->src_qpn) ? UDPL_OK : UDPL_BAD_QPN;
	return h->total == 0 || h->total > h->unit * UDPL_SEGS_MAX ? UDPL_BAD_SIZE : UDPL_OK;
}

bool udpl_crc_good(const uint8_t *p, uint32_t len)
{
	uint32_t body = len - UDPL_CRC_LEN, sum = crc32c(0, p, body);

	p += body;
	return sum == ((uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]);
}

void udpl_build(uint8_t *p, const struct udpl_hdr *h)
{
	p[0] = (uint8_t)(UDPL_VERSION << VERSION_SHIFT | h->unit / UDPL_UNIT >> 8);
	p[1] = h->kind;
	p[2] = h->flags;
	p[3] = (uint8_t)(h->unit / UDPL_UNIT);
	rn_store_be32(p + 4, h->dst_qpn);
	rn_store_be32(p + 8, h->src_qpn);
	rn_store_be32(p + 12, h->qkey);
	rn_store_be32(p + 16, h->total);
}

void udpl_record_parse(const uint8_t *p, struct udpl_record *r)
{
	r->id = rn_load_be32(p);
	r->offset = rn_load_be32(p + 4);
	memcpy(r->imm, p + 8, sizeof(r->imm));
}

void udpl_record_build(uint8_t *p, const struct udpl_record *r)
{
	rn_store_be32(p, r->id);
	rn_store_be32(p + 4, r->offset);
	memcpy(p + 8, r->imm, sizeof(r->imm));
}

void udpl_crc_put(uint8_t *p, uint32_t len, uint32_t sum)
{
	p += len;
	p[0] = (uint8_t)sum;
	p[1] = (uint8_t)(sum >> 8);
	p[2] = (uint8_t)(sum >> 16);
	p[3] = (uint8_t)(sum >> 24);
}

uint32_t udpl_mtu(uint32_t room, uint32_t inner)
{
	uint32_t mtu = MTU_MAX;

	while (mtu >= MTU_MIN && room < UDPL_HDR_LEN + inner + mtu + UDPL_CRC_LEN)
		mtu /= 2;
	return mtu >= MTU_MIN ? mtu : 0;
}

uint32_t udpl_unit(uint32_t room, uint32_t inner)
{
	const uint32_t around = UDPL_HDR_LEN + inner + UDPL_CRC_LEN;

	return room < around ? 0 : rn_min_u32((room - around) / UDPL_UNIT * UDPL_UNIT, UDPL_UNIT_MAX);
}
