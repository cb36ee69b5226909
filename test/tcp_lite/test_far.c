/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remembered sequence numbers become old and would wrap: with any ISN, and after any number of bytes, losses are found
 * as on a new connection. One engine, with a peer that consists of ACKs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "tcp_lite/tcpl_int.h"

#define MSS  60000u
#define RING 64u
#define IRS  100u

struct peer {
	struct tcpl_conn c;
	struct tcpl_cfg cfg;
	struct tcpl_chunk chunk[RING];
	struct tcpl_txrec rec[RING];
	struct tcpl_hold hold[RING];
	uint64_t now;
	uint32_t again; /* number of retransmissions */
};

static void settle(struct peer *p)
{
	struct tcpl_out o;
	uint64_t ref;

	while (tcpl_acked(&p->c, &ref)) {
	}
	while (tcpl_out(&p->c, p->now, &o))
		p->again += o.rexmit;
}

/* a SACK option of n blocks, two sequence numbers each */
static void ack(struct peer *p, uint32_t ack, const uint32_t *block, uint32_t n)
{
	uint8_t opt[TCPL_OPT_MAX] = { 1, 1, 5, (uint8_t)(2 + 8 * n) };
	struct tcpl_ev ev;

	for (uint32_t i = 0; i < 2 * n; i++)
		rn_store_be32(opt + 4 + 4 * i, block[i]);
	struct tcpl_seg s = { .seq = IRS + 1,
			      .ack = ack,
			      .wnd = 65535,
			      .flags = TCPL_ACK,
			      .opt = opt,
			      .optlen = n ? (uint8_t)(4 + 8 * n) : 0 };
	p->now += 50 * RN_NS_PER_US;
	(void)tcpl_in(&p->c, p->now, &s, &ev);
	settle(p);
}

static void send(struct peer *p, uint32_t n)
{
	while (n-- > 0)
		assert_true(tcpl_send(&p->c, MSS, 1));
	p->now += 50 * RN_NS_PER_US;
	settle(p);
}

static void begin(struct peer *p, uint32_t iss, bool sack)
{
	static const uint8_t opt[12] = { 2, 4, 0xff, 0xff, 1, 1, 4, 2, 1, 3, 3, 14 };
	struct tcpl_mem m = {
		.chunk = p->chunk, .rec = p->rec, .hold = p->hold, .chunk_n = RING, .rec_n = RING, .hold_n = RING
	};
	struct tcpl_seg s = { .seq = IRS, .wnd = 65535, .flags = TCPL_SYN, .opt = opt, .optlen = 12 };

	tcpl_cfg_default(&p->cfg, MSS);
	p->cfg.use_ts = false;
	p->cfg.use_sack = sack;
	p->cfg.cc = &tcpl_newreno;
	p->now = 1000 * RN_NS_PER_S;
	p->again = 0;
	tcpl_init(&p->c, &p->cfg, &m);
	assert_int_equal(tcpl_accept_syn(&p->c, p->now, iss, &s), TCPL_OK);
	settle(p);
	ack(p, iss + 1, NULL, 0);
}

/* Sends `gib` GiB without loss. */
static void forward(struct peer *p, double gib)
{
	for (uint64_t left = (uint64_t)(gib * (1u << 30)) / MSS; left > 0; left--) {
		send(p, 1);
		ack(p, p->c.snd_nxt, NULL, 0);
	}
	assert_int_equal(p->again, 0);
}

static void fast_retransmit_without_sack(double gib)
{
	static struct peer p;

	begin(&p, 5000, false);
	forward(&p, gib);
	send(&p, 5);
	for (int i = 0; i < 3; i++)
		ack(&p, p.c.snd_una, NULL, 0);
	assert_int_equal(p.again, 1);
	assert_int_equal(p.c.stats.recoveries, 1);
}

static void fast_retransmit_is_not_dead_without_sack(void **state)
{
	(void)state;
	fast_retransmit_without_sack(0.1);
	fast_retransmit_without_sack(2.1);
	fast_retransmit_without_sack(3);
	fast_retransmit_without_sack(4.1);
}

/*
 * A segment arrives late and its retransmission is a duplicate: the reordering window must become wider (RFC 8985,
 * 6.2).
 */
static void late_segment(struct peer *p)
{
	uint32_t first = p->c.snd_nxt, again = p->again, mult = p->c.reo_mult;

	send(p, 6);
	p->now += RN_NS_PER_MS;
	ack(p, first, (uint32_t[]){ first + MSS, first + 6 * MSS }, 1);
	p->now += RN_NS_PER_MS;
	struct tcpl_ev ev;
	tcpl_timer(&p->c, p->now, &ev);
	settle(p);
	assert_int_equal(p->again, again + 1);
	ack(p, first + 6 * MSS, NULL, 0);
	ack(p, first + 6 * MSS, (uint32_t[]){ first, first + MSS }, 1);
	assert_int_equal(p->c.reo_mult, mult + 1);
}

static void no_iss_turns_the_dsack_adaptation_off(void **state)
{
	static const uint32_t iss[] = { 0x1000, 0x10000000, 0x7fffffff, 0x80000000, 0x90000000, 0xfffff000 };
	static struct peer p;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(iss); i++) {
		begin(&p, iss[i], true);
		late_segment(&p);
	}
}

static void dsack_adaptation_is_not_dead_gibibytes_later(void **state)
{
	static struct peer p;

	(void)state;
	for (double gib = 1; gib < 4.5; gib += 0.5) {
		begin(&p, 77, true);
		late_segment(&p);
		p.again = 0;
		forward(&p, gib);
		late_segment(&p);
	}
}

/* One retransmission and its DSACK: later DSACKs undo nothing, at any age of the connection. */
static void a_dsack_gibibytes_later_undoes_nothing(void **state)
{
	static struct peer p;

	(void)state;
	begin(&p, 77, true);
	uint32_t first = p.c.snd_nxt;
	send(&p, 6);
	p.now += RN_NS_PER_MS;
	ack(&p, first, (uint32_t[]){ first + MSS, first + 6 * MSS }, 1);
	p.now += RN_NS_PER_MS;
	struct tcpl_ev ev;
	tcpl_timer(&p.c, p.now, &ev);
	settle(&p);
	assert_int_equal(p.again, 1);
	ack(&p, first + 6 * MSS, NULL, 0);
	p.again = 0;
	forward(&p, 2.5);
	ack(&p, p.c.snd_una, (uint32_t[]){ first, first + MSS }, 1);
	assert_int_equal(p.c.stats.spurious, 0);
	assert_int_equal(p.c.flags & F_AHEAD & ~(uint32_t)F_REO_ROUND, 0);
}

/* A needless tail loss probe is no sign of reordering (RFC 8985, 6.2). */
static void a_probes_dsack_widens_nothing(void **state)
{
	static struct peer p;
	struct tcpl_ev ev;

	(void)state;
	begin(&p, 77, true);
	uint32_t first = p.c.snd_nxt;
	send(&p, 2);
	p.now = tcpl_next_wake(&p.c);
	tcpl_timer(&p.c, p.now, &ev);
	settle(&p);
	assert_int_equal(p.c.stats.tlps, 1);
	assert_int_equal(p.again, 1);
	ack(&p, first + 2 * MSS, NULL, 0);
	ack(&p, first + 2 * MSS, (uint32_t[]){ first + MSS, first + 2 * MSS }, 1);
	assert_int_equal(p.c.reo_mult, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_retransmit_is_not_dead_without_sack),
		cmocka_unit_test(no_iss_turns_the_dsack_adaptation_off),
		cmocka_unit_test(dsack_adaptation_is_not_dead_gibibytes_later),
		cmocka_unit_test(a_dsack_gibibytes_later_undoes_nothing),
		cmocka_unit_test(a_probes_dsack_widens_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
