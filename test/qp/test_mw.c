/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: the table alone, the table under several threads, and windows as a peer uses them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/iw_term.h"
#include "rig.h"

#define PD  1u
#define QPN 9u

static struct qp_dev dev;
static struct qp_mr table[16];
static uint8_t mem[8192];

static uint32_t reg(uint32_t rights)
{
	const struct qp_piece p[] = { { mem, 4096 }, { mem + 4096, 8192 } };
	const struct qp_mr_attr a = {
		.pd = PD, .rights = rights, .iova = 0x10000, .len = 8192, .pieces = p, .npieces = 2
	};
	static struct qp_piece keep[2];
	struct qp_mr_attr b = a;
	uint32_t stag = 0;

	memcpy(keep, p, sizeof(p));
	b.pieces = keep;
	assert_int_equal(qp_mr_reg(&dev, &b, &stag), QP_MR_OK);
	return stag;
}

static uint32_t window(enum qp_entry_kind kind)
{
	uint32_t stag = 0;

	assert_int_equal(qp_mw_alloc(&dev, PD, kind, &stag), QP_MR_OK);
	return stag;
}

static enum qp_mr_verdict look(uint32_t stag, uint64_t to, uint32_t len, uint32_t rights, uint32_t qpn)
{
	const struct qp_access a = { .pd = PD, .stag = stag, .to = to, .len = len, .rights = rights, .qpn = qpn };
	struct rn_iov out[4];
	uint32_t n;
	enum qp_mr_verdict v = qp_mr_slices(&dev, &a, out, 4, &n);

	assert_int_equal(qp_mr_check(&dev, &a), v);
	if (v == QP_MR_OK)
		assert_int_equal(rn_iov_len(out, n), len);
	return v;
}

static struct qp_mw_bind on(uint32_t mw, uint32_t mr)
{
	return (struct qp_mw_bind){ .pd = PD,
				    .qpn = QPN,
				    .stag = mw,
				    .lkey = mr,
				    .addr = 0x10000 + 4000,
				    .len = 200,
				    .access = QP_ACC_REMOTE_WRITE };
}

static int make(void **state)
{
	(void)state;
	memset(table, 0, sizeof(table));
	qp_dev_init(&dev, table, RN_ARRAY_LEN(table), 7);
	return 0;
}

static void bound_and_used(void **state)
{
	uint32_t mr = reg(QP_ACC_LOCAL_WRITE | QP_ACC_MW_BIND), mw = window(QP_ENTRY_MW_2);
	struct qp_mw_bind b = on(mw ^ 0x21, mr);
	const struct qp_access a = {
		.pd = PD, .stag = b.stag, .to = 0x10000 + 4050, .len = 100, .rights = QP_ACC_REMOTE_WRITE, .qpn = QPN
	};
	struct rn_iov out[2];
	uint32_t n;

	(void)state;
	assert_int_equal(look(mw, 0x10000 + 4000, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG);
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_OK);
	assert_int_equal(look(mw, 0x10000 + 4000, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG); /* the old key */
	assert_int_equal(look(b.stag, 0x10000 + 4000, 200, QP_ACC_REMOTE_WRITE, QPN), QP_MR_OK);
	assert_int_equal(look(b.stag, 0x10000 + 4000, 201, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(b.stag, 0x10000 + 3999, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(b.stag, UINT64_MAX, 2, QP_ACC_REMOTE_WRITE, QPN), QP_MR_TO_WRAP);
	assert_int_equal(look(b.stag, 0x10000 + 4000, 1, QP_ACC_REMOTE_READ, QPN), QP_MR_BAD_RIGHTS);
	assert_int_equal(look(b.stag, 0x10000 + 4000, 1, QP_ACC_REMOTE_WRITE, QPN + 1), QP_MR_BAD_PD);
	/* A window's STag is no lkey. */
	assert_int_equal(look(b.stag, 0x10000 + 4000, 1, 0, QPN), QP_MR_BAD_STAG);
	assert_int_equal(look(b.stag, 0x10000 + 4000, 1, QP_ACC_LOCAL_WRITE, QPN), QP_MR_BAD_STAG);
	/* The range crosses the border between two pieces of the region. */
	assert_int_equal(qp_mr_slices(&dev, &a, out, 2, &n), QP_MR_OK);
	assert_int_equal(n, 2);
	assert_ptr_equal(out[0].base, mem + 4050);
	assert_int_equal(out[0].len, 46);
	assert_ptr_equal(out[1].base, mem + 4096);
	/* A window of type 2 must be invalidated before it is bound again. */
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_ATTR);
	assert_int_equal(qp_mr_invalidate(&dev, PD, QPN + 1, b.stag), QP_MR_BAD_PD);
	assert_int_equal(qp_mr_invalidate(&dev, PD + 1, QPN, b.stag), QP_MR_BAD_PD);
	assert_int_equal(qp_mr_invalidate(&dev, PD, QPN, b.stag), QP_MR_OK);
	assert_int_equal(qp_mr_invalidate(&dev, PD, QPN, b.stag), QP_MR_BAD_STAG);
	assert_int_equal(look(b.stag, 0x10000 + 4000, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG);
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_OK);
	/* A window ends with its region, and does not return with the next region. */
	assert_int_equal(qp_mr_dereg(&dev, mr), QP_MR_OK);
	assert_int_equal(look(b.stag, 0x10000 + 4000, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(table) - 2; i++)
		mr = reg(QP_ACC_ALL);
	assert_int_equal(look(b.stag, 0x10000 + 4000, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG);
}

static void type_1(void **state)
{
	uint32_t mr = reg(QP_ACC_ALL), mw = window(QP_ENTRY_MW_1);
	struct qp_mw_bind b = on(mw, mr);

	(void)state;
	b.access |= QP_ACC_ZERO_BASED;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_OK);
	/* any QP of the protection domain may use it */
	assert_int_equal(look(b.stag, 0, 200, QP_ACC_REMOTE_WRITE, QPN + 5), QP_MR_OK);
	assert_int_equal(look(b.stag, 1, 200, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_BOUNDS);
	assert_int_equal(qp_mr_invalidate(&dev, PD, QPN, b.stag), QP_MR_BAD_RIGHTS); /* a peer may not invalidate it */
	b.stag = (mw & ~0xffu) | ((mw + 1) & 0xff);
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_OK); /* bound again: the old key is void */
	assert_int_equal(look(mw, 0, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG);
	assert_int_equal(look(b.stag, 0, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_OK);
	b.len = 0;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_OK);
	assert_int_equal(look(b.stag, 0, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG);
	qp_mw_close(&dev, mw);
	b.len = 10;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_STAG);
	qp_mw_free(&dev, mw);
	assert_int_equal(qp_mr_dereg(&dev, mr), QP_MR_OK);
	assert_int_equal(dev.live, 0);
}

static void refused(void **state)
{
	uint32_t mr = reg(QP_ACC_LOCAL_WRITE | QP_ACC_MW_BIND), no = reg(QP_ACC_REMOTE_WRITE | QP_ACC_LOCAL_WRITE),
		 ro = reg(QP_ACC_MW_BIND), mw = window(QP_ENTRY_MW_2), other = window(QP_ENTRY_MW_2);
	struct qp_mw_bind b = on(mw, mr);

	(void)state;
	b.stag = mr;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_STAG); /* a region cannot be used as a window */
	b.stag = 0;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_STAG);
	b.stag = UINT32_MAX;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_STAG);
	b = on(mw, other);
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_STAG); /* a window cannot be used as a region */
	b = on(mw, no);
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_RIGHTS);
	b = on(mw, ro);
	/* memory without the right to write locally grants none to a peer */
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_RIGHTS);
	b.access = QP_ACC_REMOTE_READ;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_OK);
	assert_int_equal(qp_mr_invalidate(&dev, PD, QPN, mw), QP_MR_OK);
	b = on(mw, mr);
	b.pd = PD + 1;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_PD);
	b = on(mw, mr);
	b.len = 8192;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_BOUNDS);
	b.len = UINT64_MAX;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_BOUNDS);
	b = on(mw, mr);
	b.addr = 0xffff;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_BOUNDS);
	b = on(mw, mr);
	b.len = 0;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_ATTR);
	b = on(mw, mr);
	b.access = QP_ACC_LOCAL_WRITE;
	assert_int_equal(qp_mw_bind(&dev, &b), QP_MR_BAD_ATTR);
}

/* Two threads bind one window to two places, a third one looks it up: it finds either place as a whole, or none. */
static bool stop;
static uint32_t the_mw, the_mr;

static void *binds(void *arg)
{
	struct qp_mw_bind b = on(the_mw, the_mr);

	b.addr = arg != NULL ? 0x10000 + 5000 : 0x10000;
	b.len = arg != NULL ? 200 : 100;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		(void)!qp_mw_bind(&dev, &b); /* fails when the other thread was faster */
	return NULL;
}

static void binders_and_readers(void **state)
{
	pthread_t t[2];
	uint32_t seen[2] = { 0 };

	(void)state;
	the_mr = reg(QP_ACC_ALL);
	the_mw = window(QP_ENTRY_MW_1);
	stop = false;
	pthread_create(&t[0], NULL, binds, NULL);
	pthread_create(&t[1], NULL, binds, &stop);
	for (uint64_t i = 0; i < 1000000 || ((seen[0] < 100 || seen[1] < 100) && i < 100000000); i++) {
		const struct qp_access low = {
			.pd = PD, .stag = the_mw, .to = 0x10000, .len = 100, .rights = QP_ACC_REMOTE_WRITE, .qpn = QPN
		};
		struct qp_access a = low;
		struct rn_iov out[2];
		uint32_t n;

		seen[0] += qp_mr_slices(&dev, &low, out, 2, &n) == QP_MR_OK && out[0].base == mem;
		a.to = 0x10000 + 100; /* outside both places, but inside a mixture of their fields */
		a.len = 50;
		assert_int_not_equal(qp_mr_check(&dev, &a), QP_MR_OK);
		a.to = 0x10000 + 5100;
		a.len = 100;
		if (qp_mr_slices(&dev, &a, out, 2, &n) == QP_MR_OK) {
			assert_ptr_equal(out[0].base, mem + 5100);
			seen[1]++;
		}
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	qp_mw_close(&dev, the_mw);
	assert_int_equal(look(the_mw, 0x10000, 1, QP_ACC_REMOTE_WRITE, QPN), QP_MR_BAD_STAG);
}

/* ---- windows as a peer uses them ---- */

struct pair {
	struct rig *r;
	uint32_t mw, stag; /* keys at node 1 */
};

static struct qp_cqe post(struct rig *r, int id, struct rig_wr w)
{
	w.flags |= QP_WF_SIGNALED;
	assert_true(rig_post(&r->n[id], 0, &w));
	return rig_wait(r, &r->n[id].scq_client);
}

/* A window of type 2 over bytes 1000..2000 of node 1's memory, bound by a work request. */
static struct pair bound(uint32_t access)
{
	struct rig_cfg cfg;
	struct pair p;

	rig_defaults(&cfg);
	p.r = rig_new(&cfg);
	rig_connect(p.r, 0);
	struct qp_sge none = rig_sge(&p.r->n[0], 0, 0);
	post(p.r, 0, (struct rig_wr){ .op = QP_WR_WRITE, .sge = &none, .num_sge = 1 }); /* the initiator sends first */
	assert_int_equal(qp_mw_alloc(&p.r->n[1].dev, RIG_PD, QP_ENTRY_MW_2, &p.mw), QP_MR_OK);
	p.stag = p.mw ^ 3;
	struct qp_cqe e = post(p.r, 1,
			       (struct rig_wr){ .wr_id = 71,
						.op = QP_WR_BIND_MW,
						.rkey = p.stag,
						.aux = p.r->n[1].lkey,
						.raddr = RIG_IOVA(1) + 1000,
						.bind_len = 1000,
						.access = access });
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.op, QP_WC_BIND_MW);
	assert_int_equal(e.wr_id, 71);
	return p;
}

static struct qp_cqe use(const struct pair *p, uint8_t op, uint32_t off, uint32_t len)
{
	struct qp_sge s = rig_sge(&p->r->n[0], 0, len);

	return post(
		p->r, 0,
		(struct rig_wr){
			.op = op, .sge = &s, .num_sge = 1, .raddr = RIG_IOVA(1) + off, .rkey = p->stag, .operand = 1 });
}

/* A Write that node 1 refuses with a Terminate; TCP may have acknowledged it before. */
static void refused_write(const struct pair *p, uint32_t off, uint32_t code)
{
	(void)use(p, QP_WR_WRITE, off, 8);
	rig_settle(p->r);
	assert_non_null(rig_fx(p->r, 1, QP_FX_QP_EVENT));
	assert_int_equal(rig_fx(p->r, 1, QP_FX_QP_EVENT)->vendor_err, IW_LAYER_DDP << 16 | IW_DDP_TAGGED << 8 | code);
	assert_int_equal(p->r->n[0].q[0].qp.state, QP_S_ERR);
}

static void through_a_window(void **state)
{
	struct pair p = bound(QP_ACC_REMOTE_WRITE | QP_ACC_REMOTE_READ | QP_ACC_REMOTE_ATOMIC);

	(void)state;
	memset(p.r->n[0].mem, 0x42, 1000);
	assert_int_equal(use(&p, QP_WR_WRITE, 1000, 1000).status, QP_WC_SUCCESS);
	assert_memory_equal(p.r->n[1].mem + 1000, p.r->n[0].mem, 1000);
	memset(p.r->n[0].mem, 0, 1000);
	assert_int_equal(use(&p, QP_WR_READ, 1500, 500).status, QP_WC_SUCCESS);
	assert_int_equal(p.r->n[0].mem[499], 0x42);
	assert_int_equal(use(&p, QP_WR_FETCH_ADD, 1000, 8).status, QP_WC_SUCCESS);
	assert_int_equal(p.r->n[1].mem[1000], 0x43);
	refused_write(&p, 1993, IW_DT_BASE_BOUNDS);
	rig_free(p.r);
}

static void invalidated_by_its_owner(void **state)
{
	struct pair p = bound(QP_ACC_REMOTE_WRITE);

	(void)state;
	assert_int_equal(use(&p, QP_WR_WRITE, 1000, 8).status, QP_WC_SUCCESS);
	struct qp_cqe e = post(p.r, 1, (struct rig_wr){ .op = QP_WR_LOCAL_INV, .aux = p.stag });
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.op, QP_WC_LOCAL_INV);
	refused_write(&p, 1000, IW_DT_STAG_INVALID);
	rig_free(p.r);
}

static void invalidated_by_its_peer(void **state)
{
	struct pair p = bound(QP_ACC_REMOTE_WRITE);
	struct qp_sge s = rig_sge(&p.r->n[0], 0, 8), d = rig_sge(&p.r->n[1], 0, 8);

	(void)state;
	rig_post_recv(&p.r->n[1], 0, 1, &d, 1);
	post(p.r, 0, (struct rig_wr){ .op = QP_WR_SEND_INV, .sge = &s, .num_sge = 1, .aux = p.stag });
	struct qp_cqe e = rig_wait(p.r, &p.r->n[1].rcq_client);
	assert_int_equal(e.flags, QP_WCF_WITH_INV);
	assert_int_equal(e.aux, p.stag);
	refused_write(&p, 1000, IW_DT_STAG_INVALID);
	rig_free(p.r);
}

static void of_another_queue_pair(void **state)
{
	struct pair p = bound(QP_ACC_REMOTE_WRITE);
	struct qp_sge s = rig_sge(&p.r->n[0], 0, 8);
	const struct rig_wr w = { .op = QP_WR_WRITE,
				  .flags = QP_WF_SIGNALED,
				  .sge = &s,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1) + 1000,
				  .rkey = p.stag };

	(void)state;
	rig_connect(p.r, 1);
	assert_true(rig_post(&p.r->n[0], 1, &w));
	rig_settle(p.r);
	assert_non_null(rig_fx(p.r, 1, QP_FX_QP_EVENT));
	assert_int_equal(rig_fx(p.r, 1, QP_FX_QP_EVENT)->vendor_err,
			 IW_LAYER_DDP << 16 | IW_DDP_TAGGED << 8 | IW_DT_STAG_STREAM);
	rig_free(p.r);
}

/* A fenced invalidation waits for a Read whose Response has not come. */
static void fenced(void **state)
{
	struct pair p = bound(QP_ACC_REMOTE_READ);
	struct rig_node *a = &p.r->n[0];
	uint32_t sink = rig_reg(a, 0, 4096, QP_ACC_REMOTE_WRITE | QP_ACC_LOCAL_WRITE, RIG_PD);
	struct qp_sge s = { .addr = RIG_IOVA(0), .len = 500, .lkey = sink };

	(void)state;
	assert_true(rig_post(a, 0,
			     &(struct rig_wr){ .wr_id = 1,
					       .op = QP_WR_READ,
					       .flags = QP_WF_SIGNALED,
					       .sge = &s,
					       .num_sge = 1,
					       .raddr = RIG_IOVA(1) + 1000,
					       .rkey = p.stag }));
	assert_true(rig_post(
		a, 0,
		&(struct rig_wr){
			.wr_id = 2, .op = QP_WR_LOCAL_INV, .aux = sink, .flags = QP_WF_SIGNALED | QP_WF_FENCE }));
	struct qp_cqe e = rig_wait(p.r, &a->scq_client);
	assert_int_equal(e.wr_id, 1);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	e = rig_wait(p.r, &a->scq_client);
	assert_int_equal(e.wr_id, 2);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	rig_free(p.r);
}

/* ---- work requests that send nothing ---- */

/* Queues n binds of length 0 of a window of type 1, which succeed silently. */
static void queue_binds(struct rig_node *n, uint32_t mw, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_true(rig_queue(n, 0, &(struct rig_wr){ .op = QP_WR_BIND_MW, .rkey = mw }));
}

/* Node 0 has two connected queue pairs, and a window. */
static struct pair two_flows(void)
{
	struct rig_cfg cfg;
	struct pair p;

	rig_defaults(&cfg);
	p.r = rig_new(&cfg);
	rig_connect(p.r, 0);
	rig_connect(p.r, 1);
	rig_settle(p.r);
	assert_int_equal(qp_mw_alloc(&p.r->n[0].dev, RIG_PD, QP_ENTRY_MW_1, &p.mw), QP_MR_OK);
	return p;
}

static void binds_end_their_queue_pairs_turn(void **state)
{
	struct pair p = two_flows();
	struct rig_node *a = &p.r->n[0];
	struct qp_sge s = rig_sge(a, 0, 8);
	struct tcpl_out o;

	(void)state;
	queue_binds(a, p.mw, 200);
	rc_doorbell(&a->ctx.rc, &a->q[0].qp);
	assert_true(rig_post(a, 1,
			     &(struct rig_wr){ .op = QP_WR_WRITE,
					       .flags = QP_WF_SIGNALED,
					       .sge = &s,
					       .num_sge = 1,
					       .raddr = RIG_IOVA(1),
					       .rkey = p.r->n[1].rkey }));
	assert_ptr_equal(rc_tcp_ready_pop(&a->ctx), &a->conn[0]);
	assert_false(rc_tcp_out(&a->ctx, &a->conn[0], &o));
	assert_int_equal(a->ctx.rc.qp.stats.locals, QP_LOCALS);
	assert_ptr_equal(rc_tcp_ready_first(&a->ctx), &a->conn[1]);
	assert_int_equal(rig_wait(p.r, &a->scq_client).status, QP_WC_SUCCESS);
	rig_settle(p.r);
	assert_int_equal(a->ctx.rc.qp.stats.locals, 200);
	assert_int_equal(spsc_prod_free(&a->q[0].sq, RIG_SLOTS), RIG_SLOTS);
	rig_free(p.r);
}

static void binds_between_writes_end_the_turn_too(void **state)
{
	struct pair p = two_flows();
	struct rig_node *a = &p.r->n[0];
	struct qp_sge s = rig_sge(a, 0, 8);
	struct tcpl_out o;

	(void)state;
	for (uint32_t i = 0; i < 12; i++) {
		queue_binds(a, p.mw, 20);
		assert_true(rig_queue(a, 0,
				      &(struct rig_wr){ .op = QP_WR_WRITE,
							.sge = &s,
							.num_sge = 1,
							.raddr = RIG_IOVA(1),
							.rkey = p.r->n[1].rkey }));
	}
	rc_doorbell(&a->ctx.rc, &a->q[0].qp);
	assert_ptr_equal(rc_tcp_ready_pop(&a->ctx), &a->conn[0]);
	assert_true(rc_tcp_out(&a->ctx, &a->conn[0], &o)); /* the segment is lost */
	assert_int_equal(a->ctx.rc.qp.stats.locals, QP_LOCALS);
	rig_settle(p.r);
	assert_int_equal(a->ctx.rc.qp.stats.locals, 12 * 20);
	assert_int_equal(spsc_prod_free(&a->q[0].sq, RIG_SLOTS), RIG_SLOTS);
	rig_free(p.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(bound_and_used, make),
		cmocka_unit_test_setup(type_1, make),
		cmocka_unit_test_setup(refused, make),
		cmocka_unit_test_setup(binders_and_readers, make),
		cmocka_unit_test(through_a_window),
		cmocka_unit_test(invalidated_by_its_owner),
		cmocka_unit_test(invalidated_by_its_peer),
		cmocka_unit_test(of_another_queue_pair),
		cmocka_unit_test(fenced),
		cmocka_unit_test(binds_end_their_queue_pairs_turn),
		cmocka_unit_test(binds_between_writes_end_the_turn_too),
	};

	return cmocka_run_group_tests_name("qp_mw", tests, NULL, NULL);
}
