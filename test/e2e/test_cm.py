#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How rdma_cm behaves: cm_cases.c has the cases and both ends; here the daemon, the counting, and what is left after."""
import sys

from rig import cases_of, main, pair_conf

cases_of("cm_cases", pair_conf())

if __name__ == "__main__":
    sys.exit(main())
