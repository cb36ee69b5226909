#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes lib/crc32c/crc32c_tables.c: usage gen_crc32c_tables.py > lib/crc32c/crc32c_tables.c

All numbers are polynomials over GF(2) modulo P, the Castagnoli polynomial, in reflected order: bit 31 - j of a word is
the coefficient of x^j.
"""

P = 0x82F63B78          # without x^32, reflected
X0 = 1 << 31            # the polynomial 1
NSHIFT = 512


def times_x(a):
    return (a >> 1) ^ (P if a & 1 else 0)


def times(a, b):
    r = 0
    for j in range(32):
        if b & (1 << (31 - j)):
            r ^= a
        a = times_x(a)
    return r


def power(n):
    """x^n mod P, n >= 0"""
    r, sq = X0, times_x(X0)
    while n:
        if n & 1:
            r = times(r, sq)
        sq = times(sq, sq)
        n >>= 1
    return r


def byte_table():
    t = []
    for i in range(256):
        for _ in range(8):
            i = times_x(i)
        t.append(i)
    return t


def slices():
    t = [byte_table()]
    for k in range(1, 8):
        t.append([t[0][v & 0xFF] ^ (v >> 8) for v in t[k - 1]])
    return t


def rows(values, indent):
    for i in range(0, len(values), 8):
        print(indent + ' '.join('0x%08x,' % v for v in values[i:i + 8]))


def main():
    print('/* SPDX-License-Identifier: BSD-3-Clause */')
    print('/* Written by scripts/gen_crc32c_tables.py. */')
    print('#include "crc32c/crc32c_impl.h"')
    print('\nconst uint32_t crc32c_slice[8][256] = {')
    for t in slices():
        print('\t{')
        rows(t, '\t\t')
        print('\t},')
    print('};\n\nconst uint32_t crc32c_shift[CRC32C_NSHIFT] = {')
    rows([0] + [power(64 * i - 33) for i in range(1, NSHIFT)], '\t')
    print('};\n\nconst uint32_t crc32c_x8_pow2[64] = {')
    rows([power(8 << k) for k in range(64)], '\t')
    print('};')


main()
