/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/rnicd.h"

#include <time.h>

struct rnicd rnicd = { .control_fd = -1 };

uint64_t rnicd_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RN_NS_PER_S + (uint64_t)ts.tv_nsec;
}
