# SPDX-License-Identifier: BSD-3-Clause
"""
Runs random sequences of calls on sockets (sock_walk.py) on the kernel's sockets and on others: each result, errno and
readiness must be equal. RNIC_WALKS sets the number of seeds, RNIC_WALK_FIRST the first of them.
"""
import os
import re
import sys
import tempfile

from rig import PATIENCE, Process

WALK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sock_walk.py")
FIRST, COUNT = int(os.environ.get("RNIC_WALK_FIRST", "0")), int(os.environ.get("RNIC_WALKS", "200"))
LONG = (4 + COUNT // 100) * PATIENCE  # seconds; longer is a hang
SEEDS = f"{FIRST}-{FIRST + COUNT - 1}"


def kernels(seeds):
    return Process([sys.executable, WALK, "127.0.0.1", seeds]).ok(LONG).splitlines()


def different(run, address, seeds, expected):
    """The walks that differ from the expected ones: seed and text."""
    with tempfile.NamedTemporaryFile("w", prefix="rnic-test-", encoding="utf-8") as f:
        os.chmod(f.name, 0o644)
        f.write("\n".join(expected) + "\n")
        f.flush()
        p = run(sys.executable, WALK, address, seeds, f.name)
        p.wait(LONG)
    found = re.findall(r"^seed (\d+), .*", p.stdout(), re.M)
    assert p.p.returncode == (1 if found else 0), p.tail()
    return {seed: p.stdout() + p.tail() for seed in found}


def same_again(run, address, seed, expected):
    """Whether a seed differs only because the kernel's own walk varies. An expectation counts only if two walks on the
    kernel's sockets give it."""
    for _ in range(5):
        again = kernels(seed)
        if again == expected:
            return False
        if not different(run, address, seed, again):
            return True
        expected = again
    return False


def walk(run, address, seeds):
    """run(PROGRAM, ARGUMENT ...) starts a program whose sockets at the address are to be compared with the kernel's."""
    expected = kernels(seeds)
    for seed, text in different(run, address, seeds, expected).items():
        of_seed = [line for line in expected if line.startswith(f"[{seed},")]
        assert same_again(run, address, seed, of_seed), text
