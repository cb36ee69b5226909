/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting and polling: the contents of the rings are those that lib/qp expects, and errors are those of the man pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "queue_rig.h"
#include "rnic/verbs/objects.h"

static void caps_are_written_back(void **state)
{
	(void)state;
	/* The program asked for 100 inline bytes; a WQE of three slots holds 160 bytes of payload. */
	assert_int_equal(cap.max_inline_data, 160);
	assert_int_equal(cap.max_send_sge, 4);
	assert_int_equal(cap.max_recv_sge, 4);
	assert_true(cap.max_send_wr >= 16);
	assert_int_equal(peer()->made.sq_slots, 64);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_null(make_qp(1 << 20, 1, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_qp(1, QP_MAX_SGE + 1, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_qp(1, 1, QP_MAX_INLINE + 1, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_qp(1, 1, 0, IBV_QP_EX_WITH_ATOMIC_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void a_list_of_sends(void **state)
{
	struct ibv_sge sge[4] = { { 0x1000, 10, 1 }, { 0x2000, 20, 2 }, { 0x3000, 30, 3 }, { 0x4000, 40, 4 } };
	uint8_t payload[60];
	struct ibv_sge inl[2] = { { (uintptr_t)payload, 20, 0 }, { (uintptr_t)payload + 20, 40, 0 } };
	struct ibv_send_wr wr[4] = {
		{ .wr_id = 1,
		  .next = &wr[1],
		  .sg_list = sge,
		  .num_sge = 2,
		  .opcode = IBV_WR_SEND,
		  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED },
		{ .wr_id = 2,
		  .next = &wr[2],
		  .sg_list = sge,
		  .num_sge = 4,
		  .opcode = IBV_WR_RDMA_WRITE,
		  .wr.rdma = { 0xabcdef, 0x77 } },
		{ .wr_id = 3,
		  .next = &wr[3],
		  .sg_list = inl,
		  .num_sge = 2,
		  .opcode = IBV_WR_SEND_WITH_INV,
		  .send_flags = IBV_SEND_INLINE,
		  .invalidate_rkey = 0x99 },
		{ .wr_id = 4,
		  .sg_list = sge,
		  .num_sge = 1,
		  .opcode = IBV_WR_RDMA_READ,
		  .send_flags = IBV_SEND_FENCE,
		  .wr.rdma = { 5, 6 } },
	};
	struct ibv_send_wr *bad;
	struct ipc_doorbell *db = &((struct ipc_ctrl *)(void *)client()->queues)->doorbell[1];

	(void)state;
	for (unsigned i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)i;
	/* Many times, so that WQEs of several slots wrap around the ring's end. */
	for (int round = 0; round < 50; round++) {
		db->summary = 0;
		memset(db->bits, 0, sizeof(db->bits));
		assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
		assert_int_equal(db->bits[peer()->bit / 64], UINT64_C(1) << peer()->bit % 64);
		assert_int_equal(db->summary, UINT64_C(1) << peer()->bit / 64);

		struct qp_wqe *w = take_send(peer());
		assert_int_equal(w->wr_id, 1);
		assert_int_equal(w->op, QP_WR_SEND);
		assert_int_equal(w->flags, QP_WF_SIGNALED | QP_WF_SOLICITED);
		assert_int_equal(w->num_sge, 2);
		assert_int_equal(w->slots, 1);
		assert_memory_equal(w->sge, sge, 2 * sizeof(sge[0]));
		w = take_send(peer());
		assert_int_equal(w->op, QP_WR_WRITE);
		assert_int_equal(w->flags, 0);
		assert_int_equal(w->slots, 2);
		assert_int_equal(w->raddr, 0xabcdef);
		assert_int_equal(w->rkey, 0x77);
		assert_memory_equal((uint8_t *)w + QP_WQE_FIXED, sge, sizeof(sge));
		w = take_send(peer());
		assert_int_equal(w->op, QP_WR_SEND_INV);
		assert_int_equal(w->flags, QP_WF_INLINE);
		assert_int_equal(w->inline_len, 60);
		assert_int_equal(w->num_sge, 0);
		assert_int_equal(w->aux, 0x99);
		assert_int_equal(w->slots, 2);
		assert_memory_equal((uint8_t *)w + QP_WQE_FIXED, payload, 60);
		w = take_send(peer());
		assert_int_equal(w->op, QP_WR_READ);
		assert_int_equal(w->flags, QP_WF_FENCE);
		assert_int_equal(w->raddr, 5);
	}
}

static void post_ex(unsigned i, struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	switch (i) {
	case 0: ibv_wr_send_imm(ex, 0x11223344); break;
	case 1: ibv_wr_rdma_write_imm(ex, 0x77, 0xabc0, 0x11223344); break;
	case 2: ibv_wr_atomic_cmp_swp(ex, 0x77, 0xabc0, 3, 4); break;
	case 3: ibv_wr_atomic_fetch_add(ex, 0x77, 0xabc0, 3); break;
	case 4: ibv_wr_local_inv(ex, 0x99); break;
	default: ibv_wr_bind_mw(ex, mw, 0x88, info); break;
	}
	if (i < 4)
		ibv_wr_set_sge(ex, 1, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
}

/* Immediate data, atomics, invalidation and bind: both interfaces of posting write the same WQEs. */
static void the_other_operations(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_mr mr = { .lkey = 0x66, .pd = pd };
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2), *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	const struct ibv_mw_bind_info info = { &mr, 0x2000, 512, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED };
	const struct ibv_send_wr t[] = {
		{ .opcode = IBV_WR_SEND_WITH_IMM, .num_sge = 1, .imm_data = 0x11223344 },
		{ .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		  .num_sge = 1,
		  .imm_data = 0x11223344,
		  .wr.rdma = { 0xabc0, 0x77 } },
		{ .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .num_sge = 1, .wr.atomic = { 0xabc0, 3, 4, 0x77 } },
		{ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .num_sge = 1, .wr.atomic = { 0xabc0, 3, 0, 0x77 } },
		{ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x99 },
		{ .opcode = IBV_WR_BIND_MW, .bind_mw = { mw, 0x88, info } },
	};
	struct ibv_send_wr wr, *bad;

	(void)state;
	assert_non_null(mw);
	assert_non_null(one);
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct qp_wqe a, b;
		wr = t[i];
		wr.wr_id = 5;
		wr.sg_list = &sge;
		wr.send_flags = IBV_SEND_SIGNALED;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		a = *take_send(peer());
		post_ex(i, mw, &info);
		b = *take_send(peer());
		assert_int_equal(a.op, QP_WR_SEND_IMM + i);
		assert_int_equal(a.slots, 1);
		assert_int_equal(a.num_sge, i < 4);
		assert_memory_equal(&a, &b, QP_WQE_FIXED);
		if (i == 2 || i == 3) {
			assert_memory_equal(&a.atomic, &b.atomic, sizeof(a.atomic));
			assert_int_equal(a.atomic.result.addr, 0x1000);
			assert_int_equal(a.atomic.operand, 3);
			assert_int_equal(a.atomic.swap, i == 2 ? 4 : 0);
			wr.num_sge = 0;
			assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
			wr.num_sge = 1;
			wr.send_flags = IBV_SEND_INLINE;
			assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
		}
		if (i == 5) {
			assert_int_equal(a.aux, 0x66);
			assert_int_equal(a.raddr, 0x2000);
			assert_int_equal(a.bind.len, 512);
			assert_int_equal(a.bind.access, info.mw_access_flags);
			assert_int_equal(a.bind.access, b.bind.access);
			wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
			assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
		}
	}
	/* Each bind gives a window of type 1 its next key. */
	struct ibv_mw_bind bind = { .wr_id = 6, .bind_info = info };
	uint32_t key = one->rkey;
	assert_int_equal(ibv_bind_mw(qp, one, &bind), 0);
	assert_int_equal(one->rkey, ibv_inc_rkey(key));
	assert_int_equal(take_send(peer())->rkey, one->rkey);
	assert_int_equal(ibv_bind_mw(qp, mw, &bind), EINVAL);
	assert_int_equal(ibv_dealloc_mw(one), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void bad_requests_and_a_full_queue(void **state)
{
	struct ibv_sge sge = { 0x1000, 10, 1 };
	struct ibv_send_wr wr[2] = {
		{ .wr_id = 1, .next = &wr[1], .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND },
		{ .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }
	};
	struct ibv_send_wr *bad = NULL;
	unsigned posted = 0;

	(void)state;
	/* The work requests before the bad one are posted. */
	wr[1].opcode = IBV_WR_TSO;
	assert_int_equal(ibv_post_send(qp, wr, &bad), EOPNOTSUPP);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(take_send(peer())->wr_id, 1);
	wr[1].opcode = IBV_WR_SEND;
	wr[1].num_sge = (int)cap.max_send_sge + 1;
	assert_int_equal(ibv_post_send(qp, &wr[1], &bad), EINVAL);
	wr[1].opcode = IBV_WR_RDMA_READ;
	assert_int_equal(ibv_post_send(qp, &wr[1], &bad), EINVAL);
	wr[1].opcode = IBV_WR_SEND;
	wr[1].num_sge = -1;
	assert_int_equal(ibv_post_send(qp, &wr[1], &bad), EINVAL);
	wr[1].num_sge = 1;
	sge.length = cap.max_inline_data + 1;
	wr[1].send_flags = IBV_SEND_INLINE;
	assert_int_equal(ibv_post_send(qp, &wr[1], &bad), EINVAL);
	wr[1].send_flags = 0;

	wr[0].next = NULL;
	while (ibv_post_send(qp, &wr[0], &bad) == 0)
		posted++;
	assert_int_equal(ibv_post_send(qp, &wr[0], &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[0]);
	assert_int_equal(posted, cap.max_send_wr); /* not one request more, although small requests leave slots free */
	take_send(peer());
	assert_int_equal(ibv_post_send(qp, &wr[0], &bad), 0);
	assert_int_equal(ibv_post_send(qp, &wr[0], &bad), ENOMEM);
	for (unsigned i = 0; i < posted; i++)
		take_send(peer());
	for (unsigned i = 0; i < 1000; i++) { /* 16 of the largest requests always fit; many times around the ring */
		wr[1].num_sge = (int)(i % 3 == 0 ? cap.max_send_sge : 1);
		wr[1].sg_list = (struct ibv_sge[QP_MAX_SGE]){ 0 };
		if (ibv_post_send(qp, &wr[1], &bad) != 0) {
			assert_int_equal(i % 16, 0);
			for (unsigned k = 0; k < 16; k++)
				take_send(peer());
			assert_int_equal(ibv_post_send(qp, &wr[1], &bad), 0);
		}
	}
	while (spsc_cons_avail(&peer()->sq, 1) > 0)
		take_send(peer());

	peer()->shm->state = IBV_QPS_INIT;
	assert_int_equal(ibv_post_send(qp, &wr[0], &bad), EINVAL);
	peer()->shm->state = IBV_QPS_RTR;
	assert_int_equal(ibv_post_send(qp, &wr[0], &bad), 0);
	take_send(peer());
	peer()->shm->state = IBV_QPS_RTS;
}

static void receives(void **state)
{
	struct ibv_sge sge[5] = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 10, 11, 12 } };
	struct ibv_recv_wr wr[2] = { { .wr_id = 8, .next = &wr[1], .sg_list = sge, .num_sge = 3 },
				     { .wr_id = 9, .sg_list = sge, .num_sge = 4 } };
	struct ibv_recv_wr *bad;
	union {
		struct qp_rwqe w;
		uint8_t bytes[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE];
	} u;
	struct ipc_doorbell *db = &((struct ipc_ctrl *)(void *)client()->queues)->doorbell[1];

	(void)state;
	db->summary = 0;
	memset(db->bits, 0, sizeof(db->bits));
	assert_int_equal(ibv_post_recv(qp, wr, &bad), 0);
	assert_int_equal(db->summary, 0);
	/* Each receive takes the slots for four SGEs. */
	assert_int_equal(spsc_cons_avail(&peer()->rq, 4), 4);
	spsc_cons_copy(&peer()->rq, 0, &u, QP_SLOT_SIZE);
	assert_int_equal(u.w.wr_id, 8);
	assert_int_equal(u.w.num_sge, 3);
	assert_int_equal(u.w.slots, 2);
	assert_memory_equal(u.w.sge, sge, 3 * sizeof(sge[0]));
	spsc_cons_copy(&peer()->rq, 2, &u, 2 * QP_SLOT_SIZE);
	assert_int_equal(u.w.wr_id, 9);
	assert_int_equal(u.w.slots, 2);
	assert_memory_equal(u.bytes + QP_RWQE_FIXED, sge, 4 * sizeof(sge[0]));
	spsc_cons_release(&peer()->rq, 4);
	wr[1].num_sge = (int)cap.max_recv_sge + 1;
	assert_int_equal(ibv_post_recv(qp, &wr[1], &bad), EINVAL);
	/* Receives posted to a queue pair in error must be flushed, so the doorbell rings. */
	peer()->shm->state = IBV_QPS_ERR;
	wr[0].next = NULL;
	assert_int_equal(ibv_post_recv(qp, wr, &bad), 0);
	assert_int_not_equal(db->summary, 0);
	spsc_cons_release(&peer()->rq, spsc_cons_avail(&peer()->rq, 1));
	peer()->shm->state = IBV_QPS_RESET;
	assert_int_equal(ibv_post_recv(qp, wr, &bad), EINVAL);
	peer()->shm->state = IBV_QPS_RTS;
}

static void a_sleeping_worker_is_woken(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ipc_doorbell *db = ((struct ipc_ctrl *)(void *)client()->queues)->doorbell;
	uint64_t v;

	(void)state;
	fcntl(client()->wake, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(read(client()->wake, &v, 8), -1);
	db[0].need_wakeup = 1; /* another worker sleeps, not the queue pair's */
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(read(client()->wake, &v, 8), -1);
	db[1].need_wakeup = 1;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(read(client()->wake, &v, 8), 8);
	db[0].need_wakeup = db[1].need_wakeup = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(take_send(peer())->slots, 1);
}

static void list_through_qp_ex(struct ibv_qp_ex *ex, uint8_t bytes[100])
{
	struct ibv_sge sge[3] = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } };

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, 0x11, 0x22);
	ibv_wr_set_sge_list(ex, 3, sge);
	ex->wr_id = 2;
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, bytes, 100);
	ex->wr_id = 3;
	ibv_wr_rdma_read(ex, 0x33, 0x44);
	ibv_wr_set_sge(ex, 9, 8, 7);
	assert_int_equal(spsc_cons_avail(&peer()->sq, 1), 0);
	assert_int_equal(ibv_wr_complete(ex), 0);
	struct qp_wqe *w = take_send(peer());
	assert_int_equal(w->op, QP_WR_WRITE);
	assert_int_equal(w->flags, QP_WF_SIGNALED);
	assert_int_equal(w->rkey, 0x11);
	assert_memory_equal((uint8_t *)w + QP_WQE_FIXED, sge, sizeof(sge));
	w = take_send(peer());
	assert_int_equal(w->wr_id, 2);
	assert_int_equal(w->flags, QP_WF_INLINE);
	assert_int_equal(w->inline_len, 100);
	assert_memory_equal((uint8_t *)w + QP_WQE_FIXED, bytes, 100);
	w = take_send(peer());
	assert_int_equal(w->op, QP_WR_READ);
	assert_int_equal(w->sge[0].addr, 8);
	assert_int_equal(w->sge[0].len, 7);
	assert_int_equal(w->sge[0].lkey, 9);
}

static void work_requests_through_qp_ex(void **state)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	uint8_t bytes[100] = "inline";

	(void)state;
	assert_non_null(ex);
	/* Many times, so that WQEs of several slots wrap around the ring's end. */
	for (uint8_t round = 0; round < 50; round++) {
		memset(bytes + 50, round, 50);
		list_through_qp_ex(ex, bytes);
	}
	/* An error in a list discards the whole list. */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, bytes, cap.max_inline_data + 1);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	assert_int_equal(spsc_cons_avail(&peer()->sq, 1), 0);
}

static void completions_from_all_workers(void **state)
{
	struct qp_cqe e = {
		.qpn = qp->qp_num, .byte_len = 123, .op = QP_WC_RECV, .flags = QP_WCF_WITH_INV, .aux = 0x55
	};
	struct ibv_wc wc[16];
	unsigned per[2] = { 0 };

	(void)state;
	assert_int_equal(ibv_poll_cq(cq, 16, wc), 0);
	for (unsigned i = 0; i < 20; i++) {
		e.wr_id = i;
		fake_cqe(client(), cq->handle, i % 2, &e);
	}
	for (unsigned got = 0; got < 20;) {
		int n = ibv_poll_cq(cq, 7, wc);
		assert_in_range(n, 1, 7);
		for (int i = 0; i < n; i++) {
			/* Completions of one worker are in order; a QP belongs to one worker. */
			unsigned w = wc[i].wr_id % 2;
			assert_int_equal(wc[i].wr_id / 2, per[w]++);
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			assert_int_equal(wc[i].opcode, IBV_WC_RECV);
			assert_int_equal(wc[i].byte_len, 123);
			assert_int_equal(wc[i].qp_num, qp->qp_num);
			assert_int_equal(wc[i].wc_flags, IBV_WC_WITH_INV);
			assert_int_equal(wc[i].invalidated_rkey, 0x55);
		}
		got += (unsigned)n;
	}
	assert_int_equal(ibv_poll_cq(cq, 0, wc), 0);
	client()->cq[cq->handle].shm->error = 1;
	assert_int_equal(ibv_poll_cq(cq, 1, wc), -1);
	client()->cq[cq->handle].shm->error = 0;
}

static void polling_through_cq_ex(void **state)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 10,
					 .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM |
						     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(ctx, &a);
	struct qp_cqe e = { .wr_id = 7, .qpn = 9, .byte_len = 11, .op = QP_WC_SEND, .status = QP_WC_WR_FLUSH_ERR };

	(void)state;
	assert_non_null(ex);
	assert_int_equal(ibv_start_poll(ex, &none), ENOENT);
	uint64_t made = rnic_clock(CLOCK_MONOTONIC) - 5000000;
	e.when = (uint32_t)made;
	fake_cqe(client(), ex->handle, 1, &e);
	e.wr_id = 8;
	fake_cqe(client(), ex->handle, 1, &e);
	assert_int_equal(ibv_start_poll(ex, &none), 0);
	assert_int_equal(ex->wr_id, 7);
	assert_int_equal(ex->status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_wc_read_byte_len(ex), 11);
	assert_int_equal(ibv_wc_read_qp_num(ex), 9);
	assert_int_equal(ibv_wc_read_completion_ts(ex), made);
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, 8);
	assert_int_equal(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	a.wc_flags = IBV_WC_EX_WITH_CVLAN;
	assert_null(ibv_create_cq_ex(ctx, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.comp_mask = 1 << 7;
	assert_null(ibv_create_cq_ex(ctx, &a));
	assert_int_equal(errno, EINVAL);
}

static void modify_and_query(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR, .qp_access_flags = 7, .timeout = 14 };
	struct ibv_qp_init_attr init;

	(void)state;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT), 0);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	memset(&a, 0, sizeof(a));
	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_ERR);
	assert_int_equal(a.timeout, 14);
	assert_int_equal(a.max_dest_rd_atomic, 4);
	assert_int_equal(a.max_rd_atomic, 5);
	assert_int_equal(a.cap.max_inline_data, cap.max_inline_data);
	assert_ptr_equal(init.send_cq, cq);
	peer()->shm->state = IBV_QPS_RTS;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .dest_qp_num = 77,
				  .rq_psn = 9,
				  .path_mtu = IBV_MTU_1024,
				  .ah_attr = { .is_global = 1, .grh.dgid.raw = { [15] = 5 }, .port_num = 1 } };
	assert_int_equal(
		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU), 0);
	memset(&a, 0, sizeof(a));
	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_AV, &init), 0);
	assert_int_equal(a.dest_qp_num, 77);
	assert_int_equal(a.rq_psn, 9);
	assert_int_equal(a.path_mtu, IBV_MTU_1024);
	assert_int_equal(a.ah_attr.is_global, 1);
	assert_int_equal(a.ah_attr.grh.dgid.raw[15], 5);
	fake_refuse(fake, EINVAL, "a QP of a connection cannot be moved to RTR");
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caps_are_written_back),
		cmocka_unit_test(a_list_of_sends),
		cmocka_unit_test(the_other_operations),
		cmocka_unit_test(bad_requests_and_a_full_queue),
		cmocka_unit_test(receives),
		cmocka_unit_test(a_sleeping_worker_is_woken),
		cmocka_unit_test(work_requests_through_qp_ex),
		cmocka_unit_test(completions_from_all_workers),
		cmocka_unit_test(polling_through_cq_ex),
		cmocka_unit_test(modify_and_query),
	};

	return cmocka_run_group_tests(tests, queue_setup, queue_teardown);
}
