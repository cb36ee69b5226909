/* SPDX-License-Identifier: BSD-3-Clause */
#include "mr_rig.h"

#include <stdlib.h>
#include <string.h>

uint8_t pattern(size_t i, uint8_t seed) { return (uint8_t)(i * 7 + (i >> 8) + seed); }

void fill(uint8_t *p, size_t len, uint8_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = pattern(i, seed);
}

void assert_filled(const uint8_t *p, size_t len, uint8_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != pattern(i, seed))
			fail_msg("byte %zu is %#x, not %#x", i, p[i], pattern(i, seed));
}

/* Checks every byte of the region: the daemon sees what the program writes, and the program what the daemon writes. */
void assert_shared(struct ibv_mr *mr)
{
	uint8_t *copy = malloc(mr->length);

	assert_non_null(mr);
	fill(mr->addr, mr->length, 1);
	assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)mr->addr, copy, mr->length));
	assert_filled(copy, mr->length, 1);
	fill(copy, mr->length, 2);
	assert_true(fake_mr_write(client(), mr->rkey, (uintptr_t)mr->addr, copy, mr->length));
	assert_filled(mr->addr, mr->length, 2);
	free(copy);
}

uint32_t pieces(const struct ibv_mr *mr) { return client()->mr[mr->handle].npieces; }

void assert_zeros(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
}

void assert_refused(void *p, size_t len, int access, int err)
{
	errno = 0;
	assert_null(ibv_reg_mr(pd, p, len, access));
	assert_int_equal(errno, err);
}
