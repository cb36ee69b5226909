/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verified data. Each byte is a function of (seed, position), so that a byte that is lost, doubled, moved, taken from
 * an older message or left from the buffer's last use is found. Little endian by definition: both sides agree on any
 * CPU.
 */
#ifndef TP_PATTERN_H
#define TP_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#define TP_PATTERN_GOOD SIZE_MAX

/* The seed of message number seq on queue pair qp, out of the run's seed. */
uint64_t tp_pattern_seed(uint64_t run_seed, uint32_t qp, uint64_t seq);

/* Write bytes [pos, pos + len) of the stream that seed names to dst. */
void tp_pattern_fill(void *dst, size_t len, uint64_t seed, uint64_t pos);

/* TP_PATTERN_GOOD, or the index of the first byte of buf that is not byte pos + index of the stream. */
size_t tp_pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t pos);

#endif
