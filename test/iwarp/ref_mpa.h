/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second MPA sender that shares no code with lib/iwarp: it works octet by octet, and computes the CRC bit by bit.
 * Tests compare what the library sends with the octets of this sender, and feed the library with them.
 */
#ifndef REF_MPA_H
#define REF_MPA_H

#include <stdbool.h>
#include <stdint.h>

#define REF_MAX (1u << 19)

struct ref_stream {
	bool markers, crc;
	uint32_t step; /* distance from marker to marker; 0: no markers */
	uint32_t base; /* offset of buf[0] in Full Operation */
	uint32_t len;
	uint32_t n_fpdu;
	uint32_t first[4096]; /* offset in buf of each FPDU, of its leading marker if it has one */
	uint32_t size[4096];
	uint16_t ulpdu_len[4096];
	uint8_t ulpdu_seed[4096];
	uint8_t buf[REF_MAX];
};

extern uint32_t ref_step; /* marker spacing of streams begun by ref_init() from now on; 512 at first */
void ref_init(struct ref_stream *s, uint32_t base, bool markers, bool crc);
/* Appends an FPDU; its ULPDU is ref_octet(seed, 0..). */
void ref_fpdu(struct ref_stream *s, uint32_t ulpdu_len, uint8_t seed);
void ref_fpdu_of(struct ref_stream *s, const uint8_t *ulpdu, uint32_t ulpdu_len);
uint8_t ref_octet(uint8_t seed, uint32_t i);
uint32_t ref_crc32c(const uint8_t *p, uint32_t n);

/* Seeded numbers for tests. */
uint32_t ref_rand(uint64_t *state);

#endif
