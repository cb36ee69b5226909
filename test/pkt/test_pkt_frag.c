/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel_frags.pcap has six datagrams that Linux has fragmented. Payload byte i is i * 7 + i / 256. Lengths and numbers
 * of fragments: at an MTU of 1,500, 1,473 octets (2), 4,000 (3), 65,507 (45), 3,000 with eight NOP options (3), 2,000
 * with ECT(0) (2); at an MTU of 576, 2,000 octets (4). Checksums are complete; identifications are counted up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "pcap_file.h"
#include "pkt/pkt_frag.h"

#define MS      RN_NS_PER_MS
#define REFS    70000u
#define FRAMES  59u
#define LONGEST (PKT_ETH_LEN + 65535u)

static struct pcap_file cap;
static const uint32_t first_of[] = { 0, 2, 5, 50, 54, 57, FRAMES }, octets[] = { 1473, 4000, 65507, 2000, 3000, 2000 };

static struct pkt_frag_table table;
static struct pkt_frag_counts counts;
static uint8_t out[REFS]; /* true: the table holds this reference */
static uint32_t n_refs;

static void begin(void)
{
	static const uint64_t key[2] = { 1, 2 };

	memset(&counts, 0, sizeof(counts));
	memset(out, 0, sizeof(out));
	n_refs = 0;
	pkt_frag_init(&table, PKT_FRAG_PIECES, PKT_FRAG_FAR, key, &counts);
}

static uint32_t back(void *ref)
{
	const uint32_t i = (uint32_t)((uint8_t *)ref - out);

	assert_int_equal(out[i], 1);
	out[i] = 0;
	return i;
}

static void take_dead(void)
{
	void *ref;

	while ((ref = pkt_frag_dead(&table)) != NULL)
		back(ref);
}

static uint32_t held(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_refs; i++)
		n += out[i];
	return n;
}

static enum pkt_frag_verdict give(const struct pkt_frag *f, uint64_t now)
{
	const uint32_t i = n_refs++;

	assert_true(i < REFS);
	out[i] = 1;
	enum pkt_frag_verdict v = pkt_frag_in(&table, f, &out[i], now);
	if (v == PKT_FRAG_DROPPED)
		out[i] = 0;
	take_dead();
	return v;
}

/* Bytes [off, end) of a UDP datagram. */
static struct pkt_frag of(uint32_t src, uint16_t id, uint32_t off, uint32_t end, bool more)
{
	return (struct pkt_frag){
		.src = src, .dst = 1, .id = id, .proto = 17, .hdr_len = 20, .more = more, .off = off, .len = end - off
	};
}

static enum pkt_frag_verdict put(uint32_t off, uint32_t end, bool more)
{
	const struct pkt_frag f = of(9, 1, off, end, more);

	return give(&f, 0);
}

/* ---- fragments made by another implementation ---- */

static struct pkt_frag linux_made(uint32_t i, struct pkt *p)
{
	struct pkt_frag f;

	assert_int_equal(pcap_file_load(&cap, TEST_DATA_DIR "/kernel_frags.pcap"), FRAMES);
	assert_int_equal(pkt_parse(cap.rec[i].frame, cap.rec[i].len, cap.rec[i].len, p), PKT_FRAGMENT);
	assert_true(pkt_frag_read(cap.rec[i].frame, p, &f));
	return f;
}

/* Copies the datagram that is complete to `whole`, parses it and checks its payload. Returns the payload's length. */
static uint32_t read_whole(uint8_t *whole, struct pkt *p)
{
	uint32_t len = 0, i;
	void *ref;

	while ((ref = pkt_frag_whole(&table)) != NULL) {
		i = back(ref);
		struct pkt q;
		assert_int_equal(pkt_parse(cap.rec[i].frame, cap.rec[i].len, cap.rec[i].len, &q), PKT_FRAGMENT);
		const uint32_t from = len == 0 ? 0 : q.l4_off;
		memcpy(whole + len, cap.rec[i].frame + from, q.l4_off + q.l4_len - from);
		len += q.l4_off + q.l4_len - from;
	}
	pkt_frag_join(&table, whole + PKT_ETH_LEN);
	assert_int_equal(pkt_parse(whole, len, len, p), PKT_OK);
	assert_int_equal(p->kind, PKT_KIND_UDP);
	const struct rn_iov l4 = { whole + p->l4_off, p->l4_len };
	assert_true(pkt_l4_csum_ok(p, &l4, 1));
	for (uint32_t k = 0; k < p->payload_len; k++)
		assert_int_equal(whole[p->payload_off + k], (uint8_t)(k * 7 + (k >> 8)));
	return p->payload_len;
}

/* Gives frames in this order, each named by its number; each datagram is complete with its last frame. */
static void in_order(const uint32_t *order)
{
	static uint8_t whole[LONGEST];
	uint32_t left[6];

	begin();
	n_refs = FRAMES;
	for (uint32_t d = 0; d < 6; d++)
		left[d] = first_of[d + 1] - first_of[d];
	for (uint32_t k = 0; k < FRAMES; k++) {
		struct pkt p;
		const struct pkt_frag f = linux_made(order[k], &p);
		uint32_t d = 0;
		while (order[k] >= first_of[d + 1])
			d++;
		out[order[k]] = 1;
		enum pkt_frag_verdict v = pkt_frag_in(&table, &f, &out[order[k]], 0);
		assert_int_equal(v, --left[d] == 0 ? PKT_FRAG_WHOLE : PKT_FRAG_HELD);
		if (v == PKT_FRAG_WHOLE) {
			assert_int_equal(read_whole(whole, &p), octets[d]);
			assert_int_equal(p.ip_tos, d == 5 ? 2 : 0);
		}
	}
	assert_int_equal(held(), 0);
	assert_int_equal(counts.whole, 6);
	assert_int_equal(counts.bad + counts.late + counts.evicted, 0);
}

static void what_linux_has_cut_is_put_together_in_any_order(void **state)
{
	uint32_t order[FRAMES];
	struct rn_rng rng;
	(void)state;

	for (uint32_t i = 0; i < FRAMES; i++)
		order[i] = i;
	in_order(order);
	for (uint32_t i = 0; i < FRAMES; i++)
		order[i] = FRAMES - 1 - i;
	in_order(order);
	rn_rng_seed(&rng, 17);
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = FRAMES - 1; i > 0; i--) {
			const uint32_t j = rn_rng_u32(&rng) % (i + 1), x = order[i];
			order[i] = order[j];
			order[j] = x;
		}
		in_order(order);
	}
}

static void headers_of_fragments_are_those_that_linux_writes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < FRAMES; i++) {
		uint8_t ip[PKT_IP4_LEN];
		struct pkt p;
		const struct pkt_frag f = linux_made(i, &p);
		if (f.hdr_len != PKT_IP4_LEN)
			continue;
		memcpy(ip, cap.rec[i].frame + PKT_ETH_LEN, sizeof(ip));
		memset(ip + 2, 0xee, 6);
		memset(ip + 10, 0xee, 2);
		pkt_frag_cut(ip, f.id, f.off, f.len, f.more);
		assert_memory_equal(ip, cap.rec[i].frame + PKT_ETH_LEN, sizeof(ip));
	}
	assert_int_equal(pkt_frag_step(1500), 1480);
	assert_int_equal(pkt_frag_step(576), 552);
}

/* ---- rules ---- */

static void a_fragment_that_is_wrong_in_itself_is_dropped_alone(void **state)
{
	const struct {
		uint32_t off, end, hdr_len;
		bool more;
	} wrong[] = {
		{ 800, 800, 20, false }, /* no payload */
		/* length no multiple of 8, and not the last fragment */
		{ 800, 1601, 20, true },
		{ 65528, 65536, 20, false }, /* end beyond the largest IP length */
		{ 65480, 65516, 20, false }, /* end beyond the largest IP length with the header */
		{ 65472, 65480, 60, true },
		{ 0, 40, 20, true }, /* first fragments shorter than any link makes them */
		{ 0, 8, 28, true },
	};
	(void)state;

	begin();
	assert_int_equal(put(0, 800, true), PKT_FRAG_HELD);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(wrong); i++) {
		struct pkt_frag f = of(9, 1, wrong[i].off, wrong[i].end, wrong[i].more);
		f.hdr_len = (uint8_t)wrong[i].hdr_len;
		assert_int_equal(give(&f, 0), PKT_FRAG_DROPPED);
	}
	assert_int_equal(counts.bad, RN_ARRAY_LEN(wrong));
	assert_int_equal(put(800, 801, false), PKT_FRAG_WHOLE);
	begin();
	const struct pkt_frag options = { .src = 9, .hdr_len = 60, .more = true, .len = 8 };
	/* the shortest first fragment that an MTU of 68 octets allows */
	assert_int_equal(give(&options, 0), PKT_FRAG_HELD);
}

/*
 * Three fragments are held; a fourth breaks a rule. All four are dropped, and so are later fragments of the datagram
 * until its time is over.
 */
static void spoils(uint32_t off, uint32_t end, bool more, bool last_is_there)
{
	begin();
	assert_int_equal(put(0, 800, true), PKT_FRAG_HELD);
	assert_int_equal(put(1600, 2400, true), PKT_FRAG_HELD);
	assert_int_equal(last_is_there ? put(2400, 3000, false) : put(2400, 3200, true), PKT_FRAG_HELD);
	assert_int_equal(put(off, end, more), PKT_FRAG_DROPPED);
	assert_int_equal(held(), 0);
	assert_int_equal(counts.bad, 4);
	assert_int_equal(put(800, 1600, true), PKT_FRAG_DROPPED);
	assert_int_equal(put(0, 800, true), PKT_FRAG_DROPPED);
	assert_int_equal(counts.bad, 6);
	const struct pkt_frag one = of(9, 1, 0, 800, true), two = of(9, 1, 800, 1000, false);
	assert_int_equal(give(&one, PKT_FRAG_NS), PKT_FRAG_HELD);
	assert_int_equal(give(&two, PKT_FRAG_NS), PKT_FRAG_WHOLE);
	assert_int_equal(counts.late, 0);
}

static void fragments_that_overlap_spoil_the_datagram(void **state)
{
	(void)state;
	spoils(800, 1608, true, false);
	spoils(792, 1600, true, false);
	spoils(0, 1600, true, false);
	spoils(1608, 2000, true, false);
	spoils(1600, 2392, true, false);
	spoils(0, 808, true, false);
	spoils(800, 3000, false, true);
}

static void two_ends_and_bytes_behind_the_end_spoil_the_datagram(void **state)
{
	(void)state;
	spoils(2400, 3001, false, true);
	spoils(2400, 2999, false, true);
	spoils(800, 900, false, true);   /* another end inside the datagram */
	spoils(3000, 3100, false, true); /* another end beyond the first one */
	spoils(3200, 3208, true, true);
	spoils(800, 900, false, false);   /* an end before fragments that are held */
	spoils(2400, 3200, false, false); /* a held fragment with more fragments behind it becomes the last one */
}

static void the_same_fragment_again_is_dropped_alone(void **state)
{
	(void)state;
	begin();
	assert_int_equal(put(800, 1000, false), PKT_FRAG_HELD);
	assert_int_equal(put(800, 1000, false), PKT_FRAG_DROPPED);
	assert_int_equal(counts.again, 1);
	assert_int_equal(counts.bad, 0);
	assert_int_equal(put(0, 800, true), PKT_FRAG_WHOLE);
}

static void fragments_of_different_datagrams_never_meet(void **state)
{
	const struct pkt_frag first = of(9, 1, 0, 800, true), last = of(9, 1, 800, 900, false);
	struct pkt_frag f[4] = { last, last, last, last };
	(void)state;

	f[0].src = 8;
	f[1].dst = 2;
	f[2].id = 2;
	f[3].proto = 6;
	begin();
	assert_int_equal(give(&first, 0), PKT_FRAG_HELD);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(give(&f[i], 0), PKT_FRAG_HELD);
	assert_int_equal(give(&last, 0), PKT_FRAG_WHOLE);
}

static void a_datagram_in_too_many_fragments_is_spoilt(void **state)
{
	(void)state;
	begin();
	for (uint32_t i = 0; i < PKT_FRAG_EACH; i++)
		assert_int_equal(put(48 * i, 48 * i + 48, true), PKT_FRAG_HELD);
	assert_int_equal(put(48 * PKT_FRAG_EACH, 48 * PKT_FRAG_EACH + 1, false), PKT_FRAG_DROPPED);
	assert_int_equal(held(), 0);
}

static void a_whole_that_no_length_can_say_is_spoilt(void **state)
{
	struct pkt_frag first = of(9, 1, 0, 40000, true), last = of(9, 1, 40000, 65500, false);
	(void)state;

	begin();
	first.hdr_len = 60; /* the header of the whole datagram is that of the first fragment */
	assert_int_equal(give(&last, 0), PKT_FRAG_HELD);
	assert_int_equal(give(&first, 0), PKT_FRAG_HELD);
	assert_int_equal(held(), 0);
	assert_int_equal(counts.bad, 2);
	assert_int_equal(counts.whole, 0);
}

static void congestion_marks_are_joined(void **state)
{
	uint8_t ip[PKT_IP4_LEN] = { 0x45, 2 };
	struct pkt_frag a = of(9, 1, 0, 800, true), b = of(9, 1, 800, 900, false);
	(void)state;

	begin();
	a.ecn = 2;
	b.ecn = 3;
	assert_int_equal(give(&a, 0), PKT_FRAG_HELD);
	assert_int_equal(give(&b, 0), PKT_FRAG_WHOLE);
	while (pkt_frag_whole(&table) != NULL)
		;
	pkt_frag_join(&table, ip);
	assert_int_equal(ip[1] & 3, 3);
	begin();
	a.ecn = 0; /* not ECN-capable, and congestion marked: a contradiction */
	assert_int_equal(give(&a, 0), PKT_FRAG_HELD);
	assert_int_equal(give(&b, 0), PKT_FRAG_HELD);
	assert_int_equal(held(), 0);
	assert_int_equal(counts.bad, 2);
}

/* ---- time and room ---- */

static void a_datagram_that_does_not_become_whole_in_time_is_given_up(void **state)
{
	(void)state;
	begin();
	assert_int_equal(pkt_frag_due(&table), RN_NEVER);
	for (uint16_t i = 0; i < 3; i++) {
		const struct pkt_frag f = of(9, i, 0, 800, true);
		assert_int_equal(give(&f, i * MS), PKT_FRAG_HELD);
	}
	assert_int_equal(pkt_frag_due(&table), PKT_FRAG_NS);
	assert_int_equal(pkt_frag_expire(&table, PKT_FRAG_NS - 1), PKT_FRAG_NS);
	assert_int_equal(held(), 3);
	/* a later fragment does not prolong the datagram's time */
	const struct pkt_frag late = of(9, 0, 800, 1600, true), end = of(9, 0, 1600, 1601, false);
	assert_int_equal(give(&late, PKT_FRAG_NS - 1), PKT_FRAG_HELD);
	assert_int_equal(give(&end, PKT_FRAG_NS), PKT_FRAG_HELD);
	assert_int_equal(counts.late, 1);
	assert_int_equal(held(), 3);
	assert_int_equal(pkt_frag_expire(&table, 2 * PKT_FRAG_NS), RN_NEVER);
	take_dead();
	assert_int_equal(counts.late, 4);
	assert_int_equal(held(), 0);
}

/* Datagrams of two fragments that arrive whole, with identifications from `id` on, at one moment. */
static void whole_ones(uint32_t src, uint16_t id, uint32_t n)
{
	for (; n > 0; n--, id++) {
		const struct pkt_frag f = of(src, id, 0, 800, true), end = of(src, id, 800, 900, false);
		assert_int_equal(give(&f, 0), PKT_FRAG_HELD);
		assert_int_equal(give(&end, 0), PKT_FRAG_WHOLE);
		for (void *ref; (ref = pkt_frag_whole(&table)) != NULL;)
			back(ref);
	}
}

/*
 * A datagram loses its last fragment, or (spoilt) two of its fragments overlap. Its source sends datagrams so fast that
 * it uses the same identification again before the time of the incomplete datagram is over.
 */
static void is_used_again(bool spoilt)
{
	const struct pkt_frag first = of(9, 7, 0, 800, true), over = of(9, 7, 792, 1600, true);
	const struct pkt_frag again = of(9, 7, 0, 800, true), end = of(9, 7, 800, 900, false);

	begin();
	assert_int_equal(give(&first, 0), PKT_FRAG_HELD);
	assert_int_equal(spoilt ? give(&over, 0) : PKT_FRAG_DROPPED, PKT_FRAG_DROPPED);
	whole_ones(9, 8, 2 * PKT_FRAG_FAR - 1);
	const uint32_t at = n_refs;
	assert_int_equal(give(&again, 0), PKT_FRAG_HELD);
	assert_int_equal(give(&end, 0), PKT_FRAG_WHOLE);
	assert_int_equal(back(pkt_frag_whole(&table)), at);
	assert_int_equal(back(pkt_frag_whole(&table)), at + 1);
	assert_null(pkt_frag_whole(&table));
	assert_int_equal(held(), 0);
	assert_int_equal(counts.late, spoilt ? 0 : 1);
	assert_int_equal(counts.again, 0);
}

static void an_identification_that_is_used_again_in_time_mixes_no_datagrams(void **state)
{
	(void)state;
	is_used_again(false);
	is_used_again(true);
}

static void a_fragment_may_come_behind_many_others_of_its_source_and_any_number_of_another(void **state)
{
	const struct pkt_frag first = of(9, 7, 0, 800, true), end = of(9, 7, 800, 900, false);
	(void)state;

	begin();
	assert_int_equal(give(&first, 0), PKT_FRAG_HELD);
	whole_ones(9, 8, PKT_FRAG_FAR - 1);
	whole_ones(2, 8, 4 * PKT_FRAG_FAR);
	assert_int_equal(give(&end, 0), PKT_FRAG_WHOLE);
	begin();
	table.far = 0;
	assert_int_equal(give(&first, 0), PKT_FRAG_HELD);
	whole_ones(9, 8, 4 * PKT_FRAG_FAR);
	assert_int_equal(give(&end, 0), PKT_FRAG_WHOLE);
	assert_int_equal(counts.late, 0);
}

static void flood(uint32_t src, uint32_t n, bool many_sources)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct pkt_frag f = of(src + (many_sources ? i * 2654435761u : 0), (uint16_t)i, 0, 800, true);
		assert_int_equal(give(&f, 0), PKT_FRAG_HELD);
		assert_true(held() <= PKT_FRAG_PIECES);
	}
}

static void a_flood_from_one_source_leaves_the_others_theirs(void **state)
{
	const struct pkt_frag last = of(1, 1, 800, 900, false);
	(void)state;

	begin();
	const struct pkt_frag first = of(1, 1, 0, 800, true);
	assert_int_equal(give(&first, 0), PKT_FRAG_HELD);
	flood(2, 3000, false);
	assert_true(held() <= PKT_FRAG_GRAMS / 2 + 1);
	assert_int_equal(give(&last, 0), PKT_FRAG_WHOLE);
	assert_int_equal(counts.evicted, 3000 - PKT_FRAG_GRAMS / 2);
}

static void the_oldest_go_when_many_sources_flood(void **state)
{
	(void)state;
	begin();
	flood(1, 3000, true);
	assert_int_equal(held(), PKT_FRAG_GRAMS);
	/* a newer datagram is reassembled nevertheless */
	const struct pkt_frag first = of(7, 1, 0, 800, true), last = of(7, 1, 800, 900, false);
	assert_int_equal(give(&first, 0), PKT_FRAG_HELD);
	flood(123456, 100, true);
	assert_int_equal(give(&last, 0), PKT_FRAG_WHOLE);
}

/* Datagrams of many fragments use up the places for fragments before the places for datagrams. */
static void pieces_are_bounded_and_the_newest_datagram_is_never_the_one_to_go(void **state)
{
	(void)state;
	for (uint32_t sources = 1; sources <= 64; sources *= 8) {
		begin();
		for (uint16_t d = 0; d < 40; d++) {
			const uint32_t src = d % sources * 2654435761u;
			for (uint32_t i = 0; i < PKT_FRAG_EACH - 1; i++) {
				const struct pkt_frag f = of(src, d, 48 * i, 48 * i + 48, true);
				assert_int_equal(give(&f, 0), PKT_FRAG_HELD);
			}
			assert_true(held() <= PKT_FRAG_PIECES);
			if (d % 2 == 0)
				continue;
			const struct pkt_frag f = of(src, d, 48 * (PKT_FRAG_EACH - 1), 48 * PKT_FRAG_EACH, false);
			assert_int_equal(give(&f, 0), PKT_FRAG_WHOLE);
			void *ref;
			uint32_t before = 0, n = 0;
			for (; (ref = pkt_frag_whole(&table)) != NULL; n++) {
				const uint32_t at = back(ref);
				assert_true(at >= before);
				before = at;
			}
			assert_int_equal(n, PKT_FRAG_EACH);
		}
		pkt_frag_clear(&table);
		take_dead();
		assert_int_equal(held(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_linux_has_cut_is_put_together_in_any_order),
		cmocka_unit_test(headers_of_fragments_are_those_that_linux_writes),
		cmocka_unit_test(a_fragment_that_is_wrong_in_itself_is_dropped_alone),
		cmocka_unit_test(fragments_that_overlap_spoil_the_datagram),
		cmocka_unit_test(two_ends_and_bytes_behind_the_end_spoil_the_datagram),
		cmocka_unit_test(the_same_fragment_again_is_dropped_alone),
		cmocka_unit_test(fragments_of_different_datagrams_never_meet),
		cmocka_unit_test(a_datagram_in_too_many_fragments_is_spoilt),
		cmocka_unit_test(a_whole_that_no_length_can_say_is_spoilt),
		cmocka_unit_test(congestion_marks_are_joined),
		cmocka_unit_test(a_datagram_that_does_not_become_whole_in_time_is_given_up),
		cmocka_unit_test(an_identification_that_is_used_again_in_time_mixes_no_datagrams),
		cmocka_unit_test(a_fragment_may_come_behind_many_others_of_its_source_and_any_number_of_another),
		cmocka_unit_test(a_flood_from_one_source_leaves_the_others_theirs),
		cmocka_unit_test(the_oldest_go_when_many_sources_flood),
		cmocka_unit_test(pieces_are_bounded_and_the_newest_datagram_is_never_the_one_to_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
