/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"
#include "udp/udps.h"

/* The vectors of doc/datagram-sockets.md; test_document.py builds them with a CRC and headers of its own. */
static const uint8_t wire_ask[] = {
	0x10, 0x07, 0x00, 0x16, 0x00, 0xfe, 0x1c, 0x06, 0x00, 0xfe, 0x13, 0x88, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x00, 0x00, 0x8b, 0xe1, 0xd5, 0xa7,
};
static const uint8_t wire_takes[] = {
	0x10, 0x08, 0x00, 0x8b, 0x00, 0xfe, 0x13, 0x88, 0x00, 0xfe, 0x1c, 0x06, 0x89, 0xab, 0xcd, 0xef, 0x00,
	0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x01, 0x00, 0x1a, 0xd7, 0xef, 0x88,
};
static const uint8_t wire_stale[] = {
	0x10, 0x08, 0x00, 0x00, 0x00, 0xfe, 0x13, 0x88, 0x00, 0xfe, 0x1c, 0x06, 0x89, 0xab, 0xcd, 0xef, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x7c, 0x09, 0x74, 0x97,
};
static const uint8_t wire_datagram[] = {
	0x10, 0x01, 0x00, 0x00, 0x00, 0xfe, 0x1c, 0x06, 0x00, 0xfe, 0x13, 0x88, 0x89, 0xab, 0xcd, 0xef, 0x00,
	0x00, 0x00, 0x00, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
	0x00, 0x00, 0x00, 0x00, 0x64, 0x61, 0x74, 0x61, 0x67, 0x72, 0x61, 0x6d, 0xc7, 0xec, 0x97, 0xcd,
};
static const uint8_t wire_part[] = {
	0x10, 0x04, 0x00, 0x01, 0x00, 0xfe, 0x1c, 0x06, 0x00, 0xfe, 0x13, 0x88, 0x89, 0xab, 0xcd, 0xef,
	0x00, 0x00, 0x00, 0x96, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x08, 0x00, 0x00, 0x00, 0x80, 0x74, 0x68, 0x65, 0x20, 0x65, 0x6e, 0x64, 0x20, 0x6f, 0x66,
	0x20, 0x74, 0x68, 0x65, 0x20, 0x6d, 0x65, 0x73, 0x73, 0x61, 0x67, 0x65, 0x4f, 0x41, 0x54, 0x80,
};

#define MS RN_NS_PER_MS

static const struct udps_key a_peer = { .ip = { 10 }, .port = 7174, .from = 5000 };

/* ---- what is on the wire ---- */

static bool read_word(const uint8_t *p, uint32_t len, struct udps_msg *m)
{
	struct udpl_hdr h;

	return udpl_parse(p, len, &h) == UDPL_OK && udpl_crc_good(p, len) && udps_parse(&h, p + UDPL_HDR_LEN, m);
}

static void golden(const uint8_t *wire, struct udps_msg is)
{
	struct udps_msg m;
	uint8_t out[UDPS_LEN];

	assert_true(read_word(wire, UDPS_LEN, &m));
	assert_true(m.to == is.to && m.from == is.from && m.unit == is.unit && m.qkey == is.qkey);
	assert_true(m.stag == is.stag && m.nonce == is.nonce && m.status == is.status && m.slots == is.slots);
	udps_build(out, &is);
	assert_memory_equal(out, wire, UDPS_LEN);
}

static struct udps_msg said(uint16_t to, uint16_t from, uint64_t nonce, enum udps_status status)
{
	return (struct udps_msg){ .to = to, .from = from, .nonce = nonce, .status = (uint8_t)status };
}

static void golden_words(void **state)
{
	struct udps_msg m = said(7174, 5000, 0x0102030405060708, UDPS_ASKS);

	(void)state;
	_Static_assert(sizeof(wire_ask) == UDPS_LEN && sizeof(wire_takes) == UDPS_LEN, "no answer is larger");
	m.unit = 1408;
	golden(wire_ask, m);
	m = said(5000, 7174, 0x0102030405060708, UDPS_TAKES);
	m.unit = 8896;
	m.qkey = 0x89abcdef;
	golden(wire_takes, m);
	m = said(5000, 7174, 0, UDPS_STALE);
	m.qkey = 0x89abcdef;
	golden(wire_stale, m);
}

static void golden_datagrams(void **state)
{
	struct udpl_hdr h;

	(void)state;
	assert_int_equal(udpl_parse(wire_datagram, sizeof(wire_datagram), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_datagram, sizeof(wire_datagram)));
	assert_true(udpl_is_sock(h.src_qpn) && udps_port(h.src_qpn) == 5000);
	assert_int_equal(h.dst_qpn, udps_number(7174));
	assert_int_equal(udpl_parse(wire_part, sizeof(wire_part), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_part, sizeof(wire_part)));
	assert_int_equal(h.unit, 64);
	assert_int_equal(h.total, 150);
	assert_false(udpl_is_sock(UDPL_QPN_GROUP) || udpl_is_sock(UDPL_QPN_CM) || udpl_is_sock(0x1fe0000));
}

/* Changes one octet of a vector and corrects the CRC. True: the message can be read. */
static bool reads_with(const uint8_t *wire, uint32_t at, uint8_t octet)
{
	uint8_t b[UDPS_LEN];
	struct udps_msg m;

	memcpy(b, wire, sizeof(b));
	b[at] = octet;
	udpl_crc_put(b, UDPS_LEN - UDPL_CRC_LEN, crc32c(0, b, UDPS_LEN - UDPL_CRC_LEN));
	return read_word(b, sizeof(b), &m);
}

static void words_that_break_a_rule_are_refused(void **state)
{
	uint8_t b[UDPS_LEN + 1];
	struct udps_msg m;

	(void)state;
	assert_true(reads_with(wire_ask, 27, 9));
	assert_false(reads_with(wire_ask, 28, UDPS_TAKES));   /* a question has no status */
	assert_false(reads_with(wire_takes, 28, UDPS_ASKS));  /* an answer needs a status */
	assert_false(reads_with(wire_takes, 28, UDPS_STALE)); /* STALE is the status of an unasked message only */
	assert_false(reads_with(wire_stale, 28, UDPS_TAKES)); /* an unasked message cannot have the status TAKES */
	assert_true(reads_with(wire_stale, 28, UDPS_NOBODY));
	assert_false(reads_with(wire_takes, 28, 4));
	assert_false(reads_with(wire_ask, 5, 0xff)); /* a socket's number is not that of the group */
	assert_false(reads_with(wire_ask, 9, 0x12)); /* nor is it that of a queue pair */
	for (uint32_t i = 20; i < 28; i++) {         /* without a nonce */
		memcpy(b, wire_ask, UDPS_LEN);
		memset(b + 20, 0, 8);
		b[i] = i == 27;
		udpl_crc_put(b, UDPS_LEN - UDPL_CRC_LEN, crc32c(0, b, UDPS_LEN - UDPL_CRC_LEN));
		assert_int_equal(read_word(b, UDPS_LEN, &m), i == 27);
	}
	for (uint32_t to = 0; to < 2; to++) { /* port 0 is invalid */
		memcpy(b, wire_ask, UDPS_LEN);
		memset(b + 6 + 4 * to, 0, 2);
		udpl_crc_put(b, UDPS_LEN - UDPL_CRC_LEN, crc32c(0, b, UDPS_LEN - UDPL_CRC_LEN));
		assert_false(read_word(b, UDPS_LEN, &m));
	}
	for (uint32_t len = 0; len <= UDPS_LEN + 1; len++) {
		memset(b, 0, sizeof(b));
		memcpy(b, wire_ask, UDPS_LEN);
		if (len > UDPL_HDR_LEN + UDPL_CRC_LEN)
			udpl_crc_put(b, len - UDPL_CRC_LEN, crc32c(0, b, len - UDPL_CRC_LEN));
		assert_int_equal(read_word(b, len, &m), len == UDPS_LEN);
	}
}

/* ---- the table of peers ---- */

enum { ALICE, BOB, CAROL }; /* tenants */

static struct udps_table table;

/* Sends a datagram to the peer; returns the peer's state, or -1 if the table does not know the peer. */
static int sends(const struct udps_key *k, uint64_t now, bool asks)
{
	bool ask;
	const struct udps_peer *p = udps_way(&table, k, ALICE, now, &ask);

	assert_int_equal(ask, asks);
	return p != NULL ? p->state : -1;
}

static uint64_t nonce_of(const struct udps_key *k, uint64_t now)
{
	bool ask;

	return udps_way(&table, k, ALICE, now, &ask)->nonce;
}

static struct udps_msg answer(uint64_t nonce, enum udps_status status)
{
	struct udps_msg m = said(a_peer.from, a_peer.port, nonce, status);

	m.unit = 1408;
	m.qkey = 77;
	return m;
}

static void fresh(void) { udps_init(&table, (const uint64_t[2]){ 1, 2 }); }

/* A peer that has answered at time `now` that it takes iWARP. */
static void speaks(uint64_t now)
{
	fresh();
	assert_int_equal(sends(&a_peer, now, true), UDPS_ASKED);
	const struct udps_msg m = answer(nonce_of(&a_peer, now), UDPS_TAKES);
	assert_false(udps_hear(&table, &a_peer, &m, now));
	assert_int_equal(sends(&a_peer, now, false), UDPS_SPEAKS);
}

static void a_peer_is_asked_and_then_spoken_to(void **state)
{
	bool ask;

	(void)state;
	speaks(1000);
	const struct udps_peer *p = udps_way(&table, &a_peer, ALICE, 1000, &ask);
	assert_true(p->unit == 1408 && p->qkey == 77);
}

static void a_silent_peer_is_asked_four_times_and_then_left_alone(void **state)
{
	const uint64_t t = 5 * RN_NS_PER_S;

	(void)state;
	fresh();
	assert_int_equal(sends(&a_peer, t, true), UDPS_ASKED);
	const uint64_t nonce = nonce_of(&a_peer, t);
	assert_int_equal(sends(&a_peer, t + 19 * MS, false), UDPS_ASKED);
	assert_int_equal(sends(&a_peer, t + 20 * MS, true), UDPS_ASKED);
	assert_int_equal(sends(&a_peer, t + 59 * MS, false), UDPS_ASKED);
	assert_int_equal(sends(&a_peer, t + 60 * MS, true), UDPS_ASKED);
	assert_int_equal(sends(&a_peer, t + 140 * MS, true), UDPS_ASKED);
	assert_true(nonce_of(&a_peer, t + 140 * MS) == nonce);
	assert_int_equal(sends(&a_peer, t + 300 * MS, false), UDPS_PLAIN);
	assert_int_equal(sends(&a_peer, t + 300 * MS + UDPS_SILENT_NS - 1, false), UDPS_PLAIN);
	assert_int_equal(sends(&a_peer, t + 300 * MS + UDPS_SILENT_NS, true), UDPS_ASKED);
	assert_false(nonce_of(&a_peer, t + 300 * MS + UDPS_SILENT_NS) == nonce);
}

static void an_answer_that_comes_late_still_counts(void **state)
{
	(void)state;
	fresh();
	for (uint64_t t = MS; t <= 400 * MS; t += MS) {
		bool ask;
		(void)udps_way(&table, &a_peer, ALICE, t, &ask);
	}
	assert_int_equal(sends(&a_peer, 400 * MS, false), UDPS_PLAIN);
	const struct udps_msg m = answer(nonce_of(&a_peer, 400 * MS), UDPS_TAKES);
	assert_false(udps_hear(&table, &a_peer, &m, 400 * MS));
	assert_int_equal(sends(&a_peer, 400 * MS, false), UDPS_SPEAKS);
}

static void a_peer_without_such_a_socket_is_plain_for_a_second(void **state)
{
	(void)state;
	fresh();
	assert_int_equal(sends(&a_peer, MS, true), UDPS_ASKED);
	const struct udps_msg m = answer(nonce_of(&a_peer, MS), UDPS_NOBODY);
	/* the datagram was sent plain, so ICMP reports that nobody listens */
	assert_false(udps_hear(&table, &a_peer, &m, MS));
	assert_int_equal(sends(&a_peer, MS + UDPS_NOBODY_NS - 1, false), UDPS_PLAIN);
	assert_int_equal(sends(&a_peer, MS + UDPS_NOBODY_NS, true), UDPS_ASKED);
}

static void a_forged_answer_changes_nothing(void **state)
{
	struct udps_key other = a_peer;

	(void)state;
	fresh();
	assert_int_equal(sends(&a_peer, MS, true), UDPS_ASKED);
	const uint64_t nonce = nonce_of(&a_peer, MS);
	struct udps_msg m = answer(nonce + 2, UDPS_TAKES);
	assert_false(udps_hear(&table, &a_peer, &m, MS));
	m = answer(nonce, UDPS_TAKES);
	other.ip[3]++;
	assert_false(udps_hear(&table, &other, &m, MS)); /* an answer from another address is ignored */
	m = answer(0, UDPS_NOBODY);
	assert_false(udps_hear(&table, &a_peer, &m, MS));
	assert_int_equal(sends(&a_peer, MS, false), UDPS_ASKED);
	m = answer(nonce, UDPS_TAKES);
	m.unit = 0; /* a unit of 0: no datagram fits */
	assert_false(udps_hear(&table, &a_peer, &m, MS));
	assert_int_equal(sends(&a_peer, MS, false), UDPS_PLAIN);
}

static void what_comes_unasked_must_know_the_q_key(void **state)
{
	struct udps_msg m = answer(0, UDPS_NOBODY);

	(void)state;
	speaks(MS);
	m.qkey++;
	assert_false(udps_hear(&table, &a_peer, &m, MS));
	assert_int_equal(sends(&a_peer, MS, false), UDPS_SPEAKS);
	m.qkey--;
	assert_true(udps_hear(&table, &a_peer, &m, MS));
	assert_false(udps_hear(&table, &a_peer, &m, MS)); /* the missing socket is reported once */
	assert_int_equal(sends(&a_peer, MS, false), UDPS_PLAIN);
	speaks(MS);
	m = answer(0, UDPS_STALE);
	assert_false(udps_hear(&table, &a_peer, &m, MS));
	assert_int_equal(sends(&a_peer, MS, true), UDPS_ASKED);
}

static void a_peer_is_asked_anew_while_it_is_spoken_to(void **state)
{
	const uint64_t t = MS + UDPS_FRESH_NS;

	(void)state;
	speaks(MS);
	assert_int_equal(sends(&a_peer, t - 1, false), UDPS_SPEAKS);
	assert_int_equal(sends(&a_peer, t, true), UDPS_SPEAKS);
	assert_int_equal(sends(&a_peer, t + 20 * MS, true), UDPS_SPEAKS);
	struct udps_msg m = answer(nonce_of(&a_peer, t + 20 * MS), UDPS_TAKES);
	m.qkey = 78;
	assert_false(udps_hear(&table, &a_peer, &m, t + 20 * MS));
	assert_int_equal(sends(&a_peer, t + 30 * MS, false), UDPS_SPEAKS);
	for (uint64_t at = t + 30 * MS; at < t + 2 * UDPS_FRESH_NS; at += 10 * MS) { /* the peer no longer answers */
		bool ask;
		(void)udps_way(&table, &a_peer, ALICE, at, &ask);
	}
	assert_int_equal(sends(&a_peer, t + 2 * UDPS_FRESH_NS, false), UDPS_PLAIN);
}

static void an_old_answer_is_not_believed(void **state)
{
	(void)state;
	speaks(MS);
	assert_int_equal(sends(&a_peer, MS + UDPS_FRESH_NS + UDPS_OLD_NS, true), UDPS_ASKED);
}

static void slots_are_asked_for_when_they_are_wanted_and_used_in_turn(void **state)
{
	bool ask;

	(void)state;
	speaks(MS);
	struct udps_peer *p = udps_way(&table, &a_peer, ALICE, MS, &ask);
	assert_true(p->wants == 0 && !udps_slot(p, MS));
	assert_int_equal(sends(&a_peer, MS, true), UDPS_SPEAKS); /* the sender asks for slots at once, but only once */
	assert_true(p->wants != 0 && !udps_slot(p, MS));
	assert_int_equal(sends(&a_peer, MS, false), UDPS_SPEAKS);
	struct udps_msg m = answer(p->nonce, UDPS_TAKES);
	m.slots = 2;
	m.stag = 5;
	assert_false(udps_hear(&table, &a_peer, &m, MS));
	assert_true(udps_slot(p, MS) && p->slot == 1 && p->stag == 5);
	assert_true(udps_slot(p, MS) && p->slot == 0);
	assert_true(udps_slot(p, MS + UDPS_LENT_NS - 1) && p->slot == 1);
	assert_false(udps_slot(p, MS + UDPS_LENT_NS)); /* the peer may soon lend the slots to another sender */
	/* without long datagrams the slots are given back */
	for (uint64_t t = MS + UDPS_FRESH_NS; t < 6 * UDPS_FRESH_NS; t += UDPS_FRESH_NS) {
		assert_int_equal(sends(&a_peer, t, true), UDPS_SPEAKS);
		m = answer(p->nonce, UDPS_TAKES);
		assert_false(udps_hear(&table, &a_peer, &m, t));
	}
	assert_true(p->wants == 0 && p->slots == 0);
	m.nonce = 0;
	speaks(MS);
	p = udps_way(&table, &a_peer, ALICE, MS, &ask);
	assert_int_equal(sends(&a_peer, MS + UDPS_FRESH_NS, true), UDPS_SPEAKS);
	m = answer(p->nonce, UDPS_TAKES);
	m.slots = 3; /* without an STag the slots are not used */
	assert_false(udps_hear(&table, &a_peer, &m, MS + UDPS_FRESH_NS));
	assert_false(udps_slot(p, MS + UDPS_FRESH_NS));
}

static void peers_in_use_are_not_forgotten_for_others_and_the_table_is_bounded(void **state)
{
	struct udps_key k = a_peer;
	uint32_t kept = 0;

	(void)state;
	fresh();
	for (uint32_t i = 0; i < 4 * UDPS_SETS * UDPS_WAYS; i++) {
		bool ask;
		rn_store_be32(k.ip + 12, i);
		const struct udps_peer *p = udps_way(&table, &k, ALICE, 1 + i, &ask);
		assert_int_equal(ask, p != NULL); /* a peer without an entry is not asked either */
		kept += p != NULL;
	}
	assert_true(kept <= UDPS_SETS * UDPS_WAYS && kept > UDPS_SETS * UDPS_WAYS / 2);
	rn_store_be32(k.ip + 12, 0);
	assert_int_equal(sends(&k, 2, false), UDPS_ASKED); /* the first peer still has its entry */
	for (uint32_t i = 0; i < UDPS_WAYS + 1; i++) {
		rn_store_be32(k.ip + 12, 1000000 + i);
		assert_int_equal(sends(&k, 2 * RN_NS_PER_S, true), UDPS_ASKED); /* idle entries are replaced */
	}
}

/* How many of n peers of this tenant, all other ones than before, have an entry when a datagram is sent to each. */
static uint32_t sends_to_many(uint8_t tenant, uint32_t n, uint64_t now)
{
	static uint32_t addr;
	struct udps_key k = a_peer;
	uint32_t kept = 0;
	bool ask;

	for (uint32_t i = 0; i < n; i++) {
		rn_store_be32(k.ip + 12, ++addr);
		kept += udps_way(&table, &k, tenant, now, &ask) != NULL;
	}
	return kept;
}

static uint32_t entries_of(uint8_t tenant)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < UDPS_SETS * UDPS_WAYS; i++) {
		const struct udps_peer *p = &table.peer[i / UDPS_WAYS][i % UDPS_WAYS];
		n += p->used != 0 && p->tenant == tenant;
	}
	return n;
}

static void who_fills_the_table_keeps_nobody_out_of_it(void **state)
{
	const uint32_t places = UDPS_SETS * UDPS_WAYS;

	(void)state;
	fresh();
	assert_int_equal(sends_to_many(ALICE, 20 * places, MS), places);
	assert_int_equal(sends(&a_peer, 2 * MS, false), -1);
	assert_int_equal(sends_to_many(BOB, 20, 3 * MS), 20);
	assert_int_equal(entries_of(ALICE), places - 20);
	/* tenants that want the whole table share it, and do not push each other out of it */
	(void)sends_to_many(BOB, 20 * places, 4 * MS);
	assert_true(entries_of(ALICE) == places / 2 && entries_of(BOB) == places / 2);
	(void)sends_to_many(CAROL, 20 * places, 5 * MS);
	assert_int_equal(entries_of(CAROL), places / UDPS_WAYS);
	for (uint8_t tenant = ALICE; tenant <= CAROL; tenant++)
		assert_int_equal(sends_to_many(tenant, places, 6 * MS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_words),
		cmocka_unit_test(golden_datagrams),
		cmocka_unit_test(words_that_break_a_rule_are_refused),
		cmocka_unit_test(a_peer_is_asked_and_then_spoken_to),
		cmocka_unit_test(a_silent_peer_is_asked_four_times_and_then_left_alone),
		cmocka_unit_test(an_answer_that_comes_late_still_counts),
		cmocka_unit_test(a_peer_without_such_a_socket_is_plain_for_a_second),
		cmocka_unit_test(a_forged_answer_changes_nothing),
		cmocka_unit_test(what_comes_unasked_must_know_the_q_key),
		cmocka_unit_test(a_peer_is_asked_anew_while_it_is_spoken_to),
		cmocka_unit_test(an_old_answer_is_not_believed),
		cmocka_unit_test(slots_are_asked_for_when_they_are_wanted_and_used_in_turn),
		cmocka_unit_test(peers_in_use_are_not_forgotten_for_others_and_the_table_is_bounded),
		cmocka_unit_test(who_fills_the_table_keeps_nobody_out_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
