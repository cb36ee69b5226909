#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""QPs connected without rdma_cm, on an iWARP device: nocm_cases.c has the cases and both ends."""
import sys

from rig import cases_of, main, pair_conf

cases_of("nocm_cases", pair_conf())
cases_of("nocm_cases", pair_conf(both="personality = roce\ndelay = 1ms"), "_as_a_roce_adapter_on_a_slow_wire")

if __name__ == "__main__":
    sys.exit(main())
