/* SPDX-License-Identifier: BSD-3-Clause */
#include "udp/udpl_sidr.h"

#include <string.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"

bool udpl_sidr_parse(const uint8_t *p, uint32_t len, enum udpl_kind kind, struct udpl_sidr *s)
{
	*s = (struct udpl_sidr){ 0 };
	if (len < UDPL_SIDR_LEN || len > UDPL_SIDR_LEN + UDPL_SIDR_PRIV_MAX)
		return false;
	s->id = rn_load_be64(p);
	s->port = rn_load_be16(p + 10);
	if (kind == UDPL_SIDR_REQ) {
		s->src_port = (uint16_t)rn_load_be32(p + 12);
	} else {
		s->status = p[8];
		s->qpn = rn_load_be32(p + 12) & UDPL_QPN_MAX;
		s->qkey = rn_load_be32(p + 16);
	}
	s->priv = p + UDPL_SIDR_LEN;
	s->priv_len = len - UDPL_SIDR_LEN;
	return true;
}

uint32_t udpl_sidr_build(uint8_t *out, enum udpl_kind kind, const struct udpl_sidr *s)
{
	const struct udpl_hdr h = { .kind = (uint8_t)kind, .dst_qpn = UDPL_QPN_CM, .src_qpn = UDPL_QPN_CM };
	uint32_t priv = rn_min_u32(s->priv_len, UDPL_SIDR_PRIV_MAX), len = UDPL_HDR_LEN + UDPL_SIDR_LEN + priv;
	uint8_t *p = out + UDPL_HDR_LEN;

	udpl_build(out, &h);
	memset(p, 0, UDPL_SIDR_LEN);
	rn_store_be64(p, s->id);
	rn_store_be16(p + 10, s->port);
	if (kind == UDPL_SIDR_REQ) {
		rn_store_be32(p + 12, s->src_port);
	} else {
		p[8] = s->status;
		rn_store_be32(p + 12, s->qpn);
		rn_store_be32(p + 16, s->qkey);
	}
	if (priv > 0)
		memcpy(p + UDPL_SIDR_LEN, s->priv, priv);
	udpl_crc_put(out, len, crc32c(0, out, len));
	return len + UDPL_CRC_LEN;
}
