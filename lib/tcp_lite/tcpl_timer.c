/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three deadlines. t_rtx is one of: SYN, retransmission (RFC 6298), tail loss probe and reordering (RFC 8985), window
 * probe, the next turn of a paced connection. t_ack: delayed ACK. t_idle: keepalive, FIN_WAIT_2, TIME_WAIT, and in
 * place of keepalive the end of a connection whose owner has left.
 */
#include "tcpl_int.h"

#define BACKOFF_MAX 30
#define BEHIND_NS   (20 * RN_NS_PER_US)

static bool may_tlp(const struct tcpl_conn *c)
{
	return (c->flags & F_SACK) && c->recovery == TCPL_R_OPEN && (c->n_sacked | c->n_lost) == 0 && c->srtt != 0 &&
	       c->backoff == 0 && (!(c->flags & F_TLP_ON) || rn_seq_ge(c->snd_una, c->tlp_end)) && !tcpl_untold(c);
}

/* RFC 8985, 7.2: 2 SRTT, and the peer's delayed ACK when only one segment is out. */
static uint64_t probe_timeout(const struct tcpl_conn *c)
{
	uint64_t pto = 2 * c->srtt + 50 * RN_NS_PER_US; /* allows for the turns of two polling loops */

	if (rn_unlikely(c->mem.track != NULL))
		pto = rn_max_u64(pto, tcpl_slowest(c) + c->cfg->min_rto_ns);
	if (c->r_tail - c->r_head == 1)
		pto += c->cfg->peer_delack_ns;
	return pto;
}

static void wait_for_pace(struct tcpl_conn *c)
{
	c->rtx_mode = TCPL_RTX_PACE;
	c->t_rtx = c->pace_at;
}

/* Data (or a FIN) wait, nothing is in flight, and cwnd was not the reason: only a window probe can help. */
static void rearm_empty(struct tcpl_conn *c, uint64_t now)
{
	if (!tcpl_waits(c) || c->state == TCPL_S_TIME_WAIT) {
		c->rtx_mode = TCPL_RTX_OFF;
		c->t_rtx = RN_NEVER;
	} else if (c->rtx_mode != TCPL_RTX_PERSIST) {
		c->rtx_mode = TCPL_RTX_PERSIST;
		c->t_rtx = now + c->rto;
	}
}

/*
 * The peer had no chance to be heard while the owner did not run, so each wait is longer by that time. `lost` counts
 * since the last call, perhaps before a wait began: no wait begins later than now.
 */
static void allow_for_turns(struct tcpl_conn *c, uint64_t now)
{
	if (c->turns == NULL || rn_likely(c->turns->lost == c->lost_seen))
		return;
	uint64_t lost = c->turns->lost - c->lost_seen;
	c->lost_seen = c->turns->lost;
	c->rto_base = rn_min_u64(c->rto_base + lost, now);
	c->asked_at = rn_min_u64(c->asked_at + lost, now);
	c->tlp_base = rn_min_u64(c->tlp_base + lost, now);
}

/* RFC 9293, 3.9.1: the peer has been silent for as long as its user waits. */
static bool too_long(const struct tcpl_conn *c, uint64_t now)
{
	return c->patience != 0 && now - c->asked_at >= c->patience;
}

/* A deadline for a silent peer: not later than the end of `patience`. */
static uint64_t in_time(const struct tcpl_conn *c, uint64_t at)
{
	return rn_likely(c->patience == 0) ? at : rn_min_u64(at, c->asked_at + c->patience);
}

/* Chooses what t_rtx stands for from the state of the send side. Idempotent. */
void tcpl_rearm(struct tcpl_conn *c, uint64_t now)
{
	if (c->state < TCPL_S_ESTABLISHED)
		return;
	allow_for_turns(c, now);
	if (c->r_head == c->r_tail) {
		if (rn_unlikely(c->flags & F_PACE_WAIT))
			wait_for_pace(c);
		else
			rearm_empty(c, now);
		return;
	}
	if (rn_unlikely(c->flags & F_PROBED)) {
		c->flags &= ~(uint32_t)F_PROBED;
		c->backoff = 0;
	}
	c->rtx_mode = TCPL_RTX_RTO;
	c->t_rtx = c->rto_base + tcpl_backed_off(c);
	if (rn_unlikely(tcpl_untold(c))) /* a path without an RTT so far: as for a SYN */
		c->t_rtx = rn_max_u64(c->t_rtx, c->rto_base + c->cfg->init_rto_ns);
	if (rn_unlikely(c->tries != 0))
		c->t_rtx = in_time(c, c->t_rtx);
	if (c->reo_at != 0 && c->reo_at < c->t_rtx) {
		c->rtx_mode = TCPL_RTX_REO;
		c->t_rtx = c->reo_at;
	} else if (may_tlp(c)) {
		/* RFC 8985, 7.2: where the timeout would come first the probe takes its place */
		c->rtx_mode = TCPL_RTX_TLP;
		c->t_rtx = rn_min_u64(c->t_rtx, c->tlp_base + probe_timeout(c));
	}
	if (rn_unlikely(c->flags & F_PACE_WAIT) && c->pace_at < c->t_rtx)
		wait_for_pace(c);
}

/* FIN_WAIT_2 in silence has a limit, since the owner does not tell when it leaves. */
static bool limits_silence(const struct tcpl_conn *c)
{
	return c->state == TCPL_S_FIN_WAIT_2 && c->cfg->fin_wait_ns != 0 && c->cfg->left_ns == 0;
}

/* The owner has left: how long the connection may go on without progress. */
static uint64_t left_for(const struct tcpl_conn *c)
{
	return c->state == TCPL_S_FIN_WAIT_2 && c->cfg->fin_wait_ns != 0 ? c->cfg->fin_wait_ns : c->cfg->left_ns;
}

void tcpl_rearm_idle(struct tcpl_conn *c, uint64_t now)
{
	const struct tcpl_cfg *cfg = c->cfg;

	c->t_idle = RN_NEVER;
	if (c->flags & F_LEFT)
		c->t_idle = now + left_for(c);
	else if (limits_silence(c))
		c->t_idle = now + cfg->fin_wait_ns;
	else if (cfg->keep_idle_ns != 0)
		c->t_idle = now + cfg->keep_idle_ns;
}

static void give_up(struct tcpl_conn *c, struct tcpl_ev *ev)
{
	tcpl_finish(c);
	ev->bits |= TCPL_EV_TIMEOUT;
}

static void on_syn(struct tcpl_conn *c, struct tcpl_ev *ev)
{
	if (c->backoff++ >= c->cfg->syn_retries) {
		give_up(c, ev);
		return;
	}
	c->rtx_mode = TCPL_RTX_OFF;
	c->t_rtx = RN_NEVER;
	c->flags |= F_SYN_NOW;
}

static void on_rto(struct tcpl_conn *c, uint64_t now, struct tcpl_ev *ev)
{
	if (c->tries == 0) /* backed off: the peer has answered the last one, that there is no room */
		c->asked_at = c->backoff == 0 ? c->rto_base : now;
	if (c->tries >= c->cfg->retries || too_long(c, now)) {
		give_up(c, ev);
		return;
	}
	tcpl_mtu_timeout(c);
	tcpl_blame(c, now);
	tcpl_enter_loss(c, now);
	c->tries++;
	if (c->backoff < BACKOFF_MAX)
		c->backoff++;
	c->rto_base = now;
	tcpl_rearm(c, now);
}

static void on_persist(struct tcpl_conn *c, uint64_t now, struct tcpl_ev *ev)
{
	if (c->probes == 0)
		c->asked_at = now;
	if (c->probes >= c->cfg->retries || too_long(c, now)) {
		give_up(c, ev);
		return;
	}
	c->probes++;
	if (!(c->flags & F_PROBED))
		c->backoff = 0;
	if (c->backoff < BACKOFF_MAX)
		c->backoff++;
	c->flags |= F_WIN_PROBE | F_PROBED;
	c->t_rtx = in_time(c, now + tcpl_backed_off(c));
}

static void on_reo(struct tcpl_conn *c, uint64_t now)
{
	uint32_t flight = c->pipe;

	tcpl_rack_detect(c, now);
	if (c->n_lost > 0 && c->recovery == TCPL_R_OPEN)
		tcpl_enter_recovery(c, now, flight);
	tcpl_rearm(c, now);
}

static void on_tlp(struct tcpl_conn *c, uint64_t now)
{
	tcpl_blame(c, now);
	c->flags = (c->flags & ~(uint32_t)F_TLP_REXMIT) | F_TLP_NOW | F_TLP_ON;
	c->tlp_end = c->snd_nxt;
	c->rto_base = now;
	tcpl_rearm(c, now);
}

/* Whether the peer had no fair chance to answer, because the owner did not run: then the timer is set again. */
static bool unfair(struct tcpl_conn *c, uint64_t now)
{
	bool waits = c->rtx_mode == TCPL_RTX_RTO || c->rtx_mode == TCPL_RTX_TLP || c->rtx_mode == TCPL_RTX_REO;

	if (c->turns == NULL || !waits)
		return false;
	if (c->turns->behind) {
		c->t_rtx = now + BEHIND_NS;
		return true;
	}
	if (c->rtx_mode == TCPL_RTX_REO || c->turns->lost == c->lost_seen)
		return false;
	tcpl_rearm(c, now);
	return c->t_rtx > now;
}

static void on_rtx(struct tcpl_conn *c, uint64_t now, struct tcpl_ev *ev)
{
	if (unfair(c, now))
		return;
	switch ((enum tcpl_rtx)c->rtx_mode) {
	case TCPL_RTX_OFF: c->t_rtx = RN_NEVER; return;
	case TCPL_RTX_SYN: on_syn(c, ev); return;
	case TCPL_RTX_RTO: on_rto(c, now, ev); return;
	case TCPL_RTX_TLP: on_tlp(c, now); return;
	case TCPL_RTX_REO: on_reo(c, now); return;
	case TCPL_RTX_PERSIST: on_persist(c, now, ev); return;
	case TCPL_RTX_PACE:
		c->flags &= ~(uint32_t)F_PACE_WAIT;
		tcpl_rearm(c, now);
		return;
	}
}

/* RFC 9293, 3.8.4: only a silent and idle connection is probed. */
static void on_keepalive(struct tcpl_conn *c, uint64_t now, struct tcpl_ev *ev)
{
	const struct tcpl_cfg *cfg = c->cfg;

	if (now - c->last_in < cfg->keep_idle_ns) {
		c->t_idle = c->last_in + cfg->keep_idle_ns;
	} else if (c->r_head != c->r_tail || tcpl_unsent(c) > 0) {
		c->t_idle = now + cfg->keep_idle_ns; /* data is in flight: t_rtx finds out whether the peer is there */
	} else if (c->probes >= cfg->keep_probes) {
		give_up(c, ev);
	} else {
		c->probes++;
		c->flags |= F_KEEP_PROBE;
		c->t_idle = now + cfg->keep_intvl_ns;
	}
}

/* The wait that began at `from` ends after ns. */
static void wait_since(struct tcpl_conn *c, uint64_t now, uint64_t from, uint64_t ns, struct tcpl_ev *ev)
{
	if (now - from >= ns)
		give_up(c, ev);
	else
		c->t_idle = from + ns;
}

static void on_idle(struct tcpl_conn *c, uint64_t now, struct tcpl_ev *ev)
{
	if (c->state == TCPL_S_TIME_WAIT) {
		tcpl_finish(c);
		ev->bits |= TCPL_EV_CLOSED;
	} else if (c->flags & F_LEFT) {
		wait_since(c, now, c->tlp_base, left_for(c), ev);
	} else if (limits_silence(c)) {
		wait_since(c, now, c->last_in, c->cfg->fin_wait_ns, ev);
	} else if (c->cfg->keep_idle_ns != 0) {
		on_keepalive(c, now, ev);
	} else {
		c->t_idle = RN_NEVER;
	}
}

void tcpl_timer(struct tcpl_conn *c, uint64_t now, struct tcpl_ev *ev)
{
	ev->bits = 0;
	ev->held = false;
	if (c->t_ack <= now) {
		c->t_ack = RN_NEVER;
		c->flags |= F_ACK_NOW;
	}
	if (c->t_rtx <= now)
		on_rtx(c, now, ev);
	if (c->t_idle <= now)
		on_idle(c, now, ev);
}
