/* SPDX-License-Identifier: BSD-3-Clause */
#include "udp/udpr.h"

#include <string.h>

#include "base/rn_be.h"
#include "udp/udpl.h"

#define SACK_LEN 8u

/* How many octets of the body belong to the transport itself; UINT32_MAX: the kind is unknown. */
static uint32_t own_len(const struct udpr_hdr *h)
{
	switch (h->kind) {
	case UDPR_HELLO:
	case UDPR_COOKIE: return UDPR_COOKIE_LEN;
	case UDPR_DATA: return h->flags & UDPR_F_COOKIE ? UDPR_COOKIE_LEN : 0;
	case UDPR_ACK: return SACK_LEN * h->sacks;
	case UDPR_UNKNOWN: return 0;
	default: return UINT32_MAX;
	}
}

static void read_body(const uint8_t *p, struct udpr_hdr *h)
{
	if (h->kind == UDPR_COOKIE || (h->kind == UDPR_DATA && h->flags & UDPR_F_COOKIE))
		memcpy(h->cookie, p, UDPR_COOKIE_LEN);
	for (uint32_t i = 0; h->kind == UDPR_ACK && i < h->sacks; i++) {
		h->sack[i].from = rn_load_be32(p + SACK_LEN * i);
		h->sack[i].to = rn_load_be32(p + SACK_LEN * i + 4);
	}
}

enum udpr_verdict udpr_parse(const uint8_t *p, uint32_t len, struct udpr_hdr *h)
{
	uint32_t own, left;

	udpr_hdr_clear(h);
	if (len < UDPR_HDR_LEN + UDPL_CRC_LEN)
		return UDPR_SHORT;
	if (p[0] >> 4 != UDPL_VERSION)
		return UDPR_BAD_VERSION;
	h->kind = p[1];
	h->flags = p[2];
	h->sacks = p[3];
	h->src_worker = rn_load_be16(p + 4);
	h->dst_worker = rn_load_be16(p + 6);
	h->flow = rn_load_be32(p + 8);
	h->token = rn_load_be32(p + 12);
	h->number = rn_load_be32(p + 16);
	h->stamp = rn_load_be32(p + 20);
	h->hold = rn_load_be32(p + 24);
	left = len - UDPR_HDR_LEN - UDPL_CRC_LEN;
	own = own_len(h);
	if (own == UINT32_MAX)
		return UDPR_BAD_KIND;
	if (h->sacks > UDPR_SACKS_MUCH || (h->kind == UDPR_DATA ? left < own : left != own))
		return UDPR_BAD_BODY;
	read_body(p + UDPR_HDR_LEN, h);
	h->body = UDPR_HDR_LEN + own;
	h->body_len = left - own;
	return UDPR_OK;
}

uint32_t udpr_build(uint8_t *p, const struct udpr_hdr *h)
{
	uint32_t own = own_len(h);

	p[0] = UDPL_VERSION << 4;
	p[1] = h->kind;
	p[2] = h->flags;
	p[3] = h->sacks;
	rn_store_be16(p + 4, h->src_worker);
	rn_store_be16(p + 6, h->dst_worker);
	rn_store_be32(p + 8, h->flow);
	rn_store_be32(p + 12, h->token);
	rn_store_be32(p + 16, h->number);
	rn_store_be32(p + 20, h->stamp);
	rn_store_be32(p + 24, h->hold);
	p += UDPR_HDR_LEN;
	if (h->kind != UDPR_ACK && own > 0)
		memcpy(p, h->cookie, UDPR_COOKIE_LEN);
	for (uint32_t i = 0; h->kind == UDPR_ACK && i < h->sacks; i++) {
		rn_store_be32(p + SACK_LEN * i, h->sack[i].from);
		rn_store_be32(p + SACK_LEN * i + 4, h->sack[i].to);
	}
	return UDPR_HDR_LEN + own;
}
