/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains, their shared receive queues and queue pairs, in librnic. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "dev_rig.h"
#include "rnic/verbs/objects.h"

static struct ibv_cq *cq;

static int setup(void **state)
{
	if (dev_setup(state) != 0)
		return 1;
	cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	return cq == NULL;
}

static int teardown(void **state)
{
	assert_int_equal(ibv_destroy_cq(cq), 0);
	return dev_teardown(state);
}

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.fd = fd,
					.oflags = oflags };

	return ibv_open_xrcd(ctx, &a);
}

static struct ibv_srq *queue_of(struct ibv_xrcd *x)
{
	struct ibv_srq_init_attr_ex a = { .attr = { 4, 1, 0 },
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						       IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = pd,
					  .xrcd = x,
					  .cq = cq };

	return ibv_create_srq_ex(ctx, &a);
}

static struct ibv_qp *initiator(uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 8, 0, 1, 0, 64 },
					 .qp_type = IBV_QPT_XRC_SEND,
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      (ops != 0 ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
					 .send_ops_flags = ops,
					 .pd = pd };
	struct ibv_qp_attr to = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &a);

	assert_ptr_equal(a.recv_cq, cq); /* the CQ that the program named */
	if (qp != NULL)
		assert_int_equal(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
	return qp;
}

static void a_domain_is_one_of_a_file_or_of_none(void **state)
{
	int file = open("/proc/self/exe", O_RDONLY), ends[2];
	struct ibv_xrcd_init_attr a = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *x;

	(void)state;
	x = open_domain(file, O_CREAT | O_EXCL);
	assert_non_null(x);
	assert_true(client()->xrcd_file);
	assert_int_equal(client()->last.open_xrcd.flags, IPC_XRCD_CREATE | IPC_XRCD_EXCLUSIVE);
	assert_int_equal(ibv_close_xrcd(x), 0);
	x = open_domain(-1, O_CREAT);
	assert_non_null(x);
	assert_false(client()->xrcd_file);
	assert_int_equal(ibv_close_xrcd(x), 0);
	/* a descriptor that cannot be passed over a socket would end the session */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_null(open_domain(ends[0], O_CREAT));
	assert_int_equal(errno, EINVAL);
	assert_null(open_domain(999, O_CREAT));
	assert_int_equal(errno, EBADF);
	assert_null(ibv_open_xrcd(ctx, &a));
	assert_int_equal(errno, EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(file);
}

static void a_domain_stays_while_it_is_in_use(void **state)
{
	struct ibv_xrcd *x = open_domain(-1, O_CREAT);
	struct ibv_srq *srq = queue_of(x);
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = x };
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &a);
	uint32_t num;

	(void)state;
	assert_non_null(srq);
	assert_non_null(qp);
	assert_int_equal(ibv_get_srq_num(srq, &num), 0);
	assert_int_equal(num, FAKE_SRQN + srq->handle);
	assert_int_equal(ibv_close_xrcd(x), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(x), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(x), 0);
}

static void an_xrc_queue_needs_a_domain_and_a_cq(void **state)
{
	struct ibv_srq_init_attr_ex a = { .attr = { 4, 1, 0 },
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = pd,
					  .cq = cq };

	(void)state;
	assert_null(ibv_create_srq_ex(ctx, &a));
	assert_int_equal(errno, EINVAL);
	a.comp_mask |= IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD;
	assert_null(ibv_create_srq_ex(ctx, &a));
	assert_int_equal(errno, EINVAL);
}

/* The next posted work request as the daemon sees it. */
static const struct qp_wqe *posted(struct ibv_qp *qp) { return take_send(&client()->qp[qp->handle]); }

static void each_work_request_names_a_queue(void **state)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
						 IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ };
	struct ibv_sge sge = { 4096, 8, 77 };
	struct ibv_send_wr w = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_recv_wr r = { 0 }, *bad_recv;
	struct ibv_qp *qp = initiator(0);

	(void)state;
	assert_non_null(qp);
	assert_null(qp->recv_cq);
	for (unsigned i = 0; i < RN_ARRAY_LEN(op); i++) {
		w.opcode = op[i];
		w.qp_type.xrc.remote_srqn = 0xbe00 + i;
		assert_int_equal(ibv_post_send(qp, &w, &bad), 0);
		assert_int_equal(posted(qp)->srqn, 0xbe00 + i);
	}
	w.qp_type.xrc.remote_srqn = 0x10000; /* numbers of this device's shared receive queues have 16 bits */
	assert_int_equal(ibv_post_send(qp, &w, &bad), EINVAL);
	w.qp_type.xrc.remote_srqn = 1;
	w.opcode = IBV_WR_SEND_WITH_INV;
	assert_int_equal(ibv_post_send(qp, &w, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(qp, &r, &bad_recv), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void the_new_way_of_posting_names_it_too(void **state)
{
	struct ibv_qp *qp = initiator(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	struct ibv_qp_ex *ex;

	(void)state;
	assert_non_null(qp);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, 0x1234);
	ibv_wr_set_sge(ex, 77, 4096, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(posted(qp)->srqn, 0x1234);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, 0x10000);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_null(initiator(IBV_QP_EX_WITH_SEND_WITH_INV));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void nothing_is_posted_to_a_target(void **state)
{
	struct ibv_xrcd *x = open_domain(-1, O_CREAT);
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = FAKE_TARGET_QPN,
				      .xrcd = x,
				      .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_send_wr w = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr r = { 0 }, *bad_recv;
	struct ibv_qp *qp = ibv_open_qp(ctx, &a);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(qp->qp_num, FAKE_TARGET_QPN);
	assert_int_equal(qp->state, IBV_QPS_RTS); /* the state to which another process has brought the target */
	assert_int_equal(ibv_post_send(qp, &w, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(qp, &r, &bad_recv), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	a.qp_type = IBV_QPT_RC;
	assert_null(ibv_open_qp(ctx, &a));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_xrcd(x), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_domain_is_one_of_a_file_or_of_none), T(a_domain_stays_while_it_is_in_use),
		T(an_xrc_queue_needs_a_domain_and_a_cq), T(each_work_request_names_a_queue),
		T(the_new_way_of_posting_names_it_too),  T(nothing_is_posted_to_a_target),
	};

	return cmocka_run_group_tests_name("rnic-xrc", tests, NULL, NULL);
}
