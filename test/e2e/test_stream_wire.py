#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
TCP sockets of unchanged programs over the wire protocol iwarp (doc/stream-sockets.md): they behave as the kernel's
sockets; wire_check.py checks the bytes on the wire; peers that do not speak the protocol get plain TCP; a peer in
Python speaks it, and breaks the rules.
"""
import hashlib
import os
import re
import struct

import wire
import wire_check
from nets import KERNEL, OURS, tap
from rig import RNICRUN, Daemon, case, main, pair_conf, until
from sock_rig import SEND_BY_WIRE as SEND, SERVE_BY_WIRE as SERVE
from sock_rig import kernels, nothing_left, ours, port_of, python, same_as_the_kernel
from wire_esock import CREDIT, DATA, END, WRITTEN, Bytes, Windows, hello, message, window_hello
from wire_stream import ADDR, ASKS, TAKES, Tcp, option, options_of

A, B = "10.77.0.1", "10.77.0.2"
RING = 262144  # octets of rnicd's window
HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "sock_table.py")
IWARP = ("env", "RNIC_WIRE=iwarp")

# Sends zeros in one call, and waits for the end of the stream.
ONE = """
import socket, sys
c = socket.socket()
c.connect((sys.argv[1], int(sys.argv[2])))
c.sendall(bytes(int(sys.argv[3])))
c.shutdown(socket.SHUT_WR)
while c.recv(1000):
    pass
print("sent", flush=True)
"""

HELLO = """
import errno, socket, sys
c = socket.socket()
c.connect((sys.argv[1], int(sys.argv[2])))
try:
    c.sendall(b"hello")
    c.shutdown(socket.SHUT_WR)
    got = b""
    while b := c.recv(1000):
        got += b
    print("got", got.decode(), c.getsockopt(0x524e, 1), flush=True)
except OSError as e:
    print("failed", errno.errorcode[e.errno], flush=True)
"""


def iwarp(d, *argv, netns=None):
    pre = ["ip", "netns", "exec", netns] if netns else []
    return d.run(*pre, *IWARP, RNICRUN, "--sockets", *argv)


def counted(d, what):
    return d.telemetry("/rnic/counters")[what]


def vectors():
    with open(os.path.join(HERE, "..", "..", "doc", "stream-sockets.md"), encoding="utf-8") as f:
        found = dict(re.findall(r"^\| `(\w+)` \| `([0-9a-f ]+)` \|", f.read(), re.M))
    return {name: bytes.fromhex(octets) for name, octets in found.items()}


@case
def sockets_do_what_the_kernels_do_over_iwarp():
    """With two workers; the other cases use one."""
    with Daemon(pair_conf(rnicd="workers = 0,1", both="stream-wire = iwarp")) as d, nothing_left(d):
        same_as_the_kernel(d, TABLE, A)
        assert counted(d, "fpdus_in") > 1000 and not counted(d, "crc_errors"), counted(d, "fpdus_in")


@case
def bytes_survive_a_line_that_loses_and_reorders():
    with Daemon(pair_conf(both="loss = 1%\nreorder = 5%\nduplicate = 1%")) as d, nothing_left(d):
        s = ours(d, *python(SERVE, A))
        assert iwarp(d, *python(SEND, A, port_of(s), 1, 3_000_000)).ok() == "wires 2 2"
        assert not counted(d, "crc_errors") and not counted(d, "terms_sent")
        s.stop()


@case
def the_wire_is_chosen_by_port_program_and_socket():
    with Daemon(pair_conf(b="stream-wire = iwarp")) as d, nothing_left(d):
        s = ours(d, *python(SERVE, A))
        at = port_of(s)

        def wires(run, *more):
            return run(d, *python(SEND, A, at, 1, 1000, *more)).ok()
        assert wires(ours) == "wires 2 2", "the port's stream-wire has no effect"
        assert wires(ours, 1) == "wires 1 1" and wires(iwarp, 1) == "wires 1 1", "the socket's option has no effect"
        assert wires(lambda d, *a: d.run("env", "RNIC_WIRE=plain", RNICRUN, "--sockets", *a)) == "wires 1 1"
        s.stop()
    with Daemon(pair_conf()) as d:
        s = ours(d, *python(SERVE, A))
        at = port_of(s)
        assert ours(d, *python(SEND, A, at, 1, 1000)).ok() == "wires 1 1"
        assert ours(d, *python(SEND, A, at, 1, 1000, 2)).ok() == "wires 2 2"
        s.stop()


@case
def a_kernel_that_does_not_speak_it_has_plain_tcp():
    with tap("stream-wire = iwarp") as (ns, d), nothing_left(d):
        s = kernels(d, *python(SERVE, KERNEL), netns=ns)
        assert iwarp(d, *python(SEND, KERNEL, port_of(s), 2, 300_000), netns=ns).ok() == "wires 1 kernel"
        s.stop()
        s = iwarp(d, *python(SERVE, OURS), netns=ns)
        assert kernels(d, *python(SEND, OURS, port_of(s), 3, 300_000), netns=ns).ok() == "wires kernel 1"
        s.stop()
        assert not counted(d, "fpdus_in") and not counted(d, "fpdus_out")


@case
def the_wire_is_iwarp_with_good_crcs_and_the_documents_vectors():
    v = vectors()
    assert v["asks"] == option(ASKS) and v["takes"] == option(TAKES), v
    assert v["request"] == wire.mpa_request(ird=1, ord_=1, priv=window_hello(0x0a0b0c0d, RING, 16, 16384)), v
    with Daemon(pair_conf(a="capture = {dir}/a.pcapng")) as d:
        s = ours(d, *python(SERVE, A))
        assert iwarp(d, *python(SEND, A, port_of(s), 4, 200_000)).ok() == "wires 2 2"
        s.stop()
        d.end()
        path = os.path.join(d.dir, "a.pcapng")
        conn, = wire_check.check(path)  # raises when a header, a sum or a CRC is wrong
        assert conn.crc_good == conn.fpdus > 150 and conn.payload > 200_000 and not conn.terminates, conn
        assert set(conn.ops[0]) <= {0, 3} and set(conn.ops[1]) <= {0, 3}, conn
        for priv in (conn.req["priv"], conn.rep["priv"]):
            assert priv == window_hello(int.from_bytes(priv[12:16], "big"), RING, 16, 16384), priv
        assert conn.req["ird"] == 1, conn.req
        said = [options_of(f).get(253) for f in wire_check.frames(path)
                if f[12:14] == b"\x08\x00" and f[23] == 6 and f[47] & 2]
        assert said == [v["asks"], v["takes"]], said


# ---- a peer in Python ----

def dial(ns, port, sport, seq=1000):
    """The peer's end of a connection of this wire to a program's port: connected, with the hello exchanged and a first
    CREDIT sent."""
    t = Tcp(ns, sport, seq).connect(port, option(ASKS))
    assert t.syn.get(253) == option(TAKES), t.syn
    p = wire.Peer(sock=t)
    p.hello(ird=1, ord_=1, priv=hello(8, 4096))
    b = Bytes(p, 8, p.priv[4:])
    b.put(CREDIT)
    return t, p, b


@case
def a_peer_of_its_own_connects():
    data = bytes(i % 253 for i in range(300_000))
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(SERVE, OURS), netns=ns)
        t, _, b = dial(ns, port_of(s), 40001)
        for at in range(0, len(data), 16000):
            while b.credits < 2:
                b.get()
                b.credit_if_due()
            b.put(DATA, data[at:at + 16000])
        while b.credits < 2:
            b.get()
            b.credit_if_due()
        b.put(END)
        while not b.ended:
            b.get()
            b.credit_if_due()
        assert b.came.decode().split() == [str(len(data)), hashlib.sha256(data).hexdigest(), "2"], b.came
        assert not t.fin, "the FIN came from the end that closes second"
        t.shutdown()
        t.until(lambda: t.fin)
        t.close()
        s.stop()


@case
def a_syn_that_meets_time_wait_is_answered():
    """The program has ended its direction first, so that rnicd has the connection in TIME_WAIT, for a second. The peer
    connects again from the same port, and sends each SYN only once."""
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python("""
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
while True:
    s, _ = l.accept()
    s.shutdown(socket.SHUT_WR)
    while s.recv(1000):
        pass
    s.close()
""", OURS), netns=ns)
        port, seq = port_of(s), 1000
        for _ in range(5):
            t, _, b = dial(ns, port, 40601, seq)
            while not b.ended:
                b.get()
            b.put(END)
            t.until(lambda t=t: t.fin)
            t.shutdown()
            t.until(lambda t=t: t.acked == t.seq)
            t.leave()
            seq = t.seq + 1000  # above what rnicd has seen: the SYN may begin a connection anew (RFC 6191)
        s.stop()


@case
def what_breaks_a_rule_ends_the_connection():
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(SERVE, OURS), netns=ns)
        port, sport = port_of(s), 40100
        bad = [
            lambda p, b: p.put(wire.tagged(wire.WRITE, 0x123400, 0, b"x")),
            lambda p, b: p.put(wire.read_req(1, (1, 0), 8, (0x123400, 0))),
            lambda p, b: b.segments(message(9)),  # a kind that does not exist
            lambda p, b: b.segments(message(DATA)),  # DATA without bytes
            lambda p, b: b.segments(message(DATA, 0, b"x", 1)),  # reserved octets that are not 0
            lambda p, b: b.segments(message(DATA, 9, b"x")),  # more credits granted than there are slots
            lambda p, b: b.segments(message(DATA, 0, bytes(17000))),  # longer than a slot
            lambda p, b: b.segments(b"\1\0\0"),  # shorter than a message's header
            lambda p, b: p.put(wire.terminate(0, 0, 0)),
        ]
        for i, breaks in enumerate(bad):
            t, p, b = dial(ns, port, sport := sport + 1)
            b.msn += 1
            breaks(p, b)
            t.until(lambda t=t: t.fin or t.reset)
            until(lambda i=i: sum("ConnectionResetError" in x for x in list(s.out)) == i + 1, s.tail)
            t.close()
        for first in (wire.mpa_request(ird=1, ord_=1), wire.mpa_request(ird=1, ord_=1, priv=hello(1, 1)),
                      # a Request without hello, one whose hello is invalid, and bytes that are no Request
                      b"GET / HTTP/1.1\r\n\r\n" * 3):
            with Tcp(ns, sport := sport + 1).connect(port, option(ASKS)) as t:
                t.sendall(first)
                t.until(lambda t=t: t.reset)
        # the program is told nothing of these connections and goes on
        assert sum("ConnectionResetError" in x for x in list(s.out)) == len(bad), s.tail()
        assert kernels(d, *python(SEND, OURS, port, 5, 1000), netns=ns).ok() == "wires kernel 1"
        s.stop()


@case
def a_peer_that_sends_without_credits_is_ended():
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python("""
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
s, _ = l.accept()
sys.stdin.readline()
try:
    while s.recv(100000):
        pass
except OSError as e:
    print(type(e).__name__, flush=True)
""", OURS), netns=ns)
        t, _, b = dial(ns, port_of(s), 40201)
        for n in [16376] * 16 + [128] + [1] * 17:  # a full ring, all slots, and one message more
            b.msn += 1
            b.segments(message(DATA, 0, bytes(n)))
        t.until(lambda: t.fin or t.reset)
        s.p.stdin.write("\n")
        s.p.stdin.flush()
        s.wait_line("ConnectionResetError")
        t.close()
        s.ok()


@case
def options_that_do_not_ask_are_answered_with_plain_tcp():
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(SERVE, OURS), netns=ns)
        port = port_of(s)
        for i, o in enumerate((option(TAKES), option(ASKS, 0x524e4958), option(3), b"\xfd\x06" + option(ASKS)[2:6],
                               b"\xfe" + option(ASKS)[1:])):
            with Tcp(ns, 40300 + i).connect(port, o) as t:
                assert 253 not in t.syn, t.syn
                t.sendall(b"plain")
                t.shutdown()
                t.until(lambda t=t: t.fin)
                assert t.got.decode().split() == ["5", hashlib.sha256(b"plain").hexdigest(), "1"], t.got
        s.stop()


@case
def a_peer_of_its_own_is_connected_to():
    with tap("stream-wire = iwarp") as (ns, d), nothing_left(d):
        def meets(sport, *options):
            t = Tcp(ns, sport).answers(*options)
            p = ours(d, *python(HELLO, ADDR, sport), netns=ns)
            t.until(lambda: t.open)
            assert t.syn.get(253) == option(ASKS), t.syn
            return t, p
        for sport, o in ((40401, b""), (40402, option(ASKS)), (40403, option(TAKES, 0x524e4958))):
            t, p = meets(sport, o)  # no answer, the question sent back, another program's option
            t.until(lambda t=t: t.fin)
            assert t.got == b"hello", t.got
            t.sendall(b"plain")
            t.shutdown()
            p.wait_line("got plain 1")
            p.ok()
            t.close()
        t, p = meets(40404, option(TAKES))
        peer = wire.Peer(sock=t)
        request = peer.take(44)
        assert request[:36] + bytes.fromhex("0a0b0c0d") + request[40:] == vectors()["request"], request
        peer.raw(wire.mpa_request(key=wire.REP, ird=1, ord_=1, priv=hello(8, 4096)))
        b = Bytes(peer, 8, hello(16, 16384))
        while not b.ended:
            b.get()
        assert b.kinds == [CREDIT, DATA, END] and b.came == b"hello", b.kinds
        b.put(DATA, b"over iwarp")
        assert not t.fin
        b.put(END)
        t.until(lambda: t.fin)
        t.shutdown()
        p.wait_line("got over iwarp 2")
        p.ok()
        t.close()
        for i, reply in enumerate((wire.mpa_request(key=wire.REP, ird=1, ord_=1), b"HTTP/1.1 200 OK\r\n\r\n" * 2,
                                   wire.mpa_request(key=wire.REP, flags=wire.C | wire.S | wire.R, ird=1, ord_=1))):
            t, p = meets(40410 + i, option(TAKES))
            wire.Peer(sock=t).take(44)
            t.sendall(reply)  # a Reply without hello, bytes that are no Reply, a Reply that rejects
            # ENOTCONN when the program has not read yet and shuts its side down
            assert p.wait_line("failed").split()[1] in ("ECONNRESET", "ENOTCONN"), p.tail()
            p.ok()
            t.close()


# ---- windows ----

def dial_window(ns, port, sport, window=20000):
    """As dial(), with a window."""
    t = Tcp(ns, sport).connect(port, option(ASKS))
    p = wire.Peer(sock=t)
    p.hello(ird=1, ord_=1, priv=window_hello(0x123456, window, 8, 4096))
    b = Windows(p, 8, p.priv[4:], 0x123456, window)
    b.put(CREDIT)
    return t, p, b


def wait_for(b, what):
    while not what():
        b.get()
        b.credit_if_due()


@case
def a_peer_of_its_own_writes_into_the_window():
    """Sends three times as many bytes as the window has, by Writes and DATA in turns, so that some Writes go around the
    end of the ring."""
    data = bytes(i % 251 for i in range(3 * RING))
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(SERVE, OURS), netns=ns)
        t, _, b = dial_window(ns, port_of(s), 40501)
        assert b.room == RING
        while b.sent < len(data):
            wait_for(b, lambda: b.credits >= 2 and b.room > 0)
            n = min(b.room, len(data) - b.sent, 30011)
            if b.msn % 3:
                b.write(data[b.sent:b.sent + n // 2])
                b.write(data[b.sent + n // 2:b.sent + n], b.sent + n // 2)  # two Writes, told by one message
                b.written(n)
            else:
                b.put(DATA, data[b.sent:b.sent + min(n, 16372)])
        wait_for(b, lambda: b.credits >= 2)
        b.put(END)
        wait_for(b, lambda: b.ended)
        assert b.came.decode().split() == [str(len(data)), hashlib.sha256(data).hexdigest(), "2"], b.came
        t.shutdown()
        t.until(lambda: t.fin)
        t.close()
        s.stop()


@case
def rnicd_writes_into_the_window_of_a_peer_of_its_own():
    """The class Windows checks that each Write names the next octets and stays in the window, and that a message
    reports these octets."""
    with tap("stream-wire = iwarp") as (ns, d), nothing_left(d):
        t = Tcp(ns, 40511).answers(option(TAKES))
        p = ours(d, *python(SEND, ADDR, 40511, 7, 900_000), netns=ns)
        t.until(lambda: t.open)
        peer = wire.Peer(sock=t)
        request = peer.take(44)
        peer.raw(wire.mpa_request(key=wire.REP, ird=1, ord_=1, priv=window_hello(0x654321, 20000, 8, 4096)))
        b = Windows(peer, 8, request[24:], 0x654321, 20000)
        wait_for(b, lambda: b.ended)
        assert WRITTEN in b.kinds and len(b.came) >= 900_000, b.kinds
        b.write(answer := f"{len(b.came)} {hashlib.sha256(b.came).hexdigest()} 2".encode())
        b.written(len(answer))
        b.put(END)
        t.until(lambda: t.fin)
        t.shutdown()
        p.wait_line("wires 2 2")
        p.ok()
        t.close()


@case
def a_write_that_is_not_to_granted_room_ends_the_connection():
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(SERVE, OURS), netns=ns)
        port, sport = port_of(s), 40600

        def told(b, n):
            b.write(bytes(n))
            b.written(n)
            wait_for(b, lambda: b.owed > 0)  # rnicd has taken the message when it answers
        bad = [
            lambda p, b: b.write(b"x", RING),  # behind the window
            lambda p, b: b.write(bytes(2), RING - 1),  # across the window's end
            lambda p, b: b.write(b"x", 2 ** 64 - 1),
            lambda p, b: p.put(wire.tagged(wire.WRITE, b.their_stag ^ 0x100, 0, b"x")),  # another STag
            lambda p, b: p.put(wire.tagged(wire.WRITE, b.their_stag ^ 1, 0, b"x")),
            lambda p, b: p.put(wire.read_req(1, (1, 0), 8, (b.their_stag, 0))),
            lambda p, b: (told(b, 70000), b.write(b"x", 69999)),  # to a byte that the program may have read already
            lambda p, b: b.written(RING + 1),  # more octets than there is room for
            lambda p, b: b.segments(b.head(WRITTEN, bytes(4))),  # WRITTEN of 0 octets
            lambda p, b: b.segments(b.head(WRITTEN, b"\0\0\1")),
            lambda p, b: b.segments(b.head(WRITTEN)),
            lambda p, b: b.segments(b.head(5)),
            lambda p, b: b.segments(b.head(DATA)),
            lambda p, b: b.segments(message(CREDIT)),  # a header without the field of room
            lambda p, b: b.segments(message(CREDIT, 0, b"\0\0\0\1")),  # more room than the window has
        ]
        for i, breaks in enumerate(bad):
            t, p, b = dial_window(ns, port, sport := sport + 1)
            if i == len(bad) - 1 or i == len(bad) - 2:
                b.msn += 1
            breaks(p, b)
            t.until(lambda t=t: t.fin or t.reset)
            until(lambda i=i: sum("ConnectionResetError" in x for x in list(s.out)) == i + 1,
                  lambda i=i: f"case {i}: {s.tail()}")
            t.close()
        # a hello whose window is missing, is too small, is too large
        for window in (b"", b"\0" * 8, struct.pack(">II", 1, 4095), struct.pack(">II", 1, 2 ** 30 + 1)):
            with Tcp(ns, sport := sport + 1).connect(port, option(ASKS)) as t:
                t.sendall(wire.mpa_request(ird=1, ord_=1, priv=hello(8, 4096, flags=1) + window))
                t.until(lambda t=t: t.reset)
        assert sum("ConnectionResetError" in x for x in list(s.out)) == len(bad), s.tail()
        s.stop()


@case
def no_window_is_offered_or_open_to_a_peer_that_has_none():
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(SERVE, OURS), netns=ns)
        t, p, b = dial(ns, port_of(s), 40701)
        assert p.priv[4:] == hello(16, 16384), p.priv
        b.segments(message(DATA, 0, b"x"))
        t.close()
        s.wait_line("ConnectionResetError")
        s.stop()


@case
def long_sends_go_by_writes_and_short_ones_do_not():
    def writes(size):
        with Daemon(pair_conf(a="capture = {dir}/a.pcapng")) as d:
            s = ours(d, *python(SERVE, A))
            assert iwarp(d, *python(ONE, A, port_of(s), size)).ok() == "sent"
            s.stop()
            d.end()
            conn, = wire_check.check(os.path.join(d.dir, "a.pcapng"))
            return conn.ops[0][wire.WRITE]
    assert writes(300_000) > 100  # segments
    assert writes(1000) < 10, "only Writes of nothing, which ask for an acknowledgement"


@case
def long_sends_go_by_writes_also_where_segments_are_longer_than_slots():
    """Of a DATA every byte is copied twice: to a slot, which counts as placed, and from there to the ring."""
    with Daemon(pair_conf(mtu=65280)) as d, nothing_left(d):
        s = ours(d, *python(SERVE, A))
        assert iwarp(d, *python(ONE, A, port_of(s), 60_000)).ok() == "sent"
        s.stop()
        placed, copied = counted(d, "bytes_placed"), counted(d, "copied_rx")
        assert placed > 60_000 and copied - placed < 10_000, (placed, copied)


main()
