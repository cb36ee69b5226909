/* SPDX-License-Identifier: BSD-3-Clause */
/* Initial sequence numbers (RFC 6528) and SYN cookies (RFC 4987, 3.6): both are a keyed hash of the connection. */
#include "tcpl_int.h"

#include <string.h>

#include "base/rn_be.h"
#include "base/rn_sip.h"

/* M + F(tuple, key), with M a clock of about 4 us (RFC 6528, 3). */
uint32_t tcpl_isn(const uint64_t key[2], const void *tuple, uint32_t len, uint64_t now)
{
	return (uint32_t)(now >> 12) + (uint32_t)rn_sip_hash(key, tuple, len, 0);
}

/*
 * A cookie is 24 bits of hash over the tuple, the peer's ISN, a clock of 68 s and the low byte; the low byte holds
 * what must be remembered: bit 0 the clock's parity, bits 1-2 the MSS class, bit 3 SACK, bits 4-7 the peer's window
 * scale (15: none).
 */
static const uint16_t cookie_mss[4] = { 536, 1300, 1460, 8960 };

static uint32_t cookie_of(const struct tcpl_tuple *of, uint32_t irs, uint64_t clock, uint8_t low)
{
	uint64_t h = rn_sip_hash(of->key, of->bytes, of->len, (uint64_t)irs << 32 | (uint32_t)clock << 8 | low);
	return (uint32_t)(h ^ (h >> 32)) << 8 | low;
}

bool tcpl_cookie_make(const struct tcpl_cfg *cfg, const struct tcpl_tuple *of, uint64_t now, const struct tcpl_seg *s,
		      struct tcpl_out *o)
{
	struct tcpl_opts opt;
	uint32_t cls = 0, offer = 0;
	uint64_t clock = now >> 36;

	if ((s->flags & (TCPL_SYN | TCPL_ACK | TCPL_RST)) != TCPL_SYN || !tcpl_opt_parse(s->opt, s->optlen, &opt))
		return false;
	while (cls < 3 && opt.has_mss && cookie_mss[cls + 1] <= opt.mss)
		cls++;
	offer |= cfg->use_sack && opt.sack_ok ? F_SACK : 0;
	offer |= cfg->use_ts && opt.has_ts ? F_TS : 0;
	offer |= cfg->use_wscale && opt.has_wscale ? F_WSCALE : 0;
	uint8_t low = (uint8_t)((clock & 1) | cls << 1 | (offer & F_SACK ? 8 : 0) |
				(offer & F_WSCALE ? opt.wscale : 15u) << 4);
	*o = (struct tcpl_out){
		.seq = cookie_of(of, s->seq, clock, low),
		.ack = s->seq + 1,
		.wnd = (uint16_t)rn_min_u32(cfg->rcv_space, 65535),
		.flags = TCPL_SYN | TCPL_ACK,
	};
	o->optlen = tcpl_opt_syn(cfg, offer, true, (uint32_t)(now >> 20) + o->seq, opt.tsval, o->opt);
	return true;
}

bool tcpl_cookie_good(const struct tcpl_tuple *of, uint64_t now, const struct tcpl_seg *s)
{
	uint32_t iss = s->ack - 1, irs = s->seq - 1;
	uint8_t low = (uint8_t)iss;
	uint64_t clock = now >> 36;

	clock -= (clock ^ low) & 1;
	return iss == cookie_of(of, irs, clock, low);
}

enum tcpl_verdict tcpl_cookie_accept(struct tcpl_conn *c, const struct tcpl_tuple *of, uint64_t now,
				     const struct tcpl_seg *s)
{
	uint32_t iss = s->ack - 1, irs = s->seq - 1;
	uint8_t low = (uint8_t)iss;
	struct tcpl_opts opt;

	if ((s->flags & (TCPL_SYN | TCPL_ACK | TCPL_RST)) != TCPL_ACK || c->state != TCPL_S_CLOSED)
		return TCPL_DROP_STATE;
	if (!tcpl_opt_parse(s->opt, s->optlen, &opt))
		return TCPL_DROP_OPTION;
	if (!tcpl_cookie_good(of, now, s))
		return TCPL_DROP_COOKIE;

	tcpl_start(c, now, iss);
	c->irs = irs;
	/* The ACK carries timestamps exactly when both sides agreed on them. */
	struct tcpl_opts syn = { .has_ts = opt.has_ts,
				 .tsval = opt.tsval,
				 .has_mss = true,
				 .mss = cookie_mss[low >> 1 & 3],
				 .sack_ok = (low & 8) != 0,
				 .has_wscale = low >> 4 != 15,
				 .wscale = low >> 4 };
	tcpl_negotiate(c, now, &syn);
	c->snd_una = s->ack;
	c->snd_wnd = (uint32_t)s->wnd << c->snd_wscale;
	c->snd_wl1 = s->seq;
	c->max_wnd = c->snd_wnd;
	tcpl_established(c, now);
	return TCPL_OK;
}
