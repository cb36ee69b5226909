/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of held segments, compared with a model: a map that has for each byte of the stream the packet that brought
 * it first. Overlapping packets carry different bytes here; the first copy of each byte must be delivered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "invariants.h"

#define IRS    0xffffff80u
#define STREAM 6000u
#define PKTS   20000u

struct rig {
	struct tcpl_conn c;
	struct tcpl_cfg cfg;
	struct tcpl_chunk chunk[4];
	struct tcpl_txrec rec[4];
	struct tcpl_hold hold[64];
	uint64_t now;
	uint32_t owner[STREAM]; /* ref of the packet whose copy of the byte is held or was delivered; 0: none yet */
	uint32_t start[PKTS];   /* offset in the stream of a packet's first byte */
	bool out[PKTS];         /* the engine holds the packet */
	bool placed[STREAM];
	uint32_t got;
	struct rn_rng rng;
};

static void begin(struct rig *g, uint64_t seed, uint32_t hold)
{
	struct tcpl_mem mem = {
		.chunk = g->chunk, .rec = g->rec, .hold = g->hold, .chunk_n = 4, .rec_n = 4, .hold_n = hold
	};
	struct tcpl_seg syn = { .seq = IRS, .wnd = 60000, .flags = TCPL_SYN };
	struct tcpl_seg ack = { .seq = IRS + 1, .wnd = 60000, .flags = TCPL_ACK };
	struct tcpl_out o;
	struct tcpl_ev ev;

	memset(g, 0, sizeof(*g));
	rn_rng_seed(&g->rng, seed);
	g->now = RN_NS_PER_S;
	tcpl_cfg_default(&g->cfg, 1460);
	tcpl_init(&g->c, &g->cfg, &mem);
	assert_int_equal(tcpl_accept_syn(&g->c, g->now, 1, &syn), TCPL_OK);
	assert_true(tcpl_out(&g->c, g->now, &o));
	ack.ack = 2;
	assert_int_equal(tcpl_in(&g->c, g->now, &ack, &ev), TCPL_OK);
}

static void deliver(struct rig *g, const struct tcpl_slice *s)
{
	assert_int_equal(s->seq, IRS + 1 + g->got);
	for (uint32_t i = 0; i < s->len; i++, g->got++) {
		if (s->ref == 0) {
			assert_true(g->placed[g->got]);
			continue;
		}
		assert_int_equal(g->start[s->ref] + s->off + i, g->got);
		if (g->owner[g->got] != 0)
			assert_int_equal(g->owner[g->got], s->ref);
		assert_false(g->placed[g->got]);
	}
}

static void release(struct rig *g, uint64_t ref)
{
	if (ref == 0)
		return;
	assert_true(g->out[ref]);
	g->out[ref] = false;
}

static void arrive(struct rig *g, uint32_t ref, bool place)
{
	uint32_t at = g->got + rn_rng_below(&g->rng, 600), len = 1 + rn_rng_below(&g->rng, 120);
	struct tcpl_slice s;
	struct tcpl_ev ev;
	uint64_t back;

	if (rn_rng_chance(&g->rng, 100000))
		at = g->got;
	at -= rn_min_u32(at, rn_rng_below(&g->rng, 60));
	if (at >= STREAM)
		return;
	len = rn_min_u32(len, STREAM - at);
	g->start[ref] = at;
	struct tcpl_seg seg = {
		.seq = IRS + 1 + at, .ack = 2, .len = len, .wnd = 60000, .flags = TCPL_ACK, .ref = ref
	};
	tcpl_in(&g->c, g->now, &seg, &ev);
	if (ev.bits & TCPL_EV_DATA)
		deliver(g, &ev.slice);
	if (ev.held) {
		assert_int_equal(at + ev.ooo.off, ev.ooo.seq - IRS - 1);
		g->out[ref] = true;
		for (uint32_t i = 0; i < ev.ooo.len; i++) {
			uint32_t b = at + ev.ooo.off + i;
			assert_int_equal(g->owner[b], 0); /* a byte that an earlier packet brought is not overwritten */
			g->owner[b] = ref;
		}
		if (place && rn_rng_chance(&g->rng, 500000) && tcpl_ooo_placed(&g->c, ev.ooo.seq, &back)) {
			assert_int_equal(back, ref);
			release(g, back);
			for (uint32_t i = 0; i < ev.ooo.len; i++)
				g->placed[at + ev.ooo.off + i] = true;
		}
	}
	while (tcpl_rx_next(&g->c, &s)) {
		deliver(g, &s);
		release(g, s.ref);
	}
	assert_null(broken_rx(&g->c));
}

/*
 * Every announced block is held, and every held byte belongs to a block, unless there are more than four runs of bytes.
 */
static void check_blocks(struct rig *g)
{
	for (uint32_t k = 0; k < g->c.n_blocks; k++) {
		uint32_t from = g->c.block[k].seq - IRS - 1, to = g->c.block[k].end - IRS - 1;
		assert_true(from < to && to <= STREAM);
		for (uint32_t b = from; b < to; b++)
			assert_true(g->owner[b] != 0 || g->placed[b]);
		assert_true(from > g->got);
		assert_true(g->owner[from - 1] == 0 || from - 1 < g->got);
		assert_true(to == STREAM || g->owner[to] == 0);
	}
}

static void run(uint32_t hold, bool place)
{
	static struct rig g;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		begin(&g, seed, hold);
		for (uint32_t ref = 1; ref < PKTS && g.got < STREAM; ref++) {
			arrive(&g, ref, place);
			check_blocks(&g);
		}
		assert_int_equal(g.got, STREAM);
		for (uint32_t i = 0; i < PKTS; i++)
			assert_false(g.out[i]);
	}
}

static void first_wins(void **state)
{
	(void)state;
	run(64, false);
}
static void first_wins_small(void **state)
{
	(void)state;
	run(2, false);
}
static void first_wins_placed(void **state)
{
	(void)state;
	run(64, true);
}
static void first_wins_placed_small(void **state)
{
	(void)state;
	run(3, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_wins),
		cmocka_unit_test(first_wins_small),
		cmocka_unit_test(first_wins_placed),
		cmocka_unit_test(first_wins_placed_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
