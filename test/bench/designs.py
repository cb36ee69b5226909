#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Where iWARP runs, and what it costs: the designs offloaded, assisted, host and embedded in turns.

Over message sizes: the latency of a Write that is answered by a Write, the bandwidth of Writes, and the CPU time behind
that bandwidth: of both programs together, and of rnicd, whose workers run all of iWARP, TCP and the sums of CRCs, TCP
alone, or nothing.

Over computation between requests: the bandwidth of Writes, and the same CPU times, when the client computes after each
request that it posts, and does not look at its device meanwhile. The CPU of the programs contains this computation.

The first three run over a pair of ports of one rnicd with every CRC summed (crc = always); embedded runs over the
kernel's loopback. Each figure is the median of the rounds.
"""
import argparse
import contextlib
import glob
import json
import os
import statistics
import subprocess
import sys

from stage import BenchError, Stage, end

HERE = os.path.dirname(os.path.abspath(__file__))
DESIGNS = ("offloaded", "assisted", "host", "embedded")
SIZES = "64,1k,4k,16k,64k,256k,1m"
COMPUTATION = "0,10,20,50,100,200"  # us
COMPUTE_SIZES = "4k,128k"
BANDWIDTH = "bandwidth, GB/s", "CPU of the programs, ns per 1,000 bytes", "CPU of rnicd, ns per 1,000 bytes"
KEYS = {"rnicd": {"workers": 1}, "port": {"mtu": 9000, "crc": "always"}}


def cpu_ns(pid):
    """What all threads of a process have run."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as f:
            total += int(f.read().split()[0])
    return total


class Place:
    """A server in one design, and clients of it."""

    def __init__(self, stage, design):
        self.stage, self.design = stage, design
        self.addr = "127.0.0.1" if design == "embedded" else stage.ADDR[0]
        self.port = str(18600 + DESIGNS.index(design))
        self.env = dict(stage.env, RNIC_DESIGN=design)

    @contextlib.contextmanager
    def open(self):
        log = os.path.join(self.stage.directory, f"{self.design}.log")
        with open(log, "w", encoding="utf-8") as f:
            self.server = subprocess.Popen([self.stage.testpmd, "-s", "-a", self.addr, "-p", self.port], stdout=f,
                                           stderr=f, env=self.env)
        try:
            self.stage.wait_for(self.server, log, "listening", "testpmd-rdma -s")
            yield self
        finally:
            end(self.server)

    def run(self, mode, size, seconds, *more):
        """The client's row, seconds of CPU of the two programs, and of rnicd."""
        argv = [self.stage.testpmd, "-m", mode, "-S", str(size), "-t", str(seconds), "--warmup", "1", "--json",
                "--no-verify", "--quiet", *more, "-p", self.port, self.addr]
        before = cpu_ns(self.server.pid), cpu_ns(self.stage.d.p.pid)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env) as p:
            out = p.stdout.read()
            err = p.stderr.read()
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode != 0:
            raise BenchError(f"{' '.join(argv)} ({self.design}): {err.strip() or out.strip()}")
        clients = (cpu_ns(self.server.pid) - before[0]) / 1e9 + usage.ru_utime + usage.ru_stime
        return json.loads(out)["results"][0], clients, (cpu_ns(self.stage.d.p.pid) - before[1]) / 1e9


def bandwidth(place, size, seconds, *more):
    """GB/s, ns of the programs' CPU and of rnicd's for each 1,000 bytes."""
    row, clients, workers = place.run("write_bw", size, seconds, *more)
    return row["gbytes_per_s"], clients * 1e12 / row["bytes"], workers * 1e12 / row["bytes"]


def in_turns(places, points, rounds, figures):
    """[design][point]: the median of each of the figures(place, point). In each round a point is run in each design."""
    seen = {p.design: {point: [] for point in points} for p in places}
    for r in range(rounds):
        for point in points:
            for p in places:
                seen[p.design][point].append(figures(p, point))
        print(f"round {r + 1} of {rounds} is done", file=sys.stderr, flush=True)
    return {d: {point: [statistics.median(v) for v in zip(*rows)] for point, rows in by.items()}
            for d, by in seen.items()}


def over_sizes(places, sizes, rounds, seconds):
    def figures(place, size):
        latency = place.run("write_lat", size, seconds)[0]
        return (latency["lat_p50_ns"] / 1e3, *bandwidth(place, size, seconds))
    return in_turns(places, sizes, rounds, figures)


def over_computation(places, times, size, rounds, seconds):
    """One request a post, so that the computation lies between requests."""
    return in_turns(places, times, rounds, lambda place, us: bandwidth(
        place, size, seconds, "--batch", "1", "--depth", "16", "--compute", f"{us}us"))


def table(found, what, titles, of=""):
    for i, title in enumerate(titles):
        print(f"\n{title}{of}\n\n| {what} | " + " | ".join(found) + " |\n" + "|---" * (1 + len(found)) + "|")
        for point in next(iter(found.values())):
            print(f"| {point} | " + " | ".join(f"{by[point][i]:.3g}" for by in found.values()) + " |")


def number(text):
    unit = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower())
    return int(text[:-1]) * unit if unit else int(text)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    a.add_argument("--sizes", default=SIZES, help=f"bytes of a message (default {SIZES})")
    a.add_argument("--computation", default=COMPUTATION, help=f"us of it between requests (default {COMPUTATION})")
    a.add_argument("--compute-sizes", default=COMPUTE_SIZES, help="bytes of a message with computation between "
                   f"requests (default {COMPUTE_SIZES})")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=0.3, help="of one run (default 0.3)")
    a.add_argument("--json", action="store_true", help="one JSON document in place of the tables")
    args = a.parse_args()
    sizes, compute_sizes = ([number(s) for s in text.split(",")] for text in (args.sizes, args.compute_sizes))
    times = [int(us) for us in args.computation.split(",")]
    stage = Stage(args)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(stage.pair(KEYS, serve=False))
            places = [stack.enter_context(Place(stage, d).open()) for d in DESIGNS]
            found = over_sizes(places, sizes, args.rounds, args.seconds)
            computing = {s: over_computation(places, times, s, args.rounds, args.seconds) for s in compute_sizes}
    except BenchError as e:
        print(f"designs.py: {e}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({"sizes": found, "computation": computing}))
        return 0
    table(found, "bytes", ("latency, us (median)", *BANDWIDTH))
    for size, by in computing.items():
        table(by, "us of computation", BANDWIDTH, f", with computation between requests of {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
