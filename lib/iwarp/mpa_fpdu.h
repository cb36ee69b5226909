/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes of an FPDU: RFC 5044 sections 4.1 to 4.4.
 *
 *   ULPDU_Length(2)  ULPDU  PAD(0..3)  CRC(4)      padded to a multiple of 4, markers not counted
 *
 * With markers, the stream carries 4 octets {0, FPDUPTR} at every multiple of 512 octets counted from the first octet
 * of Full Operation; the first stands at offset 0. FPDUPTR is the distance back to the ULPDU_Length field; a marker
 * right in front of that field belongs to the FPDU behind it, has FPDUPTR 0 and is covered by its CRC.
 */
#ifndef MPA_FPDU_H
#define MPA_FPDU_H

#include <stdbool.h>
#include <stdint.h>

#define MPA_LEN_FIELD  2
#define MPA_CRC_LEN    4
#define MPA_MARKER_LEN 4
/*
 * Octets from the beginning of a marker to that of the next, a power of two: RFC 5044 has 512. Both ends may agree on
 * another one by other means, as MPA has no field for it; 0 stands for no markers.
 */
#define MPA_MARKER_STEP     512
#define MPA_MARKER_STEP_MAX 4096
#define MPA_ULPDU_MAX       65535
/* FPDUPTR has 16 bits: with markers a sender keeps to this (RFC 5044 section 4.1). */
#define MPA_ULPDU_MARKED_MAX 64768
#define MPA_MULPDU_MIN       128 /* RFC 5044 section 4.1 */

static inline uint32_t mpa_pad(uint32_t ulpdu_len) { return (0u - (MPA_LEN_FIELD + ulpdu_len)) & 3; }

/* Octets of an FPDU without markers. */
static inline uint32_t mpa_fpdu_len(uint32_t ulpdu_len)
{
	return ((MPA_LEN_FIELD + ulpdu_len + 3) & ~3u) + MPA_CRC_LEN;
}

/*
 * Markers inside an FPDU of len octets (markers not counted) that begins at stream offset pos, a leading marker
 * included.
 */
static inline uint32_t mpa_markers_in(uint32_t pos, uint32_t len, uint32_t step)
{
	uint32_t first = (0u - pos) & (step - 1);

	return step != 0 && len > first ? 1 + (len - first - 1) / (step - MPA_MARKER_LEN) : 0;
}

/*
 * Octets of the marker in front of the length field, for an FPDU that begins at stream offset pos; 0: no marker there.
 */
static inline uint32_t mpa_lead(uint32_t pos, uint32_t step)
{
	return step != 0 && (pos & (step - 1)) == 0 ? MPA_MARKER_LEN : 0;
}

static inline bool mpa_step_good(uint32_t step)
{
	return step == 0 || (step >= MPA_MARKER_STEP && step <= MPA_MARKER_STEP_MAX && (step & (step - 1)) == 0);
}

/*
 * Largest ULPDU whose FPDU fits one TCP segment of emss octets wherever it begins (RFC 5044 appendix A.1.1); 0 when
 * emss leaves no room. Below MPA_MULPDU_MIN the caller should use MPA_MULPDU_MIN and let TCP split the FPDU.
 */
static inline uint32_t mpa_mulpdu(uint32_t emss, uint32_t step)
{
	uint32_t over = MPA_LEN_FIELD + MPA_CRC_LEN + (emss & 3);
	uint32_t max = step != 0 ? MPA_ULPDU_MARKED_MAX : MPA_ULPDU_MAX;

	if (step != 0)
		over += MPA_MARKER_LEN * ((emss + step - 1) / step);
	if (emss <= over)
		return 0;
	return emss - over < max ? emss - over : max;
}

#endif
