#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bad frames below iWARP: floods, silence, options, noise."""
import os
import random
import socket
import struct
import time

import wire
from rig import case, until
from wire import Closed, Frames, tcp_frame
from wire_world import PORT, daemon, target, still_works, run


def flows():
    return len(daemon().telemetry("/rnic/conns"))


def without_request():
    """Number of connections that ended before a Request came. rnicd's log counts only those of no_request, not those
    that have made room for others (syn_evicted)."""
    port = daemon().telemetry("/rnic/ports,rnic0")
    return port["syn_evicted"] + port["no_request"]


@case
def syn_flood():
    """Thousands of SYNs from addresses that never answer: a real client is still let in."""
    d = daemon()
    target()
    f = Frames()
    rng = random.Random(9)
    mac = bytes.fromhex("020000000c01")
    for i in range(6000):
        f.put(tcp_frame(mac, f.mac, f"10.79.0.{rng.randrange(10, 250)}", wire.ADDR, rng.randrange(1024, 65536), PORT,
                        rng.getrandbits(32), options=b"\x02\x04\x05\xb4"))
        if i % 64 == 63:
            time.sleep(0.005)
    end = time.monotonic() + 40
    while True:
        try:
            still_works()
            break
        except (Closed, OSError, AssertionError):
            assert time.monotonic() < end, "no client can connect after a SYN flood"
            time.sleep(0.5)
    assert d.alive()
    f.close()


@case
def connections_that_say_nothing():
    """60 silent connections, fewer than the listener's backlog: others are accepted beside them, and rnicd ends each
    silent connection after a while."""
    target()
    before = without_request()
    idle = [socket.create_connection((wire.ADDR, PORT), timeout=60) for _ in range(60)]
    still_works()
    for s in idle:
        s.settimeout(60)
        try:
            assert s.recv(1) == b""
        except ConnectionResetError:
            pass
        s.close()
    # in the other designs rnicd does not know what the bytes mean
    if os.environ.get("RNIC_DESIGN", "offloaded") == "offloaded":
        until(lambda: without_request() >= before + len(idle), lambda: daemon().telemetry("/rnic/ports,rnic0"))


@case
def segments_nobody_waits_for():
    """Segments to a closed port, without a connection: rnicd answers with a reset; to a reset it answers nothing."""
    daemon()
    target()
    s = socket.socket()
    s.settimeout(20)
    try:
        s.connect((wire.ADDR, 9))
        raise AssertionError("a port without listener answered")
    except ConnectionRefusedError:
        pass
    s.close()


@case
def tcp_options_of_length_0():
    d = daemon()
    target()
    f = Frames()
    mac = bytes.fromhex("020000000c01")
    for options in (b"\x02\x00\x05\xb4", b"\x08\x00", b"\x03\x01\x00\x00", b"\x02\xff\x00\x00", b"\x05\x00\x00\x00" * 10,
                    b"\x01" * 39 + b"\x02", b"\xfd\x00\x00\x00"):
        for flags in (2, 0x10, 0x12, 0x18):
            f.put(tcp_frame(mac, f.mac, "10.79.0.2", wire.ADDR, 5555, PORT, 1, 1, flags, b"x" * 8, options))
    f.close()
    still_works()
    assert d.alive()


@case
def garbage_frames():
    """Noise, truncated headers, lengths that lie, bad checksums."""
    d = daemon()
    target()
    f = Frames()
    rng = random.Random(3)
    mac = bytes.fromhex("020000000c01")
    good = tcp_frame(mac, f.mac, wire.HOST, wire.ADDR, 4444, PORT, 7, 9, 0x18, b"data" * 20)
    for i in range(4000):
        kind = i % 4
        if kind == 0:
            frame = mac + f.mac + rng.randbytes(rng.randrange(2, 200))
        elif kind == 1:
            frame = good[:rng.randrange(14, len(good))]
        else:
            b = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                b[rng.randrange(12, 60)] = rng.randrange(256)
            frame = bytes(b) if kind == 2 else bytes(b[:rng.randrange(20, len(b))])
        f.put(frame.ljust(60, b"\0") if i % 8 < 4 else frame)
        if i % 64 == 63:
            time.sleep(0.004)
    for op in range(0, 40):
        f.put(mac + f.mac + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x800, 6, 4, op) + rng.randbytes(20))
    f.close()
    assert d.alive(), d.tail()
    still_works()


@case
def wrong_checksum_is_dropped():
    d = daemon()
    target()
    f = Frames()
    mac = bytes.fromhex("020000000c01")
    f.put(tcp_frame(mac, f.mac, wire.HOST, wire.ADDR, 6001, PORT, 5, options=b"\x02\x04\x05\xb4", good=False))
    f.put(tcp_frame(mac, f.mac, wire.HOST, wire.ADDR, 6002, PORT, 5, options=b"\x02\x04\x05\xb4"))

    def answer(frame):
        return frame[6:12] == mac and frame[12:14] == b"\x08\x00" and frame[23] == 6 and frame[47] == 0x12
    got = f.get(answer)
    assert got is not None, "no SYN-ACK answers the good SYN"
    assert struct.unpack_from(">H", got, 36)[0] == 6002, "the SYN with a wrong checksum was answered"
    f.close()
    assert d.alive()


class Segments:
    """
    A TCP endpoint in Python at an address that the kernel does not have; the test decides what is acknowledged. rnicd
    answers the SYN at the MAC that the SYN came from, and asks for the address when the peer has sent an MPA Request.
    """

    mac, ip, port = bytes.fromhex("020000000c01"), "10.79.0.77", 5005

    def __init__(self, to):
        self.f, self.to = Frames(), to
        self.seq, self.ack = 1000, 0
        self.put(2, options=b"\x02\x04\x05\xb4")
        seq, flags, _ = self.get()
        assert flags == 0x12, flags
        self.seq, self.ack = 1001, seq + 1

    def put(self, flags, data=b"", options=b""):
        self.f.put(tcp_frame(self.mac, self.f.mac, self.ip, wire.ADDR, self.port, self.to, self.seq, self.ack, flags,
                             data, options))

    def asks(self, f):
        """Whether the frame is an ARP request for the endpoint's address."""
        return f[12:14] == b"\x08\x06" and f[20:22] == b"\0\1" and f[38:42] == socket.inet_aton(self.ip)

    def get(self):
        """The next segment: sequence number, flags, data. Answers ARP requests that come before it."""
        while True:
            f = self.f.get(lambda f: self.asks(f) or (f[6:12] == self.mac and f[12:14] == b"\x08\x00" and
                                                      f[23] == 6 and f[30:34] == socket.inet_aton(self.ip)))
            assert f, "the device sends no segment"
            if not self.asks(f):
                break
            self.f.put(self.mac + self.f.mac + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x800, 6, 4, 2) + self.f.mac +
                       socket.inet_aton(self.ip) + self.mac + socket.inet_aton(wire.ADDR) + b"\0" * 18)
        end, start = 14 + struct.unpack_from(">H", f, 16)[0], 34 + (f[46] >> 4) * 4
        return struct.unpack_from(">I", f, 38)[0], f[47], f[start:end]


@case
def a_fin_waits_until_the_reply_before_it_has_arrived():
    """When a FIN and an MPA Reply wait at its socket together, Linux siw sees the FIN first and takes a reject for a
    reset. So rnicd repeats the Reply, and sends no FIN, until the Reply is acknowledged."""
    target().tell("listen 7005 4 4 4 reject")
    s = Segments(7005)
    replies = 0
    while replies < 3:
        if replies == 0:
            # the Request is sent again when the first segment is a window update of the accepted stream
            s.put(0x18, wire.mpa_request())
        seq, flags, data = s.get()
        assert not flags & 1, f"a FIN came although none of {replies} Replies was acknowledged"
        replies += data.startswith(wire.REP)
        s.ack = max(s.ack, seq + len(data))
    s.seq += len(wire.mpa_request())
    s.put(0x10)
    while not s.get()[1] & 1:
        pass
    s.put(4)
    s.f.close()


if __name__ == "__main__":
    run()
