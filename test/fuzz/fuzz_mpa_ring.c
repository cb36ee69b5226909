/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walk over FPDUs in a ring whose octets may be anything. The first octet chooses markers and their spacing, the
 * next four octets the index at which Full Operation begins; the rest is the ring's content. The walk moves by whole
 * FPDUs, never passes the end of the bytes, changes only the CRC fields of FPDUs that it has passed, and accepts the
 * sums that it has made itself.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "iwarp/mpa_ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RING (1u << 17)

static void check(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 5 || size - 5 > RING)
		return 0;
	uint32_t base = rn_load_be32(data + 1), n = (uint32_t)size - 5, tail = base + n;
	uint8_t *bytes = calloc(1, RING);
	struct mpa_ring r = { .bytes = bytes,
			      .mask = RING - 1,
			      .base = base,
			      .at = base,
			      .step = data[0] & 1 ? 512u << (data[0] >> 1 & 3) : 0 };

	check(bytes != NULL);
	for (uint32_t i = 0; i < n; i++)
		bytes[(base + i) & (RING - 1)] = data[5 + i];
	for (uint32_t was = r.at; mpa_ring_seal(&r, tail) == MPA_RING_FPDU; was = r.at) {
		check(r.at - was >= MPA_LEN_FIELD + MPA_CRC_LEN && r.at - was <= MPA_RING_FPDU_MAX);
		check(r.at - base <= n);
	}
	for (uint32_t i = r.at - base; i < n; i++)
		check(bytes[(base + i) & (RING - 1)] == data[5 + i]);
	struct mpa_ring again = r;
	again.at = base;
	while (mpa_ring_check(&again, tail) == MPA_RING_FPDU) {
		/* mpa_ring_seal() has written the CRC of this FPDU, so it must be good */
	}
	check(again.at == r.at);
	free(bytes);
	return 0;
}
