/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random mixes of Send, Write and Read in both directions over bad links: every byte is placed where it belongs,
 * completions come in order, and each comes once. One seed determines a run; a failure prints the seed, and
 * test_qp_soak SEED runs it alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define MB       (1u << 20)
#define WRS      80u
#define RECV_MAX 24000u
#define SEEDS    600u

struct job {
	uint8_t op;
	bool signaled;
	uint32_t len, src, dst; /* offsets in the memory of the source and of the destination */
};

struct side {
	struct job job[WRS];
	uint32_t n, posted, completed; /* completed: index in job behind the last signaled job that has completed */
	uint32_t sends, got;           /* Sends that this side has posted; receives that have completed here */
	uint32_t send_src[WRS], send_len[WRS];
	uint32_t at_write, at_read;
};

static uint64_t only_seed;

static void fill(struct rig *r, int id)
{
	struct rn_rng g;

	rn_rng_seed(&g, r->cfg.seed * 2 + (uint64_t)id);
	for (uint32_t i = 0; i < MB; i += 8) {
		uint64_t v = rn_rng_u64(&g);
		memcpy(r->n[id].mem + i, &v, 8);
	}
}

static uint32_t pick_len(struct rn_rng *g)
{
	switch (rn_rng_below(g, 5)) {
	case 0: return rn_rng_below(g, 4);
	case 1: return rn_rng_below(g, 130);
	case 2: return rn_rng_below(g, 3000);
	default: return rn_rng_below(g, 20000);
	}
}

static bool post_one(struct rig *r, int id, struct side *s)
{
	struct rig_node *n = &r->n[id];
	struct rn_rng *g = &r->rng;
	struct job *j = &s->job[s->posted];
	struct qp_sge sge[5];
	uint32_t k = 0;

	*j = (struct job){ .op = (uint8_t)(rn_rng_below(g, 3) == 0 ? QP_WR_SEND
					   : rn_rng_below(g, 2)    ? QP_WR_WRITE
								   : QP_WR_READ),
			   .signaled = rn_rng_below(g, 3) > 0 || s->posted == WRS - 1,
			   .len = pick_len(g) };
	struct rig_wr w = { .wr_id = s->posted, .op = j->op, .rkey = r->n[!id].rkey, .sge = sge };
	if (j->signaled)
		w.flags |= QP_WF_SIGNALED;
	if (rn_rng_below(g, 8) == 0)
		w.flags |= QP_WF_FENCE;
	if (j->op == QP_WR_READ) {
		j->src = rn_rng_below(g, MB - j->len);
		j->dst = 2 * MB + s->at_read;
		w.raddr = RIG_IOVA(!id) + j->src;
		sge[k++] = rig_sge(n, j->dst, j->len);
	} else {
		j->src = rn_rng_below(g, MB - j->len);
		j->dst = MB + s->at_write;
		w.raddr = RIG_IOVA(!id) + j->dst;
		uint32_t off = 0, parts = 1 + rn_rng_below(g, 5);
		while (k < parts) {
			uint32_t take = k + 1 == parts ? j->len - off : rn_rng_below(g, j->len - off + 1);
			sge[k++] = rig_sge(n, j->src + off, take);
			off += take;
		}
		if (j->len <= QP_MAX_INLINE && rn_rng_below(g, 2)) {
			w.flags |= QP_WF_INLINE;
			w.inl = n->mem + j->src;
			w.inl_len = j->len;
			k = 0;
		}
	}
	w.num_sge = k;
	if (!rig_post(n, 0, &w))
		return false;
	if (j->op == QP_WR_SEND) {
		s->send_src[s->sends] = j->src;
		s->send_len[s->sends++] = j->len;
	} else if (j->op == QP_WR_WRITE) {
		s->at_write += j->len;
	} else {
		s->at_read += j->len;
	}
	s->posted++;
	return true;
}

static void post_recvs(struct rig *r, int id)
{
	for (uint32_t i = 0; i < WRS; i++) {
		uint32_t at = 3 * MB + (i % 40) * RECV_MAX, first = rn_rng_below(&r->rng, RECV_MAX);
		const struct qp_sge sge[2] = { rig_sge(&r->n[id], at, first),
					       rig_sge(&r->n[id], at + first, RECV_MAX - first) };
		assert_true(rig_post_recv(&r->n[id], 0, 1000 + i, sge, 2));
	}
}

static void take(struct rig *r, int id, struct side s[2])
{
	struct qp_cqe e;

	while (rig_poll(&r->n[id].scq_client, &e)) {
		struct side *me = &s[id];
		assert_int_equal(e.status, QP_WC_SUCCESS);
		while (me->completed < me->posted && !me->job[me->completed].signaled)
			me->completed++;
		assert_true(me->completed < me->posted);
		assert_int_equal(e.wr_id, me->completed);
		const struct job *j = &me->job[me->completed++];
		assert_int_equal(e.byte_len, j->len);
		if (j->op == QP_WR_READ)
			assert_memory_equal(r->n[id].mem + j->dst, r->n[!id].mem + j->src, j->len);
		if (j->op == QP_WR_WRITE)
			assert_memory_equal(r->n[!id].mem + j->dst, r->n[id].mem + j->src, j->len);
	}
	while (rig_poll(&r->n[id].rcq_client, &e)) {
		uint32_t i = s[id].got++;
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.wr_id, 1000 + i);
		assert_true(i < s[!id].sends);
		assert_int_equal(e.byte_len, s[!id].send_len[i]);
		assert_memory_equal(r->n[id].mem + 3 * MB + (i % 40) * RECV_MAX, r->n[!id].mem + s[!id].send_src[i],
				    e.byte_len);
	}
}

static void verify(struct rig *r, struct side s[2])
{
	for (int id = 0; id < 2; id++) {
		for (uint32_t i = 0; i < WRS; i++) {
			const struct job *j = &s[id].job[i];
			if (j->op == QP_WR_READ)
				assert_memory_equal(r->n[id].mem + j->dst, r->n[!id].mem + j->src, j->len);
			if (j->op == QP_WR_WRITE)
				assert_memory_equal(r->n[!id].mem + j->dst, r->n[id].mem + j->src, j->len);
		}
		assert_int_equal(s[id].got, s[!id].sends);
		assert_int_equal(r->n[id].q[0].qp.sq_taken, 0);
	}
}

static void make_cfg(struct rig_cfg *c, uint64_t seed)
{
	static const uint32_t mtu[] = { 576, 1500, 1500, 9000 };
	struct rn_rng g;

	rig_defaults(c);
	rn_rng_seed(&g, seed);
	c->seed = seed;
	c->mtu = mtu[rn_rng_below(&g, 4)];
	c->markers[0] = rn_rng_below(&g, 2);
	c->markers[1] = rn_rng_below(&g, 2);
	c->crc = rn_rng_below(&g, 4) > 0;
	c->p2p = rn_rng_below(&g, 2);
	c->split = rn_rng_below(&g, 2);
	c->bulk = rn_rng_below(&g, 2);
	c->ird = (uint16_t)(1 + rn_rng_below(&g, 8));
	c->ord = (uint16_t)(1 + rn_rng_below(&g, 8));
	c->chunks = 64u << rn_rng_below(&g, 3);
	c->recs = rn_rng_below(&g, 4) == 0 ? 80 : 0;
	if (rn_rng_below(&g, 4) == 0)
		c->rcv_space = 8000 + rn_rng_below(&g, 60000);
	if (rn_rng_below(&g, 4) == 0)
		c->link.cut = rn_rng_below(&g, 300000);
	c->link.delay_ns = 1000 + rn_rng_below(&g, 100000);
	if (rn_rng_below(&g, 3) > 0) {
		c->link.loss = rn_rng_below(&g, 40000);
		c->link.dup = rn_rng_below(&g, 30000);
		c->link.reorder = rn_rng_below(&g, 100000);
		c->link.reorder_ns = 1000 + rn_rng_below(&g, 300000);
	}
}

static struct qp_stats total;

static void run_seed(uint64_t seed, enum tcpl_ahead ahead)
{
	struct rig_cfg cfg;
	struct side s[2] = { 0 };

	make_cfg(&cfg, seed);
	cfg.ahead = (uint8_t)ahead;
	cfg.no_sack = ahead == TCPL_AHEAD_DROP && seed % 2 != 0;
	struct rig *r = rig_new(&cfg);
	fill(r, 0);
	fill(r, 1);
	post_recvs(r, 0);
	post_recvs(r, 1);
	rig_connect(r, 0);
	for (uint64_t guard = 0; guard < 2000000; guard++) {
		for (int id = 0; id < 2; id++) {
			while (s[id].posted < WRS && rn_rng_below(&r->rng, 3) > 0)
				if (!post_one(r, id, &s[id]))
					break;
			take(r, id, s);
		}
		if (s[0].completed == WRS && s[1].completed == WRS && s[0].got == s[1].sends && s[1].got == s[0].sends)
			break;
		if (!rig_step(r) && s[0].posted == WRS && s[1].posted == WRS) {
			take(r, 0, s);
			take(r, 1, s);
			if (s[0].completed != WRS || s[1].completed != WRS)
				fail_msg("seed %lu stalled: %u %u", (unsigned long)seed, s[0].completed,
					 s[1].completed);
		}
	}
	assert_int_equal(s[0].completed, WRS);
	assert_int_equal(s[1].completed, WRS);
	verify(r, s);
	for (int id = 0; id < 2; id++) {
		total.ooo_placed += r->n[id].ctx.rc.qp.stats.ooo_placed;
		total.ooo_held += r->n[id].ctx.rc.qp.stats.ooo_held;
		total.ooo_drops += r->n[id].ctx.rc.qp.stats.ooo_drops;
		total.staged += r->n[id].ctx.rc.qp.stats.staged;
		total.no_rec += r->n[id].ctx.rc.qp.stats.no_rec;
		total.fpdus_in += r->n[id].ctx.rc.qp.stats.fpdus_in;
	}
	rig_free(r);
}

static void seeds(uint64_t count, enum tcpl_ahead ahead)
{
	total = (struct qp_stats){ 0 };
	for (uint64_t i = 1; i <= count; i++) {
		char line[64];
		int n = snprintf(line, sizeof(line), "# seed %lu\n", (unsigned long)(only_seed ? only_seed : i));

		if (getenv("QP_SOAK_TRACE") != NULL)
			fwrite(line, 1, (size_t)n, stderr);
		run_seed(only_seed ? only_seed : i, ahead);
		if (only_seed)
			return;
	}
}

/* The last lines of each case: the runs have reached the code that they are meant to reach. */
static void soak(void **state)
{
	(void)state;
	seeds(SEEDS, TCPL_AHEAD_PLACE);
	if (only_seed)
		return;
	assert_true(total.ooo_placed > 1000);
	assert_true(total.ooo_held > total.ooo_placed / 2);
	assert_int_equal(total.ooo_drops, 0);
	assert_true(total.staged > 100);
	assert_true(total.no_rec > 0);
}

static void what_is_ahead_of_a_hole_waits_for_its_turn(void **state)
{
	(void)state;
	seeds(SEEDS / 4, TCPL_AHEAD_HOLD);
	if (only_seed)
		return;
	assert_true(total.ooo_held > 1000);
	assert_int_equal(total.ooo_placed, 0);
	assert_int_equal(total.ooo_drops, 0);
}

static void what_is_ahead_of_a_hole_is_dropped(void **state)
{
	(void)state;
	seeds(SEEDS / 4, TCPL_AHEAD_DROP);
	if (only_seed)
		return;
	assert_true(total.ooo_drops > 1000);
	assert_int_equal(total.ooo_placed, 0);
	assert_int_equal(total.ooo_held, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(soak),
		cmocka_unit_test(what_is_ahead_of_a_hole_waits_for_its_turn),
		cmocka_unit_test(what_is_ahead_of_a_hole_is_dropped),
	};

	only_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	return cmocka_run_group_tests_name("qp_soak", tests, NULL, NULL);
}
