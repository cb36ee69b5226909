/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of packet buffers. With ordinary pages the kernel gives a pool its memory as buffers are used for the first
 * time: a pool begins empty, and a buffer is made only when all buffers that exist are in use. So a daemon without
 * traffic takes little memory, and a pool that is sized for the worst case costs what traffic has needed of it. With
 * hugepages DPDK has the memory from the start.
 */
#ifndef RNICD_POOL_H
#define RNICD_POOL_H

#include <rte_mbuf.h>

/* What a pool is made of. */
struct pool_size {
	uint32_t n;     /* buffers */
	uint32_t cache; /* buffers that each lcore may keep for itself; 0: none. Nobody may take more at once */
	uint16_t room;  /* bytes of a buffer, with the headroom */
	bool nic;       /* the driver of a NIC must know the memory: all of it is taken from the start */
};

/* NULL: no memory. rte_mempool_free() frees the pool. */
struct rte_mempool *pool_create(const char *name, const struct pool_size *size, int socket);

#endif
