#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Compares two builds of this project: python3 test/bench/turns.py OLD_BUILD NEW_BUILD

Each row is measured in turns: the old build, the old build again with a daemon of its own, the new build, and so on.
The machine's speed changes from minute to minute: the ratio of the two old ones shows how much of a ratio is chance.
The memory addresses that a daemon happens to get change its speed, too, so all daemons are restarted every few rounds.
One daemon serves both ends over a pair of ports, with one floating worker. A row prints the median of the old build,
then the ratios old to old and new to old: median, least and most. Above 1 is faster; for latency rows the ratio is
inverted. In rows named "summed" every CRC is summed and checked in both builds (`crc = always`, where a build has that
key); other rows use the default.
"""
import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys

from stage import PATIENCE, BenchError, Stage, end, run

NAMES = ("old", "old again", "new")
BANDWIDTH = [(m, s) for m in ("write_bw", "send_bw", "read_bw") for s in ("64", "64k")]
LATENCY = [(m, "64") for m in ("write_lat", "send_lat", "read_lat")]
GROUPS = (
    ("MTU 1500", {"mtu": 1500}, [*BANDWIDTH, *LATENCY, ("ud_lat", "64")]),
    ("MTU 9000", {"mtu": 9000}, [*((m, s) for m, s in BANDWIDTH if s == "64k"), ("ud_lat", "4096")]),
    ("MTU 1500, summed", {"mtu": 1500, "crc": "always"}, BANDWIDTH),
    ("MTU 9000, summed", {"mtu": 9000, "crc": "always"}, [x for x in BANDWIDTH if x[1] == "64k"]),
    ("MTU 1500, summed, markers", {"mtu": 1500, "crc": "always", "markers": "on"}, [("write_bw", "64k")]),
    ("MTU 1500, 1,024 queue pairs", {"mtu": 1500}, [("write_bw", "64", "--qps", "1024", "--depth", "16")]),
)


class Build:
    """One build with its daemon and its server."""

    def __init__(self, name, folder, args):
        self.name, self.args = name, args
        self.stage = Stage(argparse.Namespace(build=folder, client_cpu=args.server_cpu))
        self.rnicrun = os.path.join(folder, "app", "rnicrun", "rnicrun")
        self.port = str(18700 + NAMES.index(name))

    @contextlib.contextmanager
    def open(self, port_keys):
        keys = dict(port_keys)
        if keys.get("crc") == "always" and "always" not in run([self.stage.rnicd, "--help-config"]):
            keys["crc"] = "on"  # older builds always sum CRCs and do not know the value
        with self.stage.pair({"rnicd": {"workers": self.args.daemon_cpu}, "port": keys}):
            yield self

    def rate(self, mode, size, *more):
        """Messages a second; for a latency mode, how many messages one after the other fit into a second."""
        if mode == "ud_lat":
            return self.datagrams(size)
        argv = [self.stage.testpmd, "-m", mode, "-S", size, "-t", str(self.args.seconds), "-w", "20ms", "--no-verify",
                "--json", "-c", str(self.args.client_cpu), *more, self.stage.ADDR[0]]
        row = json.loads(run(argv, env=self.stage.env))["results"][0]
        return 1e9 / row["lat_p50_ns"] if "_lat" in mode else row["mmsgs_per_s"] * 1e6

    def datagrams(self, size):
        """
        Runs perftest, since testpmd-rdma of older builds has no datagrams. perftest's bandwidth test would hang when a
        datagram is lost.
        """
        def argv(device, cpu):
            return ["stdbuf", "-oL", "taskset", "-c", str(cpu), self.rnicrun, "ib_send_lat", "-c", "UD", "-d", device,
                    "-s", size, "-n", "5000", "-p", self.port]
        with subprocess.Popen(argv("left", self.args.server_cpu), env=self.stage.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as server:
            try:
                line = server.stdout.readline()
                while line and "Waiting for client" not in line:
                    line = server.stdout.readline()
                out = run([*argv("right", self.args.client_cpu), "127.0.0.1"], env=self.stage.env)
                server.communicate(timeout=PATIENCE)
            finally:
                end(server)
        row = re.search(r"^ *\d+ +5000 +\S+ +\S+ +(\S+)", out, re.M)  # columns: size, iterations, least, most, typical
        if not row:
            raise BenchError(f"ib_send_lat of {self.name} printed no row: {out}")
        return 1e6 / float(row[1])


def measure(builds, rows, rounds, seen):
    """Measures one round; appends a figure for each build to seen[row][build name]."""
    for i in rounds:
        turn = builds[i % len(builds):] + builds[:i % len(builds)]
        for r in rows:
            for b in turn:
                seen[r][b.name].append(b.rate(*r))


def ratios(figures, of):
    return [a / b for a, b in zip(figures[of], figures["old"])]


def show(r):
    return f"{statistics.median(r):.3f} ({min(r):.2f} to {max(r):.2f})"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("old", help="build folder before the change")
    a.add_argument("new", help="build folder after the change")
    a.add_argument("--rounds", type=int, default=15)
    a.add_argument("--rounds-a-start", type=int, default=3, help="rounds before a restart of the daemons (default 3)")
    a.add_argument("--seconds", type=float, default=0.3, help="length of one run, seconds (default 0.3)")
    a.add_argument("--rows", default="", help="only rows whose name matches this regular expression")
    a.add_argument("--daemon-cpu", default="0")
    a.add_argument("--server-cpu", default="1")
    a.add_argument("--client-cpu", default="1")
    args = a.parse_args()
    if args.rounds_a_start < 1:
        raise BenchError("--rounds-a-start: at least 1")
    medians = []
    groups = [(g, keys, [r for r in rows if re.search(args.rows, f"{g}: {' '.join(r)}")]) for g, keys, rows in GROUPS]
    groups = [g for g in groups if g[2]]
    if not groups:
        raise BenchError(f"no row matches '{args.rows}': row names look like 'MTU 1500: write_bw 64'")
    print(f"| row | old, a second | old again : old | new : old |\n|{'---|' * 4}")
    for group, keys, rows in groups:
        seen = {r: {n: [] for n in NAMES} for r in rows}
        for i in range(0, args.rounds, args.rounds_a_start):
            with contextlib.ExitStack() as stack:
                builds = [stack.enter_context(Build(n, args.new if n == "new" else args.old, args).open(keys))
                          for n in NAMES]
                measure(builds, rows, range(i, min(i + args.rounds_a_start, args.rounds)), seen)
        for r in rows:
            new = ratios(seen[r], "new")
            medians.append(statistics.median(new))
            print(f"| {group}: {' '.join(r)} | {statistics.median(seen[r]['old']):,.0f} | "
                  f"{show(ratios(seen[r], 'old again'))} | {show(new)} |", flush=True)
    print(f"\nmedian of new : old over all rows: {statistics.median(medians):.3f}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as e:
        sys.exit(f"turns.py: {e}")
