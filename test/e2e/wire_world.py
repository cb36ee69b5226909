# SPDX-License-Identifier: BSD-3-Clause
"""
Shared by the wire tests: one daemon on a tap in a network namespace of the test's own, the program target.c on it, and
functions that expect a Terminate.
"""
import os
import struct
import sys

import wire
from rig import Daemon, Skip, case, main, until
from wire import C, S, Closed, Peer, Target, send, tap_up

PORT = 7000
RECV_LEN = 4096  # as in target.c
RDMAP, DDP, LLP = 0, 1, 2
world = {}


def daemon():
    if "error" in world:
        raise Skip(world["error"])
    if "d" not in world:
        try:
            wire.own_network()
            if not os.path.exists("/dev/net/tun"):
                raise Skip("there is no /dev/net/tun here")
        except Skip as s:
            world["error"] = str(s)
            raise
        world["d"] = Daemon(wire.TAP_CONF)
        tap_up()
    return world["d"]


def target():
    if "t" not in world:
        d = daemon()
        world["t"] = Target(d)
        world["t"].tell(f"listen {PORT} 4 4 4")
    return world["t"]


class Conn(Peer):
    """A connection to the target. .number is the target's number for it, found by the private data of the Request."""

    names = 0

    def __init__(self, sock=None, **how):
        t = target()
        self.at = t.mark()
        super().__init__(sock, PORT)
        Conn.names += 1
        how.setdefault("priv", b"peer%08x" % Conn.names)
        self.hello(**how)
        self.number = t.event("CONNECT_REQUEST", self.at, how["priv"][:200])  # rdma_cm reports at most 255 octets

    def ended(self):
        """Waits until the target is told that the connection ended."""
        target().expect(f"cm {self.number} RDMA_CM_EVENT_DISCONNECTED", self.at)

    def completion(self, mark=None):
        return target().expect(f"wc {self.number} ", self.at if mark is None else mark)


def closed_without_reply(data):
    """The connection set-up must be refused without an answer."""
    target()
    with Peer(port=PORT) as p:
        p.raw(data)
        try:
            got = p.s.recv(100)
            assert got == b"", f"the device answered: {got!r}"
        except ConnectionResetError:
            pass


def still_works():
    with Conn() as p:
        p.put(send(1, b"still here"))
        assert "success" in p.completion(), "the completion is no success"


def refuses(want, *ulpdus, hdrct=None, offender=-1, setup=None, **how):
    """
    The FPDUs must be answered by exactly one Terminate (layer, etype, code). Its copy of the offending segment is
    checked, and that no region has changed.
    """
    before = [target().sum(r) for r in ("rw", "wo", "ro", "lo", "other")]
    with Conn() as p:
        if setup:
            setup(p)
        p.put(*ulpdus, **how)
        layer, etype, code, bits, rest = p.terminated()
        assert (layer, etype, code) == want, f"Terminate {layer}/{etype}/{code:#x}, should be {want}"
        if hdrct is not None:
            assert bits == hdrct, f"HdrCt {bits:#x}, should be {hdrct:#x}"
        if bits & 0x40:
            bad = ulpdus[offender]
            head = 14 if bad[0] & 0x80 else 18
            assert struct.unpack_from(">H", rest)[0] == len(bad), f"DDP segment length {rest[:2].hex()}, was {len(bad)}"
            assert rest[2:2 + head] == bad[:head], f"copied header {rest[2:2 + head].hex()}, was {bad[:head].hex()}"
            if bits & 0x20:
                assert rest[2 + head:2 + head + 28] == bad[head:head + 28], "the copied Read Request differs"
        p.ended()
    after = [target().sum(r) for r in ("rw", "wo", "ro", "lo", "other")]
    assert before == after, "the device has placed bytes"


HDR = 0xC0      # bits M and D: the Terminate has the segment's length and DDP header
HDR_READ = 0xE0 # bits M, D and R: the Terminate also has the header of the Read Request


def mr(name):
    return target().mr[name]


def nothing_is_left():
    d = daemon()
    t = target()
    t.say("quit")
    t.wait()
    for what in ("/rnic/clients", "/rnic/qps", "/rnic/conns"):
        until(lambda what=what: not d.telemetry(what), lambda what=what: f"{what}: {d.telemetry(what)}")
    d.end()


def run():
    case(nothing_is_left)
    try:
        code = main()
    finally:
        if "d" in world:
            world["d"].close()
    sys.exit(code)
