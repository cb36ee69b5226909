/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timed tables of segments in and out, in packetdrill's manner: `test_script FILE.pkt...`, one TAP case each.
 *
 *	set NAME VALUE ...	before the first timed line: mss wscale sack ts ack_psh init_cwnd rcv_space hold recs
 *				exid chunks ahead delack min_rto init_rto max_rto peer_delack keep_idle keep_intvl
 *				keep_probes retries syn_retries patience time_wait fin_wait left challenge cwnd_max
 *				(times as below), cc newreno|cubic
 *	+TIME COMMAND		the clock moves on by TIME (0, 5us, 10ms, 2s, 3d), due timers run, then:
 *	  connect | listen	active open | the next SYN is accepted
 *	  < SEG, <& SEG		a segment arrives; with & the owner's turn does not end yet
 *	  > SEG			this segment has left, exactly now and in this order
 *	  none			nothing (more) has left
 *	  send N [N...]		chunks are queued; refused N: it must not be taken
 *	  too_big SEQ N		ICMP: the segment at SEQ was too large, N bytes of payload and options are not
 *	  stall TIME | behind 0|1	the owner has not run for the last TIME | has not looked at all it received
 *	  shutdown | leave | abort | ack_now | space N | place SEQ
 *	  uncut 0|1		whether chunks are sent whole or not at all
 *	  state S | event E...	state now | the events since the last such line ("event none")
 *	  verdict V		of the last segment in
 *	  agreed 0|1		whether both ends take part in exid
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
#include "tcp_lite/tcpl_exid.h"
#include "tcp_lite/tcpl_int.h"
#include "script_seg.h"

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

/* ---- the owner of the engine ---- */

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

static void inject(struct run *r, char *p, bool end_turn)
{
	struct script_seg s;
	struct tcpl_ev ev = { 0 };

	if (!script_seg_parse(&s, p, true, r->last_ts)) {
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

static void expect(struct run *r, char *p)
{
	struct script_seg s;
	char got[256];

	if (!script_seg_parse(&s, p, false, r->last_ts)) {
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
	script_describe(o, got, sizeof(got));
	if (!tcpl_opt_parse(o->opt, o->optlen, &t))
		fail(r, "sent malformed options");
	if (at != r->now)
		fail(r, "left %.3f us too early: %s", (double)(r->now - at) / 1e3, got);
	if (o->flags != s.flags || o->seq != s.seq || o->len != s.len || (s.has_ack && o->ack != s.ack) ||
	    (s.has_wnd && o->wnd != s.wnd) || !script_same_opts(&t, &s.o))
		fail(r, "left: %s", got);
}

/* ---- commands ---- */

static void set(struct run *r, char *p)
{
	struct tcpl_cfg *c = &r->cfg;
	char *k, *v;

	while ((k = script_word(&p)) != NULL && (v = script_word(&p)) != NULL) {
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
			{ "ahead", &c->ahead, NULL, NULL, NULL },
			{ "use_wscale", NULL, &c->use_wscale, NULL, NULL },
			{ "sack", NULL, &c->use_sack, NULL, NULL },
			{ "ts", NULL, &c->use_ts, NULL, NULL },
			{ "pace", NULL, &c->pace, NULL, NULL },
			{ "ack_psh", NULL, &c->ack_psh, NULL, NULL },
			{ "rcv_space", NULL, NULL, &c->rcv_space, NULL },
			{ "exid", NULL, NULL, &c->exid, NULL },
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
			{ "left", NULL, NULL, NULL, &c->left_ns },
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
			*t[i].t = script_duration(v);
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

	while ((w = script_word(&p)) != NULL)
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
	char *name = script_word(&p), *v = script_word(&p);
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
		{ "cuts", t->cuts },
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

/* Checks of the present state. False: cmd is none of them. */
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
		w = script_word(&p);
		if (!w || strcmp(w, tcpl_state_name(tcpl_get_state(&r->c))) != 0)
			fail(r, "state is %s", tcpl_state_name(tcpl_get_state(&r->c)));
		return true;
	}
	if (strcmp(cmd, "verdict") == 0) {
		w = script_word(&p);
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
	} else if (strcmp(cmd, "agreed") == 0) {
		number(r, cmd, tcpl_exid_agreed(&r->c), v);
	} else if (strcmp(cmd, "path_mss") == 0) {
		number(r, cmd, tcpl_path_mss(&r->c), v);
	} else if (strcmp(cmd, "cwnd") == 0) {
		number(r, cmd, r->c.cwnd, v);
	} else if (strcmp(cmd, "ssthresh") == 0) {
		number(r, cmd, r->c.ssthresh, v);
	} else if (strcmp(cmd, "rto") == 0) {
		number(r, cmd, tcpl_backed_off(&r->c), script_duration(script_word(&p)));
	} else {
		return false;
	}
	return true;
}

/* Moves the clock on without running anything. */
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
		while ((w = script_word(&p)) != NULL)
			if (!tcpl_send(&r->c, (uint32_t)atoi(w), ++r->next_ref))
				fail(r, "send refused");
	} else if (strcmp(cmd, "refused") == 0) {
		if (tcpl_send(&r->c, (uint32_t)atoi(script_word(&p)), 1))
			fail(r, "send taken");
	} else if (strcmp(cmd, "stall") == 0) {
		stall(r, script_duration(script_word(&p)));
	} else if (strcmp(cmd, "too_big") == 0) {
		uint32_t seq = ISS + (uint32_t)atoi(script_word(&p));
		(void)tcpl_too_big(&r->c, r->now, seq, (uint32_t)atoi(script_word(&p)));
	} else if (strcmp(cmd, "behind") == 0) {
		r->turns.behind = atoi(script_word(&p)) != 0;
	} else if (strcmp(cmd, "uncut") == 0) {
		tcpl_set_uncut(&r->c, atoi(script_word(&p)) != 0);
	} else if (strcmp(cmd, "shutdown") == 0) {
		tcpl_shutdown(&r->c, r->now);
	} else if (strcmp(cmd, "leave") == 0) {
		tcpl_leave(&r->c, r->now);
	} else if (strcmp(cmd, "abort") == 0) {
		tcpl_abort(&r->c);
	} else if (strcmp(cmd, "ack_now") == 0) {
		tcpl_ack_now(&r->c);
	} else if (strcmp(cmd, "space") == 0) {
		tcpl_set_rcv_space(&r->c, (uint32_t)atoi(script_word(&p)));
	} else if (strcmp(cmd, "place") == 0) {
		if (!tcpl_ooo_placed(&r->c, IRS + (uint32_t)atoi(script_word(&p)), &ref))
			fail(r, "nothing held there");
	} else {
		fail(r, "what is '%s'?", cmd);
	}
	turn(r);
}

static void timed(struct run *r, char *p)
{
	char *when = script_word(&p), *cmd = script_word(&p);
	char got[256];

	if (!r->begun) {
		tcpl_init(&r->c, &r->cfg, &r->mem);
		tcpl_set_turns(&r->c, &r->turns);
		tcpl_set_patience(&r->c, r->patience);
		r->begun = true;
	}
	advance(r, script_duration(when + 1));
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
		script_describe(&r->q[r->q_head % MAXQ].o, got, sizeof(got));
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
	r->mem = (struct tcpl_mem){ .chunk = r->chunk,
				    .rec = r->rec,
				    .hold = r->hold,
				    .chunk_n = 256,
				    .rec_n = 256,
				    .hold_n = 256,
				    .sent = r->sent };
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
		script_describe(&r->q[r->q_head % MAXQ].o, got, sizeof(got));
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
