#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Runs random sequences of calls on sockets (sock_walk.py) on the kernel's sockets and on rnicd's: each result, errno and
readiness must be equal. `test_sock_walks.py` walks 200 seeds, and those that once were not equal; RNIC_WALKS sets
another number of seeds, RNIC_WALK_FIRST the first of them.
"""
import os
import re
import sys

from rig import PATIENCE, Daemon, Process, case, main, pair_conf
from sock_rig import nothing_left, ours

WALK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sock_walk.py")
FIRST, COUNT = int(os.environ.get("RNIC_WALK_FIRST", "0")), int(os.environ.get("RNIC_WALKS", "200"))
LONG = (4 + COUNT // 100) * PATIENCE  # seconds; longer is a hang
# Faults that these seeds once found: a read and a write that reported a reset before the end of the stream; connect()
# after shutdown(); MSG_WAITALL and a reset; two threads of the walk that raced.
ONCE = "731,1285,2742,3289,3548,5259,6269,6413,7314"


def kernels(seeds):
    return Process([sys.executable, WALK, "127.0.0.1", seeds]).ok(LONG).splitlines()


def different(d, seeds, expected):
    """The walks that differ from the expected ones: seed and text."""
    path = os.path.join(d.dir, "expected")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(expected) + "\n")
    p = ours(d, sys.executable, WALK, "10.77.0.1", seeds, path)
    p.wait(LONG)
    os.unlink(path)
    found = re.findall(r"^seed (\d+), .*", p.stdout(), re.M)
    assert p.p.returncode == (1 if found else 0), p.tail()
    return {seed: p.stdout() + p.tail() for seed in found}


def same_again(d, seed, expected):
    """Whether a seed differs only because the kernel's own walk varies. An expectation counts only if two walks on the
    kernel's sockets give it."""
    for _ in range(5):
        again = kernels(seed)
        if again == expected:
            return False
        if not different(d, seed, again):
            return True
        expected = again
    return False


def walk(seeds, both=""):
    expected = kernels(seeds)
    with Daemon(pair_conf(both=both)) as d, nothing_left(d):
        for seed, text in different(d, seeds, expected).items():
            of_seed = [line for line in expected if line.startswith(f"[{seed},")]
            assert same_again(d, seed, of_seed), text


@case
def random_calls_on_sockets_give_what_the_kernels_give():
    walk(f"{FIRST}-{FIRST + COUNT - 1}")


@case
def random_calls_on_sockets_over_iwarp_give_what_the_kernels_give():
    walk(f"{FIRST}-{FIRST + COUNT - 1}", "stream-wire = iwarp")


@case
def calls_that_gave_something_else_once_give_what_the_kernels_give():
    walk(ONCE)


if __name__ == "__main__":
    sys.exit(main())
