#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collective operations of gloo, which PyTorch uses, over its ibverbs transport: gloo_ranks.cc checks each result."""
import os
import subprocess
import sys

from rig import RNICRUN, Daemon, Skip, case, main, need, pair_conf

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gloo_ranks.cc")
HEADER = "/usr/include/gloo/transport/ibverbs/device.h"


def ranks(count, personality):
    need("g++")
    if not os.path.exists(HEADER):
        raise Skip("libgloo-dev is not installed")
    with Daemon(pair_conf(both=f"personality = {personality}")) as d:
        program = d.dir + "/gloo_ranks"
        subprocess.run(["g++", "-O2", SOURCE, "-o", program, "-lgloo", "-libverbs"], check=True)
        os.chmod(program, 0o755)
        meeting = d.dir + "/meeting"
        os.mkdir(meeting)
        os.chmod(meeting, 0o777)
        every = [d.run(RNICRUN, program, "ab"[rank % 2], str(rank), str(count), meeting) for rank in range(count)]
        for rank, p in enumerate(every):
            p.ok(300)
            assert f"rank {rank} of {count}: all results are right" in p.stdout(), p.tail()
        sent = d.telemetry("/rnic/counters")
        assert sent["fpdus_out"] > 1000, sent


@case
def two_ranks_on_an_rnic():
    ranks(2, "iwarp")


@case
def four_ranks_on_an_adapter():
    ranks(4, "roce")


if __name__ == "__main__":
    sys.exit(main())
