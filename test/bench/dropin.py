#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The cost of running a program that is not linked with librnic, and the speed of other people's programs compared with
our own: in one run, interleaved, over one daemon with two wired ports.

	linked/preloaded	testpmd-rdma linked with librnic, and testpmd-rdma linked with libibverbs and librdmacm
				and run under rnicrun: rate and latency of Writes of 64 B; with valgrind also the
				instructions of a post
	ib_write_bw		64 KiB Writes of perftest with -R, compared with those of testpmd-rdma; the daemon runs
				on one CPU, both clients on the other
	spinning		ib_write_lat with -R, compared with testpmd-rdma's write_lat; both clients spin and may
				run on both CPUs

Prints medians, ratios and their targets ("bars"). A measurement, not a test. Needs root and two CPUs; on a
machine with other work use `chrt -f 10 test/bench/dropin.py`.

usage: dropin.py [--rounds N] [--seconds N] [--daemon-cpu N] [--client-cpu N]
"""
import argparse
import json
import os
import re
import shutil
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from rig import RNICRUN, TESTPMD, Daemon, pair_conf  # pylint: disable=wrong-import-position

ADDR = "10.77.0.1"


class Bench:
    def __init__(self, args):
        self.args = args
        self.both = f"{args.daemon_cpu},{args.client_cpu}"

    def testpmd(self, d, preloaded, cpus, mode, size):
        """Runs testpmd-rdma; returns its result."""
        pin = ["taskset", "-c", cpus]
        exe = [RNICRUN, TESTPMD + "-verbs"] if preloaded else [TESTPMD]
        s = d.run(*pin, *exe, "-s", "-a", ADDR, "--once")
        s.wait_line("listening")
        r = json.loads(d.run(*pin, *exe, "-m", mode, "-S", size, "-t", str(self.args.seconds), "--json", ADDR).ok())["results"][0]
        s.ok()
        assert r["wrong"] == 0
        return r

    @staticmethod
    def perftest(d, cpus, *argv):
        """Runs a program of perftest; returns the columns of its line of figures."""
        pin = ["taskset", "-c", cpus, RNICRUN]
        for _ in range(10):
            s = d.run(*pin, *argv)
            time.sleep(0.3)
            c = d.run(*pin, *argv, ADDR)
            rc = c.wait()
            s.stop() if rc else s.ok()
            row = re.search(r"^\s*\d+\s+\d+\s+[\d.]+.*$", c.stdout(), re.M)
            if rc == 0 and row:
                return [float(x) for x in row.group(0).split()]
        raise SystemExit(f"dropin: {c.tail()}")

    def posts(self, d, preloaded):
        """Instructions of librnic for one posted work request, counted by callgrind."""
        out = os.path.join(d.dir, "callgrind.out")
        exe = TESTPMD + "-verbs" if preloaded else TESTPMD
        s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        s.wait_line("listening")
        n = 20000
        grind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=rnic_post_send"]
        run = [RNICRUN] if preloaded else []
        d.run(*run, *grind, exe, "-m", "write_bw", "-S", "64", "-n", str(n), "-w", "0", "--batch", "1", "--signal-every", "16",
              "--inline", "0", "--no-verify", "--quiet", ADDR).ok(120)
        s.ok()
        with open(out, encoding="utf-8") as f:
            return int(re.search(r"^totals: (\d+)", f.read(), re.M).group(1)) / n


def row(what, ours, theirs, unit, bar, good):
    ratio = theirs / ours
    print(f"{what:46} {ours:10.3f} {theirs:10.3f} {unit:6} {ratio:6.3f}   {bar:9} {'' if good(ratio) else 'MISSED'}", flush=True)
    return good(ratio)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--daemon-cpu", type=int, default=0)
    p.add_argument("--client-cpu", type=int, default=1)
    args = p.parse_args()
    b = Bench(args)
    got = {}

    def note(name, value):
        got.setdefault(name, []).append(value)

    client = str(args.client_cpu)
    with Daemon(pair_conf(rnicd=f"workers = {args.daemon_cpu}\npoll = busy")) as d:
        for i in range(args.rounds):
            order = (False, True) if i & 1 else (True, False)
            for preloaded in order:
                note(f"rate {preloaded}", b.testpmd(d, preloaded, client, "write_bw", "64")["mmsgs_per_s"])
            for preloaded in order:
                note(f"lat {preloaded}", b.testpmd(d, preloaded, client, "write_lat", "64")["lat_p50_ns"] / 1000)
            note("bw ours", b.testpmd(d, False, client, "write_bw", "64k")["gbytes_per_s"])
            note("bw perftest", b.perftest(d, client, "ib_write_bw", "-R", "-s", "65536", "-n", "20000")[3] * 1.048576e-3)
        if shutil.which("valgrind"):
            for preloaded in (False, True):
                note(f"post {preloaded}", b.posts(d, preloaded))
    # Three spinning threads on two CPUs take turns only under the ordinary scheduler: real-time threads would never
    # yield.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with Daemon(pair_conf(rnicd=f"workers = {args.daemon_cpu}")) as d:
        for _ in range(args.rounds):
            note("spin ours", b.testpmd(d, False, b.both, "write_lat", "64")["lat_p50_ns"] / 1000)
            note("spin perftest", b.perftest(d, b.both, "ib_write_lat", "-R", "-s", "64", "-n", "5000")[4])
    m = {k: statistics.median(v) for k, v in got.items()}
    print(f"{'medians of ' + str(args.rounds) + ' rounds':46} {'ours':>10} {'theirs':>10} {'':6} {'ratio':>6}   bar")
    row("64 B writes, testpmd-rdma linked/preloaded", m["rate False"], m["rate True"], "M/s", ">= 0.98", lambda r: r >= 0.98)
    row("64 B write latency, linked/preloaded", m["lat False"], m["lat True"], "us", "<= 1.02", lambda r: r <= 1.02)
    if "post True" in m:
        row("instructions of a post, linked/preloaded", m["post False"], m["post True"], "", "<= 1.02", lambda r: r <= 1.02)
    row("64 KiB writes, testpmd-rdma/ib_write_bw -R", m["bw ours"], m["bw perftest"], "GB/s", ">= 0.90", lambda r: r >= 0.90)
    row("latency, spinning: testpmd-rdma/ib_write_lat -R", m["spin ours"], m["spin perftest"], "us", "<= 3", lambda r: r <= 3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
