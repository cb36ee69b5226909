/* SPDX-License-Identifier: BSD-3-Clause */
#include "xrc_rig.h"

#define SLOTS  32u
#define CQE    64u
#define OFF(i) (RIG_REGION / 2 + (i)*32768u) /* offset of process i's queues in the queue region */
#define PD(i)  (20u + (i))

struct rig *R;
struct rig_node *A, *B;
struct xrc_proc P[XRC_PROCS];
struct qp_xrcd *domain[2];
struct qp_target *target;
uint32_t via;
static struct qp_srq **numbers;

static void proc_up(uint32_t i)
{
	struct xrc_proc *p = &P[i];
	const uint64_t at = OFF(i), rings = at + 4096;
	const struct qp_cq_attr ca = { .owner = 200 + i,
				       .region = B->region,
				       .region_size = RIG_REGION,
				       .shm_off = at,
				       .ring_off = rings,
				       .ring_stride = 0,
				       .workers = 1,
				       .cqe = CQE };
	const struct spsc_place cq = { B->region, RIG_REGION, rings, CQE, QP_CQE_SIZE };
	const struct qp_srq_attr sa = { .owner = 300 + i,
					.pd = PD(i),
					.wqe_slots = 1,
					.ring = { B->region, RIG_REGION, at + 16384, SLOTS, QP_SLOT_SIZE } };

	p->cq = aligned_alloc(RN_CACHE_LINE, sizeof(*p->cq));
	p->srq = aligned_alloc(RN_CACHE_LINE, sizeof(*p->srq));
	assert_int_equal(qp_cq_init(p->cq, &ca), SPSC_OK);
	assert_int_equal(spsc_cons_attach(&p->polled, &cq), SPSC_OK);
	assert_int_equal(qp_srq_init(p->srq, &sa), SPSC_OK);
	assert_int_equal(spsc_prod_attach(&p->ring, &sa.ring), SPSC_OK);
	p->srq->xrcd = domain[i / 2];
	p->srq->cq = p->cq;
	assert_true(qp_xsrq_publish(&B->dev, p->srq, 100 * i));
	p->lkey = rig_reg(B, 0, RIG_MEM, QP_ACC_LOCAL_WRITE, PD(i));
	p->rkey = rig_reg(B, 0, RIG_MEM, QP_ACC_ALL & ~QP_ACC_MW_BIND, PD(i));
}

void xrc_connect(uint32_t flow, struct qp_target *to, uint64_t patience)
{
	struct qp_attr a = rig_attr(A, flow);

	a.xrc = QP_XRC_INITIATOR;
	assert_int_equal(qp_init(&A->q[flow].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&A->ctx.rc, &A->q[flow].qp, QP_S_INIT), QP_OK);
	a = rig_attr(B, flow);
	qp_target_attr(to, domain[0], &a);
	assert_int_equal(qp_init(&B->q[flow].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[flow].qp, QP_S_INIT), QP_OK);
	qp_set(&B->q[flow].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = patience });
	rig_connect(R, flow);
}

void up(uint64_t patience)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.p2p = true;
	cfg.accept_flags = cfg.connect_flags = RC_KEEP_RECV;
	R = rig_new(&cfg);
	A = &R->n[0];
	B = &R->n[1];
	numbers = calloc(QP_XSRQ_NUMS, sizeof(*numbers));
	B->dev.xsrq = numbers;
	for (uint32_t i = 0; i < 2; i++)
		domain[i] = calloc(1, sizeof(*domain[i]));
	for (uint32_t i = 0; i < XRC_PROCS; i++)
		proc_up(i);
	target = aligned_alloc(RN_CACHE_LINE, sizeof(*target));
	xrc_connect(0, target, patience);
	for (uint32_t i = 0; i < RIG_MEM; i++)
		A->mem[i] = (uint8_t)(i * 7 + (i >> 8) + (i >> 16));
}

void down(void)
{
	rig_free(R);
	for (uint32_t i = 0; i < XRC_PROCS; i++) {
		free(P[i].srq);
		free(P[i].cq);
	}
	free(domain[0]);
	free(domain[1]);
	free(target);
	free(numbers);
}

void post(uint32_t i, uint64_t wr_id, uint32_t off, uint32_t len)
{
	const struct qp_rwqe w = {
		.wr_id = wr_id, .num_sge = 1, .slots = 1, .sge[0] = { RIG_IOVA(1) + off, len, P[i].lkey }
	};

	assert_true(spsc_prod_free(&P[i].ring, 1) >= 1);
	memcpy(spsc_prod_slot(&P[i].ring, 0), &w, sizeof(w));
	spsc_prod_publish(&P[i].ring, 1);
	rc_recvs(&B->ctx.rc);
	rc_recvs_look(&B->ctx.rc);
}

void start(uint8_t op, uint32_t to, uint32_t off, uint32_t len, uint32_t rkey)
{
	struct qp_sge s = rig_sge(A, off, len);
	const struct rig_wr w = { .wr_id = off,
				  .op = op,
				  .flags = QP_WF_SIGNALED,
				  .sge = &s,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1) + off,
				  .rkey = rkey,
				  .aux = 0x01020304,
				  .srqn = (uint16_t)to };

	assert_true(rig_post(A, via, &w));
}

void go(uint8_t op, uint32_t to, uint32_t off, uint32_t len, uint32_t rkey)
{
	start(op, to, off, len, rkey);
	rig_settle(R);
}

struct qp_cqe received(uint32_t i)
{
	struct qp_cqe e = { 0 };

	assert_true(rig_poll(&P[i].polled, &e));
	return e;
}

struct qp_cqe sent(void)
{
	struct qp_cqe e = { 0 };

	assert_true(rig_poll(&A->scq_client, &e));
	return e;
}

bool nothing(uint32_t i)
{
	struct qp_cqe e;

	return !rig_poll(&P[i].polled, &e);
}
