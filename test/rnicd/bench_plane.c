/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the turns of a worker cost: one worker serves both ends of a wired pair, and one thread posts work requests.
 * Made to run under valgrind, where rnicd itself does not run: the cost of a turn or of a message is the difference of
 * two runs with different numbers. Usage:
 *	bench_plane idle TURNS			TURNS turns in which the worker has nothing to do
 *	bench_plane write|read LEN DEPTH N	N messages of LEN bytes, DEPTH at once; prints messages a second
 *	bench_plane many PAIRS LEN DEPTH N	PAIRS queue pairs, each with N Writes of LEN bytes, DEPTH at once
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plane/dataplane.h"
#include "plane/worker_int.h"
#include "twin.h"

#define BATCH 16u   /* work requests for one ring of the doorbell */
#define PAIRS 2048u /* each has a completion that is not read yet, at most */

static void idle(uint64_t turns)
{
	uint64_t from = __atomic_load_n(&worker_at[0]->turns, __ATOMIC_RELAXED);

	while (__atomic_load_n(&worker_at[0]->turns, __ATOMIC_RELAXED) - from < turns)
		usleep(1000);
}

/* Posts the message with this number. The last one of a batch has a completion. */
static void post(enum qp_wr_op op, uint64_t number, uint32_t len, uint32_t depth, bool last)
{
	const uint64_t at = number % depth * len;
	const struct qp_wqe w = { .wr_id = number,
				  .op = (uint8_t)op,
				  .flags = last ? QP_WF_SIGNALED : 0,
				  .num_sge = 1,
				  .slots = 1,
				  .raddr = TWIN_ARENA / 2 + at,
				  .rkey = twin[1].stag,
				  .sge = { { at, len, twin[0].stag } } };

	if (!twin_post(&twin[0], &w))
		abort();
}

static void carry(enum qp_wr_op op, uint32_t len, uint32_t depth, uint64_t n)
{
	const uint32_t batch = rn_min_u32(depth, BATCH);
	uint64_t posted = 0, done = 0, from = rnicd_now();
	struct qp_cqe e[BATCH];

	while (done < n) {
		for (; posted < n && posted + batch <= done + depth; twin_ring(&twin[0]))
			for (uint32_t i = 0; i < batch && posted < n; i++, posted++)
				post(op, posted, len, depth, i + 1 == batch || posted + 1 == n);
		uint32_t k = twin_poll(&twin[0], e, BATCH);
		for (uint32_t i = 0; i < k; i++) {
			if (e[i].status != QP_WC_SUCCESS)
				abort();
			done = e[i].wr_id + 1;
		}
		if (k == 0)
			sched_yield();
	}
	printf("%u B: %.0f messages a second\n", len, (double)n * 1e9 / (double)(rnicd_now() - from));
}

static void post_at(uint32_t pair, uint32_t len, uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		const uint64_t at = ((uint64_t)pair * depth + i) * len;
		const struct qp_wqe w = { .wr_id = pair,
					  .op = QP_WR_WRITE,
					  .flags = i + 1 == depth ? QP_WF_SIGNALED : 0,
					  .num_sge = 1,
					  .slots = 1,
					  .raddr = TWIN_ARENA / 2 + at,
					  .rkey = twin[1].stag,
					  .sge = { { at, len, twin[0].stag } } };
		if (!twin_post_at(pair, &w))
			abort();
	}
	twin_ring_at(pair);
}

/* Each queue pair posts `depth` Writes when those before are done. */
static void carry_many(uint32_t pairs, uint32_t len, uint32_t depth, uint64_t n)
{
	const uint64_t batches = pairs * (n / depth);
	uint64_t posted = pairs, done = 0, from = rnicd_now();
	struct qp_cqe e[BATCH];

	for (uint32_t i = 0; i < pairs; i++)
		post_at(i, len, depth);
	while (done < batches) {
		uint32_t k = twin_poll(&twin[0], e, BATCH);
		for (uint32_t i = 0; i < k; i++, done++) {
			if (e[i].status != QP_WC_SUCCESS)
				abort();
			if (posted < batches) {
				post_at((uint32_t)e[i].wr_id, len, depth);
				posted++;
			}
		}
		if (k == 0)
			sched_yield();
	}
	printf("%u queue pairs, %u B: %.0f messages a second\n", pairs, len,
	       (double)(batches * depth) * 1e9 / (double)(rnicd_now() - from));
}

static int many(char **argv)
{
	const uint64_t pairs = strtoull(argv[0], NULL, 0), len = strtoull(argv[1], NULL, 0);
	const uint64_t depth = strtoull(argv[2], NULL, 0), n = strtoull(argv[3], NULL, 0);

	if (pairs < 2 || pairs > PAIRS || depth == 0 || depth > TWIN_MORE || len > TWIN_ARENA / 2 / depth / pairs ||
	    n < depth) {
		fprintf(stderr,
			"bench_plane many PAIRS LEN DEPTH N: PAIRS 2 to %u, DEPTH at most %u and N,\n"
			"all messages together: at most %u bytes\n",
			PAIRS, TWIN_MORE, TWIN_ARENA / 2);
		return 2;
	}
	twin_configure(1500);
	rnicd.cfg.spin_us = UINT32_MAX;
	rnicd.cfg.flows = 2 * (uint32_t)pairs + 64;
	if (!twin_start(0, 1) || !twin_connect() || !twin_widen((uint32_t)pairs - 1))
		return 1;
	carry_many((uint32_t)pairs, (uint32_t)len, (uint32_t)depth, n);
	fflush(stdout);
	_exit(0); /* the connections have no end */
}

int main(int argc, char **argv)
{
	const bool idles = argc == 3 && strcmp(argv[1], "idle") == 0;
	const bool reads = argc == 5 && strcmp(argv[1], "read") == 0;
	const bool writes = argc == 5 && strcmp(argv[1], "write") == 0;
	const uint64_t len = argc != 5 ? 1 : strtoull(argv[2], NULL, 0);
	const uint64_t depth = argc != 5 ? 1 : strtoull(argv[3], NULL, 0);

	if (argc == 6 && strcmp(argv[1], "many") == 0)
		return many(argv + 2);
	if ((!idles && !reads && !writes) || depth == 0 || depth > TWIN_SLOTS || len > TWIN_ARENA / 2 / depth) {
		fprintf(stderr,
			"usage: bench_plane idle TURNS | bench_plane write|read LEN DEPTH N |\n"
			"       bench_plane many PAIRS LEN DEPTH N\n"
			"DEPTH: at most %u; all messages together: at most %u bytes\n",
			TWIN_SLOTS, TWIN_ARENA / 2);
		return 2;
	}
	twin_configure(1500);
	rnicd.cfg.spin_us = UINT32_MAX;
	if (!twin_start(0, 1) || !twin_connect())
		return 1;
	if (idles)
		idle(strtoull(argv[2], NULL, 0));
	else
		carry(reads ? QP_WR_READ : QP_WR_WRITE, (uint32_t)len, (uint32_t)depth, strtoull(argv[4], NULL, 0));
	if (!twin_disconnect())
		return 1;
	twin_stop();
	rnicd_dataplane_exit();
	return 0;
}
