/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of a connection, the owner's side of the send queue, and what telemetry reads. */
#include "tcpl_int.h"

#include "tcp_lite/tcpl_exid.h"

void tcpl_cfg_default(struct tcpl_cfg *cfg, uint16_t mss)
{
	*cfg = (struct tcpl_cfg){
		.mss = mss,
		.wscale = 7,
		.use_wscale = true,
		.use_sack = true,
		.use_ts = true,
		.ack_psh = true,
		.init_cwnd = 10,
		.syn_retries = 6,
		.retries = 12,
		.keep_probes = 5,
		.challenge_max = 10,
		.rcv_space = 1u << 20,
		.cwnd_max = 8u << 20,
		.init_rto_ns = 200 * RN_NS_PER_MS,
		.min_rto_ns = 5 * RN_NS_PER_MS,
		.max_rto_ns = 60 * RN_NS_PER_S,
		.delack_ns = 500 * RN_NS_PER_US,
		.peer_delack_ns = 2 * RN_NS_PER_MS,
		.keep_intvl_ns = RN_NS_PER_S,
		.time_wait_ns = RN_NS_PER_S,
		.fin_wait_ns = 60 * RN_NS_PER_S,
		.cc = &tcpl_cubic,
	};
}

void tcpl_set_state(struct tcpl_conn *c, enum tcpl_state s) { c->state = (uint8_t)s; }

void tcpl_init(struct tcpl_conn *c, const struct tcpl_cfg *cfg, const struct tcpl_mem *mem)
{
	*c = (struct tcpl_conn){ .cfg = cfg,
				 .mem = *mem,
				 .t_rtx = RN_NEVER,
				 .t_ack = RN_NEVER,
				 .t_idle = RN_NEVER,
				 .track = { .first = TCPL_NO_SLOT, .last = TCPL_NO_SLOT } };
	tcpl_tracks_begin(c);
}

bool tcpl_set_mem(struct tcpl_conn *c, const struct tcpl_mem *mem)
{
	if (c->q_head != c->q_tail || c->r_head != c->r_tail || c->h_head != c->h_tail)
		return false;
	c->mem = *mem;
	tcpl_tracks_begin(c);
	return true;
}

/* Sets the fields of our side that follow from the ISN: for connect, accept and SYN cookies. */
void tcpl_start(struct tcpl_conn *c, uint64_t now, uint32_t iss)
{
	const struct tcpl_cfg *cfg = c->cfg;

	c->iss = iss;
	c->snd_una = iss;
	c->snd_nxt = iss + 1;
	/* Chunks queued before the connection began get their sequence numbers here. */
	c->q_end = iss + 1;
	for (uint32_t i = c->q_head; i != c->q_tail; i++) {
		struct tcpl_chunk *ch = &c->mem.chunk[i & (c->mem.chunk_n - 1)];
		ch->seq = c->q_end;
		c->q_end += ch->len;
	}
	c->rcv_space = c->rcv_space ? c->rcv_space : cfg->rcv_space;
	c->ts_offset = iss;
	c->mss = 536; /* RFC 9293, 3.7.1: until the peer announces its MSS */
	c->ssthresh = UINT32_MAX;
	c->rto = cfg->init_rto_ns;
	c->min_rtt = RN_NEVER;
	c->reo_mult = 1;
	c->last_in = now;
	c->rto_base = now;
	c->r_lost = c->r_head;
	c->track.fack = c->track.end = c->round_end = c->flight_end = iss;
}

/* Takes over the options of the peer's SYN that this side has offered. */
void tcpl_negotiate(struct tcpl_conn *c, uint64_t now, const struct tcpl_opts *o)
{
	const struct tcpl_cfg *cfg = c->cfg;
	uint32_t mss = o->has_mss ? rn_max_u32(o->mss, TCPL_MSS_MIN) : 536;

	mss = rn_min_u32(mss, cfg->mss);
	if (cfg->use_wscale && o->has_wscale) {
		c->flags |= F_WSCALE;
		c->snd_wscale = o->wscale;
		c->rcv_wscale = cfg->wscale;
	}
	if (cfg->use_sack && o->sack_ok)
		c->flags |= F_SACK;
	if (cfg->use_ts && o->has_ts) {
		c->flags |= F_TS;
		c->ts_recent = o->tsval;
		c->ts_recent_age = tcpl_epoch(now);
		mss -= TCPL_TS_OPTLEN; /* RFC 6691 */
	}
	if (rn_unlikely(cfg->exid != 0) && o->exid == cfg->exid &&
	    o->exid_role == (c->state == TCPL_S_SYN_SENT ? TCPL_EXID_TAKES : TCPL_EXID_ASKS))
		c->flags |= F_EXID;
	c->mss = c->mss_full = (uint16_t)mss;
	c->rcv_nxt = c->rcv_acked = c->irs + 1;
	c->rcv_adv = c->rcv_nxt + rn_min_u32(c->rcv_space, 65535);
	c->cwnd = rn_min_u32((uint32_t)cfg->init_cwnd * mss, cfg->cwnd_max);
	cfg->cc->init(c);
	if (cfg->cc->measured != NULL)
		tcpl_rate_start(c);
	else if (cfg->pace)
		c->flags |= F_PACED;
}

void tcpl_established(struct tcpl_conn *c, uint64_t now)
{
	tcpl_set_state(c, c->flags & F_FIN_QUEUED ? TCPL_S_FIN_WAIT_1 : TCPL_S_ESTABLISHED);
	c->rtx_mode = TCPL_RTX_OFF;
	c->t_rtx = RN_NEVER;
	if (c->backoff > 0) /* a SYN was lost: the path may be congested (RFC 5681, 3.1) */
		c->cwnd = c->mss;
	c->backoff = 0;
	c->rto_base = c->tlp_base = now;
	tcpl_rearm_idle(c, now);
}

/* CLOSED from any state: no timer runs, nothing more is taken or sent. The queues stay for the owner to drain. */
void tcpl_finish(struct tcpl_conn *c)
{
	tcpl_set_state(c, TCPL_S_CLOSED);
	c->flags = (c->flags & (F_WSCALE | F_SACK | F_TS | F_EXID)) | F_FIN_QUEUED;
	c->rtx_mode = TCPL_RTX_OFF;
	c->t_rtx = c->t_ack = c->t_idle = RN_NEVER;
}

void tcpl_connect(struct tcpl_conn *c, uint64_t now, uint32_t iss)
{
	if (c->state != TCPL_S_CLOSED)
		return;
	tcpl_start(c, now, iss);
	c->flags |= F_SYN_NOW;
	tcpl_set_state(c, TCPL_S_SYN_SENT);
}

enum tcpl_verdict tcpl_accept_syn(struct tcpl_conn *c, uint64_t now, uint32_t iss, const struct tcpl_seg *s)
{
	struct tcpl_opts o;

	if (c->state != TCPL_S_CLOSED || (s->flags & (TCPL_SYN | TCPL_ACK | TCPL_RST | TCPL_FIN)) != TCPL_SYN)
		return TCPL_DROP_STATE;
	if (!tcpl_opt_parse(s->opt, s->optlen, &o))
		return TCPL_DROP_OPTION;
	tcpl_start(c, now, iss);
	c->irs = s->seq;
	tcpl_negotiate(c, now, &o);
	c->snd_wnd = s->wnd; /* never scaled in a SYN (RFC 7323, 2.2) */
	c->snd_wl1 = s->seq;
	c->max_wnd = s->wnd;
	c->flags |= F_SYN_NOW;
	c->stats.segs_in++;
	tcpl_set_state(c, TCPL_S_SYN_RCVD);
	return TCPL_OK;
}

bool tcpl_exid_agreed(const struct tcpl_conn *c) { return (c->flags & F_EXID) != 0; }

bool tcpl_exid_asks(const struct tcpl_seg *syn, uint32_t exid)
{
	struct tcpl_opts o;

	return syn->optlen != 0 && tcpl_opt_parse(syn->opt, syn->optlen, &o) && o.exid == exid &&
	       o.exid_role == TCPL_EXID_ASKS;
}

bool tcpl_rst_for(const struct tcpl_seg *s, struct tcpl_out *o)
{
	if (s->flags & TCPL_RST)
		return false;
	*o = (struct tcpl_out){ .flags = TCPL_RST };
	if (s->flags & TCPL_ACK) {
		o->seq = s->ack;
	} else {
		o->flags |= TCPL_ACK;
		o->ack = s->seq + s->len + !!(s->flags & TCPL_SYN) + !!(s->flags & TCPL_FIN);
	}
	return true;
}

bool tcpl_send(struct tcpl_conn *c, uint32_t len, uint64_t ref)
{
	/* Serial arithmetic compares numbers within half of the sequence space; a quarter leaves room for windows. */
	if (tcpl_room(c) == 0 || len == 0 || (c->flags & F_FIN_QUEUED) || len > UINT32_C(1) << 30 ||
	    c->q_end + len - c->snd_una > UINT32_C(1) << 30)
		return false;
	c->mem.chunk[c->q_tail++ & (c->mem.chunk_n - 1)] = (struct tcpl_chunk){ len, c->q_end, ref };
	c->q_end += len;
	return true;
}

uint32_t tcpl_budget(const struct tcpl_conn *c)
{
	if ((c->state != TCPL_S_ESTABLISHED && c->state != TCPL_S_CLOSE_WAIT) ||
	    c->r_tail - c->r_head == c->mem.rec_n || (c->flags & F_PACE_WAIT))
		return 0;
	uint32_t pipe = tcpl_pipe(c), used = c->q_end - c->snd_una, waiting = tcpl_unsent(c);
	uint32_t cwnd = c->cwnd > pipe ? c->cwnd - pipe : 0;
	uint32_t rwnd = c->snd_wnd > used ? c->snd_wnd - used : 0;

	if (pipe == 0)
		cwnd = rn_max_u32(cwnd, c->mss);
	cwnd = cwnd > waiting ? cwnd - waiting : 0;
	return rn_min_u32(cwnd, rwnd);
}

bool tcpl_acked(struct tcpl_conn *c, uint64_t *ref)
{
	if (c->q_head == c->q_tail)
		return false;
	const struct tcpl_chunk *ch = tcpl_chunk(c, c->q_head);
	if (rn_seq_gt(ch->seq + ch->len, c->snd_una) || c->q_head == c->q_sent)
		return false;
	*ref = ch->ref;
	c->q_head++;
	return true;
}

bool tcpl_tx_drop(struct tcpl_conn *c, uint64_t *ref)
{
	if (c->state != TCPL_S_CLOSED || c->q_head == c->q_tail)
		return false;
	*ref = tcpl_chunk(c, c->q_head)->ref;
	if (c->q_head++ == c->q_sent)
		c->q_sent++;
	c->r_head = c->r_tail;
	return true;
}

void tcpl_shutdown(struct tcpl_conn *c, uint64_t now)
{
	(void)now;
	if (c->flags & F_FIN_QUEUED)
		return;
	c->flags |= F_FIN_QUEUED;
	if (c->state == TCPL_S_ESTABLISHED)
		tcpl_set_state(c, TCPL_S_FIN_WAIT_1);
	else if (c->state == TCPL_S_CLOSE_WAIT)
		tcpl_set_state(c, TCPL_S_LAST_ACK);
}

void tcpl_leave(struct tcpl_conn *c, uint64_t now)
{
	c->flags |= F_LEFT;
	if (c->state >= TCPL_S_ESTABLISHED && c->state != TCPL_S_TIME_WAIT)
		tcpl_rearm_idle(c, now);
}

void tcpl_abort(struct tcpl_conn *c)
{
	if (c->state == TCPL_S_CLOSED) /* a RST may not have gone out yet */
		return;
	/* RFC 9293, 3.10.5: SYN_SENT has no peer yet; after both FINs there is nothing to reset. */
	bool rst = c->state != TCPL_S_SYN_SENT && c->state != TCPL_S_TIME_WAIT;

	tcpl_finish(c);
	if (!rst)
		return;
	c->rst_seq = c->snd_nxt;
	c->flags |= F_RST_NOW | F_RST_ACK;
}

const char *tcpl_state_name(enum tcpl_state s)
{
	static const char *const name[TCPL_S_COUNT] = {
		"CLOSED",     "SYN_SENT",   "SYN_RCVD", "ESTABLISHED", "FIN_WAIT_1",
		"FIN_WAIT_2", "CLOSE_WAIT", "CLOSING",  "LAST_ACK",    "TIME_WAIT",
	};
	return (unsigned)s < TCPL_S_COUNT ? name[s] : "?";
}

const char *tcpl_verdict_name(enum tcpl_verdict v)
{
	static const char *const name[TCPL_VERDICT_COUNT] = {
		"OK",       "DROP_OPTION", "DROP_STATE", "DROP_ACK",   "DROP_WINDOW", "DROP_PAWS",
		"DROP_SYN", "DROP_RST",    "DROP_FULL",  "DROP_AHEAD", "DROP_COOKIE", "NEW_SYN",
	};
	return (unsigned)v < TCPL_VERDICT_COUNT ? name[v] : "?";
}

void tcpl_get_info(const struct tcpl_conn *c, struct tcpl_info *info)
{
	*info = (struct tcpl_info){
		.state = tcpl_get_state(c),
		.mss = c->mss,
		.cwnd = c->cwnd,
		.ssthresh = c->ssthresh,
		.pipe = tcpl_pipe(c),
		.snd_wnd = c->snd_wnd,
		.rcv_wnd = c->rcv_adv - c->rcv_nxt,
		.queued = tcpl_unsent(c),
		.chunks = c->q_tail - c->q_head,
		.chunks_most = c->mem.chunk_n,
		.srtt_ns = c->srtt,
		.rttvar_ns = c->rttvar,
		.rto_ns = tcpl_backed_off(c),
		.min_rtt_ns = c->min_rtt == RN_NEVER ? 0 : c->min_rtt,
		.pace = c->pace_cost == 0 ? 0 : (RN_NS_PER_S << TCPL_PACE_SHIFT) / c->pace_cost,
		.keep_idle_ns = c->cfg->keep_idle_ns,
		.snd_wscale = c->snd_wscale,
		.rcv_wscale = c->rcv_wscale,
		.sack = (c->flags & F_SACK) != 0,
		.ts = (c->flags & F_TS) != 0,
		.wscale = (c->flags & F_WSCALE) != 0,
		.in_recovery = c->recovery != TCPL_R_OPEN,
		.cc = c->cfg->cc->name,
	};
}
