# SPDX-License-Identifier: BSD-3-Clause
"""
A peer in Python that speaks the protocol of doc/datagram-sockets.md with an encoder of its own, and programs that send
datagrams to it or to each other.
"""
import socket
import struct
import zlib

import wire_check
import wire_ud
from nets import KERNEL, OURS, In
from rig import until

NUMBER, PORT = 0xfe0000, 4793
ASK, ANSWER, SEND, SEGMENT, RECORD = 7, 8, 1, 4, 5
TAKES, NOBODY, STALE = 1, 2, 3

# Sends datagrams of many lengths, each again and again until it has come back whole.
ASKS = """
import os, socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind((sys.argv[4], 0))
s.connect((sys.argv[1], int(sys.argv[2])))
s.settimeout(0.05)
echoes = set()  # a late one may come behind the answer to a later datagram
for n in map(int, sys.argv[3].split(",")):
    d = b"tell"[:n] + os.urandom(max(n - 4, 0))
    want = d[::-1] if n >= 4 else b"llet"
    echoes.add(want)
    while True:
        s.send(d if n >= 4 else d + b"tell"[n:])
        try:
            while (r := s.recv(70000)) != want:
                assert r in echoes, "a datagram came that is not the echo of one that was sent"
            break
        except socket.timeout:
            pass
print("answered", flush=True)
"""

# Sends a datagram of each length that comes on stdin; prints "sent" or the error. argv[3] sets the socket's wire
# option.
SENDS = """
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
if len(sys.argv) > 3:
    s.setsockopt(0x524e, 1, int(sys.argv[3]))
s.connect((sys.argv[1], int(sys.argv[2])))
print("sending", s.getsockname()[1], flush=True)
for n in sys.stdin:
    try:
        s.send(bytes(i % 251 for i in range(int(n))))
        print("sent", flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True)
"""


def put(p, n):
    p.p.stdin.write(f"{n}\n")
    p.p.stdin.flush()


def pattern(n):
    return bytes(i % 251 for i in range(n))


class Peer:
    """Speaks the protocol at KERNEL in the namespace ns, with OURS; datagram-port is an ordinary UDP socket here."""

    def __init__(self, ns):
        def sockets():
            return [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]
        self.wire, self.own = In(ns).run(sockets)
        self.wire.bind((KERNEL, PORT))
        self.own.bind((KERNEL, 0))
        self.port = self.own.getsockname()[1]  # stands for a program's port
        for s in (self.wire, self.own):
            s.settimeout(60)
        self.msn = 0
        self.nonce = 1 << 32
        self.says = None  # arguments of answer() for questions that come while another datagram is awaited

    def say(self, kind, to, body, qkey=0, unit=0, total=0, source=None, crc=0, flags=0):
        source = NUMBER + self.port if source is None else source
        h = struct.pack(">BBBBIIII", 0x10, kind, flags, unit // 64, to, source, qkey, total) + body
        self.wire.sendto(h + struct.pack("<I", wire_check.crc32c(h) ^ crc), (OURS, PORT))

    def hear(self, *kinds):
        while True:
            p = self.wire.recv(65535)
            g = wire_ud.decode("from rnicd: ", OURS, KERNEL, p)
            if g.kind in kinds:
                return g, len(p)
            if g.kind == ASK and self.says:
                self.answer(g, TAKES, *self.says)

    def ask(self, port, nonce=7, **more):
        self.say(ASK, NUMBER + port, struct.pack(">QBB", nonce, 0, 0), unit=1408, **more)

    def asked(self, port, slots=0, **more):
        """Asks with a number of its own; returns the answer to this question and its length."""
        self.nonce += 1
        self.say(ASK, NUMBER + port, struct.pack(">QBB", self.nonce, 0, slots), unit=1408, **more)
        while True:
            g, size = self.hear(ANSWER)
            if g.body[:8] == struct.pack(">Q", self.nonce):  # else a late answer to an earlier question
                return g, size

    def qkey_for(self, port):
        """Asks for the port's Q_Key, as a peer does."""
        g, size = self.asked(port)
        assert (g.body[8], g.src_qpn, g.dst_qpn, g.unit, size) == (
            TAKES, NUMBER + port, NUMBER + self.port, 1408, 34), g
        return g.qkey

    def answer(self, g, status, qkey=0, unit=1408, stag=0, slots=0):
        self.say(ANSWER, g.src_qpn, g.body[:8] + bytes((status, slots)), qkey, unit, stag)

    def unasked(self, g, status, qkey):
        self.say(ANSWER, g.src_qpn, bytes((*bytes(8), status, 0)), qkey)

    def send(self, port, data, qkey, **more):
        self.msn += 1
        self.say(SEND, NUMBER + port, struct.pack(">BBIIII", 0x41, 0x43, 0, 0, self.msn, 0) + data, qkey, **more)

    def segments(self, data, unit=1024):
        """Splits a datagram; returns the arguments of say() for each segment."""
        self.msn += 1
        return [(struct.pack(">BBIIII", 0x41 if at + unit >= len(data) else 1, 0x43, 0, 0, self.msn, at) +
                 data[at:at + unit], unit, len(data)) for at in range(0, len(data), unit)]

    def record(self, port, data, lent, slot, order=lambda parts: parts, **more):
        """Sends a Write-Record into a slot. lent: Q_Key and STag. more: header fields with a wrong value."""
        qkey, stag = lent
        self.msn += 1
        unit = 1408
        for at in order(list(range(0, len(data), unit))):
            last = at + unit >= len(data)
            body = struct.pack(">IIIBBIQ", more.get("msn", self.msn), at, 0, 0xc1 if last else 0x81, 0x40,
                               more.get("stag", stag), more.get("to", slot << 16) + at) + data[at:at + unit]
            self.say(RECORD, NUMBER + port, body, qkey, unit, more.get("total", len(data)), source=more.get("source"))

    def slots_of(self, port, **more):
        """Asks for slots; returns the Q_Key and the STag, which is 0 when no slots are lent."""
        g, _ = self.asked(port, slots=1, **more)
        assert g.body[8:] == bytes((TAKES, 4 if g.total else 0)), g
        return g.qkey, g.total

    def send_all(self, port, parts, qkey):
        for body, unit, total in parts:
            self.say(SEGMENT, NUMBER + port, body, qkey, unit, total)


def heard(reader, data, peer):
    line = f"got {len(data)} {zlib.crc32(data)} {KERNEL} {peer.port}"
    return sum(line in x for x in list(reader.out))


def answers_is_started_anew_and_closes(peer, p):
    """p runs SENDS, with the peer as its peer."""
    me = NUMBER + int(p.wait_line("sending").split()[1])

    def sends(n):
        put(p, n)

    def spoken(n, *kinds):
        """Sends a datagram of n bytes until it, or a segment of it, has come by iwarp."""
        peer.wire.settimeout(0.1)
        while True:
            sends(n)
            try:
                while True:
                    g, _ = peer.hear(*kinds)
                    if (g.total or len(g.body)) == n and g.qkey == peer.says[0]:
                        assert (g.dst_qpn, g.src_qpn) == (NUMBER + peer.port, me), g
                        return g
            except socket.timeout:
                pass

    def all_of(n, kind):
        parts = {}
        while len(parts) < -(-n // 640):  # in segments of the size that the peer takes
            g = spoken(n, kind)
            assert g.unit == 640, g
            parts[g.offset] = g.body
            assert kind == SEGMENT or (g.stag, (g.to - g.offset) >> 16 in (0, 1), (g.to - g.offset) & 65535) == (
                0xabc, True, 0), g
            try:
                while True:  # further segments of the same datagram
                    g, _ = peer.hear(kind)
                    if g.total == n:
                        parts[g.offset] = g.body
            except socket.timeout:
                pass
        assert b"".join(parts[k] for k in sorted(parts)) == pattern(n)

    def plain(n):
        peer.own.settimeout(0.1)
        while True:
            sends(n)
            try:
                while peer.own.recv(65535) != pattern(n):
                    pass
                return
            except socket.timeout:
                pass
    sends(100)
    g, size = peer.hear(ASK)
    assert (g.dst_qpn, g.src_qpn, g.qkey, g.unit, g.total, g.body[8:], size) == (
        NUMBER + peer.port, me, 0, 1408, 0, b"\0\0", 34), g
    assert peer.own.recv(2000) == pattern(100), "the datagram was held until an answer came"
    # the nonce differs from the question's: the answer is ignored
    peer.answer(g._replace(body=bytes(7) + b"\1"), TAKES, 1)
    peer.says = 0x1234, 640
    peer.answer(g, TAKES, *peer.says)
    assert spoken(100, SEND).body == pattern(100)
    all_of(1500, SEGMENT)
    # for a long datagram the socket asks for slots, and writes into them once some are lent
    peer.says = 0x1234, 640, 0xabc, 2
    all_of(40000, RECORD)
    # a STALE message with a wrong Q_Key changes nothing
    g = spoken(7, SEND)
    peer.unasked(g, STALE, 0x1235)
    assert spoken(8, SEND).body == pattern(8)
    # the peer is started anew: the socket asks again, sends plain meanwhile, and then uses the new Q_Key
    peer.unasked(g, STALE, 0x1234)
    plain(9)
    peer.says = 0x777, 640
    g = spoken(11, SEND)

    def refused():
        """After the message NOBODY (no socket has the port any more) the next send fails as after an ICMP error."""
        spoken(11, SEND)
        peer.unasked(g, NOBODY, 0x777)
        sends(1)
        return any("ConnectionRefusedError" in x for x in list(p.out))
    until(refused, p.tail)
    p.stop()
