#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Connections that begin as a program's own TCP connections and go on as iWARP: over the kernel's sockets (design
embedded, an ordinary user) and over rnicd's streams (designs host and assisted); between two of our programs, and with
a peer in Python that knows the RFCs only.
"""
import signal
import socket
import sys

import programs
import wire
from host_rig import Host
from rig import RNICRUN, Daemon, case, helper, main, pair_conf

A = programs.A
OTHERS = {"closed": "EBADF", "datagrams": "ENOTSOCK", "unconnected": "ENOTSOCK", "pair": "ENOTSOCK"}


class Design:
    """Runs programs in a design in which they run iWARP themselves, with sockets that are rnicd's streams."""

    def __init__(self, d, name):
        self.d, self.name = d, name

    def run(self, *argv, **env):
        return self.d.run(RNICRUN, "--sockets", "--design", self.name, *argv, **env)


class Embedded:
    def __init__(self, h):
        self.h = h

    def run(self, *argv, **env):
        return self.h.run(RNICRUN, *argv, **env)


def ends(end, program, how, port):
    """Runs both programs; returns the output of the passive end and that of the active end."""
    role = {"connect": "active", "listen": "passive"}
    if how == "reversed":
        role = {"connect": "passive", "listen": "active"}
    s = end.run(helper(program), "listen", A, str(port), role["listen"])
    s.wait_line("listening")
    c = end.run(helper(program), "connect", A, str(port), role["connect"])
    return (s.ok(), c.ok()) if how != "reversed" else (c.ok(), s.ok())


def check(passive, active):
    assert passive.count("streams") == active.count("streams") == 1, (passive, active)
    assert "CONNECT_REQUEST: asks" in passive and f"{1 << 19} bytes are right" in passive, passive
    assert "answer: all there" in active, active


def refusals(out, what):
    told = dict(line.split()[1:] for line in out.splitlines() if line.startswith("refusals:"))
    assert told == what, told


@case
def a_connection_of_the_kernels_becomes_one_of_iwarp():
    with Host() as h:
        for row, how in enumerate(("as connected", "reversed")):
            passive, active = ends(Embedded(h), "handed", how, 7300 + row)
            check(passive, active)
            refusals(active, dict(OTHERS, unconnected="ENOTCONN"))


@case
def a_connection_over_rnicd_becomes_one_of_iwarp():
    with Daemon(pair_conf()) as d:
        for row, name in enumerate(("host", "assisted")):
            for turn, how in enumerate(("as connected", "reversed")):
                passive, active = ends(Design(d, name), "handed", how, 7310 + 2 * row + turn)
                check(passive, active)
                refusals(active, OTHERS)


@case
def rnicd_itself_takes_no_socket_and_says_how_to_run_the_program():
    with Daemon(pair_conf()) as d:
        s = d.run(RNICRUN, "--sockets", helper("handed"), "listen", A, "7320", "passive")
        s.wait_line("listening")
        c = d.run(RNICRUN, "--sockets", helper("handed"), "connect", A, "7320", "active")
        for p in (s, c):
            assert p.wait() == 1 and "Operation not supported" in p.stdout() and "--embedded" in p.stderr(), p.tail()


def raw_listener():
    s = socket.socket()
    s.bind((A, 0))
    s.listen(1)
    return s, str(s.getsockname()[1])


def stream_line(s):
    """Receives the program's line on the stream, and not one byte beyond the line."""
    got = b""
    while not got.endswith(b"\n"):
        got += s.recv(1)
    assert got == b"streams\n", got


@case
def a_peer_of_the_rfcs_alone_upgrades_after_streaming():
    """The peer's MPA Request follows its last streamed byte at once, so the Request arrives before the program has
    switched to iWARP."""
    with Host() as h:
        s = Embedded(h).run(helper("handed"), "listen", A, "7330", "passive")
        s.wait_line("listening")
        with socket.create_connection((A, 7330)) as tcp:
            tcp.sendall(b"raw streams\n" + wire.mpa_request(priv=b"asks"))
            stream_line(tcp)
            p = wire.Peer(tcp)
            flags, _, priv = p.frame()
            assert not flags & wire.R, flags
            p.crc = bool(flags & wire.C)
            addr, rkey = int.from_bytes(priv[4:12], sys.byteorder), int.from_bytes(priv[12:16], sys.byteorder)
            data = bytes((i * 2654435761 & 0xFFFFFFFF) >> 24 ^ i & 255 for i in range(1 << 19))
            for off in range(0, len(data), 1000):
                p.put(wire.tagged(wire.WRITE, rkey, addr + off, data[off:off + 1000], off + 1000 >= len(data)))
            p.put(wire.send(1, b"written\0"))
            assert p.get()[18:] == b"all there\0"
            p.end()
        assert "raw streams" in s.ok() and f"{1 << 19} bytes are right" in s.stdout(), s.tail()


@case
def the_active_end_sends_a_request_of_the_rfcs_behind_what_was_streamed():
    with Host() as h:
        listener, port = raw_listener()
        c = Embedded(h).run(helper("handed"), "connect", A, port, "active")
        tcp, _ = listener.accept()
        with tcp, listener:
            stream_line(tcp)
            tcp.sendall(b"raw streams\n")
            p = wire.Peer(tcp)
            flags, rev, priv = p.frame(wire.REQ)
            assert rev == 2 and flags & wire.S and priv[4:] == b"asks", (flags, rev, priv)
            where = (0x1000).to_bytes(8, sys.byteorder) + (0x77).to_bytes(4, sys.byteorder) + bytes(4)
            p.raw(wire.mpa_request(flags=flags & ~wire.M, key=wire.REP, priv=where))
            got = b""
            while len(got) < 1 << 19:
                u = p.get()
                assert u[1] & 15 == wire.WRITE, u[:2]
                got += u[14:]
            assert got == bytes((i * 2654435761 & 0xFFFFFFFF) >> 24 ^ i & 255 for i in range(1 << 19))
            u = p.get()
            # a zero-length Write, with which the program asks a silent peer for an acknowledgement
            while u[1] & 15 == wire.WRITE and len(u) == 14:
                u = p.get()
            assert u[18:] == b"written\0", u
            p.put(wire.send(1, b"good day\0"))
            assert "answer: good day" in c.ok(), c.tail()


@case
def what_is_no_request_of_mpa_ends_the_connection_with_an_error():
    with Host() as h:
        for row, garbage in enumerate((b"GET / HTTP/1.1\r\n\r\n" + bytes(64), b"", wire.mpa_request(rev=9),
                                       wire.mpa_request(pd_len=513) + bytes(600))):
            s = Embedded(h).run(helper("handed"), "listen", A, str(7340 + row), "passive")
            s.wait_line("listening")
            with socket.create_connection((A, 7340 + row)) as tcp:
                tcp.sendall(b"raw streams\n" + garbage)
                stream_line(tcp)
                if not garbage:
                    tcp.shutdown(socket.SHUT_WR)
                assert s.wait() == 1 and "await: " in s.stdout(), s.tail()


@case
def the_one_that_lives_hears_of_the_one_that_is_killed():
    with Host() as h:
        listener, port = raw_listener()
        c = Embedded(h).run(helper("handed"), "connect", A, port, "active")
        tcp, _ = listener.accept()
        with tcp, listener:
            stream_line(tcp)
            tcp.sendall(b"raw streams\n")
            wire.Peer(tcp).frame(wire.REQ)
            c.p.send_signal(signal.SIGKILL)
            c.wait()
            try:
                assert tcp.recv(1) == b""
            except ConnectionResetError:
                pass


sys.exit(main())
