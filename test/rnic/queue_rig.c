/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "queue_rig.h"

struct ibv_comp_channel *chan;
struct ibv_cq *cq;
struct ibv_qp *qp;
struct ibv_qp_cap cap;

struct fake_qp *peer(void) { return &client()->qp[qp->handle]; }

struct ibv_qp *make_qp(uint32_t wrs, uint32_t sge, uint32_t inl, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .pd = pd,
					 .cap = { wrs, wrs, sge, sge, inl },
					 .comp_mask = IBV_QP_INIT_ATTR_PD };

	if (ops != 0) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = ops;
	}
	struct ibv_qp *q = ibv_create_qp_ex(ctx, &a);
	if (q != NULL)
		cap = a.cap;
	return q;
}

int queue_setup(void **state)
{
	if (dev_setup(state) != 0)
		return 1;
	chan = ibv_create_comp_channel(ctx);
	cq = ibv_create_cq(ctx, 100, &cap, chan, 0);
	qp = make_qp(16, 4, 100,
		     IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
			     IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND_WITH_IMM |
			     IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW);
	peer()->shm->state = IBV_QPS_RTS;
	return qp == NULL;
}

int queue_teardown(void **state)
{
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_comp_channel(chan), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(chan), 0);
	return dev_teardown(state);
}
