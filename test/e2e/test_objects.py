#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Shared receive queues, and objects that change while in use, with one worker and with two: object_cases.c has the cases.
"""
import os
import sys

from rig import cases_of, main, pair_conf

cases_of("object_cases", pair_conf())
if (os.cpu_count() or 1) >= 2:
    cases_of("object_cases", pair_conf(rnicd="workers = 0,1", both="personality = roce"), "_with_two_workers_on_adapters")

if __name__ == "__main__":
    sys.exit(main())
