/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cutting and joining of TCP segments. Each byte of the streams here is the low 8 bits of its sequence number, so that
 * each byte's place can be checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "eal.h"
#include "plane/frame.h"
#include "plane/impair.h"
#include "plane/resegment.h"

#define BUFFERS 512u
#define FULL    1460u

static struct rte_mempool *pool;

static int setup(void **state)
{
	(void)state;
	if (!eal_for_test())
		return -1;
	pool = pool_for_test("frames", BUFFERS, 2048);
	return pool == NULL ? -1 : 0;
}

static int all_back(void **state)
{
	(void)state;
	return rte_mempool_avail_count(pool) == BUFFERS ? 0 : -1;
}

struct made {
	uint16_t sport;
	bool ip6;
	uint8_t flags;
	uint8_t opt_len;
	uint32_t seq, len;
};

static struct rte_mbuf *make(const struct made *how)
{
	static const uint8_t opt[40] = { 1, 1, 8, 10, 0, 0, 0, 7 };
	struct pkt_flow f = { .l2 = { .dst = { 2, 0, 0, 0, 0, 2 }, .src = { 2, 0, 0, 0, 0, 1 }, .vlan = PKT_NO_VLAN },
			      .src = pkt_addr_ip4(0x0a000001),
			      .dst = pkt_addr_ip4(0x0a000002),
			      .sport = how->sport,
			      .dport = 2 };
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct pkt_tcp_template t;

	assert_non_null(m);
	if (how->ip6) {
		f.src = (struct pkt_addr){ { 0xfd, [15] = 1 } };
		f.dst = (struct pkt_addr){ { 0xfd, [15] = 2 } };
	}
	pkt_tcp_template_init(&t, &f);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t hdr = pkt_tcp_hdr_len(&t, how->opt_len);
	for (uint32_t i = 0; i < how->len; i++)
		frame[hdr + i] = (uint8_t)(how->seq + i);
	struct pkt_tcp_seg s = { .seq = how->seq,
				 .ack = how->seq / 2,
				 .wnd = 1000,
				 .flags = how->flags,
				 .opt = opt,
				 .opt_len = how->opt_len,
				 .payload_len = how->len,
				 .payload_sum = pkt_sum(frame + hdr, how->len) };
	pkt_tcp_build(&t, &s, PKT_CSUM_FULL, frame);
	m->data_len = (uint16_t)(hdr + how->len);
	m->pkt_len = hdr + how->len;
	return m;
}

/* Checks a frame that continues a stream at *next, and moves *next on. */
static void takes(struct rte_mbuf *m, uint32_t *next, uint32_t longest)
{
	struct pkt p;
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

	assert_int_equal(pkt_parse(frame, m->data_len, m->pkt_len, &p), PKT_OK);
	assert_true(frame_good(m));
	assert_int_equal(p.payload_off + p.payload_len, m->pkt_len);
	assert_true(m->pkt_len <= longest);
	assert_int_equal(p.tcp_seq, *next);
	for (uint32_t i = 0; i < p.payload_len; i++)
		assert_int_equal(frame[p.payload_off + i], (uint8_t)(p.tcp_seq + i));
	*next += p.payload_len;
	rte_pktmbuf_free(m);
}

/* Sends 3,000 segments of random lengths; returns the number of frames that result. */
static uint32_t stream(enum rnicd_resegment how, bool ip6, struct rnicd_port_stats *st)
{
	struct resegment r;
	struct rte_mbuf *out[RESEGMENT_OUT];
	uint32_t seq = 0u - 100000, next = seq, frames = 0, longest = 0;
	struct rn_rng rng;

	rn_rng_seed(&rng, 3);
	memset(st, 0, sizeof(*st));
	resegment_init(&r, how, 5, pool);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t len = rn_rng_u32(&rng) % 3 == 0 ? FULL : 1 + rn_rng_u32(&rng) % FULL;
		struct made m = { .sport = 1, .ip6 = ip6, .flags = PKT_TCP_ACK, .seq = seq, .len = len };
		m.opt_len = i / 500 % 2 ? 12 : 0;
		if (i % 7 == 0)
			m.flags |= PKT_TCP_PSH;
		struct rte_mbuf *f = make(&m);
		longest = rn_max_u32(longest, f->pkt_len);
		seq += len;
		uint32_t n = resegment_in(&r, f, i, out, st);
		assert_true(n <= RESEGMENT_OUT);
		for (uint32_t k = 0; k < n; k++, frames++)
			takes(out[k], &next, longest);
	}
	struct rte_mbuf *last = resegment_due(&r, RN_NEVER - 1);
	if (last != NULL) {
		takes(last, &next, longest);
		frames++;
	}
	assert_int_equal(next, seq);
	resegment_end(&r);
	return frames;
}

static void each_byte_keeps_its_place(void **state)
{
	(void)state;
	struct rnicd_port_stats st;

	for (int ip6 = 0; ip6 < 2; ip6++) {
		assert_in_range(stream(RNICD_RESEGMENT_SPLIT, ip6, &st), 5990, 6000);
		assert_true(st.impair_split > 2990 && st.impair_joined == 0);
		assert_in_range(stream(RNICD_RESEGMENT_MERGE, ip6, &st), 1500, 2600);
		assert_true(st.impair_split == 0 && st.impair_joined > 1000);
		stream(RNICD_RESEGMENT_RANDOM, ip6, &st);
		assert_in_range(st.impair_split, 1300, 1700);
		assert_true(st.impair_joined > 500);
	}
}

static void streams_are_not_mixed_and_keep_their_order(void **state)
{
	(void)state;
	struct rnicd_port_stats st = { 0 };
	struct resegment r;
	struct rte_mbuf *out[RESEGMENT_OUT];
	uint32_t seq[3] = { 10, 20, 30 }, next[3] = { 10, 20, 30 };
	struct rn_rng rng;

	rn_rng_seed(&rng, 9);
	resegment_init(&r, RNICD_RESEGMENT_RANDOM, 5, pool);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t which = rn_rng_u32(&rng) % 3, len = 1 + rn_rng_u32(&rng) % 700;
		const struct made m = { .sport = (uint16_t)which, .flags = PKT_TCP_ACK, .seq = seq[which], .len = len };
		seq[which] += len;
		uint32_t n = resegment_in(&r, make(&m), i, out, &st);
		for (uint32_t k = 0; k < n; k++)
			takes(out[k], &next[rte_pktmbuf_mtod(out[k], const uint8_t *)[35]], 2000); /* source port */
	}
	resegment_end(&r); /* a segment may be held */
}

static void what_is_no_plain_segment_passes_behind_what_is_held(void **state)
{
	(void)state;
	static const uint8_t flags[] = { PKT_TCP_SYN, PKT_TCP_ACK | PKT_TCP_FIN, PKT_TCP_RST, PKT_TCP_ACK | PKT_TCP_URG,
					 PKT_TCP_ACK | PKT_TCP_ECE };
	struct rnicd_port_stats st = { 0 };
	struct resegment r;
	struct rte_mbuf *out[RESEGMENT_OUT];

	resegment_init(&r, RNICD_RESEGMENT_MERGE, 5, pool);
	rte_pktmbuf_free(make(&(struct made){ .len = 1 }));
	for (uint32_t i = 0; i < RN_ARRAY_LEN(flags) + 1; i++) {
		bool ack = i == RN_ARRAY_LEN(flags); /* a pure acknowledgement */
		const struct made full = { .sport = 1, .flags = PKT_TCP_ACK, .seq = 0, .len = FULL };
		const struct made some = { .sport = 1, .flags = PKT_TCP_ACK, .seq = FULL, .len = 100 };
		const struct made last = {
			.sport = 1, .flags = ack ? PKT_TCP_ACK : flags[i], .seq = FULL + 100, .len = ack ? 0 : 50
		};
		assert_int_equal(resegment_in(&r, make(&full), 1, out, &st), 1);
		rte_pktmbuf_free(out[0]);
		assert_int_equal(resegment_in(&r, make(&some), 1, out, &st), 0);
		assert_int_equal(resegment_next(&r), 1 + RESEGMENT_HOLD_NS);
		struct rte_mbuf *m = make(&last);
		assert_int_equal(resegment_in(&r, m, 1, out, &st), 2);
		assert_int_equal(frame_seq(out[0]), FULL);
		assert_ptr_equal(out[1], m);
		rte_pktmbuf_free_bulk(out, 2);
		assert_int_equal(resegment_next(&r), RN_NEVER);
	}
}

static void a_segment_is_held_no_longer_than_it_may(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 1, .resegment = RNICD_RESEGMENT_MERGE };
	struct rnicd_port_stats st = { 0 };
	struct rte_mbuf *out[4];

	assert_true(impair_wanted(&cfg));
	struct impair *im = impair_create(&cfg, 0, pool, 0);
	const struct made full = { .sport = 1, .flags = PKT_TCP_ACK, .seq = 0, .len = FULL };
	const struct made some = { .sport = 1, .flags = PKT_TCP_ACK, .seq = FULL, .len = 100 };
	impair_in(im, make(&full), 1000, &st);
	impair_in(im, make(&some), 1000, &st);
	assert_int_equal(impair_out(im, 1000, out, 4, &st), 1);
	rte_pktmbuf_free(out[0]);
	assert_int_equal(impair_next(im), 1000 + RESEGMENT_HOLD_NS);
	assert_int_equal(impair_out(im, 1000 + RESEGMENT_HOLD_NS - 1, out, 4, &st), 0);
	assert_int_equal(impair_out(im, 1000 + RESEGMENT_HOLD_NS, out, 4, &st), 1);
	assert_true(frame_good(out[0]));
	rte_pktmbuf_free(out[0]);
	impair_in(im, make(&some), 2000, &st); /* held when the line is taken down */
	impair_destroy(im);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(each_byte_keeps_its_place, all_back),
		cmocka_unit_test_teardown(streams_are_not_mixed_and_keep_their_order, all_back),
		cmocka_unit_test_teardown(what_is_no_plain_segment_passes_behind_what_is_held, all_back),
		cmocka_unit_test_teardown(a_segment_is_held_no_longer_than_it_may, all_back),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
