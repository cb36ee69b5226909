#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rsockets: the cases of rsock_cases.c, over two devices of one daemon, with one worker and with several."""
import sys

from rig import cases_of, main, pair_conf

cases_of("rsock_cases", pair_conf())
sys.exit(main())
