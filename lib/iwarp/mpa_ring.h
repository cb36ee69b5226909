/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CRCs of FPDUs that lie in a ring of octets, for a party that neither builds nor parses these FPDUs: RFC 5044,
 * sections 4.2 to 4.4. Only the length field of an FPDU is read, once; markers are counted, but their contents are
 * ignored.
 *
 * The octets may belong to a party that is not trusted and that writes to them meanwhile. Whatever the octets are, the
 * walk stays inside [at, tail) and moves by whole FPDUs of at most MPA_RING_FPDU_MAX octets.
 *
 * Indices count octets, run freely, and wrap at 2^32; an octet's place in the ring are the lower bits. Lengths are
 * octets. One thread at a time.
 */
#ifndef MPA_RING_H
#define MPA_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "iwarp/mpa_fpdu.h"

#define MPA_RING_FPDU_MAX 66064u /* octets of an FPDU with the longest ULPDU and its markers */

struct mpa_ring {
	uint8_t *bytes; /* the caller's: mask + 1 octets, a power of two above MPA_RING_FPDU_MAX */
	uint32_t mask;
	uint32_t base; /* index of the first octet of Full Operation: markers are counted from it */
	uint32_t at;   /* index of the next FPDU's first octet */
	uint32_t step; /* spacing of markers: MPA_MARKER_STEP or another one that mpa_step_good() allows; 0: none */
};

enum mpa_ring_verdict {
	MPA_RING_FPDU,   /* one FPDU was summed, and `at` is behind it */
	MPA_RING_MORE,   /* the next FPDU is not whole before tail; `at` is as it was */
	MPA_RING_BAD_CRC /* check: the CRC field of the FPDU at `at` is wrong; `at` is as it was */
};

/* tail - at is at most mask + 1. Writes the sum of the next FPDU into its CRC field. */
enum mpa_ring_verdict mpa_ring_seal(struct mpa_ring *r, uint32_t tail) RN_NODISCARD;
/* Checks the CRC field of the next FPDU. tail as for mpa_ring_seal(). */
enum mpa_ring_verdict mpa_ring_check(struct mpa_ring *r, uint32_t tail) RN_NODISCARD;

#endif
