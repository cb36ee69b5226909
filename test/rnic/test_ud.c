/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles, and posting and polling of datagram queue pairs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "dev_rig.h"
#include "rnic/verbs/objects.h"
#include <rnic/rnicdv.h>

#define UD_MTU 1024u /* longest datagram of the fake daemon's device, in bytes */

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_ah *ah;
static struct ibv_qp_cap cap;

static const uint8_t there[16] = { [10] = 0xff, 0xff, 192, 0, 2, 7 };

static struct fake_qp *peer(void) { return &client()->qp[qp->handle]; }

static struct ibv_qp *make_qp(uint32_t sge, uint32_t inl, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_UD,
					 .pd = pd,
					 .cap = { 16, 16, sge, sge, inl },
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .send_ops_flags = ops };
	struct ibv_qp *q = ibv_create_qp_ex(ctx, &a);

	cap = a.cap;
	return q;
}

static struct ibv_ah_attr attr_of(const uint8_t addr[16])
{
	struct ibv_ah_attr a = { .port_num = 1, .is_global = 1 };

	memcpy(a.grh.dgid.raw, addr, 16);
	return a;
}

static int setup(void **state)
{
	struct ibv_ah_attr a = attr_of(there);

	if (dev_setup(state) != 0)
		return 1;
	cq = ibv_create_cq(ctx, 100, NULL, NULL, 0);
	qp = make_qp(2, 0, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	ah = ibv_create_ah(pd, &a);
	if (qp == NULL || ah == NULL)
		return 1;
	peer()->shm->state = IBV_QPS_RTS;
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	return dev_teardown(state);
}

static void address_handles(void **state)
{
	static const uint8_t nobody[16] = { [10] = 0xff, 0xff, 192, 0, 2, 99 };
	struct ibv_ah_attr a = attr_of(nobody), back;
	struct ibv_device_attr dev;
	struct ibv_grh grh = { .hop_limit = 3 };
	struct ibv_wc wc = { 0 };

	(void)state;
	assert_int_equal(client()->last.type, IPC_REACH);
	assert_memory_equal(client()->last.reach.ip, there, 16);
	assert_null(ibv_create_ah(pd, &a));
	assert_int_equal(errno, EHOSTUNREACH);
	a = attr_of(there);
	a.is_global = 0; /* there are no LIDs on Ethernet */
	assert_null(ibv_create_ah(pd, &a));
	assert_int_equal(errno, EINVAL);
	a.is_global = 1;
	a.port_num = 2;
	assert_null(ibv_create_ah(pd, &a));
	assert_int_equal(errno, EINVAL);

	memcpy(grh.sgid.raw, there, 16);
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &back), EINVAL);
	assert_null(ibv_create_ah_from_wc(pd, &wc, &grh, 1));
	wc.wc_flags = IBV_WC_GRH;
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &back), 0);
	assert_true(back.is_global && back.port_num == 1 && back.grh.sgid_index == 0);
	assert_memory_equal(back.grh.dgid.raw, there, 16);
	struct ibv_ah *again = ibv_create_ah_from_wc(pd, &wc, &grh, 1);
	assert_non_null(again);
	assert_ptr_equal(again->pd, pd);
	assert_int_equal(ibv_destroy_ah(again), 0);
	assert_int_equal(ibv_query_device(ctx, &dev), 0);
	assert_true(dev.max_ah > 0);
}

static void a_queue_pair_of_datagrams(void **state)
{
	(void)state;
	assert_int_equal(peer()->made.datagram, 1);
	assert_int_equal(qp->qp_type, IBV_QPT_UD);
	assert_int_equal(cap.max_send_sge, 2);
	assert_int_equal(cap.max_inline_data, 80);
	assert_null(make_qp(1, 0, IBV_QP_EX_WITH_RDMA_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
	struct ibv_qp *most = make_qp(QP_MAX_SGE, QP_MAX_INLINE, IBV_QP_EX_WITH_SEND);
	assert_non_null(most);
	assert_int_equal(cap.max_send_sge, QP_MAX_SGE);
	assert_int_equal(cap.max_inline_data, QP_MAX_INLINE);
	assert_int_equal(ibv_destroy_qp(most), 0);
}

static void a_queue_pair_of_long_datagrams(void **state)
{
	struct ibv_sge sge = { .addr = 4096, .length = 100000, .lkey = 7 };
	struct ibv_qp_init_attr_ex a = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_UD,
					 .pd = pd,
					 .cap = { 16, 16, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct rnicdv_qp_attr dv = { .type = RNICDV_QPT_UD };
	struct rnicdv_device_attr dev = { 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { ah, 5, 6 } }, *bad;

	(void)state;
	assert_int_equal(rnicdv_query_device(ctx, &dev), 0);
	assert_int_equal(dev.max_ud_msg, 100000);
	struct ibv_qp *q = rnicdv_create_qp(ctx, &a, &dv);
	assert_non_null(q);
	assert_int_equal(client()->qp[q->handle].made.datagram, IPC_UD_LONG);
	assert_int_equal(q->qp_type, IBV_QPT_UD);
	client()->qp[q->handle].shm->state = IBV_QPS_RTS;
	assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
	sge.length++;
	assert_int_equal(ibv_post_send(q, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(q), 0);

	/* a Write-Record: the first slot has the receiver's address and the tagged offset, the next one the SGEs */
	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND;
	q = rnicdv_create_qp(ctx, &a, &dv);
	assert_non_null(q);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(q);
	const struct fake_qp *f = &client()->qp[q->handle];
	f->shm->state = IBV_QPS_RTS;
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ibv_wr_rdma_write_imm(ex, 0x1234, 0x7f0000000010, 0xabcd);
	ibv_wr_set_ud_addr(ex, ah, 5, 6);
	ibv_wr_set_sge(ex, 7, 4096, 100000);
	assert_int_equal(ibv_wr_complete(ex), 0);
	const struct qp_wqe *w = spsc_cons_slot(&f->sq, 0);
	assert_true(w->op == QP_WR_WRITE_IMM && w->slots == 2 && w->num_sge == 1 && w->rkey == 0x1234);
	assert_true(w->aux == 0xabcd && w->ud.qpn == 5 && w->ud.qkey == 6);
	assert_memory_equal(w->dgram_write.addr, there, 16);
	assert_true(w->dgram_write.raddr == 0x7f0000000010);
	const struct qp_sge *s = spsc_cons_slot(&f->sq, 1);
	assert_true(s->addr == 4096 && s->len == 100000 && s->lkey == 7);
	for (uint32_t len = 0; len < 200000; len += 100001) { /* a record of 0 bytes, and one that is too long */
		ibv_wr_start(ex);
		ibv_wr_rdma_write(ex, 0x1234, 0x1000);
		ibv_wr_set_ud_addr(ex, ah, 5, 6);
		ibv_wr_set_sge(ex, 7, 4096, len);
		assert_int_equal(ibv_wr_complete(ex), EINVAL);
	}
	assert_int_equal(ibv_destroy_qp(q), 0);

	/* unknown types and flags are refused */
	dv.type = 99;
	assert_null(rnicdv_create_qp(ctx, &a, &dv));
	assert_int_equal(errno, EOPNOTSUPP);
	const struct rnicdv_qp_attr unknown[] = {
		{ .comp_mask = 1u << 31, .type = RNICDV_QPT_UD },
		{ .comp_mask = RNICDV_QP_ATTR_FLAGS, .type = RNICDV_QPT_RD, .flags = 1u << 31 },
		{ .comp_mask = RNICDV_QP_ATTR_FLAGS, .type = RNICDV_QPT_UD, .flags = RNICDV_QP_UNORDERED },
	};
	for (uint32_t i = 0; i < RN_ARRAY_LEN(unknown); i++) {
		errno = 0;
		assert_null(rnicdv_create_qp(ctx, &a, &unknown[i]));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	dv = (struct rnicdv_qp_attr){ .type = RNICDV_QPT_UD };
	a.qp_type = IBV_QPT_RC;
	assert_null(rnicdv_create_qp(ctx, &a, &dv));
	dev.comp_mask = 1;
	assert_int_equal(rnicdv_query_device(ctx, &dev), EOPNOTSUPP);
}

/* Reliable datagrams: the WQE is that of a connection, plus a last slot with the peer's address. */
static void a_queue_pair_of_reliable_datagrams(void **state)
{
	struct ibv_sge sge = { .addr = 4096, .length = 100000000, .lkey = 7 };
	struct ibv_qp_init_attr_ex a = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_UD,
					 .pd = pd,
					 .cap = { 16, 16, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ };
	struct rnicdv_qp_attr dv = { .type = RNICDV_QPT_RD };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { ah, 5, 6 } }, *bad;

	(void)state;
	struct ibv_qp *q = rnicdv_create_qp(ctx, &a, &dv);
	assert_non_null(q);
	const struct fake_qp *f = &client()->qp[q->handle];
	assert_int_equal(f->made.datagram, IPC_RD);
	f->shm->state = IBV_QPS_RTS;
	assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
	wr.wr.ud.remote_qpn = 1 << 24;
	assert_int_equal(ibv_post_send(q, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE; /* a request without a peer's address */
	assert_int_equal(ibv_post_send(q, &wr, &bad), EINVAL);
	const struct qp_wqe *w = spsc_cons_slot(&f->sq, 0);
	assert_true(w->op == QP_WR_SEND && w->slots == 2 && w->num_sge == 1 && w->sge[0].len == 100000000);
	const struct qp_wqe_dest *to = spsc_cons_slot(&f->sq, 1);
	assert_true(to->qpn == 5 && to->qkey == 6);
	assert_memory_equal(to->addr, there, 16);

	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(q);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0x1234, 0x7f0000000010);
	ibv_wr_set_ud_addr(ex, ah, 8, 9);
	ibv_wr_set_sge(ex, 7, 4096, 12);
	assert_int_equal(ibv_wr_complete(ex), 0);
	w = spsc_cons_slot(&f->sq, 2);
	assert_true(w->op == QP_WR_WRITE && w->slots == 2 && w->rkey == 0x1234 && w->raddr == 0x7f0000000010);
	to = spsc_cons_slot(&f->sq, 3);
	assert_true(to->qpn == 8 && to->qkey == 9);
	ibv_wr_start(ex); /* a request without a peer's address */
	ibv_wr_rdma_write(ex, 0x1234, 0x7f0000000010);
	ibv_wr_set_sge(ex, 7, 4096, 12);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_destroy_qp(q), 0);
}

/* A long work request to a peer that is not ready must not take the room of those to other peers. */
static void work_requests_that_complete_in_any_order_make_room(void **state)
{
	uint8_t text[200] = { 0 };
	struct ibv_sge sge = { .addr = (uintptr_t)text, .length = sizeof(text) };
	struct ibv_qp_init_attr_ex a = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_UD,
					 .pd = pd,
					 .cap = { 3, 1, 1, 1, sizeof(text) },
					 .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct rnicdv_qp_attr dv = { .type = RNICDV_QPT_RD };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE,
				  .wr.ud = { ah, 5, 6 } },
			   *bad;

	(void)state;
	struct ibv_qp *q = rnicdv_create_qp(ctx, &a, &dv);
	assert_non_null(q);
	struct fake_qp *f = &client()->qp[q->handle];
	f->shm->state = IBV_QPS_RTS;
	assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
	const uint32_t large = ((const struct qp_wqe *)spsc_cons_slot(&f->sq, 0))->slots;
	sge.length = 8;
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
		assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
		assert_true(spsc_cons_avail(&f->sq, large + 4) >= large + 4);
		spsc_cons_release(&f->sq, 4); /* two of the short ones are done; the long one is not */
	}
	spsc_cons_release(&f->sq, large);
	for (uint32_t i = 0; i < a.cap.max_send_wr; i++)
		assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
	assert_int_equal(ibv_destroy_qp(q), 0);
}

/* Work requests of one size are counted exactly, wherever the room comes from. */
static void no_more_work_requests_of_one_size_than_asked_for(void **state)
{
	struct ibv_sge sge = { .addr = 4096, .length = 8, .lkey = 7 };
	struct ibv_qp_init_attr_ex a = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_UD,
					 .pd = pd,
					 .cap = { 3, 1, 1, 1, 200 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct rnicdv_qp_attr dv = { .type = RNICDV_QPT_RD };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { ah, 5, 6 } }, *bad;

	(void)state;
	struct ibv_qp *q = rnicdv_create_qp(ctx, &a, &dv);
	assert_non_null(q);
	struct fake_qp *f = &client()->qp[q->handle];
	f->shm->state = IBV_QPS_RTS;
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < a.cap.max_send_wr; i++)
			assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
		assert_int_equal(ibv_post_send(q, &wr, &bad), ENOMEM);
		const uint32_t slots = 2 * (round % a.cap.max_send_wr + 1);
		assert_true(spsc_cons_avail(&f->sq, slots) >= slots);
		spsc_cons_release(&f->sq, slots);
		for (uint32_t i = 0; i < slots / 2; i++)
			assert_int_equal(ibv_post_send(q, &wr, &bad), 0);
		assert_int_equal(ibv_post_send(q, &wr, &bad), ENOMEM);
		spsc_cons_release(&f->sq, spsc_cons_avail(&f->sq, f->sq.mask + 1));
	}
	assert_int_equal(ibv_destroy_qp(q), 0);
}

static void its_states_need_a_q_key(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .qkey = 0x1234, .port_num = 1 };
	struct ibv_qp_init_attr init;

	(void)state;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), 0);
	assert_int_equal(client()->last.modify_qp.mask, IPC_QP_ATTR_STATE | IPC_QP_ATTR_QKEY);
	assert_int_equal(client()->last.modify_qp.qkey, 0x1234);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_QKEY, &init), 0);
	assert_int_equal(a.qkey, 0x1234);
	assert_int_equal(init.qp_type, IBV_QPT_UD);
}

static void what_is_posted(void **state)
{
	struct ibv_sge sge[2] = { { 0x1000, 100, 7 }, { 0x2000, 24, 8 } };
	struct ibv_send_wr wr = { .wr_id = 42,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
				  .sg_list = sge,
				  .num_sge = 2,
				  .imm_data = 0x01020304,
				  .wr.ud = { .ah = ah, .remote_qpn = 0x123, .remote_qkey = 0x80000000 } };
	struct ibv_send_wr *bad;

	(void)state;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	const struct qp_wqe *w = take_send(peer());
	assert_true(w->wr_id == 42 && w->op == QP_WR_SEND_IMM && w->flags == (QP_WF_SIGNALED | QP_WF_SOLICITED));
	assert_int_equal(w->slots, 2);
	assert_int_equal(w->num_sge, 2);
	assert_int_equal(w->aux, 0x01020304);
	assert_true(w->ud.qpn == 0x123 && w->ud.qkey == 0x80000000);
	assert_memory_equal(w->dgram.addr, there, 16);
	assert_true(w->dgram.sge[0].addr == 0x1000 && w->dgram.sge[0].len == 100 && w->dgram.sge[0].lkey == 7);

	char text[] = "sixteen bytes!!!";
	sge[0] = (struct ibv_sge){ (uintptr_t)text, 16, 0 };
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	w = take_send(peer());
	assert_true(w->slots == 1 && w->op == QP_WR_SEND && w->inline_len == 16 && w->aux == 0);
	assert_memory_equal((const uint8_t *)w + QP_WQE_FIXED + QP_UD_ADDR_LEN, text, 16);

	/* requests that a datagram queue pair does not have */
	sge[0].length = 81;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	wr.send_flags = 0;
	sge[0].length = UD_MTU;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	take_send(peer());
	sge[0].length = UD_MTU + 1;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	sge[0].length = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = NULL;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_int_equal(spsc_cons_avail(&peer()->sq, 1), 0);
}

static void what_is_posted_by_functions(void **state)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	char text[20] = "hello";

	(void)state;
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, 5);
	ibv_wr_set_ud_addr(ex, ah, 0x77, 0x11111111);
	ibv_wr_set_sge(ex, 9, 0x3000, 64);
	ex->wr_id = 2;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, text, sizeof(text)); /* the address may be set last */
	ibv_wr_set_ud_addr(ex, ah, 0x78, 0x22222222);
	assert_int_equal(ibv_wr_complete(ex), 0);
	const struct qp_wqe *w = take_send(peer());
	assert_true(w->wr_id == 1 && w->op == QP_WR_SEND_IMM && w->aux == 5 && w->slots == 1);
	assert_true(w->ud.qpn == 0x77 && w->ud.qkey == 0x11111111 && w->dgram.sge[0].len == 64 &&
		    w->dgram.sge[0].lkey == 9);
	assert_memory_equal(w->dgram.addr, there, 16);
	w = take_send(peer());
	assert_true(w->wr_id == 2 && w->op == QP_WR_SEND && w->inline_len == 20 && w->slots == 2);
	assert_true(w->ud.qpn == 0x78 && w->ud.qkey == 0x22222222);
	assert_memory_equal((const uint8_t *)w + QP_WQE_FIXED + QP_UD_ADDR_LEN, text, sizeof(text));

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 9, 0x3000, 64);
	assert_int_equal(ibv_wr_complete(ex), EINVAL); /* without an address */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 1, 1);
	ibv_wr_set_sge(ex, 9, 0x3000, UD_MTU + 1);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(spsc_cons_avail(&peer()->sq, 1), 0);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void a_poll_that_waits_has_an_end(void **state)
{
	const struct qp_cqe e = { .wr_id = 3, .qpn = qp->qp_num, .op = QP_WC_RECV };
	struct ibv_wc wc[2];
	const uint64_t begun = now_us();

	(void)state;
	assert_int_equal(rnicdv_poll_cq(cq, 2, wc, 0), 0);
	assert_int_equal(rnicdv_poll_cq(cq, 2, wc, 2000), 0);
	assert_true(now_us() - begun >= 2000);
	for (int64_t timeout = -1; timeout <= 1; timeout++) {
		fake_cqe(client(), cq->handle, 0, &e);
		assert_int_equal(rnicdv_poll_cq(cq, 2, wc, timeout), 1);
		assert_int_equal(wc[0].wr_id, 3);
	}
}

static void what_is_polled(void **state)
{
	const struct qp_cqe e = { .wr_id = 3,
				  .qpn = qp->qp_num,
				  .byte_len = 140,
				  .aux = 0x0a0b0c0d,
				  .op = QP_WC_RECV,
				  .flags = QP_WCF_GRH | QP_WCF_WITH_IMM,
				  .src_qp = 0x321 };
	struct ibv_wc wc;

	(void)state;
	fake_cqe(client(), cq->handle, 0, &e);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_true(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 140 &&
		    wc.src_qp == 0x321);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x0a0b0c0d);

	struct ibv_cq_init_attr_ex a = { .cqe = 8, .wc_flags = IBV_WC_EX_WITH_SRC_QP };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(ctx, &a);
	struct ibv_poll_cq_attr none = { 0 };
	assert_non_null(ex);
	fake_cqe(client(), ibv_cq_ex_to_cq(ex)->handle, 1, &e);
	assert_int_equal(ibv_start_poll(ex, &none), 0);
	assert_int_equal(ibv_wc_read_src_qp(ex), 0x321);
	assert_int_equal(ibv_wc_read_wc_flags(ex), IBV_WC_GRH | IBV_WC_WITH_IMM);
	ibv_end_poll(ex);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

/* For a group the daemon is asked for the device's own address only; the hop limit applies to groups only. */
static void groups(void **state)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 1, 1 }, none[16];
	union ibv_gid gid, single;
	struct ibv_ah_attr a = attr_of(group);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud = { .remote_qpn = 0xffffff } }, *bad;
	struct ibv_device_attr dev;

	(void)state;
	memcpy(gid.raw, group, 16);
	memcpy(single.raw, there, 16);
	a.grh.hop_limit = 5;
	wr.wr.ud.ah = ibv_create_ah(pd, &a);
	assert_non_null(wr.wr.ud.ah);
	assert_int_equal(client()->last.type, IPC_QUERY_DEV);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(spsc_cons_avail(&peer()->sq, 1), 1);
	const struct qp_wqe *w = spsc_cons_slot(&peer()->sq, 0);
	assert_memory_equal(w->dgram.addr, group, 16);
	assert_int_equal(w->hop_limit, 5);
	assert_int_equal(w->ud.qpn, 0xffffff);
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);

	assert_int_equal(ibv_attach_mcast(qp, &gid, 0), 0);
	assert_memory_equal(peer()->group, group, 16);
	assert_int_equal(ibv_detach_mcast(qp, &gid, 0), 0);
	assert_memory_equal(peer()->group, none, 16);
	assert_int_equal(ibv_detach_mcast(qp, &gid, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(qp, &single, 0), EINVAL);

	struct ibv_qp_init_attr_ex init = { .send_cq = cq,
					    .recv_cq = cq,
					    .qp_type = IBV_QPT_UD,
					    .pd = pd,
					    .cap = { 1, 1, 1, 1, 0 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
					    .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB };
	struct ibv_qp *deaf = ibv_create_qp_ex(ctx, &init);
	assert_non_null(deaf);
	assert_int_equal(client()->qp[deaf->handle].made.deaf, 1);
	assert_int_equal(peer()->made.deaf, 0);
	assert_int_equal(ibv_destroy_qp(deaf), 0);
	init.qp_type = IBV_QPT_RC;
	assert_null(ibv_create_qp_ex(ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_query_device(ctx, &dev), 0);
	assert_int_equal(dev.max_total_mcast_qp_attach, dev.max_mcast_grp * dev.max_mcast_qp_attach);
}

#define WITH_QP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_QP(address_handles),
		WITH_QP(a_queue_pair_of_datagrams),
		WITH_QP(a_queue_pair_of_long_datagrams),
		WITH_QP(a_queue_pair_of_reliable_datagrams),
		WITH_QP(work_requests_that_complete_in_any_order_make_room),
		WITH_QP(no_more_work_requests_of_one_size_than_asked_for),
		WITH_QP(its_states_need_a_q_key),
		WITH_QP(what_is_posted),
		WITH_QP(what_is_posted_by_functions),
		WITH_QP(a_poll_that_waits_has_an_end),
		WITH_QP(what_is_polled),
		WITH_QP(groups),
	};

	return cmocka_run_group_tests_name("rnic_ud", tests, NULL, NULL);
}
