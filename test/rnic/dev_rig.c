/* SPDX-License-Identifier: BSD-3-Clause */
#include "dev_rig.h"

#include <stdlib.h>

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
