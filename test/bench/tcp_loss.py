#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Bulk TCP through an impaired wire: tcp_lite with the kernel, and the kernel with itself through the same wire with the
same seed (test/tcp_lite/tap_host), in turns, both ways. Prints medians in MB/s, and tcp_lite's rate as a share of the
kernel's, for each congestion control that both have. A measurement, not a test. Needs root; on a machine with other
work use `chrt -f 10`.

usage: tcp_loss.py TAP_HOST [ROUNDS [MEGABYTES [WORD-OF-WIRE]]]
"""
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import time

NEAR, FAR, SINK, SOURCE = "10.9.0.1", "10.9.0.2", 9, 19
WIRES = {"1 % loss, 1 ms": (10000, 0, 0, 500), "0.1 % loss, 1 ms": (1000, 0, 0, 500),
         "1 % loss, 10 ms": (10000, 0, 0, 5000), "5 % loss, 1 ms": (50000, 0, 0, 500), "1 % reordered, 1 ms": (0, 0, 10000, 500), "clean, 1 ms": (0, 0, 0, 500)}


def sh(*argv):
    subprocess.run(argv, check=True)


def up(dev, addr, *where):
    sh(*where, "ip", "addr", "add", f"{addr}/24", "dev", dev)
    sh(*where, "ip", "link", "set", dev, "up")
    sh(*where, "ethtool", "-K", dev, "tso", "off", "gso", "off", "gro", "off")


def exactly(s, n):
    got = 0
    while got < n:
        b = s.recv(min(n - got, 1 << 16))
        assert b, "closed early"
        got += len(b)
        yield b


def serve(control):
    """
    Serves the ports of tap_host: SOURCE sends as many bytes as it is asked for; SINK receives all bytes and answers how
    many.
    """
    def source(s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        s.sendall(bytes(struct.unpack(">Q", b"".join(exactly(s, 8)))[0]))

    def sink(s):
        got = 0
        while b := s.recv(1 << 16):
            got += len(b)
        s.sendall(struct.pack(">QQ", got, 0))

    listeners = {socket.create_server((FAR, SOURCE)): source, socket.create_server((FAR, SINK)): sink}
    print("ready", flush=True)
    while True:
        for listener in select.select(listeners, [], [])[0]:
            s, _ = listener.accept()
            with s:
                listeners[listener](s)


def take(n, _control):
    """Receives n bytes from the other end; returns MB/s."""
    with socket.create_connection((FAR, SOURCE), timeout=60) as s:
        s.sendall(struct.pack(">Q", n))
        start = time.monotonic()
        for _ in exactly(s, n):
            pass
    return n / (time.monotonic() - start) / 1e6


def give(n, control):
    """Sends n bytes to the other end and waits until it has confirmed them; returns MB/s."""
    with socket.create_connection((FAR, SINK), timeout=60) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        start = time.monotonic()
        s.sendall(bytes(n))
        s.shutdown(socket.SHUT_WR)
        told = struct.unpack(">QQ", b"".join(exactly(s, 16)))[0]
    assert told == n, f"{told} of {n} bytes have arrived"
    return n / (time.monotonic() - start) / 1e6


WAYS = {"sends": take, "receives": give}


class Wire:
    """
    A tap_host between this namespace and a peer. The peer is tap_host itself (tcp_lite) or the kernel in another
    namespace.
    """

    def __init__(self, path, impair, control, kernel):
        self.children = []
        self.host = self.start([path, "tap0", *(["tap1"] if kernel else [FAR] + ([control] if control != "cubic" else []))])
        up("tap0", NEAR)
        if kernel:
            other = self.start(["unshare", "-n", "sh", "-c", "echo ready; exec sleep 3600"])
            sh("ip", "link", "set", "tap1", "netns", str(other.pid))
            enter = ["nsenter", "-t", str(other.pid), "-n"]
            up("tap1", FAR, *enter)
            self.start([*enter, sys.executable, os.path.abspath(__file__), "--serve", control])
        self.host.stdin.write("impair %d %d %d %d\n" % impair)
        self.host.stdin.flush()
        assert self.host.stdout.readline().strip() == "impair ok"

    def start(self, argv):
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.children.append(p)
        assert p.stdout.readline().strip() == "ready", argv
        return p

    def close(self):
        for p in reversed(self.children):
            p.kill()
            p.wait()


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2])
    if sys.argv[1:2] != ["--inside"]:
        if os.geteuid() != 0 or len(sys.argv) < 2:
            sys.exit(__doc__)
        os.execvp("unshare", ["unshare", "-n", sys.executable, os.path.abspath(__file__), "--inside", *sys.argv[1:]])
    path, rounds, megabytes = sys.argv[2], *[int(a) for a in (sys.argv[3:5] + ["5", "16"][len(sys.argv[3:5]):])]
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as f:
        known = f.read().split()
    controls = [c for c in ("cubic", "bbr") if c in known]
    print(f"{'wire':20} {'tcp_lite':9}" + "".join(f" {'with us':>9} {c:>9}  share" for c in controls) +
          f"   MB/s, median of {rounds} x {megabytes} MB")
    for name, impair in WIRES.items():
        if sys.argv[5:] and sys.argv[5] not in name:
            continue
        for way, move in WAYS.items():
            speed = {(who, c): [] for c in controls for who in ("ours", "kernel")}
            for _ in range(rounds):
                for (who, control), list_ in speed.items():
                    w = Wire(path, impair, control, who == "kernel")
                    try:
                        list_.append(move(megabytes << 20, control))
                    finally:
                        w.close()
            m = {k: statistics.median(v) for k, v in speed.items()}
            print(f"{name:20} {way:9}" + "".join(
                f" {m['ours', c]:9.1f} {m['kernel', c]:9.1f} {m['ours', c] / m['kernel', c]:6.2f}" for c in controls),
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
