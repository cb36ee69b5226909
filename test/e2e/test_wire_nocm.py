#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The port where QPs without rdma_cm find each other, met by a peer of our own making: a good one, wrong ones, and many.
The daemon's side is Debian's ibv_rc_pingpong, which waits on a TCP port of the host for the other's address.
"""
import errno
import itertools
import re
import socket
import struct
import time

import wire
from rig import PATIENCE, RNICRUN, Process, case, need
from wire import C, R, S, SEND, WRITE, Closed, Peer, mpa_request, send, tagged
from wire_world import daemon, run

QP_PORT = 4791
GID = "00000000000000000000ffff%02x%02x%02x%02x" % tuple(socket.inet_aton(wire.HOST))
MY_QPN, COOKIE = 0x4242, bytes(range(8))


def hello(dst, src=MY_QPN, magic=b"RNQP", version=1, kind=1):
    return magic + struct.pack(">BBHII", version, kind, 0, src, dst) + COOKIE


def counters():
    return {k[8:]: v for k, v in daemon().telemetry("/rnic/counters").items() if k.startswith("qp_port_")}


def counted(name, before, n=1):
    end = time.monotonic() + PATIENCE
    while counters()[name] < before[name] + n and time.monotonic() < end:
        time.sleep(0.02)
    assert counters()[name] >= before[name] + n, (name, before, counters())


PORTS = itertools.cycle(range(1023, 0, -1))


def daemons_socket():
    """Connected from a port below 1024, as a daemon's: no user's program has one."""
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
    """A server whose QP is in INIT until told() gives it a peer."""

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
        """The QP goes to RTR and RTS."""
        self.side.sendall(b"%04x:%06x:%06x:%s\0" % (0, qpn, 1, gid.encode()))
        theirs = self.side.recv(52)
        assert int(theirs.split(b":")[1], 16) == self.qpn, theirs
        self.side.sendall(b"done\0")


def exchange(p, priv, before):
    """The Reply, RTR, a message and its answer. The connection is counted while its program waits for the message."""
    flags, _, rep = p.frame()
    p.crc = bool(flags & C)
    assert flags & S and not flags & R, f"flags {flags:#x}"
    assert rep[0] & 0x80, "not peer to peer"
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
        if early: # held until the QP knows its peer
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
    with Peer(port=QP_PORT) as p:  # from a port that any user has
        p.raw(mpa_request(priv=hello(s.qpn), p2p=1, rtr=2))
        flags, _, _ = p.frame()
        assert flags & R, f"not rejected: flags {flags:#x}"
    counted("strangers", before)
    s.stop()


@case
def requests_that_are_not_ours_are_rejected():
    s = Pingpong()
    for priv in (b"", b"RNQP", hello(s.qpn)[:-1], hello(s.qpn, magic=b"RNQQ"), hello(s.qpn, version=2), hello(s.qpn, kind=2)):
        refused(priv, "bad")
    refused(hello(0xffffff), "unwanted")
    refused(hello(0xff000000 | s.qpn), "unwanted")
    refused(b"", "bad", rev=1, flags=C)
    with Peer(port=QP_PORT) as p: # and what is no MPA at all
        p.raw(b"GET / HTTP/1.1\r\nHost: rnic\r\n\r\n")
        try:
            assert p.s.recv(100) == b""
        except ConnectionResetError:
            pass
    s.told()
    refused(hello(s.qpn, src=MY_QPN + 1), "unwanted") # it wants another
    with request(hello(s.qpn)) as p:
        exchange(p, hello(s.qpn), counters())
        refused(hello(s.qpn), "unwanted") # it is taken
        s.ok()


@case
def who_is_held_makes_room_and_goes():
    s = Pingpong()
    before = counters()
    crowd = [request(hello(s.qpn, src=i + 1)) for i in range(300)]
    counted("held", before, 300)
    counted("displaced", before, 300 - 256)
    again = counters()["displaced"]
    twice = request(hello(s.qpn, src=300)) # the same peer anew: only its own old one goes
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
    assert len(daemon().telemetry("/rnic/qps")) == 0


@case
def a_peer_that_falls_silent_in_the_middle_is_replaced():
    s = Pingpong()
    before = counters()
    s.told()
    p = request(hello(s.qpn))
    p.frame()
    p.kill() # accepted, and gone before its first FPDU
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with request(hello(s.qpn)) as again:
            try:
                exchange(again, hello(s.qpn), before)
                break
            except (AssertionError, Closed):
                time.sleep(0.05) # the daemon has not heard of it yet
    s.ok()


run()
