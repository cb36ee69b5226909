/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "invariants.h"
#include "tcp_lite/tcpl_track.h"

#define PATTERN 65521u /* a prime, so that a slice at a wrong offset has wrong bytes */

static uint8_t pattern[2][2 * PATTERN];
static uint8_t payload[SIM_PKTS][SIM_MTU];
static const uint64_t key[2] = { 0x0123456789abcdef, 0xfedcba9876543210 };
static const struct tcpl_tuple tuple = { key, "tuple", 5 };

static void make_pattern(void)
{
	struct rn_rng g;

	if (pattern[0][0] | pattern[0][1] | pattern[0][2])
		return;
	for (int d = 0; d < 2; d++) {
		rn_rng_seed(&g, 77 + (uint64_t)d);
		for (uint32_t i = 0; i < PATTERN; i++)
			pattern[d][i] = pattern[d][i + PATTERN] = (uint8_t)rn_rng_u32(&g);
	}
}

/* ---- the link ---- */

static void flip_header(struct sim *m, struct pkt *k)
{
	uint32_t bit = rn_rng_below(&m->rng, 32);

	switch (rn_rng_below(&m->rng, 5)) {
	case 0: k->seg.seq ^= 1u << bit; break;
	case 1: k->seg.ack ^= 1u << bit; break;
	case 2: k->seg.wnd ^= (uint16_t)(1u << (bit & 15)); break;
	case 3: k->seg.flags ^= (uint8_t)(1u << (bit & 7)); break;
	default:
		if (k->seg.optlen)
			k->opt[rn_rng_below(&m->rng, k->seg.optlen)] ^= (uint8_t)(1u << (bit & 7));
	}
}

static void deliver_later(struct sim *m, int from, uint32_t i, uint64_t leave)
{
	const struct sim_link *l = &m->p->link[from];
	uint64_t at = leave + l->delay_ns + m->p->path_delay_ns[m->pkt[i].path];

	if (l->jitter_ns)
		at += rn_rng_u64(&m->rng) % l->jitter_ns;
	if (rn_rng_chance(&m->rng, l->reorder))
		at += rn_rng_u64(&m->rng) % l->reorder_ns;
	if (rn_rng_chance(&m->rng, l->flip))
		flip_header(m, &m->pkt[i]);
	sim_push(m, at, i);
}

static void transmit(struct sim *m, int from, uint32_t i)
{
	const struct sim_link *l = &m->p->link[from];
	struct side *s = &m->s[from];
	const uint8_t path = m->pkt[i].path;
	uint64_t ser = (uint64_t)l->ns_per_kb * (m->pkt[i].seg.len + 66) / 1024;
	uint64_t start = rn_max_u64(s->link_free[path], m->now);
	bool dead = m->p->dies_at != 0 && path == 1 && m->now >= m->p->dies_at;

	m->pkt[i].to = (uint8_t)!from;
	if (start - m->now > (uint64_t)l->queue * ((uint64_t)l->ns_per_kb * 1500 / 1024 + 1)) {
		sim_pkt_put(m, i, PKT_FLIGHT); /* tail drop */
		return;
	}
	s->link_free[path] = start + ser;
	m->r->of[path]++;
	if (l->mtu != 0 && m->pkt[i].seg.len + m->pkt[i].seg.optlen > l->mtu) {
		if (rn_rng_chance(&m->rng, l->tells))
			(void)tcpl_too_big(&s->c, m->now, m->pkt[i].seg.seq, l->mtu);
		sim_pkt_put(m, i, PKT_FLIGHT);
		return;
	}
	if (rn_rng_chance(&m->rng, l->loss) || rn_rng_chance(&m->rng, l->corrupt) || dead ||
	    (m->p->paths != 0 && rn_rng_chance(&m->rng, m->p->path_loss[path]))) {
		m->r->lost[from] += m->pkt[i].seg.len > 0;
		sim_pkt_put(m, i, PKT_FLIGHT);
		return;
	}
	struct tcpl_seg *g = &m->pkt[i].seg;
	if (g->len > 1 && !(g->flags & TCPL_FIN) && rn_rng_chance(&m->rng, l->cut))
		g->len = 1 + rn_rng_below(&m->rng, g->len - 1);
	if (rn_rng_chance(&m->rng, l->dup)) {
		uint32_t j = sim_pkt_get(m);
		if (j == UINT32_MAX)
			return;
		uint8_t *data = m->pkt[j].data;
		m->pkt[j] = m->pkt[i];
		m->pkt[j].data = data;
		m->pkt[j].seg.opt = m->pkt[j].opt;
		m->pkt[j].seg.ref = (uint64_t)j + 1;
		memcpy(data, m->pkt[i].data, m->pkt[i].seg.len);
		deliver_later(m, from, j, s->link_free[path]);
	}
	deliver_later(m, from, i, s->link_free[path]);
}

static void trace_seg(const struct sim *m, int from, const char *what, const struct tcpl_seg *g)
{
	if (!m->trace)
		return;
	const struct tcpl_conn *c = &m->s[from].c;
	printf("%12.3f us %c %s %s%s%s%s seq %u len %u ack %u wnd %u opt %u | %s cwnd %u pipe %u una %u nxt %u rcv %u "
	       "lost %u sacked %u held %u\n",
	       (double)m->now / 1000, 'A' + from, what, g->flags & TCPL_SYN ? "S" : "", g->flags & TCPL_FIN ? "F" : "",
	       g->flags & TCPL_RST ? "R" : "", g->flags & TCPL_ACK ? "." : "", g->seq - m->p->iss[from], g->len,
	       g->ack - m->p->iss[!from], g->wnd, g->optlen, tcpl_state_name(tcpl_get_state(c)), c->cwnd, c->pipe,
	       c->snd_una - m->p->iss[from], c->snd_nxt - m->p->iss[from], c->rcv_nxt - m->p->iss[!from], c->n_lost,
	       c->n_sacked, c->h_tail - c->h_ready);
}

/* ---- checks ---- */

static void check_conn(struct sim *m, int w)
{
	const char *what = tcpl_broken(&m->s[w].c);

	if (what)
		sim_fail(m, "%c: %s (%s)", 'A' + w, what, tcpl_state_name(tcpl_get_state(&m->s[w].c)));
}

/* ---- the application of one side ---- */

static void consume(struct sim *m, int w, const struct tcpl_slice *s)
{
	struct side *e = &m->s[w];

	if (!m->p->hostile) {
		if (s->seq != e->irs + 1 + (uint32_t)e->got)
			sim_fail(m, "%c: slice at %u, expected %u", 'A' + w, s->seq - e->irs - 1, (uint32_t)e->got);
		const uint8_t *want = pattern[!w] + e->got % PATTERN;
		if (s->ref != 0 && memcmp(m->pkt[s->ref - 1].data + s->off, want, s->len) != 0)
			sim_fail(m, "%c: wrong bytes at %" PRIu64, 'A' + w, e->got);
	}
	e->got += s->len;
	if (m->p->slow_reader[w])
		e->unread += s->len;
}

static void drain_acked(struct sim *m, int w)
{
	struct side *e = &m->s[w];
	uint64_t ref;

	while (tcpl_acked(&e->c, &ref)) {
		if (ref != ++e->next_acked)
			sim_fail(m, "%c: chunk %" PRIu64 " acknowledged, expected %" PRIu64, 'A' + w, ref,
				 e->next_acked);
		if (!m->p->hostile && e->c.snd_una - m->p->iss[w] - 1 < (uint32_t)e->base[(ref + 1) % (2 * SIM_CHUNKS)])
			sim_fail(m, "%c: chunk %" PRIu64 " popped too early", 'A' + w, ref);
	}
}

static void end_side(struct sim *m, int w)
{
	struct side *e = &m->s[w];
	struct tcpl_slice s;
	uint64_t ref;

	if (e->ended)
		return;
	e->ended = true;
	drain_acked(m, w);
	while (tcpl_tx_drop(&e->c, &ref))
		if (ref != ++e->next_acked)
			sim_fail(m, "%c: chunk %" PRIu64 " dropped, expected %" PRIu64, 'A' + w, ref, e->next_acked);
	if (e->next_acked != e->next_ref)
		sim_fail(m, "%c: %" PRIu64 " chunks queued, %" PRIu64 " back", 'A' + w, e->next_ref, e->next_acked);
	while (tcpl_rx_next(&e->c, &s)) {
		consume(m, w, &s);
		if (s.ref)
			sim_pkt_put(m, (uint32_t)s.ref - 1, PKT_HELD);
	}
	while (tcpl_rx_drop(&e->c, &ref))
		sim_pkt_put(m, (uint32_t)ref - 1, PKT_HELD);
}

static void on_events(struct sim *m, int w, const struct tcpl_ev *ev)
{
	struct side *e = &m->s[w];

	if (ev->bits & TCPL_EV_PEER_FIN) {
		if (e->peer_fin)
			sim_fail(m, "%c: a second end of stream", 'A' + w);
		e->peer_fin = true;
	}
	if (ev->bits & TCPL_EV_RESET)
		m->r->reset = true;
	if (ev->bits & TCPL_EV_TIMEOUT)
		m->r->timeout = true;
	if (ev->bits & (TCPL_EV_RESET | TCPL_EV_TIMEOUT | TCPL_EV_CLOSED)) {
		if (tcpl_get_state(&e->c) != TCPL_S_CLOSED)
			sim_fail(m, "%c: an end in state %s", 'A' + w, tcpl_state_name(tcpl_get_state(&e->c)));
		end_side(m, w);
	}
}

static void take_ready(struct sim *m, int w)
{
	struct side *e = &m->s[w];
	struct tcpl_slice s;

	while (tcpl_rx_next(&e->c, &s)) {
		consume(m, w, &s);
		if (s.ref)
			sim_pkt_put(m, (uint32_t)s.ref - 1, PKT_HELD);
	}
}

/* A listener, with or without memory for the connection. True: the segment was for the listener. */
static bool listen_in(struct sim *m, struct side *e, const struct tcpl_seg *g)
{
	if (e->opened || m->p->simultaneous)
		return false;
	if (m->p->cookie) {
		if (tcpl_cookie_make(&m->p->cfg[1], &tuple, m->now, g, &m->cookie)) {
			m->cookie_out = true;
			return true;
		}
		if (tcpl_cookie_accept(&e->c, &tuple, m->now, g) != TCPL_OK)
			return true;
		e->opened = true;
		e->irs = g->seq - 1;
		return false;
	}
	if (tcpl_accept_syn(&e->c, m->now, m->p->iss[1], g) == TCPL_OK) {
		e->opened = true;
		e->irs = g->seq;
	}
	return true;
}

static void receive(struct sim *m, int w, uint32_t i)
{
	struct side *e = &m->s[w];
	struct pkt *k = &m->pkt[i];
	struct tcpl_ev ev;

	k->state = PKT_OWNED;
	e->came = k->path;
	if (listen_in(m, e, &k->seg) || e->ended) {
		sim_pkt_put(m, i, PKT_OWNED);
		return;
	}
	uint32_t was = e->c.state;
	enum tcpl_verdict v = tcpl_in(&e->c, m->now, &k->seg, &ev);
	if (was == TCPL_S_SYN_SENT && e->c.state != was)
		e->irs = k->seg.seq;
	trace_seg(m, w, tcpl_verdict_name(v), &k->seg);
	if (ev.bits & TCPL_EV_DATA) {
		if (ev.slice.ref != k->seg.ref || !rn_in_range(ev.slice.off, ev.slice.len, k->seg.len) || !ev.slice.len)
			sim_fail(m, "%c: slice outside its packet", 'A' + w);
		consume(m, w, &ev.slice);
	}
	if (ev.held) {
		uint64_t ref = 0;
		k->state = PKT_HELD;
		if (!rn_in_range(ev.ooo.off, ev.ooo.len, k->seg.len) || !ev.ooo.len)
			sim_fail(m, "%c: held slice outside its packet", 'A' + w);
		if (m->p->place[w] && rn_rng_chance(&m->rng, 700000) && tcpl_ooo_placed(&e->c, ev.ooo.seq, &ref)) {
			uint64_t at = e->got + (uint32_t)(ev.ooo.seq - e->irs - 1 - (uint32_t)e->got);
			if (!m->p->hostile && memcmp(k->data + ev.ooo.off, pattern[!w] + at % PATTERN, ev.ooo.len) != 0)
				sim_fail(m, "%c: wrong bytes placed at %" PRIu64, 'A' + w, at);
			if (ref != k->seg.ref)
				sim_fail(m, "%c: placed one packet, got another back", 'A' + w);
			sim_pkt_put(m, i, PKT_HELD);
		}
	} else {
		sim_pkt_put(m, i, PKT_OWNED);
	}
	if (!m->p->lazy[w] || rn_rng_chance(&m->rng, 500000))
		take_ready(m, w);
	drain_acked(m, w);
	on_events(m, w, &ev);
}

static uint32_t pick_chunk(struct sim *m, int w)
{
	uint32_t max = m->p->chunk_max[w];

	if (rn_rng_chance(&m->rng, 300000)) /* as a ready FPDU that fills a segment */
		return rn_min_u32(tcpl_emss(&m->s[w].c), max);
	return 1 + rn_rng_below(&m->rng, rn_rng_chance(&m->rng, 300000) ? rn_min_u32(max, 100) : max);
}

static void produce(struct sim *m, int w)
{
	struct side *e = &m->s[w];
	uint64_t total = m->p->bytes[w];

	while (!e->shut && e->queued < total && tcpl_room(&e->c) > 0) {
		uint32_t len = (uint32_t)rn_min_u64(pick_chunk(m, w), total - e->queued);
		if (m->p->use_budget[w] && tcpl_budget(&e->c) < len)
			break;
		e->base[(e->next_ref + 1) % (2 * SIM_CHUNKS)] = e->queued;
		if (!tcpl_send(&e->c, len, e->next_ref + 1)) {
			sim_fail(m, "%c: send refused with room", 'A' + w);
			break;
		}
		e->next_ref++;
		e->queued += len;
		e->base[(e->next_ref + 1) % (2 * SIM_CHUNKS)] = e->queued;
	}
	bool wait = m->p->close_late[w] && !e->peer_fin;
	if (e->queued == total && !e->shut && e->opened && !wait) {
		e->shut = true;
		tcpl_shutdown(&e->c, m->now);
	}
}

static void fill_payload(struct sim *m, int w, struct pkt *k, const struct tcpl_out *o)
{
	struct side *e = &m->s[w];
	uint32_t done = 0, off = o->off, idx = o->chunk;

	while (done < o->len) {
		if (idx == e->c.q_tail) {
			sim_fail(m, "%c: segment runs beyond the queue", 'A' + w);
			return;
		}
		if (rn_seq_lt(idx, e->c.q_head)) {
			sim_fail(m, "%c: segment points at a chunk that was given back", 'A' + w);
			return;
		}
		const struct tcpl_chunk *ch = tcpl_chunk(&e->c, idx++);
		uint32_t take = rn_min_u32(ch->len - off, o->len - done);
		uint64_t at = e->base[ch->ref % (2 * SIM_CHUNKS)] + off;
		if (ch->seq + off != o->seq + done)
			sim_fail(m, "%c: chunk bytes %u under sequence number %u", 'A' + w, ch->seq + off,
				 o->seq + done);
		memcpy(k->data + done, pattern[w] + at % PATTERN, take);
		done += take;
		off = 0;
	}
}

static void send_out(struct sim *m, int w, const struct tcpl_out *o)
{
	uint32_t i = sim_pkt_get(m);

	if (i == UINT32_MAX)
		return;
	struct pkt *k = &m->pkt[i];
	uint8_t *data = k->data;
	*k = (struct pkt){ .state = PKT_FLIGHT, .data = data, .path = (uint8_t)m->s[w].path };
	if (o->len == 0 && !(o->flags & (TCPL_SYN | TCPL_FIN | TCPL_RST)))
		k->path = (uint8_t)m->s[w].came;
	memcpy(k->opt, o->opt, sizeof(k->opt));
	k->seg = (struct tcpl_seg){ .seq = o->seq,
				    .ack = o->ack,
				    .wnd = o->wnd,
				    .flags = o->flags,
				    .optlen = o->optlen,
				    .opt = k->opt,
				    .len = o->len,
				    .ref = (uint64_t)i + 1 };
	if (o->len > SIM_MTU || o->optlen + o->len > m->p->cfg[w].mss || (o->optlen & 3))
		sim_fail(m, "%c: segment of %u + %u bytes for an MSS of %u", 'A' + w, o->optlen, o->len,
			 m->p->cfg[w].mss);
	/* Alignment: a chunk that fits into a segment is not split, unless an ACK came in its middle. */
	bool open_wnd = !m->p->link[w].cut && !m->p->slow_reader[!w] && m->p->cfg[!w].rcv_space >= 65535 &&
			!m->p->hostile && !m->p->link[w].mtu;
	if (o->len > 0 && o->off > 0 && open_wnd && tcpl_chunk(&m->s[w].c, o->chunk)->len <= tcpl_emss(&m->s[w].c))
		sim_fail(m, "%c: segment starts inside a chunk that fits", 'A' + w);
	fill_payload(m, w, k, o);
	m->r->segments++;
	trace_seg(m, w, o->rexmit ? "SEND again" : "SEND", &k->seg);
	transmit(m, w, i);
}

/*
 * Chooses the path: in turns, without paths on which a timeout has waited. In SYN states too, since the SYN's path may
 * be dead.
 */
static bool next_out(struct sim *m, int w, struct tcpl_out *o)
{
	struct side *e = &m->s[w];

	if (m->p->paths == 0)
		return tcpl_out(&e->c, m->now, o);
	uint32_t lame = tcpl_lame(&e->c, m->now), next = e->path;
	do {
		next = (next + 1) % m->p->paths;
	} while ((lame >> next & 1) && next != e->path);
	if (!tcpl_may_spread(&e->c) && !lame)
		next = 0;
	tcpl_use_path(&e->c, next);
	if (!tcpl_out(&e->c, m->now, o))
		return false;
	if (o->len > 0 || (o->flags & (TCPL_SYN | TCPL_FIN | TCPL_RST)))
		e->path = next;
	return true;
}

static void turn(struct sim *m, int w)
{
	struct side *e = &m->s[w];
	struct tcpl_out o;
	struct tcpl_ev ev;

	e->turn_at = RN_NEVER;
	for (uint32_t i = 0; i < e->n_inbox; i++)
		receive(m, w, e->inbox[i]);
	e->n_inbox = 0;
	if (m->cookie_out && w == 1) {
		m->cookie_out = false;
		send_out(m, w, &m->cookie);
	}
	if (!e->opened || e->ended) {
		while (e->opened && next_out(m, w, &o))
			send_out(m, w, &o);
		return;
	}
	if (m->p->abort_at == w && e->queued >= m->p->bytes[w] / 2 && e->got >= m->p->bytes[!w] / 2) {
		tcpl_abort(&e->c);
		end_side(m, w);
	}
	if (tcpl_next_wake(&e->c) <= m->now) {
		tcpl_timer(&e->c, m->now, &ev);
		on_events(m, w, &ev);
	}
	take_ready(m, w);
	if (!e->ended)
		produce(m, w);
	if (m->p->slow_reader[w]) {
		if (rn_rng_chance(&m->rng, 200000))
			e->unread -= rn_rng_chance(&m->rng, 500000) ? e->unread : e->unread / 2;
		uint64_t space = m->p->cfg[w].rcv_space;
		tcpl_set_rcv_space(&e->c, (uint32_t)(space > e->unread ? space - e->unread : 0));
		if (e->unread) /* the slow reader gets another turn */
			e->turn_at = m->now + 300000;
	}
	while (next_out(m, w, &o))
		send_out(m, w, &o);
	check_conn(m, w);
}

static bool step(struct sim *m)
{
	uint64_t next = m->n_heap ? m->heap[0].at : RN_NEVER;

	for (int w = 0; w < 2; w++) {
		struct side *e = &m->s[w];
		next = rn_min_u64(next, e->turn_at);
		if (e->opened && !e->ended)
			next = rn_min_u64(next, tcpl_next_wake(&e->c));
	}
	if (next == RN_NEVER)
		return false;
	if (next < m->now)
		next = m->now;
	m->now = next;
	m->r->events++;
	while (m->n_heap && m->heap[0].at <= next) {
		uint32_t i = sim_pop(m);
		struct side *e = &m->s[m->pkt[i].to];
		e->inbox[e->n_inbox++] = i;
		uint64_t at = next + (m->p->turn_ns ? rn_rng_u64(&m->rng) % m->p->turn_ns : 0);
		e->turn_at = rn_min_u64(e->turn_at, at);
	}
	for (int w = 0; w < 2; w++) {
		struct side *e = &m->s[w];
		if (e->turn_at <= next || (e->opened && !e->ended && tcpl_next_wake(&e->c) <= next))
			turn(m, w);
	}
	return true;
}

static void setup(struct sim *m)
{
	make_pattern();
	for (uint32_t i = 0; i < SIM_PKTS; i++) {
		m->pkt[i].data = payload[i];
		m->free_pkt[m->n_free++] = i;
	}
	for (int w = 0; w < 2; w++) {
		struct side *e = &m->s[w];
		struct tcpl_mem mem = { .chunk = e->chunk,
					.rec = e->rec,
					.hold = e->hold,
					.chunk_n = m->p->chunk_n,
					.rec_n = m->p->rec_n,
					.hold_n = m->p->hold_n,
					.sent = e->sent,
					.track = m->p->paths != 0 ? e->track : NULL };
		tcpl_init(&e->c, &m->p->cfg[w], &mem);
		e->turn_at = RN_NEVER;
	}
	m->now = RN_NS_PER_S;
	for (int w = 0; w < (m->p->simultaneous ? 2 : 1); w++) {
		tcpl_connect(&m->s[w].c, m->now, m->p->iss[w]);
		m->s[w].opened = true;
		m->s[w].turn_at = m->now;
	}
}

static void verify(struct sim *m)
{
	struct sim_result *r = m->r;
	bool clean = !m->p->hostile && m->p->abort_at < 0;

	for (int w = 0; w < 2; w++) {
		struct side *e = &m->s[w];
		r->delivered[w] = e->got;
		r->stats[w] = e->c.stats;
		if (clean && (!e->ended || r->reset || r->timeout))
			sim_fail(m, "%c: not ended in order: %s, got %" PRIu64 " of %" PRIu64 ", sent %" PRIu64 "%s%s",
				 'A' + w, tcpl_state_name(tcpl_get_state(&e->c)), e->got, m->p->bytes[!w], e->queued,
				 r->reset ? ", reset" : "", r->timeout ? ", timeout" : "");
		if (clean && (e->got != m->p->bytes[!w] || !e->peer_fin))
			sim_fail(m, "%c: got %" PRIu64 " of %" PRIu64 " bytes", 'A' + w, e->got, m->p->bytes[!w]);
		if (!e->ended) { /* on hostile links one side may be left over: end it */
			tcpl_abort(&e->c);
			end_side(m, w);
		}
		for (uint32_t i = 0; i < e->n_inbox; i++)
			sim_pkt_put(m, e->inbox[i], PKT_FLIGHT);
	}
	while (m->n_heap)
		sim_pkt_put(m, sim_pop(m), PKT_FLIGHT);
	if (m->n_free != SIM_PKTS)
		sim_fail(m, "%u packets never came back", SIM_PKTS - m->n_free);
	r->end_ns = m->now;
}

void sim_run(const struct sim_profile *p, uint64_t seed, bool trace, struct sim_result *r)
{
	struct sim *m = calloc(1, sizeof(*m));

	*r = (struct sim_result){ .ok = true };
	m->p = p;
	m->r = r;
	m->trace = trace;
	rn_rng_seed(&m->rng, seed);
	setup(m);
	while (r->ok && step(m)) {
		if (m->s[0].ended && m->s[1].ended)
			break;
		if (r->events > 3000000 || m->now > 4000 * RN_NS_PER_S) {
			if (!p->hostile)
				sim_fail(m, "no end in sight: %u events, %.1f s", r->events, (double)m->now / 1e9);
			break;
		}
	}
	verify(m);
	free(m);
}
