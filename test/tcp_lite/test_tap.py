#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcp_lite against the kernel's own TCP, over a tap device in a network namespace of its own. The wire is clean, or it
is impaired by tap_host itself (on any kernel) or by tc netem (where the kernel has netem).

usage: test_tap.py TAP_HOST [PROFILE...]     speaks TAP; needs root and /dev/net/tun
"""
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

KERNEL, HOST = "10.9.0.1", "10.9.0.2"
PERIOD = 65521
PATTERN = bytes((i * 7 + (i >> 8) * 13) & 255 for i in range(PERIOD))
LIMIT = 60  # seconds for one case; a case that takes longer hangs

# name: (tap_host's own impairment: loss, duplication, reordering in ppm, delay in us; words for tc netem; the sysctl
# that is switched, see SYSCTLS)
PROFILES = {
    "clean": ((0, 0, 0, 0), "", None),
    "little_loss": ((1000, 0, 0, 200), "", None),
    "loss": ((10000, 0, 0, 200), "", None),
    "heavy_loss": ((50000, 0, 0, 200), "", None),
    "reorder": ((0, 0, 100000, 500), "", None),
    "duplicate": ((0, 50000, 0, 100), "", None),
    "delay": ((0, 0, 0, 10000), "", None),
    "long_delay": ((0, 0, 0, 25000), "", None),
    "all": ((10000, 10000, 50000, 1000), "", None),
    "nosack": ((10000, 0, 0, 200), "", "tcp_sack"),
    "nots": ((10000, 0, 0, 200), "", "tcp_timestamps"),
    "nowscale": ((10000, 0, 0, 200), "", "tcp_window_scaling"),
    "bbr_loss": ((10000, 0, 0, 200), "", None),
    "bbr_all": ((10000, 10000, 50000, 1000), "", None),
    "ecn": ((10000, 0, 0, 200), "", "tcp_ecn"),
    "mss536": ((10000, 0, 0, 200), "", "advmss"),
    "netem_loss": ((0, 0, 0, 0), "loss 1%", None),
    "netem_reorder": ((0, 0, 0, 0), "delay 2ms reorder 75% 50%", None),
    "netem_duplicate": ((0, 0, 0, 0), "duplicate 5%", None),
    "netem_delay": ((0, 0, 0, 0), "delay 10ms 2ms", None),
}
# two digits: the usual value of the sysctl, and the value to which a profile switches it
SYSCTLS = {"tcp_sack": "10", "tcp_timestamps": "10", "tcp_window_scaling": "10", "tcp_ecn": "01"}


def pattern(n):
    return (PATTERN * (n // PERIOD + 1))[:n]


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = ((h ^ b) * 0x100000001b3) & 0xffffffffffffffff
    return h


def sh(cmd):
    return subprocess.run(cmd, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Host:
    def __init__(self, path, *control):
        self.p = subprocess.Popen([path, "tap0", HOST, *control], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.line() == "ready"

    def line(self, limit=LIMIT):
        out = b""
        end = time.monotonic() + limit
        while not out.endswith(b"\n"):
            left = end - time.monotonic()
            assert left > 0 and select.select([self.p.stdout], [], [], left)[0], "tap_host does not answer"
            c = os.read(self.p.stdout.fileno(), 1)
            assert c, "tap_host ended with %s" % self.p.wait()
            out += c
        return out.decode().strip()

    def say(self, text):
        self.p.stdin.write(text.encode() + b"\n")
        self.p.stdin.flush()

    def stat(self):
        self.say("stat")
        return self.line()


def dial(port):
    s = socket.create_connection((HOST, port), timeout=LIMIT)
    s.settimeout(LIMIT)
    return s


def read_all(s, pause=0.0):
    out = []
    time.sleep(pause)
    while True:
        b = s.recv(1 << 16)
        if not b:
            return b"".join(out)
        out.append(b)


def echo(h, n, pause=0.0):
    """
    Sends n bytes, shuts its sending direction down, and reads all bytes back. It waits for `pause` seconds before it
    reads, in which the receive windows of both ends fill up.
    """
    data = os.urandom(n)
    with dial(7) as s:
        def push():
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        t = threading.Thread(target=push, daemon=True)
        t.start()
        back = read_all(s, pause)
        t.join(LIMIT)
    assert back == data, "the echo differs: %d of %d bytes" % (len(back), n)


def echo_all(h):
    echo(h, 1 << 20)


def echo_small(h):
    with dial(7) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.monotonic() + 2
        for i in range(200):
            if i > 20 and time.monotonic() > end:  # on a wire with a long round trip fewer messages are enough
                break
            msg = os.urandom(1 + i % 90)
            s.sendall(msg)
            got = b""
            while len(got) < len(msg):
                b = s.recv(4096)
                assert b, "closed early"
                got += b
            assert got == msg


def sink(h):
    data = os.urandom(1 << 21)
    with dial(9) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        count, digest = struct.unpack(">QQ", read_all(s))
    assert count == len(data) and digest == fnv(data), "the sink got %d of %d bytes" % (count, len(data))


def source(h):
    n = 3 << 20
    with dial(19) as s:
        s.sendall(struct.pack(">Q", n))
        data = read_all(s)
    assert data == pattern(n), "source sent %d of %d bytes" % (len(data), n)


def client(h):
    """tcp_lite connects to a server on the kernel that echoes."""
    srv = socket.create_server((KERNEL, 0))

    def serve():
        c, _ = srv.accept()
        c.settimeout(LIMIT)
        with c:
            while True:
                b = c.recv(1 << 16)
                if not b:
                    break
                c.sendall(b)
    t = threading.Thread(target=serve, daemon=True)
    t.start()
    h.say("connect %s %d %d" % (KERNEL, srv.getsockname()[1], 1 << 20))
    answer = h.line()
    assert answer.startswith("connect ok"), answer
    t.join(LIMIT)
    srv.close()


def zero_window(h):
    echo(h, 4 << 20, pause=1.0)


def many_short(h):
    for i in range(150):
        echo(h, 1 + i * 37)


def thousands(h):
    """2,000 short connections, one after the other; the kernel's side goes to TIME_WAIT."""
    for i in range(2000):
        with dial(7) as s:
            s.sendall(b"%04d" % i)
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == b"%04d" % i


def crowd(h):
    """100 connections at the same time, each with data."""
    socks = [dial(7) for _ in range(100)]
    for turn in range(3):
        for i, s in enumerate(socks):
            s.sendall(b"%04d" % (i + turn) * 50)
    for i, s in enumerate(socks):
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"".join(b"%04d" % (i + turn) * 50 for turn in range(3))
        s.close()


def urgent(h):
    """Urgent data is ordinary data: RFC 9293, 3.8.5 allows the pointer to be ignored."""
    with dial(7) as s:
        for i in range(20):
            s.sendall(b"before%02d" % i)
            s.send(b"!", socket.MSG_OOB)
            s.sendall(b"behind")
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"".join(b"before%02d!behind" % i for i in range(20))


def window_shrinks(h):
    """
    The kernel's receive buffer is made small in the middle of a transfer, so its window shrinks, even to the left where
    the kernel allows that. Out-of-order segments may then fill the buffer: the kernel closes the window to the very
    segment that is missing, until the application makes room.
    """
    def more(s, n):
        s.settimeout(1)
        try:
            return s.recv(n)
        except TimeoutError:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            s.settimeout(10)
            return s.recv(n)

    knob = "/proc/sys/net/ipv4/tcp_shrink_window"
    if os.path.exists(knob):
        with open(knob, "w", encoding="ascii") as f:
            f.write("1")
    n = 1 << 20
    with dial(19) as s:
        s.sendall(struct.pack(">Q", n))
        data = s.recv(1000)
        for size in (1 << 18, 1 << 12, 1 << 15, 1 << 11, 1 << 18):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
            time.sleep(0.05)
            while len(data) % (1 << 17) < (1 << 17) - 3000:
                b = more(s, 1500)
                assert b, "closed early"
                data += b
            data += more(s, 4096)
        s.settimeout(10)
        data += read_all(s)
    assert data == pattern(n), "source sent %d of %d bytes" % (len(data), n)


def refused(h):
    try:
        dial(4242).close()
    except ConnectionRefusedError:
        return
    raise AssertionError("a closed port answered")


def client_refused(h):
    s = socket.socket()
    s.bind((KERNEL, 0))
    port = s.getsockname()[1]
    s.close()
    h.say("connect %s %d 10" % (KERNEL, port))
    answer = h.line()
    assert answer.startswith("connect FAILED"), answer


def reset(h):
    s = dial(7)
    s.sendall(b"x" * 5000)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def keepalive(h):
    """tcp_lite answers the kernel's keepalive probes."""
    with dial(7) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for opt in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT):
            s.setsockopt(socket.IPPROTO_TCP, opt, 1)
        time.sleep(3.5)  # the kernel's timers are tested: three probes, one a second
        s.sendall(b"still here")
        assert s.recv(100) == b"still here"


def no_leak(h):
    end = time.monotonic() + 20
    while True:
        st = h.stat().split()
        if st[2] == "0" and st[4] == st[6]:
            return
        assert time.monotonic() < end, " ".join(st)
        time.sleep(0.2)


def counters(h):
    words = h.stat().split()
    return {k: int(v) for k, v in zip(words[1:], words[2:]) if v.isdigit()}


def wire_was_bad(h, was, prof):
    """
    Checks that the profile's impairment has left traces in the counters: otherwise the other cases would prove nothing.
    """
    own, netem, switched = PROFILES[prof]
    now = counters(h)
    with dial(19) as s:
        s.sendall(struct.pack(">Q", 1 << 16))
        assert len(read_all(s)) == 1 << 16
        got = struct.unpack_from("=I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 20)[0]  # tcpi_rcv_mss
        want = 536 if switched == "advmss" else 1460
        assert want - 12 <= got <= want, "the segments have %d bytes" % got
    if own[0] or "loss" in netem:
        assert now["rexmits"] > was["rexmits"] and now["ooo"] > was["ooo"], "no segment was lost"
    if own[1] or "duplicate" in netem:
        assert now["dups"] > was["dups"], "no segment was duplicated"
    if own[2] or "reorder" in netem:
        assert now["ooo"] > was["ooo"], "no segment was reordered"


ALWAYS = [echo_all, echo_small, sink, source, client, no_leak, wire_was_bad]
CLEAN = [zero_window, many_short, thousands, crowd, urgent, window_shrinks, refused, client_refused, reset, keepalive]


def set_profile(h, name):
    own, netem, off = PROFILES[name]
    h.say("impair %d %d %d %d" % own)
    assert h.line() == "impair ok"
    for key, values in SYSCTLS.items():
        with open("/proc/sys/net/ipv4/" + key, "w") as f:
            f.write(values[key == off])
    assert sh("ip route replace 10.9.0.0/24 dev tap0 src %s advmss %d" % (KERNEL, 536 if off == "advmss" else 1460)).returncode == 0
    sh("tc qdisc del dev tap0 root; tc qdisc del dev ifb0 root")
    for d in ("tap0", "ifb0") if netem else ():
        assert sh("tc qdisc add dev %s root netem limit 2000 %s" % (d, netem)).returncode == 0


def inside(path, wanted):
    sh("ip link set lo up")
    h = Host(path, *(["bbr"] if all(p.startswith("bbr") for p in wanted) else []))
    sh("ip addr add %s/24 dev tap0; ip link set tap0 up; ethtool -K tap0 tso off gso off gro off" % KERNEL)
    ifb = False
    if any(PROFILES[p][1] for p in wanted):
        ifb = sh("ip link add ifb0 type ifb && ip link set ifb0 up && tc qdisc add dev tap0 ingress && "
                 "tc filter add dev tap0 ingress matchall action mirred egress redirect dev ifb0").returncode == 0
    netem = ifb and sh("tc qdisc add dev tap0 root netem delay 1ms").returncode == 0
    cases = []
    for p in wanted:
        cases += [(p, c) for c in (CLEAN if p == "clean" else []) + ALWAYS] if netem or not PROFILES[p][1] else [(p, None)]
    print("TAP version 13\n1..%d" % len(cases), flush=True)
    bad, now_in, was = 0, None, {}
    for n, (prof, case) in enumerate(cases, 1):
        if case is None:
            print("ok %d - %s # SKIP this kernel has no tc netem" % (n, prof), flush=True)
            continue
        if prof != now_in:
            set_profile(h, prof)
            now_in, was = prof, counters(h)
        name = "%s %s" % (prof, case.__name__)
        start = time.monotonic()
        try:
            case(*((h, was, prof) if case is wire_was_bad else (h,)))
            print("ok %d - %s # %.2f s" % (n, name, time.monotonic() - start), flush=True)
        except (AssertionError, OSError) as e:
            bad += 1
            print("not ok %d - %s\n# %s: %s" % (n, name, type(e).__name__, e), flush=True)
        if case is no_leak:
            print("# " + h.stat(), flush=True)
    h.say("quit")
    h.p.wait()
    return bad != 0


def main():
    args = [a for a in sys.argv[1:] if a != "--inside"]
    # the bbr profiles have a tap_host of their own
    wanted = args[1:] or [p for p in PROFILES if not p.startswith("bbr")]
    if "--inside" in sys.argv:
        sys.exit(inside(args[0], wanted))
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root: makes a network namespace and a tap device")
        return
    if not os.path.exists("/dev/net/tun") or sh("unshare -n true").returncode:
        print("1..0 # SKIP needs /dev/net/tun and network namespaces")
        return
    os.execvp("unshare", ["unshare", "-n", sys.executable, os.path.abspath(__file__), "--inside"] + args)


if __name__ == "__main__":
    main()
