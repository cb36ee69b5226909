# SPDX-License-Identifier: BSD-3-Clause
"""
An iWARP peer in Python on the kernel's TCP, which can send anything: RFC 5044 (MPA), 5041 (DDP), 5040 (RDMAP), 6581
(enhanced MPA). It uses nothing of the project's own C code. Also a network namespace for the test, and raw frames.
"""
import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import time

from rig import PATIENCE, Process, Skip, helper
from wire_check import crc32c

REQ, REP = b"MPA ID Req Frame", b"MPA ID Rep Frame"
M, C, R, S = 0x80, 0x40, 0x20, 0x10
WRITE, READ_REQ, READ_RESP, SEND, SEND_INV, SEND_SE, SEND_SE_INV, TERMINATE = range(8)
TAP_CONF = """
[rnicd]
socket = {dir}/rnicd.sock
[port rnic0]
device = tap:rt0
mac = 02:00:00:00:0c:01
address = 10.79.0.1/24
"""
ADDR, HOST = "10.79.0.1", "10.79.0.2"
CLONE_NEWNET = 0x40000000


def own_network():
    """Moves this process and all that it starts into a fresh network namespace, which ends with them."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise Skip(f"no network namespace is possible here: {os.strerror(ctypes.get_errno())}")
    run("ip", "link", "set", "lo", "up")


def run(*argv):
    p = subprocess.run(argv, text=True, capture_output=True, check=False)
    assert p.returncode == 0, f"{' '.join(argv)}: {p.stderr}"
    return p.stdout


def tap_up(name="rt0", addr=HOST):
    run("ip", "addr", "add", f"{addr}/24", "dev", name)
    run("ip", "link", "set", name, "up")


class Target(Process):
    """The program target.c, run over a daemon."""

    def __init__(self, daemon, addr=ADDR):
        super().__init__([helper("target"), addr], env=daemon.env(), name="target")
        daemon.children.append(self)
        self.seen = 0
        self.mr = {}
        self.wait_line("ready")
        for line in self.out:
            w = line.split()
            if w[0] == "mr":
                self.mr[w[1]] = (int(w[2]), int(w[3]), int(w[4]))

    def say(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()

    def tell(self, text):
        """Sends a command that must succeed."""
        mark = len(self.out)
        self.say(text)
        name = text.split()[0]
        self.expect(("done " + name, "failed " + name), mark)
        bad = [s for s in self.out[mark:] if s.startswith("failed")]
        assert not [s for s in bad if s.startswith("failed " + name)], bad

    def expect(self, what, mark=0, timeout=PATIENCE):
        """Waits for the first line from number `mark` on that begins with (one of) `what`; returns it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for line in self.out[mark:]:
                if line.startswith(what):
                    return line
            assert self.p.poll() is None, self.tail()
            time.sleep(0.005)
        raise AssertionError(f"target printed no line with {what!r}:\n{self.tail()}")

    def event(self, kind, mark, priv=b""):
        """Waits for this event with this private data, from line `mark` on; returns the number of its connection."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for line in self.out[mark:]:
                w = line.split()
                if w[:1] == ["cm"] and w[2] == "RDMA_CM_EVENT_" + kind and priv.hex() in line:
                    return int(w[1])
            assert self.p.poll() is None, self.tail()
            time.sleep(0.005)
        raise AssertionError(f"target got no event {kind}:\n{self.tail()}")

    def mark(self):
        return len(self.out)

    def sum(self, name):
        mark = self.mark()
        self.say(f"sum {name}")
        return self.expect("sum " + name, mark).split()[2]


def mpa_request(rev=2, flags=C | S, ird=8, ord_=8, priv=b"", key=REQ, pd_len=None, p2p=0, rtr=0):
    """p2p: bit A. rtr: bits B, C and D with the values 4, 2 and 1."""
    body = priv
    if rev >= 2 and flags & S:
        body = struct.pack(">HH", (0x8000 if p2p else 0) | (0x4000 if rtr & 4 else 0) | ird,
                           (0x8000 if rtr & 2 else 0) | (0x4000 if rtr & 1 else 0) | ord_) + priv
    return key + struct.pack(">BBH", flags, rev, len(body) if pd_len is None else pd_len) + body


def fpdu(ulpdu, crc=True, ulpdu_len=None):
    raw = struct.pack(">H", len(ulpdu) if ulpdu_len is None else ulpdu_len) + ulpdu
    raw += b"\0" * (-len(raw) % 4)
    return raw + (struct.pack("<I", crc32c(raw)) if crc else b"\0\0\0\0")


def tagged(op, stag, to, data=b"", last=True, dv=1, rv=1):
    return struct.pack(">BBIQ", 0x80 | (0x40 if last else 0) | dv, rv << 6 | op, stag, to) + data


def untagged(op, qn, msn, data=b"", mo=0, last=True, word=0, dv=1, rv=1):
    return struct.pack(">BBIIII", (0x40 if last else 0) | dv, rv << 6 | op, word, qn, msn, mo) + data


def send(msn, data=b"", **more):
    return untagged(SEND, 0, msn, data, **more)


def read_req(msn, sink, size, source):
    return untagged(READ_REQ, 1, msn, struct.pack(">IQIIQ", sink[0], sink[1], size, source[0], source[1]))


def terminate(layer, etype, code, ddp=b""):
    return untagged(TERMINATE, 2, 1, struct.pack(">BBH", layer << 4 | etype, code, 0) + ddp)


class Closed(Exception):
    """Raised when the other side has ended the stream; .reset tells whether by a reset."""

    def __init__(self, reset):
        super().__init__("reset" if reset else "end of stream")
        self.reset = reset


class Peer:
    """One connection of the peer. Reads whole FPDUs; raises Closed at the end of the stream."""

    def __init__(self, sock=None, port=None, addr=ADDR):
        self.s = sock or socket.create_connection((addr, port), timeout=PATIENCE)
        self.s.settimeout(PATIENCE)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""
        self.crc = True
        self.priv = b""

    def raw(self, data):
        self.s.sendall(data)

    def put(self, *ulpdus, **how):
        self.raw(b"".join(fpdu(u, crc=self.crc, **how) for u in ulpdus))

    def need(self, n):
        while len(self.buf) < n:
            try:
                more = self.s.recv(65536)
            except ConnectionResetError:
                raise Closed(True) from None
            if not more:
                raise Closed(False)
            self.buf += more

    def take(self, n):
        self.need(n)
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def frame(self, key=REP):
        """Reads an MPA frame: (flags, revision, private data)."""
        head = self.take(20)
        assert head[:16] == key, head
        flags, rev, n = struct.unpack(">BBH", head[16:])
        return flags, rev, self.take(n)

    def hello(self, **how):
        self.raw(mpa_request(**how))
        flags, rev, priv = self.frame()
        assert not flags & R, f"the device rejected: flags {flags:x}, revision {rev}"
        self.crc = bool(flags & C)
        self.priv = priv
        return flags, rev, priv

    def get(self):
        """Reads one FPDU and checks its CRC; returns its ULPDU."""
        self.need(2)
        n = struct.unpack(">H", self.buf[:2])[0]
        body = 2 + n + (-(2 + n) % 4)
        raw = self.take(body + 4)
        if self.crc:
            assert struct.unpack("<I", raw[body:])[0] == crc32c(raw[:body]), "an FPDU from the device has a bad CRC"
        return raw[2:2 + n]

    def terminated(self):
        """Reads up to the Terminate and the end of the stream; returns (layer, etype, code, hdrct, rest)."""
        while True:
            u = self.get()
            if u[1] & 15 == TERMINATE:
                break
        qn, msn, mo = struct.unpack_from(">III", u, 6)
        assert (qn, msn, mo) == (2, 1, 0), (qn, msn, mo)
        assert u[0] & 0xC3 == 0x41 and u[1] == 0x40 | TERMINATE, u[:2]
        try:
            more = self.get()
            raise AssertionError(f"an FPDU came after the Terminate: {more!r}")
        except Closed:
            pass
        return u[18] >> 4, u[18] & 15, u[19], u[20] & 0xE0, u[22:]

    def end(self):
        """The stream must end. Only zero-length Writes, which ask a silent peer for an acknowledgement, may come
        before. True: ended by a reset."""
        try:
            while True:
                u = self.get()
                assert u[1] & 15 == WRITE and len(u) == 14, f"an FPDU came where the stream should end: {u!r}"
        except Closed as c:
            return c.reset

    def close(self):
        self.s.close()

    def kill(self):
        """Ends the connection by a reset."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()


def ones_sum(data):
    if len(data) & 1:
        data += b"\0"
    s = sum(struct.unpack(f">{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return s


def tcp_frame(dst_mac, src_mac, src, dst, sport, dport, seq=0, ack=0, flags=2, data=b"", options=b"", good=True):
    """An Ethernet frame with IPv4 and TCP in it."""
    a, b = socket.inet_aton(src), socket.inet_aton(dst)
    options += b"\0" * (-len(options) % 4)
    tcp = struct.pack(">HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, (20 + len(options)) << 2, flags, 65535, 0, 0)
    tcp += options + data
    check = ~ones_sum(a + b + struct.pack(">BBH", 0, 6, len(tcp)) + tcp) & 0xFFFF
    tcp = tcp[:16] + struct.pack(">H", check if good else check ^ 0x5555) + tcp[18:]
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0, a, b)
    ip = ip[:10] + struct.pack(">H", ~ones_sum(ip) & 0xFFFF) + ip[12:]
    return dst_mac + src_mac + b"\x08\x00" + ip + tcp


class Frames:
    """Raw frames on an interface: frames written arrive at the daemon's port; frames that the daemon sends are read."""

    def __init__(self, ifname="rt0"):
        self.s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.s.bind((ifname, 0))
        self.mac = fcntl.ioctl(self.s, 0x8927, struct.pack("256s", ifname.encode()))[18:24]

    def put(self, frame):
        self.s.send(frame)

    def get(self, match, timeout=PATIENCE):
        """The first frame for which match() is true."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([self.s], [], [], 0.2)[0]:
                f = self.s.recv(65536)
                if match(f):
                    return f
        return None

    def close(self):
        self.s.close()
