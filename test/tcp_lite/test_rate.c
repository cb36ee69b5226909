/* SPDX-License-Identifier: BSD-3-Clause */
/* Delivery rates and pacing, of a sender whose segments the test acknowledges one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tcp_lite/tcpl_int.h"

#define RTT RN_NS_PER_MS
#define ISS 0xfffff000u
#define IRS 1000u

static struct tcpl_rate last; /* the last sample that congestion control got */
static uint32_t told;

static void nothing(struct tcpl_conn *c) { (void)c; }
static void acked(struct tcpl_conn *c, uint64_t now, uint32_t bytes)
{
	(void)c;
	(void)now;
	(void)bytes;
}
static uint32_t keep(struct tcpl_conn *c, uint64_t now)
{
	(void)now;
	return c->cwnd;
}
static void measured(struct tcpl_conn *c, uint64_t now, const struct tcpl_rate *r)
{
	(void)c;
	(void)now;
	last = *r;
	told++;
}

static const struct tcpl_cc listener = {
	.name = "listener", .init = nothing, .acked = acked, .ssthresh = keep, .measured = measured
};

struct sender {
	struct tcpl_cfg cfg;
	struct tcpl_conn c;
	struct tcpl_chunk chunk[64];
	struct tcpl_txrec rec[64];
	struct tcpl_sent sent[64];
	struct tcpl_hold hold[4];
	uint64_t now;
};

static void segment(struct sender *s, uint32_t ack, const struct tcpl_block *sack)
{
	uint8_t opt[12] = { 1, 1, 5, 10 };
	struct tcpl_seg g = { .seq = IRS + 1, .ack = ack, .wnd = 60000, .flags = TCPL_ACK };
	struct tcpl_ev ev;
	uint64_t ref;

	if (sack) {
		for (int i = 0; i < 4; i++) {
			opt[4 + i] = (uint8_t)(sack->seq >> (24 - 8 * i));
			opt[8 + i] = (uint8_t)(sack->end >> (24 - 8 * i));
		}
		g.opt = opt;
		g.optlen = sizeof(opt);
	}
	assert_int_equal(tcpl_in(&s->c, s->now, &g, &ev), TCPL_OK);
	while (tcpl_acked(&s->c, &ref))
		;
}

/* An established sender with SACK, without timestamps: segments of 1,000 bytes. */
static void begin(struct sender *s)
{
	static const uint8_t ok[] = { 2, 4, 1000 >> 8, 1000 & 0xff, 4, 2, 1, 1 };
	struct tcpl_seg syn = { .seq = IRS, .wnd = 60000, .flags = TCPL_SYN, .opt = ok, .optlen = sizeof(ok) };
	struct tcpl_out o;

	memset(s, 0, sizeof(*s));
	tcpl_cfg_default(&s->cfg, 1000);
	s->cfg.use_ts = false;
	s->cfg.cc = &listener;
	struct tcpl_mem mem = { .chunk = s->chunk,
				.rec = s->rec,
				.hold = s->hold,
				.chunk_n = 64,
				.rec_n = 64,
				.hold_n = 4,
				.sent = s->sent };
	tcpl_init(&s->c, &s->cfg, &mem);
	s->now = 5 * RN_NS_PER_S;
	assert_int_equal(tcpl_accept_syn(&s->c, s->now, ISS, &syn), TCPL_OK);
	assert_true(tcpl_out(&s->c, s->now, &o));
	s->now += RTT;
	segment(s, ISS + 1, NULL);
	assert_int_equal(tcpl_get_state(&s->c), TCPL_S_ESTABLISHED);
	s->c.cwnd = 50000;
	told = 0;
}

static void queue(struct sender *s, uint32_t n)
{
	while (n-- > 0)
		assert_true(tcpl_send(&s->c, 1000, 1));
}

static uint32_t flush(struct sender *s)
{
	struct tcpl_out o;
	uint32_t n = 0;

	while (tcpl_out(&s->c, s->now, &o))
		n++;
	return n;
}

static void near(uint64_t got, double want, double part)
{
	if ((double)got < want * (1 - part) || (double)got > want * (1 + part))
		fail_msg("%llu, expected about %.0f", (unsigned long long)got, want);
}

/* Ten segments are sent at once and acknowledged one by one: the sample is the path's rate, not the burst's. */
static void rate_of_acks(void **state)
{
	struct sender s;

	(void)state;
	begin(&s);
	queue(&s, 50);
	flush(&s);
	s.now += RTT;
	for (uint32_t i = 1; i <= 50; i++, s.now += 10000)
		segment(&s, ISS + 1 + i * 1000, NULL);
	/* the last sample: 50,000 bytes in 1 ms and 490 us */
	near(last.rate, 50000e9 / 1490000, 0.01);
	assert_int_equal(last.bytes, 1000);
	assert_false(last.limited); /* cwnd was used up */
}

/* ACKs that arrive together after a pause: the sample is no higher than the rate of sending. */
static void rate_of_sending(void **state)
{
	struct sender s;

	(void)state;
	begin(&s);
	queue(&s, 40);
	for (int i = 0; i < 40; i++, s.now += 100000) { /* 10 MB/s */
		s.c.cwnd = s.c.pipe + 1000;
		flush(&s);
	}
	for (uint32_t i = 1; i <= 40; i++)
		segment(&s, ISS + 1 + i * 1000, NULL);
	assert_true(last.rate <= 10300000);
}

static void sacked_counts_once(void **state)
{
	struct sender s;
	uint32_t sum = 0;

	(void)state;
	begin(&s);
	queue(&s, 10);
	flush(&s);
	s.now += RTT;
	for (uint32_t i = 2; i <= 9; i++) { /* the first segment is missing */
		struct tcpl_block b = { ISS + 1 + 1000, ISS + 1 + i * 1000 };
		segment(&s, ISS + 1, &b);
		sum += last.bytes;
	}
	assert_int_equal(sum, 8000);
	assert_int_equal(s.c.dlv.lost, 1000);
	s.now += RTT;
	flush(&s);
	s.now += RTT;
	segment(&s, ISS + 1 + 10000, NULL);
	assert_int_equal(last.bytes, 2000);
	assert_int_equal(s.c.dlv.bytes, 10000);
}

/* A sender that does not use up cwnd measures its own rate, not the path's. */
static void owner_limited(void **state)
{
	struct sender s;

	(void)state;
	begin(&s);
	queue(&s, 5);
	flush(&s);
	queue(&s, 1);
	flush(&s);
	s.now += RTT;
	segment(&s, ISS + 1 + 6000, NULL);
	assert_true(last.limited);
	assert_int_equal(told, 1);
}

/*
 * A pace of 10 MB/s: two segments at once, then one each 100 us. The timer is set to the next send, and the budget is 0
 * until then.
 */
static void pace(void **state)
{
	struct sender s;
	struct tcpl_ev ev;
	uint64_t begun;
	uint32_t n;

	(void)state;
	begin(&s);
	tcpl_pace_set(&s.c, 10000000);
	assert_int_equal(tcpl_pace_quantum(&s.c), 2000);
	queue(&s, 50);
	begun = s.now;
	n = flush(&s);
	assert_true(n > 2 && n < 16);
	while (n < 50) {
		assert_int_equal(tcpl_budget(&s.c), 0);
		uint64_t wake = tcpl_next_wake(&s.c);
		assert_true(wake > s.now && wake < s.now + RN_NS_PER_MS);
		s.now = wake - 1;
		assert_int_equal(flush(&s), 0);
		s.now = wake;
		tcpl_timer(&s.c, s.now, &ev);
		uint32_t k = flush(&s);
		assert_true(k >= 1 && k <= 4);
		n += k;
	}
	near(s.now - begun, 40 * 100e3, 0.12); /* about ten segments were sent on credit */
}

/* The segment that a timeout retransmits is not paced. */
static void timeout_goes_at_once(void **state)
{
	struct sender s;
	struct tcpl_ev ev;

	(void)state;
	begin(&s);
	tcpl_pace_set(&s.c, 1000); /* a byte each millisecond */
	s.c.pace_at = s.now;
	queue(&s, 50);
	flush(&s);
	assert_true(s.c.flags & F_PACE_WAIT);
	for (int i = 0; i < 20 && s.c.stats.rtos == 0; i++) {
		s.now = tcpl_next_wake(&s.c);
		tcpl_timer(&s.c, s.now, &ev);
		if (s.c.stats.rtos == 0)
			flush(&s);
	}
	assert_int_equal(s.c.stats.rtos, 1);
	assert_true(s.now < s.c.pace_at);
	assert_true(flush(&s) >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate_of_acks),
		cmocka_unit_test(rate_of_sending),
		cmocka_unit_test(sacked_counts_once),
		cmocka_unit_test(owner_limited),
		cmocka_unit_test(pace),
		cmocka_unit_test(timeout_goes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
