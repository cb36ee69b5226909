/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP options: RFC 9293 3.1 (EOL, NOP, MSS), RFC 7323 (window scale, timestamps), RFC 2018 and 2883 (SACK), RFC 6994
 * (experiments).
 */
#include "tcpl_int.h"

#include "base/rn_be.h"

enum {
	OPT_EOL = 0,
	OPT_NOP = 1,
	OPT_MSS = 2,
	OPT_WSCALE = 3,
	OPT_SACK_OK = 4,
	OPT_SACK = 5,
	OPT_TS = 8,
	OPT_EXP = 253, /* RFC 4727: shared by all experiments, told apart by their ExIDs */
};
#define EXP_LEN 5u /* ExID and role */

static void parse_sack(const uint8_t *p, uint32_t len, struct tcpl_opts *o)
{
	o->n_sack = 0;
	for (uint32_t i = 0; i + 8 <= len && o->n_sack < RN_ARRAY_LEN(o->sack); i += 8)
		o->sack[o->n_sack++] = (struct tcpl_block){ rn_load_be32(p + i), rn_load_be32(p + i + 4) };
}

/* A known option of the wrong length is ignored like an unknown one, as long as it ends inside the header. */
static void parse_one(uint8_t kind, const uint8_t *p, uint32_t len, struct tcpl_opts *o)
{
	if (kind == OPT_TS && len == 8) {
		o->has_ts = true;
		o->tsval = rn_load_be32(p);
		o->tsecr = rn_load_be32(p + 4);
	} else if (kind == OPT_SACK && len >= 8 && len % 8 == 0) {
		parse_sack(p, len, o);
	} else if (kind == OPT_MSS && len == 2) {
		o->has_mss = true;
		o->mss = rn_load_be16(p);
	} else if (kind == OPT_WSCALE && len == 1) {
		o->has_wscale = true;
		o->wscale = p[0] > 14 ? 14 : p[0]; /* RFC 7323, 2.3 */
	} else if (kind == OPT_SACK_OK && len == 0) {
		o->sack_ok = true;
	} else if (kind == OPT_EXP && len == EXP_LEN) {
		o->exid = rn_load_be32(p);
		o->exid_role = p[4];
	}
}

bool tcpl_opt_parse(const uint8_t *opt, uint32_t len, struct tcpl_opts *o)
{
	*o = (struct tcpl_opts){ 0 };
	if (len > TCPL_OPT_MAX)
		return false;
	for (uint32_t i = 0; i < len;) {
		if (opt[i] == OPT_EOL)
			return true;
		if (opt[i] == OPT_NOP) {
			i++;
			continue;
		}
		if (len - i < 2 || opt[i + 1] < 2 || opt[i + 1] > len - i)
			return false;
		parse_one(opt[i], opt + i + 2, opt[i + 1] - 2u, o);
		i += opt[i + 1];
	}
	return true;
}

uint8_t tcpl_opt_ts(uint32_t tsval, uint32_t tsecr, uint8_t *p)
{
	rn_store_be32(p, 0x0101080a);
	rn_store_be32(p + 4, tsval);
	rn_store_be32(p + 8, tsecr);
	return TCPL_TS_OPTLEN;
}

/* The role tells a SYN from its answer: a peer that merely echoes a SYN's options has not answered. */
static uint8_t put_exid(uint32_t exid, bool answers, uint8_t *p)
{
	p[0] = OPT_NOP;
	p[1] = OPT_EXP;
	p[2] = 2 + EXP_LEN;
	rn_store_be32(p + 3, exid);
	p[7] = answers ? TCPL_EXID_TAKES : TCPL_EXID_ASKS;
	return 8;
}

/* offer: F_WSCALE, F_SACK, F_TS, F_EXID; answers: it is a SYN-ACK */
uint8_t tcpl_opt_syn(const struct tcpl_cfg *cfg, uint32_t offer, bool answers, uint32_t tsval, uint32_t tsecr,
		     uint8_t *p)
{
	uint8_t n = 4;

	rn_store_be32(p, 0x02040000u | cfg->mss);
	if (offer & F_TS) {
		tcpl_opt_ts(tsval, tsecr, p + n);
		if (offer & F_SACK)
			rn_store_be16(p + n, 0x0402);
		n += TCPL_TS_OPTLEN;
	} else if (offer & F_SACK) {
		rn_store_be32(p + n, 0x01010402);
		n += 4;
	}
	if (offer & F_WSCALE) {
		rn_store_be32(p + n, 0x01030300u | cfg->wscale);
		n += 4;
	}
	if (rn_unlikely(offer & F_EXID))
		n += put_exid(cfg->exid, answers, p + n);
	return n;
}

/* A pending DSACK comes first (RFC 2883, 4), then the most recent blocks (RFC 2018, 4). `at`: bytes used already. */
uint8_t tcpl_opt_sack(struct tcpl_conn *c, uint8_t *p, uint8_t at)
{
	uint32_t max = (TCPL_OPT_MAX - at - 4) / 8, n = 0;
	uint8_t *b = p + 4;

	if (c->dsack.seq != c->dsack.end) {
		rn_store_be32(b, c->dsack.seq);
		rn_store_be32(b + 4, c->dsack.end);
		c->dsack.end = c->dsack.seq;
		n = 1;
	}
	for (uint32_t i = 0; i < c->n_blocks && n < max; i++, n++) {
		rn_store_be32(b + 8 * n, c->block[i].seq);
		rn_store_be32(b + 8 * n + 4, c->block[i].end);
	}
	if (n == 0)
		return 0;
	rn_store_be32(p, 0x01010500u | (2 + 8 * n));
	return (uint8_t)(4 + 8 * n);
}
