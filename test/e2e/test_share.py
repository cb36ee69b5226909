#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Contexts, protection domains and memory regions that another process imports; share_cases.c has the cases."""
import sys

from rig import cases_of, main, pair_conf

cases_of("share_cases", pair_conf())

if __name__ == "__main__":
    sys.exit(main())
