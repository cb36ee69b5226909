/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librnic offers beyond <infiniband/verbs.h> and <rdma/rdma_cma.h>. Safe from any thread. The environment
 * variables that the library reads are in rnic(7).
 */
#ifndef RNIC_RNIC_H
#define RNIC_RNIC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Allocates memory that is shared with rnicd from the start, so ibv_reg_mr() need not move it. At least `size` bytes,
 * zeroed and aligned to a page. From 1 MiB on the memory is aligned to 2 MiB and lies on hugepages if the system has
 * free ones. The caller owns the memory, and frees it with rnic_free() after deregistering the memory regions in it. On
 * failure NULL and errno: ENODEV: no daemon; ENOMEM: no space; EINVAL: size is 0.
 */
void *rnic_alloc(size_t size);

/* Frees memory of rnic_alloc(). NULL is allowed. A child of fork() frees only its own mapping: the parent keeps it. */
void rnic_free(void *p);

#ifdef __cplusplus
}
#endif

#endif
