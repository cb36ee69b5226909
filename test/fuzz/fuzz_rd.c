/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable datagrams (dgram/rd.h) between a peer that sends any packets and a client that makes any calls. No memory is
 * touched out of bounds, and when the queue pairs have ended, all pairs, held segments and work requests have come
 * back.
 */
#include <stdlib.h>
#include <string.h>

#include "dgram/rd.h"
#include "rig.h"

#define PAIRS    3u
#define QPS      2u
#define WORKS    2u
#define HOLDS    (WORKS * RD_WIN)
#define WIDES    4u
#define PROMISES 40u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rd_ctx d;
static struct rd_pair pair[PAIRS];
static struct rd_work work[WORKS];
static struct rd_hold hold[HOLDS + PROMISES];
static struct rd_wide wide[WIDES];
static struct rd_chain chain[HOLDS];
static struct rd_side side[QPS];
static struct rig_node *n;
static const uint8_t *in;
static size_t left;

static void check(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t octet(void) { return left > 0 ? left--, *in++ : 0; }

static struct qp *qp_at(uint32_t i) { return &n->q[i % QPS].qp; }

static void make_rd(uint32_t i)
{
	struct qp_attr a = rig_attr(n, i);

	a.many = true;
	rc_destroy(&n->ctx.rc, qp_at(i));
	check(qp_init(qp_at(i), &a) == QP_OK &&
	      rd_attach(qp_at(i), &side[i], (struct rd_manner){ .loose = i == 1 }) == QP_OK);
	qp_set(qp_at(i), &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = 1, .rnr_ns = RN_NS_PER_S });
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		check(rd_modify(&d, qp_at(i), (enum qp_state)s) == QP_OK);
}

/* A run number that the peer says is this device's: one of the latest four, or any number from 128 on. */
static uint32_t run_of(uint8_t b) { return b < 128 ? d.run - b % 4 : b; }

static uint32_t any_octets(uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = octet();
	return len;
}

/* A part of a SEGMENTS. Now and then its length is wrong. Returns how many octets were written. */
static uint32_t part(uint8_t *p)
{
	const uint8_t what = octet(), len = octet() % 64;

	rd_part_build(p, &(struct rd_part){ .len = what < 250 ? len : len + what % 3,
					    .flags = what & 7,
					    .rnr = (what >> 3) & 1,
					    .qkey = what % 16 != 15 });
	return RD_PART_LEN + any_octets(p + RD_PART_LEN, len);
}

static void packet(void)
{
	static const uint8_t addr[2][RD_ADDR_LEN] = { { 1 }, { 2 } };
	uint8_t p[RD_PACKET_MAX], answer[RD_ANSWER_MAX];
	const uint8_t what = octet(), more = octet();
	const uint8_t flags = octet();
	struct rd_hdr h = { .kind = 1 + what % 3,
			    .flags = flags,
			    .room = flags >> 6,
			    .dst_qpn = 10 + (what >> 2) % 3,
			    .src_qpn = 20 + (what >> 4) % 3,
			    .qkey = more % 16 != 0,
			    .run = 200 + (more >> 4) % 4,
			    .peer_run = more & 8 ? run_of(octet()) : 0,
			    .number = octet() % 80,
			    .more = flags & RD_F_MORE ? (uint64_t)octet() << octet() % 56 : 0,
			    .taken = octet() % 20 };
	if (h.kind == RD_SEGMENT && flags & RD_F_BACK)
		h.kind = RD_SEGMENTS;
	const uint32_t body = octet(), at = rd_build(p, &h);
	uint32_t len = at;

	if (h.kind == RD_SEGMENTS)
		for (uint32_t i = 0; i < body % (RD_PARTS + 2); i++)
			len += part(p + len);
	else
		len += any_octets(p + at, body);
	uint8_t *exact = malloc(len);
	memcpy(exact, p, len);
	const bool whole = rd_parse(exact, len, &h);
	check(whole || h.kind == RD_SEGMENTS);
	const struct rd_rx rx = { .p = exact, .len = len, .h = &h, .addr = addr[what >> 7] };
	struct qp *qp = h.dst_qpn < 10 + QPS ? qp_at(h.dst_qpn - 10) : NULL;
	check(!whole || rd_in(&d, qp, &rx, answer) <= RD_ANSWER_MAX);
	free(exact);
}

/* The client writes any octets into its send queue; most of them look like a work request. */
static void post(void)
{
	const uint8_t what = octet(), to = octet();
	struct {
		struct qp_wqe w;
		struct qp_wqe_dest to;
	} slots = { .w = { .op = what % QP_WR_OPS,
			   .flags = QP_WF_SIGNALED,
			   .num_sge = 1,
			   .slots = to == 255 ? octet() : 2,
			   .raddr = RIG_IOVA(0) + octet(),
			   .rkey = n->rkey },
		    .to = { .addr = { 1 + (to & 1) }, .qpn = 20 + (to >> 1) % 3, .qkey = 1 } };
	struct rig_qp *q = &n->q[what >> 7];

	slots.w.sge[0] = rig_sge(n, 0, 16u * octet());
	if (spsc_prod_free(&q->sq, 2) >= 2) {
		spsc_prod_copy(&q->sq, 0, &slots, sizeof(slots));
		spsc_prod_publish(&q->sq, 2);
	}
	rd_doorbell(&d, &q->qp);
}

static void receive(void)
{
	const uint8_t what = octet();
	const struct qp_sge s = rig_sge(n, 8192, 16u * octet());

	(void)rig_post_recv(n, what % QPS, 1, &s, 1);
	rd_doorbell(&d, qp_at(what));
}

/* Sends all packets that wait. full: each pair's flow has room for one packet only. */
static void send_all(bool full)
{
	static struct rn_slist waiting;
	uint8_t buf[RD_PACKET_MAX];
	struct rd_pair *p;

	while (rd_unpark(&d, &waiting))
		;
	while ((p = rd_pop(&d)) != NULL) {
		while (rd_more(&d, p) && rd_out(&d, p, buf) > 0)
			if (full) {
				rd_park(p, &waiting);
				break;
			}
		check(p->listed || rd_more(&d, p) || rd_out(&d, p, buf) == 0);
	}
}

static void step(void)
{
	static const uint8_t addr[RD_ADDR_LEN] = { 1 };
	const uint8_t what = octet();
	struct qp_cqe e;

	switch (what % 8) {
	case 0:
	case 1:
	case 2: packet(); break;
	case 3: post(); break;
	case 4: receive(); break;
	case 5:
		n->ctx.rc.qp.now += (1 + (what >> 4)) * (RN_NS_PER_S / 4);
		rd_tick(&d);
		while (rd_look(&d))
			;
		break;
	case 6: send_all(what & 8); break;
	case 7:
		if (what & 8) {
			rd_lost(&d, addr);
		} else if (what & 16) {
			(void)rd_modify(&d, qp_at(what >> 7), QP_S_RESET);
			for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
				(void)rd_modify(&d, qp_at(what >> 7), (enum qp_state)s);
		}
		break;
	}
	rc_flush(&n->ctx.rc);
	qp_drained(&n->ctx.rc.qp);
	while (rig_poll(&n->scq_client, &e) || rig_poll(&n->rcq_client, &e))
		;
}

static uint32_t length(const struct rn_slist *l)
{
	uint32_t k = 0;

	for (const struct rn_slink *x = l->first; x != NULL; x = x->next)
		k++;
	return k;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rig_cfg cfg;

	in = data;
	left = size;
	rig_defaults(&cfg);
	struct rig *r = rig_new(&cfg);
	n = &r->n[0];
	memset(pair, 0, sizeof(pair));
	memset(hold, 0, sizeof(hold));
	rd_init(&d, &n->ctx.rc.qp, pair, PAIRS, 0);
	memset(chain, 0, sizeof(chain));
	memset(work, 0, sizeof(work));
	rd_give_works(&d, work, hold, chain, WORKS);
	memset(wide, 0, sizeof(wide));
	rd_give_wides(&d, wide, WIDES, PROMISES);
	for (uint32_t i = 0; i < QPS; i++)
		make_rd(i);
	while (left > 0)
		step();
	for (uint32_t i = 0; i < QPS; i++) {
		rd_destroy(&d, qp_at(i));
		check(length(&side[i].spare) == RD_SENDS && side[i].waiting == 0);
	}
	send_all(false);
	check(rn_pool_left(&d.free) == PAIRS && rn_pool_left(&d.works) == WORKS &&
	      rn_pool_left(&d.holds) == HOLDS + PROMISES && rn_pool_left(&d.chains) == HOLDS && d.promised == 0 &&
	      d.wides_free == WIDES);
	rig_free(r);
	return 0;
}
