/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librnic offers beyond <infiniband/verbs.h> and <rdma/rdma_cma.h>. Safe from any thread. rnic(7) has the
 * variables of the environment that the library reads.
 */
#ifndef RNIC_RNIC_H
#define RNIC_RNIC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Memory that is shared with rnicd from birth: ibv_reg_mr() of it moves nothing. At least `size` bytes, zeroed, aligned
 * to a page; from 1 MiB on to 2 MiB and on hugepages where the system has free ones. The caller owns it and gives it
 * back with rnic_free() after the memory regions in it are deregistered.
 * NULL and errno: ENODEV no daemon, ENOMEM no space, EINVAL size 0.
 */
void *rnic_alloc(size_t size);

/* Takes back what rnic_alloc() returned; NULL is allowed. */
void rnic_free(void *p);

#ifdef __cplusplus
}
#endif

#endif
