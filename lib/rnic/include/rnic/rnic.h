/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librnic offers beyond <infiniband/verbs.h> and <rdma/rdma_cma.h>. Safe from any thread.
 *
 * Environment of a program that uses librnic
 *   RNICD_SOCKET      the daemon's control socket (default /run/rnicd/rnicd.sock)
 *   RNIC_HUGE         0: rnic_alloc() never uses hugepages; 1: it uses nothing else; unset: where there are any
 *   RNIC_VERBOSE      1: a line on stderr for each work request and connection that fails, with what to look at
 *   RNIC_INJECT       which calls and completions fail, to test the program (rnicrun --inject, doc/testing.md)
 *   RNIC_REG_VERBOSE  0: nothing on stderr; 1: a line for each range that ibv_reg_mr moves; unset: refusals only
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
