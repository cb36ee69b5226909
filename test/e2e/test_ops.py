#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Immediate data, atomics and memory windows: op_cases.c has the cases. Once on a clean wire, once on one that loses."""
import sys

from rig import cases_of, main, pair_conf

cases_of("op_cases", pair_conf())
cases_of("op_cases", pair_conf(both="loss = 2%\nduplicate = 2%\nreorder = 2%\ndelay = 200us\nseed = 7"), "_on_a_lossy_wire")

if __name__ == "__main__":
    sys.exit(main())
