#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Runs random sequences of calls on sockets (sock_walk.py) on the kernel's sockets and on rnicd's: each result, errno and
readiness must be equal. `test_sock_walks.py` walks 200 seeds, and those that once were not equal; RNIC_WALKS sets
another number of seeds, RNIC_WALK_FIRST the first of them.
"""
import functools
import sys

from rig import Daemon, case, main, pair_conf
from sock_rig import nothing_left, ours
from walk_rig import SEEDS, walk

# Faults that these seeds once found: a read and a write that reported a reset before the end of the stream; connect()
# after shutdown(); MSG_WAITALL and a reset; two threads of the walk that raced.
ONCE = "731,1285,2742,3289,3548,5259,6269,6413,7314"


def walk_of_rnicd(seeds, both=""):
    with Daemon(pair_conf(both=both)) as d, nothing_left(d):
        walk(functools.partial(ours, d), "10.77.0.1", seeds)


@case
def random_calls_on_sockets_give_what_the_kernels_give():
    walk_of_rnicd(SEEDS)


@case
def random_calls_on_sockets_over_iwarp_give_what_the_kernels_give():
    walk_of_rnicd(SEEDS, "stream-wire = iwarp")


@case
def calls_that_gave_something_else_once_give_what_the_kernels_give():
    walk_of_rnicd(ONCE)


if __name__ == "__main__":
    sys.exit(main())
