/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row for each state, an entry for each event: the reaction of the state machine (RFC 9293, 3.10). An entry reads
 * "VERDICT STATE events > segments out". `test_states print` prints the table of the present code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tcp_lite/tcpl.h"

#define ISS 0xfffffff0u
#define IRS 0xfffffff8u

struct rig {
	struct tcpl_conn c;
	struct tcpl_cfg cfg;
	struct tcpl_chunk chunk[8];
	struct tcpl_txrec rec[8];
	struct tcpl_hold hold[8];
	uint64_t now;
};

enum event {
	E_SYN,
	E_SYNACK,
	E_ACK,
	E_DATA,
	E_FIN,
	E_FIN_ACK,
	E_RST,
	E_RST_IN_WINDOW,
	E_RST_OUTSIDE,
	E_NO_ACK,
	E_ACK_FUTURE,
	E_OLD_DATA,
	E_BAD_OPTION,
	E_TIMER,
	E_SEND,
	E_SHUTDOWN,
	E_ABORT,
	E_CONNECT,
	E_COUNT
};

static const char *const event_name[E_COUNT] = {
	"SYN",
	"SYN-ACK",
	"ACK",
	"data",
	"FIN",
	"FIN+ACK",
	"RST",
	"RST in window",
	"RST outside",
	"no ACK bit",
	"ACK of the future",
	"old data",
	"bad option",
	"timer",
	"send",
	"shutdown",
	"abort",
	"connect",
};

static const char *const table[TCPL_S_COUNT][E_COUNT] = {
#include "states.inc"
};

static uint32_t drain(struct rig *g, char *out, size_t n)
{
	struct tcpl_out o;
	size_t k = 0;
	uint32_t count = 0;

	if (out)
		out[0] = 0;
	while (tcpl_out(&g->c, g->now, &o)) {
		count++;
		if (out)
			k += (size_t)snprintf(out + k, n - k, " %s%s%s%s%s", o.flags & TCPL_SYN ? "S" : "",
					      o.flags & TCPL_FIN ? "F" : "", o.flags & TCPL_RST ? "R" : "",
					      o.flags & TCPL_ACK ? "." : "", o.len ? "+" : "");
	}
	return count;
}

static enum tcpl_verdict in(struct rig *g, uint8_t flags, uint32_t seq, uint32_t ack, uint32_t len, struct tcpl_ev *ev)
{
	struct tcpl_seg s = { .seq = seq, .ack = ack, .len = len, .wnd = 60000, .flags = flags, .ref = 1 };

	return tcpl_in(&g->c, g->now, &s, ev);
}

static void reach(struct rig *g, enum tcpl_state want)
{
	struct tcpl_mem mem = {
		.chunk = g->chunk, .rec = g->rec, .hold = g->hold, .chunk_n = 8, .rec_n = 8, .hold_n = 8
	};
	struct tcpl_seg syn = { .seq = IRS, .wnd = 60000, .flags = TCPL_SYN };
	struct tcpl_ev ev;

	memset(g, 0, sizeof(*g));
	g->now = RN_NS_PER_S;
	tcpl_cfg_default(&g->cfg, 1460);
	g->cfg.use_ts = false;
	tcpl_init(&g->c, &g->cfg, &mem);
	if (want == TCPL_S_CLOSED)
		return;
	if (want == TCPL_S_SYN_SENT) {
		tcpl_connect(&g->c, g->now, ISS);
		drain(g, NULL, 0);
		return;
	}
	assert_int_equal(tcpl_accept_syn(&g->c, g->now, ISS, &syn), TCPL_OK);
	drain(g, NULL, 0);
	if (want == TCPL_S_SYN_RCVD)
		return;
	in(g, TCPL_ACK, IRS + 1, ISS + 1, 0, &ev);
	if (want == TCPL_S_ESTABLISHED)
		return;
	if (want == TCPL_S_CLOSE_WAIT || want == TCPL_S_LAST_ACK)
		in(g, TCPL_FIN | TCPL_ACK, IRS + 1, ISS + 1, 0, &ev);
	if (want != TCPL_S_CLOSE_WAIT)
		tcpl_shutdown(&g->c, g->now);
	drain(g, NULL, 0);
	if (want == TCPL_S_FIN_WAIT_2)
		in(g, TCPL_ACK, IRS + 1, ISS + 2, 0, &ev);
	else if (want == TCPL_S_CLOSING)
		in(g, TCPL_FIN | TCPL_ACK, IRS + 1, ISS + 1, 0, &ev);
	else if (want == TCPL_S_TIME_WAIT)
		in(g, TCPL_FIN | TCPL_ACK, IRS + 1, ISS + 2, 0, &ev);
	drain(g, NULL, 0);
}

static enum tcpl_verdict happen(struct rig *g, enum event e, struct tcpl_ev *ev)
{
	uint32_t seq = g->c.state == TCPL_S_SYN_SENT || g->c.state == TCPL_S_CLOSED ? IRS : g->c.rcv_nxt;
	uint32_t una = g->c.state == TCPL_S_SYN_SENT ? g->c.snd_nxt : g->c.snd_una, nxt = g->c.snd_nxt;
	struct tcpl_seg bad = { .seq = seq,
				.ack = nxt,
				.wnd = 60000,
				.flags = TCPL_ACK,
				.optlen = 4,
				.opt = (const uint8_t[]){ 8, 0, 1, 1 } };

	switch (e) {
	case E_SYN: return in(g, TCPL_SYN, seq, 0, 0, ev);
	case E_SYNACK: return in(g, TCPL_SYN | TCPL_ACK, seq, nxt, 0, ev);
	case E_ACK: return in(g, TCPL_ACK, seq, nxt, 0, ev);
	case E_DATA: return in(g, TCPL_ACK | TCPL_PSH, seq, una, 10, ev);
	case E_FIN: return in(g, TCPL_ACK | TCPL_FIN, seq, una, 0, ev);
	case E_FIN_ACK: return in(g, TCPL_ACK | TCPL_FIN, seq, nxt, 0, ev);
	case E_RST: return in(g, TCPL_RST | (g->c.state == TCPL_S_SYN_SENT ? TCPL_ACK : 0), seq, nxt, 0, ev);
	case E_RST_IN_WINDOW: return in(g, TCPL_RST, seq + 5, 0, 0, ev);
	case E_RST_OUTSIDE: return in(g, TCPL_RST, seq - 5, 0, 0, ev);
	case E_NO_ACK: return in(g, 0, seq, 0, 10, ev);
	case E_ACK_FUTURE: return in(g, TCPL_ACK, seq, nxt + 1000, 0, ev);
	case E_OLD_DATA: return in(g, TCPL_ACK, seq - 1, nxt, 1, ev);
	case E_BAD_OPTION: return tcpl_in(&g->c, g->now, &bad, ev);
	case E_TIMER:
		g->now = tcpl_next_wake(&g->c) == RN_NEVER ? g->now + RN_NS_PER_S : tcpl_next_wake(&g->c);
		tcpl_timer(&g->c, g->now, ev);
		return TCPL_OK;
	case E_SEND: return tcpl_send(&g->c, 100, 1) ? TCPL_OK : TCPL_DROP_FULL;
	case E_SHUTDOWN: tcpl_shutdown(&g->c, g->now); return TCPL_OK;
	case E_ABORT: tcpl_abort(&g->c); return TCPL_OK;
	case E_CONNECT: tcpl_connect(&g->c, g->now, ISS + 77); return TCPL_OK;
	case E_COUNT: break;
	}
	return TCPL_VERDICT_COUNT;
}

static void observe(enum tcpl_state s, enum event e, char *out, size_t n)
{
	static const char *const bit[] = { "CONNECTED", "ACKED", "DATA", "PEER_FIN", "RESET", "TIMEOUT", "CLOSED" };
	struct tcpl_ev ev = { 0 };
	struct rig g;
	char segs[64];
	size_t k;

	reach(&g, s);
	assert_int_equal(g.c.state, s);
	enum tcpl_verdict v = happen(&g, e, &ev);
	drain(&g, segs, sizeof(segs));
	k = (size_t)snprintf(out, n, "%s %s", tcpl_verdict_name(v), tcpl_state_name(tcpl_get_state(&g.c)));
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bit); i++)
		if (ev.bits & 1u << i)
			k += (size_t)snprintf(out + k, n - k, " %s", bit[i]);
	if (segs[0])
		snprintf(out + k, n - k, " >%s", segs);
}

static void row(enum tcpl_state s)
{
	char got[256];

	for (uint32_t e = 0; e < E_COUNT; e++) {
		observe(s, e, got, sizeof(got));
		if (strcmp(got, table[s][e]) != 0)
			fail_msg("%s, %s: \"%s\", expected \"%s\"", tcpl_state_name(s), event_name[e], got,
				 table[s][e]);
	}
}

/* cmocka's state of the case is the connection's state. */
static void row_of(void **state) { row((enum tcpl_state)(uintptr_t)*state); }

static void rst_for(void **state)
{
	struct tcpl_seg s = { .seq = 0xffffffff, .ack = 7, .len = 10, .flags = TCPL_SYN | TCPL_FIN };
	struct tcpl_out o;

	(void)state;
	assert_true(tcpl_rst_for(&s, &o)); /* RFC 9293, 3.10.7.1 */
	assert_int_equal(o.flags, TCPL_RST | TCPL_ACK);
	assert_int_equal(o.seq, 0);
	assert_int_equal(o.ack, 0xffffffffu + 12);
	s.flags = TCPL_ACK;
	assert_true(tcpl_rst_for(&s, &o));
	assert_int_equal(o.flags, TCPL_RST);
	assert_int_equal(o.seq, 7);
	s.flags = TCPL_RST | TCPL_ACK;
	assert_false(tcpl_rst_for(&s, &o));
}

/* A connection that is aborted twice before its RST could be sent still sends the RST, once. */
static void aborted_twice(void **state)
{
	struct tcpl_out o;
	struct rig g;

	(void)state;
	reach(&g, TCPL_S_ESTABLISHED);
	tcpl_abort(&g.c);
	tcpl_abort(&g.c);
	assert_true(tcpl_out(&g.c, g.now, &o));
	assert_int_equal(o.flags, TCPL_RST | TCPL_ACK);
	assert_int_equal(o.seq, g.c.snd_nxt);
	assert_false(tcpl_out(&g.c, g.now, &o));
	tcpl_abort(&g.c);
	assert_false(tcpl_out(&g.c, g.now, &o));
}

static const uint64_t key[2] = { 1, 2 };
static const struct tcpl_tuple tuple = { key, "t", 1 }, another = { key, "u", 1 };

static void isn(void **state)
{
	const uint64_t other[2] = { 1, 3 };
	uint32_t a = tcpl_isn(key, "client:1", 8, 5);

	(void)state;
	assert_int_equal(tcpl_isn(key, "client:1", 8, 5), a);
	assert_int_equal(tcpl_isn(key, "client:1", 8, 5 + 4096), a + 1); /* RFC 6528: the clock ticks every 4 us */
	assert_int_not_equal(tcpl_isn(key, "client:2", 8, 5), a);
	assert_int_not_equal(tcpl_isn(other, "client:1", 8, 5), a);
}

static void cookie_seg(struct tcpl_seg *ack, const struct tcpl_out *o, uint32_t irs)
{
	*ack = (struct tcpl_seg){ .seq = irs + 1, .ack = o->seq + 1, .len = 0, .wnd = 500, .flags = TCPL_ACK };
}

static void cookies(void **state)
{
	static const uint8_t opt[] = { 2, 4, 0x05, 0xb4, 1, 1, 4, 2, 1, 3, 3, 9 };
	struct tcpl_seg syn = { .seq = IRS, .wnd = 100, .flags = TCPL_SYN, .opt = opt, .optlen = sizeof(opt) }, ack;
	struct tcpl_mem mem;
	struct tcpl_info info;
	struct tcpl_out o;
	struct rig g;
	uint64_t t = 500 * RN_NS_PER_S;

	(void)state;
	reach(&g, TCPL_S_CLOSED);
	mem = g.c.mem;
	assert_true(tcpl_cookie_make(&g.cfg, &tuple, t, &syn, &o));
	assert_int_equal(o.flags, TCPL_SYN | TCPL_ACK);
	assert_int_equal(o.ack, IRS + 1);
	cookie_seg(&ack, &o, IRS);
	assert_int_equal(tcpl_cookie_accept(&g.c, &another, t, &ack), TCPL_DROP_COOKIE);
	assert_int_equal(tcpl_cookie_accept(&g.c, &tuple, t + 138 * RN_NS_PER_S, &ack), TCPL_DROP_COOKIE);
	for (uint32_t bit = 0; bit < 32; bit++) {
		ack.ack ^= 1u << bit;
		assert_int_not_equal(tcpl_cookie_accept(&g.c, &tuple, t, &ack), TCPL_OK);
		ack.ack ^= 1u << bit;
	}
	ack.seq++;
	assert_int_equal(tcpl_cookie_accept(&g.c, &tuple, t, &ack), TCPL_DROP_COOKIE);
	ack.seq--;
	assert_int_equal(tcpl_get_state(&g.c), TCPL_S_CLOSED);
	assert_int_equal(tcpl_cookie_accept(&g.c, &tuple, t + 68 * RN_NS_PER_S, &ack), TCPL_OK);
	assert_int_equal(tcpl_get_state(&g.c), TCPL_S_ESTABLISHED);
	tcpl_get_info(&g.c, &info);
	assert_int_equal(info.mss, 1460);
	assert_int_equal(info.snd_wscale, 9);
	assert_int_equal(info.snd_wnd, 500 << 9);
	assert_true(info.sack && !info.ts);
	tcpl_init(&g.c, &g.cfg, &mem);
	syn.optlen = 0; /* a peer without options */
	assert_true(tcpl_cookie_make(&g.cfg, &tuple, t, &syn, &o));
	cookie_seg(&ack, &o, IRS);
	assert_int_equal(tcpl_cookie_accept(&g.c, &tuple, t, &ack), TCPL_OK);
	tcpl_get_info(&g.c, &info);
	assert_int_equal(info.mss, 536);
	assert_int_equal(info.snd_wnd, 500);
	assert_true(!info.sack && !info.wscale);
	syn.flags = TCPL_SYN | TCPL_ACK;
	assert_false(tcpl_cookie_make(&g.cfg, &tuple, t, &syn, &o));
}

static void print_table(void)
{
	char got[256];

	for (uint32_t s = 0; s < TCPL_S_COUNT; s++) {
		printf("[TCPL_S_%s] = {\n", tcpl_state_name(s));
		for (uint32_t e = 0; e < E_COUNT; e++) {
			observe(s, e, got, sizeof(got));
			printf("\t/* %-17s */ \"%s\",\n", event_name[e], got);
		}
		printf("},\n");
	}
}

#define ROW(S) \
	{ \
#S, row_of, NULL, NULL, (void *)(uintptr_t)TCPL_S_##S \
	}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		ROW(CLOSED),
		ROW(SYN_SENT),
		ROW(SYN_RCVD),
		ROW(ESTABLISHED),
		ROW(FIN_WAIT_1),
		ROW(FIN_WAIT_2),
		ROW(CLOSE_WAIT),
		ROW(CLOSING),
		ROW(LAST_ACK),
		ROW(TIME_WAIT),
		cmocka_unit_test(rst_for),
		cmocka_unit_test(isn),
		cmocka_unit_test(cookies),
		cmocka_unit_test(aborted_twice),
	};

	if (argc > 1 && strcmp(argv[1], "print") == 0) {
		print_table();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
