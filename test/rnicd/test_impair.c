/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "eal.h"
#include "plane/frame.h"
#include "plane/impair.h"

#define FRAMES 2000u
#define HALF   0x80000000u /* probability of a half */
#define TENTH  (UINT32_MAX / 10)

static struct rte_mempool *pool;
static uint32_t seqs[2 * FRAMES];
static bool good[2 * FRAMES];

static int setup(void **state)
{
	(void)state;
	if (!eal_for_test())
		return -1;
	pool = pool_for_test("frames", 4 * FRAMES, 256);
	return pool == NULL ? -1 : 0;
}

/* All packet buffers have come back. */
static int all_back(void **state)
{
	(void)state;
	return rte_mempool_avail_count(pool) == 4 * FRAMES ? 0 : -1;
}

/* Sends one frame each microsecond through cfg; seqs[] gets the frames that arrive. */
static uint32_t run(const struct rnicd_impair_cfg *cfg, uint32_t worker, struct rnicd_port_stats *st)
{
	struct impair *im = impair_create(cfg, worker, pool, 0);
	struct rte_mbuf *out[64];
	uint32_t arrived = 0, n;
	uint64_t now = RN_NS_PER_S;

	assert_non_null(im);
	memset(st, 0, sizeof(*st));
	for (uint32_t i = 0; i < FRAMES + 5000; i++, now += 1000) {
		if (i < FRAMES)
			impair_in(im, frame_for_test(pool, i, 100), now, st);
		while ((n = impair_out(im, now, out, 64, st)) != 0) {
			for (uint32_t k = 0; k < n; k++) {
				seqs[arrived] = frame_seq(out[k]);
				good[arrived++] = frame_good(out[k]);
				rte_pktmbuf_free(out[k]);
			}
		}
	}
	assert_int_equal(impair_next(im), RN_NEVER);
	impair_destroy(im);
	return arrived;
}

static void nothing_configured(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 1 };
	struct rnicd_port_stats st;
	assert_false(impair_wanted(&cfg));
	assert_int_equal(run(&cfg, 0, &st), FRAMES);
	for (uint32_t i = 0; i < FRAMES; i++) {
		assert_int_equal(seqs[i], i);
		assert_true(good[i]);
	}
}

static void loss_is_counted_and_replayed(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 7, .loss = TENTH };
	struct rnicd_port_stats st;
	static uint32_t first[FRAMES];
	assert_true(impair_wanted(&cfg));
	uint32_t n = run(&cfg, 0, &st);
	assert_int_equal(n + st.impair_lost, FRAMES);
	assert_in_range(st.impair_lost, FRAMES / 10 - 60, FRAMES / 10 + 60);
	memcpy(first, seqs, n * sizeof(first[0]));
	assert_int_equal(run(&cfg, 0, &st), n);
	assert_memory_equal(first, seqs, n * sizeof(first[0]));
	/* other workers and other seeds lose other frames */
	run(&cfg, 1, &st);
	assert_memory_not_equal(first, seqs, n * sizeof(first[0]));
	cfg.seed = 8;
	run(&cfg, 0, &st);
	assert_memory_not_equal(first, seqs, n * sizeof(first[0]));
}

static void duplicates(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 3, .duplicate = HALF };
	struct rnicd_port_stats st;
	uint32_t n = run(&cfg, 0, &st), twice = 0;
	assert_int_equal(n, FRAMES + st.impair_dup);
	assert_in_range(st.impair_dup, FRAMES / 2 - 150, FRAMES / 2 + 150);
	for (uint32_t i = 1; i < n; i++)
		twice += seqs[i] == seqs[i - 1];
	assert_int_equal(twice, st.impair_dup);
}

static void corruption_is_one_bit_and_seen(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 4, .corrupt = UINT32_MAX };
	struct rnicd_port_stats st = { 0 };
	struct impair *im = impair_create(&cfg, 0, pool, 0);
	for (uint32_t i = 0; i < 500; i++) {
		struct rte_mbuf *whole = frame_for_test(pool, i, 100), *out;
		impair_in(im, frame_for_test(pool, i, 100), 1, &st);
		assert_int_equal(impair_out(im, 1, &out, 1, &st), 1);
		uint32_t bits = 0;
		for (uint32_t k = 0; k < whole->data_len; k++) {
			uint32_t x = rte_pktmbuf_mtod(whole, uint8_t *)[k] ^ rte_pktmbuf_mtod(out, uint8_t *)[k];
			assert_true(x == 0 || k >= PKT_ETH_LEN);
			bits += (uint32_t)__builtin_popcount(x);
		}
		assert_int_equal(bits, 1);
		assert_false(frame_good(out));
		rte_pktmbuf_free(whole);
		rte_pktmbuf_free(out);
	}
	assert_int_equal(st.impair_corrupt, 500);
	impair_destroy(im);
}

static void reordering_lets_gap_frames_pass(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 5, .reorder = TENTH / 2, .reorder_gap = 4 };
	struct rnicd_port_stats st;
	uint32_t late = 0;
	assert_int_equal(run(&cfg, 0, &st), FRAMES);
	bool seen[FRAMES] = { false };
	uint32_t highest = 0;
	for (uint32_t i = 0; i < FRAMES; i++) {
		assert_false(seen[seqs[i]]);
		seen[seqs[i]] = true;
		if (seqs[i] < highest)
			late++;
		else
			highest = seqs[i];
	}
	assert_true(st.impair_reorder > 50);
	/* the last frames may be held without arriving late: no later frame can pass them */
	assert_in_range(late, st.impair_reorder - 4, st.impair_reorder);
}

static void held_frames_leave_after_a_millisecond(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 5, .reorder = UINT32_MAX };
	struct rnicd_port_stats st = { 0 };
	struct rte_mbuf *out;
	struct impair *im = impair_create(&cfg, 0, pool, 0);
	impair_in(im, frame_for_test(pool, 1, 1), 1000, &st);
	assert_int_equal(impair_next(im), 1000 + RN_NS_PER_MS);
	assert_int_equal(impair_out(im, 1000 + RN_NS_PER_MS - 1, &out, 1, &st), 0);
	assert_int_equal(impair_out(im, 1000 + RN_NS_PER_MS, &out, 1, &st), 1);
	rte_pktmbuf_free(out);
	impair_destroy(im);
}

static void delay_and_jitter_keep_order(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 6, .delay_ns = 20000, .jitter_ns = 10000 };
	struct rnicd_port_stats st = { 0 };
	struct rte_mbuf *out;
	struct impair *im = impair_create(&cfg, 0, pool, 0);
	uint64_t last = 0;
	for (uint32_t i = 0; i < 200; i++)
		impair_in(im, frame_for_test(pool, i, 1), 1000 * i, &st);
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t when = impair_next(im);
		assert_true(when >= last && when >= 1000 * i + 20000 && when < 1000 * i + 30000 + 10000);
		last = when;
		assert_int_equal(impair_out(im, when - 1, &out, 1, &st), 0);
		assert_int_equal(impair_out(im, when, &out, 1, &st), 1);
		assert_int_equal(frame_seq(out), i);
		rte_pktmbuf_free(out);
	}
	impair_destroy(im);
}

static void line_is_bounded(void **state)
{
	(void)state;
	struct rnicd_impair_cfg cfg = { .seed = 6, .delay_ns = RN_NS_PER_S, .limit = 100 };
	struct rnicd_port_stats st = { 0 };
	struct impair *im = impair_create(&cfg, 0, pool, 0);
	for (uint32_t i = 0; i < 300; i++)
		impair_in(im, frame_for_test(pool, i, 1), 1, &st);
	assert_int_equal(st.impair_overflow, 300 - 128);
	impair_destroy(im); /* frees the frames that are held; all_back() checks it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(nothing_configured, all_back),
		cmocka_unit_test_teardown(loss_is_counted_and_replayed, all_back),
		cmocka_unit_test_teardown(duplicates, all_back),
		cmocka_unit_test_teardown(corruption_is_one_bit_and_seen, all_back),
		cmocka_unit_test_teardown(reordering_lets_gap_frames_pass, all_back),
		cmocka_unit_test_teardown(held_frames_leave_after_a_millisecond, all_back),
		cmocka_unit_test_teardown(delay_and_jitter_keep_order, all_back),
		cmocka_unit_test_teardown(line_is_bounded, all_back),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
