#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What verbs promise, as a program sees it, on a fast wire and on a slow one; verbs_cases.c has the cases and both ends.
"""
import sys

from rig import cases_of, main, pair_conf

cases_of("verbs_cases", pair_conf())
# On a slow wire an operation that must not overtake another has the time to do so.
cases_of("verbs_cases", pair_conf(both="delay = 2ms\nmarkers = on"), "_on_a_slow_wire_with_markers")

if __name__ == "__main__":
    sys.exit(main())
