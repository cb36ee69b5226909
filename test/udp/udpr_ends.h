/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of one flow of udpr.h. The test sets the time: a round trip takes `rtt`. Included once in a program. */
#ifndef UDPR_ENDS_H
#define UDPR_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "udp/udpr.h"

static const uint64_t key[2] = { 0x0123456789abcdef, 0xfedcba9876543210 };
static const struct udpr_cfg cfg = { .target = 100 * RN_NS_PER_US,
				     .patience = RN_NS_PER_S,
				     .ack_delay = 100 * RN_NS_PER_US };
static const uint64_t start = 10 * RN_NS_PER_S, rtt = RN_NS_PER_MS;

static struct udpr_tx tx;
static struct udpr_rx rx;
static struct udpr_pkt ring[UDPR_WINDOW];

/* Opens both ends and gives the sender n packets. Sends as many as the window allows; returns their number. */
static uint32_t open_flow(uint32_t n)
{
	struct udpr_hdr h, c;
	uint64_t user;
	uint32_t sent = 0;

	memset(&rx, 0, sizeof(rx));
	udpr_tx_open(&tx, &cfg, ring, UDPR_WINDOW, 7);
	for (uint32_t i = 0; i < n; i++)
		assert_true(udpr_tx_send(&tx, i, start));
	assert_true(udpr_tx_next(&tx, start, &h, &user));
	assert_int_equal(h.kind, UDPR_HELLO);
	assert_false(udpr_tx_next(&tx, start, &h, &user));
	udpr_cookie_make(key, "a", 1, &h, start, &c);
	assert_int_equal(udpr_tx_in(&tx, &c, start + rtt), UDPR_OK);
	while (udpr_tx_timer(&tx, start + rtt) == start + rtt && udpr_tx_next(&tx, start + rtt, &h, &user)) {
		if (sent++ == 0)
			assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start + rtt), UDPR_OK);
		tx.pace = 0; /* no pacing: only the window limits what is sent */
	}
	return sent;
}

static void ack_with(uint32_t below, uint32_t from, uint32_t to, uint8_t flags, uint64_t now)
{
	struct udpr_hdr h = { .kind = UDPR_ACK, .flags = flags, .flow = tx.flow, .token = tx.token, .number = below };

	h.stamp = (uint32_t)((start + rtt) / RN_NS_PER_US);
	h.sacks = from != to;
	h.sack[0].from = from;
	h.sack[0].to = to;
	assert_int_equal(udpr_tx_in(&tx, &h, now), UDPR_OK);
}

static void ack(uint32_t below, uint32_t from, uint32_t to, uint64_t now) { ack_with(below, from, to, 0, now); }

static uint32_t told(bool want)
{
	uint64_t user;
	uint32_t n = 0;
	bool ok;

	for (; udpr_tx_done(&tx, &user, &ok); n++)
		assert_int_equal(ok, want);
	return n;
}

#endif
