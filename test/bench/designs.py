#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Where iWARP runs, and what it costs: the designs offloaded, assisted, host and embedded in turns, over message sizes.
For each size it tells the latency of a Write that is answered by a Write, the bandwidth of Writes, and the CPU time
behind that bandwidth: of both programs together, and of rnicd, whose workers run all of iWARP, TCP and the sums of
CRCs, TCP alone, or nothing.

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

    def run(self, mode, size, seconds):
        """The client's row, seconds of CPU of the two programs, and of rnicd."""
        argv = [self.stage.testpmd, "-m", mode, "-S", str(size), "-t", str(seconds), "--warmup", "1", "--json",
                "--no-verify", "--quiet", "-p", self.port, self.addr]
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


def measure(places, sizes, rounds, seconds):
    """[design][size]: lists of latency in us, GB/s, ns of the programs' CPU and of rnicd's for each 1,000 bytes."""
    seen = {p.design: {s: ([], [], [], []) for s in sizes} for p in places}
    for r in range(rounds):
        for size in sizes:
            for p in places:
                latency = p.run("write_lat", size, seconds)[0]
                row, clients, workers = p.run("write_bw", size, seconds)
                figures = (latency["lat_p50_ns"] / 1e3, row["gbytes_per_s"], clients * 1e12 / row["bytes"],
                           workers * 1e12 / row["bytes"])
                for kept, figure in zip(seen[p.design][size], figures):
                    kept.append(figure)
        print(f"round {r + 1} of {rounds} is done", file=sys.stderr, flush=True)
    return {d: {s: [statistics.median(v) for v in lists] for s, lists in by.items()} for d, by in seen.items()}


def table(found, sizes):
    titles = ("latency, us (median)", "bandwidth, GB/s", "CPU of the programs, ns per 1,000 bytes",
              "CPU of rnicd, ns per 1,000 bytes")
    for i, title in enumerate(titles):
        print(f"\n{title}\n\n| bytes | " + " | ".join(found) + " |\n" + "|---" * (1 + len(found)) + "|")
        for size in sizes:
            print(f"| {size} | " + " | ".join(f"{found[d][size][i]:.3g}" for d in found) + " |")


def number(text):
    unit = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower())
    return int(text[:-1]) * unit if unit else int(text)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    a.add_argument("--sizes", default=SIZES, help=f"bytes of a message (default {SIZES})")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=0.3, help="of one run (default 0.3)")
    a.add_argument("--json", action="store_true", help="one JSON document in place of the tables")
    args = a.parse_args()
    sizes = [number(s) for s in args.sizes.split(",")]
    stage = Stage(args)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(stage.pair(KEYS, serve=False))
            places = [stack.enter_context(Place(stage, d).open()) for d in DESIGNS]
            found = measure(places, sizes, args.rounds, args.seconds)
    except BenchError as e:
        print(f"designs.py: {e}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(found))
    else:
        table(found, sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
