#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Random sequences of calls on sockets (sock_walk.py): the same ones on the kernel's sockets and on rnicd's, each result,
errno and readiness equal. `test_sock_walks.py` walks 200 seeds; RNIC_WALKS names another number, RNIC_WALK_FIRST the
first of them.
"""
import os
import sys

from rig import PATIENCE, Daemon, Process, case, main, pair_conf
from sock_rig import nothing_left, ours

WALK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sock_walk.py")
FIRST, COUNT = os.environ.get("RNIC_WALK_FIRST", "0"), int(os.environ.get("RNIC_WALKS", "200"))
LONG = (4 + COUNT // 100) * PATIENCE  # a hang


@case
def random_calls_on_sockets_give_what_the_kernels_give():
    kernel = Process([sys.executable, WALK, "127.0.0.1", FIRST, str(COUNT)])
    with Daemon(pair_conf()) as d, nothing_left(d):
        expected = os.path.join(d.dir, "expected")
        with open(expected, "w", encoding="utf-8") as f:
            f.write(kernel.ok(LONG) + "\n")
        p = ours(d, sys.executable, WALK, "10.77.0.1", FIRST, str(COUNT), expected)
        assert p.wait(LONG) == 0, p.stdout() + p.tail()
        os.unlink(expected)


if __name__ == "__main__":
    sys.exit(main())
