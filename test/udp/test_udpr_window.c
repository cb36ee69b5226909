/* SPDX-License-Identifier: BSD-3-Clause */
/* How many packets of a flow are on the way: the sender's congestion window, and the window that its receiver tells. */
#include "udpr_ends.h"

static void delay_above_the_target_makes_the_window_smaller(void **state)
{
	uint32_t before;

	(void)state;
	assert_int_equal(open_flow(20), 10);
	before = tx.cwnd;
	ack(1, 0, 0, start + 2 * rtt);
	assert_true(tx.cwnd > before);
	before = tx.cwnd;
	for (uint32_t n = 2; n < 8;
	     n++) { /* these round trips are three times as long; only ACK 1, in the same round, was short */
		ack(n, 0, 0, start + 4 * rtt);
		assert_int_equal(tx.cwnd, before);
	}
	ack(8, 0, 0, start + 4 * rtt); /* the fourth round trip of a round without a short one */
	assert_true(tx.cwnd < before && tx.cwnd >= before / 2);
	before = tx.cwnd;
	ack(9, 0, 0, start + 4 * rtt + 1);
	assert_int_equal(tx.cwnd, before); /* cwnd is reduced at most once in a round trip */
}

static void delay_of_an_end_that_did_not_run_is_no_congestion(void **state)
{
	uint32_t before, srtt;

	(void)state;
	assert_int_equal(open_flow(20), 10);
	ack(1, 0, 0, start + 2 * rtt);
	before = tx.cwnd;
	srtt = tx.srtt;
	ack_with(2, 0, 0, UDPR_F_LATE, start + 40 * rtt);
	assert_true(tx.cwnd > before && tx.srtt > srtt); /* the smoothed round trip, for the timers, counts the delay */
	before = tx.cwnd;
	for (uint32_t n = 3; n < 10; n++)
		ack(n, 0, 0, start + 80 * rtt);
	assert_true(tx.cwnd < before);
}

/*
 * Runs a flow with much to send over a line of constant delay for `rounds` round trips. The line loses one packet in
 * lose_each. Returns the congestion window at the end, in packets.
 */
static uint32_t window_after(uint32_t lose_each, uint32_t rounds)
{
	uint32_t n = open_flow(UDPR_WINDOW), number[UDPR_WINDOW], crossed = 0;
	uint64_t now = start + rtt, user;
	struct udpr_hdr h;
	bool ok;

	for (uint32_t i = 0; i < n; i++)
		number[i] = i;
	for (; rounds > 0; rounds--) {
		const uint32_t stamp = (uint32_t)(now / RN_NS_PER_US);
		now += rtt;
		for (uint32_t i = 0; i < n; i++) {
			h = (struct udpr_hdr){ .kind = UDPR_DATA, .flow = tx.flow, .token = tx.token, .stamp = stamp };
			h.number = number[i];
			if (++crossed % lose_each != 0)
				assert_int_equal(udpr_rx_data(&rx, &h, now), UDPR_OK);
		}
		if (udpr_rx_due(&rx, 0) != RN_NEVER) {
			udpr_rx_ack(&rx, now, &h);
			assert_int_equal(udpr_tx_in(&tx, &h, now), UDPR_OK);
		}
		now += rtt / 2; /* beyond RACK's reordering window */
		udpr_tx_tick(&tx, now);
		while (udpr_tx_done(&tx, &user, &ok))
			assert_true(ok);
		while (udpr_tx_room(&tx, UDPR_WINDOW) > 0)
			assert_true(udpr_tx_send(&tx, 0, now));
		for (n = 0; udpr_tx_next(&tx, now, &h, &user); n++) {
			number[n] = h.number;
			tx.pace = 0;
		}
	}
	return tx.cwnd >> 16;
}

static void a_new_flow_doubles_its_window_until_the_first_delay(void **state)
{
	(void)state;
	assert_int_equal(window_after(UINT32_MAX, 1), 20);
	assert_int_equal(window_after(UINT32_MAX, 3), 80);
	assert_int_equal(window_after(UINT32_MAX, 6), UDPR_WINDOW);
	assert_int_equal(open_flow(20), 10);
	for (uint32_t n = 1; n < 5; n++)
		ack(n, 0, 0, start + 4 * rtt); /* round trips three times as long as the smallest one */
	const uint32_t before = tx.cwnd;
	assert_true(before < 10 * 65536);
	ack_with(5, 0, 0, UDPR_F_LATE, start + 5 * rtt);
	assert_true(tx.cwnd > before &&
		    tx.cwnd - before < 65536 / 2); /* the window grows by one packet a round trip, not one an ACK */
}

static void few_losses_make_the_window_no_smaller_and_many_do(void **state)
{
	(void)state;
	assert_int_equal(window_after(100, 400), UDPR_WINDOW);      /* 1 % */
	assert_in_range(window_after(20, 400), 1, UDPR_WINDOW / 8); /* 5 % */
}

static void a_window_far_from_its_target_grows_faster_when_it_was_not_cut_for_a_while(void **state)
{
	const uint64_t now = start + 1000 * rtt;

	(void)state;
	for (uint32_t quiet = 0; quiet < 2; quiet++) {
		assert_int_equal(open_flow(20), 10);
		tx.starts = false;
		tx.cwnd = 160 * 65536;
		tx.cut = now - (quiet ? 100 : 2) * rtt;
		udpr_cc_ack(&tx, rtt, false, 160, now);
		assert_int_equal(tx.cwnd >> 16, quiet ? 160 + 1 + 160 / 16 : 160 + 1);
		udpr_cc_ack(&tx, rtt + cfg.target / 2, false, 160, now);
		assert_in_range(tx.cwnd >> 16, quiet ? 175 : 161, quiet ? 178 : 162); /* slower near the target */
	}
}

/* A flow beyond its slow start with a window of so many packets, whose least round trip is `least`. */
static void flow_of(uint32_t window, uint64_t least)
{
	assert_int_equal(open_flow(UDPR_WINDOW), 10);
	tx.starts = false;
	tx.cwnd = window * 65536;
	tx.min_rtt = tx.srtt = (uint32_t)least;
}

/* ACKs of one round trip, all with this delay. Returns when the next one begins. */
static uint64_t round_of(uint64_t delay, uint64_t now)
{
	for (uint32_t i = 0; i < 5; i++)
		udpr_cc_ack(&tx, delay, false, 1, now + i * tx.srtt / 4);
	return now + 2ull * tx.srtt;
}

static void a_delay_little_above_the_target_of_a_long_path_makes_the_window_smaller(void **state)
{
	const uint64_t least = 10 * RN_NS_PER_MS, now = start + 1000 * rtt;

	(void)state;
	flow_of(200, least);
	round_of(least + cfg.target + 50 * RN_NS_PER_US, now);
	assert_in_range(tx.cwnd, 198 * 65536, 200 * 65536 - 1); /* less than one percent */
}

static void a_round_below_the_target_makes_the_window_larger_whatever_single_packets_wait(void **state)
{
	const uint64_t now = start + 1000 * rtt;

	(void)state;
	flow_of(20, rtt);
	tx.cut = now; /* no further growth of a quiet time */
	round_of(rtt + cfg.target / 2, now);
	const uint32_t before = tx.cwnd;
	udpr_cc_ack(&tx, rtt + 2 * cfg.target, false, 20, now + 2 * rtt);
	assert_in_range(tx.cwnd - before, 65536 * 8 / 10, 65536); /* one packet a round trip */
}

static void a_smaller_window_has_a_larger_target(void **state)
{
	const uint64_t now = start + 1000 * rtt, delay = rtt + cfg.target + cfg.target / 2;

	(void)state;
	flow_of(200, rtt);
	round_of(delay, now);
	assert_true(tx.cwnd < 200 * 65536);
	flow_of(2, rtt);
	round_of(delay, now);
	assert_true(tx.cwnd > 2 * 65536);
}

static void a_flow_with_a_queue_slows_down_and_comes_back(void **state)
{
	uint64_t now = start + 1000 * rtt;

	(void)state;
	flow_of(160, rtt);
	round_of(rtt + cfg.target, now);
	tx.slow = now += 2 * rtt;
	const uint32_t before = tx.cwnd;
	udpr_cc_ack(&tx, rtt + cfg.target, false, 1, now);
	assert_int_equal(tx.cwnd, before / 8);
	udpr_cc_ack(&tx, rtt, false, 1, now + rtt);
	assert_int_equal(tx.cwnd, before / 8);
	for (uint32_t i = 1; i < 8; i++) { /* a packet that has come makes room for two */
		udpr_cc_ack(&tx, rtt, false, 20, now + 2 * rtt);
		assert_in_range(tx.cwnd, before / 8, before);
	}
	assert_int_equal(tx.cwnd, before);
	flow_of(160, rtt); /* no queue: nothing to wait for */
	tx.slow = now = round_of(rtt + cfg.target / 8, now);
	udpr_cc_ack(&tx, rtt, false, 1, now);
	assert_true(tx.cwnd >= 160 * 65536);
}

static void the_least_round_trip_is_forgotten_after_a_while(void **state)
{
	uint64_t now = start + 1000 * rtt;

	(void)state;
	flow_of(20, rtt);
	for (const uint64_t end = now + 21 * RN_NS_PER_S; now < end; now += RN_NS_PER_S)
		round_of(3 * rtt, now);
	assert_int_equal(tx.min_rtt, 3 * rtt);
}

static void a_window_that_is_not_used_does_not_grow(void **state)
{
	(void)state;
	assert_int_equal(open_flow(2), 2);
	ack(2, 0, 0, start + 2 * rtt);
	assert_int_equal(tx.cwnd >> 16, 10);
}

static void a_sender_uses_the_window_that_the_last_ack_tells(void **state)
{
	static struct udpr_pkt wide[4 * UDPR_WINDOW];
	const uint64_t now = start + 2 * rtt;
	struct udpr_hdr h;
	uint64_t user;

	(void)state;
	assert_int_equal(open_flow(UDPR_WINDOW), 10);
	assert_int_equal(udpr_tx_room(&tx, UDPR_WINDOW), 0);
	udpr_tx_ring(&tx, wide, RN_ARRAY_LEN(wide));
	assert_int_equal(udpr_tx_room(&tx, RN_ARRAY_LEN(wide)), 0); /* the receiver's window has not grown yet */
	ack_with(0, 1, 2, 1 << UDPR_F_WINDOW, now);
	assert_int_equal(udpr_tx_room(&tx, RN_ARRAY_LEN(wide)), UDPR_WINDOW);
	for (uint32_t i = 0; i < UDPR_WINDOW; i++)
		assert_true(udpr_tx_send(&tx, UDPR_WINDOW + i, now));
	assert_false(udpr_tx_send(&tx, 0, now));
	tx.cwnd = 1000 * 65536;
	for (uint32_t n = 10; n < 2 * UDPR_WINDOW; n++, tx.pace = 0) {
		assert_true(udpr_tx_next(&tx, now, &h, &user) && h.number == n && user == n);
		assert_true(h.flags & UDPR_F_MUCH);
	}
	assert_false(udpr_tx_next(&tx, now, &h, &user));
	ack_with(0, 3, 4, 0, now + 1); /* the receiver needs its memory for other flows, and tells the usual window */
	assert_int_equal(udpr_tx_room(&tx, RN_ARRAY_LEN(wide)), 0);
	ack_with(2 * UDPR_WINDOW, 0, 0, 0, now + 2);
	assert_int_equal(told(true), 2 * UDPR_WINDOW);
	assert_false(udpr_tx_busy(&tx));
}

static void come(uint32_t number, uint8_t flags, enum udpr_verdict want)
{
	const struct udpr_hdr h = {
		.kind = UDPR_DATA, .flags = flags, .flow = tx.flow, .token = tx.token, .number = number
	};

	assert_int_equal(udpr_rx_data(&rx, &h, start + rtt), want);
}

static void a_receiver_with_memory_takes_more_and_tells_so(void **state)
{
	static uint64_t bits[UDPR_WIDE / 64];
	struct udpr_hdr out;

	(void)state;
	assert_int_equal(open_flow(2), 2);
	come(0, 0, UDPR_OK);
	come(UDPR_WINDOW, 0, UDPR_OK);
	come(UDPR_WINDOW + 1, UDPR_F_MUCH, UDPR_FAR);
	assert_true(rx.much);
	udpr_rx_widen(&rx, bits);
	come(UDPR_WINDOW, UDPR_F_MUCH, UDPR_TWICE); /* the receiver still knows that this packet has come */
	come(UDPR_WINDOW + 1, UDPR_F_MUCH, UDPR_OK);
	come(UDPR_WIDE, UDPR_F_MUCH, UDPR_OK);
	come(UDPR_WIDE + 1, UDPR_F_MUCH, UDPR_FAR);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_int_equal(UDPR_WINDOW << (out.flags >> UDPR_F_WINDOW), UDPR_WIDE);
	assert_true(out.sacks == 2 && out.sack[0].from == UDPR_WINDOW && out.sack[0].to == UDPR_WINDOW + 2);
	assert_true(out.sack[1].from == UDPR_WIDE && out.sack[1].to == UDPR_WIDE + 1);
	assert_null(udpr_rx_narrow(&rx)); /* packets have come whose numbers only the wide memory holds */
	for (uint32_t n = 1; n < UDPR_WIDE; n++)
		if (n != UDPR_WINDOW && n != UDPR_WINDOW + 1)
			come(n, 0, UDPR_OK);
	assert_int_equal(rx.next, UDPR_WIDE + 1);
	assert_ptr_equal(udpr_rx_narrow(&rx), bits);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bits); i++)
		assert_int_equal(bits[i], 0);
	come(UDPR_WIDE + 1 + UDPR_WINDOW, 0, UDPR_FAR);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_int_equal(out.flags >> UDPR_F_WINDOW, 0);
}

/* The receiver may still have the wide memory that an earlier flow needed. */
static void a_sender_that_never_had_much_to_send_is_told_the_usual_window(void **state)
{
	static uint64_t bits[UDPR_WIDE / 64];
	struct udpr_hdr out;

	(void)state;
	assert_int_equal(open_flow(2), 2);
	udpr_rx_widen(&rx, bits);
	come(1, 0, UDPR_OK);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_int_equal(out.flags >> UDPR_F_WINDOW, 0);
	come(2, UDPR_F_MUCH, UDPR_OK);
	udpr_rx_ack(&rx, start + rtt, &out);
	assert_int_equal(UDPR_WINDOW << (out.flags >> UDPR_F_WINDOW), UDPR_WIDE);
}

/*
 * There are more ranges of received packets than one ACK holds. A sender with much to send learns all ranges from
 * several ACKs; any other sender learns the lowest ranges only.
 */
static void all_ranges_are_told_in_turns(void **state)
{
	struct udpr_hdr out;

	(void)state;
	for (uint32_t much = 0; much < 2; much++) {
		bool heard[100] = { false };
		uint32_t n = 0;

		assert_int_equal(open_flow(2), 2);
		for (uint32_t k = 0; k < 40; k++)
			come(2 * k + 1, much ? UDPR_F_MUCH : 0, UDPR_OK);
		for (uint32_t k = 0; k < 3; k++) {
			udpr_rx_ack(&rx, start + rtt, &out);
			assert_int_equal(out.sacks, much ? UDPR_SACKS_MUCH : UDPR_SACKS);
			for (uint32_t i = 0; i < out.sacks; i++) {
				assert_int_equal(out.sack[i].to, out.sack[i].from + 1);
				n += !heard[out.sack[i].from];
				heard[out.sack[i].from] = true;
			}
		}
		assert_int_equal(n, much ? 40 : UDPR_SACKS);
		assert_true(heard[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delay_above_the_target_makes_the_window_smaller),
		cmocka_unit_test(delay_of_an_end_that_did_not_run_is_no_congestion),
		cmocka_unit_test(a_new_flow_doubles_its_window_until_the_first_delay),
		cmocka_unit_test(few_losses_make_the_window_no_smaller_and_many_do),
		cmocka_unit_test(a_window_far_from_its_target_grows_faster_when_it_was_not_cut_for_a_while),
		cmocka_unit_test(a_delay_little_above_the_target_of_a_long_path_makes_the_window_smaller),
		cmocka_unit_test(a_round_below_the_target_makes_the_window_larger_whatever_single_packets_wait),
		cmocka_unit_test(a_smaller_window_has_a_larger_target),
		cmocka_unit_test(a_flow_with_a_queue_slows_down_and_comes_back),
		cmocka_unit_test(the_least_round_trip_is_forgotten_after_a_while),
		cmocka_unit_test(a_window_that_is_not_used_does_not_grow),
		cmocka_unit_test(a_sender_uses_the_window_that_the_last_ack_tells),
		cmocka_unit_test(a_receiver_with_memory_takes_more_and_tells_so),
		cmocka_unit_test(a_sender_that_never_had_much_to_send_is_told_the_usual_window),
		cmocka_unit_test(all_ranges_are_told_in_turns),
	};

	return cmocka_run_group_tests_name("udpr_window", tests, NULL, NULL);
}
