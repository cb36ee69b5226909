#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What hostile peers cost the others: two well-behaved clients move data over a wired pair while a tap of the same daemon, served
by the same worker, is attacked. Prints for each attack the CPU that the daemon needs for it alone, the share of the
throughput that is left to the clients, the daemon's memory, and the counters that moved. A measurement, not a test: it
wants a machine without other work. Attacker, clients and daemon share that machine, so an attack by frames has a control:
the same frames on a link where nobody listens. Needs root.

usage: floods.py [--seconds N] [--rounds N] [ATTACK ...]
"""
import argparse
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import wire  # pylint: disable=wrong-import-position
from rig import TESTPMD, Daemon  # pylint: disable=wrong-import-position

RATE = 20000  # frames per second that an attacker sends
PORT = 7000
TCP_COUNTERS = {"out_of_order", "out_of_order_dropped", "duplicates", "duplicate_acks", "challenges", "dropped"}
MAC = bytes.fromhex("020000000c01")
CONF = """
[rnicd]
socket = {dir}/rnicd.sock
[port a]
device = pair:b
address = 10.77.0.1/24
[port b]
device = pair:a
address = 10.77.0.2/24
[port rnic0]
device = tap:rt0
mac = 02:00:00:00:0c:01
address = 10.79.0.1/24
"""


# ---- attackers: each runs in a process of its own until it is killed ----

def at_rate(frames, dev):
    """Frames from a generator, RATE a second."""
    out = wire.Frames(dev)
    start, sent = time.monotonic(), 0
    for f in frames(out.mac):
        out.put(f)
        sent += 1
        if sent % 64 == 0:
            ahead = sent / RATE - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)


def learn(peer):
    """A frame's addresses and the next sequence numbers of a connection whose last word was the peer's."""
    s = wire.Frames("rt0")
    peer.put(wire.tagged(wire.WRITE, 0, 0))
    here, port = peer.s.getsockname()[1], peer.s.getpeername()[1]
    ports = struct.pack(">HH", port, here)
    f = s.get(lambda f: f[12:14] == b"\x08\x00" and f[34:38] == ports)
    seq, ack = struct.unpack(">II", f[38:46])
    s.close()
    # what it acknowledges is our next; it has nothing else to say
    return here, port, ack, seq


def opened(crc=True):
    p = wire.Peer(port=PORT)
    p.hello(priv=b"flood", flags=(wire.C if crc else 0) | wire.S)
    return p


def syns(_):
    def frames(mac):
        rng = random.Random(1)
        batch = [wire.tcp_frame(MAC, mac, f"10.79.0.{rng.randrange(10, 250)}", wire.ADDR, rng.randrange(1024, 65536), PORT,
                                rng.getrandbits(32), options=b"\x02\x04\x05\xb4") for _ in range(20000)]
        while True:
            yield from batch
    return frames


def segments(make):
    """Frames into an established connection: make(here, there, seq, ack) yields keyword sets of tcp_frame."""
    def attack(real):
        peer = opened() if real else None
        here, there, seq, ack = learn(peer) if real else (1, 2, 3, 4)

        def frames(mac, _keep=peer):
            batch = [wire.tcp_frame(MAC, mac, wire.HOST, wire.ADDR, here, there, **k) for k in make(seq, ack)]
            while True:
                yield from batch
        return frames
    return attack


RAW = {
    "SYN flood": syns,
    "ACK storm": segments(lambda seq, ack: [{"seq": seq, "ack": ack - i % 7, "flags": 16} for i in range(5000)]),
    "ACKs of what was never sent": segments(lambda seq, ack: [{"seq": seq, "ack": ack + 1000 + i, "flags": 16} for i in range(5000)]),
    "out-of-order bomb": segments(lambda seq, ack: [
        {"seq": seq + 2 + 2 * i, "ack": ack, "flags": 16, "data": b"!"} for i in random.Random(2).sample(range(60000), 20000)]),
    "resets and SYNs beside the window": segments(lambda seq, ack: [
        {"seq": seq + 5 + i, "ack": ack, "flags": 4 if i & 1 else 2} for i in range(5000)]),
}


def keep_open(n, begin):
    """n connections that stay, opened anew when they are ended."""
    socks = []
    while True:
        while len(socks) < n:
            try:
                s = socket.create_connection((wire.ADDR, PORT), timeout=5)
                begin(s)
                socks.append(s)
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


def tiny_segments():
    """A Write of nothing again and again, an octet to a segment."""
    p = opened()
    f = wire.fpdu(wire.tagged(wire.WRITE, 0, 0))
    while True:
        for b in f:
            p.raw(bytes([b]))


def slow_senders():
    """Connections that begin an FPDU of 60 KB and send an octet of it now and then."""
    peers = [opened() for _ in range(30)]
    for p in peers:
        p.raw(struct.pack(">H", 60000))
    while True:
        for p in peers:
            p.raw(b"\xc1")
        time.sleep(0.05)


def tiny_windows():
    """Reads of 1 MiB whose answer nobody takes, into the smallest buffer there is."""
    where = tuple(int(a) for a in sys.argv[3:5])
    peers = []
    for _ in range(30):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        s.connect((wire.ADDR, PORT))
        p = wire.Peer(s)
        p.hello(priv=b"flood")
        for msn in range(1, 5):
            p.put(wire.read_req(msn, (1, 1), 1 << 16, where))
        peers.append(p)
    while True:
        for p in peers:
            p.s.recv(1)
        time.sleep(0.2)


SOCKETS = {
    "half-open: TCP and silence": lambda: keep_open(200, lambda s: None),
    "MPA Requests that never end": lambda: keep_open(200, lambda s: s.sendall(wire.mpa_request(pd_len=400)[:24])),
    "connect and reset": connect_and_reset,
    "tiny segments": tiny_segments,
    "slow senders": slow_senders,
    "tiny windows": tiny_windows,
}


def attack(name, real):
    if name in RAW:
        at_rate(RAW[name](real), "rt0" if real else "dead0")
    else:
        SOCKETS[name]()


# ---- the measurement ----

class World:
    def __init__(self):
        wire.own_network()
        wire.run("ip", "link", "add", "dead0", "type", "veth", "peer", "name", "dead1")
        wire.run("ip", "link", "set", "dead0", "up")
        self.d = Daemon(CONF)
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

    def cpu(self):
        """Seconds of CPU that the daemon has used."""
        with open(f"/proc/{self.d.pid}/stat", encoding="ascii") as f:
            return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")

    def conn_counters(self):
        """The busiest of each TCP counter of the connections on the attacked port."""
        most = {}
        for i, line in enumerate(self.d.telemetry("/rnic/conns")):
            if " rnic0 " not in f" {line} ":
                continue
            for k, v in (self.d.telemetry(f"/rnic/conns,{i}") or {}).items():
                if isinstance(v, int) and k in TCP_COUNTERS:
                    most["tcp " + k] = max(most.get("tcp " + k, 0), v)
        return most

    def memory(self):
        with open(f"/proc/{self.d.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024

    def counters(self):
        return {**self.d.telemetry("/rnic/counters"), **{"port " + k: v for k, v in self.d.telemetry("/rnic/ports,rnic0").items()
                                                           if isinstance(v, int)}}

    def under(self, name, real, measure):
        p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--attack", name if real else "!" + name, *self.mr])
        try:
            time.sleep(1)
            assert p.poll() is None, f"the attacker ended: {name}"
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
    ap.add_argument("attacks", nargs="*")
    a = ap.parse_args()
    w = World()
    print(f"{'attack':34} {'CPU':>4}  {'quiet':>6} {'control':>7} {'under':>6} Gbit/s  left  memory MiB     what was counted")

    def throughput():
        return w.throughput(a.seconds)

    def share_of_cpu():
        start, used = time.monotonic(), w.cpu()
        time.sleep(a.seconds)
        used = (w.cpu() - used) / (time.monotonic() - start)
        return used, w.conn_counters()

    with w.d:
        for name in a.attacks or [*RAW, *SOCKETS]:
            got = {"quiet": [], "control": [], "under": []}
            before, at = w.memory(), w.counters()
            cpu, tcp = w.under(name, True, share_of_cpu)
            for _ in range(a.rounds):
                got["quiet"].append(throughput())
                if name in RAW:
                    got["control"].append(w.under(name, False, throughput))
                got["under"].append(w.under(name, True, throughput))
            m = {k: statistics.median(v) if v else statistics.median(got["quiet"]) for k, v in got.items()}
            usual = ("fpdus_in", "fpdus_out", "wqes", "cqes", "rwqes", "bytes_placed", "opened", "closed", "requests")
            moved = {k: v - at.get(k, 0) for k, v in w.counters().items() if v > at.get(k, 0)} | {k: v for k, v in tcp.items() if v}
            told = ", ".join(f"{k} {v}" for k, v in sorted(moved.items(), key=lambda x: -x[1])
                             if k not in usual and "bytes" not in k and "packets" not in k)
            print(f"{name:34} {cpu:4.0%}  {m['quiet']:6.2f} {m['control']:7.2f} {m['under']:6.2f}        {m['under'] / m['control']:4.0%}"
                  f"  {before:5.0f} → {w.memory():5.0f}  {told}", flush=True)
        w.server.stop()
        w.target.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
