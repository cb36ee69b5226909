#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Bulk TCP through a bad wire: tcp_lite sends to the kernel, and the kernel to itself through the same wire with the same
seed (test/tcp_lite/tap_host), in turns. Prints medians in MB/s and tcp_lite's share of each of the kernel's congestion
controls; a measurement, not a test. Needs root.

usage: tcp_loss.py TAP_HOST [ROUNDS [MEGABYTES]]
"""
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

NEAR, FAR, PORT = "10.9.0.1", "10.9.0.2", 19
WIRES = {"1 % loss, 1 ms": (10000, 0, 0, 500), "0.1 % loss, 1 ms": (1000, 0, 0, 500), "1 % loss, 10 ms": (10000, 0, 0, 5000),
         "5 % loss, 1 ms": (50000, 0, 0, 500), "1 % reordered, 1 ms": (0, 0, 10000, 500), "clean, 1 ms": (0, 0, 0, 500)}


def sh(*argv):
    subprocess.run(argv, check=True)


def up(dev, addr, *where):
    sh(*where, "ip", "addr", "add", f"{addr}/24", "dev", dev)
    sh(*where, "ip", "link", "set", dev, "up")
    sh(*where, "ethtool", "-K", dev, "tso", "off", "gso", "off", "gro", "off")


def serve(control):
    """What tap_host does at port 19: is sent a count, sends so many bytes."""
    with socket.create_server((FAR, PORT)) as listener:
        print("ready", flush=True)
        while True:
            s, _ = listener.accept()
            with s:
                head = b""
                while len(head) < 8:
                    head += s.recv(8 - len(head))
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
                s.sendall(bytes(struct.unpack(">Q", head)[0]))


def take(n):
    """n bytes from the other end; MB/s."""
    with socket.create_connection((FAR, PORT), timeout=60) as s:
        s.sendall(struct.pack(">Q", n))
        start, got = time.monotonic(), 0
        while got < n:
            b = s.recv(1 << 16)
            assert b, "closed early"
            got += len(b)
    return n / (time.monotonic() - start) / 1e6


class Wire:
    """tap_host between this namespace and either itself (tcp_lite) or the kernel in another namespace."""

    def __init__(self, path, impair, kernel):
        self.children = []
        self.host = self.start([path, "tap0", "tap1" if kernel else FAR])
        up("tap0", NEAR)
        if kernel:
            other = self.start(["unshare", "-n", "sh", "-c", "echo ready; exec sleep 3600"])
            sh("ip", "link", "set", "tap1", "netns", str(other.pid))
            enter = ["nsenter", "-t", str(other.pid), "-n"]
            up("tap1", FAR, *enter)
            self.start([*enter, sys.executable, os.path.abspath(__file__), "--serve", kernel])
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
    path, rounds, megabytes = sys.argv[2], *[int(a) for a in (sys.argv[3:] + ["5", "16"][len(sys.argv) - 3:])]
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as f:
        known = f.read().split()
    controls = [c for c in ("cubic", "bbr") if c in known]
    print(f"{'wire':22} {'tcp_lite':>9}" + "".join(f" {c:>9}  share" for c in controls) +
          f"   MB/s, median of {rounds} x {megabytes} MB")
    for name, impair in WIRES.items():
        speed = {c: [] for c in ("", *controls)}
        for _ in range(rounds):
            for kernel, list_ in speed.items():
                w = Wire(path, impair, kernel)
                try:
                    list_.append(take(megabytes << 20))
                finally:
                    w.close()
        ours, *theirs = (statistics.median(speed[k]) for k in speed)
        print(f"{name:22} {ours:9.1f}" + "".join(f" {t:9.1f} {ours / t:6.2f}" for t in theirs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
