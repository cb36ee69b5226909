#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory of every kind: mem_cases.c has the cases and both ends."""
import sys

from rig import cases_of, main, pair_conf

cases_of("mem_cases", pair_conf())

if __name__ == "__main__":
    sys.exit(main())
