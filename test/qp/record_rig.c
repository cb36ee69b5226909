/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "record_rig.h"

static const uint8_t addr_a[16] = { [10] = 0xff, 0xff, 10, 77, 0, 1 };
struct dgram_msgs msgs[2];
struct gram wire[WIRE];
uint32_t n_wire;

static void make_qp(struct rig_node *n)
{
	struct rig_qp *q = &n->q[0];
	const struct qp_attr a = { .owner = 200,
				   .qpn = 10,
				   .pd = RIG_PD,
				   .dev = &n->dev,
				   .scq = &n->scq,
				   .rcq = &n->rcq,
				   .region = n->region,
				   .region_size = RIG_REGION,
				   .shm_off = q->shm_off,
				   .sq_off = q->sq_off,
				   .rq_off = q->rq_off,
				   .sq_slots = RIG_SLOTS,
				   .rq_slots = RIG_SLOTS,
				   .type = QP_UD,
				   .access = QP_ACC_REMOTE,
				   .max_msg = dgram_max(UNIT) };

	rc_destroy(&n->ctx.rc, &q->qp);
	assert_int_equal(qp_init(&q->qp, &a), QP_OK);
	qp_set(&q->qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE });
	dgram_msgs_init(&msgs[n->id], &q->qp, UNIT);
	n->dgram.timeout = TIMEOUT;
	n->dgram.linger = RN_NS_PER_S;
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		assert_int_equal(dgram_modify(&n->dgram, &q->qp, (enum qp_state)s), QP_OK);
}

struct rig *pair_with(uint32_t cqe)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.cqe = cqe;
	struct rig *r = rig_new(&cfg);
	make_qp(A);
	make_qp(B);
	memset(B->mem + FROM, 0xee, SLOTS * SLOT);
	n_wire = 0;
	return r;
}

struct rig *pair(void) { return pair_with(0); }

uint8_t byte_of(uint32_t m, uint32_t i)
{
	const uint8_t b = (uint8_t)(m * 31 + i * 7 + (i >> 8) * 13 + 1);

	return b == 0xee ? 0 : b;
}

uint64_t there(uint32_t m) { return RIG_IOVA(1) + FROM + m % SLOTS * SLOT; }

void post_write(struct rig *r, const struct write *x)
{
	struct rig_qp *p = &A->q[0];
	const uint32_t at = FROM + x->m % SLOTS * SLOT;
	struct {
		struct qp_wqe w;
		struct qp_sge sge[4];
	} e = { .w = { .wr_id = x->m,
		       .op = x->op,
		       .flags = QP_WF_SIGNALED,
		       .num_sge = 2,
		       .slots = 2,
		       .rkey = x->rkey,
		       .aux = x->op == QP_WR_WRITE_IMM ? x->m : 0,
		       .ud = { .qpn = 10, .qkey = x->qkey } } };

	for (uint32_t i = 0; i < x->len; i++)
		A->mem[at + i] = byte_of(x->m, i);
	e.w.dgram_write.raddr = x->to;
	e.sge[0] = rig_sge(A, at, x->len / 3);
	e.sge[1] = rig_sge(A, at + x->len / 3, x->len - x->len / 3);
	spsc_prod_copy(&p->sq, 0, &e, sizeof(e));
	spsc_prod_publish(&p->sq, 2);
	dgram_doorbell(&A->dgram, &p->qp);
}

void post(struct rig *r, uint32_t m, uint32_t len)
{
	post_write(r, &(struct write){ m, len, there(m), B->rkey, QKEY, QP_WR_WRITE });
}

void send_from(struct rig_node *n)
{
	struct dgram_to to;
	struct qp *qp;

	while (n_wire < WIRE && (qp = dgram_pop(&n->dgram)) != NULL) {
		wire[n_wire].len = dgram_out(&n->dgram, qp, wire[n_wire].p, &to);
		assert_true(wire[n_wire].len <= GRAM);
		n_wire += wire[n_wire].len > 0;
		if (dgram_waits(qp))
			dgram_put(&n->dgram, qp);
	}
	rc_flush(&n->ctx.rc);
}

void send_all(struct rig *r) { send_from(A); }

void in_at(struct rig_node *n, const struct gram *g)
{
	struct udpl_hdr h;
	struct dgram_rx rx = { .len = g->len, .h = &h, .hop_limit = 63 };
	uint8_t *exact = malloc(g->len);

	memcpy(exact, g->p, g->len);
	memcpy(rx.src, addr_a, 16);
	rx.p = exact;
	if (udpl_parse(exact, g->len, &h) == UDPL_OK)
		dgram_in(&n->dgram, &n->q[0].qp, &rx);
	rc_flush(&n->ctx.rc);
	free(exact);
}

void in(struct rig *r, const struct gram *g) { in_at(B, g); }

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

uint32_t told(struct rig *r, const struct qp_cqe *c, uint32_t m)
{
	const uint32_t off = (uint32_t)(c->wr_id - there(m));

	assert_true(c->status == QP_WC_SUCCESS && c->op == QP_WC_RECORD && c->src_qp == 10 && c->qpn == 10);
	assert_true(off + c->byte_len <= SLOT);
	for (uint32_t i = off; i < off + c->byte_len; i++)
		assert_int_equal(B->mem[FROM + m % SLOTS * SLOT + i], byte_of(m, i));
	return off;
}
