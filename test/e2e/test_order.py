#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The order in which RDMA Writes show in memory (order_cases.c has the cases), over wires that lose segments: with CRCs
left out and computed, with markers, and with full segments of 9,000 bytes.
"""
import sys

from rig import cases_of, main, pair_conf

LOSSY = "loss = 0.5%\ndelay = 100us\nseed = 3\n"  # with a delay, much is under way until a lost segment comes

cases_of("order_cases", pair_conf(both=LOSSY), "_without_sums")
cases_of("order_cases", pair_conf(both=LOSSY + "crc = always"), "_with_sums")
cases_of("order_cases", pair_conf(both=LOSSY + "crc = always\nmarkers = on"), "_with_markers")
cases_of("order_cases", pair_conf(mtu=9000, both=LOSSY.replace("0.5%", "2%") + "crc = always"), "_in_large_segments")

if __name__ == "__main__":
    sys.exit(main())
