/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a Send between two queue pairs of reliable datagrams, without ports and processes: packets of
 * dgram/rd.h in flows of udp/udpr.h, with CRCs, over a wire that loses nothing. Made to run under valgrind
 * --tool=callgrind too: the cost of a message is the difference of two runs with different N. Prints messages and
 * packets, and messages a second. Usage: bench_rd LEN DEPTH N [unordered]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"
#include "dgram/rd.h"
#include "rig.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

#define QKEY    1u
#define RING    256u
#define TURN    (10 * RN_NS_PER_US)
#define SHARE   8u  /* packets that a pair gives to its flow in a turn */
#define SIGNALS 16u /* every so many Sends one has a completion */

static const struct udpr_cfg cfg = { .target = 100 * RN_NS_PER_US,
				     .patience = RN_NS_PER_S,
				     .ack_delay = 50 * RN_NS_PER_US };

struct end {
	struct rig_node *n;
	struct rd_ctx d;
	struct rd_pair pair[4];
	struct rd_work work[4];
	struct rd_hold hold[4 * RD_WIN + 4096];
	struct rd_wide wide[4];
	struct rd_chain chain[4 * RD_WIN];
	struct rd_side side;
	struct udpr_tx tx;
	struct udpr_rx rx;
	struct udpr_pkt ring[RING];
	struct {
		uint32_t len;
		uint8_t b[RD_PACKET_MAX];
	} buf[RING];
	uint32_t spare[RING], n_spare;
	uint64_t key[2], packets;
};

static struct end end[2];
static const uint8_t addr_of[2][RD_ADDR_LEN] = { { [15] = 1 }, { [15] = 2 } };
static uint64_t now;

static void give(struct end *e, uint32_t buf)
{
	if (!udpr_tx_send(&e->tx, buf, now)) {
		udpr_tx_open(&e->tx, &cfg, e->ring, RING, 1);
		if (!udpr_tx_send(&e->tx, buf, now))
			abort();
	}
}

static void carry(uint32_t to, const uint8_t *p, uint32_t len);

static void put(uint32_t from, const struct udpr_hdr *h, uint64_t user)
{
	uint8_t b[UDPR_HDR_LEN + UDPR_COOKIE_LEN + RD_PACKET_MAX + UDPL_CRC_LEN];
	uint32_t len = udpr_build(b, h), sum = crc32c(0, b, len);

	if (h->kind == UDPR_DATA) {
		sum = crc32c_copy(sum, b + len, end[from].buf[user].b, end[from].buf[user].len);
		len += end[from].buf[user].len;
		end[from].packets++;
	}
	udpl_crc_put(b, len, sum);
	carry(!from, b, len + UDPL_CRC_LEN);
}

static void data_in(uint32_t i, const uint8_t *p, const struct udpr_hdr *h)
{
	struct end *e = &end[i];
	const uint32_t from = !i;
	struct rd_hdr rh;

	if (udpr_rx_open(&e->rx, e->key, &from, sizeof(from), h, now) != UDPR_OK ||
	    !rd_parse(p + h->body, h->body_len, &rh) || udpr_rx_data(&e->rx, h, now) != UDPR_OK)
		abort();
	const struct rd_rx rx = { .p = p + h->body, .len = h->body_len, .h = &rh, .addr = addr_of[from] };
	uint8_t answer[RD_ANSWER_MAX];
	if (rd_in(&e->d, &e->n->q[0].qp, &rx, answer) != 0)
		abort();
}

static void carry(uint32_t to, const uint8_t *p, uint32_t len)
{
	const uint32_t from = !to;
	struct udpr_hdr h, out;

	if (udpr_parse(p, len, &h) != UDPR_OK || !udpl_crc_good(p, len))
		abort();
	if (h.kind == UDPR_HELLO) {
		udpr_cookie_make(end[to].key, &from, sizeof(from), &h, now, &out);
		put(to, &out, 0);
	} else if (h.kind == UDPR_DATA) {
		data_in(to, p, &h);
	} else if (udpr_tx_in(&end[to].tx, &h, now) != UDPR_OK) {
		abort();
	}
}

static void give_packets(struct end *e)
{
	struct rd_pair *p;

	for (uint32_t n = 0; n < SHARE && (p = rd_pop(&e->d)) != NULL;) {
		for (; n < SHARE && udpr_tx_room(&e->tx, RING) > 1 && rd_more(&e->d, p); n++) {
			const uint32_t buf = e->spare[e->n_spare - 1];

			if ((e->buf[buf].len = rd_out(&e->d, p, e->buf[buf].b)) == 0)
				break;
			e->n_spare--;
			give(e, buf);
		}
		if (n == SHARE || udpr_tx_room(&e->tx, RING) <= 1)
			rd_put(&e->d, p);
	}
}

static void turn(uint32_t i)
{
	struct end *e = &end[i];
	struct udpr_hdr h;
	uint64_t user;
	bool ok;

	e->n->ctx.rc.qp.now = now;
	udpr_tx_tick(&e->tx, now);
	while (udpr_tx_done(&e->tx, &user, &ok))
		e->spare[e->n_spare++] = (uint32_t)user;
	if (rd_timer(&e->d) <= now)
		rd_tick(&e->d);
	while (rd_look(&e->d))
		;
	give_packets(e);
	while (udpr_tx_next(&e->tx, now, &h, &user))
		put(i, &h, user);
	if (udpr_rx_due(&e->rx, cfg.ack_delay) <= now) {
		udpr_rx_ack(&e->rx, now, &h);
		put(i, &h, 0);
	}
	rc_flush(&e->n->ctx.rc);
	qp_drained(&e->n->ctx.rc.qp);
}

static void up(uint32_t i, struct rig *r, bool unordered)
{
	struct end *e = &end[i];
	struct qp *qp = &r->n[i].q[0].qp;
	struct qp_attr a;

	e->n = &r->n[i];
	e->key[0] = 1 + i;
	for (; e->n_spare < RING; e->n_spare++)
		e->spare[e->n_spare] = e->n_spare;
	rd_init(&e->d, &e->n->ctx.rc.qp, e->pair, RN_ARRAY_LEN(e->pair), 100 * i);
	rd_give_works(&e->d, e->work, e->hold, e->chain, RN_ARRAY_LEN(e->work));
	rd_give_wides(&e->d, e->wide, RN_ARRAY_LEN(e->wide), 4096);
	a = rig_attr(e->n, 0);
	a.many = true;
	rc_destroy(&e->n->ctx.rc, qp);
	if (qp_init(qp, &a) != QP_OK || rd_attach(qp, &e->side, (struct rd_manner){ .loose = unordered }) != QP_OK)
		abort();
	qp_set(qp, &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = QKEY, .rnr_ns = RN_NEVER });
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		if (rd_modify(&e->d, qp, (enum qp_state)s) != QP_OK)
			abort();
}

static void post(uint64_t id, uint32_t len)
{
	struct rig_node *n = end[0].n;
	struct {
		struct qp_wqe w;
		struct qp_wqe_dest to;
	} slots = { .w = { .wr_id = id,
			   .op = QP_WR_SEND,
			   .flags = id % SIGNALS == SIGNALS - 1 ? QP_WF_SIGNALED : 0,
			   .num_sge = 1,
			   .slots = 2 },
		    .to = { .qpn = 10, .qkey = QKEY } };

	memcpy(slots.to.addr, addr_of[1], RD_ADDR_LEN);
	slots.w.sge[0] = rig_sge(n, (uint32_t)(id % 64) * 8192, len);
	spsc_prod_copy(&n->q[0].sq, 0, &slots, sizeof(slots));
	spsc_prod_publish(&n->q[0].sq, 2);
}

static void receive(uint32_t len)
{
	const struct qp_sge s = rig_sge(end[1].n, 0, len);

	(void)rig_post_recv(end[1].n, 0, 0, &s, 1);
}

static void run(uint32_t len, uint32_t depth, uint64_t n)
{
	uint64_t posted = 0, done = 0, came = 0;
	struct qp_cqe e;

	for (uint32_t k = 0; k < 2 * depth; k++)
		receive(len);
	while (came < n) {
		const uint64_t before = posted;

		for (; posted < n && posted + SIGNALS <= done + depth;)
			for (uint32_t k = 0; k < SIGNALS && posted < n; k++)
				post(posted++, len);
		if (posted != before)
			rd_doorbell(&end[0].d, &end[0].n->q[0].qp);
		turn(0);
		turn(1);
		now += TURN;
		while (rig_poll(&end[1].n->rcq_client, &e)) {
			if (e.status != QP_WC_SUCCESS)
				abort();
			came++;
			receive(len);
		}
		while (rig_poll(&end[0].n->scq_client, &e)) {
			if (e.status != QP_WC_SUCCESS)
				abort();
			done += SIGNALS;
		}
	}
}

int main(int argc, char **argv)
{
	struct timespec from, to;
	struct rig_cfg c;

	if (argc < 4)
		return 2;
	const uint32_t len = (uint32_t)strtoul(argv[1], NULL, 0), depth = (uint32_t)strtoul(argv[2], NULL, 0);
	const uint64_t n = strtoull(argv[3], NULL, 0);
	rig_defaults(&c);
	struct rig *r = rig_new(&c);
	now = r->now;
	for (uint32_t i = 0; i < 2; i++)
		up(i, r, argc > 4);
	clock_gettime(CLOCK_MONOTONIC, &from);
	run(len, depth, n);
	clock_gettime(CLOCK_MONOTONIC, &to);
	const double s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
	printf("messages %llu packets %llu back %llu rate %.0f\n", (unsigned long long)n,
	       (unsigned long long)end[0].packets, (unsigned long long)end[1].packets, (double)n / s);
	return 0;
}
