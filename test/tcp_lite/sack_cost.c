/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full window in flight, and the SACKs that a peer may send for it: `sack_cost PATTERN SEGMENTS`. test_sack_cost.py
 * counts the instructions of acks().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "tcp_lite/tcpl.h"
#include "tcp_lite/tcpl_int.h"

#define RING 4096u
#define MSS  1460u
#define ISS  1000u

static struct tcpl_conn c;
static struct tcpl_chunk chunk[RING];
static struct tcpl_txrec rec[RING];
static struct tcpl_hold hold[64];
static uint64_t now = 1000 * RN_NS_PER_S;

static uint32_t at(uint32_t segment) { return ISS + 1 + segment * MSS; }

static void segment_in(uint32_t ack, const uint8_t *opt, uint8_t optlen)
{
	struct tcpl_seg s = { .seq = 101, .ack = ack, .wnd = 65535, .flags = TCPL_ACK, .optlen = optlen, .opt = opt };
	struct tcpl_ev ev;
	struct tcpl_out o;

	now += 500;
	(void)tcpl_in(&c, now, &s, &ev);
	while (tcpl_out(&c, now, &o)) {
	}
}

static void sack(const uint32_t (*b)[2], uint32_t n)
{
	uint8_t opt[4 + 8 * 4] = { 1, 1, 5, (uint8_t)(2 + 8 * n) };

	for (uint32_t i = 0; i < n; i++) {
		rn_store_be32(opt + 4 + 8 * i, at(b[i][0]));
		rn_store_be32(opt + 8 + 8 * i, at(b[i][1]));
	}
	segment_in(ISS + 1, opt, (uint8_t)(4 + 8 * n));
}

/* The first segment is lost: one block, which grows. */
static void grow(uint32_t n)
{
	for (uint32_t i = 2; i <= n; i++)
		sack((const uint32_t[][2]){ { 1, i } }, 1);
}

/* Every fourth segment is lost: the newest block and the three blocks before it. */
static void holes(uint32_t n)
{
	for (uint32_t i = 17; i <= n; i++) {
		uint32_t b = (i - 1) / 4 * 4;
		if (i == b + 1)
			continue;
		sack((const uint32_t[][2]){ { b + 1, i }, { b - 3, b }, { b - 7, b - 4 }, { b - 11, b - 8 } }, 4);
	}
}

/* A hostile peer: blocks that begin anywhere in the SACKed range. */
static void anywhere(uint32_t n)
{
	uint32_t from = 1;

	for (uint32_t i = 2; i <= n; i++) {
		from = (from * 1103515245u + 12345u) & 0x7fffffffu;
		sack((const uint32_t[][2]){ { 1 + from % (i - 1), i } }, 1);
	}
}

/* The same downwards, then blocks that begin at each record in turn. */
static void backwards(uint32_t n)
{
	for (uint32_t i = n / 2; i > 1; i--)
		sack((const uint32_t[][2]){ { i - 1, i } }, 1);
	for (uint32_t i = 2; i < n / 2; i++)
		sack((const uint32_t[][2]){ { i, n / 2 } }, 1);
}

/* Not inlined, so that callgrind counts the instructions between its beginning and its end. */
__attribute__((noinline)) static void acks(const char *pattern, uint32_t n)
{
	static const struct {
		const char *name;
		void (*run)(uint32_t n);
	} p[] = {
		{ "grow", grow },
		{ "holes", holes },
		{ "anywhere", anywhere },
		{ "backwards", backwards },
	};

	for (uint32_t i = 0; i < RN_ARRAY_LEN(p); i++)
		if (strcmp(p[i].name, pattern) == 0)
			p[i].run(n);
}

int main(int argc, char **argv)
{
	static const uint8_t syn_opt[12] = { 2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 14 };
	struct tcpl_mem m = { .chunk = chunk, .rec = rec, .hold = hold, .chunk_n = RING, .rec_n = RING, .hold_n = 64 };
	struct tcpl_seg syn = { .seq = 100, .wnd = 65535, .flags = TCPL_SYN, .optlen = 12, .opt = syn_opt };
	struct tcpl_cfg cfg;
	struct tcpl_out o;
	uint32_t n = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;

	if (n == 0 || n >= RING)
		return 2;
	tcpl_cfg_default(&cfg, MSS);
	cfg.use_ts = false;
	tcpl_init(&c, &cfg, &m);
	if (tcpl_accept_syn(&c, now, ISS, &syn) != TCPL_OK)
		return 1;
	while (tcpl_out(&c, now, &o)) {
	}
	segment_in(ISS + 1, NULL, 0);
	c.cwnd = 60u << 20;
	for (uint32_t i = 0; i < n; i++)
		if (!tcpl_send(&c, MSS, 1))
			return 1;
	while (tcpl_out(&c, now, &o)) {
	}
	if (c.r_tail - c.r_head != n)
		return 1;
	uint32_t before = c.stats.sacks_in;
	acks(argv[1], n);
	printf("%u\n", c.stats.sacks_in - before);
	return 0;
}
