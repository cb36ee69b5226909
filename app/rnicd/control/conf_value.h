/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of the configuration file: from text to number, with a unit where the quantity has one. If the text is no such
 * value, each function returns false, writes half a sentence into why ("must be ..."), and stores nothing.
 */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "pkt/pkt.h"

#define CONF_WHY_MAX 192u

/* A whole number in [min, max]: decimal, or hexadecimal with 0x. */
bool conf_uint(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why);
/* Bytes: a number with K, M, G or T (powers of 1024) or without. */
bool conf_bytes(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why);
/* Bits per second: a number, also with a decimal fraction, with k, M or G (powers of 1000). */
bool conf_rate(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why);
/* Nanoseconds: a number, also with a decimal fraction, and ns, us, ms or s. */
bool conf_time(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why);
/* A probability in units of 2^-32: percent (0.1%) or a fraction (0.001); 100% is the largest number below 1. */
bool conf_prob(const char *s, uint64_t *v, char *why);
/* yes, on, true, 1 or no, off, false, 0. */
bool conf_bool(const char *s, uint64_t *v, char *why);
/* The value is one of words (NULL-terminated); *v: its index. */
bool conf_word(const char *s, const char *const *words, uint64_t *v, char *why);
/* aa:bb:cc:dd:ee:ff, neither multicast nor all zero. */
bool conf_mac(const char *s, uint8_t mac[PKT_MAC_LEN], char *why);
/* An IPv4 or IPv6 unicast address. */
bool conf_addr(const char *s, struct pkt_addr *a, char *why);
/* ADDRESS/BITS. *bits: the prefix length of the 128-bit address; IPv4: BITS + 96. */
bool conf_addr_prefix(const char *s, struct pkt_addr *a, uint32_t *bits, char *why);

#endif
