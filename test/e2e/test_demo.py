#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/demo.sh does what it shows and leaves nothing behind, also when it is interrupted."""
import glob
import os
import signal
import subprocess
import time

from rig import BUILD, PATIENCE, case, main

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def start():
    return subprocess.Popen([os.path.join(SOURCE, "scripts", "demo.sh"), BUILD], cwd=SOURCE, text=True, errors="replace",
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def members(session):
    """Processes of a session that still run."""
    out = []
    for p in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(p, encoding="ascii", errors="replace") as f:
                name, rest = f.read().rsplit(")", 1)
        except OSError:
            continue
        state, _, _, sid = rest.split()[:4]
        if int(sid) == session and state not in "ZX":
            out.append(name)
    return out


def folders():
    return set(glob.glob("/tmp/rnic-demo.*"))


def gone(p, before):
    end = time.monotonic() + 10
    while members(p.pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not members(p.pid), f"still running: {members(p.pid)}"
    assert not folders() - before, f"left: {folders() - before}"


@case
def demo_runs_and_leaves_nothing():
    before = folders()
    p = start()
    out, _ = p.communicate(timeout=5 * PATIENCE)
    assert p.returncode == 0, out
    for word in ("ready", "client:", "server:", "write_lat", "read_bw", "nothing left behind"):
        assert word in out, f"no '{word}' in:\n{out}"
    gone(p, before)


@case
def interrupted_demo_leaves_nothing():
    for wait in (0.3, 4):
        before = folders()
        p = start()
        time.sleep(wait)
        os.killpg(p.pid, signal.SIGINT)
        out, _ = p.communicate(timeout=PATIENCE)
        assert p.returncode != 0, out
        gone(p, before)


if __name__ == "__main__":
    raise SystemExit(main())
