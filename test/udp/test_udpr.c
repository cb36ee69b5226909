/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"
#include "udp/udpl.h"
#include "udpr_ends.h"

/* The vectors of doc/datagram-iwarp.md; test_document.py builds them with a CRC and headers of its own. */
static const uint8_t wire_hello[] = {
	0x10, 0x20, 0x00, 0x00, 0x00, 0x01, 0x00, 0x02, 0x11, 0x22, 0x33, 0x44, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xe8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7e, 0x17, 0x56, 0x18,
};
static const uint8_t wire_cookie[] = {
	0x10, 0x21, 0x00, 0x00, 0x00, 0x02, 0x00, 0x01, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xe8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03,
	0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x55, 0xfa, 0xac, 0x85,
};
static const uint8_t wire_data[] = {
	0x10, 0x22, 0x01, 0x00, 0x00, 0x01, 0x00, 0x02, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d,
	0x0e, 0x0f, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x03, 0xf2, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d,
	0x0e, 0x0f, 0x72, 0x65, 0x6c, 0x69, 0x61, 0x62, 0x6c, 0x65, 0xad, 0x36, 0x71, 0xb6,
};
static const uint8_t wire_ack[] = {
	0x10, 0x23, 0x02, 0x02, 0x00, 0x02, 0x00, 0x01, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f,
	0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x03, 0xf2, 0x00, 0x00, 0x00, 0x1e, 0x00, 0x00, 0x00, 0x07,
	0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x0c, 0x00, 0x00, 0x00, 0x0d, 0x36, 0x0c, 0x15, 0x06,
};
static const uint8_t wire_unknown[] = {
	0x10, 0x24, 0x00, 0x00, 0x00, 0x02, 0x00, 0x01, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf2, 0xc9, 0xa5, 0xd8,
};

static void golden_octets(void **state)
{
	static const struct {
		const uint8_t *b;
		uint32_t len;
	} t[] = { { wire_hello, sizeof(wire_hello) },
		  { wire_cookie, sizeof(wire_cookie) },
		  { wire_data, sizeof(wire_data) },
		  { wire_ack, sizeof(wire_ack) },
		  { wire_unknown, sizeof(wire_unknown) } };
	struct udpr_hdr h;
	uint8_t b[UDPR_ACK_LEN];

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		assert_int_equal(udpr_parse(t[i].b, t[i].len, &h), UDPR_OK);
		assert_true(udpl_crc_good(t[i].b, t[i].len));
		assert_int_equal(h.kind, UDPR_HELLO + i);
		assert_int_equal(h.flow, 0x11223344);
		assert_int_equal(udpr_build(b, &h), t[i].len - h.body_len - UDPL_CRC_LEN);
		assert_memory_equal(b, t[i].b, h.body);
	}
	assert_int_equal(udpr_parse(wire_data, sizeof(wire_data), &h), UDPR_OK);
	assert_true(h.number == 7 && h.body_len == 8 && memcmp(wire_data + h.body, "reliable", 8) == 0);
	assert_int_equal(udpr_parse(wire_ack, sizeof(wire_ack), &h), UDPR_OK);
	assert_true(h.sacks == 2 && h.sack[1].from == 12 && h.sack[1].to == 13 && h.hold == 30);
}

static void every_wrong_header_has_its_name(void **state)
{
	uint8_t b[sizeof(wire_ack)];
	struct udpr_hdr h;

	(void)state;
	for (uint32_t len = 0; len < UDPR_HDR_LEN + UDPL_CRC_LEN; len++)
		assert_int_equal(udpr_parse(wire_ack, len, &h), UDPR_SHORT);
	for (uint32_t len = UDPR_HDR_LEN + UDPL_CRC_LEN; len < sizeof(wire_ack); len++)
		assert_int_equal(udpr_parse(wire_ack, len, &h), UDPR_BAD_BODY);
	memcpy(b, wire_ack, sizeof(b));
	b[0] = 0x20;
	assert_int_equal(udpr_parse(b, sizeof(b), &h), UDPR_BAD_VERSION);
	b[0] = 0x10;
	b[1] = UDPR_UNKNOWN + 1;
	assert_int_equal(udpr_parse(b, sizeof(b), &h), UDPR_BAD_KIND);
	b[1] = UDPR_ACK;
	b[3] = UDPR_SACKS + 1;
	assert_int_equal(udpr_parse(b, sizeof(b), &h), UDPR_BAD_BODY);
}

static void hello(struct udpr_hdr *cookie, uint32_t flow, const char *peer, uint64_t now)
{
	struct udpr_hdr h = { .kind = UDPR_HELLO, .src_worker = 1, .dst_worker = 2, .flow = flow };

	udpr_cookie_make(key, peer, 1, &h, now, cookie);
}

static struct udpr_hdr data_with(const struct udpr_hdr *cookie, uint32_t number)
{
	struct udpr_hdr h = *cookie;

	h.kind = UDPR_DATA;
	h.flags = UDPR_F_COOKIE;
	h.src_worker = 1;
	h.dst_worker = 2;
	h.number = number;
	return h;
}

static void a_cookie_serves_one_peer_one_flow_and_its_time(void **state)
{
	struct udpr_hdr c, h;

	(void)state;
	rx = (struct udpr_rx){ 0 };
	hello(&c, 7, "a", start);
	h = data_with(&c, 0);
	assert_int_equal(udpr_rx_open(&rx, key, "b", 1, &h, start), UDPR_BAD_COOKIE);
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start + UDPR_COOKIE_NS + 1), UDPR_BAD_COOKIE);
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start - 1), UDPR_BAD_COOKIE);
	h.flow = 8;
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start), UDPR_BAD_COOKIE);
	h.flow = 7;
	h.src_worker = 3;
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start), UDPR_BAD_COOKIE);
	h.src_worker = 1;
	h.flags = 0;
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start), UDPR_STRANGE);
	for (uint32_t bit = 0; bit < 8 * UDPR_COOKIE_LEN; bit++) {
		h = data_with(&c, 0);
		h.cookie[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start), UDPR_BAD_COOKIE);
	}
	assert_false(rx.open);
	h = data_with(&c, 0);
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start), UDPR_OK);
}

static void a_flow_that_was_replaced_does_not_come_back(void **state)
{
	struct udpr_hdr old, new, h;

	(void)state;
	rx = (struct udpr_rx){ 0 };
	hello(&old, 7, "a", start);
	hello(&new, 8, "a", start + 1);
	h = data_with(&old, 0);
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start + 2), UDPR_OK);
	assert_int_equal(udpr_rx_data(&rx, &h, start + 2), UDPR_OK);
	h = data_with(&new, 0);
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start + 3), UDPR_OK);
	assert_int_equal(udpr_rx_data(&rx, &h, start + 3), UDPR_OK);
	h = data_with(&old, 0);
	assert_int_equal(udpr_rx_open(&rx, key, "a", 1, &h, start + 4), UDPR_BAD_COOKIE);
	assert_int_equal(udpr_rx_data(&rx, &h, start + 4), UDPR_STRANGE);
}

static void a_hole_delays_its_own_packet_alone(void **state)
{
	struct udpr_hdr h;
	uint64_t user, now = start + 2 * rtt;

	(void)state;
	assert_int_equal(open_flow(4), 4);
	ack(0, 1, 4, now);
	assert_int_equal(told(true), 3);
	/* a missing packet counts as lost only after a quarter of the smallest round trip */
	assert_false(udpr_tx_next(&tx, now, &h, &user));
	now = udpr_tx_timer(&tx, now);
	assert_int_equal(now, start + 2 * rtt + rtt / 4);
	udpr_tx_tick(&tx, now);
	tx.pace = 0;
	assert_true(udpr_tx_next(&tx, now, &h, &user));
	assert_true(h.kind == UDPR_DATA && h.number == 0 && user == 0);
	ack(4, 0, 0, now + rtt);
	assert_int_equal(told(true), 1);
	assert_false(udpr_tx_busy(&tx));
}

static void a_hole_keeps_the_numbers_behind_it_in_use(void **state)
{
	const uint64_t now = start + 2 * rtt;

	(void)state;
	assert_int_equal(open_flow(4), 4);
	ack(0, 1, 4, now);
	assert_int_equal(told(true), 3);
	assert_int_equal(udpr_tx_room(&tx, UDPR_WINDOW), UDPR_WINDOW - 4);
	for (uint32_t left = UDPR_WINDOW - 4; left > 0; left--) {
		assert_int_equal(udpr_tx_room(&tx, UDPR_WINDOW), left);
		assert_true(udpr_tx_send(&tx, left, now));
	}
	assert_int_equal(udpr_tx_room(&tx, UDPR_WINDOW), 0);
	assert_false(udpr_tx_send(&tx, 0, now));
	assert_int_equal(tx.state, UDPR_OPEN);
	ack(4, 0, 0, now + rtt);
	assert_int_equal(told(true), 1);
	assert_int_equal(udpr_tx_room(&tx, UDPR_WINDOW), 4);
}

static void a_lost_tail_is_probed_before_all_is_sent_again(void **state)
{
	struct udpr_hdr h;
	uint64_t user, now;

	(void)state;
	assert_int_equal(open_flow(3), 3);
	now = udpr_tx_timer(&tx, start + rtt);
	udpr_tx_tick(&tx, now);
	assert_true(udpr_tx_next(&tx, now, &h, &user) && h.number == 2);
	assert_false(udpr_tx_next(&tx, now, &h, &user));
	assert_int_equal(tx.cwnd >> 16, 10); /* no packet counts as lost yet */
	now = udpr_tx_timer(&tx, now);
	udpr_tx_tick(&tx, now);
	assert_true(udpr_tx_next(&tx, now, &h, &user) && h.number == 0);
	assert_true(tx.cwnd < 65536); /* Swift's cwnd below 1: less than one packet in a round trip */
}

static void an_ack_of_what_was_never_sent_changes_nothing(void **state)
{
	struct udpr_hdr h = { .kind = UDPR_ACK, .number = 5 };

	(void)state;
	assert_int_equal(open_flow(4), 4);
	h.flow = tx.flow;
	h.token = tx.token;
	assert_int_equal(udpr_tx_in(&tx, &h, start + 2 * rtt), UDPR_FAR);
	h.number = 0;
	h.sacks = 1;
	h.sack[0].from = 2;
	h.sack[0].to = 5;
	assert_int_equal(udpr_tx_in(&tx, &h, start + 2 * rtt), UDPR_FAR);
	h.sack[0].from = h.sack[0].to = 2;
	assert_int_equal(udpr_tx_in(&tx, &h, start + 2 * rtt), UDPR_FAR);
	/* numbers of which any two seem to be in order, while all three are not */
	for (h.number = 0; h.number <= 4; h.number++) {
		h.sack[0].from = tx.nxt + 2;
		h.sack[0].to = tx.nxt + 1 + (UINT32_C(1) << 31);
		assert_int_equal(udpr_tx_in(&tx, &h, start + 2 * rtt), UDPR_FAR);
		h.sack[0].from = h.sack[0].to - 1;
		assert_int_equal(udpr_tx_in(&tx, &h, start + 2 * rtt), UDPR_FAR);
	}
	h.token++;
	assert_int_equal(udpr_tx_in(&tx, &h, start + 2 * rtt), UDPR_STRANGE);
	assert_int_equal(told(true), 0);
}

static void a_silent_peer_fails_every_packet_after_patience(void **state)
{
	(void)state;
	assert_int_equal(open_flow(30), 10);
	udpr_tx_tick(&tx, start + rtt + cfg.patience - 1);
	assert_int_equal(told(false), 0);
	udpr_tx_tick(&tx, start + rtt + cfg.patience);
	assert_int_equal(tx.state, UDPR_LOST);
	assert_int_equal(told(false), 30);
	assert_false(udpr_tx_busy(&tx) || udpr_tx_send(&tx, 0, start));
}

/* A worker that stands still hears nobody: only the time in which it runs counts. */
static void a_peer_is_not_taken_as_gone_because_the_caller_stood_still(void **state)
{
	uint64_t stood = 0;
	const struct udpr_cfg with = {
		.target = cfg.target, .patience = cfg.patience, .ack_delay = cfg.ack_delay, .stood = &stood
	};

	(void)state;
	open_flow(30);
	tx.cfg = &with;
	stood = 6 * cfg.patience;
	const uint64_t end = start + rtt + stood + cfg.patience;
	udpr_tx_tick(&tx, start + rtt + stood);
	udpr_tx_tick(&tx, end - 1);
	assert_int_equal(tx.state, UDPR_OPENING);
	ack(1, 0, 0, end - 1); /* the wait begins anew */
	assert_int_equal(told(true), 1);
	stood += 6 * cfg.patience;
	const uint64_t last = end - 1 + 6 * cfg.patience + cfg.patience;
	udpr_tx_tick(&tx, last - 1);
	assert_int_equal(tx.state, UDPR_OPEN);
	assert_true(udpr_tx_timer(&tx, last - 1) <= last);
	udpr_tx_tick(&tx, last);
	assert_int_equal(tx.state, UDPR_LOST);
	assert_int_equal(told(false), 29);
}

static void a_restarted_receiver_ends_the_flow_at_once(void **state)
{
	struct udpr_hdr h = { .kind = UDPR_DATA }, out;

	(void)state;
	assert_int_equal(open_flow(4), 4);
	ack(1, 2, 3, start + 2 * rtt);
	h.flow = tx.flow;
	h.token = tx.token;
	udpr_unknown(&h, &out);
	out.token++; /* a forged acknowledgement */
	assert_int_equal(udpr_tx_in(&tx, &out, start + 2 * rtt), UDPR_STRANGE);
	assert_int_equal(told(true), 2);
	out.token--;
	assert_int_equal(udpr_tx_in(&tx, &out, start + 2 * rtt), UDPR_OK);
	assert_int_equal(told(false), 2);
}

static void a_receiver_that_did_not_run_says_so_once(void **state)
{
	struct udpr_hdr h = { .kind = UDPR_DATA }, out;

	(void)state;
	assert_int_equal(open_flow(2), 2);
	h.flow = tx.flow;
	h.token = tx.token;
	udpr_rx_late(&rx);
	assert_int_equal(udpr_rx_data(&rx, &h, start + rtt), UDPR_OK);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_int_equal(out.flags, UDPR_F_LATE);
	assert_int_equal(udpr_rx_data(&rx, &h, start + rtt), UDPR_TWICE);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_int_equal(out.flags, UDPR_F_TWICE);
}

static void a_flow_ends_at_its_sender_before_a_receiver_forgets_it(void **state)
{
	(void)state;
	assert_int_equal(open_flow(1), 1);
	ack(1, 0, 0, start + 2 * rtt);
	assert_int_equal(told(true), 1);
	assert_false(udpr_tx_send(&tx, 1, start + rtt + UDPR_TX_IDLE + 1));
	assert_int_equal(tx.state, UDPR_CLOSED);
}

static void nothing_is_forgotten_while_a_packet_or_an_ack_is_owed(void **state)
{
	struct udpr_hdr h = { .kind = UDPR_DATA }, out;

	(void)state;
	assert_int_equal(open_flow(1), 1);
	assert_true(udpr_rest_due(&tx, &rx, 0) == RN_NEVER); /* not known yet whether the packet has come */
	ack(1, 0, 0, start + 2 * rtt);
	assert_true(udpr_rest_due(&tx, &rx, 0) == RN_NEVER); /* the caller has not been told that the packet has come */
	assert_int_equal(told(true), 1);
	h.flow = tx.flow;
	h.token = tx.token;
	assert_int_equal(udpr_rx_data(&rx, &h, start + 3 * rtt), UDPR_OK);
	assert_true(udpr_rest_due(&tx, &rx, 0) == RN_NEVER); /* the ACK is owed */
	udpr_rx_ack(&rx, start + 3 * rtt, &out);
	assert_true(udpr_rest_due(&tx, &rx, 0) == start + 3 * rtt + UDPR_IDLE_MIN);
	assert_true(udpr_rest_due(&tx, &rx, 60 * RN_NS_PER_S) == start + 3 * rtt + 60 * RN_NS_PER_S);
	rx.heard = 0; /* the last packet went the other way */
	assert_true(udpr_rest_due(&tx, &rx, 0) == tx.last_sent + UDPR_IDLE_MIN);
}

static void a_folded_flow_takes_no_number_twice_and_goes_on(void **state)
{
	struct udpr_hdr h = { .kind = UDPR_DATA }, out, hello = { .kind = UDPR_HELLO, .flow = 9 };
	struct udpr_rx again = { .heard = start };
	struct udpr_fold f;

	(void)state;
	assert_int_equal(open_flow(1), 1);
	assert_true(udpr_rx_fold(&again, &f) && f.flow == 0); /* no flow */
	h.flow = tx.flow;
	h.token = tx.token;
	assert_int_equal(udpr_rx_data(&rx, &h, start + rtt), UDPR_OK);
	assert_false(udpr_rx_fold(&rx, &f)); /* the ACK is owed */
	udpr_rx_ack(&rx, start + rtt, &out);
	h.number = 2;
	assert_int_equal(udpr_rx_data(&rx, &h, start + rtt), UDPR_OK);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_false(udpr_rx_fold(&rx, &f)); /* number 1 is missing */
	h.number = 1;
	assert_int_equal(udpr_rx_data(&rx, &h, start + rtt), UDPR_OK);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_true(udpr_rx_fold(&rx, &f));
	udpr_rx_unfold(&again, key, "a", 1, &f);
	for (h.number = 0; h.number < 3; h.number++)
		assert_int_equal(udpr_rx_data(&again, &h, start + 2 * rtt), UDPR_TWICE);
	assert_int_equal(udpr_rx_data(&again, &h, start + 2 * rtt), UDPR_OK);
	/* a flow whose cookie is as old does not replace it, a flow with a younger cookie does */
	for (uint64_t at = start; at <= start + 1; at++) {
		udpr_cookie_make(key, "a", 1, &hello, at, &out);
		h = (struct udpr_hdr){ .kind = UDPR_DATA, .flags = UDPR_F_COOKIE, .flow = 9, .token = out.token };
		memcpy(h.cookie, out.cookie, sizeof(h.cookie));
		assert_int_equal(udpr_rx_open(&again, key, "a", 1, &h, start + 2 * rtt),
				 at == start ? UDPR_BAD_COOKIE : UDPR_OK);
	}
	udpr_rx_widen(&rx, (uint64_t[UDPR_WIDE / 64]){ 0 });
	assert_false(udpr_rx_fold(&rx, &f));
}

static void packets_come_back_only_from_a_flow_that_has_sent_none(void **state)
{
	struct udpr_hdr h, c;
	uint64_t user;

	(void)state;
	udpr_tx_open(&tx, &cfg, ring, UDPR_WINDOW, 7);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(udpr_tx_send(&tx, i, start));
	assert_true(udpr_tx_next(&tx, start, &h, &user)); /* the HELLO */
	udpr_cookie_make(key, "a", 1, &h, start, &c);
	assert_int_equal(udpr_tx_in(&tx, &c, start + rtt), UDPR_OK);
	for (uint32_t i = 3; i-- > 0;) {
		assert_true(udpr_tx_back(&tx, &user));
		assert_int_equal(user, i);
	}
	assert_false(udpr_tx_back(&tx, &user));
	assert_true(tx.state == UDPR_CLOSED && !udpr_tx_busy(&tx));
	assert_false(udpr_tx_send(&tx, 0, start));
	assert_int_equal(open_flow(2), 2);
	assert_false(udpr_tx_back(&tx, &user));
	assert_true(udpr_tx_busy(&tx) && tx.state == UDPR_OPENING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_octets),
		cmocka_unit_test(every_wrong_header_has_its_name),
		cmocka_unit_test(a_cookie_serves_one_peer_one_flow_and_its_time),
		cmocka_unit_test(a_flow_that_was_replaced_does_not_come_back),
		cmocka_unit_test(a_hole_delays_its_own_packet_alone),
		cmocka_unit_test(a_hole_keeps_the_numbers_behind_it_in_use),
		cmocka_unit_test(a_lost_tail_is_probed_before_all_is_sent_again),
		cmocka_unit_test(an_ack_of_what_was_never_sent_changes_nothing),
		cmocka_unit_test(a_silent_peer_fails_every_packet_after_patience),
		cmocka_unit_test(a_peer_is_not_taken_as_gone_because_the_caller_stood_still),
		cmocka_unit_test(a_restarted_receiver_ends_the_flow_at_once),
		cmocka_unit_test(a_flow_ends_at_its_sender_before_a_receiver_forgets_it),
		cmocka_unit_test(nothing_is_forgotten_while_a_packet_or_an_ack_is_owed),
		cmocka_unit_test(a_folded_flow_takes_no_number_twice_and_goes_on),
		cmocka_unit_test(packets_come_back_only_from_a_flow_that_has_sent_none),
		cmocka_unit_test(a_receiver_that_did_not_run_says_so_once),
	};

	return cmocka_run_group_tests_name("udpr", tests, NULL, NULL);
}
