/* SPDX-License-Identifier: BSD-3-Clause */
#include "line.h"

#include <stdlib.h>
#include <string.h>

#include "base/rn_rng.h"
#include "tcp_lite/tcpl_int.h"

#define PIPE    (1u << 16) /* frames under way in one direction at most; further ones are lost */
#define CHUNKS  (1u << 16)
#define RECS    (1u << 15) /* the most that tcp_lite takes */
#define HOLDS   (1u << 15)
#define MSS     1448u
#define BACKLOG 64u /* packets that wait in a flow of udpr.h to be sent, as in rnicd */
#define COME    (2 * UDPR_WIDE)

struct frame {
	uint64_t at, user; /* user: DATA, its place in the flow's order */
	uint32_t flow;
	union {
		struct udpr_hdr h;
		struct {
			struct tcpl_seg seg;
			uint8_t opt[TCPL_OPT_MAX];
		} tcp;
	} u;
};

struct pipe {
	struct frame slot[PIPE];
	uint32_t head, tail;
};

struct tcp_end {
	struct tcpl_conn c;
	struct tcpl_chunk chunk[CHUNKS];
	struct tcpl_txrec rec[RECS];
	struct tcpl_sent sent[RECS];
	struct tcpl_hold hold[HOLDS];
};

struct tcp_flow {
	struct tcpl_cfg cfg;
	struct tcp_end tx, rx;
	bool open;
};

struct rd_flow {
	struct udpr_tx tx;
	struct udpr_rx rx;
	struct udpr_pkt ring[UDPR_WIDE];
	uint64_t bits[UDPR_WIDE / 64];
	uint64_t given;        /* packets given to the flow so far */
	uint64_t come[COME];   /* at place % COME: the place + 1 of the latest packet that has come there */
	uint64_t wake, rx_due; /* when the sender and the receiver want a turn */
	struct line_seen seen;
};

struct flow {
	struct line_flow_cfg cfg;
	struct tcp_flow *tcp;
	struct rd_flow *rd;
	uint64_t got;
	bool stopped;
};

struct line {
	struct line_cfg cfg;
	struct pipe there, back;
	struct flow flow[LINE_FLOWS];
	uint32_t n;
	struct rn_rng rng;
	uint64_t now, free_at, queue_ns, way_ns; /* way_ns: from the line to the other end */
};

static const struct udpr_cfg udpr_cfg = { .target = 100 * RN_NS_PER_US, /* as rnicd's */
					  .patience = 5 * RN_NS_PER_S,
					  .ack_delay = 50 * RN_NS_PER_US };
static const uint64_t secret[2] = { 0x0123456789abcdef, 0xfedcba9876543210 };

/* ---- the line ---- */

static uint64_t time_of(const struct line *l, uint32_t octets) { return (uint64_t)octets * 8 / l->cfg.gbps; }

static struct frame *append(struct pipe *p, uint64_t at, uint32_t flow)
{
	if (p->tail - p->head == PIPE)
		return NULL;
	struct frame *f = &p->slot[p->tail++ % PIPE];

	f->at = at;
	f->flow = flow;
	return f;
}

/* A place for a frame on the common line; NULL: the frame is lost. */
static struct frame *enter(struct line *l, uint32_t flow, uint32_t octets)
{
	const uint64_t start = rn_max_u64(l->free_at, l->now);

	if (start - l->now > l->queue_ns || rn_rng_chance(&l->rng, l->cfg.loss))
		return NULL;
	l->free_at = start + time_of(l, octets);
	return append(&l->there, l->free_at + l->way_ns, flow);
}

/* A frame just entered changes places with the one before. */
static void maybe_overtake(struct line *l)
{
	struct pipe *p = &l->there;

	if (p->tail - p->head < 2 || !rn_rng_chance(&l->rng, l->cfg.reorder))
		return;
	struct frame *a = &p->slot[(p->tail - 1) % PIPE], *b = &p->slot[(p->tail - 2) % PIPE], last = *a;
	const uint64_t at = b->at;

	*a = *b;
	a->at = last.at;
	*b = last;
	b->at = at;
}

/* The way back takes up to two frames' time longer at random, so that flows do not keep step with each other. */
static struct frame *answer(struct line *l, uint32_t flow)
{
	const uint64_t at = l->now + l->way_ns + rn_rng_below(&l->rng, 2 * (uint32_t)time_of(l, LINE_FRAME));
	const struct pipe *p = &l->back;

	if (rn_rng_chance(&l->rng, l->cfg.loss))
		return NULL;
	return append(&l->back, p->head == p->tail ? at : rn_max_u64(at, p->slot[(p->tail - 1) % PIPE].at), flow);
}

/* ---- TCP ---- */

static void put_segment(struct frame *f, const struct tcpl_out *o)
{
	f->u.tcp.seg = (struct tcpl_seg){ .seq = o->seq,
					  .ack = o->ack,
					  .len = o->len,
					  .wnd = o->wnd,
					  .flags = o->flags,
					  .optlen = o->optlen,
					  .ref = 1 };
	memcpy(f->u.tcp.opt, o->opt, o->optlen);
}

static void tcp_send(struct line *l, uint32_t i)
{
	struct tcpl_conn *c = &l->flow[i].tcp->tx.c;
	struct tcpl_out o;
	uint64_t ref;

	while (tcpl_acked(c, &ref))
		;
	while (!l->flow[i].stopped && tcpl_room(c) > 0 && tcpl_unsent(c) < BACKLOG * MSS && tcpl_send(c, MSS, 1))
		;
	while (tcpl_out(c, l->now, &o)) {
		struct frame *f = enter(l, i, o.len + LINE_FRAME - MSS);
		if (f == NULL)
			continue;
		put_segment(f, &o);
		maybe_overtake(l);
	}
}

static void tcp_answer(struct line *l, uint32_t i)
{
	struct tcpl_conn *c = &l->flow[i].tcp->rx.c;
	struct tcpl_slice s;
	struct tcpl_out o;

	while (tcpl_rx_next(c, &s))
		l->flow[i].got += s.len;
	while (tcpl_out(c, l->now, &o)) {
		struct frame *f = answer(l, i);
		if (f != NULL)
			put_segment(f, &o);
	}
}

static void tcp_in(struct line *l, struct frame *f, bool there)
{
	struct flow *w = &l->flow[f->flow];
	struct tcpl_conn *c = there ? &w->tcp->rx.c : &w->tcp->tx.c;
	struct tcpl_ev ev;

	f->u.tcp.seg.opt = f->u.tcp.opt;
	if (there && !w->tcp->open) {
		w->tcp->open = tcpl_accept_syn(c, l->now, 7, &f->u.tcp.seg) == TCPL_OK;
	} else {
		(void)tcpl_in(c, l->now, &f->u.tcp.seg, &ev);
		if (ev.bits & TCPL_EV_DATA)
			w->got += ev.slice.len;
	}
	if (there)
		tcp_answer(l, f->flow);
	else
		tcp_send(l, f->flow);
}

static void tcp_timers(struct line *l, uint32_t i)
{
	struct tcp_flow *t = l->flow[i].tcp;
	struct tcpl_ev ev;

	if (tcpl_next_wake(&t->tx.c) <= l->now) {
		tcpl_timer(&t->tx.c, l->now, &ev);
		tcp_send(l, i);
	}
	if (t->open && tcpl_next_wake(&t->rx.c) <= l->now) {
		tcpl_timer(&t->rx.c, l->now, &ev);
		tcp_answer(l, i);
	}
}

static void tcp_end_begin(struct tcp_end *e, const struct tcpl_cfg *cfg)
{
	const struct tcpl_mem mem = { .chunk = e->chunk,
				      .rec = e->rec,
				      .hold = e->hold,
				      .chunk_n = CHUNKS,
				      .rec_n = RECS,
				      .hold_n = HOLDS,
				      .sent = e->sent };

	tcpl_init(&e->c, cfg, &mem);
}

/* Windows that no path fills: only congestion control bounds the connection. */
static void tcp_begin(struct line *l, uint32_t i)
{
	struct tcp_flow *t = l->flow[i].tcp = calloc(1, sizeof(*t));

	tcpl_cfg_default(&t->cfg, MSS + 12);
	t->cfg.cc = l->flow[i].cfg.cc;
	t->cfg.wscale = 14;
	t->cfg.rcv_space = t->cfg.cwnd_max = 1u << 29;
	tcp_end_begin(&t->tx, &t->cfg);
	tcp_end_begin(&t->rx, &t->cfg);
	tcpl_connect(&t->tx.c, l->now, 1000 * i);
	tcp_send(l, i);
}

/* ---- udpr.h ---- */

static void rd_tell(struct rd_flow *d)
{
	uint64_t user;
	bool ok;

	while (udpr_tx_done(&d->tx, &user, &ok)) {
		d->seen.told += ok;
		d->seen.lost += !ok;
		d->seen.untrue += ok && d->come[user % COME] != user + 1;
	}
}

static void rd_send(struct line *l, uint32_t i)
{
	struct rd_flow *d = l->flow[i].rd;
	struct udpr_tx *t = &d->tx;
	const uint64_t end = l->flow[i].cfg.packets == 0 ? UINT64_MAX : l->flow[i].cfg.packets;
	const uint64_t most = l->flow[i].stopped ? 0 : end;
	struct udpr_hdr h;
	uint64_t user = 0;

	rd_tell(d);
	udpr_tx_tick(t, l->now);
	rd_tell(d);
	while (t->end - t->nxt < BACKLOG && d->given < most && udpr_tx_send(t, d->given, l->now))
		d->given++;
	while (udpr_tx_next(t, l->now, &h, &user)) {
		struct frame *f = enter(l, i, LINE_FRAME);
		if (l->flow[i].cfg.tx == LINE_OLD)
			h.flags &= (uint8_t)~UDPR_F_MUCH;
		if (f == NULL)
			continue;
		f->u.h = h;
		f->user = user;
		maybe_overtake(l);
	}
	d->seen.widest = rn_max_u32(d->seen.widest, t->nxt - t->una);
	d->wake = udpr_tx_timer(t, l->now);
}

static void rd_answer(struct line *l, uint32_t i, const struct udpr_hdr *h)
{
	struct frame *f = answer(l, i);

	if (f != NULL)
		f->u.h = *h;
}

static void rd_ack(struct line *l, uint32_t i)
{
	struct rd_flow *d = l->flow[i].rd;
	struct udpr_hdr h;

	d->rx_due = udpr_rx_due(&d->rx, udpr_cfg.ack_delay);
	if (d->rx_due > l->now)
		return;
	udpr_rx_ack(&d->rx, l->now, &h);
	rd_answer(l, i, &h);
	d->rx_due = RN_NEVER;
}

static void rd_data_in(struct line *l, const struct frame *f)
{
	struct flow *w = &l->flow[f->flow];
	struct rd_flow *d = w->rd;
	struct udpr_hdr h = f->u.h, out;

	if (h.kind == UDPR_HELLO) {
		udpr_cookie_make(secret, &f->flow, sizeof(f->flow), &h, l->now, &out);
		rd_answer(l, f->flow, &out);
		return;
	}
	if (w->cfg.rx == LINE_OLD)
		h.flags &= (uint8_t)~UDPR_F_MUCH;
	if (udpr_rx_open(&d->rx, secret, &f->flow, sizeof(f->flow), &h, l->now) != UDPR_OK) {
		udpr_unknown(&h, &out);
		rd_answer(l, f->flow, &out);
		return;
	}
	const enum udpr_verdict v = udpr_rx_data(&d->rx, &h, l->now);
	d->seen.far += v == UDPR_FAR;
	if (v == UDPR_OK) {
		w->got++;
		d->seen.twice += d->come[f->user % COME] == f->user + 1;
		d->seen.misplaced += (uint32_t)f->user != h.number;
		d->come[f->user % COME] = f->user + 1;
	}
	if (d->rx.much && d->rx.wide == NULL)
		udpr_rx_widen(&d->rx, d->bits);
	rd_ack(l, f->flow);
}

static void rd_answer_in(struct line *l, const struct frame *f)
{
	struct flow *w = &l->flow[f->flow];
	struct rd_flow *d = w->rd;
	struct udpr_hdr h = f->u.h;

	if (w->cfg.tx == LINE_OLD && h.kind == UDPR_ACK) {
		d->seen.strange += h.sacks > UDPR_SACKS || h.flags >> UDPR_F_WINDOW != 0;
		h.flags &= UDPR_F_TWICE | UDPR_F_LATE;
	}
	d->seen.strange += udpr_tx_in(&d->tx, &h, l->now) == UDPR_FAR;
	rd_send(l, f->flow);
}

static void rd_begin(struct line *l, uint32_t i)
{
	struct rd_flow *d = l->flow[i].rd = calloc(1, sizeof(*d));

	d->rx_due = RN_NEVER;
	udpr_tx_open(&d->tx, &udpr_cfg, d->ring, UDPR_WIDE, rn_rng_u32(&l->rng) | 1);
	rd_send(l, i);
}

/* ---- all flows ---- */

struct line *line_new(const struct line_cfg *cfg)
{
	struct line *l = calloc(1, sizeof(*l));

	l->cfg = *cfg;
	l->now = RN_NS_PER_S;
	l->queue_ns = cfg->rtt_ns * cfg->quarters / 4;
	l->way_ns = cfg->rtt_ns / 2;
	rn_rng_seed(&l->rng, cfg->seed);
	return l;
}

void line_free(struct line *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		free(l->flow[i].tcp);
		free(l->flow[i].rd);
	}
	free(l);
}

uint32_t line_add(struct line *l, const struct line_flow_cfg *cfg)
{
	const uint32_t i = l->n++;

	l->flow[i].cfg = *cfg;
	if (cfg->cc != NULL)
		tcp_begin(l, i);
	else
		rd_begin(l, i);
	return i;
}

static uint64_t next_event(const struct line *l, uint64_t until)
{
	uint64_t next = until;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct flow *w = &l->flow[i];
		if (w->rd != NULL) {
			next = rn_min_u64(next, rn_min_u64(w->rd->wake, w->rd->rx_due));
		} else {
			next = rn_min_u64(next, tcpl_next_wake(&w->tcp->tx.c));
			next = rn_min_u64(next, w->tcp->open ? tcpl_next_wake(&w->tcp->rx.c) : RN_NEVER);
		}
	}
	if (l->there.head != l->there.tail)
		next = rn_min_u64(next, l->there.slot[l->there.head % PIPE].at);
	if (l->back.head != l->back.tail)
		next = rn_min_u64(next, l->back.slot[l->back.head % PIPE].at);
	return next;
}

static void frames_in(struct line *l, struct pipe *p)
{
	while (p->head != p->tail && p->slot[p->head % PIPE].at <= l->now) {
		struct frame *f = &p->slot[p->head % PIPE];
		if (l->flow[f->flow].tcp != NULL)
			tcp_in(l, f, p == &l->there);
		else if (p == &l->there)
			rd_data_in(l, f);
		else
			rd_answer_in(l, f);
		p->head++;
	}
}

void line_run(struct line *l, uint64_t ns)
{
	const uint64_t until = l->now + ns;

	while (l->now < until) {
		l->now = rn_max_u64(l->now, next_event(l, until));
		frames_in(l, &l->there);
		frames_in(l, &l->back);
		for (uint32_t i = 0; i < l->n; i++) {
			struct rd_flow *d = l->flow[i].rd;
			if (d == NULL) {
				tcp_timers(l, i);
				continue;
			}
			if (d->wake <= l->now)
				rd_send(l, i);
			if (d->rx_due <= l->now)
				rd_ack(l, i);
		}
	}
}

void line_stop(struct line *l, uint32_t flow) { l->flow[flow].stopped = true; }

void line_longer(struct line *l, uint64_t ns) { l->way_ns += ns; }

uint64_t line_got(const struct line *l, uint32_t flow)
{
	const struct flow *w = &l->flow[flow];

	return w->tcp != NULL ? w->got / MSS : w->got;
}

double line_holds(const struct line *l, uint64_t ns) { return (double)ns / (double)time_of(l, LINE_FRAME); }

void line_look(const struct line *l, uint32_t flow, struct line_seen *seen) { *seen = l->flow[flow].rd->seen; }
