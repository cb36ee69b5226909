/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The budget of cache lines. A worker touches some lines of a connection once in a turn, however many messages the turn
 * carries, and other lines for each message. One worker serves both ends of a wired pair. The test counts the lines of
 * each object that FEW messages touch, and those that MANY messages touch: the difference, divided by MANY - FEW, is
 * the number of lines for each message. The test prints the table that ARCHITECTURE.md shows, and fails when an object
 * needs more than its budget. With the argument -v it prints each line, with the octets that were touched.
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

#define FEW        32u
#define MANY       64u
#define ROUNDS     15u
#define ROUNDS_MAX 1000u /* a test that needs more fails */
#define PLACES     64u
#define SETTLE     64u /* turns after the last completion */

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

/* Posts n messages, and the receives for them, without ringing the sender's doorbell. */
static void post(enum qp_wr_op op, uint32_t len, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct qp_wqe w = { .wr_id = i,
				    .op = (uint8_t)op,
				    .flags = QP_WF_SIGNALED,
				    .num_sge = 1,
				    .slots = 1,
				    .raddr = TWIN_ARENA / 2 + i * len,
				    .rkey = twin[1].stag,
				    .sge = { { i * len, len, twin[0].stag } } };
		assert_true(op != QP_WR_SEND || twin_post_recv(&twin[1], i, i * len, len));
		assert_true(twin_post(&twin[0], &w));
	}
	twin_ring(&twin[1]);
	turns(2);
}

static void completions(struct twin *t, uint32_t n)
{
	struct qp_cqe cqe;

	while (n-- > 0)
		assert_true(twin_wait(t, &cqe) && cqe.status == QP_WC_SUCCESS);
}

static void carry(enum qp_wr_op op, uint32_t n)
{
	twin_ring(&twin[0]);
	completions(&twin[0], n);
	completions(&twin[1], op == QP_WR_SEND ? n : 0);
	turns(SETTLE);
}

/*
 * Counts the lines that n messages touch, posted with one ring of the doorbell. MANY messages go before the n messages:
 * the first turn after a pause also touches the fields in which TCP records the pause, and after a round trip that
 * takes longer than those before, TCP may send a probe.
 */
static void run(enum qp_wr_op op, uint32_t len, uint32_t n, struct count *out)
{
	post(op, len, MANY);
	carry(op, MANY);
	post(op, len, n);
	touch_start();
	carry(op, n);
	touch_stop();
	turns(2);
	assert_false(touch_lost());
	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < TOUCH_LINES; i++) {
		uintptr_t line = touch_lines()[i].line;
		if (line == 0)
			continue;
		const struct place *p = find(line);
		out->lines[p == NULL ? OTHER : p->what][p == NULL ? 2 : p->end_of]++;
	}
}

static void keep_least(struct count *least, const struct count *c)
{
	for (uint32_t what = 0; what <= OTHER; what++)
		for (uint32_t e = 0; e < 3; e++)
			least->lines[what][e] = rn_min_u32(least->lines[what][e], c->lines[what][e]);
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

/* Lines of the object for each message, at one end. */
static double each(const struct count *few, const struct count *many, enum what what, uint32_t end_of)
{
	return ((double)many->lines[what][end_of] - few->lines[what][end_of]) / (MANY - FEW);
}

static double each_in_all(const struct count *few, const struct count *many, enum what what)
{
	return each(few, many, what, 0) + each(few, many, what, 1) + each(few, many, what, 2);
}

/* A sentence that names an object over its budget; NULL: no object is over its budget. */
static const char *over(const struct count *few, const struct count *many)
{
	static char why[128];

	for (uint32_t i = 0; i < RN_ARRAY_LEN(budget); i++) {
		const struct budget *b = &budget[i];
		double m = each_in_all(few, many, b->what);
		snprintf(why, sizeof(why), "%s: %.2f lines for each message, budget %.2f", what_name[b->what], m,
			 b->message);
		if (m > b->message + 0.01)
			return why;
		for (uint32_t e = 0; e < 2; e++) {
			uint32_t n = few->lines[b->what][e];
			snprintf(why, sizeof(why), "%s, %s: %u lines, budget %u", what_name[b->what], end_name[e], n,
				 b->turn[e]);
			if (b->turn[e] != 0 && n > b->turn[e])
				return why;
		}
	}
	return NULL;
}

/*
 * The least count of all rounds is used: on a busy machine the worker stops in the middle of some rounds, and then TCP
 * also touches the fields of its timers and probes. Rounds go on while an object is over its budget, up to ROUNDS_MAX.
 */
static void measure(enum qp_wr_op op, uint32_t len)
{
	struct count few, many, c;
	const char *why = NULL;

	memset(&few, 0xff, sizeof(few));
	memset(&many, 0xff, sizeof(many));
	for (uint32_t i = 0; i < ROUNDS || (why != NULL && i < ROUNDS_MAX); i++) {
		run(op, len, FEW, &c);
		keep_least(&few, &c);
		run(op, len, MANY, &c);
		keep_least(&many, &c);
		why = over(&few, &many);
	}
	for (uint32_t what = 0; what <= OTHER; what++)
		for (uint32_t e = 0; e < 3; e++)
			if (few.lines[what][e] != 0 || many.lines[what][e] != 0)
				printf("# %-20s %-8s %4u lines for %u messages, %5.2f for each\n", what_name[what],
				       end_name[e], few.lines[what][e], FEW, each(&few, &many, what, e));
	if (detail)
		show();
	if (why != NULL)
		fail_msg("%s", why);
	/* the recording works: each message has one line of send queue and two of payload, one at each end */
	assert_true(each_in_all(&few, &many, SQ) > 0.9 && each_in_all(&few, &many, BYTES) > 1.9);
	assert_true(few.lines[CONN][0] > 5 && few.lines[CONN][1] > 5);
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
	/* TCP begins slowly again after a pause of min-rto, which a busy machine makes between all rounds */
	rnicd.cfg.port[0].min_rto_ns = rnicd.cfg.port[1].min_rto_ns = 10 * RN_NS_PER_S;
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
