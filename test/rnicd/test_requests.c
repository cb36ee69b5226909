/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's answers to requests, in order and out of order. One daemon with small quotas serves all cases. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_client.h"
#include "ipc/ipc_shm.h"
#include "ring/spsc.h"
#include "wqe/qp_wqe.h"

static struct daemon d;
static struct fc c;

static int start(void **state)
{
	(void)state;
	daemon_start(&d, "quota-memory = 1M\nquota-qps = 3\nquota-cqs = 4\nquota-mrs = 5\nquota-outstanding = 4096");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	daemon_stop(&d);
	return 0;
}

static int join(void **state)
{
	(void)state;
	fc_join(&c, &d);
	return 0;
}

static int leave(void **state)
{
	(void)state;
	fc_close(&c);
	assert_true(daemon_alive(&d));
	return 0;
}

/* ---- form ---- */

static void requests_of_wrong_form(void **state)
{
	struct ipc_msg m = { .type = 77, .len = IPC_MSG_HDR };

	(void)state;
	REFUSED(fc_call(&c, &m, NULL, 0), EINVAL, "request 77 is not known to this rnicd");
	m = (struct ipc_msg){ .type = 0, .len = IPC_MSG_HDR };
	REFUSED(fc_call(&c, &m, NULL, 0), EINVAL, "request 0 is not known to this rnicd");
	m = (struct ipc_msg){ .type = IPC_ALLOC_PD, .len = IPC_MSG_HDR };
	REFUSED(fc_call(&c, &m, NULL, 0), EINVAL,
		"request 5 has 16 bytes and 0 descriptors: it must have 24 bytes and 0 to 0 descriptors");
	m = (struct ipc_msg){ .type = IPC_ALLOC_PD, .len = IPC_MSG_LEN(alloc_pd) };
	assert_int_equal(fc_call(&c, &m, &c.wake, 1), EINVAL);
}

static void devices_tell_of_themselves(void **state)
{
	struct ipc_msg m;

	(void)state;
	assert_int_equal(FC_CALL(&c, &m, IPC_QUERY_DEV, query_dev, .dev = 1), 0);
	assert_string_equal(m.dev_info.name, "b");
	struct ipc_addr a = fc_addr(2, 0);
	assert_memory_equal(m.dev_info.ip, a.ip, 16);
	assert_true(m.dev_info.mtu == 1500 && m.dev_info.prefix_len == 120 && m.dev_info.up == 1);
	assert_true(m.dev_info.max_cqe >= 262144 && m.dev_info.max_sge >= 16 && m.dev_info.max_inline >= 64);
	assert_int_equal(m.dev_info.max_qp, 3);
	assert_int_equal(m.dev_info.max_mr_size, 1 << 20);
	REFUSED(FC_CALL(&c, &m, IPC_QUERY_DEV, query_dev, .dev = 2), ENODEV, "there is no device 2: this rnicd has 2");
}

/* ---- objects ---- */

static void handles_that_are_not_ours(void **state)
{
	static const struct {
		uint16_t type;
		const char *sentence;
	} t[] = {
		{ IPC_DEALLOC_PD, "there is no protection domain 9" },
		{ IPC_DEREG_MR, "there is no memory region 9" },
		{ IPC_DEALLOC_MW, "there is no memory window 9" },
		{ IPC_DESTROY_CQ, "there is no completion queue 9" },
		{ IPC_DESTROY_QP, "there is no queue pair 9" },
		{ IPC_QUERY_QP, "there is no queue pair 9" },
		{ IPC_DESTROY_CHANNEL, "there is no event channel 9" },
		{ IPC_CM_DESTROY_ID, "there is no connection manager id 9" },
		{ IPC_CM_DISCONNECT, "there is no connection manager id 9" },
	};
	struct ipc_msg m;
	struct fc other;

	(void)state;
	fc_join(&other, &d);
	uint32_t theirs = 0;
	while (theirs < 9) /* numbers belong to their client: the number of another client's object is not valid here */
		theirs = fc_pd(&other);
	for (size_t i = 0; i < RN_ARRAY_LEN(t); i++)
		REFUSED(FC_CALL(&c, &m, t[i].type, handle, .handle = 9), EINVAL, t[i].sentence);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = UINT32_MAX), EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = 0), EINVAL);
	fc_close(&other);
}

static void what_is_in_use_cannot_go(void **state)
{
	uint32_t pd = fc_pd(&c), qpn;
	int efd, efd2;
	uint32_t ch = fc_chan(&c, 10, IPC_CHANNEL_COMP, &efd), cm = fc_chan(&c, 11, IPC_CHANNEL_CM, &efd2);
	uint32_t cq = fc_cq(&c, 0, ch), qp = fc_qp(&c, 1, pd, cq, &qpn), id = fc_id(&c, cm);
	struct ipc_piece p = { .region = IPC_REGION_ARENA, .off = 0, .len = 4096 };
	struct ipc_msg m;

	(void)state;
	assert_true(qpn >= 2);
	assert_int_equal(fc_mr(&c, &m, pd, &p, 1), 0);
	uint32_t mr = m.reg_mr_ok.handle;
	assert_true(m.reg_mr_ok.stag >> 8 != 0);
	REFUSED(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd), EBUSY,
		"the protection domain is in use by 2 memory regions and queues");
	REFUSED(FC_CALL(&c, &m, IPC_DESTROY_CQ, handle, .handle = cq), EBUSY,
		"the completion queue is in use by 1 queue pairs");
	REFUSED(FC_CALL(&c, &m, IPC_DESTROY_CHANNEL, handle, .handle = ch), EBUSY,
		"the event channel is in use by 1 objects");
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CHANNEL, handle, .handle = cm), EBUSY);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_QP, handle, .handle = qp), 0);
	assert_int_equal(m.len, IPC_MSG_HDR);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_QP, handle, .handle = qp), EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CQ, handle, .handle = cq), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CHANNEL, handle, .handle = ch), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEREG_MR, handle, .handle = mr), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_CM_DESTROY_ID, handle, .handle = id), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CHANNEL, handle, .handle = cm), 0);
	close(efd);
	close(efd2);
}

/*
 * Memory windows count toward the quota of regions. A protection domain with windows cannot be deallocated. Windows are
 * freed when their client disconnects.
 */
static void memory_windows(void **state)
{
	uint32_t pd = fc_pd(&c), n = 0;
	struct ipc_msg m;
	struct fc other;
	int rc;

	(void)state;
	REFUSED(FC_CALL(&c, &m, IPC_ALLOC_MW, alloc_mw, .pd = pd, .type = 3), EINVAL,
		"memory window: there is no such type");
	REFUSED(FC_CALL(&c, &m, IPC_ALLOC_MW, alloc_mw, .pd = pd + 1, .type = 1), EINVAL,
		"memory window: there is no such protection domain");
	assert_int_equal(FC_CALL(&c, &m, IPC_ALLOC_MW, alloc_mw, .pd = pd, .type = IPC_MW_TYPE_2), 0);
	uint32_t mw = m.reg_mr_ok.handle;
	assert_true(m.reg_mr_ok.stag >> 8 != 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd), EBUSY);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_MW, handle, .handle = mw), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_MW, handle, .handle = mw), EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd), 0);
	for (unsigned round = 0; round < 3; round++) { /* the quota of a client that is gone is free again */
		fc_join(&other, &d);
		pd = fc_pd(&other);
		for (n = 0; (rc = FC_CALL(&other, &m, IPC_ALLOC_MW, alloc_mw, .pd = pd, .type = 1)) == 0; n++)
			assert_true(n < 100000);
		assert_int_equal(rc, ENOMEM);
		assert_non_null(strstr(m.text, "memory regions and windows (quota-mrs)"));
		assert_true(n > 0);
		fc_close(&other);
	}
}

static void shared_receive_queues_and_larger_rings(void **state)
{
	const uint64_t bad[] = { FC_QUEUES, FC_QUEUES - 64, UINT64_MAX - 63, (UINT64_C(1) << 20) + 8,
				 UINT64_C(1) << 63 };
	static const uint32_t sizes[] = { 0, 3, 32, 1u << 31, UINT32_MAX };
	uint32_t pd = fc_pd(&c), cq = fc_cq(&c, 0, 0), srq;
	const uint64_t ring = FC_PLACE(1), at = FC_PLACE(2);
	struct ipc_msg m;

	(void)state;
#define SRQ(...) FC_CALL(&c, &m, IPC_CREATE_SRQ, create_srq, .pd = pd, __VA_ARGS__)
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		assert_int_equal(SRQ(.wqe_slots = 1, .ring_off = bad[i], .ring_slots = 64), EINVAL);
		assert_int_equal(FC_CALL(&c, &m, IPC_RESIZE_CQ, resize_cq, .cq = cq, .cqe = 128, .ring_off = bad[i],
					 .ring_stride = 16384),
				 EINVAL);
	}
	for (size_t i = 0; i < RN_ARRAY_LEN(sizes); i++) {
		if (sizes[i] != 32)
			assert_int_equal(SRQ(.wqe_slots = 1, .ring_off = ring, .ring_slots = sizes[i]), EINVAL);
		assert_int_equal(FC_CALL(&c, &m, IPC_RESIZE_CQ, resize_cq, .cq = cq, .cqe = sizes[i], .ring_off = ring,
					 .ring_stride = 16384),
				 EINVAL);
	}
	assert_int_equal(SRQ(.wqe_slots = 0, .ring_off = ring, .ring_slots = 64), EINVAL);
	assert_int_equal(SRQ(.wqe_slots = QP_WQE_MAX_SLOTS + 1, .ring_off = ring, .ring_slots = 64), EINVAL);
	assert_int_equal(SRQ(.wqe_slots = 2, .ring_off = ring, .ring_slots = 64, .limit = 33), EINVAL);
	assert_int_equal(SRQ(.wqe_slots = 2, .ring_off = ring, .ring_slots = 64, .async = 77), EINVAL);
	assert_int_equal(SRQ(.wqe_slots = 2, .ring_off = ring, .ring_slots = 64, .limit = 32), 0);
	srq = m.handle.handle;
	assert_int_equal(FC_CALL(&c, &m, IPC_QUERY_SRQ, handle, .handle = srq), 0);
	assert_int_equal(m.query_srq_ok.limit, 32);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_SRQ, modify_srq, .srq = srq, .limit = 33), EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_SRQ, modify_srq, .srq = srq, .limit = 5), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_SRQ, modify_srq, .srq = srq + 1), EINVAL);
	REFUSED(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd), EBUSY,
		"the protection domain is in use by 1 memory regions and queues");
#define QP(...) \
	FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq, .shm_off = at, \
		.sq_off = at + 4096, .sq_slots = 64, __VA_ARGS__)
	REFUSED(QP(.srq = 99), EINVAL, "queue pair: there is no such shared receive queue");
	assert_int_equal(QP(.srq = srq, .rq_slots = 64), EINVAL);
	assert_int_equal(QP(.srq = srq), 0);
	uint32_t qp = m.create_qp_ok.handle;
	REFUSED(FC_CALL(&c, &m, IPC_DESTROY_SRQ, handle, .handle = srq), EBUSY,
		"the shared receive queue is in use by 1 queue pairs");
	assert_int_equal(FC_CALL(&c, &m, IPC_RESIZE_CQ, resize_cq, .cq = cq, .cqe = 128, .ring_off = FC_PLACE(3),
				 .ring_stride = 16384),
			 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_RESIZE_CQ, resize_cq, .cq = cq, .cqe = 64, .ring_off = FC_PLACE(4),
				 .ring_stride = 16384),
			 EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_QP, handle, .handle = qp), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_SRQ, handle, .handle = srq), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_SRQ, handle, .handle = srq), EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd), 0);
}

static void queues_that_do_not_fit(void **state)
{
	struct ipc_msg m;
	uint32_t pd = fc_pd(&c), cq = fc_cq(&c, 0, 0);
	const uint64_t bad[] = { FC_QUEUES, FC_QUEUES - 64, UINT64_MAX - 63, (UINT64_C(1) << 20) + 8,
				 UINT64_C(1) << 63 };

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = 1 << 20, .ring_off = bad[i],
					 .cqe = 64, .ring_stride = 16384),
				 EINVAL);
		assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = bad[i], .ring_off = 1 << 21,
					 .cqe = 64, .ring_stride = 16384),
				 EINVAL);
		for (int f = 0; f < 3; f++) {
			uint64_t at[3] = { 1 << 21, (1 << 21) + 4096, (1 << 21) + 65536 };
			if (f == 0 && bad[i] == FC_QUEUES - 64)
				continue; /* a struct qp_shm fits there exactly */
			at[f] = bad[i];
			assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq,
						 .recv_cq = cq, .shm_off = at[0], .sq_off = at[1], .rq_off = at[2],
						 .sq_slots = 64, .rq_slots = 64),
					 EINVAL);
		}
	}
	static const uint32_t sizes[] = { 0, 3, 1u << 31, UINT32_MAX };
	for (size_t i = 0; i < RN_ARRAY_LEN(sizes); i++) {
		assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = 1 << 21, .ring_off = 1 << 22,
					 .cqe = sizes[i]),
				 EINVAL);
		assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq,
					 .shm_off = 1 << 21, .sq_off = 1 << 22, .rq_off = 1 << 23, .sq_slots = sizes[i],
					 .rq_slots = 64),
				 EINVAL);
	}
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .channel = 5, .shm_off = 1 << 21, .ring_off = 1 << 22,
			.cqe = 64),
		EINVAL, "completion queue: there is no such completion channel");
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = 99), EINVAL,
		"queue pair: there is no such protection domain");
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq), EINVAL,
		"queue pair: there is no such completion queue");
}

static void objects_name_the_channel_of_their_errors(void **state)
{
	uint32_t pd = fc_pd(&c), cq = fc_cq(&c, 0, 0);
	struct ipc_msg m;
	int efd, efd2;

	(void)state;
	uint32_t comp = fc_chan(&c, 3, IPC_CHANNEL_COMP, &efd), async = fc_chan(&c, 4, IPC_CHANNEL_ASYNC, &efd2);
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .channel = async, .shm_off = 1 << 21, .ring_off = 1 << 22,
			.ring_stride = 16384, .cqe = 64),
		EINVAL, "completion queue: there is no such completion channel");
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .async = comp, .shm_off = 1 << 21, .ring_off = 1 << 22,
			.ring_stride = 16384, .cqe = 64),
		EINVAL, "completion queue: there is no such channel for asynchronous events");
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .dev = 1, .async = async, .shm_off = 1 << 21,
			.ring_off = 1 << 22, .ring_stride = 16384, .cqe = 64),
		EINVAL, "completion queue: there is no such channel for asynchronous events"); /* another device's */
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq, .sq_slots = 64,
			.rq_slots = 64, .async = 99),
		EINVAL, "queue pair: there is no such channel for asynchronous events");
	assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .async = async, .shm_off = 1 << 21,
				 .ring_off = 1 << 22, .ring_stride = 16384, .cqe = 64),
			 0);
	uint32_t told = m.handle.handle;
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CHANNEL, handle, .handle = async), EBUSY);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CQ, handle, .handle = told), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CHANNEL, handle, .handle = async), 0);
	close(efd);
	close(efd2);
}

static void channels_that_do_not_fit(void **state)
{
	struct ipc_msg m;
	int efd = eventfd(0, 0), pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
#define CHANNEL(fd, ...) \
	(m = (struct ipc_msg){ .type = IPC_CREATE_CHANNEL, \
			       .len = IPC_MSG_LEN(create_channel), \
			       .create_channel = { __VA_ARGS__ } }, \
	 fc_call(&c, &m, &(int){ fd }, 1))
	REFUSED(CHANNEL(efd, .kind = IPC_CHANNEL_ORDERS + 1, .ring_off = 1 << 21, .ring_slots = 16), EINVAL,
		"event channel: there is no such kind of channel");
	REFUSED(CHANNEL(efd, .kind = IPC_CHANNEL_ASYNC, .dev = 7, .ring_off = 1 << 21, .ring_slots = 16), EINVAL,
		"event channel: there is no such device");
	REFUSED(CHANNEL(pipes[1], .ring_off = 1 << 21, .ring_slots = 16), EINVAL,
		"event channel: the descriptor is not an eventfd");
	REFUSED(CHANNEL(efd, .ring_off = 1 << 21, .ring_slots = 15), EINVAL,
		"event channel: the ring lies outside the queue region, or is misaligned");
	REFUSED(CHANNEL(efd, .ring_off = FC_QUEUES - 64, .ring_slots = 16), EINVAL,
		"event channel: the ring lies outside the queue region, or is misaligned");
	REFUSED(CHANNEL(efd, .ring_off = 1 << 21, .ring_slots = 1u << 31), EINVAL,
		"event channel: the ring is too long");
	assert_int_equal(CHANNEL(efd, .kind = IPC_CHANNEL_ORDERS, .ring_off = 1 << 21, .ring_slots = 16), 0);
	const uint32_t orders = m.handle.handle;
	REFUSED(CHANNEL(efd, .kind = IPC_CHANNEL_ORDERS, .ring_off = 1 << 22, .ring_slots = 16), EINVAL,
		"event channel: there is a channel for orders already");
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CHANNEL, handle, .handle = orders), 0);
	close(efd);
	close(pipes[0]);
	close(pipes[1]);
}

static void quotas(void **state)
{
	struct ipc_msg m;
	uint32_t pd = fc_pd(&c), cq = fc_cq(&c, 0, 0);
	struct ipc_piece p = { .region = IPC_REGION_ARENA, .off = 0, .len = 1 << 20 },
			 small = { .region = IPC_REGION_ARENA, .len = 4096 };

	(void)state;
	for (uint32_t i = 1; i < 4; i++)
		fc_cq(&c, i, 0);
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = 1 << 21, .ring_off = 1 << 22, .ring_stride = 16384,
			.cqe = 64),
		ENOMEM,
		"quota: a client may have 4 completion queues and 4096 queue entries (quota-cqs, quota-outstanding)");
	for (uint32_t i = 4; i < 7; i++)
		fc_qp(&c, i, pd, cq, NULL);
	REFUSED(FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq, .sq_slots = 64,
			.rq_slots = 64),
		ENOMEM, "quota: a client may have 3 queue pairs and 4096 queue entries (quota-qps, quota-outstanding)");
	assert_int_equal(
		FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = 1 << 21, .ring_off = 1 << 22, .cqe = 4096),
		ENOMEM);
	assert_int_equal(fc_mr(&c, &m, pd, &p, 1), 0); /* this uses up the quota */
	uint32_t mr = m.reg_mr_ok.handle;
	REFUSED(fc_mr(&c, &m, pd, &small, 1), ENOMEM,
		"quota: a client may register 5 regions and 1 MiB (quota-mrs, quota-memory)");
	assert_int_equal(FC_CALL(&c, &m, IPC_DEREG_MR, handle, .handle = mr), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(fc_mr(&c, &m, pd, &small, 1), 0);
	assert_int_equal(fc_mr(&c, &m, pd, &small, 1), ENOMEM);
}

static void memory_regions_that_cannot_be(void **state)
{
	static const struct ipc_piece bad[] = {
		{ .region = IPC_REGION_QUEUES, .off = 0, .len = 4096 },
		{ .region = 77, .off = 0, .len = 4096 },
		{ .region = IPC_REGION_HUGE, .off = 0, .len = 4096 },
		{ .region = IPC_REGION_ARENA, .off = FC_ARENA, .len = 4096 },
		{ .region = IPC_REGION_ARENA, .off = FC_ARENA - 4095, .len = 4096 },
		{ .region = IPC_REGION_ARENA, .off = UINT64_MAX - 4095, .len = 4096 },
	};
	struct ipc_piece two[2] = { { .region = IPC_REGION_ARENA, .off = 0, .len = 4096 },
				    { .region = IPC_REGION_ARENA, .off = 8192, .len = 100 } };
	struct ipc_msg m;
	uint32_t pd = fc_pd(&c);
	const uint64_t list = UINT64_C(12) << 20;

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		assert_int_equal(fc_mr(&c, &m, pd, &bad[i], 1), EINVAL);
	memcpy(c.queues + list, two, sizeof(two));
#define REG(...) FC_CALL(&c, &m, IPC_REG_MR, reg_mr, .pd = pd, __VA_ARGS__)
	REFUSED(REG(.len = 4195, .pieces_off = list, .npieces = 2), EINVAL,
		"memory region: the pieces are longer than the region");
	REFUSED(REG(.len = 4197, .pieces_off = list, .npieces = 2), EINVAL,
		"memory region: the pieces are shorter than the region");
	assert_int_equal(REG(.len = 4196, .pieces_off = list, .npieces = 2), 0);
	struct ipc_reg_mr_ok first = m.reg_mr_ok;
	REFUSED(REG(.len = 4196, .pieces_off = list, .npieces = 2, .mr = 99), EINVAL,
		"memory region: there is no such region to replace");
	assert_int_equal(REG(.len = 4196, .pieces_off = list, .npieces = 2, .mr = first.handle), 0);
	assert_true(m.reg_mr_ok.stag == first.stag && m.reg_mr_ok.handle != first.handle);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEREG_MR, handle, .handle = first.handle), EINVAL);
	assert_int_equal(REG(.len = 4196, .pieces_off = list, .npieces = 0), EINVAL);
	assert_int_equal(REG(.len = 0, .pieces_off = list, .npieces = 2), EINVAL);
	assert_int_equal(REG(.len = UINT64_MAX, .pieces_off = list, .npieces = 2), EINVAL);
	assert_int_equal(REG(.len = 4196, .pieces_off = list, .npieces = UINT32_MAX), EINVAL);
	assert_int_equal(REG(.len = 4196, .pieces_off = FC_QUEUES - 1, .npieces = 2), EINVAL);
	assert_int_equal(REG(.len = 4196, .pieces_off = UINT64_MAX, .npieces = 2), EINVAL);
	assert_int_equal(REG(.access = 64, .len = 4196, .pieces_off = list, .npieces = 2), EINVAL);
	assert_int_equal(REG(.iova = UINT64_MAX, .len = 4196, .pieces_off = list, .npieces = 2), EINVAL); /* wraps */
	assert_int_equal(FC_CALL(&c, &m, IPC_REG_MR, reg_mr, .pd = 99, .len = 4196, .pieces_off = list, .npieces = 2),
			 EINVAL);
}

static int token_call(struct fc *k, struct ipc_msg *m, enum ipc_type type, uint32_t handle, int fd)
{
	*m = (struct ipc_msg){ .type = (uint16_t)type, .len = IPC_MSG_LEN(handle), .handle = { .handle = handle } };
	return fc_call(k, m, &fd, 1);
}

/*
 * A client with the token of another client's context can use that context's protection domains and regions; a number
 * without the token is refused.
 */
static void tokens_stand_for_contexts(void **state)
{
	int efd, cfd, sock = socket(AF_UNIX, SOCK_DGRAM, 0), other_sock = socket(AF_UNIX, SOCK_DGRAM, 0);
	uint32_t chan = fc_chan(&c, 10, IPC_CHANNEL_ASYNC, &efd), comp = fc_chan(&c, 11, IPC_CHANNEL_COMP, &cfd);
	uint32_t pd = fc_pd(&c);
	struct ipc_piece p = { .region = IPC_REGION_ARENA, .len = 4096 };
	struct ipc_msg m;
	struct fc other;

	(void)state;
	fc_join(&other, &d);
	assert_int_equal(fc_mr(&c, &m, pd, &p, 1), 0);
	uint32_t mr = m.reg_mr_ok.handle, stag = m.reg_mr_ok.stag;
	/* a completion channel cannot have a token: the asynchronous channel of a context is needed */
	assert_int_equal(token_call(&c, &m, IPC_TOKEN, comp, sock), EINVAL);
	REFUSED(token_call(&c, &m, IPC_TOKEN, chan, efd), EINVAL, "a context's token must be a socket, and its own");
	assert_int_equal(FC_CALL(&c, &m, IPC_TOKEN, handle, .handle = chan), EINVAL);
	assert_int_equal(token_call(&c, &m, IPC_TOKEN, chan, sock), 0);
	assert_int_equal(token_call(&c, &m, IPC_TOKEN, chan, other_sock), EINVAL); /* the channel has a token already */
	assert_int_equal(token_call(&other, &m, IPC_TOKEN, fc_chan(&other, 10, IPC_CHANNEL_ASYNC, &cfd), sock), EINVAL);

	REFUSED(token_call(&other, &m, IPC_TOKEN_DEV, 0, other_sock), EINVAL,
		"the descriptor is the cmd_fd of no open context of this rnicd");
	assert_int_equal(token_call(&other, &m, IPC_TOKEN_DEV, 0, sock), 0);
	assert_int_equal(m.handle.handle, 0);
	REFUSED(token_call(&other, &m, IPC_TOKEN_PD, 99, sock), EINVAL, "the context has no protection domain 99");
	REFUSED(token_call(&other, &m, IPC_TOKEN_MR, 99, sock), EINVAL, "the context has no memory region 99");
	assert_int_equal(token_call(&other, &m, IPC_TOKEN_MR, (stag >> 8) + (UINT32_C(1) << 24), sock), EINVAL);
	assert_int_equal(token_call(&other, &m, IPC_TOKEN_MR, stag >> 8, sock), 0);
	assert_true(m.token_mr_ok.stag == stag && m.token_mr_ok.len == 4096);

	/*
	 * A region that a guest registers in the context's domain is visible to all who have the token; a region in a
	 * domain of the guest's own is visible to no other client.
	 */
	assert_int_equal(token_call(&other, &m, IPC_TOKEN_PD, pd, sock), 0);
	uint32_t guest = m.handle.handle;
	assert_int_equal(token_call(&other, &m, IPC_TOKEN_PD, pd, sock), 0);
	assert_int_not_equal(m.handle.handle, guest);
	assert_int_equal(FC_CALL(&other, &m, IPC_DEALLOC_PD, handle, .handle = m.handle.handle), 0);
	assert_int_equal(fc_mr(&other, &m, fc_pd(&other), &p, 1), 0);
	assert_int_equal(token_call(&c, &m, IPC_TOKEN_MR, m.reg_mr_ok.stag >> 8, sock), EINVAL);
	assert_int_equal(fc_mr(&other, &m, guest, &p, 1), 0);
	uint32_t theirs = m.reg_mr_ok.stag;
	assert_int_equal(token_call(&c, &m, IPC_TOKEN_MR, theirs >> 8, sock), 0);
	assert_int_equal(m.token_mr_ok.stag, theirs);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEREG_MR, handle, .handle = mr), 0);
	assert_int_equal(token_call(&other, &m, IPC_TOKEN_MR, stag >> 8, sock), EINVAL);
	REFUSED(FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd), EBUSY,
		"the protection domain is in use: memory regions or queues are in 1 imports of it");
	fc_close(&other);
	usleep(100000); /* the daemon may not have seen the disconnect yet; the region stays in any case */
	assert_int_equal(token_call(&c, &m, IPC_TOKEN_MR, theirs >> 8, sock), 0);
	for (int tries = 0; FC_CALL(&c, &m, IPC_DEALLOC_PD, handle, .handle = pd) == EBUSY && tries < 1000; tries++)
		usleep(10000);
	assert_int_equal(m.status, 0);
	assert_int_equal(token_call(&c, &m, IPC_TOKEN_MR, theirs >> 8, sock), EINVAL);
	close(efd);
	close(cfd);
	close(sock);
	close(other_sock);
}

static void queue_pairs_change_state(void **state)
{
	uint32_t pd = fc_pd(&c), cq = fc_cq(&c, 0, 0), qp = fc_qp(&c, 1, pd, cq, NULL);
	struct ipc_msg m;

	(void)state;
	assert_int_equal(FC_CALL(&c, &m, IPC_QUERY_QP, handle, .handle = qp), 0);
	assert_int_equal(m.len, IPC_MSG_LEN(query_qp_ok));
	assert_int_equal(m.query_qp_ok.state, 1); /* INIT from the beginning, as with an iWARP device */
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = qp,
				 .mask = IPC_QP_ATTR_IRD | IPC_QP_ATTR_ACCESS, .ird = 5, .access = 2),
			 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = qp, .mask = IPC_QP_ATTR_STATE, .state = 6), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_QUERY_QP, handle, .handle = qp), 0);
	assert_true(m.query_qp_ok.state == 6 && m.query_qp_ok.ird == 5 && m.query_qp_ok.access == 2);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = qp, .mask = IPC_QP_ATTR_STATE, .state = 0), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = qp, .mask = IPC_QP_ATTR_STATE, .state = 5),
			 EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = qp, .mask = IPC_QP_ATTR_STATE, .state = 7),
			 EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = qp, .mask = 1 << 9), EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = qp, .mask = IPC_QP_ATTR_ORD, .ord = 100000),
			 EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = 99, .mask = 0), EINVAL);
}

/* A QP with the SRQ and the cookie n, at place n; it goes to ERR at once, which its channel is told. */
static uint32_t qp_in_error(uint32_t n, uint32_t pd, uint32_t cq, uint32_t srq, uint32_t async)
{
	const uint64_t at = FC_PLACE(n);
	struct ipc_msg m;

	assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq, .srq = srq,
				 .async = async, .cookie = n, .shm_off = at, .sq_off = at + 4096, .sq_slots = 64),
			 0);
	n = m.create_qp_ok.handle;
	assert_int_equal(FC_CALL(&c, &m, IPC_MODIFY_QP, modify_qp, .qp = n, .mask = IPC_QP_ATTR_STATE, .state = 6), 0);
	return n;
}

static void an_event_that_waits_for_room_ends_with_its_object(void **state)
{
	const uint32_t pd = fc_pd(&c), cq = fc_cq(&c, 0, 0);
	struct spsc_place place = { c.queues, FC_QUEUES, FC_PLACE(1), 1, IPC_EVENT_SLOT_SMALL };
	int efd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	struct ipc_async_event ev;
	struct spsc_cons ring;
	struct ipc_msg m;

	(void)state;
	assert_int_equal(CHANNEL(efd, .kind = IPC_CHANNEL_ASYNC, .ring_off = place.off, .ring_slots = 1), 0);
	const uint32_t async = m.handle.handle;
	assert_int_equal(SRQ(.wqe_slots = 1, .ring_off = FC_PLACE(2), .ring_slots = 64), 0);
	const uint32_t srq = m.handle.handle;
	(void)qp_in_error(11, pd, cq, srq, async);
	const uint32_t gone = qp_in_error(12, pd, cq, srq, async);
	(void)qp_in_error(13, pd, cq, srq, async);
	assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .async = async, .cookie = 13, .shm_off = 1 << 22,
				 .ring_off = 5 << 20, .ring_stride = 16384, .cqe = 64),
			 0);
	/* another kind of object than the one that the waiting event of this cookie is about */
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_CQ, handle, .handle = m.handle.handle), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_QP, handle, .handle = gone), 0);
	assert_int_equal(spsc_cons_attach(&ring, &place), SPSC_OK);
	for (uint64_t cookie = 11; cookie <= 13; cookie += 2) {
		assert_int_equal(read(efd, &ev.cookie, 8), 8);
		assert_int_equal(spsc_cons_avail(&ring, 1), 1);
		memcpy(&ev, spsc_cons_slot(&ring, 0), sizeof(ev));
		assert_int_equal(ev.cookie, cookie);
		spsc_cons_release(&ring, 1);
	}
	close(efd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests_of_wrong_form, join, leave),
		cmocka_unit_test_setup_teardown(devices_tell_of_themselves, join, leave),
		cmocka_unit_test_setup_teardown(handles_that_are_not_ours, join, leave),
		cmocka_unit_test_setup_teardown(what_is_in_use_cannot_go, join, leave),
		cmocka_unit_test_setup_teardown(memory_windows, join, leave),
		cmocka_unit_test_setup_teardown(shared_receive_queues_and_larger_rings, join, leave),
		cmocka_unit_test_setup_teardown(queues_that_do_not_fit, join, leave),
		cmocka_unit_test_setup_teardown(objects_name_the_channel_of_their_errors, join, leave),
		cmocka_unit_test_setup_teardown(channels_that_do_not_fit, join, leave),
		cmocka_unit_test_setup_teardown(quotas, join, leave),
		cmocka_unit_test_setup_teardown(memory_regions_that_cannot_be, join, leave),
		cmocka_unit_test_setup_teardown(tokens_stand_for_contexts, join, leave),
		cmocka_unit_test_setup_teardown(queue_pairs_change_state, join, leave),
		cmocka_unit_test_setup_teardown(an_event_that_waits_for_room_ends_with_its_object, join, leave),
	};
	return cmocka_run_group_tests_name("requests", tests, start, stop);
}
