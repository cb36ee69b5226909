#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The rivals that need a kernel module: Linux siw and rxe, in the guest that test/interop boots, and siw against rnicd.

Qemu emulates each instruction of the guest (TCG), which makes the guest many times slower than the machine that it runs
on: figures of the guest compare with each other, and with nothing else. Therefore the kernel's own TCP is measured in
the same guest over the same path, and the figure to look at is a rival's share of TCP's. In the pair of siw and rnicd
rnicd runs on the host, where nothing is emulated: that pair is as fast as siw.

Leaves rivals.json, which the report page shows. Needs root, qemu and Debian's packages; names what is missing.
"""
import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CAVEAT = ("Linux siw and rxe run in a guest, and qemu emulates each instruction of the guest (TCG). Compare these "
          "figures with each other only, not with the other tables. \"Of TCP\" is the ratio of a row to the kernel's "
          "TCP over the same path, in bandwidth or in latency.")
PATIENCE = 120  # seconds: a guest without a CPU of its own is slow
WAYS = ("guest to itself", "host to guest")


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default="build", help="build directory (default: build)")
    a.add_argument("--rounds", type=int, default=3, help="how often each row is measured (default: 3)")
    a.add_argument("--seconds", type=float, default=1, help="length of one measurement (default: 1)")
    a.add_argument("--only", default="", metavar="TEXT", help="only rows whose name contains TEXT")
    a.add_argument("--out", default=None, metavar="DIR", help="folder for rivals.json (default: BUILD/bench)")
    return a.parse_args()


class Rival:
    """One figure. of: the name of the TCP row that the figure is compared with."""

    def __init__(self, name, unit, device, argv, way, of=None):
        self.name, self.unit, self.device, self.argv, self.way, self.of = name, unit, device, argv, way, of
        self.values, self.failure = [], None

    def told(self, results):
        values = self.values
        median = statistics.median(values) if values else None
        tcp = results.get(self.of)
        return {"name": self.name, "unit": self.unit, "command": " ".join(self.argv), "values": values,
                "median": median, "failure": None if values else self.failure,
                "of_tcp": median / tcp if median and tcp else None}


def rivals(seconds):
    """The rows in the order in which they run: all rows of one device of the guest, then those of the next device."""
    out = []
    for way in WAYS:
        for name, unit, test, size in ((f"kernel TCP, 64 KiB, {way}", "GB/s", "tcp_bw", "64K"),
                                       (f"kernel TCP latency, 64 B, {way}", "us", "tcp_lat", "64")):
            out.append(Rival(name, unit, "tcp", ["qperf", "{to}", "-t", str(max(1, round(seconds))), "-m", size, "-uu",
                                                 test], way))
    for device, ways in (("siw", WAYS), ("rxe", WAYS[:1])):
        for way in ways:
            # each ping-pong waits for events (--events): the guest has one CPU
            what = f"{device}, {way}" if way == WAYS[0] else "rnicd to siw"
            for mode in ("write", "read", "send"):
                out.append(Rival(f"{mode.capitalize()} 64 KiB, {what}", "GB/s", device,
                                 ["testpmd-rdma", "--mode", f"{mode}_bw", "--size", "64k", "--seconds", str(seconds),
                                  "--json", "{to}"], way, f"kernel TCP, 64 KiB, {way}"))
            out.append(Rival(f"Send latency, 64 B, {what}", "us", device,
                             ["testpmd-rdma", "--mode", "send_lat", "--events", "--size", "64", "--seconds",
                              str(seconds), "--json", "{to}"], way, f"kernel TCP latency, 64 B, {way}"))
    return out


UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6, "bytes/sec": 1e-9, "KB/sec": 1e-6, "MB/sec": 1e-3, "GB/sec": 1}


def figure_of(row, text):
    if row.device == "tcp":
        words = text.split()
        i = words.index("=")
        return float(words[i + 1].replace(",", "")) * UNITS[words[i + 2]]
    result, = json.loads(text)["results"]
    if result["wrong"] or not result["ops"]:
        raise ValueError("data has changed on the way" if result["wrong"] else "no request was completed in time")
    return result["gbytes_per_s"] if row.unit == "GB/s" else result["lat_p50_ns"] / 1e3


class Place:
    """The guest, and an rnicd at the host's end of the guest's network. kit: the module test/interop/batch.py."""

    def __init__(self, kit, g, d):
        self.kit, self.g, self.d = kit, g, d
        self.device = "siw"

    def kernel(self):
        return self.g.sh("uname -r").strip()

    def use(self, device):
        """Makes sure that only the wanted device exists: siw0 and rxe0 would both claim eth0's address."""
        if device in ("tcp", self.device):
            return
        self.g.sh(f"rdma link delete {self.device}0; rdma link add {device}0 type {device} netdev eth0")
        self.device = device

    def measure(self, row):
        self.use(row.device)
        to, inside = self.kit.GUEST, row.way == WAYS[0]
        argv = [w.format(to=to) for w in row.argv]
        if row.device == "tcp":
            server = self.g.run("qperf")
            self.g.sh(f"until qperf {to} -t 1 conf >/dev/null 2>&1; do sleep 0.2; done")
        else:
            server = self.g.run(f"testpmd-rdma -s -a {to}")
            server.wait_line("listening")
        try:
            if inside:
                return figure_of(row, self.g.sh(" ".join(argv), PATIENCE))
            program = os.path.join(self.kit.BUILD, "app", "testpmd-rdma", argv[0]) if row.device != "tcp" else argv[0]
            return figure_of(row, self.d.run(program, *argv[1:]).ok(PATIENCE))
        finally:
            server.stop()


def kit_of(build):
    """Imports test/interop/batch.py, which reads the build's path from the environment when it is imported."""
    os.environ["RNIC_BUILD"] = os.path.abspath(build)
    sys.path[:0] = [os.path.join(HERE, "..", "interop"), os.path.join(HERE, "..", "e2e")]
    import batch  # pylint: disable=import-outside-toplevel
    return batch


def why(e):
    return " / ".join(str(e).strip().splitlines()[:6]) or repr(e)


def measure(place, row, rounds):
    try:
        for _ in range(rounds):
            row.values.append(place.measure(row))
    except (AssertionError, ValueError, KeyError, IndexError, OSError) as e:
        row.failure = why(e)
    shown = f"{statistics.median(row.values):9.4g} {row.unit}" if row.values else f"failed: {row.failure}"
    print(f"{row.name:<44} {shown}", flush=True)


def run(args):
    rows = [r for r in rivals(args.seconds) if args.only in r.name]
    kit = kit_of(args.build)
    g = kit.Guest()
    try:
        with kit.Daemon(kit.conf(capture=False)) as d:
            place = Place(kit, g, d)
            kernel = place.kernel()
            for r in rows:
                measure(place, r, args.rounds)
    finally:
        g.close()
    medians = {r.name: statistics.median(r.values) for r in rows if r.values}
    return {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "kernel": kernel, "caveat": CAVEAT,
            "rounds": args.rounds, "rows": [r.told(medians) for r in rows]}


def main():
    args = arguments()
    kit = kit_of(args.build)
    try:
        doc = run(args)
    except kit.Skip as e:
        print(f"bench: the rivals cannot be measured here: {e}", file=sys.stderr)
        return 77
    out = args.out or os.path.join(args.build, "bench")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "rivals.json"), "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
