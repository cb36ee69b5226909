#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The same work requests give the same bytes wherever iWARP runs: a peer in Python talks to the same program in each
design and compares the FPDUs one by one. The sink STag and address of a Read Request are left out of the comparison:
the program's end chooses them.
"""
import hashlib
import os
import struct
import sys

import wire
from rig import Daemon, Skip, case, main
from wire import C, HOST, M, READ_REQ, READ_RESP, S, WRITE, Closed, Peer, Target, read_req, send, tagged

PORT = 7000
DATA = hashlib.shake_256(b"the same wire").digest(30000)
DESIGNS = ("offloaded", "assisted", "host", "embedded")
# the place of sink STag and address in an FPDU with a Read Request: behind the length and the DDP header
REQUEST_SINK = slice(20, 32)
world = {}


class Place:
    """Offers what Target uses of a daemon; the programs run in one design."""

    def __init__(self, d, design):
        self.children, self.sock, self.design = d.children, d.sock, design
        self.addr = HOST if design == "embedded" else wire.ADDR

    def env(self):
        return dict(os.environ, RNICD_SOCKET=self.sock, RNIC_DESIGN=self.design)


class Recorder(Peer):
    """A peer that keeps each FPDU as it came."""

    def __init__(self, *args, **how):
        self.got = []
        super().__init__(*args, **how)

    def get(self):
        u = super().get()
        raw = wire.fpdu(u)
        if u[1] & 15 == READ_REQ:
            raw = raw[:REQUEST_SINK.start] + raw[REQUEST_SINK.stop:-4]
        self.got.append(raw)
        return u

    def message(self):
        """Reads up to the last segment of a message; returns that segment."""
        while True:
            u = self.get()
            if u[0] & 0x40:
                return u


def daemon():
    """One daemon at a tap. The kernel's loopback gets the tap's MTU, so that FPDUs are equally long in every design."""
    if "d" not in world:
        wire.own_network()
        if not os.path.exists("/dev/net/tun"):
            raise Skip("there is no /dev/net/tun here")
        wire.run("ip", "link", "set", "lo", "mtu", "1500")
        world["d"] = Daemon(wire.TAP_CONF)
        wire.tap_up()
    return world["d"]


def begin(design, flags, kind=Recorder):
    place = Place(daemon(), design)
    t = Target(place, place.addr)
    t.tell(f"listen {PORT} 4 4 4")
    p = kind(port=PORT, addr=place.addr)
    at = t.mark()
    frame = p.hello(flags=flags, priv=b"the same wire")
    number = t.event("CONNECT_REQUEST", at, b"the same wire")
    stag, base, _ = t.mr["rw"]
    p.put(*[tagged(WRITE, stag, base + n, DATA[n:n + 1000], n == 29000) for n in range(0, 30000, 1000)])
    p.put(send(1, b"written"))
    t.expect(f"wc {number} ", at)
    return t, p, number, frame


def end(t, p):
    p.close()
    t.say("quit")
    t.wait()


def each_operation(design):
    """The MPA Reply, and every FPDU that the program sends: Read Response, Send, Write, Read Request, Terminate."""
    t, p, number, frame = begin(design, C | S)
    stag, base, _ = t.mr["rw"]
    p.put(read_req(1, (0x1234, 0x5000), 9000, (stag, base + 100)))
    p.message()
    for command in (f"send {number} 3000", f"send {number} 1", f"write {number} 5000 {0x777701} {0x10000}",
                    f"write {number} 0 {0x777701} {0x10000}", f"write {number} 29999 {0x777702} {0xffffff01}"):
        t.say(command)
        p.message()
    t.say(f"read {number} 100 {0x777703} {0x20000}")
    u = p.message()
    sink = struct.unpack_from(">IQ", u, 18)
    p.put(tagged(READ_RESP, *sink, bytes(100)))
    t.expect(f"wc {number} 2 ")  # IBV_WC_RDMA_READ
    p.put(tagged(WRITE, 0xDEADBE, 0, b"no such STag"))
    try:
        while True:
            p.get()
    except Closed:
        pass
    end(t, p)
    return [frame, *p.got]


def with_markers(design):
    """All bytes of a stream with markers."""
    t, p, number, frame = begin(design, C | S | M, Peer)
    for opcode, command in ((0, f"send {number} 3000"), (1, f"write {number} 29999 {0x777701} {0x10000}"),
                            (0, f"send {number} 1")):  # enum ibv_wc_opcode
        before = t.mark()
        t.tell(command)
        t.expect(f"wc {number} {opcode} ", before)
    t.tell(f"disc {number}")
    try:
        p.need(1 << 30)
    except Closed:
        pass
    end(t, p)
    return [frame, p.buf]


def same(run, least):
    said = {design: run(design) for design in DESIGNS}
    for design in DESIGNS[1:]:
        assert len(said[design]) == len(said["offloaded"]), (design, [len(s) for s in said[design]],
                                                             [len(s) for s in said["offloaded"]])
        for i, (one, other) in enumerate(zip(said["offloaded"], said[design])):
            assert one == other, f"{design}, FPDU {i}: {one[:60]!r} became {other[:60]!r}"
    assert sum(len(s) for s in said["host"][1:]) > least


@case
def each_operation_has_the_same_fpdus():
    same(each_operation, 45000)


@case
def markers_stand_at_the_same_places():
    same(with_markers, 33000)


rc = main()
if "d" in world:
    world["d"].end()
    world["d"].close()
sys.exit(rc)
