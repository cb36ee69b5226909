#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The cost of hostile peers for others: two well-behaved clients move data over a wired pair while a tap of the same
daemon, served by the same worker, is attacked. The worker runs on CPU 0, all other processes on CPU 1, so the
attacker's own work slows the clients down. A control run shows by how much: the attacker sends the same frames on a
link where nobody listens. Prints for each attack: the part of the worker's time that the attack alone takes (cycles of
the turns that found something to do), the throughput that is left to the clients, the daemon's memory, and the counters
that moved. A measurement, not a test. Needs root; on a machine with other work use `chrt -f 10 test/bench/floods.py`.

usage: floods.py [--seconds N] [--rounds N] [ATTACK ...]
"""
import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import attacks  # pylint: disable=wrong-import-position
import wire  # pylint: disable=wrong-import-position
from attacks import CONF, PORT, opened  # pylint: disable=wrong-import-position
from rig import TESTPMD, Daemon  # pylint: disable=wrong-import-position

RATE = 20000  # frames per second that an attacker sends
TCP_COUNTERS = {"out_of_order", "out_of_order_dropped", "duplicates", "duplicate_acks", "idle_acks", "challenges", "dropped"}
WORKER = "workers = 0\npoll = busy\nstage-cycles = yes"
OTHERS = {1}


# ---- attackers: each runs in a process of its own until it is killed ----

def at_rate(name, real):
    """Sends the frames of an attack, RATE a second, for ever."""
    out = wire.Frames("rt0" if real else "dead0")
    if name == "SYN flood":
        frames = attacks.syns(out.mac, 20000)
    else:
        peer = opened() if real else None
        frames = attacks.segments(attacks.SEGMENTS[name], out.mac, attacks.learn(peer) if real else (1, 2, 3, 4), 20000)
    start, sent = time.monotonic(), 0
    while True:
        for f in frames:
            out.put(f)
            sent += 1
            if sent % 64 == 0:
                ahead = sent / RATE - (time.monotonic() - start)
                if ahead > 0:
                    time.sleep(ahead)


RAW = ["SYN flood", *attacks.SEGMENTS]


def keep_open(n, begin):
    """Keeps n connections open; opens a new connection for each that rnicd ends. begin() opens a connection."""
    socks = []
    while True:
        while len(socks) < n:
            try:
                socks.append(begin())
            except OSError:
                time.sleep(0.01)
        for s in list(socks):
            s.setblocking(False)
            try:
                gone = s.recv(100) == b""
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            if gone:
                s.close()
                socks.remove(s)
        time.sleep(0.02)


def connect_and_reset():
    while True:
        try:
            wire.Peer(port=PORT).kill()
        except OSError:
            time.sleep(0.01)


def slow_senders():
    """Connections that begin an FPDU of 60 KB and send one octet of it every 50 ms."""
    peers = [attacks.slow_sender() for _ in range(30)]
    while True:
        for p in peers:
            p.raw(b"\xc1")
        time.sleep(0.05)


def tiny_windows():
    where = tuple(int(a) for a in sys.argv[3:5])
    peers = [attacks.tiny_window(where) for _ in range(30)]
    while True:
        for p in peers:
            p.s.recv(1)
        time.sleep(0.2)


SOCKETS = {
    "half-open: TCP and silence": lambda: keep_open(200, attacks.silent),
    "MPA Requests that never end": lambda: keep_open(200, attacks.endless_request),
    "connect and reset": connect_and_reset,
    "slow senders": slow_senders,
    "tiny windows": tiny_windows,
}


def attack(name, real):
    if name in RAW:
        at_rate(name, real)
    else:
        SOCKETS[name]()


# ---- the measurement ----

class World:
    def __init__(self, port):
        wire.own_network()
        attacks.no_timestamps()
        wire.run("ip", "link", "add", "dead0", "type", "veth", "peer", "name", "dead1")
        wire.run("ip", "link", "set", "dead0", "up")
        if port == "af_packet":
            wire.run("ip", "link", "add", "rt0", "type", "veth", "peer", "name", "rt1")
            for dev in ("rt0", "rt1"):
                wire.run("ethtool", "-K", dev, "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")
                wire.run("ip", "link", "set", dev, "up")
        self.d = Daemon(CONF % (WORKER, {"tap": "tap:rt0", "af_packet": "af_packet:rt1"}[port]))
        os.sched_setaffinity(0, OTHERS)
        wire.tap_up()
        self.target = wire.Target(self.d)
        self.target.tell(f"listen {PORT} 64 4 4")
        mr = next(line.split() for line in self.target.out if line.startswith("mr rw"))
        self.mr = mr[2:4]
        self.server = self.d.run(TESTPMD, "-s", "-a", "10.77.0.1")
        time.sleep(0.5)

    def throughput(self, seconds):
        out = self.d.run(TESTPMD, "--csv", "-t", str(seconds), "--no-verify", "10.77.0.1").ok(seconds + 60).splitlines()
        head, row = out[0].split(","), out[-1].split(",")
        return float(dict(zip(head, row))[next(h for h in head if "gbit" in h.lower() or "gbps" in h.lower())])

    def busy(self, seconds):
        """The part of the worker's time in which the worker has something to do."""
        def cycles():
            w = self.d.telemetry("/rnic/workers,0")
            idle = w.pop("cycles_idle")
            del w["cycles_per_second"]
            return sum(v for k, v in w.items() if k.startswith("cycles_")), idle
        before = cycles()
        time.sleep(seconds)
        work, idle = (b - a for a, b in zip(before, cycles()))
        return work / (work + idle)

    def conn_counters(self):
        """The highest value of each TCP counter among the connections on the attacked port."""
        most = {}
        for line in self.d.telemetry("/rnic/conns"):
            if " rnic0 " not in f" {line} ":
                continue
            for k, v in (self.d.telemetry(f"/rnic/conns,{line.split()[0]}") or {}).items():
                if isinstance(v, int) and k in TCP_COUNTERS:
                    most["tcp " + k] = max(most.get("tcp " + k, 0), v)
        return most

    def memory(self):
        with open(f"/proc/{self.d.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024

    def counters(self):
        port = self.d.telemetry("/rnic/ports,rnic0")
        return {**self.d.telemetry("/rnic/counters"), **{"port " + k: v for k, v in port.items() if isinstance(v, int)}}

    def under(self, name, real, measure):
        argv = ["--attack", name if real else "!" + name, *self.mr]
        p = subprocess.Popen([sys.executable, os.path.abspath(__file__), *argv])
        try:
            time.sleep(1)
            assert p.poll() is None, f"the attacker ended too early: {name}"
            return measure()
        finally:
            p.kill()
            p.wait()


def main():
    if sys.argv[1:2] == ["--attack"]:
        return attack(sys.argv[2].lstrip("!"), not sys.argv[2].startswith("!"))
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("--seconds", type=float, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--port", choices=("af_packet", "tap"), default="af_packet")
    ap.add_argument("attacks", nargs="*")
    a = ap.parse_args()
    w = World(a.port)
    print(f"{'attack':34} {'busy':>5}  {'quiet':>6} {'control':>7} {'under':>6} Gbit/s  left               memory MiB     "
          "counters that grew")

    def throughput():
        return w.throughput(a.seconds)

    def share_of_worker():
        return w.busy(a.seconds), w.conn_counters()

    with w.d:
        for name in a.attacks or [*RAW, *SOCKETS]:
            got, left = {"quiet": [], "control": [], "under": []}, []
            before, at = w.memory(), w.counters()
            busy, tcp = w.under(name, True, share_of_worker)
            for _ in range(a.rounds):
                got["quiet"].append(throughput())
                got["control"].append(w.under(name, False, throughput) if name in RAW else got["quiet"][-1])
                got["under"].append(w.under(name, True, throughput))
                left.append(got["under"][-1] / got["control"][-1])
            m = {k: statistics.median(v) for k, v in got.items()}
            usual = ("fpdus_in", "fpdus_out", "wqes", "cqes", "rwqes", "bytes_placed", "opened", "closed", "requests")
            moved = {k: v - at.get(k, 0) for k, v in w.counters().items() if v > at.get(k, 0)}
            moved.update({k: v for k, v in tcp.items() if v})
            told = ", ".join(f"{k} {v}" for k, v in sorted(moved.items(), key=lambda x: -x[1])
                             if k not in usual and "bytes" not in k and "packets" not in k)
            print(f"{name:34} {busy:5.1%}  {m['quiet']:6.2f} {m['control']:7.2f} {m['under']:6.2f}        "
                  f"{statistics.median(left):4.0%} ({min(left):.0%} to {max(left):.0%})  {before:5.0f} → {w.memory():5.0f}  {told}",
                  flush=True)
        w.server.stop()
        w.target.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
