/* SPDX-License-Identifier: BSD-3-Clause */
#include "dev_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct fake *fake;
struct ibv_context *ctx;
struct ibv_pd *pd;

int dev_setup(void **state)
{
	(void)state;
	setenv("RNIC_REG_VERBOSE", "0", 1);
	fake = fake_start();
	struct ibv_device **list = ibv_get_device_list(NULL);
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	return pd == NULL;
}

int dev_teardown(void **state)
{
	(void)state;
	int rc = ibv_dealloc_pd(pd);

	rc = rc == 0 ? ibv_close_device(ctx) : rc;
	fake_stop(fake);
	return rc;
}

struct fake_client *client(void) { return fake_client(fake, 0); }

struct qp_wqe *take_send(struct fake_qp *qp)
{
	static union {
		struct qp_wqe w;
		uint8_t bytes[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE];
	} u;

	assert_true(spsc_cons_avail(&qp->sq, 1) >= 1);
	uint32_t slots = ((const struct qp_wqe *)spsc_cons_slot(&qp->sq, 0))->slots;
	assert_true(slots >= 1 && spsc_cons_avail(&qp->sq, slots) >= slots);
	spsc_cons_copy(&qp->sq, 0, &u, slots * QP_SLOT_SIZE);
	spsc_cons_release(&qp->sq, slots);
	return &u.w;
}
