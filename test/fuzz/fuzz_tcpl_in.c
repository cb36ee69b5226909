/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP connection with a peer that sends anything: the input is a list of commands (segments, time, actions of the
 * owner). For any input: calls return, the scoreboard is consistent, slices lie inside their packets, the delivered
 * stream has no gap, and each reference comes back exactly once.
 */
#include <stdlib.h>
#include <string.h>

#include "../tcp_lite/invariants.h"
#include "base/rn_be.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ISS  0xffffff00u
#define IRS  0xfffffff0u
#define EXID 0x524e4957u
#define REFS 4096u

struct input {
	const uint8_t *p;
	size_t left;
};

struct world {
	struct tcpl_conn c;
	struct tcpl_cfg cfg;
	struct tcpl_chunk chunk[16];
	struct tcpl_txrec rec[16];
	struct tcpl_sent sent[16];
	struct tcpl_hold hold[8];
	uint64_t now;
	uint64_t chunks_in, chunks_out;
	uint32_t next_seq; /* sequence number of the next byte of the delivered stream */
	bool synced;
	uint32_t len_of[REFS];
	bool held[REFS];
	uint32_t n_refs;
};

static void check(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t u8(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static uint16_t u16(struct input *in)
{
	uint16_t hi = u8(in);

	return (uint16_t)(hi << 8 | u8(in));
}

static void take(struct world *w, const struct tcpl_slice *s)
{
	check(s->len > 0);
	if (w->synced)
		check(s->seq == w->next_seq);
	w->synced = true;
	w->next_seq = s->seq + s->len;
	if (s->ref != 0)
		check(s->ref < REFS && rn_in_range(s->off, s->len, w->len_of[s->ref]));
}

static void release(struct world *w, uint64_t ref)
{
	if (ref == 0)
		return;
	check(ref < REFS && w->held[ref]);
	w->held[ref] = false;
}

static void settle(struct world *w)
{
	struct tcpl_slice s;
	uint64_t ref;

	while (tcpl_rx_next(&w->c, &s)) {
		take(w, &s);
		release(w, s.ref);
	}
	while (tcpl_acked(&w->c, &ref))
		check(ref == ++w->chunks_out);
}

static void turn(struct world *w)
{
	struct tcpl_out o;
	uint32_t n = 0;

	while (tcpl_out(&w->c, w->now, &o)) {
		check(++n < 1000 && o.optlen <= TCPL_OPT_MAX && (o.optlen & 3) == 0);
		check(o.len + o.optlen <= w->cfg.mss);
		uint32_t room = 0;
		if (o.len > 0)
			check(!rn_seq_lt(o.chunk, w->c.q_head) && rn_seq_lt(o.chunk, w->c.q_tail));
		for (uint32_t i = o.chunk; i != w->c.q_tail && room < o.off + o.len; i++)
			room += tcpl_chunk(&w->c, i)->len;
		check(o.len == 0 || room >= o.off + o.len);
	}
	check(tcpl_broken(&w->c) == NULL);
	check(tcpl_budget(&w->c) <= UINT32_C(1) << 30);
}

static void segment(struct world *w, struct input *in)
{
	uint8_t opt[TCPL_OPT_MAX], how = u8(in);
	struct tcpl_seg s = { .flags = u8(in), .ref = ++w->n_refs, .opt = opt };
	struct tcpl_ev ev;

	/* Numbers near the valid ones, where the interesting cases are, or anywhere. */
	s.seq = w->c.rcv_nxt + (how & 1 ? (uint32_t)u16(in) << 16 : 0) + (how & 2 ? (uint32_t)(int16_t)u16(in) : 0);
	s.ack = (how & 4 ? w->c.snd_nxt : w->c.snd_una) + (how & 8 ? (uint32_t)(int16_t)u16(in) : 0);
	s.len = how & 16 ? u16(in) % 9000 : 0;
	s.wnd = how & 32 ? u16(in) : 60000;
	if (how & 64) {
		s.optlen = u8(in) % (TCPL_OPT_MAX + 1);
		for (uint32_t i = 0; i < s.optlen; i++)
			opt[i] = u8(in);
	} else if (how & 128) { /* a SACK block with nearly valid numbers, behind timestamps if they are in use */
		if (w->c.flags & F_TS)
			s.optlen = tcpl_opt_ts(w->c.ts_recent + u8(in), tcpl_tsval(&w->c, w->now) - u8(in), opt);
		rn_store_be32(opt + s.optlen, 0x0101050a);
		rn_store_be32(opt + s.optlen + 4, w->c.snd_una + u16(in));
		rn_store_be32(opt + s.optlen + 8, w->c.snd_una + u16(in));
		s.optlen += 12;
	} else if (w->c.flags & F_TS) {
		s.optlen = tcpl_opt_ts(w->c.ts_recent + 1, tcpl_tsval(&w->c, w->now), opt);
	}
	w->len_of[s.ref] = s.len;
	enum tcpl_verdict v = tcpl_in(&w->c, w->now, &s, &ev);
	check(v < TCPL_VERDICT_COUNT && (v == TCPL_OK || !ev.held));
	w->held[s.ref] = ev.held;
	if (ev.bits & TCPL_EV_DATA) {
		check(ev.slice.ref == s.ref);
		take(w, &ev.slice);
	}
	if (ev.held)
		check(ev.ooo.len > 0 && rn_in_range(ev.ooo.off, ev.ooo.len, s.len));
	if (!(how & 1))
		settle(w);
}

static void place(struct world *w, uint32_t which)
{
	uint32_t n = w->c.h_tail - w->c.h_ready;
	uint64_t ref;

	if (n > 0 && tcpl_ooo_placed(&w->c, w->c.mem.hold[w->c.h_ready + which % n].seq, &ref))
		release(w, ref);
}

static void command(struct world *w, struct input *in)
{
	struct tcpl_ev ev;
	uint8_t op = u8(in);

	switch (op & 15) {
	case 0: w->now += (uint64_t)u16(in) << (op >> 4) * 2; break;
	case 1: w->now = tcpl_next_wake(&w->c) == RN_NEVER ? w->now : rn_max_u64(w->now, tcpl_next_wake(&w->c)); break;
	case 2:
		if (tcpl_send(&w->c, 1 + u16(in) % 5000, w->chunks_in + 1))
			w->chunks_in++;
		break;
	case 3: tcpl_set_rcv_space(&w->c, (uint32_t)u16(in) << (op >> 4 & 3)); break;
	case 4: place(w, op >> 4); break;
	case 5:
		if (op >> 4 == 0)
			tcpl_shutdown(&w->c, w->now);
		break;
	case 6:
		if (op >> 4 == 0)
			tcpl_abort(&w->c);
		break;
	case 7: tcpl_ack_now(&w->c); break;
	default:
		segment(w, in);
		if (op >> 4 & 1)
			return; /* the next segment arrives in the same turn */
	}
	tcpl_timer(&w->c, w->now, &ev);
	turn(w);
}

static void start(struct world *w, struct input *in)
{
	struct tcpl_mem mem = { .chunk = w->chunk,
				.rec = w->rec,
				.hold = w->hold,
				.chunk_n = 16,
				.rec_n = 16,
				.hold_n = 1 + u8(in) % 8,
				.sent = w->sent };
	struct tcpl_seg syn = { .seq = IRS, .wnd = 40000, .flags = TCPL_SYN };
	uint8_t opt[TCPL_OPT_MAX], how = u8(in);

	tcpl_cfg_default(&w->cfg, 1460);
	w->now = RN_NS_PER_S;
	w->cfg.rcv_space = 1000 + u16(in);
	w->cfg.retries = 5;
	w->cfg.exid = how & 8 ? EXID : 0;
	w->cfg.keep_idle_ns = how & 16 ? RN_NS_PER_S : 0;
	w->cfg.cc = how & 128 ? &tcpl_bbr : how & 32 ? &tcpl_cubic : &tcpl_newreno;
	tcpl_init(&w->c, &w->cfg, &mem);
	if (how & 64) {
		tcpl_connect(&w->c, w->now, ISS);
		turn(w);
		return;
	}
	syn.opt = opt;
	uint32_t offer = (how & 1 ? F_SACK : 0) | (how & 2 ? F_TS : 0) | (how & 4 ? F_WSCALE : 0) |
			 (how & 8 ? F_EXID : 0);
	syn.optlen = tcpl_opt_syn(&w->cfg, offer, false, 99, 0, opt);
	check(tcpl_accept_syn(&w->c, w->now, ISS, &syn) == TCPL_OK);
	turn(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	struct input in = { data, size };
	uint64_t ref;

	start(w, &in);
	while (in.left > 0 && w->n_refs + 1 < REFS)
		command(w, &in);
	tcpl_abort(&w->c);
	turn(w);
	check(tcpl_next_wake(&w->c) == RN_NEVER);
	settle(w);
	while (tcpl_tx_drop(&w->c, &ref))
		check(ref == ++w->chunks_out);
	check(w->chunks_in == w->chunks_out);
	while (tcpl_rx_drop(&w->c, &ref))
		release(w, ref);
	for (uint32_t i = 0; i < REFS; i++)
		check(!w->held[i]);
	free(w);
	return 0;
}
