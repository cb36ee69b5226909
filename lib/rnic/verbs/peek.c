/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads memory of the program that the program may have unmapped. */
#include "rnic/verbs/watch.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/rn_sip.h"

#define SUM_PIECE 16384u

/* Reads by process_vm_readv(), since an access to unmapped memory would end the program. */
bool rnic_peek_sum(uint64_t addr, uint32_t len, uint64_t *sum)
{
	uint8_t piece[SUM_PIECE];

	while (len > 0) {
		const uint32_t n = rn_min_u32(len, SUM_PIECE);
		const struct iovec to = { .iov_base = piece, .iov_len = n };
		const struct iovec from = { .iov_base = (void *)(uintptr_t)addr, .iov_len = n };
		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)n)
			return false;
		*sum = rn_sip_hash((const uint64_t[2]){ *sum, 0 }, piece, n, 0);
		addr += n;
		len -= n;
	}
	return true;
}

bool rnic_peek_mapped(uint64_t addr)
{
	unsigned char in;

	return mincore((void *)(uintptr_t)(addr & ~UINT64_C(4095)), 1, &in) == 0 || errno != ENOMEM;
}
