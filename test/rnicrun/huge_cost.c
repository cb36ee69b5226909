/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of the allocator of rnicrun --huge that stay, as in a store of values: `huge_cost BLOCKS`. test_huge_cost.py
 * counts the instructions of blocks().
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static void blocks(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if ((uintptr_t)malloc((size_t)(2 + i % 5) << 16) % 4096 != 0)
			exit(1); /* libc's */
}

int main(int argc, char **argv)
{
	const unsigned n = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;

	blocks(n);
	printf("%u\n", n);
	return 0;
}
