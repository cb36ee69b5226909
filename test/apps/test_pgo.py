#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make pgo: the build by a profile, and the same messages through the result, with verified data."""
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))

from rig import Process, case, main


@case
def a_build_by_a_profile_moves_verified_data():
    with tempfile.TemporaryDirectory() as d:
        out = Process([f"{ROOT}/scripts/pgo.sh", f"{d}/build"], env=dict(os.environ, CC="gcc")).ok(3000)
        assert "pgo: built in" in out, out
        out = Process([sys.executable, f"{ROOT}/test/bench/training.py", f"{d}/build", "--seconds", "0.2"]).ok(600)
        assert "training: 72 runs" in out, out


sys.exit(main())
