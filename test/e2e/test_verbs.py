#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What verbs promise, seen by a program: verbs_cases.c has the cases and both ends. Once on a quick wire, once on a
slow one."""
import sys

from rig import cases_of, main, pair_conf

cases_of("verbs_cases", pair_conf())
# What must not overtake anything has time to do so here.
cases_of("verbs_cases", pair_conf(both="delay = 2ms\nmarkers = on"), "_on_a_slow_wire_with_markers")

if __name__ == "__main__":
    sys.exit(main())
