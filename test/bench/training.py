#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Sends the messages that a build with a profile is trained with (scripts/pgo.sh): python3 test/bench/training.py BUILD

One daemon serves both ends over a pair of ports: short and long messages by connections, unreliable and reliable
datagrams, with small and large packets, with CRCs summed and left out.
"""
import argparse
import itertools
import os

from stage import Stage, run

PORTS = ({"mtu": 1500}, {"mtu": 1500, "crc": "always"}, {"mtu": 9000, "crc": "always"})
TYPES = ("rc", "ud", "rd")
MODES = ("write_bw", "send_bw", "read_bw")
SIZES = ("64", "64k")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("build", help="build folder")
    a.add_argument("--seconds", type=float, default=0.5, help="length of each run, seconds (default 0.5)")
    args = a.parse_args()
    stage = Stage(argparse.Namespace(build=args.build, client_cpu=max(os.sched_getaffinity(0))))
    runs = [*itertools.product(TYPES, MODES, SIZES), *((t, m, "64") for t in TYPES for m in ("write_lat", "send_lat"))]
    for keys in PORTS:
        with stage.pair({"rnicd": {}, "port": keys}):
            for kind, mode, size in runs:
                run([stage.testpmd, "--qp-type", kind, "-m", mode, "-S", size, "-t", str(args.seconds), "-w", "20ms",
                     "--json", "-c", str(stage.args.client_cpu), stage.ADDR[0]], env=stage.env)
    print(f"training: {len(PORTS) * len(runs)} runs of {args.seconds} s")


main()
