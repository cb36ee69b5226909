#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The port where QPs without rdma_cm find each other, met by a peer in Python: a good one, wrong ones, and many. On the
daemon's side are Debian's ibv_rc_pingpong, which waits on a TCP port of the host for the other's address, and xrc_end.c
for extended reliable connections.
"""
import errno
import itertools
import re
import socket
import struct
import time

import wire
from rig import PATIENCE, RNICRUN, Daemon, Process, case, need, until
from wire import C, R, S, SEND, WRITE, Closed, Peer, mpa_request, send, tagged, tap_up, untagged
from wire_world import DDP, daemon, run, world
from xrc_rig import End

QP_PORT = 4791
GID = "00000000000000000000ffff%02x%02x%02x%02x" % tuple(socket.inet_aton(wire.HOST))
MY_QPN, COOKIE = 0x4242, bytes(range(8))


INITIATOR, TARGET = 1, 2


def hello(dst, src=MY_QPN, magic=b"RNQP", version=1, kind=1, xrc=0):
    return magic + struct.pack(">BBBBII", version, kind, xrc, 0, src, dst) + COOKIE


def counters():
    return {k[8:]: v for k, v in daemon().telemetry("/rnic/counters").items() if k.startswith("qp_port_")}


def counted(name, before, n=1):
    end = time.monotonic() + PATIENCE
    while counters()[name] < before[name] + n and time.monotonic() < end:
        time.sleep(0.02)
    assert counters()[name] >= before[name] + n, (name, before, counters())


PORTS = itertools.cycle(range(1023, 0, -1))


def daemons_socket():
    """A connection from a port below 1024, as a daemon's: no unprivileged program can bind one."""
    for port in itertools.islice(PORTS, 1023):
        s = socket.socket()
        s.settimeout(PATIENCE)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("", port))
            s.connect((wire.ADDR, QP_PORT))
            return s
        except OSError as e:
            s.close()
            if e.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise
    raise AssertionError("all ports below 1024 are in use")


def request(priv, **how):
    p = Peer(daemons_socket())
    p.raw(mpa_request(priv=priv, p2p=1, rtr=2, **how))
    return p


def refused(priv, counter, **how):
    before = counters()
    with request(priv, **how) as p:
        flags, _, _ = p.frame()
        assert flags & R, f"not rejected: flags {flags:#x}"
    counted(counter, before)


class Pingpong(Process):
    """ibv_rc_pingpong as server, whose QP stays in INIT until told() names its peer."""

    def __init__(self, *args):
        need("ibv_rc_pingpong")
        super().__init__([RNICRUN, "ibv_rc_pingpong", "-g", "0", "-n", "1", "-s", "64", *args], env=daemon().env())
        daemon().children.append(self)
        end = time.monotonic() + PATIENCE
        self.side = None
        while self.side is None and time.monotonic() < end:
            assert self.p.poll() is None, self.tail()
            try:
                self.side = socket.create_connection(("127.0.0.1", 18515), timeout=PATIENCE)
            except ConnectionRefusedError:
                time.sleep(0.02)
        self.qpn = int(re.match(r"\d+", daemon().telemetry("/rnic/qps")[-1]).group())

    def told(self, qpn=MY_QPN, gid=GID):
        """Names the peer: the server moves its QP to RTR and RTS."""
        self.side.sendall(b"%04x:%06x:%06x:%s\0" % (0, qpn, 1, gid.encode()))
        theirs = self.side.recv(52)
        assert int(theirs.split(b":")[1], 16) == self.qpn, theirs
        self.side.sendall(b"done\0")


def exchange(p, priv, before):
    """Checks the Reply, sends RTR and a message, and checks the answer. The counter must rise while the program waits
    for the message."""
    flags, _, rep = p.frame()
    p.crc = bool(flags & C)
    assert flags & S and not flags & R, f"the Reply has flags {flags:#x}"
    assert rep[0] & 0x80, "the Reply does not have the bit A (peer-to-peer)"
    src, dst = struct.unpack(">II", priv[8:16])
    assert rep[4:] == hello(src, dst, kind=2), rep.hex()
    p.put(tagged(WRITE, 0, 0))
    counted("connections", before)
    p.put(send(1, b"A" * 64))
    u = p.get()
    assert u[1] & 15 == SEND and len(u) == 18 + 64, u.hex()


@case
def a_peer_of_our_own_making_is_served_early_or_late():
    for early in (False, True):
        s = Pingpong()
        priv = hello(s.qpn)
        before = counters()
        if early: # the connection is held until the QP knows its peer
            p = request(priv)
            counted("held", before)
            s.told()
        else:
            s.told()
            p = request(priv)
        exchange(p, priv, before)
        s.ok()
        p.close()


@case
def a_peer_that_is_no_daemon_speaks_for_no_queue_pair():
    s = Pingpong()
    s.told()
    before = counters()
    with Peer(port=QP_PORT) as p:  # from a port that any user may bind
        p.raw(mpa_request(priv=hello(s.qpn), p2p=1, rtr=2))
        flags, _, _ = p.frame()
        assert flags & R, f"not rejected: flags {flags:#x}"
    counted("strangers", before)
    s.stop()


@case
def requests_that_are_not_ours_are_rejected():
    s = Pingpong()
    for priv in (b"", b"RNQP", hello(s.qpn)[:-1], hello(s.qpn, magic=b"RNQQ"), hello(s.qpn, version=3),
                 hello(s.qpn, version=2), hello(s.qpn, kind=2)):
        refused(priv, "bad")
    refused(hello(0xffffff), "unwanted")
    refused(hello(0xff000000 | s.qpn), "unwanted")
    refused(b"", "bad", rev=1, flags=C)
    with Peer(port=QP_PORT) as p: # bytes that are no MPA Request
        p.raw(b"GET / HTTP/1.1\r\nHost: rnic\r\n\r\n")
        try:
            assert p.s.recv(100) == b""
        except ConnectionResetError:
            pass
    s.told()
    refused(hello(s.qpn, src=MY_QPN + 1), "unwanted") # the QP expects another peer
    with request(hello(s.qpn)) as p:
        exchange(p, hello(s.qpn), counters())
        refused(hello(s.qpn), "unwanted") # the QP is connected already
        s.ok()


@case
def who_is_held_makes_room_and_goes():
    s = Pingpong()
    before = counters()
    crowd = [request(hello(s.qpn, src=i + 1)) for i in range(300)]
    counted("held", before, 300)
    counted("displaced", before, 300 - 256)
    again = counters()["displaced"]
    twice = request(hello(s.qpn, src=300)) # the same peer connects again: only its own old connection goes
    counted("held", before, 301)
    assert counters()["displaced"] == again
    flags, _, _ = crowd[0].frame()
    assert flags & R, f"not rejected: flags {flags:#x}"
    s.told()
    with request(hello(s.qpn)) as p:
        exchange(p, hello(s.qpn), counters())
        s.ok()
    for c in crowd[200:]:
        c.kill()
    for c in crowd[:200] + [twice]:
        c.close()
    until(lambda: not daemon().telemetry("/rnic/qps"), lambda: f"{daemon().telemetry('/rnic/qps')}")


@case
def a_peer_that_falls_silent_in_the_middle_is_replaced():
    s = Pingpong()
    before = counters()
    s.told()
    p = request(hello(s.qpn))
    p.frame()
    p.kill() # the connection is accepted, and gone before its first FPDU
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with request(hello(s.qpn)) as again:
            try:
                exchange(again, hello(s.qpn), before)
                break
            except (AssertionError, Closed):
                time.sleep(0.05) # the daemon has not learned yet that the connection is gone
    s.ok()


# ---- extended reliable connections: doc/wire.md ----

class Xrc:
    """A process with an XRC domain, a shared receive queue and a queue pair of one kind, which waits for the peer in
    Python."""

    def __init__(self, kind):
        self.e = End(daemon(), "rnic0")
        self.e.do("open", "-", "c")
        self.srqn = self.e.number("srq")
        self.which, self.xrc = ("t", TARGET) if kind == "target" else ("i", INITIATOR)
        self.qpn = self.e.number(kind)

    def told(self):
        gid = bytes.fromhex(GID)
        self.e.do("join", self.which, MY_QPN, *(gid[i:i + 8][::-1].hex() for i in (0, 8)))

    def meet(self):
        """Connects as the counterpart; the Reply must say whether this side is the initiator or the target."""
        self.told()
        p = request(hello(self.qpn, version=2, xrc=TARGET + INITIATOR - self.xrc))
        flags, _, rep = p.frame()
        p.crc = bool(flags & C)
        assert flags & S and not flags & R, f"the Reply has flags {flags:#x}"
        assert rep[4:] == hello(MY_QPN, self.qpn, version=2, kind=2, xrc=self.xrc), rep.hex()
        p.put(tagged(WRITE, 0, 0))
        return p

    def end(self):
        self.e.p.stdin.close()
        assert self.e.wait() == 0, self.e.tail()


@case
def a_targets_message_goes_to_the_queue_that_its_word_names():
    x = Xrc("target")
    x.e.do("recv", 0, 1)
    with x.meet() as p:
        p.put(send(1, b"A" * 500, last=False, word=x.srqn), send(1, b"B" * 12, mo=500, word=x.srqn))
        assert x.e.done()[:4] == (0, 128, 0, 512)
        # the word, which names the receive queue, must be the same in all segments of a message
        p.put(send(2, b"A", last=False, word=x.srqn), send(2, b"B", mo=1, word=x.srqn + 1))
        assert p.terminated()[0] == 0
    x.end()


@case
def a_word_that_names_no_queue_of_the_domain_is_refused():
    other = Xrc("target")
    other.e.do("recv", 0)
    for bad in (lambda u: send(1, b"A", word=0), lambda u: send(1, b"A", word=other.srqn),
                lambda u: send(1, b"A", word=0x10000 | u), lambda u: send(1, b"A", word=0xffffffff),
                lambda u: untagged(8, 0, 1, b"\0" * 8, word=0),  # Immediate Data
                lambda u: untagged(4, 0, 1, b"A", word=u)):  # Send with Invalidate, whose word is an STag
        x = Xrc("target")
        x.e.do("recv", 0)
        with x.meet() as p:
            p.put(bad(x.srqn))
            assert p.terminated()[:3] == (DDP, 2, 1)
        assert x.e.number("empty") == 1
        x.end()
    assert other.e.number("empty") == 1
    other.end()


@case
def an_initiators_sends_name_the_queue_and_it_takes_none():
    x = Xrc("ini")
    with x.meet() as p:
        x.e.do("send", 0x2345, 3000, 1)
        x.e.do("imm", 0x2346, 4, 1)
        seen = []
        while len(seen) < 4:
            u = p.get()
            if u[1] & 15 == SEND:
                seen.append(u)
        assert [struct.unpack(">I", u[2:6])[0] for u in seen] == [0x2345] * 3 + [0x2346], [u[:18].hex() for u in seen]
        p.put(send(1, b"A", word=0x2345))
        assert p.terminated()[:3] == (DDP, 2, 1)
    x.end()


@case
def only_counterparts_that_say_so_connect():
    for kind in ("target", "ini"):
        x = Xrc(kind)
        x.told()
        refused(hello(x.qpn), "unwanted")  # an ordinary queue pair, as of an older rnicd
        refused(hello(x.qpn, version=2, xrc=x.xrc), "unwanted")
        refused(hello(x.qpn, version=2), "bad")
        refused(hello(x.qpn, version=2, xrc=3), "bad")
        x.end()
    s = Pingpong()
    s.told()
    refused(hello(s.qpn, version=2, xrc=INITIATOR), "unwanted")
    s.stop()


@case
def a_peer_that_is_no_daemon_may_speak_where_the_administrator_says_so():
    """With another daemon, which the last case of this program finds in its place."""
    daemon().end()
    world.pop("d").close()
    world["d"] = Daemon(wire.TAP_CONF + "qp-peers = any\n")
    tap_up()
    s = Pingpong()
    s.told()
    before = counters()
    with Peer(port=QP_PORT) as p:  # from a port that any user may bind
        assert p.s.getsockname()[1] >= 1024
        priv = hello(s.qpn)
        p.raw(mpa_request(priv=priv, p2p=1, rtr=2))
        exchange(p, priv, before)
        s.ok()
    assert counters()["strangers"] == 0, counters()


run()
