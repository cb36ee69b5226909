/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues and the resizing of completion queues, in librnic. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static struct ibv_srq *make(uint32_t wr, uint32_t sge, uint32_t limit, struct ibv_srq_attr *got)
{
	struct ibv_srq_init_attr a = { .attr = { wr, sge, limit } };
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	if (srq != NULL && got != NULL)
		*got = a.attr;
	return srq;
}

static void it_holds_exactly_what_it_says(void **state)
{
	static const struct {
		uint32_t wr, sge;
	} t[] = { { 1, 0 }, { 5, 1 }, { 16, 3 }, { 100, 4 }, { 33, 16 }, { 7, QP_MAX_SGE } };
	struct ibv_sge sge[QP_MAX_SGE] = { { 1, 2, 3 } };

	(void)state;
	for (unsigned i = 0; i < RN_ARRAY_LEN(t); i++) {
		struct ibv_srq_attr got = { 0 };
		struct ibv_srq *srq = make(t[i].wr, t[i].sge, 0, &got);
		struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = (int)t[i].sge }, *bad;
		uint32_t n = 0;
		assert_non_null(srq);
		assert_true(got.max_wr >= t[i].wr && got.max_sge >= t[i].sge);
		while (ibv_post_srq_recv(srq, &wr, &bad) == 0)
			wr.num_sge = n++ % 2 == 0 ? 0 : (int)got.max_sge;
		assert_int_equal(n, got.max_wr);
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
		assert_ptr_equal(bad, &wr);
		wr.num_sge = (int)got.max_sge + 1;
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
		wr.num_sge = -1;
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
		assert_int_equal(ibv_destroy_srq(srq), 0);
	}
	assert_null(make(1 << 20, 1, 0, NULL));
	assert_null(make(0, 1, 0, NULL));
	assert_null(make(1, QP_MAX_SGE + 1, 0, NULL));
	assert_null(make(16, 1, 17, NULL));
	assert_int_equal(errno, EINVAL);
}

static void attributes_are_changed_and_asked_for(void **state)
{
	struct ibv_srq *srq = make(16, 1, 3, NULL);
	struct fake_srq *f = &client()->srq[srq->handle];
	struct ibv_srq_attr a = { .srq_limit = 5 };

	(void)state;
	assert_int_equal(f->limit, 3);
	assert_int_equal(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), 0);
	assert_int_equal(f->limit, 5);
	assert_int_equal(ibv_query_srq(srq, &a), 0);
	assert_true(a.max_wr == 16 && a.max_sge == 1 && a.srq_limit == 5);
	a.srq_limit = 17;
	assert_int_equal(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	assert_int_equal(ibv_modify_srq(srq, &a, 8), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void kinds_that_this_device_does_not_have(void **state)
{
	struct ibv_srq_init_attr_ex a = { .attr = { 4, 1, 0 },
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_TM,
					  .pd = pd };
	uint32_t num;

	(void)state;
	assert_null(ibv_create_srq_ex(ctx, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.srq_type = IBV_SRQT_BASIC;
	a.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	assert_null(ibv_create_srq_ex(ctx, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	assert_null(ibv_create_srq_ex(ctx, &a));
	assert_int_equal(errno, EINVAL);
	a.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	struct ibv_srq *srq = ibv_create_srq_ex(ctx, &a);
	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &num), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void a_queue_pair_uses_it(void **state)
{
	struct ibv_srq *srq = make(16, 1, 0, NULL);
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 }
	};
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	assert_non_null(qp);
	assert_int_equal(a.cap.max_recv_wr, 0);
	assert_ptr_equal(qp->srq, srq);
	assert_int_equal(client()->qp[qp->handle].made.srq, srq->handle);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_ptr_equal(init.srq, srq);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void its_events_are_its_own(void **state)
{
	struct ibv_srq *srq = make(16, 1, 0, NULL);
	struct ipc_async_event ev = { .type = IBV_EVENT_SRQ_LIMIT_REACHED,
				      .cookie = client()->srq[srq->handle].cookie };
	uint32_t chan = rnic_ctx(ctx)->async.handle;
	struct ibv_async_event got;

	(void)state;
	fake_event(client(), chan, &ev, sizeof(ev));
	assert_int_equal(ibv_get_async_event(ctx, &got), 0);
	assert_int_equal(got.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(got.element.srq, srq);
	fake_event(client(), chan, &ev, sizeof(ev)); /* an event that is not fetched */
	ibv_ack_async_event(&got);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void a_completion_queue_grows_with_its_entries(void **state)
{
	struct ibv_wc wc[64];
	uint32_t h = cq->handle;

	(void)state;
	for (unsigned i = 0; i < 12; i++)
		fake_cqe(client(), h, i % 2, &(struct qp_cqe){ .wr_id = i });
	assert_int_equal(ibv_resize_cq(cq, 11), EINVAL); /* twelve completions are in the CQ */
	assert_int_equal(ibv_resize_cq(cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, -1), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, (1 << 18) + 1), EINVAL);
	assert_int_equal(cq->cqe, 16);
	assert_int_equal(ibv_resize_cq(cq, 12), 0);
	assert_int_equal(cq->cqe, 16);
	assert_int_equal(ibv_resize_cq(cq, 100), 0);
	assert_int_equal(cq->cqe, 128);
	for (unsigned i = 12; i < 60; i++)
		fake_cqe(client(), h, i % 2, &(struct qp_cqe){ .wr_id = i });
	uint64_t next[2] = { 0, 1 };
	int n = 0, k;
	while ((k = ibv_poll_cq(cq, 64, wc)) > 0) {
		for (int i = 0; i < k; i++, n++) { /* completions of each worker are in order */
			assert_int_equal(wc[i].wr_id, next[wc[i].wr_id % 2]);
			next[wc[i].wr_id % 2] += 2;
		}
	}
	assert_int_equal(n, 60);
	fake_refuse(fake, ENOMEM, "no");
	assert_int_equal(ibv_resize_cq(cq, 1000), ENOMEM);
	fake_refuse(fake, 0, NULL);
	fake_cqe(client(), h, 0, &(struct qp_cqe){ .wr_id = 99 });
	assert_int_equal(ibv_poll_cq(cq, 64, wc), 1);
	assert_int_equal(wc[0].wr_id, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_holds_exactly_what_it_says),
		cmocka_unit_test(attributes_are_changed_and_asked_for),
		cmocka_unit_test(kinds_that_this_device_does_not_have),
		cmocka_unit_test(a_queue_pair_uses_it),
		cmocka_unit_test(its_events_are_its_own),
		cmocka_unit_test(a_completion_queue_grows_with_its_entries),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
