/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timed tables of segments in and out, in packetdrill's manner: `test_script FILE.pkt...`, one TAP case each.
 *
 *	set NAME VALUE ...	before the first timed line: mss wscale sack ts ack_psh init_cwnd rcv_space hold recs
 *				chunks delack min_rto init_rto max_rto peer_delack keep_idle keep_intvl keep_probes
 *				retries syn_retries patience time_wait fin_wait challenge cwnd_max (times as below),
 *				cc newreno|cubic
 *	+TIME COMMAND		the clock moves on by TIME (0, 5us, 10ms, 2s, 3d), due timers run, then:
 *	  connect | listen	active open | the next SYN is accepted
 *	  < SEG, <& SEG		a segment arrives; with & the owner's turn does not end yet
 *	  > SEG			this segment has left, exactly now and in this order
 *	  none			nothing (more) has left
 *	  send N [N...]		chunks are queued; refused N: it must not be taken
 *	  too_big SEQ N		ICMP: the segment at SEQ was too large, N bytes of payload and options are not
 *	  stall TIME | behind 0|1	the owner has not run for the last TIME | has not looked at all it received
 *	  shutdown | abort | ack_now | space N | place SEQ
 *	  state S | event E...	state now | the events since the last such line ("event none")
 *	  verdict V		of the last segment in
 *	  acked N | got N	chunks that came back since the last such line | bytes delivered so far
 *	  path_mss N | budget N | cwnd N | ssthresh N | rto TIME | stat NAME N
 *
 *	SEG: FLAGS SEQ:END(LEN) [ack N] [win N] [<opt,opt...>]  FLAGS of S F R P U . as in packetdrill, numbers
 *	relative to the ISNs, win as it stands in the header. Options: mss N, wscale N, sackOK, TS N ecr N|last, sack
 *	A:B [A:B...], raw HEX. In an expected segment only what is written is compared, but MSS, window scale and
 *	SACK must be written.
 * A segment that left and was not expected is an error, as is one that is late.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "base/rn_seq.h"
#include "tcp_lite/tcpl.h"
#include "tcp_lite/tcpl_int.h"

#define ISS  0xfffffe00u /* wraps early */
#define IRS  0xffffff00u
#define MAXQ 256u

struct run {
	struct tcpl_conn c;
	struct tcpl_cfg cfg;
	struct tcpl_mem mem;
	struct tcpl_chunk chunk[256];
	struct tcpl_txrec rec[256];
	struct tcpl_sent sent[256];
	struct tcpl_hold hold[256];
	uint64_t now;
	bool begun, listening;
	struct {
		struct tcpl_out o;
		uint64_t at;
	} q[MAXQ];
	uint32_t q_head, q_tail;
	struct tcpl_turns turns;
	uint32_t events, acked, got, last_ts;
	uint64_t next_ref, next_pkt, patience;
	enum tcpl_verdict verdict;
	char err[512];
};

static void fail(struct run *r, const char *fmt, ...)
{
	va_list ap;

	if (r->err[0])
		return;
	va_start(ap, fmt);
	vsnprintf(r->err, sizeof(r->err), fmt, ap);
	va_end(ap);
}

/* ---- words ---- */

static char *word(char **p)
{
	while (**p == ' ' || **p == '\t')
		(*p)++;
	char *w = *p;
	while (**p && **p != ' ' && **p != '\t')
		(*p)++;
	if (**p)
		*(*p)++ = 0;
	return *w ? w : NULL;
}

static uint64_t duration(const char *w)
{
	char *end;
	double v = strtod(w, &end);

	if (strcmp(end, "us") == 0)
		return (uint64_t)(v * 1e3 + 0.5);
	if (strcmp(end, "ms") == 0)
		return (uint64_t)(v * 1e6 + 0.5);
	if (strcmp(end, "d") == 0)
		return (uint64_t)(v * 86400e9 + 0.5);
	return (uint64_t)(v * 1e9 + 0.5);
}

/* ---- the engine's owner ---- */

static void take(struct run *r, const struct tcpl_slice *s)
{
	if (s->seq != IRS + 1 + r->got)
		fail(r, "slice at %u, expected %u", s->seq - IRS, 1 + r->got);
	r->got += s->len;
}

static void settle(struct run *r)
{
	struct tcpl_slice s;
	uint64_t ref;

	while (tcpl_rx_next(&r->c, &s))
		take(r, &s);
	while (tcpl_acked(&r->c, &ref))
		r->acked++;
}

static void turn(struct run *r)
{
	struct tcpl_out o;

	settle(r);
	while (tcpl_out(&r->c, r->now, &o)) {
		if (r->q_tail - r->q_head == MAXQ) {
			fail(r, "the engine sends without end");
			return;
		}
		if (o.optlen >= 12 && rn_load_be32(o.opt) == 0x0101080a)
			r->last_ts = rn_load_be32(o.opt + 4);
		r->q[r->q_tail % MAXQ].o = o;
		r->q[r->q_tail++ % MAXQ].at = r->now;
	}
}

static void advance(struct run *r, uint64_t by)
{
	uint64_t to = r->now + by;
	struct tcpl_ev ev;

	for (int n = 0; r->begun && tcpl_next_wake(&r->c) <= to; n++) {
		r->now = rn_max_u64(r->now, tcpl_next_wake(&r->c));
		tcpl_timer(&r->c, r->now, &ev);
		r->events |= ev.bits;
		turn(r);
		if (n > 100000) {
			fail(r, "a timer does not stop");
			break;
		}
	}
	r->now = to;
}

/* ---- segments ---- */

struct seg {
	uint8_t flags;
	uint32_t seq, len, ack, wnd;
	bool has_ack, has_wnd;
	uint8_t opt[64];
	uint8_t optlen;
	struct tcpl_opts o;
};

static uint8_t flags_of(const char *w)
{
	uint8_t f = 0;

	for (; *w; w++)
		f |= (uint8_t)(*w == 'S'   ? TCPL_SYN
			       : *w == 'F' ? TCPL_FIN
			       : *w == 'R' ? TCPL_RST
			       : *w == 'P' ? TCPL_PSH
			       : *w == 'U' ? TCPL_URG
			       : *w == '.' ? TCPL_ACK
					   : 0);
	return f;
}

static void add(struct seg *s, const void *p, uint32_t n)
{
	if (s->optlen + n > sizeof(s->opt))
		return;
	memcpy(s->opt + s->optlen, p, n);
	s->optlen = (uint8_t)(s->optlen + n);
}

static void add32(struct seg *s, uint32_t v)
{
	uint8_t b[4];

	rn_store_be32(b, v);
	add(s, b, 4);
}

static void add_sack(struct seg *s, char *p, uint32_t base)
{
	uint32_t n = 0, ab[8];
	char *w;

	while ((w = word(&p)) != NULL && n < 8 && sscanf(w, "%u:%u", &ab[n], &ab[n + 1]) == 2)
		n += 2;
	add32(s, 0x01010500u | (2 + 4 * n));
	for (uint32_t i = 0; i < n; i++)
		add32(s, base + ab[i]);
}

static void add_opt(struct run *r, struct seg *s, char *p, uint32_t sack_base)
{
	char *w = word(&p);
	uint8_t b[4] = { 1, 1, 4, 2 };

	if (!w)
		return;
	if (strcmp(w, "mss") == 0) {
		add32(s, 0x02040000u | (uint32_t)atoi(word(&p)));
	} else if (strcmp(w, "wscale") == 0) {
		add32(s, 0x01030300u | (uint32_t)atoi(word(&p)));
	} else if (strcmp(w, "sackOK") == 0) {
		add(s, b, 4);
	} else if (strcmp(w, "TS") == 0) {
		uint32_t val = (uint32_t)strtoul(word(&p), NULL, 0);
		word(&p);
		char *e = word(&p);
		add32(s, 0x0101080a);
		add32(s, val);
		add32(s, e && strcmp(e, "last") != 0 ? (uint32_t)strtoul(e, NULL, 0) : r->last_ts);
	} else if (strcmp(w, "sack") == 0) {
		add_sack(s, p, sack_base);
	} else if (strcmp(w, "raw") == 0) {
		unsigned v;
		for (char *h = word(&p); h && sscanf(h, "%2x", &v) == 1; h += 2)
			add(s, &(uint8_t){ (uint8_t)v }, 1);
	} else {
		fail(r, "what option is '%s'?", w);
	}
}

/* in: the segment is the peer's, so its numbers count from IRS and its ACK and SACK from ISS. */
static bool parse_seg(struct run *r, char *p, bool in, struct seg *s)
{
	char *open = strchr(p, '<'), *w = word(&p);
	uint32_t from, to;
	uint32_t own = in ? IRS : ISS, other = in ? ISS : IRS;

	*s = (struct seg){ 0 };
	if (!w)
		return false;
	s->flags = flags_of(w);
	w = word(&p);
	if (!w || sscanf(w, "%u:%u(%u)", &from, &to, &s->len) != 3)
		return false;
	s->seq = own + from;
	if (to - from != s->len + 0u)
		return false;
	while (p != open && (w = word(&p)) != NULL && w[0] != '<') {
		char *v = word(&p);
		if (!v)
			return false;
		if (strcmp(w, "ack") == 0) {
			s->has_ack = true;
			s->ack = other + (uint32_t)strtoul(v, NULL, 0);
		} else if (strcmp(w, "win") == 0) {
			s->has_wnd = true;
			s->wnd = (uint32_t)strtoul(v, NULL, 0);
		} else {
			return false;
		}
		while (*p == ' ')
			p++;
	}
	if (!open)
		return true;
	char *save = NULL, *close = strchr(open, '>');
	if (!close)
		return false;
	*close = 0;
	for (char *o = strtok_r(open + 1, ",", &save); o; o = strtok_r(NULL, ",", &save))
		add_opt(r, s, o, other);
	tcpl_opt_parse(s->opt, s->optlen, &s->o);
	return true;
}

static void inject(struct run *r, char *p, bool end_turn)
{
	struct seg s;
	struct tcpl_ev ev = { 0 };

	if (!parse_seg(r, p, true, &s)) {
		fail(r, "cannot read the segment");
		return;
	}
	struct tcpl_seg g = { s.seq, s.ack, s.len, (uint16_t)s.wnd, s.flags, s.optlen, s.opt, ++r->next_pkt };
	if (r->listening) {
		r->verdict = tcpl_accept_syn(&r->c, r->now, ISS, &g);
		r->listening = r->verdict != TCPL_OK;
	} else {
		r->verdict = tcpl_in(&r->c, r->now, &g, &ev);
		if (ev.bits & TCPL_EV_DATA)
			take(r, &ev.slice);
	}
	r->events |= ev.bits;
	settle(r);
	if (end_turn)
		turn(r);
}

static void describe(const struct tcpl_out *o, char *out, size_t n)
{
	struct tcpl_opts t;
	int k;

	tcpl_opt_parse(o->opt, o->optlen, &t);
	k = snprintf(out, n, "%s%s%s%s%s %u:%u(%u) ack %u win %u <", o->flags & TCPL_SYN ? "S" : "",
		     o->flags & TCPL_FIN ? "F" : "", o->flags & TCPL_RST ? "R" : "", o->flags & TCPL_PSH ? "P" : "",
		     o->flags & TCPL_ACK ? "." : "", o->seq - ISS, o->seq + o->len - ISS, o->len,
		     o->flags & TCPL_ACK ? o->ack - IRS : 0, o->wnd);
	if (t.has_mss)
		k += snprintf(out + k, n - (size_t)k, "mss %u,", t.mss);
	if (t.sack_ok)
		k += snprintf(out + k, n - (size_t)k, "sackOK,");
	if (t.has_ts)
		k += snprintf(out + k, n - (size_t)k, "TS %u ecr %u,", t.tsval, t.tsecr);
	if (t.has_wscale)
		k += snprintf(out + k, n - (size_t)k, "wscale %u,", t.wscale);
	for (uint32_t i = 0; i < t.n_sack; i++)
		k += snprintf(out + k, n - (size_t)k, " %u:%u", t.sack[i].seq - IRS, t.sack[i].end - IRS);
	snprintf(out + k, n - (size_t)k, ">");
}

static bool same_opts(const struct tcpl_opts *a, const struct tcpl_opts *want)
{
	if (a->has_mss != want->has_mss || a->mss != want->mss || a->has_wscale != want->has_wscale ||
	    a->wscale != want->wscale || a->sack_ok != want->sack_ok || a->n_sack != want->n_sack)
		return false;
	if (want->has_ts && (!a->has_ts || (want->tsecr != 0 && a->tsecr != want->tsecr)))
		return false;
	return memcmp(a->sack, want->sack, a->n_sack * sizeof(a->sack[0])) == 0;
}

static void expect(struct run *r, char *p)
{
	struct seg s;
	char got[256];

	if (!parse_seg(r, p, false, &s)) {
		fail(r, "cannot read the segment");
		return;
	}
	turn(r);
	if (r->q_head == r->q_tail) {
		fail(r, "nothing left (wake in %.3f us, cwnd %u, pipe %u)",
		     ((double)tcpl_next_wake(&r->c) - (double)r->now) / 1e3, r->c.cwnd, r->c.pipe);
		return;
	}
	const struct tcpl_out *o = &r->q[r->q_head % MAXQ].o;
	uint64_t at = r->q[r->q_head++ % MAXQ].at;
	struct tcpl_opts t;
	describe(o, got, sizeof(got));
	if (!tcpl_opt_parse(o->opt, o->optlen, &t))
		fail(r, "sent malformed options");
	if (at != r->now)
		fail(r, "left %.3f us too early: %s", (double)(r->now - at) / 1e3, got);
	if (o->flags != s.flags || o->seq != s.seq || o->len != s.len || (s.has_ack && o->ack != s.ack) ||
	    (s.has_wnd && o->wnd != s.wnd) || !same_opts(&t, &s.o))
		fail(r, "left: %s", got);
}

/* ---- commands ---- */

static void set(struct run *r, char *p)
{
	struct tcpl_cfg *c = &r->cfg;
	char *k, *v;

	while ((k = word(&p)) != NULL && (v = word(&p)) != NULL) {
		uint32_t n = (uint32_t)strtoul(v, NULL, 0);
		struct {
			const char *name;
			uint8_t *u8;
			bool *b;
			uint32_t *u32;
			uint64_t *t;
		} t[] = {
			{ "wscale", &c->wscale, NULL, NULL, NULL },
			{ "init_cwnd", &c->init_cwnd, NULL, NULL, NULL },
			{ "retries", &c->retries, NULL, NULL, NULL },
			{ "syn_retries", &c->syn_retries, NULL, NULL, NULL },
			{ "keep_probes", &c->keep_probes, NULL, NULL, NULL },
			{ "challenge", &c->challenge_max, NULL, NULL, NULL },
			{ "use_wscale", NULL, &c->use_wscale, NULL, NULL },
			{ "sack", NULL, &c->use_sack, NULL, NULL },
			{ "ts", NULL, &c->use_ts, NULL, NULL },
			{ "pace", NULL, &c->pace, NULL, NULL },
			{ "ack_psh", NULL, &c->ack_psh, NULL, NULL },
			{ "rcv_space", NULL, NULL, &c->rcv_space, NULL },
			{ "cwnd_max", NULL, NULL, &c->cwnd_max, NULL },
			{ "hold", NULL, NULL, &r->mem.hold_n, NULL },
			{ "recs", NULL, NULL, &r->mem.rec_n, NULL },
			{ "chunks", NULL, NULL, &r->mem.chunk_n, NULL },
			{ "delack", NULL, NULL, NULL, &c->delack_ns },
			{ "min_rto", NULL, NULL, NULL, &c->min_rto_ns },
			{ "init_rto", NULL, NULL, NULL, &c->init_rto_ns },
			{ "max_rto", NULL, NULL, NULL, &c->max_rto_ns },
			{ "peer_delack", NULL, NULL, NULL, &c->peer_delack_ns },
			{ "keep_idle", NULL, NULL, NULL, &c->keep_idle_ns },
			{ "keep_intvl", NULL, NULL, NULL, &c->keep_intvl_ns },
			{ "time_wait", NULL, NULL, NULL, &c->time_wait_ns },
			{ "fin_wait", NULL, NULL, NULL, &c->fin_wait_ns },
			{ "patience", NULL, NULL, NULL, &r->patience },
		};
		uint32_t i = 0;
		while (i < RN_ARRAY_LEN(t) && strcmp(t[i].name, k) != 0)
			i++;
		bool found = i < RN_ARRAY_LEN(t);
		if (found && t[i].u8)
			*t[i].u8 = (uint8_t)n;
		else if (found && t[i].b)
			*t[i].b = n != 0;
		else if (found && t[i].u32)
			*t[i].u32 = n;
		else if (found)
			*t[i].t = duration(v);
		if (strcmp(k, "mss") == 0)
			c->mss = (uint16_t)n;
		else if (strcmp(k, "cc") == 0)
			c->cc = strcmp(v, "cubic") == 0 ? &tcpl_cubic : &tcpl_newreno;
		else if (!found)
			fail(r, "set what: '%s'?", k);
	}
}

static void check_events(struct run *r, char *p)
{
	static const char *const name[] = { "CONNECTED", "ACKED", "DATA", "PEER_FIN", "RESET", "TIMEOUT", "CLOSED" };
	uint32_t want = 0, got = r->events & 0x7f;
	char *w;

	while ((w = word(&p)) != NULL)
		for (uint32_t i = 0; i < RN_ARRAY_LEN(name); i++)
			if (strcmp(w, name[i]) == 0)
				want |= 1u << i;
	if (want != got)
		fail(r, "events %x, expected %x", got, want);
	r->events = 0;
}

static void check_stat(struct run *r, char *p)
{
	const struct tcpl_stats *t = &r->c.stats;
	char *name = word(&p), *v = word(&p);
	uint32_t want = v ? (uint32_t)atoi(v) : 0, got = UINT32_MAX;
	struct {
		const char *name;
		uint32_t v;
	} s[] = {
		{ "rexmits", t->rexmits },
		{ "recoveries", t->recoveries },
		{ "rtos", t->rtos },
		{ "tlps", t->tlps },
		{ "spurious", t->spurious },
		{ "lost_rexmits", t->lost_rexmits },
		{ "ooo", t->ooo },
		{ "ooo_drops", t->ooo_drops },
		{ "dups", t->dups },
		{ "challenges", t->challenges },
		{ "win_probes", t->win_probes },
		{ "keep_probes", t->keep_probes },
		{ "fast_in", t->fast_in },
		{ "dup_acks", t->dup_acks },
		{ "sacks_in", t->sacks_in },
		{ "idle_acks", t->idle_acks },
	};

	for (uint32_t i = 0; name && i < RN_ARRAY_LEN(s); i++)
		if (strcmp(s[i].name, name) == 0)
			got = s[i].v;
	if (got != want)
		fail(r, "%s is %u", name, got);
}

static void number(struct run *r, const char *what, uint64_t got, uint64_t want)
{
	if (got != want)
		fail(r, "%s is %" PRIu64 ", expected %" PRIu64, what, got, want);
}

/* Questions about what is; false when cmd is none. */
static bool check(struct run *r, const char *cmd, char *p)
{
	char *w = p;

	if (strcmp(cmd, "event") == 0) {
		check_events(r, p);
		return true;
	}
	if (strcmp(cmd, "stat") == 0) {
		check_stat(r, p);
		return true;
	}
	if (strcmp(cmd, "state") == 0) {
		w = word(&p);
		if (!w || strcmp(w, tcpl_state_name(tcpl_get_state(&r->c))) != 0)
			fail(r, "state is %s", tcpl_state_name(tcpl_get_state(&r->c)));
		return true;
	}
	if (strcmp(cmd, "verdict") == 0) {
		w = word(&p);
		if (!w || strcmp(w, tcpl_verdict_name(r->verdict)) != 0)
			fail(r, "verdict is %s", tcpl_verdict_name(r->verdict));
		return true;
	}
	uint64_t v = strtoull(w, NULL, 0);
	if (strcmp(cmd, "acked") == 0) {
		number(r, cmd, r->acked, v);
		r->acked = 0;
	} else if (strcmp(cmd, "got") == 0) {
		number(r, cmd, r->got, v);
	} else if (strcmp(cmd, "budget") == 0) {
		number(r, cmd, tcpl_budget(&r->c), v);
	} else if (strcmp(cmd, "path_mss") == 0) {
		number(r, cmd, tcpl_path_mss(&r->c), v);
	} else if (strcmp(cmd, "cwnd") == 0) {
		number(r, cmd, r->c.cwnd, v);
	} else if (strcmp(cmd, "ssthresh") == 0) {
		number(r, cmd, r->c.ssthresh, v);
	} else if (strcmp(cmd, "rto") == 0) {
		number(r, cmd, tcpl_backed_off(&r->c), duration(word(&p)));
	} else {
		return false;
	}
	return true;
}

/* The clock goes on, and nobody runs. */
static void stall(struct run *r, uint64_t ns)
{
	struct tcpl_ev ev;

	r->now += ns;
	r->turns.lost += ns;
	if (tcpl_next_wake(&r->c) <= r->now) {
		tcpl_timer(&r->c, r->now, &ev);
		r->events |= ev.bits;
	}
}

static void act(struct run *r, const char *cmd, char *p)
{
	char *w;
	uint64_t ref;

	if (strcmp(cmd, "connect") == 0) {
		tcpl_connect(&r->c, r->now, ISS);
	} else if (strcmp(cmd, "listen") == 0) {
		r->listening = true;
		return;
	} else if (strcmp(cmd, "send") == 0) {
		while ((w = word(&p)) != NULL)
			if (!tcpl_send(&r->c, (uint32_t)atoi(w), ++r->next_ref))
				fail(r, "send refused");
	} else if (strcmp(cmd, "refused") == 0) {
		if (tcpl_send(&r->c, (uint32_t)atoi(word(&p)), 1))
			fail(r, "send taken");
	} else if (strcmp(cmd, "stall") == 0) {
		stall(r, duration(word(&p)));
	} else if (strcmp(cmd, "too_big") == 0) {
		uint32_t seq = ISS + (uint32_t)atoi(word(&p));
		(void)tcpl_too_big(&r->c, r->now, seq, (uint32_t)atoi(word(&p)));
	} else if (strcmp(cmd, "behind") == 0) {
		r->turns.behind = atoi(word(&p)) != 0;
	} else if (strcmp(cmd, "shutdown") == 0) {
		tcpl_shutdown(&r->c, r->now);
	} else if (strcmp(cmd, "abort") == 0) {
		tcpl_abort(&r->c);
	} else if (strcmp(cmd, "ack_now") == 0) {
		tcpl_ack_now(&r->c);
	} else if (strcmp(cmd, "space") == 0) {
		tcpl_set_rcv_space(&r->c, (uint32_t)atoi(word(&p)));
	} else if (strcmp(cmd, "place") == 0) {
		if (!tcpl_ooo_placed(&r->c, IRS + (uint32_t)atoi(word(&p)), &ref))
			fail(r, "nothing held there");
	} else {
		fail(r, "what is '%s'?", cmd);
	}
	turn(r);
}

static void timed(struct run *r, char *p)
{
	char *when = word(&p), *cmd = word(&p);
	char got[256];

	if (!r->begun) {
		tcpl_init(&r->c, &r->cfg, &r->mem);
		tcpl_set_turns(&r->c, &r->turns);
		tcpl_set_patience(&r->c, r->patience);
		r->begun = true;
	}
	advance(r, duration(when + 1));
	if (!cmd) {
		fail(r, "a time without a command");
		return;
	}
	if (strcmp(cmd, ">") == 0) {
		expect(r, p);
		return;
	}
	if (check(r, cmd, p))
		return;
	if (r->q_head != r->q_tail) {
		describe(&r->q[r->q_head % MAXQ].o, got, sizeof(got));
		fail(r, "not expected (%.3f us ago): %s", (double)(r->now - r->q[r->q_head % MAXQ].at) / 1e3, got);
	}
	if (strcmp(cmd, "none") == 0)
		return;
	if (cmd[0] == '<')
		inject(r, p, cmd[1] != '&');
	else
		act(r, cmd, p);
}

static bool run_file(const char *path, char *err, size_t n)
{
	struct run *r = calloc(1, sizeof(*r));
	FILE *f = fopen(path, "r");
	char line[512];
	int no = 0;

	tcpl_cfg_default(&r->cfg, 1460);
	r->mem = (struct tcpl_mem){ r->chunk, r->rec, r->hold, 256, 256, 256, r->sent };
	r->now = 1000 * RN_NS_PER_S;
	if (!f)
		fail(r, "cannot open");
	while (f && !r->err[0] && fgets(line, sizeof(line), f)) {
		char *p = line;
		no++;
		line[strcspn(line, "#\n")] = 0;
		while (*p == ' ' || *p == '\t')
			p++;
		if (*p == '+')
			timed(r, p);
		else if (strncmp(p, "set ", 4) == 0)
			set(r, p + 4);
		else if (*p)
			fail(r, "cannot read the line");
	}
	if (r->q_head != r->q_tail) {
		char got[256];
		describe(&r->q[r->q_head % MAXQ].o, got, sizeof(got));
		fail(r, "left over: %s", got);
	}
	snprintf(err, n, "line %d: %.400s", no, r->err);
	bool ok = !r->err[0] && no > 0;
	if (f)
		fclose(f);
	free(r);
	return ok;
}

int main(int argc, char **argv)
{
	char err[512];
	int bad = 0;

	printf("1..%d\n", argc - 1);
	for (int i = 1; i < argc; i++) {
		const char *base = strrchr(argv[i], '/');
		bool ok = run_file(argv[i], err, sizeof(err));
		printf("%sok %d - %s\n", ok ? "" : "not ", i, base ? base + 1 : argv[i]);
		if (!ok)
			printf("# %s: %s\n", argv[i], err);
		bad += !ok;
	}
	return bad != 0;
}
