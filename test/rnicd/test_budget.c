/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The budget of cache lines: which lines a worker touches for a connection in a turn, however many messages it carries,
 * and which for each message. One worker serves both ends of a wired pair. The lines of each object that 32 messages
 * touch and those that 64 touch are counted: the difference is the messages'. The test prints the table that
 * ARCHITECTURE.md shows, and fails when an object needs more than its budget. With the argument -v it prints each line,
 * with the octets of the object that were touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plane/dataplane.h"
#include "plane/worker_int.h"
#include "touch/touch.h"
#include "twin.h"

#define FEW    32u
#define MANY   64u
#define ROUNDS 15u
#define PLACES 64u
#define SETTLE 64u /* turns after the last completion */

enum what { CONN, QP, CQ, MEMORY, MR, CLIENT, WORKER, PORT, WIRE, POOL, FRAME, CTRL, SQ, RQ, CQES, BYTES, OTHER };
static const char *const what_name[OTHER + 1] = { "connection",     "queue pair",     "completion queue",
						  "working memory", "memory regions", "client",
						  "worker",         "port",           "wire",
						  "packet pool",    "frames",         "doorbells",
						  "send queue",     "receive queue",  "completions",
						  "payload",        "other" };

struct place {
	uintptr_t at, end;
	enum what what;
	int end_of; /* 0, 1: the sender's, the receiver's; 2: of both */
};
static struct place place[PLACES];
static uint32_t places;

static void put(enum what what, int end_of, const void *p, size_t len)
{
	if (p == NULL || places == PLACES)
		abort();
	place[places++] = (struct place){ (uintptr_t)p, (uintptr_t)p + len, what, end_of };
}

static void put_pool(struct rte_mempool *mp)
{
	struct rte_mempool_memhdr *m;

	put(POOL, 2, mp, sizeof(*mp) + mp->private_data_size + RTE_MAX_LCORE * sizeof(struct rte_mempool_cache));
	STAILQ_FOREACH(m, &mp->mem_list, next)
	put(FRAME, 2, m->addr, m->len);
}

static void know(void)
{
	struct rnicd_worker *w = worker_at[0];

	for (int i = 0; i < 2; i++) {
		struct twin *t = &twin[i];
		const struct conn *c = conn_of(t->conn);
		put(CONN, i, c, sizeof(*c));
		put(QP, i, &t->qp, sizeof(t->qp));
		put(CQ, i, &t->cq, sizeof(t->cq));
		put(MR, i, t->mr, sizeof(t->mr));
		put(MR, i, &t->dev, sizeof(t->dev));
		put(CLIENT, i, &t->client[0], sizeof(t->client[0]));
		put(CTRL, i, t->queues, TWIN_SQ_OFF);
		put(SQ, i, t->queues + TWIN_SQ_OFF, TWIN_RQ_OFF - TWIN_SQ_OFF);
		put(RQ, i, t->queues + TWIN_RQ_OFF, TWIN_CQ_OFF - TWIN_RQ_OFF);
		put(CQES, i, t->queues + TWIN_CQ_OFF, 1u << 20);
		put(BYTES, i, t->arena, TWIN_ARENA);
		put(PORT, i, rnicd.port[t->port], sizeof(struct rnicd_port));
		put(WIRE, i, rnicd.port[t->port]->wire[0], sizeof(struct rte_ring) + 1024 * sizeof(void *));
		put_pool(rnicd.port[t->port]->pool);
	}
	put_pool(w->small_pool);
	put(WORKER, 2, w, sizeof(*w));
	put(MEMORY, 2, w->qp_mem, rc_tcp_ctx_size(&w->tcp.cfg));
}

/* ---- counting ---- */

struct count {
	uint32_t lines[OTHER + 1][3];
};

static const struct place *find(uintptr_t line)
{
	for (uint32_t i = 0; i < places; i++)
		if (line * RN_CACHE_LINE < place[i].end && (line + 1) * RN_CACHE_LINE > place[i].at)
			return &place[i];
	return NULL;
}

static bool detail;

static int by_line(const void *a, const void *b)
{
	const struct touch_line *x = a, *y = b;

	return x->line < y->line ? -1 : x->line > y->line;
}

static void show(void)
{
	static struct touch_line t[TOUCH_LINES];
	uint32_t n = 0;

	for (uint32_t i = 0; i < TOUCH_LINES; i++)
		if (touch_lines()[i].line != 0)
			t[n++] = touch_lines()[i];
	qsort(t, n, sizeof(t[0]), by_line);
	for (uint32_t i = 0; i < n; i++) {
		const struct place *p = find(t[i].line);
		if (p == NULL)
			printf("#   other %#lx", (unsigned long)(t[i].line * RN_CACHE_LINE));
		else
			printf("#   %s %d +%ld", what_name[p->what], p->end_of,
			       (long)(t[i].line * RN_CACHE_LINE - p->at));
		printf(": %u loads, %u stores, octets", t[i].loads, t[i].stores);
		for (uint32_t b = 0; b < 8; b++)
			if (t[i].words >> b & 1)
				printf(" %ld", (long)(t[i].line * RN_CACHE_LINE + 8 * b - (p == NULL ? 0 : p->at)));
		printf("\n");
	}
}

/* Waits until the worker has begun n more turns. */
static void turns(uint32_t n)
{
	uint64_t from = __atomic_load_n(&worker_at[0]->turns, __ATOMIC_RELAXED);

	while (__atomic_load_n(&worker_at[0]->turns, __ATOMIC_RELAXED) - from < n) {
		bell_ring(0);
		sched_yield();
	}
}

/* The lines that n messages touch, posted with one ring of the doorbell. */
static bool run(enum qp_wr_op op, uint32_t len, uint32_t n, struct count *out)
{
	struct qp_cqe cqe;

	if (op == QP_WR_SEND)
		for (uint32_t i = 0; i < n; i++)
			if (!twin_post_recv(&twin[1], i, i * len, len))
				return false;
	twin_ring(&twin[1]);
	for (uint32_t i = 0; i < n; i++) {
		struct qp_wqe w = { .wr_id = i,
				    .op = (uint8_t)op,
				    .flags = QP_WF_SIGNALED,
				    .num_sge = 1,
				    .slots = 1,
				    .raddr = TWIN_ARENA / 2 + i * len,
				    .rkey = twin[1].stag,
				    .sge = { { i * len, len, twin[0].stag } } };
		if (!twin_post(&twin[0], &w))
			return false;
	}
	turns(2);
	touch_start();
	twin_ring(&twin[0]);
	for (uint32_t i = 0; i < n; i++)
		if (!twin_wait(&twin[0], &cqe) || cqe.status != QP_WC_SUCCESS)
			return false;
	for (uint32_t i = 0; i < n && op == QP_WR_SEND; i++)
		if (!twin_wait(&twin[1], &cqe) || cqe.status != QP_WC_SUCCESS)
			return false;
	turns(SETTLE);
	touch_stop();
	turns(2);
	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < TOUCH_LINES; i++) {
		uintptr_t line = touch_lines()[i].line;
		if (line == 0)
			continue;
		const struct place *p = find(line);
		out->lines[p == NULL ? OTHER : p->what][p == NULL ? 2 : p->end_of]++;
	}
	return !touch_lost();
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t median(struct count *c, uint32_t what, uint32_t end_of)
{
	uint32_t v[ROUNDS];

	for (uint32_t i = 0; i < ROUNDS; i++)
		v[i] = c[i].lines[what][end_of];
	qsort(v, ROUNDS, sizeof(v[0]), by_size);
	return v[ROUNDS / 2];
}

/*
 * The budget: lines of an object that a turn touches at the sender and at the receiver, however many messages it
 * carries, and lines for each message, both ends together. An object that is not here has no budget.
 */
static const struct budget {
	enum what what;
	uint32_t turn[2];
	double message;
} budget[] = { { CONN, { 13, 15 }, 0 }, { QP, { 2, 3 }, 0 },      { CQ, { 2, 2 }, 0 },      { MR, { 3, 3 }, 0 },
	       { CLIENT, { 2, 2 }, 0 }, { PORT, { 5, 5 }, 0 },    { WIRE, { 5, 5 }, 0.1 },  { CTRL, { 4, 4 }, 0 },
	       { MEMORY, { 0, 0 }, 4 }, { FRAME, { 0, 0 }, 2 },   { SQ, { 0, 0 }, 1.1 },    { RQ, { 0, 0 }, 1.1 },
	       { CQES, { 0, 0 }, 1.1 }, { BYTES, { 0, 0 }, 2.1 }, { WORKER, { 0, 0 }, 0.1 } };

static const char *const end_name[] = { "sender", "receiver", "both" };

static void measure(enum qp_wr_op op, uint32_t len)
{
	static struct count few[ROUNDS], many[ROUNDS];
	double each[OTHER + 1] = { 0 };
	uint32_t turn[OTHER + 1][3];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		assert_true(run(op, len, FEW, &few[i]));
		assert_true(run(op, len, MANY, &many[i]));
	}
	for (uint32_t what = 0; what <= OTHER; what++) {
		for (uint32_t e = 0; e < 3; e++) {
			uint32_t a = median(few, what, e), b = median(many, what, e);
			double slope = ((double)b - a) / (MANY - FEW);
			turn[what][e] = a;
			each[what] += slope;
			if (a != 0 || b != 0)
				printf("# %-20s %-8s %4u lines for %u messages, %5.2f for each\n", what_name[what],
				       end_name[e], a, FEW, slope);
		}
	}
	if (detail)
		show();
	for (uint32_t i = 0; i < RN_ARRAY_LEN(budget); i++) {
		const struct budget *b = &budget[i];
		if (each[b->what] > b->message + 0.01)
			fail_msg("%s: %.2f lines for each message, budget %.2f", what_name[b->what], each[b->what],
				 b->message);
		for (uint32_t e = 0; e < 2; e++)
			if (b->turn[e] != 0 && turn[b->what][e] > b->turn[e])
				fail_msg("%s, %s: %u lines, budget %u", what_name[b->what], end_name[e],
					 turn[b->what][e], b->turn[e]);
	}
	/* the recording works: each message has one line of send queue and two of payload, one at each end */
	assert_true(each[SQ] > 0.9 && each[BYTES] > 1.9 && turn[CONN][0] > 5 && turn[CONN][1] > 5);
}

static void writes_of_64_octets(void **state)
{
	(void)state;
	measure(QP_WR_WRITE, 64);
}

static void sends_of_64_octets(void **state)
{
	(void)state;
	measure(QP_WR_SEND, 64);
}

static int start(void **state)
{
	(void)state;
	twin_configure(1500);
	if (!twin_start(0, 1) || !twin_connect())
		return 1;
	touch_of(worker_at[0]->lcore);
	know();
	return 0;
}

static int stop(void **state)
{
	(void)state;
	if (!twin_disconnect())
		return 1;
	twin_stop();
	rnicd_dataplane_exit();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_of_64_octets),
		cmocka_unit_test(sends_of_64_octets),
	};

	detail = argc > 1 && strcmp(argv[1], "-v") == 0;
	return cmocka_run_group_tests_name("budget", tests, start, stop);
}
