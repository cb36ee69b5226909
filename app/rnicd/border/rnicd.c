/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/rnicd.h"

#include <time.h>

/* QPNs: 24 bits; 0 and 1 are special on other RDMA devices, and the last one stands for all members of a group. */
struct rnicd rnicd = { .control_fd = -1, .qpn_first = 2, .qpn_last = 0xfffffe };

uint64_t rnicd_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RN_NS_PER_S + (uint64_t)ts.tv_nsec;
}
