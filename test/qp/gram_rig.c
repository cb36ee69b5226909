/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gram_rig.h"

const uint8_t addr_a[16] = { [10] = 0xff, 0xff, 10, 77, 0, 1 }, addr_b[16] = { [10] = 0xff, 0xff, 10, 77, 0, 2 };
const uint8_t *to_addr = addr_b;
struct dgram_msgs msgs[2];
struct gram wire[WIRE];
uint32_t n_wire, piece_len;

static void gram_qp(struct rig_node *n, uint32_t max_msg, uint32_t msn)
{
	struct rig_qp *q = &n->q[0];
	struct qp_attr a = rig_attr(n, 0);

	a.type = QP_UD;
	a.access = QP_ACC_REMOTE;
	a.max_msg = max_msg;
	assert_int_equal(qp_init(&q->qp, &a), QP_OK);
	qp_set(&q->qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE });
	if (max_msg > UNIT)
		dgram_msgs_init(&msgs[n->id], &q->qp, UNIT, UNIT, msn);
	n->dgram.timeout = TIMEOUT;
	n->dgram.linger = RN_NS_PER_S;
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		assert_int_equal(dgram_modify(&n->dgram, &q->qp, (enum qp_state)s), QP_OK);
}

struct rig *gram_pair(uint32_t cqe, uint32_t max_msg_of_b)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.cqe = cqe;
	struct rig *r = rig_new(&cfg);
	rc_destroy(&A->ctx.rc, &A->q[0].qp);
	rc_destroy(&B->ctx.rc, &B->q[0].qp);
	gram_qp(A, dgram_max(UNIT), 0);
	gram_qp(B, max_msg_of_b, 0);
	n_wire = 0;
	return r;
}

void gram_anew(struct rig *r, uint32_t msn)
{
	dgram_destroy(&A->dgram, &A->q[0].qp);
	gram_qp(A, dgram_max(UNIT), msn);
}

/* As dgram_out(), but into several pieces of memory. */
static uint32_t out_in_pieces(struct rig_node *n, struct qp *qp, struct gram *g, struct dgram_to *to)
{
	const uint32_t first = UDPL_HDR_LEN + DGRAM_INNER + RDMAP_READ_REQ_LEN, len = dgram_next(&n->dgram, qp);
	struct rn_iov room[GRAM];

	if (len == 0)
		return 0;
	for (uint32_t i = 0, at = 0; at < GRAM; at += room[i++].len)
		room[i] = (struct rn_iov){ g->p + at, rn_min_u32(i == 0 ? first : piece_len, GRAM - at) };
	assert_int_equal(dgram_out_to(&n->dgram, qp, room, to), len);
	return len;
}

void send_from(struct rig_node *n)
{
	struct dgram_to to;
	struct qp *qp;

	while (n_wire < WIRE && (qp = dgram_pop(&n->dgram)) != NULL) {
		wire[n_wire].len = piece_len != 0 ? out_in_pieces(n, qp, &wire[n_wire], &to)
						  : dgram_out(&n->dgram, qp, wire[n_wire].p, &to);
		assert_true(wire[n_wire].len <= GRAM);
		n_wire += wire[n_wire].len > 0;
		if (dgram_waits(qp))
			dgram_put(&n->dgram, qp);
	}
	rc_flush(&n->ctx.rc);
}

void send_all(struct rig *r) { send_from(A); }

void in_from(struct rig_node *n, const struct gram *g, uint8_t host)
{
	struct udpl_hdr h;
	struct dgram_rx rx = { .len = g->len, .h = &h, .hop_limit = 63 };
	uint8_t *exact = malloc(g->len);

	memcpy(exact, g->p, g->len);
	memcpy(rx.src, addr_a, 16);
	memcpy(rx.dst, to_addr, 16);
	rx.src[15] = host;
	rx.p = exact;
	if (udpl_parse(exact, g->len, &h) == UDPL_OK)
		dgram_in(&n->dgram, &n->q[0].qp, &rx);
	rc_flush(&n->ctx.rc);
	free(exact);
}

void in_at(struct rig_node *n, const struct gram *g) { in_from(n, g, 1); }

void in(struct rig *r, const struct gram *g) { in_at(B, g); }

void one_of_the_wire(struct rig *r, struct rn_rng *rng, uint32_t reorder)
{
	const uint32_t i = (uint32_t)rn_rng_u64(rng) % rn_min_u32(n_wire, reorder);
	const uint32_t fate = (uint32_t)rn_rng_u64(rng) % 100;
	struct gram g = wire[i];

	if (fate >= 8) { /* otherwise the datagram stays on the wire and comes once more */
		memmove(&wire[i], &wire[i + 1], (n_wire - i - 1) * sizeof(g));
		n_wire--;
	}
	if (fate >= 8 && fate < 13)
		return; /* lost */
	if (fate >= 13 && fate < 18)
		g.p[rn_rng_u64(rng) % g.len] ^= (uint8_t)(1u << fate % 8);
	in(r, &g);
}

void clock_on(struct rig *r, uint64_t ns)
{
	r->now += ns;
	A->ctx.rc.qp.now = B->ctx.rc.qp.now = r->now;
	for (uint32_t i = 0; i < DGRAM_OPEN && dgram_timer(&B->dgram); i++)
		;
	while (dgram_timer(&A->dgram))
		;
	rc_flush(&A->ctx.rc);
	rc_flush(&B->ctx.rc);
}

struct qp_stats *stats(struct rig *r) { return &B->ctx.rc.qp.stats; }

struct qp_cqe got(struct spsc_cons *c)
{
	struct qp_cqe cqe;

	assert_true(rig_poll(c, &cqe));
	return cqe;
}

void none(struct spsc_cons *c)
{
	struct qp_cqe cqe;

	assert_false(rig_poll(c, &cqe));
}
