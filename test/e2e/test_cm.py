#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How rdma_cm behaves: cm_cases.c has the cases and both ends; here the daemon, the counting, and what is left after."""
import subprocess
import sys
import time

from rig import Daemon, case, helper, main, pair_conf

results = {}


def run_all():
    """All cases in one process, once; afterwards the daemon must hold nothing."""
    with Daemon(pair_conf()) as d:
        p = d.run(helper("cm_cases"), "10.77.0.1", "10.77.0.2")
        rc = p.wait(240)
        notes = []
        for line in p.out:
            if line.startswith("#"):
                notes.append(line)
            elif line.startswith(("ok ", "not ok ")):
                ok, name = line.startswith("ok "), line.split()[-1]
                results[name] = (ok, "\n".join(notes))
                notes = []
        results["*"] = (rc in (0, 1), f"cm_cases ended with {rc}\n{p.tail()}")
        end = time.monotonic() + 20
        what = ("/rnic/clients", "/rnic/qps", "/rnic/conns")
        while time.monotonic() < end and any(d.telemetry(w) for w in what):
            time.sleep(0.1)
        left = {w: d.telemetry(w) for w in what if d.telemetry(w)}
        results["left"] = (not left, f"left in the daemon: {left}")


def make(name):
    def f():
        if not results:
            run_all()
        ok, why = results.get(name, results["*"] if not results["*"][0] else (False, "not run"))
        assert ok, why
    f.__name__ = name
    case(f)


for case_name in subprocess.run([helper("cm_cases"), "--list"], check=True, capture_output=True, text=True).stdout.split():
    make(case_name)


@case
def nothing_is_left_in_the_daemon():
    ok, why = results["left"]
    assert ok, why


if __name__ == "__main__":
    sys.exit(main())
