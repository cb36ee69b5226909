#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What all processes of the machine share: hugepages and /dev/shm. These cases count or take all of it, so this program
runs alone.
"""
import os
import re
import signal
import sys

from rig import RNICRUN, TESTPMD, Daemon, Process, Skip, case, helper, main, moves, pair_conf, until


def free_hugepages():
    with open("/proc/meminfo", encoding="ascii") as f:
        return int(re.search(r"HugePages_Free:\s*(\d+)", f.read()).group(1))


@case
def big_allocations_are_hugepages():
    if free_hugepages() < 100:
        raise Skip("fewer than 100 hugepages are free")
    p = Process([RNICRUN, "--huge", helper("huge_cases")])
    p.ok()
    assert p.stderr() == "", p.tail()
    with Daemon(pair_conf()) as d:
        d.run(RNICRUN, "--huge", helper("verbs_cases"), "10.77.0.1", "10.77.0.2", "large_messages_both_ways_at_once").ok()


@case
def without_hugepages_one_sentence_says_so():
    p = Process([RNICRUN, "--huge", helper("huge_cases"), "--without"])
    p.ok()
    assert len(p.err) == 1 and "raise vm.nr_hugepages" in p.err[0], p.tail()


@case
def killed_daemon_and_client_give_their_memory_back():
    def shm():
        return sorted(os.listdir("/dev/shm"))

    before = shm()
    d = Daemon(pair_conf())
    try:
        s = d.run(TESTPMD, "-s", "-a", "10.77.0.1", "-p", "7400", "--once")
        s.wait_line("listening")
        c = d.run(TESTPMD, "--mode", "soak", "-p", "7400", "--seconds", "600", "10.77.0.1")
        moves(d, 7400)
        taken = free_hugepages()
        for p in (d, c, s):
            p.stop(signal.SIGKILL)
        # other programs on this machine take and free hugepages; the daemon's are many more
        if "hugepages, socket" in d.stdout():
            until(lambda: free_hugepages() >= taken + 64, "rnicd's hugepages are not free again")
        assert shm() == before
    finally:
        d.close()


if __name__ == "__main__":
    sys.exit(main())
